import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import * as Layer from "effect/Layer"
import * as TestClock from "effect/TestClock"
import type { MemoryError } from "../../src/domain/MemoryError.ts"
import * as MemoryRecord from "../../src/domain/MemoryRecord.ts"
import * as AdaptiveMemory from "../../src/kinds/AdaptiveMemory.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import { ada, bob, draft, id, put, system } from "../../src/testing/Sample.ts"
import { sampled } from "../contract/naughty.ts"
import { stores } from "../stores.ts"

type Law = (memory: AdaptiveMemory.Service, store: MemoryStore.Service) => Effect.Effect<void, unknown>

const both = Effect.all([AdaptiveMemory.AdaptiveMemory, MemoryStore.MemoryStore])
const reason = <A>(self: Effect.Effect<A, MemoryError>) => Effect.map(Effect.flip(self), ({ reason }) => reason)
const bodies = (all: ReadonlyArray<AdaptiveMemory.Prioritised>) => all.map(({ record }) => record.body)
const by = (weights: Partial<AdaptiveMemory.Prioritised["components"]>) => ({
  weights: { recency: 0, importance: 0, relevance: 0, ...weights }
})

const halfLife = "1 minute"

/** Puts three records, one half-life apart: a relevant one, then an important one, then a new one. */
const three = (store: MemoryStore.Service) =>
  Effect.gen(function*() {
    yield* put(store, draft("green tea", { id: id("relevant"), importance: 0.25 }))
    yield* TestClock.adjust("1 minute")
    yield* put(store, draft("passport", { id: id("important"), importance: 1 }))
    yield* TestClock.adjust("1 minute")
    yield* put(store, draft("weather", { id: id("new"), importance: 0.5 }))
  })

