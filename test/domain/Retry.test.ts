import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as MemoryError from "../../src/domain/MemoryError.ts"
import { reason } from "../kinds/EveryStore.ts"

describe("MemoryError.retryOnConflict", () => {
  it.effect("MemoryError.retryOnConflict fails with `conflict` after 1,001 attempts, and lets other fibers run between them", () =>
    Effect.gen(function*() {
      const detail = { expected: 1, actual: 2 }
      let attempts = 0
      const lasting = Effect.suspend(() => {
        attempts++
        return MemoryError.make("conflict", { op: "update", message: "another revision", detail })
      })
      assert.strictEqual(yield* reason(MemoryError.retryOnConflict(lasting)), "conflict")
      assert.strictEqual(attempts, 1_001)
      attempts = 0
      // the timer interrupts the retries only if they yield to it
      yield* Effect.raceFirst(MemoryError.retryOnConflict(lasting), Effect.sleep(1)).pipe(
        Effect.withClock(Clock.make())
      )
      assert.isBelow(attempts, 1_000)
    }))
})
