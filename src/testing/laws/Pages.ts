/** Laws of `list` and `stream`: order, pages and cursors. */
import { assert } from "@effect/vitest"
import * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/TestClock"
import { Cursor, type MemoryFilter } from "../../domain/MemoryFilter.ts"
import * as Viewer from "../../domain/Viewer.ts"
import type { Service } from "../../storage/MemoryStore.ts"
import { type Law, law, refuses } from "../Law.ts"
import { ada, bob, draft, id, listed, put, system } from "../Sample.ts"

/** The laws of `list` and `stream`. */
export const laws: ReadonlyArray<Law> = [
  law(
    "`list` orders records by `updatedAt` (without one, by `createdAt`), newest first, and then by id",
    (store) =>
      Effect.gen(function*() {
        const names = ["a", "b", "c", "d"]
        yield* Effect.forEach(
          names,
          (name) => Effect.zipRight(TestClock.adjust("1 millis"), put(store, draft(name, { id: id(name) })))
        )
        yield* TestClock.adjust("1 millis")
        yield* store.put(
          ada,
          ["e", "f"].map((name) => draft(name, { id: id(name) }))
        )
        yield* store.update(ada, id("b"), { importance: 1 })
        const latest = ["b", "e", "f"].sort((a, b) => id(a) < id(b) ? -1 : 1)
        assert.deepStrictEqual(yield* listed(store, ada), [...latest, "d", "c", "a"])
      })
  ),

  law(
    "`list` returns 20 records by default, and a cursor only if more records follow",
    (store) =>
      Effect.gen(function*() {
        yield* store.put(ada, Array.from({ length: 21 }, (_, n) => draft(String(n))))
        const first = yield* store.list(ada, {})
        assert.lengthOf(first.items, 20)
        const second = yield* store.list(ada, { after: first.next })
        assert.lengthOf(second.items, 1)
        assert.isUndefined(second.next)
        assert.isUndefined((yield* store.list(ada, { limit: 21 })).next)
        assert.deepStrictEqual(yield* store.list(bob, {}), { items: [] })
      })
  ),

  law(
    "the pages of a list contain each unchanged record once, even if other records are written meanwhile",
    (store) =>
      Effect.gen(function*() {
        const drafts = Array.from({ length: 25 }, (_, n) => draft(`kept ${n}`, { id: id(`kept ${n}`) }))
        for (const one of drafts) {
          yield* put(store, one)
          yield* TestClock.adjust("1 millis")
        }
        yield* put(store, draft("moved", { id: id("moved") }))
        const seen: Array<string> = []
        for (
          let page = yield* store.list(ada, { limit: 4 });;
          page = yield* store.list(ada, { limit: 4, after: page.next })
        ) {
          seen.push(...page.items.map(({ body }) => body))
          yield* TestClock.adjust("1 millis")
          yield* put(store, draft(`new ${seen.length}`))
          yield* store.update(ada, id("moved"), { importance: seen.length / 1_000 })
          yield* put(store, draft("foreign", { scope: { userId: "bob" } }), bob)
          yield* store.forget(ada, page.items.slice(-1).flatMap(({ body, id }) => body === "moved" ? [] : [id])) // the cursor's record
          if (page.next === undefined) break
        }
        assert.lengthOf(new Set(seen), seen.length)
        assert.includeMembers(seen, drafts.map(({ body }) => body))
        assert.isFalse(seen.some((body) => body.startsWith("new") || body === "foreign"))
      })
  ),

  law(
    "paging through a list returns every record once, even if all records have the same timestamp",
    (store) =>
      Effect.gen(function*() {
        yield* store.put(ada, Array.from({ length: 23 }, (_, n) => draft(String(n))))
        for (const limit of [1, 5, 22, 23, 1_000]) {
          const seen = yield* pages(store, ada, { limit })
          assert.deepStrictEqual([seen.length, new Set(seen).size], [23, 23])
        }
      })
  ),

  law("`stream` returns the records of all pages of `list`, in the same order", (store) =>
    Effect.gen(function*() {
      yield* store.put(ada, Array.from({ length: 45 }, (_, n) => draft(String(n), { importance: n % 2 })))
      for (const filter of [{}, { limit: 1 }, { limit: 7, minImportance: 1 }, { limit: 1_000 }, { kinds: ["user"] }]) {
        const streamed = Chunk.toReadonlyArray(yield* Stream.runCollect(store.stream(ada, filter))).map(({ body }) =>
          body
        )
        assert.deepStrictEqual(streamed, yield* pages(store, ada, filter))
      }
      assert.deepStrictEqual(Chunk.toReadonlyArray(yield* Stream.runCollect(store.stream(bob, {}))), [])
      yield* refuses("invalid_draft", Stream.runDrain(store.stream(ada, { limit: 0 })))
    })),

  law(
    "`list` refuses a cursor of another viewer or another filter, and a string that is no cursor",
    (store) =>
      Effect.gen(function*() {
        yield* store.put(
          system,
          ["ada", "bob"].flatMap((userId) =>
            Array.from({ length: 3 }, (_, n) => draft(`${userId} ${n}`, { scope: { userId }, tags: ["t"] }))
          )
        )
        const { next } = yield* store.list(ada, { limit: 1 })
        assert.isDefined(next)
        const foreign: ReadonlyArray<readonly [Viewer.Any, MemoryFilter]> = [
          [bob, { limit: 1, after: next }],
          [Viewer.make({ userId: "ada", reach: "within" }), { limit: 1, after: next }],
          [Viewer.make({ userId: "ada", tenant: "elsewhere" }), { limit: 1, after: next }],
          [system, { limit: 1, after: next }],
          [ada, { limit: 1, tags: ["t"], after: next }],
          [ada, { limit: 1, asOf: 0, after: next }],
          ...["", "x", `${next}x`, next!.slice(1), "null", "{}", "AAAA", "\u{1f600}", "0".repeat(10_000)].map((text) =>
            [ada, { limit: 1, after: Cursor.make(text) }] as const
          )
        ]
        for (const [viewer, filter] of foreign) {
          const { detail } = yield* refuses("invalid_draft", store.list(viewer, filter))
          assert.include(detail.issues.join(), "after")
        }
        assert.lengthOf((yield* store.list(ada, { limit: 1, after: next })).items, 1)
        assert.isTrue(Schema.is(Cursor)(next))
      })
  )
]

/** Lists all pages, and returns the bodies of their records. */
const pages = (store: Service, viewer: Viewer.Any, filter: MemoryFilter) =>
  Effect.gen(function*() {
    const bodies: Array<string> = []
    let after: MemoryFilter["after"]
    do {
      const page = yield* store.list(viewer, { ...filter, after })
      bodies.push(...page.items.map(({ body }) => body))
      after = page.next
    } while (after !== undefined)
    return bodies
  })
