import { assert, describe, it } from "@effect/vitest"
import * as FastCheck from "effect/FastCheck"
import { values } from "../../src/domain/JsonText.ts"
import { times } from "../vault/Program.ts"

const finds = (title: string, text: string, ...expected: ReadonlyArray<unknown>) =>
  it(title, () => assert.deepStrictEqual(values(text), expected))

describe("JsonText.values", () => {
  finds("finds one value if the whole text is JSON", "{\"facts\":[\"a\"]}", { facts: ["a"] })
  finds("ignores prose and code fences around the JSON", "Sure!\n```json\n{\"facts\": [\"a\"]}\n```\nAnything else?", {
    facts: ["a"]
  })
  finds("ignores brackets in prose", "Sure [note] {maybe} {\"facts\":[\"a\"]} trailing [x]", { facts: ["a"] })
  finds("finds several values in order", "[1] then {\"a\":{}} then []", [1], { a: {} }, [])
  finds("ignores a quote in prose", "Use [\"] for quotes: {\"facts\":[\"a\"]}", { facts: ["a"] })
  finds("finds complete values within a broken value", "[{\"a\":1}, and more {\"b\":[2]}]", { a: 1 }, { b: [2] })
  finds("accepts trailing commas", "{\"a\":[1,2,],}", { a: [1, 2] })
  finds("accepts line breaks in strings", "{\"a\":\"x\ny\"}", { a: "x\ny" })
  finds("decodes escapes in strings", String.raw`["\u00e9\n\"\\\/\'"]`, ["é\n\"\\/'"])
  finds(
    "reads keys such as `__proto__`, and duplicate keys, as JSON.parse does",
    "{\"__proto__\":1,\"a\":2,\"a\":3}",
    JSON.parse("{\"__proto__\":1,\"a\":3}")
  )
  finds("finds nothing in a text without JSON", "no [idea], :-{ and nothing \"more\"")

  describe("JsonText.values of a truncated text", () => {
    finds("drops an incomplete string", "{\"facts\":[\"a\",\"b", { facts: ["a"] })
    finds("drops a number that may be incomplete", "{\"a\":1,\"b\":12", { a: 1 })
    finds("drops a key without its value", "{\"a\":1,\"b\":", { a: 1 })
    finds("keeps complete members of an incomplete object", "{\"memory\":[{\"id\":\"0\",\"te", {
      memory: [{ id: "0" }]
    })
    finds("drops incomplete containers without content", "[{\"a\":1},{\"b\":[{", [{ a: 1 }])
    finds("finds nothing in an empty incomplete array", "{\"facts\":[")
    finds("treats the end of a fence as the end of the text in the fence", "```json\n{\"facts\":[\"a\",\n```\nSorry.", {
      facts: ["a"]
    })
    finds(
      "prefers a complete value to an incomplete one before it",
      "{\"facts\":[\"a\", \"b\n\nAgain:\n{\"facts\":[\"c\"]}",
      {
        facts: ["c"]
      }
    )
  })

  const seed = 20_261
  const container = FastCheck.jsonValue({ maxDepth: 4 }).filter((value) => typeof value === "object" && value !== null)

  it("an object or array within prose is found, with the value that JSON.parse returns for it", () =>
    FastCheck.assert(
      FastCheck.property(container, FastCheck.constantFrom(0, 2), (value, indent) => {
        const text = JSON.stringify(value, null, indent)
        assert.deepStrictEqual(values(`Here it is: ${text}\nDone.`), [JSON.parse(text)])
      }),
      { seed, numRuns: 2_000 }
    ))

  it("the value returned for a truncated JSON array is a prefix of the whole array", () =>
    FastCheck.assert(
      FastCheck.property(FastCheck.array(FastCheck.integer(), { minLength: 1 }), FastCheck.nat(), (items, at) => {
        const text = JSON.stringify(items)
        const [found = [], ...more] = values(text.slice(0, at % text.length))
        assert.deepStrictEqual(more, [])
        assert.deepStrictEqual(found, items.slice(0, Array.isArray(found) ? found.length : -1))
      }),
      { seed, numRuns: 1_000 }
    ))

  it("any text is accepted without an error", () => {
    const piece = FastCheck.constantFrom(..."[]{}\",:\\ \n`1ea-", "```", "null", "\"a\"", "\\u00", "\ud800", "\"k\":")
    const text = FastCheck.array(piece, { maxLength: 60 }).map((pieces) => pieces.join(""))
    FastCheck.assert(
      FastCheck.property(text, (text) => {
        for (const value of values(text)) assert.isObject(JSON.parse(JSON.stringify({ value })))
      }),
      { seed, numRuns: 10_000 }
    )
  })

  /** Counts the characters that `values` reads one by one, by replacing the two methods that it reads them with. */
  const looks = (text: string): number => {
    const { charAt, charCodeAt } = String.prototype
    let count = 0
    String.prototype.charAt = function(at) {
      count++
      return charAt.call(this, at)
    }
    String.prototype.charCodeAt = function(at) {
      count++
      return charCodeAt.call(this, at)
    }
    try {
      values(text)
      return count
    } finally {
      Object.assign(String.prototype, { charAt, charCodeAt })
    }
  }

  const long = times(250_000, 1_000_000)
  it.each([
    "[",
    "{",
    "[\"",
    "{\"a\":",
    "{\"a\":[",
    "[\"[\",",
    "[1,",
    "[[1],",
    "[\"],[\",",
    "[\"\\\"",
    "[\\\"",
    "\"[",
    "[]",
    "[x",
    "{\"a\":1}x[",
    "[[]"
  ])(
    `a text of ${long} characters that repeats %j is accepted; one of 20,000 takes at most 12 reads per character`,
    (piece) => {
      for (const end of ["", " x ]}"]) {
        values(piece.repeat(long / piece.length) + end)
        const text = piece.repeat(20_000 / piece.length) + end
        assert.isAtMost(looks(text), 12 * text.length)
      }
    }
  )
})
