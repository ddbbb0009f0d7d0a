import { assert, describe, it } from "@effect/vitest"
import * as Duration from "effect/Duration"
import * as FastCheck from "effect/FastCheck"
import * as MemoryKind from "../../src/domain/MemoryKind.ts"
import type { MemoryRecord } from "../../src/domain/MemoryRecord.ts"
import { defaultMemoryScorer, score } from "../../src/ranking/Scorer.ts"
import { record } from "./world.ts"

const hour = 3_600_000
const input = (fields: Parameters<typeof record>[1], over: Partial<{ relevance: number; now: number }> = {}) => ({
  record: record("r", fields),
  relevance: 0.4,
  kind: MemoryKind.working,
  now: 0,
  ...over
})

describe("score", () => {
  it("the score is the relevance if no weights are given or all are 0", () => {
    assert.deepStrictEqual(score({})(input({})), { score: 0.4, factors: { lexical: 0.4 } })
    assert.deepStrictEqual(score({ weights: { lexical: 0 } })(input({})), { score: 0.4, factors: { lexical: 0.4 } })
  })

  it("the score is the weighted mean of the factors, and the shares of the factors add up to the score", () => {
    const weights = { lexical: 2, importance: 1, confidence: 1 }
    assert.deepStrictEqual(score({ weights })(input({ importance: 1, confidence: 0 })), {
      score: 0.45,
      factors: { lexical: 0.2, importance: 0.25, confidence: 0 }
    })
    const unit = FastCheck.double({ min: 0, max: 1, noNaN: true })
    const weight = FastCheck.double({ min: 0, max: 100, noNaN: true })
    FastCheck.assert(
      FastCheck.property(unit, unit, weight, weight, weight, unit, (importance, relevance, a, b, c, ago) => {
        const weights = { lexical: a, recency: b, importance: c }
        const { factors, score: sum } = score({ weights })(input({ importance }, { relevance, now: ago * 1e9 }))
        assert.isTrue(sum >= 0 && sum <= 1)
        assert.closeTo(Object.values(factors).reduce((sum, part) => sum + part, 0), sum, 1e-12)
      }),
      { seed: 1 }
    )
  })

  it("a missing confidence counts as 0.5", () => {
    assert.strictEqual(score({ weights: { lexical: 0, confidence: 1 } })(input({})).score, 0.5)
  })

  it("recency halves with each half-life of the kind since the last change, from 1 down to 0.1", () => {
    const recency = (now: number, fields = {}, kind = MemoryKind.working) =>
      score({ weights: { lexical: 0, recency: 1 } })({ ...input(fields), now, kind }).score
    assert.strictEqual(recency(0), 1)
    assert.closeTo(recency(24 * hour), 0.5, 1e-12)
    assert.closeTo(recency(48 * hour), 0.25, 1e-12)
    assert.strictEqual(recency(1_000 * hour), 0.1)
    assert.closeTo(recency(48 * hour, { updatedAt: 24 * hour }), 0.5, 1e-12)
    assert.strictEqual(recency(0, { createdAt: hour }), 1)
    assert.strictEqual(recency(1e15, {}, { ...MemoryKind.working, halfLife: Duration.infinity }), 1)
    assert.strictEqual(recency(0, {}, { ...MemoryKind.working, halfLife: Duration.zero }), 1)
    assert.strictEqual(recency(1, {}, { ...MemoryKind.working, halfLife: Duration.zero }), 0.1)
  })

  it("the factor `emotion` compares the emotions of record and query; a record without an emotion gets 0.5", () => {
    const weights = { lexical: 0, emotion: 1 }
    const emotion = { V: 1, A: 1, D: 1 }
    const of = (felt: MemoryRecord["data"][string]) =>
      score({ weights, emotion })(input({ data: { emotion: felt } })).score
    assert.strictEqual(of(emotion), 1)
    assert.closeTo(of({ V: -1, A: 0, D: 0 }), 0, 1e-12)
    assert.strictEqual(score({ weights, emotion })(input({})).score, 0.5)
    for (const none of [null, "glad", { V: 2, A: 0, D: 0 }]) assert.strictEqual(of(none), 0.5)
    assert.strictEqual(score({ weights })(input({})).score, 0.4)
  })

  it("`score` ignores the weights `vector`, `conversation` and `graph`", () => {
    const weights = { vector: 5, conversation: 5, graph: 5 }
    assert.strictEqual(score({ weights })(input({})).score, 0.4)
  })
})

describe("defaultMemoryScorer", () => {
  it("`defaultMemoryScorer` returns 0.995^(hours since the last change) + importance + relevance", () => {
    assert.closeTo(defaultMemoryScorer(input({ importance: 0.7 }, { now: 10 * hour })), 0.995 ** 10 + 0.7 + 0.4, 1e-12)
    assert.strictEqual(defaultMemoryScorer(input({ createdAt: hour })), 1.9)
  })
})
