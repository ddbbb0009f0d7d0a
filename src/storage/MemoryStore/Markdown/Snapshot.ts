/**
 * What a look at the folder found, and the indexes made of it, for the next process: a cache, held against every file.
 *
 * ```text
 * signature   under the vault's key, of all that follows, and a line break
 * head        what it was made with, how long the parts are, and a line break
 * entries     some thousand to a part, compressed: JSON without the bodies, a line break, the bodies one after the other
 * history     places of some thousand lines to a part, compressed JSON
 * indexes     of some tenants to a part, one after the other, compressed
 * ```
 *
 * One file, so that an index and the records it is of cannot be of different times. In parts, so that neither reading nor
 * writing it blocks the event loop for long.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { sign } from "../../../domain/Digest.ts"
import type { MemoryError } from "../../../domain/MemoryError.ts"
import { unchecked } from "../../../domain/MemoryRecord.ts"
import * as EventLoop from "../../../host/EventLoop.ts"
import { joined } from "./Bytes.ts"
import * as Compression from "./Compression.ts"
import type { Disk } from "./Disk.ts"
import type { Context } from "./Document.ts"
import type { Place } from "./HistoryLine.ts"
import { hidden } from "./Layout.ts"
import type { Entry } from "./Mirror.ts"
import * as Places from "./Places.ts"
import * as SnapshotEntry from "./SnapshotEntry.ts"

export interface Snapshot {
  readonly entries: ReadonlyArray<Entry>
  /** By tenant. */
  readonly indexes: ReadonlyArray<readonly [tenant: string, encoded: Uint8Array]>
  /** Absent while a batch has not landed. */
  readonly history?: Places.HistoryIndex | undefined
}

export interface Loaded extends Snapshot {
  /** Whether the history's index has the newest revision of every entry as its file has it. */
  readonly isPlaced: boolean
  /** Whether there is one that this key signed, of whatever circumstances. */
  readonly isSigned: boolean
}

const file = `${hidden}/snapshot`
const empty: Loaded = { entries: [], indexes: [], isPlaced: false, isSigned: true }
/** Bytes of a part, about, before it is compressed. A larger index is a part by itself. */
const part = 1_048_576
/** Bytes of a part that are a unit of a `Pacer`: a megabyte is taken in in eight milliseconds, and a pause follows two. */
const bytesPerUnit = 128
/** Parts that are compressed or restored at a time. */
const concurrency = 4

/** Bytes of a part, and before it was compressed. */
const Part = Schema.Tuple(Schema.Int, Schema.Int)
const Head = Schema.parseJson(Schema.Struct({
  version: Schema.Literal(...SnapshotEntry.versions),
  kinds: Schema.String,
  entries: Schema.Array(Part),
  history: Schema.optional(Schema.Struct({
    epoch: Schema.Int,
    end: Schema.Int,
    batch: Schema.Int,
    dead: Schema.Int,
    hash: Schema.String,
    places: Schema.Array(Part)
  })),
  /** Bytes of each part, and of each index in it before it was compressed. */
  indexes: Schema.Array(Schema.Tuple(Schema.Int, Schema.Array(Schema.Tuple(Schema.String, Schema.Int))))
}))
const decodeHead = Schema.decodeOption(Head)
/**
 * The head of an earlier release: its entries are one JSON, and its indexes are built anew. What a hand wrote and nobody has
 * changed since has its revision from the entries alone, so they are read.
 */
const Early = Schema.parseJson(Schema.Struct({
  version: Schema.Literal(1),
  kinds: Schema.String,
  entries: Schema.Int
}))
const decodeEarly = Schema.decodeOption(Early)
const encodeHead = Schema.encodeSync(Head)

/** Fingerprint of what entries depend on: the kinds, and the way notes are read. */
const about = ({ kinds, notes }: Pick<Context, "kinds" | "notes">): string =>
  (notes ?? "") +
  JSON.stringify(Array.from(kinds.values(), ({ dedupe, importance, name }) => [name, dedupe, importance]).sort())

