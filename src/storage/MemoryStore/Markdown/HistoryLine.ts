/**
 * A line of the history: a checksum, what the line is about, and the text of a revision.
 *
 * ```text
 * checksum \t {"epoch":1,"offset":0,"landed":3} \t \n                                 the head
 * checksum \t {"epoch":1,"offset":83,"batch":4,"part":0,"parts":2,"id":…} \t {"record":…} \n
 * checksum \t {"epoch":1,"offset":912,"landed":4} \t \n
 * ```
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { sha256 } from "../../../domain/Digest.ts"
import type { MemoryError } from "../../../domain/MemoryError.ts"
import type { MemoryId } from "../../../domain/MemoryId.ts"
import { MemoryRecord } from "../../../domain/MemoryRecord.ts"
import { revisionsKept } from "../../MemoryStore.ts"
import type { Disk } from "./Disk.ts"
import type { Extra, Frame } from "./Frontmatter.ts"

/** View of a record after a revision: which file has it, and which files go. */
export interface View {
  /** The file of the record; `null`: it has none from now on. */
  readonly path: string | null
  /** Files that claimed the record before and go. */
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
  /** Which part of its batch, and of how many. */
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
export interface Kept {
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
  /** Where the batch that is undone begins; absent in lines of an earlier release. */
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
const encodeRow = Schema.encodeSync(RowJson)
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
export const encode = ({ extra, frame, record }: Kept): string =>
  encodeRow({ record, ...(Object.keys(extra).length > 0 && { extra }), ...(frame && { frame }) })

/** The third field of a line, as text. */
export const textOf = (line: Uint8Array): string => decoder.decode(line.subarray(line.lastIndexOf(tab) + 1))

/** The revision of a place; `None` where its line was erased or damaged, or another stands there now. */
export const read = (line: Uint8Array, { id, revision, tenant }: Place): Option.Option<Kept> => {
  const meta = metaOf(line)
  return meta === undefined || meta.id !== id || meta.revision !== revision || meta.tenant !== tenant
    ? Option.none()
    : Option.map(decodeRow(textOf(line)), ({ extra = {}, frame, record }) => ({ record, extra, frame }))
}

const tab = 9
const checksumLength = 64
const encoder = new TextEncoder()
const decoder = new TextDecoder()

/** The first field of a line, which tells it from every other. */
export const checksumOf = (line: Uint8Array): string => decoder.decode(line.subarray(0, checksumLength))

/** What a line is about; `undefined` where it is not whole. */
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

/* The places of a history's revisions, by record and by path, as they are known so far. */

export interface Places {
  /** Those of a record, newest first, at most `revisionsKept`. */
  readonly of: (tenant: string, id: MemoryId) => ReadonlyArray<Place>
  /** The newest revision whose file stands at a path. */
  readonly at: (path: string) => Place | undefined
  /** The newest of every record of a tenant. */
  readonly newest: (tenant: string) => ReadonlyArray<Place>
  readonly tenants: () => ReadonlyArray<string>
  /** Number of records. */
  readonly records: () => number
  /** All of them. Those of a record follow each other, the newest first. */
  readonly all: () => ReadonlyArray<Place>
  /** Takes the parts of a batch, and returns the earlier revisions of the records that it erased. */
  readonly take: (parts: ReadonlyArray<Parsed>) => ReadonlyArray<Place>
  /** Takes an earlier one than those that are known of its record. */
  readonly addEarlier: (place: Place) => void
  /** Takes one out. The one before it has its path again. */
  readonly remove: (place: Place) => void
  /** Bytes of lines that were taken and count no more. */
  readonly dead: () => number
}

export const makePlaces = (): Places => {
  const records = new Map<string, Map<MemoryId, ReadonlyArray<Place>>>()
  const paths = new Map<string, Place>()
  let dead = 0

  const of: Places["of"] = (tenant, id) => records.get(tenant)?.get(id) ?? none
  const set = ({ id, tenant }: Place, places: ReadonlyArray<Place>) => {
    const rows = records.get(tenant) ?? new Map<MemoryId, ReadonlyArray<Place>>()
    if (places.length > 0) rows.set(id, places)
    else rows.delete(id)
    if (rows.size > 0) records.set(tenant, rows)
    else records.delete(tenant)
  }

  return {
    of,
    at: (path) => paths.get(path),
    newest: (tenant) => Array.from(records.get(tenant)?.values() ?? [], (all) => all[0]!), // never empty
    tenants: () => Array.from(records.keys()),
    records: () => Array.from(records.values()).reduce((sum, { size }) => sum + size, 0),
    all: () => Array.from(records.values(), (rows) => Array.from(rows.values())).flat(2),
    take: (parts) => {
      const litter: Array<Place> = []
      for (const part of parts) {
        const { isBlank: _, isErased, ...place } = part
        const all = of(place.tenant, place.id)
        const earlier = isErased ? all : all.filter(({ revision }) => revision !== place.revision) // the last word on it stands
        const old = all[0]
        if (old?.path && paths.get(old.path) === old) paths.delete(old.path)
        if (isErased) {
          litter.push(...earlier)
          dead += earlier.reduce((sum, { length }) => sum + length, place.length)
          set(place, none)
        } else {
          const next = [place, ...earlier]
          for (const { length } of [...all.filter((old) => !earlier.includes(old)), ...next.slice(revisionsKept)]) {
            dead += length
          }
          set(place, next.slice(0, revisionsKept))
          if (place.path !== null) paths.set(place.path, place)
        }
      }
      return litter
    },
    addEarlier: (place) => {
      const rows = records.get(place.tenant) ?? new Map<MemoryId, ReadonlyArray<Place>>()
      if (rows.size === 0) records.set(place.tenant, rows)
      const later = rows.get(place.id)
      rows.set(place.id, later ? [...later, place] : [place])
      if (later === undefined && place.path !== null) paths.set(place.path, place)
    },
    remove: (place) => {
      const { id, offset, path, tenant } = place
      const left = of(tenant, id).filter((other) => other.offset !== offset)
      set(place, left)
      if (path !== null && paths.get(path)?.offset === offset) paths.delete(path)
      const [last] = left
      if (last?.path) paths.set(last.path, last)
    },
    dead: () => dead
  }
}

const none: ReadonlyArray<Place> = []

/*
 * What was read of a history, for the snapshot: whoever opens the vault next reads what was appended since, and not the whole
 * file. It counts where the file still begins and ends, up to there, with the bytes that were read.
 */

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
export const hashOf = (disk: Disk, file: string, end: number): Effect.Effect<string, MemoryError> =>
  Effect.zipWith(
    disk.bytesFrom(file, 0, Math.min(end, compared)),
    disk.bytesFrom(file, Math.max(0, end - compared), Math.min(end, compared)),
    (first, last) => sha256(joined([first, last]))
  )

/** Returns the bytes of all parts, in their order. */
export const joined = (parts: ReadonlyArray<Uint8Array>): Uint8Array => {
  const all = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0))
  let at = 0
  for (const part of parts) {
    all.set(part, at)
    at += part.length
  }
  return all
}
