/**
 * A durable queue of messages that wait for extraction, stored as rows in the memory store itself. The memories of a message are written at
 * most once, even across crashes. Use it through `MemoryManager`, or directly in a program that feeds one store.
 *
 * ```text
 * append     stores the messages                                         before a trigger may fire
 * extract    asks the model, and stores its answer as a plan             so a retry does not ask again
 * write      applies the plan and erases its messages                    in one write: all of it or nothing
 * ```
 *
 * A conversation is a viewer's messages of one session. A batch is the messages of one append. An extraction run extracts memories from the
 * oldest batches of a conversation. In each process, a conversation has one run at a time. A dead letter is a batch that is set aside and
 * no longer extracted. A batch is set aside after a permanent failure, or after ten failures while other batches succeed. When the layer is
 * built, extraction is requested for messages that an earlier process left. Several processes may share a store. If two processes extract
 * the same batch, the first to write wins.
 *
 * Many tenants share an outbox without waiting for one another:
 *
 * ```text
 * limits     A conversation may hold 1,000 waiting batches, a tenant 10,000. An append that exceeds a limit first requests
 *            extraction from its conversation. If no batches wait there, extraction from another conversation of the tenant is requested.
 *            If the extraction fails or takes longer than `timeSlice`, the append fails with `rate_limited`.
 * slots      A slot runs one extraction; there are 16. A free slot goes to the tenants round robin, and within a tenant to the
 *            conversation that has waited longest. A run covers up to 100 messages, or one longer batch; then its
 *            conversation queues again.
 * hanging    A run that exceeds its time slice of ten seconds moves to the half of the slots that is reserved for slow runs,
 *            and may go on up to its timeout. If that half is full, tenants share it evenly. A slow run elsewhere keeps its slot until
 *            another run needs the slot. The slow run is then stopped, and restarted later. So a run that hangs delays, after
 *            its time slice, only other slow runs.
 * failures   After ten failures in a row, a conversation skips two of three requests. A request for which a caller waits is not skipped.
 * ```
 */
import * as Arr from "effect/Array"
import * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import * as MemoryError from "../domain/MemoryError.ts"
import type { Applied } from "../domain/MemoryMutation.ts"
import type { Message } from "../domain/Message.ts"
import * as Viewer from "../domain/Viewer.ts"
import * as Redaction from "../host/Redaction.ts"
import * as MemoryPipeline from "../pipeline/MemoryPipeline.ts"
import * as MemoryStore from "../storage/MemoryStore.ts"
import type * as ExtractionTrigger from "./ExtractionTrigger.ts"
import * as ExtractionRunner from "./Outbox/ExtractionRunner.ts"
import * as OutboxLog from "./Outbox/OutboxLog.ts"
import * as OutboxScheduler from "./Outbox/OutboxScheduler.ts"
import * as OutboxState from "./Outbox/OutboxState.ts"
import * as OutboxWorker from "./Outbox/OutboxWorker.ts"
import * as OutboxWorkers from "./Outbox/OutboxWorkers.ts"

/** The state of an outbox. */
export interface Status {
  /** Number of messages in the batches that wait for extraction. Messages that the option `filter` leaves out count, too. */
  readonly waiting: number
  /** Number of dead letters (batches set aside after failures). `Service.release` makes them wait for extraction again. */
  readonly deadLetters: number
  /**
   * Number of this process's failed extraction runs since its last success. Permanent failures do not count. If a batch is set aside after
   * ten failures, its conversation's failures no longer count.
   */
  readonly failuresInARow: number
  /** Whether waiting messages survive the end of the process. False if the store is volatile. */
  readonly durable: boolean
}

/** A batch (the messages of one append) that is set aside after failures and no longer extracted. */
export interface DeadLetter {
  readonly viewer: Viewer.Viewer
  readonly session: string
  /** Sequence number of the batch's first message in the session. */
  readonly from: number
  /** Sequence number of the batch's last message in the session, plus 1. */
  readonly to: number
  readonly reason: string
}

