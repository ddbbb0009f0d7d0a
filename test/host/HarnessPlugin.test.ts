import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as HarnessPlugin from "../../src/host/HarnessPlugin.ts"

const ids = Effect.map(HarnessPlugin.Plugins, (plugins) => plugins.map(({ id }) => id))

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

  it.effect("HarnessPlugin.layer makes each plugin only once, however often the list of plugins is read", () =>
    Effect.gen(function*() {
      let made = 0
      const layer = HarnessPlugin.layer(Effect.sync(() => ({ id: `${++made}` })))
      yield* Effect.all([ids, ids]).pipe(Effect.provide(layer))
      assert.strictEqual(made, 1)
    }))
})
