/**
 * Waits for the next iteration of the event loop after every test. Fibers resume in microtasks, so tests in memory follow each other within
 * one iteration: on a busy machine, a worker then answers nothing for more than a minute, and Vitest gives up on all of its tests.
 */
import { afterEach } from "@effect/vitest"

afterEach(() => new Promise<void>((resume) => setImmediate(resume)))
