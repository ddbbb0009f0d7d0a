/**
 * A line of the history: a checksum, what the line is about, and the text of a revision.
 *
 * ```text
 * checksum \t {"epoch":1,"offset":0,"landed":3} \t \n                                 the head
 * checksum \t {"epoch":1,"offset":83,"batch":4,"part":0,"parts":2,"id":…} \t {"record":…} \n
 * checksum \t {"epoch":1,"offset":912,"landed":4} \t \n
 * ```
 */
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { sha256 } from "../../../domain/Digest.ts"
import type { MemoryError } from "../../../domain/MemoryError.ts"
import type { MemoryId } from "../../../domain/MemoryId.ts"
import { encoded, MemoryRecord } from "../../../domain/MemoryRecord.ts"
import * as EventLoop from "../../../host/EventLoop.ts"
import type { Extra, Frame } from "./Frontmatter.ts"
import type { VaultFileSystem } from "./VaultFileSystem.ts"

/** View of a record after a revision: which file has it, and which files go. */
export interface View {
  /** The file of the record; `null`: it has none from now on. */
  readonly path: string | null
  /** Other files that held or claimed the record before, which this revision removes. */
  readonly gone: ReadonlyArray<string>
  /** Hash of the text at `path` before; `null`: there was no file. */
  readonly before: string | null
  /** Hash of the text at `path` after. */
  readonly after: string | null
}

/** One revision to append. */
export interface Part extends View {
  readonly tenant: string
  readonly id: MemoryId
  /** `null`: the record is erased, with every earlier revision. */
  readonly record: MemoryRecord | null
  readonly forgotten: boolean
  readonly extra: Extra
  /** Text around the body in the file of a note that is its author's. Of a tombstone: in the file that went. */
  readonly frame?: Frame | undefined
}

/** A revision in the history: where its line stands, and all of it but the text. */
export interface Place extends View {
  readonly tenant: string
  readonly id: MemoryId
  readonly batch: number
  readonly revision: number
  readonly forgotten: boolean
  /** The times of a tombstone, by which compaction goes. Absent where the line is damaged. */
  readonly times?: Times | undefined
  /** Bytes from the beginning of the file, and in all. */
  readonly offset: number
  readonly length: number
  /** Number of this part in its batch, from 0, and number of parts that the batch has. */
  readonly part: number
  readonly parts: number
  /** Whether a compaction wrote the line, which then names no byte. */
  readonly isKept: boolean
}

/** Time at which a record was forgotten, and the one at which it expires, if it does; epoch milliseconds. */
export type Times = readonly [forgotten: number, expires?: number]

/** Revisions that take effect together. */
export interface Batch {
  readonly number: number
  readonly places: ReadonlyArray<Place>
  /** Earlier revisions of the records that it erased: their lines still have the text. */
  readonly litter: ReadonlyArray<Place>
}

/** A revision as it was written. */
export interface WrittenRevision {
  readonly record: MemoryRecord
  readonly extra: Extra
  readonly frame?: Frame | undefined
}

/** The second field of a line. Its checksum holds, so it has the types that we wrote. */
export interface Meta {
  readonly epoch: number
  /** Absent in the lines of a compaction. */
  readonly offset?: number
  readonly landed?: number
  readonly undone?: number
  /** Byte at which the batch that is undone begins; absent in lines of an earlier release. */
  readonly at?: number
  readonly batch?: number
  readonly part?: number
  readonly parts?: number
  readonly tenant?: string
  readonly id?: MemoryId
  readonly revision?: number
  readonly state?: "forgotten" | "erased" | "blank"
  readonly path?: string | null
  readonly gone?: ReadonlyArray<string>
  readonly before?: string | null
  readonly after?: string | null
}

const RowJson = Schema.parseJson(Schema.Struct({
  record: MemoryRecord,
  extra: Schema.optional(Schema.Record({ key: Schema.String, value: Schema.Unknown })),
  frame: Schema.optional(Schema.Struct({ path: Schema.String, head: Schema.String, tail: Schema.String }))
}))
const decodeRow = Schema.decodeOption(RowJson)

