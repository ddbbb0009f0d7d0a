/**
 * Turns waiting messages into memories. An extraction run asks the model, stores the answer as a plan, and applies the plan. `drain`
 * repeats runs until no message of a conversation waits. A batch is the messages of one append. A batch that was set aside (a dead letter)
 * is no longer extracted. Failures have these effects:
 *
 * ```text
 * ten failures in a row                       of the requests for which no caller waits, only every third is tried
 * a permanent failure                         sets the batch aside; if the run had several batches, each is first extracted alone
 * a batch that failed ten times while         is set aside too; of the batches to extract alone, the one that failed least is next
 * others succeeded
 * ```
 *
 * These failures are counted per conversation, so a conversation that fails does not slow down the others.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as MemoryError from "../../domain/MemoryError.ts"
import type { Applied, MemoryMutation } from "../../domain/MemoryMutation.ts"
import type { MemoryRecord } from "../../domain/MemoryRecord.ts"
import { Global, type MemoryScope } from "../../domain/MemoryScope.ts"
import * as Validation from "../../domain/Validation.ts"
import * as Viewer from "../../domain/Viewer.ts"
import * as Extraction from "../../pipeline/Extraction.ts"
import type * as MemoryPipeline from "../../pipeline/MemoryPipeline.ts"
import type * as MemoryStore from "../../storage/MemoryStore.ts"
import type { ExtractionConfig, Listener, Options } from "../Outbox.ts"
import * as OutboxLog from "./OutboxLog.ts"
import * as OutboxScheduler from "./OutboxScheduler.ts"
import * as OutboxState from "./OutboxState.ts"
import type { OutboxWorker } from "./OutboxWorker.ts"

/** Dependencies and counts that all extraction runs of one outbox share. */
export interface ExtractionRunner {
  readonly log: OutboxLog.OutboxLog
  readonly pipeline: MemoryPipeline.Service
  readonly options: ExtractionConfig
  readonly listener: Listener
  readonly scheduler: OutboxScheduler.OutboxScheduler
  /** Timeout of one call of the pipeline, with all its model calls. A store that extracts memories by itself gets the same time. */
  readonly timeout: Duration.DurationInput
  /** Number of failed extraction runs since the last success. Permanent failures do not count. */
  failuresInARow: number
  /** The part of `failuresInARow` that each conversation has caused. Subtracted when a batch is set aside after ten such failures. */
  failures: WeakMap<OutboxWorker, number>
  /** Number of successful extraction runs in all conversations. */
  successes: number
}

/** Makes the runner, with its counts at 0. */
export const make = (
  dependencies: Omit<ExtractionRunner, "failures" | "failuresInARow" | "successes">
): ExtractionRunner => ({ ...dependencies, failures: new WeakMap(), failuresInARow: 0, successes: 0 })

/**
 * Handles one request to extract from a conversation: calls `drain`. After ten failures in a row, only some requests are tried: urgent
 * ones, for which a caller waits, and every third of the others. The rest fail with `unavailable`.
 */
export const attempt = (
  runner: ExtractionRunner,
  worker: OutboxWorker
): Effect.Effect<void, MemoryError.MemoryError> =>
  Effect.suspend(() => {
    const isTried = worker.isUrgent || worker.failuresInARow < maxFailures || ++worker.requests % 3 === 0
    worker.isUrgent = false
    return isTried
      ? drain(runner, worker)
      : MemoryError.make("unavailable", { op: "extract", message: "most attempts failed lately" })
  })

/** Extracts until no message of the conversation waits. Fails if a run fails and its messages still wait, unless it fails permanently. */
export const drain = (runner: ExtractionRunner, worker: OutboxWorker): Effect.Effect<void, MemoryError.MemoryError> =>
  worker.drainLock.withPermits(1)(Effect.suspend(() => {
    worker.isExtracting = true
    return Effect.ensuring(steps(runner, worker), Effect.sync(() => worker.isExtracting = false))
  })).pipe(
    Effect.catchAllDefect((cause) =>
      MemoryError.make("unavailable", { op: "drain", message: "the outbox died", cause })
    ),
    Effect.withSpan("Outbox.drain")
  )

