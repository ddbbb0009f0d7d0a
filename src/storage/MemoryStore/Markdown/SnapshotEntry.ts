/**
 * An entry of the mirror as one JSON array of a snapshot, without its body: flat, and without names, since objects and
 * arrays within arrays take twice as long to parse.
 */
import { type MemoryRecord, unchecked } from "../../../domain/MemoryRecord.ts"
import type { Place } from "./HistoryLine.ts"
import type { Entry } from "./Mirror.ts"
import * as Places from "./Places.ts"

/** Raised with each change of `Entry`, or of what a text counts as. */
export const version = 4
/** Versions of earlier releases that are read: 2 had entries as objects, 3 had a record as an object in an array. */
export const versions = [2, 3, version] as const

/** An entry, and the place of its newest revision where the history has it. */
export interface Placed {
  readonly entry: Entry
  readonly place?: Place | undefined
}

export type Row = readonly [
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
  id: MemoryRecord["id"],
  scope: MemoryRecord["scope"],
  kind: string,
  summary: string,
  tags: MemoryRecord["tags"],
  importance: number,
  links: MemoryRecord["links"] | 0,
  data: MemoryRecord["data"] | 0,
  metadata: MemoryRecord["metadata"] | 0,
  source: MemoryRecord["source"],
  createdAt: number,
  validAt: number,
  revision: number,
  /** UTF-16 units of the body. */
  body: number,
  /** What most records lack. */
  more: More | 0,
  /** What most entries lack. */
  rest: Rest | 0,
  /** −1: the history has no such place, and what follows is 0. */
  offset: number,
  before: string | null | 0,
  length: number,
  batch: number,
  part: number,
  parts: number,
  isKept: boolean | 0
]
type More = Pick<
  MemoryRecord,
  "summaryDerived" | "confidence" | "updatedAt" | "invalidAt" | "expiresAt" | "supersededBy"
>
type Rest = Partial<Pick<Entry, "isSealed" | "frame" | "issues" | "isPartial" | "extra">>

const isEmpty = (object: object): boolean => {
  for (const key in object) if (Object.hasOwn(object, key)) return false
  return true
}
const unlessEmpty = <A extends object>(object: A): A | 0 => isEmpty(object) ? 0 : object
/** Leaves out what is undefined; 0 where that is everything. */
const unlessBlank = <A extends object>(object: A): A | 0 =>
  Object.values(object).every((one) => one === undefined) ? 0 : object

export const toRow = ({ entry, place }: Placed): Row => {
  const { extra, frame, hash, isPartial, isSealed, issues, path, row: { dedupeKey, record }, tenant } = entry
  const { confidence, expiresAt, invalidAt, summaryDerived, supersededBy, updatedAt } = record
  const { born, ino, mtime, size } = entry.stat
  const more = unlessBlank({ summaryDerived, confidence, updatedAt, invalidAt, expiresAt, supersededBy })
  const rest = unlessBlank<Rest>({ isSealed, frame, issues, isPartial, ...(!isEmpty(extra) && { extra }) })
  return [
    ...[path, tenant, hash, mtime, born, size, ino, entry.settled, entry.signed, dedupeKey ?? 0] as const,
    ...[record.id, record.scope, record.kind, record.summary, record.tags, record.importance] as const,
    ...[record.links.length > 0 ? record.links : 0, unlessEmpty(record.data), unlessEmpty(record.metadata)] as const,
    ...[record.source, record.createdAt, record.validAt, record.revision, record.body.length, more, rest] as const,
    ...(place
      ? [place.offset, place.before, place.length, place.batch, place.part, place.parts, place.isKept] as const
      : [-1, 0, 0, 0, 0, 0, 0] as const)
  ]
}

/** `body` is told the length of the body. */
export const fromRow = (row: Row, body: (length: number) => string): Placed => {
  const [path, tenant, hash, mtime, born, size, ino, settled, signed, dedupeKey] = row
  const more = row[24]
  const rest = row[25]
  const record = unchecked({
    id: row[10],
    scope: row[11],
    kind: row[12],
    summary: row[13],
    body: body(row[23]),
    tags: row[14],
    importance: row[15],
    links: row[16] === 0 ? [] : row[16],
    data: row[17] === 0 ? {} : row[17],
    metadata: row[18] === 0 ? {} : row[18],
    source: row[19],
    createdAt: row[20],
    validAt: row[21],
    revision: row[22]
  })
  if (more !== 0) Object.assign(record, more)
  const stat = { mtime, born, size, ino }
  const stored = dedupeKey === 0 ? { record, forgotten: false } : { record, forgotten: false, dedupeKey }
  const entry: Entry = { _tag: "Entry", path, stat, settled, hash, tenant, signed, row: stored, extra: {} }
  if (rest !== 0) Object.assign(entry, rest)
  const offset = row[26]
  if (offset < 0) return { entry }
  const before = row[27] === 0 ? null : row[27]
  const place: Place = {
    tenant,
    id: record.id,
    revision: record.revision,
    forgotten: false,
    path,
    after: hash,
    before,
    gone: none,
    offset,
    length: row[28],
    batch: row[29],
    part: row[30],
    parts: row[31],
    isKept: row[32] !== 0 && row[32]
  }
  return { entry, place }
}

const none: ReadonlyArray<string> = []

/** An entry of version 2; of version 3, an entry without names; UTF-16 units of its body; and its place in the history. */
export type Early = readonly [entry: Entry | EarlyTuple, body: number, beside?: Places.Beside]
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
export const fromEarly = ([kept, length, beside]: Early, body: (length: number) => string): Placed => {
  const entry = "path" in kept ? kept : fromEarlyTuple(kept)
  const record: { body: string } = entry.row.record // nobody has it yet
  record.body = body(length)
  unchecked(entry.row.record)
  return { entry, place: beside && Places.fromBeside(entry, beside) }
}

const fromEarlyTuple = (tuple: EarlyTuple): Entry => {
  const [path, tenant, hash, mtime, born, size, ino, settled, signed, dedupeKey, record, rest] = tuple
  const row = dedupeKey === 0 ? { record, forgotten: false } : { record, forgotten: false, dedupeKey }
  const stat = { mtime, born, size, ino }
  const entry = { _tag: "Entry" as const, path, stat, settled, hash, tenant, signed, row, extra: {} }
  return rest === 0 ? entry : { ...entry, ...rest }
}
