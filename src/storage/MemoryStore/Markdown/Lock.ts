/**
 * The lock of a vault, which lets only one process write: a file created exclusively, with a heartbeat. A process that finds the file
 * unchanged for `timeout`, by its own clock, takes the lock over (steals it). If several try, a rename lets only one succeed. The lock is
 * ours if the file has the inode that we hold open.
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
   * Runs an effect with the lock held. Waits while `isWanted` returns true (by default always), but gives up on one holder that is alive
   * after twenty timeouts.
   */
  readonly withLock: <A, E>(
    self: Effect.Effect<A, E>,
    isWanted?: () => boolean
  ) => Effect.Effect<A, E | MemoryError.MemoryError>
  /** Whether the lock is still ours; checked before writes that cannot be rolled back. */
  readonly isOurs: Effect.Effect<boolean, MemoryError.MemoryError>
}

const file = `${hidden}/lock`
/** Largest number of heartbeats in a session: enough for nine hours with a timeout of 0.1 seconds. */
const perSession = 1_000_000
/** Time between two attempts while another process holds the lock. */
const wait = Duration.millis(5)
/**
 * Number of lock timeouts after which a waiter gives up on a holder that is alive and does not release the lock. Each new holder starts the
 * count again.
 */
const patience = 20

/** Monotonic time in milliseconds, so that changes of the system time do not affect stealing. */
const monotonic = Effect.map(Clock.currentTimeNanos, (nanos) => Number(nanos / 1_000_000n))

