/**
 * The lock of a vault, which lets only one process write. It is a file that is created exclusively, to which the holder writes a heartbeat.
 * A process that finds the file unchanged for `timeout`, measured by its own clock, steals the lock. If several processes try, a rename
 * lets only one succeed. A process holds the lock as long as the lock file has the same inode as the file that the process has open. Before
 * a thief takes the lock, it fences the holder, that is, moves away the folder of the holder's temporary files (`Layout.stagingFolderOf`).
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import * as MemoryError from "../../../domain/MemoryError.ts"
import * as EventLoop from "../../../host/EventLoop.ts"
import { hidden, internal, isTemporary } from "./Layout.ts"
import type { LockFile, VaultFileSystem } from "./VaultFileSystem.ts"

/** The lock of a vault. */
export interface Lock {
  /**
   * Runs an effect while holding the lock. Waits for the lock while `isWanted` returns true (default: always). Fails with `unavailable` if
   * `isWanted` returns false, or if the same holder, still alive, has kept the lock for twenty timeouts.
   */
  readonly withLock: <A, E>(
    self: Effect.Effect<A, E>,
    isWanted?: () => boolean
  ) => Effect.Effect<A, E | MemoryError.MemoryError>
  /** Whether this process still holds the lock. Checked before writes that cannot be rolled back. */
  readonly isOurs: Effect.Effect<boolean, MemoryError.MemoryError>
}

const file = `${hidden}/lock`
/** Largest number of heartbeats while the lock is held once (a session): enough for nine hours with a timeout of 0.1 seconds. */
const perSession = 1_000_000
/** Time between two attempts to lock while another process holds the lock. */
const wait = Duration.millis(5)
/**
 * Number of timeouts after which a waiter gives up, because one holder is alive and does not release the lock. Each new holder starts the
 * count again.
 */
const patience = 20

/** Monotonic time in milliseconds, so that a change of the system time does not make a lock look old. */
const monotonic = Effect.map(Clock.currentTimeNanos, (nanos) => Number(nanos / 1_000_000n))

