/**
 * A conversation is an entity of the cluster. The owner of a conversation is the cluster runner that hosts the entity. The owner handles
 * these cluster messages:
 *
 * ```text
 * appended   a batch was appended                acknowledged when the batch has been extracted, set aside or erased
 * signal     the session ended, or a request     acknowledged when each batch that was waiting when the signal arrived
 *            to extract from waiting batches     has been extracted, set aside or erased
 * drain      a request to extract now from       answered when the extraction has ended; if the extraction failed, the
 *            all waiting batches                 answer has the reason
 * ```
 *
 * A batch is the conversation messages of one append. The cluster stores all cluster messages. If an owner dies, the messages that are not
 * acknowledged go to the next owner. Cluster messages contain a tenant, ids and numbers, but no user's name or words.
 */
import * as ClusterSchema from "@effect/cluster/ClusterSchema"
import * as Entity from "@effect/cluster/Entity"
import * as EntityAddress from "@effect/cluster/EntityAddress"
import * as EntityId from "@effect/cluster/EntityId"
import * as MessageStorage from "@effect/cluster/MessageStorage"
import * as Sharding from "@effect/cluster/Sharding"
import * as Rpc from "@effect/rpc/Rpc"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as FiberId from "effect/FiberId"
import * as Option from "effect/Option"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as MemoryError from "../../domain/MemoryError.ts"
import { MemoryId } from "../../domain/MemoryId.ts"
import { isInternal } from "../../domain/MemoryScope.ts"
import * as Viewer from "../../domain/Viewer.ts"
import { sleepLive } from "../../host/EventLoop.ts"
import type * as MemoryStore from "../../storage/MemoryStore.ts"
import * as ExtractionRunner from "../Outbox/ExtractionRunner.ts"
import * as OutboxLog from "../Outbox/OutboxLog.ts"
import * as OutboxState from "../Outbox/OutboxState.ts"
import type { OutboxWorker } from "../Outbox/OutboxWorker.ts"
import * as OutboxWorkers from "../Outbox/OutboxWorkers.ts"

const tenant = { tenant: Schema.String }
const Row = Schema.Struct({ id: MemoryId, revision: Schema.Int })

const appended = {
  ...tenant,
  /**
   * Time of the append, epoch milliseconds. The primary key of the message contains this value. `OutboxCluster.compact` sends the message
   * again with a revision in place of the time. Otherwise the cluster would drop the message as a duplicate.
   */
  at: Schema.Number,
  from: Schema.NonNegativeInt,
  to: Schema.NonNegativeInt,
  /** Store rows that contain the batch; empty if no message of the append was selected for extraction. */
  rows: Schema.Array(Row),
  /** Revision of the conversation's session row after the append. */
  revision: Schema.Int
}
/** The cluster message that tells a conversation's owner that a batch was appended. */
export type Appended = Schema.Struct.Type<typeof appended>

const protocol = [
  Rpc.make("appended", { payload: appended, primaryKey: ({ at, from }) => `${from}@${at}` })
    .annotate(ClusterSchema.Persisted, true),
  Rpc.make("signal", { payload: { ...tenant, event: Schema.Literal("sessionEnd", "takeUp") } })
    .annotate(ClusterSchema.Persisted, true),
  Rpc.make("drain", { payload: tenant, error: Schema.Struct({ reason: MemoryError.Reason }) })
    .annotate(ClusterSchema.Persisted, true)
    .annotate(ClusterSchema.Uninterruptible, "client") // the owner goes on even if the caller is interrupted
] as const // `Entity` infers the message names from the tuple

/** The entity type for conversations of one outbox. An entity's id is the id of the conversation's session row. */
export type ConversationEntity = Entity.Entity<`Memory/Line/${string}`, typeof protocol[number]>
/** Makes the entity type for the conversations of one outbox. Each outbox of a cluster has a different `name`. */
export const make = (name: string): ConversationEntity => Entity.make(`Memory/Line/${name}`, protocol)

