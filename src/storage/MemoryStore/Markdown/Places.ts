/**
 * An index in memory of the vault's history, the append-only file with all revisions. A place is the location of one revision's line in
 * that file. Places are looked up by record and by path.
 */
import type { MemoryId } from "../../../domain/MemoryId.ts"
import type { Steps } from "../../../host/EventLoop.ts"
import { revisionsKept } from "../../MemoryStore.ts"
import type { Parsed, Place } from "./HistoryLine.ts"
import { LargeMap } from "./LargeMap.ts"

/** The locations of a history's revisions. The history adds and removes them as it reads and writes lines. */
export interface Places {
  /** Returns the locations of a record's revisions in the history file, newest first, at most `revisionsKept`. */
  readonly of: (tenant: string, id: MemoryId) => ReadonlyArray<Place>
  /** Returns the location of the newest revision whose `.md` file is at a path. */
  readonly at: (path: string) => Place | undefined
  /** Returns the location of the newest revision of every record of a tenant. */
  readonly newest: (tenant: string) => ReadonlyArray<Place>
  readonly tenants: () => ReadonlyArray<string>
  /** Number of records, of all tenants. */
  readonly records: () => number
  /** Collects all locations, in steps of one record, between which none may change. Locations of one record are adjacent, newest first. */
  readonly all: () => Steps<ReadonlyArray<Place>>
  /** Adds the revisions of a batch. Returns the locations of the earlier revisions of the records that the batch erased. */
  readonly take: (parts: ReadonlyArray<Parsed>) => ReadonlyArray<Place>
  /** Adds the location of a revision that is older than all known ones of its record. */
  readonly addEarlier: (place: Place) => void
  /** Removes the location of a revision. If the record's previous revision has a path, `at` returns that revision again. */
  readonly remove: (place: Place) => void
  /** Number of bytes of lines that were added but are not in any list any more: erased, replaced, or beyond `revisionsKept`. */
  readonly dead: () => number
}

/** Makes an index without revisions. */
export const make = (): Places => {
  const records = new Map<string, LargeMap<MemoryId, ReadonlyArray<Place>>>()
  const paths = new LargeMap<string, Place>()
  let dead = 0

  const of: Places["of"] = (tenant, id) => records.get(tenant)?.get(id) ?? none
  const set = ({ id, tenant }: Place, places: ReadonlyArray<Place>) => {
    const rows = records.get(tenant) ?? new LargeMap<MemoryId, ReadonlyArray<Place>>()
    if (places.length > 0) rows.set(id, places)
    else rows.delete(id)
    if (rows.size > 0) records.set(tenant, rows)
    else records.delete(tenant)
  }

  return {
    of,
    at: (path) => paths.get(path),
    newest: (tenant) => Array.from(records.get(tenant)?.values() ?? [], (all) => all[0]!), // a list is never empty
    tenants: () => Array.from(records.keys()),
    records: () => Array.from(records.values()).reduce((sum, { size }) => sum + size, 0),
    *all() {
      const all: Array<Place> = []
      for (const rows of records.values()) {
        for (const places of rows.values()) {
          for (const place of places) all.push(place)
          yield 1
        }
      }
      return all
    },
    take: (parts) => {
      const litter: Array<Place> = []
      for (const part of parts) {
        const { isBlank: _, isErased, ...place } = part
        const all = of(place.tenant, place.id)
        // a line with the same revision number replaces the earlier one
        const earlier = isErased ? all : all.filter(({ revision }) => revision !== place.revision)
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
      const rows = records.get(place.tenant) ?? new LargeMap<MemoryId, ReadonlyArray<Place>>()
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
