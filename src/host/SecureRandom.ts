/**
 * Random bytes for secrets, such as keys. By default, the bytes come from the operating system.
 *
 * Effect's `Random` is used only for values that are not secret (ids, jitter, samples), since its output can be predicted. Tests provide
 * `layerSeeded`, which makes the same bytes in every run.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { secretBytes, sha256, sha256Bytes } from "../domain/Digest.ts"

/** A generator of bytes that cannot be predicted. */
export interface Service {
  /** Returns `length` new random bytes; `length` is an integer of at least 0. */
  readonly bytes: (length: number) => Effect.Effect<Uint8Array>
}

/** The generator that is used. Default: the operating system's. A `Context.Reference`, so it never appears in `R`. */
export class SecureRandom extends Context.Reference<SecureRandom>()("@memory/SecureRandom", {
  defaultValue: (): Service => ({ bytes: (length) => Effect.sync(() => secretBytes(length)) })
}) {}

/** Draws a secret of 256 bits, as 64 hex digits. */
export const secret: Effect.Effect<string> = Effect.gen(function*() {
  const { bytes } = yield* SecureRandom
  return Array.from(yield* bytes(32), (byte) => byte.toString(16).padStart(2, "0")).join("")
})

/** Provides bytes that are derived from the seed. For tests only: every secret can be computed from the seed. */
export const layerSeeded = (seed: string | number): Layer.Layer<never> =>
  Layer.effect(SecureRandom, Effect.sync(() => seeded(sha256(`${typeof seed}:${seed}`))))

const seeded = (key: string): Service => {
  let blocks = 0
  return {
    bytes: (length) =>
      Effect.sync(() => {
        const drawn = new Uint8Array(length)
        for (let at = 0; at < length; at += 32) {
          drawn.set(sha256Bytes(`${key}:${blocks++}`).subarray(0, Math.min(32, length - at)), at)
        }
        return drawn
      })
  }
}
