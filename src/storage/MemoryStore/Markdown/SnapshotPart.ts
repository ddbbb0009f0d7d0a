/**
 * The parts of a snapshot: entries as rows of text, and their compression, which runs on Node's thread pool.
 *
 * Each entry is one flat JSON array without the body and without names, since nested objects and arrays take twice as long to parse.
 */
import { brotliCompress, brotliDecompress, constants } from "#builtins"
import * as Effect from "effect/Effect"
import { signer } from "../../../domain/Digest.ts"
import { type MemoryRecord, unchecked } from "../../../domain/MemoryRecord.ts"
import type { Steps } from "../../../host/EventLoop.ts"
import * as HistoryLine from "./HistoryLine.ts"
import type { Place } from "./HistoryLine.ts"
import type { Entry } from "./VaultFile.ts"

/** Incremented with each change of `Entry`, or of how a text is read. */
export const version = 5
/** Versions that can be read: version 2 has entries as objects, version 3 a record as an object in an array. */
export const versions = [2, 3, version] as const

/** An entry, and the location of its newest revision in the history, if the history has it. */
export interface Placed {
  readonly entry: Entry
  readonly place?: Place | undefined
}

/** The rows of a part, and the orders of fields in their records. The order of each record is kept, since printing a record shows it. */
export interface Rows {
  readonly orders: ReadonlyArray<ReadonlyArray<keyof MemoryRecord>>
  readonly rows: ReadonlyArray<Row>
}
type Row = readonly [
  path: string,
  tenant: string,
  hash: string,
  mtime: number,
  born: number,
  size: number,
  ino: number,
  settled: boolean,
  signed: boolean,
  dedupeKey: string | 0,
  /** Fields that most entries lack; 0 if all are missing. */
  rest: Rest | 0,
  /** Offset of the newest revision's line in the history; −1 if it has none, and the following fields are then 0. */
  offset: number,
  before: string | null | 0,
  length: number,
  batch: number,
  part: number,
  parts: number,
  isKept: boolean | 0,
  /** Length of the body in UTF-16 units. */
  body: number,
  /** Index in `orders` of the order of the record's fields. Their values follow in this order; the value of the body is 0. */
  order: number,
  ...values: ReadonlyArray<unknown>
]
type Rest = Partial<Pick<Entry, "isSealed" | "frame" | "issues" | "isPartial" | "extra">>
/** Index of the first value in a row. */
const values = 20

/** Returns 0 for an object whose fields are all undefined. */
const unlessBlank = <A extends object>(object: A): A | 0 =>
  Object.values(object).every((one) => one === undefined) ? 0 : object

/** Converts entries to rows. Fields that are undefined are left out. */
export const toRows = (all: ReadonlyArray<Placed>): Rows => {
  const orders: Array<ReadonlyArray<keyof MemoryRecord>> = []
  const numbers = new Map<string, number>()
  const numberOf = (record: MemoryRecord): number => {
    const all = Object.keys(record) as ReadonlyArray<keyof MemoryRecord> // a record has no other keys
    const keys = all.filter((key) => record[key] !== undefined)
    const name = keys.join()
    const known = numbers.get(name) ?? orders.push(keys) - 1
    numbers.set(name, known)
    return known
  }
  const rows = all.map(({ entry, place }): Row => {
    const { extra, frame, hash, isPartial, isSealed, issues, path, row: { dedupeKey, record }, tenant } = entry
    const { born, ino, mtime, size } = entry.stat
    const order = numberOf(record)
    const rest = unlessBlank<Rest>({
      isSealed,
      frame,
      issues,
      isPartial,
      ...(Object.keys(extra).length > 0 && { extra })
    })
    return [
      ...[path, tenant, hash, mtime, born, size, ino, entry.settled, entry.signed, dedupeKey ?? 0, rest] as const,
      ...(place
        ? [place.offset, place.before, place.length, place.batch, place.part, place.parts, place.isKept] as const
        : [-1, 0, 0, 0, 0, 0, 0] as const),
      record.body.length,
      order,
      ...orders[order]!.map((key) => key === "body" ? 0 : record[key])
    ]
  })
  return { orders, rows }
}

