/** Laws of concurrent writers and of `ifRevision`: no write is lost, and an interrupted `put` writes all of its drafts or none. */
import { assert } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as MemoryError from "../../domain/MemoryError.ts"
import { type Law, law, refuses } from "../Law.ts"
import { ada, draft, listed, put, the } from "../Sample.ts"

/** The laws of concurrent writers. */
export const laws: ReadonlyArray<Law> = [
  law(
    "every write with an outdated `ifRevision` changes nothing and fails with a `conflict` that has the expected and the actual revision",
    (store) =>
      Effect.gen(function*() {
        const { id, revision } = yield* put(store, draft("Tea"))
        yield* store.update(ada, id, { body: "Coffee" }, { ifRevision: revision })
        const late = [
          store.put(ada, [draft("late", { id })], { ifRevision: 1 }),
          store.update(ada, id, { body: "late" }, { ifRevision: 1 }),
          store.apply(ada, [{ _tag: "Forget", id, ifRevision: 1 }]),
          store.apply(ada, [{ _tag: "Restore", id, revision: 2, ifRevision: 1 }])
        ]
        for (const call of late) {
          const error = yield* refuses<"conflict", unknown>("conflict", call)
          assert.deepEqual({ ...error.detail }, { expected: 1, actual: 2 })
          assert.isTrue(error.isRetryable)
        }
        assert.deepStrictEqual(yield* listed(store, ada), ["Coffee"])
        assert.strictEqual((yield* store.update(ada, id, { body: "Water" }, { ifRevision: 2 })).revision, 3)
      })
  ),

  law(
    "`put` with `ifRevision: 0` fails with `conflict` if the record exists, but not if it was forgotten",
    (store) =>
      Effect.gen(function*() {
        const { id } = yield* put(store, draft("Tea"))
        assert.deepEqual(
          { ...(yield* refuses("conflict", store.put(ada, [draft("late", { id })], { ifRevision: 0 }))).detail },
          { expected: 0, actual: 1 }
        )
        yield* store.forget(ada, [id])
        assert.deepEqual(
          { ...(yield* refuses("conflict", store.put(ada, [draft("late", { id })], { ifRevision: 1 }))).detail },
          { expected: 1, actual: 0 }
        )
        assert.deepStrictEqual(yield* listed(store, ada), [])
        const [again] = yield* store.put(ada, [draft("new", { id })], { ifRevision: 0 })
        assert.strictEqual(again?.outcome, "created")
      })
  ),

  law(
    "concurrent updates of a record are all applied if each reads it again and retries after a `conflict`, or if each omits `ifRevision`",
    (store) =>
      Effect.gen(function*() {
        const { id } = yield* put(store, draft("count", { data: { n: 0 } }))
        const increment = Effect.gen(function*() {
          const { data, revision } = yield* the(store, ada, id)
          yield* Effect.yieldNow()
          yield* store.update(ada, id, { data: { n: Number(data["n"]) + 1 } }, { ifRevision: revision })
        })
        const insist: typeof increment = MemoryError.catchReason("conflict", () => insist)(increment)
        yield* Effect.all(Array.from({ length: 20 }, () => insist), { concurrency: "unbounded" })
        const { data, revision } = yield* the(store, ada, id)
        assert.deepEqual([data["n"], revision], [20, 21])

        yield* Effect.all(Array.from({ length: 20 }, (_, n) => store.update(ada, id, { metadata: { n } })), {
          concurrency: "unbounded"
        })
        assert.strictEqual((yield* the(store, ada, id)).revision, 41)
      })
  ),

  law("an interrupted `put` writes either all of its drafts or none", (store) =>
    Effect.gen(function*() {
      for (let patience = 0; patience < 25; patience++) {
        const tags = [`round-${patience}`]
        const drafts = Array.from({ length: 5 }, (_, n) => draft(`part ${n}`, { tags }))
        const fiber = yield* Effect.fork(store.put(ada, drafts))
        for (let i = 0; i < patience; i++) yield* Effect.yieldNow()
        yield* Fiber.interrupt(fiber)
        assert.include([0, 5], (yield* listed(store, ada, { tags })).length)
      }
      assert.strictEqual((yield* put(store, draft("after"))).revision, 1)
    }))
]
