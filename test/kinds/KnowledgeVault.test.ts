import { assert } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as TestClock from "effect/TestClock"
import * as KnowledgeVault from "../../src/kinds/KnowledgeVault.ts"
import { ada, bob, id } from "../../src/testing/Sample.ts"
import { hostile, onEveryStore, reason } from "./EveryStore.ts"

const store = (
  memory: KnowledgeVault.Service,
  title: string,
  category: KnowledgeVault.VaultEntry["category"] = "insight",
  fields: { readonly importance?: number; readonly expiresAt?: number; readonly body?: string } = {}
) => memory.store(ada, { scope: { userId: "ada" }, body: "", data: { title, category }, ...fields })
const titles = (all: ReadonlyArray<{ readonly data: KnowledgeVault.VaultEntry }>) => all.map(({ data }) => data.title)

onEveryStore("KnowledgeVault", KnowledgeVault.KnowledgeVault, KnowledgeVault.layer, (law) => {
  law(
    "a vault entry has its title as summary, and is found by category, importance and words",
    (memory) =>
      Effect.gen(function*() {
        const { record } = yield* store(memory, "Monorepo", "decision", { importance: 1, body: "One place for all." })
        assert.deepInclude(record, { summary: "Monorepo", kind: "vault", body: "One place for all." })
        yield* TestClock.adjust(1)
        yield* store(memory, "Caches lie", "insight", { importance: 0.25 })
        assert.deepStrictEqual(titles(yield* memory.findByCategory(ada, "decision")), ["Monorepo"])
        assert.deepStrictEqual(titles(yield* memory.findByImportance(ada, 0.25)), ["Caches lie", "Monorepo"])
        assert.deepStrictEqual(titles(yield* memory.findByImportance(ada, 0.26)), ["Monorepo"])
        for (const text of ["monorepo", "place"]) {
          assert.deepStrictEqual(titles(yield* memory.search(ada, text)), ["Monorepo"])
        }
        for (let n = 0; n < 30; n++) yield* store(memory, `pattern ${n}`, "pattern")
        assert.lengthOf(yield* memory.findByCategory(ada, "pattern"), 30)
      })
  )

  law(
    "`archive` moves a record to the category `archive`, and `search` still finds the record",
    (memory) =>
      Effect.gen(function*() {
        const { record } = yield* store(memory, "Monorepo", "decision", { body: "One place" })
        const { data, record: archived } = yield* memory.archive(ada, record.id)
        assert.deepStrictEqual(data, { title: "Monorepo", category: "archive" })
        assert.deepInclude(archived, { id: record.id, body: "One place", summary: "Monorepo" })
        yield* memory.archive(ada, record.id)
        assert.deepStrictEqual(yield* memory.findByCategory(ada, "decision"), [])
        assert.deepStrictEqual(titles(yield* memory.findByCategory(ada, "archive")), ["Monorepo"])
        assert.deepStrictEqual(titles(yield* memory.search(ada, "place")), ["Monorepo"])
      })
  )

  law(
    "an expired record is absent, and `store` refuses an `expiresAt` that is not in the future",
    (memory) =>
      Effect.gen(function*() {
        yield* TestClock.setTime(1_000)
        const { record } = yield* store(memory, "soon", "config", { expiresAt: 1_001 })
        yield* store(memory, "stays", "config")
        assert.strictEqual(yield* reason(store(memory, "late", "config", { expiresAt: 1_000 })), "invalid_draft")
        yield* TestClock.adjust(1)
        assert.deepStrictEqual(titles(yield* memory.findByCategory(ada, "config")), ["stays"])
        assert.deepStrictEqual(titles(yield* memory.search(ada, "soon stays")), ["stays"])
        assert.strictEqual(yield* reason(memory.archive(ada, record.id)), "not_found")
      })
  )

  law(
    "`findByCategory` returns all records but the expired one after a compaction of the store",
    (memory, db) =>
      Effect.gen(function*() {
        for (let n = 0; n < 20; n++) yield* store(memory, `e${n}`, "insight", n === 7 ? { expiresAt: 10 } : {})
        yield* TestClock.adjust("1 hour")
        yield* db.compact
        const found = titles(yield* memory.findByCategory(ada, "insight"))
        assert.sameMembers(found, Array.from({ length: 20 }, (_, n) => `e${n}`).filter((title) => title !== "e7"))
      })
  )

  law(
    "another viewer's record can be neither found nor archived, and `search` accepts blank text and query operators",
    (memory) =>
      Effect.gen(function*() {
        const { record } = yield* store(memory, "Monorepo")
        assert.deepStrictEqual(yield* memory.findByCategory(bob, "insight"), [])
        assert.deepStrictEqual(yield* memory.findByImportance(bob, 0), [])
        assert.deepStrictEqual(yield* memory.search(bob, "monorepo"), [])
        assert.strictEqual(yield* reason(memory.archive(bob, record.id)), "not_found")
        assert.strictEqual(yield* reason(memory.archive(ada, id("none"))), "not_found")
        assert.strictEqual(yield* reason(store(memory, "")), "invalid_draft")
        for (const text of hostile) yield* memory.search(ada, text)
        assert.strictEqual(yield* reason(memory.search(ada, "a", 0)), "invalid_draft")
        assert.strictEqual(yield* reason(memory.findByImportance(ada, NaN)), "invalid_draft")
      })
  )
})
