/**
 * Limits how many batches of messages wait per conversation and per tenant. An append that finds no room has waiting
 * batches read, or is refused. Each tenant has a count of its own, so no tenant waits for another.
 */
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as FiberId from "effect/FiberId"
import * as MemoryError from "../../domain/MemoryError.ts"
import type { Lane } from "./Lane.ts"

type Io<A> = Effect.Effect<A, MemoryError.MemoryError>

/** Reserves room for appends and counts the batches that wait. */
export interface Capacity {
  /**
   * Runs `append` with a place reserved for its batch. Where no place is free, the oldest batches of the conversation are
   * read at once or, where it has none, those of another conversation of the tenant. Fails with `rate_limited` if that
   * reading fails or takes longer than `patience`.
   */
  readonly reserve: <A>(lane: Lane, append: (place: Place) => Io<A>) => Io<A>
  /** Records how many batches of the conversation wait. */
  readonly record: (lane: Lane, waiting: number) => void
}

/** Gives a reserved place back. The append calls it when it records its batch; further calls do nothing. */
export type Place = () => void

/** The options of an outbox that limit what waits. */
export interface Options {
  /** Batches of one tenant that may wait, at least 1. */
  readonly capacityPerTenant: number
  /** Batches of one conversation that may wait, at least 1. */
  readonly capacityPerLine: number
  /** Longest time that an append waits for room. */
  readonly patience: Duration.DurationInput
}

/** One tenant's conversations in which batches wait, and its taken capacity. */
interface Tenant {
  /** In the order in which they are examined for room. */
  readonly lanes: Set<Lane>
  /** Batches that wait, and places reserved for more. */
  taken: number
  /** Completed, and replaced, whenever a batch stops waiting. */
  freed: Deferred.Deferred<void>
}

/** Makes the limits of one outbox. Holds state only for tenants in which something waits. */
export const make = ({ capacityPerLine, capacityPerTenant, patience }: Options): Capacity => {
  const tenants = new Map<string, Tenant>()
  const tenantOf = ({ tenant }: Lane): Tenant => {
    const known = tenants.get(tenant) ?? { lanes: new Set(), taken: 0, freed: Deferred.unsafeMake(FiberId.none) }
    tenants.set(tenant, known)
    return known
  }
  const count = (lane: Lane, more: number) => {
    const tenant = tenantOf(lane)
    tenant.taken += more
    if (tenant.taken === 0) tenants.delete(lane.tenant)
    if (more > 0) return
    Deferred.unsafeDone(tenant.freed, Effect.void)
    tenant.freed = Deferred.unsafeMake(FiberId.none)
  }

  const isFull = (lane: Lane): boolean => lane.waiting + lane.reserved >= capacityPerLine
  /** Chooses the conversation whose reading makes room. */
  const laneToRead = (lane: Lane): Lane => {
    if (isFull(lane) || lane.waiting > 0) return lane
    const { lanes } = tenantOf(lane)
    let best: Lane | undefined
    for (const other of Array.from(take(lanes, candidates))) {
      if (best === undefined || difficulty(other) < difficulty(best)) best = other
      lanes.delete(other)
      lanes.add(other) // moved to the end, so that the next call examines others first
    }
    return best ?? lane
  }
  const refuse = (lane: Lane, full: Lane, cause?: MemoryError.MemoryError) =>
    Effect.flatMap(Clock.currentTimeMillis, (now) => {
      const wait = full.retryAt === undefined ? 0 : full.retryAt - now
      return MemoryError.make("rate_limited", {
        op: "append",
        message: isFull(lane)
          ? `${capacityPerLine} turns of this conversation wait and could not be read`
          : "too many turns of this tenant wait and could not be read",
        detail: { retryAfter: Math.ceil(wait > 0 ? wait : Duration.toMillis(patience)) },
        ...(full === lane && { cause })
      })
    })

  /** Requests a reading and waits until it has ended or room is free; `left` is in milliseconds. */
  const wait = (lane: Lane, left: number): Io<void> =>
    Effect.suspend(() => {
      const { freed } = tenantOf(lane)
      const full = laneToRead(lane)
      const room = Deferred.await(freed)
      return (full.waiting > 0 ? Effect.raceFirst(room, full.readNow) : room).pipe(
        Effect.timeoutTo({ duration: left, onSuccess: () => true, onTimeout: () => false }),
        Effect.matchEffect({
          onFailure: (error) => refuse(lane, full, error),
          onSuccess: (isInTime) => isInTime ? Effect.void : refuse(lane, full)
        })
      )
    })
  /** Reserves a place. The caller runs it uninterruptibly; only the waiting is interruptible. */
  const place = (lane: Lane): Io<Place> =>
    Effect.gen(function*() {
      const end = (yield* Clock.currentTimeMillis) + Duration.toMillis(patience)
      while (isFull(lane) || tenantOf(lane).taken >= capacityPerTenant) {
        yield* Effect.interruptible(wait(lane, end - (yield* Clock.currentTimeMillis)))
      }
      lane.reserved++
      count(lane, 1)
      let isReserved = true
      return () => {
        if (!isReserved) return
        isReserved = false
        lane.reserved--
        count(lane, -1)
      }
    })

  return {
    reserve: (lane, append) => Effect.acquireUseRelease(place(lane), append, (free) => Effect.sync(free)),
    record: (lane, waiting) => {
      const before = lane.waiting
      if (waiting === before) return
      lane.waiting = waiting
      const { lanes } = tenantOf(lane)
      if (waiting > 0) lanes.add(lane)
      else lanes.delete(lane)
      count(lane, waiting - before)
    }
  }
}

/** Number of conversations of a full tenant that are compared before one of them is read. */
const candidates = 64

/** Rates how unlikely a reading of the conversation is to succeed soon: 0 (likely) to 3. */
const difficulty = ({ failuresInARow, isReading, isSlow }: Lane): number =>
  failuresInARow > 0 ? 3 : isSlow ? 2 : isReading ? 1 : 0

function* take<A>(all: Iterable<A>, most: number): Iterable<A> {
  for (const one of all) {
    if (most-- <= 0) return
    yield one
  }
}
