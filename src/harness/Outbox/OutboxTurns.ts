/**
 * Divides two resources among the conversations of an outbox. The first is slots for extraction runs (which this module's names call
 * readings): a run that hangs must delay no other tenant. The second is time of the event loop: an outbox must not block the process's
 * other tasks.
 *
 * ```text
 * slots        `concurrency` runs happen at once, each with its own model calls. Half of the slots, rounded up, are prompt
 *              slots; the others are slow slots.
 * round robin  A free slot goes to the tenant that has waited longest since it last got one; within the tenant to the
 *              conversation that has waited longest. After one run, a conversation with more to extract queues again.
 * slow runs    A run that exceeds its time slice moves to a slow slot and frees its prompt slot. From then on the
 *              conversation starts in a slow slot, until one of its runs ends within the time slice.
 * no room      If all slow slots are occupied, the newest run of the tenant that occupies the most of them is stopped in
 *              favour of a tenant that occupies at least two fewer. Otherwise the run that exceeded its time slice keeps its
 *              prompt slot until a conversation waits for that slot; then the run is stopped, and queues for a slow slot.
 * ```
 *
 * A stopped run does not count as failed: it is restarted later, and repeats its model calls.
 */
import * as Deferred from "effect/Deferred"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as FiberId from "effect/FiberId"
import * as Option from "effect/Option"
import * as Scheduler from "effect/Scheduler"

/** A conversation that requests slots for its extraction runs, one run at a time. */
export interface Reader {
  readonly tenant: string
  /** Whether the conversation's last extraction run exceeded its time slice. */
  isSlow: boolean
}

/** Options that determine how an outbox divides its slots for extraction runs. */
export interface Options {
  /** Number of slots, that is, of extraction runs at once; at least 2. */
  readonly concurrency: number
  /** Time slice: an extraction run that takes longer is slow, and leaves its prompt slot to others (see the opening comment). */
  readonly turn: Duration.DurationInput
}

/** State of the scheduler: the extraction runs of one outbox that have a slot, and those that wait for one. */
export interface ReadingTurns {
  readonly promptReaders: number
  readonly slowReaders: number
  readonly length: Duration.DurationInput
  /** Extraction runs that wait for a slot, by tenant; the tenants in the order in which they get the next free slots. */
  readonly queues: { readonly prompt: Map<string, Set<Turn>>; readonly slow: Map<string, Set<Turn>> }
  /** Number of extraction runs in `queues.prompt`. */
  queued: number
  /** Extraction runs that occupy a slot, in the order in which they got it. */
  readonly running: { readonly prompt: Set<Turn>; readonly slow: Set<Turn> }
  /** Extraction runs that exceeded their time slice and still occupy a prompt slot, since no slow slot was free. */
  readonly overdue: Set<Turn>
}

interface Turn {
  readonly tenant: string
  /** The kind of slot that the extraction run waits for or occupies. */
  place: "prompt" | "slow"
  readonly started: Deferred.Deferred<void>
  readonly stopped: Deferred.Deferred<void>
  /** True once the extraction run has exceeded its time slice. */
  isOver: boolean
  /** True once the extraction run has been asked to stop in favour of others. */
  isStopping: boolean
}

/** Makes the scheduler of one outbox, with all slots free. */
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

/** Runs `reading` once a slot is free for it. If it is stopped in favour of others, queues it again and runs it from the start. */
export const take = <A, E>(turns: ReadingTurns, reader: Reader, reading: Effect.Effect<A, E>): Effect.Effect<A, E> =>
  Effect.flatMap(
    attempt(turns, reader, reading),
    Option.match({ onNone: () => take(turns, reader, reading), onSome: Effect.succeed })
  )

/** Waits for a slot and runs `reading` once; returns `None` if it was stopped in favour of others. */
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

/** Marks an extraction run and its conversation as slow, since the run has exceeded its time slice. */
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
  if (waiting.size > 0) queue.set(turn.tenant, waiting) // moves the tenant to the end of the round robin
}

const begin = (turns: ReadingTurns, turn: Turn): void => {
  dequeue(turns, turn)
  turns.running[turn.place].add(turn)
  Deferred.unsafeDone(turn.started, Effect.void)
}

/** Interrupts the extraction run. Its slot becomes free when the interruption is complete. */
const stop = (turns: ReadingTurns, turn: Turn): void => {
  turn.isStopping = true
  turns.overdue.delete(turn)
  Deferred.unsafeDone(turn.stopped, Effect.void)
}

/** Assigns free slots to waiting extraction runs, and stops runs where the rules of the opening comment demand it. */
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

/** Counts the slow slots that a tenant occupies, except those whose extraction run is being stopped. */
const heldBy = ({ running }: ReadingTurns, tenant: string): number => {
  let count = 0
  for (const turn of running.slow) if (turn.tenant === tenant && !turn.isStopping) count++
  return count
}

/** Finds the tenant that occupies the most slow slots; returns the newest extraction run in these, and their number. */
const newestOfGreediest = (turns: ReadingTurns): readonly [Turn, number] | undefined => {
  let found: readonly [Turn, number] | undefined
  for (const turn of turns.running.slow) {
    const count = heldBy(turns, turn.tenant)
    if (!turn.isStopping && (found === undefined || count >= found[1])) found = [turn, count]
  }
  return found
}

/**
 * Finds the tenant that occupies the fewest slow slots among the tenants that wait for one; returns a waiting extraction run of that
 * tenant, and the number of slots.
 */
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
 * Limits the number of steps that an outbox takes per iteration of the event loop. Fibers that never wait for I/O run as microtasks;
 * without pauses, timers, sockets and files would have to wait until all fibers are done.
 */
export interface EventLoopTurns {
  /** Await it before a step. The first six calls per iteration of the event loop return at once; others wait for a later one, in order. */
  readonly step: Effect.Effect<void>
}

/** Number of steps per iteration of the event loop. A step decodes or writes some rows, which takes 1 to 4 ms. */
const stepsPerTurn = 6

/** Makes a limiter; all callers of its `step` share one count. */
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

/** Timers of the platform, not of the `Clock`: under `TestClock` a test need not advance the time for the outbox to go on. */
const timers = Scheduler.timerBatched(0)
/** Runs a task in a later iteration. Chains two timers, since Node may run the first, if already due, in the current iteration. */
const nextTurn = (task: () => void) => timers.scheduleTask(() => timers.scheduleTask(task, 0), 0)
