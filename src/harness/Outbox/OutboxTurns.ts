/**
 * Divides two resources among the conversations of an outbox. One is its readers: a reading is one extraction run, and runs on a reader; a
 * reading that hangs must delay no other tenant. The other is the event loop, so that an outbox leaves room for other tasks.
 *
 * ```text
 * readers        `concurrency` readings run at once, each with its own model calls. Half of the readers, rounded up, are
 *                prompt readers; the rest are slow readers.
 * round robin    A free reader goes to the tenant that has waited longest since it last got one; within the tenant to the
 *                conversation that has waited longest. After one reading a conversation with more to read queues again.
 * slow readings  A reading that exceeds its time slice moves to a slow reader and frees its prompt reader. From then on
 *                the conversation starts with a slow reader, until one of its readings ends within the time slice.
 * no room        If all slow readers are taken, the newest reading of the tenant that holds the most of them is stopped in
 *                favour of a tenant that holds at least two fewer. Otherwise the reading keeps its prompt reader until a
 *                conversation waits for that reader; then it is stopped, and queues for a slow reader.
 * ```
 *
 * A stopped reading does not count as failed: it is restarted later, and repeats its model calls.
 */
import * as Deferred from "effect/Deferred"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as FiberId from "effect/FiberId"
import * as Option from "effect/Option"
import * as Scheduler from "effect/Scheduler"

/** A conversation that queues for readers, with one reading at a time. */
export interface Reader {
  readonly tenant: string
  /** Whether the last reading exceeded its time slice. */
  isSlow: boolean
}

/** The options of an outbox that divide its readers. */
export interface Options {
  /** Readings that run at once, at least 2. */
  readonly concurrency: number
  /** Time slice: longest time that a reading may hold a prompt reader that others wait for. */
  readonly turn: Duration.DurationInput
}

/** The scheduler's state: the readings (extraction runs) of one outbox that run, and those that wait for a reader. */
export interface ReadingTurns {
  readonly promptReaders: number
  readonly slowReaders: number
  readonly length: Duration.DurationInput
  /** Readings that wait for a reader, by tenant; the tenants in round-robin order. */
  readonly queues: { readonly prompt: Map<string, Set<Turn>>; readonly slow: Map<string, Set<Turn>> }
  /** Number of readings in `queues.prompt`. */
  queued: number
  /** Readings that hold a reader, in order of their start. */
  readonly running: { readonly prompt: Set<Turn>; readonly slow: Set<Turn> }
  /** Readings on a prompt reader that exceeded their time slice and found no free slow reader. */
  readonly overdue: Set<Turn>
}

interface Turn {
  readonly tenant: string
  /** The sort of reader that the reading waits for or holds. */
  place: "prompt" | "slow"
  readonly started: Deferred.Deferred<void>
  readonly stopped: Deferred.Deferred<void>
  /** True once the reading has exceeded its time slice. */
  isOver: boolean
  /** True once the reading has been told to stop in favour of others. */
  isStopping: boolean
}

/** Makes the scheduler of one outbox, with all readers free. */
export const make = ({ concurrency, turn: length }: Options): ReadingTurns => {
  const promptReaders = Math.ceil(concurrency / 2)
  return {
    promptReaders,
    slowReaders: concurrency - promptReaders,
    length,
    queues: { prompt: new Map(), slow: new Map() },
    queued: 0,
    running: { prompt: new Set(), slow: new Set() },
    overdue: new Set()
  }
}

/** Runs the reading when a reader is free for it; restarts it if it was stopped in favour of others. */
export const take = <A, E>(turns: ReadingTurns, reader: Reader, reading: Effect.Effect<A, E>): Effect.Effect<A, E> =>
  Effect.flatMap(
    attempt(turns, reader, reading),
    Option.match({ onNone: () => take(turns, reader, reading), onSome: Effect.succeed })
  )

