/**
 * Starts the command line, `main.ts`, whose bundle is a string in this module, with a cache of its compiled code. To compile the bundle
 * and its functions takes a sixth of a search of 10,000 notes; V8 reads the cache in a tenth of that time.
 *
 * Each command has its own cache, a file beside this one, which the first successful run of the command writes. V8 rejects a cache of
 * another version or of other flags, and the next run replaces it. Where the folder cannot be written, and in Bun and Deno, commands
 * compile the bundle each time. `NODE_DISABLE_COMPILE_CACHE=1` turns the cache off, as it does Node's own.
 */
import { closeSync, fsyncSync, openSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs"
import { createRequire } from "node:module"
import { dirname, join } from "node:path"
import { fileURLToPath } from "node:url"
import { setFlagsFromString } from "node:v8"
import { Script } from "node:vm"

/*
 * Most commands run for a third of a second. This flag makes V8 optimize code only after it has run ten times as long as by default, which
 * makes a search of 10,000 notes a sixth faster, and a long copy no slower.
 */
setFlagsFromString("--interrupt-budget=1500000")

const file = fileURLToPath(import.meta.url)
const { bun, deno, node } = process.versions
const command = process.argv[2] ?? ""
const isCached = bun === undefined && deno === undefined && process.env["NODE_DISABLE_COMPILE_CACHE"] === undefined &&
  /^[a-z]+$/.test(command)
const cache = join(dirname(file), `${command}-${process.env["EFFECT_MEMORY_HASH"]}-${node}-${process.arch}.cache`)

const tryRead = (path: string): Buffer | undefined => {
  try {
    return readFileSync(path)
  } catch {
    return undefined // absent, or not ours to read
  }
}

const script = new Script(process.env["EFFECT_MEMORY_PROGRAM"]!, { // replaced by a string in the bundle
  filename: file,
  cachedData: isCached ? tryRead(cache) : undefined
})

/** Writes the cache, so that no process ever reads a part of it. */
const save = () => {
  const draft = `${cache}.${process.pid}`
  try {
    const descriptor = openSync(draft, "wx", 0o644)
    try {
      writeFileSync(descriptor, script.createCachedData())
      fsyncSync(descriptor)
    } finally {
      closeSync(descriptor)
    }
    renameSync(draft, cache)
  } catch {
    rmSync(draft, { force: true }) // commands run without a cache
  }
}
if (isCached && script.cachedDataRejected !== false) process.on("exit", (code) => code === 0 && save())

script.runInThisContext()(createRequire(file), import.meta.url)
