/**
 * Divides two resources among the conversations of an outbox: slots for extraction runs, and time of the event loop. A run that hangs
 * delays only slow runs once its time slice has ended. An outbox does not block other tasks of the process.
 *
 * ```text
 * slots        `concurrency` runs happen at once, each with its own model calls. Half of the slots, rounded up, are prompt
 *              slots, for runs that end within their time slice; the others are slow slots.
 * round robin  A free prompt slot goes to the tenant that has waited longest since it last got one. A free slow slot goes to
 *              the tenant with the fewest slow slots. Within a tenant, the conversation that has waited longest comes first;
 *              but a run that exceeded its time slice in a prompt slot gets a slow slot before the runs in the queue.
 *              After one run, a conversation with more to extract queues again.
 * slow runs    A run that exceeds its time slice moves to a slow slot and frees its prompt slot. From then on the
 *              conversation starts in a slow slot, until one of its runs ends within the time slice.
 * no room      A run may need a slow slot when all are occupied. Then the newest slow run of the tenant with the most slow
 *              slots is stopped, if this tenant has at least two more slow slots than the tenant of the run that needs one.
 *              Until a slow slot is free, a run that exceeded its time slice keeps its prompt slot. If another run needs
 *              this prompt slot, the run that exceeded its time slice is stopped, and queues for a slow slot.
 * ```
 *
 * A stopped run does not count as failed. The run starts again later, and repeats its model calls.
 */
import * as Deferred from "effect/Deferred"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as FiberId from "effect/FiberId"
import * as Option from "effect/Option"
import * as Scheduler from "effect/Scheduler"

/** A conversation that requests slots for its extraction runs, one run at a time. */
export interface ScheduledConversation {
  readonly tenant: string
  /** Whether the conversation's last extraction run exceeded its time slice. */
  isSlow: boolean
}

/** Options that determine how an outbox divides its slots for extraction runs. */
export interface Options {
  /** Number of slots for extraction runs, at least 2. A slot holds one run at a time. */
  readonly concurrency: number
  /** Time after which an extraction run counts as slow. A slow run needs a slot for slow runs. */
  readonly timeSlice: Duration.DurationInput
}

/** State of the scheduler: the extraction runs of one outbox that have a slot, and those that wait for one. */
export interface OutboxScheduler {
  readonly promptSlots: number
  readonly slowSlots: number
  readonly timeSlice: Duration.DurationInput
  /** Extraction runs that wait for a slot, by tenant. The first tenant of `prompt` gets the next free prompt slot. */
  readonly queues: { readonly prompt: Map<string, Set<ScheduledRun>>; readonly slow: Map<string, Set<ScheduledRun>> }
  /** Number of extraction runs in `queues.prompt`. */
  queued: number
  /** Extraction runs that occupy a slot, in the order in which they got it. */
  readonly running: { readonly prompt: Set<ScheduledRun>; readonly slow: Set<ScheduledRun> }
  /** Extraction runs that exceeded their time slice and still occupy a prompt slot, since no slow slot was free. */
  readonly overdue: Set<ScheduledRun>
}

interface ScheduledRun {
  readonly tenant: string
  /** Kind of the slot that the extraction run waits for or occupies. */
  slot: "prompt" | "slow"
  readonly started: Deferred.Deferred<void>
  readonly stopped: Deferred.Deferred<void>
  /** Whether the extraction run has exceeded its time slice. */
  isOver: boolean
  /** Whether the extraction run has been asked to stop in favour of another run. */
  isStopping: boolean
}

/** Makes the scheduler of one outbox, with all slots free. */
export const make = ({ concurrency, timeSlice }: Options): OutboxScheduler => {
  const promptSlots = Math.ceil(concurrency / 2)
  return {
    promptSlots,
    slowSlots: concurrency - promptSlots,
    timeSlice,
    queues: { prompt: new Map(), slow: new Map() },
    queued: 0,
    running: { prompt: new Set(), slow: new Set() },
    overdue: new Set()
  }
}

/** Waits for a free slot, then runs `extraction`. A run that is stopped in favour of another run waits for a slot again. */
export const schedule = <A, E>(
  scheduler: OutboxScheduler,
  conversation: ScheduledConversation,
  extraction: Effect.Effect<A, E>
): Effect.Effect<A, E> =>
  Effect.flatMap(
    runOnce(scheduler, conversation, extraction),
    Option.match({ onNone: () => schedule(scheduler, conversation, extraction), onSome: Effect.succeed })
  )

