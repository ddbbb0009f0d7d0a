/** Keeps a vault current with what other processes and hands write, at a cost that shrinks while nobody asks. */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Queue from "effect/Queue"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type { MemoryError } from "../../../domain/MemoryError.ts"
import type { Disk } from "./Disk.ts"
import { hidden } from "./Layout.ts"
import type { Vault } from "./Vault.ts"

/** Number of polls without a call or a listener after which the vault stops polling. */
const patience = 60
/** Number of polls without a call after which looks at every file become rare. */
const attention = 10
/** How many times as long as a look takes passes before the next one: while calls come, and when none has come for a while. */
const spacing = { busy: 10, quiet: 100 }

/**
 * Keeps up with other processes: reads their log at every poll, or sooner on a hint of a file watch, and scans all files as
 * often as a tenth of the time allows, or a hundredth once ten polls have passed without a call. After `patience` polls
 * without a call or a listener it stops polling; then the next call, which runs the effect returned here, scans before it
 * answers.
 */
export const keepCurrent = (
  disk: Disk,
  vault: Pick<Vault, "changes" | "follow" | "land" | "refresh">,
  poll: Duration.Duration
): Effect.Effect<Effect.Effect<void>, never, Scope.Scope> =>
  Effect.gen(function*() {
    if (!Duration.isFinite(poll)) return Effect.void
    const told = Effect.catchAll((error: MemoryError) => Effect.logWarning("the vault could not be looked at", error))
    /** The last scan, in epoch milliseconds. */
    let last = { end: -Infinity, took: 0 }
    /** Polls since the last call, and since the last call or listener. */
    let uncalled = 0
    let quiet = 0
    const look = Effect.gen(function*() {
      yield* vault.land
      const start = yield* Clock.currentTimeMillis
      const share = uncalled > attention ? spacing.quiet : spacing.busy
      if (start >= last.end && start < last.end + share * last.took) return yield* vault.follow
      yield* vault.refresh
      const end = yield* Clock.currentTimeMillis
      last = { end, took: end - start }
    })
    const waking = yield* Effect.makeSemaphore(1)
    const awake = yield* Effect.makeLatch(true)
    let isResting = false

    const watch = Effect.gen(function*() {
      yield* Effect.sleep(poll)
      uncalled++
      if (vault.changes.isHeard()) quiet = 0
      if (++quiet <= patience) return yield* told(look)
      isResting = true
      yield* awake.close
      yield* awake.await
    })
    yield* Effect.forkScoped(Effect.forever(watch))
    yield* hinted(disk, told(vault.follow))

    /** Scans if polling has stopped. Calls that come during the scan wait for its end. */
    const wake = waking.withPermits(1)(Effect.suspend(() =>
      isResting
        ? Effect.zipRight(
          told(vault.refresh),
          Effect.suspend(() => {
            isResting = false
            return awake.open
          })
        )
        : Effect.void
    ))
    return Effect.suspend(() => {
      uncalled = 0
      quiet = 0
      return isResting ? wake : Effect.void
    })
  })

/*
 * A hint that there may be something to look at, from the folder that every writer's log and lock lie in. No more than
 * that: what a poll would find is found sooner. One folder, not the tree: on Linux a recursive watch is a watch per entry.
 */

/** From a hint to the look: a write is many of them. The last is that its lock is gone, so what is looked at is whole. */
const pause = Duration.millis(20)

/** Until the scope closes. Where the folder cannot be watched, which is logged at debug level, there are no hints. */
const hinted = (disk: Disk, look: Effect.Effect<void>): Effect.Effect<void, never, Scope.Scope> =>
  Effect.gen(function*() {
    const hints = yield* Queue.sliding<void>(1)
    yield* Stream.runForEach(disk.watch(hidden), () => Queue.offer(hints, undefined)).pipe(
      Effect.catchAll(unwatched),
      Effect.catchAllDefect(unwatched), // what Node throws where there are no watches left
      Effect.forkScoped
    )
    yield* Queue.take(hints).pipe(
      Effect.zipRight(Effect.sleep(pause)),
      Effect.zipRight(Queue.takeAll(hints)),
      Effect.zipRight(look),
      Effect.forever,
      Effect.forkScoped
    )
  })

const unwatched = (why: unknown) => Effect.logDebug("the vault is polled, not watched", why)
