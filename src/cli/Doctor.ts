/**
 * Checks a store with the rights of its operator, who sees more than any viewer. `doctor --repair` makes the repairs that lose no data. All
 * other repairs require a decision by a person.
 *
 * ```text
 * check        problems                                                 repair by `doctor --repair`
 * files        a vault's file is damaged, partly readable or no record  a damaged file is restored from its last good revision
 *              a file changed without a new modification time           none: for a person
 *              a SQLite file fails SQLite's integrity check             none: for a person
 * index        a search for the summary of a record does not find it    the index of a database is rebuilt
 * records      a row that cannot be read                                none: for a person
 * links        a link to a record that does not exist                   none: for a person
 * duplicates   records of one scope and kind that say the same          none: for a person
 * vectors      texts without a vector, for each embedding model         computed, if the model is the bundled word vectors
 * extractions  messages whose extraction failed for good                none: for a person
 * ```
 */
import type * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { canonicalJson, sha256 } from "../domain/Digest.ts"
import * as MemoryError from "../domain/MemoryError.ts"
import { MemoryId } from "../domain/MemoryId.ts"
import { embeddingText, type MemoryRecord } from "../domain/MemoryRecord.ts"
import { isInternal, key as scopeKey } from "../domain/MemoryScope.ts"
import * as Viewer from "../domain/Viewer.ts"
import * as OutboxState from "../harness/Outbox/OutboxState.ts"
import * as OutboxWorkers from "../harness/Outbox/OutboxWorkers.ts"
import * as Analyzer from "../ranking/Analyzer.ts"
import * as NearDuplicate from "../ranking/NearDuplicate.ts"
import type { Stored } from "../storage/Engine.ts"
import type { Service } from "../storage/MemoryStore.ts"
import type { VaultService } from "../storage/MemoryStore/Markdown.ts"
import * as Rows from "./Rows.ts"

/** Schema of the name of a check. */
export const Check = Schema.Literal("files", "records", "links", "vectors", "duplicates", "index", "extractions")
/** The name of a check. */
export type Check = typeof Check.Type

/** Schema of a problem that a check found. */
export const Finding = Schema.Struct({
  check: Check,
  message: Schema.String,
  /** Whether `doctor --repair` can repair the problem. */
  isMendable: Schema.Boolean,
  tenant: Schema.optional(Schema.String),
  id: Schema.optional(MemoryId),
  /** Place of the problem: path of a file, relative to the root of the vault, or part of a database, such as `memory_records`. */
  path: Schema.optional(Schema.String)
})
/** A problem that a check found. */
export interface Finding extends Schema.Schema.Type<typeof Finding> {}

/** Schema of the result of all checks. */
export const Report = Schema.Struct({
  /** Whether no problem was found. */
  isHealthy: Schema.Boolean,
  /** Number of rows that were read, including tombstones and internal rows. */
  rows: Schema.Number,
  /** Number of problems per check. */
  counts: Schema.Record({ key: Check, value: Schema.Number }),
  findings: Schema.Array(Finding)
})
/** The result of all checks. */
export interface Report extends Schema.Schema.Type<typeof Report> {}

/** The store to check, and the checks to make. */
export interface Options {
  readonly store: Service
  readonly vault: Option.Option<VaultService>
  /** Problems that were found in a SQLite file before it was opened. Default: none. */
  readonly fileProblems?: ReadonlyArray<string> | undefined
  /** Tenants to check. Default: all. The check `files` always reads the files of all tenants. */
  readonly tenants?: ReadonlyArray<string> | undefined
  /** Checks to make. Default: all. */
  readonly checks?: ReadonlyArray<Check> | undefined
  /** Name of the embedding model with which `doctor --repair` can compute vectors. Default: none. */
  readonly model?: string | undefined
  /** Whether `doctor --repair` can rebuild the index of the store. Default false. */
  readonly canReindex?: boolean | undefined
  /** Called with the number of rows read so far. */
  readonly onProgress?: ((rows: number) => Effect.Effect<void>) | undefined
}

type Io<A> = Effect.Effect<A, MemoryError.MemoryError>

