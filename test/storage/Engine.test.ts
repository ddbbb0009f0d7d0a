/**
 * Tests which methods of an engine the library calls, and how many rows each call reads. Also tests what the in-memory engine guarantees
 * beyond the contract of engines.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as FastCheck from "effect/FastCheck"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/TestClock"
import * as MemoryError from "../../src/domain/MemoryError.ts"
import { hashOf, textHash } from "../../src/domain/MemoryRecord.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as Analyzer from "../../src/ranking/Analyzer.ts"
import { buildDoc } from "../../src/ranking/Bm25.ts"
import type { Due } from "../../src/storage/Engine.ts"
import * as Compaction from "../../src/storage/internal/Compaction.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import * as Transaction from "../../src/storage/MemoryStore/internal/Transaction.ts"
import { entryOf } from "../../src/storage/Revision.ts"
import { listen } from "../../src/testing/Listener.ts"
import { ada, draft, fact, id, put, system } from "../../src/testing/Sample.ts"
import { type Call, counting, indexed, inMemory, slow } from "./engines.ts"

const vector = new Float32Array([1, 2])

const failure = MemoryError.make("invalid_draft", { op: "put", message: "no", detail: { issues: ["no"] } })

/** Makes a store with `size` facts on an engine that records its calls. `during` runs an effect, and returns the calls made by it. */
const counted = (size: number) =>
  Effect.gen(function*() {
    const calls: Array<Call> = []
    const engine = counting(yield* inMemory, calls)
    const store = yield* MemoryStore.make("counted", engine)
    const drafts = Array.from({ length: size }, (_, n) => fact(`fact ${n}`))
    if (size > 0) yield* store.put(ada, drafts)
    const during = <A, E>(self: Effect.Effect<A, E>) =>
      Effect.suspend(() => {
        calls.length = 0
        return Effect.map(self, () => calls.slice())
      })
    return { engine, store, during }
  })

const ops = (calls: ReadonlyArray<Call>) => calls.map(({ op }) => op)

