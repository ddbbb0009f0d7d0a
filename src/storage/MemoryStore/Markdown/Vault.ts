/**
 * An open vault. It reads the vault's folder, and lets only one process write at a time. `MarkdownStore` makes a store of the vault.
 *
 * A write takes the vault's lock, and appends a batch of revisions to the history. The revisions are then durable. Next, the write replaces
 * the `.md` files. If the process dies in between, the next holder of the lock completes the batch. This holder writes each file that is
 * missing, is incomplete or still has the old text. A file with any other text was edited by hand. This text becomes the next revision.
 */
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { sign } from "../../../domain/Digest.ts"
import * as MemoryError from "../../../domain/MemoryError.ts"
import type { MemoryKind } from "../../../domain/MemoryKind.ts"
import { hashOf } from "../../../domain/MemoryRecord.ts"
import * as EventLoop from "../../../host/EventLoop.ts"
import type * as Analyzer from "../../../ranking/Analyzer.ts"
import { TenantEmbeddings } from "../../../ranking/VectorIndex.ts"
import * as ChangeFeed from "../../ChangeFeed.ts"
import type { VectorBackend, Write } from "../../MemoryStore.ts"
import * as Commit from "./Commit.ts"
import * as Document from "./Document.ts"
import * as History from "./History.ts"
import * as Layout from "./Layout.ts"
import * as Lock from "./Lock.ts"
import { isLost, lost } from "./Lock.ts"
import { filesOf, purgedBy } from "./RevisionIndex.ts"
import * as RevisionReader from "./RevisionReader.ts"
import * as Snapshot from "./Snapshot.ts"
import * as VaultFile from "./VaultFile.ts"
import { type Entry, isNote, unsealed as unsealedIssue } from "./VaultFile.ts"
import type { VaultFileSystem } from "./VaultFileSystem.ts"
import * as VaultManifest from "./VaultManifest.ts"
import * as VaultState from "./VaultState.ts"
import * as VectorFile from "./VectorFile.ts"
import * as WritePlan from "./WritePlan.ts"

type Io<A> = Effect.Effect<A, MemoryError.MemoryError>

/** An open vault. */
export interface Vault {
  readonly context: Document.Context
  readonly state: VaultState.VaultState
  readonly history: History.History
  readonly changeFeed: ChangeFeed.ChangeFeed
  readonly revisions: RevisionReader.RevisionReader
  readonly tenants: Io<ReadonlyArray<string>>
  readonly exclusive: <A>(self: Io<A>) => Io<A>
  /** Writes a batch of changes to records. Must be called within `exclusive`, which takes the vault's lock. */
  readonly commit: (tenant: string, writes: ReadonlyArray<Write>) => Io<void>
  /**
   * Queues a writer: an effect that reads only the records and dedupe keys in its `Commit.About`. The writer runs when its turn comes, and
   * may call `groupCommit` once. The batch of this call is written together with the batches of other writers.
   */
  readonly enqueue: Commit.Writers["enqueue"]
  readonly groupCommit: (tenant: string, writes: ReadonlyArray<Write>) => Io<void>
  readonly vectorBackend: VectorBackend
  /** The signing key of `MemoryStore.sign`. This key is derived from the vault's key, so signatures stay valid after a restart. */
  readonly secret: string
  /** Returns an issue if the vault was opened without its hidden folder, and its records are not adopted yet. */
  readonly unsealed: () => ReadonlyArray<{ readonly path: string; readonly error: MemoryError.MemoryError }>
  /** Reads what other processes appended to the history, and scans every file of the vault. */
  readonly refresh: Io<void>
  /** Reads what other processes appended to the history, and scans the files that the new lines name. Scans all files after a rewrite. */
  readonly follow: Io<void>
  /** Syncs written files, and notes this in the history. Does nothing if this process wrote no file since the last call. */
  readonly checkpoint: Io<void>
  /** Makes a checkpoint if files may be unsynced, and saves the snapshot if enough has changed. */
  readonly save: Io<void>
}

/** Number of revisions with unsynced files above which a writer first makes a checkpoint. These revisions are safe in the history. */
const waiting = 256

/** Largest number of files or records that are processed before the event loop runs. */
const atATime = 2_048

