/**
 * Lets the process breathe: spreads the work of an outbox over turns of the event loop. Fibers that never wait for I/O run
 * as microtasks, so that without this timers, sockets and files wait until all of them are done.
 */
import * as Effect from "effect/Effect"
import * as Scheduler from "effect/Scheduler"

export interface Breathing {
  /** Returns at once for the first steps of a turn of the event loop, and at a later turn for the others, in order. */
  readonly step: Effect.Effect<void>
}

/** Steps in one turn of the event loop. A step decodes or writes some rows: 1 to 4 ms. */
const stepsPerTurn = 6

export const make = (): Breathing => {
  const waiting = new Set<() => void>() // in order
  let steps = 0
  let isTimed = false
  const time = () => {
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
    if (steps > 0) time()
  }
  return {
    step: Effect.suspend(() => {
      time()
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

/** By a timer of the platform and not by the Clock: no time is meant to pass. */
const timers = Scheduler.timerBatched(0)
/** Two timers: Node runs one that has expired during this turn within this turn, and the second cannot have. */
const nextTurn = (task: () => void) => timers.scheduleTask(() => timers.scheduleTask(task, 0), 0)
