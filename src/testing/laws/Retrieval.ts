/** Laws of filters, of search, and of `whyNot`, which explains why a record is not found. */
import { assert } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as TestClock from "effect/TestClock"
import type { Absence, MemoryFilter, MemoryQuery } from "../../domain/MemoryFilter.ts"
import { type Law, law, refuses } from "../Law.ts"
import { ada, draft, found, id, listed, put, system, whyNot } from "../Sample.ts"

/** The laws of filters, search and `whyNot`. */
export const laws: ReadonlyArray<Law> = [
  law(
    "`list` and `search` return exactly the records that pass every clause of the filter",
    (store) =>
      Effect.gen(function*() {
        yield* put(
          store,
          draft("a", {
            id: id("a"),
            kind: "user",
            tags: ["Drinks", "hot"],
            importance: 0.2,
            data: { n: 1, s: "x", deep: { on: true } },
            validAt: 10
          })
        )
        yield* TestClock.adjust("100 millis")
        yield* put(
          store,
          draft("b", {
            id: id("b"),
            tags: ["cold"],
            importance: 0.5,
            data: { n: 2, s: "y", list: ["p"] },
            validAt: 20
          }),
          ada,
          { trust: 3, origin: "import" }
        )
        yield* TestClock.adjust("100 millis")
        yield* put(store, draft("c", { id: id("c"), importance: 0.8, metadata: { n: 3, "a b": null } }))
        const cases: ReadonlyArray<readonly [MemoryFilter, string]> = [
          [{}, "abc"],
          [{ kinds: ["reference"] }, "bc"],
          [{ kinds: ["user", "reference"] }, "abc"],
          [{ kinds: [] }, ""],
          [{ tags: ["drinks"] }, "a"],
          [{ tags: ["COLD", "HOT"] }, "ab"],
          [{ tags: ["drink"] }, ""],
          [{ ids: [id("a"), id("c"), id("nobody")] }, "ac"],
          [{ ids: [] }, ""],
          [{ createdAt: { from: 100 } }, "bc"],
          [{ createdAt: { until: 100 } }, "a"],
          [{ createdAt: { from: 100, until: 200 } }, "b"],
          [{ validAt: { from: 20, until: 200 } }, "b"],
          [{ minImportance: 0.5 }, "bc"],
          [{ minImportance: 0 }, "abc"],
          [{ maxTrust: 1 }, "ac"],
          [{ maxTrust: 3 }, "abc"],
          [{ where: { "data.n": { eq: 1 } } }, "a"],
          [{ where: { "data.n": { eq: "1" } } }, ""],
          [{ where: { "data.n": { in: [2, 1] } } }, "ab"],
          [{ where: { "data.n": { in: [2], orAbsent: true } } }, "bc"],
          [{ where: { "data.n": { gte: 2 } } }, "b"],
          [{ where: { "data.n": { between: [2, 2] } } }, "b"],
          [{ where: { "data.s": { ne: "y" } } }, "a"],
          [{ where: { "data.n": { lt: 2 } } }, "a"],
          [{ where: { "data.s": { gte: "x" } } }, "ab"],
          [{ where: { "data.s": { lt: 5 } } }, ""],
          [{ where: { "data.deep.on": { eq: true } } }, "a"],
          [{ where: { "data.list.0": { eq: "p" } } }, "b"],
          [{ where: { "data.n": { exists: false } } }, "c"],
          [{ where: { "metadata.a b": { exists: true } } }, "c"],
          [{ where: { "data.constructor": { exists: true } } }, ""],
          [{ where: { "data.n": { gte: 1 }, "data.s": { eq: "y" } } }, "b"],
          [{ where: { "scope.userId": { eq: "ada" }, "scope.agentId": { exists: false } } }, "abc"],
          [{ where: { "scope.agentId": { exists: true } } }, ""],
          [{ scope: { userId: "ada" } }, "abc"],
          [{ scope: "global" }, ""],
          [{ asOf: 15 }, "a"],
          [{ tags: ["hot", "cold"], minImportance: 0.5 }, "b"],
          [{ kinds: ["user"], tags: ["cold"] }, ""]
        ]
        for (const [filter, bodies] of cases) {
          const message = JSON.stringify(filter)
          assert.strictEqual((yield* listed(store, ada, filter)).sort().join(""), bodies, message)
          assert.strictEqual((yield* found(store, ada, filter)).sort().join(""), bodies, message)
        }
      })
  ),

  law(
    "`search` without a text returns the most recent records first, as `list` does",
    (store) =>
      Effect.gen(function*() {
        for (const body of ["one", "two", "three"]) {
          yield* put(store, draft(body))
          yield* TestClock.adjust("1 minute")
        }
        assert.deepStrictEqual(yield* found(store, ada), ["three", "two", "one"])
        assert.deepStrictEqual(yield* listed(store, ada), ["three", "two", "one"])
        assert.deepStrictEqual(yield* found(store, ada, { limit: 2 }), ["three", "two"])
        const { leftOut } = yield* store.search(ada, { limit: 2 })
        assert.isTrue(leftOut.limit === 1 || leftOut.exact === false)
      })
  ),

  law(
    "`search` returns no hits for a text of only spaces, punctuation or words of the short stopword list, such as `the`",
    (store) =>
      Effect.gen(function*() {
        yield* put(store, draft("the tea and a"))
        for (const text of ["", "  ", "the", "a", "?!", "\u0000", "—"]) {
          assert.deepStrictEqual(yield* found(store, ada, { text }), [])
        }
      })
  ),

  law(
    "`search` matches words of summary, body and tags in Latin, Greek, Cyrillic and Han script, ignoring case and accents",
    (store) =>
      Effect.gen(function*() {
        const bodies = [
          "Zoë trinkt Café crème",
          "寿司が好きです",
          "我喜欢喝绿茶",
          "ฉันชอบดื่มชา",
          "Πίνει τσάι",
          "Любит чай",
          "C++ and node_modules",
          "plan B42"
        ]
        yield* store.put(ada, bodies.map((body) => draft(body)))
        yield* put(store, draft("untitled", { summary: "Gebäck", tags: ["süß", "two words"] }))
        const cases = [
          ["zoe", bodies[0]],
          ["CAFE", bodies[0]],
          ["cafe\u0301", bodies[0]],
          ["寿司", bodies[1]],
          ["茶", bodies[2]],
          ["喜欢", bodies[2]],
          ["τσαι", bodies[4]],
          ["ЧАЙ", bodies[5]],
          ["node_modules", bodies[6]],
          ["b42", bodies[7]],
          ["geback", "untitled"],
          ["suss", undefined],
          ["süß", "untitled"],
          ["words", "untitled"],
          ["coffee", undefined]
        ] as const
        for (const [text, body] of cases) {
          if (body === undefined) assert.deepStrictEqual(yield* found(store, ada, { text }), [], text)
          else assert.strictEqual((yield* found(store, ada, { text }))[0], body, text)
        }
      })
  ),

  law(
    "`search` orders hits by score (0..1), and ranks a short record with all words of the query first",
    (store) =>
      Effect.gen(function*() {
        const best = "green tea"
        yield* store.put(
          ada,
          [
            "tea and a great many other things besides, none of which are of any colour",
            best,
            "green paint",
            "blue paint"
          ].map((body) => draft(body))
        )
        const { hits } = yield* store.search(ada, { text: "green tea" })
        assert.strictEqual(hits[0]?.record.body, best)
        assert.lengthOf(hits, 3)
        for (const { score } of hits) assert.isTrue(score >= 0 && score <= 1)
        assert.deepStrictEqual(hits.map(({ score }) => score), hits.map(({ score }) => score).sort((a, b) => b - a))
      })
  ),

  law("`search` orders hits of equal score by recency, then by id", (store) =>
    Effect.gen(function*() {
      const weights = { lexical: 1, recency: 0 }
      const ids = ["a", "b", "c", "d"].map((name) => id(name))
      yield* store.put(ada, ids.map((id, n) => draft(`tea ${"xyzw"[n]!.repeat(9)}`, { id })))
      yield* TestClock.adjust("1 second")
      yield* put(store, draft("tea vvvvvvvvv", { id: id("e") }))
      const query = { text: "tea", weights }
      const order = (yield* store.search(ada, query)).hits.map(({ record }) => record.id)
      assert.deepStrictEqual(order, [id("e"), ...ids.sort()])
      assert.deepStrictEqual((yield* store.search(ada, query)).hits.map(({ record }) => record.id), order)
    })),

  law(
    "`search` returns 20 hits by default, and `leftOut` counts the hits beyond the limit and beyond the budget",
    (store) =>
      Effect.gen(function*() {
        const words = Array.from({ length: 26 }, (_, n) => String.fromCharCode(97 + n).repeat(8))
        yield* store.put(ada, words.map((word) => draft(`tea ${word.repeat(10)}`)))
        const standard = yield* store.search(ada, { text: "tea" })
        assert.deepEqual([standard.hits.length, standard.leftOut.limit], [20, 6])
        const narrow = yield* store.search(ada, { text: "tea", limit: 25, budget: 100 })
        assert.isBelow(narrow.hits.length, 25)
        assert.deepEqual([narrow.leftOut.limit, narrow.leftOut.budget], [1, 25 - narrow.hits.length])
        assert.strictEqual((yield* store.search(ada, { text: "tea", limit: 25, budget: 1_000_000 })).leftOut.budget, 0)
      })
  ),

  law(
    "`search` omits hits below `minScore`, and explains scores only if `explain` is set",
    (store) =>
      Effect.gen(function*() {
        yield* store.put(
          ada,
          ["green tea", "tea, among many other things that are not green at all"].map((body) => draft(body))
        )
        const { hits } = yield* store.search(ada, { text: "green tea", explain: true })
        assert.lengthOf(hits, 2)
        for (const { explanation } of hits) {
          assert.isNotEmpty(explanation)
          assert.isTrue(Object.values(explanation!).every(Number.isFinite))
        }
        const minScore = hits[0]!.score
        assert.isBelow(hits[1]!.score, minScore)
        assert.lengthOf((yield* store.search(ada, { text: "green tea", minScore })).hits, 1)
        assert.isUndefined((yield* store.search(ada, { text: "green tea" })).hits[0]?.explanation)
      })
  ),

  law("`search` finds an updated record by its new words, not by its old words", (store) =>
    Effect.gen(function*() {
      const { id } = yield* put(store, draft("Tea", { tags: ["hot"] }))
      yield* store.update(ada, id, { body: "Coffee", tags: ["black"] })
      assert.deepStrictEqual(yield* found(store, ada, { text: "tea hot" }), [])
      assert.deepStrictEqual(yield* found(store, ada, { text: "coffee" }), ["Coffee"])
      assert.deepStrictEqual(yield* found(store, ada, { text: "black" }), ["Coffee"])
    })),

  law(
    "a hybrid search without a query vector, or in a store without vector search, searches by words and lists an error",
    (store) =>
      Effect.gen(function*() {
        yield* put(store, draft("Tea"))
        const embedding = { model: "m", vector: [1, 0] }
        // a store with vectors reports `invalid_draft` for the query below that has no embedding
        const reason = store.capabilities.vector ? "invalid_draft" : "unsupported"
        if (!store.capabilities.vector) {
          yield* refuses("unsupported", store.search(ada, { text: "tea", mode: "vector", embedding }))
        }
        for (const query of [{ text: "tea", mode: "hybrid" }, { text: "tea", embedding }] as const) {
          const { failures, hits } = yield* store.search(ada, query)
          assert.lengthOf(hits, 1)
          const answers = store.capabilities.vector && "embedding" in query
          assert.deepEqual(failures.map(({ error, leg }) => [leg, error.reason]), answers ? [] : [["vector", reason]])
        }
        assert.deepStrictEqual((yield* store.search(ada, { text: "tea", mode: "lexical" })).failures, [])
      })
  ),

  law(
    "`whyNot` returns the reason why a search does not return a record, or `None` if the record is a hit",
    (store) =>
      Effect.gen(function*() {
        yield* TestClock.adjust("1 second")
        const { id: tea } = yield* put(store, draft("green tea", { tags: ["hot"], data: { n: 1 } }), ada, { trust: 2 })
        yield* put(store, draft("tea of many words, not one of which says the colour"))
        yield* put(store, draft("of many more words, among them tea, not one of which says the colour"))
        const cases: ReadonlyArray<readonly [MemoryQuery, Absence | undefined]> = [
          [{}, undefined],
          [{ text: "green tea" }, undefined],
          [{ asOf: 0 }, "not_valid_then"],
          [{ scope: { userId: "bob" } }, "scope"],
          [{ kinds: ["user"] }, "kind"],
          [{ tags: ["cold"] }, "tags"],
          [{ ids: [id("nobody")] }, "ids"],
          [{ createdAt: { until: 1_000 } }, "time"],
          [{ validAt: { from: 1_001 } }, "time"],
          [{ minImportance: 0.6 }, "importance"],
          [{ maxTrust: 1 }, "trust"],
          [{ where: { "data.n": { eq: 2 } } }, "where"],
          [{ text: "coffee" }, "no_match"],
          [{ text: "the" }, "no_match"],
          [{ text: "words", kinds: ["user"] }, "kind"]
        ]
        for (const [query, absence] of cases) {
          assert.deepStrictEqual(
            yield* whyNot(store, ada, tea, query),
            absence ?? "hit",
            JSON.stringify(query)
          )
          assert.strictEqual((yield* found(store, ada, query)).includes("green tea"), absence === undefined)
        }
        assert.deepStrictEqual(yield* whyNot(store, ada, id("nobody"), {}), "absent")
        assert.strictEqual(yield* whyNot(store, system, tea, {}), "hit")
        const [first, second] = (yield* store.search(ada, { text: "tea" })).hits
        assert.deepStrictEqual(
          yield* whyNot(store, ada, second!.record.id, { text: "tea", limit: 1 }),
          "beyond_limit"
        )
        assert.deepStrictEqual(
          yield* whyNot(store, ada, second!.record.id, { text: "tea", minScore: first!.score }),
          "below_min_score"
        )
        const last = (yield* store.search(ada, { text: "tea" })).hits[2]!.record.id
        assert.deepStrictEqual(
          yield* whyNot(store, ada, last, { text: "tea", budget: 1 }),
          "beyond_budget"
        )
      })
  )
]
