/**
 * Keeps messages until they are extracted, as rows of the store itself: each is extracted once, even across crashes. Use it
 * through `MemoryManager`, or directly if a program of its own feeds one store.
 *
 * ```text
 * append     the messages are kept                                       before a trigger may fire
 * read       the model is asked, and its plan is kept                    a retry asks it no more
 * write      the plan, and the end of its messages                       one batch: all of it or nothing
 * ```
 *
 * A line is a conversation: a viewer's messages of one session, read in order, one reading at a time. A batch that can
 * never succeed is parked: one that fails permanently, or that failed ten times while other batches succeeded. Messages
 * that another process left behind are read when the layer is built. Several processes may share a store; of those that
 * read the same batch, the first one writes.
 *
 * Many tenants share an outbox, and none waits for another:
 *
 * ```text
 * limits     A line has room for 1,000 batches that wait, a tenant for 10,000. An append that finds no room has the
 *            line's oldest batches read at once; where nothing of the line waits, those of another line of the tenant.
 *            Where that fails, or takes longer than a `turn`, the append fails with `rate_limited`; it never hangs.
 * readers    16 readings run at once. A free reader goes to the tenants in rotation, and within a tenant to the line
 *            that has waited longest. One reading of up to 100 messages is a turn; then the line queues again.
 * hanging    A reading that outlasts its turn of ten seconds moves to the half of the readers that is kept for slow
 *            readings, up to its timeout. Where that half is full, tenants share it evenly, and a reading without a
 *            place is stopped and started again later. So readings that hang hold up only one another.
 * failures   After ten failures in a row of a line, only every third request of that line is tried.
 * ```
 */
import * as Arr from "effect/Array"
import * as Chunk from "effect/Chunk"
import * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as ExecutionStrategy from "effect/ExecutionStrategy"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schedule from "effect/Schedule"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as MemoryError from "../domain/MemoryError.ts"
import type { Applied } from "../domain/MemoryMutation.ts"
import { Internal } from "../domain/MemoryScope.ts"
import type { Message } from "../domain/Message.ts"
import * as Viewer from "../domain/Viewer.ts"
import * as MemoryPipeline from "../pipeline/MemoryPipeline.ts"
import * as MemoryStore from "../storage/MemoryStore.ts"
import * as ExtractionTrigger from "./ExtractionTrigger.ts"
import * as ExtractionRunner from "./Outbox/ExtractionRunner.ts"
import * as OutboxLog from "./Outbox/OutboxLog.ts"
import * as OutboxState from "./Outbox/OutboxState.ts"
import * as OutboxTurns from "./Outbox/OutboxTurns.ts"
import * as OutboxWorker from "./Outbox/OutboxWorker.ts"

export interface Status {
  /** Messages past the cursor. */
  readonly waiting: number
  /** Batches given up on, until somebody looks. */
  readonly parked: number
  readonly failuresInARow: number
  /** False where the store is volatile. */
  readonly durable: boolean
}

/** A batch that was given up on. */
export interface Parked {
  readonly viewer: Viewer.Viewer
  readonly session: string
  /** Places in the session, `to` excluded. */
  readonly from: number
  readonly to: number
  readonly reason: string
}

export interface Service {
  /**
   * Keeps the messages and returns the sequence number of the first one in the session. Fails with `invalid_scope` if there
   * is no scope to remember them in, and with `rate_limited` and `retryAfter` (milliseconds) if too many batches wait and
   * could not be read at once.
   */
  readonly append: (
    viewer: Viewer.Viewer,
    session: string,
    messages: ReadonlyArray<Message>
  ) => Effect.Effect<number, MemoryError.MemoryError>
  /** For triggers that wait for it. */
  readonly sessionEnd: (viewer: Viewer.Viewer, session: string) => Effect.Effect<void, MemoryError.MemoryError>
  /**
   * Reads every line in which messages wait, regardless of triggers and backoff. Fails if a line could be neither written
   * nor parked. The error has counts only: a flush has no viewer, so it names no user's message, id or text.
   */
  readonly flush: Effect.Effect<void, MemoryError.MemoryError>
  readonly status: Effect.Effect<Status>
  /** Of every tenant, as the store has them. */
  readonly parked: Effect.Effect<ReadonlyArray<Parked>, MemoryError.MemoryError>
  /** Takes up again what was given up on; how many batches. */
  readonly release: Effect.Effect<number, MemoryError.MemoryError>
}

export class Outbox extends Context.Tag("@memory/Outbox")<Outbox, Service>() {}

