/** A vault that finds a folder, link or pipe where it expects a file, and a vault on a full disk. */
import { NodeContext } from "@effect/platform-node"
import { SystemError } from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { execFileSync } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import { ada, draft, fact, listed, put } from "../../src/testing/Sample.ts"
import { files, opened, place, reached } from "./Place.ts"

const lock = (root: string) => path.join(root, ".effect-memory/lock")

describe("something other than a file at the path of a vault's lock", () => {
  const things: Readonly<Record<string, (at: string) => void>> = {
    "a pipe": (at) => void execFileSync("mkfifo", [at]),
    "a folder": (at) => fs.mkdirSync(at),
    "a folder that is not empty": (at) => fs.mkdirSync(path.join(at, "below"), { recursive: true }),
    "a link to a device": (at) => fs.symlinkSync("/dev/zero", at),
    "a broken link": (at) => fs.symlinkSync("nowhere", at)
  }
  for (const [name, make] of Object.entries(things)) {
    it.scopedLive(`${name} at the path of a vault's lock file does not make a put fail`, () =>
      Effect.gen(function*() {
        const root = yield* place
        fs.mkdirSync(path.dirname(lock(root)))
        make(lock(root))
        const { store } = yield* opened(root, { lockTimeout: 30 })
        yield* put(store, draft("tea"))
        make(lock(root))
        yield* put(store, draft("coffee"))
        assert.sameMembers(yield* listed(store, ada), ["tea", "coffee"])
      }))
  }
})

describe("a folder in place of a record's file", () => {
  it.scopedLive("a folder in place of a record's file is reported as an issue until the file is restored", () =>
    Effect.gen(function*() {
      const root = yield* place
      const { store, vault } = yield* opened(root)
      yield* put(store, draft("tea"))
      const [name, text] = Object.entries(files(root))[0]!
      fs.rmSync(path.join(root, name))
      fs.mkdirSync(path.join(root, name))
      yield* vault.refresh
      assert.deepStrictEqual((yield* vault.issues).map(({ error, path }) => [path, error.reason]), [[name, "corrupt"]])
      const again = yield* opened(root)
      assert.deepStrictEqual((yield* again.vault.issues).map(({ path }) => path), [name])
      fs.rmdirSync(path.join(root, name))
      fs.writeFileSync(path.join(root, name), text)
      yield* vault.refresh
      assert.deepStrictEqual(yield* vault.issues, [])
      assert.deepStrictEqual(yield* listed(store, ada), ["tea"])
    }))
})

/**
 * Node's file system on a disk that is full while `isFull` is set: then no write adds a byte, but files can be created, renamed, removed
 * and overwritten.
 */
const full = (fs: { isFull: boolean }) =>
  Layer.merge(
    NodeContext.layer,
    Layer.effect(
      FileSystem.FileSystem,
      Effect.map(FileSystem.FileSystem, (real): FileSystem.FileSystem => ({
        ...real,
        open: (at, options) =>
          options?.flag === "r+" ?
            real.open(at, options) :
            Effect.map(real.open(at, options), (inner) =>
              new Proxy(inner, {
                get(target, key) {
                  if (key === "writeAll" && fs.isFull) {
                    return () =>
                      Effect.fail(
                        new SystemError({
                          module: "FileSystem",
                          reason: "Unknown",
                          method: "write",
                          cause: Object.assign(new Error("ENOSPC"), { code: "ENOSPC" })
                        })
                      )
                  }
                  const value: unknown = Reflect.get(target, key)
                  return typeof value === "function" ? value.bind(target) : value
                }
              }))
      }))
    ).pipe(Layer.provide(reached))
  )

describe("a vault on a full disk", () => {
  it.scopedLive("a full disk makes a put fail with `io`, but records can still be purged", () =>
    Effect.gen(function*() {
      const root = yield* place
      const fs = { isFull: false }
      const { store } = yield* opened(root, {}, full(fs))
      const other = yield* opened(root)
      const records = yield* store.put(ada, [1, 2, 3, 4].map((n) => fact(`tea ${n}`)))
      const [one, ...more] = records.map(({ record }) => record.id)
      yield* store.update(ada, one!, { importance: 0.9 })
      fs.isFull = true
      assert.strictEqual((yield* Effect.flip(put(store, draft("coffee")))).reason, "io")
      assert.deepStrictEqual(yield* store.forget(ada, [one!], { purge: true }), [true])
      assert.deepStrictEqual(yield* store.forget(ada, more.slice(0, 2), { purge: true }), [true, true])
      assert.deepStrictEqual(yield* listed(store, ada), ["tea 4"])
      assert.lengthOf(Object.keys(files(root)), 1)
      assert.notInclude(everything(root), one!)
      yield* other.vault.refresh
      assert.deepStrictEqual(yield* listed(other.store, ada), ["tea 4"])
      fs.isFull = false
      yield* put(store, draft("coffee"))
      yield* other.vault.refresh
      assert.sameMembers(yield* listed(other.store, ada), ["tea 4", "coffee"])
    }))
})

const everything = (root: string) =>
  fs.readdirSync(root, { recursive: true, encoding: "utf8" }).flatMap((name) => {
    const at = path.join(root, name)
    return fs.statSync(at).isFile() ? [name, fs.readFileSync(at, "latin1")] : [name]
  }).join("\n")