/** Makes the lock of a folder. `timeout` is the time without a heartbeat after which a lock may be stolen. */
export const make = (fs: VaultFileSystem, timeout: Duration.Duration): Effect.Effect<Lock, never, Scope.Scope> =>
  Effect.gen(function*() {
    const inLine = EventLoop.makeSerialQueue()
    let held: LockFile | undefined
    let thefts = 0
    let sessions = 0
    /**
     * Returns the content of the lock file. It includes a session number, since a new session may have the inode of the one before and, on
     * a disk with coarse times, the same mtime.
     */
    const textOf = (beats: number) => `${fs.own} ${sessions * perSession + beats}`

    const look = (path: string) =>
      Effect.gen(function*() {
        const found = yield* fs.stat(path)
        if (Option.isNone(found)) return (yield* fs.isLink(path)) ? "a link to nothing" : undefined
        const { ino, mtime, type } = found.value
        // only a regular file is read, since reading a pipe or device may never end
        const text = type === "File" ? yield* fs.readLoose(path) : Option.some(type)
        return Option.isNone(text) ? undefined : `${text.value}/${ino}/${mtime}`
      })

    const steal = (seen: string) =>
      Effect.gen(function*() {
        if ((yield* look(file)) !== seen) return
        const aside = `${file}.${fs.own}.${++thefts}` // numbered, since a folder of an earlier theft may still be there
        // ends the holder's turn before removing its lock, so that a holder that wakes up cannot overwrite files of the next one
        yield* fs.end(ownerIn(seen))
        if (yield* fs.move(file, aside)) {
          // the lock that was moved may already be that of another process; it is put back, unless a third process has locked meanwhile
          if ((yield* look(aside)) !== seen) yield* fs.link(aside, file)
          yield* Effect.catchAll(
            fs.remove(aside, { force: false }),
            (error) => Effect.logWarning("what lay in place of the vault's lock cannot be removed", error) // `remove` fails on a folder
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
            // the link was made from the turn folder, so a process that steals this lock ends this turn
            if (claim.value.isInTurn) return claim.value
            const isClaimed = Effect.map(fs.stat(file), Option.exists(({ ino }) => ino === claim.value.ino))
            const left = Effect.flatMap(isClaimed, (ours) => ours ? fs.remove(file, { force: false }) : Effect.void)
            // a process that steals the lock after the turn has begun ends the turn as well
            const isKept = yield* Effect.zipRight(fs.begin, isClaimed).pipe(
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
          // a stale lock was just stolen, so try again; give up only on a holder that is alive
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
    /** Serialises heartbeats and the closing of the file that they are written to. */
    const inWriting = EventLoop.makeSerialQueue()
    /** Whether the lock was taken since the last heartbeat. */
    let isUsed = false
    /**
     * Writes a heartbeat after each third of the timeout, as long as the lock is used from time to time. One fiber serves many sessions,
     * since most are shorter than that.
     */
    const beat: Effect.Effect<void> = Effect.suspend(() => {
      if (held === undefined && !isUsed) return Effect.void
      isUsed = false
      // heartbeats go to our own file, so they have no effect after a theft
      const written = Effect.suspend(() => held?.write(textOf(++beats)) ?? Effect.void)
      return inWriting(Effect.catchAll(written, (error) => Effect.logDebug("no heartbeat", error))).pipe(
        Effect.zipRight(due)
      )
    })
    const due = Effect.zipRight(Effect.sleep(Duration.times(timeout, 1 / 3)), beat)
    /** Allows a new heartbeat fiber; runs when the last one has ended for any reason. */
    const over = Effect.sync(() => beating = undefined)
    const begun = Effect.suspend(() => {
      beats = 0
      isUsed = true
      return beating === undefined
        ? Effect.map(Effect.forkDaemon(Effect.ensuring(Effect.interruptible(due), over)), (fiber) => beating = fiber)
        : Effect.void
    })
    /** Stops the heartbeat: when the scope closes, and after each later session. */
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
        // callers of this process queue in memory, without polling
        inLine(Effect.uninterruptibleMask((restore) =>
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

/** Whether both observations are of the same holder, which wrote a heartbeat in between. */
const isBeat = (before: string | undefined, after: string | undefined): boolean => {
  const [, owner, beats, ino] = holding.exec(before ?? "") ?? []
  const [, again, more, same] = holding.exec(after ?? "") ?? []
  const isOneSession = Math.floor(Number(more ?? 0) / perSession) === Math.floor(Number(beats ?? 0) / perSession)
  return owner === again && ino === same && isOneSession && Number(more ?? 0) > Number(beats ?? 0)
}
const holding = /^([0-9a-z]{1,16}) (\d+)\/(\d+)\//

/** Returns the name of the process in a lock's content, which is the first word. A lock in another format names no process. */
const ownerIn = (seen: string): string => /^([0-9a-z]{1,16}) /.exec(seen)?.[1] ?? "nobody"

/** Error of a writer whose lock was stolen, or that finds that another process wrote meanwhile. The writer runs again. */
export const lost = MemoryError.make("conflict", {
  op: "lock",
  message: "the lock was taken away",
  detail: { expected: 0, actual: 0 }
})
/** Whether an error is `lost`; compares fields, since a span wraps errors in a new object. */
export const isLost = ({ op, reason }: MemoryError.MemoryError): boolean => op === lost.op && reason === lost.reason

/* Temporary files of killed writers: hidden files next to the files that they were to replace. */

type Io<A> = Effect.Effect<A, MemoryError.MemoryError>

/** An hour in milliseconds. */
const hour = 3_600_000

/**
 * Makes the function that removes temporary files, at the first call and then hourly. The caller must hold the lock, so that no other
 * process is writing; a process that lost the lock while suspended gets `timeout` to resume. Cost: a listing of every folder. Failures are
 * retried after an hour.
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
      for (const own of yield* fs.list(`${hidden}/turns`)) {
        if (own !== fs.own) yield* Effect.zipRight(guard, fs.end(own))
      }
    }).pipe(Effect.catchAll((error) => Effect.logDebug("what writers left behind is still there", error)))
    return Effect.flatMap(Clock.currentTimeMillis, (now) => {
      if (now < due) return Effect.void
      due = now + hour
      return all
    })
  }
}
