import { assert } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as TestClock from "effect/TestClock"
import * as SemanticMemory from "../../src/kinds/SemanticMemory.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import { ada, bob, draft, get, id, put } from "../../src/testing/Sample.ts"
import { sampled } from "../contract/naughty.ts"
import { hostile, onEveryStore, reason } from "./EveryStore.ts"

const scope = { userId: "ada" }
const store = (
  memory: SemanticMemory.Service,
  [subject, predicate, object]: readonly [string, string, string],
  fields: { readonly domain?: string; readonly validAt?: number; readonly invalidAt?: number; readonly body?: string } =
    {}
) => {
  const { body = "", domain, ...times } = fields
  return memory.storeFact(ada, { scope, body, data: { subject, predicate, object, domain }, ...times })
}
const over = (db: MemoryStore.Service) => Effect.provideService(SemanticMemory.make, MemoryStore.MemoryStore, db)
const objects = (all: ReadonlyArray<{ readonly data: SemanticMemory.Fact }>) => all.map(({ data }) => data.object)

onEveryStore("SemanticMemory", SemanticMemory.SemanticMemory, SemanticMemory.layer, (law) => {
  law(
    "a repeated fact is stored once, has its subject, predicate and object as summary, and is found by words",
    (memory) =>
      Effect.gen(function*() {
        const { data, record } = yield* store(memory, ["Ada", "drinks", "tea"], { body: "She never has coffee." })
        assert.deepInclude(record, { summary: "Ada drinks tea", kind: "semantic" })
        assert.deepStrictEqual(data, { subject: "Ada", predicate: "drinks", object: "tea" })
        assert.strictEqual(
          (yield* store(memory, ["Ada", "drinks", "tea"], { body: "She never has coffee." })).record.id,
          record.id
        )
        for (const text of ["tea", "coffee", "ada"]) {
          assert.deepStrictEqual(objects(yield* memory.searchFacts(ada, text)), ["tea"])
        }
        assert.strictEqual(yield* reason(store(memory, ["", "drinks", "tea"])), "invalid_draft")
      })
  )

  law(
    "`queryBySubject` and `queryByDomain` return all facts with exactly the given subject or domain",
    (memory) =>
      Effect.gen(function*() {
        for (let n = 0; n < 45; n++) yield* store(memory, ["Ada", "has", `${n}`], { domain: n % 2 ? "odd" : "even" })
        yield* store(memory, ["ada", "is", "another"])
        assert.lengthOf(yield* memory.queryBySubject(ada, "Ada"), 45)
        assert.lengthOf(yield* memory.queryByDomain(ada, "odd"), 22)
        assert.deepStrictEqual(objects(yield* memory.queryBySubject(ada, "ada")), ["another"])
        assert.deepStrictEqual(yield* memory.queryByDomain(ada, "none"), [])
      })
  )

  law(
    "`invalidateFact` ends the validity of a fact now, unless the validity has already ended",
    (memory, db) =>
      Effect.gen(function*() {
        yield* TestClock.setTime(1_000)
        const { record } = yield* store(memory, ["Ada", "lives in", "Bern"], { domain: "home" })
        yield* TestClock.setTime(2_000)
        yield* memory.invalidateFact(ada, record.id)
        assert.deepStrictEqual(yield* memory.queryBySubject(ada, "Ada"), [])
        assert.deepStrictEqual(yield* memory.queryByDomain(ada, "home"), [])
        assert.deepStrictEqual(yield* memory.searchFacts(ada, "Bern"), [])
        for (const [asOf, there] of [[999, 0], [1_000, 1], [1_999, 1], [2_000, 0]] as const) {
          assert.lengthOf(yield* memory.queryBySubject(ada, "Ada", { asOf }), there)
        }
        yield* TestClock.setTime(3_000)
        yield* memory.invalidateFact(ada, record.id)
        assert.deepInclude(yield* get(db, ada, record.id), { invalidAt: 2_000, revision: 2 })
        const until = yield* store(memory, ["Ada", "lives in", "Oslo"], { invalidAt: 9_000 })
        yield* memory.invalidateFact(ada, until.record.id)
        assert.deepInclude(yield* get(db, ada, until.record.id), { invalidAt: 3_000 })
        assert.deepStrictEqual(objects(yield* memory.queryBySubject(ada, "Ada")), [])
      })
  )

  law(
    "queries and `invalidateFact` treat another viewer's facts, and records that are not facts, as absent",
    (memory, db) =>
      Effect.gen(function*() {
        const { record } = yield* store(memory, ["Ada", "drinks", "tea"], { domain: "d" })
        const sentence = yield* put(db, draft("Ada drinks tea", { kind: "semantic" }))
        yield* put(db, draft("half a fact", { kind: "semantic", data: { subject: "Ada", domain: "d" } }))
        yield* put(
          db,
          draft("most of one", { kind: "semantic", data: { subject: "Ada", predicate: "is", domain: "d" } })
        )
        assert.lengthOf(yield* memory.queryBySubject(ada, "Ada"), 1)
        assert.lengthOf(yield* memory.queryByDomain(ada, "d"), 1)
        assert.lengthOf(yield* memory.searchFacts(ada, "ada tea"), 1)
        assert.deepStrictEqual(yield* memory.queryBySubject(bob, "Ada"), [])
        assert.strictEqual(yield* reason(memory.invalidateFact(bob, record.id)), "not_found")
        assert.strictEqual(yield* reason(memory.invalidateFact(ada, id("none"))), "not_found")
        assert.strictEqual(yield* reason(memory.invalidateFact(ada, sentence.id)), "not_found")
        assert.isUndefined((yield* get(db, ada, sentence.id))?.invalidAt)
      })
  )

  law(
    "`invalidateFact` keeps a past end of validity that another writer sets meanwhile",
    (_, db) =>
      Effect.gen(function*() {
        const { record } = yield* store(yield* over(db), ["Ada", "lives in", "Bern"])
        yield* TestClock.setTime(1_000)
        const memory = yield* over({
          ...db,
          update: (...args) =>
            Effect.zipRight(
              Effect.option(db.update(ada, record.id, { invalidAt: 500 }, { ifRevision: 1 })),
              db.update(...args)
            )
        })
        yield* memory.invalidateFact(ada, record.id)
        assert.deepInclude(yield* get(db, ada, record.id), { invalidAt: 500, revision: 2 })
      })
  )

  law(
    "`searchFacts` accepts blank text and query operators; `storeFact` accepts strange strings as subject and domain",
    (memory) =>
      Effect.gen(function*() {
        for (const text of hostile) yield* memory.searchFacts(ada, text)
        for (const limit of [0, -1, NaN]) {
          assert.strictEqual(yield* reason(memory.searchFacts(ada, "x", limit)), "invalid_draft")
        }
        for (
          const text of sampled(25).filter((text) => text !== "" && text.length < 1_000)
        ) {
          yield* store(memory, [text, text, text], { domain: text })
          assert.deepStrictEqual(objects(yield* memory.queryBySubject(ada, text)), [text])
          assert.deepStrictEqual(objects(yield* memory.queryByDomain(ada, text)), [text])
        }
      })
  )
})