/** Prints a line. */
export const print = (meta: Meta, row = ""): Uint8Array => {
  const body = `${JSON.stringify(meta)}\t${row}`
  return encoder.encode(`${sha256(body)}\t${body}\n`)
}

/** Prints a line without a text, in the place of one that is `length` bytes long. */
export const blank = (meta: Meta, length: number): Uint8Array => {
  const body = `${JSON.stringify({ ...meta, state: "blank" } satisfies Meta)}\t`.padEnd(length - checksumLength - 2)
  return encoder.encode(`${sha256(body)}\t${body}\n`)
}

/** The text of a revision, as a line has it. */
export const encode = ({ extra, frame, record }: WrittenRevision): string =>
  JSON.stringify({
    record: encoded(record),
    ...(Object.keys(extra).length > 0 && { extra }),
    ...(frame && { frame: { path: frame.path, head: frame.head, tail: frame.tail } })
  })

/** The third field of a line, as text. */
export const textOf = (line: Uint8Array): string => decoder.decode(line.subarray(line.lastIndexOf(tab) + 1))

/** The revision of a place; `None` where its line was erased or damaged, or another stands there now. */
export const read = (line: Uint8Array, place: Place): Option.Option<WrittenRevision> =>
  isOf(line, place)
    ? Option.map(decodeRow(textOf(line)), ({ extra = {}, frame, record }) => ({ record, extra, frame }))
    : Option.none()

/** Whether a line is whole, and that of a place. */
export const isOf = (line: Uint8Array, { id, revision, tenant }: Place): boolean => {
  const meta = metaOf(line)
  return meta !== undefined && meta.id === id && meta.revision === revision && meta.tenant === tenant
}

const tab = 9
const checksumLength = 64
const encoder = new TextEncoder()
const decoder = new TextDecoder()

/** The first field of a line, which tells it from every other. */
export const checksumOf = (line: Uint8Array): string => decoder.decode(line.subarray(0, checksumLength))

/** Reads the second field of a line; `undefined` where the line is not whole. */
export const metaOf = (line: Uint8Array): Meta | undefined => {
  const first = line.indexOf(tab)
  if (first !== checksumLength) return undefined
  const body = line.subarray(first + 1)
  if (decoder.decode(line.subarray(0, first)) !== sha256(body)) return undefined
  return JSON.parse(decoder.decode(body.subarray(0, body.indexOf(tab)))) as Meta // its checksum holds, so it has the types that we wrote
}

/** A line as it was read, before it is known whether it counts. */
export interface Line {
  readonly meta: Meta | undefined
  readonly offset: number
  readonly line: Uint8Array
  readonly times: Times | undefined
}

/** Reads the lines of bytes that begin at `start`. */
export const linesIn = (bytes: Uint8Array, start: number) =>
  Effect.gen(function*() {
    const paced = EventLoop.pacer()
    const lines: Array<Line> = []
    let landed = 0
    let newest = 0
    /** Numbers of the batches that were taken back, by offset: later, another one may begin at the same byte. */
    const undone = new Map<number, number | undefined>()
    let at = 0
    for (let next = bytes.indexOf(lineBreak, at); next >= 0; next = bytes.indexOf(lineBreak, at)) {
      const line = bytes.subarray(at, next)
      yield* paced(line.length >> 6) // a megabyte in ten milliseconds
      const meta = metaOf(line)
      const offset = start + at
      lines.push({ meta, offset, line, times: timesIn(meta, line) })
      landed = Math.max(landed, meta?.landed ?? 0)
      newest = Math.max(newest, meta?.epoch ?? 0)
      if (meta?.offset === offset && meta.at !== undefined) undone.set(meta.at, meta.undone)
      at = next + 1
    }
    /** `at`: bytes up to the end of the last line; `newest`: the last epoch that a line names. */
    return { at, landed, lines, newest, undone }
  })