/** Opens the vault of a folder, and completes the batches of processes that died. */
export const open = (
  fs: VaultFileSystem,
  { analyzer, kinds, notes }: {
    readonly analyzer: Analyzer.Service
    readonly kinds: ReadonlyMap<string, MemoryKind>
    readonly notes?: "whole" | undefined
  },
  lockTimeout: Duration.Duration
): Effect.Effect<Vault, MemoryError.MemoryError, Scope.Scope> =>
  Effect.gen(function*() {
    yield* fs.within(`${Layout.hidden}/history`) // the history is written in place, so no folder above it may be a link
    if (yield* fs.isLink(`${Layout.hidden}/history`)) {
      return yield* MemoryError.make("path_escape", { op: "open", message: "the history is a link" })
    }
    const lock = yield* Lock.make(fs, lockTimeout)
    const manifest = yield* VaultManifest.open(fs, lock, kinds)
    const { key } = manifest
    const history = History.make(fs)
    const sweep = Lock.cleanUpTempFiles(fs, lockTimeout)
    const context: Document.Context = { key, kinds, notes: manifest.notes === "whole" ? manifest.notes : notes }
    const embeddings = new TenantEmbeddings()
    const state = VaultState.make(fs, history, {
      ...context,
      analyzer,
      embeddings: (tenant) => embeddings.of(tenant),
      ahead: () => ahead.begin()
    })
    const ahead = VaultFile.makeAhead(history, { lastReadBatch: () => lastReadBatch, rowOf: state.rowOf })
    const changeFeed = ChangeFeed.make()
    const { unreadFiles } = history
    /** Batches whose files could not be written, with the earlier content of these files. These batches must be rolled back. */
    const failed = new Map<History.Batch, WritePlan.Before>()
    /** Whether this process has written files since the last call of `Vault.checkpoint`. */
    let isWritten = false
    /** Sequence number of the last batch whose files this process has written or found on disk. */
    let lastReadBatch = 0
    /** Pending batches for which `catchUp` has checked whether their purged texts are erased. */
    const checkedPurges = new WeakSet<History.Batch>()
    /** Generation of the history (a counter of its rewrites) at the last scan of all files, or after this process's own last rewrite. */
    let readGeneration = 0
    /** Batches that purged texts, by sequence number. The texts are still in the history, because overwriting them failed. */
    const pendingErasures = new Map<number, readonly [batch: History.Batch, isPurge: boolean]>()
    const guard = Effect.flatMap(lock.isOurs, (ours) => ours ? Effect.void : lost)
    const publish = (news: ReadonlyArray<VaultState.News>) =>
      Effect.forEach(news, ({ event, tenant }) => changeFeed.publish(tenant, [event]), { discard: true })

    /** Appends the missing revisions of the records in `about` to the history. If `locked` is false, first takes the lock, and scans. */
    const complete = (about: Effect.Effect<Iterable<RevisionReader.Touched>>, locked: boolean): Io<void> =>
      Effect.flatMap(Effect.flatMap(about, (all) => RevisionReader.missingRevisions(state, history, all)), (parts) => {
        if (parts.length === 0) return Effect.void
        if (locked) return Effect.asVoid(history.append(parts))
        const paths = parts.flatMap(({ id, path, tenant }) => path ?? history.newest(tenant, id)?.path ?? [])
        const again = Effect.flatMap(state.scanPaths(Array.from(new Set(paths))), publish)
        return exclusive(Effect.zipRight(again, complete(about, true)))
      })
    /** Appends edits by hand to the history. Only logs a failure, since the edits are already in the vault's state in RAM. */
    const record = (news: ReadonlyArray<VaultState.News>, locked: boolean) =>
      Effect.catchAll(
        complete(Effect.succeed(RevisionReader.touched(news)), locked),
        (error) => Effect.logWarning("an edit by hand is not in the history yet", error)
      )
    const publishScan = (scan: Io<ReadonlyArray<VaultState.News>>, locked: boolean): Io<void> =>
      Effect.gen(function*() {
        const news = yield* scan
        yield* publish(news)
        yield* record(news, locked)
      })

    /** Reads what other processes appended to the history, and scans the files that the new lines name; all files after a rewrite. */
    const follow = (locked: boolean): Io<void> =>
      Effect.flatMap(history.news(locked), () => isUpToDate() ? Effect.void : readAppended(locked))
    /** Whether this process has read the files of all batches. False if another process rewrote the history since the last full scan. */
    const isUpToDate = () =>
      history.generation() === readGeneration && history.isThere() && unreadFiles.size === 0 &&
      history.pending().every(({ number }) => number <= lastReadBatch)
    const readAppended = (locked: boolean): Io<void> =>
      Effect.gen(function*() {
        const isRenewed = history.generation() !== readGeneration
        if (isRenewed) {
          lastReadBatch = 0
          pendingErasures.clear() // the rewritten history has no purged lines
        }
        if (locked && !history.isThere()) yield* startHistory
        if (locked) yield* rollForward
        const generation = history.generation()
        const unread = Array.from(unreadFiles)
        const pending = new Set(history.pending().map(({ number }) => number))
        const paths = unread.map(([path]) => path).filter(Layout.isRecord)
        if (isRenewed) yield* publishScan(state.scan, locked)
        else if (paths.length > 0) yield* publishScan(state.scanPaths(paths), locked)
        // a person may have put back an older copy of the history. The files then have revisions that this copy lacks
        if (isRenewed && history.isThere()) yield* complete(changedRecords, locked)
        if (isRenewed) readGeneration = generation
        for (const [path, batch] of unread) {
          const isSeen = isRenewed ? !ahead.has(path) : !Layout.isRecord(path) || matchesHistory(path, pending)
          if (isSeen && unreadFiles.get(path) === batch) unreadFiles.delete(path)
        }
        const isUnread = (file: string) => unreadFiles.has(file)
        const isWriting = ({ after, before, removed }: History.RevisionLocation) =>
          before !== after || removed.length > 0
        for (const { isOurs, number, locations } of history.pending()) {
          if (number <= lastReadBatch) continue
          // the callback `written` below sets `lastReadBatch` for our writes
          if (isOurs ? locations.some(isWriting) : filesOf(locations).some(isUnread)) break
          lastReadBatch = number
        }
      })
    /** Whether a file has the content of its newest revision. That is compared only if the revision's batch is one of `pending`. */
    const matchesHistory = (path: string, pending: ReadonlySet<number>) => {
      if (ahead.has(path)) return false
      const location = history.at(path)
      return location === undefined || !pending.has(location.batch) ||
        state.entry(location.tenant, location.id)?.hash === location.after
    }

    const print: WritePlan.Print = (path, tenant, kept) => WritePlan.print(context, path, tenant, kept)
    /** Whether all history lines of a batch were overwritten. A writer does so to roll a batch back while the disk is full. */
    const isBlanked = ({ locations }: History.Batch): Io<boolean> =>
      Effect.map(Effect.findFirst(locations, history.isWhole), (whole) => locations.length > 0 && whole._tag === "None")
    /** Writes the files of batches whose writer died. Needs the vault's lock. */
    const rollForward: Io<void> = Effect.suspend(() =>
      Effect.forEach(history.pending().filter(({ number }) => number > lastReadBatch), (batch) =>
        Effect.gen(function*() {
          if (yield* isBlanked(batch)) return yield* history.undo(batch)
          for (const location of batch.locations) {
            yield* WritePlan.writeFiles(fs, history, print, location, batch.erased)
          }
          lastReadBatch = batch.number
          yield* erasePurged(batch)
        }), { discard: true })
    )
    /** Rolls back the failed batches. Must run before a checkpoint, which states that the files of all batches are on disk. */
    const rollBackFailed: Io<void> = Effect.suspend(() => failed.size === 0 ? Effect.void : rollBackAll)
    const rollBackAll: Io<void> = Effect.gen(function*() {
      yield* history.rollBackFailed
      for (const [batch, before] of failed) {
        // restores the files only if the batch is still pending. Otherwise another process has synced the files or replaced the history
        if (history.pending().includes(batch)) yield* WritePlan.rollBack(fs, batch.locations, before)
        yield* history.undo(batch)
        failed.delete(batch)
      }
    })
    /** Syncs the files of pending batches, and notes this in the history. Skipped while erasures are pending. Needs the vault's lock. */
    const checkpoint: Io<void> = Effect.flatMap(rollBackFailed, () => {
      const locations = history.pending().flatMap((batch) => batch.locations)
      if (locations.length === 0) return history.rollBackFailed
      if (pendingErasures.size > 0) return Effect.void
      return Effect.zipRight(fs.force(filesOf(locations)), history.checkpoint)
    })
    /** Brings state and history up to date. Needs the vault's lock. A failure becomes `lost` if another process has taken over the lock. */
    const catchUp: Io<void> = Effect.gen(function*() {
      yield* rollBackFailed
      yield* follow(true)
      for (const [batch, isPurge] of Array.from(pendingErasures.values())) yield* erasePurged(batch, isPurge)
      for (const batch of history.pending().filter((batch) => !checkedPurges.has(batch))) {
        const last = batch.isOurs ? undefined : batch.erased.at(-1) // still there, if the writer died before it erased the texts
        if (last !== undefined && !(yield* history.isErased(last))) yield* erasePurged(batch)
        checkedPurges.add(batch)
      }
      yield* sweep(guard)
      if (history.pending().reduce((sum, { locations }) => sum + locations.length, 0) > waiting) yield* checkpoint
      const generation = history.generation()
      yield* history.compact
      if (history.generation() !== generation) {
        pendingErasures.clear()
        readGeneration = history.generation()
      }
    }).pipe(Effect.tapError(() => guard))
    /** Writes batches. If one purges a record that is in a pending batch of several revisions, first tries to make a checkpoint. */
    const write = (batches: ReadonlyArray<Commit.Prepared>) => {
      const purges = batches.filter(({ isSeparate }) => isSeparate)
      const isPurged = ({ id, tenant }: History.RevisionLocation) =>
        purges.some((batch) => batch.tenant === tenant && batch.ids.has(id))
      const isNeeded = purges.length > 0 &&
        history.pending().some(({ locations }) => locations.length > 1 && locations.some(isPurged))
      return Effect.zipRight(isNeeded ? Effect.option(checkpoint) : Effect.void, commits.write(batches))
    }
    const writers = yield* Commit.makeWriters(lock, {
      catchUp,
      write: (batches) => Effect.suspend(() => write(batches))
    })
    const exclusive = writers.exclusive

    /** Snapshot entries of files that changed after the snapshot was saved, by tenant and id. Empty once the vault is open. */
    const snapshotEntries = new Map<string, Entry>()
    const changedRecords = RevisionReader.changedRecords(state, history, snapshotEntries)
    /**
     * Writes a history for a vault that has none. The history gets the current state of each record. Notes that are unchanged since their
     * first read are left out. In a vault of the old format 1, the revisions in that format's files are also moved to the history.
     */
    const startHistory: Io<void> = Effect.gen(function*() {
      const missing = yield* RevisionReader.missingRevisions(state, history, yield* changedRecords)
      yield* history.renew(yield* RevisionReader.migratedParts(fs, state, missing))
      readGeneration = history.generation()
      yield* RevisionReader.discardFormat1(fs)
    })

    const commits = Commit.make({
      ...{ context, fs, guard, history, state, isOurs: lock.isOurs },
      publishScan: (scan) => Effect.zipRight(writers.writePending, publishScan(scan, true)),
      rollBack: (batch, before) =>
        Effect.suspend(() => {
          failed.set(batch, before)
          return Effect.zipRight(guard, rollBackFailed)
        }),
      isClean: () => failed.size === 0 && !history.hasFailedAppend(),
      erasePurged: (batch, isPurge) => erasePurged(batch, isPurge),
      written: (batch) => {
        lastReadBatch = Math.max(lastReadBatch, batch?.number ?? 0)
        isWritten = true
      },
      removeSnapshot: Effect.suspend(() => snapshot.remove)
    })
    /** Erases the purged texts of a batch from the history and the snapshot. Tries again later if this fails. */
    const erasePurged = (batch: History.Batch, isPurge = false) =>
      batch.locations.every(({ isErased }) => !isErased)
        ? Effect.void
        : Effect.matchEffect(overwriteLines(batch, isPurge), {
          onSuccess: () => Effect.sync(() => pendingErasures.delete(batch.number)),
          onFailure: (error) => {
            if (isLost(error)) return Effect.void // the process that took over the lock erases these texts itself
            pendingErasures.set(batch.number, [batch, isPurge])
            return Effect.logWarning("a purged text is still in the history", error)
          }
        })
    /**
     * Overwrites the history lines of purged records, and removes the snapshot if it may contain their texts. The lines that the index knew
     * are overwritten last. Another process looks at the last of them to see whether the erasure is complete.
     */
    const overwriteLines = (batch: History.Batch, isPurge: boolean): Io<void> =>
      Effect.gen(function*() {
        const { isIndexed, isInternal, records } = purgedBy(batch)
        const lines = isIndexed && !isPurge ? batch.erased : yield* history.linesOf(records, batch.erased)
        const pending = new Set(history.pending().map(({ number }) => number))
        if (lines.some(({ batch, parts }) => parts > 1 && pending.has(batch))) yield* checkpoint
        if (!isInternal) yield* WritePlan.removeDamaged(fs, records.map(({ id }) => id))
        yield* history.erase(lines, batch.generation)
        if (isPurge || !isInternal) yield* snapshot.remove // snapshots contain no internal records
      })

    const revisions = RevisionReader.make(history, state, () => lastReadBatch)
    const snapshot = yield* Snapshot.load(
      fs,
      context,
      state,
      history,
      {
        isUpToDate,
        isNowhereElse: ({ path, row: { record: { id } }, tenant }) =>
          isNote(context, path) && history.newest(tenant, id) === undefined
      }
    )
    if (!snapshot.isSigned) yield* VaultManifest.confirm(fs, manifest, kinds) // a snapshot with a valid signature confirms the key
    yield* history.news(false)
    if (history.pending().length > 0 || (yield* RevisionReader.hasFormat1(fs))) {
      yield* lock.withLock(Effect.zipRight(
        RevisionReader.recoverFormat1(fs, key),
        Effect.zipRight(
          Effect.asVoid(history.news(true)),
          Effect.suspend(() => history.isThere() ? rollForward : Effect.void)
        )
      ))
    }
    readGeneration = history.generation()
    yield* EventLoop.forEach(yield* state.scan, atATime, ({ event, tenant, was }) => {
      const key = "issue" in event ? "" : `${tenant}/${event.id}`
      if (was !== undefined && !snapshotEntries.has(key)) snapshotEntries.set(key, was)
    })
    yield* EventLoop.forEach(Array.from(unreadFiles.keys()), atATime, (path) => {
      if (!ahead.has(path)) unreadFiles.delete(path) // the scan has just read this file
    })
    const tenants = state.isTroubled() ? history.tenants() : []
    for (const location of tenants.flatMap((tenant) => Array.from(history.all(tenant)))) {
      const error = location.forgotten || location.path === null ? undefined : state.trouble(location.path)
      if (error === undefined || state.entry(location.tenant, location.id)) continue
      const kept = yield* state.lastGood(location, error)
      if (kept) state.set(kept.path, kept)
    }
    const isFresh = !history.isThere() && manifest.foreign === true &&
      state.entries().some(({ isSealed, signed }) => isSealed && !signed)
    if (!history.isThere()) yield* exclusive(Effect.void)
    else if (!snapshot.isUnchanged()) yield* complete(changedRecords, false)
    snapshotEntries.clear()

    return {
      context,
      state,
      history,
      changeFeed,
      revisions,
      tenants: Effect.sync(() => Array.from(new Set([...state.tenants(), ...history.tenants()]))),
      exclusive,
      commit: (tenant, writes) =>
        commits.prepare(tenant, writes).pipe(
          Effect.flatMap((batch) => write([batch])),
          Effect.flatMap(([outcome]) => outcome ?? Effect.void),
          Effect.uninterruptible
        ),
      enqueue: writers.enqueue,
      groupCommit: (tenant, writes) => writers.commit(commits.prepare(tenant, writes)),
      unsealed: () => {
        const foreign = isFresh ? state.entries().filter(({ isSealed, signed }) => isSealed && !signed).length : 0
        return foreign === 0 ? [] : [unsealedIssue(foreign)]
      },
      secret: sign(key, "the secret of the store"), // not `key` itself: a file's signature must not be valid as a signature of the store
      vectorBackend: VectorFile.make(fs, embeddings, exclusive, () =>
        state.tenants().map((tenant) => [tenant, new Set(state.tenantIndex(tenant).records().map(hashOf))])),
      refresh: Effect.zipRight(Effect.asVoid(follow(false)), publishScan(state.scan, false)),
      follow: follow(false),
      // a checkpoint that fails is retried after the next write, or by `save`: this process must go on reading what others write
      checkpoint: Effect.suspend(() => {
        const isNeeded = isWritten
        isWritten = false
        return isNeeded ? exclusive(checkpoint) : Effect.void
      }),
      save: Effect.gen(function*() {
        yield* follow(false)
        yield* Effect.when(exclusive(checkpoint), () =>
          history.pending().length > 0 || history.hasFailedAppend())
        return yield* snapshot.save
      }).pipe(Effect.repeat({ until: Boolean, times: 2 }), Effect.asVoid)
    }
  })
