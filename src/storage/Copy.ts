/**
 * Copies one store into another: every record with its kept revisions, every tombstone, vector and use of every tenant, the
 * library's own rows among them. Use it to move from a vault to a database, between databases, or back.
 *
 * Laws:
 * - A record keeps its id, its revision numbers, its times, and everything else that it says. Rows of threads and of an outbox,
 *   whose ids are derived from the secret of their store, get the ids by which the target finds them.
 * - Copying again writes what has come since, and nothing else. A copy that was interrupted goes on when it is run again.
 * - No record of the target is overwritten or erased. A record that has another past there is a `conflict`. The higher count of uses
 *   and the later time stay, and revisions that are added count towards the twenty that a record keeps.
 * - Both sides are read again at the end, and compared by count and checksum.
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
  asked,
  contentOf,
  everything,
  idOf,
  lackingOf,
  type Lineage,
  lineageOf,
  lineagesOf,
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

/** Counts of what a copy is about. */
export interface Counts {
  /** Records, tombstones among them. */
  readonly records: number
  readonly tombstones: number
  /** Revisions, the current one of each record among them. */
  readonly revisions: number
  /** Vectors of all kept revisions, each counted for every record that has its text. */
  readonly vectors: number
  /** Records with a use. */
  readonly uses: number
}

/** Progress of a copy. The counts begin at 0 with each phase, but for `written`. */
export interface Progress extends Counts {
  /**
   * `check` looks for conflicts before anything is written, where the target has records of the tenant; `copy` writes; `verify`
   * reads both sides again.
   */
  readonly phase: "check" | "copy" | "verify"
  /** The tenant that was just worked on. */
  readonly tenant: string
  /** Revisions, vectors and uses that were written so far. */
  readonly written: number
}

/** The outcome of a copy. Its counts are those of the source, as it was when both sides were compared. */
export interface Report extends Counts {
  readonly tenants: number
  /** Revisions, vectors and uses that were written. 0: the target had everything. */
  readonly written: number
  /**
   * Whether the target holds all that was to be copied. `false` where either store was written to meanwhile: then a copy
   * that is run again brings the rest.
   */
  readonly verified: boolean
  /** Revisions, vectors and uses that the target lacks, or has otherwise. 0 where `verified`. */
  readonly differing: number
  /** SHA-256 over all that was compared, of either side: equal where `verified`. */
  readonly checksums: { readonly from: string; readonly to: string }
  /** The parts that were not copied because the target cannot hold them. Without `history` the newest revision of each record was copied. */
  readonly omitted: ReadonlyArray<"history" | "vectors" | "uses">
}

/** Options of `copy`. */
export interface Options {
  /** Tenants to copy; nothing of others is read. Default: all of the source. */
  readonly tenants?: ReadonlyArray<string> | undefined
  /** Records of a transaction, at most: 1..1,000, default 100. Long texts make smaller transactions. */
  readonly batch?: number | undefined
  /** Whether rows go as they are into a target that redacts what is written: a copy redacts nothing. Default false: it is refused. */
  readonly unredacted?: boolean | undefined
  /** Runs after each batch of each phase; the copy waits for it. */
  readonly onProgress?: ((progress: Progress) => Effect.Effect<void>) | undefined
}

const Checked = Schema.Struct({
  tenants: Schema.optional(Schema.Array(Viewer.Tenant)),
  batch: Schema.optional(Schema.Int.pipe(Schema.between(1, 1_000)))
})

type Io<A> = Effect.Effect<A, MemoryError.MemoryError>

/** Both sides and what rows of the target are made with. */
export interface Writer extends Sides {
  readonly kinds: ReadonlyMap<string, MemoryKind.MemoryKind>
  readonly entryOf: (stored: Stored) => Entry
}

interface Job extends Writer {
  readonly from: Side
  /** Gives the library's own rows the ids by which the target finds them. */
  readonly renamed: (tenant: string, lineage: Lineage) => Io<Lineage>
  readonly batch: number
  readonly progress: (phase: Progress["phase"], tenant: string) => Effect.Effect<void>
  readonly tally: Tally
}

/** The state of a copy: the counts of the phase at hand, and what was written and compared so far. */
interface Tally extends Record<keyof Counts, number> {
  written: number
  differing: number
  /** Checksums of either side: over its revisions, its uses, and its vectors of each model, so that batches do not matter. */
  readonly from: Map<string, string>
  readonly to: Map<string, string>
}

