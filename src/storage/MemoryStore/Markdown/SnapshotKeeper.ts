/**
 * Keeps a vault's snapshot. Loads it when the vault opens, and saves it when the vault closes. Also saves it soon after the vault was
 * opened without a snapshot, and whenever the saved snapshot is stale, so that a killed process leaves a snapshot too.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import type { MemoryError } from "../../../domain/MemoryError.ts"
import * as EventLoop from "../../../host/EventLoop.ts"
import type { TenantIndex } from "../../TenantIndex.ts"
import * as makeStore from "../internal/makeStore.ts"
import type { Context } from "./Document.ts"
import type { History } from "./History.ts"
import * as Layout from "./Layout.ts"
import { hasSnapshot, readSnapshot, removeSnapshot, writeSnapshot } from "./Snapshot.ts"
import type { Entry } from "./VaultFile.ts"
import type { VaultFileSystem } from "./VaultFileSystem.ts"
import type { VaultState } from "./VaultState.ts"

/** Saves and removes the snapshot of a vault. */
export interface SnapshotKeeper {
  /** Whether a snapshot signed with the vault's key was found. */
  readonly isSigned: boolean
  /**
   * Whether every file is unchanged since the snapshot was saved, and the history has exactly the same revisions. If so, no process
   * has changed the vault since then.
   */
  readonly isUnchanged: () => boolean
  /**
   * Saves a snapshot if enough has changed since the last one. Otherwise does nothing; these changes still count for the next call.
   * Returns false if a record was purged meanwhile: the snapshot may then contain its text, and is removed again.
   */
  readonly save: Effect.Effect<boolean, MemoryError>
  /** Removes the snapshot, which may contain a purged text. The next `save` then saves another one. */
  readonly remove: Effect.Effect<void, MemoryError>
}

/** A new snapshot is saved when more than `least` files, and more than `share` of all files, have changed or are newly indexed. */
const least = 20
const share = 1 / 50

/** A new snapshot is saved once this many bytes were appended to the history, since the next process must read them to open the vault. */
const appended = 4_194_304

/**
 * Fills the state and the history from the snapshot, if there is one. The next scan checks each entry against its file, and the history
 * checks its index against the history file. `isNowhereElse` says whether only the snapshot has a note's record, because the history
 * lacks it. Without the snapshot, renaming such a note would lose the record's id.
 */
export const load = (
  fs: VaultFileSystem,
  context: Context,
  state: VaultState,
  history: History,
  isNowhereElse: (entry: Entry) => boolean
): Effect.Effect<SnapshotKeeper, MemoryError> =>
  Effect.gen(function*() {
    const saving = yield* Effect.makeSemaphore(1)
    const { entries, history: index, indexes, isPlaced, isSigned } = yield* readSnapshot(fs, context)
    let isOfEarlierRelease = index !== undefined && (yield* history.restore(index))
    yield* EventLoop.forEach(entries, 1_024, state.restore)
    for (const [tenant, encoded] of indexes) state.tenantIndex(tenant).restore(encoded)
    const { changed } = state
    const isWhole = isPlaced && history.records() === entries.length
    const isUnchanged = () => isWhole && history.size() === index?.end && changed.size === 0
    let wasThere = entries.length > 0
    const indexed = new WeakSet<TenantIndex>()
    let read = history.size()
    const purgesRead = () => `${history.generation()} ${history.erasures()}`

    const isKept = ({ damage, path }: Entry) => damage === undefined && !Layout.isInternal(path)
    const save = Effect.gen(function*() {
      const tenantIndexes = state.tenants().map((tenant) => [tenant, state.tenantIndex(tenant)] as const)
      const isNew = (tenantIndex: TenantIndex) => tenantIndex.isBuilt() && !indexed.has(tenantIndex)
      const built = tenantIndexes.reduce((sum, [, one]) => isNew(one) ? sum + one.size() : sum, 0)
      const records = tenantIndexes.reduce((sum, [, tenantIndex]) => sum + tenantIndex.size(), 0)
      const news = Array.from(changed.values())
      const grown = Math.abs(history.size() - read)
      const isLost = wasThere && !(yield* hasSnapshot(fs)) // a purge, perhaps of another process, has removed the snapshot
      const isStale = built + news.length > Math.max(least, records * share) ||
        (isLost && records > 0) || grown >= appended || isOfEarlierRelease
      if (!isStale && !news.some((file) => file?._tag === "Entry" && isKept(file) && isNowhereElse(file))) return true
      const index = Option.getOrUndefined(yield* history.index)
      for (const [, tenantIndex] of tenantIndexes) yield* tenantIndex.encodable
      yield* EventLoop.pause
      const purges = purgesRead()
      // taken in one step, since an index must match the records saved with it
      const [paths, files, all] = [Array.from(changed.keys()), Array.from(changed.values()), state.files()]
      const indexes = tenantIndexes.flatMap(([tenant, tenantIndex]) => {
        const encoding = tenantIndex.encoded()
        return encoding === undefined ? [] : [[tenant, encoding] as const]
      })
      const withIndex = tenantIndexes.flatMap(([, tenantIndex]) => tenantIndex.isBuilt() ? [tenantIndex] : [])
      yield* EventLoop.pause
      const entries: Array<Entry> = []
      yield* EventLoop.forEach(all, 4_096, (file) => {
        if (file._tag === "Entry" && isKept(file)) entries.push(file)
      })
      yield* writeSnapshot(fs, context, { entries, history: index, indexes })
      wasThere = true
      yield* history.news(false)
      if (purgesRead() !== purges) return yield* Effect.as(removeSnapshot(fs), false)
      isOfEarlierRelease = false
      yield* EventLoop.forEach(paths.entries(), 2_048, ([n, path]) => {
        if (changed.get(path) === files[n]) changed.delete(path)
      })
      read = index?.end ?? read
      for (const tenantIndex of withIndex) indexed.add(tenantIndex)
      return true
    })
    const remove = Effect.suspend(() => {
      wasThere = true // even if this process has never saved a snapshot, the next `save` saves one
      return removeSnapshot(fs)
    })
    return { isSigned, isUnchanged, save: saving.withPermits(1)(save), remove: saving.withPermits(1)(remove) }
  })

/** Time from opening the vault to the first save of a snapshot, so that the first calls are not delayed. */
const settling = "10 seconds"
/** Shortest time between two saves of a vault that is in use, in milliseconds. */
const spacing = 60_000
/** Pause after a save, as a multiple of the duration of the save, so that saving takes at most a twentieth of the time. */
const rest = 20

/**
 * Runs `save` ten seconds after opening. Each later run waits for a call of the store, and then for a minute, or longer if saves are slow
 * (see `rest`). Logs a failure only at debug level, since without a snapshot the next process just opens the vault more slowly.
 */
export const keep = (
  save: Effect.Effect<void, MemoryError>,
  activity: makeStore.Activity
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
      const calls = yield* makeStore.calls(activity)
      const next = yield* attempt
      return yield* Effect.suspend(() => round(calls, next))
    })
  return Effect.gen(function*() {
    const calls = yield* makeStore.calls(activity)
    yield* Effect.sleep(settling)
    return yield* round(calls, yield* attempt)
  }).pipe(Effect.forkScoped, Effect.asVoid)
}

/** Logs that no snapshot was saved. */
export const unsaved = (error: MemoryError): Effect.Effect<void> => Effect.logDebug("no snapshot", error)
