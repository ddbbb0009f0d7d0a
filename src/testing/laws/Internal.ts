/** Laws of internal rows: they are stored like other records, but visible to the viewer `System` only. */
import { assert } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { Internal } from "../../domain/MemoryScope.ts"
import * as Viewer from "../../domain/Viewer.ts"
import { type Law, law, refuses } from "../Law.ts"
import { ada, draft, found, get, id, listed, put, system, the, whyNot } from "../Sample.ts"

const row = (name: string) => draft(`tea for ${name}`, { id: id(name), scope: Internal, kind: "outbox", tags: ["tea"] })
const viewers = [ada, Viewer.make({}), Viewer.everyone(), Viewer.make({ runId: "r", reach: "within" })]

/** The laws of internal rows. */
export const laws: ReadonlyArray<Law> = [
  law(
    "only the viewer `System` sees or changes records of scope `Internal` (the library's own rows)",
    (store) =>
      Effect.gen(function*() {
        const query = { text: "tea", explain: true }
        yield* put(store, draft("green tea", { id: id("mine"), links: [{ to: id("own"), type: "x", weight: 1 }] }))
        const before = yield* Effect.forEach(viewers, (viewer) => store.search(viewer, query))
        yield* put(store, row("own"), system)
        yield* put(store, row("other"), system)
        assert.deepStrictEqual(yield* Effect.forEach(viewers, (viewer) => store.search(viewer, query)), before)
        for (const viewer of viewers) {
          assert.isUndefined(yield* get(store, viewer, id("own")))
          assert.notInclude(yield* listed(store, viewer), "tea for own")
          assert.notInclude(yield* listed(store, viewer, { scope: Internal }), "tea for own")
          assert.deepStrictEqual(yield* found(store, viewer, { scope: Internal }), [])
          assert.deepStrictEqual(yield* store.history(viewer, id("own")), [])
          assert.deepStrictEqual(yield* store.links(viewer, id("own")), yield* store.links(viewer, id("nothing")))
          assert.strictEqual(yield* whyNot(store, viewer, id("own"), {}), "absent")
          assert.deepStrictEqual(yield* store.forget(viewer, [id("own")], { purge: true }), [false])
          yield* refuses("not_found", store.update(viewer, id("own"), { body: "mine" }))
          const reason = Viewer.sees(viewer, "global") ? "invalid_id" : "invalid_scope"
          yield* refuses(reason, put(store, draft("mine", { id: id("own"), scope: "global" }), viewer))
          yield* refuses("invalid_scope", put(store, { ...row("new") }, viewer))
        }
        assert.deepStrictEqual((yield* store.links(ada, id("mine"))).to, [])
      })
  ),

  law(
    "the viewer `System` can list and purge records of scope `Internal`; a batch whose purge has a wrong `ifRevision` writes nothing",
    (store) =>
      Effect.gen(function*() {
        const own = yield* put(store, row("own"), system)
        assert.deepStrictEqual(yield* get(store, system, own.id), own)
        assert.deepStrictEqual(yield* listed(store, system, { scope: Internal, kinds: ["outbox"] }), [own.body])
        assert.deepStrictEqual(yield* store.tenants, ["default"])
        const forget = { _tag: "Forget", id: own.id, purge: true, ifRevision: own.revision } as const
        const fact = { _tag: "Put", draft: draft("remembered", { id: id("fact") }), ifRevision: 0 } as const
        yield* refuses("conflict", store.apply(system, [fact, { ...forget, ifRevision: own.revision + 1 }]))
        assert.isUndefined(yield* get(store, ada, id("fact")))
        yield* store.apply(system, [fact, forget])
        assert.strictEqual((yield* the(store, ada, id("fact"))).body, "remembered")
        assert.isUndefined(yield* get(store, system, own.id))
        assert.deepStrictEqual(yield* store.history(system, own.id), [])
        yield* refuses("conflict", store.apply(system, [{ _tag: "Put", draft: row("again") }, forget]))
        assert.deepStrictEqual(yield* listed(store, system, { scope: Internal }), [])
      })
  ),

  law("vectors.pending never returns texts of records of scope `Internal`", (store) =>
    Effect.gen(function*() {
      yield* put(store, row("own"), system)
      if (Option.isNone(store.vectors)) return assert.isFalse(store.capabilities.vector)
      assert.deepStrictEqual(yield* store.vectors.value.pending("default", "m"), [])
    }))
]
