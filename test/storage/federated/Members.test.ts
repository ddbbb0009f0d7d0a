import { assert, describe, it } from "@effect/vitest"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Chunk from "effect/Chunk"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as LayerMap from "effect/LayerMap"
import * as Option from "effect/Option"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/TestClock"
import type { MemoryError } from "../../../src/domain/MemoryError.ts"
import { textHash } from "../../../src/domain/MemoryRecord.ts"
import * as Viewer from "../../../src/domain/Viewer.ts"
import * as MemoryStore from "../../../src/storage/MemoryStore.ts"
import * as Federated from "../../../src/storage/MemoryStore/Federated.ts"
import { refuses } from "../../../src/testing/Law.ts"
import { listen } from "../../../src/testing/Listener.ts"
import { ada, bob, draft, fact, found, id, listed, put, the } from "../../../src/testing/Sample.ts"
import { stores } from "../../stores.ts"
import { bodiesIn, faulty, hitsOf, law, memory, mirrored, notesAndFacts, within } from "./World.ts"

describe("a federation", () => {
  law(
    "`list` sorts the records of all stores together over all pages, and returns each record once",
    mirrored,
    (store, federated) =>
      Effect.gen(function*() {
        const extra = yield* federated.attach("extra", memory)
        for (let n = 0; n < 40; n++) {
          yield* put(n % 3 === 0 ? extra.store : store, draft(String(n), { importance: n % 5 === 0 ? 1 : 0 }))
          if (n % 4 === 0) yield* TestClock.adjust("1 millis")
        }
        const all = (yield* store.list(ada, { limit: 1_000 })).items
        assert.lengthOf(all, 40)
        assert.deepStrictEqual(
          all.map(({ createdAt }) => createdAt),
          all.map(({ createdAt }) => createdAt).sort((a, b) => b - a)
        )
        for (const limit of [1, 3, 7, 39, 40]) {
          const streamed = Chunk.toReadonlyArray(yield* Stream.runCollect(store.stream(ada, { limit })))
          assert.deepStrictEqual(streamed.map(({ id }) => id), all.map(({ id }) => id))
        }
        assert.isUndefined((yield* store.list(ada, { limit: 40 })).next)
      })
  )

  law(
    "`list` sorts a record by its creation time, not by the time when its copy in a mirror was made",
    Federated.layer({
      main: memory,
      copies: { ...faulty({ ops: ["apply"], at: 1 }), writable: false, mirror: () => true }
    }),
    (store) =>
      Effect.gen(function*() {
        const old = yield* put(store, draft("old"))
        for (let n = 0; n < 5; n++) {
          yield* TestClock.adjust("1 second")
          yield* put(store, draft(String(n)))
        }
        yield* TestClock.adjust("1 second")
        yield* store.apply(ada, [{ _tag: "Restore", id: old.id, revision: 1 }]) // Restore writes back the old times
        for (const limit of [1, 2, 5, 6]) {
          const streamed = Chunk.toReadonlyArray(yield* Stream.runCollect(store.stream(ada, { limit })))
          assert.deepStrictEqual(streamed.map(({ body }) => body), ["4", "3", "2", "1", "0", "old"])
        }
      })
  )

  law(
    "`list` does not end at a mirror's page that contains only copies",
    Federated.layer({ main: memory, copies: { ...faulty({ ops: ["apply"], at: 1 }), mirror: () => true } }),
    (store, federated) =>
      Effect.gen(function*() {
        const { store: copies } = yield* federated.get("copies")
        const old = yield* put(store, draft("old"))
        for (const [at, body] of [[store, "1"], [copies, "2"]] as const) {
          yield* TestClock.adjust("1 second")
          yield* put(at, draft(body))
        }
        yield* TestClock.adjust("1 second")
        yield* store.apply(ada, [{ _tag: "Restore", id: old.id, revision: 1 }])
        const streamed = Chunk.toReadonlyArray(yield* Stream.runCollect(store.stream(ada, { limit: 1 })))
        assert.deepStrictEqual(streamed.map(({ body }) => body), ["2", "1", "old"])
      })
  )

  law(
    "`links` finds links between records of different stores in both directions, including [[wikilinks]]",
    notesAndFacts,
    (store) =>
      Effect.gen(function*() {
        const tea = yield* put(store, draft("Tea"))
        const link = { type: "likes", weight: 1 }
        const likes = yield* put(store, fact("likes it", { links: [{ to: tea.id, ...link }] }))
        const names = yield* put(store, fact("as in [[tea]]"))
        assert.deepStrictEqual((yield* store.links(ada, likes.id)).to, [{ id: tea.id, ...link }])
        const { from } = yield* store.links(ada, tea.id)
        assert.sameDeepMembers(Array.from(from), [{ id: likes.id, ...link }, {
          id: names.id,
          type: "wikilink",
          weight: 1
        }])
        assert.deepStrictEqual(yield* store.links(bob, tea.id), { to: [], from: [] })
      })
  )

  law(
    "vectors.attach adds the vector of a text to each store that has a record with this text",
    notesAndFacts,
    (store, federated) =>
      Effect.gen(function*() {
        yield* store.put(ada, [draft("tea"), fact("milk"), fact("tea")])
        const vectors = Option.getOrThrow(store.vectors)
        const of = (name: string) => Effect.map(within(federated, name), ({ vectors }) => Option.getOrThrow(vectors))
        assert.lengthOf(yield* vectors.pending("default", "m"), 2)
        assert.lengthOf(yield* vectors.pending("default", "m", 1), 1)
        const hash = (body: string) => textHash({ summary: "", summaryDerived: true, body })
        yield* vectors.attach("default", "m", [[hash("tea"), Float32Array.of(1, 0)], [
          hash("milk"),
          Float32Array.of(0, 1)
        ]])
        assert.deepStrictEqual(yield* vectors.pending("default", "m"), [])
        const read = (of: MemoryStore.Vectors) =>
          Effect.map(of.read("default", "m", [hash("milk"), hash("tea")]), (all) => all.map(Option.isSome))
        assert.deepStrictEqual(yield* read(vectors), [true, true])
        assert.deepStrictEqual(yield* read(yield* of("notes")), [false, true])
        assert.deepStrictEqual(yield* read(yield* of("facts")), [true, true])
        const embedding = { model: "m", vector: [0, 1] }
        assert.deepStrictEqual(yield* found(store, ada, { embedding, mode: "vector" }), ["milk"])
      })
  )

  law(
    "records of two tenants with the same id are separate, and store.tenants has the tenants of all stores",
    notesAndFacts,
    (store) =>
      Effect.gen(function*() {
        const elsewhere = Viewer.make({ tenant: "elsewhere", userId: "ada" })
        yield* put(store, draft("here", { id: id("x") }))
        yield* put(store, fact("there", { id: id("x") }), elsewhere)
        assert.strictEqual((yield* the(store, ada, id("x"))).body, "here")
        assert.strictEqual((yield* the(store, elsewhere, id("x"))).body, "there")
        assert.deepStrictEqual(yield* listed(store, elsewhere), ["there"])
        assert.deepStrictEqual(yield* found(store, ada, {}), ["here"])
        assert.deepStrictEqual(Array.from(yield* store.tenants).sort(), ["default", "elsewhere"])
        yield* store.forget(elsewhere, [id("x")], { purge: true })
        assert.deepStrictEqual(yield* store.tenants, ["default"])
      })
  )

  law(
    "a call with an invisible record's id answers as for an unknown id; `put` fails with `invalid_id`",
    mirrored,
    (store, federated) =>
      Effect.gen(function*() {
        const heard = yield* listen(store, bob)
        const tea = yield* put(store, draft("tea", { importance: 1, links: [{ to: id("x"), type: "t", weight: 1 }] }))
        const nobody = id("nobody")
        for (const one of [store, federated]) {
          assert.deepStrictEqual((yield* one.search(bob, { text: "tea" })).hits, [])
          assert.deepStrictEqual((yield* one.search(bob, {})).leftOut, { limit: 0, budget: 0, folded: 0 })
        }
        assert.deepStrictEqual(yield* listed(store, bob), [])
        for (
          const [seen, unseen] of [
            [store.get(bob, [nobody]), store.get(bob, [tea.id])],
            [store.history(bob, nobody), store.history(bob, tea.id)],
            [store.whyNot(bob, nobody, {}), store.whyNot(bob, tea.id, {})],
            [store.links(bob, nobody), store.links(bob, tea.id)],
            [
              Effect.zipRight(store.touch(bob, [nobody]), store.uses(bob, [nobody])),
              Effect.zipRight(store.touch(bob, [tea.id]), store.uses(bob, [tea.id]))
            ],
            [store.forget(bob, [nobody], { purge: true }), store.forget(bob, [tea.id], { purge: true })]
          ] as ReadonlyArray<readonly [Effect.Effect<unknown, MemoryError>, Effect.Effect<unknown, MemoryError>]>
        ) { // the cast unites calls with different error types
          deepStrictEqual(yield* unseen, yield* seen)
        }
        yield* refuses("not_found", store.update(bob, tea.id, { body: "x" }))
        yield* refuses("not_found", store.apply(bob, [{ _tag: "Restore", id: tea.id, revision: 0 }]))
        yield* refuses("invalid_id", store.put(bob, [draft("x", { id: tea.id, scope: "global" })]))
        assert.deepStrictEqual(yield* heard, [])
        assert.deepStrictEqual(yield* bodiesIn(federated, "copies"), ["tea"])
        assert.deepStrictEqual(yield* store.history(ada, tea.id), [tea])
      })
  )

  it.scoped("a federation is durable if its writable stores are, and has history if all its stores have history", () =>
    Effect.gen(function*() {
      const tool = (name: string) => ({ name }) as never // a tool's name is all that is read
      const armed = (name: string) => ({
        layer: Layer.effect(
          MemoryStore.MemoryStore,
          Effect.map(MemoryStore.MemoryStore, (store) => ({ ...store, tools: () => [tool(name)] }))
        ).pipe(Layer.provide(stores.markdown)),
        writable: true
      })
      const of = <E>(layer: Layer.Layer<MemoryStore.MemoryStore, E>) =>
        Effect.map(Layer.build(layer), Context.get(MemoryStore.MemoryStore))
      const vaults = yield* of(Federated.layer({ a: armed("a"), b: armed("b"), c: { layer: stores.shelf } }))
      assert.deepStrictEqual(vaults.tools(ada).map(({ name }) => name), ["a", "b"])
      assert.deepInclude(vaults.capabilities, { durable: true, shared: true, vector: true, history: false })
      const mixed = yield* of(Federated.layer({ a: armed("a"), b: memory }))
      assert.deepInclude(mixed.capabilities, { writable: true, durable: false, shared: false, history: true })
      const shelves = yield* of(Federated.layer({ a: { layer: stores.shelf } }))
      assert.isTrue(Option.isNone(shelves.vectors) && !shelves.capabilities.vector)
    }))
})

