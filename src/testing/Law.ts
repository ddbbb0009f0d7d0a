/** A law of stores: a title that says it, and the check that holds a store to it. Knows nothing of any one store. */
import { assert } from "@effect/vitest"
import * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type * as MemoryError from "../domain/MemoryError.ts"
import type { Service } from "../storage/MemoryStore.ts"
import { ada, draft, get, put } from "./Sample.ts"

/** One more store of the sort, empty, and apart from every other. */
export type Another = Effect.Effect<Service, unknown, Scope.Scope>

export type Check = (store: Service, another: Another) => Effect.Effect<unknown, unknown, Scope.Scope>

export interface Law {
  readonly title: string
  /** Of an empty store, under a `TestClock`; fails or dies where the law is broken. */
  readonly check: Check
}

/**
 * The number of random courses of events that a property tries. Default: 40, and 6 on a durable store, which is slower.
 */
export class Courses extends Context.Reference<Courses>()("@memory/testing/Courses", {
  defaultValue: (): number | undefined => undefined
}) {}

/** How long the store keeps what was forgotten. Default 30 days, as for every store that is not told otherwise. */
export class Trash extends Context.Reference<Trash>()("@memory/testing/Trash", {
  defaultValue: (): Duration.DurationInput => "30 days"
}) {}

export const law = (title: string, check: Check): Law => ({ title, check })

/** Of stores that keep earlier revisions; one that says it does not is held to that. */
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

/** It fails, and for this reason. */
export const refuses = <R extends MemoryError.Reason, A>(
  reason: R,
  self: Effect.Effect<A, MemoryError.MemoryError>
): Effect.Effect<MemoryError.For<R>> =>
  Effect.match(self, {
    onSuccess: (value) => assert.fail(`expected ${reason}, but it succeeded with ${JSON.stringify(value)}`),
    onFailure: (error) => {
      assert.strictEqual(error.reason, reason, error.message)
      return error as MemoryError.For<R> // the line above made sure
    }
  })
