import { assert, describe, it } from "@effect/vitest"
import * as Chunk from "effect/Chunk"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as LayerMap from "effect/LayerMap"
import * as Option from "effect/Option"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/TestClock"
import type { MemoryError } from "../../src/domain/MemoryError.ts"
import type { MemoryQuery } from "../../src/domain/MemoryFilter.ts"
import type { MemoryMutation } from "../../src/domain/MemoryMutation.ts"
import { type MemoryRecord, textHash } from "../../src/domain/MemoryRecord.ts"
import { Internal } from "../../src/domain/MemoryScope.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import * as Faulty from "../../src/storage/MemoryStore/Faulty.ts"
import * as Federated from "../../src/storage/MemoryStore/Federated.ts"
import { refuses } from "../../src/testing/Law.ts"
import { listen } from "../../src/testing/Listener.ts"
import { ada, bob, draft, fact, found, get, id, listed, put, system, the, whyNot } from "../../src/testing/Sample.ts"
import { stores } from "../stores.ts"

const memory = { layer: MemoryStore.layerInMemory, writable: true }
const faulty = (...plan: ReadonlyArray<Faulty.Fault>) => ({
  layer: Faulty.layer(...plan).pipe(Layer.provide(MemoryStore.layerInMemory)),
  writable: true
})
const byKind = { route: ({ kind }: { readonly kind: string }) => kind === "user" ? "facts" as const : undefined }
const notesAndFacts = Federated.layer({ notes: memory, facts: memory }, byKind)
const mirrored = Federated.layer({
  main: memory,
  copies: { layer: MemoryStore.layerInMemory, mirror: Federated.important }
})

type Together = readonly [store: MemoryStore.Service, federated: Federated.Service]

/** A law of one federation. */
const law = <E>(
  title: string,
  layer: Layer.Layer<MemoryStore.MemoryStore | Federated.Federated, E>,
  check: (...federation: Together) => Effect.Effect<unknown, unknown, Scope.Scope>
) =>
  it.scoped(
    title,
    () =>
      Effect.flatMap(Effect.all([MemoryStore.MemoryStore, Federated.Federated]), (both) => check(...both)).pipe(
        Effect.provide(layer)
      )
  )

/** What lies in one of them. */
const within = (federated: Federated.Service, name: string) => Effect.map(federated.get(name), ({ store }) => store)
const bodiesIn = (federated: Federated.Service, name: string) =>
  Effect.map(
    Effect.flatMap(within(federated, name), (store) => listed(store, system)),
    (bodies) => bodies.sort()
  )
const hitsOf = (store: Pick<MemoryStore.Service, "search">, query: MemoryQuery) =>
  Effect.map(
    store.search(ada, query),
    ({ hits }) => hits.map(({ alsoIn, record, store }) => [record.body, store, ...alsoIn ?? []])
  )
/** A store in memory that notes each call of its service and of its reader. */
const counted = (name: string, calls: Array<string>) =>
  Layer.map(MemoryStore.layerInMemory, (context) => {
    const noted = <A extends object>(prefix: string, target: A): A =>
      new Proxy(target, {
        get: (target, key) => {
          const value: unknown = Reflect.get(target, key)
          if (typeof value !== "function") return value
          return (...args: ReadonlyArray<unknown>) => {
            calls.push(`${prefix}.${String(key)}`)
            return Reflect.apply(value, target, args)
          }
        }
      })
    const store = Context.get(context, MemoryStore.MemoryStore)
    const reader = Option.map(store.reader, (reader) => noted(`${name}.reader`, reader))
    return Context.make(MemoryStore.MemoryStore, noted(name, { ...store, reader }))
  })
const update = (id: MemoryRecord["id"], body: string): MemoryMutation => ({ _tag: "Update", id, patch: { body } })
const Put = (draft: (MemoryMutation & { readonly _tag: "Put" })["draft"]): MemoryMutation => ({ _tag: "Put", draft })

