import { assert, describe, it } from "@effect/vitest"
import { mean, pieces } from "../../bench/sentence-encoder.mjs"

describe("the example of an Embedder", () => {
  it("a text of short sentences is split at sentence ends into pieces of at most 480 characters; a longer word is cut every 480", () => {
    const text = Array.from({ length: 60 }, (_, n) => `Sentence number ${n} says a little about the harbour.`).join(" ")
    const all = pieces(text)
    assert.isAbove(all.length, 5)
    assert.isTrue(all.every((piece) => piece.length <= 480 && piece.endsWith(".")))
    assert.strictEqual(all.join(" "), text)
    const word = "x".repeat(1_000)
    assert.deepStrictEqual(pieces(word).map(({ length }) => length), [480, 480, 40])
    assert.deepStrictEqual(pieces(" short "), ["short"])
  })

  it("the vector of a text is the normalised mean of the normalised vectors of its pieces", () => {
    const axis = (n: number, length: number) => Array.from({ length: 512 }, (_, i) => i === n ? length : 0)
    const vector = mean([axis(0, 5), axis(1, 0.1)])
    assert.closeTo(vector[0]!, Math.SQRT1_2, 1e-6)
    assert.closeTo(vector[1]!, Math.SQRT1_2, 1e-6)
  })
})