/**
 * Returns the scope for the memories of a viewer's messages, and the shared scopes that extraction may write. The scope is `options.scope`
 * if set. Otherwise, if `about` is `agent`, it is the scope of the viewer's agent; else it is the result of `Viewer.subjectOf`. Fails
 * with `invalid_scope` if this agent is missing, if the result of `subjectOf` is Global, or if extraction may not write the scope for the
 * viewer. A viewer with a user may use the agent's scope only if `sharedWrites` includes `agent`.
 */
export const targetOf = (
  { about, options }: ExtractionConfig,
  viewer: Viewer.Viewer
): Effect.Effect<
  { readonly scope: MemoryScope; readonly sharedWrites: Viewer.SharedWrites },
  MemoryError.MemoryError
> => {
  const { agentId, userId } = viewer
  const sharedWrites: Viewer.SharedWrites = [
    ...options?.sharedWrites ?? [],
    ...about === "agent" && userId === undefined ? ["agent" as const] : []
  ]
  const scope = options?.scope ?? (about === "agent" ? agentId !== undefined && { agentId } : Viewer.subjectOf(viewer))
  const isGiven = scope !== false && (scope !== Global || options?.scope === Global)
  return isGiven && Viewer.mayWrite(viewer, scope, sharedWrites)
    ? Effect.succeed({ scope, sharedWrites })
    : MemoryError.make("invalid_scope", {
      op: "append",
      message: "the viewer has no scope to remember this in: name a user, a session or an agent, or open sharedWrites"
    })
}

/**
 * Lists the violations in the options of an outbox, each as a text that begins with the option's name. `trigger.issues` are listed
 * unchanged. Violations that only the store or the model can reveal are not found.
 */
export const issuesOf = ({ trigger, ...options }: Options): ReadonlyArray<string> => [
  ...trigger?.issues ?? [],
  ...(isExtractor(options.extractor) ? [] : ["extractor: expected \"pipeline\" or \"ingest\""]),
  ...Validation.countIssues("capacityPerTenant", options.capacityPerTenant, 1),
  ...Validation.countIssues("capacityPerConversation", options.capacityPerConversation, 1),
  ...Validation.countIssues("concurrency", options.concurrency, 2),
  ...Validation.countIssues("openConversations", options.openConversations, 1),
  ...Validation.timeIssues("timeSlice", options.timeSlice, { least: 1 }),
  ...Validation.timeIssues("timeout", options.timeout, { least: 1 }),
  ...Validation.timeIssues("flushTimeout", options.flushTimeout, { least: 0 }),
  ...(isMaxFacts(options.options?.maxFacts) ? [] : ["options.maxFacts: expected 1 to 256"]),
  ...Validation.timeIssues("options.ttl", options.options?.ttl, { least: 0, infinite: true })
]

/** Fails with `invalid_draft` if the options have violations. The error lists all violations. */
export const checked = (options: Options): Effect.Effect<void, MemoryError.MemoryError> =>
  Validation.refuseOptions("Outbox", issuesOf(options))
const isExtractor = Schema.is(Schema.UndefinedOr(Schema.Literal("pipeline", "ingest")))
const isMaxFacts = Schema.is(Schema.UndefinedOr(Extraction.MaxFacts))

/**
 * Number of failures in a row after which a conversation is tried less often. After this many failures, a batch is set aside if other
 * extractions succeeded meanwhile.
 */
const maxFailures = 10
/** Limits of an extraction run. A row has up to 60,000 characters. A run of a single batch may exceed the limits. */
const runLimits = { messages: 100, rows: 16 }

