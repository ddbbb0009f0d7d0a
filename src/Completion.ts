/**
 * A language model as a service. The harness, which is the program that runs the agent, provides the model. The method `complete` returns
 * text; the method `object` returns a value of a Schema. `layerRecord` writes the answers of a model into a file, called a cassette.
 * `layerReplay` reads the answers from a cassette, without a model.
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