describe("calls of an Engine", () => {
  it.effect("MemoryStore.make asks once for rows to erase, and reads none of 2,000 rows if none is due", () =>
    Effect.gen(function*() {
      const { engine, during } = yield* counted(2_000)
      const calls = yield* during(MemoryStore.make("again", engine))
      assert.deepStrictEqual(calls, [{ op: "due", asked: 1_000, given: 0 }])
    }))

  it.effect("a put of 500 drafts makes one call of the engine: a transaction that looks up 500 ids", () =>
    Effect.gen(function*() {
      const { during, store } = yield* counted(100)
      const drafts = Array.from({ length: 500 }, (_, n) => fact(`another ${n}`))
      assert.deepStrictEqual(yield* during(store.put(ada, drafts)), [{ op: "transact", asked: 500, given: 0 }])
    }))

  it.effect("`update`, `forget` and `Restore` read one row; `get` reads one row for each id", () =>
    Effect.gen(function*() {
      const { during, store } = yield* counted(2_000)
      const { id: tea } = yield* put(store, draft("tea", { id: id("tea") }))
      const one = [{ op: "transact", asked: 1, given: 1 }]
      assert.deepStrictEqual(yield* during(store.update(ada, tea, { body: "green tea" })), one)
      assert.deepStrictEqual(yield* during(store.forget(ada, [tea])), one)
      assert.deepStrictEqual(yield* during(store.apply(ada, [{ _tag: "Restore", id: tea, revision: 3 }])), one)
      assert.deepStrictEqual(yield* during(store.get(ada, [tea, id("nobody")])), [{ op: "read", asked: 2, given: 2 }])
      assert.deepStrictEqual(yield* during(store.history(ada, tea)), [
        { op: "read", asked: 1, given: 1 },
        { op: "revisions", asked: 20, given: 4 }
      ])
    }))

  it.effect("`list` reads one row more than its page, and a search for ten of 2,000 facts reads at most twenty rows", () =>
    Effect.gen(function*() {
      const { during, store } = yield* counted(2_000)
      assert.deepStrictEqual(yield* during(store.list(ada, { limit: 10 })), [{ op: "page", asked: 11, given: 11 }])
      const [matched, ...rest] = yield* during(store.search(ada, { text: "fact 7", limit: 10 }))
      assert.deepStrictEqual([matched?.op, rest], ["match", []])
      assert.isAtMost(matched!.given, 20)
      const calls = yield* during(store.whyNot(ada, id("nobody"), { text: "fact 7", limit: 10 }))
      assert.deepStrictEqual(ops(calls), ["read"])
    }))

  it.effect("`stream` reads each row of the engine once", () =>
    Effect.gen(function*() {
      const { during, store } = yield* counted(2_050)
      const calls = yield* during(Stream.runDrain(store.stream(ada, { limit: 100 })))
      assert.strictEqual(calls.length, 21)
      assert.strictEqual(calls.reduce((sum, { given }) => sum + given, 0), 2_050)
    }))

  it.effect("MemoryStore.make refuses an engine with another analyzer's index until MemoryStore.reindex has run", () =>
    Effect.gen(function*() {
      const made: { analyzer: string | undefined; entries: number } = { analyzer: undefined, entries: 0 }
      const engine = indexed(yield* inMemory, made)
      const store = yield* MemoryStore.make("first", engine)
      yield* store.put(ada, [draft("tea"), draft("coffee")])
      made.analyzer = "of another release"
      const refused = yield* Effect.flip(MemoryStore.make("second", engine))
      assert.deepStrictEqual([refused.reason, refused.message.includes("MemoryStore.reindex")], ["unsupported", true])
      yield* MemoryStore.reindex(engine)
      assert.strictEqual(made.entries, 2)
      const again = yield* MemoryStore.make("second", engine)
      assert.strictEqual((yield* again.search(ada, { text: "tea" })).hits.length, 1)
    }))

  it.effect("`links` reads only the given record and its linked records", () =>
    Effect.gen(function*() {
      const { during, store } = yield* counted(2_000)
      const tea = yield* put(store, draft("[[Water]]", { summary: "Tea" }))
      yield* put(store, draft("wet", { summary: "Water" }))
      yield* put(store, draft("[[Tea]] in a [[Cup]]", { summary: "Pot" }))
      const calls = yield* during(store.links(ada, tea.id))
      assert.deepStrictEqual(ops(calls), ["read", "referring", "named"])
      assert.isAtMost(calls.reduce((sum, { given }) => sum + given, 0), 4)
    }))

  it.effect("`compact` reads and erases expired rows a thousand at a time, and reads no row that never expires", () =>
    Effect.gen(function*() {
      const { during, store } = yield* counted(10)
      yield* store.put(ada, Array.from({ length: 2_500 }, (_, n) => draft(`${n}`, { expiresAt: 1_000 })))
      yield* put(store, draft("later", { expiresAt: 5_000 }))
      yield* TestClock.adjust("1 second")
      const calls = yield* during(store.compact)
      assert.deepStrictEqual(
        calls.map(({ given, op }) => [op, given]),
        [["due", 1_000], ["transact", 1_000], ["due", 1_000], ["transact", 1_000], ["due", 501], ["transact", 500]]
      )
      assert.strictEqual(yield* store.activity.nextExpiry, 5_000)
      assert.deepStrictEqual(ops(yield* during(store.compact)), ["due"])
    }))

  it.effect("vectors.pending reads no more texts than its limit", () =>
    Effect.gen(function*() {
      const { during, store } = yield* counted(100)
      const { pending } = Option.getOrThrow(store.vectors)
      assert.deepStrictEqual(yield* during(pending("default", "m", 3)), [{ op: "pending", asked: 3, given: 3 }])
    }))

  it.effect("`put` retries with a new id, in a second transaction, if a record already has the generated id", () =>
    Effect.gen(function*() {
      const { engine } = yield* counted(0)
      const ids = ["a", "b", "a", "c"].map((name) => id(name))
      const idGenerator: Transaction.IdGenerator = { next: () => Effect.sync(() => ids.shift()!) } // has as many ids as are requested
      const calls: Array<Call> = []
      const store = yield* MemoryStore.make("minted", counting(engine, calls)).pipe(
        Effect.provideService(Transaction.SharedIdGenerator, idGenerator)
      )
      yield* put(store, draft("one"))
      calls.length = 0
      const puts = yield* store.put(ada, [draft("two"), draft("three")])
      assert.deepStrictEqual(puts.map(({ record }) => record.id), [id("b"), id("c")])
      assert.deepStrictEqual(calls.map(({ asked, given }) => [asked, given]), [[2, 1], [2, 0]])
    }))

  it.effect("the stream `changes` emits nothing when `compact` erases an expired record", () =>
    Effect.gen(function*() {
      const { store } = yield* counted(0)
      yield* put(store, draft("tea", { expiresAt: 1_000 }))
      yield* TestClock.adjust("1 second")
      const told = yield* listen(store, system)
      assert.strictEqual(yield* store.compact, 1)
      yield* put(store, draft("coffee"))
      assert.deepStrictEqual((yield* told).map(({ _tag }) => _tag), ["Written"])
    }).pipe(Effect.scoped))
})

