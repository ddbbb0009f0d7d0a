import { assert, describe, it } from "@effect/vitest"
import { assertNone, assertSome } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as MemoryError from "../../src/domain/MemoryError.ts"
import { stableId } from "../../src/domain/MemoryId.ts"
import * as MemoryKind from "../../src/domain/MemoryKind.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as TypedMemory from "../../src/kinds/TypedMemory.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"

const Recipe = MemoryKind.make({
  name: "recipe",
  schema: Schema.Struct({ minutes: Schema.Int, since: Schema.DateFromString }),
  cap: 200
})

const ada = Viewer.make({ userId: "ada" })
const bob = Viewer.make({ userId: "bob" })
const scope = { userId: "ada" }
const soup = { scope, body: "Leek soup", data: { minutes: 25, since: new Date(0) } }

const law = (
  title: string,
  check: (
    recipes: TypedMemory.TypedMemory<typeof Recipe.schema.Type>,
    store: MemoryStore.Service
  ) => Effect.Effect<void, unknown>
) =>
  it.effect(title, () =>
    Effect.gen(function*() {
      yield* check(yield* TypedMemory.make(Recipe), yield* MemoryStore.MemoryStore)
    }).pipe(Effect.provide(MemoryStore.layerInMemory.pipe(Layer.provide(MemoryKind.layer(Recipe))))))

const reason = <A>(self: Effect.Effect<A, MemoryError.MemoryError>) =>
  Effect.map(Effect.flip(self), ({ reason }) => reason)

