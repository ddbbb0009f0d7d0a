/** Laws of `sign`: each store signs texts with its own secret. */
import { assert } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { type Law, law } from "../Law.ts"

/** The laws of `sign`. */
export const laws: ReadonlyArray<Law> = [
  law(
    "`sign` returns equal signatures if and only if text and purpose are equal",
    (store) =>
      Effect.gen(function*() {
        const signature = yield* store.sign("receipt", "tea")
        assert.match(signature, /^[0-9a-f]{64}$/)
        assert.strictEqual(yield* store.sign("receipt", "tea"), signature)
        const others = yield* Effect.forEach(
          [["receipt", "coffee"], ["outbox", "tea"], ["receip", "ttea"], ["", "receipttea"], [
            "tea",
            "receipt"
          ]] as const,
          ([purpose, text]) => store.sign(purpose, text)
        )
        assert.strictEqual(new Set([signature, ...others]).size, 6)
      })
  ),

  law(
    "two stores return different signatures for the same text and purpose",
    (store, another) =>
      Effect.gen(function*() {
        const other = yield* another
        assert.notStrictEqual(yield* other.sign("receipt", "tea"), yield* store.sign("receipt", "tea"))
      })
  )
]