describe("where a write goes", () => {
  law(
    "a new record goes where the route says, else to the primary: the first that is writable, unless said",
    notesAndFacts,
    (store, federated) =>
      Effect.gen(function*() {
        yield* store.put(ada, [draft("a note"), fact("a fact")])
        assert.deepStrictEqual(yield* bodiesIn(federated, "notes"), ["a note"])
        assert.deepStrictEqual(yield* bodiesIn(federated, "facts"), ["a fact"])
      })
  )

  law(
    "the primary that is named is",
    Federated.layer({ first: memory, second: memory }, { primary: "second" }),
    (store, federated) =>
      Effect.zipRight(
        put(store, draft("tea")),
        Effect.map(bodiesIn(federated, "second"), (bodies) => assert.deepStrictEqual(bodies, ["tea"]))
      )
  )

  law(
    "a change goes to the store that holds the id, whatever the route says now",
    notesAndFacts,
    (store, federated) =>
      Effect.gen(function*() {
        const tea = yield* put(store, fact("tea", { id: id("tea") }))
        const [{ outcome }] = (yield* store.put(ada, [draft("green tea", { id: tea.id })])) as [MemoryStore.Put] // one in, one out
        assert.strictEqual(outcome, "updated")
        assert.deepStrictEqual(yield* bodiesIn(federated, "facts"), ["green tea"])
        yield* store.update(ada, tea.id, { body: "black tea" })
        yield* store.forget(ada, [tea.id])
        assert.deepStrictEqual(yield* listed(store, system), [])
        yield* store.apply(ada, [{ _tag: "Restore", id: tea.id, revision: 3 }])
        assert.deepStrictEqual(yield* bodiesIn(federated, "facts"), ["black tea"])
        yield* store.forget(ada, [tea.id])
        yield* put(store, draft("a tombstone has its id", { id: tea.id }))
        assert.deepStrictEqual(yield* bodiesIn(federated, "notes"), [])
      })
  )

  law(
    "a route to a store that takes no writes, or is none, writes nothing",
    Federated.layer({ main: memory, archive: { layer: MemoryStore.layerInMemory } }, {
      route: ({ body }) => body === "main" ? undefined : body as "archive" // a caller without types says anything
    }),
    (store) =>
      Effect.gen(function*() {
        yield* refuses("read_only", store.put(ada, [draft("main"), draft("archive")]))
        const { message } = yield* refuses("not_found", store.put(ada, [draft("main"), draft("elsewhere")]))
        assert.include(message, "main, archive")
        assert.deepStrictEqual(yield* listed(store, system), [])
      })
  )

  it.effect("what lies in a read-only store is read, and refuses changes; unseen, it is absent, and its id taken", () =>
    Effect.gen(function*() {
      const shelf = yield* Layer.build(MemoryStore.layerInMemory)
      const below = Context.get(shelf, MemoryStore.MemoryStore)
      const tea = yield* put(below, draft("tea", { id: id("tea") }))
      const gone = yield* put(below, draft("gone", { id: id("gone") }))
      yield* below.forget(ada, [gone.id])
      const before = yield* below.history(system, gone.id)
      const federation = Federated.layer({ archive: { layer: Layer.succeedContext(shelf) }, main: memory })
      yield* Effect.gen(function*() {
        const store = yield* MemoryStore.MemoryStore
        const archive = yield* within(yield* Federated.Federated, "archive")
        assert.deepStrictEqual(yield* get(store, ada, tea.id), tea)
        assert.deepStrictEqual(yield* found(store, ada, { text: "tea" }), ["tea"])
        for (const one of [store, archive]) {
          for (
            const call of [
              one.put(ada, [draft("mine", { id: tea.id })]),
              one.update(ada, tea.id, { body: "mine" }),
              one.forget(ada, [tea.id], { purge: true }),
              one.apply(ada, [{ _tag: "Restore", id: tea.id, revision: 1 }])
            ]
          ) yield* refuses<"read_only", unknown>("read_only", call)
        }
        yield* refuses("read_only", archive.put(ada, [draft("new")]))
        yield* refuses("read_only", archive.apply(system, [{ _tag: "Restore", id: gone.id, revision: 1 }]))
        yield* refuses("not_found", store.update(bob, tea.id, { body: "mine" }))
        yield* refuses("not_found", store.apply(ada, [{ _tag: "Restore", id: gone.id, revision: 1 }]))
        yield* refuses("invalid_id", store.put(bob, [draft("mine", { id: tea.id, scope: "global" })]))
        assert.deepStrictEqual(yield* store.forget(bob, [tea.id], { purge: true }), [false])
        assert.deepStrictEqual(yield* below.history(system, gone.id), before)
        assert.deepStrictEqual(yield* below.history(system, tea.id), [tea])
      }).pipe(Effect.provide(federation))
    }).pipe(Effect.scoped))

  law(
    "without a writable store a federation is read-only",
    Federated.layer({ archive: { layer: MemoryStore.layerInMemory } }),
    (store) =>
      Effect.gen(function*() {
        assert.isFalse(store.capabilities.writable)
        yield* refuses("read_only", store.put(ada, [draft("tea")]))
        yield* refuses("read_only", store.update(ada, id("tea"), {}))
        assert.deepStrictEqual(yield* store.list(ada, {}), { items: [] })
      })
  )

  law(
    "an id put at once by many, to wherever, lies in one store",
    notesAndFacts,
    (store, federated) =>
      Effect.gen(function*() {
        const drafts = Array.from(
          { length: 20 },
          (_, n) => draft(String(n), { id: id("x"), kind: n % 2 ? "user" : "note2" })
        )
        yield* Effect.forEach(drafts, (one) => put(store, one), { concurrency: "unbounded" })
        const all = [...yield* bodiesIn(federated, "notes"), ...yield* bodiesIn(federated, "facts")]
        assert.lengthOf(all, 1)
        assert.strictEqual((yield* the(store, ada, id("x"))).revision, 20)
      })
  )

  law("a store by its name is no route's", notesAndFacts, (_, federated) =>
    Effect.gen(function*() {
      yield* put(yield* within(federated, "notes"), fact("fact"))
      assert.deepStrictEqual(yield* bodiesIn(federated, "notes"), ["fact"])
    }))

  law(
    "a store by its name takes what is new to itself, and changes wherever they belong",
    mirrored,
    (store, federated) =>
      Effect.gen(function*() {
        const extra = yield* federated.attach("extra", memory)
        const tea = yield* put(extra.store, draft("tea", { importance: 1 }))
        assert.deepStrictEqual(yield* bodiesIn(federated, "extra"), ["tea"])
        assert.deepStrictEqual(yield* bodiesIn(federated, "main"), [])
        assert.deepStrictEqual(yield* bodiesIn(federated, "copies"), ["tea"])
        const main = yield* within(federated, "main")
        yield* main.update(ada, tea.id, { body: "green tea" })
        assert.deepStrictEqual(yield* bodiesIn(federated, "extra"), ["green tea"])
        assert.deepStrictEqual(yield* bodiesIn(federated, "copies"), ["green tea"])
        assert.deepStrictEqual(yield* listed(store, ada), ["green tea"])
      })
  )

  law(
    "the library's own rows go where the batch goes, by no route, and are nobody's copies",
    Federated.layer({
      main: memory,
      facts: memory,
      copies: {
        layer: MemoryStore.layerInMemory,
        mirror: ({ scope }) => scope === Internal ? assert.fail("a row was shown to the rule") : true
      }
    }, {
      route: ({ kind, scope }) =>
        scope === Internal ? assert.fail("a row was routed") : kind === "user" ? "facts" : "main"
    }),
    (store, federated) =>
      Effect.gen(function*() {
        const row = (name: string) => Put(draft(name, { scope: Internal, kind: "outbox", id: id(name) }))
        yield* store.apply(system, [row("beside a fact"), Put(fact("fact"))])
        yield* store.apply(system, [row("alone")])
        assert.deepStrictEqual(yield* bodiesIn(federated, "facts"), ["beside a fact", "fact"])
        assert.deepStrictEqual(yield* bodiesIn(federated, "main"), ["alone"])
        assert.deepStrictEqual(yield* bodiesIn(federated, "copies"), ["fact"])
      })
  )
})