const lineBreak = 10

/** A line of a batch, as it was read. */
export interface Parsed extends Place {
  readonly isErased: boolean
  /** A line whose text was erased; it holds the place of its part. */
  readonly isBlank: boolean
}

/** The revision of a line that stands at `offset`. */
export const placeOf = (meta: Meta, offset: number, length: number, times: Times | undefined): Parsed => ({
  tenant: meta.tenant ?? "",
  id: meta.id ?? ("" as MemoryId), // absent in a blank line alone, which nobody looks into
  batch: meta.batch ?? 0,
  part: meta.part ?? 0,
  parts: meta.parts ?? 1,
  isKept: meta.offset === undefined,
  revision: meta.revision ?? 0,
  forgotten: meta.state === "forgotten",
  ...(times && { times }),
  isErased: meta.state === "erased",
  isBlank: meta.state === "blank",
  path: meta.path ?? null,
  gone: meta.gone ?? [],
  before: meta.before ?? null,
  after: meta.after ?? null,
  offset,
  length
})

type Ended = Pick<MemoryRecord, "createdAt" | "updatedAt" | "expiresAt">

/** Returns the times of a tombstone. */
export const timesOf = ({ createdAt, expiresAt, updatedAt }: Ended): Times => {
  const recency = updatedAt ?? createdAt
  return expiresAt === undefined ? [recency] : [recency, expiresAt]
}

/** Returns the times of a tombstone's line that is whole; `undefined` for any other line. */
export const timesIn = (meta: Meta | undefined, line: Uint8Array): Times | undefined =>
  meta?.state === "forgotten"
    ? timesOf((JSON.parse(textOf(line)) as { readonly record: Ended }).record) // its checksum holds, so it is what we wrote
    : undefined

/**
 * Prints the lines of a batch, with their places. `from`: the byte at which they begin; `undefined` where a compaction writes
 * them with the head, each a batch of its own.
 */
export const batch = (parts: ReadonlyArray<Part>, epoch: number, number: number, from: number | undefined) => {
  const lines: Array<Uint8Array> = []
  const placed: Array<Parsed> = []
  let offset = from ?? 0
  for (const [part, { after, before, extra, forgotten, frame, gone, id, path, record, tenant }] of parts.entries()) {
    const meta: Meta = {
      epoch,
      ...(from !== undefined && { offset }),
      batch: number,
      part: from === undefined ? 0 : part,
      parts: from === undefined ? 1 : parts.length,
      tenant,
      id,
      revision: record?.revision ?? 0,
      ...((record === null || forgotten) && { state: record === null ? "erased" : "forgotten" }),
      path,
      ...(gone.length > 0 && { gone }),
      before,
      after
    }
    const line = print(meta, record === null ? "" : encode({ record, extra, frame }))
    placed.push(placeOf(meta, offset, line.length, record && forgotten ? timesOf(record) : undefined))
    offset += line.length
    lines.push(line)
  }
  return { lines, placed }
}

/** Prints a file: the head, and the lines that `make` makes of some values at a time, with pauses. */
export const printed = <A>(
  head: Uint8Array,
  all: ReadonlyArray<A>,
  make: (some: ReadonlyArray<A>) => ReadonlyArray<Uint8Array>
): Effect.Effect<Uint8Array> =>
  Effect.gen(function*() {
    const paced = EventLoop.pacer()
    const lines = [head]
    for (const some of Arr.chunksOf(all, 16)) {
      let length = 0
      for (const line of make(some)) length += lines[lines.push(line) - 1]!.length
      yield* paced(length >> 4)
    }
    return yield* EventLoop.paced(() => joining(lines))
  })

/** Returns the bytes at which the lines of a batch stand: they follow one another. */
export const spanOf = (batch: ReadonlyArray<Place>) => {
  const [first] = batch
  const last = batch.at(-1)
  return first === undefined || last === undefined
    ? { offset: 0, length: 0 }
    : { offset: first.offset, length: last.offset + last.length - first.offset }
}

