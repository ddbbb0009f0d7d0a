/** Laws of identity: generated ids, and drafts that are duplicates. */
import { assert } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import * as TestClock from "effect/TestClock"
import { ULID_RE } from "../../domain/MemoryId.ts"
import type { Draft } from "../../domain/MemoryRecord.ts"
import * as Viewer from "../../domain/Viewer.ts"
import type { Service } from "../../storage/MemoryStore.ts"
import { type Law, law } from "../Law.ts"
import { ada, draft, fact, id, listed, put, system, the } from "../Sample.ts"

/** The laws of ids and deduplication. */
export const laws: ReadonlyArray<Law> = [
  law(
    "generated ids are ULIDs in strictly ascending order, also within one millisecond",
    (store) =>
      Effect.gen(function*() {
        const ids: Array<string> = []
        for (let round = 0; round < 5; round++) {
          const puts = yield* store.put(ada, Array.from({ length: 10 }, (_, n) => draft(`${round} ${n}`)))
          ids.push(...puts.map(({ record }) => record.id))
          if (round % 2 === 0) yield* TestClock.adjust("1 millis")
        }
        assert.isTrue(ids.every((id) => ULID_RE.test(id)))
        assert.deepStrictEqual(ids, Array.from(new Set(ids)).sort())
      })
  ),

  law(
    "the ids of a tenant do not reveal how many ids were generated for other tenants in the same millisecond",
    (store) =>
      Effect.gen(function*() {
        const mint = (viewer: Viewer.Any, count: number) =>
          Effect.map(
            store.put(viewer, Array.from({ length: count }, (_, n) => draft(String(n)))),
            (puts) => numberOf(puts[0]!.record.id)
          )
        const elsewhere = Viewer.make({ tenant: "elsewhere", userId: "ada" })
        const [a, b] = [yield* mint(ada, 1), yield* mint(ada, 1)]
        const foreign = yield* mint(elsewhere, 7)
        const c = yield* mint(ada, 1)
        assert.strictEqual(c - b, b - a)
        // the ids of each tenant start at a random offset within the millisecond
        assert.isTrue(foreign - b > 1_000_000n || b - foreign > 1_000_000n)
      })
  ),

  law(
    "two stores with the same clock and the same random seed generate the same ids and records",
    (store, another) =>
      Effect.gen(function*() {
        const twin = yield* another
        const write = (store: Service) =>
          Effect.withRandom(store.put(ada, [draft("Tea"), fact("Coffee"), draft("Tea")]), Random.make(7))
        assert.deepStrictEqual(yield* write(store), yield* write(twin))
      })
  ),

  law(
    "a put of a duplicate writes nothing, and returns the existing record with the outcome `duplicate`",
    (store) =>
      Effect.gen(function*() {
        const tea = yield* put(store, fact("Drinks  café crème,\n daily", { data: { a: 1, b: [2] } }))
        yield* TestClock.adjust("1 second")
        const same = [
          fact("Drinks  café crème,\n daily", { data: { a: 1, b: [2] } }),
          fact(" Drinks cafe\u0301 crème, daily ", {
            data: { b: [2], a: 1 },
            tags: ["new"],
            importance: 1,
            metadata: { x: 1 }
          })
        ]
        assert.deepEqual(yield* store.put(ada, same), [
          { record: tea, outcome: "duplicate" },
          { record: tea, outcome: "duplicate" }
        ])
        assert.lengthOf(yield* listed(store, system), 1)
        const [applied] = yield* store.apply(ada, [{ _tag: "Put", draft: same[0]! }])
        assert.deepEqual({ ...applied }, { id: tea.id, outcome: "duplicate", before: 1, record: tea })
      })
  ),

  law(
    "drafts that differ in scope, kind, letter case, summary or data are not duplicates",
    (store) =>
      Effect.gen(function*() {
        const viewer = Viewer.make({ userId: "ada", agentId: "pilot" })
        const different: ReadonlyArray<Draft> = [
          fact("Tea"),
          fact("tea"),
          fact("Te a"),
          fact("Tea", { kind: "feedback" }),
          fact("Tea", { scope: "global" }),
          fact("Tea", { scope: { userId: "ada", agentId: "pilot" } }),
          fact("Tea", { summary: "Of drinks" }),
          fact("Tea", { data: { a: 1 } })
        ]
        const puts = yield* store.put(viewer, different)
        assert.deepStrictEqual(puts.map(({ outcome }) => outcome), different.map(() => "created" as const))
        assert.lengthOf(yield* listed(store, viewer), different.length)
      })
  ),

  law("duplicate drafts in one put create one record", (store) =>
    Effect.gen(function*() {
      const puts = yield* store.put(ada, [fact("Tea"), fact("Coffee"), fact(" Tea ")])
      assert.deepStrictEqual(puts.map(({ outcome }) => outcome), ["created", "created", "duplicate"])
      assert.strictEqual(puts[2]?.record.id, puts[0]?.record.id)
      assert.lengthOf(yield* listed(store, ada), 2)
    })),

  law(
    "a draft with the new text of an updated record is a duplicate, and a draft with the old text is not",
    (store) =>
      Effect.gen(function*() {
        const { id } = yield* put(store, fact("Tea"))
        assert.strictEqual((yield* put(store, fact("Tea"))).id, id)
        yield* store.update(ada, id, { body: "Coffee" })
        const puts = yield* store.put(ada, [fact("Tea"), fact("Coffee")])
        assert.deepStrictEqual(puts.map(({ outcome }) => outcome), ["created", "duplicate"])
        assert.strictEqual(puts[1]?.record.id, id)
        assert.sameMembers(yield* listed(store, ada), ["Coffee", "Tea"])
      })
  ),

  law("fifty concurrent puts of the same fact create one record", (store) =>
    Effect.gen(function*() {
      const puts = yield* Effect.all(Array.from({ length: 50 }, () => store.put(ada, [fact("Tea")])), {
        concurrency: "unbounded"
      })
      const outcomes = puts.flat().map(({ outcome }) => outcome)
      assert.lengthOf(outcomes.filter((outcome) => outcome === "created"), 1)
      assert.lengthOf(outcomes.filter((outcome) => outcome === "duplicate"), 49)
      assert.lengthOf(new Set(puts.flat().map(({ record }) => record.id)), 1)
      assert.lengthOf(yield* listed(store, system), 1)
    })),

  law(
    "drafts with an id, and drafts of a kind without deduplication, are never duplicates",
    (store) =>
      Effect.gen(function*() {
        yield* store.put(ada, [draft("Tea"), draft("Tea")])
        assert.lengthOf(yield* listed(store, ada), 2)
        yield* store.put(ada, [fact("Tea"), fact("Tea", { id: id("a") }), fact("Tea", { id: id("b") })])
        assert.lengthOf(yield* listed(store, ada, { kinds: ["user"] }), 3)
      })
  ),

  law(
    "a draft is not a duplicate of a record that is expired, forgotten or no longer valid",
    (store) =>
      Effect.gen(function*() {
        const closed = yield* put(store, fact("Tea"))
        yield* TestClock.adjust("1 second")
        yield* store.update(ada, closed.id, { invalidAt: 1_000 })
        const expiring = yield* put(store, fact("Tea", { expiresAt: 2_000 }))
        yield* TestClock.adjust("1 second")
        const forgotten = yield* put(store, fact("Tea"))
        yield* store.forget(ada, [forgotten.id])
        const [last] = yield* store.put(ada, [fact("Tea")])
        assert.strictEqual(last?.outcome, "created")
        assert.lengthOf(new Set([closed.id, expiring.id, forgotten.id, last?.record.id]), 4)
        assert.strictEqual((yield* store.put(ada, [fact("Tea")]))[0]?.record.id, last?.record.id)
      })
  ),

  law(
    "a put of a duplicate returns the oldest live record with the same text; equally old records are ordered by id",
    (store) =>
      Effect.gen(function*() {
        const minted = yield* put(store, fact("Tea"))
        yield* TestClock.adjust("1 second")
        for (const name of ["b", "a"]) yield* put(store, fact("Tea", { id: id(name) }))
        const [b, a] = [id("a"), id("b")].sort().reverse()
        const doubled = Effect.map(store.put(ada, [fact("Tea")]), ([put]) => [put?.outcome, put?.record.id])
        assert.deepStrictEqual(yield* doubled, ["duplicate", minted.id])
        yield* store.forget(ada, [minted.id])
        assert.deepStrictEqual(yield* doubled, ["duplicate", a])
        const applied = yield* store.apply(ada, [
          { _tag: "Update", id: a!, patch: { body: "Coffee" } },
          { _tag: "Put", draft: fact("Tea") },
          { _tag: "Update", id: b!, patch: { invalidAt: 1_000 } },
          { _tag: "Update", id: a!, patch: { body: "Tea" } },
          { _tag: "Put", draft: fact("Tea") }
        ])
        assert.deepStrictEqual([applied[1]?.outcome, applied[1]?.id], ["duplicate", b])
        assert.deepStrictEqual([applied[4]?.outcome, applied[4]?.id], ["duplicate", a])
        yield* store.update(ada, a!, { expiresAt: 2_000 })
        yield* TestClock.adjust("1 second")
        assert.strictEqual((yield* doubled)[0], "created")
      })
  ),

  law(
    "records with the same id in two tenants are separate records",
    (store) =>
      Effect.gen(function*() {
        const elsewhere = Viewer.make({ tenant: "elsewhere", userId: "ada" })
        yield* put(store, draft("here", { id: id("one") }))
        const [there] = yield* store.put(elsewhere, [draft("there", { id: id("one") })])
        assert.deepEqual([there?.outcome, there?.record.revision], ["created", 1])
        assert.strictEqual((yield* store.put(elsewhere, [fact("Tea")]))[0]?.outcome, "created")
        assert.strictEqual((yield* store.put(ada, [fact("Tea")]))[0]?.outcome, "created")
        yield* store.forget(elsewhere, [id("one")], { purge: true })
        assert.strictEqual((yield* the(store, ada, id("one"))).body, "here")
      })
  )
]

/** Converts an id to a number, so that ids can be subtracted. */
const numberOf = (id: string): bigint =>
  Array.from(id).reduce((sum, digit) => sum * 32n + BigInt("0123456789ABCDEFGHJKMNPQRSTVWXYZ".indexOf(digit)), 0n)
