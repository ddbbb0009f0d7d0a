/**
 * Keeps long work from holding the event loop: no step of ours should hold it for more than 50 ms.
 *
 * `Effect.yieldNow` lets other fibers go, but neither timers nor sockets, since fibers resume in microtasks. A sleep of
 * no length does; under a `TestClock` it returns at once.
 */
import * as Effect from "effect/Effect"

/** Lets the event loop go round once: about a millisecond. */
export const turn: Effect.Effect<void> = Effect.sleep(0)

/**
 * Run after each step of long work, told how much the step was. A unit is a character that is parsed or cut into words:
 * English takes 0.1 µs each, Chinese 2 µs. Less than 16,384 of them in all is done in one go.
 */
export interface Pacer {
  (work: number): Effect.Effect<void>
}

/** Lets the event loop go round after every `budget` units. */
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