/** Waits for a slot and runs `extraction` once. Returns `None` if the run was stopped in favour of another run. */
const runOnce = <A, E>(
  scheduler: OutboxScheduler,
  conversation: ScheduledConversation,
  extraction: Effect.Effect<A, E>
): Effect.Effect<Option.Option<A>, E> =>
  Effect.acquireUseRelease(
    enqueued(scheduler, conversation),
    (run) => {
      const ended = Effect.sync(() => {
        if (!run.isOver) conversation.isSlow = false
      })
      return Effect.gen(function*() {
        yield* Deferred.await(run.started)
        const timer = yield* Effect.fork(Effect.delay(markSlow(scheduler, conversation, run), scheduler.timeSlice))
        return yield* Effect.raceFirst(
          Effect.asSome(Effect.tapBoth(extraction, { onFailure: () => ended, onSuccess: () => ended })),
          Effect.as(Deferred.await(run.stopped), Option.none<A>())
        ).pipe(Effect.ensuring(Fiber.interrupt(timer)))
      })
    },
    (run) => Effect.sync(() => leave(scheduler, run))
  )

const enqueued = (scheduler: OutboxScheduler, conversation: ScheduledConversation): Effect.Effect<ScheduledRun> =>
  Effect.sync(() => {
    const run: ScheduledRun = {
      tenant: conversation.tenant,
      slot: conversation.isSlow ? "slow" : "prompt",
      started: Deferred.unsafeMake(FiberId.none),
      stopped: Deferred.unsafeMake(FiberId.none),
      isOver: false,
      isStopping: false
    }
    const queue = scheduler.queues[run.slot]
    queue.set(run.tenant, (queue.get(run.tenant) ?? new Set()).add(run))
    if (run.slot === "prompt") scheduler.queued++
    dispatch(scheduler)
    return run
  })

/** Marks an extraction run and its conversation as slow, since the run has exceeded its time slice. */
const markSlow = (
  scheduler: OutboxScheduler,
  conversation: ScheduledConversation,
  run: ScheduledRun
): Effect.Effect<void> =>
  Effect.sync(() => {
    run.isOver = true
    conversation.isSlow = true
    if (run.slot === "prompt" && !run.isStopping) scheduler.overdue.add(run)
    dispatch(scheduler)
  })

const leave = (scheduler: OutboxScheduler, run: ScheduledRun): void => {
  scheduler.running.prompt.delete(run)
  scheduler.running.slow.delete(run)
  scheduler.overdue.delete(run)
  dequeue(scheduler, run)
  dispatch(scheduler)
}

const dequeue = (scheduler: OutboxScheduler, run: ScheduledRun): void => {
  const queue = scheduler.queues[run.slot]
  const waiting = queue.get(run.tenant)
  if (!waiting?.delete(run)) return
  if (run.slot === "prompt") scheduler.queued--
  queue.delete(run.tenant)
  if (waiting.size > 0) queue.set(run.tenant, waiting) // moves the tenant to the end of the queue
}

const begin = (scheduler: OutboxScheduler, run: ScheduledRun): void => {
  dequeue(scheduler, run)
  scheduler.running[run.slot].add(run)
  Deferred.unsafeDone(run.started, Effect.void)
}

/** Interrupts the extraction run. Its slot becomes free when the interruption is complete. */
const stop = (scheduler: OutboxScheduler, run: ScheduledRun): void => {
  run.isStopping = true
  scheduler.overdue.delete(run)
  Deferred.unsafeDone(run.stopped, Effect.void)
}

/** Gives free slots to waiting extraction runs. If no slot is free, a slow run may be stopped to free its slot. */
const dispatch = (scheduler: OutboxScheduler): void => {
  dispatchSlow(scheduler)
  dispatchPrompt(scheduler)
}

const dispatchSlow = (scheduler: OutboxScheduler): void => {
  const { overdue, running, slowSlots } = scheduler
  for (let first = poorest(scheduler); first !== undefined; first = poorest(scheduler)) {
    const [run, count] = first
    if (running.slow.size < slowSlots) {
      if (overdue.delete(run)) {
        running.prompt.delete(run)
        run.slot = "slow"
        running.slow.add(run)
      } else begin(scheduler, run)
      continue
    }
    const greediest = newestOfGreediest(scheduler)
    if (stopping(running.slow) === 0 && greediest !== undefined && greediest[1] >= count + 2) {
      stop(scheduler, greediest[0])
    }
    return
  }
}

