/** Ids of records: ULIDs of 26 Crockford characters, minted from `Clock` and `Random` or derived from content. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { sha256Bytes } from "./Digest.ts"

/** Pattern of a ULID in upper case; its first digit is not bounded. */
export const ULID_RE = /^[0-9A-HJKMNP-TV-Z]{26}$/

const alphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

/** Schema of an id: 26 characters of Crockford's base 32, in upper case. */
export const MemoryId = Schema.String.pipe(
  Schema.pattern(ULID_RE),
  Schema.annotations({ message: () => "expected 26 characters of Crockford's base 32" }),
  Schema.brand("@memory/MemoryId")
)
/** The id of a record. */
export type MemoryId = typeof MemoryId.Type

/** Makes an id from a literal. Throws on anything but a ULID; decode `MemoryId` for text from outside. */
export const make = (id: string): MemoryId => MemoryId.make(id)

/** Mints a ULID at the clock's time. Not monotonic: a store mints with its own last id. */
export const ulid: Effect.Effect<MemoryId> = Effect.suspend(() => mint(undefined))

/**
 * Mints a ULID above `last`: `last` plus one within one millisecond, or if the clock went back.
 * Ten characters of time, sixteen of randomness (github.com/ulid/spec).
 */
export const mint = (last: MemoryId | undefined): Effect.Effect<MemoryId> => minted(() => last, (id) => id)

/** Mints an id above the last one. Reads and keeps the last one in the step that makes the id, so no other call mints in between. */
const minted = (
  last: () => MemoryId | undefined,
  keep: (id: MemoryId) => MemoryId
): Effect.Effect<MemoryId> =>
  Effect.clockWith((clock) => {
    const now = encodeTime(Math.max(0, clock.unsafeCurrentTimeMillis()))
    const next = () => {
      const known = last()
      return known !== undefined && now <= known.slice(0, 10) ? keep(increment(known)) : undefined
    }
    const id = next()
    return id !== undefined ? Effect.succeed(id) : Effect.map(drawn, (random) => next() ?? keep(unsafe(now + random)))
  })

const drawn: Effect.Effect<string> = Effect.randomWith((random) =>
  Effect.map(
    Effect.replicateEffect(random.nextIntBetween(0, 32), 16),
    (digits) => digits.map((digit) => alphabet[digit]).join("")
  )
)

/**
 * A source of new ids: each is greater than the last one of its tenant, whichever store minted that one.
 *
 * Tenants share no sequence. The ids of a tenant in one millisecond follow each other from a random start, so the gap
 * between two ids does not reveal how much other tenants wrote in between.
 *
 * @internal
 */
export interface IdGenerator {
  /** Mints an id that is greater than every earlier one of the tenant. */
  readonly next: (tenant: string) => Effect.Effect<MemoryId>
}

/**
 * Number of tenants whose last id is remembered, the most recent ones. Any other tenant starts above every dropped id, in
 * case the clock goes back.
 */
const capacity = 10_000

/**
 * Makes a source of ids that has minted none yet.
 *
 * @internal
 */
export const makeIdGenerator: Effect.Effect<IdGenerator> = Effect.sync(() => {
  const lasts = new Map<string, MemoryId>() // least recently used first
  let dropped: MemoryId | undefined
  const keep = (tenant: string, id: MemoryId): MemoryId => {
    lasts.delete(tenant)
    lasts.set(tenant, id)
    for (const [idle, last] of lasts) {
      if (lasts.size <= capacity) break
      lasts.delete(idle)
      const end = unsafe(last.slice(0, 10) + "Z".repeat(16)) // the greatest id of its millisecond
      if (dropped === undefined || end > dropped) dropped = end
    }
    return id
  }
  return {
    next: (tenant) => minted(() => lasts.get(tenant) ?? dropped, (id) => keep(tenant, id))
  }
})

/**
 * The source of ids that stores built together share, so that their ids have one order per tenant. Default: none shared.
 *
 * @internal
 */
export class SharedIdGenerator extends Context.Reference<SharedIdGenerator>()("@memory/Minting", {
  defaultValue: (): IdGenerator | undefined => undefined
}) {}

/** Derives an id from a text: the first 26 bytes of its SHA-256, each mod 32. The same text gives the same id everywhere. */
export const stableId = (seed: string): MemoryId => {
  const bytes = sha256Bytes(seed)
  let id = ""
  for (let i = 0; i < 26; i++) id += alphabet[bytes[i]! % 32] // the hash has 32 bytes
  return unsafe(id)
}

/** Derives the id of an imported record: `stableId("<system>:" + id)`. The original id belongs in `source.reference`. */
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
  let end = 25 // the last digit that can still grow
  while (id[end] === "Z") end--
  return unsafe(id.slice(0, end) + alphabet[alphabet.indexOf(id[end]!) + 1] + "0".repeat(25 - end))
}
