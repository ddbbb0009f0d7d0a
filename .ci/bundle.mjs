/**
 * Writes `dist/node`: the modules of `dist` in a few files, which package.json's `exports` give to Node, Bun and Deno. Most of what
 * an import costs there is to find and read each file. Bundlers for browsers get `dist` itself, module by module, and leave out
 * what a program does not use.
 */
import { build } from "esbuild"
import { readFileSync, rmSync } from "node:fs"
import { join } from "node:path"

const root = join(import.meta.dirname, "..")
const { exports } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"))
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
