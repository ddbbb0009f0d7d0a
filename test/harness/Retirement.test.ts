import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/TestClock"
import * as MemoryKind from "../../src/domain/MemoryKind.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as MemoryEvents from "../../src/harness/MemoryEvents.ts"
import * as Retirement from "../../src/harness/Retirement.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import { ada, draft, listed, put, system } from "../../src/testing/Sample.ts"

const kinds = MemoryKind.layer(MemoryKind.make({ name: "scrap", cap: 1 }))
const here = Layer.provideMerge(
  Layer.merge(MemoryStore.layerInMemory, MemoryEvents.layer({ texts: true })),
  kinds
)
const scraps = (store: MemoryStore.Service, viewer = ada) =>
  Effect.forEach(["a", "b", "c"], (body) => put(store, draft(body, { kind: "scrap" }), viewer))

describe("Retirement", () => {
  it.effect("tells each that went; a dry run tells none", () =>
    Effect.gen(function*() {
      const store = yield* MemoryStore.MemoryStore
      const events = yield* MemoryEvents.MemoryEvents
      const heard = yield* Effect.fork(Stream.runCollect(Stream.take(events.stream, 2)))
      yield* Effect.yieldNow()
      yield* scraps(store)
      assert.lengthOf(yield* Retirement.enforce(system, { dryRun: true }), 2)
      const gone = yield* Retirement.enforce(system)
      assert.deepStrictEqual(
        Array.from(yield* Fiber.join(heard), (event) =>
          event._tag === "memory_retired" && [event.id, event.summary, event.kind]),
        gone.map(({ id, kind, summary }) => [id, summary, kind])
      )
    }).pipe(Effect.provide(here)))

  it.effect("needs nobody to listen", () =>
    Effect.gen(function*() {
      const store = yield* MemoryStore.MemoryStore
      yield* scraps(store)
      assert.lengthOf(yield* Retirement.enforce(system), 2)
    }).pipe(Effect.provide(Layer.provideMerge(MemoryStore.layerInMemory, kinds))))

  it.scoped("as a layer keeps every tenant within its caps, at once and by the hour", () =>
    Effect.gen(function*() {
      const store = yield* MemoryStore.MemoryStore
      const elsewhere = Viewer.make({ tenant: "elsewhere", userId: "ada" })
      const count = Effect.map(
        Effect.all([listed(store, ada), listed(store, elsewhere)]),
        (all) => all.map(({ length }) => length)
      )
      yield* scraps(store)
      yield* scraps(store, elsewhere)
      yield* Layer.build(Retirement.layer)
      yield* TestClock.adjust(1)
      assert.deepStrictEqual(yield* count, [1, 1])
      yield* scraps(store)
      yield* TestClock.adjust("59 minutes")
      assert.deepStrictEqual(yield* count, [4, 1])
      yield* TestClock.adjust("1 minute")
      assert.deepStrictEqual(yield* count, [1, 1])
    }).pipe(Effect.provide(here)))
})
