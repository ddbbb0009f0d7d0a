/**
 * Spreads the work of an outbox over turns of the event loop. Fibers that never wait for I/O run as microtasks, so without
 * these pauses timers, sockets and files would wait until all fibers are done.
 */
import * as Effect from "effect/Effect"
import * as Scheduler from "effect/Scheduler"

/** Admits a limited number of steps in each turn of the event loop. */
export interface Breathing {
  /** Returns at once for the first eight steps of a turn of the event loop; further steps wait for a later turn, in order. */
  readonly step: Effect.Effect<void>
}

/** Steps in one turn of the event loop. A step decodes or writes some rows: 1 to 4 ms. */
const stepsPerTurn = 6

/** Makes a limiter whose steps share one count. */
export const make = (): Breathing => {
  const waiting = new Set<() => void>() // in order
  let steps = 0
  let isTimed = false
  const scheduleTurn = () => {
    if (isTimed) return
    isTimed = true
    nextTurn(turn)
  }
  const turn = () => {
    isTimed = false
    steps = 0
    for (const resume of waiting) {
      if (steps >= stepsPerTurn) break
      steps++
      waiting.delete(resume)
      resume()
    }
    if (steps > 0) scheduleTurn()
  }
  return {
    step: Effect.suspend(() => {
      scheduleTurn()
      if (steps < stepsPerTurn && waiting.size === 0) {
        steps++
        return Effect.void
      }
      return Effect.async<void>((resume) => {
        const go = () => resume(Effect.void)
        waiting.add(go)
        return Effect.sync(() => waiting.delete(go))
      })
    })
  }
}

/** Waits for the next turn of the event loop. */
export const breath: Effect.Effect<void> = Effect.async((resume) => nextTurn(() => resume(Effect.void)))

/** Timers of the platform instead of the `Clock`, since no time of a `TestClock` has to pass. */
const timers = Scheduler.timerBatched(0)
/** Chains two timers: Node may run the first within the current turn, if it has expired already, but never the second. */
const nextTurn = (task: () => void) => timers.scheduleTask(() => timers.scheduleTask(task, 0), 0)
