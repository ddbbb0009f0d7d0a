import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as TestClock from "effect/TestClock"
import type { MemoryQuery } from "../../../src/domain/MemoryFilter.ts"
import * as MemoryStore from "../../../src/storage/MemoryStore.ts"
import * as Federated from "../../../src/storage/MemoryStore/Federated.ts"
import { refuses } from "../../../src/testing/Law.ts"
import { ada, draft, fact, found, get, id, listed, put, system, whyNot } from "../../../src/testing/Sample.ts"
import { stores } from "../../stores.ts"
import { bodiesIn, byKind, faulty, law, memory, notesAndFacts } from "./World.ts"

describe("search of a federation", () => {
  law(
    "`search` returns the best hits of all stores in one list, ordered by score",
    notesAndFacts,
    (store) =>
      Effect.gen(function*() {
        yield* store.put(
          ada,
          Array.from({ length: 9 }, (_, n) => draft(`tea ${"x".repeat(n + 1)} and ${"y".repeat(n + 1)}`))
        )
        yield* TestClock.adjust("1 second")
        yield* store.put(ada, [
          fact("on tea, in a longer text than any"),
          fact("a remark about this and that, and tea")
        ])
        const { hits, leftOut } = yield* store.search(ada, { text: "tea", limit: 4 })
        assert.deepStrictEqual(new Set(hits.slice(0, 2).map(({ store }) => store)), new Set(["notes", "facts"]))
        assert.deepStrictEqual([hits.length, leftOut.limit], [4, 7])
        assert.deepStrictEqual(hits.map(({ score }) => score), hits.map(({ score }) => score).sort((a, b) => b - a))
      })
  )

  law(
    "`search` for a text returns near-duplicates in two stores as one hit, which names both stores",
    notesAndFacts,
    (store, federated) =>
      Effect.gen(function*() {
        const { store: facts } = yield* federated.get("facts")
        yield* put(store, draft("Green tea!"))
        yield* put(facts, draft("green  tea"))
        yield* put(facts, draft("black tea"))
        const { hits, leftOut } = yield* store.search(ada, { text: "tea" })
        assert.deepStrictEqual([hits.length, leftOut.folded], [2, 1])
        const [green] = hits.filter(({ record }) => /green/i.test(record.body))
        assert.sameMembers([green!.store, ...green!.alsoIn!], ["notes", "facts"])
        assert.lengthOf(yield* found(store, ada), 3)
        const folded = (yield* store.list(ada, {})).items.find(({ body, id }) =>
          /green/i.test(body) && id !== green!.record.id
        )!
        assert.strictEqual(yield* whyNot(store, ada, folded.id, { text: "tea" }), "folded")
        assert.strictEqual(yield* whyNot(store, ada, green!.record.id, { text: "tea" }), "hit")
      })
  )

  law(
    "`whyNot` also counts the hits of other stores against the limit and the budget",
    notesAndFacts,
    (store) =>
      Effect.gen(function*() {
        const note = yield* put(store, draft("tea"))
        yield* TestClock.adjust("1 second")
        yield* put(store, fact("tea"))
        assert.strictEqual(yield* whyNot(store, ada, note.id, { text: "tea", limit: 1 }), "beyond_limit")
        assert.strictEqual(yield* whyNot(store, ada, note.id, { text: "tea", budget: 3 }), "beyond_budget")
        yield* put(store, fact("a tea"))
        const { hits, leftOut } = yield* store.search(ada, { text: "tea", budget: 3 })
        assert.deepEqual([hits.length, leftOut], [1, { limit: 0, budget: 2, folded: 0 }])
      })
  )

  law(
    "a federation of one store returns the same search results as the store, with the store's name in each hit",
    Federated.layer({ only: memory }),
    (store, federated) =>
      Effect.gen(function*() {
        yield* store.put(ada, Array.from({ length: 9 }, (_, n) => draft(`tea ${"abcdefghi"[n]!.repeat(n + 3)}`)))
        const { store: only } = yield* federated.get("only")
        for (
          const query of [{}, { text: "tea aaa", explain: true, limit: 4 }, {
            text: "tea",
            minScore: 0.9,
            weights: { recency: 1 }
          }]
        ) {
          const { hits, ...rest } = yield* only.search(ada, query)
          assert.deepStrictEqual(yield* store.search(ada, query), {
            hits: hits.map((hit) => ({ ...hit, store: "only" })),
            ...rest
          })
        }
      })
  )

  law(
    "`Federated.search` returns at most `maxResults` hits of each store (default 3), and at most `limit` hits in all",
    Federated.layer({ a: { ...memory, maxResults: 1 }, b: memory }, {
      route: ({ kind }) => kind === "user" ? "b" : "a"
    }),
    (store, federated) =>
      Effect.gen(function*() {
        const words = ["p", "q", "r", "s", "t"].map((letter) => `tea ${letter.repeat(5)}`)
        yield* store.put(ada, words.flatMap((word) => [draft(word), fact(`${word} ${word}`)]))
        const count = (options?: Parameters<Federated.Service["search"]>[2], query: MemoryQuery = { text: "tea" }) =>
          Effect.map(federated.search(ada, query, options), ({ hits, leftOut }) => [
            ...["a", "b"].map((name) => hits.filter(({ store }) => store === name).length),
            leftOut.limit
          ])
        assert.deepStrictEqual(yield* count(), [1, 3, 6])
        assert.deepStrictEqual(yield* count({ stores: [] }), [1, 3, 6])
        assert.deepStrictEqual(yield* count({ maxResults: 2 }), [2, 2, 6])
        assert.deepStrictEqual(yield* count({ stores: ["b", "b"] }), [0, 3, 2])
        const [a, b, more] = yield* count({}, { text: "tea", limit: 2 })
        assert.deepStrictEqual([a! + b!, more], [2, 8])
        yield* refuses("invalid_draft", federated.search(ada, { text: "tea" }, { maxResults: 0 }))
        for (const bad of [{ limit: 0 }, { budget: 0 }, { limit: Number.NaN }]) {
          yield* refuses("invalid_draft", federated.search(ada, bad))
          yield* refuses("invalid_draft", store.search(ada, bad))
        }
      })
  )

  law(
    "`search` and `get` with an unknown store name fail with `not_found` and list the known names",
    Federated.layer({ a: faulty({ ops: ["search"], fault: "crash" }), b: memory }),
    (_, federated) =>
      Effect.gen(function*() {
        const { message } = yield* refuses("not_found", federated.search(ada, {}, { stores: ["a", "c"] }))
        assert.include(message, "a, b")
        assert.include((yield* refuses("not_found", federated.get("c"))).message, "a, b")
      })
  )

  law(
    "`search` returns the hits of the stores that succeed, and the error of a store that fails",
    Federated.layer({ a: memory, b: faulty({ ops: ["search"], fault: "unavailable" }) }),
    (store) =>
      Effect.gen(function*() {
        yield* put(store, draft("tea"))
        const { failures, hits } = yield* store.search(ada, { text: "tea" })
        assert.deepStrictEqual([hits.length, failures.map(({ error, leg }) => [leg, error.reason])], [1, [[
          "b",
          "unavailable"
        ]]])
      })
  )

  law(
    "`search` fails if all stores fail: with their common reason, or with `unavailable` if their reasons differ",
    Federated.layer({
      a: faulty({ ops: ["search"], at: 1 }, { ops: ["search"], fault: "corrupt" }),
      b: faulty({ ops: ["search"] })
    }),
    (store) =>
      Effect.gen(function*() {
        yield* refuses("io", store.search(ada, {}))
        assert.match((yield* refuses("unavailable", store.search(ada, {}))).message, /a: .*b: /)
      })
  )

  it.effect("`search` returns `leftOut.exact: false` if one member store returns `leftOut.exact: false`", () =>
    Effect.gen(function*() {
      const inexact = Layer.map(MemoryStore.layerInMemory, (context) => {
        const store = Context.get(context, MemoryStore.MemoryStore)
        return Context.make(MemoryStore.MemoryStore, {
          ...store,
          search: (viewer, query) =>
            Effect.map(store.search(viewer, query), (result) => ({
              ...result,
              leftOut: { ...result.leftOut, exact: false as const }
            }))
        })
      })
      const leftOutOf = (layer: typeof inexact) =>
        Effect.gen(function*() {
          const { leftOut } = yield* (yield* MemoryStore.MemoryStore).search(ada, { text: "tea" })
          return leftOut
        }).pipe(Effect.provide(Federated.layer({ main: memory, other: { layer } })))
      assert.strictEqual((yield* leftOutOf(inexact)).exact, false)
      assert.notProperty(yield* leftOutOf(MemoryStore.layerInMemory), "exact")
    }))

  it.effect("`search` returns `leftOut.exact: false` if a mirror store has more matches than the limit and copies are among them", () =>
    Effect.gen(function*() {
      const shelf = yield* Layer.build(MemoryStore.layerInMemory)
      const copies = { layer: Layer.succeedContext(shelf), mirror: () => true }
      const teas = (where: string) => Array.from({ length: 10 }, (_, n) => draft(`tea ${where} ${n}`))
      yield* Context.get(shelf, MemoryStore.MemoryStore).put(ada, teas("own"))
      yield* Effect.gen(function*() {
        const store = yield* MemoryStore.MemoryStore
        yield* store.put(ada, teas("copied"))
        const { hits, leftOut } = yield* store.search(ada, { text: "tea own copied", limit: 11, fold: false })
        assert.lengthOf(hits, 11)
        assert.strictEqual(leftOut.exact, false)
        assert.notProperty((yield* store.search(ada, { text: "tea", limit: 30, fold: false })).leftOut, "exact")
      }).pipe(Effect.provide(Federated.layer({ main: memory, copies })))
    }).pipe(Effect.scoped))

  it.effect("`search` for text and vector reports one failure for each store without vectors, or only one if no store has vectors", () =>
    Effect.gen(function*() {
      const embedding = { model: "m", vector: [1, 0] }
      const answer = <E>(layer: Layer.Layer<MemoryStore.MemoryStore, E>) =>
        Effect.flatMap(
          MemoryStore.MemoryStore,
          (store) => Effect.zipRight(put(store, draft("tea")), store.search(ada, { text: "tea", embedding }))
        ).pipe(
          Effect.map(({ failures, hits }) => [hits.length, ...failures.map(({ leg }) => leg)]),
          Effect.provide(layer)
        )
      const shelf = { layer: stores.shelf, writable: true }
      assert.deepStrictEqual(yield* answer(Federated.layer({ a: memory, b: shelf })), [1, "b.vector"])
      assert.deepStrictEqual(yield* answer(Federated.layer({ a: shelf, b: shelf })), [1, "vector"])
    }))
})

