/**
 * Source of new ids: each is greater than the last one of its tenant, even if another store asked for that one.
 *
 * Tenants share no sequence. The ids of a tenant in one millisecond follow each other from a random start, so the gap
 * between two ids does not reveal how much other tenants wrote in between.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as MemoryId from "../domain/MemoryId.ts"

export interface Service {
  /** Mints an id that is greater than every earlier one of the tenant. */
  readonly next: (tenant: string) => Effect.Effect<MemoryId.MemoryId>
}

/**
 * Number of tenants whose last id is remembered, the most recent ones. Any other tenant starts above every dropped id, in
 * case the clock goes back.
 */
const capacity = 10_000

export const make: Effect.Effect<Service> = Effect.map(Effect.makeSemaphore(1), (minting) => {
  const lasts = new Map<string, MemoryId.MemoryId>() // in order of use
  let dropped: MemoryId.MemoryId | undefined
  const keep = (tenant: string, id: MemoryId.MemoryId) => {
    lasts.delete(tenant)
    lasts.set(tenant, id)
    for (const [idle, last] of lasts) {
      if (lasts.size <= capacity) break
      lasts.delete(idle)
      const end = MemoryId.make(last.slice(0, 10) + "Z".repeat(16)) // the greatest id of its millisecond
      if (dropped === undefined || end > dropped) dropped = end
    }
  }
  return {
    next: (tenant) =>
      Effect.suspend(() => MemoryId.mint(lasts.get(tenant) ?? dropped)).pipe(
        Effect.tap((id) => Effect.sync(() => keep(tenant, id))),
        minting.withPermits(1)
      )
  }
})

/** The source of ids that stores built together share, so that their ids have one order per tenant. Default: none shared. */
export class Shared extends Context.Reference<Shared>()("@memory/Minting", {
  defaultValue: (): Service | undefined => undefined
}) {}
