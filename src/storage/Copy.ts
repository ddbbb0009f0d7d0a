/**
 * Copies one store into another: for every tenant, all records with their stored revisions, tombstones, vectors and use counts. The rows
 * that the library keeps for itself are also copied. Use a copy to move from a vault to a database or back, or between databases.
 *
 * Laws:
 * - A record keeps its id, revision numbers, times and all other fields. Exception: the library derives the ids of some of its rows (rows
 *   of threads, session rows of an outbox) from the secret of the store. In the target, their ids are derived from the target's secret.
 * - A second copy writes only what the target lacks. Run an interrupted copy again to complete it.
 * - No record of the target is overwritten or erased. The copy fails with `conflict` if a record has different revisions in the target. If
 *   both stores count uses of a record, the higher count and the later time are kept. A record keeps at most twenty revisions in all.
 * - At the end, both stores are read again. Everything to copy is compared with the target, item by item and by checksum.
 */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { canonicalJson, sha256 } from "../domain/Digest.ts"
import * as MemoryError from "../domain/MemoryError.ts"
import type { MemoryId } from "../domain/MemoryId.ts"
import * as MemoryKind from "../domain/MemoryKind.ts"
import { check } from "../domain/Validation.ts"
import * as Viewer from "../domain/Viewer.ts"
import * as Analyzer from "../ranking/Analyzer.ts"
import {
  compiledFilter,
  contentOf,
  fullAccess,
  idOf,
  type Lineage,
  lineageOf,
  lineagesOf,
  missingRevisions,
  newestOf,
  type ReadName,
  readRows,
  renaming,
  rowsOf,
  type Side,
  sideOf,
  type Sides,
  type Source,
  targetOf,
  toLineage,
  usesBetween,
  vectorsBetween
} from "./Copy/Lineage.ts"
import type { Entry, Stored, Write } from "./Engine.ts"
import type { Service } from "./MemoryStore.ts"
import { entryOf, rowOf } from "./Revision.ts"

/** Counts of what a copy reads. */
export interface Counts {
  /** Number of records, tombstones included. */
  readonly records: number
  readonly tombstones: number
  /** Number of revisions, including the current one of each record. */
  readonly revisions: number
  /** Number of vectors of all stored revisions. A text's vector counts once for each record that has the text in one or more revisions. */
  readonly vectors: number
  /** Number of records that were used at least once. */
  readonly uses: number
}

/** Progress of a copy. The counts start at 0 in each phase. Only `written` is counted over all phases. */
export interface Progress extends Counts {
  /**
   * Phase of the copy. `check` looks for conflicts before anything is written, `copy` writes, and `verify` reads both stores again. The
   * phase `check` skips tenants that have no rows in the target.
   */
  readonly phase: "check" | "copy" | "verify"
  /** The tenant being copied. */
  readonly tenant: string
  /** Number of revisions, vectors and use counts written so far. */
  readonly written: number
}

/** The result of a copy. The counts are those of the source in the phase `verify`. */
export interface Report extends Counts {
  readonly tenants: number
  /** Number of revisions, vectors and use counts written; 0 if the target already had everything. */
  readonly written: number
  /**
   * Whether the target has everything that was to be copied. A write to one of the stores during the copy can make this `false`. Another
   * copy then adds what is missing. Exception: it fails with `conflict` if a copied record was changed in the target.
   */
  readonly verified: boolean
  /** Number of revisions, vectors and use counts that are missing or different in the target; 0 if `verified`. */
  readonly differing: number
  /** SHA-256 of everything compared, in the source (`from`) and in the target (`to`). Equal if `verified`. */
  readonly checksums: { readonly from: string; readonly to: string }
  /** The parts that the target cannot store. If `history` is listed, only the newest revision of each record was copied. */
  readonly omitted: ReadonlyArray<"history" | "vectors" | "uses">
}

/** Options of `copy`. */
export interface Options {
  /** Tenants to copy; others are not read. Default: all tenants of the source. */
  readonly tenants?: ReadonlyArray<string> | undefined
  /** Largest number of records in a transaction, 1..1,000. Default 100. Long records are copied in smaller transactions. */
  readonly batch?: number | undefined
  /** Whether rows may be written unredacted into a target that has a redaction. Default false: a copy into such a target fails. */
  readonly unredacted?: boolean | undefined
  /** Runs after each batch of each phase. The copy waits for the returned effect. */
  readonly onProgress?: ((progress: Progress) => Effect.Effect<void>) | undefined
}