/** Empty where there is none, or it is not ours, or of other circumstances. */
export const load = (disk: Disk, context: Context): Effect.Effect<Loaded, MemoryError> =>
  Effect.gen(function*() {
    const body = opened(yield* disk.bytesFrom(file, 0), context.key)
    if (body === undefined) return { ...empty, isSigned: false }
    const end = body.indexOf(lineBreak) + 1
    const first = text(body.subarray(0, end))
    const head = decodeHead(first)
    const early = Option.isNone(head) ? decodeEarly(first) : Option.none()
    if (Option.isSome(early) && early.value.kinds === about(context)) {
      // sealed by us, with the types that we wrote
      const entries = JSON.parse(text(body.subarray(end, end + early.value.entries))) as ReadonlyArray<Entry>
      for (const { row: { record } } of entries) unchecked(record)
      return { ...empty, entries }
    }
    if (Option.isNone(head) || head.value.kinds !== about(context)) return empty
    let at = end
    const next = (length: number) => body.subarray(at, at += length)
    const partOf = ([length, whole]: typeof Part.Type) => ({ part: next(length), whole })
    const entries = head.value.entries.map(partOf)
    const places = head.value.history?.places.map(partOf) ?? []
    const indexes = head.value.indexes.map(([length, of]) => ({ part: next(length), of }))
    const inTurn = yield* EventLoop.inTurn
    const restored = yield* Effect.all({
      entries: Effect.forEach(entries, ({ part, whole }) =>
        Effect.gen(function*() {
          const bytes = yield* Compression.decompress(part, whole)
          return yield* inTurn(() => entriesOf(bytes, head.value.version), () => whole / bytesPerUnit)
        }), { concurrency }),
      places: Effect.forEach(places, ({ part, whole }) =>
        Effect.gen(function*() {
          const bytes = yield* Compression.decompress(part, whole)
          // sealed by us, with the types that we wrote
          const placesOf = () => (JSON.parse(text(bytes)) as ReadonlyArray<Places.Tuple>).map(Places.fromTuple)
          return yield* inTurn(placesOf, () => whole / bytesPerUnit)
        }), { concurrency }),
      indexes: Effect.forEach(indexes, ({ of, part }) =>
        Effect.map(
          Compression.decompress(
            part,
            of.reduce((sum, [, length]) => sum + length, 0)
          ),
          (bytes) => {
            let at = 0
            return of.map(([tenant, length]) => [tenant, new Uint8Array(bytes.subarray(at, at += length))] as const)
          }
        ), { concurrency })
    }, { concurrency: 3 }).pipe(Effect.option) // sealed by a release whose compression was another
    return Option.match(restored, {
      onNone: () => empty,
      onSome: ({ entries, indexes, places }) => {
        const kept: Array<Entry> = []
        const newest: Array<Place> = []
        for (const { entry, place } of entries.flat()) {
          kept.push(entry)
          if (place) newest.push(place)
        }
        return {
          entries: kept,
          indexes: indexes.flat(),
          isPlaced: newest.length === kept.length,
          history: head.value.history && { ...head.value.history, places: newest.concat(places.flat()) },
          isSigned: true
        }
      }
    })
  })

/** Removes the snapshot, which may have a text that was purged. */
export const remove = (disk: Disk): Effect.Effect<void, MemoryError> => disk.remove(file, { force: false })

/** Whether there is a snapshot, and if so, whether this key signed it. */
export const signedBy = (disk: Disk, key: string): Effect.Effect<boolean | undefined, MemoryError> =>
  Effect.map(disk.bytesFrom(file, 0), (bytes) => bytes.length === 0 ? undefined : opened(bytes, key) !== undefined)

/** All but the signature; `undefined` where it does not hold. */
const opened = (bytes: Uint8Array, key: string): Uint8Array | undefined => {
  const end = bytes.indexOf(lineBreak) + 1
  const body = bytes.subarray(end)
  return text(bytes.subarray(0, end)) === `${sign(key, body)}\n` ? body : undefined
}