const suite = <E>(name: string, layer: Layer.Layer<MemoryStore.MemoryStore, E>) =>
  describe(`AdaptiveMemory (${name})`, () => {
    const law = (title: string, check: Law) =>
      it.effect(title, () =>
        Effect.flatMap(both, ([memory, store]) => check(memory, store)).pipe(
          Effect.provide(Layer.provideMerge(AdaptiveMemory.layer, layer))
        ))

    law(
      "the default score is 0.4 recency + 0.3 importance + 0.3 relevance, and is returned with its components",
      (memory, store) =>
        Effect.gen(function*() {
          yield* three(store)
          const all = yield* memory.retrieve(ada, { text: "tea", halfLife })
          assert.deepStrictEqual(all.map(({ components, record }) => [record.body, ...Object.values(components)]), [
            ["weather", 1, 0.5, 0],
            ["passport", 0.5, 1, 0],
            ["green tea", 0.25, 0.25, 1]
          ])
          const scores = [0.4 + 0.15, 0.2 + 0.3, 0.1 + 0.075 + 0.3]
          all.forEach(({ score }, i) => assert.closeTo(score, scores[i]!, 1e-9))
          const one = yield* memory.getPriorityScore(ada, id("relevant"), { text: "tea", halfLife })
          assert.deepStrictEqual(one, all[2])
        })
    )

    law(
      "the weights of a call may be huge or tiny, and the `halfLife` of a call sets how fast recency falls",
      (memory, store) =>
        Effect.gen(function*() {
          yield* three(store)
          const first = (query: AdaptiveMemory.PriorityQuery) =>
            Effect.map(memory.retrieve(ada, { text: "tea", halfLife, ...query }), (all) => bodies(all)[0])
          assert.strictEqual(yield* first(by({ relevance: 1e300 })), "green tea")
          assert.strictEqual(yield* first(by({ importance: 1e-300 })), "passport")
          assert.strictEqual(yield* first(by({ recency: 3 })), "weather")
          assert.strictEqual(yield* first({ weights: { relevance: 0.6 } }), "green tea")
          const { components } = yield* memory.getPriorityScore(ada, id("relevant"), { halfLife: "2 minutes" })
          assert.strictEqual(components.recency, 0.5)
          const slow = yield* memory.getPriorityScore(ada, id("relevant"))
          assert.strictEqual(slow.components.recency, 0.5 ** (2 / (24 * 60)))
          const floor = yield* memory.getPriorityScore(ada, id("relevant"), { halfLife: "1 millis" })
          assert.strictEqual(floor.components.recency, 0.1)
        })
    )

    law(
      "the relevance of every record is 1 if the query has neither text nor embedding, and 0.5 if the text has no terms",
      (memory, store) =>
        Effect.gen(function*() {
          yield* three(store)
          for (const [text, expected] of [[undefined, 1], ["", 0.5], ["?!", 0.5]] as const) {
            const all = yield* memory.retrieve(ada, { text })
            assert.deepStrictEqual(all.map(({ components }) => components.relevance), [expected, expected, expected])
            assert.isTrue(all.every(({ score }) => score >= 0 && score <= 1))
          }
        })
    )

    law(
      "`touch` raises a record's recency to 1 without a new revision, and ignores records of other viewers",
      (memory, store) =>
        Effect.gen(function*() {
          yield* three(store)
          yield* memory.touch(ada, id("relevant"))
          yield* memory.touch(bob, id("important"))
          yield* memory.touch(ada, id("nobody"))
          const all = yield* memory.retrieve(ada, { ...by({ recency: 1 }), halfLife })
          assert.deepStrictEqual(
            all.map(({ components, record }) => [record.body, components.recency, record.revision]),
            [
              ["weather", 1, 1],
              ["green tea", 1, 1],
              ["passport", 0.5, 1]
            ]
          )
        })
    )

    law(
      "`retrieve` returns the best records with at least `minScore`, up to `limit`",
      (memory, store) =>
        Effect.gen(function*() {
          yield* three(store)
          const importance = by({ importance: 1 })
          assert.deepStrictEqual(bodies(yield* memory.retrieve(ada, { ...importance, minScore: 0.5 })), [
            "passport",
            "weather"
          ])
          assert.deepStrictEqual(bodies(yield* memory.retrieve(ada, { ...importance, limit: 1 })), ["passport"])
          const bad: ReadonlyArray<AdaptiveMemory.PriorityQuery> = [
            ...[0, -1, 1.5, NaN, 1_001].map((limit) => ({ limit })),
            ...[-0.1, 1.1, NaN].map((minScore) => ({ minScore })),
            ...[-1, NaN, Infinity].map((recency) => ({ weights: { recency } })),
            { weights: { recency: 0, importance: 0, relevance: 0 } },
            ...[0, -1, NaN].map((halfLife) => ({ halfLife }))
          ]
          for (const query of bad) assert.strictEqual(yield* reason(memory.retrieve(ada, query)), "invalid_draft")
        })
    )

    law(
      "`retrieve` counts only visible records that match the filter towards `limit`",
      (memory, store) =>
        Effect.gen(function*() {
          yield* three(store)
          for (let n = 0; n < 25; n++) yield* put(store, draft(`noise ${n}`, { kind: "working", importance: 1 }))
          yield* put(store, draft("his", { id: id("his"), scope: { userId: "bob" } }), bob)
          const kept = yield* memory.retrieve(ada, { kinds: ["reference"], minImportance: 0.5, limit: 2, halfLife })
          assert.deepStrictEqual(bodies(kept), ["weather", "passport"])
          assert.deepStrictEqual(bodies(yield* memory.retrieve(bob, {})), ["his"])
          assert.lengthOf(yield* memory.retrieve(system, { limit: 100 }), 29)
          assert.strictEqual(yield* reason(memory.getPriorityScore(ada, id("his"))), "not_found")
        })
    )

    law("a call of `retrieve` does not change the result of store.list", (memory, store) =>
      Effect.gen(function*() {
        yield* three(store)
        const before = yield* store.list(ada, {})
        yield* memory.retrieve(ada, by({ importance: 1 }))
        assert.deepStrictEqual(yield* store.list(ada, {}), before)
      }))

    law(
      "scores are within 0..1 for query texts from the Big List of Naughty Strings",
      (memory, store) =>
        Effect.gen(function*() {
          yield* three(store)
          for (const text of sampled(9).filter((text) => text.length < 1_000)) {
            const all = yield* memory.retrieve(ada, { text })
            assert.lengthOf(all, 3)
            assert.isTrue(all.every(({ score }) => score >= 0 && score <= 1))
          }
        })
    )
  })

for (const [name, layer] of Object.entries(stores)) suite<unknown>(name, layer)

