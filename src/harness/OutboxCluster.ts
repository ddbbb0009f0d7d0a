/**
 * An outbox (queue of messages that wait for extraction) for a cluster of machines, built on @effect/cluster. One machine at a time owns a
 * conversation and extracts from its messages. If this machine dies, another one takes over. Use this outbox where several processes serve
 * one store. In a single process, and over a vault or SQLite, use `Outbox`, which needs no cluster.
 *
 * ```text
 * append     any process stores the messages as one batch, and informs the conversation's owner by a cluster message
 * extract    the owner extracts as `Outbox` does, with the same triggers, limits and plans
 * a death    the next owner receives the unacknowledged cluster messages, and handles them as if they were new
 * ```
 *
 * Laws: the write that stores the memories of a batch also erases the batch. So the memories are written once, even if a cluster message
 * arrives twice. (A store that extracts memories by itself may receive a batch again, see the option `extractor`.) The model's answer is
 * stored as a plan. The next run applies the plan without asking the model again, unless the plan no longer fits. Within a conversation,
 * batches keep the order of their appends, even from different processes. The cluster's tables contain tenants, row ids and sequence
 * numbers, but no user's name or words. So it is enough to erase a person's data in the store.
 *
 * The module is exported as the subpath `effect-memory/cluster`, since it needs @effect/cluster and its peers.
 */
import * as ClusterCron from "@effect/cluster/ClusterCron"
import type * as MessageStorage from "@effect/cluster/MessageStorage"
import type * as Sharding from "@effect/cluster/Sharding"
import * as Arr from "effect/Array"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Cron from "effect/Cron"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as MemoryError from "../domain/MemoryError.ts"
import type { MemoryId } from "../domain/MemoryId.ts"
import { recencyOf } from "../domain/MemoryRecord.ts"
import type { MemoryScope } from "../domain/MemoryScope.ts"
import type { Message } from "../domain/Message.ts"
import * as Viewer from "../domain/Viewer.ts"
import * as Redaction from "../host/Redaction.ts"
import * as MemoryPipeline from "../pipeline/MemoryPipeline.ts"
import * as MemoryStore from "../storage/MemoryStore.ts"
import * as Outbox from "./Outbox.ts"
import * as ExtractionRunner from "./Outbox/ExtractionRunner.ts"
import * as OutboxLog from "./Outbox/OutboxLog.ts"
import * as OutboxScheduler from "./Outbox/OutboxScheduler.ts"
import * as OutboxState from "./Outbox/OutboxState.ts"
import * as OutboxWorker from "./Outbox/OutboxWorker.ts"
import * as OutboxWorkers from "./Outbox/OutboxWorkers.ts"
import * as ConversationEntity from "./OutboxCluster/ConversationEntity.ts"

/** Options of an outbox in a cluster. `concurrency`, `timeSlice` and both capacities apply to each process separately. */
export interface Options extends Omit<Outbox.Options, "flushTimeout"> {
  /** Name of the outbox, at most 100 characters, unique in the cluster. Default `"default"`. */
  readonly name?: string | undefined
  /** Schedule on which one process of the cluster calls `compact`; `false` for never. Default: every hour. */
  readonly compaction?: Cron.Cron | false | undefined
}

/** Operations of `OutboxCluster`. */
export interface Service extends Outbox.Service {
  /**
   * Erases the waiting messages and the dead letters (batches set aside after failures) of the viewer and of narrower viewers. A narrower
   * viewer has all ids of the viewer and more ids, and its memories are visible to the viewer. A viewer with reach `everyone` erases all
   * messages of the tenant. With `scope`, only messages of viewers whose ids match `scope` are erased. The cluster messages are erased,
   * too. Returns the number of erased conversations. `WritePolicy.forgetAll` erases only the rows in the store. The cluster messages then
   * remain at least until the owners close the conversations.
   */
  readonly forget: (viewer: Viewer.Viewer, scope?: MemoryScope) => Effect.Effect<number, MemoryError.MemoryError>
  /**
   * Compacts the store, and returns the number of erased records. Also checks each conversation, in the first `compact` of this process
   * that runs at least an hour after the conversation's last change. If the store has no messages of the conversation, the cluster messages
   * that a killed owner left are erased. Otherwise, the cluster message of each waiting batch is sent again. The process that appended the
   * batch may have been killed before it sent the message.
   */
  readonly compact: Effect.Effect<number, MemoryError.MemoryError>
}

/** Tag of the service for an outbox in a cluster. */
export class OutboxCluster extends Context.Tag("@memory/OutboxCluster")<OutboxCluster, Service>() {}

