/** Who a record is: 26 Crockford characters, minted from Clock and Random or derived from content. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import * as Schema from "effect/Schema"
import { sha256Bytes } from "./Digest.ts"

export const ULID_RE = /^[0-9A-HJKMNP-TV-Z]{26}$/

const alphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

export const MemoryId = Schema.String.pipe(
  Schema.pattern(ULID_RE),
  Schema.annotations({ message: () => "expected 26 characters of Crockford's base 32" }),
  Schema.brand("@memory/MemoryId")
)
export type MemoryId = typeof MemoryId.Type

/** Throws on anything but a ULID: for literals. Decode `MemoryId` where the text comes from outside. */
export const make = (id: string): MemoryId => MemoryId.make(id)

/** A new ULID at the clock's now. Monotonic only through a store, which mints with its own last id. */
export const ulid: Effect.Effect<MemoryId> = Effect.suspend(() => mint(undefined))

/**
 * A new ULID, above `last`: within one millisecond, or where the clock went back, `last` plus one.
 * Ten characters of time, sixteen of randomness (github.com/ulid/spec).
 */
export const mint = (last: MemoryId | undefined): Effect.Effect<MemoryId> =>
  Effect.gen(function*() {
    const now = encodeTime(Math.max(0, yield* Clock.currentTimeMillis))
    if (last !== undefined && now <= last.slice(0, 10)) return increment(last)
    const digits = yield* Effect.replicateEffect(Random.nextIntBetween(0, 32), 16)
    return unsafe(now + digits.map((digit) => alphabet[digit]).join(""))
  })

/** The first 26 bytes of the seed's SHA-256, each mod 32: the same seed is the same id on every machine. */
export const stableId = (seed: string): MemoryId => {
  const bytes = sha256Bytes(seed)
  let id = ""
  for (let i = 0; i < 26; i++) id += alphabet[bytes[i]! % 32] // of 32 bytes
  return unsafe(id)
}

/** `stableId("<system>:" + id)`: how an imported UUID is known here. The original belongs in `source.reference`. */
export const foreign = (system: string, id: string): MemoryId => stableId(`${system}:${id}`)

const unsafe = (id: string): MemoryId => id as MemoryId // made of the alphabet, 26 long

const encodeTime = (millis: number): string => {
  let rest = millis
  let text = ""
  for (let i = 0; i < 10; i++) {
    text = alphabet[rest % 32] + text
    rest = Math.floor(rest / 32)
  }
  return text
}

const increment = (id: MemoryId): MemoryId => {
  const end = id.search(/Z*$/) - 1 // the last digit that can still grow
  return unsafe(id.slice(0, end) + alphabet[alphabet.indexOf(id[end]!) + 1] + "0".repeat(25 - end))
}
