import { assert, describe, it } from "@effect/vitest"
import * as FastCheck from "effect/FastCheck"
import * as Schema from "effect/Schema"
import { deriveSummary, Summary } from "../../src/domain/MemoryRecord.ts"

const isSummary = Schema.is(Summary)

describe("deriveSummary", () => {
  it("`deriveSummary` returns a valid summary for every body that has text", () => {
    const space = FastCheck.integer({ min: 0, max: 4_200 }).map((n) => " ".repeat(n))
    const said = FastCheck.constantFrom("a", "😀", "\n", "word ".repeat(50), "😀".repeat(250))
    FastCheck.assert(
      FastCheck.property(FastCheck.array(FastCheck.oneof(space, said), { maxLength: 6 }), (parts) => {
        const body = parts.join("")
        assert.isTrue(isSummary(deriveSummary(body)) || body.trim() === "", JSON.stringify(body.slice(-20)))
      }),
      { seed: 1, numRuns: 2_000, examples: [[["a", " ".repeat(4_094), "😀"]], [[" ".repeat(4_200), "a"]]] }
    )
  })

  it("`deriveSummary` adds `…` exactly if the body has text after the summary, even if the summary is short", () => {
    const gap = " ".repeat(5_000)
    assert.strictEqual(deriveSummary(`a${gap}b`), "a…")
    assert.strictEqual(deriveSummary(`${"a".repeat(200)}${gap}b`), `${"a".repeat(199)}…`)
    assert.strictEqual(deriveSummary(`${gap}a${gap}`), "a")
    assert.strictEqual(deriveSummary(`a${" ".repeat(4_000)}b`), "a b")
    assert.strictEqual(deriveSummary(`${"a".repeat(200)}${gap}`), "a".repeat(200))
    assert.strictEqual(deriveSummary(`a…${gap}`), "a…")
  })
})
