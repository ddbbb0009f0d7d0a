/**
 * Bundles `examples/a-first.ts` with an in-memory store for a browser: the bundle runs without Node, and is small. Also bundles a program
 * with a vault.
 */
import { assert, describe, it } from "@effect/vitest"
import { build } from "esbuild"
import { mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { pathToFileURL } from "node:url"
import { createContext, Script } from "node:vm"
import { folder, root } from "./programs.ts"

const path = folder("browser")
/** `examples/a-first.ts` with the in-memory store in place of the vault. */
const program = readFileSync(join(root, "examples/a-first.ts"), "utf8")
  .replace(/^import \{ NodeContext \}.*\n/m, "")
  .replace("Markdown,", "MemoryStore,")
  .replace(
    /Layer\.provide\(Markdown\.layer\([^)]*\)\),\n\s*Layer\.provide\(NodeContext\.layer\)/,
    "Layer.provide(MemoryStore.layerInMemory)"
  )

/** A program that opens a vault on a wrapper of Node's file system, as an application does that has a file system of its own. */
const vault = `
import * as FileSystem from "@effect/platform/FileSystem"
import { NodeContext, NodeFileSystem } from "@effect/platform-node"
import { Effect, Layer } from "effect"
import { Markdown, MemoryStore, Viewer } from "effect-memory"

const wrapped = Layer.effect(
  FileSystem.FileSystem,
  Effect.map(FileSystem.FileSystem, (fs) => ({ ...fs, stat: (path) => fs.stat(path) }))
).pipe(Layer.provide(NodeFileSystem.layer))
const Store = Markdown.layer({ root: ${JSON.stringify(join(path, "vault"))}, poll: Infinity }).pipe(
  Layer.provide(Layer.merge(NodeContext.layer, wrapped))
)
const ada = Viewer.make({ userId: "ada" })
const program = Effect.gen(function*() {
  const store = yield* MemoryStore.MemoryStore
  yield* store.put(ada, [{ scope: { userId: "ada" }, kind: "user", body: "Drinks tea." }])
  return (yield* store.list(ada, {})).items.map(({ body }) => body)
})
export const bodies = await program.pipe(Effect.provide(Store), Effect.runPromise)
`

const bundle = async (format: "esm" | "iife", minify: boolean, contents = program, external: Array<string> = []) => {
  const { metafile, outputFiles } = await build({
    stdin: { contents, resolveDir: path, loader: "ts" },
    external,
    bundle: true,
    write: false,
    metafile: true,
    platform: "browser",
    format,
    minify,
    logLevel: "error",
    tsconfigRaw: {} // without `paths`, which lead to `src`
  })
  return { text: outputFiles[0]!.text, inputs: Object.keys(Object.values(metafile.outputs)[0]!.inputs) }
}

const plain = await bundle("esm", false)
const minified = await bundle("esm", true)

describe("the program examples/a-first.ts, bundled for a browser with an in-memory store", () => {
  it("the bundle contains no module of Node and no YAML parser, without any configuration of the bundler", () => {
    for (const { inputs, text } of [plain, minified]) {
      assert.notMatch(text, /["'`]node:/)
      assert.deepStrictEqual(inputs.filter((input) => input.includes("HashNode") || input.includes("dist/node/")), [])
      assert.deepStrictEqual(
        inputs.filter((input) => /node_modules\/(?:yaml|@effect\/platform-node)\//.test(input)),
        []
      )
    }
  })

  it("the program runs without Node, with only globals that browsers have", async () => {
    const lines: Array<string> = []
    let done = () => {}
    const said = new Promise<void>((resolve) => done = resolve)
    const log = (...args: ReadonlyArray<unknown>) => {
      lines.push(args.join(" "))
      done()
    }
    const browser = { console: { log, error: log }, crypto, performance, setTimeout, clearTimeout, queueMicrotask }
    const context = createContext({ ...browser, MessageChannel, TextEncoder, TextDecoder, URL, AbortController })
    new Script((await bundle("iife", true)).text).runInContext(context)
    await said
    assert.deepStrictEqual(lines, ["1.00 Drinks tea, never coffee."])
  })

  it("a bundled program stores and lists a record in a vault on a `FileSystem` that the application provides", async () => {
    const { text } = await bundle("esm", false, vault, ["@effect/platform-node"])
    mkdirSync(join(path, "vault"), { recursive: true })
    writeFileSync(join(path, "vault.mjs"), text)
    const { bodies } = await import(pathToFileURL(join(path, "vault.mjs")).href)
    assert.deepStrictEqual(bodies, ["Drinks tea."])
  })

  it("the bundle has at most 1,264,000 bytes, and the minified bundle at most 556,000", () => {
    assert.isAtMost(minified.text.length, 556_000)
    assert.isAtMost(plain.text.length, 1_264_000)
  })
})