describe("a batch over several stores", () => {
  const both = (n: string) => [Put(draft(`note ${n}`)), Put(fact(`fact ${n}`))]

  law("is applied in all, and answered in the order given", notesAndFacts, (store) =>
    Effect.gen(function*() {
      const applied = yield* store.apply(ada, [...both("1"), ...both("2")])
      assert.deepStrictEqual(applied.map(({ record }) => record?.body), ["note 1", "fact 1", "note 2", "fact 2"])
    }))

  law("a later change finds what an earlier one put", notesAndFacts, (store, federated) =>
    Effect.gen(function*() {
      const named = Put(fact("tea", { id: id("tea") }))
      yield* store.apply(ada, [Put(draft("note")), named, update(id("tea"), "green tea")])
      assert.deepStrictEqual(yield* bodiesIn(federated, "facts"), ["green tea"])
    }))

  law("what one of them would refuse leaves no trace in any", notesAndFacts, (store) =>
    Effect.gen(function*() {
      const note = yield* put(store, draft("note"))
      for (
        const late of [{ ...update(id("nobody"), "x") }, Put(fact("x", { scope: { userId: "bob" } })), Put(fact(" "))]
      ) {
        yield* Effect.flip(store.apply(ada, [update(note.id, "changed"), Put(fact("fine")), late]))
        assert.deepStrictEqual(yield* store.history(system, note.id), [note])
        assert.deepStrictEqual(yield* listed(store, system), ["note"])
      }
    }))

  law(
    "where the second store fails, the first is put back as it was",
    Federated.layer({ notes: memory, facts: faulty({ ops: ["apply"], at: 2 }) }, byKind),
    (store) =>
      Effect.gen(function*() {
        const kept = yield* put(store, draft("kept"))
        const going = yield* put(store, draft("going"))
        yield* put(store, fact("fact"))
        const { message } = yield* refuses(
          "io",
          store.apply(ada, [
            update(kept.id, "changed"),
            Put(draft("new")),
            { _tag: "Forget", id: going.id },
            Put(fact("new"))
          ])
        )
        assert.include(message, "on purpose")
        assert.deepStrictEqual((yield* listed(store, ada)).sort(), ["fact", "going", "kept"])
        const { revision: _, ...before } = { ...kept }
        const { revision, ...after } = { ...yield* the(store, ada, kept.id) }
        assert.deepStrictEqual([after, revision], [before, 3])
      })
  )

  law(
    "what cannot be put back is done last",
    Federated.layer({ notes: memory, facts: faulty({ ops: ["apply"], at: 1 }) }, byKind),
    (store) =>
      Effect.gen(function*() {
        const note = yield* put(store, draft("note"))
        yield* refuses("io", store.apply(ada, [{ _tag: "Forget", id: note.id, purge: true }, Put(fact("fact"))]))
        assert.deepStrictEqual(yield* store.history(system, note.id), [note])
      })
  )
})

