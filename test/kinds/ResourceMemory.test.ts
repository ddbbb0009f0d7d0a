import { assert, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as TestClock from "effect/TestClock"
import * as Redaction from "../../src/host/Redaction.ts"
import * as ResourceMemory from "../../src/kinds/ResourceMemory.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import { ada, bob, id } from "../../src/testing/Sample.ts"
import { hostile, onEveryStore, reason } from "./EveryStore.ts"

const store = (memory: ResourceMemory.Service, location: string, fields: Partial<ResourceMemory.Resource> = {}) =>
  memory.store(ada, { scope: { userId: "ada" }, body: "", data: { type: "file", location, ...fields } })
const locations = (all: ReadonlyArray<{ readonly data: ResourceMemory.Resource }>) =>
  all.map(({ data }) => data.location)

onEveryStore("ResourceMemory", ResourceMemory.ResourceMemory, ResourceMemory.layer, (law) => {
  law(
    "a resource is found by its type, by a part of its location and by words",
    (memory) =>
      Effect.gen(function*() {
        const { record } = yield* store(memory, "docs/guide.md", { size: 10, mimeType: "text/markdown" })
        assert.deepInclude(record, { summary: "docs/guide.md", importance: 0.25, kind: "resource" })
        yield* TestClock.adjust(1)
        yield* store(memory, "https://example.org/guide", { type: "url" })
        assert.deepStrictEqual(locations(yield* memory.findByType(ada, "url")), ["https://example.org/guide"])
        assert.deepStrictEqual(locations(yield* memory.findByLocation(ada, "guide")), [
          "https://example.org/guide",
          "docs/guide.md"
        ])
        assert.deepStrictEqual(locations(yield* memory.findByLocation(ada, "docs/")), ["docs/guide.md"])
        assert.deepStrictEqual(yield* memory.findByLocation(ada, "."), yield* memory.findByLocation(ada, ""))
        assert.deepStrictEqual(yield* memory.findByLocation(ada, "%"), [])
        assert.sameMembers(locations(yield* memory.search(ada, "guide")), [
          "https://example.org/guide",
          "docs/guide.md"
        ])
        assert.lengthOf(yield* memory.search(ada, "guide", 1), 1)
      })
  )

  law(
    "`findByType` and `findByLocation` return all matching resources, even if there are 30 of them",
    (memory) =>
      Effect.gen(function*() {
        for (let n = 0; n < 30; n++) yield* store(memory, `file ${n}`)
        assert.lengthOf(yield* memory.findByType(ada, "file"), 30)
        assert.lengthOf(yield* memory.findByLocation(ada, "file"), 30)
      })
  )

  law(
    "`touch` counts a use of a resource without making a new revision of the record",
    (memory, db) =>
      Effect.gen(function*() {
        const { record } = yield* store(memory, "a")
        yield* TestClock.adjust(50)
        yield* memory.touch(ada, record.id)
        assert.deepStrictEqual(yield* db.uses(ada, [record.id]), [{ count: 1, accessedAt: 50 }])
        const [{ record: same } = assert.fail("gone")] = yield* memory.findByType(ada, "file")
        assert.strictEqual(same.revision, 1)
      })
  )

  law(
    "another viewer's resources are hidden, invalid resources are refused, and `search` accepts blank text and query operators",
    (memory) =>
      Effect.gen(function*() {
        yield* store(memory, "a")
        assert.deepStrictEqual(yield* memory.findByType(bob, "file"), [])
        assert.deepStrictEqual(yield* memory.findByLocation(bob, "a"), [])
        assert.deepStrictEqual(yield* memory.search(bob, "a"), [])
        yield* memory.touch(bob, id("none"))
        assert.strictEqual(yield* reason(store(memory, "")), "invalid_draft")
        assert.strictEqual(yield* reason(store(memory, "a", { size: -1 })), "invalid_draft")
        for (const lastModified of [-1, NaN, 0.5, 8.64e15 + 1, Infinity]) {
          assert.strictEqual(yield* reason(store(memory, "a", { lastModified })), "invalid_draft")
        }
        assert.strictEqual((yield* store(memory, "a", { lastModified: 8.64e15 })).data.lastModified, 8.64e15)
        for (const text of hostile) yield* memory.search(ada, text)
        assert.strictEqual(yield* reason(memory.search(ada, "a", 0)), "invalid_draft")
      })
  )
})

it.effect("the summary of a resource contains no part of a key that lies across the summary's end", () =>
  Effect.gen(function*() {
    const memory = yield* ResourceMemory.ResourceMemory
    for (const length of [150, 160, 170]) {
      const { data, record } = yield* store(memory, `https://example.org/${"a".repeat(length)}/AKIAIOSFODNN7EXAMPLE`)
      assert.isTrue(data.location.endsWith("/(redacted key)"))
      assert.isTrue(`${data.location}…`.startsWith(record.summary.replace(/…$/, "")))
      assert.notInclude(record.summary, "AKIA")
    }
  }).pipe(
    Effect.provide(ResourceMemory.layer.pipe(
      Layer.provide(MemoryStore.layerInMemory),
      Layer.provide(Redaction.layer())
    ))
  ))
