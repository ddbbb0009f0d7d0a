import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as TestClock from "effect/TestClock"
import type { MemoryError } from "../../../src/domain/MemoryError.ts"
import { type MemoryRecord } from "../../../src/domain/MemoryRecord.ts"
import * as MemoryStore from "../../../src/storage/MemoryStore.ts"
import * as Federated from "../../../src/storage/MemoryStore/Federated.ts"
import { refuses } from "../../../src/testing/Law.ts"
import { listen } from "../../../src/testing/Listener.ts"
import { ada, draft, fact, found, get, id, listed, put, system, the } from "../../../src/testing/Sample.ts"
import { bodiesIn, counted, faulty, law, memory, mirrored, within } from "./World.ts"

describe("mirrors of a federation (stores that get copies of records)", () => {
  law(
    "a mirror gets copies of exactly the records that its rule selects, with the same id, content and source",
    mirrored,
    (store, federated) =>
      Effect.gen(function*() {
        const whole = draft("tea", {
          importance: 0.9,
          tags: ["hot"],
          data: { n: 1 },
          metadata: { m: [1] },
          validAt: 5,
          links: [{ to: id("x"), type: "t", weight: 0.5 }],
          source: { reference: "r", session: "s", sequence: 3 }
        })
        const tea = yield* put(store, whole, ada, { origin: "import", trust: 2 })
        yield* put(store, draft("unimportant"))
        yield* store.apply(ada, [{ _tag: "Update", id: tea.id, patch: { supersededBy: id("x") } }], { trust: 2 })
        const copies = yield* within(federated, "copies")
        assert.deepStrictEqual(yield* listed(copies, system), ["tea"])
        const { revision: _, ...copy } = { ...yield* the(copies, ada, tea.id) }
        const { revision: _r, ...original } = { ...yield* the(store, ada, tea.id) }
        assert.deepStrictEqual(copy, original)
      })
  )

  law(
    "a mirror repeats every change of a copied record, even if its rule no longer selects the record",
    mirrored,
    (store, federated) =>
      Effect.gen(function*() {
        const copies = yield* within(federated, "copies")
        const tea = yield* put(store, draft("tea", { importance: 1 }))
        yield* store.update(ada, tea.id, { body: "green tea", importance: 0 })
        assert.strictEqual((yield* the(copies, ada, tea.id)).body, "green tea")
        yield* store.forget(ada, [tea.id])
        assert.isUndefined(yield* get(copies, ada, tea.id))
        yield* store.apply(ada, [{ _tag: "Restore", id: tea.id, revision: 1 }])
        assert.strictEqual((yield* the(copies, ada, tea.id)).body, "tea")
        yield* store.forget(ada, [tea.id], { purge: true })
        assert.deepStrictEqual(yield* copies.history(system, tea.id), [])
      })
  )

  law(
    "the copies in a mirror cause no duplicates in any read, such as `list`, `search` or `changes`",
    mirrored,
    (store) =>
      Effect.gen(function*() {
        const told = yield* listen(store, ada)
        const tea = yield* put(store, draft("tea", { importance: 1, expiresAt: 5_000 }))
        const after = yield* store.update(ada, tea.id, { body: "green tea" })
        assert.deepStrictEqual(yield* get(store, ada, tea.id), after)
        assert.deepStrictEqual(yield* store.list(ada, { limit: 1 }), { items: [after] })
        for (const query of [{}, { text: "tea" }]) {
          const { hits, leftOut } = yield* store.search(ada, query)
          assert.deepStrictEqual([hits.length, hits[0]?.store, hits[0]?.alsoIn], [1, "main", ["copies"]])
          assert.deepStrictEqual(leftOut, { limit: 0, budget: 0, folded: 0 })
        }
        const embedding = { model: "m", vector: [1, 0] }
        assert.strictEqual((yield* store.search(ada, { embedding, mode: "vector" })).awaiting, 1)
        assert.deepStrictEqual((yield* store.history(ada, tea.id)).map(({ revision }) => revision), [2, 1])
        yield* store.touch(ada, [tea.id])
        assert.deepStrictEqual((yield* store.uses(ada, [tea.id])).map(({ count }) => count), [1])
        assert.deepStrictEqual(yield* store.tenants, ["default"])
        assert.deepStrictEqual((yield* told).map(({ _tag }) => _tag), ["Written", "Written"])
        yield* put(store, draft("more tea", { importance: 1 }))
        assert.deepEqual((yield* store.search(ada, { text: "tea", limit: 1 })).leftOut, {
          limit: 1,
          budget: 0,
          folded: 0
        })
        yield* TestClock.adjust("5 seconds")
        assert.strictEqual(yield* store.compact, 1)
        assert.isUndefined(yield* get(store, system, tea.id))
      })
  )

  law(
    "a mirror gets a copy of each selected record that is written, even if the write is interrupted",
    mirrored,
    (store, federated) =>
      Effect.gen(function*() {
        for (let n = 0; n < 30; n++) {
          const writing = yield* Effect.fork(put(store, draft(String(n), { importance: 1 })))
          for (let tick = 0; tick < n; tick++) yield* Effect.yieldNow()
          yield* Fiber.interrupt(writing)
        }
        assert.deepStrictEqual(yield* bodiesIn(federated, "copies"), yield* bodiesIn(federated, "main"))
      })
  )

  law("a put of a duplicate writes nothing to a mirror", mirrored, (store, federated) =>
    Effect.gen(function*() {
      const tea = yield* put(store, fact("tea", { importance: 1 }))
      assert.strictEqual((yield* put(store, fact("tea", { importance: 1 }))).id, tea.id)
      assert.strictEqual((yield* the(yield* within(federated, "copies"), ada, tea.id)).revision, 1)
    }))

  it.scoped("two federations share a store and a mirror: a record that one federation writes is emitted by the other as one change", () =>
    Effect.gen(function*() {
      const [main, copies] = [
        yield* Layer.build(MemoryStore.layerInMemory),
        yield* Layer.build(MemoryStore.layerInMemory)
      ]
      const federation = Federated.layer({
        main: { layer: Layer.succeedContext(main), writable: true },
        copies: { layer: Layer.succeedContext(copies), mirror: () => true }
      })
      const one = Effect.map(Layer.build(Layer.fresh(federation)), Context.get(MemoryStore.MemoryStore))
      const [here, there] = [yield* one, yield* one]
      const heard = yield* listen(here, ada, "global", there)
      const tea = yield* put(there, draft("tea"))
      assert.deepEqual([...yield* heard, ...yield* heard], [{ _tag: "Written", record: tea, by: "here" }])
    }))

  law(
    "a record written directly to a mirror is emitted as a change, even if a purged copy had the same id",
    Federated.layer({ main: memory, copies: { ...memory, mirror: () => true } }),
    (store, federated) =>
      Effect.gen(function*() {
        const heard = yield* listen(store, ada)
        yield* put(store, draft("tea", { id: id("tea") }))
        yield* store.forget(ada, [id("tea")], { purge: true })
        assert.lengthOf(yield* heard, 2)
        const own = yield* put(yield* within(federated, "copies"), draft("tea", { id: id("tea") }))
        assert.deepEqual(yield* heard, [{ _tag: "Written", record: own, by: "here" }])
      })
  )

  law(
    "a write succeeds although a mirror fails, and the next write of the record brings the mirror up to date",
    Federated.layer({
      main: memory,
      copies: { ...faulty({ ops: ["apply"], at: 1 }), writable: false, mirror: () => true }
    }),
    (store, federated) =>
      Effect.gen(function*() {
        const tea = yield* put(store, draft("tea"))
        assert.deepStrictEqual(yield* bodiesIn(federated, "copies"), [])
        yield* store.update(ada, tea.id, { tags: ["hot"] })
        assert.deepStrictEqual(yield* bodiesIn(federated, "copies"), ["tea"])
      })
  )

  law(
    "`put` with a chosen id and `update` succeed although a mirror with `writable: false` can be neither read nor written",
    Federated.layer({
      main: memory,
      copies: { ...faulty({ ops: ["get", "reader", "apply"] }), writable: false, mirror: () => true }
    }),
    (store) =>
      Effect.gen(function*() {
        const tea = yield* put(store, draft("tea", { id: id("tea") }))
        yield* store.update(ada, tea.id, { body: "green tea" })
        assert.strictEqual((yield* the(store, ada, tea.id)).body, "green tea")
      })
  )

  law(
    "a put with a chosen id fails and writes nothing to the main store if a writable mirror cannot be read",
    Federated.layer({
      main: memory,
      closed: { ...faulty({ ops: ["get", "reader"] }), writable: false, mirror: () => true },
      open: { ...faulty({ ops: ["get", "reader"], fault: "unavailable" }), mirror: () => true }
    }),
    (store, federated) =>
      Effect.gen(function*() {
        yield* refuses("unavailable", store.put(ada, [draft("tea", { id: id("tea") })]))
        assert.deepStrictEqual(yield* bodiesIn(federated, "main"), [])
      })
  )

  it.scoped("`put` accepts the id of a record that was written directly to a mirror and forgotten there", () =>
    Effect.gen(function*() {
      for (const viewer of [ada, system]) {
        const copies = yield* Layer.build(Layer.fresh(MemoryStore.layerInMemory))
        const below = Context.get(copies, MemoryStore.MemoryStore)
        const { id } = yield* put(below, draft("tea"))
        yield* below.forget(ada, [id])
        yield* Effect.gen(function*() {
          const store = yield* MemoryStore.MemoryStore
          yield* refuses("conflict", store.put(viewer, [draft("green tea", { id })], { ifRevision: 2 }))
          yield* put(store, draft("green tea", { id }), viewer)
          assert.deepStrictEqual(yield* bodiesIn(yield* Federated.Federated, "main"), ["green tea"])
        }).pipe(Effect.provide(
          Federated.layer({ main: memory, copies: { layer: Layer.succeedContext(copies), mirror: () => true } })
        ))
      }
    }))

  law(
    "`forget` fails with the mirror's error if the copy in the mirror remains, and a second `forget` removes the copy",
    Federated.layer({
      main: memory,
      copies: { ...faulty({ ops: ["apply"], at: 2 }), writable: false, mirror: () => true }
    }),
    (store, federated) =>
      Effect.gen(function*() {
        const tea = yield* put(store, draft("tea"))
        const { message } = yield* refuses("io", store.forget(ada, [tea.id]))
        assert.include(message, "a copy remains in copies")
        assert.isUndefined(yield* get(store, ada, tea.id))
        assert.deepStrictEqual(yield* listed(store, ada), [])
        assert.deepStrictEqual(yield* found(store, ada, { text: "tea" }), [])
        assert.deepStrictEqual(yield* store.forget(ada, [tea.id]), [false])
        assert.deepStrictEqual(yield* bodiesIn(federated, "copies"), [])
      })
  )

  law(
    "a purge fails with the mirror's error if the mirror cannot remove its copy, and a second purge removes the copy",
    Federated.layer({
      main: memory,
      copies: { ...faulty({ ops: ["apply"], at: 2 }), writable: false, mirror: () => true }
    }),
    (store, federated) =>
      Effect.gen(function*() {
        const tea = yield* put(store, draft("tea"))
        yield* refuses("io", store.forget(ada, [tea.id], { purge: true }))
        yield* refuses("read_only", store.update(ada, tea.id, { body: "green tea" }))
        assert.deepStrictEqual(yield* store.forget(ada, [tea.id], { purge: true }), [true])
        assert.deepStrictEqual(yield* bodiesIn(federated, "copies"), [])
        assert.deepStrictEqual(yield* store.history(system, tea.id), [])
      })
  )

  law(
    "`get` and `search` answer from the copies in a mirror if the store of the original records fails",
    Federated.layer({
      main: faulty({ ops: ["get"], at: 1 }, { ops: ["search"], at: 1 }),
      copies: { layer: MemoryStore.layerInMemory, mirror: () => true }
    }),
    (store) =>
      Effect.gen(function*() {
        const tea = yield* put(store, draft("tea"))
        assert.strictEqual((yield* the(store, ada, tea.id)).body, "tea")
        const { failures, hits } = yield* store.search(ada, { text: "tea" })
        assert.deepStrictEqual([hits[0]?.store, failures.map(({ leg }) => leg)], ["copies", ["main"]])
      })
  )

  it.scoped("a mirror gets the updated record, even if the update is made before the first copy is written", () =>
    Effect.gen(function*() {
      const reached = yield* Deferred.make<void>()
      const gate = yield* Effect.makeLatch(false)
      const copies = Layer.map(MemoryStore.layerInMemory, (context) => {
        const store = Context.get(context, MemoryStore.MemoryStore)
        return Context.make(MemoryStore.MemoryStore, {
          ...store,
          apply: (...call: Parameters<typeof store.apply>) =>
            Deferred.succeed(reached, undefined).pipe(
              Effect.zipRight(gate.await),
              Effect.zipRight(store.apply(...call))
            )
        })
      })
      const layer = Federated.layer({
        main: memory,
        copies: { layer: copies, mirror: ({ importance }) => importance >= 0.75 }
      })
      yield* Effect.gen(function*() {
        const store = yield* MemoryStore.MemoryStore
        const federated = yield* Federated.Federated
        const putting = yield* Effect.fork(put(store, fact("tea", { importance: 0.9 })))
        yield* Deferred.await(reached)
        const [tea] = (yield* store.list(ada, {})).items
        const updating = yield* Effect.fork(store.update(ada, tea!.id, { importance: 0.1 }))
        const main = yield* within(federated, "main")
        yield* Effect.repeat(Effect.zipRight(Effect.yieldNow(), the(main, ada, tea!.id)), {
          until: ({ importance }) => importance === 0.1
        })
        yield* gate.open
        yield* Fiber.join(putting)
        yield* Fiber.join(updating)
        assert.strictEqual((yield* the(yield* within(federated, "copies"), ada, tea!.id)).importance, 0.1)
      }).pipe(Effect.provide(layer))
    }))

  it.effect("a put or an update makes four store calls in a federation of one store and one mirror", () =>
    Effect.gen(function*() {
      const calls: Array<string> = []
      const federation = Federated.layer({
        main: { layer: counted("main", calls), writable: true },
        copies: { layer: counted("copies", calls), mirror: () => true }
      })
      yield* Effect.gen(function*() {
        const store = yield* MemoryStore.MemoryStore
        const callsOf = (change: Effect.Effect<unknown, MemoryError>) =>
          Effect.suspend(() => {
            calls.length = 0
            return Effect.map(change, () => calls.slice())
          })
        const around = ["main.reader.read", "copies.reader.read", "main.apply", "copies.apply"]
        assert.deepStrictEqual(
          yield* callsOf(store.put(ada, [draft("tea")])),
          ["main.apply", "main.reader.read", "copies.reader.read", "copies.apply"] // the id is known only after the write
        )
        const tea = yield* put(store, draft("green tea", { id: id("tea") }))
        assert.deepStrictEqual(yield* callsOf(store.update(ada, tea.id, { body: "black tea" })), around)
        assert.deepStrictEqual(yield* callsOf(store.put(ada, [draft("white tea", { id: tea.id })])), around)
        assert.deepStrictEqual(yield* callsOf(store.forget(ada, [tea.id])), around)
        assert.deepStrictEqual(yield* callsOf(store.forget(ada, [tea.id], { purge: true })), [
          ...around.slice(0, 3),
          "main.reader.read", // an absent record may have been purged, or be invisible
          "copies.apply"
        ])
      }).pipe(Effect.provide(federation))
    }))

  it("the rule Federated.important selects records with an importance of 0.75 or more", () => {
    const record = (importance: number) => ({ importance }) as MemoryRecord // the rule reads no other field
    assert.deepStrictEqual([0.74, 0.75, 1].map((n) => Federated.important(record(n))), [false, true, true])
  })
})