const Checked = Schema.Struct({
  tenants: Schema.optional(Schema.Array(Viewer.Tenant)),
  batch: Schema.optional(Schema.Int.pipe(Schema.between(1, 1_000)))
})

type Io<A> = Effect.Effect<A, MemoryError.MemoryError>

/** The two stores of a copy, the configured kinds, and a function that makes index entries for the target. */
export interface Writer extends Sides {
  readonly kinds: ReadonlyMap<string, MemoryKind.MemoryKind>
  readonly entryOf: (stored: Stored) => Entry
}

interface Job extends Writer {
  readonly from: Side
  /** Replaces an id that is derived from the source's secret by one derived from the target's secret. Only internal rows have such ids. */
  readonly renamed: (tenant: string, lineage: Lineage) => Io<Lineage>
  readonly batch: number
  readonly progress: (phase: Progress["phase"], tenant: string) => Effect.Effect<void>
  readonly tally: Tally
}

/** The state of a copy: the counts of the current phase, and what was written and compared so far. */
interface Tally extends Record<keyof Counts, number> {
  written: number
  differing: number
  /**
   * Checksums of the source (`from`) and the target (`to`) by part. The parts are the revisions, the use counts, and the vectors of each
   * model. A single checksum would depend on the batch size, which decides in which order the parts are read.
   */
  readonly from: Map<string, string>
  readonly to: Map<string, string>
}

/**
 * Copies everything in `from` into `to`, by the laws at the top of this file. Some rows that the library keeps for itself have ids derived
 * from a store's secret. The functions in the list `readNames` recognise such rows. The target derives new ids for them from its secret.
 */
export const copy = Effect.fn("Copy.copy")(
  function*(
    from: Service,
    to: Service,
    options: Options = {},
    readNames: ReadonlyArray<ReadName> = []
  ): Effect.fn.Return<Report, MemoryError.MemoryError> {
    const { batch = 100, tenants: given } = yield* check("copy", Checked, {
      tenants: options.tenants,
      batch: options.batch
    })
    const tally: Tally = { ...none, written: 0, differing: 0, from: new Map(), to: new Map() }
    const source = yield* sideOf(from)
    const writer = yield* writerOf(source, to, options)
    const target = writer.to
    const job: Job = {
      ...writer,
      from: source,
      renamed: renaming(from, to, readNames),
      batch,
      progress: (phase, tenant) =>
        options.onProgress?.({ ...countsOf(tally), written: tally.written, phase, tenant }) ?? Effect.void,
      tally
    }
    const all = (given ?? (yield* from.tenants)).map((tenant) => tenant.normalize("NFC"))
    const tenants = Array.from(new Set(all)).sort()
    for (const phase of [findConflicts, copyTenant, verifyTenant]) {
      Object.assign(tally, none)
      for (const tenant of tenants) yield* phase(job, tenant)
    }
    const checksums = { from: checksumOf(tally.from), to: checksumOf(tally.to) }
    return {
      ...countsOf(tally),
      tenants: tenants.length,
      written: tally.written,
      differing: tally.differing,
      verified: tally.differing === 0 && checksums.from === checksums.to,
      checksums,
      omitted: [
        ...(from.capabilities.history && !job.hasHistory ? ["history" as const] : []),
        ...(source.vectors !== undefined && target.vectors === undefined ? ["vectors" as const] : []),
        ...(target.reader.uses.set === undefined ? ["uses" as const] : [])
      ]
    }
  }
)

/** Makes the `Writer` that `writeBatch` needs. Fails like `copy` if `to` cannot be a target. */
export const writerOf = (
  from: Source,
  to: Service,
  options: Pick<Options, "unredacted"> = {}
): Effect.Effect<Writer, MemoryError.MemoryError> =>
  Effect.gen(function*() {
    return {
      from,
      to: yield* targetOf(to, options),
      hasHistory: to.capabilities.history,
      kinds: yield* MemoryKind.registered,
      entryOf: entryOf(yield* Analyzer.Analyzer)
    }
  })

const none: Counts = { records: 0, tombstones: 0, revisions: 0, vectors: 0, uses: 0 }
const countsOf = ({ from, to, differing, written, ...counts }: Tally): Counts => counts

