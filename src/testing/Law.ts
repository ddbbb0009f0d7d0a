/** A law of stores: a title that says it, and the check that holds a store to it. Knows nothing of any one store. */
import { assert } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type * as MemoryError from "../domain/MemoryError.ts"
import type { Capabilities, Service } from "../storage/MemoryStore.ts"

/** One more store of the sort, empty, and apart from every other. */
export type Another = Effect.Effect<Service, unknown, Scope.Scope>

export type Check = (store: Service, another: Another) => Effect.Effect<unknown, unknown, Scope.Scope>

export interface Law {
  readonly title: string
  /** Which stores it is about. Default all. */
  readonly when: (capabilities: Capabilities) => boolean
  /** Of an empty store, under a `TestClock`; fails or dies where the law is broken. */
  readonly check: Check
}

export const law = (title: string, check: Check, when: Law["when"] = () => true): Law => ({ title, when, check })

/** Of stores that keep earlier revisions. */
export const ofHistory = (title: string, check: Check): Law => law(title, check, ({ history }) => history)

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
