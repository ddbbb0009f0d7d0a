/**
 * Searches for a leak between viewers of a store. Runs random worlds (see `World`), each on two stores, of which one lacks the records of
 * foreign viewers, until enough answers of the two were compared. Shrinks a world in which an answer differs.
 */
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import * as LogLevel from "effect/LogLevel"
import * as assert from "node:assert"
import type { Counts } from "./Run.ts"
import * as Run from "./Run.ts"
import * as World from "./World.ts"

export interface Options extends Omit<World.Options, "steps">, Run.Options {
  /** Least number of operations whose answers are compared. */
  readonly operations: number
  /** Number of steps of each world. Default 300. */
  readonly steps?: number | undefined
  /** Seed of the first world; each further one has the next integer. Default 1. */
  readonly seed?: number | undefined
  /** Number of operations from one log message about the progress to the next. Default: the progress is not logged. */
  readonly logEvery?: number | undefined
  /** Largest number of runs for shrinking a world that fails; with 0, it is not shrunk. Default 200. */
  readonly shrinks?: number | undefined
}

export interface Found {
  readonly world: World.World
  readonly failure: Run.Failure
}

/** Runs worlds until enough operations are compared, or until the first world whose answers differ. */
export const attack = (name: string, store: Run.Store, options: Options): Effect.Effect<
  Counts & { readonly worlds: number; readonly found: Found | undefined },
  unknown
> =>
  Effect.gen(function*() {
    const { logEvery = Infinity, operations, agents, seed = 1, shrinks = 200, steps = 300 } = options
    let [compared, foreign, claimed, worlds] = [0, 0, 0, 0]
    const logProgress = () =>
      Console.log(
        `isolation, ${name}: ${compared.toLocaleString("en")} of ${
          operations.toLocaleString("en")
        } operations compared, ` +
          `${foreign.toLocaleString("en")} foreign ones beside them, ${claimed} refused for a claimed id, ` +
          `seeds ${seed} to ${seed + worlds - 1}`
      )
    for (let next = logEvery; compared < operations; worlds++) {
      const world = World.make(seed + worlds, { agents, steps })
      const outcome = yield* Run.run(world, store, options)
      compared += outcome.compared
      foreign += outcome.foreign
      claimed += outcome.known["claimed id"]
      if (outcome.failure) {
        const found = shrinks > 0
          ? yield* Run.shrunk(world, outcome.failure, store, shrinks, options)
          : { world, failure: outcome.failure }
        return { compared, foreign, known: { "claimed id": claimed }, worlds: worlds + 1, found }
      }
      if (compared >= next || compared >= operations && logEvery < Infinity) {
        worlds++
        yield* logProgress()
        worlds--
        next += logEvery
      }
    }
    return { compared, foreign, known: { "claimed id": claimed }, worlds, found: undefined }
  }).pipe(Logger.withMinimumLogLevel(LogLevel.Error))

/** Formats a failure: the difference, and the world that shows it. */
export const report = (name: string, { failure, world }: Found): string =>
  [
    `${name}: foreign records changed an answer at ${
      failure.path || "the top"
    } (world of seed ${world.seed}; replay it with ISOLATION_SEED=${world.seed})`,
    `  without them: ${JSON.stringify(failure.alone)}`,
    `  with them:    ${JSON.stringify(failure.crowded)}`,
    `  compared viewers: ${
      JSON.stringify(world.group)
    }, vectors: ${world.vectors}; ${world.steps.length} steps are left, the last ones:`,
    ...world.steps.slice(-25).map((step) => `  ${JSON.stringify(step)}`)
  ].join("\n")

/** Runs an attack and fails if an answer differed. */
export const holds = (name: string, store: Run.Store, options: Options) =>
  Effect.gen(function*() {
    const result = yield* attack(name, store, options)
    if (result.found) assert.fail(report(name, result.found))
    return result
  })