/** Converts rows to entries. `body` returns the next body, given its length. */
export const fromRows = ({ orders, rows }: Rows, body: (length: number) => string): ReadonlyArray<Placed> =>
  rows.map((row) => {
    const [path, tenant, hash, mtime, born, size, ino, settled, signed, dedupeKey, rest, offset] = row
    const fields: Record<string, unknown> = {}
    let at = values
    for (const key of orders[row[19]]!) fields[key] = row[at++] // every order is in its part
    fields["body"] = body(row[18])
    const record = unchecked(fields as unknown as MemoryRecord) // the signature shows that we wrote it, so it has these fields
    const stat = { mtime, born, size, ino }
    const stored = dedupeKey === 0 ? { record, forgotten: false } : { record, forgotten: false, dedupeKey }
    const entry: Entry = { _tag: "Entry", path, stat, settled, hash, tenant, signed, row: stored, extra: {} }
    if (rest !== 0) Object.assign(entry, rest)
    if (offset < 0) return { entry }
    const place: Place = {
      tenant,
      id: record.id,
      revision: record.revision,
      forgotten: false,
      path,
      after: hash,
      before: row[12] === 0 ? null : row[12],
      gone: none,
      offset,
      length: row[13],
      batch: row[14],
      part: row[15],
      parts: row[16],
      isKept: row[17] !== 0 && row[17]
    }
    return { entry, place }
  })

const none: ReadonlyArray<string> = []

/** An entry of version 2 (an object) or 3 (a tuple), the length of its body in UTF-16 units, and its place in the history. */
export type LegacyEntry = readonly [entry: Entry | EarlyTuple, body: number, beside?: Beside]
type EarlyTuple = readonly [
  path: string,
  tenant: string,
  hash: string,
  mtime: number,
  born: number,
  size: number,
  ino: number,
  settled: boolean,
  signed: boolean,
  dedupeKey: string | 0,
  record: MemoryRecord,
  rest: Rest | 0
]

/** Reads an entry of a snapshot of version 2 or 3. */
export const fromLegacyEntry = ([kept, length, beside]: LegacyEntry, body: (length: number) => string): Placed => {
  const entry = "path" in kept ? kept : fromEarlyTuple(kept)
  const record: { body: string } = entry.row.record // mutable, since no caller has seen it yet
  record.body = body(length)
  unchecked(entry.row.record)
  return { entry, place: beside && fromBeside(entry, beside) }
}

const fromEarlyTuple = (tuple: EarlyTuple): Entry => {
  const [path, tenant, hash, mtime, born, size, ino, settled, signed, dedupeKey, record, rest] = tuple
  const row = dedupeKey === 0 ? { record, forgotten: false } : { record, forgotten: false, dedupeKey }
  const stat = { mtime, born, size, ino }
  const entry = { _tag: "Entry" as const, path, stat, settled, hash, tenant, signed, row, extra: {} }
  return rest === 0 ? entry : { ...entry, ...rest }
}

/**
 * Prints entries as texts to be concatenated. Bodies are most of the data, and plain text is read and written many times as fast as JSON.
 * The JSON is ASCII, since V8 decodes and parses ASCII several times as fast as other text.
 */
export const textsOf = (entries: ReadonlyArray<Placed>): ReadonlyArray<string> => [
  JSON.stringify(toRows(entries)).replace(/[\u0080-\uffff]/g, escaped),
  "\n",
  ...entries.map(({ entry: { row } }) => row.record.body)
]

