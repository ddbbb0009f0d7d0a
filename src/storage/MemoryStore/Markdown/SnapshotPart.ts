/**
 * Encodes and decodes the parts of a snapshot. Compression runs on Node's thread pool.
 *
 * Each entry is one JSON array of field values, without field names. The fields of its record and its location are elements of the same
 * array. An object or array for each would take twice as long to parse. The bodies follow the arrays as plain text.
 */
import { brotliCompress, brotliDecompress, constants } from "#builtins"
import * as Effect from "effect/Effect"
import { signer } from "../../../domain/Digest.ts"
import { type MemoryRecord, unchecked } from "../../../domain/MemoryRecord.ts"
import type { Steps } from "../../../host/EventLoop.ts"
import * as HistoryLine from "./HistoryLine.ts"
import type { RevisionLocation } from "./HistoryLine.ts"
import type { Entry } from "./VaultFile.ts"

/** Version of the snapshot's format. Incremented if `Entry` changes, or if the library's way of parsing a text into a record changes. */
export const version = 5
/**
 * Versions that `entriesOf` can decode. In version 2, an entry is an object. In version 3, an entry is an array, but its record is an
 * object. `Snapshot` reads version 1 by itself.
 */
export const versions = [2, 3, version] as const

/** An entry and the location of its revision in the history. The location is absent if there is none, or if it is stored separately. */
export interface Placed {
  readonly entry: Entry
  readonly location?: RevisionLocation | undefined
}

/** The rows of a part, one per entry. Each list in `orders` has the field names of one or more records. */
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
  /** Fields that most entries lack; 0 if this entry lacks all of them. */
  rest: Rest | 0,
  /** Offset of the revision's line in the history, or −1 without a location. The fields from `before` to `isKept` are then 0. */
  offset: number,
  before: string | null | 0,
  length: number,
  batch: number,
  part: number,
  parts: number,
  isKept: boolean | 0,
  /** Length of the body in UTF-16 units. */
  body: number,
  /** Index in `orders` of the record's field names. The values of these fields follow, with 0 in place of the body. */
  order: number,
  ...values: ReadonlyArray<unknown>
]
type Rest = Partial<Pick<Entry, "isSealed" | "frame" | "issues" | "isPartial" | "extra">>
/** Index in a row at which the values of the record's fields begin. */
const values = 20

/** Returns the object, or 0 if all of its fields are undefined. */
const unlessBlank = <A extends object>(object: A): A | 0 =>
  Object.values(object).every((one) => one === undefined) ? 0 : object

/** Converts entries to rows. Fields that are undefined are left out. */
export const toRows = (all: ReadonlyArray<Placed>): Rows => {
  const orders: Array<ReadonlyArray<keyof MemoryRecord>> = []
  const numbers = new Map<string, number>()
  const numberOf = (record: MemoryRecord): number => {
    const all = Object.keys(record) as ReadonlyArray<keyof MemoryRecord> // a `MemoryRecord` has no other keys
    const keys = all.filter((key) => record[key] !== undefined)
    const name = keys.join()
    const known = numbers.get(name) ?? orders.push(keys) - 1
    numbers.set(name, known)
    return known
  }
  const rows = all.map(({ entry, location }): Row => {
    const { extra, frame, hash, isPartial, isSealed, issues, path, row: { dedupeKey, record }, tenant } = entry
    const { born, ino, mtime, size } = entry.stat
    const order = numberOf(record)
    const more = Object.keys(extra).length > 0 && { extra }
    const rest = unlessBlank<Rest>({ isSealed, frame, issues, isPartial, ...more })
    return [
      ...[path, tenant, hash, mtime, born, size, ino, entry.settled, entry.signed, dedupeKey ?? 0, rest] as const,
      ...(location
        ? [
          location.offset,
          location.before,
          location.length,
          location.batch,
          location.part,
          location.parts,
          location.isKept
        ] as const
        : [-1, 0, 0, 0, 0, 0, 0] as const),
      record.body.length,
      order,
      ...orders[order]!.map((key) => key === "body" ? 0 : record[key])
    ]
  })
  return { orders, rows }
}

/** Converts rows to entries. `body` is called with the length of the next body, and returns the body. */
export const fromRows = ({ orders, rows }: Rows, body: (length: number) => string): ReadonlyArray<Placed> =>
  rows.map((row) => {
    const [path, tenant, hash, mtime, born, size, ino, settled, signed, dedupeKey, rest, offset] = row
    const fields: Record<string, unknown> = {}
    let at = values
    for (const key of orders[row[19]]!) fields[key] = row[at++] // `row[19]` is an index in `orders`
    fields["body"] = body(row[18])
    const record = unchecked(fields as unknown as MemoryRecord) // the signature proves that this library wrote the row
    const stat = { mtime, born, size, ino }
    const stored = dedupeKey === 0 ? { record, forgotten: false } : { record, forgotten: false, dedupeKey }
    const entry: Entry = { _tag: "Entry", path, stat, settled, hash, tenant, signed, row: stored, extra: {} }
    if (rest !== 0) Object.assign(entry, rest)
    if (offset < 0) return { entry }
    const location: RevisionLocation = {
      tenant,
      id: record.id,
      revision: record.revision,
      forgotten: false,
      path,
      after: hash,
      before: row[12] === 0 ? null : row[12],
      removed: none,
      offset,
      length: row[13],
      batch: row[14],
      part: row[15],
      parts: row[16],
      isKept: row[17] !== 0 && row[17]
    }
    return { entry, location }
  })

