/**
 * Starts the command line. This module contains the bundle of `main.ts` as a string. A cache keeps the compiled code of the bundle. With
 * the cache, a search in 10,000 notes takes a fifth less CPU time.
 *
 * Each command has its own cache, a file beside this one, which the first successful run of the command writes. V8 rejects a cache that
 * another version of V8 wrote, or that was written with other flags. A successful run whose cache was rejected replaces it. If the
 * folder of the caches cannot be written, and in Bun and Deno, commands compile the bundle each time. `NODE_DISABLE_COMPILE_CACHE=1` turns
 * off this cache, as it turns off Node's own.
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
 * Most commands run for a third of a second. This flag makes V8 optimize a function only after the function has run ten times as long as by
 * default. A search of 10,000 notes then is a sixth faster, and a long run of the command `copy` is no slower. Only Node 20 gets the flag,
 * since later versions of V8 lack it and would print an error.
 */
if (node.startsWith("20.") && deno === undefined) setFlagsFromString("--interrupt-budget=1500000")

const command = process.argv[2] ?? ""
/*
 * Commands that process whole stores use much memory. With this flag, an export of 100,000 records takes 120 MB instead of 196, in the
 * same time.
 */
if (/^(?:import|export|copy|verify|repair|doctor)$/.test(command)) setFlagsFromString("--optimize-for-size")

const file = fileURLToPath(import.meta.url)
const isCached = bun === undefined && deno === undefined && process.env["NODE_DISABLE_COMPILE_CACHE"] === undefined &&
  /^[a-z]+$/.test(command)
const cache = join(dirname(file), `${command}-${process.env["EFFECT_MEMORY_HASH"]}-${node}-${process.arch}.cache`)

/**
 * Returns the data of the cache; `undefined` if the cache is absent or damaged. V8 does not check the data, and damaged data would crash
 * the process.
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

const script = new Script(process.env["EFFECT_MEMORY_PROGRAM"]!, { // the bundler replaces this variable by a string
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
    return // the folder cannot be written, and commands also run without a cache
  }
}
if (isCached && script.cachedDataRejected !== false) process.on("exit", (code) => code === 0 && saveCache())

script.runInThisContext()(createRequire(file), import.meta.url)
