import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as TestClock from "effect/TestClock"
import * as Viewer from "../../src/domain/Viewer.ts"
import { Postgres } from "../../src/postgres.ts"
import { Sqlite } from "../../src/sqlite.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import { draft } from "../../src/testing/Sample.ts"
import { place } from "../postgres/Server.ts"
import { databases } from "../stores.ts"

const ada = Viewer.make({ userId: "ada" })
const nobody = Viewer.make({ userId: "nobody" })

const vectorsOf = (store: MemoryStore.Service) => Option.getOrThrow(store.vectors)
const built = <E, R>(layer: Layer.Layer<MemoryStore.MemoryStore, E, R>) =>
  Effect.map(Layer.build(layer), Context.get(MemoryStore.MemoryStore))

/** Number of records: more than the store reads in one step. */
const count = 2_100
const filled = <E, R>(layer: Layer.Layer<MemoryStore.MemoryStore, E, R>) =>
  Effect.gen(function*() {
    const store = yield* built(layer)
    for (let n = 0; n < count; n += 100) {
      yield* store.put(ada, Array.from({ length: 100 }, (_, i) => draft(`note ${n + i}`, { scope: { userId: "ada" } })))
    }
    return store
  })

/** Attaches one vector to all pending texts; returns their number. */
const embed = (store: MemoryStore.Service, model: string, vector: ReadonlyArray<number>) =>
  Effect.gen(function*() {
    const pending = yield* vectorsOf(store).pending("default", model)
    yield* vectorsOf(store).attach("default", model, pending.map(({ hash }) => [hash, Float32Array.from(vector)]))
    return pending.length
  })

const near = (
  store: MemoryStore.Service,
  viewer: Viewer.Viewer,
  model: string,
  vector: ReadonlyArray<number>,
  limit: number
) => store.search(viewer, { mode: "vector", embedding: { model, vector }, limit })

const turns = (count: number) => Effect.repeatN(Effect.promise(() => new Promise((done) => setImmediate(done))), count)

describe.each(Object.entries(databases))("the database store %s", (name, layer) => {
  it.scopedLive("a search finds as many hits as its limit even if a viewer who sees nothing searches at the same time", () =>
    Effect.gen(function*() {
      const store = yield* filled(layer)
      for (let round = 0; round < 8; round++) {
        const model = `model ${round}`
        assert.strictEqual(yield* embed(store, model, [1, 0]), count)
        const [{ hits }] = yield* Effect.all([
          near(store, ada, model, [1, 0], 20),
          Effect.zipRight(turns(round), near(store, nobody, model, [1, 0], 20))
        ], { concurrency: 2 })
        assert.lengthOf(hits, 20, `round ${round}`)
        assert.lengthOf((yield* near(store, ada, model, [1, 0], 20)).hits, 20, `round ${round}, asked again`)
      }
    }))

  it.scopedLive("a record that is edited during a vector search is later found by the vector of its new text", () =>
    Effect.gen(function*() {
      const store = yield* filled(layer)
      const ids = (yield* store.list(ada, { limit: 30 })).items.map(({ id }) => id)
      yield* embed(store, "m", [1, 0])
      yield* store.search(ada, { text: "note" }) // loads the words into the cache, but no vectors
      yield* Effect.all([
        near(store, ada, "m", [1, 0], 10),
        Effect.forEach(
          ids,
          (id) =>
            Effect.zipRight(store.update(ada, id, { body: `edited ${id}` }), store.search(ada, { text: "edited" })),
          { discard: true }
        )
      ], { concurrency: 2 })
      assert.strictEqual(yield* embed(store, "m", [0, 1]), ids.length)
      const { hits } = yield* near(store, ada, "m", [0, 1], 100)
      assert.deepStrictEqual(hits.map(({ record }) => record.id).sort(), ids.toSorted())
    }))

  it.scoped("a vector attached after its record was purged is erased by `compact`", () =>
    Effect.gen(function*() {
      const store = yield* built(layer)
      const [put] = yield* store.put(ada, [draft("soon gone", { scope: { userId: "ada" } })])
      const [waiting] = yield* vectorsOf(store).pending("default", "m")
      const { hash } = waiting!
      yield* store.forget(ada, [put!.record.id], { purge: true })
      yield* vectorsOf(store).attach("default", "m", [[hash, Float32Array.of(1, 0)]])
      yield* store.compact
      assert.deepStrictEqual((yield* vectorsOf(store).read("default", "m", [hash])).map(Option.getOrUndefined), [
        undefined
      ])
      assert.deepStrictEqual(yield* vectorsOf(store).models("default"), [])
    }))

  it.scoped("the engine's `due`, called for one row at a time, returns the same rows as one call for all rows", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(1_750_000_000_000)
      const engine = name === "sqlite"
        ? yield* Sqlite.engine({ filename: ":memory:", trash: 0 })
        : yield* Effect.flatMap(place, (place) => Postgres.engine({ ...place, trash: 0, poll: "1 hour" }))
      const store = yield* MemoryStore.make(name, engine)
      const put = yield* store.put(
        ada,
        Array.from({ length: 6 }, (_, n) =>
          draft(`note ${n}`, {
            scope: { userId: "ada" },
            ...(n < 3 && { expiresAt: 1_750_000_000_000 + 1_000 * (n + 1) })
          }))
      )
      yield* store.forget(
        ada,
        put.slice(3).map(({ record }) => record.id)
      )
      const all = yield* engine.due(undefined, 100)
      assert.lengthOf(all, 6)
      const paged: Array<unknown> = []
      for (let after = undefined as typeof all[number] | undefined;;) {
        const [next] = yield* engine.due(after, 1)
        if (next === undefined) break
        paged.push(next)
        after = next
      }
      assert.deepStrictEqual(paged, Array.from<unknown>(all))
    }))
})
