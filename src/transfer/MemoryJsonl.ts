/**
 * Exports a store to lines of JSON, and imports such lines. Use it for a backup, to move a store, or to give a person all data about them.
 * Each line between the first and the last has a record with its stored revisions, uses and vectors, or some messages of a thread.
 * `docs/transfer.md` describes the format.
 *
 * Laws:
 * - A file that is read into an empty store and exported again with the same options stays the same, byte for byte. Exception: a store
 *   that keeps no history, vectors or use counts loses that part of the file.
 * - Reading a file again changes nothing, or completes an interrupted read.
 * - No revision or message in the store is overwritten. A record is skipped and reported if the store has other revisions of the record. A
 *   thread is skipped and reported if the store has a thread of the same name with other messages. Of two use counts of a record, the
 *   higher count and the later time are kept.
 * - A damaged line is skipped and reported, and the rest is read. A file of another format or of a newer version changes nothing.
 * - Memory use depends on the longest line and the size of a batch, not on the length of the file. Exception: `write` holds the names of
 *   all threads of a tenant, and `read` holds the names of the threads that differ from those in the store.
 */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Sink from "effect/Sink"
import * as Stream from "effect/Stream"
import { canonicalJson } from "../domain/Digest.ts"
import * as MemoryError from "../domain/MemoryError.ts"
import type { MemoryId } from "../domain/MemoryId.ts"
import { sanitize } from "../domain/Message.ts"
import { check } from "../domain/Validation.ts"
import * as ThreadReads from "../harness/Threads/ThreadReads.ts"
import * as ThreadRows from "../harness/Threads/ThreadRows.ts"
import * as ThreadWrites from "../harness/Threads/ThreadWrites.ts"
import * as EventLoop from "../host/EventLoop.ts"
import * as Copy from "../storage/Copy.ts"
import { idOf, type Lineage, lineageOf, missingRevisions, readRows, type Source } from "../storage/Copy/Lineage.ts"
import { makeTenantLocks, type TenantLocks, type Uses } from "../storage/Engine.ts"
import type { Service } from "../storage/MemoryStore.ts"
import * as Lines from "./Lines.ts"
import {
  AnyLine,
  count,
  type Counts,
  format,
  Head,
  none,
  type RecordLine,
  type Tally,
  type ThreadLine,
  version,
  viewerOf
} from "./MemoryJsonl/Format.ts"
import * as Skipped from "./Skipped.ts"

export { type Counts, format, version } from "./MemoryJsonl/Format.ts"
export { write, type WriteOptions } from "./MemoryJsonl/Writer.ts"

/** Options of `read`. */
export interface ReadOptions {
  /** Tenants to read. Lines of other tenants are skipped. Default: all tenants. */
  readonly tenants?: ReadonlyArray<string> | undefined
  /** Largest number of records per transaction: 1..1,000, default 100. */
  readonly batch?: number | undefined
  /** Largest length of a line, in bytes. Longer lines are skipped. Default 134,217,728. */
  readonly longestLine?: number | undefined
  /** Whether unredacted records may be written into a store that redacts its writes. If false (default), `read` fails for such a store. */
  readonly unredacted?: boolean | undefined
  /** Called after each batch with the counts so far. `read` waits until the returned effect has ended. */
  readonly onProgress?: ((counts: Counts) => Effect.Effect<void>) | undefined
}

const Checked = Schema.Struct({ batch: Schema.optional(Schema.Int.pipe(Schema.between(1, 1_000))) })

/** The outcome of `read`. */
export interface ReadReport extends Counts {
  /** Number of revisions, vectors, uses and messages that were written; 0 if the store already had everything. */
  readonly written: number
  /** Whether the line that marks the end of the file was read. If false, the file may be truncated. */
  readonly complete: boolean
  /** Skipped lines, by reason. Can also report that lines are missing before the last one. */
  readonly skipped: ReadonlyArray<Skipped.Skipped>
}

type Entry =
  | {
    readonly _tag: "Record"
    readonly place: string
    readonly tenant: string
    readonly entry: RecordEntry
    readonly size: number
  }
  | { readonly _tag: "Thread"; readonly place: string; readonly line: typeof ThreadLine.Type; readonly size: number }
  | { readonly _tag: "End" }

