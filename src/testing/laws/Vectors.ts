/** Laws of vectors: which texts still need a vector, and the search by vector. */
import { assert } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as TestClock from "effect/TestClock"
import type { MemoryQuery } from "../../domain/MemoryFilter.ts"
import { textHash } from "../../domain/MemoryRecord.ts"
import * as Viewer from "../../domain/Viewer.ts"
import type { Service, Vectors } from "../../storage/MemoryStore.ts"
import { type Law, law, refuses } from "../Law.ts"
import { ada, bob, draft, found, put, system, whyNot } from "../Sample.ts"

/** Makes a law of stores with vectors. For a store without `vectors`, only tests that `capabilities.vector` is false. */
export const ofVectors = (
  title: string,
  check: (store: Service, vectors: Vectors) => Effect.Effect<unknown, unknown>
): Law =>
  law(title, (store) =>
    Option.match(store.vectors, {
      onNone: () => Effect.sync(() => assert.isFalse(store.capabilities.vector)),
      onSome: (vectors) => {
        assert.isTrue(store.capabilities.vector)
        return check(store, vectors)
      }
    }))

/** Vectors of some texts in these laws; `embed` gives any other text [−1, 0]. The first dimension stands for tea, the second for trains. */
const plane: Readonly<Record<string, readonly [tea: number, train: number]>> = {
  "green tea": [1, 0],
  "black tea": [0.9, 0.1],
  "tea on the train": [0.7, 0.7],
  "the night train": [0, 1]
}
const embed = (vectors: Vectors, model = "m") =>
  Effect.gen(function*() {
    const pending = yield* vectors.pending("default", model)
    yield* vectors.attach(
      "default",
      model,
      pending.map(({ hash, text }) => [hash, Float32Array.from(plane[text] ?? [-1, 0])] as const)
    )
    return pending.map(({ text }) => text).sort()
  })
const elsewhere = Viewer.make({ tenant: "elsewhere", userId: "ada" })
const by = (...vector: ReadonlyArray<number>): MemoryQuery => ({ mode: "vector", embedding: { model: "m", vector } })

