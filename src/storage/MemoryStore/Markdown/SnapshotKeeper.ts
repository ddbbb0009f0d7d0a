/**
 * Keeps a vault's snapshot: loads it when the vault opens, and saves it when the vault closes, soon after it was opened
 * cold, and as it grows stale, so that a process that is killed leaves one too.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import type { MemoryError } from "../../../domain/MemoryError.ts"
import * as EventLoop from "../../../host/EventLoop.ts"
import * as Activity from "../../Activity.ts"
import type { Catalog } from "../../Catalog.ts"
import type { Disk } from "./Disk.ts"
import type { Context } from "./Document.ts"
import type { History } from "./History.ts"
import * as Layout from "./Layout.ts"
import type { Entry, Mirror } from "./Mirror.ts"
import * as Snapshot from "./Snapshot.ts"

export interface SnapshotKeeper {
  /** Whether a snapshot was found that the vault's key signed. */
  readonly isSigned: boolean
  /**
   * Whether every file is as it was when the snapshot was saved, and the history had all of them and nothing else: then
   * nothing happened while nothing ran.
   */
  readonly isUnchanged: () => boolean
  /** Saves a snapshot unless the last one is fresh enough. Cost where it is: one pass over the entries. */
  readonly save: Effect.Effect<void, MemoryError>
  /** Removes the snapshot, which may have a text that was purged. The next `save` makes another. */
  readonly remove: Effect.Effect<void, MemoryError>
}

/** Changes after which a snapshot is saved anew: more than so many files, and more than this share of all. */
const least = 20
const share = 1 / 50

/** Bytes that were appended to the history for a snapshot to be saved anew: whoever opens the vault reads them. */
const appended = 4_194_304

/**
 * Fills the mirror and the history from the snapshot, if there is one. The next look holds each entry against its file, and
 * the history its index against its own. `isNowhereElse`: whether the history knows nothing of a record, whose id after a
 * rename is then known from the snapshot alone.
 */
export const load = (
  disk: Disk,
  context: Context,
  mirror: Mirror,
  history: History,
  isNowhereElse: (entry: Entry) => boolean
): Effect.Effect<SnapshotKeeper, MemoryError> =>
  Effect.gen(function*() {
    const saving = yield* Effect.makeSemaphore(1)
    const { entries, history: index, indexes, isPlaced, isSigned } = yield* Snapshot.load(disk, context)
    if (index) yield* history.restore(index)
    yield* EventLoop.forEach(entries, 4_096, mirror.restore)
    for (const [tenant, encoded] of indexes) mirror.catalog(tenant).restore(encoded)
    const { changed } = mirror
    const isWhole = isPlaced && history.records() === entries.length
    const isUnchanged = () => isWhole && history.size() === index?.end && changed.size === 0
    let isRemoved = false
    const indexed = new WeakSet<Catalog>()
    let read = history.size()

    const isKept = ({ damage, path }: Entry) => damage === undefined && !Layout.isInternal(path)
    const save = Effect.gen(function*() {
      const catalogs = mirror.tenants().map((tenant) => [tenant, mirror.catalog(tenant)] as const)
      const isNew = (catalog: Catalog) => catalog.isBuilt() && !indexed.has(catalog)
      const built = catalogs.reduce((sum, [, catalog]) => isNew(catalog) ? sum + catalog.size() : sum, 0)
      const records = catalogs.reduce((sum, [, catalog]) => sum + catalog.size(), 0)
      const news = Array.from(changed.values())
      const grown = Math.abs(history.size() - read)
      const isStale = built + (isRemoved ? records : news.length) > Math.max(least, records * share) ||
        grown >= appended
      if (!isStale && !news.some((file) => file?._tag === "Entry" && isKept(file) && isNowhereElse(file))) return
      const index = Option.getOrUndefined(yield* history.index)
      const entries = mirror.entries().filter(isKept)
      const taken = Array.from(changed)
      const snapshot: Snapshot.Snapshot = {
        entries,
        history: index,
        indexes: catalogs.flatMap(([tenant, catalog]) => {
          const encoded = catalog.encoded()
          return encoded === undefined ? [] : [[tenant, encoded] as const]
        })
      }
      const withIndex = catalogs.flatMap(([, catalog]) => catalog.isBuilt() ? [catalog] : [])
      yield* Snapshot.save(disk, context, snapshot)
      isRemoved = false
      for (const [path, file] of taken) if (changed.get(path) === file) changed.delete(path)
      read = index?.end ?? read
      for (const catalog of withIndex) indexed.add(catalog)
    })
    const remove = Effect.zipRight(
      Effect.sync(() => {
        isRemoved = true
      }),
      Snapshot.remove(disk)
    )
    return { isSigned, isUnchanged, save: saving.withPermits(1)(save), remove: saving.withPermits(1)(remove) }
  })

/** From opening to the first save, so that the first questions come first. */
const settling = "10 seconds"
/** Shortest time between two saves of a vault that is in use, in milliseconds. */
const spacing = 60_000
/** How many times as long as a save took the next one waits at least: a twentieth of the time is the most it takes. */
const rest = 20

/**
 * Saves ten seconds after opening, and then, while the store is called, at most once a minute and in at most a twentieth of
 * the time. An unused store saves nothing. A failure is logged at debug level: without a snapshot the next process opens
 * slowly, and no worse.
 */
export const keep = (
  { save }: Pick<SnapshotKeeper, "save">,
  activity: Activity.Activity
): Effect.Effect<void, never, Scope.Scope> => {
  const attempt = Effect.gen(function*() {
    const start = yield* Clock.currentTimeMillis
    yield* Effect.catchAll(save, unsaved)
    return (yield* Clock.currentTimeMillis) - start
  })
  const round = (known: number, took: number): Effect.Effect<never> =>
    Effect.gen(function*() {
      yield* activity.since(known)
      yield* Effect.sleep(Math.max(spacing, rest * took))
      const calls = yield* Activity.calls(activity)
      const next = yield* attempt
      return yield* Effect.suspend(() => round(calls, next))
    })
  return Effect.gen(function*() {
    const calls = yield* Activity.calls(activity)
    yield* Effect.sleep(settling)
    return yield* round(calls, yield* attempt)
  }).pipe(Effect.forkScoped, Effect.asVoid)
}

/** Logs that no snapshot was saved. */
export const unsaved = (error: MemoryError): Effect.Effect<void> => Effect.logDebug("no snapshot", error)
