/** Counts the sleeps of an effect, including each `EventLoop.pause`. */
import type * as Clock from "effect/Clock"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"

/** Runs an effect; returns the number of its sleeps, including each `EventLoop.pause`, and its result. */
export const waitsOf = <A, E, R>(
  self: Effect.Effect<A, E, R>
): Effect.Effect<readonly [waits: number, result: A], E, R> =>
  Effect.flatMap(Effect.clock, (clock) => {
    let count = 0
    const counting: Clock.Clock = Object.assign(Object.create(clock), {
      sleep: (duration: Duration.Duration) => {
        count++
        return clock.sleep(duration)
      }
    })
    return Effect.map(Effect.withClock(self, counting), (value) => [count, value] as const)
  })