/** Not forced to disk: what is lost is read again. */
export const save = (disk: Disk, { key, ...context }: Context, snapshot: Snapshot): Effect.Effect<void, MemoryError> =>
  Effect.gen(function*() {
    const inTurn = yield* EventLoop.inTurn
    const bytesOf = bytes()
    const parts = <A>(
      all: ReadonlyArray<A>,
      sizeOf: (one: A) => number,
      textsOf: (group: ReadonlyArray<A>) => ReadonlyArray<string>
    ) =>
      Effect.forEach(groupsOf(all, sizeOf), (group) =>
        Effect.gen(function*() {
          const bytes = yield* inTurn(() => bytesOf(textsOf(group)), ({ length }) => length >> 4)
          return { part: yield* Compression.compress(bytes), whole: bytes.length }
        }), { concurrency })
    const { history } = snapshot
    const newest = new Map<string | null, Place>()
    history?.places.forEach((place, n, { [n - 1]: last }) => {
      if (last?.id !== place.id || last.tenant !== place.tenant) newest.set(place.path, place)
    })
    const taken = new Set<Place>()
    const placed = snapshot.entries.map((entry): SnapshotEntry.Placed => {
      const place = newest.get(entry.path)
      if (place === undefined || !Places.isBeside(entry, place)) return { entry }
      taken.add(place)
      return { entry, place }
    })
    const entries = yield* parts(placed, ({ entry: { row } }) => row.record.body.length + 512, textsOf)
    const places = yield* parts(
      history?.places.filter((place) => !taken.has(place)) ?? [],
      () => 256,
      (group) => [JSON.stringify(group.map(Places.toTuple))]
    )
    const indexes = yield* Effect.forEach(
      groupsOf(snapshot.indexes, ([, { length }]) => length),
      (group) =>
        Effect.map(
          Compression.compress(joined(group.map(([, encoded]) => encoded))),
          (part) => ({ part, of: group.map(([tenant, { length }]) => [tenant, length] as const) })
        ),
      { concurrency }
    )
    const head = encodeHead({
      version: SnapshotEntry.version,
      kinds: about(context),
      entries: entries.map(lengthsOf),
      history: history && { ...history, places: places.map(lengthsOf) },
      indexes: indexes.map(({ of, part }) => [part.length, of] as const)
    })
    const all = joined([
      new Uint8Array(signature), // as long as it will be
      encoder.encode(`${head}\n`),
      ...[...entries, ...places, ...indexes].map(({ part }) => part)
    ])
    all.set(encoder.encode(`${sign(key, all.subarray(signature))}\n`))
    yield* disk.write(file, all, { force: false }).pipe(
      Effect.uninterruptible // a half-written file would be left behind
    )
  })

const lengthsOf = ({ part, whole }: { readonly part: Uint8Array; readonly whole: number }) =>
  [part.length, whole] as const

/** Bodies are most of it, and many times as fast to write and to read as plain text than as JSON. */
const textsOf = (entries: ReadonlyArray<SnapshotEntry.Placed>): ReadonlyArray<string> => [
  JSON.stringify(SnapshotEntry.toRows(entries)),
  "\n",
  ...entries.map(({ entry: { row } }) => row.record.body)
]

/** Makes a function that encodes texts, one after the other. It uses one buffer for all: large ones make the collector work. */
const bytes = () => {
  let buffer = new Uint8Array(0)
  return (texts: ReadonlyArray<string>): Uint8Array => {
    const most = 3 * texts.reduce((sum, { length }) => sum + length, 0)
    if (buffer.length < most) buffer = new Uint8Array(most)
    let at = 0
    for (const text of texts) at += encoder.encodeInto(text, buffer.subarray(at)).written
    return buffer.slice(0, at)
  }
}

const entriesOf = (bytes: Uint8Array, version: number): ReadonlyArray<SnapshotEntry.Placed> => {
  const end = bytes.indexOf(lineBreak)
  const json: unknown = JSON.parse(text(bytes.subarray(0, end)))
  const bodies = text(bytes.subarray(end + 1))
  let at = 0
  const body = (length: number) => bodies.slice(at, at += length)
  // sealed by us, with the types that we wrote
  return version === SnapshotEntry.version
    ? SnapshotEntry.fromRows(json as SnapshotEntry.Rows, body)
    : (json as ReadonlyArray<SnapshotEntry.Early>).map((early) => SnapshotEntry.fromEarly(early, body))
}

/** Divides into groups whose sizes add up to that of a part. */
const groupsOf = <A>(all: ReadonlyArray<A>, sizeOf: (one: A) => number): ReadonlyArray<ReadonlyArray<A>> => {
  const groups: Array<Array<A>> = []
  let size = part
  for (const one of all) {
    if (size >= part) {
      groups.push([])
      size = 0
    }
    groups.at(-1)!.push(one) // one was begun above
    size += sizeOf(one)
  }
  return groups
}

const lineBreak = 10
/** Bytes of a signature and its line break. */
const signature = 65
const encoder = new TextEncoder()
const decoder = new TextDecoder()
const text = (bytes: Uint8Array): string => decoder.decode(bytes)