interface RecordEntry {
  readonly lineage: Lineage
  readonly uses: Uses | undefined
  readonly vectors: ReadonlyMap<string, ReadonlyMap<string, Float32Array>>
}

interface Job {
  readonly store: Service
  readonly options: ReadOptions
  readonly tally: Tally
  readonly skipped: Skipped.Tally
  readonly locks: TenantLocks
  /** Numbers of records, messages and undecodable lines read so far. Records and messages of tenants that are not imported count, too. */
  readonly seen: { records: number; messages: number; damaged: number }
  /** Keys of the threads whose messages in the store differ from those in the file. Further lines of these threads are skipped. */
  readonly differing: Set<string>
  written: number
  isEnded: boolean
}

/** Largest total length of the lines of a batch, in UTF-16 units. A longer line is a batch of its own. */
const mostText = 4_000_000

/**
 * Imports a file that `write` made. Meant for the store's operator: viewers, policies and the schemas of kinds are not checked. Fails with
 * `unsupported` before the first write in three cases: the first line has no known format and version; the store is read-only or does not
 * expose its rows; the store redacts its writes and `unredacted` is not set. Fails with `invalid_draft` if `batch` is out of range.
 */
export const read = Effect.fn("MemoryJsonl.read")(
  function*<E, R>(
    store: Service,
    bytes: Stream.Stream<Uint8Array, E, R>,
    options: ReadOptions = {}
  ): Effect.fn.Return<ReadReport, MemoryError.MemoryError | E, R> {
    const { batch: size = 100 } = yield* check("import", Checked, { batch: options.batch })
    const job: Job = {
      store,
      options,
      tally: { ...none },
      skipped: Skipped.make(),
      locks: makeTenantLocks(),
      seen: { records: 0, messages: 0, damaged: 0 },
      differing: new Set(),
      written: 0,
      isEnded: false
    }
    yield* Copy.writerOf(sourceOf([]), store, options) // fails if the store is unsuitable, before any line is read
    let isBegun = false
    const entries = bytes.pipe(
      Lines.split(options.longestLine),
      Stream.mapEffect((line) => {
        if (isBegun) return Effect.succeed(entryOf(job, line))
        isBegun = true
        return Effect.as(begin(line), undefined)
      }),
      Stream.filter((entry) => entry !== undefined)
    )
    yield* entries.pipe(
      Stream.transduce(Sink.foldWeighted({
        initial: [] as ReadonlyArray<Entry>, // the cast is needed: an empty array would have the element type `never`
        maxCost: mostText,
        cost: (_, entry: Entry) => Math.max(Math.ceil(mostText / size), entry._tag === "End" ? 0 : entry.size),
        body: (all, entry) => [...all, entry]
      })),
      Stream.filter(({ length }) => length > 0),
      Stream.runForEach((batch) =>
        Effect.gen(function*() {
          yield* writeEntries(job, batch)
          yield* options.onProgress?.(job.tally) ?? Effect.void
          yield* EventLoop.pause
        })
      )
    )
    if (!isBegun) yield* begin(undefined)
    return { ...job.tally, written: job.written, complete: job.isEnded, skipped: job.skipped.all() }
  }
)

const begin = (line: Lines.Line | undefined): Effect.Effect<void, MemoryError.MemoryError> => {
  const refused = (message: string) => MemoryError.make("unsupported", { op: "import", message })
  const head = line?._tag === "Line" ? Either.getOrUndefined(readHeadLine(line.text)) : undefined
  if (head === undefined) {
    return refused(
      `the first line is not {"format":"${format}","version":${version}}: this is no export of effect-memory`
    )
  }
  return head.version >= 1 && head.version <= version
    ? Effect.void
    : refused(
      `the file has version ${head.version}, ${
        head.version > version ? "of a newer release" : "which no release writes"
      }; this one reads up to ${version}`
    )
}

const readHeadLine = Schema.decodeUnknownEither(Schema.parseJson(Head))
const readLine = Schema.decodeUnknownEither(Schema.parseJson(AnyLine), { onExcessProperty: "error" })

