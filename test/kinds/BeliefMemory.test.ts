import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as TestClock from "effect/TestClock"
import * as BeliefMemory from "../../src/kinds/BeliefMemory.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import { ada, bob, get, id } from "../../src/testing/Sample.ts"
import { sampled } from "../contract/naughty.ts"
import { because, belief, query, recall, retain } from "./Beliefs.ts"
import { interleaved, onEveryStore, reason } from "./EveryStore.ts"

onEveryStore("BeliefMemory", BeliefMemory.BeliefMemory, BeliefMemory.layer, (law, name) => {
  law(
    "`query` returns the most confident beliefs first, then the newest",
    (memory) =>
      Effect.gen(function*() {
        const { record } = yield* memory.retain(ada, belief("Bern"))
        assert.deepInclude(record, { summary: "Ada lives in Bern", confidence: 0.6, kind: "belief" })
        yield* TestClock.adjust(1)
        yield* retain(memory, "Oslo", { confidence: 0.6, domain: "home" })
        yield* retain(memory, "Rome", { confidence: 0.9 })
        yield* retain(memory, "Nice", { confidence: 0 })
        assert.deepStrictEqual(yield* query(memory), ["Rome", "Oslo", "Bern", "Nice"])
        assert.deepStrictEqual(yield* query(memory, { minConfidence: 0.6 }), ["Rome", "Oslo", "Bern"])
        assert.deepStrictEqual(yield* query(memory, { minConfidence: 1 }), [])
        assert.deepStrictEqual(yield* query(memory, { domain: "home" }), ["Oslo"])
        assert.deepStrictEqual(yield* query(memory, { subject: "ada" }), [])
        assert.lengthOf(yield* query(memory, { subject: "Ada", predicate: "lives in" }), 4)
        for (const minConfidence of [NaN, -1, 2]) {
          assert.strictEqual(yield* reason(memory.query(ada, { minConfidence })), "invalid_draft")
        }
        for (let n = 0; n < 30; n++) yield* retain(memory, `${n}`, { domain: "many" })
        assert.lengthOf(yield* query(memory, { domain: "many" }), 30)
      })
  )

  law(
    "`query` returns at most `limit` beliefs, ordered by confidence or time, ascending or descending",
    (memory) =>
      Effect.gen(function*() {
        const ids = []
        for (const [object, confidence] of [["Bern", 0.9], ["Oslo", 0.3], ["Rome", 0.6]] as const) {
          ids.push(yield* retain(memory, object, { confidence }))
          yield* TestClock.adjust(1)
        }
        yield* memory.revise(ada, ids[0]!, { domain: "home" }, because)
        assert.deepStrictEqual(yield* query(memory, { order: "asc" }), ["Oslo", "Rome", "Bern"])
        assert.deepStrictEqual(yield* query(memory, { orderBy: "createdAt" }), ["Rome", "Oslo", "Bern"])
        assert.deepStrictEqual(yield* query(memory, { orderBy: "createdAt", order: "asc", limit: 1 }), ["Bern"])
        assert.deepStrictEqual(yield* query(memory, { orderBy: "updatedAt" }), ["Bern", "Rome", "Oslo"])
        assert.deepStrictEqual(yield* query(memory, { limit: 2 }), ["Bern", "Rome"])
        for (const limit of [0, -1, 1.5, 1_001]) {
          assert.strictEqual(yield* reason(memory.query(ada, { limit })), "invalid_draft")
        }
      })
  )

  law(
    "`revise` keeps a belief's id, confidence and custom summary, and updates a derived summary",
    (memory) =>
      Effect.gen(function*() {
        const bern = yield* retain(memory, "Bern", { confidence: 0.9 })
        const { data, record } = yield* memory.revise(ada, bern, {
          object: "Basel",
          domain: "home",
          subject: undefined
        }, because)
        assert.deepInclude(data, { subject: "Ada", object: "Basel", domain: "home" })
        assert.deepInclude(record, { id: bern, summary: "Ada lives in Basel", confidence: 0.9, revision: 2 })
        const named = yield* retain(memory, "Oslo", { summary: "her home" })
        assert.strictEqual((yield* memory.revise(ada, named, { object: "Rome" }, because)).record.summary, "her home")
        assert.strictEqual(yield* reason(memory.revise(ada, named, { object: "" }, because)), "invalid_draft")
        assert.deepStrictEqual((yield* recall(memory, named)).data.object, "Rome")
      })
  )

  law(
    "`supersede` ends the validity of the old belief, and stores a new belief that links to the old belief",
    (memory, store) =>
      Effect.gen(function*() {
        yield* TestClock.setTime(1_000)
        const bern = yield* retain(memory, "Bern")
        yield* TestClock.setTime(2_000)
        const { record } = yield* memory.supersede(ada, bern, belief("Basel"), because)
        assert.deepStrictEqual(record.links, [{ to: bern, type: "supersedes", weight: 1 }])
        assert.deepInclude(yield* get(store, ada, bern), { invalidAt: 2_000, supersededBy: record.id })
        assert.deepStrictEqual(yield* query(memory), ["Basel"])
        assert.sameMembers(yield* query(memory, { includeSuperseded: true }), ["Basel", "Bern"])
        assert.strictEqual((yield* recall(memory, bern)).data.object, "Bern")
        for (
          const change of [
            memory.supersede(ada, bern, belief("Rome"), because),
            memory.revise(ada, bern, { object: "Rome" }, because),
            memory.reinforce(ada, bern, 1, because),
            memory.weaken(ada, bern, 1, because)
          ]
        ) assert.strictEqual(yield* reason(change), "read_only")
        assert.strictEqual(
          yield* reason(memory.supersede(ada, record.id, { ...belief("x"), id: record.id }, because)),
          "invalid_draft"
        )
        const own = yield* memory.supersede(ada, record.id, { ...belief("Rome"), id: id("rome") }, because)
        assert.strictEqual(own.record.id, id("rome"))
      })
  )

  law(
    "exactly one of two concurrent calls of `supersede` for the same belief succeeds",
    (alone, store) =>
      Effect.gen(function*() {
        const memory = yield* Effect.provideService(BeliefMemory.make, MemoryStore.MemoryStore, interleaved(store))
        const bern = yield* retain(alone, "Bern")
        const both = yield* Effect.all(
          [memory.supersede(ada, bern, belief("Basel"), because), memory.supersede(ada, bern, belief("Rome"), because)],
          { concurrency: 2, mode: "either" }
        )
        assert.lengthOf(both.filter(({ _tag }) => _tag === "Right"), 1)
        assert.lengthOf(yield* query(memory), 1)
        assert.lengthOf(yield* query(memory, { includeSuperseded: true }), 2)
      })
  )

  law(
    "an interrupted call of `supersede` either makes all its changes or changes nothing",
    (alone, store) =>
      Effect.gen(function*() {
        const memory = yield* Effect.provideService(BeliefMemory.make, MemoryStore.MemoryStore, interleaved(store))
        for (let turns = 0; turns < 40; turns += 4) {
          const bern = yield* retain(alone, `Bern ${turns}`)
          const changing = yield* Effect.fork(memory.supersede(ada, bern, belief(`Rome ${turns}`), because))
          yield* Effect.repeatN(Effect.yieldNow(), turns)
          yield* Fiber.interrupt(changing)
          const held = (yield* query(alone)).filter((object) => object.endsWith(` ${turns}`))
          assert.lengthOf(held, 1)
          assert.lengthOf(yield* alone.audit(ada, bern), held[0] === `Bern ${turns}` ? 0 : 1)
        }
      })
  )

  law(
    "`supersede` fails and changes nothing if the new belief is invalid",
    (memory) =>
      Effect.gen(function*() {
        const bern = yield* retain(memory, "Bern")
        assert.strictEqual(yield* reason(memory.supersede(ada, bern, belief(""), because)), "invalid_draft")
        const elsewhere = { ...belief("Rome"), scope: { userId: "bob" } }
        assert.strictEqual(yield* reason(memory.supersede(ada, bern, elsewhere, because)), "invalid_scope")
        assert.deepStrictEqual(yield* query(memory), ["Bern"])
        assert.deepStrictEqual(yield* memory.audit(ada, bern), [])
      })
  )

  law(
    "`reinforce` moves the confidence towards 1 by the given share of the distance, and `weaken` likewise towards 0",
    (_, store) =>
      Effect.gen(function*() {
        const memory = yield* Effect.provideService(BeliefMemory.make, MemoryStore.MemoryStore, interleaved(store))
        const bern = yield* retain(memory, "Bern", { confidence: 0.5 })
        assert.closeTo((yield* memory.reinforce(ada, bern, 0.5, because)).record.confidence!, 0.75, 1e-9)
        assert.closeTo((yield* memory.weaken(ada, bern, 0.2, because)).record.confidence!, 0.6, 1e-9)
        assert.strictEqual((yield* memory.reinforce(ada, bern, 1, because)).record.confidence, 1)
        assert.strictEqual((yield* memory.weaken(ada, bern, 0, because)).record.confidence, 1)
        yield* Effect.forEach([1, 2, 3, 4, 5], () => memory.weaken(ada, bern, 0.5, because), {
          concurrency: "unbounded"
        })
        assert.strictEqual((yield* recall(memory, bern)).record.confidence, 1 / 32)
        assert.strictEqual((yield* memory.weaken(ada, bern, 1, because)).record.confidence, 0)
        for (const by of [-0.1, 1.1, NaN]) {
          assert.strictEqual(yield* reason(memory.reinforce(ada, bern, by, because)), "invalid_draft")
          assert.strictEqual(yield* reason(memory.weaken(ada, bern, by, because)), "invalid_draft")
        }
      })
  )

  law(
    "the audit of a belief lists every change, even changes whose revisions the store no longer keeps",
    (memory) =>
      Effect.gen(function*() {
        const proof = yield* retain(memory, "Oslo")
        const bern = yield* retain(memory, "Bern", { confidence: 0.5 })
        yield* TestClock.setTime(1_000)
        yield* memory.revise(ada, bern, { object: "Basel" }, { reason: "typo", evidence: [proof] })
        yield* memory.weaken(ada, bern, 0.5, { reason: "doubt" })
        for (let n = 0; n < 25; n++) yield* memory.reinforce(ada, bern, 0.1, { reason: `again ${n}` })
        yield* memory.supersede(ada, bern, belief("Rome"), { reason: "moved" })
        const audit = yield* memory.audit(ada, bern)
        assert.lengthOf(audit, 28)
        assert.deepStrictEqual(audit.slice(0, 2), [
          { action: "revise", at: 1_000, revision: 2, confidence: 0.5, reason: "typo", evidence: [proof] },
          { action: "weaken", at: 1_000, revision: 3, confidence: 0.25, reason: "doubt" }
        ])
        assert.deepInclude(audit.at(-1), { action: "supersede", revision: 29, reason: "moved" })
        const forged = { ...belief("Nice"), data: { ...belief("Nice").data, audit } }
        assert.deepStrictEqual(yield* memory.audit(ada, (yield* memory.retain(ada, forged)).record.id), [])
        const { audit: kept } = (yield* memory.revise(ada, proof, { audit }, because)).data
        assert.deepStrictEqual(kept?.map(({ reason }) => reason), [because.reason])
        assert.strictEqual(yield* reason(memory.weaken(ada, proof, 0.5, { reason: " " })), "invalid_draft")
      })
  )

  law(
    "`history` returns the revisions of a belief that the store keeps, newest first",
    (memory, store) =>
      Effect.gen(function*() {
        const bern = yield* retain(memory, "Bern")
        yield* memory.revise(ada, bern, { object: "Basel" }, because)
        const objects = (yield* memory.history(ada, bern)).map(({ data }) => data.object)
        assert.deepStrictEqual(objects, store.capabilities.history ? ["Basel", "Bern"] : ["Basel"], name)
        assert.deepStrictEqual(yield* memory.history(ada, id("none")), [])
      })
  )

  law(
    "`recall`, `query`, `history`, `revise`, `weaken`, `supersede` and `audit` treat another viewer's belief as absent",
    (memory) =>
      Effect.gen(function*() {
        const bern = yield* retain(memory, "Bern")
        assert.isTrue(Option.isNone(yield* memory.recall(bob, bern)))
        assert.deepStrictEqual(yield* memory.query(bob, { includeSuperseded: true }), [])
        assert.deepStrictEqual(yield* memory.history(bob, bern), [])
        for (
          const change of [
            memory.revise(bob, bern, {}, because),
            memory.weaken(bob, bern, 1, because),
            memory.supersede(bob, bern, { ...belief("Rome"), scope: { userId: "bob" } }, because),
            memory.audit(bob, bern),
            memory.audit(ada, id("none"))
          ]
        ) assert.strictEqual(yield* reason<unknown>(change), "not_found")
      })
  )

  law(
    "`retain` stores sampled non-blank naughty strings unchanged as a belief's object, and `weaken` stores them unchanged as a reason",
    (memory) =>
      Effect.gen(function*() {
        for (const text of sampled(30).filter((text) => text.trim() !== "" && text.length < 1_000)) {
          const { record } = yield* memory.retain(ada, belief(text))
          yield* memory.weaken(ada, record.id, 0.5, { reason: text })
          assert.strictEqual((yield* recall(memory, record.id)).data.object, text)
          assert.strictEqual((yield* memory.audit(ada, record.id))[0]?.reason, text)
        }
      })
  )
})

describe("BeliefMemory", () => {
  it.effect.prop(
    "`reinforce` never lowers and `weaken` never raises the confidence of a belief, which stays within 0..1",
    [
      FastCheck.double({ min: 0, max: 1, noNaN: true }).map((n) => n + 0),
      FastCheck.array(
        FastCheck.tuple(FastCheck.boolean(), FastCheck.double({ min: 0, max: 1, noNaN: true }).map((n) => n + 0)),
        {
          maxLength: 10
        }
      )
    ],
    ([confidence, moves]) =>
      Effect.gen(function*() {
        const memory = yield* BeliefMemory.BeliefMemory
        const bern = yield* retain(memory, "Bern", { confidence })
        let before = confidence
        for (const [up, by] of moves) {
          const { record } = yield* (up ? memory.reinforce : memory.weaken)(ada, bern, by, because)
          const now = record.confidence!
          assert.isTrue(now >= 0 && now <= 1 && (up ? now >= before : now <= before))
          before = now
        }
      }).pipe(Effect.provide(Layer.provideMerge(BeliefMemory.layer, MemoryStore.layerInMemory))),
    { fastCheck: { numRuns: 100, seed: 4 } }
  )
})