it.effect("100 concurrent puts to 50 tenants take as long on a slow engine as two puts to one tenant", () =>
  Effect.gen(function*() {
    const store = yield* MemoryStore.make("slow", slow(yield* inMemory))
    const puts = (tenants: number, each: number) =>
      Effect.fork(Effect.forEach(
        Array.from({ length: tenants * each }, (_, n) => n),
        (n) => store.put(Viewer.system(`tenant-${n % tenants}`), [draft(`fact ${n}`)]),
        { concurrency: "unbounded" }
      ))
    const one = yield* puts(1, 2)
    yield* TestClock.adjust("19 millis")
    assert.isTrue(Option.isNone(yield* Fiber.poll(one)))
    yield* TestClock.adjust("1 millis")
    yield* Fiber.join(one)
    const many = yield* puts(50, 2)
    yield* TestClock.adjust("20 millis")
    assert.lengthOf(yield* Fiber.join(many), 100)
  }))

it.effect("a shared store without an index scans its backend to search, list, compact or deduplicate, but not to `get`, `update` or `forget`", () =>
  Effect.gen(function*() {
    const rows = new Map<string, MemoryStore.Stored>()
    let scans = 0
    const store = yield* MemoryStore.make("shared", {
      capabilities: { shared: true },
      secret: "of all",
      read: (_, ids) => Effect.sync(() => ids.map((id) => Option.fromNullable(rows.get(id)))),
      tenants: Effect.sync(() => rows.size > 0 ? ["default"] : []),
      scan: () => Stream.suspend(() => Stream.fromIterable((scans++, Array.from(rows.values())))),
      commit: (_, writes) =>
        Effect.sync(() => {
          for (const { id, next } of writes) {
            if (next) rows.set(id, next)
            else rows.delete(id)
          }
        })
    })
    const scansOf = <A, E>(self: Effect.Effect<A, E>) =>
      Effect.suspend(() => {
        scans = 0
        return Effect.map(self, () => scans)
      })
    const { id: tea } = yield* put(store, draft("tea"))
    assert.strictEqual(yield* scansOf(store.put(ada, [draft("milk"), draft("sugar", { id: id("sugar") })])), 0)
    assert.strictEqual(yield* scansOf(store.update(ada, tea, { body: "green tea" })), 0)
    assert.strictEqual(yield* scansOf(store.get(ada, [tea])), 0)
    assert.strictEqual(yield* scansOf(store.history(ada, tea)), 0)
    assert.strictEqual(yield* scansOf(store.forget(ada, [id("sugar")])), 0)
    assert.strictEqual(yield* scansOf(store.put(ada, Array.from({ length: 50 }, (_, n) => fact(`${n}`)))), 1)
    assert.strictEqual(yield* scansOf(store.search(ada, { text: "tea" })), 1)
    assert.strictEqual(yield* scansOf(store.list(ada, {})), 1)
    assert.strictEqual(yield* scansOf(store.compact), 1)
  }))

