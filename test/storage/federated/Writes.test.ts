import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type { MemoryId } from "../../../src/domain/MemoryId.ts"
import type { MemoryMutation } from "../../../src/domain/MemoryMutation.ts"
import { Internal } from "../../../src/domain/MemoryScope.ts"
import * as MemoryStore from "../../../src/storage/MemoryStore.ts"
import * as Federated from "../../../src/storage/MemoryStore/Federated.ts"
import { refuses } from "../../../src/testing/Law.ts"
import { ada, bob, draft, fact, found, get, id, listed, put, system, the } from "../../../src/testing/Sample.ts"
import { bodiesIn, byKind, faulty, law, memory, mirrored, notesAndFacts, Put, update, within } from "./World.ts"

describe("a write to a federation", () => {
  law(
    "a new record is written to the store that the route names, or by default to the first writable store",
    notesAndFacts,
    (store, federated) =>
      Effect.gen(function*() {
        yield* store.put(ada, [draft("a note"), fact("a fact")])
        assert.deepStrictEqual(yield* bodiesIn(federated, "notes"), ["a note"])
        assert.deepStrictEqual(yield* bodiesIn(federated, "facts"), ["a fact"])
      })
  )

  law(
    "a new record is written to the store that the option `primary` names if there is no route",
    Federated.layer({ first: memory, second: memory }, { primary: "second" }),
    (store, federated) =>
      Effect.zipRight(
        put(store, draft("tea")),
        Effect.map(bodiesIn(federated, "second"), (bodies) => assert.deepStrictEqual(bodies, ["tea"]))
      )
  )

  law(
    "a change of a record is written to the store that has the record, even if the route names another store",
    notesAndFacts,
    (store, federated) =>
      Effect.gen(function*() {
        const tea = yield* put(store, fact("tea", { id: id("tea") }))
        const [{ outcome }] = (yield* store.put(ada, [draft("green tea", { id: tea.id })])) as [MemoryStore.Put] // one result per draft
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
    "a write fails and changes nothing if the route names a read-only or unknown store",
    Federated.layer({ main: memory, archive: { layer: MemoryStore.layerInMemory } }, {
      route: ({ body }) => body === "main" ? undefined : body as "archive" // an untyped route may return any name
    }),
    (store) =>
      Effect.gen(function*() {
        yield* refuses("read_only", store.put(ada, [draft("main"), draft("archive")]))
        const { message } = yield* refuses("not_found", store.put(ada, [draft("main"), draft("elsewhere")]))
        assert.include(message, "main, archive")
        assert.deepStrictEqual(yield* listed(store, system), [])
      })
  )

  it.effect("a write to a visible record of a read-only store fails with `read_only`", () =>
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
        const { transact } = Option.getOrThrow(archive.reader)
        const needs = { ids: [tea.id], dedupeKeys: [], revisions: [] }
        const purge = () => Either.right({ writes: [{ id: tea.id, next: undefined }], answer: undefined })
        yield* refuses<"read_only", unknown>("read_only", transact("default", needs, purge))
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
    "a write fails with `read_only` if no store is writable",
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
    "concurrent puts with the same id all write to one store, even if their drafts have different routes",
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

  law(
    "`put` called on a member store writes a new record to that member, even if the route names another store",
    notesAndFacts,
    (_, federated) =>
      Effect.gen(function*() {
        yield* put(yield* within(federated, "notes"), fact("fact"))
        assert.deepStrictEqual(yield* bodiesIn(federated, "notes"), ["fact"])
      })
  )

  law(
    "a member store adds new records to itself, and writes a change of a record to the store that has the record",
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
    "a record in the scope `Internal` goes to the same store as the rest of its batch, and is not routed or mirrored",
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

describe("a batch over several stores of a federation", () => {
  const both = (n: string) => [Put(draft(`note ${n}`)), Put(fact(`fact ${n}`))]

  law(
    "a batch over several stores returns one result per mutation, in the order of the mutations",
    notesAndFacts,
    (store) =>
      Effect.gen(function*() {
        const applied = yield* store.apply(ada, [...both("1"), ...both("2")])
        assert.deepStrictEqual(applied.map(({ record }) => record?.body), ["note 1", "fact 1", "note 2", "fact 2"])
      })
  )

  law(
    "a batch can put a record and then update the same record",
    notesAndFacts,
    (store, federated) =>
      Effect.gen(function*() {
        const named = Put(fact("tea", { id: id("tea") }))
        yield* store.apply(ada, [Put(draft("note")), named, update(id("tea"), "green tea")])
        assert.deepStrictEqual(yield* bodiesIn(federated, "facts"), ["green tea"])
      })
  )

  law(
    "a batch changes nothing in any store if one mutation is refused",
    notesAndFacts,
    (store) =>
      Effect.gen(function*() {
        const note = yield* put(store, draft("note"))
        for (
          const late of [{ ...update(id("nobody"), "x") }, Put(fact("x", { scope: { userId: "bob" } })), Put(fact(" "))]
        ) {
          yield* Effect.flip(store.apply(ada, [update(note.id, "changed"), Put(fact("fine")), late]))
          assert.deepStrictEqual(yield* store.history(system, note.id), [note])
          assert.deepStrictEqual(yield* listed(store, system), ["note"])
        }
      })
  )

  law(
    "a batch is undone in the first store if the second store fails",
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
    "a failed batch with purges in both stores is undone, except for the purges that the first store already made",
    Federated.layer({ notes: memory, facts: faulty({ ops: ["apply"], at: 2 }) }, byKind),
    (store) =>
      Effect.gen(function*() {
        const [kept, gone, anew] = yield* Effect.forEach(["kept", "gone", "anew"], (body) => put(store, draft(body)))
        const tea = yield* put(store, fact("fact"))
        const purge = ({ id }: { readonly id: MemoryId }): MemoryMutation => ({ _tag: "Forget", id, purge: true })
        yield* refuses(
          "io",
          store.apply(ada, [
            update(gone!.id, "changed"),
            purge(gone!),
            update(kept!.id, "changed"),
            purge(anew!),
            Put(draft("created again", { id: anew!.id })),
            Put(draft("new")),
            purge(tea)
          ])
        )
        assert.deepStrictEqual((yield* listed(store, ada)).sort(), ["fact", "kept"])
      })
  )

  law(
    "a batch with purges in one store purges nothing if its write to another store fails",
    Federated.layer({ notes: memory, facts: faulty({ ops: ["apply"], at: 1 }) }, byKind),
    (store) =>
      Effect.gen(function*() {
        const note = yield* put(store, draft("note"))
        yield* refuses("io", store.apply(ada, [{ _tag: "Forget", id: note.id, purge: true }, Put(fact("fact"))]))
        assert.deepStrictEqual(yield* store.history(system, note.id), [note])
      })
  )
})