/** Sends cluster messages to the process that owns a conversation. The id of the session row identifies the conversation. */
export interface ConversationClient {
  /** Tells the conversation's owner that a batch was appended. */
  readonly appended: (id: MemoryId, batch: Appended) => Effect.Effect<void>
  /** Sends a signal to the owner. `sessionEnd`: the session has ended. `takeUp`: the owner is to extract from waiting messages now. */
  readonly signal: (id: MemoryId, tenant: string, event: "sessionEnd" | "takeUp") => Effect.Effect<void>
  /**
   * Asks the owner to extract from all waiting messages, and waits for the end of the extraction. Fails with the owner's reason. Fails with
   * `unavailable` if the cluster's storage fails, or after eleven lost connections within 30 seconds. There is no timeout: an unanswered
   * request is sent again every 30 seconds.
   */
  readonly drain: (id: MemoryId, tenant: string) => Effect.Effect<void, MemoryError.Reason>
  /** Erases the cluster's stored messages to a conversation, and the replies to them. */
  readonly clear: (id: MemoryId) => Effect.Effect<void, MemoryError.MemoryError>
}

/** Makes a client. A message of `appended` or `signal` is sent again until the cluster accepts the message or the Effect scope closes. */
export const client = (
  entity: ConversationEntity
): Effect.Effect<ConversationClient, never, Sharding.Sharding | MessageStorage.MessageStorage | Scope.Scope> =>
  Effect.gen(function*() {
    const clientOf = yield* entity.client
    const { getShardId } = yield* Sharding.Sharding
    const storage = yield* MessageStorage.MessageStorage
    const scope = yield* Effect.scope
    return {
      appended: (id, batch) => sendReliably(scope, id, clientOf(id).appended(batch, { discard: true })),
      signal: (id, tenant, event) => sendReliably(scope, id, clientOf(id).signal({ tenant, event }, { discard: true })),
      drain: (id, tenant) =>
        Effect.suspend(() => clientOf(id).drain({ tenant })).pipe(
          Effect.mapError((error): MemoryError.Reason => "reason" in error ? error.reason : "unavailable"),
          Effect.catchAllDefect(() => Effect.fail(lost)),
          Effect.retry({ while: (failure) => failure === lost, times: 10, schedule: Schedule.spaced("1 second") }),
          Effect.mapError((failure): MemoryError.Reason => failure === lost ? "unavailable" : failure),
          Effect.timeoutOption("30 seconds"), // `repeat` then sends the request again: an owner may have deleted it without an answer
          Effect.repeat({ until: Option.isSome }),
          Effect.asVoid
        ),
      clear: (id) => {
        const entityId = EntityId.make(id)
        const shardId = getShardId(entityId, entity.getShardGroup(entityId))
        return Effect.mapError(
          storage.clearAddress(EntityAddress.make({ shardId, entityType: entity.type, entityId })),
          (cause) => MemoryError.make("unavailable", { op: "clear", message: "the cluster's storage failed", cause })
        )
      }
    }
  })

/** Failure that replaces a defect while a message is sent. The cluster reports a lost connection to an owner as a defect. */
const lost = "ConnectionLost" as const

/**
 * Sends a message in a background fiber, which retries until the cluster accepts the message. The caller waits at most 250 ms, since
 * delivery to a dead owner fails until the cluster notices the death. A message may be sent twice. The cluster drops a second message with
 * the same primary key. Some messages have no primary key. An owner may receive such a message twice, which does no harm.
 */
const sendReliably = (
  scope: Scope.Scope,
  id: MemoryId,
  sending: Effect.Effect<void, { readonly _tag: string }>
): Effect.Effect<void> =>
  sending.pipe(
    Effect.catchIf(({ _tag }) => _tag === "AlreadyProcessingMessage", () => Effect.void), // the owner already has the message
    Effect.catchAllDefect(() => Effect.fail({ _tag: lost })),
    Effect.disconnect,
    Effect.timeoutFail({ duration: "30 seconds", onTimeout: () => ({ _tag: "Timeout" }) }),
    Effect.tapError(({ _tag }) => Effect.logWarning(`the cluster took no message of ${id}, it is sent again: ${_tag}`)),
    retryForever,
    Effect.interruptible,
    Effect.forkIn(scope),
    Effect.flatMap((fiber) => Effect.timeoutOption(Effect.interruptible(Fiber.join(fiber)), "250 millis")),
    Effect.asVoid
  )