const steps = (runner: ExtractionRunner, worker: OutboxWorker): Effect.Effect<void, MemoryError.MemoryError> =>
  Effect.flatMap(OutboxLog.look(runner.log, worker), (state) => {
    if (state.plan || OutboxState.waiting(state).length > 0) {
      const run = Effect.zipRight(runner.log.limiter.step, step(runner, worker))
      return Effect.zipRight(OutboxScheduler.schedule(runner.scheduler, worker, run), steps(runner, worker))
    }
    worker.extractsSingly = false
    worker.failures.clear()
    return Effect.void
  })

/** Performs one extraction run. Applies the stored plan (the model's answer) if there is one. Otherwise, extracts from the next batches. */
const step = (runner: ExtractionRunner, worker: OutboxWorker): Effect.Effect<void, MemoryError.MemoryError> =>
  Effect.suspend(() => {
    const before = worker.state
    const { plan } = before
    const batches = nextBatches(worker)
    return (plan ? resume(runner, worker, plan) : Effect.as(extract(runner, worker, batches), true)).pipe(
      Effect.catchAllDefect((cause) =>
        MemoryError.make("unsupported", { op: "extract", message: "the extraction died", cause })
      ),
      MemoryError.contain("extract"), // an extractor that interrupts itself must not end the worker
      Effect.matchEffect({
        onSuccess: (isWritten) =>
          Effect.sync(() => {
            if (!isWritten) return
            runner.failuresInARow = worker.failuresInARow = worker.requests = 0
            runner.failures = new WeakMap()
            runner.successes++
            for (const { from } of batches) worker.failures.delete(from)
          }),
        onFailure: (error) => {
          if (!OutboxState.isSuperseded(error)) return countFailure(runner, worker, batches, error)
          worker.isStale = true
          return Effect.flatMap(
            OutboxLog.look(runner.log, worker),
            (state) => OutboxState.same(before, state) ? error : Effect.void
          )
        }
      })
    )
  })

/** Selects the oldest batches for the next extraction run. With `extractsSingly`, selects only the batch that failed least often. */
const nextBatches = (worker: OutboxWorker): ReadonlyArray<OutboxState.Batch> => {
  const waiting = OutboxState.waiting(worker.state)
  const group: Array<OutboxState.Batch> = []
  if (worker.extractsSingly) {
    const timesOf = ({ from }: OutboxState.Batch) => worker.failures.get(from)?.times ?? 0
    for (const batch of waiting) {
      if (group[0] === undefined || timesOf(batch) < timesOf(group[0])) group[0] = batch
    }
    return group
  }
  let rows = 0
  for (const batch of waiting) {
    rows += batch.rows.length
    const first = group[0] ?? batch
    if (group.length > 0 && (batch.to - first.from > runLimits.messages || rows > runLimits.rows)) break
    group.push(batch)
  }
  return group
}

/**
 * Counts a failed extraction of these batches. A single batch is set aside if the failure is permanent, or if it has failed ten times and
 * another extraction has succeeded since its first failure. Several batches are extracted one by one from now on if the failure is
 * permanent, or if each has failed ten times. If a batch was set aside or the failure is permanent, the effect succeeds, so that extraction
 * goes on at once. Otherwise it fails with `error`.
 */
const countFailure = (
  runner: ExtractionRunner,
  worker: OutboxWorker,
  batches: ReadonlyArray<OutboxState.Batch>,
  error: MemoryError.MemoryError
): Effect.Effect<void, MemoryError.MemoryError> =>
  Effect.gen(function*() {
    const isFinal = !error.isRetryable && error.reason !== "not_found" // `not_found`: a related record was deleted, so a retry may succeed
    if (!isFinal) {
      runner.failuresInARow++
      runner.failures.set(worker, (runner.failures.get(worker) ?? 0) + 1)
      worker.failuresInARow++
    }
    let least = Infinity
    for (const { from } of batches) {
      const { since, times } = worker.failures.get(from) ?? { times: 0, since: runner.successes }
      worker.failures.set(from, { times: times + 1, since })
      least = Math.min(least, since < runner.successes || batches.length > 1 ? times + 1 : 0)
    }
    yield* runner.listener.degraded(worker.viewer, "extraction")(error)
    const [batch, ...others] = batches
    if (batch === undefined || !(isFinal || least >= maxFailures)) return yield* error
    if (others.length === 0) {
      // `setAside` fails if another process has finished the batch meanwhile; then nothing needs to be set aside
      yield* Effect.catchIf(OutboxLog.setAside(runner.log, worker, batch, error), OutboxState.isSuperseded, () =>
        Effect.void)
      worker.failures.delete(batch.from)
      if (!isFinal) {
        runner.failuresInARow -= runner.failures.get(worker) ?? 0
        runner.failures.delete(worker)
        worker.failuresInARow = 0
      }
      return
    }
    worker.extractsSingly = true
    worker.failures.clear()
    return isFinal ? undefined : yield* error
  })