describe("AdaptiveMemory", () => {
  it.effect("the relevance is the similarity by vectors or by words, whichever is greater", () =>
    Effect.gen(function*() {
      const [memory, store] = yield* both
      yield* three(store)
      const vectors = yield* store.vectors
      const ofTea = yield* store.get(ada, [id("relevant"), id("important")])
      const [tea, passport] = yield* Effect.all(ofTea)
      yield* vectors.attach("default", "m", [
        [MemoryRecord.textHash(tea!), Float32Array.of(0, 1)],
        [MemoryRecord.textHash(passport!), Float32Array.of(0.6, 0.8)]
      ])
      const embedding = { model: "m", vector: [1, 0] }
      const relevance = (query: AdaptiveMemory.PriorityQuery) =>
        Effect.map(
          memory.retrieve(ada, { ...by({ relevance: 1 }), ...query }),
          (all) => all.map(({ components, record }) => [record.body, Math.round(components.relevance * 100) / 100])
        )
      assert.deepStrictEqual(yield* relevance({ embedding }), [["passport", 0.6], ["weather", 0], ["green tea", 0]])
      assert.deepStrictEqual(yield* relevance({ embedding, text: "green cup" }), [
        ["passport", 0.6],
        ["green tea", 0.5],
        ["weather", 0]
      ])
      const { components } = yield* memory.getPriorityScore(ada, id("important"), { embedding })
      assert.closeTo(components.relevance, 0.6, 1e-6)
    }).pipe(Effect.provide(Layer.provideMerge(AdaptiveMemory.layer, MemoryStore.layerInMemory))))

  it.effect("two near-duplicates are both returned, each with the similarity to the query's embedding as relevance", () =>
    Effect.gen(function*() {
      const [memory, store] = yield* both
      const texts = ["Ada drinks green tea in the morning.", "Ada drinks green tea in the morning!"]
      const records = yield* Effect.forEach(texts, (text) => put(store, draft(text)))
      const vectors = yield* store.vectors
      yield* vectors.attach(
        "default",
        "m",
        records.map((record) => [MemoryRecord.textHash(record), Float32Array.of(0.6, 0.8)])
      )
      const all = yield* memory.retrieve(ada, { ...by({ relevance: 1 }), embedding: { model: "m", vector: [1, 0] } })
      assert.deepStrictEqual(all.map(({ components }) => Math.round(components.relevance * 100) / 100), [0.6, 0.6])
    }).pipe(Effect.provide(Layer.provideMerge(AdaptiveMemory.layer, MemoryStore.layerInMemory))))

  it.effect.prop(
    "`retrieve` returns scores within 0..1 in descending order, for random records, texts and weights",
    [
      FastCheck.array(
        FastCheck.record({
          body: FastCheck.constantFrom("green tea", "tea", "coffee", "the", "🍵"),
          importance: FastCheck.double({ min: 0, max: 1, noNaN: true }).map((n) => n + 0),
          age: FastCheck.integer({ min: 0, max: 10 ** 6 })
        }),
        { maxLength: 12 }
      ),
      FastCheck.fullUnicodeString({ maxLength: 20 }),
      FastCheck.record({
        recency: FastCheck.double({ min: 0, max: 1e308, noNaN: true }),
        relevance: FastCheck.double({ min: 0, max: 1e308, noNaN: true })
      }, { requiredKeys: [] })
    ],
    ([drafts, text, weights]) =>
      Effect.gen(function*() {
        const [memory, store] = yield* both
        for (const { age, body, importance } of drafts) {
          yield* TestClock.adjust(age)
          yield* put(store, draft(body, { importance }))
        }
        const all = yield* memory.retrieve(ada, { text, weights, halfLife: "5 minutes", limit: 1_000 })
        assert.lengthOf(all, drafts.length)
        all.forEach(({ components, score }, i) => {
          for (const value of [score, ...Object.values(components)]) assert.isTrue(value >= 0 && value <= 1)
          assert.isTrue(i === 0 || all[i - 1]!.score >= score)
        })
      }).pipe(Effect.provide(Layer.provideMerge(AdaptiveMemory.layer, MemoryStore.layerInMemory))),
    { fastCheck: { numRuns: 100, seed: 4 } }
  )
})
