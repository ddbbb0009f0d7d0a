import { assert, describe, it } from "@effect/vitest"
import * as FastCheck from "effect/FastCheck"
import * as AdaptiveMemory from "../../src/kinds/AdaptiveMemory.ts"
import * as Analyzer from "../../src/ranking/Analyzer.ts"
import { record } from "../ranking/world.ts"

const { integer, double } = FastCheck

const unit = double({ min: 0, max: 1, noNaN: true })
const weight = double({ min: 0, max: Number.MAX_VALUE, noNaN: true })
const components = FastCheck.record({ recency: unit, importance: unit, relevance: unit })
const weights = FastCheck.record({ recency: weight, importance: weight, relevance: weight }, { requiredKeys: [] })
const names = ["recency", "importance", "relevance"] as const

describe("AdaptiveMemory's priority", () => {
  it("`sharesOf` scales its weights to a sum of 1, and returns `undefined` if all are 0", () => {
    for (const name of names) {
      assert.closeTo(AdaptiveMemory.sharesOf()![name], AdaptiveMemory.defaultPriority[name], 1e-12)
    }
    assert.deepStrictEqual(AdaptiveMemory.sharesOf({ recency: 0, importance: 0, relevance: 7 }), {
      recency: 0,
      importance: 0,
      relevance: 1
    })
    const { recency } = AdaptiveMemory.sharesOf({ recency: 0.6 })!
    assert.closeTo(recency, 0.5, 1e-12)
    assert.isUndefined(AdaptiveMemory.sharesOf({ recency: 0, importance: 0, relevance: 0 }))
  })

  it("the priority lies in 0..1 and never falls when recency, importance or relevance rises", () => {
    FastCheck.assert(
      FastCheck.property(weights, components, components, (weights, a, b) => {
        const shares = AdaptiveMemory.sharesOf(weights)
        if (shares === undefined) return
        assert.closeTo(shares.recency + shares.importance + shares.relevance, 1, 1e-9)
        const before = AdaptiveMemory.priorityOf(a, shares)
        assert.isTrue(before >= 0 && before <= 1)
        for (const name of names) {
          const after = AdaptiveMemory.priorityOf({ ...a, [name]: b[name] }, shares)
          assert.isTrue(b[name] >= a[name] ? after >= before : after <= before)
        }
      }),
      { seed: 4, numRuns: 1_000 }
    )
  })

  it("recency is 1 up to the last use or change of a record, and then halves with each half-life, down to 0.1", () => {
    const day = AdaptiveMemory.defaultHalfLife
    const old = record("a", { createdAt: 0 })
    const at = (now: number, accessedAt?: number) => AdaptiveMemory.recencyAt(old, { accessedAt, halfLife: day, now })
    assert.deepStrictEqual([0, day, 2 * day, 5 * day].map((now) => at(now)), [1, 0.5, 0.25, 0.1])
    assert.deepStrictEqual([at(2 * day, day), at(2 * day, 3 * day)], [0.5, 1])
    assert.strictEqual(
      AdaptiveMemory.recencyAt(record("b", { createdAt: 0, updatedAt: day }), {
        accessedAt: 0,
        halfLife: day,
        now: day
      }),
      1
    )
    FastCheck.assert(
      FastCheck.property(integer(), integer(), (a, b) => assert.isTrue(at(Math.max(a, b)) <= at(Math.min(a, b)))),
      { seed: 4 }
    )
  })

  it("relevance is the share of the query's terms that the record contains, and 0.5 for a query without terms", () => {
    const { index, query } = Analyzer.make()
    const tea = record("tea", { summary: "Green tea", body: "from Japan", tags: ["drink"] })
    const relevance = (text: string) => AdaptiveMemory.coverageBy(new Set(query(text)), index)(tea)
    assert.deepStrictEqual(["green teas", "green cup", "coffee", "drinks", "", "?!", "the"].map(relevance), [
      1,
      0.5,
      0,
      1,
      0.5,
      0.5,
      0.5
    ])
  })
})
