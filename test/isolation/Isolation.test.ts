import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { stores } from "../stores.ts"
import * as Attack from "./Attack.ts"

const n = Number(process.env["N"] ?? 500)
describe("isolation by comparison", () => {
  for (const [name, store] of Object.entries(stores)) {
    it.effect(`${name}: foreign records change no answer, count, error, cursor or change of a viewer`, () =>
      Effect.gen(function*() {
        const { compared } = yield* Attack.holds(name, store, { operations: n, logEvery: n, shrinks: name === "markdown" ? 30 : 200, seed: Number(process.env["SEED"] ?? 1) })
        assert.isAtLeast(compared, n)
      }), 500000)
  }
})
