import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as TestClock from "effect/TestClock"
import * as Transaction from "../../src/storage/MemoryStore/internal/Transaction.ts"

describe("IdGenerator", () => {
  it.effect("the ids of a tenant always increase, even if the clock goes back", () =>
    Effect.gen(function*() {
      const { next } = yield* Transaction.makeIdGenerator
      const lasts = new Map<string, string>()
      const round = (tenants: number) =>
        Effect.gen(function*() {
          for (let n = 0; n < tenants; n++) {
            const id = yield* next(`t${n}`)
            assert.isTrue(id > (lasts.get(`t${n}`) ?? ""), `t${n}`)
            lasts.set(`t${n}`, id)
          }
        })
      yield* TestClock.setTime(10_000)
      yield* round(10_500)
      yield* TestClock.setTime(5_000)
      yield* round(500)
      yield* round(500)
      yield* TestClock.setTime(20_000)
      yield* round(500)
    }))
})