/** Runs the checks, and repairs nothing. Cost: reads all rows and (of a vault) all files, and makes up to 200 searches per tenant. */
export const examine = (options: Options): Io<Report> =>
  Effect.gen(function*() {
    const { store } = options
    const wanted = new Set(options.checks ?? Check.literals)
    const findings: Array<Finding> = []
    const { fileProblems = [] } = options
    /** Returns `otherwise` if `self` fails with `corrupt` and the damage is already reported. */
    const unlessReported = <A>(isReported: boolean, otherwise: A, self: Io<A>): Io<A> =>
      isReported ? MemoryError.catchReason("corrupt", () => Effect.succeed(otherwise))(self) : self
    if (wanted.has("files")) findings.push(...yield* filesOf(options.vault), ...damagedFile(fileProblems))
    let rows = 0
    const tenants = Rows.tenantsOf(store, options.tenants)
    for (const tenant of yield* unlessReported(fileProblems.length > 0, [], tenants)) {
      const read = yield* readAll(options, tenant, rows)
      const { damage } = read
      rows += read.count
      if (wanted.has("records")) findings.push(...damage)
      const checks: ReadonlyArray<readonly [Check, Io<ReadonlyArray<Finding>>]> = [
        ["links", linksOf(store, tenant, read)],
        ["duplicates", Effect.sync(() => duplicatesOf(tenant, read))],
        ["vectors", vectorsOf(options, tenant)],
        ["index", indexOf(options, tenant, read)],
        ["extractions", extractionsOf(store, tenant)]
      ]
      for (const [check, find] of checks) {
        if (!wanted.has(check)) continue
        findings.push(...yield* unlessReported(damage.length + fileProblems.length > 0, [], find))
      }
    }
    return reportOf(rows, findings)
  })

/** Returns the report on a SQLite file that cannot be opened. */
export const reportUnopened = (problems: ReadonlyArray<string>): Report => reportOf(0, damagedFile(problems))

const damagedFile = (problems: ReadonlyArray<string>): ReadonlyArray<Finding> =>
  problems.map((problem) => ({ check: "files", message: `damaged: ${problem}`, isMendable: false }))

const reportOf = (rows: number, findings: ReadonlyArray<Finding>): Report => {
  const counts = Object.fromEntries(
    Check.literals.map((check) => [check, findings.filter((finding) => finding.check === check).length])
  ) as Report["counts"] // the object has the name of every check
  return { isHealthy: findings.length === 0, rows, counts, findings }
}

const filesOf = (vault: Option.Option<VaultService>): Io<ReadonlyArray<Finding>> =>
  Option.match(vault, {
    onNone: () => Effect.succeed([]),
    onSome: ({ verify }) =>
      Effect.map(verify, (found) =>
        found.map(({ id, kind, message, path }): Finding => ({
          check: "files",
          message: `${kind}: ${message}`,
          isMendable: kind === "damaged",
          path,
          ...(id !== undefined && { id })
        })))
  })

/** The result of `readAll`. Only `count` includes tombstones and internal rows. Bodies are left out, since they may not fit into RAM. */
interface Read {
  readonly count: number
  readonly damage: ReadonlyArray<Finding>
  readonly ids: ReadonlySet<MemoryId>
  readonly links: ReadonlyArray<readonly [from: MemoryId, to: MemoryId, type: string]>
  /** Ids of records that say the same as an earlier record, each with the id of the first such record. */
  readonly duplicates: ReadonlyArray<readonly [id: MemoryId, first: MemoryId]>
  /** A sample from all parts of the tenant, at most `2 * sampled` records. The check `index` searches for each record by its summary. */
  readonly sample: ReadonlyArray<readonly [id: MemoryId, summary: string]>
}

/** Reads the rows of a tenant. Stops at the first row that cannot be read, and reports that row. */
const readAll = ({ onProgress, store }: Options, tenant: string, before: number): Io<Read> =>
  Effect.gen(function*() {
    const { query } = yield* Analyzer.Analyzer
    const ids = new Set<MemoryId>()
    const links: Array<readonly [MemoryId, MemoryId, string]> = []
    const duplicates: Array<readonly [MemoryId, MemoryId]> = []
    const firsts = new Map<string, MemoryId>()
    let sample: Array<readonly [MemoryId, string]> = []
    let step = 1
    const damage: Array<Finding> = []
    let count = 0
    const takeRecord = (record: MemoryRecord): void => {
      const { id, source, summary } = record
      for (const { to, type } of record.links) links.push([id, to, type])
      const key = sayingOf(record)
      const first = firsts.get(key)
      if (first === undefined) firsts.set(key, id)
      else duplicates.push([id, first])
      if (ids.size % step === 0 && source.origin !== "instructions" && query(summary).length > 0) {
        sample.push([id, summary])
      }
      if (sample.length > 2 * sampled) {
        sample = sample.filter((_, n) => n % 2 === 0)
        step *= 2
      }
      ids.add(id)
    }
    const checkRows = (rows: Chunk.Chunk<Stored>) =>
      Effect.suspend(() => {
        for (const { forgotten, record } of rows) if (!forgotten && !isInternal(record.scope)) takeRecord(record)
        count += rows.length
        return onProgress?.(before + count) ?? Effect.void
      })
    yield* Stream.runForEachChunk(Rows.of(store, tenant), checkRows).pipe(
      MemoryError.catchReason("corrupt", ({ detail, message }) =>
        Effect.sync(() => {
          damage.push({
            check: "records",
            message: `${message}; rows behind it were not read`,
            isMendable: false,
            tenant,
            path: detail.location
          })
        }))
    )
    return { count, damage, ids, links, duplicates, sample }
  })

