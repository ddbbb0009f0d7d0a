/**
 * Starts the command line by running the bundle of `main.ts`. This module contains the bundle as a string. The compiled code of the bundle
 * is cached. With the cache, a search in 10,000 notes takes a fifth less CPU time.
 *
 * Each command has its own cache file, in the folder of this module. The first successful run of the command writes the file. V8 rejects a
 * file that was written by another version of V8 or with other flags. A successful run then replaces the file. Bun and Deno have no cache.
 * No cache file is written if the folder is read-only. Without a cache, each run compiles the bundle. `NODE_DISABLE_COMPILE_CACHE=1` turns
 * off this cache and Node's own. A run whose first argument is an option, such as `--store`, has no cache.
 */
import { readFileSync, renameSync, rmSync, writeFileSync } from "node:fs"
import { createRequire } from "node:module"
import { dirname, join } from "node:path"
import { fileURLToPath } from "node:url"
import { setFlagsFromString } from "node:v8"
import { Script } from "node:vm"
import { sha256 } from "../domain/Digest.ts"

const { bun, deno, node } = process.versions
/*
 * This flag makes V8 wait about twenty times longer before it optimizes a function. Most commands run for only a third of a second. With
 * the flag, a search of 10,000 notes is a sixth faster, and a long run of the command `copy` is no slower. The flag is set only in Node 20.
 * Later versions of V8 do not know the flag and would print an error.
 */
if (node.startsWith("20.") && deno === undefined) setFlagsFromString("--interrupt-budget=1500000")

const command = process.argv[2] ?? ""
/*
 * Commands that process whole stores use much memory. With this flag, an export of 100,000 records takes 120 MB instead of 196 MB. The
 * export takes no longer.
 */
if (/^(?:import|export|copy|verify|repair|doctor)$/.test(command)) setFlagsFromString("--optimize-for-size")

const file = fileURLToPath(import.meta.url)
const isCached = bun === undefined && deno === undefined && process.env["NODE_DISABLE_COMPILE_CACHE"] === undefined &&
  /^[a-z]+$/.test(command)
const cache = join(dirname(file), `${command}-${process.env["EFFECT_MEMORY_HASH"]}-${node}-${process.arch}.cache`)

/**
 * Returns the cached code, or `undefined` if the cache file is absent or damaged. Damaged data would crash the process, because V8 does not
 * detect the damage.
 */
const readCache = (): Buffer | undefined => {
  try {
    const bytes = readFileSync(cache)
    const data = bytes.subarray(digestLength)
    return sha256(data) === bytes.toString("latin1", 0, digestLength) ? data : undefined
  } catch {
    return undefined
  }
}
const digestLength = 64

const script = new Script(process.env["EFFECT_MEMORY_PROGRAM"]!, { // the bundler replaces this variable by the bundle's code
  filename: file,
  cachedData: isCached ? readCache() : undefined
})

/** Writes the cache to a temporary file, and then renames that file, so that no process reads an incomplete cache. */
const saveCache = () => {
  const draft = `${cache}.${process.pid}`
  const data = script.createCachedData()
  try {
    writeFileSync(draft, Buffer.concat([Buffer.from(sha256(data)), data]), { flag: "wx", flush: true })
    renameSync(draft, cache)
  } catch {
    tryRemove(draft)
  }
}
const tryRemove = (path: string) => {
  try {
    rmSync(path, { force: true })
  } catch {
    return // commands also run without a cache, so the error is ignored
  }
}
if (isCached && script.cachedDataRejected !== false) process.on("exit", (code) => code === 0 && saveCache())

script.runInThisContext()(createRequire(file), import.meta.url)