export interface ExtractionConfig {
  /** Default `ExtractionTrigger.standard`: every five turns, at the end of the session, and after two quiet minutes. */
  readonly trigger?: ExtractionTrigger.ExtractionTrigger | undefined
  /** `pipeline`, or `ingest`: the messages as they are. Default: whichever the store takes, `ingest` first. */
  readonly extractor?: "pipeline" | "ingest" | undefined
  /**
   * The scope that the facts are about. Default: the viewer's user; else its agent, if it names neither session nor actor;
   * else all of its ids, so that a visitor's facts stay with the visit. `agent`: the viewer's agent, so that every other
   * conversation of the agent sees them; for a viewer with a user, `options.sharedWrites` must then include `agent`.
   */
  readonly about?: "agent" | undefined
  /** Options of every extraction. A `scope` here takes precedence over `about`. */
  readonly options?: Partial<MemoryPipeline.Options> | undefined
  /** Default: no tool calls, no tool results. */
  readonly filter?: ((message: Message) => boolean) | undefined
}

export interface Options extends ExtractionConfig {
  /** Batches of a tenant that may wait, at least 1; each append is a batch. Default 10,000. */
  readonly capacityPerTenant?: number | undefined
  /** Batches of a line that may wait, at least 1. Default 1,000. */
  readonly capacityPerLine?: number | undefined
  /** Readings, and so model calls, at once; at least 2. One half, rounded down, is kept for slow readings. Default 16. */
  readonly concurrency?: number | undefined
  /** Longest time that a reading may hold a reader that others wait for, and that an append waits for room. Default 10 s. */
  readonly turn?: Duration.DurationInput | undefined
  /** Between attempts of a line. Default exponential from a second, five minutes at most. */
  readonly retry?: Schedule.Schedule<unknown, MemoryError.MemoryError> | undefined
  /** For an answer to one reading; then it has failed, and is tried again. Default two minutes. */
  readonly timeout?: Duration.DurationInput | undefined
  /** Lines that are followed though nothing waits in them; of the longest idle, the trigger begins anew. Default 1,000. */
  readonly openLines?: number | undefined
  /** For how long the scope's end waits for what is unread; then it stays in the store. 0 waits for nothing. Default 30 seconds. */
  readonly flushTimeout?: Duration.DurationInput | undefined
}

/** Hears of what an outbox wrote, and of what failed. */
export interface Listener {
  readonly applied: (viewer: Viewer.Viewer, applied: ReadonlyArray<Applied>) => Effect.Effect<void>
  readonly degraded: (viewer: Viewer.Viewer, part: string) => (error: MemoryError.MemoryError) => Effect.Effect<void>
}

/** Makes an outbox. Reads what another process left behind; the scope's end reads what waits, see `flushTimeout`. */
export const make = (
  store: MemoryStore.Service,
  pipeline: MemoryPipeline.Service,
  options: Options = {},
  listener: Listener = unheard
): Effect.Effect<Service, MemoryError.MemoryError, Scope.Scope> =>
  Effect.gen(function*() {
    const [issue, ...issues] = ExtractionRunner.issuesOf(options)
    if (issue !== undefined) {
      const message = [issue, ...issues].join("; ")
      return yield* MemoryError.make("invalid_draft", { op: "Outbox", message, detail: { issues: [issue, ...issues] } })
    }
    const { concurrency = 16, flushTimeout = "30 seconds", timeout = "2 minutes", turn = "10 seconds" } = options
    const { capacityPerLine = 1_000, capacityPerTenant = 10_000 } = options
    const capacity = OutboxWorker.capacity({ capacityPerLine, capacityPerTenant, patience: turn })
    const log = OutboxLog.make(store, capacity, OutboxTurns.eventLoopTurns())
    const readers = OutboxTurns.make({ concurrency, turn })
    const outbox: OpenOutbox = {
      options,
      log,
      runner: ExtractionRunner.make({ log, pipeline, options, listener, readers, timeout }),
      scope: yield* Effect.flatMap(Effect.scope, (scope) => Scope.fork(scope, ExecutionStrategy.sequential)),
      opening: yield* Effect.makeSemaphore(1),
      workers: new Map(),
      idle: new Set()
    }
    yield* Effect.addFinalizer(() => flushAtEnd(outbox, flushTimeout))
    yield* takeUpAll(outbox)
    return {
      append: (viewer, session, messages) =>
        Viewer.required("append", viewer, (viewer) => append(outbox, { viewer, session }, messages)).pipe(
          Effect.withSpan("Outbox.append")
        ),
      sessionEnd: (viewer, session) =>
        Viewer.required(
          "sessionEnd",
          viewer,
          (viewer) => using(outbox, { viewer, session }, ({ notify }) => notify({ _tag: "SessionEnd" }))
        ),
      flush: Effect.withSpan(flush(outbox), "Outbox.flush"),
      status: Effect.sync(() => status(outbox)),
      parked: Effect.map(everywhere(store), (all) => all.flatMap(parkedOf)),
      release: release(outbox)
    }
  })

