/**
 * Writes `dist/node`: the modules of `dist` in a few files, which package.json's `exports` give to Node, Bun and Deno. Most of what
 * an import costs there is to find and read each file. Bundlers for browsers get `dist` itself, module by module, and leave out
 * what a program does not use.
 */
import { build } from "esbuild"
import { createHash } from "node:crypto"
import { chmodSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"

const root = join(import.meta.dirname, "..")
const { exports, version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"))
const entries = Object.values(exports).filter((entry) => typeof entry === "object" && entry.node !== undefined)
const outdir = join(root, "dist/node")

rmSync(outdir, { recursive: true, force: true })
await build({
  entryPoints: entries.map((entry) => ({
    in: join(root, entry.default),
    out: entry.node.replace(/^\.\/dist\/node\/|\.js$/g, "")
  })),
  outdir,
  bundle: true,
  splitting: true,
  packages: "external",
  platform: "node",
  format: "esm",
  target: "es2022",
  sourcemap: true,
  chunkNames: "chunk-[hash]",
  tsconfigRaw: {}, // else its `paths` lead to `src`, and every module would be there twice
  logLevel: "error"
})

/*
 * Writes `dist/cli`: the command `effect-memory` in one file that needs Node and nothing else, and the licences of what is in it. The
 * parts of commands that are not run stay unevaluated. The native driver of SQLite is not in it, and is asked for when it is needed.
 */
const cli = join(root, "dist/cli")
const file = join(cli, "effect-memory.mjs")
const common = {
  bundle: true,
  minify: process.argv[2] !== "--readable",
  platform: "node",
  target: "node20.19",
  metafile: true,
  legalComments: "none",
  logLevel: "error"
}
const inputs = new Set()

/** A package that is asked for when a module that imports it is evaluated, and not before. */
const asked = (name) => `module.exports = require(${JSON.stringify(name)})`

/**
 * Modules of packages that only some commands use, as a text that is evaluated when the first of them is imported: Node reads through
 * every function of a module before it runs the first, and a text it does not.
 */
const textOf = async (modules) => {
  const contents = modules.map((module, n) => `export * as m${n} from ${JSON.stringify(module)}`).join("\n")
  const built = await build({
    ...common,
    stdin: { contents, resolveDir: root },
    format: "cjs",
    external: ["pg-native"],
    write: false
  })
  for (const input of Object.keys(built.metafile.inputs)) inputs.add(input)
  return `const unit = { exports: {} }
new Function("module", "exports", "require", ${JSON.stringify(built.outputFiles[0].text)})(unit, unit.exports, require)
module.exports = unit.exports`
}

const texts = {
  mcp: [
    "@modelcontextprotocol/sdk/server/index.js",
    "@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js",
    "@modelcontextprotocol/sdk/types.js"
  ],
  pg: ["pg", "pg-cursor", "pg-connection-string"],
  ws: ["ws"]
}

const deferred = {
  name: "deferred",
  setup: ({ onLoad, onResolve }) => {
    onResolve({ filter: /^better-sqlite3$/, namespace: "file" }, ({ path }) => ({ path, namespace: "asked" }))
    onResolve({ filter: /^better-sqlite3$/, namespace: "asked" }, ({ path }) => ({ path, external: true }))
    onLoad({ filter: /./, namespace: "asked" }, ({ path }) => ({ contents: asked(path) }))
    for (const [name, modules] of Object.entries(texts)) {
      onResolve(
        { filter: /^[@a-z]/, namespace: "file" },
        ({ path }) => modules.includes(path) ? { path: `${name}:${path}`, namespace: "part" } : undefined
      )
    }
    onLoad({ filter: /./, namespace: "part" }, ({ path }) => {
      const [, name, module] = /^(\w+):(.+)$/.exec(path)
      return { contents: `module.exports = require("text:${name}").m${texts[name].indexOf(module)}` }
    })
    onResolve({ filter: /^text:/ }, ({ path }) => ({ path: path.slice(5), namespace: "text" }))
    onLoad({ filter: /./, namespace: "text" }, async ({ path }) => ({ contents: await textOf(texts[path]) }))
    // a client of HTTP, for a layer of tests that nothing here uses
    onLoad({ filter: /platform-node\/dist\/esm\/NodeHttpClient\.js$/ }, () => ({
      contents: "export const layerWithoutAgent = undefined; export const makeAgentLayer = () => undefined"
    }))
  }
}

/** The page of `serve --ui`: the texts of its files, by name. */
const assets = join(root, "assets/inspector")
const inspector = Object.fromEntries(
  readdirSync(assets).map((name) => [name, readFileSync(join(assets, name), "utf8")])
)

const alias = {
  "#builtins": join(root, "src/storage/MemoryStore/Markdown/internal/BuiltinsNode.ts"),
  "#vault": join(root, "src/storage/MemoryStore/Markdown/internal/VaultPortable.ts"),
  "#hash": join(root, "src/domain/internal/HashNode.ts")
}
const app = await build({
  ...common,
  entryPoints: [join(root, "src/cli/main.ts")],
  format: "cjs",
  write: false,
  alias,
  plugins: [deferred],
  define: {
    "import.meta.url": "url",
    "process.env.EFFECT_MEMORY_VERSION": JSON.stringify(version),
    "process.env.EFFECT_MEMORY_INSPECTOR": JSON.stringify(JSON.stringify(inspector))
  }
})
const program = `(function(require, url) {${app.outputFiles[0].text}})` // the parameters of `launcher.ts`

rmSync(cli, { recursive: true, force: true })
await build({
  ...common,
  entryPoints: [join(root, "src/cli/launcher.ts")],
  outfile: file,
  format: "esm",
  alias,
  define: {
    "process.env.EFFECT_MEMORY_PROGRAM": JSON.stringify(program),
    "process.env.EFFECT_MEMORY_HASH": JSON.stringify(createHash("sha256").update(program).digest("hex").slice(0, 16))
  },
  banner: { js: "#!/usr/bin/env node" }
})
chmodSync(file, 0o755)
for (const input of Object.keys(app.metafile.inputs)) inputs.add(input)

const packages = new Set(
  Array.from(inputs).flatMap((path) => /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path)?.[0] ?? [])
)
const licences = Array.from(packages).sort().map((path) => {
  const { license, name, version } = JSON.parse(readFileSync(join(path, "package.json"), "utf8"))
  const text = readdirSync(path).find((file) => /^licen[cs]e/i.test(file))
  return `${name} ${version} (${license})\n\n${
    text === undefined ? "" : readFileSync(join(path, text), "utf8").trim()
  }\n`
})
writeFileSync(join(cli, "LICENSES.txt"), licences.join(`\n${"-".repeat(80)}\n\n`))
if (process.argv.includes("--sizes")) {
  const sizes = {}
  for (const [path, { bytesInOutput }] of Object.entries(Object.values(app.metafile.outputs)[0].inputs)) {
    const name = /node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path)?.[0] ?? path.split("/").slice(0, 2).join("/")
    sizes[name] = (sizes[name] ?? 0) + bytesInOutput
  }
  console.table(Object.entries(sizes).sort(([, a], [, b]) => b - a).slice(0, 30))
}
