/**
 * Shares the readers of an outbox among tenants and conversations, so that a reading which hangs delays nobody else.
 *
 * ```text
 * readers        `concurrency` readings run at once, hence as many calls of the model. Half of them, rounded up, are
 *                prompt readers; the rest are slow readers.
 * round robin    A free reader goes to the tenant whose last turn is longest ago; within the tenant to the conversation
 *                that has waited longest. A turn is one reading; a conversation with more to read queues again.
 * slow readings  A reading that outlasts its turn goes on with a slow reader and gives its prompt reader back. The
 *                conversation starts with a slow reader from then on, until a reading of it ends within a turn.
 * no room        Where all slow readers are taken, the newest reading of the tenant that holds the most of them gives
 *                way to a tenant that holds at least two fewer. Otherwise the reading keeps its prompt reader until a
 *                conversation waits for that reader; then it is stopped, and queues for a slow reader.
 * ```
 *
 * A stopped reading has not failed: it is begun again, at the cost of the model calls that it had made.
 */
import * as Deferred from "effect/Deferred"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as FiberId from "effect/FiberId"
import * as Option from "effect/Option"

/** Whoever takes turns: one conversation, which takes one at a time. */
export interface Reader {
  readonly tenant: string
  /** True where the last reading outlasted its turn. */
  isSlow: boolean
}

export interface ReadingTurns {
  /** Runs the reading when it is the conversation's turn; begins it again where it was stopped for others. */
  readonly take: <A, E>(reader: Reader, reading: Effect.Effect<A, E>) => Effect.Effect<A, E>
}

export interface Options {
  /** Readings at once, at least 2. */
  readonly concurrency: number
  /** How long a reading may hold a prompt reader that others wait for. */
  readonly turn: Duration.DurationInput
}

interface Turn {
  readonly tenant: string
  /** Where the turn waits or runs. */
  place: "prompt" | "slow"
  readonly started: Deferred.Deferred<void>
  readonly stopped: Deferred.Deferred<void>
  /** True once the reading has outlasted its turn. */
  isOver: boolean
}

export const make = ({ concurrency, turn: length }: Options): ReadingTurns => {
  const promptReaders = Math.ceil(concurrency / 2)
  const slowReaders = concurrency - promptReaders
  const queues = { prompt: new Map<string, Set<Turn>>(), slow: new Map<string, Set<Turn>>() } // tenants in order of turns
  const running = { prompt: new Set<Turn>(), slow: new Set<Turn>() } // in order of their start
  const overdue = new Set<Turn>() // prompt ones that had no room among the slow

  const heldBy = (tenant: string): number => {
    let count = 0
    for (const turn of running.slow) if (turn.tenant === tenant) count++
    return count
  }
  const newestOfGreediest = (): readonly [Turn, number] | undefined => {
    const counts = new Map<string, number>()
    for (const { tenant } of running.slow) counts.set(tenant, (counts.get(tenant) ?? 0) + 1)
    const most = Math.max(0, ...counts.values())
    const newest = Array.from(running.slow).findLast(({ tenant }) => counts.get(tenant) === most)
    return newest && [newest, most]
  }

  const stop = (turn: Turn) => {
    leave(turn)
    Deferred.unsafeDone(turn.stopped, Effect.void)
  }
  const leave = (turn: Turn) => {
    running.prompt.delete(turn)
    running.slow.delete(turn)
    overdue.delete(turn)
    const queue = queues[turn.place].get(turn.tenant)
    if (queue?.delete(turn) && queue.size === 0) queues[turn.place].delete(turn.tenant)
  }
  const begin = (turn: Turn) => {
    running[turn.place].add(turn)
    Deferred.unsafeDone(turn.started, Effect.void)
  }

  /** Whether there is a slow reader for the tenant, taken from a greedier one if need be. */
  const hasSlowReader = (tenant: string): boolean => {
    if (running.slow.size < slowReaders) return true
    const greediest = newestOfGreediest()
    if (greediest === undefined || greediest[1] < heldBy(tenant) + 2) return false
    stop(greediest[0])
    return true
  }
  /** The first of the queued tenants that `may` have a turn. It goes to the end of the rotation. */
  const next = (queue: Map<string, Set<Turn>>, may: (tenant: string) => boolean): Turn | undefined => {
    for (const [tenant, turns] of queue) {
      if (!may(tenant)) continue
      queue.delete(tenant)
      const [turn] = turns
      if (turn === undefined) continue // an empty queue is deleted
      turns.delete(turn)
      if (turns.size > 0) queue.set(tenant, turns)
      return turn
    }
    return undefined
  }
  const moveOn = (turn: Turn): boolean => {
    if (!hasSlowReader(turn.tenant)) return false
    running.prompt.delete(turn)
    overdue.delete(turn)
    turn.place = "slow"
    running.slow.add(turn)
    return true
  }
  const dispatch = () => {
    for (const turn of Array.from(overdue)) moveOn(turn)
    while (queues.slow.size > 0) {
      const greediest = running.slow.size < slowReaders ? undefined : newestOfGreediest()
      if (greediest !== undefined && greediest[1] < 2) break // no tenant has one to spare
      const turn = next(queues.slow, hasSlowReader)
      if (turn === undefined) break
      begin(turn)
    }
    while (queues.prompt.size > 0) {
      if (running.prompt.size >= promptReaders) {
        const newest = Array.from(overdue).at(-1)
        if (newest === undefined) break
        stop(newest)
      }
      const turn = next(queues.prompt, () => true)
      if (turn) begin(turn)
    }
  }

  const queued = (reader: Reader) =>
    Effect.sync(() => {
      const turn: Turn = {
        tenant: reader.tenant,
        place: reader.isSlow ? "slow" : "prompt",
        started: Deferred.unsafeMake(FiberId.none),
        stopped: Deferred.unsafeMake(FiberId.none),
        isOver: false
      }
      const queue = queues[turn.place]
      queue.set(turn.tenant, (queue.get(turn.tenant) ?? new Set()).add(turn))
      dispatch()
      return turn
    })
  const outlast = (reader: Reader, turn: Turn) =>
    Effect.sync(() => {
      turn.isOver = true
      reader.isSlow = true
      if (turn.place === "prompt" && !moveOn(turn)) overdue.add(turn)
      dispatch()
    })
  /** `None` where the reading was stopped for others. */
  const attempt = <A, E>(reader: Reader, reading: Effect.Effect<A, E>): Effect.Effect<Option.Option<A>, E> =>
    Effect.acquireUseRelease(
      queued(reader),
      (turn) => {
        const ended = Effect.sync(() => {
          if (!turn.isOver) reader.isSlow = false
        })
        return Effect.gen(function*() {
          yield* Deferred.await(turn.started)
          const timer = yield* Effect.fork(Effect.delay(outlast(reader, turn), length))
          return yield* Effect.raceFirst(
            Effect.asSome(Effect.tapBoth(reading, { onFailure: () => ended, onSuccess: () => ended })),
            Effect.as(Deferred.await(turn.stopped), Option.none<A>())
          ).pipe(Effect.ensuring(Fiber.interrupt(timer)))
        })
      },
      (turn) =>
        Effect.sync(() => {
          leave(turn)
          dispatch()
        })
    )
  const take = <A, E>(reader: Reader, reading: Effect.Effect<A, E>): Effect.Effect<A, E> =>
    Effect.flatMap(
      attempt(reader, reading),
      Option.match({ onNone: () => take(reader, reading), onSome: Effect.succeed })
    )
  return { take }
}
