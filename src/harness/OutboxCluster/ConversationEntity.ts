/**
 * A conversation as an entity of the cluster: its messages, and how the runner that owns the conversation serves them.
 *
 * ```text
 * appended   a batch was appended           acknowledged when the batch is read, parked or erased
 * signal     the session ended, or waiting  acknowledged when all batches that waited then are
 *            messages must be read
 * drain      read all waiting messages now  replied to when they are read, or with the reason of the failure
 * ```
 *
 * All of them are persisted, so if an owner dies its unacknowledged messages are delivered to the next owner. They hold a tenant, row ids
 * and sequence numbers, but no user's name or words: texts stay in the store.
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
  /** Time of the append, epoch milliseconds; if the message is sent again, the revision of the session row. */
  at: Schema.Number,
  from: Schema.NonNegativeInt,
  to: Schema.NonNegativeInt,
  /** The rows of the batch; empty if none of its messages was selected for extraction. */
  rows: Schema.Array(Row),
  /** Revision of the session row after the append. */
  revision: Schema.Int
}
/** The message that announces a new batch to the owner of its conversation. */
export type Appended = Schema.Struct.Type<typeof appended>

const protocol = [
  Rpc.make("appended", { payload: appended, primaryKey: ({ at, from }) => `${from}@${at}` })
    .annotate(ClusterSchema.Persisted, true),
  Rpc.make("signal", { payload: { ...tenant, event: Schema.Literal("sessionEnd", "takeUp") } })
    .annotate(ClusterSchema.Persisted, true),
  Rpc.make("drain", { payload: tenant, error: Schema.Struct({ reason: MemoryError.Reason }) })
    .annotate(ClusterSchema.Persisted, true)
    .annotate(ClusterSchema.Uninterruptible, "client") // the owner reads on after the caller is gone
] as const // `Entity` infers the message names from the tuple

/** The entity of the conversations of one outbox. The id of an entity is that of the conversation's session row. */
export type ConversationEntity = Entity.Entity<`Memory/Line/${string}`, typeof protocol[number]>
/** Makes the entity for the outbox of this name; the name tells apart the outboxes of one cluster. */
export const make = (name: string): ConversationEntity => Entity.make(`Memory/Line/${name}`, protocol)

/** Sends messages to the owners of conversations. A conversation is identified by the id of its session row. */
export interface ConversationClient {
  /** Announces an appended batch. */
  readonly appended: (id: MemoryId, batch: Appended) => Effect.Effect<void>
  /** Reports the end of the session (`sessionEnd`), or requests that waiting messages are read at once (`takeUp`). */
  readonly signal: (id: MemoryId, tenant: string, event: "sessionEnd" | "takeUp") => Effect.Effect<void>
  /**
   * Asks the owner to read all waiting messages, and waits until they are read. Fails with the owner's reason, or with `unavailable` after
   * eleven lost connections. It does not time out: an unanswered request is sent again every 30 seconds.
   */
  readonly drain: (id: MemoryId, tenant: string) => Effect.Effect<void, MemoryError.Reason>
  /** Erases the cluster's messages of a conversation and the replies to them. */
  readonly clear: (id: MemoryId) => Effect.Effect<void, MemoryError.MemoryError>
}

/** Makes a client. It retries messages that could not be sent until the scope closes. */
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
          Effect.timeoutOption("30 seconds"), // the request is repeated: an owner may have cleared it
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

/** The failure that stands for a lost connection to an owner, which the cluster reports as a defect. */
const lost = "ConnectionLost" as const

/**
 * Sends a message in the background until the cluster has taken it, and waits for that a quarter of a second at most: saving takes
 * milliseconds, but delivery to a dead owner fails until the cluster notices the death. A message that seems lost is sent again, which does
 * no harm: the cluster drops a repeated primary key, and the other messages may repeat.
 */
