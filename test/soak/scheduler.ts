/**
 * Lets the event loop turn within long tests, too (`turn.ts` does so between tests). Effect's scheduler resumes fibers in microtasks, so one
 * test in memory can hold the event loop for minutes, in which the worker answers nothing and Vitest gives up on the file. Here every
 * 1,024th task, and all that are scheduled meanwhile, wait for the next iteration of the event loop. They keep their order, because
 * `Effect.forEach` hangs if it is interrupted before the fiber that it has forked runs.
 */
import { defaultScheduler, type Scheduler } from "effect/Scheduler"

type Scheduled = Parameters<Scheduler["scheduleTask"]>

const schedule = defaultScheduler.scheduleTask.bind(defaultScheduler)
let scheduled = 0
let waiting: Array<Scheduled> | undefined

const resume = () => {
  const tasks = waiting ?? []
  waiting = undefined
  for (const task of tasks) schedule(...task)
}

defaultScheduler.scheduleTask = (...task) => {
  if (waiting === undefined && ++scheduled % 1_024 === 0) {
    waiting = []
    setImmediate(resume)
  }
  if (waiting === undefined) schedule(...task)
  else waiting.push(task)
}
