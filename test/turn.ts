/**
 * Lets the event loop turn after every test. Fibers resume in microtasks, so tests in memory follow each other without a turn;
 * on a busy machine a worker was then silent for more than a minute, and Vitest gave up on all of its tests.
 */
import { afterEach } from "@effect/vitest"

afterEach(() => new Promise<void>((resume) => setImmediate(resume)))
