/**
 * Reads a line until nothing waits, and knows when to stop trying.
 *
 * ```text
 * ten failures in a row, of whatever line     every third request is tried, until one succeeds
 * a batch that can never be read              it is parked; of several at once, they are read one by one first
 * one that failed ten times while others      parked too; meanwhile whichever failed least is tried before it
 * went well
 * ```
 */
import * as Effect from "effect/Effect"
import * as MemoryError from "../../domain/MemoryError.ts"
import type { Listener } from "../Outbox.ts"
import * as Kept from "./Kept.ts"
import type { Lane } from "./Lane.ts"
import type { Ledger } from "./Ledger.ts"
import type { Reading } from "./Reading.ts"
import type * as Rows from "./Rows.ts"

type Io<A> = Effect.Effect<A, MemoryError.MemoryError>

export interface Draining {
  /** Until nothing waits; fails where something does. */
  readonly drain: (lane: Lane) => Io<void>
  /** One request: tried as long as things go well, and every third one else. */
  readonly attempt: (lane: Lane) => Io<void>
  readonly failuresInARow: () => number
}

/** Failures after which a request is tried only every third time, or its batch may be the one at fault. */
const patience = 10
/** Messages that are read at once. */
const most = 100

export const make = ({ ledger, listener, readers, reading: { read, resume } }: {
  readonly ledger: Ledger
  readonly reading: Reading
  readonly listener: Listener
  /** A permit for each line that is read. */
  readonly readers: Effect.Semaphore
}): Draining => {
  let failuresInARow = 0
  let successes = 0
  let requests = 0

  const next = (lane: Lane): ReadonlyArray<Rows.Batch> => {
    const waiting = Kept.waiting(lane.kept)
    const timesOf = ({ from }: Rows.Batch) => lane.refusals.get(from)?.times ?? 0
    if (lane.isSingle) {
      const least = Math.min(...waiting.map(timesOf))
      return waiting.filter((batch) => timesOf(batch) === least).slice(0, 1)
    }
    const first = waiting[0]?.from ?? 0
    return waiting.filter(({ to }, i) => i === 0 || to - first <= most)
  }

  const failed = (lane: Lane, batches: ReadonlyArray<Rows.Batch>, error: MemoryError.MemoryError): Io<void> =>
    Effect.gen(function*() {
      const isFinal = !error.isRetryable && error.reason !== "not_found" // a neighbour may have gone
      if (!isFinal) failuresInARow++
      let least = Infinity
      for (const { from } of batches) {
        const { since, times } = lane.refusals.get(from) ?? { times: 0, since: successes }
        lane.refusals.set(from, { times: times + 1, since })
        least = Math.min(least, since < successes || batches.length > 1 ? times + 1 : 0)
      }
      yield* listener.degraded(lane.viewer, "extraction")(error)
      const [batch, ...others] = batches
      if (batch === undefined || !(isFinal || least >= patience)) return yield* error
      if (others.length === 0) {
        // it may have been written before it failed
        yield* Effect.catchIf(ledger.park(lane, batch, error), Kept.isTaken, () => Effect.void)
        lane.refusals.delete(batch.from)
        if (!isFinal) failuresInARow = 0 // they were its own
        return
      }
      lane.isSingle = true
      lane.refusals.clear()
      if (!isFinal) return yield* error
    })

  const step = (lane: Lane): Io<void> =>
    Effect.suspend(() => {
      const before = lane.kept
      const { plan } = before
      const batches = next(lane)
      return (plan ? resume(lane, plan) : Effect.as(read(lane, batches), true)).pipe(
        Effect.catchAllDefect((cause) =>
          MemoryError.make("unsupported", { op: "extract", message: "the extraction died", cause })
        ),
        Effect.matchEffect({
          onSuccess: (isWritten) =>
            Effect.sync(() => {
              if (!isWritten) return
              failuresInARow = requests = 0
              successes++
              for (const { from } of batches) lane.refusals.delete(from)
            }),
          onFailure: (error) => {
            if (!Kept.isTaken(error)) return failed(lane, batches, error)
            lane.isStale = true
            return Effect.flatMap(ledger.look(lane), (kept) => Kept.same(before, kept) ? error : Effect.void)
          }
        })
      )
    })

  const steps = (lane: Lane): Io<void> =>
    Effect.flatMap(ledger.look(lane), (kept) => {
      if (kept.plan || Kept.waiting(kept).length > 0) return Effect.zipRight(step(lane), steps(lane))
      lane.isSingle = false
      lane.refusals.clear()
      return Effect.void
    })
  const drain = (lane: Lane): Io<void> =>
    lane.draining.withPermits(1)(readers.withPermits(1)(steps(lane))).pipe(
      Effect.catchAllDefect((cause) =>
        MemoryError.make("unavailable", { op: "drain", message: "the outbox died", cause })
      ),
      Effect.withSpan("Outbox.drain")
    )

  return {
    drain,
    attempt: (lane) =>
      Effect.suspend(() =>
        failuresInARow < patience || ++requests % 3 === 0
          ? drain(lane)
          : MemoryError.make("unavailable", { op: "extract", message: "most attempts failed lately" })
      ),
    failuresInARow: () => failuresInARow
  }
}