const dispatchPrompt = (scheduler: OutboxScheduler): void => {
  const { overdue, promptSlots, queues, running } = scheduler
  while (scheduler.queued > 0) {
    if (running.prompt.size < promptSlots) {
      for (const [run] of queues.prompt.values()) {
        if (run) begin(scheduler, run)
        break
      }
      continue
    }
    const newest = Array.from(overdue).at(-1)
    if (newest === undefined || stopping(running.prompt) >= scheduler.queued) return
    stop(scheduler, newest)
  }
}

/** Counts the slow slots that a tenant occupies, except those whose extraction run is being stopped. */
const heldBy = ({ running }: OutboxScheduler, tenant: string): number => {
  let count = 0
  for (const run of running.slow) if (run.tenant === tenant && !run.isStopping) count++
  return count
}

/** Finds the tenant with the most slow slots. Returns the newest run in these slots, and the number of these slots. */
const newestOfGreediest = (scheduler: OutboxScheduler): readonly [ScheduledRun, number] | undefined => {
  let found: readonly [ScheduledRun, number] | undefined
  for (const run of scheduler.running.slow) {
    const count = heldBy(scheduler, run.tenant)
    if (!run.isStopping && (found === undefined || count >= found[1])) found = [run, count]
  }
  return found
}

/**
 * Finds the tenant that occupies the fewest slow slots. Considers only tenants with a run that waits for a slow slot. Returns a waiting run
 * of the tenant, and the number of slow slots that the tenant occupies.
 */
const poorest = (scheduler: OutboxScheduler): readonly [ScheduledRun, number] | undefined => {
  let found: readonly [ScheduledRun, number] | undefined
  const consider = (run: ScheduledRun) => {
    const count = heldBy(scheduler, run.tenant)
    if (found === undefined || count < found[1]) found = [run, count]
  }
  for (const run of scheduler.overdue) consider(run)
  for (const [run] of scheduler.queues.slow.values()) {
    if (found?.[1] === 0) break
    if (run) consider(run)
  }
  return found
}

const stopping = (runs: ReadonlySet<ScheduledRun>): number => Array.from(runs).filter((run) => run.isStopping).length

/**
 * Restricts the number of steps that an outbox takes per iteration of the event loop. Fibers that never wait for I/O run as microtasks.
 * Without the restriction, timers, sockets and files would wait until all these fibers are done.
 */
export interface StepLimiter {
  /** Waits until the caller may take a step. At most six calls return per iteration of the event loop. The other calls wait, in order. */
  readonly step: Effect.Effect<void>
}

/** Number of steps per iteration of the event loop. A step decodes or writes some rows, which takes 1 to 4 ms. */
const stepsPerIteration = 6

/** Makes a limiter. All callers of its `step` share one count. */
export const makeStepLimiter = (): StepLimiter => {
  const waiting = new Set<() => void>() // callbacks of waiting steps, called in order of insertion
  let steps = 0
  let isTimed = false
  const scheduleIteration = () => {
    if (isTimed) return
    isTimed = true
    inNextIteration(iterate)
  }
  const iterate = () => {
    isTimed = false
    steps = 0
    for (const resume of waiting) {
      if (steps >= stepsPerIteration) break
      steps++
      waiting.delete(resume)
      resume()
    }
    if (steps > 0) scheduleIteration()
  }
  return {
    step: Effect.suspend(() => {
      scheduleIteration()
      if (steps < stepsPerIteration && waiting.size === 0) {
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
export const nextIteration: Effect.Effect<void> = Effect.async((resume) => inNextIteration(() => resume(Effect.void)))

/** Timers of the platform, not of the `Clock`. An outbox thus also runs in a test that does not advance the `TestClock`. */
const timers = Scheduler.timerBatched(0)
/** Runs a task in a later iteration. Node may run a first timer in the current iteration, so a second timer follows. */
const inNextIteration = (task: () => void) => timers.scheduleTask(() => timers.scheduleTask(task, 0), 0)
