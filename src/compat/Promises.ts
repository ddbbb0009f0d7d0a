/**
 * Code that the adapters with promises share: the type of a function that runs effects, and a `Completion` over a model that returns
 * promises.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as MemoryError from "../domain/MemoryError.ts"
import * as Completion from "../host/Completion.ts"

/**
 * A function that runs an effect as a promise, such as `Effect.runPromise` or a method of a runtime. The library itself runs no effects.
 * The function also determines how the promise rejects. `Effect.runPromise` rejects with a `FiberFailure` that has the error's message.
 */
export type Run = <A, E>(self: Effect.Effect<A, E>) => Promise<A>

/** Provides a `Completion` over a model that returns promises. A rejected promise becomes a failure with the reason `model`. */
export const completion = (
  model: string,
  ask: (prompt: Completion.Prompt) => Promise<string>
): Layer.Layer<Completion.Completion> =>
  Layer.succeed(
    Completion.Completion,
    Completion.make({
      model,
      complete: (prompt) =>
        Effect.tryPromise({
          try: () => ask(prompt),
          catch: (cause) => MemoryError.make("model", { op: "complete", message: "the model failed", cause })
        })
    })
  )
