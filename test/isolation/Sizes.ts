/**
 * Numbers of operations that the isolation test compares: some seconds of work by default. Under `npm run soak`, 100,000 operations of
 * viewers on the store in memory, or 1,000,000 with `--long`; fewer operations of agents, and fewer on other stores.
 */
import { isLong, times } from "../vault/Program.ts"

/** Numbers of operations and of steps per world within which the test must detect each store of `mutants` in `Mutants.test.ts`. */
export const short = { operations: 600, steps: 160 } as const

const steps = times(short.steps, 300)
const logEvery = times(Infinity, isLong ? 50_000 : 10_000)

export const sizes = {
  memory: { operations: times(short.operations, isLong ? 1_000_000 : 100_000), steps, logEvery },
  others: { operations: times(200, isLong ? 20_000 : 2_000), steps, logEvery: logEvery / 10 },
  agents: { operations: times(200, isLong ? 100_000 : 5_000), steps, logEvery: logEvery / 10 },
  /** Smaller numbers, since stores on a disk or a server are slower. */
  durable: {
    operations: times(100, isLong ? 20_000 : 2_000),
    steps: times(80, 300),
    logEvery: logEvery / 10,
    shrinks: 40
  }
}

/** Seed of the first world. Set `ISOLATION_SEED` to repeat a failure. Default 1. */
export const seed = Number(process.env["ISOLATION_SEED"] ?? 1)

/** Timeout of each test in milliseconds; long enough for a busy machine. */
export const patience = times(300_000, isLong ? 36_000_000 : 1_800_000)
