/**
 * Laws of the trash. The trash consists of the forgotten records that a store keeps. The laws say which viewers see the trash, how the
 * trash is ordered, and how long a record stays there.
 */
import { assert } from "@effect/vitest"
import * as Chunk from "effect/Chunk"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/TestClock"
import type { MemoryFilter } from "../../domain/MemoryFilter.ts"
import type { MemoryRecord } from "../../domain/MemoryRecord.ts"
import { Internal } from "../../domain/MemoryScope.ts"
import * as Viewer from "../../domain/Viewer.ts"
import type { Service } from "../../storage/MemoryStore.ts"
import { type Law, law, refuses, Trash } from "../Law.ts"
import { ada, bob, draft, fact, found, get, id, listed, put, system, the } from "../Sample.ts"

/** Returns the bodies of the forgotten records that the viewer can list, in the order of `list`. */
const trashed = (store: Service, viewer: Viewer.Any = ada, filter: MemoryFilter = {}) =>
  listed(store, viewer, { ...filter, forgotten: true })

/** The laws of the trash. */
export const laws: ReadonlyArray<Law> = [
  law(
    "`list` with `forgotten: true` returns the forgotten records, last forgotten first; no other list or search returns them",
    (store) =>
      Effect.gen(function*() {
        const [tea, coffee, water] = yield* Effect.forEach(
          ["Tea", "Coffee", "Water"],
          (body) => Effect.zipRight(TestClock.adjust("1 second"), put(store, draft(body)))
        )
        assert.deepStrictEqual(yield* trashed(store), [])
        for (const { id } of [coffee!, tea!]) {
          yield* TestClock.adjust("1 second")
          yield* store.forget(ada, [id])
        }
        const { items } = yield* store.list(ada, { forgotten: true })
        const times = items.map(({ body, updatedAt }) => [body, updatedAt])
        assert.deepStrictEqual(times, [["Tea", 5_000], ["Coffee", 4_000]])
        for (const filter of [{}, { forgotten: false }, { forgotten: undefined }]) {
          assert.deepStrictEqual(yield* store.list(ada, filter), { items: [water!] })
        }
        assert.deepStrictEqual(yield* found(store, ada), ["Water"])
        assert.isUndefined(yield* get(store, ada, tea!.id))
      })
  ),

  law(
    "every record that `list` returns as forgotten can be restored with the content that it last had",
    (store) =>
      Effect.gen(function*() {
        const tea = yield* put(store, fact("Tea", { tags: ["hot"], data: { n: 1 }, invalidAt: 5 }))
        const { id } = yield* put(store, draft("Coffee"))
        yield* TestClock.adjust("1 second")
        yield* store.update(ada, id, { body: "Black coffee" })
        yield* store.forget(ada, [tea.id, id])
        const { items } = yield* store.list(ada, { forgotten: true })
        assert.lengthOf(items, 2, "what is closed is among it")
        const restored = yield* store.apply(
          ada,
          items.map(({ id, revision }) => ({ _tag: "Restore", id, revision }))
        )
        assert.deepStrictEqual(restored.map(({ before, outcome }) => [outcome, before]), [["created", 0], [
          "created",
          0
        ]])
        assert.deepEqual({ ...yield* the(store, ada, tea.id) }, { ...tea, updatedAt: 1_000, revision: 3 })
        assert.strictEqual((yield* the(store, ada, id)).body, "Black coffee")
        assert.deepStrictEqual(yield* found(store, ada, { text: "coffee" }), ["Black coffee"])
        assert.deepStrictEqual(yield* trashed(store), [])
        assert.deepStrictEqual(yield* trashed(store, system), [])
      })
  ),

  law(
    "`list` with `forgotten: true` respects the viewer, the tenant and every clause of the filter",
    (store) =>
      Effect.gen(function*() {
        const elsewhere = Viewer.make({ userId: "ada", tenant: "elsewhere" })
        const drafts = [
          draft("Tea", { tags: ["hot"], importance: 1, data: { n: 1 } }),
          fact("Coffee", { validAt: 2, invalidAt: 5 }),
          draft("global", { scope: "global" }),
          draft("session", { scope: { userId: "ada", sessionId: "s" } }),
          draft("Bob's", { scope: { userId: "bob" } })
        ]
        const puts = yield* store.put(system, drafts)
        const there = yield* put(store, draft("there"), elsewhere)
        yield* store.forget(system, puts.map(({ record }) => record.id))
        yield* store.forget(elsewhere, [there.id])
        const within = Viewer.make({ userId: "ada", reach: "within" })
        assert.sameMembers(yield* trashed(store, ada), ["Tea", "Coffee", "global"])
        assert.sameMembers(yield* trashed(store, bob), ["global", "Bob's"])
        assert.sameMembers(yield* trashed(store, within), ["Tea", "Coffee", "session"])
        for (const all of [system, Viewer.everyone()]) {
          assert.sameMembers(yield* trashed(store, all), drafts.map(bodyOf))
        }
        assert.deepStrictEqual(yield* trashed(store, elsewhere), ["there"])
        const meant: ReadonlyArray<readonly [MemoryFilter, Array<string>]> = [
          [{ scope: { userId: "ada" } }, ["Tea", "Coffee"]],
          [{ kinds: ["user"] }, ["Coffee"]],
          [{ tags: ["HOT"] }, ["Tea"]],
          [{ ids: [puts[0]!.record.id, puts[4]!.record.id, id("nobody")] }, ["Tea"]],
          [{ minImportance: 1 }, ["Tea"]],
          [{ where: { "data.n": { eq: 1 } } }, ["Tea"]],
          [{ createdAt: { from: 1 } }, []],
          [{ maxTrust: 0 }, []],
          [{ maxTrust: 1 }, ["Tea", "Coffee", "global"]],
          [{ validAt: { from: 2, until: 3 } }, ["Coffee"]],
          [{ asOf: 10 }, ["Tea", "global"]],
          [{ asOf: 10, closed: true }, ["Tea", "Coffee", "global"]]
        ]
        for (const [filter, bodies] of meant) assert.sameMembers(yield* trashed(store, ada, filter), bodies)
      })
  ),

  law(
    "`list` and `stream` return all pages of forgotten records; a cursor of such a page is refused with other clauses or another viewer",
    (store) =>
      Effect.gen(function*() {
        const puts = yield* store.put(ada, Array.from({ length: 45 }, (_, n) => draft(String(n))))
        yield* store.forget(ada, puts.slice(0, 23).map(({ record }) => record.id))
        yield* TestClock.adjust("1 second")
        yield* store.forget(ada, puts.slice(23).map(({ record }) => record.id))
        const whole = (yield* store.list(ada, { forgotten: true, limit: 1_000 })).items
        assert.deepStrictEqual(whole.map(({ updatedAt }) => updatedAt), puts.map((_, n) => n < 22 ? 1_000 : 0))
        assert.lengthOf((yield* store.list(ada, { forgotten: true })).items, 20)
        for (const limit of [1, 7, 45]) {
          const streamed = yield* Stream.runCollect(store.stream(ada, { forgotten: true, limit }))
          assert.deepStrictEqual(Chunk.toReadonlyArray(streamed), whole)
        }
        const paged: Array<MemoryRecord> = []
        let page = yield* store.list(ada, { forgotten: true, limit: 7 })
        paged.push(...page.items)
        while (page.next !== undefined) {
          page = yield* store.list(ada, { forgotten: true, limit: 7, after: page.next })
          paged.push(...page.items)
        }
        assert.deepStrictEqual(paged, whole)
        assert.isUndefined((yield* store.list(ada, { forgotten: true, limit: 45 })).next)
        const { next: after } = yield* store.list(ada, { forgotten: true, limit: 1 })
        yield* refuses("invalid_draft", store.list(ada, { after }))
        yield* refuses("invalid_draft", store.list(bob, { forgotten: true, after }))
        yield* refuses("invalid_draft", store.list(ada, { forgotten: true, kinds: ["user"], after }))
      })
  ),

  law(
    "`list` with `forgotten: true` omits purged, re-created and expired records; for the viewer `System` it includes the expired ones",
    (store) =>
      Effect.gen(function*() {
        const names = ["purged", "forgotten and purged", "put again", "expired", "forgotten"]
        yield* store.put(
          ada,
          names.map((body) => draft(body, { id: id(body), expiresAt: body === "expired" ? 1_000 : undefined }))
        )
        yield* store.forget(ada, names.slice(1).map((name) => id(name)))
        yield* store.forget(ada, names.slice(0, 2).map((name) => id(name)), { purge: true })
        yield* put(store, draft("back", { id: id("put again") }))
        yield* TestClock.adjust("1 second")
        assert.deepStrictEqual(yield* trashed(store), ["forgotten"])
        assert.sameMembers(yield* trashed(store, system), ["expired", "forgotten"])
      })
  ),

  law(
    "only the viewer `System` can list the forgotten records of origin `instructions` and those of scope `Internal`",
    (store) =>
      Effect.gen(function*() {
        const rules = draft("No deploys on Fridays", { tags: ["instructions"] })
        const { id: file } = yield* put(store, rules, ada, { origin: "instructions", trust: 0 })
        yield* store.apply(ada, [{ _tag: "Forget", id: file }], { origin: "instructions" })
        const own = yield* put(store, draft("own", { scope: Internal, kind: "outbox" }), system)
        yield* store.forget(system, [own.id])
        for (const viewer of [ada, Viewer.everyone()]) assert.deepStrictEqual(yield* trashed(store, viewer), [])
        assert.sameMembers(yield* trashed(store, system), ["No deploys on Fridays", "own"])
      })
  ),

  law(
    "`compact` erases a forgotten, unexpired record once the store's `trash` duration has passed since the forget, and not before",
    (store) =>
      Effect.gen(function*() {
        const trash = Duration.toMillis(yield* Trash)
        const [early, late] = [yield* put(store, draft("early")), yield* put(store, draft("late"))]
        const kept = (): Effect.Effect<ReadonlyArray<string>, unknown> =>
          Effect.map(
            store.get(system, [early.id, late.id]),
            (all) => all.flatMap(Option.toArray).map(bodyOf)
          )
        if (trash > 0) {
          yield* TestClock.adjust("1 second")
          yield* store.forget(ada, [early.id])
          yield* store.compact
          assert.deepStrictEqual(yield* trashed(store), ["early"])
        }
        if (trash === Infinity) {
          yield* TestClock.adjust("1000 days")
          yield* store.compact
          return assert.deepStrictEqual(yield* trashed(store), ["early"])
        }
        if (trash > 0) {
          yield* TestClock.adjust(trash - 1)
          yield* store.compact
          assert.deepStrictEqual(yield* kept(), ["early", "late"])
          assert.deepStrictEqual(yield* trashed(store), ["early"])
          yield* TestClock.adjust(1)
        } else yield* store.forget(ada, [early.id])
        yield* store.compact
        assert.deepStrictEqual(yield* kept(), ["late"])
        assert.deepStrictEqual(yield* trashed(store, system), [])
        assert.deepStrictEqual(yield* store.history(system, early.id), [])
        yield* refuses("not_found", store.apply(ada, [{ _tag: "Restore", id: early.id, revision: 1 }]))
        const [again] = yield* store.put(ada, [draft("again", { id: early.id })])
        assert.deepStrictEqual([again?.outcome, again?.record.revision], ["created", 1])
      })
  )
]

const bodyOf = ({ body }: { readonly body: string }): string => body
