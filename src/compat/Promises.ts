/** Common parts of the adapters of promise-based systems: the function that runs effects, and a `Completion` over a promise-based model. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as MemoryError from "../domain/MemoryError.ts"
import * as Completion from "../host/Completion.ts"

/**
 * Runs an effect as a promise: `Effect.runPromise`, or that of a runtime. The library runs no effect by itself. On failure the function
 * decides the rejection; `Effect.runPromise` rejects with a `FiberFailure` that has the error's message.
 */
export type Run = <A, E>(self: Effect.Effect<A, E>) => Promise<A>

/** Provides a `Completion` over a promise-based model. A rejection becomes a failure with `model`. */
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
