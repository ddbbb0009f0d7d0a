import { assert, describe, it } from "@effect/vitest"
import { assertNone } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Ref from "effect/Ref"
import * as TestClock from "effect/TestClock"
import type { MemoryError } from "../../src/domain/MemoryError.ts"
import type { MemoryId } from "../../src/domain/MemoryId.ts"
import type * as Viewer from "../../src/domain/Viewer.ts"
import * as GraphMemory from "../../src/kinds/GraphMemory.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import { ada, bob, id } from "../../src/testing/Sample.ts"
import { sampled } from "../contract/naughty.ts"
import { stores } from "../stores.ts"

type Law = (graph: GraphMemory.Service, store: MemoryStore.Service) => Effect.Effect<void, unknown>

const both = Effect.all([GraphMemory.GraphMemory, MemoryStore.MemoryStore])
const reason = <A>(self: Effect.Effect<A, MemoryError>) => Effect.map(Effect.flip(self), ({ reason }) => reason)
const names = (all: ReadonlyArray<{ readonly data: GraphMemory.Entity }>) => all.map(({ data }) => data.name)

const add = (
  graph: GraphMemory.Service,
  name: string,
  { body = "", scope = { userId: "ada" }, viewer = ada }: {
    readonly body?: string
    readonly scope?: { readonly userId: string } | "global"
    readonly viewer?: Viewer.Viewer
  } = {}
) => graph.addEntity(viewer, { id: id(name), scope, body, data: { name, type: "thing" } })
const relate = (graph: GraphMemory.Service, from: string, type: string, to: string, weight = 1, viewer = ada) =>
  graph.relate(viewer, { from: id(from), to: id(to), type, weight })

/** A graph: a -knows-> b -knows-> c -made-> d, and a -made-> d. The weight of b -> c is 0.5, that of a -> d 0.3, the others 1. */
const small = (graph: GraphMemory.Service) =>
  Effect.gen(function*() {
    for (const name of ["a", "b", "c", "d"]) yield* add(graph, name)
    yield* relate(graph, "a", "knows", "b")
    yield* relate(graph, "b", "knows", "c", 0.5)
    yield* relate(graph, "c", "made", "d")
    yield* relate(graph, "a", "made", "d", 0.3)
  })