/** Provides an outbox of the store and the pipeline that are there. */
export const layer = (
  options: Options = {}
): Layer.Layer<Outbox, MemoryError.MemoryError, MemoryStore.MemoryStore | MemoryPipeline.MemoryPipeline> =>
  Layer.scoped(
    Outbox,
    Effect.gen(function*() {
      return yield* make(yield* MemoryStore.MemoryStore, yield* MemoryPipeline.MemoryPipeline, options)
    })
  )

/** The dependencies that the calls of one outbox share. */
interface OpenOutbox {
  readonly options: Options
  readonly log: OutboxLog.OutboxLog
  readonly runner: ExtractionRunner.ExtractionRunner
  readonly scope: Scope.Scope
  /** Serialises the opening of workers. */
  readonly opening: Effect.Semaphore
  readonly workers: Map<string, OutboxWorker.OutboxWorker>
  /** Workers that can be closed, in order of their last use. */
  readonly idle: Set<OutboxWorker.OutboxWorker>
}

/** Number of conversations that a flush requests at once; `concurrency` limits how many of them are read at once. */
const flushing = 256

const append = (outbox: OpenOutbox, key: OutboxState.ConversationKey, messages: ReadonlyArray<Message>) =>
  using(outbox, key, (worker) =>
    Effect.gen(function*() {
      const { filter = isSpoken } = outbox.options
      yield* ExtractionRunner.targetOf(outbox.options, key.viewer)
      const isMeant = (message: Message) => message.content.trim() !== "" && filter(message)
      const from = yield* OutboxLog.append(outbox.log, worker, messages, isMeant)
      for (const [i, message] of messages.entries()) {
        yield* worker.notify({ _tag: "Message", message, sequence: from + i })
      }
      yield* worker.notify({ _tag: "TurnEnd" })
      return from
    }))

const flush = (outbox: OpenOutbox): Effect.Effect<void, MemoryError.MemoryError> =>
  Effect.suspend(() => {
    const open = Array.from(outbox.workers.values()).filter((worker) =>
      worker.isStale || worker.isReading || !OutboxWorker.isEmpty(worker)
    )
    const drain = (worker: OutboxWorker.OutboxWorker) =>
      Effect.either(Effect.ensuring(ExtractionRunner.drain(outbox.runner, worker), settle(outbox, worker)))
    return Effect.flatMap(
      Effect.forEach(open, drain, { concurrency: flushing }),
      (results) => unwritten(Arr.getLefts(results), results.length)
    )
  })

const flushAtEnd = (outbox: OpenOutbox, flushTimeout: Duration.DurationInput): Effect.Effect<void> => {
  const { capabilities, name } = outbox.log.store
  const unread = capabilities.durable ? "waits in the store" : "is lost, for the store is volatile"
  return flush(outbox).pipe(
    Effect.interruptible,
    Effect.disconnect, // from a store that never answers
    Effect.interruptible,
    Effect.timeoutFail({
      duration: flushTimeout,
      onTimeout: () => MemoryError.make("unavailable", { op: "flush", message: "it took too long" })
    }),
    Effect.catchAll((error) => Effect.logWarning(`${name}: what is unread ${unread}`, error))
  )
}

const status = ({ log, runner, workers }: OpenOutbox): Status => {
  let waiting = 0
  for (const { state } of workers.values()) {
    for (const { from, to } of OutboxState.waiting(state)) waiting += to - from
  }
  const parked = Array.from(log.parked.values()).reduce((sum, count) => sum + count, 0)
  return { waiting, parked, failuresInARow: runner.failuresInARow, durable: log.store.capabilities.durable }
}

const parkedOf = (state: OutboxState.OutboxState): ReadonlyArray<Parked> => {
  const { session, viewer } = state
  return OutboxState.parked(state).map(({ from, parked: reason = "", to }) => ({ viewer, session, from, to, reason }))
}

const release = (outbox: OpenOutbox): Effect.Effect<number, MemoryError.MemoryError> => {
  const releaseOf = (state: OutboxState.OutboxState) =>
    using(
      outbox,
      state,
      (worker) => Effect.tap(OutboxLog.release(outbox.log, worker), (count) => count > 0 ? worker.request : Effect.void)
    )
  return everywhere(outbox.log.store).pipe(
    Effect.flatMap((all) => Effect.forEach(all.filter((state) => OutboxState.parked(state).length > 0), releaseOf)),
    Effect.map((counts) => counts.reduce((sum, count) => sum + count, 0))
  )
}

