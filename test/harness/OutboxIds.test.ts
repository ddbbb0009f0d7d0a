/** The ids of an outbox's rows: no viewer can compute them, and rows with the ids of earlier versions are still read. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { canonicalJson } from "../../src/domain/Digest.ts"
import { stableId } from "../../src/domain/MemoryId.ts"
import { isInternal } from "../../src/domain/MemoryScope.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as OutboxLog from "../../src/harness/Outbox/OutboxLog.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import { stores } from "../stores.ts"
import { ada, down, model, never, opened, refused, refusing, remembered, rows, users, writes } from "./Outboxes.ts"

/** Computes the id of a row as earlier versions did, and as any viewer could. */
const computed = (viewer: Viewer.Viewer, session: string, name: string) =>
  stableId(`outbox:${canonicalJson(["default", Viewer.scopeOf(viewer), viewer.reach, session])}:${name}`)
const names = ["session", "0/0", "1/0", "2/0", "3/0", "plan/0"]

/** Makes a store on which outboxes give their rows the ids of earlier versions, which follow from the conversation alone. */
const earlier = (store: MemoryStore.Service): MemoryStore.Service => ({
  ...store,
  sign: (_, text) => Effect.succeed(text)
})

const internal = (store: MemoryStore.Service) =>
  Effect.map(
    store.list(Viewer.system(), { limit: 1_000 }),
    ({ items }) => items.filter(({ scope }) => isInternal(scope))
  )
const { extract } = model()
const unread = { trigger: never, flushTimeout: 0 } as const

for (const name of ["memory", "markdown", "sqlite", "postgres", "overlay on memory", "federated"] as const) {
  describe(`the ids of an outbox's rows on ${name}`, () => {
    const law = (title: string, check: Effect.Effect<void, unknown, MemoryStore.MemoryStore | Scope.Scope>) =>
      it.scoped(title, () => Effect.provide(Effect.scoped(check), stores[name]))
    const both = Effect.map(MemoryStore.MemoryStore, (store) => ({ store, old: earlier(store) }))
    /** Leaves two waiting messages in an outbox of the store and, if `isPlanned`, a plan (a stored answer of the model) for them. */
    const left = (old: MemoryStore.Service, isPlanned = false) =>
      Effect.scoped(Effect.gen(function*() {
        const broken = refusing(old, (mutations) => writes(mutations) ? down : undefined)
        const outbox = yield* opened(broken, isPlanned ? { extract } : model(() => Effect.never), unread)
        yield* outbox.append(ada, "s", users("a"))
        yield* outbox.append(ada, "s", users("b"))
        if (isPlanned) yield* Effect.either(outbox.flush)
      }))

    law(
      "the ids of rows differ from the ids that earlier versions computed from the conversation, and differ between stores",
      Effect.gen(function*() {
        const { store } = yield* both
        yield* left(store, true)
        const here = (yield* internal(store)).map(({ id }) => id)
        assert.lengthOf(here, 4)
        for (const id of names.map((name) => computed(ada, "s", name))) assert.notInclude(here, id)
        const other = yield* Effect.flatMap(
          MemoryStore.MemoryStore,
          (other) => Effect.zipRight(left(other), internal(other))
        ).pipe(Effect.provide(stores[name]))
        assert.isNotEmpty(other)
        for (const { id } of other) assert.notInclude(here, id)
      })
    )

    law(
      "messages are extracted even if a viewer has stored records under the ids that an earlier version gave to rows",
      Effect.gen(function*() {
        const { store } = yield* both
        const eve = Viewer.make({ userId: "eve" })
        yield* store.put(
          eve,
          names.map((name) => ({
            id: computed(ada, "s", name),
            scope: { userId: "eve" },
            kind: "reference",
            body: "taken"
          }))
        )
        yield* left(store)
        const outbox = yield* opened(store, { extract }, unread)
        yield* outbox.flush
        assert.deepStrictEqual(yield* remembered(store), ["a", "b", ...names.map(() => "taken")])
        assert.deepStrictEqual(yield* rows(store), [])
      })
    )

    law(
      "messages stored by an earlier version of the library are extracted exactly once",
      Effect.gen(function*() {
        const { old, store } = yield* both
        yield* left(old, true)
        assert.sameMembers(
          (yield* internal(store)).map(({ id }) => id),
          ["session", "0/0", "1/0", "plan/0"].map((name) => computed(ada, "s", name))
        )
        const outbox = yield* opened(store, { extract }, unread)
        assert.strictEqual(yield* outbox.append(ada, "s", users("c")), 2)
        yield* outbox.flush
        assert.deepStrictEqual(yield* remembered(store), ["a", "b", "c"])
        assert.deepStrictEqual(yield* rows(store), [])
        const later = yield* opened(store, { extract }, unread)
        assert.strictEqual(yield* later.append(ada, "s", users("d")), 3)
        yield* later.flush
        assert.deepStrictEqual(yield* remembered(store), ["a", "b", "c", "d"])
        assert.lengthOf(yield* internal(store), 1)
      })
    )

    law(
      "new messages continue the sequence numbers that an earlier version of the library gave",
      Effect.gen(function*() {
        const { old, store } = yield* both
        yield* Effect.scoped(Effect.gen(function*() {
          const outbox = yield* opened(old, { extract }, unread)
          yield* outbox.append(ada, "s", users("a", "b"))
          yield* outbox.flush
        }))
        const outbox = yield* opened(store, { extract }, unread)
        assert.strictEqual(yield* outbox.append(ada, "s", users("c")), 2)
        yield* outbox.flush
        assert.deepStrictEqual(yield* remembered(store), ["a", "b", "c"])
        assert.deepStrictEqual((yield* internal(store)).map(({ id }) => id), [computed(ada, "s", "session")])
      })
    )

    law(
      "a model's answer that an earlier version stored is kept until the memories in the answer are written",
      Effect.gen(function*() {
        const { old, store } = yield* both
        yield* left(old, true)
        let isRefused = true
        const busy = refusing(store, (mutations) => isRefused && writes(mutations) ? down : undefined)
        const outbox = yield* opened(busy, { extract }, unread)
        yield* outbox.append(ada, "s", users("c"))
        yield* Effect.either(outbox.flush)
        assert.deepStrictEqual(yield* rows(store), ["messages", "messages", "messages", "plan"])
        isRefused = false
        yield* outbox.flush
        assert.deepStrictEqual(yield* remembered(store), ["a", "b", "c"])
        assert.deepStrictEqual(yield* rows(store), [])
      })
    )

    law(
      "messages stored by an earlier version of the library can become dead letters, be released and be purged",
      Effect.gen(function*() {
        const { old, store } = yield* both
        yield* left(old)
        let isPoison = true
        const poison = model((contents) => isPoison && contents.includes("b") ? refused : Effect.void)
        const outbox = yield* opened(store, poison, unread)
        yield* outbox.flush
        assert.deepStrictEqual((yield* outbox.deadLetters).map(({ from, to }) => [from, to]), [[1, 2]])
        isPoison = false
        assert.strictEqual(yield* outbox.release, 1)
        yield* outbox.flush
        assert.deepStrictEqual(yield* remembered(store), ["a", "b"])

        yield* left(old)
        assert.lengthOf(yield* rows(store), 2)
        yield* OutboxLog.purge(store, ada)
        assert.deepStrictEqual(yield* internal(store), [])
        yield* outbox.append(ada, "s", users("d"))
        yield* outbox.flush
        assert.deepStrictEqual(yield* remembered(store), ["a", "b", "d"])
      })
    )
  })
}
