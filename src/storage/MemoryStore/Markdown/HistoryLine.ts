/**
 * A line of the history: a checksum, what the line is about, and the text of a revision.
 *
 * ```text
 * checksum \t {"epoch":1,"offset":0,"landed":3} \t \n                                 the head
 * checksum \t {"epoch":1,"offset":83,"batch":4,"part":0,"parts":2,"id":…} \t {"record":…} \n
 * checksum \t {"epoch":1,"offset":912,"landed":4} \t \n
 * ```
 */
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { sha256 } from "../../../domain/Digest.ts"
import type { MemoryId } from "../../../domain/MemoryId.ts"
import { MemoryRecord } from "../../../domain/MemoryRecord.ts"
import type { Extra } from "./Document.ts"
import type { Frame } from "./Frame.ts"

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
  /** Bytes from the beginning of the file, and in all. */
  readonly offset: number
  readonly length: number
  /** Which part of its batch, and of how many. */
  readonly part: number
  readonly parts: number
  /** Whether a compaction wrote the line, which then names no byte. */
  readonly isKept: boolean
}

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

/** A line of a batch, as it was read. */
export interface Parsed extends Place {
  readonly isErased: boolean
  /** A line whose text was erased; it holds the place of its part. */
  readonly isBlank: boolean
}

/** The revision of a line that stands at `offset`. */
export const placeOf = (meta: Meta, offset: number, length: number): Parsed => ({
  tenant: meta.tenant ?? "",
  id: meta.id ?? ("" as MemoryId), // absent in a blank line alone, which nobody looks into
  batch: meta.batch ?? 0,
  part: meta.part ?? 0,
  parts: meta.parts ?? 1,
  isKept: meta.offset === undefined,
  revision: meta.revision ?? 0,
  forgotten: meta.state === "forgotten",
  isErased: meta.state === "erased",
  isBlank: meta.state === "blank",
  path: meta.path ?? null,
  gone: meta.gone ?? [],
  before: meta.before ?? null,
  after: meta.after ?? null,
  offset,
  length
})

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
    placed.push(placeOf(meta, offset, line.length))
    offset += line.length
    lines.push(line)
  }
  return { lines, placed }
}
