import { assert, it } from "@effect/vitest"
import { topK } from "../../src/ranking/internal/DocIds.ts"
import { random } from "./random.ts"

it("`topK` returns the first doc ids of a complete sort, up to the limit, for any scores", () => {
  for (let seed = 1; seed <= 60; seed++) {
    const { below } = random(seed)
    const count = 1 + below(2_000)
    const docs = Int32Array.from({ length: count }, (_, doc) => doc)
    const [levels, lowest] = [1 + below(400), below(3) === 0 ? -below(400) : 0]
    const scores = Float64Array.from(docs, () => (lowest + below(levels)) / 8)
    const tie = (a: number, b: number) => b - a
    const sorted = Array.from(docs).sort((a, b) => scores[b]! - scores[a]! || tie(a, b))
    for (const limit of [1, 1 + below(20), 160 + below(200), count]) {
      assert.deepStrictEqual(
        topK(docs, count, scores, limit, tie),
        sorted.slice(0, limit),
        `seed ${seed}, limit ${limit}`
      )
    }
  }
})
