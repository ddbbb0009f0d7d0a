/** Locks by tenant: whoever writes into one tenant waits for its other writers, and for nobody else. */
import * as Effect from "effect/Effect"

export interface TenantLocks {
  /** Runs an effect while no other one of the tenant runs, in the order of arrival. */
  readonly withLock: (tenant: string) => <A, E, R>(self: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
}

/** Makes locks. A tenant that nobody writes into has none. */
export const make = (): TenantLocks => {
  const locks = new Map<string, { readonly semaphore: Effect.Semaphore; users: number }>()
  return {
    withLock: (tenant) => (self) =>
      Effect.acquireUseRelease(
        Effect.sync(() => {
          const lock = locks.get(tenant) ?? { semaphore: Effect.unsafeMakeSemaphore(1), users: 0 }
          lock.users += 1
          locks.set(tenant, lock)
          return lock
        }),
        ({ semaphore }) => semaphore.withPermits(1)(self),
        (lock) =>
          Effect.sync(() => {
            lock.users -= 1
            if (lock.users === 0) locks.delete(tenant)
          })
      )
  }
}
