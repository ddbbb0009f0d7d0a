/**
 * Reads a conversation until nothing waits, and decides when to stop trying.
 *
 * ```text
 * ten failures in a row of a conversation     every third request is tried, until one succeeds
 * a batch that can never be read              it is parked; several at once are read one by one first
 * a batch that failed ten times while         it is parked too; meanwhile the batch that failed least is tried before it
 * others went well
 * ```
 *
 * A failure counts against its own conversation only: no conversation is tried less often because another one fails.
 */
import * as Effect from "effect/Effect"
import * as MemoryError from "../../domain/MemoryError.ts"
import type { Listener } from "../Outbox.ts"
import type { Breathing } from "./Breathing.ts"
import * as Kept from "./Kept.ts"
import type { Lane } from "./Lane.ts"
import type { Ledger } from "./Ledger.ts"
import type { Reading } from "./Reading.ts"
import type { ReadingTurns } from "./ReadingTurns.ts"
import type * as Rows from "./Rows.ts"

type Io<A> = Effect.Effect<A, MemoryError.MemoryError>

export interface Draining {
  /** Reads until nothing waits; fails if something still does. */
  readonly drain: (lane: Lane) => Io<void>
  /** Serves one request: runs `drain` each time while readings of the conversation succeed, else every third time. */
  readonly attempt: (lane: Lane) => Io<void>
  /** Number of failures of all conversations since the last success of any of them. */
  readonly failuresInARow: () => number
}

/** Failures after which a request is tried only every third time, or its batch may be the one at fault. */
const patience = 10
/** Most messages, and most rows (of up to 60,000 characters each), in one reading; a single batch may exceed both. */
const most = { messages: 100, rows: 16 }

export const make = ({ breathing, ledger, listener, reading: { read, resume }, turns }: {
  readonly ledger: Ledger
  readonly reading: Reading
  readonly listener: Listener
  readonly turns: ReadingTurns
  readonly breathing: Breathing
}): Draining => {
  let failuresInARow = 0
  let successes = 0

  const next = (lane: Lane): ReadonlyArray<Rows.Batch> => {
    const waiting = Kept.waiting(lane.kept)
    const group: Array<Rows.Batch> = []
    if (lane.isSingle) {
      const timesOf = ({ from }: Rows.Batch) => lane.refusals.get(from)?.times ?? 0
      for (const batch of waiting) {
        if (group[0] === undefined || timesOf(batch) < timesOf(group[0])) group[0] = batch
      }
      return group
    }
    let rows = 0
    for (const batch of waiting) {
      rows += batch.rows.length
      const first = group[0] ?? batch
      if (group.length > 0 && (batch.to - first.from > most.messages || rows > most.rows)) break
      group.push(batch)
    }
    return group
  }

  const failed = (lane: Lane, batches: ReadonlyArray<Rows.Batch>, error: MemoryError.MemoryError): Io<void> =>
    Effect.gen(function*() {
      const isFinal = !error.isRetryable && error.reason !== "not_found" // a neighbour may have gone
      if (!isFinal) {
        failuresInARow++
        lane.failuresInARow++
      }
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
        if (!isFinal) failuresInARow = lane.failuresInARow = 0 // both counted the batch that is parked now
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
              failuresInARow = lane.failuresInARow = lane.requests = 0
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
      if (kept.plan || Kept.waiting(kept).length > 0) {
        return Effect.zipRight(turns.take(lane, Effect.zipRight(breathing.step, step(lane))), steps(lane))
      }
      lane.isSingle = false
      lane.refusals.clear()
      return Effect.void
    })
  const drain = (lane: Lane): Io<void> =>
    lane.draining.withPermits(1)(Effect.suspend(() => {
      lane.isReading = true
      return Effect.ensuring(steps(lane), Effect.sync(() => lane.isReading = false))
    })).pipe(
      Effect.catchAllDefect((cause) =>
        MemoryError.make("unavailable", { op: "drain", message: "the outbox died", cause })
      ),
      Effect.withSpan("Outbox.drain")
    )

  return {
    drain,
    attempt: (lane) =>
      Effect.suspend(() => {
        const isTried = lane.isUrgent || lane.failuresInARow < patience || ++lane.requests % 3 === 0
        lane.isUrgent = false
        return isTried
          ? drain(lane)
          : MemoryError.make("unavailable", { op: "extract", message: "most attempts failed lately" })
      }),
    failuresInARow: () => failuresInARow
  }
}
