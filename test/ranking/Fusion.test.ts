import { assert, describe, it } from "@effect/vitest"
import * as FastCheck from "effect/FastCheck"
import { type RankedList, reciprocalRank } from "../../src/ranking/Fusion.ts"

/** Makes a ranked list with falling scores. Each character of `ids` is the id of one hit. */
const leg = (ids: string, weight?: number): RankedList<string> => ({
  name: ids,
  hits: Array.from(ids, (id, n) => ({ id, score: 1 / (n + 1) })),
  weight
})
const order = (...legs: ReadonlyArray<RankedList<string>>) => reciprocalRank(legs).map(({ id }) => id).join("")

describe("reciprocalRank", () => {
  it("a hit's score is the sum of weight ÷ (60 + rank) over the rankings, divided by the sum of weight ÷ 61", () => {
    const most = 1 / 61 + 2 / 61
    const scores = new Map(reciprocalRank([leg("ab"), leg("bc", 2)]).map(({ id, score }) => [id, score]))
    assert.deepStrictEqual(Array.from(scores.keys()), ["b", "c", "a"])
    assert.closeTo(scores.get("a")!, 1 / 61 / most, 1e-15)
    assert.closeTo(scores.get("b")!, (1 / 62 + 2 / 61) / most, 1e-15)
    assert.closeTo(scores.get("c")!, 2 / 62 / most, 1e-15)
  })

  it("a hit scores 1 if first in all rankings, and 0.5 if first in one of two equally weighted and absent from the other", () => {
    assert.deepStrictEqual(reciprocalRank([leg("a"), leg("a", 7), leg("a", 0.1)]), [{ id: "a", score: 1 }])
    assert.closeTo(reciprocalRank([leg("a"), leg("")])[0]!.score, 0.5, 1e-15)
  })

  it("the default `k` puts a hit fourth in two rankings before hits first in one; a `k` of 0 does the reverse", () => {
    assert.strictEqual(order(leg("xyzm"), leg("uvwm")), "mxuyvzw")
    assert.strictEqual(reciprocalRank([leg("xyzm"), leg("uvwm")], 0).map(({ id }) => id).join(""), "xuymvzw")
  })

  it("hits with equal scores in a ranking share one rank, as in the ranks 1, 2, 2, 4", () => {
    const hits = [["a", 3], ["b", 2], ["c", 2], ["d", 1]].map(([id, score]) => ({ id: id!, score: Number(score) }))
    const [a, b, c, d] = reciprocalRank([{ name: "tied", hits }], 0).map(({ score }) => score)
    assert.deepStrictEqual([a, b, c, d], [1, 1 / 2, 1 / 2, 1 / 4])
  })

  it("hits with equal fused scores are ordered by their first occurrence in the rankings", () => {
    assert.strictEqual(order(leg("ab"), leg("ba")), "ab")
    assert.strictEqual(order(leg("b"), leg("a")), "ba")
  })

  it("rankings with a weight of 0 or less are ignored, and the fusion of no rankings is empty", () => {
    assert.strictEqual(order(leg("a"), leg("bcd", 0), leg("e", -1)), "a")
    assert.strictEqual(reciprocalRank([leg("a"), leg("b", 0)])[0]!.score, 1)
    assert.deepStrictEqual(reciprocalRank([]), [])
    assert.deepStrictEqual(reciprocalRank([leg(""), leg("a", 0)]), [])
  })

  it("random rankings give one hit per id, with scores of 0..1 in descending order", () => {
    const ids = FastCheck.uniqueArray(FastCheck.constantFrom(..."abcdefgh"), { maxLength: 8 })
    const legs = FastCheck.array(
      FastCheck.tuple(ids, FastCheck.double({ min: 1e-3, max: 100, noNaN: true })).map(([ids, weight]) =>
        leg(ids.join(""), weight)
      ),
      { maxLength: 4 }
    )
    FastCheck.assert(
      FastCheck.property(legs, (legs) => {
        const hits = reciprocalRank(legs)
        const scores = hits.map(({ score }) => score)
        assert.deepStrictEqual(scores, scores.slice().sort((a, b) => b - a))
        for (const score of scores) assert.isTrue(score > 0 && score <= 1)
        assert.sameMembers(hits.map(({ id }) => id), Array.from(new Set(legs.flatMap(({ name }) => Array.from(name)))))
        const doubled = legs.map((leg) => ({ ...leg, weight: 2 * leg.weight! }))
        assert.deepStrictEqual(reciprocalRank(doubled), hits)
      }),
      { seed: 1, numRuns: 1_000 }
    )
  })
})
