/** Laws of `apply`: a batch is applied as a whole or not at all. Its mutations are applied in order. */
import { assert } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as TestClock from "effect/TestClock"
import type { MemoryMutation } from "../../domain/MemoryMutation.ts"
import { type Law, law, refuses } from "../Law.ts"
import { ada, bob, draft, fact, get, id, listed, put, system, the } from "../Sample.ts"

const Put = (draft: (MemoryMutation & { readonly _tag: "Put" })["draft"]): MemoryMutation => ({ _tag: "Put", draft })

/** The laws of batches. */
export const laws: ReadonlyArray<Law> = [
  law(
    "a batch can restore a revision that it wrote itself, if the store has history, but never a revision that it purged",
    (store) =>
      Effect.gen(function*() {
        const tea = { _tag: "Put", draft: draft("Tea", { id: id("tea") }) } as const
        const restore = (revision: number) => ({ _tag: "Restore", id: id("tea"), revision }) as const
        yield* store.apply(ada, [tea])
        yield* store.update(ada, id("tea"), { body: "Green tea" })
        const edits = [
          { _tag: "Update", id: id("tea"), patch: { body: "Black tea" } } as const,
          { _tag: "Forget", id: id("tea") } as const,
          restore(3)
        ]
        if (store.capabilities.history) {
          const [, , back] = yield* store.apply(ada, edits)
          assert.deepEqual([back?.outcome, back?.record?.body, back?.record?.revision], ["created", "Black tea", 5])
        } else yield* refuses("not_found", store.apply(ada, edits))
        const purge = { _tag: "Forget", id: id("tea"), purge: true } as const
        yield* refuses("not_found", store.apply(ada, [purge, tea, restore(2)]))
      })
  ),

  law(
    "deduplication within a batch ignores records that the batch has already forgotten",
    (store) =>
      Effect.gen(function*() {
        for (const name of ["first", "second", "third"]) {
          yield* TestClock.adjust("1 second")
          yield* put(store, fact("Tea", { id: id(name) }))
        }
        const forget = (name: string): MemoryMutation => ({ _tag: "Forget", id: id(name) })
        const [, , again] = yield* store.apply(ada, [forget("first"), forget("second"), Put(fact("Tea"))])
        assert.deepEqual([again?.outcome, again?.id], ["duplicate", id("third")])
        const [, anew] = yield* store.apply(ada, [forget("third"), Put(fact("Tea"))])
        assert.strictEqual(anew?.outcome, "created")
        assert.deepStrictEqual(yield* listed(store, ada), ["Tea"])
      })
  ),

  law(
    "`apply`, `put`, `forget` and `get` return an empty array for an empty array, and write nothing",
    (store) =>
      Effect.gen(function*() {
        assert.deepStrictEqual(yield* store.apply(ada, []), [])
        assert.deepStrictEqual(yield* store.put(ada, []), [])
        assert.deepStrictEqual(yield* store.forget(ada, []), [])
        assert.deepStrictEqual(yield* store.get(ada, []), [])
        assert.deepStrictEqual(yield* store.tenants, [])
      })
  ),

  law(
    "a batch with one refused mutation, at any position, fails and writes nothing",
    (store) =>
      Effect.gen(function*() {
        const tea = yield* put(store, draft("Tea", { id: id("tea") }))
        const bobs = yield* put(store, draft("Bob's", { id: id("bob"), scope: { userId: "bob" } }), bob)
        const refusals: ReadonlyArray<readonly [MemoryMutation, Parameters<typeof refuses>[0]]> = [
          [{ _tag: "Update", id: id("nobody"), patch: { body: "x" } }, "not_found"],
          [{ _tag: "Update", id: bobs.id, patch: { body: "x" } }, "not_found"],
          [Put(draft("x", { id: bobs.id })), "invalid_id"],
          [Put(draft("x", { scope: { userId: "bob" } })), "invalid_scope"],
          [Put(draft("x", { expiresAt: 0 })), "invalid_draft"],
          [Put(draft("x", { kind: "belief", data: {} })), "invalid_draft"],
          [Put(draft(" ")), "invalid_draft"],
          [{ _tag: "Forget", id: tea.id, ifRevision: 9 }, "conflict"],
          [{ _tag: "Restore", id: id("nobody"), revision: 1 }, "not_found"]
        ]
        const legal: ReadonlyArray<MemoryMutation> = [
          Put(draft("Milk")),
          { _tag: "Update", id: tea.id, patch: { body: "Coffee" } },
          Put(draft("Sugar", { id: id("sugar") })),
          { _tag: "Forget", id: id("sugar"), purge: true }
        ]
        for (const [refused, reason] of refusals) {
          for (const at of [0, 2, 4]) {
            yield* refuses(reason, store.apply(ada, [...legal.slice(0, at), refused, ...legal.slice(at)]))
          }
        }
        assert.sameMembers(yield* listed(store, system), ["Tea", "Bob's"])
        assert.deepStrictEqual(yield* get(store, ada, tea.id), tea)
      })
  ),

  law(
    "a batch applies each mutation to the result of the previous mutations",
    (store) =>
      Effect.gen(function*() {
        yield* TestClock.adjust("1 second")
        const applied = yield* store.apply(ada, [
          Put(draft("one", { id: id("a") })),
          { _tag: "Update", id: id("a"), patch: { body: "two" }, ifRevision: 1 },
          Put(fact("Tea", { id: id("b") })),
          Put(fact("Tea")),
          { _tag: "Forget", id: id("b"), ifRevision: 1 },
          { _tag: "Forget", id: id("b") },
          Put(fact("Tea", { id: id("b") })),
          { _tag: "Forget", id: id("nobody") },
          { _tag: "Restore", id: id("a"), revision: 2 },
          { _tag: "Restore", id: id("a"), revision: 0 }
        ])
        assert.deepEqual(applied.map(({ before, id, outcome, record }) => [id, outcome, before, record?.revision]), [
          [id("a"), "created", 0, 1],
          [id("a"), "updated", 1, 2],
          [id("b"), "created", 0, 1],
          [id("b"), "duplicate", 1, 1],
          [id("b"), "forgotten", 1, undefined],
          [id("b"), "absent", 0, undefined],
          [id("b"), "created", 0, 3],
          [id("nobody"), "absent", 0, undefined],
          [id("a"), "updated", 2, 3],
          [id("a"), "forgotten", 3, undefined]
        ])
        assert.deepStrictEqual(yield* listed(store, ada), ["Tea"])
      })
  ),

  law(
    "a batch that puts each of 80 facts twice creates 80 records, or none if one mutation of the batch is refused",
    (store) =>
      Effect.gen(function*() {
        const facts = Array.from({ length: 160 }, (_, n) => Put(fact(`Tea number ${n % 80}`)))
        const last = { _tag: "Update", id: id("nobody"), patch: { body: "x" } } as const
        yield* refuses("not_found", store.apply(ada, [...facts, last]))
        assert.deepStrictEqual(yield* listed(store, ada), [])
        const applied = yield* store.apply(ada, facts)
        assert.deepStrictEqual(
          applied.map(({ outcome }) => outcome),
          facts.map((_, n) => n < 80 ? "created" : "duplicate")
        )
        assert.deepStrictEqual(applied.slice(80).map(({ id }) => id), applied.slice(0, 80).map(({ id }) => id))
        assert.lengthOf(yield* listed(store, ada, { limit: 200 }), 80)
      })
  ),

  law("a concurrent reader sees either none or all of a batch's writes", (store) =>
    Effect.gen(function*() {
      const ids = [id("a"), id("b"), id("c")]
      yield* store.put(ada, ids.map((id) => draft("0", { id })))
      const write = Effect.forEach(Array.from({ length: 10 }, (_, n) => n), (n) =>
        store.apply(ada, ids.map((id): MemoryMutation => ({ _tag: "Update", id, patch: { body: String(n) } }))))
      const read = Effect.replicateEffect(
        Effect.zipLeft(
          Effect.map(store.get(ada, ids), (all) =>
            all.map((_) => Option.getOrThrow(_).body)),
          Effect.yieldNow()
        ),
        20
      )
      const [, readings] = yield* Effect.all([write, read], { concurrency: "unbounded" })
      for (const bodies of readings) assert.lengthOf(new Set(bodies), 1)
    })),

  law(
    "one batch can put a new fact and set `invalidAt` of the old one; `list` returns the new one, and with an earlier `asOf` the old one",
    (store) =>
      Effect.gen(function*() {
        const old = yield* put(store, fact("Lives in Bern"))
        yield* TestClock.adjust("1 second")
        yield* store.apply(ada, [
          Put(fact("Lives in Oslo", { id: id("oslo") })),
          {
            _tag: "Update",
            id: old.id,
            patch: { invalidAt: 1_000, supersededBy: id("oslo") },
            ifRevision: old.revision
          }
        ])
        assert.deepStrictEqual(yield* listed(store, ada), ["Lives in Oslo"])
        assert.deepStrictEqual(yield* listed(store, ada, { asOf: 999 }), ["Lives in Bern"])
        assert.strictEqual((yield* the(store, ada, old.id)).supersededBy, id("oslo"))
      })
  )
]
