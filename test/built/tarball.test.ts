/** The tarball that `npm publish` would send, unpacked within this repository, so that its peer dependencies resolve. */
import { assert, describe, it } from "@effect/vitest"
import { execFileSync, spawnSync } from "node:child_process"
import { mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { publint } from "publint"
import { formatMessage } from "publint/utils"
import { compile, elsewhere, folder, root, run } from "./programs.ts"

const path = folder("tarball")
const installed = join(path, "node_modules/effect-memory")
mkdirSync(installed, { recursive: true })
// this file keeps `effect-memory` from resolving to this repository
writeFileSync(join(path, "package.json"), JSON.stringify({ private: true, type: "module" }))

// without scripts: another test may be reading `dist`
const packed = JSON.parse(
  execFileSync("npm", ["pack", "--ignore-scripts", "--json", "--pack-destination", path], {
    cwd: root,
    encoding: "utf8",
    stdio: ["ignore", "pipe", "ignore"]
  })
)[0]
execFileSync("tar", ["-xzf", join(path, packed.filename), "-C", installed, "--strip-components=1"])

const files: ReadonlyArray<string> = packed.files.map((file: { readonly path: string }) => file.path)
const manifest = JSON.parse(readFileSync(join(installed, "package.json"), "utf8"))
const text = (file: string) => readFileSync(join(installed, file), "utf8")
const pages = files.filter((file) => file.endsWith(".md") && file !== "CHANGELOG.md").toSorted() // the change log names files that no longer exist
const unfenced = (page: string) => text(page).replace(/^```[^]*?^```$/gm, "")
/** Returns the URL fragments of a page's headings. */
const headingsOf = (page: string) =>
  Array.from(
    unfenced(page).matchAll(/^#+ (.+)$/gm),
    ([, title]) => title!.toLowerCase().replace(/[^\p{L}\p{N} _-]/gu, "").replaceAll(" ", "-")
  )
const example = (name: string) => readFileSync(join(root, "examples", name), "utf8")

describe("the tarball", () => {
  it("the tarball has a .js and a .d.ts file for each module of the library, and nothing unexpected at its top level", () => {
    const command = files.filter((file) => file.startsWith("dist/cli/")).toSorted()
    assert.deepStrictEqual(command, ["dist/cli/LICENSES.txt", "dist/cli/effect-memory.mjs"])
    const strays = files.filter((file) =>
      !/^(?:\.ci|assets\/(?:inspector|word-vectors)|bench|dist|docs|examples|src|test)\//.test(file)
    )
    assert.deepStrictEqual(strays.toSorted(), ["CHANGELOG.md", "LICENSE", "README.md", "package.json"])
    // the modules of the command and the inspector are bundled into dist/cli/effect-memory.mjs instead
    const modules = files.filter((file) => /^src\/(?!(?:cli|inspector)\/)/.test(file)).map((file) => file.slice(4, -3))
    for (const module of modules) assert.includeMembers([...files], [`dist/${module}.js`, `dist/${module}.d.ts`])
    assert.deepStrictEqual(files.filter((file) => /(?:^|\/)(?:node_modules|\.(?!ci\/)[^/]*)\//.test(file)), [])
  })

  it("the tarball has README.md, pages of docs, and bench/README.md", () => {
    assert.includeMembers(pages, ["README.md", "docs/kinds.md", "docs/retrieval.md", "bench/README.md"])
  })

  it.each(pages)(
    "%s: each relative link leads to a file of the tarball and an existing heading",
    (page) => {
      for (const [, link] of unfenced(page).matchAll(/\]\((?![a-z]+:)([^)\s]+)\)/g)) {
        const [target = "", heading] = link!.split("#")
        const file = target === "" ? page : join(page, "..", target)
        assert.include(files, file, link)
        if (heading !== undefined) assert.include(headingsOf(file), heading, link)
      }
    }
  )

  it.each(pages)("%s: each path of the repository in backticks is in the tarball", (page) => {
    for (
      const [, path] of unfenced(page).matchAll(/`((?:\.ci|assets|bench|dist|docs|examples|src|test)\/[\w./-]+)`/g)
    ) {
      assert.isTrue(files.some((file) => file === path || file.startsWith(`${path!.replace(/\/$/, "")}/`)), path)
    }
  })

  it("every export and import leads to a file of the tarball, a Node module or a declared package", () => {
    const entries = Object.values<string | Readonly<Record<string, string>>>({
      ...manifest.exports,
      ...manifest.imports
    })
    for (const entry of entries) {
      for (const file of typeof entry === "string" ? [entry] : Object.values(entry)) {
        assert.include(files, file.slice(2))
      }
    }
    const declared = [...Object.keys(manifest.dependencies), ...Object.keys(manifest.peerDependencies)]
    for (const file of files.filter((file) => /^dist\/.*\.js$/.test(file))) {
      for (
        const [, specifier] of readFileSync(join(installed, file), "utf8").matchAll(
          /^(?:import|export) .*?from "([^"]+)"/gm
        )
      ) {
        if (specifier!.startsWith(".")) assert.include(files, join(file, "..", specifier!), file)
        else if (!specifier!.startsWith("node:")) {
          assert.isTrue(
            specifier! in manifest.imports ||
              declared.some((name) => specifier === name || specifier!.startsWith(`${name}/`)),
            `${file}: ${specifier}`
          )
        }
      }
    }
  })

  it("a module that is not exported cannot be imported", async () => {
    writeFileSync(
      join(path, "closed.mjs"),
      `for (const path of process.argv.slice(2)) {
  await import("effect-memory/" + path).then(() => console.log(path), (error) => console.log(error.code))
}`
    )
    const closed = [
      "dist/index.js",
      "dist/domain/internal/HashNode.js",
      "internal/HashNode",
      "domain/Digest",
      "src/index.ts"
    ]
    const { output } = await run(join(path, "closed.mjs"), path, ...closed)
    assert.strictEqual(output, "ERR_PACKAGE_PATH_NOT_EXPORTED\n".repeat(closed.length))
  })

  it("publint and arethetypeswrong accept the tarball as a package of ES modules", async () => {
    const { messages } = await publint({ pkgDir: installed, strict: true })
    assert.deepStrictEqual(messages.map((message) => formatMessage(message, manifest)), [])
    const data = Object.keys(manifest.exports).filter((entry) => entry.startsWith("./word-vectors/"))
    const attw = spawnSync(
      join(root, "node_modules/.bin/attw"),
      [
        join(path, packed.filename),
        "--profile",
        "esm-only",
        "--format",
        "ascii",
        "--no-color",
        "--exclude-entrypoints",
        ...data
      ],
      { encoding: "utf8" }
    )
    assert.strictEqual(attw.status, 0, attw.stdout + attw.stderr)
  })

  it("three examples compile against the unpacked tarball, and a-first.ts runs", async () => {
    // the errors expected in h-viewer appear only if all types resolve
    assert.deepStrictEqual(
      compile(path, {
        "a.ts": example("a-first.ts"),
        "e.ts": example("e-own-store.ts"),
        "h.ts": example("h-viewer.ts")
      }),
      []
    )
    assert.deepStrictEqual(await run(join(path, "a.js"), elsewhere()), {
      code: 0,
      output: "1.00 Drinks tea, never coffee.\n"
    })
  })

  it("a program can use the word vectors in the tarball, and the adapters for @effect/ai in effect-memory/ai", async () => {
    const program = `import { EmbeddingModel, LanguageModel } from "@effect/ai"
import { NodeContext } from "@effect/platform-node"
import { Console, Effect, Layer, Stream } from "effect"
import { Completion, Embedder, MemoryService, MemoryTools, Viewer } from "effect-memory"
import * as MemoryToolkit from "effect-memory/ai"

const Model = Layer.effect(LanguageModel.LanguageModel, LanguageModel.make({
  generateText: () => Effect.succeed([{ type: "text", text: "[\\"tea\\"]" }]),
  streamText: () => Stream.empty
}))

export const Vectors = Layer.provide(
  MemoryToolkit.layerEmbedder({ model: "small", dimensions: 384 }),
  Layer.effect(EmbeddingModel.EmbeddingModel, EmbeddingModel.make({ embedMany: () => Effect.succeed([]) }))
)

export const turn = Effect.gen(function*() {
  const tools = yield* MemoryTools.make(Viewer.make({ agentId: "pilot" }))
  return yield* LanguageModel.generateText({ prompt: "Hello", toolkit: yield* MemoryToolkit.make(tools) })
})

const program = Effect.gen(function*() {
  const { complete } = yield* Completion.Completion
  const { embed, model } = yield* Embedder.Embedder
  const [tea, coffee, rocket] = yield* embed(["green tea", "black coffee", "orbital rocket"], "add")
  const like = (other: Float32Array) => tea!.reduce((sum, x, n) => sum + x * other[n]!, 0)
  yield* Console.log(yield* complete({ system: "", user: "?" }), model, like(coffee!) > like(rocket!))
  yield* Console.log((yield* turn).text)
})

const Host = Layer.mergeAll(MemoryToolkit.layerCompletion, Embedder.layerWordVectors, MemoryService.layerTest())

program.pipe(Effect.provide(Host), Effect.provide(Layer.merge(Model, NodeContext.layer)), Effect.runPromise)
`
    assert.deepStrictEqual(compile(path, { "ai.ts": program }), [])
    assert.deepStrictEqual(await run(join(path, "ai.js"), elsewhere()), {
      code: 0,
      output: "[\"tea\"] glove-100d-20k-1 true\n[\"tea\"]\n"
    })
  })
})
