import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/TestClock"
import * as MemoryError from "../../src/domain/MemoryError.ts"
import * as MemoryKind from "../../src/domain/MemoryKind.ts"
import type { Draft } from "../../src/domain/MemoryRecord.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as MemoryEvents from "../../src/harness/MemoryEvents.ts"
import * as Retention from "../../src/harness/Retention.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import { ada, bob, draft, id, listed, put, system } from "../../src/testing/Sample.ts"
import { type Call, counting, layerOf } from "../storage/engines.ts"
import { stores } from "../stores.ts"
import { settled } from "./Service.ts"

/** A kind with a cap of three records. The tests that use this layer write no other kind with a cap. */
const kinds = MemoryKind.layer(MemoryKind.make({ name: "scrap", cap: 3 }))
const scrap = (body: string, fields: Partial<Draft> = {}) => draft(body, { kind: "scrap", ...fields })
const bodies = (records: ReadonlyArray<{ readonly body: string }>) => records.map(({ body }) => body)

const suite = <E>(name: string, layer: Layer.Layer<MemoryStore.MemoryStore, E>) =>
  describe(`Retention (${name})`, () => {
    const law = (
      title: string,
      check: (store: MemoryStore.Service) => Effect.Effect<void, unknown, MemoryStore.MemoryStore>
    ) =>
      it.effect(title, () =>
        Effect.flatMap(MemoryStore.MemoryStore, check).pipe(
          Effect.provide(Layer.provideMerge(Layer.provide(layer, kinds), kinds))
        ))

    law(
      "forgets the records beyond the cap, the least important first and, if equally important, the oldest first",
      (store) =>
        Effect.gen(function*() {
          for (
            const [body, importance] of [["old", 0.5], ["slight", 0.1], ["new", 0.5], ["weighty", 1], [
              "newest",
              0.5
            ]] as const
          ) {
            yield* put(store, scrap(body, { importance }))
            yield* TestClock.adjust(1)
          }
          assert.deepStrictEqual(bodies(yield* Retention.enforce(system)), ["slight", "old"])
          assert.deepStrictEqual(yield* listed(store, ada), ["newest", "weighty", "new"])
          assert.deepStrictEqual(yield* Retention.enforce(system), [])
          assert.deepStrictEqual(yield* listed(store, ada), ["newest", "weighty", "new"])
        })
    )

    law("the age of a record counts from its last update", (store) =>
      Effect.gen(function*() {
        for (const body of ["a", "b", "c", "d"]) {
          yield* put(store, scrap(body, { id: id(body) }))
          yield* TestClock.adjust(1)
        }
        yield* store.update(ada, id("a"), { tags: ["kept"] })
        assert.deepStrictEqual(bodies(yield* Retention.enforce(system)), ["b"])
      }))

    law(
      "a dry run returns the records that Retention would forget, and forgets nothing",
      (store) =>
        Effect.gen(function*() {
          for (let n = 0; n < 5; n++) yield* put(store, scrap(`${n}`))
          const would = yield* Retention.enforce(system, { dryRun: true })
          assert.lengthOf(yield* listed(store, ada), 5)
          assert.deepStrictEqual(yield* Retention.enforce(system), would)
          assert.lengthOf(would, 2)
          assert.lengthOf(yield* listed(store, ada), 3)
        })
    )

    law(
      "applies the cap to each scope separately, and not to other tenants or to kinds without a cap",
      (store) =>
        Effect.gen(function*() {
          const session = Viewer.make({ userId: "ada", sessionId: "s" })
          const elsewhere = Viewer.make({ tenant: "elsewhere", userId: "ada" })
          for (let n = 0; n < 8; n++) {
            yield* put(store, draft(`${n}`, { importance: 0 }))
            yield* put(store, scrap(`${n}`), elsewhere)
          }
          for (let n = 0; n < 3; n++) {
            yield* put(store, scrap(`${n}`))
            yield* put(store, scrap(`${n}`, { scope: { userId: "bob" } }), bob)
            yield* put(store, scrap(`${n}`, { scope: { userId: "ada", sessionId: "s" } }), session)
          }
          assert.deepStrictEqual(yield* Retention.enforce(system), [])
          assert.lengthOf(yield* Retention.enforce(Viewer.system("elsewhere")), 5)
          assert.lengthOf(yield* listed(store, ada), 11)
        })
    )

    law(
      "expired records, records that are no longer valid, and instructions are neither counted nor forgotten",
      (store) =>
        Effect.gen(function*() {
          yield* TestClock.setTime(1_000)
          yield* put(store, scrap("brief", { expiresAt: 1_001, importance: 0 }))
          yield* put(store, scrap("was", { invalidAt: 1_001, importance: 0 }))
          yield* put(store, scrap("rule", { importance: 0 }), system, { origin: "instructions", trust: 0 })
          for (let n = 0; n < 3; n++) yield* put(store, scrap(`${n}`))
          yield* TestClock.adjust(1)
          assert.deepStrictEqual(yield* Retention.enforce(system), [])
          assert.lengthOf(yield* listed(store, ada, { closed: true }), 5)
        })
    )

    law(
      "a record whose importance is raised while Retention runs is kept, and another record is forgotten instead",
      (store) =>
        Effect.gen(function*() {
          for (let n = 0; n < 4; n++) {
            yield* put(store, scrap(`${n}`, { id: id(`${n}`) }))
            yield* TestClock.adjust(1)
          }
          const meanwhile = store.update(ada, id("0"), { importance: 1 }, { ifRevision: 1 })
          const gone = yield* Effect.provideService(Retention.enforce(system), MemoryStore.MemoryStore, {
            ...store,
            apply: (...args) => Effect.zipRight(Effect.option(meanwhile), store.apply(...args))
          })
          assert.deepStrictEqual(bodies(gone), ["1"])
          assert.deepStrictEqual((yield* listed(store, ada)).toSorted(), ["0", "2", "3"])
        })
    )

    law(
      "two concurrent runs of Retention keep exactly as many records as the cap allows, even if records are updated meanwhile",
      (store) =>
        Effect.gen(function*() {
          for (let n = 0; n < 20; n++) yield* put(store, scrap(`${n}`, { id: id(`${n}`) }))
          const touch = (n: number) => store.update(ada, id(`${n}`), { importance: 1 }).pipe(Effect.option)
          yield* Effect.all([
            Retention.enforce(system),
            Effect.forEach([0, 1], touch),
            Retention.enforce(system)
          ], { concurrency: "unbounded" })
          assert.lengthOf(yield* listed(store, ada), 3)
        })
    )
  })