const none: ReadonlyArray<string> = []

/**
 * An entry in a snapshot of version 2 or 3. `entry` is an object in version 2, and a tuple in version 3. `body` is the length of the body,
 * in UTF-16 units. `beside` and `entry` together give the location of the entry's revision in the history.
 */
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
  const record: { body: string } = entry.row.record // may be changed here, since no caller has the record yet
  record.body = body(length)
  unchecked(entry.row.record)
  return { entry, location: beside && fromBeside(entry, beside) }
}

const fromEarlyTuple = (tuple: EarlyTuple): Entry => {
  const [path, tenant, hash, mtime, born, size, ino, settled, signed, dedupeKey, record, rest] = tuple
  const row = dedupeKey === 0 ? { record, forgotten: false } : { record, forgotten: false, dedupeKey }
  const stat = { mtime, born, size, ino }
  const entry = { _tag: "Entry" as const, path, stat, settled, hash, tenant, signed, row, extra: {} }
  return rest === 0 ? entry : { ...entry, ...rest }
}

/**
 * Encodes entries as texts to be concatenated. The bodies are most of the data, and stay plain text. Plain text is read and written many
 * times as fast as JSON.
 */
export const textsOf = (entries: ReadonlyArray<Placed>): ReadonlyArray<string> => [
  JSON.stringify(toRows(entries)),
  "\n",
  ...entries.map(({ entry: { row } }) => row.record.body)
]

/** Decodes the entries of a part, without validation. The caller has checked the signature. `made` is the snapshot's version. */
export const entriesOf = (bytes: Uint8Array, made: number): ReadonlyArray<Placed> => {
  const end = bytes.indexOf(lineBreak)
  const json: unknown = JSON.parse(text(bytes.subarray(0, end)))
  const bodies = text(bytes.subarray(end + 1))
  let at = 0
  const body = (length: number) => bodies.slice(at, at += length)
  // the type is right, since the signature proves that this library wrote the JSON
  return made === version
    ? fromRows(json as Rows, body)
    : (json as ReadonlyArray<LegacyEntry>).map((early) => fromLegacyEntry(early, body))
}

/** Divides values into groups, each about as large as a part. `sizeOf` returns the size of a value in bytes. */
export function* groupsOf<A>(all: Iterable<A>, sizeOf: (one: A) => number): Steps<ReadonlyArray<ReadonlyArray<A>>> {
  const groups: Array<Array<A>> = []
  let size = part
  for (const one of all) {
    if (size >= part) {
      yield size >> 8 // the work that the previous group took, in units of 0.1 µs
      groups.push([])
      size = 0
    }
    groups.at(-1)!.push(one) // there is a group, since the first iteration adds one
    size += sizeOf(one)
  }
  return groups
}

/** Approximate least size of an uncompressed part, in bytes. A part ends after the value that reaches this size. */
const part = 524_288

/** The byte of a line break. */
export const lineBreak = 10
const decoder = new TextDecoder("utf-8", { ignoreBOM: true }) // keeps a U+FEFF at the start of a text
/** Decodes UTF-8. */
export const text = (bytes: Uint8Array): string => decoder.decode(bytes)
/** Encodes UTF-8. */
export const encoder = new TextEncoder()
/** Makes a function that concatenates texts as UTF-8. The function reuses one buffer, to save garbage collection. */
export const makeEncoder = () => {
  let buffer = new Uint8Array(0)
  return (texts: ReadonlyArray<string>): Uint8Array => {
    const most = 3 * texts.reduce((sum, { length }) => sum + length, 0)
    if (buffer.length < most) buffer = new Uint8Array(most)
    let at = 0
    for (const text of texts) at += encoder.encodeInto(text, buffer.subarray(at)).written
    return buffer.slice(0, at)
  }
}

/**
 * Compression level of Brotli, 0..11. Level 2 compresses prose to three eighths of its size, at 100 MB a second. Level 5 takes three times
 * as long, and its output is only a tenth smaller.
 */
const quality = 2

