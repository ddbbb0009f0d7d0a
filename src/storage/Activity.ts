/**
 * Signals of what is done with a store, so that periodic work runs because something happened and not by the clock alone.
 *
 * A store that nobody uses, and that holds nothing that expires, sleeps: after a long sleep of the machine or of a test's
 * clock, the work of every missed hour is done once.
 */
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as FiberId from "effect/FiberId"

export interface Activity {
  /** Completes once calls were made that are not in `known`, at once where there are some; how many there are. Compactions do not count. */
  readonly since: (known: number) => Effect.Effect<number>
  /** When the first record expires that the last compaction left, epoch ms; `Infinity` where none does. */
  readonly nextExpiry: Effect.Effect<number>
}

/** The number of calls made so far. */
export const calls = (activity: Activity): Effect.Effect<number> => activity.since(-1)

/** Counts calls, one for each run of `called`. */
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

/** The activity of several stores, which may come and go, as one. */
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

/** Sleeps until the time, epoch ms; for ever until `Infinity`. No timer lasts longer than 24 days, so it is set again. */
export const until = (time: number): Effect.Effect<void> =>
  time === Infinity
    ? Effect.never
    : Effect.flatMap(Clock.currentTimeMillis, (now) =>
      now >= time
        ? Effect.void
        : Effect.zipRight(Effect.sleep(Math.min(time - now, longest)), Effect.suspend(() => until(time))))
const longest = 2 ** 31 - 1