export type { Listener } from "./Outbox.ts"
/** The cluster services that an outbox needs. */
export type ClusterServices = Sharding.Sharding | MessageStorage.MessageStorage

/**
 * Makes an outbox. A runner of the cluster owns a share of the conversations from now on; a client owns none. Extraction is requested for
 * messages that already wait in the store. The Effect scope closes without waiting for extraction. Other runners extract from the remaining
 * messages, now or later.
 */
export const make = (
  store: MemoryStore.Service,
  pipeline: MemoryPipeline.Service,
  options: Options = {},
  listener: Outbox.Listener = Outbox.loggingListener
): Effect.Effect<Service, MemoryError.MemoryError, Scope.Scope | ClusterServices> =>
  Effect.gen(function*() {
    yield* ExtractionRunner.checked(options)
    const {
      concurrency = 16,
      name = "default",
      openConversations,
      retry,
      timeout = Outbox.defaultTimeout,
      trigger,
      timeSlice = "10 seconds"
    } = options
    const { capacityPerConversation = 1_000, capacityPerTenant = 10_000 } = options
    const limiter = OutboxScheduler.makeStepLimiter()
    const redaction = yield* Redaction.over(store)
    const unlimited = OutboxWorker.capacity({
      capacityPerConversation: Infinity,
      capacityPerTenant: Infinity,
      patience: timeSlice,
      onCount: yield* OutboxWorkers.counted
    })
    const capacity = OutboxWorker.capacity({ capacityPerConversation, capacityPerTenant, patience: timeSlice })
    const unacknowledged = ConversationEntity.makeUnacknowledged()
    const runner = ExtractionRunner.make({
      log: OutboxLog.make({ store, capacity: unlimited, limiter, redaction, onSeen: unacknowledged.onSeen }),
      pipeline,
      options,
      listener,
      scheduler: OutboxScheduler.make({ concurrency, timeSlice }),
      timeout
    })
    const entity = ConversationEntity.make(name)
    const client = yield* ConversationEntity.client(entity)
    yield* ConversationEntity.serve(entity, client, runner, unacknowledged, { openConversations, retry, trigger })
    const senders: OutboxWorkers.OutboxWorkers = yield* OutboxWorkers.make({
      log: OutboxLog.make({ store, capacity, limiter, redaction }),
      openConversations,
      retry,
      trigger: silent,
      attempt: (worker) => drainAgain(outbox, worker),
      isIdle: ({ isExtracting, references }) => references === 0 && !isExtracting // ignores waiting messages, which the owner handles
    })
    const outbox: OpenCluster = {
      options,
      store,
      runner,
      senders,
      client,
      compactedAt: 0
    }
    let seen = { waiting: 0, deadLetters: 0 }
    yield* requestAll(outbox)
    return {
      append: (viewer, session, messages) =>
        Viewer.required("append", viewer, (viewer) => append(outbox, { viewer, session }, messages)).pipe(
          Effect.withSpan("OutboxCluster.append")
        ),
      sessionEnd: (viewer, session) =>
        Viewer.required("sessionEnd", viewer, (viewer) => sessionEnd(outbox, { viewer, session })),
      flush: Effect.withSpan(flush(outbox), "OutboxCluster.flush"),
      status: countsOf(store).pipe(
        Effect.tap((counts) => Effect.sync(() => seen = counts)),
        Effect.catchAll(() => Effect.sync(() => seen)), // returns the last known counts if the store fails
        Effect.map((counts) => ({
          ...counts,
          failuresInARow: runner.failuresInARow,
          durable: store.capabilities.durable
        }))
      ),
      deadLetters: Effect.map(OutboxWorkers.everywhere(store), (all) => all.flatMap(OutboxWorkers.deadLettersOf)),
      release: release(outbox),
      forget: (viewer, scope) =>
        Viewer.required("forget", viewer, (viewer) => forget(outbox, viewer, scope)).pipe(
          Effect.withSpan("OutboxCluster.forget")
        ),
      compact: Effect.withSpan(compact(outbox), "OutboxCluster.compact")
    }
  })

/**
 * Provides an outbox over the `MemoryStore` and `MemoryPipeline` of the Effect context. One process of the cluster calls `compact` on the
 * schedule `compaction`.
 */
export const layer = (
  options: Options = {}
): Layer.Layer<
  Outbox.Outbox | OutboxCluster,
  MemoryError.MemoryError,
  MemoryStore.MemoryStore | MemoryPipeline.MemoryPipeline | ClusterServices
