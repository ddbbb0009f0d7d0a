import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as HarnessPlugin from "../../src/host/HarnessPlugin.ts"

const ids = Effect.map(HarnessPlugin.provided, (plugins) => plugins.map(({ id }) => id))

describe("HarnessPlugin", () => {
  it.effect("the list of plugins is empty by default", () => Effect.map(ids, (ids) => assert.deepStrictEqual(ids, [])))

  it.effect("HarnessPlugin.layer appends its plugins, in the given order, to the plugins provided before", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* ids, ["first", "second", "third"])
    }).pipe(
      Effect.provide(
        HarnessPlugin.layer({ id: "second" }, Effect.succeed({ id: "third" })).pipe(
          Layer.provide(HarnessPlugin.layer({ id: "first" }))
        )
      )
    ))

  it.effect("merged layers of HarnessPlugin, and layers provided side by side, add up: no plugin is dropped", () =>
    Effect.gen(function*() {
      const [a, b] = [HarnessPlugin.layer({ id: "a" }), HarnessPlugin.layer({ id: "b" })]
      const other = HarnessPlugin.layer({ id: "a", onEvent: () => Effect.void })
      const seen = (layer: Layer.Layer<HarnessPlugin.Plugins>) => Effect.provide(ids, layer)
      assert.deepStrictEqual(yield* seen(Layer.mergeAll(a, b)), ["a", "b"])
      const Ids = Context.GenericTag<ReadonlyArray<string>>("Ids")
      assert.deepStrictEqual(yield* Effect.provide(Ids, Layer.provide(Layer.effect(Ids, ids), [a, b])), ["a", "b"])
      assert.deepStrictEqual(yield* Effect.provide(seen(b), a), ["a", "b"])
      assert.deepStrictEqual(yield* seen(Layer.mergeAll(a, other)), ["a", "a"]) // a plugin that denies is never dropped
    }))

  it.effect("HarnessPlugin.layer makes each plugin only once, however often the list of plugins is read", () =>
    Effect.gen(function*() {
      let made = 0
      const layer = HarnessPlugin.layer(Effect.sync(() => ({ id: `${++made}` })))
      yield* Effect.all([ids, ids]).pipe(Effect.provide(layer))
      assert.strictEqual(made, 1)
    }))
})
