/**
 * Source of new ids: each is above the last one of its tenant, whichever store asks.
 *
 * Tenants share no sequence. Within one millisecond a tenant's ids follow each other, from a random start of its own, so the
 * gap of two ids does not count what other tenants wrote in between.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as MemoryId from "../domain/MemoryId.ts"

export interface Service {
  /** Mints an id above every earlier one of the tenant. */
  readonly next: (tenant: string) => Effect.Effect<MemoryId.MemoryId>
}

/** Tenants whose last id is remembered. A tenant beyond them begins above all that were dropped, should the clock go back. */
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
      const end = MemoryId.make(last.slice(0, 10) + "Z".repeat(16)) // of its millisecond
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

/** What stores that are built together share, so that their ids have one order per tenant. Default: each has its own. */
export class Shared extends Context.Reference<Shared>()("@memory/Minting", {
  defaultValue: (): Service | undefined => undefined
}) {}