> => {
  const { compaction = Cron.unsafeParse("0 0 * * * *"), name = "default" } = options
  const outbox = Layer.scopedContext(Effect.gen(function*() {
    const service = yield* make(yield* MemoryStore.MemoryStore, yield* MemoryPipeline.MemoryPipeline, options)
    return Context.make(Outbox.Outbox, service).pipe(Context.add(OutboxCluster, service))
  }))
  return compaction === false ? outbox : Layer.provideMerge(
    ClusterCron.make({
      name: `Memory/Compaction/${name}`,
      cron: compaction,
      execute: Effect.flatMap(OutboxCluster, ({ compact }) => compact),
      skipIfOlderThan: "1 hour"
    }),
    outbox
  )
}

/** The dependencies that all operations of one outbox share. */
interface OpenCluster {
  readonly options: Options
  readonly store: MemoryStore.Service
  readonly runner: ExtractionRunner.ExtractionRunner
  /**
   * Workers with which this process appends, ends sessions and releases dead letters. They never extract, but ask the conversation's owner
   * to do so.
   */
  readonly senders: OutboxWorkers.OutboxWorkers
  readonly client: ConversationEntity.ConversationClient
  /** Time of the last `compact` by this process, in epoch milliseconds; 0 if there was none. */
  compactedAt: number
}

/** A trigger that never fires, for the workers in `senders`. The trigger of the conversation's owner fires instead. */
const silent: NonNullable<Options["trigger"]> = {
  name: "silent",
  fires: () => Stream.empty,
  watch: () => ({ on: () => false, due: () => undefined, wake: () => false })
}

const append = (
  outbox: OpenCluster,
  key: OutboxState.ConversationKey,
  messages: ReadonlyArray<Message>
): Effect.Effect<number, MemoryError.MemoryError> =>
  OutboxWorkers.using(outbox.senders, key, (worker) =>
    Effect.uninterruptibleMask((restore) =>
      Effect.gen(function*() {
        const from = yield* restore(OutboxWorkers.keep(outbox.senders, worker, outbox.options, messages))
        const { batches, revision, sessionRow } = worker.state
        const rows = batches.find((batch) => batch.from === from)?.rows ?? []
        if (sessionRow === undefined) return from // the conversation was forgotten meanwhile
        const at = yield* Clock.currentTimeMillis
        const to = from + messages.length
        yield* outbox.client.appended(sessionRow, { tenant: key.viewer.tenant, at, from, to, rows, revision })
        return from
      })
    ))

const sessionEnd = (
  outbox: OpenCluster,
  key: OutboxState.ConversationKey
): Effect.Effect<void, MemoryError.MemoryError> =>
  OutboxWorkers.using(
    outbox.senders,
    key,
    (worker) =>
      Effect.flatMap(
        OutboxLog.look(outbox.senders.log, worker),
        ({ sessionRow }) =>
          sessionRow === undefined ? Effect.void : outbox.client.signal(sessionRow, key.viewer.tenant, "sessionEnd")
      )
  )

/** Asks the conversation's owner to extract from the waiting messages. Then reads the conversation's state from the store again. */
const drainAgain = (
  outbox: OpenCluster,
  worker: OutboxWorker.OutboxWorker
): Effect.Effect<void, MemoryError.MemoryError> =>
  Effect.gen(function*() {
    const { sessionRow } = yield* OutboxLog.look(outbox.senders.log, worker)
    if (sessionRow === undefined) return
    const drained = yield* Effect.either(outbox.client.drain(sessionRow, worker.viewer.tenant))
    worker.isStale = true
    yield* OutboxLog.look(outbox.senders.log, worker)
    if (drained._tag === "Right") return
    const message = `the conversation could not be read: ${drained.left}`
    return yield* MemoryError.make(drained.left === "model" ? "model" : "unavailable", { op: "drain", message })
  })

const flush = (outbox: OpenCluster): Effect.Effect<void, MemoryError.MemoryError> =>
  Effect.gen(function*() {
    const { senders, store } = outbox
    const waiting = yield* waitingConversations(store)
    const results = yield* Effect.forEach(
      waiting,
      ({ sessionRow, viewer }) => Effect.either(outbox.client.drain(sessionRow, viewer.tenant)),
      { concurrency: OutboxWorkers.flushing }
    )
    for (const worker of senders.open.values()) worker.isStale = true
    yield* OutboxWorkers.failIfAny(Arr.getLefts(results), results.length)
  })

