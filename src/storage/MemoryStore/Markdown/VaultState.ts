/**
 * The state of a vault (a folder of Markdown files) in this process: a list of all files, and one index of records per tenant. A scan of
 * the folder updates the state, and returns the changes. Only a scan or a write of this process removes a record from an index. The list of
 * files, the map from record ids to files, and the indexes always change together.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as MemoryError from "../../../domain/MemoryError.ts"
import type { MemoryId } from "../../../domain/MemoryId.ts"
import type { MemoryRecord } from "../../../domain/MemoryRecord.ts"
import * as EventLoop from "../../../host/EventLoop.ts"
import type { Embeddings } from "../../../ranking/VectorIndex.ts"
import type { Event } from "../../ChangeFeed.ts"
import type { Stored } from "../../MemoryStore.ts"
import * as Revision from "../../Revision.ts"
import * as TenantIndex from "../../TenantIndex.ts"
import type * as Document from "./Document.ts"
import * as FileReader from "./FileReader.ts"
import type { History, RevisionLocation } from "./History.ts"
import { LargeMap } from "./LargeMap.ts"
import * as Layout from "./Layout.ts"
import * as MoveDetection from "./MoveDetection.ts"
import { type Ahead, type Bad, type Entry, type Found, nowhere } from "./VaultFile.ts"
import * as VaultFile from "./VaultFile.ts"
import type { VaultFileSystem } from "./VaultFileSystem.ts"

/** A change that a scan found, with the event for listeners. */
export interface News {
  readonly tenant: string
  readonly event: Event
  /** The entry of the record's file before the change. */
  readonly was?: Entry | undefined
}

/** The files of a vault and their records, as this process last read or wrote them. */
export interface VaultState {
  readonly entry: (tenant: string, id: MemoryId) => Entry | undefined
  /** Returns all known files. Cost: copies the list of files; reads no file. */
  readonly files: () => ReadonlyArray<Entry | Bad>
  /** Returns the known files that are records. Cost: one pass over all known files; reads no file. */
  readonly entries: () => ReadonlyArray<Entry>
  /**
   * The files that have changed since the last saved snapshot, by path; `undefined` for a removed file. Files of internal records are left
   * out, since snapshots do not contain these files. When a snapshot is saved, the saved changes are removed from this map.
   */
  readonly changed: LargeMap<string, Found>
  /** Returns the paths of all files with this record id. If there are several, the first file counts as the record. */
  readonly paths: (tenant: string, id: MemoryId) => ReadonlyArray<string>
  readonly tenantIndex: (tenant: string) => TenantIndex.TenantIndex
  readonly tenants: () => ReadonlyArray<string>
  /** Returns the reason why a file, or a folder above the file, cannot be read at present; `undefined` if there is none. */
  readonly trouble: (path: string) => MemoryError.MemoryError | undefined
  /** Whether any file or folder cannot be read at present. */
  readonly isTroubled: () => boolean
  /**
   * Returns the error of a file that is damaged or not a record; `undefined` if there is no such error. In place of a damaged file, the
   * state has the last good revision.
   */
  readonly issue: (path: string) => MemoryError.MemoryError | undefined
  readonly issues: () => ReadonlyArray<{ readonly path: string; readonly error: MemoryError.MemoryError }>
  /** Sets the entry of a file that this process has written; `undefined` for a removed file. The next scan checks the file. */
  readonly set: (path: string, entry: Entry | undefined) => void
  /** Adds an entry that was read from the snapshot. Called before the first scan. Publishes no change. */
  readonly restore: (entry: Entry) => void
  readonly rowOf: (tenant: string, record: MemoryRecord) => Stored
  /** Scans every file, and returns the changes. Cost: a `stat` of each file. Also reads changed files, and a sample of the others. */
  readonly scan: Effect.Effect<ReadonlyArray<News>, MemoryError.MemoryError>
  /** Makes the entry of an unreadable file from a revision in the history; `undefined` if the revision cannot be read or has no file. */
  readonly lastGood: (
    location: RevisionLocation,
    damage: MemoryError.MemoryError
  ) => Effect.Effect<Entry | undefined, MemoryError.MemoryError>
  /**
   * Scans the files at these paths, and returns the changes. Also scans unknown files if a note is missing, or all files if the history is
   * rewritten meanwhile.
   */
  readonly scanPaths: (paths: ReadonlyArray<string>) => Effect.Effect<ReadonlyArray<News>, MemoryError.MemoryError>
}

