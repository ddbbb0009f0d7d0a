/**
 * An in-memory index of a vault's history, the append-only file with all revisions. The index finds the location of a revision by record or
 * by path. A location is the position of a revision's line in the file.
 */
import type { MemoryId } from "../../../domain/MemoryId.ts"
import type { Steps } from "../../../host/EventLoop.ts"
import { revisionsKept } from "../../MemoryStore.ts"
import type { Parsed, RevisionLocation } from "./HistoryLine.ts"
import { LargeMap } from "./LargeMap.ts"
import { isInternal } from "./Layout.ts"

/** The locations of the revisions in a history. The history updates the index when it reads or writes lines. */
export interface RevisionIndex {
  /** Returns the locations of a record's revisions in the history file, newest first, at most `revisionsKept` (20). */
  readonly of: (tenant: string, id: MemoryId) => ReadonlyArray<RevisionLocation>
  /** Returns the location of the newest revision whose `.md` file is at a path. */
  readonly at: (path: string) => RevisionLocation | undefined
  /** Returns the locations of the newest revisions of a tenant's records, one location for each record. */
  readonly newest: (tenant: string) => ReadonlyArray<RevisionLocation>
  readonly tenants: () => ReadonlyArray<string>
  /** Number of records, of all tenants. */
  readonly records: () => number
  /** Returns all locations, in steps. The index must not change between steps. The locations of a record are adjacent, newest first. */
  readonly all: () => Steps<ReadonlyArray<RevisionLocation>>
  /** Adds the revisions of a batch. Returns the locations of the revisions that the batch erases. */
  readonly add: (parts: ReadonlyArray<Parsed>) => ReadonlyArray<RevisionLocation>
  /** Adds the location of a revision that is older than all known revisions of its record. */
  readonly addEarlier: (location: RevisionLocation) => void
  /** Removes the location of a revision. `at` then finds the record's newest remaining revision, if that revision has a path. */
  readonly remove: (location: RevisionLocation) => void
  /** Returns the number of bytes in lines that `add` made useless: lines of erased, replaced or surplus revisions, and erasing lines. */
  readonly dead: () => number
  /** Returns how many erasures `add` has applied, without those of the library's own records. */
  readonly erasures: () => number
}

/** Returns the paths of the files that revisions write or remove. */
export const filesOf = (locations: ReadonlyArray<RevisionLocation>): ReadonlyArray<string> =>
  locations.flatMap(({ path, removed }) => path === null ? removed : [path, ...removed])

/** Makes an index without revisions. */
export const make = (): RevisionIndex => {
  const records = new Map<string, LargeMap<MemoryId, ReadonlyArray<RevisionLocation>>>()
  const paths = new LargeMap<string, RevisionLocation>()
  let [dead, erasures] = [0, 0]

  const of: RevisionIndex["of"] = (tenant, id) => records.get(tenant)?.get(id) ?? none
  const set = ({ id, tenant }: RevisionLocation, locations: ReadonlyArray<RevisionLocation>) => {
    const rows = records.get(tenant) ?? new LargeMap<MemoryId, ReadonlyArray<RevisionLocation>>()
    if (locations.length > 0) rows.set(id, locations)
    else rows.delete(id)
    if (rows.size > 0) records.set(tenant, rows)
    else records.delete(tenant)
  }

  return {
    of,
    at: (path) => paths.get(path),
    newest: (tenant) => Array.from(records.get(tenant)?.values() ?? [], (all) => all[0]!), // each record has at least one location
    tenants: () => Array.from(records.keys()),
    records: () => Array.from(records.values()).reduce((sum, { size }) => sum + size, 0),
    *all() {
      const all: Array<RevisionLocation> = []
      for (const rows of records.values()) {
        for (const locations of rows.values()) {
          for (const location of locations) all.push(location)
          yield 1
        }
      }
      return all
    },
    add: (parts) => {
      const erased: Array<RevisionLocation> = []
      for (const part of parts) {
        const { isBlank: _, isErased, ...location } = part
        const all = of(location.tenant, location.id)
        // a line replaces an earlier line with the same revision number
        const earlier = isErased ? all : all.filter(({ revision }) => revision !== location.revision)
        const old = all[0]
        if (old?.path && paths.get(old.path) === old) paths.delete(old.path)
        if (isErased) {
          if (!filesOf([part, ...earlier]).every(isInternal)) erasures++
          erased.push(...earlier)
          dead += earlier.reduce((sum, { length }) => sum + length, location.length)
          set(location, none)
        } else {
          const next = [location, ...earlier]
          for (const { length } of [...all.filter((old) => !earlier.includes(old)), ...next.slice(revisionsKept)]) {
            dead += length
          }
          set(location, next.slice(0, revisionsKept))
          if (location.path !== null) paths.set(location.path, location)
        }
      }
      return erased
    },
    addEarlier: (location) => {
      const rows = records.get(location.tenant) ?? new LargeMap<MemoryId, ReadonlyArray<RevisionLocation>>()
      if (rows.size === 0) records.set(location.tenant, rows)
      const later = rows.get(location.id)
      rows.set(location.id, later ? [...later, location] : [location])
      if (later === undefined && location.path !== null) paths.set(location.path, location)
    },
    remove: (location) => {
      const { id, offset, path, tenant } = location
      const left = of(tenant, id).filter((other) => other.offset !== offset)
      set(location, left)
      if (path !== null && paths.get(path)?.offset === offset) paths.delete(path)
      const [last] = left
      if (last?.path) paths.set(last.path, last)
    },
    dead: () => dead,
    erasures: () => erasures
  }
}

const none: ReadonlyArray<RevisionLocation> = []
