import { assert, describe, it } from "@effect/vitest"
import * as Either from "effect/Either"
import * as Frontmatter from "../../../src/storage/MemoryStore/Markdown/Frontmatter.ts"

const matter = (count: number, more = "") =>
  `---\n${Array.from({ length: count }, (_, n) => `k${n}: 1`).join("\n")}\n${more}---\nSow.`
const signature = `hash: ${"a".repeat(64)}\n`
const keys = (text: string) =>
  Either.match(Frontmatter.split(text), {
    onLeft: (issue) => issue,
    onRight: ([matter]) => Object.keys(matter).length
  })

describe("Frontmatter", () => {
  // a quadratic search for duplicate keys would exceed the test's timeout
  it("frontmatter with 20,000 keys is accepted only if it has a signature (the property `hash`)", () => {
    assert.strictEqual(keys(matter(20_000, signature)), 20_001)
    assert.strictEqual(keys(matter(20_000)), "the frontmatter is too large")
    assert.strictEqual(keys(matter(40_000, signature)), "the frontmatter is too large")
    assert.strictEqual(keys(matter(2_000)), 2_000)
    assert.strictEqual(keys(matter(2_000, "k7: 2\n")), "frontmatter: a key is said twice")
    assert.strictEqual(keys("---\na: {b: 1, b: 2}\n---\n"), "frontmatter: a key is said twice")
  })

  // without the limits, a text of 800 characters would block the event loop for twenty seconds
  it("frontmatter may have 20 aliases and three maps nested as keys; 21 aliases or 400 maps nested as keys are rejected", () => {
    const anchors = (count: number) => Array.from({ length: count }, (_, n) => `k${n}: [&a${n} 1, *a${n}]`).join("\n")
    assert.strictEqual(keys(`---\n${anchors(20)}\n---\n`), 20)
    assert.strictEqual(keys(`---\n${anchors(21)}\n---\n`), "frontmatter: more than 20 aliases")
    for (const nested of ["? ".repeat(400) + "a", `a: ${"{".repeat(400)}a: 1${"}: 1".repeat(399)}}`]) {
      assert.strictEqual(keys(`---\n${nested}\n---\n`), "frontmatter: keys within keys")
    }
    assert.deepStrictEqual(
      Frontmatter.yaml("title: {{title}}\n? {a, {b, {c}}}\n: 1\n"),
      Either.right({
        title: { "{ title }": null },
        "{ a, ? { b, ? { c } } }": 1
      })
    )
  })

  // texts of errors that quote the line would take quadratic time
  it("an error in a frontmatter of 240,000 characters is reported with its position", () => {
    const wrong = `---\n${signature}a: 1\nb: ${"*x ".repeat(80_000)}\n---\n`
    assert.strictEqual(keys(wrong), "frontmatter: UNEXPECTED_TOKEN at line 3, column 7")
  })

  it("only dates like 2024-05-02 (also with a time, or in [[ ]]) and plausible epoch milliseconds are read as a time", () => {
    const may = Date.UTC(2024, 4, 2)
    for (
      const [value, instant] of [
        ["2024-05-02", may],
        [" [[2024-05-02]] ", may],
        ["2024-05-02 10:30", may + 37_800_000],
        ["2024-05-02T10:30:05.25", may + 37_805_250],
        ["2024-05-02T10:30:05,123456789Z", may + 37_805_123],
        ["2024-05-02T10:30+02:00", may + 30_600_000],
        [may, may],
        [may + 0.5, may],
        ["2024-13-02", undefined],
        ["1969-12-31", undefined],
        ["2 May 2024", undefined],
        ["20240502", undefined],
        [20240502, undefined],
        [Infinity, undefined],
        [null, undefined],
        [{}, undefined]
      ] as const
    ) assert.strictEqual(Frontmatter.instantOf(value), instant, String(value))
  })
})
