/**
 * One writer at a time, over all processes: a file created exclusively, with a heartbeat. Whoever finds it unchanged for
 * `timeout`, by its own clock, takes it away; of several who try, a rename lets one succeed. Ours is the file whose inode
 * we hold open.
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
  /** Waits for the lock as long as `isWanted` says, by default without end, and for a holder that lives twenty timeouts. */
  readonly withLock: <A, E>(
    self: Effect.Effect<A, E>,
    isWanted?: () => boolean
  ) => Effect.Effect<A, E | MemoryError.MemoryError>
  /** Whether the lock is still ours: asked before what cannot be taken back. */
  readonly isOurs: Effect.Effect<boolean, MemoryError.MemoryError>
}

const file = `${hidden}/lock`
/** Heartbeats of a session, at most: more than a day of them where the timeout is a tenth of a second. */
const perSession = 1_000_000
/** Time between two looks at a lock that somebody else holds. */
const wait = Duration.millis(5)
/** Lock timeouts after which a waiter gives up on a holder that lives and does not let go. Many who hold it in turn are waited for. */
const patience = 20

/** Milliseconds of a clock that nobody sets back: a lock can be stolen after a change of the system's time, too. */
const monotonic = Effect.map(Clock.currentTimeNanos, (nanos) => Number(nanos / 1_000_000n))

/** Makes the lock of a folder. `timeout`: time without a heartbeat after which a lock is taken away. */
export const make = (fs: VaultFileSystem, timeout: Duration.Duration): Effect.Effect<Lock, never, Scope.Scope> =>
  Effect.gen(function*() {
    const inLine = EventLoop.makeSerialQueue()
    let held: LockFile | undefined
    let thefts = 0
    let sessions = 0
    /** Each session has a number of its own, since the inode may be that of the one before, and a disk's times are coarse. */
    const textOf = (beats: number) => `${fs.own} ${sessions * perSession + beats}`

    const look = (path: string) =>
      Effect.gen(function*() {
        const found = yield* fs.stat(path)
        if (Option.isNone(found)) return (yield* fs.isLink(path)) ? "a link to nothing" : undefined
        const { ino, mtime, type } = found.value
        // only a file is read: a pipe, or a device, never ends
        const text = type === "File" ? yield* fs.readLoose(path) : Option.some(type)
        return Option.isNone(text) ? undefined : `${text.value}/${ino}/${mtime}`
      })

    const steal = (seen: string) =>
      Effect.gen(function*() {
        if ((yield* look(file)) !== seen) return
        const aside = `${file}.${fs.own}.${++thefts}` // a folder may be left from the one before
        // its turn ends before its lock goes: one who wakes must not overwrite whoever has the lock next
        yield* fs.end(ownerIn(seen))
        if (yield* fs.move(file, aside)) {
          // the lock that we moved may by now be another's: it goes back as it is, unless a third was quicker
          if ((yield* look(aside)) !== seen) yield* fs.link(aside, file)
          yield* Effect.catchAll(
            fs.remove(aside, { force: false }),
            (error) => Effect.logWarning("what lay in place of the vault's lock cannot be removed", error) // a folder
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
        /** Time at which the holder that has the lock now was first seen. */
        let first = Infinity
        sessions++
        for (;;) {
          const claim = yield* fs.claim(file, textOf(0))
          if (Option.isSome(claim)) {
            // it was taken from inside the turn's folder: whoever steals it has ended the turn after that
            if (claim.value.isInTurn) return claim.value
            const isClaimed = Effect.map(fs.stat(file), Option.exists(({ ino }) => ino === claim.value.ino))
            const left = Effect.flatMap(isClaimed, (ours) => ours ? fs.remove(file, { force: false }) : Effect.void)
            // whoever steals it once the turn has begun ends the turn as well
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
            yield* EventLoop.sleepLive(0) // a holder in this process, which may have stood still, has a heartbeat due
            yield* steal(seen)
          }
          // a stale lock was just removed, so another attempt follows: only a holder that is alive ends the wait
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
    /** One at a time: a heartbeat, or the end of the claim that it is written to. */
    const inWriting = EventLoop.makeSerialQueue()
    /** Whether the lock was taken since the heartbeat last looked. */
    let isUsed = false
    /**
     * Writes a heartbeat whenever a third of the timeout is over, as long as the lock is held now and then: one fiber for many
     * sessions, since most are over before their first beat is due.
     */
    const beat: Effect.Effect<void> = Effect.suspend(() => {
      if (held === undefined && !isUsed) return Effect.void
      isUsed = false
      // into the file that we made: where it was taken away, nobody hears it
      const written = Effect.suspend(() => held?.write(textOf(++beats)) ?? Effect.void)
      return inWriting(Effect.catchAll(written, (error) => Effect.logDebug("no heartbeat", error))).pipe(
        Effect.zipRight(due)
      )
    })
    const due = Effect.zipRight(Effect.sleep(Duration.times(timeout, 1 / 3)), beat)
    /** Leaves room for the next heartbeat: the last one is at rest, was interrupted, or died of a defect. */
    const over = Effect.sync(() => beating = undefined)
    const begun = Effect.suspend(() => {
      beats = 0
      isUsed = true
      return beating === undefined
        ? Effect.map(Effect.forkDaemon(Effect.ensuring(Effect.interruptible(due), over)), (fiber) => beating = fiber)
        : Effect.void
    })
    /** Ends the heartbeat: at the end of the scope, and of each session after it. */
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
        // our own wait in line, and ask no clock
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

/** Whether two looks saw the same holder, which wrote a heartbeat in between. */
const isBeat = (before: string | undefined, after: string | undefined): boolean => {
  const [, owner, beats, ino] = holding.exec(before ?? "") ?? []
  const [, again, more, same] = holding.exec(after ?? "") ?? []
  const isOneSession = Math.floor(Number(more ?? 0) / perSession) === Math.floor(Number(beats ?? 0) / perSession)
  return owner === again && ino === same && isOneSession && Number(more ?? 0) > Number(beats ?? 0)
}
const holding = /^([0-9a-z]{1,16}) (\d+)\/(\d+)\//

/** The owner that a lock names: the first word of its text. A lock of another form has none whose turn could be ended. */
const ownerIn = (seen: string): string => /^([0-9a-z]{1,16}) /.exec(seen)?.[1] ?? "nobody"

/** Failure of a writer whose lock was taken away, or who finds that another one wrote meanwhile: it begins again. */
export const lost = MemoryError.make("conflict", {
  op: "lock",
  message: "the lock was taken away",
  detail: { expected: 0, actual: 0 }
})
/** Whether a failure is `lost`. In a span, what is failed with is another object. */
export const isLost = ({ op, reason }: MemoryError.MemoryError): boolean => op === lost.op && reason === lost.reason

/* Temporary files of killed writers: hidden files beside those that they were to become, of no use to anybody. */

type Io<A> = Effect.Effect<A, MemoryError.MemoryError>

/** Milliseconds of an hour. */
const hour = 3_600_000

/**
 * Erases them, at the first call and then by the hour. For who holds the lock: then nobody else writes, and one who stood
 * still until it lost the lock has `timeout` to wake. Cost: a list of every folder. What fails is tried again in an hour.
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
