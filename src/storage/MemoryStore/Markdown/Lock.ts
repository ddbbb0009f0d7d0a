/**
 * One writer at a time, over all processes: a file created exclusively, with a heartbeat. Whoever finds it unchanged for
 * `timeout`, by its own clock, takes it away; of several who try, a rename lets one succeed. Ours is the file whose inode
 * we hold open.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import * as MemoryError from "../../../domain/MemoryError.ts"
import type { Claim, Disk } from "./Disk.ts"
import { hidden } from "./Layout.ts"

export interface Lock {
  readonly withLock: <A, E>(self: Effect.Effect<A, E>) => Effect.Effect<A, E | MemoryError.MemoryError>
  /** Whether the lock is still ours: asked before what cannot be taken back. */
  readonly isOurs: Effect.Effect<boolean, MemoryError.MemoryError>
}

const file = `${hidden}/lock`
/** Between two looks at a lock that somebody else holds. */
const wait = Duration.millis(5)
/** In lock timeouts: a holder that lives this long and does not let go is given up on. */
const patience = 20

export const make = (disk: Disk, timeout: Duration.Duration): Effect.Effect<Lock> =>
  Effect.gen(function*() {
    const owner = yield* Random.nextIntBetween(0, Number.MAX_SAFE_INTEGER)
    const one = yield* Effect.makeSemaphore(1)
    let held: Claim | undefined

    const look = (path: string) =>
      Effect.map(Effect.all([disk.readLoose(path), disk.stat(path)]), ([content, stat]) =>
        Option.all([content, stat]).pipe(
          Option.map(([text, { ino, mtime }]) =>
            `${text}/${ino}/${mtime}`
          ),
          Option.getOrUndefined
        ))

    const steal = (seen: string) =>
      Effect.gen(function*() {
        if ((yield* look(file)) !== seen) return
        const aside = `${file}.${owner}`
        if (yield* disk.move(file, aside)) {
          // what we moved may by now be another's: then it goes back as it is, unless a third was quicker
          if ((yield* look(aside)) !== seen) yield* disk.link(aside, file)
          yield* disk.remove(aside, { force: false })
        }
      })

    const acquire = (restore: <A, E>(self: Effect.Effect<A, E>) => Effect.Effect<A, E>) =>
      Effect.gen(function*() {
        const start = yield* Clock.currentTimeMillis
        let since = start
        let seen: string | undefined
        for (;;) {
          const claim = yield* disk.claim(file, `${owner} 0`)
          if (Option.isSome(claim)) return claim.value
          const now = yield* Clock.currentTimeMillis
          const other = yield* look(file)
          const isStale = seen !== undefined && other === seen && now - since >= Duration.toMillis(timeout)
          if (other !== seen) {
            seen = other
            since = now
          } else if (isStale && seen !== undefined) {
            yield* steal(seen)
          }
          // a stale lock was just removed, so another attempt follows: only a holder that is alive ends the wait
          if (!isStale && now - start >= patience * Duration.toMillis(timeout)) {
            return yield* MemoryError.make("unavailable", {
              op: "lock",
              message: "the vault is locked by another process"
            })
          }
          yield* restore(Effect.sleep(wait))
        }
      })

    // into the file that we made: where it was taken away, nobody hears it
    const beat = (claim: Claim) =>
      Effect.iterate(1, {
        while: () => true,
        body: (n) =>
          Effect.sleep(Duration.times(timeout, 1 / 3)).pipe(
            Effect.zipRight(
              Effect.catchAll(claim.write(`${owner} ${n}`), (error) => Effect.logDebug("no heartbeat", error))
            ),
            Effect.as(n + 1)
          )
      })

    const isOurs = Effect.map(disk.stat(file), Option.exists(({ ino }) => ino === held?.ino))
    const release = Effect.flatMap(isOurs, (ours) => ours ? disk.remove(file, { force: false }) : Effect.void).pipe(
      Effect.catchAll((error) => Effect.logWarning("the vault's lock stays until it is stolen", error))
    )

    return {
      isOurs,
      withLock: (self) =>
        Effect.uninterruptibleMask((restore) =>
          Effect.scoped(Effect.gen(function*() {
            const claim = yield* acquire(restore)
            held = claim
            yield* Effect.addFinalizer(() => release)
            yield* Effect.forkScoped(Effect.interruptible(beat(claim)))
            return yield* restore(self)
          }))
        ).pipe(one.withPermits(1)) // our own wait in line, and ask no clock
    }
  })
