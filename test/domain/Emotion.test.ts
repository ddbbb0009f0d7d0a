import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import * as Emotion from "../../src/domain/Emotion.ts"
import { stripMetaTags } from "../../src/domain/Message.ts"

describe("Emotion", () => {
  it("`AppraisalWire` decodes snake_case and camelCase keys, clamps numbers, and replaces missing numbers and NaN by neutral values", () => {
    const { decodeSync, encodeSync } = Schema
    const wire = { goal_relevance: -3, goalCongruence: 0.5, urgency: 7, agency: Infinity, expectedness: NaN, other: 1 }
    const appraisal = decodeSync(Emotion.AppraisalWire)(wire)
    assert.deepStrictEqual(appraisal, {
      ...Emotion.NEUTRAL_APPRAISAL,
      goalRelevance: -1,
      goalCongruence: 0.5,
      urgency: 1,
      agency: 1
    })
    const encoded = encodeSync(Emotion.AppraisalWire)(appraisal)
    assert.lengthOf(Object.keys(encoded), 9)
    assert.strictEqual(encoded["adjustment_potential"], 0.5)
    assert.deepStrictEqual(decodeSync(Emotion.AppraisalWire)(encoded), appraisal)
    assert.deepStrictEqual(decodeSync(Emotion.AppraisalWire)({}), Emotion.NEUTRAL_APPRAISAL)
  })

  it("`clampVAD` clamps numbers to their ranges, and replaces missing numbers and NaN by the neutral value", () => {
    assert.deepStrictEqual(Emotion.clampVAD({ V: -2, A: -1, D: NaN }), { V: -1, A: 0, D: 0.5 })
    assert.deepStrictEqual(Emotion.clampVAD({}), Emotion.neutral)
  })

  it("`congruence` returns 1 for equal emotions and 0 for opposite extremes, and is symmetric", () => {
    const [low, high] = [{ V: -1, A: 0, D: 0 }, { V: 1, A: 1, D: 1 }]
    assert.strictEqual(Emotion.congruence(low, low), 1)
    assert.closeTo(Emotion.congruence(low, high), 0, 1e-12)
    assert.strictEqual(Emotion.congruence(low, Emotion.neutral), Emotion.congruence(Emotion.neutral, low))
  })
})

describe("stripMetaTags", () => {
  it.each([
    ["[happy] hi", "hi"],
    ["[a [b] c] [d]\n hi [e]", "hi [e]"],
    ["[two\nlines]hi", "hi"],
    ["[happy][sad]", "[happy][sad]"],
    ["[open hi", "[open hi"],
    ["[a] [open hi", "[open hi"],
    ["hi", "hi"],
    ["", ""]
  ])("the text %j becomes %j", (text, expected) => assert.strictEqual(stripMetaTags(text), expected))
})
