/** Ids of records: ULIDs, 26 characters of Crockford's base 32. An id is generated from `Clock` and `Random`, or derived from a text. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { sha256Bytes } from "./Digest.ts"

/** Matches a ULID in upper case. Accepts any first character, although a ULID of a valid time begins with `0`..`7`. */
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

/** Makes an id from a literal in the code. Throws if the id is invalid. Use the schema `MemoryId` for texts from elsewhere. */
export const make = (id: string): MemoryId => MemoryId.make(id)

/**
 * Generates a ULID of the current time. Ids of the same millisecond are in random order. Stores use an `IdGenerator` instead, which
 * generates increasing ids.
 */
export const ulid: Effect.Effect<MemoryId> = Effect.suspend(() => mint(undefined))

/**
 * Generates a ULID greater than `last`. A ULID has ten characters of time and sixteen random characters (github.com/ulid/spec). If the
 * clock is not past the millisecond of `last`, the result is `last` plus one.
 */
export const mint = (last: MemoryId | undefined): Effect.Effect<MemoryId> => mintAbove(() => last, (id) => id)

/**
 * Generates an id greater than `last()`, and passes it to `keep`. Both functions are called in one synchronous step. So if `keep` changes
 * what `last` returns, concurrent calls never generate the same id.
 */
const mintAbove = (
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
    return id !== undefined
      ? Effect.succeed(id)
      : Effect.map(randomPart, (random) => next() ?? keep(unsafe(now + random)))
  })

const randomPart: Effect.Effect<string> = Effect.randomWith((random) =>
  Effect.map(
    Effect.replicateEffect(random.nextIntBetween(0, 32), 16),
    (digits) => digits.map((digit) => alphabet[digit]).join("")
  )
)

/**
 * Generates ids that increase within each tenant, even if several stores share the generator.
 *
 * In each millisecond, the ids of each tenant start at a random number. So two ids of a tenant do not reveal how much other tenants wrote
 * in between.
 *
 * @internal
 */
export interface IdGenerator {
  /** Generates an id that is greater than all ids generated for this tenant before. */
  readonly next: (tenant: string) => Effect.Effect<MemoryId>
}

/**
 * Largest number of tenants whose last id a generator remembers. The least recently used tenant is forgotten first. The next id of a
 * forgotten tenant is greater than the last ids of all forgotten tenants. So the ids of a tenant increase even if the clock goes back.
 */
const capacity = 10_000

/**
 * Makes a generator that has generated no id yet.
 *
 * @internal
 */
export const makeIdGenerator: Effect.Effect<IdGenerator> = Effect.sync(() => {
  const lasts = new Map<string, MemoryId>() // the least recently used tenant comes first
  let dropped: MemoryId | undefined
  const keep = (tenant: string, id: MemoryId): MemoryId => {
    lasts.delete(tenant)
    lasts.set(tenant, id)
    for (const [idle, last] of lasts) {
      if (lasts.size <= capacity) break
      lasts.delete(idle)
      const end = unsafe(last.slice(0, 10) + "Z".repeat(16)) // the greatest possible id of the millisecond of `last`
      if (dropped === undefined || end > dropped) dropped = end
    }
    return id
  }
  return {
    next: (tenant) => mintAbove(() => lasts.get(tenant) ?? dropped, (id) => keep(tenant, id))
  }
})

/**
 * The generator that all member stores of a federation share. So the ids of a tenant increase across all members. Default: each store has
 * its own generator.
 *
 * @internal
 */
export class SharedIdGenerator extends Context.Reference<SharedIdGenerator>()("@memory/Minting", {
  defaultValue: (): IdGenerator | undefined => undefined
}) {}

/** Derives an id from a text, from the first 26 bytes of its SHA-256. Equal texts have equal ids in every store and process. */
export const stableId = (seed: string): MemoryId => {
  const bytes = sha256Bytes(seed)
  let id = ""
  for (let i = 0; i < 26; i++) id += alphabet[bytes[i]! % 32] // the hash has 32 bytes
  return unsafe(id)
}

/**
 * Derives the id of a record that the library writes for itself. `signature` is made with the store's secret. Without the secret, nobody
 * can compute the id.
 */
export const signedId = (purpose: string, signature: string, name: string): MemoryId =>
  stableId(`${purpose}:${signature}:${name}`)

/** Derives the id of an imported record: `stableId("<system>:" + id)`. The original id belongs in `source.reference`. */
export const foreign = (system: string, id: string): MemoryId => stableId(`${system}:${id}`)

const unsafe = (id: string): MemoryId => id as MemoryId // callers pass 26 characters of `alphabet`

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
  let end = 25 // index of the last digit that is not Z
  while (id[end] === "Z") end--
  return unsafe(id.slice(0, end) + alphabet[alphabet.indexOf(id[end]!) + 1] + "0".repeat(25 - end))
}