/** Operations of `Outbox`. */
export interface Service {
  /**
   * Appends messages to a session as one batch, and returns the sequence number of the first message. Fails with `invalid_scope` if the
   * viewer has no scope in which extraction may store memories. Fails with `rate_limited` if too many batches wait, and none of them is
   * extracted in time. The error then has a `retryAfter` in milliseconds.
   */
  readonly append: (
    viewer: Viewer.Viewer,
    session: string,
    messages: ReadonlyArray<Message>
  ) => Effect.Effect<number, MemoryError.MemoryError>
  /** Notifies the trigger that the session has ended. */
  readonly sessionEnd: (viewer: Viewer.Viewer, session: string) => Effect.Effect<void, MemoryError.MemoryError>
  /**
   * Extracts memories from all waiting messages now, regardless of triggers and retry delays. An outbox without a cluster may miss messages
   * that another process appended after the layer was built. Fails if the messages of a conversation could be neither extracted nor set
   * aside. The error contains only counts and reasons, because a flush has no viewer.
   */
  readonly flush: Effect.Effect<void, MemoryError.MemoryError>
  /** Returns the state of the outbox. An outbox without a cluster may miss batches of other processes, as `flush` does. */
  readonly status: Effect.Effect<Status>
  /** Reads the dead letters (batches set aside after failures) of every tenant from the store. */
  readonly deadLetters: Effect.Effect<ReadonlyArray<DeadLetter>, MemoryError.MemoryError>
  /** Makes the dead letters (batches set aside after failures) wait for extraction again. Returns their number. */
  readonly release: Effect.Effect<number, MemoryError.MemoryError>
}

/** Tag of the outbox. */
export class Outbox extends Context.Tag("@memory/Outbox")<Outbox, Service>() {}

/** Options of extraction. */
export interface ExtractionConfig {
  /** Decides when extraction runs. Default: every five turns, after two idle minutes, and at the end of the session. */
  readonly trigger?: ExtractionTrigger.ExtractionTrigger | undefined
  /**
   * Method of extraction. `pipeline` asks a model for facts. `ingest` passes the messages to the store, which extracts facts itself. If the
   * store does not support that, `ingest` stores the messages word for word. Default: `ingest` if the store supports it, else `pipeline`.
   */
  readonly extractor?: "pipeline" | "ingest" | undefined
  /**
   * Selects the scope in which extracted facts are stored. Default: the result of `Viewer.subjectOf`, normally the scope of the viewer's
   * user. The value `agent` selects the scope of the viewer's agent. All conversations of the agent then see the facts. If the viewer has a
   * user id, `options.sharedWrites` must then include `agent`.
   */
  readonly about?: "agent" | undefined
  /** Options that every extraction passes to the pipeline. Their `scope` takes precedence over the option `about`. */
  readonly options?: Partial<MemoryPipeline.Options> | undefined
  /** Selects the messages to extract from. If it throws, the append fails with `unavailable`. Default: all but tool calls and results. */
  readonly filter?: ((message: Message) => boolean) | undefined
}

/** Options of an outbox. */
export interface Options extends ExtractionConfig {
  /**
   * Largest number of waiting batches of a tenant, at least 1. A batch is the messages of one append. Default 10,000. If extraction frees no
   * room, a user may exceed the limit up to a fair share: this number divided by the number of users with waiting batches.
   */
  readonly capacityPerTenant?: number | undefined
  /** Largest number of waiting batches of a conversation, at least 1. Default 1,000. */
  readonly capacityPerConversation?: number | undefined
  /**
   * Largest number of extraction runs at the same time, at least 2. Half of this number, rounded down, is reserved for runs that take
   * longer than `timeSlice`. Default 16.
   */
  readonly concurrency?: number | undefined
  /** Time after which an extraction run is slow (see `concurrency`). An append waits for capacity at most this long. Default 10 s. */
  readonly timeSlice?: Duration.DurationInput | undefined
  /** Delays before a failed extraction run is retried. Default: exponential from one second, at most five minutes. */
  readonly retry?: Schedule.Schedule<unknown, MemoryError.MemoryError> | undefined
  /** Time limit of an extraction with all its model calls. A longer extraction fails, and is retried. Default two minutes. */
  readonly timeout?: Duration.DurationInput | undefined
  /**
   * Largest number of conversations whose state is kept in RAM. Default 1,000. Beyond this number, conversations without waiting messages
   * are closed, the longest idle first. The next message opens a closed conversation again. Its trigger then starts anew.
   */
  readonly openConversations?: number | undefined
  /**
   * Longest time that a closing Effect scope waits for extraction; 0 for no wait. Messages that are not extracted by then stay in the
   * store. Default 30 seconds.
   */
  readonly flushTimeout?: Duration.DurationInput | undefined
}

