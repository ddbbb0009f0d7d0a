/**
 * The harness's language model, reduced to what this library needs. A cassette is a file of recorded answers, which replays a run
 * without the model.
 *
 * ```ts
 * import { Effect } from "effect"
 * import { Completion } from "effect-memory"
 *
 * // a model of your own: `Layer.succeed(Completion.Completion, model)` provides it
 * const model = Completion.make({ model: "echo", complete: ({ user }) => Effect.succeed(`You said: ${user}`) })
 * const answer = await Effect.runPromise(model.complete({ system: "Repeat.", user: "tea" }))
 *
 * answer // => "You said: tea"
 * ```
 */
export { Completion, layerNone, layerRecord, layerReplay, layerScripted, make } from "./host/Completion.ts"
export type { Prompt, Service } from "./host/Completion.ts"
