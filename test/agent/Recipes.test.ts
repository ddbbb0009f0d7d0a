/**
 * Compares the first two programs of docs/recipes.md, an agent without memory and the same agent with memory. `test/built/fences.test.ts`
 * runs both programs.
 */
import { assert, describe, it } from "@effect/vitest"
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"

const root = join(import.meta.dirname, "../..")

/** Returns the programs of a page. */
const programsOf = (page: string): ReadonlyArray<string> =>
  Array.from(readFileSync(join(root, page), "utf8").matchAll(/^```ts\n([^]*?)^```$/gm), ([, code]) => code!)

const [without, with_] = programsOf("docs/recipes.md").map((code) => code.split("\n"))

/** Returns the length of the longest common subsequence. */
const common = (a: ReadonlyArray<string>, b: ReadonlyArray<string>): number => {
  let row = b.map(() => 0)
  for (const line of a) {
    row = b.reduce<Array<number>>(
      (next, other, n) => [...next, line === other ? (row[n - 1] ?? 0) + 1 : Math.max(row[n]!, next[n - 1] ?? 0)],
      []
    )
  }
  return row.at(-1) ?? 0
}

describe("an agent of @effect/ai", () => {
  it("the agents without and with memory in docs/recipes.md differ by at most 25 removed and added lines in total", () => {
    const same = common(without!, with_!)
    const changed = without!.length - same + (with_!.length - same)
    assert.isAbove(changed, 0)
    assert.isAtMost(changed, 25)
  })

  it("every program in README.md and docs that asks a model with the memory tools begins a turn with `turnStart` before it asks", () => {
    const pages = ["README.md", ...readdirSync(join(root, "docs")).map((file) => join("docs", file))]
    const agents = pages.filter((page) => page.endsWith(".md")).flatMap(programsOf).filter((code) =>
      /MemoryToolkit\.toolkit|MemoryTools\.make/.test(code) && /\.(generateText|streamText)\(/.test(code)
    )
    assert.isAtLeast(agents.length, 2)
    for (const code of agents) assert.match(code, /yield\* (?:memory\.)?turnStart\n[^]*?\.(generateText|streamText)\(/)
  })
})
