import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { program, times } from "./Program.ts"

const Line = Schema.Struct({ turns: Schema.Int, waiting: Schema.Int, alive: Schema.Int })

describe("an outbox (queue of messages from which memories are extracted) that has become empty", () => {
  it.scopedLive(
    "an empty outbox uses about as much heap after many conversation turns as after few",
    () =>
      Effect.gen(function*() {
        const turns = times(250, 5_000)
        const child = yield* program("turns.mjs", [times(20, 200), turns, 4 * turns].map(String), Line, ["--expose-gc"])
        const few = yield* child.line
        const many = yield* child.line
        assert.strictEqual(yield* child.end, 0)
        assert.deepStrictEqual([few.waiting, many.waiting], [0, 0])
        assert.closeTo(many.alive / few.alive, 1, 0.1)
        yield* Effect.logInfo(`${few.alive} bytes after ${few.turns} turns, ${many.alive} after ${many.turns}`)
      })
  )
})