const release = (outbox: OpenCluster): Effect.Effect<number, MemoryError.MemoryError> => {
  const { senders, store } = outbox
  const releaseOf = (key: OutboxState.OutboxState) =>
    OutboxWorkers.using(senders, key, (worker) => {
      worker.isStale = true
      return Effect.tap(OutboxLog.release(senders.log, worker), (count) => {
        const { sessionRow } = worker.state
        return count > 0 && sessionRow !== undefined
          ? outbox.client.signal(sessionRow, key.viewer.tenant, "takeUp")
          : Effect.void
      })
    })
  return OutboxWorkers.everywhere(store).pipe(
    Effect.flatMap((all) =>
      Effect.forEach(all.filter((state) => OutboxState.deadLetters(state).length > 0), releaseOf)
    ),
    Effect.map((counts) => counts.reduce((sum, count) => sum + count, 0))
  )
}

/** Requests an extraction from every conversation that has waiting messages. */
const requestAll = ({ client, store }: OpenCluster): Effect.Effect<void, MemoryError.MemoryError> =>
  Effect.flatMap(
    waitingConversations(store),
    (all) =>
      Effect.forEach(all, ({ sessionRow, viewer }) => client.signal(sessionRow, viewer.tenant, "takeUp"), {
        concurrency: 16,
        discard: true
      })
  )

/** Returns the conversations with waiting messages. Each of them has a session row, since every append writes that row. */
const waitingConversations = (store: MemoryStore.Service) =>
  Effect.map(
    OutboxWorkers.everywhere(store),
    (all) =>
      all.filter(OutboxWorkers.hasWaiting).flatMap(({ sessionRow, viewer }) =>
        sessionRow === undefined ? [] : [{ sessionRow, viewer }]
      )
  )

const countsOf = (store: MemoryStore.Service) =>
  Effect.map(OutboxWorkers.everywhere(store), (all) => ({
    waiting: all.reduce((sum, state) => sum + OutboxWorkers.waitingOf(state), 0),
    deadLetters: all.reduce((sum, state) => sum + OutboxState.deadLetters(state).length, 0)
  }))

const forget = (
  outbox: OpenCluster,
  viewer: Viewer.Viewer,
  scope?: MemoryScope
): Effect.Effect<number, MemoryError.MemoryError> =>
  Effect.gen(function*() {
    const forgotten = new Set(yield* OutboxLog.purge(outbox.store, viewer, scope))
    yield* Effect.forEach(forgotten, (sessionRow) =>
      Effect.zipRight(
        // `drain` makes the owner acknowledge the conversation's cluster messages; after at most 5 seconds, `clear` erases them
        Effect.timeoutOption(
          Effect.disconnect(Effect.either(outbox.client.drain(sessionRow, viewer.tenant))),
          "5 seconds"
        ),
        outbox.client.clear(sessionRow)
      ), { concurrency: 16, discard: true })
    for (const worker of outbox.senders.open.values()) worker.isStale = true
    return forgotten.size
  })

const hour = 3_600_000

const compact = (outbox: OpenCluster): Effect.Effect<number, MemoryError.MemoryError> =>
  Effect.gen(function*() {
    const { store } = outbox
    const now = yield* Clock.currentTimeMillis
    // true only in this process's first call of `compact` after the last change became an hour old
    const isQuiet = (age: number) => age >= hour && age < now - outbox.compactedAt + hour
    const erased = yield* store.compact
    for (const tenant of yield* OutboxWorkers.tenantsOf(store)) {
      const busy = new Set<string>()
      const quiet = new Map<string, MemoryId>()
      yield* Stream.runForEach(OutboxState.rows(store, tenant), ([data, record]) =>
        Effect.sync(() => {
          if (data.row !== "session") busy.add(OutboxState.keyOf(data))
          else if (isQuiet(now - recencyOf(record))) quiet.set(OutboxState.keyOf(data), record.id)
        }))
      const [idle, rest] = Arr.partition(quiet, ([key]) => busy.has(key))
      yield* Effect.forEach(idle, ([, id]) => outbox.client.clear(id), { concurrency: 4, discard: true })
      if (rest.length > 0) yield* resendBatches(outbox, tenant, new Set(rest.map(([, id]) => id)))
    }
    outbox.compactedAt = now
    return erased
  })

/** Resends the cluster messages of all waiting batches of these conversations. An owner ignores batches that it already has. */
const resendBatches = ({ client, store }: OpenCluster, tenant: string, sessionRows: ReadonlySet<MemoryId>) =>
  Effect.flatMap(OutboxState.all(store, tenant), (states) =>
    Effect.forEach(states, (state) => {
      const { revision, sessionRow } = state
      return sessionRow === undefined || !sessionRows.has(sessionRow) ? Effect.void : Effect.forEach(
        OutboxState.waiting(state),
        ({ from, rows, to }) => client.appended(sessionRow, { tenant, at: revision, from, to, rows, revision }),
        { discard: true }
      )
    }, { discard: true }))
