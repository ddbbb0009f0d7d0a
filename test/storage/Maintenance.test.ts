/** Hourly maintenance of stores after a long sleep: it runs at most three times, not once for every missed hour. */
import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as TestClock from "effect/TestClock"
import * as Tracer from "effect/Tracer"
import * as MemoryKind from "../../src/domain/MemoryKind.ts"
import * as Retention from "../../src/harness/Retention.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import { ada, draft, listed, put, system } from "../../src/testing/Sample.ts"
import { stores } from "../stores.ts"

/** Number of stores that each layer makes and maintains by itself, by the name of the layer. */
const maintained: Readonly<Record<keyof typeof stores, number>> = {
  memory: 1,
  markdown: 1,
  shelf: 0,
  sqlite: 1,
  postgres: 1,
  "overlay on memory": 1,
  federated: 3
}

/** Records the names of all spans that start. */
const traced = <A, E, R>(use: (spans: Array<string>) => Effect.Effect<A, E, R>) =>
  Effect.gen(function*() {
    const spans: Array<string> = []
    const tracer = yield* Effect.tracer
    return yield* Effect.withTracer(
      use(spans),
      Tracer.make({
        span(...args) {
          spans.push(args[0])
          return tracer.span(...args)
        },
        context: (f, fiber) => tracer.context(f, fiber)
      })
    )
  })

const compactions = (spans: ReadonlyArray<string>) => spans.filter((name) => name.endsWith(".compact")).length

describe.each(Object.entries(stores))("maintenance of the store %s", (name, layer) => {
  const stores = maintained[name as keyof typeof maintained] // the names are the keys of `maintained`

  it.scoped("MemoryStore.maintain compacts a store at most once after a long sleep in which nothing expired", () =>
    traced((spans) =>
      Effect.gen(function*() {
        const store = Context.get(yield* Layer.build(layer), MemoryStore.MemoryStore)
        yield* put(store, draft("tea"))
        spans.length = 0
        yield* TestClock.setTime(3e10)
        assert.deepStrictEqual(yield* listed(store, ada), ["tea"])
        assert.isAtMost(compactions(spans), stores)
        spans.length = 0
        yield* TestClock.setTime(3.1e10)
        yield* TestClock.setTime(6e10)
        yield* put(store, draft("coffee"))
        assert.isAtMost(compactions(spans), stores)
      })
    ))

  it.scoped("a store that compacts itself erases expired records after the process slept, with at most three compactions per store", () =>
    traced((spans) =>
      Effect.gen(function*() {
        const store = Context.get(yield* Layer.build(layer), MemoryStore.MemoryStore)
        yield* put(store, draft("soon", { expiresAt: 1_000 }))
        yield* put(store, draft("later", { expiresAt: 2e10 }))
        yield* put(store, draft("last", { expiresAt: 9e10 }))
        spans.length = 0
        yield* TestClock.setTime(3e10)
        yield* put(store, draft("after the sleep"))
        const expected = ["after the sleep", "last"]
        const erases = name !== "shelf" && !name.startsWith("overlay")
        let left = yield* listed(store, system)
        // compacting files takes iterations of the event loop; if the compaction read the clock before the sleep, the later time starts
        // another
        for (let turns = 0; turns < 20_000 && erases && left.length > expected.length; turns++) {
          yield* Effect.promise(() => new Promise((resolve) => setImmediate(resolve)))
          if (turns === 2_000) yield* TestClock.setTime(8e10)
          left = yield* listed(store, system)
        }
        if (erases) assert.sameMembers(left, expected)
        else assert.includeMembers(left, expected)
        assert.isAtMost(compactions(spans), 3 * stores)
      })
    ))
})

describe("Retention.layer", () => {
  it.scoped("Retention.layer enforces caps in at most three passes after the process slept for almost a year", () =>
    traced((spans) =>
      Effect.gen(function*() {
        const store = yield* MemoryStore.MemoryStore
        yield* Layer.build(Retention.layer)
        yield* TestClock.adjust("2 hours")
        yield* Effect.forEach(["a", "b"], (body) => put(store, draft(body, { kind: "scrap" })))
        spans.length = 0
        yield* TestClock.setTime(3e10)
        assert.lengthOf(yield* listed(store, ada), 1)
        assert.isAtMost(spans.filter((name) => name === "memory.tenants").length, 3)
      }).pipe(
        Effect.provide(MemoryStore.layerInMemory),
        Effect.provide(MemoryKind.layer(MemoryKind.make({ name: "scrap", cap: 1 })))
      )
    ))
})
