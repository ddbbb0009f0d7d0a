/** Laws of stores. A law is a statement that is true for every store. The title is the statement. The check tests a store. */
import { assert } from "@effect/vitest"
import * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type * as MemoryError from "../domain/MemoryError.ts"
import type { Service } from "../storage/MemoryStore.ts"
import { ada, draft, get, put } from "./Sample.ts"

/** Makes another store from the same layer. The new store is empty and independent of all others. */
export type Another = Effect.Effect<Service, unknown, Scope.Scope>

/** Checks a store; `another` makes further stores from the same layer. */
export type Check = (store: Service, another: Another) => Effect.Effect<unknown, unknown, Scope.Scope>

/** A law of stores. */
export interface Law {
  readonly title: string
  /** Checks an empty store, under a `TestClock`. Fails or dies if the store breaks the law. */
  readonly check: Check
}

/** Number of random sequences of operations for each law about such sequences. Default 40, or 6 for a durable store. */
export class Courses extends Context.Reference<Courses>()("@memory/testing/Courses", {
  defaultValue: (): number | undefined => undefined
}) {}

/** Time for which the store under test keeps forgotten records. The default is the default of stores, 30 days. */
export class Trash extends Context.Reference<Trash>()("@memory/testing/Trash", {
  defaultValue: (): Duration.DurationInput => "30 days"
}) {}

/** Makes a law. */
export const law = (title: string, check: Check): Law => ({ title, check })

/** Makes a law about earlier revisions. If a store has no `history`, the law checks instead that only the current revision is kept. */
export const ofHistory = (title: string, check: Check): Law =>
  law(title, (store, another) => store.capabilities.history ? check(store, another) : currentOnly(store))

const currentOnly = (store: Service) =>
  Effect.gen(function*() {
    const { id } = yield* put(store, draft("tea"))
    const record = yield* store.update(ada, id, { body: "green tea" })
    assert.deepStrictEqual(yield* store.history(ada, id), [record])
    yield* refuses("not_found", store.apply(ada, [{ _tag: "Restore", id, revision: 1 }]))
    assert.deepStrictEqual(yield* get(store, ada, id), record)
  })

/** Asserts that an effect fails with the given reason; returns the error. */
export const refuses = <R extends MemoryError.Reason, A>(
  reason: R,
  self: Effect.Effect<A, MemoryError.MemoryError>
): Effect.Effect<MemoryError.For<R>> =>
  Effect.match(self, {
    onSuccess: (value) => assert.fail(`expected ${reason}, but it succeeded with ${JSON.stringify(value)}`),
    onFailure: (error) => {
      assert.strictEqual(error.reason, reason, error.message)
      return error as MemoryError.For<R> // the assertion above checked the reason
    }
  })