describe("the in-memory engine", () => {
  it.effect("`tenantsWith` lists the tenants of a scope, and `overCap` lists the scopes that exceed a kind's cap", () =>
    Effect.gen(function*() {
      const engine = yield* inMemory
      const store = yield* MemoryStore.make("memory", engine)
      const tenantsWith = (userId: string) =>
        Effect.map(Stream.runCollect(engine.tenantsWith({ userId })), Chunk.toReadonlyArray)
      const at = (tenant: string) => Viewer.make({ tenant, userId: "ada" })
      yield* store.put(at("one"), [fact("a"), fact("b"), fact("c", { kind: "reference" })])
      yield* store.put(at("two"), [fact("a")])
      assert.deepStrictEqual(yield* tenantsWith("ada"), ["one", "two"])
      assert.deepStrictEqual(yield* tenantsWith("bob"), [])
      const caps = new Map([["user", 1], ["reference", 1]])
      assert.deepStrictEqual(yield* engine.overCap("one", caps), [["userId=ada", "user"]])
      assert.deepStrictEqual(yield* engine.overCap("two", caps), [])
      const { items } = yield* store.list(at("two"), {})
      yield* store.forget(at("two"), items.map(({ id }) => id))
      assert.deepStrictEqual(yield* tenantsWith("ada"), ["one"])
      yield* store.put(at("two"), [fact("again")])
      assert.deepStrictEqual(yield* tenantsWith("ada"), ["one", "two"])
    }))

  it.effect("the results of a tenant's calls stay correct after calls for hundreds of other tenants", () =>
    Effect.gen(function*() {
      const engine = yield* inMemory
      const store = yield* MemoryStore.make("memory", engine)
      const vectors = Option.getOrThrow(store.vectors)
      const tenants = Array.from({ length: 300 }, (_, n) => `t${n}`)
      const at = (tenant: string) => Viewer.make({ tenant, userId: "ada" })
      for (const tenant of tenants) {
        const [tea] = yield* store.put(at(tenant), [
          draft(`tea of ${tenant}`, { summary: "Tea" }),
          draft("see [[Tea]]", { summary: "Cup" }),
          fact("likes tea")
        ])
        yield* vectors.attach(tenant, "m", (yield* vectors.pending(tenant, "m")).map(({ hash }) => [hash, vector]))
        yield* store.forget(at(tenant), [tea!.record.id])
      }
      const again = tenants.slice(0, 20)
      for (const tenant of again) {
        const viewer = at(tenant)
        assert.strictEqual((yield* store.put(viewer, [fact("likes tea")]))[0]!.outcome, "duplicate")
        assert.lengthOf((yield* store.search(viewer, { text: "tea" })).hits, 2)
        const [tombstone] = (yield* store.list(viewer, { forgotten: true })).items
        assert.strictEqual(tombstone!.body, `tea of ${tenant}`)
        yield* store.apply(viewer, [{ _tag: "Restore", id: tombstone!.id, revision: tombstone!.revision }])
        assert.lengthOf((yield* store.links(viewer, tombstone!.id)).from, 1)
        assert.lengthOf((yield* store.list(viewer, {})).items, 3)
        assert.deepStrictEqual(yield* vectors.pending(tenant, "m"), [])
      }
      for (const tenant of tenants) yield* store.list(at(tenant), { limit: 1 })
      for (const tenant of again) {
        const viewer = at(tenant)
        const { items } = yield* store.list(viewer, {})
        const teas = items.filter(({ summary }) => summary === "Tea")
        const hashes = items.map(hashOf)
        yield* store.forget(viewer, teas.map(({ id }) => id), { purge: true })
        assert.deepStrictEqual(
          (yield* vectors.read(tenant, "m", hashes)).map(Option.isSome),
          items.map(({ summary }) => summary !== "Tea")
        )
        assert.deepStrictEqual(yield* store.search(viewer, { text: tenant }).pipe(Effect.map(({ hits }) => hits)), [])
      }
      const found = yield* Stream.runCollect(engine.tenantsWith({ userId: "ada" }))
      assert.deepStrictEqual(Chunk.toReadonlyArray(found), tenants)
    }))

  it.effect("the engine lists no tenant that was only read or whose records were all purged", () =>
    Effect.gen(function*() {
      const engine = yield* inMemory
      const store = yield* MemoryStore.make("memory", engine)
      yield* store.list(Viewer.system("nobody"), {})
      const [one] = yield* store.put(ada, [draft("tea")])
      yield* store.forget(ada, [one!.record.id], { purge: true })
      assert.deepStrictEqual(yield* store.tenants, [])
    }))

  it.effect("`due` lists a row with its own due time, not with that of a purged earlier row with the same id", () =>
    Effect.gen(function*() {
      const engine = yield* inMemory
      const store = yield* MemoryStore.make("memory", engine)
      const due = Effect.map(engine.due(undefined, 10), (rows) => rows.map(({ at }) => at))
      yield* store.put(ada, [draft("tea", { id: id("x"), expiresAt: 5_000 })])
      assert.deepStrictEqual(yield* due, [5_000])
      for (const expiresAt of [9_000, undefined]) {
        yield* store.forget(ada, [id("x")], { purge: true })
        yield* store.put(ada, [draft("tea", { id: id("x"), expiresAt })])
        assert.deepStrictEqual(yield* due, expiresAt === undefined ? [] : [expiresAt])
      }
    }))

  it.effect("a transaction whose `decide` function returns a Left writes nothing, and fails with the error in the Left", () =>
    Effect.gen(function*() {
      const engine = yield* inMemory
      const needs = { ids: [id("x")], dedupeKeys: [], revisions: [] }
      const refused = yield* Effect.flip(engine.transact("default", needs, () => Either.left(failure)))
      assert.strictEqual(refused, failure)
      assert.deepStrictEqual((yield* engine.read("default", [id("x")])).map(Option.getOrUndefined), [undefined])
    }))
})