/** Callbacks of an outbox. `applied` receives the changes of extraction. `degraded` receives failures that do not stop the outbox. */
export interface Listener {
  readonly applied: (viewer: Viewer.Viewer, applied: ReadonlyArray<Applied>) => Effect.Effect<void>
  readonly degraded: (viewer: Viewer.Viewer, part: string) => (error: MemoryError.MemoryError) => Effect.Effect<void>
}

/** Default of the option `timeout`. */
export const defaultTimeout: Duration.DurationInput = "2 minutes"

/**
 * Makes an outbox. Extraction is requested for the messages that an earlier process left. When the Effect scope closes, memories are
 * extracted from all waiting messages, for at most `flushTimeout`.
 */
export const make = (
  store: MemoryStore.Service,
  pipeline: MemoryPipeline.Service,
  options: Options = {},
  listener: Listener = loggingListener
): Effect.Effect<Service, MemoryError.MemoryError, Scope.Scope> =>
  Effect.gen(function*() {
    yield* ExtractionRunner.checked(options)
    const {
      concurrency = 16,
      flushTimeout = "30 seconds",
      timeout = defaultTimeout,
      timeSlice = "10 seconds"
    } = options
    const { capacityPerConversation = 1_000, capacityPerTenant = 10_000 } = options
    const onCount = yield* OutboxWorkers.counted
    const capacity = OutboxWorker.capacity({ capacityPerConversation, capacityPerTenant, patience: timeSlice, onCount })
    const redaction = yield* Redaction.over(store)
    const log = OutboxLog.make({ store, capacity, redaction, limiter: OutboxScheduler.makeStepLimiter() })
    const scheduler = OutboxScheduler.make({ concurrency, timeSlice })
    const runner = ExtractionRunner.make({ log, pipeline, options, listener, scheduler, timeout })
    const { openConversations, retry, trigger } = options
    const workers = yield* OutboxWorkers.make({
      log,
      openConversations,
      retry,
      trigger,
      attempt: (worker) => ExtractionRunner.attempt(runner, worker)
    })
    const outbox: OpenOutbox = { options, log, runner, workers }
    yield* Effect.addFinalizer(() => flushAtEnd(outbox, flushTimeout))
    yield* requestAll(outbox)
    return {
      append: (viewer, session, messages) =>
        Viewer.required("append", viewer, (viewer) => append(outbox, { viewer, session }, messages)).pipe(
          Effect.withSpan("Outbox.append")
        ),
      sessionEnd: (viewer, session) =>
        Viewer.required(
          "sessionEnd",
          viewer,
          (viewer) => OutboxWorkers.using(workers, { viewer, session }, ({ notify }) => notify({ _tag: "SessionEnd" }))
        ),
      flush: Effect.withSpan(flush(outbox), "Outbox.flush"),
      status: Effect.sync(() => status(outbox)),
      deadLetters: Effect.map(OutboxWorkers.everywhere(store), (all) => all.flatMap(OutboxWorkers.deadLettersOf)),
      release: release(outbox)
    }
  })

/** Provides an outbox over the `MemoryStore` and the `MemoryPipeline` of the Effect context. */
export const layer = (
  options: Options = {}
): Layer.Layer<Outbox, MemoryError.MemoryError, MemoryStore.MemoryStore | MemoryPipeline.MemoryPipeline> =>
  Layer.scoped(
    Outbox,
    Effect.gen(function*() {
      return yield* make(yield* MemoryStore.MemoryStore, yield* MemoryPipeline.MemoryPipeline, options)
    })
  )

/** The default listener: logs failures as warnings, and ignores changes. */
export const loggingListener: Listener = {
  applied: () => Effect.void,
  degraded: (_, part) => (error) => Effect.logWarning(`memory: no ${part}`, error)
}

