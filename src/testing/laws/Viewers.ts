/** Laws of viewers: a store rejects invalid viewers, and a record's trust depends on the viewer that writes the record. */
import { assert } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import type { MemoryScope } from "../../domain/MemoryScope.ts"
import * as Viewer from "../../domain/Viewer.ts"
import { type Law, law, refuses } from "../Law.ts"
import { ada, bob, draft, id, listed, put, system, the } from "../Sample.ts"

/** Values that untyped code or a wrong cast could pass in place of a viewer. */
const impostors: ReadonlyArray<unknown> = [
  undefined,
  null,
  "ada",
  {},
  { tenant: "default", userId: "ada", reach: "exact" },
  { tenant: "default", reach: "everyone" },
  { tenant: "default", reach: "within" },
  { _tag: "System", tenant: "default" }
]

/** The laws of viewers. */
export const laws: ReadonlyArray<Law> = [
  law(
    "every call with an invalid viewer fails with `invalid_scope` and changes nothing, except that `tools` returns no tools",
    (store) =>
      Effect.gen(function*() {
        const record = yield* put(store, draft("green tea", { id: id("tea") }))
        for (const impostor of impostors) {
          const viewer = impostor as Viewer.Viewer // the law tests this wrong cast
          const calls = [
            store.apply(viewer, [{ _tag: "Put", draft: draft("x") }]),
            store.put(viewer, [draft("x")]),
            store.put(viewer, [draft("x", { id: record.id })]),
            store.get(viewer, [record.id]),
            store.get(viewer, []),
            store.search(viewer, { text: "tea" }),
            store.search(viewer, {}),
            store.list(viewer, {}),
            Stream.runCollect(store.stream(viewer, {})),
            Stream.runCollect(store.changes(viewer)),
            store.update(viewer, record.id, { body: "x" }),
            store.forget(viewer, [record.id], { purge: true }),
            store.history(viewer, record.id),
            store.whyNot(viewer, record.id, { text: "coffee" }),
            store.links(viewer, record.id),
            store.touch(viewer, [record.id]),
            store.uses(viewer, [record.id]),
            ...Option.match(store.ingest, {
              onNone: () => [],
              onSome: (ingest) => [ingest(viewer, "monday", [], 0)]
            })
          ]
          for (const call of calls) yield* refuses("invalid_scope", call)
          assert.deepStrictEqual(store.tools(viewer), [])
        }
        assert.deepStrictEqual(yield* the(store, ada, record.id), record)
        assert.deepStrictEqual(yield* listed(store, system), ["green tea"])
        assert.deepEqual(yield* store.uses(ada, [record.id]), [{ count: 0 }])
      })
  ),

  law(
    "a user's write to a scope without `userId` gets trust 2, or 3 if requested; a write of origin `instructions` keeps its trust",
    (store) =>
      Effect.gen(function*() {
        const pilot = Viewer.make({ agentId: "pilot", runId: "r1" })
        const both = Viewer.make({ userId: "ada", agentId: "pilot" })
        const trusted = (viewer: Viewer.Any, scope: MemoryScope, trust?: 0 | 1 | 2 | 3) =>
          Effect.map(put(store, draft("tea", { scope }), viewer, { trust }), ({ source }) => source.trust)

        assert.strictEqual(yield* trusted(ada, "global"), 2)
        assert.strictEqual(yield* trusted(ada, "global", 0), 2)
        assert.strictEqual(yield* trusted(ada, "global", 3), 3)
        assert.strictEqual(yield* trusted(both, { agentId: "pilot" }), 2)
        assert.strictEqual(yield* trusted(both, { userId: "ada", agentId: "pilot" }), 1)
        assert.strictEqual(yield* trusted(ada, { userId: "ada" }, 0), 0)
        assert.strictEqual(yield* trusted(pilot, "global"), 1)
        assert.strictEqual(yield* trusted(pilot, { agentId: "pilot", runId: "r1" }, 0), 0)
        assert.strictEqual(yield* trusted(system, "global"), 1)

        const rule = yield* put(store, draft("Use tabs.", { scope: "global" }), ada, {
          origin: "instructions",
          trust: 0
        })
        assert.strictEqual(rule.source.trust, 0)

        const shared = yield* put(store, draft("opening hours", { id: id("hours"), scope: "global" }), system)
        yield* store.touch(bob, [shared.id])
        assert.strictEqual((yield* the(store, bob, shared.id)).source.trust, 1)
        assert.strictEqual((yield* store.update(bob, shared.id, { body: "always" })).source.trust, 2)
        yield* put(store, draft("never", { id: id("hours"), scope: "global" }), bob)
        assert.strictEqual((yield* the(store, ada, shared.id)).source.trust, 2)
      })
  )
]
