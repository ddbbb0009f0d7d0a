/** Tests forgotten records in overlays and federations, which consist of other stores. `src/testing/laws/Trash.ts` tests every store. */
import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/TestClock"
import type { MemoryFilter } from "../../src/domain/MemoryFilter.ts"
import type { MemoryMutation } from "../../src/domain/MemoryMutation.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import * as Federated from "../../src/storage/MemoryStore/Federated.ts"
import * as Overlay from "../../src/storage/MemoryStore/Overlay.ts"
import { ada, bob, draft, get, id, listed, put, system } from "../../src/testing/Sample.ts"

const trashed = (store: MemoryStore.Service, viewer: Viewer.Any = ada, filter: MemoryFilter = {}) =>
  Effect.map(listed(store, viewer, { ...filter, forgotten: true }), (bodies) => bodies.sort())

const branchOf = (below: MemoryStore.Service, layer = Overlay.layer) =>
  Layer.build(Layer.provide(layer, Layer.succeed(MemoryStore.MemoryStore, below)))

describe("an Overlay", () => {
  it.scoped("an Overlay lists its own forgotten records and those of its base store", () =>
    Effect.gen(function*() {
      const below = yield* MemoryStore.MemoryStore
      for (const body of ["a", "b", "c", "d"]) yield* put(below, draft(body, { id: id(body) }))
      yield* put(below, draft("Bob's", { id: id("bob's"), scope: { userId: "bob" } }), bob)
      yield* below.forget(system, ["a", "b", "c", "bob's"].map((name) => id(name)))
      const context = yield* branchOf(below)
      const branch = Context.get(context, MemoryStore.MemoryStore)
      assert.deepStrictEqual(yield* trashed(branch), ["a", "b", "c"])
      assert.deepStrictEqual(yield* trashed(branch, system, { ids: [id("a"), id("bob's"), id("d")] }), ["Bob's", "a"])

      yield* branch.forget(ada, [id("d")])
      yield* branch.apply(ada, [{ _tag: "Restore", id: id("a"), revision: 1 }])
      yield* branch.forget(ada, [id("b")], { purge: true })
      assert.deepStrictEqual(yield* trashed(branch), ["c", "d"])
      assert.deepStrictEqual(yield* listed(branch, ada), ["a"])
      assert.deepStrictEqual(yield* trashed(below), ["a", "b", "c"])

      yield* Context.get(context, Overlay.Overlay).commit
      assert.deepStrictEqual(yield* trashed(below), ["c", "d"])
      assert.deepStrictEqual(yield* listed(below, ada), ["a"])
      assert.isUndefined(yield* get(below, system, id("b")))
    }).pipe(Effect.provide(MemoryStore.layerInMemory)))

  it.scoped("`Restore` of a forgotten record has the same result in an Overlay as in its base store", () =>
    Effect.gen(function*() {
      const below = yield* MemoryStore.MemoryStore
      const history: ReadonlyArray<MemoryMutation> = [
        { _tag: "Put", draft: draft("one", { id: id("x") }) },
        { _tag: "Forget", id: id("x") },
        { _tag: "Put", draft: draft("two", { id: id("x"), expiresAt: 60_000 }) },
        { _tag: "Update", id: id("x"), patch: { body: "two, edited" } },
        { _tag: "Forget", id: id("x") }
      ]
      for (const mutation of history) {
        yield* below.apply(ada, [mutation])
        yield* TestClock.adjust("1 second")
      }
      for (const wait of ["1 second", "2 minutes"] as const) {
        yield* TestClock.adjust(wait)
        for (const viewer of [ada, bob, Viewer.everyone(), system]) {
          for (let revision = 0; revision <= 6; revision++) {
            const asked = ({ apply, history }: MemoryStore.Service) =>
              Effect.gen(function*() {
                const applied = yield* Effect.either(apply(viewer, [{ _tag: "Restore", id: id("x"), revision }]))
                const told = yield* history(viewer, id("x"))
                return [Either.mapLeft(applied, ({ message, reason }) => [reason, message]), told]
              })
            const branch = Context.get(yield* branchOf(below), MemoryStore.MemoryStore)
            const twin = yield* copyOf(below)
            assert.deepEqual(yield* asked(branch), yield* asked(twin), `${wait}: ${revision}`)
          }
        }
      }
    }).pipe(Effect.provide(MemoryStore.layerInMemoryWith({ trash: Infinity }))))

  it.scoped("an Overlay keeps its tombstones for the duration of the option `trash` of Overlay.layerWith", () =>
    Effect.gen(function*() {
      const below = yield* MemoryStore.MemoryStore
      const context = yield* branchOf(below, Overlay.layerWith({ trash: "1 day" }))
      const branch = Context.get(context, MemoryStore.MemoryStore)
      yield* put(branch, draft("tea", { id: id("tea") }))
      yield* branch.forget(ada, [id("tea")])
      yield* TestClock.adjust("23 hours")
      assert.strictEqual(yield* branch.compact, 0)
      assert.deepStrictEqual(yield* trashed(branch), ["tea"])
      yield* TestClock.adjust("1 hour")
      assert.strictEqual(yield* branch.compact, 1)
      assert.deepStrictEqual(yield* trashed(branch), [])
    }).pipe(Effect.provide(MemoryStore.layerInMemory)))
})

