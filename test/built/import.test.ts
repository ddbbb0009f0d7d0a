/** An import of the package under Node loads few files and few packages, and not the code of `MarkdownStore`, which is loaded later. */
import { assert, describe, it } from "@effect/vitest"
import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { folder, root, run } from "./programs.ts"

const path = folder("import")
writeFileSync(
  join(path, "hooks.mjs"),
  `import { writeSync } from "node:fs"
export const load = (url, context, next) => {
  writeSync(1, url + "\\n")
  return next(url, context)
}`
)
writeFileSync(
  join(path, "program.mjs"),
  `import { register } from "node:module"
register("./hooks.mjs", import.meta.url)
await import("effect-memory")`
)
const { output } = await run(join(path, "program.mjs"), path)
const urls = output.split("\n").filter((url) => url !== "")
const packageOf = (url: string) => /.*\/node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(url)?.[1]

describe("importing effect-memory under Node", () => {
  it("the import loads no packages other than Effect, the dependencies of Effect, @effect/platform and stemmer", () => {
    assert.deepStrictEqual(Array.from(new Set(urls.flatMap((url) => packageOf(url) ?? []))).toSorted(), [
      "@effect/platform",
      "effect",
      "fast-check",
      "pure-rand",
      "stemmer"
    ])
    const platform = urls.filter((url) => packageOf(url) === "@effect/platform")
    assert.isAtMost(platform.length, 8, platform.join("\n"))
  })

  it("the import loads at most seven files of the package, and no Node module except crypto", () => {
    const ours = urls.filter((url) => url.includes("/dist/") && packageOf(url) === undefined)
    assert.isNotEmpty(ours)
    for (const url of ours) assert.include(url, new URL(`file://${join(root, "dist/node/")}`).href)
    assert.isAtMost(ours.length, 7, ours.join("\n"))
    const loaded = ours.map((url) => readFileSync(new URL(url), "utf8")).join("\n")
    assert.include(loaded, "// dist/storage/MemoryStore/Markdown.js")
    assert.notInclude(loaded, "// dist/storage/MemoryStore/Markdown/MarkdownStore.js")
    assert.deepStrictEqual(urls.filter((url) => url.startsWith("node:")), ["node:crypto"])
  })
})
