import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as EventLoop from "../../src/host/EventLoop.ts"

describe("EventLoop.inTurn", () => {
  it.live("runs long steps of fibers side by side one after the other, no two in one turn of the event loop", () =>
    Effect.gen(function*() {
      let turn = 0
      let isOver = false
      const count = () => {
        turn++
        if (!isOver) setImmediate(count)
      }
      setImmediate(count)
      const inTurn = yield* EventLoop.inTurn
      const turns = yield* Effect.forEach(
        Array.from({ length: 8 }, (_, n) => n),
        (n) => inTurn(() => [n, turn] as const, () => 20_000),
        { concurrency: "unbounded" }
      )
      isOver = true
      assert.deepStrictEqual(turns.map(([n]) => n), [0, 1, 2, 3, 4, 5, 6, 7])
      assert.strictEqual(new Set(turns.map(([, turn]) => turn)).size, turns.length)
    }))
})