class Project extends Context.Tag("Project")<Project, Federated.Named>() {}

describe("stores attached to a federation", () => {
  law(
    "a record written to a store is not in another store that is configured with the same layer",
    Federated.layer({ a: memory, b: memory }),
    (store, federated) =>
      Effect.gen(function*() {
        yield* put(store, draft("tea"))
        assert.deepStrictEqual([yield* bodiesIn(federated, "a"), yield* bodiesIn(federated, "b")], [["tea"], []])
      })
  )

  law(
    "an attached store is listed, and its name is taken, until its Effect scope closes",
    mirrored,
    (store, federated) =>
      Effect.gen(function*() {
        const names = Effect.map(federated.stores, (all) => all.map(({ name }) => name))
        const scope = yield* Scope.make()
        const extra = yield* federated.attach("extra", { ...memory, description: "more", maxResults: 7 }).pipe(
          Scope.extend(scope)
        )
        assert.deepStrictEqual([extra.name, extra.description, extra.maxResults, extra.writable], [
          "extra",
          "more",
          7,
          true
        ])
        assert.deepStrictEqual(yield* names, ["main", "copies", "extra"])
        yield* put(extra.store, draft("tea"))
        assert.deepStrictEqual(yield* hitsOf(store, { text: "tea" }), [["tea", "extra"]])
        for (const name of ["extra", "main", "", "x".repeat(65), "a\nb", "\ud800"]) {
          yield* refuses("invalid_id", Effect.scoped(federated.attach(name, memory)))
        }
        yield* refuses("invalid_draft", Effect.scoped(federated.attach("more", { ...memory, maxResults: 0 })))
        yield* Scope.close(scope, Exit.void)
        assert.deepStrictEqual(yield* names, ["main", "copies"])
        assert.deepStrictEqual(yield* found(store, ada, { text: "tea" }), [])
        yield* refuses("not_found", federated.search(ada, {}, { stores: ["extra"] }))
        yield* Effect.scoped(federated.attach("extra", memory))
      })
  )

  law(
    "only one of two concurrent calls of `attach` with the same name succeeds",
    mirrored,
    (_, federated) =>
      Effect.gen(function*() {
        const slow = { ...memory, layer: Layer.tap(MemoryStore.layerInMemory, () => Effect.yieldNow()) }
        const both = yield* Effect.all([
          Effect.exit(federated.attach("x", slow)),
          Effect.exit(federated.attach("x", slow))
        ], { concurrency: 2 })
        assert.lengthOf(both.filter(Exit.isSuccess), 1)
        assert.lengthOf((yield* federated.stores).filter(({ name }) => name === "x"), 1)
      })
  )

  law(
    "a subscriber of the federation receives an attached store's changes until the store is detached",
    mirrored,
    (store, federated) =>
      Effect.gen(function*() {
        const heard = yield* listen(store, ada)
        const shelf = yield* Layer.build(MemoryStore.layerInMemory)
        const scope = yield* Scope.make()
        yield* Scope.extend(federated.attach("extra", { layer: Layer.succeedContext(shelf) }), scope)
        yield* heard
        const extra = Context.get(shelf, MemoryStore.MemoryStore)
        const tea = yield* put(extra, draft("tea"))
        const [told] = yield* heard
        assert.deepEqual(told, { _tag: "Written", record: tea, by: "here" })
        yield* Scope.close(scope, Exit.void)
        yield* heard
        yield* put(extra, draft("too late"))
        assert.deepEqual(yield* heard, [])
      })
  )

  law(
    "no search fails if a store is attached or detached during the search",
    mirrored,
    (store, federated) =>
      Effect.gen(function*() {
        yield* put(store, draft("tea"))
        const come = Effect.scoped(Effect.gen(function*() {
          const { store } = yield* federated.attach("extra", memory)
          yield* put(store, draft("more tea"))
          yield* Effect.repeatN(Effect.yieldNow(), 50) // enough yields for a whole search
        }))
        const comings = yield* Effect.fork(Effect.repeatN(come, 30))
        const searches = yield* Effect.replicateEffect(
          Effect.zipLeft(store.search(ada, { text: "tea" }), Effect.yieldNow()),
          60
        )
        yield* Fiber.join(comings)
        for (const { failures, hits } of searches) {
          assert.deepStrictEqual(failures, [])
          assert.include(hits.map(({ record }) => record.body), "tea")
        }
        assert.isTrue(searches.some(({ hits }) => hits.length === 2))
      })
  )

  it.scoped("a LayerMap attaches a store when its name is requested, and detaches the store after an idle minute", () =>
    Effect.gen(function*() {
      const federated = yield* Federated.Federated
      const store = yield* MemoryStore.MemoryStore
      const names = Effect.map(federated.stores, (all) => all.map(({ name }) => name))
      const projects = yield* LayerMap.make(
        (name: string) => Layer.scoped(Project, federated.attach(name, memory)),
        { idleTimeToLive: "1 minute" }
      )
      const write = (name: string) =>
        Effect.flatMap(Project, (project) => put(project.store, draft(`tea of ${name}`))).pipe(
          Effect.provide(projects.get(name))
        )
      yield* write("red")
      yield* write("blue")
      assert.deepStrictEqual(yield* names, ["main", "copies", "red", "blue"])
      assert.sameMembers(yield* found(store, ada, { text: "tea" }), ["tea of red", "tea of blue"])
      yield* TestClock.adjust("1 minute")
      assert.deepStrictEqual(yield* names, ["main", "copies"])
    }).pipe(Effect.provide(mirrored)))
})

