/** Every departure that `docs/compat.md` lists is held by the test that its row names. */
import { assert, describe, it } from "@effect/vitest"
import { readFileSync } from "node:fs"
import { join } from "node:path"

const text = readFileSync(join(import.meta.dirname, "../../docs/compat.md"), "utf8")
const seeds = ["drover", "Strands", "Deuz", "molroo", "nexus-agents"]

/** The cells of the rows below a heading, without those of the table's head. */
const rowsOf = (heading: string): ReadonlyArray<ReadonlyArray<string>> =>
  (text.split(`\n## ${heading}\n`)[1] ?? "").split("\n## ")[0]!.split("\n")
    .filter((line) => line.startsWith("|"))
    .slice(2)
    .map((line) => line.slice(1, -1).split(" | ").map((cell) => cell.trim()))

const files = new Map<string, string>()
const sourceOf = (file: string): string => {
  const source = files.get(file) ?? readFileSync(join(import.meta.dirname, `${file}.test.ts`), "utf8")
  files.set(file, source)
  return source
}

describe("docs/compat.md", () => {
  it.each(seeds)("%s: each row says what differs and why, and names a test that is there", (seed) => {
    const rows = rowsOf(seed)
    assert.isAbove(rows.length, 3)
    for (const [theirs, ours, reason, held, ...rest] of rows) {
      assert.isEmpty(rest, `a row has four cells: ${theirs}`)
      assert.isTrue([theirs, ours, reason].every((cell) => cell), `a cell is empty: ${theirs}`)
      const [, file, title] = /^`(\w+)`: (.+)$/.exec(held ?? "") ?? assert.fail(`no test is named: ${theirs}`)
      assert.include(sourceOf(file!), JSON.stringify(title), `there is no such test in ${file}.test.ts`)
    }
  })
})