/** Dependencies of the handlers of cluster messages. */
interface EntityDependencies {
  readonly client: ConversationClient
  readonly runner: ExtractionRunner.ExtractionRunner
  readonly workers: OutboxWorkers.OutboxWorkers
  readonly unacknowledged: Unacknowledged
}

/** The cluster messages that are not acknowledged yet, because their batches still wait for extraction. */
export interface Unacknowledged {
  /** One Deferred per batch, by `OutboxWorker.key` and first sequence number. The Deferred completes when its batch no longer waits. */
  readonly all: Map<string, Map<number, Deferred.Deferred<void>>>
  /** Completes the Deferred of each batch that no longer waits. The cluster message of the batch is then acknowledged. */
  readonly onSeen: (worker: OutboxWorker) => void
}

/** Makes an empty table of unacknowledged cluster messages. */
export const makeUnacknowledged = (): Unacknowledged => {
  const all: Unacknowledged["all"] = new Map()
  return {
    all,
    onSeen: ({ key, state }) => {
      const ofConversation = all.get(key)
      if (ofConversation === undefined) return
      const waiting = new Set(OutboxState.waiting(state).map(({ from }) => from))
      for (const [from, wait] of ofConversation) {
        if (waiting.has(from)) continue
        Deferred.unsafeDone(wait, Effect.void)
        ofConversation.delete(from)
      }
      if (ofConversation.size === 0) all.delete(key)
    }
  }
}

/**
 * Makes this process own a share of the conversations until the Effect scope closes. Does nothing in a process that is only a client of the
 * cluster. When a conversation moves to another owner, the conversation's worker is closed, even if messages still wait.
 */
export const serve = (
  entity: ConversationEntity,
  client: ConversationClient,
  runner: ExtractionRunner.ExtractionRunner,
  unacknowledged: Unacknowledged,
  options: Pick<OutboxWorkers.Options, "openConversations" | "retry" | "trigger">
): Effect.Effect<void, never, Scope.Scope | Sharding.Sharding> =>
  Effect.gen(function*() {
    const { registerEntity } = yield* Sharding.Sharding
    const workers = yield* OutboxWorkers.make({
      ...options,
      log: runner.log,
      attempt: (worker) => ExtractionRunner.attempt(runner, worker)
    })
    // messages are handled concurrently, since a message may stay unacknowledged until the extraction trigger fires
    const unlimited = { concurrency: "unbounded", mailboxCapacity: "unbounded" } as const
    yield* registerEntity(entity, handlers(entity, { client, runner, workers, unacknowledged }), unlimited)
  })

/**
 * Makes the handlers for cluster messages to one conversation. The handlers run until another process owns the conversation, or until the
 * cluster closes the entity because it is idle (option `entityMaxIdleTime` of the cluster).
 */