/** Copies all that `from` holds into `to`, as `transfer/Copy.ts` documents it. `readNames` tell which rows have derived ids. */
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

/** Returns what writes batches of lineages of a source into a store. Fails as `copy` does where the store is no target. */
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
      kinds: yield* MemoryKind.Kinds,
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

/** Refuses the copy where it would end in a conflict. Cost: nothing to speak of where the target has no row of the tenant. */
const findConflicts = (job: Job, tenant: string): Io<void> =>
  Effect.gen(function*() {
    const { from, to } = job
    const some = yield* Effect.forEach(
      [false, true],
      (forgotten) => to.reader.page(everything(tenant), asked(forgotten), undefined, 1)
    )
    if (some.flat().length === 0) return
    yield* rowsOf(from, tenant, job.batch).pipe(
      Stream.grouped(job.batch),
      Stream.runForEach((rows) =>
        Effect.gen(function*() {
          const ids = (yield* Effect.forEach(rows, (row) => job.renamed(tenant, [row]))).map(idOf)
          const there = yield* readRows(to, tenant, ids)
          for (const [n, row] of Array.from(rows).entries()) {
            const other = there.get(ids[n]!) // one for each row
            const source = other && (yield* job.renamed(tenant, yield* lineageOf(from, tenant, row)))
            if (source && other) yield* lackingOf(job, source, yield* lineageOf(to, tenant, other))
            count(job, [source ?? [row]])
          }
          yield* job.progress("check", tenant)
        })
      )
    )
  })

const renamedLineages = ({ batch, from, renamed }: Job, tenant: string) =>
  Stream.mapEffect(lineagesOf(from, tenant, batch), Effect.forEach((lineage) => renamed(tenant, lineage)))

/* Writes what the target lacks: rows first, since vectors and uses belong to them. */

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
 * Writes what the target lacks of a batch, as `copy` does, and returns how many vectors and uses the source has, and how much was
 * written. Fails with `conflict` where the target has another past of an id: then no row of the batch is written.
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

/** Appends revisions in one transaction, and returns how many. Cost: a read where the target has all of them. */
const writeRows = (job: Writer, tenant: string, lineages: ReadonlyArray<Lineage>): Io<number> =>
  Effect.gen(function*() {
    const { to } = job
    const there = yield* readRows(to, tenant, lineages.map(idOf))
    const open = lineages.filter((lineage) => {
      const row = there.get(idOf(lineage))
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
            const lacking = yield* lackingOf(job, source, row && toLineage(row, revisions.get(id) ?? []))
            for (const stored of lacking) {
              writes.push({ id, next: job.entryOf(toRow(job, tenant, stored)) })
            }
          }
          return { writes, answer: writes.length }
        })
    )
  })

/** A revision as the target keeps it: with the dedupe key of its kind, unless it is a tombstone. */
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

/* Compares what both sides hold, and folds each into a checksum. */

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

/** Compares each revision that the source has, and which one is the newest. Older ones that the target alone has do not count. */
const verifyRows = (job: Job, tenant: string, lineages: ReadonlyArray<Lineage>): Io<void> =>
  Effect.gen(function*() {
    const rows = yield* readRows(job.to, tenant, lineages.map(idOf))
    for (const source of lineages) {
      const row = rows.get(idOf(source))
      const target = row && (yield* lineageOf(job.to, tenant, row))
      const known = new Map(target?.map((stored) => [stored.record.revision, stored]))
      const newest = newestOf(source)
      for (const stored of job.hasHistory ? source : [newest]) {
        // a target that has moved on differs in its newest one
        const their = stored === newest ? row : known.get(stored.record.revision)
        compare(job, "revisions", contentOf(stored), their && contentOf(their))
      }
    }
  })

/** Adds to a checksum of each side what it has; `undefined`: nothing. */
const compare = ({ tally }: Job, over: string, our: unknown, their: unknown): void => {
  const [from, to] = [canonicalJson(our), canonicalJson(their)]
  if (from !== to) tally.differing++
  tally.from.set(over, sha256(`${tally.from.get(over) ?? ""}${from}`))
  tally.to.set(over, sha256(`${tally.to.get(over) ?? ""}${to}`))
}

const checksumOf = (sums: ReadonlyMap<string, string>): string =>
  sha256(canonicalJson(Array.from(sums).sort(([a], [b]) => (a < b ? -1 : 1))))

const bytesOf = (vector: Float32Array | undefined): string =>
  vector === undefined ? "none" : sha256(new Uint8Array(vector.buffer, vector.byteOffset, vector.byteLength))
