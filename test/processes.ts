/**
 * Bundles the programs that tests run in child processes, with their imports, into a few files, which halves their start time. Runs
 * once, before the first test. Without `dist` it does nothing, and the programs run unbundled.
 */
import { build } from "esbuild"
import * as fs from "node:fs"
import * as path from "node:path"

const root = path.join(import.meta.dirname, "..")

export default async (): Promise<() => void> => {
  // below node_modules, so that drivers which are not bundled resolve
  const folder = path.join(root, "node_modules", ".cache", `processes-${process.pid}`)
  if (!fs.existsSync(path.join(root, "dist/index.js"))) return () => {}
  const places = fs.readdirSync(import.meta.dirname).map((name) => path.join(import.meta.dirname, name, "processes"))
  await build({
    entryPoints: places.filter((place) => fs.existsSync(place)).flatMap((place) =>
      // `peer.mjs` is not bundled, since it also runs where its packages are missing
      fs.readdirSync(place).filter((name) => name !== "peer.mjs").map((name) => path.join(place, name))
    ),
    outdir: folder,
    outbase: import.meta.dirname,
    outExtension: { ".js": ".mjs" },
    bundle: true,
    splitting: true,
    platform: "node",
    format: "esm",
    target: "node20",
    tsconfigRaw: {}, // without `paths`, which lead to `src`: a program would have two copies of a module
    external: ["better-sqlite3"],
    // bundled CommonJS packages call require
    banner: {
      js: "import { createRequire as requiring } from 'node:module'\nconst require = requiring(import.meta.url)"
    },
    logLevel: "error"
  })
  process.env["TEST_PROCESSES"] = folder
  return () => fs.rmSync(folder, { recursive: true, force: true })
}