it("the queue of rows to erase returns each row once and sorted by due time, whatever the order of additions", () => {
  const { array, integer, property, record } = FastCheck
  const any = record({ at: integer({ min: 0, max: 9 }), n: integer({ min: 0, max: 9 }) })
  FastCheck.assert(
    property(array(any, { maxLength: 40 }), integer({ min: 1, max: 7 }), (all, limit) => {
      const current = new Map<string, Due>()
      const queue = Compaction.makeDueQueue((row) => current.get(row.id)?.at === row.at)
      for (const { at, n } of all) {
        const row = { at, tenant: "default", id: id(`${n}`), revision: 1 }
        current.set(row.id, row)
        queue.add(row)
      }
      const expected = Array.from(current.values()).sort(Compaction.byTime)
      for (let round = 0; round < 2; round++) {
        const found: Array<Due> = []
        for (;;) {
          const page = queue.next(found.at(-1), limit)
          if (page.length === 0) break
          assert.isAtMost(page.length, limit)
          found.push(...page)
        }
        assert.deepStrictEqual(found.map(({ at, id }) => [at, id]), expected.map(({ at, id }) => [at, id]))
      }
    }),
    { seed: 1, numRuns: 300 }
  )
})

it.effect("the index entry of a record contains the record's search terms, names and references", () =>
  Effect.gen(function*() {
    const store = yield* MemoryStore.MemoryStore
    const record = yield* put(
      store,
      draft("Green tea, see [[Water|the water]] and tea", { summary: "Tea", tags: ["tea", "hot drinks"] })
    )
    const analyzer = Analyzer.make()
    const entry = entryOf(analyzer)({ record, forgotten: false })
    const doc = buildDoc(record.id, record, analyzer.index)
    assert.strictEqual(entry.length, doc.length)
    assert.deepStrictEqual(new Set(entry.terms.keys()), new Set(doc.terms.keys()))
    for (const [term, code] of entry.terms) {
      assert.strictEqual(code >> 1, doc.terms.get(term))
      assert.strictEqual(code & 1, doc.tags.has(term) ? 1 : 0)
    }
    assert.strictEqual(entry.hash, textHash(record))
    assert.deepStrictEqual(entry.names, ["tea"])
    assert.include(entry.refersTo, "water")
    const gone = entryOf(analyzer)({ record, forgotten: true })
    assert.deepStrictEqual([gone.terms.size, gone.names, gone.refersTo], [0, [], []])
  }).pipe(Effect.provide(Layer.fresh(MemoryStore.layerInMemory))))
