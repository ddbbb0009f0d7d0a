/**
 * Opens and closes the workers of an outbox. Each conversation in use has one worker, which starts the conversation's extraction runs. This
 * module also reads the states of all conversations, for `Outbox` and `OutboxCluster`.
 */
import * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import * as ExecutionStrategy from "effect/ExecutionStrategy"
import * as Metric from "effect/Metric"
import * as Option from "effect/Option"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as MemoryError from "../../domain/MemoryError.ts"
import { Internal } from "../../domain/MemoryScope.ts"
import { Message, sanitize } from "../../domain/Message.ts"
import * as Validation from "../../domain/Validation.ts"
import * as Redaction from "../../host/Redaction.ts"
import type * as MemoryStore from "../../storage/MemoryStore.ts"
import * as ExtractionTrigger from "../ExtractionTrigger.ts"
import type { DeadLetter, ExtractionConfig, Options as OutboxOptions } from "../Outbox.ts"
import * as ExtractionRunner from "./ExtractionRunner.ts"
import * as OutboxLog from "./OutboxLog.ts"
import * as OutboxState from "./OutboxState.ts"
import * as OutboxWorker from "./OutboxWorker.ts"

/** Options of the workers of one outbox. */
export interface Options extends Pick<OutboxOptions, "openConversations" | "retry" | "trigger"> {
  readonly log: OutboxLog.OutboxLog
  /** Tries once to extract from all waiting messages of the worker's conversation. Fails if some of them still wait. */
  readonly attempt: (worker: OutboxWorker.OutboxWorker) => Effect.Effect<void, MemoryError.MemoryError>
  /** Whether a worker may be closed. Default `OutboxWorker.isIdle`. */
  readonly isIdle?: ((worker: OutboxWorker.OutboxWorker) => boolean) | undefined
}

/** The open workers of one outbox. A worker is open while this process keeps its state and may run its fibers. */
export interface OutboxWorkers extends Options {
  readonly scope: Scope.Scope
  /** Allows only one worker to be opened at a time. */
  readonly opening: Effect.Semaphore
  /** Open workers. The key of a worker is `OutboxState.keyOf` of its conversation. */
  readonly open: Map<string, OutboxWorker.OutboxWorker>
  /** Workers that may be closed. The worker that has been idle longest comes first. */
  readonly idle: Set<OutboxWorker.OutboxWorker>
}

/** Makes an empty set of workers. Workers that are opened later end when the Effect scope closes. */
export const make = (options: Options): Effect.Effect<OutboxWorkers, never, Scope.Scope> =>
  Effect.gen(function*() {
    const parent = yield* Effect.scope
    return {
      ...options,
      scope: yield* Scope.fork(parent, ExecutionStrategy.sequential),
      opening: yield* Effect.makeSemaphore(1),
      open: new Map(),
      idle: new Set()
    }
  })

const queueLength = Metric.gauge("memory_queue_length", { description: "Turns that wait to be read, of all outboxes" })

/**
 * Makes the function `Capacity.onCount`, which adds each change to the metric `queueLength`. When the Effect scope closes, the batches that
 * still count are subtracted, since this process will not extract from them.
 */
export const counted: Effect.Effect<(more: number) => void, never, Scope.Scope> = Effect.map(
  Effect.acquireRelease(
    Effect.sync(() => ({ waiting: 0, isOpen: true })),
    (count) =>
      Effect.sync(() => {
        count.isOpen = false // extraction runs that end after the close must not change the metric
        queueLength.unsafeModify(-count.waiting, [])
      })
  ),
  (count) => (more) => {
    if (!count.isOpen) return
    count.waiting += more
    queueLength.unsafeModify(more, [])
  }
)

/** Runs `use` with the worker of a conversation. The worker is opened if necessary, and stays open while `use` runs. */
export const using = <A, E>(
  workers: OutboxWorkers,
  key: OutboxState.ConversationKey,
  use: (worker: OutboxWorker.OutboxWorker) => Effect.Effect<A, E>
): Effect.Effect<A, E> =>
  Effect.acquireUseRelease(opened(workers, key), use, (worker) => {
    worker.references--
    return updateIdle(workers, worker)
  })

/**
 * Adds the worker to `idle` if the worker may be closed, and otherwise removes the worker from `idle`. Then closes idle workers, the
 * longest idle first, until at most `openConversations` workers are open.
 */
export const updateIdle = (workers: OutboxWorkers, worker: OutboxWorker.OutboxWorker): Effect.Effect<void> =>
  Effect.suspend(() => {
    const { idle, isIdle = OutboxWorker.isIdle, open, openConversations = 1_000 } = workers
    idle.delete(worker)
    if (isIdle(worker) && open.get(worker.key) === worker) idle.add(worker)
    const closing: Array<OutboxWorker.OutboxWorker> = []
    for (const oldest of idle) {
      if (open.size - closing.length <= openConversations) break
      closing.push(oldest)
    }
    return Effect.forEach(closing, (oldest) => close(workers, oldest), { discard: true })
  })

/** Closes a worker in the background. The next use of its conversation opens a new one. */
export const close = (workers: OutboxWorkers, worker: OutboxWorker.OutboxWorker): Effect.Effect<void> =>
  Effect.suspend(() => {
    workers.idle.delete(worker)
    if (workers.open.get(worker.key) === worker) workers.open.delete(worker.key)
    OutboxWorker.record(workers.log.capacity, worker, 0)
    return Effect.asVoid(Effect.forkIn(worker.close, workers.scope))
  })