/** Compresses bytes. Dies if the compression fails, since only a lack of memory can cause this. */
export const compress = (bytes: Uint8Array): Effect.Effect<Uint8Array> =>
  Effect.async<Uint8Array>((resume) => {
    const params = {
      [constants.BROTLI_PARAM_QUALITY]: quality,
      [constants.BROTLI_PARAM_LGWIN]: Math.max(16, Math.min(22, 32 - Math.clz32(bytes.length))), // a window that fits the data
      [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length
    }
    const chunkSize = Math.max(1_024, bytes.length >> 1)
    brotliCompress(bytes, { params, chunkSize }, (error, result) =>
      resume(error ? Effect.die(error) : Effect.succeed(result)))
  })

/**
 * Decompresses the output of `compress`. `length` should be the number of decompressed bytes. Another number only makes decompression
 * slower. Fails if `bytes` is not the output of `compress`.
 */
export const decompress = (bytes: Uint8Array, length: number): Effect.Effect<Uint8Array, Error> =>
  Effect.async<Uint8Array, Error>((resume) => {
    const chunkSize = Math.max(1_024, length + 16) // large enough for the result to be a single chunk
    brotliDecompress(
      bytes,
      { chunkSize },
      (error, result) => resume(error ? Effect.fail(error) : Effect.succeed(result))
    )
  })

/** Signs bytes with a key. Each step signs one megabyte, which takes 2 ms. */
export function* signed(key: string, bytes: Uint8Array): Steps<string> {
  const signature = signer(key)
  for (let at = 0; at < bytes.length; at += megabyte) {
    signature.add(bytes.subarray(at, at + megabyte))
    yield megabyte >> 5
  }
  return signature.end()
}

const megabyte = 1_048_576

/** The location of a revision in the history, as an array for JSON. Earlier releases did not store `times`. */
export type Tuple = readonly [
  tenant: string,
  id: HistoryLine.RevisionLocation["id"],
  revision: number,
  forgotten: boolean,
  path: string | null,
  after: string | null,
  before: string | null,
  removed: ReadonlyArray<string> | 0,
  at: At,
  times?: HistoryLine.Times
]
/** Position of a revision's line in the history file, and in the batch that it belongs to. */
type At = readonly [offset: number, length: number, batch: number, part: number, parts: number, isKept: boolean]

const atOf = (
  { batch, isKept, length, offset, part, parts }: HistoryLine.RevisionLocation
): At => [offset, length, batch, part, parts, isKept]

/** Converts a location to a tuple; the inverse of `fromTuple`. */
export const toTuple = (location: HistoryLine.RevisionLocation): Tuple => {
  const { after, before, forgotten, removed, id, path, revision, tenant, times } = location
  const names = removed.length > 0 ? removed : 0
  const tuple = [tenant, id, revision, forgotten, path, after, before, names, atOf(location)] as const
  return times ? [...tuple, times] : tuple
}

/** Converts a tuple to a location. */
export const fromTuple = (
  [tenant, id, revision, forgotten, path, after, before, removed, at, times]: Tuple
): HistoryLine.RevisionLocation => {
  const [offset, length, batch, part, parts, isKept] = at
  return {
    tenant,
    id,
    revision,
    forgotten,
    ...(times && { times }),
    path,
    after,
    before,
    removed: removed === 0 ? none : removed,
    offset,
    length,
    batch,
    part,
    parts,
    isKept
  }
}

/** The fields of a `RevisionLocation` that cannot be computed from the `Entry` of the revision. */
export type Beside = readonly [before: string | null, at: At]

/** Finds the location of each entry's current revision in the history. `others` has the remaining locations. */
export function* locate(
  entries: ReadonlyArray<Entry>,
  locations: ReadonlyArray<RevisionLocation>
): Steps<{ readonly placed: ReadonlyArray<Placed>; readonly others: ReadonlyArray<RevisionLocation> }> {
  const newest = new Map<string | null, RevisionLocation>()
  let last: RevisionLocation | undefined
  for (let n = 0; n < locations.length; n++) {
    const location = locations[n]!
    if (last?.id !== location.id || last.tenant !== location.tenant) newest.set(location.path, location)
    last = location
    if (n % atATime === 0) yield 5 * atATime
  }
  const merged = new Set<RevisionLocation>()
  const placed: Array<Placed> = []
  for (let n = 0; n < entries.length; n++) {
    const entry = entries[n]!
    const location = newest.get(entry.path)
    const isMerged = location !== undefined && sharesFields(entry, location)
    if (isMerged) merged.add(location)
    placed.push(isMerged ? { entry, location } : { entry })
    if (n % atATime === 0) yield 8 * atATime
  }
  const others: Array<RevisionLocation> = []
  for (let n = 0; n < locations.length; n++) {
    const location = locations[n]!
    if (!merged.has(location)) others.push(location)
    if (n % atATime === 0) yield atATime
  }
  return { placed, others }
}

/** Number of entries or locations that are processed per step. */
const atATime = 256

/**
 * Whether an entry and a location agree in all common fields, and the revision removes no file. The snapshot then stores these fields only
 * once.
 */
export const sharesFields = (
  { hash, path, row: { record }, tenant }: Entry,
  location: HistoryLine.RevisionLocation
): boolean =>
  location.tenant === tenant && location.id === record.id && location.path === path && location.after === hash &&
  location.revision === record.revision && !location.forgotten && location.removed.length === 0

/** Makes the location of an entry's current revision. The location and the entry share their strings, to save memory. */
export const fromBeside = (
  { hash, path, row: { record: { id, revision } }, tenant }: Entry,
  [before, at]: Beside
): HistoryLine.RevisionLocation => fromTuple([tenant, id, revision, false, path, hash, before, 0, at])