const handlers = (entity: ConversationEntity, dependencies: EntityDependencies) =>
  Effect.gen(function*() {
    const id = MemoryId.make((yield* Entity.CurrentAddress).entityId)
    const { runner, unacknowledged, workers } = dependencies
    const lock = yield* Effect.makeSemaphore(1)
    const used = new Set<OutboxWorker>()
    const announced: Announced = new Map()
    let tenant: string | undefined
    yield* Effect.addFinalizer(() =>
      Effect.gen(function*() {
        const isOpen = Array.from(used).some(({ key }) => unacknowledged.all.delete(key))
        yield* Effect.forEach(
          used,
          (worker) => Effect.zipRight(OutboxWorkers.close(workers, worker), awaitWrite(worker)),
          { concurrency: "unbounded", discard: true }
        )
        if (tenant !== undefined && !isOpen) yield* clearIfIdle(dependencies, tenant, id)
      })
    )
    /** Calls `use` with the worker of each conversation in `keys`. */
    const using = (
      keys: ReadonlyArray<OutboxState.ConversationKey>,
      use: (worker: OutboxWorker) => Effect.Effect<void, MemoryError.MemoryError>
    ) =>
      Effect.forEach(keys, (key) =>
        OutboxWorkers.using(workers, key, (worker) => {
          used.add(worker)
          return use(worker)
        }), { discard: true })
    /** Returns the entity's conversation; an empty list if the conversation was forgotten. */
    const conversation = (name: string) => {
      tenant = name
      return Effect.map(keyFromRow(runner.log.store, name, id), (row) => Option.toArray(row).map(({ key }) => key))
    }
    const awaitAll = (all: ReadonlyArray<Deferred.Deferred<void>>) =>
      Effect.forEach(all, Deferred.await, { discard: true })
    return entity.of({
      appended: ({ payload }) =>
        Effect.flatMap(retryForever(conversation(payload.tenant)), (key) =>
          Effect.orDie(using(key, (worker) =>
            lock.withPermits(1)(retryForever(announce(dependencies, worker, id, payload, announced))).pipe(
              Effect.flatMap(awaitAll),
              Effect.ensuring(Effect.sync(() =>
                announced.delete(payload.from)
              ))
            )))),
      signal: ({ payload: { event, tenant } }) =>
        Effect.flatMap(retryForever(conversation(tenant)), (key) =>
          Effect.orDie(using(key, (worker) =>
            lock.withPermits(1)(retryForever(onSignal(dependencies, worker, event))).pipe(Effect.flatMap(awaitAll))))),
      drain: ({ payload }) =>
        Effect.flatMap(conversation(payload.tenant), (found) =>
          // the former worker of a forgotten conversation notices that no message waits any more
          using(found.length > 0 ? found : Array.from(used), (worker) => {
            worker.isStale = true
            return ExtractionRunner.drain(runner, worker)
          })).pipe(Effect.mapError(({ reason }) => ({ reason })))
    })
  })

/**
 * Waits until the current write of an interrupted extraction has ended, at most ten seconds. The write may store the model's answer, so
 * that the next owner need not ask the model again.
 */
const awaitWrite = ({ writeLock }: OutboxWorker): Effect.Effect<void> =>
  Effect.interruptible(Effect.raceFirst(writeLock.withPermits(1)(Effect.void), sleepLive("10 seconds")))

/** Batches that were reported to the trigger, by first sequence number. A Deferred completes when its batch no longer waits. */
type Announced = Map<number, Deferred.Deferred<void>>

/**
 * Adds a batch to the worker's cached state. Reports the batch to the trigger, unless this was done before. Returns an array with one
 * deferred, which completes when the batch no longer waits for extraction. If the batch does not wait, the array is empty.
 */
const announce = (
  { runner: { log }, unacknowledged }: EntityDependencies,
  worker: OutboxWorker,
  id: MemoryId,
  { from, revision, rows, to }: Appended,
  announced: Announced
): Effect.Effect<ReadonlyArray<Deferred.Deferred<void>>, MemoryError.MemoryError> =>
  Effect.gen(function*() {
    yield* OutboxLog.observeAppend(log, worker, { from, to, rows }, { id, revision })
    if (rows.length === 0) return yield* Effect.as(worker.notify({ _tag: "TurnEnd" }), [])
    const look = Effect.map(
      OutboxLog.look(log, worker),
      (state) => OutboxState.waiting(state).find((batch) => batch.from === from)
    )
    const known = yield* look
    if (known === undefined) worker.isStale = true // makes `look` read from the store whether the batch still waits
    const batch = known ?? (yield* look)
    if (batch === undefined) return []
    const entries = yield* Effect.catchIf(
      OutboxState.entries(log.store, worker.viewer.tenant, [batch]),
      OutboxState.isSuperseded,
      () => Effect.succeed([])
    )
    const wait = waitOf(unacknowledged, worker, from)
    if (announced.get(from) === wait) return [wait]
    announced.set(from, wait)
    for (const { message, sequence } of entries) yield* worker.notify({ _tag: "Message", message, sequence })
    yield* worker.notify({ _tag: "TurnEnd" })
    return [wait]
  })

