/** Laws of expiry (`expiresAt`) and of valid time (`validAt`, `invalidAt`). */
import { assert } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as TestClock from "effect/TestClock"
import { type Law, law, refuses } from "../Law.ts"
import { ada, draft, fact, found, get, listed, put, system, whyNot } from "../Sample.ts"

/** The laws of expiry and valid time. */
export const laws: ReadonlyArray<Law> = [
  law(
    "every read and write by a user, even a read with an earlier `asOf`, treats a record as absent once its `expiresAt` is reached",
    (store) =>
      Effect.gen(function*() {
        const { id } = yield* put(store, draft("Bread is in the oven", { expiresAt: 60_000, data: { n: 1 } }))
        yield* store.update(ada, id, { data: { n: 2 } })
        yield* TestClock.adjust("59999 millis")
        assert.lengthOf(yield* found(store, ada, { text: "oven" }), 1)
        assert.isDefined(yield* get(store, ada, id))

        yield* TestClock.adjust("1 millis")
        assert.isUndefined(yield* get(store, ada, id))
        for (const query of [{}, { asOf: 0 }, { asOf: 59_999 }, { ids: [id] }]) {
          assert.deepStrictEqual(yield* listed(store, ada, query), [])
          assert.deepStrictEqual(yield* found(store, ada, query), [])
          assert.deepStrictEqual(yield* found(store, ada, { ...query, text: "oven" }), [])
        }
        assert.deepStrictEqual(yield* store.history(ada, id), [])
        yield* refuses("not_found", store.update(ada, id, { expiresAt: null }))
        yield* refuses("not_found", store.apply(ada, [{ _tag: "Restore", id, revision: 2 }]))
        yield* store.touch(ada, [id])
        assert.deepEqual(yield* store.uses(ada, [id]), [{ count: 0 }])
        assert.deepStrictEqual(yield* store.forget(ada, [id]), [false])
      })
  ),

  law("the viewer `System` can read an expired record until `compact` erases it", (store) =>
    Effect.gen(function*() {
      const bread = yield* put(store, draft("Bread", { expiresAt: 1_000 }))
      yield* TestClock.adjust("1 second")
      assert.deepStrictEqual(yield* get(store, system, bread.id), bread)
      assert.deepStrictEqual(yield* listed(store, system), ["Bread"])
      assert.deepStrictEqual(yield* found(store, system, { text: "bread" }), ["Bread"])
      assert.deepStrictEqual(yield* store.history(system, bread.id), [bread])
      yield* store.compact
      assert.deepStrictEqual(yield* listed(store, system), [])
    })),

  law("a put under the id of an expired record creates a new record", (store) =>
    Effect.gen(function*() {
      const { id } = yield* put(store, draft("Bread", { expiresAt: 1_000 }))
      yield* TestClock.adjust("1 second")
      const [again] = yield* store.put(ada, [draft("Cake", { id })])
      assert.deepEqual([again?.outcome, again?.record.createdAt], ["created", 1_000])
      assert.deepStrictEqual(yield* listed(store, ada), ["Cake"])
    })),

  law("`put` and `update` refuse an `expiresAt` in the past or present", (store) =>
    Effect.gen(function*() {
      yield* TestClock.adjust("1 second")
      const { id } = yield* put(store, draft("Tea"))
      yield* refuses("invalid_draft", store.put(ada, [draft("late", { expiresAt: 1_000 })]))
      yield* refuses("invalid_draft", store.put(ada, [draft("late", { id, expiresAt: 999 })]))
      yield* refuses("invalid_draft", store.update(ada, id, { expiresAt: 1_000 }))
      assert.deepStrictEqual(yield* listed(store, system), ["Tea"])
      assert.strictEqual((yield* store.update(ada, id, { expiresAt: 1_001 })).expiresAt, 1_001)
    })),

  law(
    "`list` and `search` with `asOf` return the records valid at that time; a record is valid from `validAt` until just before `invalidAt`",
    (store) =>
      Effect.gen(function*() {
        yield* TestClock.adjust("10 seconds")
        yield* put(store, fact("Lives in Bern", { validAt: 1_000, invalidAt: 5_000 }))
        yield* put(store, fact("Lives in Oslo", { validAt: 5_000 }))
        yield* put(store, fact("Lives in Rome", { validAt: 20_000 }))
        const at = (asOf?: number) =>
          Effect.gen(function*() {
            const list = yield* listed(store, ada, { asOf })
            assert.sameMembers(yield* found(store, ada, { asOf, text: "lives" }), list)
            return list.sort()
          })
        assert.deepStrictEqual(yield* at(999), [])
        assert.deepStrictEqual(yield* at(1_000), ["Lives in Bern"])
        assert.deepStrictEqual(yield* at(4_999), ["Lives in Bern"])
        assert.deepStrictEqual(yield* at(5_000), ["Lives in Oslo"])
        assert.deepStrictEqual(yield* at(), ["Lives in Oslo"])
        assert.deepStrictEqual(yield* at(20_000), ["Lives in Oslo", "Lives in Rome"])
      })
  ),

  law(
    "`list` and `search` by a user omit a record that is no longer valid, and return it with `closed: true`",
    (store) =>
      Effect.gen(function*() {
        const { id } = yield* put(store, fact("Lives in Bern"))
        yield* TestClock.adjust("1 second")
        const closed = yield* store.update(ada, id, { invalidAt: 1_000 })
        assert.deepStrictEqual(yield* listed(store, ada), [])
        assert.deepStrictEqual(yield* found(store, ada, { text: "Bern" }), [])
        assert.deepStrictEqual(yield* whyNot(store, ada, id, { text: "Bern" }), "not_valid_then")
        assert.deepStrictEqual(yield* get(store, ada, id), closed)
        assert.deepStrictEqual(yield* listed(store, ada, { closed: true }), ["Lives in Bern"])
        assert.deepStrictEqual(yield* found(store, ada, { closed: true, text: "Bern" }), ["Lives in Bern"])
        assert.deepStrictEqual(yield* whyNot(store, ada, id, { closed: true, text: "Bern" }), "hit")
        yield* put(store, fact("Will live in Rome", { validAt: 2_000 }))
        assert.deepStrictEqual(yield* listed(store, ada, { closed: true }), ["Lives in Bern"])
        yield* store.update(ada, id, { invalidAt: null })
        assert.deepStrictEqual(yield* found(store, ada, { text: "Bern" }), ["Lives in Bern"])
      })
  ),

  law(
    "`list` by the viewer `System` also returns records that are not valid now, unless `asOf` is given",
    (store) =>
      Effect.gen(function*() {
        yield* TestClock.adjust("10 seconds")
        yield* put(store, fact("was", { validAt: 1_000, invalidAt: 5_000 }))
        yield* put(store, fact("never", { validAt: 5_000, invalidAt: 5_000 }))
        yield* put(store, fact("will be", { validAt: 20_000 }))
        assert.sameMembers(yield* listed(store, system), ["was", "never", "will be"])
        assert.deepStrictEqual(yield* listed(store, system, { asOf: 2_000 }), ["was"])
        assert.deepStrictEqual(yield* listed(store, ada), [])
      })
  ),

  law(
    "records that are expired, invisible or no longer valid do not count towards the limit of `list` and `search`",
    (store) =>
      Effect.gen(function*() {
        const crowd = Array.from(
          { length: 1_000 },
          (_, n) => draft(`tea ${n}`, [{ expiresAt: 1_000 }, { invalidAt: 500 }, { scope: { userId: "bob" } }][n % 3])
        )
        yield* put(store, draft("tea, the one"))
        yield* TestClock.adjust("1 millis")
        yield* store.put(system, crowd)
        yield* TestClock.adjust("1 second")
        for (const query of [{ limit: 1 }, { limit: 1, text: "tea" }]) {
          const { hits, leftOut } = yield* store.search(ada, query)
          assert.deepStrictEqual(
            hits.map(({ record }) => record.body),
            ["tea, the one"]
          )
          assert.deepEqual({ ...leftOut }, { limit: 0, budget: 0, folded: 0 })
        }
        const page = yield* store.list(ada, { limit: 1 })
        assert.lengthOf(page.items, 1)
        assert.isUndefined(page.next)
      })
  )
]