const count = ({ hasHistory, tally }: Job, lineages: ReadonlyArray<Lineage>): void => {
  tally.records += lineages.length
  for (const lineage of lineages) {
    tally.revisions += hasHistory ? lineage.length : 1
    if (newestOf(lineage).forgotten) tally.tombstones++
  }
}

/** Fails with `conflict` if source and target have conflicting revisions of a record. */
const findConflicts = (job: Job, tenant: string): Io<void> =>
  Effect.gen(function*() {
    const { from, to } = job
    const some = yield* Effect.forEach(
      [false, true],
      (forgotten) => to.reader.page(fullAccess(tenant), compiledFilter(forgotten), undefined, 1)
    )
    if (some.flat().length === 0) return
    yield* rowsOf(from, tenant, job.batch).pipe(
      Stream.grouped(job.batch),
      Stream.runForEach((rows) =>
        Effect.gen(function*() {
          const ids = (yield* Effect.forEach(rows, (row) => job.renamed(tenant, [row]))).map(idOf)
          const existing = yield* readRows(to, tenant, ids)
          for (const [n, row] of Array.from(rows).entries()) {
            const other = existing.get(ids[n]!) // `ids` has one id for each row, in the same order
            const source = other && (yield* job.renamed(tenant, yield* lineageOf(from, tenant, row)))
            if (source && other) yield* missingRevisions(job, source, yield* lineageOf(to, tenant, other))
            count(job, [source ?? [row]])
          }
          yield* job.progress("check", tenant)
        })
      )
    )
  })

const renamedLineages = ({ batch, from, renamed }: Job, tenant: string) =>
  Stream.mapEffect(lineagesOf(from, tenant, batch), Effect.forEach((lineage) => renamed(tenant, lineage)))

/* Writes what the target lacks. Rows are written first, since vectors and use counts belong to rows. */

const copyTenant = (job: Job, tenant: string): Io<void> =>
  Effect.gen(function*() {
    const models = yield* modelsOf(job, tenant)
    yield* Stream.runForEach(renamedLineages(job, tenant), (lineages) =>
      Effect.gen(function*() {
        const { uses, vectors, written } = yield* writeBatch(job, tenant, lineages, models)
        job.tally.vectors += vectors
        job.tally.uses += uses
        job.tally.written += written
        count(job, lineages)
        yield* job.progress("copy", tenant)
      }))
  })

/**
 * Writes the revisions, vectors and use counts of a batch of records, except those that the target has already. In the result, `vectors`
 * and `uses` are the numbers that the source has for the batch, and `written` is the number that was written. Fails with `conflict` if a
 * record has different revisions in the target. No row of the batch is then written.
 */
export const writeBatch = (
  writer: Writer,
  tenant: string,
  lineages: ReadonlyArray<Lineage>,
  models: ReadonlyArray<string>
): Effect.Effect<
  { readonly uses: number; readonly vectors: number; readonly written: number },
  MemoryError.MemoryError
> =>
  Effect.gen(function*() {
    let written = yield* writeRows(writer, tenant, lineages)
    let vectors = 0
    for (const model of models) {
      const { missing, pairs } = yield* vectorsBetween(writer, tenant, model, lineages)
      if (missing.size > 0) yield* writer.to.vectors?.attach(tenant, model, missing) ?? Effect.void
      vectors += pairs.length
      written += missing.size
    }
    const uses = yield* writeUses(writer, tenant, lineages.map(idOf))
    return { uses: uses.length, vectors, written: written + uses.changed }
  })

/** Appends the revisions that the target lacks, in one transaction. Returns their number. */
const writeRows = (job: Writer, tenant: string, lineages: ReadonlyArray<Lineage>): Io<number> =>
  Effect.gen(function*() {
    const { to } = job
    const existing = yield* readRows(to, tenant, lineages.map(idOf))
    const open = lineages.filter((lineage) => {
      const row = existing.get(idOf(lineage))
      return row === undefined || contentOf(row) !== contentOf(newestOf(lineage))
    })
    if (open.length === 0) return 0
    const ids = open.map(idOf)
    return yield* to.reader.transact(
      tenant,
      { ids, dedupeKeys: [], revisions: ids },
      ({ revisions, rows }) =>
        Either.gen(function*() {
          const writes: Array<Write> = []
          for (const source of open) {
            const id = idOf(source)
            const row = rows.get(id)
            const missing = yield* missingRevisions(job, source, row && toLineage(row, revisions.get(id) ?? []))
            for (const stored of missing) {
              writes.push({ id, next: job.entryOf(toRow(job, tenant, stored)) })
            }
          }
          return { writes, answer: writes.length }
        })
    )
  })