for (const [name, layer] of Object.entries(stores)) suite<unknown>(name, layer)

describe("Retention", () => {
  it("the default caps are 1,000 for episodic, 10,000 for semantic, 5,000 for entity, 100 for learning, and none for user and vault", () => {
    const { entity, episodic, learning, semantic, user, vault } = MemoryKind
    assert.deepStrictEqual([episodic, semantic, entity, learning].map(({ cap }) => cap), [1_000, 10_000, 5_000, 100])
    assert.deepStrictEqual([user, vault].map(({ cap }) => cap), [undefined, undefined])
  })

  it.effect("Retention forgets the least important of 1,001 episodic records, as their default cap is 1,000", () =>
    Effect.gen(function*() {
      const store = yield* MemoryStore.MemoryStore
      yield* store.put(
        ada,
        Array.from({ length: 1_001 }, (_, n) => draft(`${n}`, { kind: "episodic", id: id(`${n}`) }))
      )
      yield* TestClock.adjust(1)
      yield* store.update(ada, id("0"), { importance: 0.4 })
      assert.deepStrictEqual(bodies(yield* Retention.enforce(system)), ["0"])
    }).pipe(Effect.provide(MemoryStore.layerInMemory)))

  it.effect("Retention.layer enforces the caps of every other tenant if a write for one tenant fails", () =>
    Effect.gen(function*() {
      const store = yield* MemoryStore.MemoryStore
      const names = ["a", "b", "c"]
      const viewerOf = (tenant: string) => Viewer.make({ tenant, userId: "ada" })
      for (const tenant of names) {
        for (let n = 0; n < 4; n++) yield* put(store, scrap(`${n}`, { id: id(`${tenant}${n}`) }), viewerOf(tenant))
      }
      const failing: MemoryStore.Service = {
        ...store,
        apply: (viewer, ...rest) =>
          Viewer.tenantOf(viewer) === "b"
            ? MemoryError.make("io", { op: "apply", message: "the disk of b is full" })
            : store.apply(viewer, ...rest)
      }
      yield* Layer.build(Retention.layer).pipe(Effect.provideService(MemoryStore.MemoryStore, failing))
      yield* settled
      const counts = yield* Effect.forEach(
        names,
        (tenant) => Effect.map(listed(store, viewerOf(tenant)), ({ length }) => length)
      )
      assert.deepStrictEqual(counts, [3, 4, 3])
    }).pipe(
      Effect.scoped,
      Effect.provide(Layer.provideMerge(Layer.provide(MemoryStore.layerInMemory, kinds), kinds))
    ))

  it.effect.prop(
    "no forgotten record is more important than a kept record of the same kind",
    [
      FastCheck.array(FastCheck.tuple(FastCheck.constantFrom(0, 0.25, 0.5, 1), FastCheck.nat(3), FastCheck.boolean()), {
        maxLength: 20
      })
    ],
    ([drafts]) =>
      Effect.gen(function*() {
        const store = yield* MemoryStore.MemoryStore
        for (const [n, [importance, later, isScrap]] of drafts.entries()) {
          yield* TestClock.adjust(later)
          yield* put(store, draft(`${n}`, { kind: isScrap ? "scrap" : "reference", importance }))
        }
        const gone = yield* Retention.enforce(system)
        const { items } = yield* store.list(ada, { kinds: ["scrap"], limit: 1_000 })
        const all = drafts.filter(([, , isScrap]) => isScrap).length
        assert.strictEqual(items.length, Math.min(all, 3))
        assert.strictEqual(gone.length, Math.max(0, all - 3))
        for (const kept of items) {
          for (const { createdAt, importance } of gone) {
            assert.isTrue(
              kept.importance > importance || (kept.importance === importance && kept.createdAt >= createdAt)
            )
          }
        }
        assert.lengthOf((yield* store.list(ada, { kinds: ["reference"], limit: 1_000 })).items, drafts.length - all)
      }).pipe(Effect.provide(Layer.provideMerge(Layer.provide(MemoryStore.layerInMemory, kinds), kinds))),
    { fastCheck: { numRuns: 100, seed: 4 } }
  )
})

