/** An attack by comparison: as many random worlds as a number of operations takes, logged, and a failure cut down to its last steps. */
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import * as LogLevel from "effect/LogLevel"
import * as assert from "node:assert"
import type { Counts } from "./Run.ts"
import * as Run from "./Run.ts"
import * as World from "./World.ts"

export interface Options extends Omit<World.Options, "steps">, Run.Options {
  /** Operations to compare, at least. */
  readonly operations: number
  /** Of each world. Default 300. */
  readonly steps?: number | undefined
  /** Of the first world; each further one has the next. Default 1. */
  readonly seed?: number | undefined
  /** Says how far it is, every so many operations. Default never. */
  readonly logEvery?: number | undefined
  /** Runs spent on cutting a failing world down. Default 200. */
  readonly shrinks?: number | undefined
}

export interface Found {
  readonly world: World.World
  readonly failure: Run.Failure
}

/** Ends with the first world whose answers differ. */
export const attack = (name: string, store: Run.Store, options: Options): Effect.Effect<
  Counts & { readonly worlds: number; readonly found: Found | undefined },
  unknown
> =>
  Effect.gen(function*() {
    const { logEvery = Infinity, operations, agents, seed = 1, shrinks = 200, steps = 300 } = options
    let [compared, foreign, claimed, worlds] = [0, 0, 0, 0]
    const said = () =>
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
        yield* said()
        worlds--
        next += logEvery
      }
    }
    return { compared, foreign, known: { "claimed id": claimed }, worlds, found: undefined }
  }).pipe(Logger.withMinimumLogLevel(LogLevel.Error))

/** What a failing attack says: the difference, and the world that shows it. */
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

/** Fails where an answer differed. */
export const holds = (name: string, store: Run.Store, options: Options) =>
  Effect.gen(function*() {
    const result = yield* attack(name, store, options)
    if (result.found) assert.fail(report(name, result.found))
    return result
  })
