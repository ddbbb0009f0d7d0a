/**
 * Checks README.md and other pages: README's length, relative links, paths in backticks, and that the lists of docs/observability.md match
 * `src`.
 */
import { assert, describe, it } from "@effect/vitest"
import { existsSync, readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"

const root = join(import.meta.dirname, "..")
const text = (file: string) => readFileSync(join(root, file), "utf8")
const docs = readdirSync(join(root, "docs")).filter((file) => file.endsWith(".md")).map((file) => join("docs", file))
const pages = ["README.md", "AGENTS.md", "bench/README.md", ...docs]
const unfenced = (page: string) => text(page).replace(/^```[^]*?^```$/gm, "")

/** Returns the URL fragments of a page's headings. */
const headingsOf = (page: string) =>
  Array.from(
    unfenced(page).matchAll(/^#+ (.+)$/gm),
    ([, title]) => title!.toLowerCase().replace(/[^\p{L}\p{N} _-]/gu, "").replaceAll(" ", "-")
  )

const sources = readdirSync(join(root, "src"), { recursive: true, encoding: "utf8" })
  .filter((file) => file.endsWith(".ts"))
  .map((file) => text(join("src", file)))

/** Returns the text between two matching parentheses; `from` is the index after the opening one. */
const argumentsAt = (source: string, from: number): string => {
  let depth = 1
  let at = from
  while (depth > 0 && at < source.length) {
    const character = source[at++]
    if (character === "(") depth++
    if (character === ")") depth--
  }
  return source.slice(from, at - 1)
}

/**
 * The part before the dot of each span name in `src`: one per `withSpan`, and one per `Effect.fn` that names a span. Such a part is usually
 * a module; for a store, it is `${name}` or the name of the store.
 */
const spanning = sources.flatMap((source) =>
  Array.from(source.matchAll(/withSpan\(|Effect\.fn\((?=["`])/g), (call) => {
    const names = argumentsAt(source, call.index + call[0].length)
      .matchAll(/["`](\w+|\$\{name\})\.(?:\w+|\$\{[\w.]+\})["`]/g)
    return Array.from(names, ([, module]) => module!).at(-1)!
  })
)

/** Returns the names in backticks in the first cells of a table below a heading of docs/observability.md. */
const listed = (heading: string): ReadonlyArray<string> =>
  Array.from(
    text("docs/observability.md").split(`\n## ${heading}\n`)[1]!.split("\n## ")[0]!.matchAll(/^\| (`[^|]+) \|/gm),
    ([, cell]) => cell!
  ).flatMap((cell) => Array.from(cell.matchAll(/`([^`]+)`/g), ([, name]) => name!))

describe("README.md", () => {
  it("README.md has at most 250 lines", () => {
    assert.isAtMost(text("README.md").split("\n").length - 1, 250)
  })

  it("README.md links to every page of docs", () => {
    for (const page of docs) assert.include(text("README.md"), `](${page})`)
  })
})

describe("the documentation pages", () => {
  it.each(pages)(
    "%s: each relative link leads to an existing file and heading",
    (page) => {
      for (const [, link] of unfenced(page).matchAll(/\]\((?![a-z]+:)([^)\s]+)\)/g)) {
        const [target = "", heading] = link!.split("#")
        const file = target === "" ? page : join(page, "..", target)
        assert.isTrue(existsSync(join(root, file)), link)
        if (heading !== undefined) assert.include(headingsOf(file), heading, link)
      }
    }
  )

  it.each(pages)("%s: each path in backticks that begins with a folder such as `src` or `docs` exists", (page) => {
    const named = unfenced(page).matchAll(/`((?:\.ci|assets|bench|docs|examples|src|test)\/[\w./-]+)`/g)
    for (const [, file] of named) assert.isTrue(existsSync(join(root, file!)), file)
  })
})

describe("docs/observability.md", () => {
  it("docs/observability.md lists exactly the metrics that src defines", () => {
    const made = sources.flatMap((source) =>
      Array.from(source.matchAll(/\b(?:counter|gauge|timer)\("(memory_\w+)"/g), ([, name]) => name!)
    )
    const rows = listed("Metrics").filter((name) => name.startsWith("memory_"))
    assert.deepStrictEqual(rows.toSorted(), made.toSorted())
  })

  it("docs/observability.md lists exactly the memory events that src defines", () => {
    const tags = Array.from(
      text("src/harness/MemoryEvents.ts").matchAll(/\bTaggedStruct\("(memory_\w+)"/g),
      ([, name]) => name!
    )
    assert.deepStrictEqual(listed("Events").toSorted(), tags.toSorted())
  })

  it("the span table of docs/observability.md names exactly the modules that make spans in src, and the five stores", () => {
    const rows = listed("Spans").flatMap((name) => name.endsWith(".*") ? [name.slice(0, -2)] : [])
    const stores = ["memory", "markdown", "sqlite", "postgres", "overlay"]
    const modules = spanning.filter((module) => module !== "${name}" && !stores.includes(module))
    assert.deepStrictEqual(rows.toSorted(), [...new Set([...modules, ...stores])].sort())
  })
})
