/**
 * One writer at a time, over all processes: a file created exclusively, with a heartbeat. Whoever finds it unchanged for
 * `timeout`, by its own clock, takes it away; of several who try, a rename lets one succeed.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import * as MemoryError from "../../../domain/MemoryError.ts"
import type { Disk } from "./Disk.ts"
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
    // the inode tells apart what two processes with equal seeds would both draw
    const owner = yield* Random.nextIntBetween(0, Number.MAX_SAFE_INTEGER)
    let held = ""

    const look = Effect.all([disk.read(file), disk.stat(file)]).pipe(
      Effect.map(([content, stat]) =>
        Option.map(
          Option.all([content, stat]),
          ([text, { ino, mtime }]) => ({ text, seen: `${text}/${ino}/${mtime}`, ino })
        )
      )
    )
    const mark = Effect.map(
      look,
      Option.match({ onNone: () => "", onSome: ({ ino, text }) => `${text.split(" ")[0]}/${ino}` })
    )

    const steal = (seen: string) =>
      Effect.gen(function*() {
        const again = yield* look
        if (Option.isNone(again) || again.value.seen !== seen) return
        const aside = `${file}.${owner}`
        if (yield* disk.move(file, aside)) {
          // what we moved may by now be another's: then it goes back, unless a third was quicker
          const moved = yield* disk.read(aside)
          if (Option.isSome(moved) && moved.value !== again.value.text) yield* disk.create(file, moved.value)
          yield* disk.remove(aside, { force: false })
        }
      })

    const acquire = (restore: <A, E>(self: Effect.Effect<A, E>) => Effect.Effect<A, E>) =>
      Effect.gen(function*() {
        const start = yield* Clock.currentTimeMillis
        let since = start
        let seen: string | undefined
        while (!(yield* disk.create(file, `${owner} 0`))) {
          const now = yield* Clock.currentTimeMillis
          const other = Option.getOrUndefined(yield* look)?.seen
          if (other !== seen) {
            seen = other
            since = now
          } else if (seen !== undefined && now - since >= Duration.toMillis(timeout)) {
            yield* steal(seen)
          }
          if (now - start >= patience * Duration.toMillis(timeout)) {
            return yield* MemoryError.make("unavailable", {
              op: "lock",
              message: "the vault is locked by another process"
            })
          }
          yield* restore(Effect.sleep(wait))
        }
        held = yield* mark
      })

    const beat = Effect.iterate(1, {
      while: () => true,
      body: (n) =>
        Effect.sleep(Duration.times(timeout, 1 / 3)).pipe(
          Effect.zipRight(
            Effect.catchAll(disk.overwrite(file, `${owner} ${n}`), (error) => Effect.logDebug("no heartbeat", error))
          ),
          Effect.as(n + 1)
        )
    })

    const isOurs = Effect.map(mark, (now) => now === held)
    const release = Effect.flatMap(isOurs, (ours) => ours ? disk.remove(file, { force: false }) : Effect.void).pipe(
      Effect.catchAll((error) => Effect.logWarning("the vault's lock stays until it is stolen", error))
    )

    return {
      isOurs,
      withLock: (self) =>
        Effect.uninterruptibleMask((restore) =>
          Effect.zipRight(
            acquire(restore),
            restore(Effect.scoped(Effect.zipRight(Effect.forkScoped(beat), self))).pipe(Effect.ensuring(release))
          )
        )
    }
  })