const concurrency = 32
/** Largest number of files that are checked between two pauses for the event loop. */
const filesPerPause = 256
/** Largest number of paths that are processed between two pauses for the event loop, in loops that access no file. */
const atATime = 4_096

/** The settings of a vault's state. */
export interface Options extends Document.Context, Omit<TenantIndex.Options, "embeddings"> {
  /** Returns the vectors of a tenant. */
  readonly embeddings: (tenant: string) => Embeddings
  /**
   * Starts a scan. The returned function completes the scan with revisions of the history that are newer than their files (see
   * `VaultFile.Ahead`).
   */
  readonly ahead: Ahead["begin"]
}

/** Makes the state of a vault, which is empty at first. Scans, `set` and `restore` add files. */
export const make = (fs: VaultFileSystem, history: History, context: Options): VaultState => {
  const files = new LargeMap<string, Entry | Bad>()
  // the files of each record id, by tenant and id. The function `better` sorts the files, and the first one counts as the record
  const claims = new Map<string, LargeMap<MemoryId, ReadonlyArray<Entry>>>()
  const tenantIndexes = new Map<string, TenantIndex.TenantIndex>()
  const troubles = new Map<string, MemoryError.MemoryError>()
  /**
   * The time of the last read or write of each file, as a value of the counter `epoch`. If a scan read the file before this time, the
   * result is ignored.
   */
  const touched = new LargeMap<string, number>()
  /** The value of `epoch` when the last finished full scan started. Results that other scans read before this time are ignored. */
  let seen = 0
  const changed = new LargeMap<string, Found>()
  const sampling = VaultFile.makeSampling()
  let hasLooked = false
  let epoch = 0

  const entry = (tenant: string, id: MemoryId): Entry | undefined => claims.get(tenant)?.get(id)?.[0]
  const made = (tenant: string) => TenantIndex.make({ ...context, embeddings: context.embeddings(tenant) })
  const trouble = (path: string) => {
    for (const [at, error] of troubles) if (path === at || path.startsWith(`${at}/`)) return error
    return undefined
  }
  const tenantIndex = (tenant: string): TenantIndex.TenantIndex => {
    const known = tenantIndexes.get(tenant)
    if (known) return known
    const fresh = made(tenant)
    tenantIndexes.set(tenant, fresh)
    return fresh
  }
  const rowOf = (tenant: string, record: MemoryRecord): Stored => Revision.rowOf(context.kinds, tenant, record)

  const set = (path: string, next: Found, at = ++epoch): ReadonlyArray<News> => {
    touched.set(path, at)
    const last = files.get(path)
    if (next === last) return []
    if (!Layout.isInternal(path)) changed.set(path, next)
    if (next) files.set(path, next)
    else files.delete(path)
    if (last?._tag === "Entry" && next?._tag === "Entry" && last.row === next.row) {
      reclaim(next, path, next)
      return next.damage && next.damage.message !== last.damage?.message
        ? [{ tenant: next.tenant, event: { issue: next.damage } }]
        : []
    }
    if (last?._tag === "Bad" && next?._tag === "Bad" && last.error === next.error) return []
    if (last === undefined && next?._tag === "Entry") return reindex(next, path, next)
    const news = [last, next].flatMap((one) => one?._tag === "Entry" ? [one] : [])
      .filter((one, i, all) => i === 0 || all[0]!.tenant !== one.tenant || all[0]!.row.record.id !== one.row.record.id)
      .flatMap((one) => reindex(one, path, next))
    return next?._tag === "Bad"
      ? [...news, {
        tenant: tenantOf(path, [...tenantIndexes.keys(), ...history.tenants()]),
        event: { issue: next.error }
      }]
      : news
  }
  /** Updates the list of files with the record id of `one`, since `path` now has the file `next`. Returns the first file of the list. */
  const reclaim = (one: Entry, path: string, next: Found): Entry | undefined => {
    const { id } = one.row.record
    const ids = claims.get(one.tenant) ?? new LargeMap<MemoryId, ReadonlyArray<Entry>>()
    const others = ids.get(id)?.filter((other) => other.path !== path) ?? none
    const isMine = next?._tag === "Entry" && next.tenant === one.tenant && next.row.record.id === id
    const all = isMine ? others.length === 0 ? [next] : [...others, next].sort(better) : others
    if (all.length > 0) claims.set(one.tenant, ids.set(id, all))
    else ids.delete(id)
    return all[0]
  }
  const reindex = (one: Entry, path: string, next: Found): ReadonlyArray<News> => {
    const { tenant, row: { record: { id } } } = one
    const before = entry(tenant, id)
    const after = reclaim(one, path, next)
    if (before?.row === after?.row) return []
    tenantIndex(tenant).set(id, after?.row)
    const event: Event = { id, before: before?.row.record, after: after?.row.record, by: "there" }
    return [{ tenant, event, was: before }]
  }

  /** Returns the known file at a path if comparing its `stat` is enough. Otherwise returns `undefined`, and the file must be read. */
  const fileForStatCheck = (path: string, { sampled, listed }: Scan): Entry | Bad | undefined => {
    const known = files.get(path)
    return listed.has(path) && known?.settled && !troubles.has(path) && !sampled.has(path) && !reader.isBehind(known)
      ? known
      : undefined
  }
  /** Reads the file at a path if it may have changed, and adds it to the findings. */
  const inspect = (path: string, scan: Scan, findings: Findings) => {
    const known = fileForStatCheck(path, scan)
    const anew = () => {
      findings.times.set(path, ++epoch)
      return Effect.map(examined(path, scan.listed.has(path), findings), (file) => void findings.found.set(path, file))
    }
    return known === undefined ? anew() : fs.ifChanged(path, known.stat, anew)
  }
  const reader = FileReader.make(fs, history, context, { entry, file: (path) => files.get(path), rowOf })
  /** Reads a file. If reading fails, returns the last known state of the file, since the file may still exist. */
  const examined = (path: string, listed: boolean, { unread }: Findings): Effect.Effect<Found> =>
    reader.examine(path, listed).pipe(
      Effect.tap(() => Effect.sync(() => troubles.delete(path))),
      Effect.catchAll((error) => {
        unread.add(path)
        troubles.set(path, error)
        return Effect.succeed(files.get(path))
      })
    )

  const listFiles = VaultFile.listFiles(fs, (folder, error) => {
    troubles.set(folder, error)
    return Array.from(files.keys()).filter((known) => known.startsWith(`${folder}/`))
  })
  const inspectAll = (paths: ReadonlyArray<string>, scan: Scan, findings: Findings) =>
    Effect.gen(function*() {
      const left: Array<string> = []
      yield* EventLoop.forEach(paths, filesPerPause, (path) => {
        const known = fileForStatCheck(path, scan)
        if (known === undefined || !fs.isAsBefore(path, known.stat)) left.push(path)
      })
      let next = 0
      const worker = Effect.whileLoop({
        while: () => next < left.length,
        body: () => inspect(left[next++]!, scan, findings), // `next` is less than `left.length` here
        step: () => undefined
      })
      yield* Effect.replicateEffect(worker, concurrency, { concurrency, discard: true }) // a fiber for each file would cost more
    })
  /**
   * Detects moved notes, and returns their new entries. If a note is missing, all files are listed again. The note may have moved to a
   * folder that this scan had already listed.
   */
  const followMoves = (findings: Findings, { isFirstScan }: Scan) =>
    Effect.gen(function*() {
      const { found } = findings
      const absent: Array<Entry> = []
      yield* EventLoop.forEach(found, atATime, ([path, file]) => {
        const known = file === undefined ? files.get(path) : undefined
        if (known?._tag === "Entry") absent.push(known)
      })
      const isKnown = (path: string) => files.has(path) || found.get(path) !== undefined || trouble(path) !== undefined
      const missing = yield* MoveDetection.findMissing(context, history, absent, isFirstScan ? isKnown : undefined)
      if (missing.length === 0) return []
      const listed = (yield* listFiles).filter((path) => !found.has(path) && !files.has(path))
      yield* inspectAll(listed, { ...named, isFirstScan, listed: new Set(listed) }, findings)
      const moved = yield* MoveDetection.find(
        { context, fs, history, reader },
        missing,
        found,
        (path) => files.get(path)
      )
      for (const entry of moved) found.set(entry.path, entry)
      return moved
    })

  const scanPaths = (paths: ReadonlyArray<string>, scan: Scan = named): ReturnType<VaultState["scanPaths"]> =>
    Effect.gen(function*() {
      const began = ++epoch
      const findings: Findings = { found: new Map(), times: new Map(), unread: new Set() }
      const { found, times, unread } = findings
      const complete = context.ahead()
      const isComplete = complete({
        isFirstScan: scan.isFirstScan,
        ...{ found, unread },
        known: (path) => files.get(path),
        confirm: (path) => times.set(path, ++epoch)
      })
      reader.begin()
      yield* inspectAll(paths, scan, findings)
      if (!(yield* isComplete)) return yield* scanAll(scan.isFirstScan)
      const completed = found.size
      const moved = yield* followMoves(findings, scan)
      if (found.size > completed && !(yield* isComplete)) return yield* scanAll(scan.isFirstScan)
      const news: Array<News> = []
      const applyFinding = (path: string) => {
        if (!found.has(path)) return
        const at = times.get(path) ?? began
        if (Math.max(touched.get(path) ?? 0, seen) > at) return // a later scan or write has newer information about the file
        news.push(...set(path, found.get(path), at))
      }
      // applies moves first, so that the new file of a moved record is set before its old file is removed
      const order = new Set(moved.map(({ path }) => path))
      yield* EventLoop.forEach(paths, atATime, (path) => {
        if (found.has(path)) order.add(path)
      })
      yield* EventLoop.forEach(Array.from(found.keys()), atATime, (path) => order.add(path))
      // the first scan may pause. Later scans apply all changes at once, since other fibers already read the state
      const stretch = scan.isFirstScan ? 64 : Infinity
      yield* EventLoop.forEach(order, stretch, applyFinding)
      if (scan.isWhole) seen = Math.max(seen, began)
      return news
    })

  const scanAll = (isFirstScan: boolean): VaultState["scan"] =>
    Effect.gen(function*() {
      troubles.clear()
      const known = Array.from(files.keys())
      const paths = Array.from(yield* listFiles)
      const listed = new Set<string>()
      yield* EventLoop.forEach(Array.from(paths), atATime, (path) => listed.add(path))
      const sampled = sampling.next(known, yield* Clock.currentTimeMillis)
      yield* EventLoop.forEach(known, atATime, (path) => {
        if (!listed.has(path)) paths.push(path)
      })
      return yield* scanPaths(paths, { isFirstScan, isWhole: true, sampled, listed })
    })

  return {
    entry,
    files: () => Array.from(files.values()),
    entries: () => Array.from(files.values()).filter((file) => file._tag === "Entry"),
    changed,
    paths: (tenant, id) => (claims.get(tenant)?.get(id) ?? none).map(({ path }) => path),
    tenantIndex: (tenant) => tenantIndexes.get(tenant) ?? made(tenant),
    tenants: () => Array.from(tenantIndexes).flatMap(([tenant, { size }]) => size() > 0 ? [tenant] : []),
    trouble,
    isTroubled: () => troubles.size > 0,
    issue: (path) => {
      const file = files.get(path)
      return file?._tag === "Bad" ? file.error : file?.damage
    },
    issues: () =>
      [
        ...Array.from(files.values()).flatMap((file) => {
          const error = file._tag === "Bad"
            ? file.error
            : file.damage ?? (file.issues && VaultFile.corrupt(file.path, file.issues.join("; ")))
          return error ? [{ path: file.path, error }] : []
        }),
        ...Array.from(claims.values()).flatMap((ids) => Array.from(ids.values())).flatMap(([best, ...rest]) =>
          rest.map(({ path }) => ({ path, error: VaultFile.corrupt(path, `the same id as ${best!.path}`) }))
        ),
        ...Array.from(troubles, ([path, error]) => ({ path, error }))
      ].map(({ error, path }) => ({ path, error })),
    set,
    restore: (entry) => {
      files.set(entry.path, entry)
      const isBest = reclaim(entry, entry.path, entry) === entry
      if (isBest) tenantIndex(entry.tenant).set(entry.row.record.id, entry.row)
    },
    rowOf,
    scan: Effect.suspend(() => {
      const isFirstScan = !hasLooked
      hasLooked = true
      return scanAll(isFirstScan)
    }),
    lastGood: (location, damage) =>
      location.path === null
        ? Effect.succeed(undefined)
        : reader.lastGood(location.path, location, { stat: nowhere, settled: false, hash: "", damage }),
    scanPaths: (paths) => scanPaths(paths)
  }
}