/** A kind with a cap of one record. No other kind that these tests write has a cap. */
const single = MemoryKind.layer(MemoryKind.make({ name: "scrap", cap: 1 }))
const here = Layer.provideMerge(
  Layer.merge(MemoryStore.layerInMemory, MemoryEvents.layer({ texts: true })),
  single
)
const scraps = (store: MemoryStore.Service, viewer = ada) =>
  Effect.forEach(["a", "b", "c"], (body) => put(store, draft(body, { kind: "scrap" }), viewer))

describe("Retention and MemoryEvents", () => {
  it.effect("Retention.enforce publishes an event with id, summary and kind for each forgotten record, and none in a dry run", () =>
    Effect.gen(function*() {
      const store = yield* MemoryStore.MemoryStore
      const events = yield* MemoryEvents.MemoryEvents
      const heard: Array<MemoryEvents.MemoryEvent> = []
      yield* Effect.fork(Stream.runForEach(events.stream, (event) => Effect.sync(() => heard.push(event))))
      yield* settled
      yield* scraps(store)
      assert.lengthOf(yield* Retention.enforce(system, { dryRun: true }), 2)
      const gone = yield* Retention.enforce(system)
      yield* settled
      assert.lengthOf(heard, 2)
      assert.deepStrictEqual(
        heard.map((event) => event._tag === "memory_retired" && [event.id, event.summary, event.kind]),
        gone.map(({ id, kind, summary }) => [id, summary, kind])
      )
    }).pipe(Effect.provide(here)))

  it.effect("a cap must be Infinity or a whole number above 0; otherwise Retention.enforce fails with `invalid_draft` and forgets nothing", () =>
    Effect.gen(function*() {
      const store = yield* MemoryStore.MemoryStore
      yield* scraps(store)
      for (const cap of [-1, 0, 1.5, NaN]) {
        const error = yield* Effect.flip(Effect.provide(
          Retention.enforce(system),
          MemoryKind.layer(MemoryKind.make({ name: "scrap", cap }))
        ))
        assert.strictEqual(error.reason, "invalid_draft")
        assert.include(error.message, "scrap")
      }
      assert.lengthOf(yield* listed(store, ada), 3)
      const none = MemoryKind.layer(MemoryKind.make({ name: "scrap", cap: Infinity }))
      assert.deepStrictEqual(yield* Effect.provide(Retention.enforce(system), none), [])
    }).pipe(Effect.provide(here)))

  it.effect("Retention.enforce forgets records even if no MemoryEvents are provided", () =>
    Effect.gen(function*() {
      const store = yield* MemoryStore.MemoryStore
      yield* scraps(store)
      assert.lengthOf(yield* Retention.enforce(system), 2)
    }).pipe(Effect.provide(Layer.provideMerge(MemoryStore.layerInMemory, single))))

  it.scoped("Retention.layer enforces the caps of all tenants when the layer is built, and again an hour later after further writes", () =>
    Effect.gen(function*() {
      const store = yield* MemoryStore.MemoryStore
      const elsewhere = Viewer.make({ tenant: "elsewhere", userId: "ada" })
      const count = Effect.map(
        Effect.all([listed(store, ada), listed(store, elsewhere)]),
        (all) => all.map(({ length }) => length)
      )
      yield* scraps(store)
      yield* scraps(store, elsewhere)
      yield* Layer.build(Retention.layer)
      yield* TestClock.adjust(1)
      assert.deepStrictEqual(yield* count, [1, 1])
      yield* scraps(store)
      yield* TestClock.adjust("59 minutes")
      assert.deepStrictEqual(yield* count, [4, 1])
      yield* TestClock.adjust("1 minute")
      assert.deepStrictEqual(yield* count, [1, 1])
    }).pipe(Effect.provide(here)))
})

it.effect("Retention.enforce makes one engine call and reads no record if the tenant exceeds no cap", () =>
  Effect.gen(function*() {
    const calls: Array<Call> = []
    yield* Effect.gen(function*() {
      const store = yield* MemoryStore.MemoryStore
      yield* store.put(ada, ["one", "two", "three"].map((body) => scrap(body)))
      yield* store.put(ada, Array.from({ length: 50 }, (_, n) => draft(`note ${n}`)))
      calls.length = 0
      assert.deepStrictEqual(yield* Retention.enforce(system), [])
      assert.deepStrictEqual(calls.map(({ op }) => op), ["overCap"])
      yield* put(store, scrap("four"))
      calls.length = 0
      assert.lengthOf(yield* Retention.enforce(system), 1)
      assert.deepStrictEqual(calls, [
        { op: "overCap", asked: Infinity, given: 1 },
        { op: "page", asked: 1_000, given: 4 },
        { op: "transact", asked: 1, given: 1 }
      ])
    }).pipe(
      Effect.provide(Layer.provideMerge(Layer.provide(layerOf((engine) => counting(engine, calls)), kinds), kinds))
    )
  }))
