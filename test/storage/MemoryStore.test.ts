/** The guarantees of `MemoryStore.make` and its in-memory layer beyond the contract. Most of them matter to implementers of stores. */
import { assert, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/TestClock"
import * as MemoryError from "../../src/domain/MemoryError.ts"
import type { MemoryId } from "../../src/domain/MemoryId.ts"
import * as MemoryKind from "../../src/domain/MemoryKind.ts"
import type { MemoryMutation } from "../../src/domain/MemoryMutation.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as ChangeFeed from "../../src/storage/ChangeFeed.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import { refuses } from "../../src/testing/Law.ts"
import { listen } from "../../src/testing/Listener.ts"
import { ada, bob, draft, fact, found, id, listed, put, system } from "../../src/testing/Sample.ts"

/** Makes correct primitives for one tenant, with the rows in a Map; tests replace single functions by broken ones. */
const rows = () => {
  const rows = new Map<string, MemoryStore.Stored>()
  const primitives: MemoryStore.Primitives = {
    read: (_, ids) => Effect.sync(() => ids.map((id) => Option.fromNullable(rows.get(id)))),
    tenants: Effect.sync(() => rows.size > 0 ? ["default"] : []),
    scan: () => Stream.suspend(() => Stream.fromIterable(Array.from(rows.values()))),
    commit: (_, writes) =>
      Effect.sync(() => {
        for (const { id, next } of writes) {
          if (next) rows.set(id, next)
          else rows.delete(id)
        }
      })
  }
  return { rows, primitives }
}

const conflict = MemoryError.make("conflict", {
  op: "commit",
  message: "somebody was first",
  detail: { expected: 0, actual: 1 }
})

const Other = Layer.effectDiscard(
  Effect.flatMap(MemoryStore.MemoryStore, (store) => put(store, draft("by another layer")))
).pipe(
  Layer.provide(MemoryStore.layerInMemory)
)

it.effect("two layers that use `layerInMemory` share one store", () =>
  Effect.gen(function*() {
    const store = yield* MemoryStore.MemoryStore
    assert.deepStrictEqual(yield* listed(store, ada), ["by another layer"])
  }).pipe(Effect.provide(Layer.provideMerge(Other, MemoryStore.layerInMemory))))

it.effect("`Layer.fresh(layerInMemory)` makes a separate store, which other layers do not share", () =>
  Effect.gen(function*() {
    const store = yield* MemoryStore.MemoryStore
    assert.deepStrictEqual(yield* listed(store, ada), [])
  }).pipe(Effect.provide(Layer.merge(Other, Layer.fresh(MemoryStore.layerInMemory)))))

const left = (store: MemoryStore.Service) =>
  Effect.map(
    store.get(system, [id("bread"), id("milk")]),
    (all) => all.flatMap(Option.toArray).map(({ body }) => body)
  )

it.effect("the in-memory store erases an expired record within an hour, and a forgotten record after 30 days", () =>
  Effect.gen(function*() {
    const store = yield* MemoryStore.MemoryStore
    yield* put(store, draft("bread", { id: id("bread"), expiresAt: 1_000 }))
    yield* put(store, draft("milk", { id: id("milk") }))
    yield* store.forget(ada, [id("milk")])
    yield* TestClock.adjust("59 minutes")
    assert.deepStrictEqual(yield* left(store), ["bread", "milk"])
    yield* TestClock.adjust("1 minute")
    assert.deepStrictEqual(yield* left(store), ["milk"])
    yield* TestClock.adjust("29 days")
    assert.deepStrictEqual(yield* left(store), ["milk"])
    yield* TestClock.adjust("1 days")
    assert.deepStrictEqual(yield* left(store), [])
  }).pipe(Effect.provide(MemoryStore.layerInMemory)))

it.effect("`compact` erases a forgotten record after the duration in the option `trash`, which may be 0 or Infinity", () =>
  Effect.gen(function*() {
    for (const [trash, days] of [[0, 0], ["2 days", 2], [Infinity, 9]] as const) {
      const made = MemoryStore.make("rows", { ...rows().primitives, trash })
      const provided = Effect.provide(MemoryStore.MemoryStore, MemoryStore.layerInMemoryWith({ trash }))
      for (const store of [yield* made, yield* provided]) {
        yield* put(store, draft("milk", { id: id("milk") }))
        yield* store.forget(ada, [id("milk")])
        const [again] = yield* store.apply(ada, [{ _tag: "Restore", id: id("milk"), revision: 2 }])
        assert.strictEqual(again?.outcome, "created")
        yield* store.forget(ada, [id("milk")])
        for (let day = 0; day < 5; day++) {
          yield* store.compact
          assert.strictEqual((yield* left(store)).length, day < days ? 1 : 0, `${trash}, after ${day} days`)
          yield* TestClock.adjust("1 day")
        }
      }
    }
  }))

it.effect("`compact` does not erase records that a backend wrongly reports as forgotten", () =>
  Effect.gen(function*() {
    const { primitives, rows: held } = rows()
    const store = yield* MemoryStore.make("lossy", {
      ...primitives,
      scan: (tenant) => Stream.map(primitives.scan(tenant), (row) => ({ ...row, forgotten: true })),
      revisions: (_, id) => Effect.sync(() => Option.toArray(Option.fromNullable(held.get(id)))),
      trash: 0
    })
    yield* put(store, draft("milk", { id: id("milk") }))
    yield* TestClock.adjust("1 day")
    assert.strictEqual(yield* store.compact, 0)
    assert.deepStrictEqual(yield* left(store), ["milk"])
    yield* store.forget(ada, [id("milk")])
    assert.strictEqual(yield* store.compact, 1)
  }))

it.effect("MemoryStore.make erases expired records before it returns", () =>
  Effect.gen(function*() {
    const { primitives, rows: held } = rows()
    const first = yield* MemoryStore.make("first", primitives)
    yield* put(first, draft("bread", { expiresAt: 1_000 }))
    yield* put(first, draft("milk"))
    yield* TestClock.adjust("1 second")
    assert.strictEqual(held.size, 2)
    const second = yield* MemoryStore.make("second", primitives)
    assert.strictEqual(held.size, 1)
    assert.deepStrictEqual(yield* found(second, ada, { text: "milk bread" }), ["milk"])
  }))

it.effect("a failed commit changes neither the index nor the table of dedupe keys, and emits no change", () =>
  Effect.gen(function*() {
    const { primitives } = rows()
    let broken = false
    const io = MemoryError.make("io", { op: "commit", message: "the disk is full" })
    const store = yield* MemoryStore.make("full", {
      ...primitives,
      commit: (tenant, writes) => Effect.suspend(() => broken ? Effect.fail(io) : primitives.commit(tenant, writes))
    })
    const told = yield* listen(store, ada)
    broken = true
    assert.strictEqual((yield* refuses("io", put(store, fact("Tea")))).message, "the disk is full")
    assert.deepStrictEqual(yield* found(store, ada, { text: "tea" }), [])
    broken = false
    const [again] = yield* store.put(ada, [fact("Tea")])
    assert.strictEqual(again?.outcome, "created")
    const [change, ...others] = yield* told
    assert.deepEqual({ ...change }, { _tag: "Written", record: again!.record, by: "here" })
    assert.isEmpty(others)
  }).pipe(Effect.scoped))

it.effect("a batch is computed again from the current rows if its commit conflicts with a write of another process", () =>
  Effect.gen(function*() {
    const { primitives, rows: held } = rows()
    let intruders = 3
    const store = yield* MemoryStore.make("contended", {
      ...primitives,
      capabilities: { shared: true },
      secret: "of both",
      commit: (tenant, writes) =>
        Effect.suspend(() => {
          if (intruders-- <= 0) return primitives.commit(tenant, writes)
          const row = held.get(id("x"))! // `x` is put below
          held.set(id("x"), {
            ...row,
            record: { ...row.record, revision: row.record.revision + 1, tags: [`${intruders}`] }
          })
          return Effect.fail(conflict)
        })
    })
    intruders = 0
    yield* put(store, draft("tea", { id: id("x") }))
    intruders = 3
    const after = yield* store.update(ada, id("x"), { body: "coffee" })
    assert.deepEqual([after.revision, after.body, after.tags], [5, "coffee", ["0"]])
    intruders = 1
    yield* refuses("conflict", store.update(ada, id("x"), { body: "late" }, { ifRevision: 5 }))
  }))

it.effect("MemoryStore.make refuses a durable or shared store without a secret", () =>
  Effect.gen(function*() {
    for (const capabilities of [{ shared: true }, { durable: true }]) {
      const made = (secret?: string) => MemoryStore.make("kept", { ...rows().primitives, capabilities, secret })
      const { message } = yield* refuses("invalid_draft", made())
      assert.include(message, "secret")
      const [one, same, other] = [yield* made("a"), yield* made("a"), yield* made("b")]
      assert.strictEqual(yield* same.sign("p", "x"), yield* one.sign("p", "x"))
      assert.notStrictEqual(yield* other.sign("p", "x"), yield* one.sign("p", "x"))
    }
  }))

it.effect("a write fails with `unavailable` if every attempt to commit conflicts", () =>
  Effect.gen(function*() {
    const store = yield* MemoryStore.make("crowded", {
      ...rows().primitives,
      capabilities: { shared: true },
      secret: "of both",
      commit: () => Effect.fail(conflict)
    })
    assert.isTrue((yield* refuses("unavailable", put(store, draft("tea")))).isRetryable)
  }))

it.effect("a batch reads and commits while the backend's function `exclusive` holds the lock", () =>
  Effect.gen(function*() {
    const { primitives } = rows()
    const log: Array<string> = []
    const note = (entry: string) => Effect.sync(() => log.push(entry))
    const store = yield* MemoryStore.make("locked", {
      ...primitives,
      read: (tenant, ids) => Effect.zipRight(note("read"), primitives.read(tenant, ids)),
      commit: (tenant, writes) => Effect.zipRight(note("commit"), primitives.commit(tenant, writes)),
      exclusive: (self) => note("lock").pipe(Effect.zipRight(self), Effect.ensuring(note("unlock")))
    })
    log.length = 0
    yield* put(store, draft("tea", { id: id("x") }))
    assert.strictEqual(log.at(0), "lock")
    assert.strictEqual(log.at(-2), "commit")
    assert.strictEqual(log.at(-1), "unlock")
    assert.include(log, "read")
  }))

it.effect("a store with `writable: false` can be read, refuses writes and is never compacted", () =>
  Effect.gen(function*() {
    const { primitives } = rows()
    yield* put(yield* MemoryStore.make("writer", primitives), draft("tea", { expiresAt: 1_000 }))
    yield* TestClock.adjust("1 second")
    const store = yield* MemoryStore.make("reader", { ...primitives, capabilities: { writable: false } })
    yield* refuses("read_only", put(store, draft("coffee")))
    assert.strictEqual(yield* store.compact, 0)
    assert.deepStrictEqual(yield* listed(store, system), ["tea"])
  }))

it.effect("a store reports `history: false` if its backend cannot read revisions", () =>
  Effect.gen(function*() {
    const store = yield* MemoryStore.make("forgetful", { ...rows().primitives, capabilities: { history: true } })
    assert.isFalse(store.capabilities.history)
  }))

it.effect("`put` checks data against the Schema of an application's own kind, and its error names the invalid field", () =>
  Effect.gen(function*() {
    const store = yield* MemoryStore.MemoryStore
    const recipe = { kind: "recipe", body: "Leek soup", scope: { userId: "ada" } }
    const { detail } = yield* refuses("invalid_draft", put(store, { ...recipe, data: { minutes: "ten" } }))
    assert.include(detail.issues.join(), "data.minutes")
    assert.strictEqual((yield* put(store, { ...recipe, data: { minutes: 10, more: true } })).importance, 0.9)
    yield* refuses("invalid_draft", store.put(ada, [{ ...recipe, data: { minutes: 10 } }, { ...recipe, data: {} }]))
  }).pipe(Effect.provide(Layer.provide(
    MemoryStore.layerInMemory,
    MemoryKind.layer(
      MemoryKind.make({ name: "recipe", schema: Schema.Struct({ minutes: Schema.Int }), importance: 0.9 })
    )
  ))))

it.effect("a store with two merged layers of MemoryKind checks the data of both kinds", () =>
  Effect.gen(function*() {
    const store = yield* MemoryStore.MemoryStore
    const data = { minutes: "ten" }
    yield* refuses("invalid_draft", put(store, draft("soup", { kind: "recipe", data })))
    yield* refuses("invalid_draft", put(store, draft("walk", { kind: "route", data })))
  }).pipe(Effect.provide(Layer.provide(
    MemoryStore.layerInMemory,
    ["recipe", "route"].map((name) =>
      MemoryKind.layer(MemoryKind.make({ name, schema: Schema.Struct({ minutes: Schema.Int }) }))
    ) as [Layer.Layer<MemoryKind.Kinds>, Layer.Layer<MemoryKind.Kinds>] // cast: `map` returns as many elements
  ))))

it.effect("a subscriber with too many unread changes fails with `unavailable`", () =>
  Effect.gen(function*() {
    const changeFeed = ChangeFeed.make()
    const record = yield* Effect.provide(
      Effect.flatMap(MemoryStore.MemoryStore, (store) => put(store, draft("tea"))),
      MemoryStore.layerInMemory
    )
    const change = { id: record.id, before: undefined, after: record, by: "here" } as const
    let heard = 0
    const listening = yield* Effect.fork(
      Effect.either(Stream.runForEach(changeFeed.of(ada), () => Effect.sync(() => heard++)))
    )
    while (heard === 0) yield* Effect.zipRight(changeFeed.publish("default", [change]), Effect.yieldNow())
    yield* changeFeed.publish("default", Array.from({ length: 70_000 }, () => change))
    const ended = yield* Fiber.join(listening)
    assert.isAtLeast(heard, 65_536)
    assert.isTrue(ended._tag === "Left" && ended.left.reason === "unavailable")
  }))

it.effect("a put of 500 drafts calls the backend's function `read` once", () =>
  Effect.gen(function*() {
    const { primitives } = rows()
    const reads: Array<number> = []
    const store = yield* MemoryStore.make("counted", {
      ...primitives,
      read: (tenant, ids) => Effect.zipRight(Effect.sync(() => reads.push(ids.length)), primitives.read(tenant, ids))
    })
    yield* store.put(ada, Array.from({ length: 500 }, (_, n) => draft(`fact ${n}`)))
    assert.deepStrictEqual(reads, [500])
  }))

it.effect("puts to different tenants run concurrently: two puts to each of 50 tenants take no longer than two puts to one tenant", () =>
  Effect.gen(function*() {
    const { primitives } = rows()
    const store = yield* MemoryStore.make("slow", {
      ...primitives,
      commit: (tenant, writes) => Effect.delay(primitives.commit(tenant, writes), "10 millis")
    })
    const puts = (tenants: number, each: number) =>
      Effect.fork(Effect.forEach(
        Array.from({ length: tenants * each }, (_, n) => n),
        (n) => store.put(Viewer.system(`tenant-${n % tenants}`), [draft(`fact ${n}`)]),
        { concurrency: "unbounded" }
      ))
    const one = yield* puts(1, 2)
    yield* TestClock.adjust("19 millis")
    assert.isNull(yield* Fiber.poll(one).pipe(Effect.map(Option.getOrNull)))
    yield* TestClock.adjust("1 millis")
    yield* Fiber.join(one)
    const many = yield* puts(50, 2)
    yield* TestClock.adjust("20 millis")
    assert.lengthOf(yield* Fiber.join(many), 100)
  }))

it.effect("a batch with a put of an invisible record's id fails with `invalid_id`, or with its other error if it has one", () =>
  Effect.gen(function*() {
    const store = yield* MemoryStore.MemoryStore
    const bobs = yield* put(store, draft("secret", { id: id("taken"), scope: { userId: "bob" } }), bob)
    yield* store.update(bob, bobs.id, { body: "secret still" })
    const other = id("other")
    const batches = (probe: MemoryId): ReadonlyArray<ReadonlyArray<MemoryMutation>> => [
      [{ _tag: "Update", id: other, patch: { body: "x" } }],
      [{ _tag: "Restore", id: probe, revision: 2 }],
      [{ _tag: "Update", id: probe, patch: { body: "x" } }, { _tag: "Restore", id: probe, revision: 3 }],
      [{ _tag: "Update", id: probe, patch: { body: "x" }, ifRevision: 2 }],
      [{ _tag: "Forget", id: probe, ifRevision: 3 }],
      [{ _tag: "Put", draft: draft("x", { id: probe }), ifRevision: 7 }],
      [{ _tag: "Put", draft: draft("x", { scope: { userId: "bob" } }) }],
      [{ _tag: "Put", draft: draft("x", { expiresAt: -1 }) }]
    ]
    const answers = (probe: MemoryId) =>
      Effect.forEach(batches(probe), (rest) =>
        Effect.map(
          Effect.flip(store.apply(ada, [{ _tag: "Put", draft: draft("mine", { id: probe }) }, ...rest])),
          ({ detail, message, reason }) => ({ detail, message, reason })
        ))
    const expected = yield* answers(id("free"))
    assert.deepStrictEqual(yield* answers(bobs.id), expected)
    assert.notInclude(expected.map(({ reason }) => reason), "invalid_id")
    yield* refuses("invalid_id", store.apply(ada, [{ _tag: "Put", draft: draft("mine", { id: bobs.id }) }]))
    const purging: ReadonlyArray<MemoryMutation> = [
      { _tag: "Put", draft: draft("mine", { id: bobs.id }) },
      { _tag: "Forget", id: bobs.id, purge: true }
    ]
    yield* refuses("invalid_id", store.apply(ada, purging))
    assert.deepStrictEqual((yield* store.history(bob, bobs.id)).map(({ body }) => body), ["secret still", "secret"])
  }).pipe(Effect.provide(MemoryStore.layerInMemory)))