/** Returns the JSON escape of a UTF-16 unit above 127. */
const escaped = (unit: string): string => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`

/**
 * Reads the entries of a part that `textsOf` printed; `made` is the version of the snapshot. Validates nothing, since the signature was
 * verified.
 */
export const entriesOf = (bytes: Uint8Array, made: number): ReadonlyArray<Placed> => {
  const end = bytes.indexOf(lineBreak)
  const json: unknown = JSON.parse(text(bytes.subarray(0, end)))
  const body = textReader(bytes.subarray(end + 1))
  // the signature shows that we wrote it, so it has these types
  return made === version
    ? fromRows(json as Rows, body)
    : (json as ReadonlyArray<LegacyEntry>).map((early) => fromLegacyEntry(early, body))
}

/**
 * Returns a function that reads the next text of concatenated UTF-8, given its length in UTF-16 units. Decodes texts without characters
 * beyond ASCII many at a time, as one string with one byte per character; a text with others is decoded by itself.
 */
const textReader = (bytes: Uint8Array): (length: number) => string => {
  let at = 0
  let ascii = "" // the text of bytes[start..end), all ASCII
  let [start, end] = [0, 0]
  return (length) => {
    if (at >= end) {
      start = end = at
      while (end < bytes.length && bytes[end]! < 128) end++
      ascii = text(bytes.subarray(start, end))
    }
    const from = at
    if (from + length <= end) {
      at += length
      return ascii.slice(from - start, at - start)
    }
    for (let units = 0; units < length;) {
      const first = bytes[at]!
      units += first < 0xf0 ? 1 : 2
      at += first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4
    }
    return text(bytes.subarray(from, at))
  }
}

/** Divides values into groups with the size of a part. */
export function* groupsOf<A>(all: Iterable<A>, sizeOf: (one: A) => number): Steps<ReadonlyArray<ReadonlyArray<A>>> {
  const groups: Array<Array<A>> = []
  let size = part
  for (const one of all) {
    if (size >= part) {
      yield size >> 8 // a size of half a kilobyte takes 0.2 µs
      groups.push([])
      size = 0
    }
    groups.at(-1)!.push(one) // the first iteration begins a group
    size += sizeOf(one)
  }
  return groups
}

/** Approximate uncompressed size of a part, in bytes. A larger index is a part by itself. */
const part = 524_288

/** The byte of a line break. */
export const lineBreak = 10
const decoder = new TextDecoder("utf-8", { ignoreBOM: true }) // a text may begin with U+FEFF
/** Decodes UTF-8. */
export const text = (bytes: Uint8Array): string => decoder.decode(bytes)

/**
 * Compression level of Brotli, 0..11. Level 2 compresses prose to three eighths at 100 MB a second; level 5 takes three times as long for a
 * tenth less.
 */
const quality = 2

/** Compresses bytes. Only lack of memory can make it fail, so a failure is a defect. */
export const compress = (bytes: Uint8Array): Effect.Effect<Uint8Array> =>
  Effect.async<Uint8Array>((resume) => {
    const params = {
      [constants.BROTLI_PARAM_QUALITY]: quality,
      [constants.BROTLI_PARAM_LGWIN]: Math.max(16, Math.min(22, 32 - Math.clz32(bytes.length))), // window no larger than the data
      [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length
    }
    const chunkSize = Math.max(1_024, bytes.length >> 1)
    brotliCompress(bytes, { params, chunkSize }, (error, result) =>
      resume(error ? Effect.die(error) : Effect.succeed(result)))
  })

/**
 * Returns the bytes that `compress` was given. `length` should be their number; a wrong one is slower, but not an error. Fails if
 * `compress` did not make the bytes.
 */
export const decompress = (bytes: Uint8Array, length: number): Effect.Effect<Uint8Array, Error> =>
  Effect.async<Uint8Array, Error>((resume) => {
    const chunkSize = Math.max(1_024, length + 16) // makes the result a single chunk
    brotliDecompress(
      bytes,
      { chunkSize },
      (error, result) => resume(error ? Effect.fail(error) : Effect.succeed(result))
    )
  })

/** Signs bytes; a megabyte takes 2 ms. */
export function* signed(key: string, bytes: Uint8Array): Steps<string> {
  const signature = signer(key)
  for (let at = 0; at < bytes.length; at += megabyte) {
    signature.add(bytes.subarray(at, at + megabyte))
    yield megabyte >> 5
  }
  return signature.end()
}

const megabyte = 1_048_576

/** The location of a revision in the history (`Place`) as a JSON array. Earlier releases did not store `times`. */
export type Tuple = readonly [
  tenant: string,
  id: HistoryLine.Place["id"],
  revision: number,
  forgotten: boolean,
  path: string | null,
  after: string | null,
  before: string | null,
  gone: ReadonlyArray<string> | 0,
  at: At,
  times?: HistoryLine.Times
]
/** Location of a line in the file and in its batch. */
type At = readonly [offset: number, length: number, batch: number, part: number, parts: number, isKept: boolean]

const noNames: ReadonlyArray<string> = []

const atOf = (
  { batch, isKept, length, offset, part, parts }: HistoryLine.Place
): At => [offset, length, batch, part, parts, isKept]

/** Converts a place to a tuple; the inverse of `fromTuple`. */
export const toTuple = (place: HistoryLine.Place): Tuple => {
  const { after, before, forgotten, gone, id, path, revision, tenant, times } = place
  const names = gone.length > 0 ? gone : 0
  const tuple = [tenant, id, revision, forgotten, path, after, before, names, atOf(place)] as const
  return times ? [...tuple, times] : tuple
}

/** Converts a tuple to a place. */
export const fromTuple = (
  [tenant, id, revision, forgotten, path, after, before, gone, at, times]: Tuple
): HistoryLine.Place => {
  const [offset, length, batch, part, parts, isKept] = at
  const names = gone === 0 ? noNames : gone
  return {
    tenant,
    id,
    revision,
    forgotten,
    ...(times && { times }),
    path,
    after,
    before,
    gone: names,
    offset,
    length,
    batch,
    part,
    parts,
    isKept
  }
}

/** The fields of a `Place` (location of a revision in the history) that do not follow from its entry. */
export type Beside = readonly [before: string | null, at: At]

/** Finds the location of each entry's newest revision in the history, and the places (locations) that belong to no entry. */
export function* placed(
  entries: ReadonlyArray<Entry>,
  places: ReadonlyArray<Place>
): Steps<{ readonly placed: ReadonlyArray<Placed>; readonly others: ReadonlyArray<Place> }> {
  const newest = new Map<string | null, Place>()
  let last: Place | undefined
  for (let n = 0; n < places.length; n++) {
    const place = places[n]!
    if (last?.id !== place.id || last.tenant !== place.tenant) newest.set(place.path, place)
    last = place
    if (n % atATime === 0) yield 5 * atATime
  }
  const taken = new Set<Place>()
  const placed: Array<Placed> = []
  for (let n = 0; n < entries.length; n++) {
    const entry = entries[n]!
    const place = newest.get(entry.path)
    const isTaken = place !== undefined && isBeside(entry, place)
    if (isTaken) taken.add(place)
    placed.push(isTaken ? { entry, place } : { entry })
    if (n % atATime === 0) yield 8 * atATime
  }
  const others: Array<Place> = []
  for (let n = 0; n < places.length; n++) {
    const place = places[n]!
    if (!taken.has(place)) others.push(place)
    if (n % atATime === 0) yield atATime
  }
  return { placed, others }
}

/** Number of entries or places that are processed per step. */
const atATime = 256

/** Whether a place agrees with an entry, so that the snapshot need not store the common fields twice. */
export const isBeside = ({ hash, path, row: { record }, tenant }: Entry, place: HistoryLine.Place): boolean =>
  place.tenant === tenant && place.id === record.id && place.path === path && place.after === hash &&
  place.revision === record.revision && !place.forgotten && place.gone.length === 0

/** Makes the `Place` of a record's newest revision. Shares strings with the record, to save memory. */
export const fromBeside = (
  { hash, path, row: { record: { id, revision } }, tenant }: Entry,
  [before, at]: Beside
): HistoryLine.Place => fromTuple([tenant, id, revision, false, path, hash, before, 0, at])
