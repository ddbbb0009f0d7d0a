/**
 * The lines of the history, a vault's append-only file of revisions. A line has a checksum, metadata and content, separated by tabs. A
 * batch is a group of revisions that take effect together. Each revision has one line, a part of its batch. The key `landed` marks a
 * checkpoint: the `.md` files of all batches up to this number are on disk. A compaction rewrites the file, with a new epoch in every line.
 *
 * ```text
 * checksum \t {"epoch":1,"offset":0,"landed":3} \t \n                                 the head
 * checksum \t {"epoch":1,"offset":100,"batch":4,"part":0,"parts":2,"id":…} \t {"record":…} \n
 * checksum \t {"epoch":1,"offset":912,"landed":4} \t \n
 * ```
 */
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import { sha256 } from "../../../domain/Digest.ts"
import type { MemoryError } from "../../../domain/MemoryError.ts"
import type { MemoryId } from "../../../domain/MemoryId.ts"
import { encoded, MemoryRecord } from "../../../domain/MemoryRecord.ts"
import * as EventLoop from "../../../host/EventLoop.ts"
import type { Extra, Frame } from "./Frontmatter.ts"
import type { VaultFileSystem } from "./VaultFileSystem.ts"

/** The files of a revision: the `.md` file of the record, and the files that the revision removes. */
export interface View {
  /** Path of the record's file; `null` if the record has no file in this revision. */
  readonly path: string | null
  /** Paths of other files that contain the record or its id. The revision removes these files. */
  readonly removed: ReadonlyArray<string>
  /** Hash of the earlier text at `path`, or of the removed file if `path` is `null`; `null` if none. Equals `after` for an edit by hand. */
  readonly before: string | null
  /** Hash of the text at `path` after the revision; `null` if there is no file. */
  readonly after: string | null
}

/** A revision to append to the history, as a part of a batch. */
export interface Part extends View {
  readonly tenant: string
  readonly id: MemoryId
  /** The record; `null` if this part erases the record with all its revisions. */
  readonly record: MemoryRecord | null
  readonly forgotten: boolean
  readonly extra: Extra
  /** The text around the body of a note that the library did not write. A tombstone has the frame of the removed file. */
  readonly frame?: Frame | undefined
}

/** Position and metadata of a revision's line in the history file. The record itself is not included. */
export interface RevisionLocation extends View {
  readonly tenant: string
  readonly id: MemoryId
  readonly batch: number
  readonly revision: number
  readonly forgotten: boolean
  /** Times of a tombstone, used by compaction. Absent for other revisions, and if the line is damaged. */
  readonly times?: Times | undefined
  /** Offset of the line in the file, and its length, in bytes. */
  readonly offset: number
  readonly length: number
  /** Index of this part in its batch, from 0. `parts` is the number of parts in the batch. */
  readonly part: number
  readonly parts: number
  /** Whether a rewrite of the file, such as a compaction, wrote the line. Such a line does not state its offset. */
  readonly isKept: boolean
}

/** Times of a tombstone, in epoch milliseconds. `expires` is absent if the record never expires. */
export type Times = readonly [forgotten: number, expires?: number]

/** A batch of revisions, which take effect together. */
export interface Batch {
  readonly number: number
  readonly locations: ReadonlyArray<Parsed>
  /** Locations of the revisions that the batch erases. The lines of these revisions have to be overwritten. */
  readonly erased: ReadonlyArray<RevisionLocation>
  /** Generation of the history in which `locations` and `erased` are valid (see `History.generation`). */
  readonly generation: number
  /** Whether this process appended the batch. Its files count as read once this process has written them. */
  readonly isOurs: boolean
}

/** The content of a revision. */
export interface WrittenRevision {
  readonly record: MemoryRecord
  readonly extra: Extra
  readonly frame?: Frame | undefined
}