/** Makes the lock of a folder. `timeout` is the time without a heartbeat after which a lock may be stolen. */
export const make = (fs: VaultFileSystem, timeout: Duration.Duration): Effect.Effect<Lock, never, Scope.Scope> =>
  Effect.gen(function*() {
    const queue = EventLoop.makeSerialQueue()
    let held: LockFile | undefined
    let thefts = 0
    let sessions = 0
    /**
     * Returns the content of the lock file: the id of this process, and a number made of the session and the heartbeats so far. The session
     * is included, since the lock file may have the inode of the previous session's file and, on a disk with coarse times, its mtime, too.
     */
    const textOf = (beats: number) => `${fs.writerId} ${sessions * perSession + beats}`

    const look = (path: string) =>
      Effect.gen(function*() {
        const found = yield* fs.stat(path)
        if (Option.isNone(found)) return (yield* fs.isLink(path)) ? "a link to nothing" : undefined
        const { ino, mtime, type } = found.value
        // reads only a regular file, since reading a pipe or device may never end
        const text = type === "File" ? yield* fs.readLoose(path) : Option.some(type)
        return Option.isNone(text) ? undefined : `${text.value}/${ino}/${mtime}`
      })

    const steal = (seen: string) =>
      Effect.gen(function*() {
        if ((yield* look(file)) !== seen) return
        const aside = `${file}.${fs.writerId}.${++thefts}` // numbered, since a folder from an earlier theft may still be there
        // fences the holder first (moves away its temporary files). Otherwise the holder might resume, and overwrite files that the
        // next holder has written
        yield* fs.fence(ownerIn(seen))
        if (yield* fs.move(file, aside)) {
          // the moved lock may be that of a process that was faster; it is put back, unless yet another process has created a lock
          // meanwhile
          if ((yield* look(aside)) !== seen) yield* fs.link(aside, file)
          yield* Effect.catchAll(
            fs.remove(aside, { force: false }),
            // a folder may have been in place of the lock file; `remove` fails on it
            (error) => Effect.logWarning("what lay in place of the vault's lock cannot be removed", error)
          )
        }
      })

    const acquire = (
      restore: <A, E>(self: Effect.Effect<A, E>) => Effect.Effect<A, E>,
      isWanted: () => boolean
    ) =>
      Effect.gen(function*() {
        let seen: string | undefined
        let since = 0
        /** Time at which the current holder was first seen. */
        let first = Infinity
        sessions++
        for (;;) {
          const claim = yield* fs.claim(file, textOf(0))
          if (Option.isSome(claim)) {
            // the lock is a link to a file in this process's staging folder; so the folder exists, and a thief of the lock can move it away
            if (claim.value.isFromStaging) return claim.value
            const isClaimed = Effect.map(fs.stat(file), Option.exists(({ ino }) => ino === claim.value.ino))
            const left = Effect.flatMap(isClaimed, (ours) => ours ? fs.remove(file, { force: false }) : Effect.void)
            // the lock was created before the staging folder. A process that stole the lock in between found no folder to move away. So
            // this process creates the folder, and then checks that the lock file is still its own
            const isKept = yield* Effect.zipRight(fs.createStaging, isClaimed).pipe(
              Effect.tapErrorCause(() => Effect.ensuring(Effect.option(left), claim.value.close))
            )
            if (isKept) return claim.value
            yield* claim.value.close
            continue
          }
          const now = yield* monotonic
          const other = yield* look(file)
          const isStale = seen !== undefined && other === seen && now - since >= Duration.toMillis(timeout)
          if (other !== seen) {
            if (seen === undefined || !isBeat(seen, other)) first = now
            seen = other
            since = now
          } else if (isStale && seen !== undefined) {
            yield* EventLoop.sleepLive(0) // lets a delayed heartbeat of a holder in this process run first
            yield* steal(seen)
          }
          // gives up if the caller no longer wants the lock, or if one holder that is alive has kept it for too long. Does not give up
          // because of a stale lock, since that was stolen just above
          if (!isWanted() || (!isStale && now - first >= patience * Duration.toMillis(timeout))) {
            return yield* MemoryError.make("unavailable", {
              op: "lock",
              message: "the vault is locked by another process"
            })
          }
          yield* restore(Effect.sleep(wait))
        }
      })

    let beating: Fiber.Fiber<void> | undefined
    let isClosed = false
    let beats = 0
    /** Runs effects one at a time, so that no heartbeat is written to a file while it is being closed. */
    const inWriting = EventLoop.makeSerialQueue()
    /** Whether the lock was used since the last heartbeat. */
    let isUsed = false
    /**
     * Writes a heartbeat after each third of the timeout, as long as the lock is used from time to time. One fiber serves many sessions,
     * since most sessions are shorter than a third of the timeout.
     */
    const beat: Effect.Effect<void> = Effect.suspend(() => {
      if (held === undefined && !isUsed) return Effect.void
      isUsed = false
      // a heartbeat is written to the file that this process created, not to the lock file of a process that has stolen the lock
      const written = Effect.suspend(() => held?.write(textOf(++beats)) ?? Effect.void)
      return inWriting(Effect.catchAll(written, (error) => Effect.logDebug("no heartbeat", error))).pipe(
        Effect.zipRight(due)
      )
    })
    const due = Effect.zipRight(Effect.sleep(Duration.times(timeout, 1 / 3)), beat)
    /** Lets a new heartbeat fiber start. Runs when the previous one has ended for any reason. */
    const over = Effect.sync(() => beating = undefined)
    const begun = Effect.suspend(() => {
      beats = 0
      isUsed = true
      return beating === undefined
        ? Effect.map(Effect.forkDaemon(Effect.ensuring(Effect.interruptible(due), over)), (fiber) => beating = fiber)
        : Effect.void
    })
    /** Stops the heartbeat when the Effect scope closes or, if the lock is held at that time, when the lock is released. */
    const ended = Effect.suspend(() => {
      if (!isClosed || held !== undefined || beating === undefined) return Effect.void
      return Effect.asVoid(Fiber.interrupt(beating))
    })
    yield* Effect.addFinalizer(() => Effect.zipRight(Effect.sync(() => isClosed = true), ended))

    const isOurs = Effect.map(fs.stat(file), (stat) => Option.isSome(stat) && stat.value.ino === held?.ino)
    const release = (claim: LockFile) =>
      Effect.flatMap(isOurs, (ours) => ours ? fs.remove(file, { force: false }) : Effect.void).pipe(
        Effect.catchAll((error) => Effect.logWarning("the vault's lock stays until it is stolen", error)),
        Effect.ensuring(
          inWriting(Effect.suspend(() => {
            held = undefined
            return claim.close
          }))
        ),
        Effect.ensuring(Effect.suspend(() => isClosed ? ended : Effect.void))
      )

    return {
      isOurs,
      withLock: (self, isWanted = () => true) =>
        // callers in this process wait in its queue, without polling
        queue(Effect.uninterruptibleMask((restore) =>
          Effect.flatMap(acquire(restore, isWanted), (claim) => {
            held = claim
            return Effect.flatMap(
              Effect.exit(Effect.zipRight(begun, restore(self))),
              (exit) => Effect.zipRight(release(claim), exit)
            )
          })
        ))
    }
  })

