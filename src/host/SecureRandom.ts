/**
 * Randomness for secrets: keys and signatures that must not be guessable.
 *
 * Public values (ids, jitter, samples) come from Effect's `Random`, which a test or an attacker who saw enough of them can
 * predict. Secrets are drawn here, by default from the operating system. A test provides `layerSeeded`, so that a run
 * replays byte for byte.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { secretBytes, sha256, sha256Bytes } from "../domain/Digest.ts"

/** A source of unpredictable bytes. */
export interface Service {
  /** Draws `length` bytes; an integer, at least 0. */
  readonly bytes: (length: number) => Effect.Effect<Uint8Array>
}

/** The source of secrets in use. Default: the operating system's generator. A reference, so it never appears in `R`. */
export class SecureRandom extends Context.Reference<SecureRandom>()("@memory/SecureRandom", {
  defaultValue: (): Service => ({ bytes: (length) => Effect.sync(() => secretBytes(length)) })
}) {}

/** Draws a secret of 256 bits, as 64 hex digits. */
export const secret: Effect.Effect<string> = Effect.gen(function*() {
  const { bytes } = yield* SecureRandom
  return Array.from(yield* bytes(32), (byte) => byte.toString(16).padStart(2, "0")).join("")
})

/** Provides bytes that are derived from the seed alone. For tests only: the seed determines every secret. */
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