/** Returns a key made of scope, kind, data and the signature of the text. Case, accents and most punctuation do not change the key. */
const sayingOf = (record: MemoryRecord): string => {
  const { high, low, strict } = NearDuplicate.signature(embeddingText(record))
  const data = Object.keys(record.data).length === 0 ? "" : sha256(canonicalJson(record.data))
  return `${scopeKey(record.scope)} ${record.kind} ${high} ${low} ${strict} ${data}`
}

const linksOf = (store: Service, tenant: string, { ids, links }: Read): Io<ReadonlyArray<Finding>> =>
  Effect.gen(function*() {
    const unknown = Array.from(new Set(links.flatMap(([, to]) => ids.has(to) ? [] : [to])))
    const absent = new Set(unknown)
    for (let at = 0; at < unknown.length; at += 1_000) {
      // a forgotten record can be restored, so a link to it is not broken; the system viewer also gets tombstones
      for (const record of yield* store.get(Viewer.system(tenant), unknown.slice(at, at + 1_000))) {
        if (Option.isSome(record)) absent.delete(record.value.id)
      }
    }
    return links.filter(([, to]) => absent.has(to)).map(([id, to, type]): Finding => ({
      check: "links",
      message: `links to ${to} (${type}), which is not there`,
      isMendable: false,
      tenant,
      id
    }))
  })

const duplicatesOf = (tenant: string, { duplicates }: Read): ReadonlyArray<Finding> =>
  duplicates.map(([id, first]) => ({
    check: "duplicates",
    message: `says what ${first} says, in the same scope`,
    isMendable: false,
    tenant,
    id
  }))

const vectorsOf = ({ model: known, store }: Options, tenant: string): Io<ReadonlyArray<Finding>> =>
  Option.match(store.vectors, {
    onNone: () => Effect.succeed([]),
    onSome: (vectors) =>
      Effect.flatMap(
        vectors.models(tenant),
        Effect.forEach((model) =>
          Effect.map(vectors.pending(tenant, model), ({ length }): ReadonlyArray<Finding> =>
            length === 0 ? [] : [{
              check: "vectors",
              message: `${length} ${length === 1 ? "text awaits" : "texts await"} a vector of ${model}`,
              isMendable: model === known,
              tenant
            }])
        )
      ).pipe(Effect.map((all) => all.flat()))
  })

/** The sample of a tenant has `sampled` to `2 * sampled` records. A tenant with fewer searchable records has a smaller sample. */
const sampled = 100

const indexOf = (
  { canReindex = false, store }: Options,
  tenant: string,
  { sample }: Read
): Io<ReadonlyArray<Finding>> => {
  const viewer = Viewer.everyone(tenant)
  return Effect.map(
    Effect.forEach(sample, ([id, summary]) =>
      Effect.map(
        store.whyNot(viewer, id, { text: summary, ids: [id] }),
        (reason): ReadonlyArray<Finding> =>
          Option.contains(reason, "no_match")
            ? [{ check: "index", message: "its own words do not find it", isMendable: canReindex, tenant, id }]
            : []
      )),
    (all) => all.flat()
  )
}

const extractionsOf = (store: Service, tenant: string): Io<ReadonlyArray<Finding>> =>
  Effect.map(
    OutboxState.all(store, tenant),
    (all) =>
      all.flatMap(OutboxWorkers.deadLettersOf).map(({ from, reason, session, to }): Finding => ({
        check: "extractions",
        message: `messages ${from}–${
          to - 1
        } of session ${session} were given up on: ${reason}. Outbox.release tries them again`,
        isMendable: false,
        tenant
      }))
  )
