/** Checks the tables of `docs/compat.md` that list departures from other systems: each row names a test, and this test exists. */
import { assert, describe, it } from "@effect/vitest"
import { readFileSync } from "node:fs"
import { join } from "node:path"

const text = readFileSync(join(import.meta.dirname, "../../docs/compat.md"), "utf8")
const seeds = ["drover", "Strands", "Deuz", "molroo", "nexus-agents"]

/** Returns the cells of the table of departures below a heading, without the head of the table. */
const rowsOf = (heading: string): ReadonlyArray<ReadonlyArray<string>> =>
  (text.split(`\n## ${heading}\n`)[1] ?? "").split("\n## ")[0]!.split("\nDepartures:\n")[1]!.split("\n")
    .filter((line) => line.startsWith("|"))
    .slice(2)
    .map((line) => line.slice(1, -1).split(" | ").map((cell) => cell.trim()))

const files = new Map<string, string>()
const sourceOf = (file: string): string => {
  const source = files.get(file) ?? readFileSync(join(import.meta.dirname, `${file}.test.ts`), "utf8")
  files.set(file, source)
  return source
}

/** Returns the names of a file's suites, without the store in parentheses. */
const subjectsOf = (source: string): ReadonlyArray<string> =>
  Array.from(
    source.matchAll(/describe[^\n]*\(\s*["`]([^"`\n]+?)(?: \((?:%s|\$\{name\})\))?["`],/g),
    ([, subject]) => subject!
  ) // the group takes part in every match

describe("docs/compat.md", () => {
  it.each(seeds)("the rows for %s say what differs and why, and name an existing test", (seed) => {
    const rows = rowsOf(seed)
    assert.isAbove(rows.length, 3)
    for (const [theirs, ours, reason, held, ...rest] of rows) {
      assert.isEmpty(rest, `a row has four cells: ${theirs}`)
      assert.isTrue([theirs, ours, reason].every((cell) => cell), `a cell is empty: ${theirs}`)
      const [, file, subject, title] = /^`(\w+)`: (.+?) › (.+)$/.exec(held ?? "") ??
        assert.fail(`no test is named: ${theirs}`)
      const at = sourceOf(file!).indexOf(JSON.stringify(title))
      assert.isAtLeast(at, 0, `there is no such test in ${file}.test.ts`)
      assert.strictEqual(subjectsOf(sourceOf(file!).slice(0, at)).at(-1), subject, `the suite of: ${title}`)
    }
  })
})
