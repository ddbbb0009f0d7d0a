/**
 * Compares the first two programs of docs/recipes.md, an agent without memory and the same agent with memory. `test/built/fences.test.ts`
 * runs both programs.
 */
import { assert, describe, it } from "@effect/vitest"
import { readFileSync } from "node:fs"
import { join } from "node:path"

const recipes = readFileSync(join(import.meta.dirname, "../../docs/recipes.md"), "utf8")
const [without, with_] = Array.from(recipes.matchAll(/^```ts\n([^]*?)^```$/gm), ([, code]) => code!.split("\n"))

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
})