/** Reads the conversations of every tenant that has rows of the library's own; of a store that cannot tell, of every tenant. */
const everywhere = (store: MemoryStore.Service) =>
  Option.match(store.reader, {
    onNone: () => store.tenants,
    onSome: ({ tenantsWith }) => Effect.map(Stream.runCollect(tenantsWith(Internal)), Chunk.toReadonlyArray)
  }).pipe(
    Effect.flatMap(Effect.forEach((tenant) => OutboxState.all(store, tenant))),
    Effect.map((all) => all.flat())
  )

/** Requests a reading of every conversation that another process left unread. */
const takeUpAll = (outbox: OpenOutbox) =>
  Effect.flatMap(everywhere(outbox.log.store), (all) => {
    const left = all.filter(({ batches, plan }) => plan || batches.length > 0) // sessions that ended well are many
    const takeUp = (state: OutboxState.OutboxState) =>
      using(outbox, state, (worker) =>
        Effect.zipRight(
          OutboxLog.learn(outbox.log, worker, state),
          state.plan || OutboxState.waiting(state).length > 0 ? worker.request : Effect.void
        ))
    return Effect.forEach(left, (state) => Effect.zipRight(outbox.log.turns.step, takeUp(state)), { discard: true })
  })

/** Holds the worker of a conversation while it is used; opens it where it is not open. */
const using = <A, E>(
  outbox: OpenOutbox,
  key: OutboxState.ConversationKey,
  use: (worker: OutboxWorker.OutboxWorker) => Effect.Effect<A, E>
): Effect.Effect<A, E> =>
  Effect.acquireUseRelease(open(outbox, key), use, (worker) => {
    worker.references--
    return settle(outbox, worker)
  })

const open = (outbox: OpenOutbox, key: OutboxState.ConversationKey): Effect.Effect<OutboxWorker.OutboxWorker> =>
  outbox.opening.withPermits(1)(Effect.gen(function*() {
    const { idle, options, runner, scope, workers } = outbox
    const {
      retry = Schedule.either(Schedule.exponential("1 second"), Schedule.spaced("5 minutes")),
      trigger = ExtractionTrigger.standard
    } = options
    const attempt = (worker: OutboxWorker.OutboxWorker) =>
      Effect.ensuring(ExtractionRunner.attempt(runner, worker), settle(outbox, worker))
    const worker = workers.get(OutboxState.keyOf(key)) ??
      (yield* Scope.extend(OutboxWorker.make(key, { trigger, retry, attempt }), scope))
    workers.set(worker.key, worker)
    idle.delete(worker)
    worker.references++
    return worker
  }))

/** Closes the workers that have been idle longest, if more than `openLines` are open. */
const settle = (
  { idle, options: { openLines = 1_000 }, scope, workers }: OpenOutbox,
  worker: OutboxWorker.OutboxWorker
): Effect.Effect<void> =>
  Effect.suspend(() => {
    idle.delete(worker)
    if (OutboxWorker.isIdle(worker) && workers.get(worker.key) === worker) idle.add(worker)
    const closing: Array<OutboxWorker.OutboxWorker> = []
    for (const oldest of idle) {
      if (workers.size <= openLines) break
      idle.delete(oldest)
      workers.delete(oldest.key)
      closing.push(oldest)
    }
    return Effect.forEach(closing, ({ close }) => Effect.forkIn(close, scope), { discard: true })
  })

/** Whether the message is neither a tool call nor a tool result. */
const isSpoken = ({ role, tool }: Message): boolean => role !== "tool" && tool !== true

/** Fails with the number of failed conversations per reason; quotes none of their errors, which may hold a user's words. */
const unwritten = (
  errors: ReadonlyArray<MemoryError.MemoryError>,
  tried: number
): Effect.Effect<void, MemoryError.MemoryError> => {
  if (errors.length === 0) return Effect.void
  const counts = new Map<MemoryError.Reason, number>()
  for (const { reason } of errors) counts.set(reason, (counts.get(reason) ?? 0) + 1)
  const reasons = Array.from(counts).sort(([a, n], [b, m]) => m - n || (a < b ? -1 : 1))
  return MemoryError.make(counts.size === 1 && counts.has("model") ? "model" : "unavailable", {
    op: "flush",
    message: `${errors.length} of ${tried} conversations could not be written: ${
      reasons.map(([reason, count]) => `${reason} ${count}`).join(", ")
    }`
  })
}

const unheard: Listener = {
  applied: () => Effect.void,
  degraded: (_, part) => (error) => Effect.logWarning(`memory: no ${part}`, error)
}
