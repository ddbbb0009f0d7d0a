/**
 * Tests that no title of a test and no comment of `src` begins with a preposition, conjunction or relative word, and that every exported
 * declaration of `src` has a comment above it.
 */
import { assert, describe, it } from "@effect/vitest"
import { readdirSync, readFileSync } from "node:fs"
import { join, sep } from "node:path"

const src = join(import.meta.dirname, "../src")
const files = readdirSync(src, { recursive: true, encoding: "utf8" })
  .filter((file) => file.endsWith(".ts"))
  .map((file) => file.split(sep).join("/"))
  .sort()
const linesOf = (file: string) => readFileSync(join(src, file), "utf8").split("\n")

/** Prepositions, conjunctions and relative words. A comment that begins with one does not name its subject. */
const words = new Set(
  ("after and as at because before beneath beside between but by for from how if in of on or over since so than that then " +
    "to under unless until what when where which who whom whose why with within without").split(" ")
)

/**
 * Returns the first word of the comment whose text begins in a line. Returns `undefined` if no text of a comment begins there, or if the
 * text does not begin with a letter.
 */
const firstWord = (lines: ReadonlyArray<string>, n: number): string | undefined => {
  const line = lines[n] ?? ""
  const before = lines[n - 1] ?? ""
  const block = /\/\*\*?\s+([A-Za-z]+)\b/.exec(line) ??
    (/^\s*\/\*\*?$/.test(before) ? /^\s*\*\s+([A-Za-z]+)\b/.exec(line) : null)
  if (block) return block[1]
  const isContinued = /^\s*\/\//.test(line) && /^\s*\/\//.test(before)
  return isContinued ? undefined : /(?:^|\s)\/\/\s+([A-Za-z]+)\b/.exec(line)?.[1]
}

describe("titles of tests and laws", () => {
  it("no title right after `it(`, `describe(` and the like begins with a preposition, conjunction or relative word", () => {
    const root = join(src, "..")
    const isOfTests = (file: string) => /^(?:test|src\/testing)\/(?!\.fences).*\.ts$/.test(file)
    const all = ["test", "src/testing"].flatMap((folder) =>
      readdirSync(join(root, folder), { recursive: true, encoding: "utf8" }).map((file) =>
        `${folder}/${file.split(sep).join("/")}`
      )
    ).filter(isOfTests)
    assert.isAbove(all.length, 250)
    const found = all.flatMap((file) =>
      Array.from(
        readFileSync(join(root, file), "utf8").matchAll(
          /\b(?:it(?:\.\w+)*|test|describe|law|prop|ofHistory|ofVectors)\(\s*["`]([A-Za-z]+) [^"`]*/g
        ),
        ([title, word]) => words.has(word!.toLowerCase()) ? [`${file}: ${title}`] : [] // the pattern has this group
      ).flat()
    )
    assert.deepStrictEqual(found, [])
  })
})

describe("comments in src", () => {
  it("no comment in src begins with a preposition, conjunction or relative word", () => {
    const found = files.flatMap((file) => {
      const lines = linesOf(file)
      return lines.flatMap((line, n) => {
        const word = firstWord(lines, n)
        return word !== undefined && words.has(word.toLowerCase()) ? [`${file}:${n + 1}: ${line.trim()}`] : []
      })
    })
    assert.deepStrictEqual(found, [])
  })

  it("every exported declaration in src has a comment above it", () => {
    const found = files.flatMap((file) => {
      const lines = linesOf(file)
      return lines.flatMap((line, n) =>
        /^export (?:declare )?(?:abstract )?(?:const|function\*?|class|interface|type|namespace) \w/.test(line) &&
          lines[n - 1]?.trim().endsWith("*/") !== true
          ? [`${file}:${n + 1}: ${line}`]
          : []
      )
    })
    assert.deepStrictEqual(found, [])
  })
})