describe("TypedMemory", () => {
  law(
    "`put` stores the data encoded as JSON, and `put` and `get` return the decoded data",
    (recipes, store) =>
      Effect.gen(function*() {
        const { data, record } = yield* recipes.put(ada, soup)
        assert.deepStrictEqual(data, soup.data)
        assert.deepInclude(record, { kind: "recipe", data: { minutes: 25, since: "1970-01-01T00:00:00.000Z" } })
        const [stored] = yield* store.get(ada, [record.id])
        assertSome(Option.map(stored!, ({ data }) => data), record.data)
        assertSome(Option.map(yield* recipes.get(ada, record.id), ({ data }) => data), soup.data)
      })
  )

  law(
    "`list`, `search`, `get`, `update`, `modify` and `forget` treat records of another kind as absent",
    (recipes, store) =>
      Effect.gen(function*() {
        const { record } = yield* recipes.put(ada, soup)
        const [other] = yield* store.put(ada, [{ scope, kind: "project", body: "Leek soup" }])
        const { id } = other!.record
        const filter = { kinds: ["project"], limit: 10 }
        assert.deepStrictEqual((yield* recipes.list(ada, filter)).map(({ record }) => record.id), [record.id])
        assert.deepStrictEqual(
          (yield* recipes.search(ada, { ...filter, text: "soup" })).map(({ record }) => record.id),
          [record.id]
        )
        assertNone(yield* recipes.get(ada, id))
        assert.strictEqual(yield* reason(recipes.update(ada, id, { body: "x" })), "not_found")
        assert.strictEqual(yield* reason(recipes.modify(ada, id, (data) => data)), "not_found")
        assert.isFalse(yield* recipes.forget(ada, id))
        assert.isTrue(Option.isSome((yield* store.get(ada, [id]))[0]!))
        assert.isTrue(yield* recipes.forget(ada, record.id))
        assert.isFalse(yield* recipes.forget(ada, record.id))
      })
  )

  law(
    "the option `where` of `list` filters records by fields of their data",
    (recipes) =>
      Effect.gen(function*() {
        yield* recipes.put(ada, soup)
        yield* recipes.put(ada, { ...soup, body: "Bread", data: { ...soup.data, minutes: 90 } })
        const quick = yield* recipes.list(ada, { where: { "data.minutes": { lt: 30 } } })
        assert.deepStrictEqual(quick.map(({ record }) => record.body), ["Leek soup"])
      })
  )

  law(
    "`put` and `update` fail with `invalid_draft` if the data violates the kind's Schema",
    (recipes) =>
      Effect.gen(function*() {
        const { record } = yield* recipes.put(ada, soup)
        const bad = { minutes: 2.5, since: new Date(NaN) }
        for (const self of [recipes.put(ada, { ...soup, data: bad }), recipes.update(ada, record.id, { data: bad })]) {
          const error = yield* Effect.flip(self)
          assert.strictEqual(error.reason, "invalid_draft")
          assert.include(error.message, "data.minutes")
        }
        assert.deepStrictEqual((yield* recipes.list(ada)).map(({ record }) => record.revision), [1])
      })
  )

  law(
    "`get`, `list`, `search` and `modify` fail with `corrupt` if stored data violates the kind's Schema",
    (_, store) =>
      Effect.gen(function*() {
        const Dish = MemoryKind.make({ name: "dish" })
        const Strict = MemoryKind.make({ name: "dish", schema: Schema.Struct({ serves: Schema.Int }) })
        const provide = Effect.provideService(MemoryStore.MemoryStore, store)
        const { record } = yield* (yield* provide(TypedMemory.make(Dish))).put(ada, {
          ...soup,
          data: { serves: "four" }
        })
        const dishes = yield* provide(TypedMemory.make(Strict))
        for (
          const self of [
            dishes.get(ada, record.id),
            dishes.list(ada),
            dishes.search(ada, { text: "soup" }),
            dishes.modify(ada, record.id, (data) => data)
          ]
        ) {
          const error = yield* Effect.flip<unknown, MemoryError.MemoryError, never>(self)
          assert.deepInclude(error, { reason: "corrupt", id: record.id, detail: { location: record.id } })
        }
      })
  )

  law(
    "`update` without `data` fails with `corrupt` and changes nothing if the stored data violates the kind's Schema",
    (_, store) =>
      Effect.gen(function*() {
        const Strict = MemoryKind.make({ name: "dish", schema: Schema.Struct({ serves: Schema.Int }) })
        const dishes = yield* Effect.provideService(TypedMemory.make(Strict), MemoryStore.MemoryStore, store)
        const [put] = yield* store.put(ada, [{ scope, kind: "dish", body: "Soup", data: { serves: "four" } }])
        const { id } = put!.record
        const error = yield* Effect.flip(dishes.update(ada, id, { body: "Pea soup" }))
        assert.deepInclude(error, { reason: "corrupt", id, detail: { location: id } })
        const [stored] = yield* store.get(ada, [id])
        assertSome(Option.map(stored!, ({ body, revision }) => [body, revision]), ["Soup", 1])
        const { record } = yield* dishes.update(ada, id, { data: { serves: 4 } })
        assert.deepStrictEqual([record.data, record.revision], [{ serves: 4 }, 2])
      })
  )

  law(
    "optional fields that are undefined are not stored, also in nested objects and arrays",
    (_, store) =>
      Effect.gen(function*() {
        const Optional = Schema.optional(Schema.Struct({ b: Schema.optional(Schema.Int) }))
        const Trip = MemoryKind.make({
          name: "trip",
          schema: Schema.Struct({ a: Optional, all: Schema.Array(Optional.from) })
        })
        const trips = yield* Effect.provideService(TypedMemory.make(Trip), MemoryStore.MemoryStore, store)
        const { record } = yield* trips.put(ada, { scope, body: "x", data: { a: undefined, all: [{ b: undefined }] } })
        assert.deepStrictEqual(record.data, { all: [{}] })
        const after = yield* trips.update(ada, record.id, { data: { a: { b: undefined }, all: [] } })
        assert.deepStrictEqual(after.record.data, { a: {}, all: [] })
      })
  )

  law("`modify` keeps fields of stored data that the Schema does not name", (recipes, store) =>
    Effect.gen(function*() {
      const [put] = yield* store.put(ada, [{
        scope,
        kind: "recipe",
        body: "Soup",
        data: { minutes: 1, since: "1970-01-01T00:00:00.000Z", note: "hot" }
      }])
      const { record } = yield* recipes.modify(ada, put!.record.id, (data) => ({ ...data, minutes: 2 }))
      assert.deepInclude(record.data, { minutes: 2, note: "hot" })
    }))

  law("concurrent calls of `modify` lose no update", (_, store) =>
    Effect.gen(function*() {
      const slow = {
        ...store,
        get: (...args: Parameters<typeof store.get>) => Effect.tap(store.get(...args), () => Effect.yieldNow())
      }
      const recipes = yield* Effect.provideService(TypedMemory.make(Recipe), MemoryStore.MemoryStore, slow)
      const { record } = yield* recipes.put(ada, soup)
      const longer = recipes.modify(ada, record.id, (data) => ({ ...data, minutes: data.minutes + 1 }))
      yield* Effect.all(Array.from({ length: 40 }, () => longer), { concurrency: "unbounded" })
      const after = yield* Effect.flatten(recipes.get(ada, record.id))
      assert.strictEqual(after.data.minutes, 65)
      assert.strictEqual(after.record.revision, 41)
    }))

  law(
    "`update` changes only the fields in the patch, and fails with `conflict` if `ifRevision` is outdated",
    (recipes) =>
      Effect.gen(function*() {
        const { record } = yield* recipes.put(ada, soup)
        const { data } = yield* recipes.update(ada, record.id, { body: "Pea soup" }, { ifRevision: 1 })
        assert.deepStrictEqual(data, soup.data)
        const error = yield* Effect.flip(recipes.update(ada, record.id, { body: "x" }, { ifRevision: 1 }))
        assert.deepInclude(error, { reason: "conflict", detail: { expected: 1, actual: 2 } })
      })
  )

  law(
    "`get`, `list`, `modify` and `forget` treat another viewer's record as absent",
    (recipes) =>
      Effect.gen(function*() {
        const { record } = yield* recipes.put(ada, soup)
        assertNone(yield* recipes.get(bob, record.id))
        assert.deepStrictEqual(yield* recipes.list(bob), [])
        assert.strictEqual(yield* reason(recipes.modify(bob, record.id, (data) => data)), "not_found")
        assert.strictEqual(yield* reason(recipes.modify(bob, stableId("none"), (data) => data)), "not_found")
        assert.isFalse(yield* recipes.forget(bob, record.id))
      })
  )
})