describe("a federation with a member store that cannot be read", () => {
  law(
    "`get` and `update` of a stored record succeed even if a later store cannot be read, but `list` fails",
    Federated.layer({ a: memory, b: faulty({ ops: ["get", "list", "reader"] }) }),
    (store) =>
      Effect.gen(function*() {
        const tea = yield* put(store, draft("tea"))
        assert.deepStrictEqual(yield* get(store, ada, tea.id), tea)
        yield* refuses("io", store.get(ada, [id("nobody")]))
        yield* refuses("io", store.list(ada, {}))
        yield* refuses("io", store.put(ada, [draft("mine", { id: id("nobody") })]))
        yield* store.update(ada, tea.id, { body: "green tea" })
      })
  )

  law(
    "`update` fails and changes nothing if a store that may have the record cannot be read",
    Federated.layer({ a: faulty({ ops: ["reader"], at: 1 }), b: memory }),
    (store, federated) =>
      Effect.gen(function*() {
        const mine = yield* put(store, draft("mine"))
        yield* refuses("io", store.update(ada, mine.id, { body: "changed" }))
        assert.deepStrictEqual(yield* bodiesIn(federated, "a"), ["mine"])
      })
  )
})

describe("a federation with a member store, a mirror rule or a route that fails", () => {
  const over = (ops: (store: MemoryStore.Service) => Partial<MemoryStore.Service>) => ({
    layer: Layer.map(
      MemoryStore.layerInMemory,
      (context) => {
        const store = Context.get(context, MemoryStore.MemoryStore)
        return Context.make(MemoryStore.MemoryStore, { ...store, ...ops(store) })
      }
    ),
    writable: true
  })

  law(
    "a write that never ends in one store does not block a write to another store if the ids use different locks",
    Federated.layer(
      { notes: memory, facts: over(() => ({ apply: () => Effect.never, put: () => Effect.never })) },
      byKind
    ),
    (store, federated) =>
      Effect.gen(function*() {
        yield* Effect.forkDaemon(store.put(ada, [fact("hangs", { id: id("hangs") })])) // a daemon, since it cannot be interrupted
        yield* Effect.forkDaemon(store.put(ada, [fact("hangs too")]))
        yield* Effect.yieldNow()
        const tea = yield* put(store, draft("tea", { id: id("tea") }))
        yield* put(store, draft("green tea"))
        yield* store.update(ada, tea.id, { body: "black tea" })
        assert.deepStrictEqual(yield* bodiesIn(federated, "notes"), ["black tea", "green tea"])
      })
  )

  law(
    "`search` returns an `unavailable` failure for a member store whose search dies with a defect",
    Federated.layer({ a: memory, b: over(() => ({ search: () => Effect.die("a bug") })) }),
    (store) =>
      Effect.gen(function*() {
        yield* put(store, draft("tea"))
        const { failures, hits } = yield* store.search(ada, { text: "tea" })
        assert.deepStrictEqual([hits.length, failures.map(({ error, leg }) => [leg, error.reason])], [1, [[
          "b",
          "unavailable"
        ]]])
      })
  )

  law(
    "a write succeeds and makes no mirrored copy if the mirror rule throws",
    Federated.layer({
      main: memory,
      copies: {
        layer: MemoryStore.layerInMemory,
        mirror: () => {
          throw new Error("a bug")
        }
      }
    }),
    (store, federated) =>
      Effect.gen(function*() {
        const tea = yield* put(store, draft("tea"))
        assert.deepStrictEqual(yield* get(store, ada, tea.id), tea)
        assert.deepStrictEqual(yield* bodiesIn(federated, "copies"), [])
      })
  )

  law(
    "a put of a new record fails with `invalid_draft` if the route function throws",
    Federated.layer({ main: memory }, {
      route: () => {
        throw new Error("a bug")
      }
    }),
    (store) =>
      Effect.gen(function*() {
        const { cause, message } = yield* refuses("invalid_draft", store.put(ada, [draft("tea")]))
        assert.strictEqual(message, "route: the function threw")
        assert.include(String(cause), "a bug")
        assert.deepStrictEqual(yield* listed(store, system), [])
      })
  )
})
