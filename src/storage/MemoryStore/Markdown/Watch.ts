/**
 * A hint that there may be something to look at, from the folder that every writer's log and lock lie in. No more than
 * that: what a poll would find is found sooner. One folder, not the tree: on Linux a recursive watch is a watch per entry.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Queue from "effect/Queue"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type { Disk } from "./Disk.ts"
import { hidden } from "./Layout.ts"

/** From a hint to the look: a write is many of them. The last is that its lock is gone, so what is looked at is whole. */
const pause = Duration.millis(20)

/** Until the scope closes. Where the folder cannot be watched, which is logged at debug level, there are no hints. */
export const hinted = (disk: Disk, look: Effect.Effect<void>): Effect.Effect<void, never, Scope.Scope> =>
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
