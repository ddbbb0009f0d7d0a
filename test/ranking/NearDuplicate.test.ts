import { assert, describe, it } from "@effect/vitest"
import * as FastCheck from "effect/FastCheck"
import { fold, isNear, signature } from "../../src/ranking/NearDuplicate.ts"
import * as Scorer from "../../src/ranking/Scorer.ts"
import { uniform } from "./vectors.ts"
import { naughty } from "./world.ts"

const near = (a: string, b: string) => isNear(signature(a), signature(b))

/** Makes seeded prose of `count` words, drawn from a vocabulary of 400. */
const prose = (count: number, seed: number): Array<string> => {
  const next = uniform(seed)
  const word = (n: number) =>
    Array.from({ length: 3 + n % 5 }, (_, i) => "etaoinshrdlu"[Math.floor(n / 12 ** (i % 3)) % 12]).join("")
  return Array.from({ length: count }, () => word(Math.floor(next() * next() * 400)))
}

describe("isNear", () => {
  it("texts are near if they differ only in case, accents, white space, character width or punctuation without meaning", () => {
    for (
      const [a, b] of [
        ["Ada likes green tea.", "ada LIKES   green tea"],
        ["Ada likes: green tea!", "“Ada” likes — green\ttea…\n"],
        ["Zoë's café", "ZOE’S CAFE"],
        ["Zoe\u0308 naïve", "zoe naive"],
        ["- **Deploy** on `Friday`", "deploy on friday"],
        ["ＡＤＡ likes tea", "ada likes tea"],
        ["東京に住んでいる。", "東京に住んでいる"],
        ["at \u22125 degrees", "at -5 degrees"],
        ["Йога по утрам", "йога, по утрам"]
      ]
    ) assert.isTrue(near(a!, b!), `${a} | ${b}`)
  })

  const apart: ReadonlyArray<readonly [string, string]> = [
    ["The meeting is in room 12", "The meeting is in room 13"],
    ["room 1", "room 2"],
    ["Ada likes tea", "Ada does not like tea"],
    ["Ada does like tea", "Ada doesn't like tea"],
    ["Ada likes tea with milk", "Ada likes tea without milk"],
    ["Fly from Paris to Rome", "Fly from Rome to Paris"],
    ["Fly to Paris from Rome", "Fly from Paris to Rome"],
    ["Ada's favourite colour is blue", "Ada's favourite colour is green"],
    ["plan a", "plan b"],
    ["version 1.2", "version 12"],
    ["at 3.50", "at 3:50"],
    ["it is -5 degrees", "it is 5 degrees"],
    ["it costs $5", "it costs €5"],
    ["it costs $5", "it costs 5"],
    ["50% of it", "50 of it"],
    ["knows C++", "knows C#"],
    ["x > y", "x < y"],
    ["I feel 👍", "I feel 👎"],
    ["がく", "かく"],
    ["東京", "京都"],
    ["", "a"],
    ["!!!", "???"]
  ]

  it("short texts are not near if they differ in a word, a number, a negation, a sign or the order of words", () => {
    for (const [a, b] of apart) assert.isFalse(near(a, b), `${a} | ${b}`)
  })

  it("long texts that differ in one number, sign, negation or one-letter word, at the start, inside or at the end, are not near", () => {
    const strict = [
      ["12", "13"],
      ["is", "isn't"],
      ["is", "is not"],
      ["can", "cannot"],
      ["with", "without"],
      ["b", "c"],
      ["-5", "5"],
      ["1.5", "1/5"],
      ["$5", "€5"],
      ["<", ">"],
      ["ist", "ist nicht"],
      ["est", "n'est pas"],
      ["c++", "c#"],
      ["١٢", "١٣"],
      ["去", "不去"]
    ]
    for (const length of [100, 1_000]) {
      for (const [a, b] of strict) {
        for (const at of [0, 37, length]) {
          const words = prose(length, length + at)
          const text = (word: string) => words.toSpliced(at, 0, word).join(" ")
          assert.isTrue(near(text(a!), text(a!).toUpperCase()))
          assert.isFalse(near(text(a!), text(b!)), `${a} | ${b} at ${at} of ${length}`)
        }
      }
    }
  })

  it("more than 280 of 300 copies of long texts, each with one word changed, removed or added, are near to the original", () => {
    let folded = 0
    for (let seed = 0; seed < 100; seed++) {
      const words = prose(600, seed)
      const at = seed * 5
      for (const other of [words.with(at, "another"), words.toSpliced(at, 1), words.toSpliced(at, 0, "another")]) {
        if (near(words.join(" "), other.join(" "))) folded++
      }
    }
    assert.isAbove(folded, 280)
  })

  it("long texts are not near if every tenth word is changed", () => {
    for (let seed = 0; seed < 100; seed++) {
      const words = prose(300, seed)
      assert.isFalse(near(words.join(" "), words.map((word, n) => n % 10 === 0 ? `other${word}` : word).join(" ")))
    }
  })

  it("a text that repeats `tea with milk` has the same signature for 100, 400 and 4,000 repetitions", () => {
    const said = signature("tea with milk ".repeat(100))
    for (const times of [400, 4_000]) assert.deepStrictEqual(signature("tea with milk ".repeat(times)), said)
  })

  it("no two of 303 long texts are near, not even three with the same words in different orders", () => {
    const signatures = Array.from({ length: 300 }, (_, seed) => signature(prose(100 + seed, seed).join(" ")))
    const words = prose(200, 1)
    for (const order of [words, words.toReversed(), words.toSorted()]) signatures.push(signature(order.join(" ")))
    signatures.forEach((a, i) => signatures.slice(i + 1).forEach((b) => assert.isFalse(isNear(a, b))))
  })

  it("`isNear` is reflexive and symmetric for any texts, and a signature consists of 32-bit integers", () => {
    const text = FastCheck.oneof(
      FastCheck.fullUnicodeString(),
      FastCheck.string16bits(),
      FastCheck.constantFrom(...naughty)
    )
    FastCheck.assert(
      FastCheck.property(text, text, (a, b) => {
        assert.deepStrictEqual(signature(a), signature(a))
        assert.isTrue(near(a, a))
        assert.strictEqual(near(a, b), near(b, a))
        for (const number of Object.values(signature(a))) assert.strictEqual(number, number | 0)
        assert.isTrue(near(a, ` ${a}\n`) || !/\p{L}|\p{N}/u.test(a))
      }),
      { seed: 1, numRuns: 2_000 }
    )
  })

  it("none of 20,000 short texts is near to a copy with one word changed", () => {
    for (let seed = 0; seed < 20_000; seed++) {
      const words = prose(3 + seed % 60, seed)
      assert.isFalse(near(words.join(" "), words.with(seed % words.length, "another").join(" ")))
    }
  })
})