/** The laws of vectors. */
export const laws: ReadonlyArray<Law> = [
  ofVectors(
    "vectors.models returns the models that have a vector in the given tenant",
    (store, vectors) =>
      Effect.gen(function*() {
        const tea = yield* put(store, draft("green tea"))
        yield* put(store, draft("green tea"), elsewhere)
        assert.deepStrictEqual(yield* vectors.models("default"), [])
        yield* embed(vectors, "m")
        yield* embed(vectors, "ein Modell/1")
        assert.deepStrictEqual((yield* vectors.models("default")).toSorted(), ["ein Modell/1", "m"])
        assert.deepStrictEqual(yield* vectors.models("elsewhere"), [])
        yield* vectors.attach("elsewhere", "another", [[textHash(tea), Float32Array.of(1)]])
        assert.deepStrictEqual(yield* vectors.models("elsewhere"), ["another"])
        yield* store.forget(ada, [tea.id], { purge: true })
        assert.deepStrictEqual(yield* vectors.models("default"), [])
        assert.deepStrictEqual(yield* vectors.models("elsewhere"), ["another"])
      })
  ),
  ofVectors(
    "vectors.pending returns each live text of a tenant once if the text has no vector of the model; an edited text counts as new",
    (store, vectors) =>
      Effect.gen(function*() {
        const tea = yield* put(store, draft("green tea"))
        yield* put(store, draft("green tea", { summary: "Drink" }))
        yield* put(store, draft("green tea", { scope: { userId: "bob" } }), bob)
        yield* put(store, draft("green tea"), elsewhere)
        const gone = yield* put(store, draft("the night train"))
        yield* store.forget(ada, [gone.id])
        yield* put(store, draft("soon gone", { expiresAt: 1_000 }))
        yield* TestClock.adjust("1 second")
        assert.deepStrictEqual(
          (yield* vectors.pending("default", "m")).map(({ hash, text }) => [text, hash]).sort(),
          [["Drink\ngreen tea", textHash({ summary: "Drink", body: "green tea" })], ["green tea", textHash(tea)]]
        )
        assert.lengthOf(yield* vectors.pending("default", "m", 1), 1)
        assert.deepStrictEqual(yield* embed(vectors), ["Drink\ngreen tea", "green tea"])
        assert.deepStrictEqual(yield* vectors.pending("default", "m"), [])
        assert.lengthOf(yield* vectors.pending("default", "another"), 2)
        assert.deepStrictEqual((yield* vectors.pending("elsewhere", "m")).map(({ text }) => text), ["green tea"])
        assert.deepStrictEqual(yield* vectors.pending("nowhere", "m"), [])
        yield* store.update(ada, tea.id, { body: "black tea" })
        assert.deepStrictEqual((yield* vectors.pending("default", "m")).map(({ text }) => text), ["black tea"])
        const [old, none] = yield* vectors.read("default", "m", [
          textHash(tea),
          textHash({ summary: "", body: "unheard of" })
        ])
        assert.deepStrictEqual(Option.getOrUndefined(old!), Float32Array.of(1, 0))
        assert.isTrue(Option.isNone(none!))
      })
  ),

  ofVectors(
    "a hybrid search whose text matches no record scores hits in proportion to their cosines",
    (store, vectors) =>
      Effect.gen(function*() {
        const records = yield* Effect.forEach(["one", "two", "three"], (body) => put(store, draft(body)))
        yield* vectors.attach("default", "m", records.map((record, n) => [textHash(record), Float32Array.of(3 - n, n)]))
        const { hits } = yield* store.search(ada, {
          text: "nothing of this",
          explain: true,
          ...by(1, 0),
          mode: "hybrid"
        })
        assert.deepStrictEqual(hits.map(({ record }) => record.body), ["one", "two", "three"])
        const share = hits.map(({ explanation }) => explanation!["relevance"]!) // `explain` was set
        assert.isTrue(
          share.every((relevance, n) => relevance <= 1 && relevance <= share[0]! && (n === 0 || relevance > 0))
        )
        assert.closeTo(hits[1]!.score / hits[0]!.score, 2 / Math.sqrt(5), 1e-6)
      })
  ),

  ofVectors(
    "the vectors of one tenant do not affect searches, pending texts or vector dimensions in another tenant",
    (store, vectors) =>
      Effect.gen(function*() {
        const [here, there] = [yield* put(store, draft("green tea")), yield* put(store, draft("green tea"), elsewhere)]
        const hash = textHash(here)
        assert.strictEqual(textHash(there), hash)
        const isKept = (tenant: string) =>
          Effect.map(vectors.read(tenant, "m", [hash]), ([vector]) => Option.isSome(vector!))
        const three: MemoryQuery = { mode: "vector", embedding: { model: "m", vector: [0, 0, 1] } }

        yield* vectors.attach("elsewhere", "m", [[hash, Float32Array.of(0, 0, 1)]])
        assert.deepStrictEqual([yield* isKept("default"), yield* isKept("elsewhere")], [false, true])
        assert.lengthOf(yield* vectors.pending("default", "m"), 1)
        const { awaiting, hits } = yield* store.search(ada, by(1, 0))
        assert.deepStrictEqual([hits.length, awaiting], [0, 1])
        assert.deepStrictEqual(yield* found(store, ada, { ...three, mode: "hybrid", text: "tea" }), ["green tea"])
        assert.strictEqual(yield* whyNot(store, ada, here.id, by(1, 0)), "no_match")

        yield* vectors.attach("default", "m", [[hash, Float32Array.of(1, 0)]])
        assert.deepStrictEqual(yield* found(store, ada, by(1, 0)), ["green tea"])
        assert.deepStrictEqual(yield* found(store, elsewhere, three), ["green tea"])
        yield* refuses("invalid_draft", store.search(ada, three))
        yield* refuses("invalid_draft", store.search(elsewhere, by(1, 0)))

        yield* store.forget(elsewhere, [there.id], { purge: true })
        assert.deepStrictEqual([yield* isKept("default"), yield* isKept("elsewhere")], [true, false])
        yield* vectors.attach("elsewhere", "m", [[hash, Float32Array.of(1)]])
        yield* store.forget(ada, [here.id], { purge: true })
        assert.isFalse(yield* isKept("default"))
        yield* refuses("invalid_draft", vectors.pending("", "m"))
      })
  ),

  ofVectors(
    "a search by vector orders hits by cosine, and counts in `awaiting` the records that have no vector of the model",
    (store, vectors) =>
      Effect.gen(function*() {
        yield* store.put(ada, Object.keys(plane).map((body) => draft(body)))
        yield* embed(vectors)
        yield* put(store, draft("no vector yet"))
        const { awaiting, hits } = yield* store.search(ada, by(2, 0))
        assert.deepStrictEqual(hits.map(({ record }) => record.body).slice(0, 3), [
          "green tea",
          "black tea",
          "tea on the train"
        ])
        assert.approximately(hits[0]!.score, 1, 1e-6)
        assert.approximately(hits[2]!.score, Math.SQRT1_2, 1e-6)
        assert.isTrue(hits.every(({ record }) => record.body !== "no vector yet"))
        assert.strictEqual(awaiting, 1)
        assert.deepStrictEqual(yield* found(store, ada, { ...by(0, 1), limit: 1 }), ["the night train"])
        const other = yield* store.search(ada, { mode: "vector", embedding: { model: "another", vector: [1, 0] } })
        assert.deepStrictEqual([other.hits.length, other.awaiting], [0, 5])
      })
  ),

  ofVectors(
    "a hybrid search finds records by word and by vector, and by word alone while no record has a vector",
    (store, vectors) =>
      Effect.gen(function*() {
        yield* store.put(ada, Object.keys(plane).map((body) => draft(body)))
        const query: MemoryQuery = { text: "night", embedding: { model: "m", vector: [1, 0] } }
        assert.deepStrictEqual(yield* found(store, ada, query), ["the night train"])
        yield* embed(vectors)
        const both = yield* found(store, ada, query)
        assert.sameMembers(both.slice(0, 2), ["the night train", "green tea"])
        const [agreed] = (yield* store.search(ada, { ...query, text: "green", explain: true })).hits
        assert.strictEqual(agreed!.record.body, "green tea")
        assert.approximately(agreed!.score, 1, 1e-9) // the record ranks first both by words and by vector
        assert.containsAllKeys(agreed!.explanation!, ["lexical", "vector"])
        assert.deepStrictEqual(yield* found(store, ada, { ...query, mode: "lexical" }), ["the night train"])
        assert.deepStrictEqual(yield* found(store, ada, { ...query, weights: { vector: 0 } }), ["the night train"])
        assert.strictEqual((yield* found(store, ada, { ...query, weights: { lexical: 0 } }))[0], "green tea")
      })
  ),

  ofVectors(
    "records excluded by viewer, filter or time do not use up the limit of a search by vector",
    (store, vectors) =>
      Effect.gen(function*() {
        yield* put(store, draft("tea on the train"))
        yield* store.put(bob, Array.from({ length: 30 }, () => draft("green tea", { scope: { userId: "bob" } })))
        yield* store.put(ada, [
          draft("green tea", { expiresAt: 500 }),
          draft("green tea", { invalidAt: 500 }),
          draft("green tea", { validAt: 5_000 }),
          draft("green tea", { importance: 0.1 })
        ])
        yield* embed(vectors)
        yield* TestClock.adjust("1 second")
        const query: MemoryQuery = { ...by(1, 0), minImportance: 0.2, limit: 1 }
        const { hits, leftOut } = yield* store.search(ada, query)
        assert.deepStrictEqual(hits.map(({ record }) => record.body), ["tea on the train"])
        assert.strictEqual(leftOut.limit, 0)
        assert.deepStrictEqual(yield* found(store, ada, { ...query, asOf: 100 }), ["green tea"])
        assert.deepStrictEqual(yield* found(store, Viewer.make({ userId: "eve" }), query), [])
        assert.strictEqual((yield* store.search(bob, { ...by(1, 0), limit: 5 })).awaiting, 0)
      })
  ),

  ofVectors(
    "`leftOut.limit` of a search by vector is the number of matches beyond the limit; if it is too low, `leftOut.exact` is false",
    (store, vectors) =>
      Effect.gen(function*() {
        yield* store.put(ada, Array.from({ length: 130 }, (_, n) => draft(`cup ${n}`)))
        const pending = yield* vectors.pending("default", "m")
        yield* vectors.attach(
          "default",
          "m",
          pending.map(({ hash }, n) => [hash, Float32Array.of(1, n / 100)] as const)
        )
        for (
          const query of [
            by(1, 0),
            { ...by(1, 0), minScore: 0.5 },
            { ...by(1, 0), mode: "hybrid", text: "cup" } as const
          ]
        ) {
          const { leftOut } = yield* store.search(ada, { ...query, limit: 1, fold: false })
          assert.isTrue(
            leftOut.limit === 129 || (leftOut.limit < 129 && leftOut.exact === false),
            JSON.stringify(leftOut)
          )
        }
      })
  ),

  ofVectors(
    "a search does not find an updated or forgotten record by its old vector, and a purge deletes the vector",
    (store, vectors) =>
      Effect.gen(function*() {
        const tea = yield* put(store, draft("green tea"))
        const train = yield* put(store, draft("the night train"))
        yield* embed(vectors)
        yield* store.update(ada, tea.id, { body: "black coffee" })
        assert.deepStrictEqual(yield* found(store, ada, by(1, 0.01)), ["the night train"])
        yield* store.forget(ada, [train.id])
        assert.deepStrictEqual(yield* found(store, ada, by(0, 1)), [])
        yield* store.forget(ada, [train.id], { purge: true })
        const [gone] = yield* vectors.read("default", "m", [textHash(train)])
        assert.isTrue(Option.isNone(gone!))
        yield* embed(vectors)
        assert.deepStrictEqual(yield* found(store, ada, by(-1, 0)), ["black coffee"])
      })
  ),

  ofVectors(
    "`attach` and `search` refuse vectors that are empty, not finite or of other dimensions than the model, and `attach` then stores none",
    (store, vectors) =>
      Effect.gen(function*() {
        const { id, ...record } = yield* put(store, draft("green tea"))
        const hash = textHash(record)
        const bad: ReadonlyArray<readonly [string, Float32Array]> = [
          [hash, Float32Array.of()],
          [hash, Float32Array.of(1, Number.NaN)],
          [hash, Float32Array.of(Infinity, 1)],
          ["../escape", Float32Array.of(1, 0)]
        ]
        for (const entry of bad) {
          yield* refuses(
            "invalid_draft",
            vectors.attach("default", "m", [[textHash({ summary: "", body: "x" }), Float32Array.of(1, 0)], entry])
          )
        }
        assert.lengthOf(yield* vectors.pending("default", "m"), 1)
        const [before] = yield* vectors.read("default", "m", [textHash({ summary: "", body: "x" })])
        assert.isTrue(Option.isNone(before!))
        yield* vectors.attach("default", "m", [[hash, Float32Array.of(1, 0)]])
        yield* refuses("invalid_draft", vectors.attach("default", "m", [[hash, Float32Array.of(1, 0, 0)]]))
        yield* refuses("invalid_draft", store.search(ada, by(1, 0, 0)))
        yield* refuses("invalid_draft", store.search(ada, by(1, Number.NaN)))
        yield* refuses("invalid_draft", store.search(ada, by()))
        yield* refuses("invalid_draft", store.search(ada, { mode: "vector", text: "tea" }))
        const { failures, hits } = yield* store.search(ada, { mode: "hybrid", text: "tea" })
        assert.deepStrictEqual([hits.length, failures.map(({ leg }) => leg)], [1, ["vector"]])
        assert.strictEqual(yield* whyNot(store, ada, id, by(0, 1)), "no_match")
        assert.strictEqual(yield* whyNot(store, ada, id, by(1, 0)), "hit")
        assert.deepStrictEqual(yield* found(store, system, by(1, 0)), ["green tea"])
      })
  )
]