describe("mirrors", () => {
  law(
    "what the rule says is copied as it is: id, content, and where it comes from; nothing else is",
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
    "a copy follows every change, whatever the rule says by then; purged, nothing of it is left",
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
    "a copy is no second record: in get, list, search, history, changes, tenants, uses and counts",
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
    "a write that is interrupted has its copy, or is not there",
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

  law("what changes nothing is not copied again", mirrored, (store, federated) =>
    Effect.gen(function*() {
      const tea = yield* put(store, fact("tea", { importance: 1 }))
      assert.strictEqual((yield* put(store, fact("tea", { importance: 1 }))).id, tea.id)
      assert.strictEqual((yield* the(yield* within(federated, "copies"), ada, tea.id)).revision, 1)
    }))

  it.scoped("a copy that another federation made is told by nobody either", () =>
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
    "an id that was a copy's, and is a record's now, is told again",
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
    "a mirror that fails does not fail the write, and the next write of the record mends it",
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
    "a mirror that cannot even be asked does not fail a write, not of an id of one's own either",
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
    "what is to be gone and is not, everywhere, is an error; it is out of sight, and done again it is gone",
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
    "what was purged but for its copy is not said to be purged, and can be",
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
    "a copy answers where the store of the record does not",
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

  it.scoped("an update that found no copy of a record whose first copy was on its way leaves the copy as the record is", () =>
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

  it.effect("an update with a mirror makes four calls of its members, a forget four, a put of a new record four", () =>
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
          ["main.apply", "main.reader.read", "copies.reader.read", "copies.apply"] // its id is known once it is written
        )
        const tea = yield* put(store, draft("green tea", { id: id("tea") }))
        assert.deepStrictEqual(yield* callsOf(store.update(ada, tea.id, { body: "black tea" })), around)
        assert.deepStrictEqual(yield* callsOf(store.put(ada, [draft("white tea", { id: tea.id })])), around)
        assert.deepStrictEqual(yield* callsOf(store.forget(ada, [tea.id])), around)
        assert.deepStrictEqual(yield* callsOf(store.forget(ada, [tea.id], { purge: true })), [
          ...around.slice(0, 3),
          "main.reader.read", // what was absent before may have been purged, or be out of sight
          "copies.apply"
        ])
      }).pipe(Effect.provide(federation))
    }))

  it("important is .75 and more", () => {
    const record = (importance: number) => ({ importance }) as MemoryRecord // all that is looked at
    assert.deepStrictEqual([0.74, 0.75, 1].map((n) => Federated.important(record(n))), [false, true, true])
  })
})