describe("fold", () => {
  it("`fold` keeps the first item of each group of near-duplicates, and returns the number of all dropped items", () => {
    const items = ["Tea.", "coffee", "tea", "TEA!", "Coffee", "milk"].map((text, n) => ({ text, n }))
    const { folded, kept } = fold(items, ({ text }) => text)
    assert.deepStrictEqual(kept.map(({ n }) => n), [0, 1, 5])
    assert.strictEqual(folded, 3)
    assert.deepStrictEqual(fold([], String), { kept: [], folded: 0 })
  })

  it("`fold` treats texts without words as duplicates only if the texts are equal", () => {
    assert.deepStrictEqual(fold(["", "!!!", "", "???", "!!!"], String), { kept: ["", "!!!", "???"], folded: 2 })
  })

  it("two long texts of accents alone, different at the end, are not near; a repeated call of `signature` returns an equal signature", () => {
    const [a, b] = ["\u0301", "\u0302"].map((end) => "\u0301".repeat(5_000) + end)
    const first = signature(a!)
    assert.isFalse(isNear(first, signature(b!)))
    signature("x".repeat(50_000))
    assert.deepStrictEqual(signature(a!), first)
  })

  it("the function `fold` is also exported as Scorer.fold", () => assert.strictEqual(Scorer.fold, fold))
})