/** Runs the reading once; `None` if it was stopped in favour of others. */
const attempt = <A, E>(
  turns: ReadingTurns,
  reader: Reader,
  reading: Effect.Effect<A, E>
): Effect.Effect<Option.Option<A>, E> =>
  Effect.acquireUseRelease(
    enqueued(turns, reader),
    (turn) => {
      const ended = Effect.sync(() => {
        if (!turn.isOver) reader.isSlow = false
      })
      return Effect.gen(function*() {
        yield* Deferred.await(turn.started)
        const timer = yield* Effect.fork(Effect.delay(outlast(turns, reader, turn), turns.length))
        return yield* Effect.raceFirst(
          Effect.asSome(Effect.tapBoth(reading, { onFailure: () => ended, onSuccess: () => ended })),
          Effect.as(Deferred.await(turn.stopped), Option.none<A>())
        ).pipe(Effect.ensuring(Fiber.interrupt(timer)))
      })
    },
    (turn) => Effect.sync(() => leave(turns, turn))
  )

const enqueued = (turns: ReadingTurns, reader: Reader): Effect.Effect<Turn> =>
  Effect.sync(() => {
    const turn: Turn = {
      tenant: reader.tenant,
      place: reader.isSlow ? "slow" : "prompt",
      started: Deferred.unsafeMake(FiberId.none),
      stopped: Deferred.unsafeMake(FiberId.none),
      isOver: false,
      isStopping: false
    }
    const queue = turns.queues[turn.place]
    queue.set(turn.tenant, (queue.get(turn.tenant) ?? new Set()).add(turn))
    if (turn.place === "prompt") turns.queued++
    dispatch(turns)
    return turn
  })

/** Marks a reading that has exceeded its time slice as slow. */
const outlast = (turns: ReadingTurns, reader: Reader, turn: Turn): Effect.Effect<void> =>
  Effect.sync(() => {
    turn.isOver = true
    reader.isSlow = true
    if (turn.place === "prompt" && !turn.isStopping) turns.overdue.add(turn)
    dispatch(turns)
  })

const leave = (turns: ReadingTurns, turn: Turn): void => {
  turns.running.prompt.delete(turn)
  turns.running.slow.delete(turn)
  turns.overdue.delete(turn)
  dequeue(turns, turn)
  dispatch(turns)
}

const dequeue = (turns: ReadingTurns, turn: Turn): void => {
  const queue = turns.queues[turn.place]
  const waiting = queue.get(turn.tenant)
  if (!waiting?.delete(turn)) return
  if (turn.place === "prompt") turns.queued--
  queue.delete(turn.tenant)
  if (waiting.size > 0) queue.set(turn.tenant, waiting) // the tenant goes to the end of the round robin
}

const begin = (turns: ReadingTurns, turn: Turn): void => {
  dequeue(turns, turn)
  turns.running[turn.place].add(turn)
  Deferred.unsafeDone(turn.started, Effect.void)
}

/** Interrupts the reading, which frees its reader when the interruption is done. */
const stop = (turns: ReadingTurns, turn: Turn): void => {
  turn.isStopping = true
  turns.overdue.delete(turn)
  Deferred.unsafeDone(turn.stopped, Effect.void)
}

/** Assigns free readers to waiting readings, then stops readings in favour of others. */
const dispatch = (turns: ReadingTurns): void => {
  dispatchSlow(turns)
  dispatchPrompt(turns)
}

const dispatchSlow = (turns: ReadingTurns): void => {
  const { overdue, running, slowReaders } = turns
  for (let first = poorest(turns); first !== undefined; first = poorest(turns)) {
    const [turn, count] = first
    if (running.slow.size < slowReaders) {
      if (overdue.delete(turn)) {
        running.prompt.delete(turn)
        turn.place = "slow"
        running.slow.add(turn)
      } else begin(turns, turn)
      continue
    }
    const greediest = newestOfGreediest(turns)
    if (stopping(running.slow) === 0 && greediest !== undefined && greediest[1] >= count + 2) stop(turns, greediest[0])
    return
  }
}

