/** The cache of compiled code that `effect-memory` keeps beside its bundle: one file per command. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as fs from "node:fs"
import * as path from "node:path"
import { file, folder, type Options, run, told } from "./Running.ts"

/** Copies the bundle into an empty folder, so that it has no cache yet. */
const installed = Effect.map(folder, (cwd) => {
  const bin = path.join(cwd, "bin/effect-memory.mjs")
  fs.mkdirSync(path.dirname(bin))
  fs.copyFileSync(file, bin)
  return { cwd, bin }
})

/** The names of the files beside the bundle. */
const besides = (bin: string) =>
  fs.readdirSync(path.dirname(bin)).filter((name) => name !== path.basename(bin)).toSorted()

const recalled = (options: Options) => told(["recall", "tea"], options)

/** Runs `remember` and `recall`; returns what `recall` printed, and the path of its cache. */
const cached = Effect.gen(function*() {
  const options = yield* installed
  yield* told(["remember", "Drinks tea."], options)
  const first = yield* recalled(options)
  return { options, first, cache: path.join(options.cwd, "bin", besides(options.bin)[0]!) }
})

describe("effect-memory's cache of compiled code", () => {
  it.scopedLive("a command writes a cache of its compiled code at the first run, and uses this cache at the next run", () =>
    Effect.gen(function*() {
      const options = yield* installed
      yield* told(["remember", "Drinks tea."], options)
      const first = yield* recalled(options)
      assert.include(first, "Drinks tea.")
      const names = besides(options.bin)
      assert.lengthOf(names, 2)
      assert.match(names[0]!, /^recall-[0-9a-f]{16}-[\d.]+-\w+\.cache$/)
      assert.match(names[1]!, /^remember-[0-9a-f]{16}-[\d.]+-\w+\.cache$/)
      const stats = () => names.map((name) => fs.statSync(path.join(options.cwd, "bin", name)).ino)
      const written = stats()
      assert.strictEqual(yield* recalled(options), first)
      assert.deepStrictEqual(stats(), written)
      assert.deepStrictEqual(besides(options.bin), names)
    }))

  it.scopedLive("a truncated or changed cache of compiled code is not used, and is replaced", () =>
    Effect.gen(function*() {
      const { cache, first, options } = yield* cached
      const good = fs.readFileSync(cache)
      const flipped = Buffer.from(good)
      flipped[good.length >> 1]! ^= 0xff
      for (const damaged of [Buffer.alloc(0), good.subarray(0, 1_000), flipped, Buffer.alloc(good.length)]) {
        fs.writeFileSync(cache, damaged)
        assert.strictEqual(yield* recalled(options), first)
        const { length } = fs.readFileSync(cache)
        assert.isAbove(length, 100_000)
        assert.isFalse(fs.readFileSync(cache).equals(damaged))
      }
    }))

  it.scopedLive("a command that cannot write its cache file runs without a cache, and leaves no temporary file behind", () =>
    Effect.gen(function*() {
      const { cache, first, options } = yield* cached
      fs.rmSync(cache)
      fs.mkdirSync(cache) // a file cannot replace a folder
      const names = besides(options.bin)
      const { code, stderr, stdout } = yield* run(["recall", "tea"], options)
      assert.deepStrictEqual([code, stderr, stdout], [0, "", first])
      assert.deepStrictEqual(besides(options.bin), names)
    }))

  it.scopedLive("no cache is written if the command fails or `NODE_DISABLE_COMPILE_CACHE` is set", () =>
    Effect.gen(function*() {
      const options = yield* installed
      assert.notStrictEqual((yield* run(["recall"], options)).code, 0)
      assert.strictEqual((yield* run(["rcall", "tea"], options)).code, 2)
      yield* told(["--version"], options)
      yield* told(["remember", "Drinks tea."], { ...options, env: { NODE_DISABLE_COMPILE_CACHE: "1" } })
      assert.deepStrictEqual(besides(options.bin), [])
    }))

  it.scopedLive("several concurrent runs of a command leave one valid cache, which the next run uses", () =>
    Effect.gen(function*() {
      const options = yield* installed
      yield* told(["remember", "Drinks tea."], options)
      const all = yield* Effect.replicateEffect(recalled(options), 4).pipe(Effect.withConcurrency("unbounded"))
      assert.strictEqual(new Set(all).size, 1)
      const names = besides(options.bin)
      assert.lengthOf(names, 2)
      const { ino } = fs.statSync(path.join(options.cwd, "bin", names[0]!))
      yield* recalled(options)
      assert.strictEqual(fs.statSync(path.join(options.cwd, "bin", names[0]!)).ino, ino)
    }))

  it.scopedLive("a second run of `export` uses the cache of the first run, although `export` sets an additional V8 flag", () =>
    Effect.gen(function*() {
      const options = yield* installed
      yield* told(["remember", "Drinks tea."], options)
      const exported = (name: string) => told(["export", path.join(options.cwd, name)], options)
      yield* exported("first.jsonl")
      const name = besides(options.bin).find((name) => name.startsWith("export-"))
      assert.isDefined(name)
      const { ino } = fs.statSync(path.join(options.cwd, "bin", name!))
      yield* exported("second.jsonl")
      assert.strictEqual(fs.statSync(path.join(options.cwd, "bin", name!)).ino, ino)
    }))
})
