/** Parts of every adapter whose system speaks in promises: the function that runs effects, and a model that answers with a promise. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as MemoryError from "../domain/MemoryError.ts"
import * as Completion from "../host/Completion.ts"

/**
 * Runs an effect as a promise: `Effect.runPromise`, or that of a runtime. The library runs none by itself. A failure rejects the
 * promise with what the function makes of it; `Effect.runPromise` rejects with a `FiberFailure`, whose message is the error's.
 */
export type Run = <A, E>(self: Effect.Effect<A, E>) => Promise<A>

/** Provides a `Completion` that asks a model by promise. A rejection becomes a failure with `model`. */
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
