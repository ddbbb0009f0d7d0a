/** Exports a store as lines of `MemoryJsonl`. */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Encoding from "effect/Encoding"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { canonicalJson } from "../../domain/Digest.ts"
import type * as MemoryError from "../../domain/MemoryError.ts"
import { hashOf } from "../../domain/MemoryRecord.ts"
import { isInternal, type MemoryScope } from "../../domain/MemoryScope.ts"
import * as ThreadReads from "../../harness/Threads/ThreadReads.ts"
import * as ThreadRows from "../../harness/Threads/ThreadRows.ts"
import * as EventLoop from "../../host/EventLoop.ts"
import { lineageOf, rowsOf, type Side, sideOf } from "../../storage/Copy/Lineage.ts"
import type { Stored } from "../../storage/Engine.ts"
import type { Service } from "../../storage/MemoryStore.ts"
import { owns } from "../Person.ts"
import { count, type Counts, format, none, type Tally, version, viewerOf } from "./Format.ts"

/** Options of `write`. */
export interface WriteOptions {
  /** Tenants to write. Default: all. */
  readonly tenants?: ReadonlyArray<string> | undefined
  /** Id of the user whose data is exported. Default: all data, also data that belongs to no user. */
  readonly userId?: string | undefined
  /** Whether to export vectors. If false, an embedder can compute the vectors again later. Default true. */
  readonly vectors?: boolean | undefined
  /** Whether to export threads. Default true. */
  readonly threads?: boolean | undefined
  /** Called after each line except the first and the last, with the counts so far. Writing waits until the returned effect is done. */
  readonly onProgress?: ((counts: Counts) => Effect.Effect<void>) | undefined
}

/** Number of records, without tombstones, that are read from the store at a time. `rowsOf` reads 1,000 tombstones at a time. */
const page = 500
/** Largest number of messages in one line. */
const messagesOfLine = 100

/**
 * Streams a store as lines, each with its line feed. No viewer is checked, so this is meant for the store's operator. `userId` limits the
 * export to one person's data. Cost: a scan of all rows of the tenants. Fails with `unsupported` if the store does not expose its rows.
 */
export const write = (
  store: Service,
  options: WriteOptions = {}
): Stream.Stream<string, MemoryError.MemoryError> =>
  Stream.unwrap(Effect.gen(function*() {
    const side = yield* sideOf(store)
    const tenants = Array.from(
      new Set((options.tenants ?? (yield* store.tenants)).map((tenant) => tenant.normalize("NFC")))
    ).sort()
    const tally: Tally = { ...none }
    const body = Stream.flatMap(Stream.fromIterable(tenants), (tenant) => linesOf(store, side, tenant, options, tally))
    return Stream.concat(
      Stream.make(lineOf({ format, version })),
      Stream.concat(
        Stream.tap(body, () => options.onProgress?.(tally) ?? Effect.void),
        Stream.sync(() => lineOf({ end: { records: tally.records, messages: tally.messages } }))
      )
    )
  }))

const lineOf = (value: unknown): string => `${canonicalJson(value)}\n`

const linesOf = (store: Service, side: Side, tenant: string, options: WriteOptions, tally: Tally) =>
  Stream.unwrap(Effect.gen(function*() {
    const { threads = true, userId, vectors = true } = options
    const models = vectors ? (yield* side.vectors?.models(tenant) ?? Effect.succeed([])).toSorted() : []
    const heads: Array<{ readonly owner: MemoryScope; readonly name: string }> = []
    const records = rowsOf(side, tenant, page).pipe(
      Stream.mapChunksEffect((rows) => Effect.as(EventLoop.pause, rows)),
      Stream.filter((row) => {
        if (userId !== undefined && !owns(userId, row.record)) return false
        if (!isInternal(row.record.scope) || row.record.kind !== ThreadRows.kind) return true
        const head = readHead(row.record.data)
        if (!row.forgotten && Either.isRight(head)) heads.push({ owner: head.right.owner, name: head.right.name })
        return false // the ids of a thread's rows depend on the store's secret, so messages are exported instead of rows
      }),
      Stream.mapEffect((row) => recordLine(side, tenant, row, models, tally))
    )
    const conversations = Stream.suspend(() =>
      Stream.flatMap(
        Stream.fromIterable(heads.sort((a, b) => (canonicalJson(a) < canonicalJson(b) ? -1 : 1))),
        (head) => threadLines(store, tenant, head, tally)
      )
    )
    return threads ? Stream.concat(records, conversations) : records
  }))

const readHead = Schema.decodeUnknownEither(ThreadRows.ThreadData)

const recordLine = (side: Side, tenant: string, row: Stored, models: ReadonlyArray<string>, tally: Tally) =>
  Effect.gen(function*() {
    const lineage = yield* lineageOf(side, tenant, row)
    const [uses] = yield* side.reader.uses.read(tenant, [row.record.id])
    const hashes = models.length === 0 ? [] : Array.from(new Set(lineage.map(({ record }) => hashOf(record))))
    const vectors: Array<readonly [model: string, byHash: object]> = []
    for (const model of models) {
      const found = yield* side.vectors?.read(tenant, model, hashes) ?? Effect.succeed([])
      const entries = found.flatMap((vector, n) =>
        Option.isSome(vector) ? [[hashes[n], Encoding.encodeBase64(bytesOf(vector.value))] as const] : []
      )
      tally.vectors += entries.length
      if (entries.length > 0) vectors.push([model, Object.fromEntries(entries)])
    }
    const forgotten = lineage.flatMap(({ forgotten, record }) => forgotten ? [record.revision] : [])
    count(tally, lineage)
    return lineOf({
      record: {
        tenant,
        revisions: lineage.map(({ record }) => record),
        ...(forgotten.length > 0 && { forgotten }),
        ...(uses !== undefined && (uses.count > 0 || uses.accessedAt !== undefined) && { uses }),
        ...(vectors.length > 0 && { vectors: Object.fromEntries(vectors) })
      }
    })
  })

const bytesOf = (vector: Float32Array): Uint8Array =>
  new Uint8Array(vector.buffer, vector.byteOffset, vector.byteLength)

const threadLines = (
  store: Service,
  tenant: string,
  { name, owner }: { readonly owner: MemoryScope; readonly name: string },
  tally: Tally
) =>
  Stream.unwrap(Effect.gen(function*() {
    const rows = yield* ThreadRows.of(store, yield* viewerOf(tenant, owner))
    tally.threads++
    return Stream.paginateEffect(0, (from) =>
      Effect.map(ThreadReads.messages(rows, name, { from, limit: messagesOfLine }), ({ items, length }) => {
        tally.messages += items.length
        const messages = items.map(({ data, sequence: _, ...message }) => ({ message, ...(data && { data }) }))
        const next = from + items.length
        return [
          items.length === 0 ? "" : lineOf({ thread: { tenant, owner, name, from, messages } }),
          items.length === 0 || next >= length ? Option.none() : Option.some(next)
        ]
      })).pipe(Stream.filter((line) =>
        line !== ""
      ))
  }))