/** The dependencies that all operations of one outbox share. */
interface OpenOutbox {
  readonly options: Options
  readonly log: OutboxLog.OutboxLog
  readonly runner: ExtractionRunner.ExtractionRunner
  readonly workers: OutboxWorkers.OutboxWorkers
}

const append = (
  { options, workers }: OpenOutbox,
  key: OutboxState.ConversationKey,
  messages: ReadonlyArray<Message>
) =>
  OutboxWorkers.using(workers, key, (worker) =>
    Effect.gen(function*() {
      const from = yield* OutboxWorkers.keep(workers, worker, options, messages)
      for (const [i, message] of messages.entries()) {
        yield* worker.notify({ _tag: "Message", message, sequence: from + i })
      }
      yield* worker.notify({ _tag: "TurnEnd" })
      return from
    }))

const flush = ({ runner, workers }: OpenOutbox): Effect.Effect<void, MemoryError.MemoryError> =>
  Effect.suspend(() => {
    const open = Array.from(workers.open.values()).filter((worker) =>
      worker.isStale || worker.isExtracting || !OutboxWorker.isEmpty(worker)
    )
    const drain = (worker: OutboxWorker.OutboxWorker) =>
      Effect.either(Effect.ensuring(ExtractionRunner.drain(runner, worker), OutboxWorkers.updateIdle(workers, worker)))
    return Effect.flatMap(
      Effect.forEach(open, drain, { concurrency: OutboxWorkers.flushing }),
      (results) => OutboxWorkers.failIfAny(Arr.getLefts(results).map(({ reason }) => reason), results.length)
    )
  })

const flushAtEnd = (outbox: OpenOutbox, flushTimeout: Duration.DurationInput): Effect.Effect<void> => {
  const { capabilities, name } = outbox.log.store
  const consequence = capabilities.durable ? "waits in the store" : "is lost, for the store is volatile"
  return flush(outbox).pipe(
    Effect.interruptible,
    Effect.disconnect, // the timeout below must not wait for a store that hangs
    Effect.interruptible,
    Effect.timeoutFail({
      duration: flushTimeout,
      onTimeout: () => MemoryError.make("unavailable", { op: "flush", message: "it took too long" })
    }),
    Effect.catchAll((error) => Effect.logWarning(`${name}: what is unread ${consequence}`, error))
  )
}

const status = ({ log, runner, workers }: OpenOutbox): Status => {
  let waiting = 0
  for (const { state } of workers.open.values()) waiting += OutboxWorkers.waitingOf(state)
  const deadLetters = Array.from(log.deadLetters.values()).reduce((sum, count) => sum + count, 0)
  return { waiting, deadLetters, failuresInARow: runner.failuresInARow, durable: log.store.capabilities.durable }
}

const release = ({ log, workers }: OpenOutbox): Effect.Effect<number, MemoryError.MemoryError> => {
  const releaseOf = (state: OutboxState.OutboxState) =>
    OutboxWorkers.using(
      workers,
      state,
      (worker) => Effect.tap(OutboxLog.release(log, worker), (count) => count > 0 ? worker.request : Effect.void)
    )
  return OutboxWorkers.everywhere(log.store).pipe(
    Effect.flatMap((all) =>
      Effect.forEach(all.filter((state) => OutboxState.deadLetters(state).length > 0), releaseOf)
    ),
    Effect.map((counts) => counts.reduce((sum, count) => sum + count, 0))
  )
}

/** Requests extraction from the messages that an earlier process left waiting. */
const requestAll = ({ log, workers }: OpenOutbox) =>
  Effect.flatMap(OutboxWorkers.everywhere(log.store), (all) => {
    const left = all.filter(({ batches, plan }) => plan || batches.length > 0)
    const request = (state: OutboxState.OutboxState) =>
      OutboxWorkers.using(workers, state, (worker) =>
        Effect.zipRight(
          OutboxLog.learn(log, worker, state),
          OutboxWorkers.hasWaiting(state) ? worker.request : Effect.void
        ))
    return Effect.forEach(left, (state) => Effect.zipRight(log.limiter.step, request(state)), { discard: true })
  })