/** Decodes a line, or counts the line as skipped and returns `undefined`. Damaged lines and lines of other tenants are skipped. */
const entryOf = ({ options, seen, skipped }: Job, line: Lines.Line): Entry | undefined => {
  const place = `line ${line.number}`
  const skip = (reason: string) => {
    skipped.add(reason, place)
    return undefined
  }
  const damaged = (reason: string) => {
    seen.damaged++
    return skip(reason)
  }
  if (line._tag === "Bad") return damaged(line.reason === "too long" ? "the line is too long" : "the line is not UTF-8")
  const decoded = readLine(line.text)
  if (Either.isLeft(decoded)) return damaged("the line is damaged")
  const value = decoded.right
  if ("end" in value) {
    const isShort = seen.records < value.end.records || seen.messages < value.end.messages
    if (isShort && seen.damaged === 0) skip("lines are missing before the last one")
    return { _tag: "End" }
  }
  if ("record" in value) seen.records++
  else seen.messages += value.thread.messages.length
  const { tenant } = "record" in value ? value.record : value.thread
  const isWanted = options.tenants?.some((wanted) => wanted.normalize("NFC") === tenant.normalize("NFC")) ?? true
  if (!isWanted) return skip("another tenant")
  const size = line.text.length
  if ("thread" in value) return { _tag: "Thread", place, line: value.thread, size }
  const entry = recordEntry(value.record)
  return entry === undefined ? skip("the line is damaged") : { _tag: "Record", place, tenant, entry, size }
}

/**
 * Returns the record of a line; `undefined` if the line is damaged. The revisions must belong to one record, in ascending order. The
 * numbers in `forgotten` must be numbers of these revisions.
 */
const recordEntry = (
  { forgotten = [], revisions, uses, vectors = {} }: typeof RecordLine.Type
): RecordEntry | undefined => {
  const [first] = revisions
  const numbers = revisions.map(({ revision }) => revision)
  const isOne = revisions.every(({ id, revision }, n) => id === first.id && (n === 0 || revision > numbers[n - 1]!))
  if (!isOne || !forgotten.every((revision) => numbers.includes(revision))) return undefined
  const [oldest, ...later] = revisions.map((record) => ({ record, forgotten: forgotten.includes(record.revision) }))
  const models = Object.entries(vectors).map(([model, byHash]) =>
    [model, new Map(Object.entries(byHash).map(([hash, bytes]) => [hash, floatsOf(bytes)]))] as const
  )
  return oldest && {
    lineage: [oldest, ...later],
    uses: uses && { count: uses.count, ...(uses.accessedAt !== undefined && { accessedAt: uses.accessedAt }) },
    vectors: new Map(models)
  }
}

const floatsOf = (bytes: Uint8Array): Float32Array =>
  new Float32Array(bytes.slice(0, bytes.length - bytes.length % 4).buffer)

const writeEntries = (job: Job, batch: ReadonlyArray<Entry>): Effect.Effect<void, MemoryError.MemoryError> =>
  Effect.gen(function*() {
    let run: Array<Extract<Entry, { readonly _tag: "Record" }>> = []
    const ids = new Set<MemoryId>()
    const flush = Effect.suspend(() => {
      const records = run
      run = []
      ids.clear()
      return records.length === 0 ? Effect.void : writeRecords(job, records)
    })
    for (const entry of batch) {
      if (entry._tag === "Record") {
        const id = idOf(entry.entry.lineage)
        if (ids.has(id) || (run[0] !== undefined && run[0].tenant !== entry.tenant)) yield* flush
        ids.add(id)
        run.push(entry)
      } else {
        yield* flush
        if (entry._tag === "Thread") yield* writeThread(job, entry.place, entry.line)
        else job.isEnded = true
      }
    }
    yield* flush
  })

