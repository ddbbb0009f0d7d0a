/**
 * Runs every ```ts fence in `README.md`, in `docs` and in the doc comments of `src`: it must compile against the published package
 * and run, and each `expression // => value` must hold. A fence that imports the testing library is a test.
 */
import { assert, describe, it } from "@effect/vitest"
import { readdirSync, readFileSync, writeFileSync } from "node:fs"
import { basename, join } from "node:path"
import { compile, elsewhere, folder, root, run } from "./programs.ts"

const sources = readdirSync(join(root, "src"), { recursive: true, encoding: "utf8" })
  .filter((file) => file.endsWith(".ts"))
  .map((file) => join("src", file))

/** Turns each paragraph `expression // => value` into an assertion. Blank lines separate paragraphs. */
const asserted = (code: string): string =>
  code.split("\n\n").map((part) => {
    const [, expression, value] = /^([^]*?) \/\/ => (.+)$/.exec(part.trimEnd()) ?? []
    return expression === undefined ? part : `fence.deepStrictEqual(${expression}, ${value})`
  }).join("\n\n")

const documents = readdirSync(join(root, "docs")).filter((file) => file.endsWith(".md")).map((file) =>
  join("docs", file)
)

const fences = ["README.md", ...documents, ...sources.sort()].flatMap((file) =>
  Array.from(
    readFileSync(join(root, file), "utf8").matchAll(/^( *\* )?```ts\n([^]*?)^(?: *\* )?```$/gm),
    ([, isComment, text = ""], n) => {
      const code = isComment === undefined ? text : text.replace(/^ *\* ?/gm, "")
      const isTest = /from "(?:@effect\/vitest|effect-memory\/testing)"/.test(code)
      return {
        title: `${file} #${n + 1}`,
        name: `${basename(file).replace(/\W/g, "_")}_${n + 1}${isTest ? "_test" : ""}.ts`,
        code: `import { strict as fence } from "node:assert"\n${asserted(code)}\nvoid fence\n`,
        isTest
      }
    }
  )
)
const path = folder("fences")
const problems = compile(path, Object.fromEntries(fences.map(({ code, name }) => [name, code])))
const compiled = (name: string) => join(path, name.replace(/\.ts$/, ".js"))

/**
 * A program that runs the given programs one after the other in one process, since loading the library takes longer than running any of
 * them. Each program runs in its own folder until everything that it started has ended. The runner then prints a line for that program. It
 * stops at the first program that fails.
 */
const runner = `import { pathToFileURL } from "node:url"
const programs = process.argv.slice(2)
const next = async () => {
  if (process.exitCode) return
  const [folder, program] = programs.splice(0, 2)
  if (program === undefined) return
  process.chdir(folder)
  await import(pathToFileURL(program).href)
  process.once("beforeExit", () => {
    if (process.exitCode) return
    console.log("\\nran " + program)
    next()
  })
}
next()
`
const programs = fences.filter(({ isTest }) => !isTest).map(({ name }) => compiled(name))
writeFileSync(join(path, "runner.mjs"), runner)
const together = problems.length > 0 ? { output: "" } : await run(
  join(path, "runner.mjs"),
  elsewhere(),
  ...programs.flatMap((program) => [elsewhere(), program])
)
const ran = new Set(Array.from(together.output.matchAll(/^ran (.+)$/gm), ([, program]) => program))

describe("code fences", () => {
  it("all TypeScript code fences in README.md, docs and src compile", () => {
    assert.isAbove(fences.length, 3)
    assert.deepStrictEqual(problems, [])
  })

  it.each(fences.filter(({ isTest }) => !isTest))(
    "the fence $title runs, and its asserted results are true",
    async ({ name }) => {
      if (ran.has(compiled(name))) return
      const { code, output } = await run(compiled(name), elsewhere()) // in a child process, whose output explains a failure
      assert.strictEqual(code, 0, output)
    }
  )

  it("a comment `// =>` in a code fence becomes an assertion that the values on both sides are equal", () => {
    assert.strictEqual(asserted("const a = 1\n\na + 1 // => 3\n"), "const a = 1\n\nfence.deepStrictEqual(a + 1, 3)")
  })
})

for (const { isTest, name } of problems.length > 0 ? [] : fences) {
  if (isTest) await import(/* @vite-ignore */ compiled(name))
}
