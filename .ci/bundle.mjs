/**
 * Writes `dist/node`: the modules of `dist` in a few files, which package.json's `exports` give to Node, Bun and Deno. Most of what
 * an import costs there is to find and read each file. Bundlers for browsers get `dist` itself, module by module, and leave out
 * what a program does not use.
 */
import { build } from "esbuild"
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
  logLevel: "error"
})

/*
 * Writes `dist/cli`: the command `effect-memory` in one file that needs Node and nothing else, and the licences of what is in it. The
 * parts of commands that are not run stay unevaluated. The native driver of SQLite is not in it, and is asked for when it is needed.
 */
const cli = join(root, "dist/cli")
const file = join(cli, "effect-memory.mjs")

/** A driver that is loaded when a module that imports it is evaluated, and not before. */
const lazily = (...names) => ({
  name: "lazily",
  setup: ({ onLoad, onResolve }) => {
    for (const name of names) {
      const filter = new RegExp(`^${name}$`)
      onResolve({ filter, namespace: "file" }, () => ({ path: name, namespace: "lazily" }))
      onResolve({ filter, namespace: "lazily" }, () => ({ path: name, external: true }))
    }
    onLoad({ filter: /./, namespace: "lazily" }, ({ path }) => ({ contents: `module.exports = require("${path}")` }))
  }
})

rmSync(cli, { recursive: true, force: true })
const { metafile } = await build({
  entryPoints: [join(root, "src/cli/main.ts")],
  outfile: file,
  bundle: true,
  minify: process.argv[2] !== "--readable",
  platform: "node",
  format: "esm",
  target: "node20.19",
  metafile: true,
  legalComments: "none",
  external: ["pg-native"],
  alias: {
    "#builtins": join(root, "src/storage/MemoryStore/Markdown/internal/BuiltinsNode.ts"),
    "#hash": join(root, "src/domain/internal/HashNode.ts")
  },
  plugins: [lazily("better-sqlite3")],
  define: { "process.env.EFFECT_MEMORY_VERSION": JSON.stringify(version) },
  // CommonJS packages call require
  banner: {
    js:
      "#!/usr/bin/env node\nimport { createRequire as requiring } from \"node:module\";const require = requiring(import.meta.url);"
  },
  logLevel: "error"
})
chmodSync(file, 0o755)

const packages = new Set(
  Object.keys(metafile.inputs).flatMap((path) => /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path)?.[0] ?? [])
)
const licences = Array.from(packages).sort().map((path) => {
  const { license, name, version } = JSON.parse(readFileSync(join(path, "package.json"), "utf8"))
  const text = readdirSync(path).find((file) => /^licen[cs]e/i.test(file))
  return `${name} ${version} (${license})\n\n${
    text === undefined ? "" : readFileSync(join(path, text), "utf8").trim()
  }\n`
})
writeFileSync(join(cli, "LICENSES.txt"), licences.join(`\n${"-".repeat(80)}\n\n`))
