/**
 * Keeps long work from blocking the event loop: no step of this library should block it for more than 50 ms.
 *
 * `Effect.yieldNow` lets other fibers run, but neither timers nor sockets, since fibers resume in microtasks. `sleep(0)`
 * lets those run too; under a `TestClock` it returns at once.
 */
import * as Clock from "effect/Clock"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"

/** Waits for the next turn of the event loop, about a millisecond. */
export const turn: Effect.Effect<void> = Effect.sleep(0)

/** Sleeps by the machine's clock, whatever clock is in force: for a server or another process, which a `TestClock` does not move. */
export const sleepOutside = (time: Duration.DurationInput): Effect.Effect<void> =>
  Effect.withClock(Effect.sleep(time), machineClock)

const machineClock = Clock.make()

/**
 * Pauses long work: call it after each step with the size of that step. The unit is one character that was parsed or cut
 * into words, which takes 0.1 µs for English and 2 µs for Chinese.
 */
export interface Pacer {
  (work: number): Effect.Effect<void>
}

/** Makes a pacer that waits for a turn of the event loop after every `budget` units. Default 16,384. */
export const pacer = (budget = 16_384): Pacer => {
  let done = 0
  return (work) =>
    Effect.suspend(() => {
      done += work
      if (done < budget) return Effect.void
      done = 0
      return turn
    })
}

/**
 * Makes a function that runs steps of fibers which run side by side one after the other, and pauses between them as `pacer`
 * does. `work` tells the size of a step that is done.
 */
export const inTurn: Effect.Effect<<A>(step: () => A, work: (done: A) => number) => Effect.Effect<A>> = Effect.map(
  Effect.makeSemaphore(1),
  (semaphore) => {
    const pause = pacer()
    return (step, work) => semaphore.withPermits(1)(Effect.tap(Effect.sync(step), (done) => pause(work(done))))
  }
)

/** Takes step after step, with a turn of the event loop between two, until one says that it was the last. */
export const steps = (isLast: () => boolean): Effect.Effect<void> =>
  Effect.suspend(() => isLast() ? Effect.void : Effect.zipRight(turn, steps(isLast)))

/** Calls a function with each of many values, and waits for a turn of the event loop after every `stretch` of them. */
export const forEach = <A>(
  values: ReadonlyArray<A>,
  stretch: number,
  call: (value: A) => void
): Effect.Effect<void> => {
  const from = (start: number): Effect.Effect<void> =>
    Effect.suspend(() => {
      const end = Math.min(values.length, start + stretch)
      for (let at = start; at < end; at++) call(values[at]!)
      return end < values.length ? Effect.zipRight(turn, from(end)) : Effect.void
    })
  return from(0)
}