const none: ReadonlyArray<Entry> = []

/** The settings of a scan. */
interface Scan {
  /** Files that were found by listing folders from the root. No folder above such a file is a symbolic link. */
  readonly listed: ReadonlySet<string>
  /** Files that are read even if their `stat` is unchanged. */
  readonly sampled: ReadonlySet<string>
  /** Whether this is the first scan. The first scan may apply its changes in steps, since nobody reads the state yet. */
  readonly isFirstScan: boolean
  /** Whether the scan covers every file of the vault. */
  readonly isWhole: boolean
}
/**
 * The result of a scan so far. `times` has the value of the counter `epoch` when each file was last read or confirmed (see `PendingScan`).
 */
interface Findings {
  /** Files that could not be read. `found` has their last known state. */
  readonly unread: Set<string>
  readonly found: Map<string, Found>
  readonly times: Map<string, number>
}
const named: Scan = { listed: new Set(), sampled: new Set(), isFirstScan: false, isWhole: false }

/**
 * Compares two files with the same record id, for sorting. The first file counts as the record. Four criteria apply in this order: the
 * canonical path, a valid signature, the later revision, the smaller path.
 */
const better = (a: Entry, b: Entry): number =>
  Number(isCanonical(b)) - Number(isCanonical(a)) || Number(b.signed) - Number(a.signed) ||
  b.row.record.revision - a.row.record.revision || (a.path < b.path ? -1 : 1)
const isCanonical = ({ path, row, tenant }: Entry): boolean =>
  path === Layout.pathOf(tenant, row.record.scope, row.record.id)

/**
 * Returns the tenant whose folder contains a file. Ignores the tenant that the file's text states. If the folder's name is a hash, looks
 * for the tenant in `known`. Returns the folder's name if no tenant in `known` matches.
 */
const tenantOf = (path: string, known: Iterable<string>): string => {
  const folder = Layout.parsePath(path).tenant
  if (folder === undefined) return "default"
  return Layout.idOf(folder) ?? Array.from(known).find((tenant) => Layout.encodes(folder, tenant)) ?? folder
}
