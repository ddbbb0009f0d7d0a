/**
 * Shares the readers of an outbox among tenants and conversations, so that a reading that hangs delays no other.
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
 * A stopped reading has not failed: it starts again later, and repeats the model calls that it had made.
 */
import * as Deferred from "effect/Deferred"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as FiberId from "effect/FiberId"
import * as Option from "effect/Option"

/** A conversation that takes turns, one at a time. */
export interface Reader {
  readonly tenant: string
  /** True where the last reading outlasted its turn. */
  isSlow: boolean
}

/** The scheduler of an outbox's readings. */
export interface ReadingTurns {
  /** Runs the reading when it is the conversation's turn; starts it again if it was stopped for others. */
  readonly take: <A, E>(reader: Reader, reading: Effect.Effect<A, E>) => Effect.Effect<A, E>
}

/** The options of an outbox that divide its readers. */
export interface Options {
  /** Readings that run at once, at least 2. */
  readonly concurrency: number
  /** How long a reading may hold a prompt reader that others wait for. */
  readonly turn: Duration.DurationInput
}

interface Turn {
  readonly tenant: string
  /** The sort of reader that the turn waits for or holds. */
  place: "prompt" | "slow"
  readonly started: Deferred.Deferred<void>
  readonly stopped: Deferred.Deferred<void>
  /** True once the reading has outlasted its turn. */
  isOver: boolean
  /** True once the reading has to give way to others. */
  isStopping: boolean
}

/** Makes the scheduler of one outbox. */
export const make = ({ concurrency, turn: length }: Options): ReadingTurns => {
  const promptReaders = Math.ceil(concurrency / 2)
  const slowReaders = concurrency - promptReaders
  const queues = { prompt: new Map<string, Set<Turn>>(), slow: new Map<string, Set<Turn>>() } // tenants in order of turns
  const running = { prompt: new Set<Turn>(), slow: new Set<Turn>() } // in order of their start
  const overdue = new Set<Turn>() // prompt readings that outlasted their turn and found no slow reader
  let queued = 0 // turns in `queues.prompt`

  /** Counts the slow readers that the tenant holds and is not about to give back. */
  const heldBy = (tenant: string): number => {
    let count = 0
    for (const turn of running.slow) if (turn.tenant === tenant && !turn.isStopping) count++
    return count
  }
  /** Finds the newest slow reading of the tenant that holds the most slow readers, and how many it holds. */
  const newestOfGreediest = (): readonly [Turn, number] | undefined => {
    let found: readonly [Turn, number] | undefined
    for (const turn of running.slow) {
      const count = heldBy(turn.tenant)
      if (!turn.isStopping && (found === undefined || count >= found[1])) found = [turn, count]
    }
    return found
  }
  /** Finds a turn that waits for a slow reader, overdue or queued, whose tenant holds the fewest, and how many it holds. */
  const poorest = (): readonly [Turn, number] | undefined => {
    let found: readonly [Turn, number] | undefined
    const consider = (turn: Turn) => {
      const count = heldBy(turn.tenant)
      if (found === undefined || count < found[1]) found = [turn, count]
    }
    for (const turn of overdue) consider(turn)
    for (const [turn] of queues.slow.values()) {
      if (found?.[1] === 0) break
      if (turn) consider(turn)
    }
    return found
  }
  const stopping = (turns: ReadonlySet<Turn>): number => Array.from(turns).filter((turn) => turn.isStopping).length

  /** Interrupts the reading, which gives its reader back when the interruption is done. */
  const stop = (turn: Turn) => {
    turn.isStopping = true
    overdue.delete(turn)
    Deferred.unsafeDone(turn.stopped, Effect.void)
  }
  const dequeue = (turn: Turn) => {
    const queue = queues[turn.place]
    const turns = queue.get(turn.tenant)
    if (!turns?.delete(turn)) return
    if (turn.place === "prompt") queued--
    queue.delete(turn.tenant)
    if (turns.size > 0) queue.set(turn.tenant, turns) // at the end of the rotation
  }
  const leave = (turn: Turn) => {
    running.prompt.delete(turn)
    running.slow.delete(turn)
    overdue.delete(turn)
    dequeue(turn)
    dispatch()
  }
  const begin = (turn: Turn) => {
    dequeue(turn)
    running[turn.place].add(turn)
    Deferred.unsafeDone(turn.started, Effect.void)
  }

  /** Gives free readers to waiting turns, then stops readings that have to give way: slow readers first, prompt ones next. */
  const dispatch = () => {
    for (let first = poorest(); first !== undefined; first = poorest()) {
      const [turn, count] = first
      if (running.slow.size < slowReaders) {
        if (overdue.delete(turn)) {
          running.prompt.delete(turn)
          turn.place = "slow"
          running.slow.add(turn)
        } else begin(turn)
        continue
      }
      const greediest = newestOfGreediest()
      if (stopping(running.slow) === 0 && greediest !== undefined && greediest[1] >= count + 2) stop(greediest[0])
      break
    }
    while (queued > 0) {
      if (running.prompt.size < promptReaders) {
        for (const [turn] of queues.prompt.values()) {
          if (turn) begin(turn)
          break
        }
        continue
      }
      const newest = Array.from(overdue).at(-1)
      if (newest === undefined || stopping(running.prompt) >= queued) break
      stop(newest)
    }
  }

  const enqueued = (reader: Reader) =>
    Effect.sync(() => {
      const turn: Turn = {
        tenant: reader.tenant,
        place: reader.isSlow ? "slow" : "prompt",
        started: Deferred.unsafeMake(FiberId.none),
        stopped: Deferred.unsafeMake(FiberId.none),
        isOver: false,
        isStopping: false
      }
      const queue = queues[turn.place]
      queue.set(turn.tenant, (queue.get(turn.tenant) ?? new Set()).add(turn))
      if (turn.place === "prompt") queued++
      dispatch()
      return turn
    })
  /** Marks a reading that has outlasted its turn. */
  const outlast = (reader: Reader, turn: Turn) =>
    Effect.sync(() => {
      turn.isOver = true
      reader.isSlow = true
      if (turn.place === "prompt" && !turn.isStopping) overdue.add(turn)
      dispatch()
    })
  /** Runs the reading once; `None` if it was stopped for others. */
  const attempt = <A, E>(reader: Reader, reading: Effect.Effect<A, E>): Effect.Effect<Option.Option<A>, E> =>
    Effect.acquireUseRelease(
      enqueued(reader),
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
      (turn) => Effect.sync(() => leave(turn))
    )
  const take = <A, E>(reader: Reader, reading: Effect.Effect<A, E>): Effect.Effect<A, E> =>
    Effect.flatMap(
      attempt(reader, reading),
      Option.match({ onNone: () => take(reader, reading), onSome: Effect.succeed })
    )
  return { take }
}