/** Whether both observations are of the same session of a holder, with a heartbeat in between. */
const isBeat = (before: string | undefined, after: string | undefined): boolean => {
  const [, owner, beats, ino] = holding.exec(before ?? "") ?? []
  const [, again, more, same] = holding.exec(after ?? "") ?? []
  const isOneSession = Math.floor(Number(more ?? 0) / perSession) === Math.floor(Number(beats ?? 0) / perSession)
  return owner === again && ino === same && isOneSession && Number(more ?? 0) > Number(beats ?? 0)
}
const holding = /^([0-9a-z]{1,16}) (\d+)\/(\d+)\//

/** Returns the name of the process that holds a lock: the first word of the lock file. Returns `nobody` if the file has another format. */
const ownerIn = (seen: string): string => /^([0-9a-z]{1,16}) /.exec(seen)?.[1] ?? "nobody"

/** Error of a writer if its lock was stolen, or if another process has written meanwhile. The caller runs the writer again. */
export const lost = MemoryError.make("conflict", {
  op: "lock",
  message: "the lock was taken away",
  detail: { expected: 0, actual: 0 }
})
/** Whether an error is `lost`. Compares fields, since a span wraps errors in new objects. */
export const isLost = ({ op, reason }: MemoryError.MemoryError): boolean => op === lost.op && reason === lost.reason

/* Temporary files of killed writers: hidden files next to the files that they were to replace. */

type Io<A> = Effect.Effect<A, MemoryError.MemoryError>

/** An hour in milliseconds. */
const hour = 3_600_000

/**
 * Makes a function that removes temporary files of killed writers: at its first call, and then at most hourly. The caller must hold the
 * lock, so that no other process is writing. Files younger than `timeout` are left, since a process that lost the lock while suspended may
 * still resume. Cost: a listing of every folder. After a failure, tries again after an hour.
 */
export const cleanUpTempFiles = (
  fs: VaultFileSystem,
  timeout: Duration.Duration
): (guard: Io<void>) => Effect.Effect<void> => {
  let due = 0

  const erase = (path: string, guard: Io<void>) =>
    Effect.gen(function*() {
      const found = yield* fs.stat(path)
      const now = yield* Clock.currentTimeMillis
      const isOld = Option.exists(
        found,
        ({ mtime, type }) => type === "File" && now - mtime > Duration.toMillis(timeout)
      )
      if (!isOld || (yield* fs.isLink(path))) return
      yield* guard
      yield* fs.remove(path, { force: false })
    })
  const sweep = (folder: string, guard: Io<void>, below: (path: string) => Io<void>): Io<void> =>
    Effect.flatMap(fs.list(folder), (names) =>
      Effect.forEach(names, (name) => {
        const path = folder === "" ? name : `${folder}/${name}`
        if (isTemporary(name)) return erase(path, guard)
        return name.startsWith(".") || name.endsWith(".md") ? Effect.void : below(path)
      }, { discard: true }))

  return (guard) => {
    const records = (path: string): Io<void> =>
      Effect.gen(function*() {
        const found = yield* fs.stat(path)
        if (Option.exists(found, ({ type }) => type === "Directory") && !(yield* fs.isLink(path))) {
          yield* sweep(path, guard, records)
        }
      })
    const all = Effect.gen(function*() {
      yield* sweep("", guard, records)
      yield* sweep(hidden, guard, () => Effect.void)
      yield* records(internal)
      for (const writerId of yield* fs.list(`${hidden}/turns`)) {
        if (writerId !== fs.writerId) yield* Effect.zipRight(guard, fs.fence(writerId))
      }
    }).pipe(Effect.catchAll((error) => Effect.logDebug("what writers left behind is still there", error)))
    return Effect.flatMap(Clock.currentTimeMillis, (now) => {
      if (now < due) return Effect.void
      due = now + hour
      return all
    })
  }
}