const dispatchPrompt = (turns: ReadingTurns): void => {
  const { overdue, promptReaders, queues, running } = turns
  while (turns.queued > 0) {
    if (running.prompt.size < promptReaders) {
      for (const [turn] of queues.prompt.values()) {
        if (turn) begin(turns, turn)
        break
      }
      continue
    }
    const newest = Array.from(overdue).at(-1)
    if (newest === undefined || stopping(running.prompt) >= turns.queued) return
    stop(turns, newest)
  }
}

/** Counts the slow readers that the tenant holds, without readings that are being stopped. */
const heldBy = ({ running }: ReadingTurns, tenant: string): number => {
  let count = 0
  for (const turn of running.slow) if (turn.tenant === tenant && !turn.isStopping) count++
  return count
}

/** Finds the newest slow reading of the tenant that holds the most slow readers; returns it with that number. */
const newestOfGreediest = (turns: ReadingTurns): readonly [Turn, number] | undefined => {
  let found: readonly [Turn, number] | undefined
  for (const turn of turns.running.slow) {
    const count = heldBy(turns, turn.tenant)
    if (!turn.isStopping && (found === undefined || count >= found[1])) found = [turn, count]
  }
  return found
}

/** Finds a reading that waits for a slow reader, whose tenant holds the fewest of them; returns it with that number. */
const poorest = (turns: ReadingTurns): readonly [Turn, number] | undefined => {
  let found: readonly [Turn, number] | undefined
  const consider = (turn: Turn) => {
    const count = heldBy(turns, turn.tenant)
    if (found === undefined || count < found[1]) found = [turn, count]
  }
  for (const turn of turns.overdue) consider(turn)
  for (const [turn] of turns.queues.slow.values()) {
    if (found?.[1] === 0) break
    if (turn) consider(turn)
  }
  return found
}

const stopping = (turns: ReadonlySet<Turn>): number => Array.from(turns).filter((turn) => turn.isStopping).length

/**
 * Admits a limited number of an outbox's steps per iteration of the event loop. Fibers that never wait for I/O run as microtasks, so
 * without these pauses timers, sockets and files would wait until all fibers are done.
 */
export interface EventLoopTurns {
  /** Returns at once for the first six steps of an iteration of the event loop; further steps wait for a later one, in order. */
  readonly step: Effect.Effect<void>
}

/** Steps per iteration of the event loop. A step decodes or writes some rows, which takes 1 to 4 ms. */
const stepsPerTurn = 6

/** Makes a limiter whose steps share one count. */
export const eventLoopTurns = (): EventLoopTurns => {
  const waiting = new Set<() => void>() // resumed in order of insertion
  let steps = 0
  let isTimed = false
  const scheduleTurn = () => {
    if (isTimed) return
    isTimed = true
    nextTurn(turn)
  }
  const turn = () => {
    isTimed = false
    steps = 0
    for (const resume of waiting) {
      if (steps >= stepsPerTurn) break
      steps++
      waiting.delete(resume)
      resume()
    }
    if (steps > 0) scheduleTurn()
  }
  return {
    step: Effect.suspend(() => {
      scheduleTurn()
      if (steps < stepsPerTurn && waiting.size === 0) {
        steps++
        return Effect.void
      }
      return Effect.async<void>((resume) => {
        const go = () => resume(Effect.void)
        waiting.add(go)
        return Effect.sync(() => waiting.delete(go))
      })
    })
  }
}

/** Waits for the next iteration of the event loop. */
export const breath: Effect.Effect<void> = Effect.async((resume) => nextTurn(() => resume(Effect.void)))

/** Timers of the platform instead of the `Clock`, so that a test under `TestClock` need not advance the time. */
const timers = Scheduler.timerBatched(0)
/** Chains two timers: Node may run the first in the current iteration, if it is already due, but never the second. */
const nextTurn = (task: () => void) => timers.scheduleTask(() => timers.scheduleTask(task, 0), 0)