const sendReliably = (
  scope: Scope.Scope,
  id: MemoryId,
  sending: Effect.Effect<void, { readonly _tag: string }>
): Effect.Effect<void> =>
  sending.pipe(
    Effect.catchIf(({ _tag }) => _tag === "AlreadyProcessingMessage", () => Effect.void), // the owner has it already
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

/** The conversations that this process owns, and the dependencies to read them. */
interface LineReader {
  readonly lines: ConversationClient
  readonly runner: ExtractionRunner.ExtractionRunner
  readonly workers: OutboxWorkers.OutboxWorkers
  readonly waits: Waits
}

/** The cluster messages that are not yet acknowledged because their batch still waits. */
export interface Waits {
  /** A deferred for each batch, by `OutboxWorker.key`, then by the first sequence number of the batch. */
  readonly all: Map<string, Map<number, Deferred.Deferred<void>>>
  /** Completes the deferreds of batches that no longer wait. */
  readonly onSeen: (worker: OutboxWorker) => void
}

/** Makes an empty set. */
export const makeWaits = (): Waits => {
  const all: Waits["all"] = new Map()
  return {
    all,
    onSeen: ({ key, state }) => {
      const ofLine = all.get(key)
      if (ofLine === undefined) return
      const waiting = new Set(OutboxState.waiting(state).map(({ from }) => from))
      for (const [from, wait] of ofLine) {
        if (waiting.has(from)) continue
        Deferred.unsafeDone(wait, Effect.void)
        ofLine.delete(from)
      }
      if (ofLine.size === 0) all.delete(key)
    }
  }
}

/**
 * Makes this process own a share of the conversations until the scope closes. Does nothing in a process that only sends. A conversation
 * that moves to another owner is closed here, even if messages wait.
 */
export const serve = (
  entity: ConversationEntity,
  lines: ConversationClient,
  runner: ExtractionRunner.ExtractionRunner,
  waits: Waits,
  options: Pick<OutboxWorkers.Options, "openLines" | "retry" | "trigger">
): Effect.Effect<void, never, Scope.Scope | Sharding.Sharding> =>
  Effect.gen(function*() {
    const { registerEntity } = yield* Sharding.Sharding
    const workers = yield* OutboxWorkers.make({
      ...options,
      log: runner.log,
      attempt: (worker) => ExtractionRunner.attempt(runner, worker)
    })
    // each conversation has locks of its own, and a message may stay unacknowledged as long as the trigger waits
    const unlimited = { concurrency: "unbounded", mailboxCapacity: "unbounded" } as const
    yield* registerEntity(entity, handlers(entity, { lines, runner, workers, waits }), unlimited)
  })

/** Serves the messages of one conversation, for as long as this process owns it. */
const handlers = (entity: ConversationEntity, reader: LineReader) =>
  Effect.gen(function*() {
    const id = MemoryId.make((yield* Entity.CurrentAddress).entityId)
    const { runner, waits, workers } = reader
    const lock = yield* Effect.makeSemaphore(1)
    const used = new Set<OutboxWorker>()
    const announced: Announced = new Map()
    let tenant: string | undefined
    yield* Effect.addFinalizer(() =>
      Effect.gen(function*() {
        const isOpen = Array.from(used).some(({ key }) => waits.all.delete(key))
        yield* Effect.forEach(
          used,
          (worker) => Effect.zipRight(OutboxWorkers.close(workers, worker), awaitWrite(worker)),
          {
            concurrency: "unbounded",
            discard: true
          }
        )
        if (tenant !== undefined && !isOpen) yield* clearIfIdle(reader, tenant, id)
      })
    )
    /** Uses the worker of the conversation; does nothing if the conversation was forgotten. */
    const using = (
      key: Option.Option<OutboxState.ConversationKey>,
      use: (worker: OutboxWorker) => Effect.Effect<void, MemoryError.MemoryError>
    ) =>
      Option.match(key, {
        onNone: () => Effect.void,
        onSome: (key) =>
          OutboxWorkers.using(workers, key, (worker) => {
            used.add(worker)
            return use(worker)
          })
      })
    const conversation = (name: string) => {
      tenant = name
      return Effect.map(sessionOf(runner.log.store, name, id), Option.map(({ key }) => key))
    }
    const awaited = (all: ReadonlyArray<Deferred.Deferred<void>>) =>
      Effect.forEach(all, Deferred.await, { discard: true })
    return entity.of({
      appended: ({ payload }) =>
        Effect.flatMap(retryForever(conversation(payload.tenant)), (key) =>
          Effect.orDie(using(key, (worker) =>
            lock.withPermits(1)(retryForever(announce(reader, worker, id, payload, announced))).pipe(
              Effect.flatMap(awaited),
              Effect.ensuring(Effect.sync(() =>
                announced.delete(payload.from)
              ))
            )))),
      signal: ({ payload: { event, tenant } }) =>
        Effect.flatMap(retryForever(conversation(tenant)), (key) =>
          Effect.orDie(using(key, (worker) =>
            lock.withPermits(1)(retryForever(onSignal(reader, worker, event))).pipe(Effect.flatMap(awaited))))),
      drain: ({ payload }) =>
        Effect.flatMap(conversation(payload.tenant), (key) =>
          using(key, (worker) => {
            worker.isStale = true
            return ExtractionRunner.drain(runner, worker)
          })).pipe(Effect.mapError(({ reason }) => ({ reason })))
    })
  })

/**
 * Waits until an interrupted reading has finished its current write, so that the next owner finds the plan and need not ask the model
 * again. Waits ten seconds at most, since the store may hang.
 */
const awaitWrite = ({ writeLock }: OutboxWorker): Effect.Effect<void> =>
  Effect.interruptible(Effect.raceFirst(writeLock.withPermits(1)(Effect.void), sleepLive("10 seconds")))

/** The batches that were announced to the trigger, by their first sequence number, each with its deferred. */
type Announced = Map<number, Deferred.Deferred<void>>

/** Adds a batch to the cached state and announces it to the trigger, once; returns the deferreds to await. */
const announce = (
  { runner: { log }, waits }: LineReader,
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
    if (known === undefined) worker.isStale = true // only the store can tell whether it was read
    const batch = known ?? (yield* look)
    if (batch === undefined) return []
    const entries = yield* Effect.catchIf(
      OutboxState.entries(log.store, worker.viewer.tenant, [batch]),
      OutboxState.isTaken,
      () => Effect.succeed([])
    )
    const wait = waitOf(waits, worker, from)
    if (announced.get(from) === wait) return [wait]
    announced.set(from, wait)
    for (const { message, sequence } of entries) yield* worker.notify({ _tag: "Message", message, sequence })
    yield* worker.notify({ _tag: "TurnEnd" })
    return [wait]
  })