/**
 * Extracts memories from the batches. One write stores the memories and erases the batches. With the extractor `ingest`, the messages are
 * passed to the store instead, and then erased. Fails with `OutboxState.superseded` if another process extracted the batches first.
 */
const extract = (
  runner: ExtractionRunner,
  worker: OutboxWorker,
  batches: ReadonlyArray<OutboxState.Batch>
): Effect.Effect<void, MemoryError.MemoryError> =>
  Effect.gen(function*() {
    const { log, options, pipeline } = runner
    const { session, viewer } = worker
    const { extractor = log.store.capabilities.messages ? "ingest" : "pipeline" } = options
    const infer = options.options?.infer ?? extractor === "pipeline"
    const { scope, sharedWrites } = yield* targetOf(options, viewer)
    const entries = yield* OutboxState.entries(log.store, viewer.tenant, batches)
    if (extractor === "ingest" && log.store.ingest._tag === "Some") {
      for (const run of splitRuns(entries)) {
        const messages = run.map(({ message }) => message)
        yield* withTimeout(runner, log.store.ingest.value(viewer, session, messages, run[0]!.sequence)) // `splitRuns` returns no empty run
      }
      return yield* Effect.asVoid(finish(runner, worker, batches, undefined, []))
    }

    let plan: OutboxState.Plan | undefined
    let isWritten = false
    const apply: MemoryPipeline.Apply = (_, mutations, provenance) =>
      Effect.gen(function*() {
        if (infer) plan = yield* OutboxLog.keepPlan(log, worker, batches, { mutations, provenance }, plan)
        const applied = yield* finish(runner, worker, batches, plan, mutations, provenance)
        isWritten = true
        return applied
      }).pipe(Effect.uninterruptible)
    const remembered = pipeline.remember(viewer, entries.map(({ message }) => message), {
      infer,
      session,
      ...options.options,
      scope,
      sharedWrites,
      conversation: conversationNameOf(options, worker),
      sequence: entries.map(({ sequence }) => sequence),
      apply
    })
    const { failures = [] } = yield* withTimeout(runner, remembered).pipe(
      Effect.catchAll((error) => isWritten ? Effect.succeed({ failures: [{ leg: "vector", error }] }) : error) // timed out after the write
    )
    const byLeg = new Map(failures.map(({ error, leg }) => [leg, error])) // an embedder may have failed twice
    for (const [leg, error] of byLeg) yield* runner.listener.degraded(viewer, leg)(error)
    if (!isWritten) yield* finish(runner, worker, batches, undefined, [])
  })

/**
 * Returns the conversation's name, from which the pipeline derives the ids of messages stored word for word. The option `conversation` is
 * part of the name. So outboxes with different values of this option never derive the same id for a message.
 */
const conversationNameOf = ({ options: { conversation } = {} }: ExtractionConfig, worker: OutboxWorker): string =>
  conversation === undefined ? OutboxState.keyOf(worker) : JSON.stringify([conversation, OutboxState.keyOf(worker)])

/**
 * Applies the stored plan (the model's answer) and returns true. If the plan no longer fits, deletes the plan and returns false. The
 * waiting messages, the allowed scopes or the records may have changed.
 */