/** Makes a second store that has the same revisions of `x`, with the same times. */
const copyOf = (store: MemoryStore.Service) =>
  Effect.gen(function*() {
    const rows = new Map<string, ReadonlyArray<MemoryStore.Stored>>()
    const [live] = yield* store.get(Viewer.everyone(), [id("x")])
    const revisions = yield* store.history(system, id("x"))
    rows.set(
      id("x"),
      revisions.map((record, n) => ({ record, forgotten: n === 0 ? Option.isNone(live!) : record.revision === 2 }))
    )
    return yield* MemoryStore.make("copy", {
      capabilities: { history: true },
      trash: Infinity,
      read: (_, ids) => Effect.sync(() => ids.map((id) => Option.fromNullable(rows.get(id)?.[0]))),
      tenants: Effect.succeed([]),
      scan: () => Stream.suspend(() => Stream.fromIterable(Array.from(rows.values(), ([row]) => row!))), // no list is empty
      revisions: (_, id, limit) => Effect.sync(() => rows.get(id)?.slice(0, limit) ?? []),
      commit: (_, writes) =>
        Effect.sync(() => {
          for (const { id, next } of writes) if (next) rows.set(id, [next, ...rows.get(id) ?? []])
        })
    })
  })

describe("a federation", () => {
  const memory = { layer: MemoryStore.layerInMemory, writable: true }
  const federation = Effect.all([MemoryStore.MemoryStore, Federated.Federated])

  it.effect("a federation lists and restores the forgotten records of all its writable stores", () =>
    Effect.gen(function*() {
      const [store, federated] = yield* federation
      yield* store.put(ada, [
        draft("note 1", { id: id("1") }),
        draft("fact 2", { id: id("2"), kind: "user" }),
        draft("note 3", { id: id("3") })
      ])
      for (const name of ["2", "3", "1"]) {
        yield* TestClock.adjust("1 second")
        yield* store.forget(ada, [id(name)])
      }
      assert.deepStrictEqual(yield* listed(store, ada, { forgotten: true }), ["note 1", "note 3", "fact 2"])
      const first = yield* store.list(ada, { forgotten: true, limit: 2 })
      const second = yield* store.list(ada, { forgotten: true, limit: 2, after: first.next })
      assert.deepStrictEqual([...first.items, ...second.items].map(({ body }) => body), ["note 1", "note 3", "fact 2"])
      const { items } = yield* store.list(ada, { forgotten: true })
      yield* store.apply(ada, items.map(({ id, revision }) => ({ _tag: "Restore", id, revision })))
      assert.deepStrictEqual(yield* trashed(store), [])
      assert.deepStrictEqual(yield* listed((yield* federated.get("facts")).store, ada), ["fact 2"])
    }).pipe(Effect.provide(
      Federated.layer({ notes: memory, facts: memory }, {
        route: ({ kind }) => kind === "user" ? "facts" : "notes"
      })
    )))

  it.effect("a federation lists the forgotten records of a read-only store only to Viewer.system", () =>
    Effect.gen(function*() {
      const archive = yield* MemoryStore.MemoryStore
      yield* put(archive, draft("archived", { id: id("archived") }))
      yield* archive.forget(ada, [id("archived")])
      yield* Effect.gen(function*() {
        const [store] = yield* federation
        assert.deepStrictEqual(yield* trashed(store), [])
        assert.deepStrictEqual(yield* trashed(store, system), ["archived"])
      }).pipe(Effect.provide(
        Federated.layer({ main: memory, archive: { layer: Layer.succeed(MemoryStore.MemoryStore, archive) } })
      ))
    }).pipe(Effect.provide(MemoryStore.layerInMemory)))

  it.effect("a forgotten record of a store with a mirror is listed once, and is restored or purged in both stores", () =>
    Effect.gen(function*() {
      const [store, federated] = yield* federation
      const copies = (yield* federated.get("copies")).store
      yield* store.put(ada, ["a", "b", "c"].map((body) => draft(body, { id: id(body) })))
      yield* store.forget(ada, ["a", "b", "c"].map((name) => id(name)))
      assert.deepStrictEqual(yield* trashed(store, system), ["a", "b", "c"])
      assert.deepStrictEqual(yield* trashed(copies), ["a", "b", "c"])
      yield* store.apply(ada, [{ _tag: "Restore", id: id("a"), revision: 2 }])
      yield* store.forget(ada, [id("b")], { purge: true })
      assert.deepStrictEqual(yield* listed(copies, ada), ["a"])
      assert.deepStrictEqual(yield* trashed(copies), ["c"])
      assert.deepStrictEqual(yield* trashed(store), ["c"])

      yield* TestClock.adjust("2 days")
      yield* store.compact
      assert.deepStrictEqual(yield* trashed(copies), ["c"])
      assert.deepStrictEqual(yield* trashed(store), [], "it cannot be restored from a copy")
      const [again] = yield* store.put(ada, [draft("c again", { id: id("c") })])
      assert.deepStrictEqual([again?.outcome, again?.record.revision], ["created", 1])
      assert.sameMembers(yield* listed(copies, ada), ["a", "c again"])
    }).pipe(Effect.provide(Federated.layer({
      main: { layer: MemoryStore.layerInMemoryWith({ trash: "1 day" }), writable: true },
      copies: { layer: MemoryStore.layerInMemory, mirror: () => true }
    }))))
})
