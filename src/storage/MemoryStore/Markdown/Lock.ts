/**
 * The lock of a vault. Only the process that holds the lock may write records, history and vectors; the snapshot is written without it. The
 * lock is a file that only one process can create. The holder writes heartbeats to the file. Another process steals the lock if the file
 * stays unchanged for `timeout` by the clock of the thief. The thief first moves away the folder of the holder's temporary files
 * (`Layout.stagingFolderOf`). Then it renames the lock file. Only one of several renames succeeds. The holder keeps its lock file open. The
 * lock is lost if the lock's path has another inode, or no file.
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
   * Runs an effect while this process holds the lock. First waits until no other process holds it. The wait fails with `unavailable` if
   * `isWanted` returns false (by default, never), or if one holder keeps the lock for twenty timeouts, and still writes heartbeats.
   */
  readonly withLock: <A, E>(
    self: Effect.Effect<A, E>,
    isWanted?: () => boolean
  ) => Effect.Effect<A, E | MemoryError.MemoryError>
  /** Whether this process still holds the lock. Cost: one `stat`. */
  readonly isOurs: Effect.Effect<boolean, MemoryError.MemoryError>
}

const file = `${hidden}/lock`
/** Largest number of heartbeats while a process holds the lock. Enough for nine hours if the timeout is only 0.1 seconds. */
const perSession = 1_000_000
/** Pause between two attempts to take the lock while another process holds the lock. */
const wait = Duration.millis(5)
/**
 * Number of timeouts after which a waiting process gives up, if one living holder keeps the lock. The count starts again whenever a process
 * takes the lock.
 */
const patience = 20

/** Time of a monotonic clock in milliseconds. A change of the system time must not make a lock look old. */
const monotonic = Effect.map(Clock.currentTimeNanos, (nanos) => Number(nanos / 1_000_000n))