/** Makes the target's row of a revision. The row gets a dedupe key if the record's kind deduplicates. A tombstone gets none. */
const toRow = ({ kinds }: Writer, tenant: string, { forgotten, record }: Stored): Stored =>
  forgotten ? { record, forgotten } : rowOf(kinds, tenant, record)

const modelsOf = ({ from, to }: Job, tenant: string): Io<ReadonlyArray<string>> =>
  from.vectors === undefined || to.vectors === undefined
    ? Effect.succeed([])
    : Effect.map(from.vectors.models(tenant), (models) => models.toSorted())

const writeUses = (
  writer: Writer,
  tenant: string,
  ids: ReadonlyArray<MemoryId>
): Io<{ readonly length: number; readonly changed: number }> =>
  Effect.gen(function*() {
    const all = yield* usesBetween(writer, tenant, ids)
    const changed = all.filter(({ due, theirs }) => canonicalJson(due) !== canonicalJson(theirs))
    if (changed.length > 0) {
      yield* writer.to.reader.uses.set?.(tenant, changed.map(({ due, id }) => [id, due] as const)) ?? Effect.void
    }
    return { length: all.length, changed: changed.length }
  })

/* Compares the contents of both sides, and computes the checksum of each. */

const verifyTenant = (job: Job, tenant: string): Io<void> =>
  Effect.gen(function*() {
    const models = yield* modelsOf(job, tenant)
    compare(job, "revisions", tenant, tenant)
    yield* Stream.runForEach(renamedLineages(job, tenant), (lineages) =>
      Effect.gen(function*() {
        yield* verifyRows(job, tenant, lineages)
        for (const model of models) {
          const { pairs } = yield* vectorsBetween(job, tenant, model, lineages)
          for (const { hash, our, their } of pairs) {
            compare(job, `vectors ${model}`, [model, hash, bytesOf(our)], [model, hash, bytesOf(their)])
          }
          job.tally.vectors += pairs.length
        }
        const uses = yield* usesBetween(job, tenant, lineages.map(idOf))
        for (const { due, id, theirs } of uses) compare(job, "uses", [id, due], [id, theirs])
        job.tally.uses += uses.length
        count(job, lineages)
        yield* job.progress("verify", tenant)
      }))
  })

/** Compares the revisions of the source with those of the target. The newest one must equal the target's current row. */
const verifyRows = (job: Job, tenant: string, lineages: ReadonlyArray<Lineage>): Io<void> =>
  Effect.gen(function*() {
    const rows = yield* readRows(job.to, tenant, lineages.map(idOf))
    for (const source of lineages) {
      const row = rows.get(idOf(source))
      const target = row && (yield* lineageOf(job.to, tenant, row))
      const known = new Map(target?.map((stored) => [stored.record.revision, stored]))
      const newest = newestOf(source)
      for (const stored of job.hasHistory ? source : [newest]) {
        // the newest revision must equal the target's current row, so a later change in the target counts as a difference
        const inTarget = stored === newest ? row : known.get(stored.record.revision)
        compare(job, "revisions", contentOf(stored), inTarget && contentOf(inTarget))
      }
    }
  })

/** Adds a value of each side to that side's checksum, and counts a difference if the values differ. `undefined` means no value. */
const compare = ({ tally }: Job, over: string, sourceValue: unknown, targetValue: unknown): void => {
  const [from, to] = [canonicalJson(sourceValue), canonicalJson(targetValue)]
  if (from !== to) tally.differing++
  tally.from.set(over, sha256(`${tally.from.get(over) ?? ""}${from}`))
  tally.to.set(over, sha256(`${tally.to.get(over) ?? ""}${to}`))
}

const checksumOf = (sums: ReadonlyMap<string, string>): string =>
  sha256(canonicalJson(Array.from(sums).sort(([a], [b]) => (a < b ? -1 : 1))))

const bytesOf = (vector: Float32Array | undefined): string =>
  vector === undefined ? "none" : sha256(new Uint8Array(vector.buffer, vector.byteOffset, vector.byteLength))
