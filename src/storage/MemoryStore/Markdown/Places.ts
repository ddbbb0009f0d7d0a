/** The places of a history's revisions, by record and by path, as they are known so far. */
import * as Effect from "effect/Effect"
import { sha256 } from "../../../domain/Digest.ts"
import type { MemoryError } from "../../../domain/MemoryError.ts"
import type { MemoryId } from "../../../domain/MemoryId.ts"
import { revisionsKept } from "../../MemoryStore.ts"
import { joined } from "./Bytes.ts"
import type { Disk } from "./Disk.ts"
import type { Parsed, Place } from "./HistoryLine.ts"
import type { Entry } from "./Mirror.ts"

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

export const make = (): Places => {
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

/** A place as JSON without names. */
export type Tuple = readonly [
  tenant: string,
  id: Place["id"],
  revision: number,
  forgotten: boolean,
  path: string | null,
  after: string | null,
  before: string | null,
  gone: ReadonlyArray<string> | 0,
  at: At
]
/** Position of a line in the file and in its batch. */
type At = readonly [offset: number, length: number, batch: number, part: number, parts: number, isKept: boolean]

const noNames: ReadonlyArray<string> = []

const atOf = ({ batch, isKept, length, offset, part, parts }: Place): At => [offset, length, batch, part, parts, isKept]

export const toTuple = (place: Place): Tuple => {
  const { after, before, forgotten, gone, id, path, revision, tenant } = place
  return [tenant, id, revision, forgotten, path, after, before, gone.length > 0 ? gone : 0, atOf(place)]
}

export const fromTuple = ([tenant, id, revision, forgotten, path, after, before, gone, at]: Tuple): Place => {
  const [offset, length, batch, part, parts, isKept] = at
  const names = gone === 0 ? noNames : gone
  return {
    tenant,
    id,
    revision,
    forgotten,
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

/** Rest of a place, beside what a record and its file say of their newest revision. */
export type Beside = readonly [before: string | null, at: At]

/** Whether a place says of its revision what a record and its file say, so that a snapshot needs it no second time. */
export const isBeside = ({ hash, path, row: { record }, tenant }: Entry, place: Place): boolean =>
  place.tenant === tenant && place.id === record.id && place.path === path && place.after === hash &&
  place.revision === record.revision && !place.forgotten && place.gone.length === 0

/** The place of a record's newest revision. Its texts are those of the record: ten thousand of them are not kept twice. */
export const fromBeside = (
  { hash, path, row: { record: { id, revision } }, tenant }: Entry,
  [before, at]: Beside
): Place => fromTuple([tenant, id, revision, false, path, hash, before, 0, at])