/** Makes the lock of a folder. Another process may steal the lock if there is no heartbeat for the time `timeout`. */
export const make = (fs: VaultFileSystem, timeout: Duration.Duration): Effect.Effect<Lock, never, Scope.Scope> =>
  Effect.gen(function*() {
    const queue = EventLoop.makeSerialQueue()
    let held: LockFile | undefined
    let thefts = 0
    let sessions = 0
    /**
     * Returns the content of the lock file: the id of this process, and a number. The number is different for each session (one holding of
     * the lock) and each heartbeat. Two lock files thus differ even on a disk with coarse times, where both inode and mtime may be equal.
     */
    const textOf = (beats: number) => `${fs.writerId} ${sessions * perSession + beats}`

    const look = (path: string) =>
      Effect.gen(function*() {
        const found = yield* fs.stat(path)
        if (Option.isNone(found)) return (yield* fs.isLink(path)) ? "a link to nothing" : undefined
        const { ino, mtime, type } = found.value
        // only a regular file is read, since reading a pipe or a device may never end
        const text = type === "File" ? yield* fs.readLoose(path) : Option.some(type)
        return Option.isNone(text) ? undefined : `${text.value}/${ino}/${mtime}`
      })

    const steal = (seen: string) =>
      Effect.gen(function*() {
        if ((yield* look(file)) !== seen) return
        const aside = `${file}.${fs.writerId}.${++thefts}` // numbered, since the file of an earlier theft may still be there
        // first moves away the holder's temporary files. Otherwise the holder could resume later, and overwrite newer files
        yield* fs.fence(ownerIn(seen))
        if (yield* fs.move(file, aside)) {
          // another process may have stolen the lock first. The moved file is then the lock of that process, and is put back. Nothing is
          // put back if a third process has created a lock meanwhile
          if ((yield* look(aside)) !== seen) yield* fs.link(aside, file)
          yield* Effect.catchAll(
            fs.remove(aside, { force: false }),
            // `remove` fails if there was a folder in place of the lock file
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
            // the lock is a new link to a file in this process's staging folder. So the folder exists, and a thief of the lock can move it
            // away
            if (claim.value.isFromStaging) return claim.value
            const isClaimed = Effect.map(fs.stat(file), Option.exists(({ ino }) => ino === claim.value.ino))
            const left = Effect.flatMap(isClaimed, (ours) => ours ? fs.remove(file, { force: false }) : Effect.void)
            // the staging folder may not have existed when the lock was taken. A thief of the lock then finds no folder to move away. So
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
            yield* EventLoop.sleepLive(0) // the holder may be another store in this process: lets it write a delayed heartbeat first
            yield* steal(seen)
          }
          // gives up if the caller no longer wants the lock. Also gives up if one living holder has kept the lock for too long. A stale
          // lock is no reason to give up, since this process has just tried to steal the lock
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
    /** Runs effects one at a time: the writes of heartbeats, and the closing of the lock file. */
    const inWriting = EventLoop.makeSerialQueue()
    /** Whether this process has taken the lock since the last heartbeat. */
    let isUsed = false
    /**
     * Writes a heartbeat after each third of the timeout. Ends once the lock was not used for a third of the timeout. One fiber serves many
     * sessions (periods in which this process holds the lock), since most sessions are shorter than a third of the timeout.
     */
    const beat: Effect.Effect<void> = Effect.suspend(() => {
      if (held === undefined && !isUsed) return Effect.void
      isUsed = false
      // this process created the file `held`. So a heartbeat never changes the lock file of another process
      const written = Effect.suspend(() => held?.write(textOf(++beats)) ?? Effect.void)
      return inWriting(Effect.catchAll(written, (error) => Effect.logDebug("no heartbeat", error))).pipe(
        Effect.zipRight(due)
      )
    })
    const due = Effect.zipRight(Effect.sleep(Duration.times(timeout, 1 / 3)), beat)
    /** Runs when the heartbeat fiber has ended for any reason, so that `begun` can start a new fiber. */
    const over = Effect.sync(() => beating = undefined)
    const begun = Effect.suspend(() => {
      beats = 0
      isUsed = true
      return beating === undefined
        ? Effect.map(Effect.forkDaemon(Effect.ensuring(Effect.interruptible(due), over)), (fiber) => beating = fiber)
        : Effect.void
    })
    /** Stops the heartbeat if the Effect scope is closed and the lock is not held. */
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
        // one caller of this process at a time tries to take the lock; other callers wait in `queue`, without polling
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

/** Whether the holder wrote a heartbeat between two observations of the lock file. False if the lock was released in between. */
const isBeat = (before: string | undefined, after: string | undefined): boolean => {
  const [, owner, beats, ino] = holding.exec(before ?? "") ?? []
  const [, again, more, same] = holding.exec(after ?? "") ?? []
  const isOneSession = Math.floor(Number(more ?? 0) / perSession) === Math.floor(Number(beats ?? 0) / perSession)
  return owner === again && ino === same && isOneSession && Number(more ?? 0) > Number(beats ?? 0)
}
const holding = /^([0-9a-z]{1,16}) (\d+)\/(\d+)\//

/** Returns the id of the process that wrote the lock file. Returns `nobody` if the file has another format. */
const ownerIn = (seen: string): string => /^([0-9a-z]{1,16}) /.exec(seen)?.[1] ?? "nobody"

/** The error of a write if the lock was stolen, or if files have changed since the write was planned. The caller then tries again. */
export const lost = MemoryError.make("conflict", {
  op: "lock",
  message: "the lock was taken away",
  detail: { expected: 0, actual: 0 }
})
/** Whether an error is `lost`. Compares fields, since a span wraps errors in new objects. */
export const isLost = ({ op, reason }: MemoryError.MemoryError): boolean => op === lost.op && reason === lost.reason

/* Removes the temporary files of killed writers. */

type Io<A> = Effect.Effect<A, MemoryError.MemoryError>

const hour = 3_600_000

/**
 * Makes a function that removes the temporary files of killed writers. A call does nothing if another call has tried to remove them within
 * the last hour. The caller must hold the lock, so that no other process is writing. The staging folders of all other processes are
 * removed, whatever their age. Any other file younger than `timeout` is kept. Its writer may have been suspended, and may still resume.
 * Cost: a listing of every folder.
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