/*
 * The index of a history keeps for the snapshot what was read of it: the process that opens the vault next reads what was
 * appended since, and not the whole file. It counts if the file still begins and ends, up to there, with the bytes that were read.
 */

/** The index of a history up to a byte of its file. */
export interface HistoryIndex {
  readonly epoch: number
  /** Bytes that were read. */
  readonly end: number
  /** Number of the last batch. All of them have landed. */
  readonly batch: number
  /** Bytes of lines that count no more. */
  readonly dead: number
  /** Hash of the first and the last bytes that were read. */
  readonly hash: string
  /** Revisions of all records, of each the newest first. */
  readonly places: ReadonlyArray<Place>
}

/** Bytes at each end that are compared. The head and the last lines name their epoch, and the bytes at which they stand. */
const compared = 4_096

/** Hash of the first and the last of the first `end` bytes of a file. */
export const hashOf = (fs: VaultFileSystem, file: string, end: number): Effect.Effect<string, MemoryError> =>
  Effect.zipWith(
    fs.bytesFrom(file, 0, Math.min(end, compared)),
    fs.bytesFrom(file, Math.max(0, end - compared), Math.min(end, compared)),
    (first, last) => sha256(joined([first, last]))
  )

/** Returns the bytes of all parts, in their order. */
export const joined = (parts: ReadonlyArray<Uint8Array>): Uint8Array => EventLoop.atOnce(joining(parts))

/** The same in steps, behind room for `room` bytes: to write memory for the first time takes a millisecond a megabyte. */
export function* joining(parts: ReadonlyArray<Uint8Array>, room = 0): EventLoop.Steps<Uint8Array> {
  const all = new Uint8Array(parts.reduce((sum, { length }) => sum + length, room))
  let at = room
  let work = 0
  for (const part of parts) {
    for (let from = 0; from < part.length; from += megabyte) {
      const some = part.length > megabyte ? part.subarray(from, from + megabyte) : part
      all.set(some, at + from)
      work += some.length
      if (work < megabyte) continue
      yield work >> 6
      work = 0
    }
    at += part.length
  }
  return all
}

const megabyte = 1_048_576

/** Lines of as many bytes that say nothing. */
export const blanked = (lines: Uint8Array): Uint8Array => lines.map((byte) => byte === 10 ? byte : 32)

/** Number of bytes with which both begin. */
export const common = (a: Uint8Array, b: Uint8Array): number => {
  const at = a.findIndex((byte, i) => byte !== b[i])
  return at < 0 ? a.length : at
}

/** Returns the revisions at these places of a history's bytes, as they came, the oldest of a record first: what a compaction keeps. */
export const living = (bytes: Uint8Array, places: ReadonlyArray<Place>) =>
  Effect.gen(function*() {
    const paced = EventLoop.pacer()
    const kept: Array<readonly [meta: Meta, row: string]> = []
    for (const { length, offset } of places.toReversed()) {
      const line = bytes.subarray(offset, offset + length - 1)
      const meta = metaOf(line)
      yield* paced(length >> 4)
      if (meta) kept.push([meta, textOf(line)])
    }
    return kept
  })

/** Reads the times of tombstones that an earlier release kept without them. Cost: none of what this one kept. */
export const timed = (
  read: (place: Place) => Effect.Effect<Option.Option<WrittenRevision>, MemoryError>,
  all: ReadonlyArray<Place>
): Effect.Effect<ReadonlyMap<Place, Place>, MemoryError> =>
  Effect.gen(function*() {
    const timed = new Map<Place, Place>()
    for (const [n, place] of all.entries()) {
      if (!place.forgotten || place.times !== undefined) continue
      const isNewest = all[n - 1]?.id !== place.id || all[n - 1]?.tenant !== place.tenant
      if (!isNewest) continue
      const kept = yield* read(place)
      if (Option.isSome(kept)) timed.set(place, { ...place, times: timesOf(kept.value.record) })
    }
    return timed
  })