/** Writes records of one tenant in one batch. All ids must differ. If the store rejects the batch, each record is written alone. */
const writeRecords = (
  job: Job,
  records: ReadonlyArray<Extract<Entry, { readonly _tag: "Record" }>>
): Effect.Effect<void, MemoryError.MemoryError> =>
  Effect.gen(function*() {
    const { tenant } = records[0]! // callers pass at least one record
    const writer = yield* Copy.writerOf(sourceOf(records.map(({ entry }) => entry)), job.store, job.options)
    const there = yield* readRows(writer.to, tenant, records.map(({ entry }) => idOf(entry.lineage)))
    const open: Array<typeof records[number]> = []
    for (const record of records) {
      const row = there.get(idOf(record.entry.lineage))
      const target = row && (yield* lineageOf(writer.to, tenant, row))
      if (Either.isRight(missingRevisions(writer, record.entry.lineage, target))) open.push(record)
      else job.skipped.add("the store has another record or another past of this id", record.place)
    }
    if (open.length === 0) return
    const lineages = open.map(({ entry }) => entry.lineage)
    const models = Array.from(new Set(open.flatMap(({ entry }) => Array.from(entry.vectors.keys())))).sort()
    const outcome = yield* Effect.either(Copy.writeBatch(writer, tenant, lineages, models))
    if (Either.isRight(outcome)) {
      job.written += outcome.right.written
      job.tally.vectors += outcome.right.vectors
      for (const lineage of lineages) count(job.tally, lineage)
      return
    }
    const { left } = outcome
    if (!refusals.has(left.reason)) return yield* left
    if (open.length > 1) return yield* Effect.forEach(open, (record) => writeRecords(job, [record]), { discard: true })
    job.skipped.add(`the store refuses it: ${left.reason}`, open[0]!.place) // `open` has one element here
  })

/** Error reasons for which a record is skipped. Any other error ends the read. */
const refusals: ReadonlySet<string> = new Set([
  "conflict",
  "invalid_draft",
  "invalid_id",
  "invalid_scope",
  "path_escape"
])

/** Makes a source for `Copy` that contains the uses and vectors of the given records. */
const sourceOf = (records: ReadonlyArray<RecordEntry>): Source => {
  const uses = new Map(records.map(({ lineage, uses }) => [idOf(lineage), uses]))
  return {
    name: "the file",
    reader: {
      uses: { read: (_, ids) => Effect.succeed(ids.map((id) => uses.get(id) ?? { count: 0 })) }
    },
    vectors: {
      read: (_, model, hashes) =>
        Effect.succeed(hashes.map((hash) => {
          const holder = records.find(({ vectors }) => vectors.get(model)?.has(hash) === true)
          return Option.fromNullable(holder?.vectors.get(model)?.get(hash))
        }))
    }
  }
}

const writeThread = (
  job: Job,
  place: string,
  { from, messages, name, owner, tenant }: typeof ThreadLine.Type
): Effect.Effect<void, MemoryError.MemoryError> =>
  Effect.gen(function*() {
    const viewer = yield* Effect.either(viewerOf(tenant, owner))
    if (Either.isLeft(viewer) || owner === "global") return job.skipped.add("the thread belongs to nobody", place)
    const key = canonicalJson([tenant, owner, name])
    const differs = () => {
      job.differing.add(key)
      job.skipped.add("the store has another thread of this name", place)
    }
    if (job.differing.has(key)) return differs()
    const rows = yield* ThreadRows.of(job.store, viewer.right)
    const limit = Math.min(1_000, messages.length) // `ThreadReads.messages` allows a limit of at most 1,000
    const { items, length } = yield* ThreadReads.messages(rows, name, { from, limit })
    if (length < from) return job.skipped.add("messages before these are missing", place)
    const there = items.map(({ data, sequence, ...message }) => saidIn({ data, message }))
    const isSame = messages.slice(0, there.length).every((message, n) => saidIn(message) === there[n])
    if (!isSame) return differs()
    if (from === 0) job.tally.threads++
    job.tally.messages += messages.length
    const lacking = messages.slice(length - from).map(({ data, message }) => Object.assign(message, data && { data }))
    if (lacking.length === 0) return
    yield* ThreadWrites.append(rows, job.locks, name, lacking)
    job.written += lacking.length
  })

/** Returns a text by which messages are compared: equal messages have equal texts. */
const saidIn = ({ data, message }: ThreadRows.Stored): string => canonicalJson([sanitize(message), data ?? null])