/**
 * Stores the messages that have text and pass the option `filter`. Every message gets a sequence number, even if it is not stored. Returns
 * the first of these numbers. Fails with `invalid_draft` if a message is invalid, with `invalid_scope` if the viewer has no scope to store
 * memories in, and with `unavailable` if `filter` throws.
 */
export const keep = (
  { log }: OutboxWorkers,
  worker: OutboxWorker.OutboxWorker,
  options: ExtractionConfig,
  messages: ReadonlyArray<Message>
): Effect.Effect<number, MemoryError.MemoryError> =>
  Effect.gen(function*() {
    const { filter = isDialogue } = options
    const isSelected = (message: Message) => message.content.trim() !== "" && filter(message)
    yield* ExtractionRunner.targetOf(options, worker.viewer)
    yield* Validation.check("append", Messages, messages)
    const sanitized = (yield* Redaction.messages(log.redaction, worker.viewer, messages)).map(sanitize)
    // `filter` is the caller's function and may throw
    const isMeant = yield* MemoryError.contain("append")(Effect.sync(() => sanitized.map(isSelected)))
    return yield* OutboxLog.append(log, worker, sanitized, isMeant)
  })

/** Schema of messages to append. Its items are structs, since the class `Message` would accept instances of `Message` without a check. */
const Messages = Schema.Array(Schema.Struct(Message.fields))

/** Reads the states of the conversations of all tenants. */
export const everywhere = (
  store: MemoryStore.Service
): Effect.Effect<ReadonlyArray<OutboxState.OutboxState>, MemoryError.MemoryError> =>
  tenantsOf(store).pipe(
    Effect.flatMap(Effect.forEach((tenant) => OutboxState.all(store, tenant))),
    Effect.map((all) => all.flat())
  )

/** Returns the tenants that may have outbox rows. If the store has a `reader`, these are the tenants with records of scope Internal. */
export const tenantsOf = (
  store: MemoryStore.Service
): Effect.Effect<ReadonlyArray<string>, MemoryError.MemoryError> =>
  Option.match(store.reader, {
    onNone: () => store.tenants,
    onSome: ({ tenantsWith }) => Effect.map(Stream.runCollect(tenantsWith(Internal)), Chunk.toReadonlyArray)
  })

/** Whether the conversation has waiting messages, or a plan (the model's answer) that is not yet applied. */
export const hasWaiting = (state: OutboxState.OutboxState): boolean =>
  state.plan !== undefined || OutboxState.waiting(state).length > 0

/** Returns the number of messages in waiting batches. Messages that were not selected for extraction count, too. */
export const waitingOf = (state: OutboxState.OutboxState): number =>
  OutboxState.waiting(state).reduce((sum, { from, to }) => sum + to - from, 0)

/** Lists the dead letters of a conversation: batches set aside after failures. */
export const deadLettersOf = (state: OutboxState.OutboxState): ReadonlyArray<DeadLetter> => {
  const { session, viewer } = state
  return OutboxState.deadLetters(state).map(({ from, failure: reason = "", to }) => ({
    viewer,
    session,
    from,
    to,
    reason
  }))
}

/**
 * Fails if at least one conversation failed. The error message has the number of failed conversations for each reason. It does not quote
 * other errors, since these may contain a user's words.
 */
export const failIfAny = (
  failed: ReadonlyArray<MemoryError.Reason>,
  tried: number
): Effect.Effect<void, MemoryError.MemoryError> => {
  if (failed.length === 0) return Effect.void
  const counts = new Map<MemoryError.Reason, number>()
  for (const reason of failed) counts.set(reason, (counts.get(reason) ?? 0) + 1)
  const reasons = Array.from(counts).sort(([a, n], [b, m]) => m - n || (a < b ? -1 : 1))
  return MemoryError.make(counts.size === 1 && counts.has("model") ? "model" : "unavailable", {
    op: "flush",
    message: `${failed.length} of ${tried} conversations could not be written: ${
      reasons.map(([reason, count]) => `${reason} ${count}`).join(", ")
    }`
  })
}

/** Largest number of conversations that a flush handles at once. The option `concurrency` limits how many extractions run at once. */
export const flushing = 256

const opened = (
  workers: OutboxWorkers,
  key: OutboxState.ConversationKey
): Effect.Effect<OutboxWorker.OutboxWorker> =>
  workers.opening.withPermits(1)(Effect.gen(function*() {
    const { idle, open, scope } = workers
    const { retry = defaultRetry, trigger = ExtractionTrigger.standard } = workers
    const attempt = (worker: OutboxWorker.OutboxWorker) =>
      Effect.ensuring(workers.attempt(worker), updateIdle(workers, worker))
    const worker = open.get(OutboxState.keyOf(key)) ??
      (yield* Scope.extend(OutboxWorker.make(key, { trigger, retry, attempt }), scope))
    open.set(worker.key, worker)
    idle.delete(worker)
    worker.references++
    return worker
  }))

const defaultRetry = Schedule.either(Schedule.exponential("1 second"), Schedule.spaced("5 minutes"))

/** Whether the message is neither a tool call nor a tool result. */
const isDialogue = ({ role, tool }: Message): boolean => role !== "tool" && tool !== true
