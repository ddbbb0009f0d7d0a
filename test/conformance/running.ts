/** Runs the promises of an adapter within a test, with the test's clock and services. */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Runtime from "effect/Runtime"

/** Runs an effect as a promise, which is rejected with the effect's own failure. */
export type Run<R = never> = <A, E>(self: Effect.Effect<A, E, R>) => Promise<A>

/** Returns a function that runs effects in the runtime of the current test. */
export const running = <R = never>(): Effect.Effect<Run<R>, never, R> =>
  Effect.map(Effect.runtime<R>(), (runtime) => async (self) => {
    const exit = await Runtime.runPromiseExit(runtime)(self)
    if (Exit.isFailure(exit)) throw Cause.squash(exit.cause)
    return exit.value
  })

/** Waits for a promise; a rejection fails the test. */
export const awaited = <A>(promise: () => Promise<A>): Effect.Effect<A> => Effect.promise(promise)

/** Waits for a promise; returns the value with which it was rejected, `undefined` if it was not. */
export const rejection = (promise: () => Promise<unknown>): Effect.Effect<unknown> =>
  Effect.promise(() => promise().then(() => undefined, (cause: unknown) => cause))
