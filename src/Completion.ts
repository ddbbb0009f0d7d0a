/**
 * A service for a language model. The harness (the program that runs the agent) provides the model. `complete` returns text, and `object`
 * returns a value of a Schema. `layerRecord` writes the answers of a model to a file, called a cassette. `layerReplay` answers from a
 * cassette, without a model.
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