describe("a configuration of a federation", () => {
  it.effect("an invalid configuration of a federation fails with an error that lists all of its faults", () =>
    Effect.gen(function*() {
      const issues = <E>(layer: Layer.Layer<MemoryStore.MemoryStore, E>) =>
        Effect.map(
          Effect.flip(Effect.scoped(Layer.build(layer))),
          (error) =>
            [...((error as MemoryError).detail as { readonly issues: ReadonlyArray<string> }).issues].join("\n") // this error has `issues`
        )
      assert.include(yield* issues(Federated.layer({})), "at least")
      const all = yield* issues(
        Federated.layer({ "": memory, b: { ...memory, maxResults: 1_001 }, c: { layer: MemoryStore.layerInMemory } }, {
          primary: "c"
        })
      )
      for (const one of ["1..64", "b: maxResults", "primary: c is read-only"]) assert.include(all, one)
      assert.include(yield* issues(Federated.layer({ a: memory }, { primary: "x" as "a" })), "there is no store x") // cast: x is no name
      const closed = { layer: Federated.layer({ a: { layer: MemoryStore.layerInMemory } }) }
      const unfit = yield* issues(
        Federated.layer({ b: { ...closed, writable: true }, c: { ...closed, mirror: () => true } })
      )
      assert.include(unfit, "b: writable")
      assert.include(unfit, "c: a mirror")
    }))
})