/** The metadata of a line. Its types are not validated: the checksum of an undamaged line proves that the library wrote the line. */
export interface Meta {
  readonly epoch: number
  /** Byte offset of the line. Absent in the lines of revisions that a rewrite of the file wrote. */
  readonly offset?: number
  /** Number of the last batch whose `.md` files are on disk. Only the head and the lines of checkpoints have this key. */
  readonly landed?: number
  /** Number of the batch that this line rolls back. */
  readonly undone?: number
  /** Offset of the batch that this line rolls back. Absent in lines that an earlier release wrote. */
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

/** Prints a line: the checksum, the metadata, and the content (`row`). */
export const print = (meta: Meta, row = ""): Uint8Array => {
  const body = `${JSON.stringify(meta)}\t${row}`
  return encoder.encode(`${sha256(body)}\t${body}\n`)
}

/** Prints lines anew, for a rewritten file. Each line is then a batch of its own, and states no offset. */
export const reprint = (lines: ReadonlyArray<readonly [meta: Meta, row: string]>, epoch: number) =>
  lines.map(([{ offset: _, ...meta }, row]) => print({ ...meta, epoch, batch: 0, part: 0, parts: 1 }, row))

/** Prints a line without content. The line overwrites an erased line of `length` bytes, and is filled up with spaces. */
export const blank = (meta: Meta, length: number): Uint8Array => {
  const body = `${JSON.stringify({ ...meta, state: "blank" } satisfies Meta)}\t`.padEnd(length - checksumLength - 2)
  const line = encoder.encode(`${sha256(body)}\t${body}\n`)
  return line.length === length ? line : encoder.encode("\n".padStart(length)) // a fragment of a damaged line may be too short
}

/** Encodes a revision as the content of a line. */
export const encode = ({ extra, frame, record }: WrittenRevision): string =>
  JSON.stringify({
    record: encoded(record),
    ...(Object.keys(extra).length > 0 && { extra }),
    ...(frame && { frame: { path: frame.path, head: frame.head, tail: frame.tail } })
  })

/** Returns the content of a line, as text. */
export const textOf = (line: Uint8Array): string => decoder.decode(line.subarray(line.lastIndexOf(tab) + 1))

/** Decodes the revision in a line. `None` if the line is damaged, is erased, or has another revision than `location`. */
export const read = (line: Uint8Array, location: RevisionLocation): Option.Option<WrittenRevision> =>
  isOf(line, location)
    ? Option.map(decodeRow(textOf(line)), ({ extra = {}, frame, record }) => ({ record, extra, frame }))
    : Option.none()

/** Whether a line is undamaged, and has the revision that the location states. */
export const isOf = (line: Uint8Array, { id, revision, tenant }: RevisionLocation): boolean => {
  const meta = metaOf(line)
  return meta !== undefined && meta.id === id && meta.revision === revision && meta.tenant === tenant
}

const tab = 9
const checksumLength = 64
const encoder = new TextEncoder()
const decoder = new TextDecoder()

/** Returns the checksum of a line, which identifies the line. */
export const checksumOf = (line: Uint8Array): string => decoder.decode(line.subarray(0, checksumLength))

/** Reads the metadata of a line; `undefined` if the line is damaged. */
export const metaOf = (line: Uint8Array): Meta | undefined => {
  const first = line.indexOf(tab)
  if (first !== checksumLength) return undefined
  const body = line.subarray(first + 1)
  if (decoder.decode(line.subarray(0, first)) !== sha256(body)) return undefined
  return JSON.parse(decoder.decode(body.subarray(0, body.indexOf(tab)))) as Meta // the checksum proves that the library wrote the line
}

/** Reads the metadata and the content of a line that may be damaged. Of metadata that is no JSON object, returns at most the id. */
export const partsOf = (line: Uint8Array): { readonly meta: Meta; readonly row: Uint8Array } => {
  const end = line.indexOf(tab, checksumLength + 1)
  const text = decoder.decode(line.subarray(checksumLength + 1, end < 0 ? line.length : end))
  const [, id] = /"id":"([0-9A-Z]{26})"/.exec(text) ?? []
  // cast: the text has the form of an id, except that it may contain I, L, O and U; it then equals no id
  const shown: Meta = { epoch: 0, ...(id !== undefined && { id: id as MemoryId }) }
  const meta = Option.getOrElse(parsedMeta(text), () => shown)
  return { meta, row: line.subarray(end < 0 ? line.length : end + 1) }
}
const parsedMeta = (text: string): Option.Option<Meta> =>
  Option.filter(Option.liftThrowable((text: string): unknown => JSON.parse(text))(text), isMeta)
const isMeta = (json: unknown): json is Meta => Predicate.isRecord(json) // the values of damaged metadata may have other types

/** A line that was read. The other lines of its batch may be missing. */
export interface Line {
  readonly meta: Meta | undefined
  readonly offset: number
  readonly line: Uint8Array
  readonly times: Times | undefined
}

/** Splits bytes of the history file into lines. `start` is the offset of the bytes in the file. */
export const linesIn = (bytes: Uint8Array, start: number) =>
  Effect.gen(function*() {
    const paced = EventLoop.pacer()
    const lines: Array<Line> = []
    let checkpoint = 0
    let newest = 0
    /** The numbers of the rolled-back batches, by offset. The number is needed, since a later batch may have the same offset. */
    const undone = new Map<number, number | undefined>()
    let at = 0
    for (let next = bytes.indexOf(lineBreak, at); next >= 0; next = bytes.indexOf(lineBreak, at)) {
      const line = bytes.subarray(at, next)
      yield* paced(line.length >> 6) // checking and parsing lines takes about ten milliseconds per megabyte
      const meta = metaOf(line)
      const offset = start + at
      lines.push({ meta, offset, line, times: timesIn(meta, line) })
      checkpoint = Math.max(checkpoint, meta?.landed ?? 0)
      newest = Math.max(newest, meta?.epoch ?? 0)
      if (meta?.offset === offset && meta.at !== undefined) undone.set(meta.at, meta.undone)
      at = next + 1
    }
    /** `newest` is the highest epoch. `checkpoint` is the highest number of a checkpoint. `at` is the end of the last complete line. */
    return { at, checkpoint, lines, newest, undone }
  })

const lineBreak = 10

/** The location of a line. Also says whether the line erases a record, and whether the line itself was erased. */
export interface Parsed extends RevisionLocation {
  /** Whether the line erases all revisions of the record. */
  readonly isErased: boolean
  /** Whether the content of the line was erased. The line still counts as a part of its batch. */
  readonly isBlank: boolean
}

/** Makes the location of a line from its metadata. The line starts at `offset`, and has `length` bytes. */
export const parsedLine = (meta: Meta, offset: number, length: number, times: Times | undefined): Parsed => ({
  tenant: meta.tenant ?? "",
  id: meta.id ?? ("" as MemoryId), // only blank lines lack an id; no record has an empty id
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
  removed: meta.gone ?? [],
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

/** Returns the times of the tombstone in a line; `undefined` if the line is damaged or is no tombstone. */
export const timesIn = (meta: Meta | undefined, line: Uint8Array): Times | undefined =>
  meta?.state === "forgotten"
    ? timesOf((JSON.parse(textOf(line)) as { readonly record: Ended }).record) // the checksum proves that the library wrote the line
    : undefined

/**
 * Prints the lines of a batch, and returns the lines with their locations. `from` is the offset of the first line. If `from` is
 * `undefined`, the lines are for a rewritten history file. Each line is then a batch of its own, and states no offset.
 */
export const batch = (parts: ReadonlyArray<Part>, epoch: number, number: number, from: number | undefined) => {
  const lines: Array<Uint8Array> = []
  const parsed: Array<Parsed> = []
  let offset = from ?? 0
  for (const [part, { after, before, extra, forgotten, frame, id, path, record, removed, tenant }] of parts.entries()) {
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
      ...(removed.length > 0 && { gone: removed }),
      before,
      after
    }
    const line = print(meta, record === null ? "" : encode({ record, extra, frame }))
    parsed.push(parsedLine(meta, offset, line.length, record && forgotten ? timesOf(record) : undefined))
    offset += line.length
    lines.push(line)
  }
  return { lines, parsed }
}

/** Prints a history file: first `head`, then the lines of all values. `make` prints at most 16 values in one call. */
export const printFile = <A>(
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
    return yield* EventLoop.paced(() => concatSteps(lines))
  })

/** Returns the offset and the length of a batch in the file, in bytes. The lines of a batch are contiguous. */
export const spanOf = (batch: ReadonlyArray<RevisionLocation>) => {
  const [first] = batch
  const last = batch.at(-1)
  return first === undefined || last === undefined
    ? { offset: 0, length: 0 }
    : { offset: first.offset, length: last.offset + last.length - first.offset }
}

/*
 * The index of a history is saved in the vault's snapshot. A process that opens the vault then reads only the lines that were appended
 * later. The index is valid if two parts of the file are unchanged: the first 4 KiB, and the last 4 KiB that the index covers.
 */

/** The index of the first `end` bytes of a history file. */
export interface HistoryIndex {
  readonly epoch: number
  /** Number of bytes that the index covers, from the start of the file. */
  readonly end: number
  /** Number of the last batch. The `.md` files of all batches up to this number are on disk. */
  readonly batch: number
  /** Number of bytes in lines that are no longer needed, such as the lines of erased or replaced revisions. */
  readonly dead: number
  /** Hash of the first 4 KiB and the last 4 KiB that the index covers. */
  readonly hash: string
  /** Locations of all revisions. The locations of one record are newest first, and adjacent unless the index was read from a snapshot. */
  readonly locations: ReadonlyArray<RevisionLocation>
}

/** Number of bytes to hash at the start and at the end. A rewrite changes the start, since the first line then has a new epoch. */
const compared = 4_096

/** Returns a hash of the start and the end of the first `end` bytes of a file. */
export const hashOf = (fs: VaultFileSystem, file: string, end: number): Effect.Effect<string, MemoryError> =>
  Effect.zipWith(
    fs.bytesFrom(file, 0, Math.min(end, compared)),
    fs.bytesFrom(file, Math.max(0, end - compared), Math.min(end, compared)),
    (first, last) => sha256(concat([first, last]))
  )

/** Concatenates bytes. */
export const concat = (parts: ReadonlyArray<Uint8Array>): Uint8Array => EventLoop.atOnce(concatSteps(parts))

/** Makes one array in steps: first `room` zero bytes, then the bytes of all parts. A megabyte takes about a millisecond. */
export function* concatSteps(parts: ReadonlyArray<Uint8Array>, room = 0): EventLoop.Steps<Uint8Array> {
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

/** Returns a copy of the bytes in which every byte is a space, except the line breaks. */
export const blanked = (lines: Uint8Array): Uint8Array => lines.map((byte) => byte === 10 ? byte : 32)

/** Returns the length of the longest common prefix of two byte arrays. */
export const commonPrefixLength = (a: Uint8Array, b: Uint8Array): number => {
  const at = a.findIndex((byte, i) => byte !== b[i])
  return at < 0 ? a.length : at
}