/** Tells the trigger that the session ended, or requests a reading; returns the deferreds to await. */
const onSignal = (
  { runner: { log }, waits }: LineReader,
  worker: OutboxWorker,
  event: "sessionEnd" | "takeUp"
): Effect.Effect<ReadonlyArray<Deferred.Deferred<void>>, MemoryError.MemoryError> =>
  Effect.gen(function*() {
    worker.isStale = true // another process may have appended or released batches
    const state = yield* OutboxLog.look(log, worker)
    const all = OutboxState.waiting(state).map(({ from }) => waitOf(waits, worker, from))
    if (event === "sessionEnd") yield* worker.notify({ _tag: "SessionEnd" })
    else if (OutboxWorkers.isUnread(state)) yield* worker.request
    return all
  })

const waitOf = ({ all, onSeen }: Waits, worker: OutboxWorker, from: number): Deferred.Deferred<void> => {
  const ofLine = all.get(worker.key) ?? new Map<number, Deferred.Deferred<void>>()
  const wait = ofLine.get(from) ?? Deferred.unsafeMake<void>(FiberId.none)
  all.set(worker.key, ofLine.set(from, wait))
  onSeen(worker) // the batch may have been read meanwhile
  return wait
}

/**
 * Erases the cluster's messages of a conversation in which nothing waits. If that erases a message that was sent meanwhile, the session row
 * has changed, and the waiting messages are read at once.
 */
const clearIfIdle = (
  { lines, runner: { log: { store } } }: LineReader,
  tenant: string,
  id: MemoryId
): Effect.Effect<void> =>
  Effect.gen(function*() {
    const before = yield* sessionOf(store, tenant, id)
    if (Option.isSome(before) && OutboxWorkers.isUnread(yield* OutboxState.of(store, before.value.key))) return
    yield* lines.clear(id)
    const after = yield* sessionOf(store, tenant, id)
    const revisionOf = Option.match({ onNone: () => 0, onSome: ({ revision }: { revision: number }) => revision })
    if (revisionOf(after) !== revisionOf(before)) yield* lines.signal(id, tenant, "takeUp")
  }).pipe(
    Effect.disconnect, // do not wait for a store that hangs
    Effect.interruptible,
    Effect.timeout("5 seconds"),
    Effect.catchAll((error) => Effect.logWarning(`what the cluster keeps of ${id} could not be cleared`, error))
  )

/** Reads the session row, which names the conversation; `None` if the row no longer exists. */
const sessionOf = (
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

/** Retries for ever, at most a minute apart, since an acknowledged cluster message must not be lost. */
const retryForever = <A, E>(self: Effect.Effect<A, E>): Effect.Effect<A> =>
  Effect.orDie(Effect.retry(self, Schedule.either(Schedule.exponential("200 millis"), Schedule.spaced("1 minute"))))