const suite = <E>(name: string, layer: Layer.Layer<MemoryStore.MemoryStore, E>) =>
  describe(`GraphMemory (${name})`, () => {
    const law = (title: string, check: Law) =>
      it.effect(title, () =>
        Effect.flatMap(both, ([graph, store]) => check(graph, store)).pipe(
          Effect.provide(Layer.provideMerge(GraphMemory.layer, layer))
        ))

    law(
      "`relationships` returns an entity's incoming and outgoing relationships, filtered by direction, type, weight and limit",
      (graph) =>
        Effect.gen(function*() {
          const { record } = yield* graph.addEntity(ada, {
            scope: { userId: "ada" },
            body: "",
            data: { name: "Charles\nBabbage", type: "person" }
          })
          assert.strictEqual(record.summary, "Charles Babbage")
          yield* small(graph)
          const a = yield* graph.relationships(ada, id("a"))
          assert.deepStrictEqual(a, [
            { from: id("a"), to: id("b"), type: "knows", weight: 1 },
            { from: id("a"), to: id("d"), type: "made", weight: 0.3 }
          ])
          const d = yield* graph.relationships(ada, id("d"), { direction: "in" })
          assert.deepStrictEqual(d.map(({ from, weight }) => [from, weight]), [[id("c"), 1], [id("a"), 0.3]])
          assert.deepStrictEqual(yield* graph.relationships(ada, id("d"), { direction: "out" }), [])
          assert.lengthOf(yield* graph.relationships(ada, id("d"), { limit: 1 }), 1)
          assert.lengthOf(yield* graph.relationships(ada, id("a"), { minWeight: 0.3, types: ["made"] }), 1)
          assert.lengthOf(yield* graph.relationships(ada, id("a"), { minWeight: 0.31, types: ["made"] }), 0)
        })
    )

    law(
      "`relate` keeps one relationship per `from`, `to` and `type`, and writes nothing if the weight stays the same",
      (graph, store) =>
        Effect.gen(function*() {
          yield* small(graph)
          yield* relate(graph, "a", "knows", "b", 0.2)
          yield* relate(graph, "a", "knows", "b", 0.2)
          yield* relate(graph, "a", "likes", "b", 0.2)
          const all = yield* graph.relationships(ada, id("a"), { direction: "out" })
          assert.sameDeepMembers(all.map(({ type, weight }) => [type, weight]), [
            ["knows", 0.2],
            ["made", 0.3],
            ["likes", 0.2]
          ])
          const [record] = yield* store.get(ada, [id("a")])
          assert.strictEqual(Option.getOrThrow(record!).revision, 5)
          assert.isTrue(yield* graph.unrelate(ada, { from: id("a"), to: id("b"), type: "knows" }))
          assert.isFalse(yield* graph.unrelate(ada, { from: id("a"), to: id("b"), type: "knows" }))
          assert.isFalse(yield* graph.unrelate(ada, { from: id("b"), to: id("a"), type: "likes" }))
          assert.isFalse(yield* graph.unrelate(ada, { from: id("a"), to: id("nobody"), type: "likes" }))
        })
    )

    law(
      "`relate` fails for an unknown entity, two equal entities, an invalid weight or a blank type",
      (graph) =>
        Effect.gen(function*() {
          yield* small(graph)
          assert.strictEqual(yield* reason(relate(graph, "a", "x", "nobody")), "not_found")
          assert.strictEqual(yield* reason(relate(graph, "nobody", "x", "a")), "not_found")
          assert.strictEqual(yield* reason(relate(graph, "a", "x", "a")), "invalid_draft")
          for (const weight of [-0.1, 1.1, NaN, Infinity]) {
            assert.strictEqual(yield* reason(relate(graph, "a", "x", "c", weight)), "invalid_draft")
          }
          for (const type of ["", " \n", "\ud800"]) {
            assert.strictEqual(yield* reason(relate(graph, "a", type, "c")), "invalid_draft")
          }
          assert.lengthOf(yield* graph.relationships(ada, id("a")), 2)
        })
    )

    law(
      "`traverse` returns each entity once, nearest first, even if there is a cycle",
      (graph) =>
        Effect.gen(function*() {
          yield* small(graph)
          yield* relate(graph, "d", "knows", "a", 0.1)
          assert.deepStrictEqual(names(yield* graph.traverse(ada, id("a"))), ["b", "d", "c"])
          assert.deepStrictEqual(names(yield* graph.traverse(ada, id("a"), { maxDepth: 1 })), ["b", "d"])
          const far = yield* graph.traverse(ada, id("a"), { types: ["knows"], direction: "out", maxDepth: 5 })
          assert.deepStrictEqual(far.map(({ path }) => path.map(({ to }) => to)), [[id("b")], [id("b"), id("c")]])
          assert.deepStrictEqual(names(yield* graph.traverse(ada, id("a"), { limit: 2 })), ["b", "d"])
          assert.deepStrictEqual(names(yield* graph.traverse(ada, id("a"), { types: [] })), [])
        })
    )

    law(
      "an unknown, invisible or unconnected entity has no relationships and no paths",
      (graph) =>
        Effect.gen(function*() {
          yield* add(graph, "his", { scope: { userId: "bob" }, viewer: bob })
          yield* add(graph, "alone")
          for (const from of ["nobody", "his", "alone"].map(id)) {
            assert.deepStrictEqual(yield* graph.traverse(ada, from), [])
            assert.deepStrictEqual(yield* graph.relationships(ada, from), [])
            assert.deepStrictEqual(yield* graph.queryByPath(ada, from, ["knows"]), [])
            assertNone(yield* graph.findPath(ada, from, id("nowhere")))
          }
        })
    )

    law(
      "`traverse`, `relationships` and `findPath` refuse invalid numbers in their options",
      (graph) =>
        Effect.gen(function*() {
          yield* small(graph)
          for (
            const options of [0, -1, 6, 1.5, NaN].map((maxDepth) => ({ maxDepth }))
          ) {
            assert.strictEqual(yield* reason(graph.traverse(ada, id("a"), options)), "invalid_draft")
            if (options.maxDepth === 6) continue
            assert.strictEqual(yield* reason(graph.findPath(ada, id("a"), id("b"), options)), "invalid_draft")
            const visits = { maxVisits: options.maxDepth }
            assert.strictEqual(yield* reason(graph.findPath(ada, id("a"), id("b"), visits)), "invalid_draft")
          }
          for (const limit of [0, -1, 1.5, NaN, 1_001]) {
            assert.strictEqual(yield* reason(graph.traverse(ada, id("a"), { limit })), "invalid_draft")
            assert.strictEqual(yield* reason(graph.relationships(ada, id("a"), { limit })), "invalid_draft")
          }
          assert.strictEqual(yield* reason(graph.traverse(ada, id("a"), { minWeight: NaN })), "invalid_draft")
        })
    )

    law(
      "`queryByPath` follows outgoing relationships, one step for each given type, in the order of the types",
      (graph) =>
        Effect.gen(function*() {
          yield* small(graph)
          const walk = (from: string, ...types: ReadonlyArray<string>) =>
            Effect.map(graph.queryByPath(ada, id(from), types), names)
          assert.deepStrictEqual(yield* walk("a", "knows", "knows"), ["c"])
          assert.deepStrictEqual(yield* walk("a", "knows", "knows", "made"), ["d"])
          assert.deepStrictEqual(yield* walk("a", "made", "knows"), [])
          assert.deepStrictEqual(yield* walk("a"), ["a"])
          assert.deepStrictEqual(yield* walk("nobody"), [])
        })
    )

    law(
      "`findPath` finds paths of 3, 7 and 30 relationships, but none longer than `maxDepth`",
      (graph) =>
        Effect.gen(function*() {
          const chain = Array.from({ length: 31 }, (_, n) => `n${n}`)
          for (const name of chain) yield* add(graph, name)
          for (const [n, name] of chain.slice(1).entries()) yield* relate(graph, chain[n]!, "next", name)
          for (const length of [3, 7, 30]) {
            const path = Option.getOrThrow(yield* graph.findPath(ada, id("n0"), id(`n${length}`)))
            assert.deepStrictEqual(path.map(({ to }) => to), chain.slice(1, length + 1).map(id))
          }
          assertNone(yield* graph.findPath(ada, id("n0"), id("n30"), { maxDepth: 29 }))
          assertNone(yield* graph.findPath(ada, id("n0"), id("n9"), { direction: "in" }))
        })
    )

    law(
      "`findPath` fails with `unsupported` if the search needs more than `maxVisits` visits",
      (graph, store) =>
        Effect.gen(function*() {
          for (const name of ["hub", "far", "a", "b", "c", "d"]) yield* add(graph, name)
          for (const name of ["a", "b", "c", "d"]) yield* relate(graph, "hub", "near", name)
          yield* relate(graph, "d", "near", "far", 0.1)
          const links = yield* Ref.make(0)
          const counting = MemoryStore.MemoryStore.of({
            ...store,
            links: (viewer, id) => Effect.zipRight(Ref.update(links, (n) => n + 1), store.links(viewer, id))
          })
          const { findPath } = yield* GraphMemory.make.pipe(Effect.provideService(MemoryStore.MemoryStore, counting))
          const failure = yield* Effect.flip(findPath(ada, id("hub"), id("far"), { maxVisits: 3 }))
          assert.strictEqual(failure.reason, "unsupported")
          assert.include(failure.message, "maxVisits")
          assert.isAtMost(yield* Ref.get(links), 1 + 3)
          const tooFew = findPath(ada, id("hub"), id("far"), { maxVisits: 4 })
          assert.strictEqual(yield* reason(tooFew), "unsupported")
          assert.lengthOf(Option.getOrThrow(yield* findPath(ada, id("hub"), id("far"), { maxVisits: 5 })), 2)
          yield* add(graph, "apart")
          assertNone(yield* findPath(ada, id("hub"), id("apart"), { maxVisits: 5 }))
        })
    )

    law(
      "`maxVisits` of `findPath` also counts linked records that are not entities",
      (graph, store) =>
        Effect.gen(function*() {
          const scope = { userId: "ada" }
          const notes = Array.from({ length: 30 }, (_, n) => id(`note ${n}`))
          yield* store.put(ada, notes.map((id) => ({ id, scope, kind: "semantic", body: `note ${id}` })))
          const links = notes.map((to) => ({ to, type: "has", weight: 1 }))
          yield* graph.addEntity(ada, { id: id("hub"), scope, body: "", data: { name: "hub", type: "place" }, links })
          yield* add(graph, "far")
          const gets = yield* Ref.make(0)
          const counting = MemoryStore.MemoryStore.of({
            ...store,
            get: (viewer, ids) => Effect.zipRight(Ref.update(gets, (n) => n + ids.length), store.get(viewer, ids))
          })
          const { findPath } = yield* GraphMemory.make.pipe(Effect.provideService(MemoryStore.MemoryStore, counting))
          assert.strictEqual(yield* reason(findPath(ada, id("hub"), id("far"), { maxVisits: 3 })), "unsupported")
          assert.isAtMost(yield* Ref.get(gets), 2 + 4)
          assert.isTrue(Option.isNone(yield* findPath(ada, id("hub"), id("far"), { maxVisits: 30 })))
        })
    )

    law(
      "`findPath` returns a shortest path, and by default follows relationships in both directions",
      (graph) =>
        Effect.gen(function*() {
          yield* small(graph)
          const path = (from: string, to: string, options: GraphMemory.PathSearch = {}) =>
            Effect.map(
              graph.findPath(ada, id(from), id(to), options),
              (found) => Option.getOrUndefined(Option.map(found, (path) => path.map(({ type }) => type)))
            )
          assert.deepStrictEqual(yield* path("a", "d"), ["made"])
          assert.deepStrictEqual(yield* path("a", "d", { minWeight: 0.5, maxDepth: 3 }), ["knows", "knows", "made"])
          assert.strictEqual(yield* path("a", "d", { minWeight: 0.5, maxDepth: 2 }), undefined)
          assert.deepStrictEqual(yield* path("c", "a", { types: ["knows"] }), ["knows", "knows"])
          assert.strictEqual(yield* path("c", "a", { direction: "out", maxDepth: 5 }), undefined)
          assert.deepStrictEqual(yield* path("a", "a"), [])
          assert.strictEqual(yield* path("nobody", "nobody"), undefined)
          const noId = "../a" as MemoryId // as an untyped caller may pass it
          for (const [from, to] of [[id("a"), noId], [noId, id("a")]] as const) {
            assert.strictEqual(yield* reason(graph.findPath(ada, from, to)), "invalid_id")
          }
        })
    )

    law(
      "forgetting an entity also removes its relationships, and adding the entity again does not restore them",
      (graph, store) =>
        Effect.gen(function*() {
          yield* small(graph)
          assert.isTrue(yield* graph.forget(ada, id("d")))
          assert.isFalse(yield* graph.forget(ada, id("d")))
          yield* add(graph, "d")
          assert.deepStrictEqual(yield* graph.relationships(ada, id("d")), [])
          const left = yield* store.get(ada, [id("a"), id("c")])
          assert.deepStrictEqual(left.flatMap((found) => Option.getOrThrow(found).links.map(({ to }) => to)), [id("b")])
        })
    )

    law(
      "concurrent calls of `relate` and `forget` leave no relationship to a forgotten entity",
      (graph, store) =>
        Effect.gen(function*() {
          yield* add(graph, "hub")
          const spokes = Array.from({ length: 12 }, (_, n) => `spoke ${n}`)
          yield* Effect.forEach(spokes, (name) => add(graph, name))
          const outcomes = yield* Effect.all([
            ...spokes.slice(6).map((name) => Effect.either(relate(graph, name, "x", "hub"))),
            Effect.either(graph.forget(ada, id("hub"))),
            ...spokes.slice(0, 6).map((name) => Effect.either(relate(graph, name, "x", "hub")))
          ], { concurrency: "unbounded" })
          assert.lengthOf(outcomes, 13)
          const left = yield* store.get(ada, spokes.map(id))
          assert.deepStrictEqual(left.flatMap((found) => Option.getOrThrow(found).links.slice()), [])
        })
    )

    law("concurrent calls of `relate` lose no relationship", (graph) =>
      Effect.gen(function*() {
        const names = Array.from({ length: 20 }, (_, n) => `n${n}`)
        yield* Effect.forEach(["hub", ...names], (name) => add(graph, name))
        yield* Effect.forEach(names, (name) => relate(graph, "hub", "has", name), { concurrency: "unbounded" })
        assert.lengthOf(yield* graph.relationships(ada, id("hub")), 20)
      }))

    law(
      "a [[name]] in a body is a relationship to the entity of that name, until an edit removes the [[name]]",
      (graph, store) =>
        Effect.gen(function*() {
          yield* add(graph, "Ada Lovelace", { body: "Wrote to [[Charles Babbage]]." })
          yield* add(graph, "Charles Babbage")
          const told = { from: id("Ada Lovelace"), to: id("Charles Babbage"), type: "wikilink" }
          assert.deepStrictEqual(yield* graph.relationships(ada, id("Charles Babbage")), [{ ...told, weight: 1 }])
          assert.isFalse(yield* graph.unrelate(ada, told))
          yield* store.update(ada, id("Ada Lovelace"), { body: "Wrote." })
          assert.deepStrictEqual(yield* graph.relationships(ada, id("Charles Babbage")), [])
        })
    )

    law(
      "`traverse`, `relationships`, `relate` and `forget` treat a record that is not an entity as absent",
      (graph, store) =>
        Effect.gen(function*() {
          yield* small(graph)
          const links = [{ to: id("a"), type: "about", weight: 1 }, { to: id("b"), type: "about", weight: 1 }]
          yield* store.put(ada, [{ id: id("note"), scope: { userId: "ada" }, kind: "reference", body: "x", links }])
          assert.deepStrictEqual(names(yield* graph.traverse(ada, id("a"), { types: ["about"] })), [])
          assert.deepStrictEqual(yield* graph.relationships(ada, id("a"), { types: ["about"] }), [])
          assert.deepStrictEqual(yield* graph.traverse(ada, id("note")), [])
          assert.strictEqual(yield* reason(relate(graph, "a", "x", "note")), "not_found")
          assert.isFalse(yield* graph.forget(ada, id("note")))
        })
    )

    law(
      "a viewer cannot traverse, relate or forget entities that the viewer does not see",
      (graph, store) =>
        Effect.gen(function*() {
          yield* add(graph, "shared", { scope: "global" })
          yield* add(graph, "mine")
          yield* add(graph, "his", { scope: { userId: "bob" }, viewer: bob })
          yield* add(graph, "his too", { scope: { userId: "bob" }, viewer: bob })
          yield* relate(graph, "mine", "x", "shared")
          yield* relate(graph, "his", "x", "shared", 1, bob)
          yield* relate(graph, "his", "x", "his too", 1, bob)
          assert.deepStrictEqual(names(yield* graph.traverse(ada, id("mine"), { maxDepth: 5 })), ["shared"])
          assert.deepStrictEqual(names(yield* graph.traverse(bob, id("shared"))), ["his", "his too"])
          assert.deepStrictEqual(names(yield* graph.traverse(ada, id("his"))), [])
          assert.deepStrictEqual(yield* graph.queryByPath(ada, id("his"), []), [])
          assertNone(yield* graph.findPath(ada, id("mine"), id("his"), { maxDepth: 5 }))
          assert.strictEqual(yield* reason(relate(graph, "mine", "x", "his")), "not_found")
          assert.strictEqual(yield* reason(relate(graph, "his", "x", "mine")), "not_found")
          assert.isFalse(yield* graph.unrelate(ada, { from: id("his"), to: id("his too"), type: "x" }))
          assert.isFalse(yield* graph.forget(ada, id("his")))
          assert.isTrue(yield* graph.forget(ada, id("shared")))
          const [his] = yield* store.get(bob, [id("his")])
          assert.strictEqual(Option.getOrThrow(his!).revision, 3)
          assert.deepStrictEqual(names(yield* graph.traverse(bob, id("his"))), ["his too"])
        })
    )

    law(
      "`traverse` neither returns nor passes through entities that have expired or are no longer valid",
      (graph, store) =>
        Effect.gen(function*() {
          yield* small(graph)
          yield* store.update(ada, id("b"), { expiresAt: 1_000 })
          yield* store.update(ada, id("d"), { invalidAt: 2_000 })
          assert.deepStrictEqual(names(yield* graph.traverse(ada, id("a"))), ["b", "d", "c"])
          yield* TestClock.adjust("1 second")
          assert.deepStrictEqual(names(yield* graph.traverse(ada, id("a"))), ["d", "c"])
          yield* TestClock.adjust("1 second")
          assert.deepStrictEqual(names(yield* graph.traverse(ada, id("a"))), [])
        })
    )

    law(
      "`search` also returns records linked to a hit, with a lower score for each hop",
      (graph, store) =>
        Effect.gen(function*() {
          yield* add(graph, "Ada", { body: "mathematician" })
          yield* add(graph, "Engine", { body: "brass and steam" })
          yield* add(graph, "London", { body: "a city" })
          yield* relate(graph, "Ada", "wrote_for", "Engine", 0.8)
          yield* relate(graph, "Engine", "stands_in", "London")
          yield* store.put(ada, [{
            id: id("note"),
            scope: { userId: "ada" },
            kind: "reference",
            body: "see [[Engine]]"
          }])
          const search = (options?: GraphMemory.Traversal, query = {}) =>
            Effect.map(
              graph.search(ada, { text: "mathematician", ...query }, options),
              (all) => all.map(({ path, record, score }) => [record.id, Math.round(score * 100) / 100, path.length])
            )
          const [self, engine, london] = [[id("Ada"), 1, 0], [id("Engine"), 0.4, 1], [id("London"), 0.2, 2]]
          assert.deepStrictEqual(yield* search({ maxDepth: 1 }), [self, engine])
          assert.deepStrictEqual((yield* search()).slice(0, 2), [self, engine])
          assert.sameDeepMembers(yield* search(), [self, engine, london, [id("note"), 0.2, 2]])
          assert.deepStrictEqual(yield* search({}, { kinds: ["entity"] }), [self, engine, london])
          assert.deepStrictEqual(yield* search({}, { kinds: ["entity"], minScore: 0.3 }), [self, engine])
          const weighed = (graph: number) => search({ maxDepth: 1 }, { weights: { graph } })
          assert.deepStrictEqual(yield* weighed(3), [self, [id("Engine"), 0.6, 1]])
          assert.deepStrictEqual(yield* weighed(1_000_000), [self, [id("Engine"), 0.8, 1]])
          assert.deepStrictEqual(yield* weighed(0), [self])
          assert.strictEqual(yield* reason(graph.search(ada, { text: "x", weights: { graph: NaN } })), "invalid_draft")
          assert.deepStrictEqual(yield* search({}, { limit: 1 }), [self])
          assert.deepStrictEqual(yield* search({ types: ["stands_in"] }), [self])
          assert.deepStrictEqual(yield* graph.search(bob, { text: "mathematician" }), [])
          assert.strictEqual(yield* reason(graph.search(ada, { text: "x", limit: 0 })), "invalid_draft")
        })
    )

    law(
      "a sample of naughty strings is accepted as an entity's name, type, body and property, and as a relationship's type",
      (graph) =>
        Effect.gen(function*() {
          yield* add(graph, "hub")
          const some = sampled(7).filter((text) => text.trim() !== "" && text.length < 1_000)
          for (const [n, text] of some.entries()) {
            const { data, record } = yield* graph.addEntity(ada, {
              id: id(`naughty ${n}`),
              scope: { userId: "ada" },
              body: text,
              data: { name: text, type: text, properties: text === "__proto__" ? {} : { [text]: text } }
            })
            assert.strictEqual(data.name, text)
            yield* graph.relate(ada, { from: id("hub"), to: record.id, type: text, weight: 1 })
            const found = yield* graph.traverse(ada, id("hub"), { types: [text], maxDepth: 1 })
            assert.include(names(found), text)
          }
        })
    )
  })

for (const [name, layer] of Object.entries(stores)) suite<unknown>(name, layer)

describe("GraphMemory", () => {
  it.effect("`forget` of an entity keeps a link that another writer adds at the same time between two other entities", () =>
    Effect.gen(function*() {
      const store = yield* MemoryStore.MemoryStore
      let isFirst = true
      const meanwhile = Effect.suspend(() => {
        if (!isFirst) return Effect.void
        isFirst = false
        return store.update(ada, id("a"), { links: [b, { to: id("c"), type: "new", weight: 1 }] })
      })
      const graph = yield* Effect.provideService(GraphMemory.make, MemoryStore.MemoryStore, {
        ...store,
        apply: (...args) => Effect.zipRight(meanwhile, store.apply(...args))
      })
      for (const name of ["a", "b", "c"]) yield* add(graph, name)
      const b = { to: id("b"), type: "x", weight: 1 }
      yield* relate(graph, "a", "x", "b")
      assert.isTrue(yield* graph.forget(ada, id("b")))
      const left = yield* graph.relationships(ada, id("a"))
      assert.deepStrictEqual(left.map(({ type }) => type), ["new"])
    }).pipe(Effect.provide(MemoryStore.layerInMemory)))
})
