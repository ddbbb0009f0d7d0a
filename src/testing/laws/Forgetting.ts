/** Laws of forgetting, purging, restoring and history. */
import { assert } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as TestClock from "effect/TestClock"
import type { MemoryId } from "../../domain/MemoryId.ts"
import * as Viewer from "../../domain/Viewer.ts"
import type { Service } from "../../storage/MemoryStore.ts"
import { type Law, law, ofHistory, refuses } from "../Law.ts"
import { ada, bob, draft, found, get, id, listed, put, system, whyNot } from "../Sample.ts"

/** The laws of forgetting, purging, restoring and history. */
export const laws: ReadonlyArray<Law> = [
  ofHistory(
    "restoring a revision whose `expiresAt` is past fails with `invalid_draft` and changes nothing",
    (store) =>
      Effect.gen(function*() {
        const tea = yield* put(store, draft("Tea", { expiresAt: 1_000 }))
        const kept = yield* store.update(ada, tea.id, { expiresAt: null })
        yield* TestClock.adjust("2 seconds")
        yield* refuses("invalid_draft", store.apply(ada, [{ _tag: "Restore", id: tea.id, revision: 1 }]))
        assert.deepStrictEqual(yield* get(store, ada, tea.id), kept)
      })
  ),

  law(
    "`forget` returns `true` for an existing record, which `get`, `list`, `search`, `history`, `whyNot` and `update` then treat as absent",
    (store) =>
      Effect.gen(function*() {
        const tea = yield* put(store, draft("Tea"))
        yield* put(store, draft("Coffee"))
        assert.deepStrictEqual(yield* store.forget(ada, [tea.id, id("nobody"), tea.id]), [true, false, false])
        assert.deepStrictEqual(yield* store.forget(ada, [tea.id]), [false])
        yield* absent(store, tea.id)
        assert.deepStrictEqual(yield* listed(store, ada), ["Coffee"])
        assert.deepStrictEqual(yield* found(store, ada, { text: "tea coffee" }), ["Coffee"])
      })
  ),

  law(
    "the viewer `System` can still read a forgotten record with `get` and `history`, but not a purged one",
    (store) =>
      Effect.gen(function*() {
        const [tea, coffee, water] = yield* Effect.forEach(
          ["Tea", "Coffee", "Water"],
          (body) => put(store, draft(body))
        )
        yield* store.forget(ada, [tea!.id, water!.id])
        yield* store.forget(ada, [coffee!.id, water!.id], { purge: true })
        const [tombstone, ...nothing] = (yield* store.get(system, [tea!.id, coffee!.id, water!.id])).map(
          Option.getOrUndefined
        )
        assert.strictEqual(tombstone?.body, "Tea")
        assert.deepStrictEqual(nothing, [undefined, undefined])
        assert.deepStrictEqual(yield* store.history(system, coffee!.id), [])
        assert.deepStrictEqual(yield* store.history(system, water!.id), [])
        assert.isNotEmpty(yield* store.history(system, tea!.id))
        assert.deepStrictEqual(yield* listed(store, system), [])
        assert.deepStrictEqual(yield* found(store, system, { text: "tea coffee water" }), [])
      })
  ),

  law(
    "a put with a forgotten record's id creates a new record that continues the revision numbers",
    (store) =>
      Effect.gen(function*() {
        yield* put(store, draft("Tea", { id: id("tea"), tags: ["hot"] }))
        yield* store.forget(ada, [id("tea")])
        yield* TestClock.adjust("1 second")
        const [again] = yield* store.put(ada, [draft("Tea again", { id: id("tea") })])
        assert.strictEqual(again?.outcome, "created")
        assert.deepEqual(
          [again?.record.revision, again?.record.createdAt, again?.record.updatedAt, again?.record.tags],
          [3, 1_000, undefined, []]
        )
      })
  ),

  law(
    "a put with the id of a purged record creates a record of revision 1 without earlier history",
    (store) =>
      Effect.gen(function*() {
        yield* put(store, draft("Tea", { id: id("tea") }))
        yield* store.forget(ada, [id("tea")], { purge: true })
        const again = yield* put(store, draft("Tea again", { id: id("tea") }))
        assert.strictEqual(again.revision, 1)
        assert.deepStrictEqual(yield* store.history(system, id("tea")), [again])
      })
  ),

  law(
    "`history` starts with the current record, and is empty for an unknown id and for a record that the viewer does not see",
    (store) =>
      Effect.gen(function*() {
        const { id: tea } = yield* put(store, draft("Tea"))
        const after = yield* store.update(ada, tea, { body: "Coffee" })
        assert.deepStrictEqual((yield* store.history(ada, tea))[0], after)
        assert.deepStrictEqual(yield* store.history(ada, tea, 1), [after])
        assert.deepStrictEqual(yield* store.history(bob, tea), [])
        assert.deepStrictEqual(yield* store.history(ada, id("nobody")), [])
      })
  ),

  ofHistory(
    "`history` returns at most `limit` revisions (20 by default), newest first",
    (store) =>
      Effect.gen(function*() {
        const { id } = yield* put(store, draft("1"))
        for (let n = 2; n <= 25; n++) yield* store.update(ada, id, { body: String(n) })
        const bodies = (limit?: number) =>
          Effect.map(store.history(ada, id, limit), (all) => all.map(({ body }) => body))
        assert.deepStrictEqual(yield* bodies(), Array.from({ length: 20 }, (_, n) => String(25 - n)))
        assert.deepStrictEqual(yield* bodies(3), ["25", "24", "23"])
        assert.deepStrictEqual(
          (yield* store.history(ada, id)).map(({ revision }) => revision),
          Array.from({ length: 20 }, (_, n) => 25 - n)
        )
      })
  ),

  ofHistory(
    "`history` of a re-created record shows the earlier revisions to the viewer `System` only",
    (store) =>
      Effect.gen(function*() {
        yield* put(store, draft("secret", { id: id("tea") }))
        yield* store.forget(ada, [id("tea")])
        assert.deepStrictEqual(yield* store.history(ada, id("tea")), [])
        yield* put(store, draft("new", { id: id("tea") }))
        yield* store.update(ada, id("tea"), { body: "newer" })
        assert.deepStrictEqual((yield* store.history(ada, id("tea"))).map(({ body }) => body), ["newer", "new"])
        assert.deepStrictEqual((yield* store.history(system, id("tea"))).map(({ revision }) => revision), [4, 3, 2, 1])
        assert.deepStrictEqual((yield* store.history(ada, id("tea"), 1)).map(({ body }) => body), ["newer"])
      })
  ),

  ofHistory(
    "`history` of a restored record contains its tombstone and all revisions back to the latest put that created it",
    (store) =>
      Effect.gen(function*() {
        const revisions = (limit?: number) =>
          Effect.map(store.history(ada, id("tea"), limit), (all) => all.map(({ body, revision }) => [revision, body]))
        yield* put(store, draft("Tea", { id: id("tea") }))
        yield* TestClock.adjust("1 second")
        yield* store.update(ada, id("tea"), { body: "Green tea" })
        yield* store.forget(ada, [id("tea")])
        yield* store.apply(ada, [{ _tag: "Restore", id: id("tea"), revision: 1 }])
        const restored = [[4, "Tea"], [3, "Green tea"], [2, "Green tea"], [1, "Tea"]]
        assert.deepStrictEqual(yield* revisions(), restored)
        assert.deepStrictEqual(yield* revisions(2), restored.slice(0, 2))

        yield* store.forget(ada, [id("tea")])
        yield* put(store, draft("Coffee", { id: id("tea") }))
        yield* store.forget(ada, [id("tea")])
        yield* store.apply(ada, [{ _tag: "Restore", id: id("tea"), revision: 6 }])
        assert.deepStrictEqual(yield* revisions(), [[8, "Coffee"], [7, "Coffee"], [6, "Coffee"]])
      })
  ),

  ofHistory(
    "a `Restore` of a tombstone's revision brings back the content that the record had before it was forgotten",
    (store) =>
      Effect.gen(function*() {
        yield* put(store, draft("Tea", { id: id("tea") }))
        yield* store.forget(ada, [id("tea")])
        yield* put(store, draft("Coffee", { id: id("tea") }))
        yield* store.forget(ada, [id("tea")])
        for (const [revision, body] of [[2, "Tea"], [4, "Coffee"]] as const) {
          const [back] = yield* store.apply(ada, [{ _tag: "Restore", id: id("tea"), revision }])
          assert.strictEqual(back?.record?.body, body)
        }
      })
  ),

  law(
    "`Restore` of the current revision writes its content as a new revision; `Restore` of revision 0 forgets the record",
    (store) =>
      Effect.gen(function*() {
        const tea = yield* put(store, draft("Tea"))
        const [same] = yield* store.apply(ada, [{ _tag: "Restore", id: tea.id, revision: 1, ifRevision: 1 }])
        assert.deepEqual([same?.outcome, same?.before, { ...same?.record }], ["updated", 1, { ...tea, revision: 2 }])
        const [gone] = yield* store.apply(ada, [{ _tag: "Restore", id: tea.id, revision: 0 }])
        assert.deepEqual([gone?.outcome, gone?.before], ["forgotten", 2])
        yield* absent(store, tea.id)
        const [still] = yield* store.apply(ada, [{ _tag: "Restore", id: tea.id, revision: 0 }])
        assert.strictEqual(still?.outcome, "absent")
      })
  ),

  law(
    "`Restore` fails with `not_found` if the revision is unknown or purged, or the record invisible",
    (store) =>
      Effect.gen(function*() {
        const tea = yield* put(store, draft("Tea"))
        yield* refuses("not_found", store.apply(ada, [{ _tag: "Restore", id: tea.id, revision: 9 }]))
        yield* refuses("not_found", store.apply(bob, [{ _tag: "Restore", id: tea.id, revision: 1 }]))
        yield* refuses("not_found", store.apply(bob, [{ _tag: "Restore", id: tea.id, revision: 0 }]))
        yield* store.forget(ada, [tea.id], { purge: true })
        yield* refuses("not_found", store.apply(ada, [{ _tag: "Restore", id: tea.id, revision: 1 }]))
      })
  ),

  ofHistory(
    "`Restore` of an earlier revision restores every field, even after the record was forgotten",
    (store) =>
      Effect.gen(function*() {
        const tea = yield* put(store, draft("Tea", { tags: ["hot"], confidence: 0.5 }))
        yield* TestClock.adjust("1 second")
        yield* store.update(ada, tea.id, { body: "Coffee", tags: [], confidence: null })
        const [back] = yield* store.apply(ada, [{ _tag: "Restore", id: tea.id, revision: 1, ifRevision: 2 }])
        assert.deepEqual({ ...back?.record }, { ...tea, revision: 3 })
        assert.deepStrictEqual(yield* found(store, ada, { text: "tea" }), ["Tea"])

        yield* store.forget(ada, [tea.id])
        const [again] = yield* store.apply(ada, [{ _tag: "Restore", id: tea.id, revision: 3 }])
        assert.deepEqual([again?.outcome, again?.before], ["created", 0])
        assert.deepEqual({ ...again?.record }, { ...tea, revision: 5 })
        assert.deepStrictEqual(yield* get(store, ada, tea.id), again!.record!)
        assert.deepStrictEqual(yield* listed(store, ada), ["Tea"])
      })
  ),

  law(
    "`compact` erases all expired records, even forgotten ones, returns their number, and keeps records that are neither expired nor forgotten",
    (store) =>
      Effect.gen(function*() {
        const kept = yield* put(store, draft("kept"))
        const closed = yield* put(store, draft("closed", { invalidAt: 0 }))
        const expired = yield* put(store, draft("expired", { expiresAt: 1_000 }))
        const both = yield* put(store, draft("forgotten, and expired since", { expiresAt: 1_000 }))
        yield* put(store, draft("elsewhere", { expiresAt: 1_000 }), Viewer.system("elsewhere"))
        yield* store.forget(ada, [both.id])
        yield* TestClock.adjust("1 second")
        assert.strictEqual(yield* store.compact, 3)
        assert.strictEqual(yield* store.compact, 0)
        const left = yield* store.get(system, [kept.id, closed.id, expired.id, both.id])
        assert.deepStrictEqual(left.map(Option.getOrUndefined), [kept, closed, undefined, undefined])
        assert.deepStrictEqual(yield* store.history(system, both.id), [])
        assert.deepStrictEqual(yield* store.tenants, ["default"])
      })
  ),

  law(
    "`tenants` returns each tenant that has a record, but none whose records were all purged",
    (store) =>
      Effect.gen(function*() {
        assert.deepStrictEqual(yield* store.tenants, [])
        yield* put(store, draft("Tea"))
        const elsewhere = yield* put(store, draft("Tea"), Viewer.system("elsewhere"))
        assert.sameMembers(Array.from(yield* store.tenants), ["default", "elsewhere"])
        yield* store.forget(Viewer.system("elsewhere"), [elsewhere.id], { purge: true })
        assert.deepStrictEqual(yield* store.tenants, ["default"])
      })
  )
]

/** Checks that Ada's calls of `get`, `history`, `update`, `uses` and `whyNot` treat a record as absent. */
const absent = (store: Service, id: MemoryId) =>
  Effect.gen(function*() {
    assert.isUndefined(yield* get(store, ada, id))
    assert.deepStrictEqual(yield* store.history(ada, id), [])
    yield* refuses("not_found", store.update(ada, id, { body: "x" }))
    yield* store.touch(ada, [id])
    assert.deepEqual(yield* store.uses(ada, [id]), [{ count: 0 }])
    assert.deepStrictEqual(yield* whyNot(store, ada, id, {}), "absent")
  })