describe("search", () => {
  law("no store takes every place: the best of each come first", notesAndFacts, (store) =>
    Effect.gen(function*() {
      yield* store.put(
        ada,
        Array.from({ length: 9 }, (_, n) => draft(`tea ${"x".repeat(n + 1)} and ${"y".repeat(n + 1)}`))
      )
      yield* TestClock.adjust("1 second")
      yield* store.put(ada, [fact("on tea, in a longer text than any"), fact("a remark about this and that, and tea")])
      const { hits, leftOut } = yield* store.search(ada, { text: "tea", limit: 4 })
      assert.deepStrictEqual(new Set(hits.slice(0, 2).map(({ store }) => store)), new Set(["notes", "facts"]))
      assert.deepStrictEqual([hits.length, leftOut.limit], [4, 7])
      assert.deepStrictEqual(hits.map(({ score }) => score), hits.map(({ score }) => score).sort((a, b) => b - a))
    }))

  law(
    "texts that say the same in two stores are one hit, which says where it is too; without words they are two",
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
    "a hit that others put out of the limit or the budget is said to be beyond it",
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
    "one store alone answers as it does by itself, and says its name",
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
    "each gives at most what is asked of all, else its own, else 3; the limit is of all together",
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
    "a name that is none is not_found, and says which there are, before any store is asked",
    Federated.layer({ a: faulty({ ops: ["search"], fault: "crash" }), b: memory }),
    (_, federated) =>
      Effect.gen(function*() {
        const { message } = yield* refuses("not_found", federated.search(ada, {}, { stores: ["a", "c"] }))
        assert.include(message, "a, b")
        assert.include((yield* refuses("not_found", federated.get("c"))).message, "a, b")
      })
  )

  law(
    "a store that fails is reported beside what the others found",
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
    "where all fail it is an error: the one they share, else unavailable, naming them",
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

  it.effect("what a member did not look at exhaustively, the federation did not either", () =>
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

  it.effect("a leg that one of them lacks is said of it, a leg that all lack is said once", () =>
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

describe("what a store that fails hides", () => {
  law(
    "is not taken for absence, by id or in a list; what was found elsewhere is sure",
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
    "is not written over: a change waits for a store that may hold the record",
    Federated.layer({ a: faulty({ ops: ["reader"], at: 1 }), b: memory }),
    (store, federated) =>
      Effect.gen(function*() {
        const mine = yield* put(store, draft("mine"))
        yield* refuses("io", store.update(ada, mine.id, { body: "changed" }))
        assert.deepStrictEqual(yield* bodiesIn(federated, "a"), ["mine"])
      })
  )
})

describe("what somebody's own code does", () => {
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
    "a store that never ends a write holds up no write of another's, by id or without",
    Federated.layer(
      { notes: memory, facts: over(() => ({ apply: () => Effect.never, put: () => Effect.never })) },
      byKind
    ),
    (store, federated) =>
      Effect.gen(function*() {
        yield* Effect.forkDaemon(store.put(ada, [fact("hangs", { id: id("hangs") })])) // nobody could interrupt it
        yield* Effect.forkDaemon(store.put(ada, [fact("hangs too")]))
        yield* Effect.yieldNow()
        const tea = yield* put(store, draft("tea", { id: id("tea") }))
        yield* put(store, draft("green tea"))
        yield* store.update(ada, tea.id, { body: "black tea" })
        assert.deepStrictEqual(yield* bodiesIn(federated, "notes"), ["black tea", "green tea"])
      })
  )

  law(
    "a store that dies of a search is one that failed",
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
    "a mirror's rule that throws leaves the write as it is, and a copy behind",
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
    "a route that throws writes nothing, and says so",
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

describe("together", () => {
  law(
    "pages are of all stores, in one order, complete and without doubles",
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
    "a copy that came later than its record is paged where the record is",
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
        yield* store.apply(ada, [{ _tag: "Restore", id: old.id, revision: 1 }]) // as old as ever
        for (const limit of [1, 2, 5, 6]) {
          const streamed = Chunk.toReadonlyArray(yield* Stream.runCollect(store.stream(ada, { limit })))
          assert.deepStrictEqual(streamed.map(({ body }) => body), ["4", "3", "2", "1", "0", "old"])
        }
      })
  )

  law(
    "copies that fill a page hide nothing that comes after them",
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

  law("links lead from one store to another, and back; names too", notesAndFacts, (store) =>
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
    }))

  law("vectors are kept by whoever has the text", notesAndFacts, (store, federated) =>
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
    }))

  law("tenants are apart in every store, and all are told", notesAndFacts, (store) =>
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
    }))

  law(
    "whoever does not see a record is answered by every call as if it were nowhere",
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
        ) { // of one shape each
          assert.deepStrictEqual(yield* unseen, yield* seen)
        }
        yield* refuses("not_found", store.update(bob, tea.id, { body: "x" }))
        yield* refuses("not_found", store.apply(bob, [{ _tag: "Restore", id: tea.id, revision: 0 }]))
        yield* refuses("invalid_id", store.put(bob, [draft("x", { id: tea.id, scope: "global" })]))
        assert.deepStrictEqual(yield* heard, [])
        assert.deepStrictEqual(yield* bodiesIn(federated, "copies"), ["tea"])
        assert.deepStrictEqual(yield* store.history(ada, tea.id), [tea])
      })
  )

  it.scoped("it can what all that take writes can; tools are everyone's, in order", () =>
    Effect.gen(function*() {
      const tool = (name: string) => ({ name }) as never // all that is looked at
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

describe("stores that come and go", () => {
  law(
    "two entries of one layer are two stores",
    Federated.layer({ a: memory, b: memory }),
    (store, federated) =>
      Effect.gen(function*() {
        yield* put(store, draft("tea"))
        assert.deepStrictEqual([yield* bodiesIn(federated, "a"), yield* bodiesIn(federated, "b")], [["tea"], []])
      })
  )

  law(
    "a store is there while its scope is, in order of arrival, and no name is twice",
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

  law("one of two that take a name at once has it", mirrored, (_, federated) =>
    Effect.gen(function*() {
      const slow = { ...memory, layer: Layer.tap(MemoryStore.layerInMemory, () => Effect.yieldNow()) }
      const both = yield* Effect.all([
        Effect.exit(federated.attach("x", slow)),
        Effect.exit(federated.attach("x", slow))
      ], { concurrency: 2 })
      assert.lengthOf(both.filter(Exit.isSuccess), 1)
      assert.lengthOf((yield* federated.stores).filter(({ name }) => name === "x"), 1)
    }))

  law("who listens hears of stores that come, until they go", mirrored, (store, federated) =>
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
    }))

  law("they come and go while others search, and nobody fails", mirrored, (store, federated) =>
    Effect.gen(function*() {
      yield* put(store, draft("tea"))
      const come = Effect.scoped(Effect.gen(function*() {
        const { store } = yield* federated.attach("extra", memory)
        yield* put(store, draft("more tea"))
        yield* Effect.repeatN(Effect.yieldNow(), 50) // long enough for a search to begin and end meanwhile
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
    }))

  it.scoped("they come and go by a LayerMap", () =>
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

describe("a configuration", () => {
  it.effect("that does not fit is refused, with all that is wrong with it", () =>
    Effect.gen(function*() {
      const issues = <E>(layer: Layer.Layer<MemoryStore.MemoryStore, E>) =>
        Effect.map(
          Effect.flip(Effect.scoped(Layer.build(layer))),
          (error) =>
            [...((error as MemoryError).detail as { readonly issues: ReadonlyArray<string> }).issues].join("\n") // as refused
        )
      assert.include(yield* issues(Federated.layer({})), "at least")
      const all = yield* issues(
        Federated.layer({ "": memory, b: { ...memory, maxResults: 1_001 }, c: { layer: MemoryStore.layerInMemory } }, {
          primary: "c"
        })
      )
      for (const one of ["1..64", "b: maxResults", "primary: c is read-only"]) assert.include(all, one)
      assert.include(yield* issues(Federated.layer({ a: memory }, { primary: "x" as "a" })), "there is no store x") // without types
      const closed = { layer: Federated.layer({ a: { layer: MemoryStore.layerInMemory } }) }
      const unfit = yield* issues(
        Federated.layer({ b: { ...closed, writable: true }, c: { ...closed, mirror: () => true } })
      )
      assert.include(unfit, "b: writable")
      assert.include(unfit, "c: a mirror")
    }))
})
