import { assert, describe, it } from "@effect/vitest"
import { readFileSync } from "node:fs"

const read = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), "utf8")
const summary = (text: string) => /<!-- summary -->\n([^]*?)\n<!-- \/summary -->/.exec(text)?.[1]

describe("the benchmark figures in README.md", () => {
  it("the summary in README.md equals the summary in docs/benchmarks.md", () => {
    const written = summary(read("docs/benchmarks.md"))
    assert.isDefined(written)
    assert.strictEqual(summary(read("README.md")), written)
  })
})
