/**
 * Signals of a store's use, so that periodic work runs because something happened and not by the clock alone.
 *
 * The periodic work of a store without calls, and without records that expire, sleeps. After a long sleep of the machine or
 * of a test's clock, the work of all missed hours is done once.
 */
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as FiberId from "effect/FiberId"

/** Tells periodic work when there is something to do. */
export interface Activity {
  /**
   * Waits until the number of calls differs from `known`, and returns it; returns at once if it differs already.
   * Compactions do not count as calls.
   */
  readonly since: (known: number) => Effect.Effect<number>
  /** Earliest time at which a row that the last compaction left is to be erased, in epoch milliseconds; `Infinity` if none is. */
  readonly nextExpiry: Effect.Effect<number>
}

/** Returns the number of calls made so far. */
export const calls = (activity: Activity): Effect.Effect<number> => activity.since(-1)

/** Makes an activity that counts calls: each run of `called` counts one. */
export const make = (nextExpiry: () => number): Activity & { readonly called: Effect.Effect<void> } => {
  let count = 0
  let next: Deferred.Deferred<void> | undefined
  const since = (known: number): Effect.Effect<number> =>
    Effect.suspend(() => {
      if (count !== known) return Effect.succeed(count)
      next ??= Deferred.unsafeMake(FiberId.none)
      return Effect.zipRight(Deferred.await(next), since(known))
    })
  return {
    since,
    nextExpiry: Effect.sync(nextExpiry),
    called: Effect.sync(() => {
      count++
      if (next === undefined) return
      Deferred.unsafeDone(next, Effect.void)
      next = undefined
    })
  }
}

/** Combines the activities of several stores into one. `all` is run again at each look, so stores may come and go. */
export const together = (all: Effect.Effect<ReadonlyArray<Activity>>): Activity => {
  const since = (known: number): Effect.Effect<number> =>
    Effect.gen(function*() {
      const activities = yield* all
      const counts = yield* Effect.forEach(activities, calls)
      const sum = counts.reduce((sum, count) => sum + count, 0)
      if (sum !== known) return sum
      yield* Effect.raceAll(activities.map((one, n) => one.since(counts[n]!)))
      return yield* since(known)
    })
  return {
    since,
    nextExpiry: Effect.flatMap(all, (activities) =>
      Effect.map(
        Effect.forEach(activities, ({ nextExpiry }) => nextExpiry),
        (times) => Math.min(...times)
      ))
  }
}

/** Sleeps until a time in epoch milliseconds; `Infinity` never comes. Sleeps in stretches of 24 days, a timer's maximum. */
export const until = (time: number): Effect.Effect<void> =>
  time === Infinity
    ? Effect.never
    : Effect.flatMap(Clock.currentTimeMillis, (now) =>
      now >= time
        ? Effect.void
        : Effect.zipRight(Effect.sleep(Math.min(time - now, longest)), Effect.suspend(() => until(time))))
const longest = 2 ** 31 - 1
