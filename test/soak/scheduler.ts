/**
 * Lets the event loop turn within long tests, too (`turn.ts` does so between tests). Effect's scheduler resumes fibers in microtasks, and
 * waits for a timer only after 2,048 of them in a row, each of which may run 2,048 operations; a short fiber begins a new row. So one test
 * in memory can hold the event loop for minutes, in which the worker answers nothing and Vitest gives up on the file. Here the scheduler
 * waits for a timer at least every 64th time.
 */
import { defaultScheduler } from "effect/Scheduler"

let resumed = 0
Object.defineProperty(defaultScheduler, "maxNextTickBeforeTimer", { get: () => ++resumed % 64 === 0 ? 0 : 2_048 })
