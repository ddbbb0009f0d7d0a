/**
 * An in-memory index of a vault's history, the append-only file with all revisions. The index finds the location of a revision by record or
 * by path. A location is the position of a revision's line in the file.
 */
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { MemoryError } from "../../../domain/MemoryError.ts"
import type { MemoryId } from "../../../domain/MemoryId.ts"
import * as EventLoop from "../../../host/EventLoop.ts"
import { revisionsKept } from "../../MemoryStore.ts"
import * as HistoryLine from "./HistoryLine.ts"
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
  readonly all: () => EventLoop.Steps<ReadonlyArray<RevisionLocation>>
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

/** Returns metadata and content of the lines at `locations`, in reverse order. Skips damaged lines. `bytes` is the whole history file. */
export const liveLines = (bytes: Uint8Array, locations: ReadonlyArray<RevisionLocation>) =>
  Effect.gen(function*() {
    const paced = EventLoop.pacer()
    const kept: Array<readonly [meta: HistoryLine.Meta, row: string]> = []
    for (const { length, offset } of locations.toReversed()) {
      const line = bytes.subarray(offset, offset + length - 1)
      const meta = HistoryLine.metaOf(line)
      yield* paced(length >> 4)
      if (meta) kept.push([meta, HistoryLine.textOf(line)])
    }
    return kept
  })

/**
 * Reads missing times of newest revisions that are tombstones (an earlier release saved none). Maps the location of each readable one to a
 * copy with times.
 */
export const withTimes = (
  read: (location: RevisionLocation) => Effect.Effect<Option.Option<HistoryLine.WrittenRevision>, MemoryError>,
  all: ReadonlyArray<RevisionLocation>
): Effect.Effect<ReadonlyMap<RevisionLocation, RevisionLocation>, MemoryError> =>
  Effect.gen(function*() {
    const timed = new Map<RevisionLocation, RevisionLocation>()
    for (const [n, location] of all.entries()) {
      if (!location.forgotten || location.times !== undefined) continue
      const isNewest = all[n - 1]?.id !== location.id || all[n - 1]?.tenant !== location.tenant
      if (!isNewest) continue
      const kept = yield* read(location)
      if (Option.isSome(kept)) timed.set(location, { ...location, times: HistoryLine.timesOf(kept.value.record) })
    }
    return timed
  })

/**
 * Returns the records that a batch purges. `isInternal`: whether all are the library's own records. `isIndexed`: whether, in addition,
 * `erased` has all their lines, apart from damaged lines and lines of rolled-back batches.
 */
export const purgedBy = ({ erased, locations }: HistoryLine.Batch) => {
  const records = locations.filter(({ isErased }) => isErased)
  const ofRecord = Arr.groupBy(erased, ({ id, tenant }): string => `${tenant}\n${id}`)
  const linesOf = ({ id, tenant }: Purged[number]): ReadonlyArray<RevisionLocation> =>
    ofRecord[`${tenant}\n${id}`] ?? none
  const files = records.map((record) => filesOf([record, ...linesOf(record)]))
  const isInternalRow = files.every((some) => some.length > 0 && some.every(isInternal))
  return {
    records,
    isInternal: isInternalRow,
    isIndexed: isInternalRow && records.every((record) => linesOf(record).length < revisionsKept)
  }
}

/** Locations of lines in the history file. */
export type Lines = ReadonlyArray<RevisionLocation>
/** Records, each with the offset of the line that purges it; `Infinity` if there is no such line. */
export type Purged = ReadonlyArray<Pick<RevisionLocation, "tenant" | "id" | "offset">>

/**
 * Returns the locations of all lines of these records before their offsets, in the order of the file. An index lacks some of these lines:
 * those of revisions beyond `revisionsKept`, of batches that were rolled back, and damaged ones. Also returns each half-erased line of any
 * record: a process died while it overwrote the line. A damaged line is found only if its id is readable. The lines in `known` come last,
 * also damaged ones. `bytes` is the whole history file. Cost: reads the metadata of each line.
 */
export const linesOf = (
  bytes: Uint8Array,
  records: Purged,
  known: Lines
): Effect.Effect<Lines> =>
  Effect.gen(function*() {
    const paced = EventLoop.pacer()
    const byId: Readonly<Record<string, Purged>> = Arr.groupBy(records, ({ id }): string => id)
    const isPurged = ({ id, tenant }: HistoryLine.Meta, offset: number) =>
      byId[id ?? ""]?.some((one) => (tenant === undefined || one.tenant === tenant) && offset < one.offset) === true
    const found: Array<RevisionLocation> = []
    let at = 0
    for (let end = bytes.indexOf(lineBreak, at); end >= 0; end = bytes.indexOf(lineBreak, at)) {
      const line = bytes.subarray(at, end)
      const { meta, row } = HistoryLine.partsOf(line)
      const isMeant = meta.state === "blank"
        ? row.some((byte) => byte !== space)
        : meta.state !== "erased" && isPurged(meta, at)
      if (isMeant) found.push(HistoryLine.parsedLine(meta, at, line.length + 1, undefined))
      yield* paced(16 + (line.length >> 10))
      at = end + 1
    }
    const offsets = new Set(known.map(({ offset }) => offset))
    return [...found.filter(({ offset }) => !offsets.has(offset)), ...known]
  })

const lineBreak = 10
const space = 32
