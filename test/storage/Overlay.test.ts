import { assert, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as TestClock from "effect/TestClock"
import type { MemoryMutation, StoreChange } from "../../src/domain/MemoryMutation.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import { layerInMemory, type Service } from "../../src/storage/MemoryStore.ts"
import * as Faulty from "../../src/storage/MemoryStore/Faulty.ts"
import * as Federated from "../../src/storage/MemoryStore/Federated.ts"
import * as Overlay from "../../src/storage/MemoryStore/Overlay.ts"
import { refuses } from "../../src/testing/Law.ts"
import { listen } from "../../src/testing/Listener.ts"
import { ada, bob, draft, fact, found, get, id, listed, put, system, the } from "../../src/testing/Sample.ts"
import { type Call, counting, layerOf } from "./engines.ts"

/** Declares a test of an Overlay (`branch`, with its service `overlay`) and of its base store (`below`). */
const law = (
  title: string,
  check: (below: Service, branch: Service, overlay: Overlay.Service) => Effect.Effect<unknown, unknown>
) =>
  it.effect(title, () =>
    Effect.gen(function*() {
      const below = yield* MemoryStore.MemoryStore
      yield* Effect.gen(function*() {
        yield* check(below, yield* MemoryStore.MemoryStore, yield* Overlay.Overlay)
      }).pipe(Effect.provide(Layer.provide(Overlay.layer, Layer.succeed(MemoryStore.MemoryStore, below))))
    }).pipe(Effect.provide(layerInMemory)))

law(
  "an Overlay shows the base store with the overlay's own writes, and does not change the base store",
  (below, branch, overlay) =>
    Effect.gen(function*() {
      const tea = yield* put(below, draft("green tea"))
      const milk = yield* put(below, draft("milk"))
      yield* put(below, draft("Bob's tea", { scope: { userId: "bob" } }), bob)
      yield* TestClock.adjust("1 second")
      yield* branch.update(ada, tea.id, { body: "black tea" })
      yield* branch.forget(ada, [milk.id])
      yield* put(branch, draft("tea cup"))
      assert.sameMembers(yield* listed(branch, ada), ["black tea", "tea cup"])
      assert.sameMembers(yield* found(branch, ada, { text: "tea" }), ["black tea", "tea cup"])
      assert.sameMembers(yield* listed(below, ada), ["green tea", "milk"])
      assert.deepStrictEqual(yield* listed(branch, bob), ["Bob's tea"])
      assert.deepStrictEqual((yield* branch.history(ada, tea.id)).map(({ body }) => body), ["black tea", "green tea"])
      assert.lengthOf(yield* overlay.pending, 3)
    })
)

law(
  "an Overlay shows later writes of its base store, except to records that the overlay itself has written",
  (below, branch) =>
    Effect.gen(function*() {
      const tea = yield* put(below, draft("tea"))
      assert.deepStrictEqual(yield* found(branch, ada, { text: "tea" }), ["tea"])
      yield* below.update(ada, tea.id, { body: "green tea" })
      yield* put(below, draft("tea cup"))
      assert.sameMembers(yield* found(branch, ada, { text: "tea" }), ["green tea", "tea cup"])
      yield* branch.update(ada, tea.id, { body: "black tea" })
      yield* below.update(ada, tea.id, { body: "white tea" })
      assert.sameMembers(yield* listed(branch, ada), ["black tea", "tea cup"])
      assert.deepStrictEqual((yield* branch.history(ada, tea.id)).map(({ body }) => body), [
        "black tea",
        "green tea",
        "tea"
      ])
    })
)

law(
  "an Overlay deduplicates against its base store, and hides records that the base store has forgotten",
  (below, branch) =>
    Effect.gen(function*() {
      const tea = yield* put(below, fact("Tea"))
      const milk = yield* put(below, fact("Milk", { id: id("milk") }))
      yield* below.forget(ada, [milk.id])
      const puts = yield* branch.put(ada, [fact("Tea"), fact("Milk")])
      assert.deepEqual(puts.map(({ outcome }) => outcome), ["duplicate", "created"])
      assert.strictEqual(puts[0]?.record.id, tea.id)
      assert.isUndefined(yield* get(branch, ada, milk.id))
      assert.strictEqual((yield* the(branch, system, milk.id)).body, "Milk")
      const [again] = yield* branch.put(ada, [fact("Milk again", { id: milk.id })])
      assert.deepEqual([again?.outcome, again?.record.revision], ["created", 3])
      assert.deepStrictEqual((yield* branch.history(ada, milk.id)).map(({ body }) => body), ["Milk again"])
      const [back] = yield* branch.apply(ada, [{ _tag: "Restore", id: milk.id, revision: 1 }])
      assert.strictEqual(back?.record?.body, "Milk")
    })
)

law(
  "Overlay.commit writes only the final state of each record to the base store, and leaves the overlay empty",
  (below, branch, overlay) =>
    Effect.gen(function*() {
      const tea = yield* put(below, draft("tea", { confidence: 0.5, expiresAt: 900_000 }), ada, {
        origin: "import",
        trust: 2
      })
      const milk = yield* put(below, draft("milk"))
      const salt = yield* put(below, draft("salt"))
      yield* TestClock.adjust("1 second")
      for (const body of ["green tea", "black tea"]) {
        yield* branch.update(ada, tea.id, { body, confidence: null, expiresAt: null })
      }
      yield* branch.forget(ada, [milk.id])
      yield* branch.forget(ada, [salt.id], { purge: true })
      const cup = yield* put(
        branch,
        draft("cup", { summary: "A cup", tags: ["new"], source: { reference: "r" } }),
        ada,
        { origin: "agent", trust: 1 }
      )
      const gone = yield* put(branch, draft("came"))
      yield* branch.forget(ada, [gone.id])
      const scope = { userId: "ada" }
      const expected: ReadonlyArray<MemoryMutation["_tag"]> = ["Update", "Forget", "Forget", "Put"]
      assert.deepStrictEqual(
        (yield* overlay.pending).map(({ _tag }) => _tag),
        expected
      )

      yield* TestClock.adjust("1 second")
      const applied = yield* overlay.commit
      assert.deepStrictEqual(applied.map(({ outcome }) => outcome), ["updated", "forgotten", "forgotten", "created"])
      assert.deepStrictEqual(yield* overlay.pending, [])
      assert.deepStrictEqual(yield* overlay.commit, [])

      const after = yield* the(below, ada, tea.id)
      assert.deepEqual([after.body, after.revision, after.createdAt, after.updatedAt], ["black tea", 2, 0, 2_000])
      assert.deepEqual([after.confidence, after.expiresAt, { ...after.source }], [undefined, undefined, {
        origin: "import",
        trust: 2
      }])
      assert.isUndefined(yield* get(below, ada, milk.id))
      assert.strictEqual((yield* the(below, system, milk.id)).body, "milk")
      assert.isUndefined(yield* get(below, system, salt.id))
      assert.isUndefined(yield* get(below, system, gone.id))
      const { id: cupId, ...rest } = { ...yield* the(below, ada, cup.id) }
      assert.strictEqual(cupId, cup.id)
      assert.deepEqual(rest, {
        scope,
        kind: "reference",
        summary: "A cup",
        body: "cup",
        tags: ["new"],
        importance: 0.5,
        links: [],
        data: {},
        metadata: {},
        source: { reference: "r", origin: "agent", trust: 1 },
        createdAt: 2_000,
        validAt: 1_000,
        revision: 1
      })
      assert.deepEqual(yield* the(branch, ada, cup.id), yield* the(below, ada, cup.id))
      yield* below.update(ada, cup.id, { body: "mug" })
      assert.strictEqual((yield* the(branch, ada, cup.id)).body, "mug")
    })
)

law(
  "Overlay.commit fails with `conflict` if the base store and the overlay changed the same record",
  (below, branch, overlay) =>
    Effect.gen(function*() {
      const tea = yield* put(below, draft("tea"))
      yield* put(branch, draft("cup"))
      yield* branch.update(ada, tea.id, { body: "black tea" })
      yield* below.update(ada, tea.id, { body: "green tea" })
      const pending = yield* overlay.pending
      const { detail } = yield* refuses("conflict", overlay.commit)
      assert.deepEqual({ ...detail }, { expected: 1, actual: 2 })
      assert.deepEqual(yield* overlay.pending, pending)
      assert.sameMembers(yield* listed(branch, ada), ["black tea", "cup"])
      assert.deepStrictEqual(yield* listed(below, ada), ["green tea"])
      yield* overlay.discard
      assert.deepStrictEqual(yield* overlay.pending, [])
      assert.deepStrictEqual(yield* listed(branch, ada), ["green tea"])
    })
)

law(
  "Overlay.commit fails with `conflict` if a record that the overlay wrote is then put or forgotten in the base store",
  (below, branch, overlay) =>
    Effect.gen(function*() {
      yield* put(branch, draft("branch", { id: id("x") }))
      yield* put(below, draft("below", { id: id("x") }))
      assert.deepEqual({ ...(yield* refuses("conflict", overlay.commit)).detail }, { expected: 0, actual: 1 })
      yield* overlay.discard
      yield* branch.update(ada, id("x"), { body: "branch" })
      yield* below.forget(ada, [id("x")])
      assert.deepEqual({ ...(yield* refuses("conflict", overlay.commit)).detail }, { expected: 1, actual: 0 })
      assert.deepStrictEqual(yield* listed(below, ada), [])
    })
)

law(
  "Overlay.commit replaces a record as a whole if the overlay put it with another scope, kind and source, or purged it and put it again",
  (below, branch, overlay) =>
    Effect.gen(function*() {
      yield* put(below, draft("tea", { id: id("x") }))
      yield* put(below, draft("old", { id: id("y"), tags: ["old"] }))
      yield* put(branch, fact("coffee", { id: id("x"), scope: "global", validAt: 7, source: { session: "s" } }), ada, {
        origin: "agent"
      })
      yield* branch.forget(ada, [id("y")], { purge: true })
      yield* put(branch, draft("new", { id: id("y") }), ada, { origin: "agent" })
      yield* branch.update(ada, id("y"), { supersededBy: id("x") })
      yield* overlay.commit
      const x = yield* the(below, bob, id("x"))
      assert.deepEqual([x.body, x.scope, x.kind, x.validAt, x.source.origin, x.source.session, x.revision], [
        "coffee",
        "global",
        "user",
        7,
        "agent",
        "s",
        2
      ])
      const y = yield* the(below, ada, id("y"))
      assert.deepEqual([y.body, y.tags, y.supersededBy, y.revision], ["new", [], id("x"), 2])
      assert.lengthOf(yield* below.history(system, id("y")), 2)
    })
)

law(
  "Overlay.commit gives all new records origin `pipeline` and the trust of the least trusted of them, if their origins differ",
  (below, branch, overlay) =>
    Effect.gen(function*() {
      const tea = yield* put(below, draft("tea"), ada, { origin: "import", trust: 3 })
      yield* branch.update(ada, tea.id, { body: "green tea" })
      const cup = yield* put(branch, draft("cup"), ada, { origin: "agent", trust: 1 })
      const news = yield* put(branch, draft("news"), ada, { origin: "import", trust: 2 })
      yield* overlay.commit
      for (const { id } of [cup, news]) {
        assert.deepEqual({ ...(yield* the(below, ada, id)).source }, { origin: "pipeline", trust: 2 })
      }
      assert.deepEqual({ ...(yield* the(below, ada, tea.id)).source }, { origin: "import", trust: 3 })
    })
)

law(
  "records that the overlay restored, or purged and put again, keep origin and trust in Overlay.commit, if both are the same for all",
  (below, branch, overlay) =>
    Effect.gen(function*() {
      const tea = yield* put(below, draft("tea"), ada, { origin: "pipeline", trust: 3 })
      const milk = yield* put(below, draft("milk"), ada, { origin: "pipeline", trust: 3 })
      yield* below.forget(ada, [tea.id])
      yield* branch.apply(ada, [{ _tag: "Restore", id: tea.id, revision: 1 }])
      yield* branch.forget(ada, [milk.id], { purge: true })
      yield* put(branch, draft("milk", { id: milk.id }), ada, { origin: "pipeline", trust: 3 })
      yield* overlay.commit
      for (const { id } of [tea, milk]) {
        assert.deepEqual({ ...(yield* the(below, ada, id)).source }, { origin: "pipeline", trust: 3 })
      }
    })
)

law(
  "Overlay.commit replaces the source of a base record by the source that was put in the overlay",
  (below, branch, overlay) =>
    Effect.gen(function*() {
      const sources = [{ actor: "Ada" }, { actor: "Bob" }, { reference: "r" }, { session: "s" }, { sequence: 1 }, {}]
      for (const source of sources) {
        yield* put(below, draft("tea", { id: id("x"), source: { actor: "Eve" } }))
        yield* put(branch, draft("tea", { id: id("x"), source }))
        yield* overlay.commit
        assert.deepEqual<object>({ ...(yield* the(below, ada, id("x"))).source }, {
          ...source,
          origin: "user",
          trust: 1
        })
      }
    })
)

law(
  "Overlay.commit does not write records with the origin `instructions`; they stay in the overlay",
  (below, branch, overlay) =>
    Effect.gen(function*() {
      const rules = draft("No deploys on Fridays", { id: id("rules"), tags: ["instructions"] })
      yield* put(branch, rules, ada, { origin: "instructions", trust: 0 })
      yield* put(branch, draft("tea"))
      yield* overlay.commit
      assert.deepStrictEqual(yield* listed(below, ada), ["tea"])
      assert.sameMembers(yield* listed(branch, ada), ["tea", "No deploys on Fridays"])
    })
)

law(
  "Overlay.commit forgets a base record that expired in the overlay, and skips a new record that expired there",
  (below, branch, overlay) =>
    Effect.gen(function*() {
      const bread = yield* put(below, draft("bread"))
      yield* branch.update(ada, bread.id, { expiresAt: 1_000 })
      yield* put(branch, draft("cake", { expiresAt: 1_000 }))
      yield* TestClock.adjust("1 second")
      assert.deepStrictEqual((yield* overlay.pending).map(({ _tag }) => _tag), ["Forget"])
      yield* overlay.commit
      assert.deepStrictEqual(yield* listed(below, ada), [])
    })
)

law(
  "an Overlay emits changes of its base store only for records that the overlay has not written",
  (below, branch) =>
    Effect.scoped(Effect.gen(function*() {
      const x = yield* put(below, draft("x", { id: id("x") }))
      const ofBranch = yield* listen(branch, ada)
      const ofBelow = yield* listen(branch, ada, "global", below)
      const toBelow = yield* listen(below, ada)
      const y = yield* put(below, draft("y"))
      const own = yield* branch.update(ada, x.id, { body: "mine" })
      yield* below.update(ada, x.id, { body: "theirs" })
      assert.include(bodies(yield* ofBranch), own.body)
      const toldOfBelow = bodies(yield* ofBelow)
      assert.include(toldOfBelow, y.body)
      assert.notInclude(toldOfBelow, "theirs")
      assert.deepStrictEqual(bodies(yield* toBelow), ["y", "theirs"])
    }))
)

law(
  "Overlay.commit writes the records of each tenant to the same tenant of the base store",
  (below, branch, overlay) =>
    Effect.gen(function*() {
      const elsewhere = Viewer.system("elsewhere")
      yield* put(branch, draft("here", { id: id("x") }))
      yield* put(branch, draft("there", { id: id("x") }), elsewhere)
      assert.sameMembers(Array.from(yield* branch.tenants), ["default", "elsewhere"])
      assert.deepStrictEqual(yield* below.tenants, [])
      yield* overlay.commit
      assert.deepStrictEqual(yield* listed(below, system), ["here"])
      assert.deepStrictEqual(yield* listed(below, elsewhere), ["there"])
    })
)

law(
  "Overlay.commit writes only to the next store below, even if that store is itself an Overlay",
  (below, branch, overlay) =>
    Effect.gen(function*() {
      yield* put(branch, draft("tea", { id: id("x") }))
      yield* Effect.gen(function*() {
        const twig = yield* MemoryStore.MemoryStore
        yield* twig.update(ada, id("x"), { body: "green tea" })
        yield* (yield* Overlay.Overlay).commit
      }).pipe(Effect.provide(Layer.provide(Overlay.layer, Layer.succeed(MemoryStore.MemoryStore, branch))))
      assert.deepStrictEqual(yield* listed(branch, ada), ["green tea"])
      assert.deepStrictEqual(yield* listed(below, ada), [])
      yield* overlay.commit
      assert.deepStrictEqual(yield* listed(below, ada), ["green tea"])
    })
)

law(
  "an Overlay can be written and read even if its base store cannot be written",
  (below, _branch) =>
    Effect.gen(function*() {
      yield* put(below, draft("tea"))
      const fixed: Service = { ...below, apply: () => Effect.dieMessage("not to be written") }
      yield* Effect.gen(function*() {
        const branch = yield* MemoryStore.MemoryStore
        yield* put(branch, draft("cup"))
        assert.sameMembers(yield* listed(branch, ada), ["tea", "cup"])
      }).pipe(Effect.provide(Layer.provide(Overlay.layer, Layer.succeed(MemoryStore.MemoryStore, fixed))))
    })
)

const bodies = (changes: ReadonlyArray<StoreChange>) =>
  changes.flatMap((change) => change._tag === "Written" ? [change.record.body] : [])

law(
  "an Overlay lists a tenant until all records and tombstones of the tenant are purged in the Overlay",
  (below, branch) =>
    Effect.gen(function*() {
      const tea = yield* put(below, draft("tea"))
      const milk = yield* put(below, draft("milk"))
      yield* below.forget(ada, [tea.id])
      yield* branch.forget(ada, [milk.id], { purge: true })
      assert.deepStrictEqual(yield* branch.tenants, yield* below.tenants)
      yield* branch.apply(system, [{ _tag: "Forget", id: tea.id, purge: true }])
      assert.deepStrictEqual(yield* branch.tenants, [])
    })
)

it.effect("a second search of an Overlay over a store in memory reads only the base store's changed records", () =>
  Effect.gen(function*() {
    const calls: Array<Call> = []
    yield* Effect.gen(function*() {
      const below = yield* MemoryStore.MemoryStore
      yield* below.put(ada, Array.from({ length: 1_500 }, (_, n) => fact(`tea ${n}`)))
      yield* Effect.gen(function*() {
        const branch = yield* MemoryStore.MemoryStore
        const reads = <A, E>(self: Effect.Effect<A, E>) =>
          Effect.suspend(() => {
            calls.length = 0
            return Effect.map(self, () => calls.filter(({ op }) => op === "page" || op === "read"))
          })
        yield* found(branch, ada, { text: "tea" })
        assert.deepStrictEqual(yield* reads(found(branch, ada, { text: "tea" })), [])
        yield* put(below, draft("tea with milk"))
        yield* put(branch, draft("tea with honey"))
        const since = yield* reads(found(branch, ada, { text: "milk" }))
        assert.deepStrictEqual(since, [{ op: "read", asked: 1, given: 1 }])
        assert.deepStrictEqual(yield* found(branch, ada, { text: "milk" }), ["tea with milk"])
        assert.deepStrictEqual(yield* found(branch, ada, { text: "honey" }), ["tea with honey"])
      }).pipe(Effect.provide(Layer.provide(Overlay.layer, Layer.succeed(MemoryStore.MemoryStore, below))))
    }).pipe(Effect.provide(layerOf((engine) => counting(engine, calls))))
  }))

it.effect("`search` and `get` of an Overlay fail with `io` if the base store cannot be read", () =>
  Effect.gen(function*() {
    const branch = yield* MemoryStore.MemoryStore
    yield* refuses("io", branch.search(ada, { text: "tea" }))
    yield* refuses("io", branch.get(ada, [id("tea")]))
  }).pipe(
    Effect.provide(Overlay.layer.pipe(
      Layer.provide(Faulty.layer({ ops: ["reader"] })),
      Layer.provide(layerInMemory)
    ))
  ))

it.effect("an Overlay over a federation fails with `unsupported`; a federation over an Overlay works", () =>
  Effect.gen(function*() {
    const federation = Federated.layer({ main: { layer: layerInMemory, writable: true } })
    yield* refuses("unsupported", Effect.provide(MemoryStore.MemoryStore, Layer.provide(Overlay.layer, federation)))
    const branched = Federated.layer({
      main: { layer: Overlay.layer.pipe(Layer.provide(layerInMemory)), writable: true }
    })
    const store = yield* Effect.provide(MemoryStore.MemoryStore, branched)
    yield* put(store, draft("tea"))
    assert.deepStrictEqual(yield* found(store, ada, { text: "tea" }), ["tea"])
  }).pipe(Effect.scoped))