const resume = (
  runner: ExtractionRunner,
  worker: OutboxWorker,
  plan: OutboxState.Plan
): Effect.Effect<boolean, MemoryError.MemoryError> =>
  Effect.gen(function*() {
    const of = new Set(plan.of)
    const batches = OutboxState.waiting(worker.state).filter(({ rows }) => rows.every(({ id }) => of.has(id)))
    if (batches.flatMap(({ rows }) => rows).length === of.size && (yield* isStillAllowed(runner, worker, plan))) {
      const written = yield* Effect.either(
        Effect.uninterruptible(finish(runner, worker, batches, plan, plan.mutations, plan.provenance))
      )
      if (written._tag === "Right") {
        const records = written.right.flatMap(({ outcome, record }: Applied): ReadonlyArray<MemoryRecord> =>
          record && outcome !== "duplicate" ? [record] : []
        )
        yield* withTimeout(runner, runner.pipeline.embed(worker.viewer, records)).pipe(
          Effect.catchAll(runner.listener.degraded(worker.viewer, "vector"))
        )
        return true
      }
      const { left } = written
      if (OutboxState.isSuperseded(left) || (left.isRetryable && left.reason !== "conflict")) return yield* left
    }
    yield* OutboxLog.dropPlan(runner.log, worker, plan)
    return false
  })

const finish = (
  { listener, log }: ExtractionRunner,
  worker: OutboxWorker,
  batches: ReadonlyArray<OutboxState.Batch>,
  plan: OutboxState.Plan | undefined,
  mutations: ReadonlyArray<MemoryMutation>,
  provenance?: MemoryStore.Provenance
) =>
  Effect.tap(
    OutboxLog.finish(log, worker, batches, plan, mutations, provenance),
    (applied) => listener.applied(worker.viewer, applied)
  )

/** Whether the present options allow every scope that the plan writes. An earlier process may have stored the plan, with other options. */
const isStillAllowed = (
  { log, options }: ExtractionRunner,
  { viewer }: OutboxWorker,
  { mutations }: OutboxState.Plan
): Effect.Effect<boolean, MemoryError.MemoryError> =>
  Effect.gen(function*() {
    const target = yield* Effect.either(targetOf(options, viewer))
    if (Either.isLeft(target)) return false
    const ids = mutations.flatMap((mutation) => mutation._tag === "Put" ? [] : [mutation.id])
    const records = Array.from(yield* log.store.get(Viewer.system(viewer.tenant), ids), Option.toArray).flat()
    const puts = mutations.flatMap((mutation) => mutation._tag === "Put" ? [mutation.draft] : [])
    return [...puts, ...records].every(({ scope }) => Viewer.mayWrite(viewer, scope, target.right.sharedWrites))
  })

/**
 * Limits the time of a call of the pipeline or the store. A call that ignores interruption goes on after the timeout, and may still try to
 * write. The pipeline's write of memories fails if another run has erased the message rows by then.
 */
const withTimeout = <A>(
  { timeout }: ExtractionRunner,
  self: Effect.Effect<A, MemoryError.MemoryError>
): Effect.Effect<A, MemoryError.MemoryError> =>
  Effect.timeoutFail(Effect.disconnect(self), {
    duration: timeout,
    onTimeout: () =>
      MemoryError.make("unavailable", {
        op: "extract",
        message: `no answer within ${Duration.format(Duration.decode(timeout))}`
      })
  })

/** Splits messages into groups with consecutive sequence numbers. The option `filter` may have left gaps between the numbers. */
const splitRuns = (entries: ReadonlyArray<OutboxState.Entry>): ReadonlyArray<ReadonlyArray<OutboxState.Entry>> => {
  const all: Array<Array<OutboxState.Entry>> = []
  for (const entry of entries) {
    const last = all.at(-1)
    if (last && last.at(-1)!.sequence + 1 === entry.sequence) last.push(entry) // no array in `all` is empty
    else all.push([entry])
  }
  return all
}
