import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as TestClock from "effect/TestClock"
import * as fs from "node:fs"
import * as path from "node:path"
import * as MemoryId from "../../src/domain/MemoryId.ts"
import { textHash } from "../../src/domain/MemoryRecord.ts"
import type * as MemoryStore from "../../src/storage/MemoryStore.ts"
import { system, the } from "../../src/testing/Sample.ts"
import { copyOf, opened } from "./Place.ts"

const id = (deuz: string) => MemoryId.foreign("deuz", deuz)
const sla = "f1c2a9d4-3b7e-4c55-9a10-2d6f0e8b7c31"
const berlin = "0b9e6c1e-52d4-4f0a-8f43-7a1d9c2e5b60"
const edited = "5d1f7a3c-9e2b-4a68-b1c7-0f4e6d8a2b95"
const closed = "6e0d2b8f-1c4a-47d9-8e35-9b7f3a5c1d02"
const sister = "e9a1c7b3-6d24-4f58-8b90-5c3e7d1f2a46"
const day = 1_717_286_400_000

/**
 * Copies the fixture, a vault that Deuz wrote. Sets the clock to a minute after the creation of most records, before any record expires.
 */
const vaultOfDeuz = Effect.zipRight(TestClock.setTime(day + 60_000), copyOf("deuz"))

describe("vectors in a vault written by Deuz", () => {
  const model = "text-embedding-004"
  const vectorsOf = (store: MemoryStore.Service, ids: ReadonlyArray<string>) =>
    Effect.gen(function*() {
      const records = yield* Effect.forEach(ids, (deuz) => the(store, system, id(deuz)))
      const { read } = Option.getOrThrow(store.vectors)
      const found = yield* read("default", model, records.map(textHash))
      return found.map((vector) => Option.isSome(vector) ? Array.from(vector.value) : undefined)
    })

  it.scoped("a record keeps Deuz's vector unless the record was edited or the vector has a wrong length", () =>
    Effect.gen(function*() {
      const root = yield* vaultOfDeuz
      const left = fs.readFileSync(path.join(root, ".deuz-vectors.json"), "utf8")
      const { store, vault } = yield* opened(root)
      assert.deepStrictEqual(yield* vectorsOf(store, [sla, berlin, edited, closed, sister]), [
        [0.5, -0.25, 1, 0],
        [0, 1, 0.5, 0.125],
        undefined,
        undefined,
        undefined
      ])
      const pending = yield* Option.getOrThrow(store.vectors).pending("default", model)
      assert.lengthOf(pending, 6)
      assert.deepStrictEqual(yield* vault.issues, [])
      assert.strictEqual(fs.readFileSync(path.join(root, ".deuz-vectors.json"), "utf8"), left)
    }))

  it.scoped("an imported vector is kept after an update of its record's tags, the deletion of Deuz's vector file and a reopening", () =>
    Effect.gen(function*() {
      const root = yield* vaultOfDeuz
      yield* Effect.scoped(Effect.gen(function*() {
        const { store } = yield* opened(root)
        assert.isDefined((yield* vectorsOf(store, [sla]))[0])
        yield* store.update(system, id(sla), { tags: ["support"] })
        yield* store.update(system, id(berlin), { body: "The user lives in Lisbon." })
      }))
      fs.rmSync(path.join(root, ".deuz-vectors.json"))
      const { store } = yield* opened(root)
      assert.deepStrictEqual(yield* vectorsOf(store, [sla, berlin]), [[0.5, -0.25, 1, 0], undefined])
    }))

  it.scoped("the vector of an unedited record that names no model belongs to the model in the option `deuzModel`", () =>
    Effect.gen(function*() {
      for (const deuzModel of [undefined, model, "another"]) {
        const root = yield* vaultOfDeuz
        for (const name of [sla, edited]) {
          const file = path.join(root, `${name}.md`)
          fs.writeFileSync(file, fs.readFileSync(file, "utf8").replace(/^embeddingModelId: .*\n/m, ""))
        }
        const { store } = yield* opened(root, { deuzModel })
        assert.deepStrictEqual(yield* vectorsOf(store, [sla, berlin, edited]), [
          deuzModel === model ? [0.5, -0.25, 1, 0] : undefined,
          [0, 1, 0.5, 0.125],
          undefined
        ])
      }
    }))

  it.scoped("a vault with an unreadable vector file opens without vectors, and reports one issue at the first read of vectors", () =>
    Effect.gen(function*() {
      for (const text of ["{\"f1c2", "[1]", "\"x\"", ""]) {
        yield* TestClock.setTime(day)
        const root = yield* copyOf("deuz")
        fs.writeFileSync(path.join(root, ".deuz-vectors.json"), text)
        const { store, vault } = yield* opened(root)
        assert.deepStrictEqual(yield* vault.issues, [])
        assert.deepStrictEqual(yield* vectorsOf(store, [sla]), [undefined])
        assert.deepStrictEqual(
          (yield* vault.issues).map(({ error, path }) => [path, error.reason]),
          [[".deuz-vectors.json", "corrupt"]]
        )
        assert.strictEqual(fs.readFileSync(path.join(root, ".deuz-vectors.json"), "utf8"), text)
      }
    }))

  it.scoped("a vector that is not an array of numbers is skipped, and valid vectors are used", () =>
    Effect.gen(function*() {
      const root = yield* vaultOfDeuz
      fs.writeFileSync(
        path.join(root, ".deuz-vectors.json"),
        JSON.stringify({ [sla]: [1, 2], [berlin]: [1, null], [closed]: "x", [sister]: [], ["__proto__"]: [1] })
      )
      const { store } = yield* opened(root)
      assert.deepStrictEqual(yield* vectorsOf(store, [sla, berlin, closed, sister]), [
        [1, 2],
        undefined,
        undefined,
        undefined
      ])
    }))
})
