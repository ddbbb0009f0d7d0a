/**
 * Compaction of a vault finds the records to erase in memory. This search reads the history file only for a record that has neither a file
 * nor a readable tombstone.
 */
import { SystemError } from "@effect/platform/Error"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as TestClock from "effect/TestClock"
import * as fs from "node:fs"
import * as path from "node:path"
import type * as MemoryStore from "../../src/storage/MemoryStore.ts"
import { ada, draft, system } from "../../src/testing/Sample.ts"
import { files, opened, place, platformWith } from "./Place.ts"

/** Makes a vault with `count` forgotten records; every tenth of them expires after an hour. */
const withTombstones = (count: number) =>
  Effect.tap(place, (root) =>
    Effect.scoped(Effect.gen(function*() {
      const { store } = yield* opened(root)
      const put = yield* store.put(
        ada,
        Array.from({ length: count }, (_, n) => draft(`note ${n}`, n % 10 === 0 ? { expiresAt: 3_600_000 } : {}))
      )
      yield* store.forget(ada, put.map(({ record }) => record.id))
    })))

/** Opens and closes a vault, and returns how often this opens its history file. */
const readsOfOpening = (count: number) =>
  Effect.gen(function*() {
    const root = yield* withTombstones(count)
    let reads = 0
    const noted = (path: string) => {
      if (path.endsWith("/history")) reads += 1
    }
    const platform = platformWith(({ open, readFile }) => ({
      open: (path, options) => Effect.zipRight(Effect.sync(() => noted(path)), open(path, options)),
      readFile: (path) => Effect.zipRight(Effect.sync(() => noted(path)), readFile(path))
    }))
    yield* Effect.scoped(opened(root, {}, platform))
    return reads
  })

describe("a vault with tombstones (entries of forgotten records in its history)", () => {
  it.scoped("opening a vault reads the history file equally often with 50 and with 150 forgotten records", () =>
    Effect.gen(function*() {
      assert.strictEqual(yield* readsOfOpening(150), yield* readsOfOpening(50))
    }))

  for (const closed of [true, false]) {
    it.scoped(`compaction erases a forgotten record when it expires, or after 30 days if it has no expiry, ${closed ? "even after a reopening" : "in the process that forgot it"}`, () =>
      Effect.gen(function*() {
        const root = yield* place
        const days = 86_400_000
        const writing = Effect.gen(function*() {
          const { store } = yield* opened(root)
          const put = yield* store.put(ada, [draft("soon", { expiresAt: days }), draft("later")])
          yield* store.forget(ada, put.map(({ record }) => record.id))
          return { ids: put.map(({ record }) => record.id), store }
        })
        const { ids, store } = yield* closed
          ? Effect.flatMap(
            Effect.scoped(writing),
            ({ ids }) => Effect.map(opened(root), ({ store }) => ({ ids, store }))
          )
          : writing
        const left = Effect.map(store.get(system, ids), (all) => all.map(Option.isSome))
        assert.deepStrictEqual(yield* left, [true, true])
        yield* TestClock.adjust("2 days")
        yield* store.compact
        assert.deepStrictEqual(yield* left, [false, true])
        yield* TestClock.adjust("29 days")
        yield* store.compact
        assert.deepStrictEqual(yield* left, [false, false])
      }))
  }
})

it.scoped("compaction erases an expired record even if its file was deleted by hand at a time when the history was not writable", () =>
  Effect.gen(function*() {
    const root = yield* place
    let isFull = false
    const platform = platformWith(({ open }) => ({
      open: (path, options) =>
        isFull && path.endsWith("/history") && options?.flag !== undefined && options.flag !== "r"
          ? new SystemError({ reason: "Unknown", module: "FileSystem", method: "open", pathOrDescriptor: path })
          : open(path, options)
    }))
    const { store, vault } = yield* opened(root, {}, platform)
    const [{ record }] = (yield* store.put(ada, [draft("a secret that expires", { expiresAt: 86_400_000 })])) as [
      MemoryStore.Put
    ] // put returns one result per draft
    const [file] = Object.keys(files(root))
    isFull = true
    fs.rmSync(path.join(root, file!))
    yield* vault.refresh
    isFull = false
    yield* vault.refresh
    yield* TestClock.adjust("2 days")
    yield* store.compact
    assert.deepStrictEqual((yield* store.get(system, [record.id])).map(Option.getOrUndefined), [undefined])
    assert.notInclude(fs.readFileSync(path.join(root, ".effect-memory/history"), "utf8"), "a secret that expires")
  }))
