import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import * as SecureRandom from "../../src/host/SecureRandom.ts"

describe("SecureRandom", () => {
  it.effect("SecureRandom.secret returns a new secret of 64 hex digits each time, even if Random is seeded", () =>
    Effect.gen(function*() {
      const draw = Effect.suspend(() => Effect.withRandom(SecureRandom.secret, Random.make("seed")))
      const [first, second] = [yield* draw, yield* draw]
      assert.match(first, /^[0-9a-f]{64}$/)
      assert.notStrictEqual(first, second)
    }))

  it.effect("`layerSeeded` provides the same bytes for equal seeds, and different bytes for different seeds", () =>
    Effect.gen(function*() {
      const drawn = (seed: string | number) =>
        Effect.gen(function*() {
          const { bytes } = yield* SecureRandom.SecureRandom
          return [yield* SecureRandom.secret, ...Array.from(yield* bytes(70)), ...Array.from(yield* bytes(0))]
        }).pipe(Effect.provide(SecureRandom.layerSeeded(seed)))
      const once = yield* drawn("7")
      assert.lengthOf(once, 71)
      assert.deepStrictEqual(yield* drawn("7"), once)
      assert.notDeepEqual(yield* drawn(7), once)
      assert.notDeepEqual(yield* drawn("8"), once)
    }))
})