/**
 * Handles a signal: `sessionEnd` tells the trigger that the session has ended, `takeUp` requests extraction. Returns one deferred for each
 * waiting batch, which completes when the batch no longer waits.
 */
const onSignal = (
  { runner: { log }, unacknowledged }: EntityDependencies,
  worker: OutboxWorker,
  event: "sessionEnd" | "takeUp"
): Effect.Effect<ReadonlyArray<Deferred.Deferred<void>>, MemoryError.MemoryError> =>
  Effect.gen(function*() {
    worker.isStale = true // makes `look` read the store, since another process may have appended or released batches
    const state = yield* OutboxLog.look(log, worker)
    const all = OutboxState.waiting(state).map(({ from }) => waitOf(unacknowledged, worker, from))
    if (event === "sessionEnd") yield* worker.notify({ _tag: "SessionEnd" })
    else if (OutboxWorkers.hasWaiting(state)) yield* worker.request
    return all
  })

const waitOf = ({ all, onSeen }: Unacknowledged, worker: OutboxWorker, from: number): Deferred.Deferred<void> => {
  const ofConversation = all.get(worker.key) ?? new Map<number, Deferred.Deferred<void>>()
  const wait = ofConversation.get(from) ?? Deferred.unsafeMake<void>(FiberId.none)
  all.set(worker.key, ofConversation.set(from, wait))
  onSeen(worker) // completes `wait` if the batch no longer waits for extraction
  return wait
}

/**
 * Erases the cluster's messages to a conversation if nothing in the conversation waits for extraction. If a batch is appended meanwhile,
 * its message may be erased, too. So extraction is requested if the session row has changed meanwhile.
 */
const clearIfIdle = (
  { client, runner: { log: { store } } }: EntityDependencies,
  tenant: string,
  id: MemoryId
): Effect.Effect<void> =>
  Effect.gen(function*() {
    const before = yield* keyFromRow(store, tenant, id)
    if (Option.isSome(before) && OutboxWorkers.hasWaiting(yield* OutboxState.of(store, before.value.key))) return
    yield* client.clear(id)
    const after = yield* keyFromRow(store, tenant, id)
    const revisionOf = Option.match({ onNone: () => 0, onSome: ({ revision }: { revision: number }) => revision })
    if (revisionOf(after) !== revisionOf(before)) yield* client.signal(id, tenant, "takeUp")
  }).pipe(
    Effect.disconnect, // a store that hangs must not delay the closing of the entity
    Effect.interruptible,
    Effect.timeout("5 seconds"),
    Effect.catchAll((error) => Effect.logWarning(`what the cluster keeps of ${id} could not be cleared`, error))
  )

/**
 * Reads the session row of a conversation from the store. Returns the viewer and the session of the conversation, and the revision of the
 * row. Returns `None` if the row does not exist or has an unknown format.
 */
const keyFromRow = (
  store: MemoryStore.Service,
  tenant: string,
  id: MemoryId
): Effect.Effect<
  Option.Option<{ readonly key: OutboxState.ConversationKey; readonly revision: number }>,
  MemoryError.MemoryError
> =>
  Effect.map(
    store.get(Viewer.system(tenant), [id]),
    ([found]) =>
      Option.flatMap(found ?? Option.none(), ({ data, revision, scope }) =>
        isInternal(scope) ? Option.map(decode(data), (key) => ({ key, revision })) : Option.none())
  )

const decode = Schema.decodeUnknownOption(Schema.Struct({ viewer: Viewer.Stored, session: Schema.String }))

/**
 * Repeats an effect until it succeeds, with delays of at most a minute. A handler must not give up, since its message is acknowledged when
 * the handler returns. The cluster never delivers an acknowledged message again.
 */
const retryForever = <A, E>(self: Effect.Effect<A, E>): Effect.Effect<A> =>
  Effect.orDie(Effect.retry(self, Schedule.either(Schedule.exponential("200 millis"), Schedule.spaced("1 minute"))))
