/**
 * A worker starts the extraction runs of one conversation. When the conversation's trigger fires, the worker starts runs until no batch
 * waits. A batch is the messages of one append. A failed run is retried on a schedule. Closing a worker loses no messages, since they are
 * rows in the store. Failure counts and the state of the trigger are lost. This module also limits how many batches may wait.
 */
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as ExecutionStrategy from "effect/ExecutionStrategy"
import * as Exit from "effect/Exit"
import * as FiberId from "effect/FiberId"
import * as Iterable from "effect/Iterable"
import * as Schedule from "effect/Schedule"
import * as Scope from "effect/Scope"
import * as MemoryError from "../../domain/MemoryError.ts"
import * as MemoryScope from "../../domain/MemoryScope.ts"
import * as Viewer from "../../domain/Viewer.ts"
import { type ExtractionTrigger, type Fork, listen, type TriggerEvent } from "../ExtractionTrigger.ts"
import * as OutboxState from "./OutboxState.ts"

/** The worker of one conversation: its operations and its state. */
export interface OutboxWorker extends OutboxState.ConversationKey {
  readonly key: string
  readonly tenant: string
  /** Allows one write of the conversation's rows at a time. */
  readonly writeLock: Effect.Semaphore
  /** Allows one extraction run of the conversation at a time. */
  readonly drainLock: Effect.Semaphore
  /** Reports an event to the trigger. */
  readonly notify: (event: TriggerEvent) => Effect.Effect<void>
  /** Requests an extraction run, even if the trigger has not fired. */
  readonly request: Effect.Effect<void>
  /** Requests extraction at once, even after failures, and waits until the extraction has ended. Fails if the extraction fails. */
  readonly extractNow: Effect.Effect<void, MemoryError.MemoryError>
  /** Ends the fibers of the trigger and the worker. */
  readonly close: Effect.Effect<void>
  /** The cached state of the conversation. */
  state: OutboxState.OutboxState
  /** Whether `state` must be read from the store before its next use. For example, a failed write may still have been committed. */
  isStale: boolean
  /** Number of batches that wait for extraction. Counts against the capacity. */
  waiting: number
  /** Number of batches that are being appended. Each of them has a reservation, and counts against the capacity. */
  reserved: number
  /** Failures of batches, by first sequence number. `since`: number of successful runs in all conversations when the batch first failed. */
  readonly failures: Map<number, { readonly times: number; readonly since: number }>
  /** Whether batches are extracted one by one, to find out which of several batches made their common run fail. */
  extractsSingly: boolean
  /** Number of failed runs since the last success, or since a batch was set aside after ten failures. Permanent failures do not count. */
  failuresInARow: number
  /** Number of requests since the tenth failure in a row. Only every third is tried. A request with a waiting caller is not counted. */
  requests: number
  /** Whether a caller of `extractNow` waits for the next attempt. */
  isUrgent: boolean
  /** Time of the next retry, epoch milliseconds, until the next attempt has ended; `undefined` if no retry is scheduled. */
  retryAt: number | undefined
  /** Whether the last extraction run exceeded its time slice, see `OutboxScheduler`. */
  isSlow: boolean
  isExtracting: boolean
  /** Number of running effects that use the worker. The worker is not idle while this number is above 0. */
  references: number
}

/** Whether the cached state contains neither a waiting batch nor a plan (a stored answer of the model). */
export const isEmpty = ({ state, waiting }: OutboxWorker): boolean => waiting === 0 && state.plan === undefined
/** Whether the worker may be closed: no effect uses the worker, no extraction runs, and nothing waits for extraction. */
export const isIdle = (worker: OutboxWorker): boolean =>
  worker.references === 0 && !worker.isExtracting && isEmpty(worker)

/** Options of a worker. */
export interface Options {
  readonly trigger: ExtractionTrigger
  readonly retry: Schedule.Schedule<unknown, MemoryError.MemoryError>
  /** Tries once to extract from all waiting messages. Fails if some of them still wait. */
  readonly attempt: (worker: OutboxWorker) => Effect.Effect<void, MemoryError.MemoryError>
}

/** Opens a worker. Its fibers end with the Effect scope. An idle worker needs no fiber if the trigger's `watch` has no due time. */
export const make = (
  key: OutboxState.ConversationKey,
  { attempt, retry, trigger }: Options
): Effect.Effect<OutboxWorker, never, Scope.Scope> =>
  Effect.gen(function*() {
    const scope = yield* Effect.flatMap(Effect.scope, (parent) => Scope.fork(parent, ExecutionStrategy.sequential))
    // `fork` may be called by a fiber of another conversation; the new fiber must not inherit the FiberRefs of that fiber
    const refs = yield* Effect.getFiberRefs
    const fork: Fork = (self) =>
      Effect.setFiberRefs(refs).pipe(
        Effect.zipRight(self),
        Effect.interruptible,
        Effect.forkIn(scope),
        Effect.asVoid,
        Effect.uninterruptible // an interruption here could leave `isWorking` true although no fiber runs
      )
    const worker: OutboxWorker = {
      viewer: key.viewer,
      session: key.session,
      key: OutboxState.keyOf(key),
      tenant: Viewer.tenantOf(key.viewer),
      writeLock: yield* Effect.makeSemaphore(1),
      drainLock: yield* Effect.makeSemaphore(1),
      notify: (event) => notify(event),
      request: Effect.suspend(() => request(loop)),
      extractNow: Effect.suspend(() => {
        worker.isUrgent = true
        const next = loop.next ??= Deferred.unsafeMake(FiberId.none)
        return Effect.zipRight(request(loop), Deferred.await(next))
      }),
      close: Effect.suspend(() => Scope.close(scope, Exit.void)),
      state: OutboxState.empty(key),
      isStale: true,
      waiting: 0,
      reserved: 0,
      failures: new Map(),
      extractsSingly: false,
      failuresInARow: 0,
      requests: 0,
      isUrgent: false,
      retryAt: undefined,
      isSlow: false,
      isExtracting: false,
      references: 0
    }
    const disconnected = Effect.disconnect(attempt(worker)) // lets the Effect scope close even if the store hangs
    const loop: Loop = {
      worker,
      attempt: disconnected,
      delays: yield* Schedule.driver(Schedule.modifyDelayEffect(retry, (_, delay) =>
        Effect.map(Clock.currentTimeMillis, (now) => {
          failed(loop, now + Duration.toMillis(delay)) // reports the failure before the delay begins
          return delay
        }))),
      fork,
      isRequested: false,
      isWorking: false,
      requested: undefined,
      next: undefined,
      failure: undefined
    }
    const notify = yield* listen(trigger, worker.request, fork)
    return worker
  })

/** State of a worker's loop. The loop is a fiber that runs as long as extraction is requested. */
interface Loop {
  readonly worker: OutboxWorker
  readonly attempt: Effect.Effect<void, MemoryError.MemoryError>
  readonly delays: Schedule.ScheduleDriver<unknown, MemoryError.MemoryError>
  readonly fork: Fork
  isRequested: boolean
  isWorking: boolean
  /** Completed when the next request arrives. */
  requested: Deferred.Deferred<void> | undefined
  /** Completed with the result of an attempt. A failure is skipped if a request arrived during the attempt. */
  next: Deferred.Deferred<void, MemoryError.MemoryError> | undefined
  /** Failure of the last attempt; `undefined` once the waiting callers have received the failure. */
  failure: MemoryError.MemoryError | undefined
}

/** Requests extraction. Starts the loop's fiber if it does not run. Wakes the fiber if it waits to retry. */
const request = (loop: Loop): Effect.Effect<void> =>
  Effect.suspend(() => {
    loop.isRequested = true
    if (loop.requested) Deferred.unsafeDone(loop.requested, Effect.void)
    if (loop.isWorking) return Effect.void
    loop.isWorking = true
    return loop.fork(works(loop))
  })

/** Attempts extraction as long as there are requests. A failed attempt is repeated after a delay, or as soon as a request arrives. */
const works = (loop: Loop): Effect.Effect<void> =>
  Effect.gen(function*() {
    while (loop.isRequested) {
      loop.isRequested = false
      const result = yield* Effect.either(loop.attempt)
      if (result._tag === "Left") {
        if (!loop.isRequested) yield* waitsToRetry(loop, result.left)
        else failed(loop, undefined)
        loop.requested = undefined
        loop.isRequested = true
      } else {
        loop.worker.retryAt = undefined
        ended(loop, Effect.void)
        yield* loop.delays.reset
      }
    }
  }).pipe(Effect.ensuring(Effect.sync(() => loop.isWorking = false)))

/** Waits for the schedule's delay, or until a request arrives. If the schedule is exhausted, only a request ends the wait. */
const waitsToRetry = (loop: Loop, error: MemoryError.MemoryError) =>
  Effect.suspend(() => {
    loop.failure = error
    const requested = loop.requested = Deferred.unsafeMake(FiberId.none)
    const exhausted = Effect.zipRight(Effect.sync(() => failed(loop, undefined)), Effect.never)
    return Effect.raceFirst(Effect.orElse(loop.delays.next(error), () => exhausted), Deferred.await(requested))
  })

const failed = (loop: Loop, retryAt: number | undefined): void => {
  loop.worker.retryAt = retryAt
  if (loop.failure) ended(loop, loop.failure)
  loop.failure = undefined
}

const ended = (loop: Loop, result: Effect.Effect<void, MemoryError.MemoryError>): void => {
  if (loop.next) Deferred.unsafeDone(loop.next, result)
  loop.next = undefined
}

/**
 * The limits on waiting batches, per conversation and per tenant. A batch is the messages of one append. Each tenant is counted separately,
 * so that no tenant waits for another.
 */
export interface Capacity {
  /** Largest number of waiting batches of one tenant, at least 1. */
  readonly capacityPerTenant: number
  /** Largest number of waiting batches of one conversation, at least 1. */
  readonly capacityPerConversation: number
  /** Longest time that an append waits for room. */
  readonly patience: Duration.DurationInput
  /** The tenants that have waiting batches or reservations, by id. */
  readonly tenants: Map<string, Tenant>
  /** Called at each change of the number of batches that wait or are being appended. `more` is the increase, which may be negative. */
  readonly onCount?: ((more: number) => void) | undefined
}

/** Frees the capacity that was reserved for an append. Called when the batch is stored or the append fails. Further calls do nothing. */
export type Reservation = () => void

/** The conversations of one tenant that have waiting batches, and the capacity that the tenant uses. */
interface Tenant {
  /** Workers of the conversations that have waiting batches, in the order in which `workerToExtract` compares these conversations. */
  readonly workers: Set<OutboxWorker>
  /** Number of waiting batches plus number of reservations. */
  used: number
  /** The same number for each user who has any, by the key of `userOf`. */
  readonly users: Map<string, number>
  /** Completed when capacity is freed, and then replaced by a new Deferred. */
  freed: Deferred.Deferred<void>
}

/** Makes the limits of one outbox. */
export const capacity = (options: Omit<Capacity, "tenants">): Capacity => ({ ...options, tenants: new Map() })

/**
 * Runs `append` with capacity reserved for its batch. If no capacity is free, first requests extraction from the waiting batches of the
 * conversation. If there are none, and only the tenant is at its limit, requests extraction from another conversation of the tenant. Fails
 * with `rate_limited` if the extraction fails, or if no capacity becomes free within the time `patience`. The tenant's limit does not apply
 * then to a user who has less than a fair share, so that one user's messages that cannot be extracted do not lock out the others.
 */
export const reserve = <A>(
  capacity: Capacity,
  worker: OutboxWorker,
  append: (place: Reservation) => Effect.Effect<A, MemoryError.MemoryError>
): Effect.Effect<A, MemoryError.MemoryError> =>
  Effect.acquireUseRelease(placeFor(capacity, worker), append, (free) => Effect.sync(free))

/** Sets the conversation's number of waiting batches, and updates the counts of its tenant. */
export const record = (capacity: Capacity, worker: OutboxWorker, waiting: number): void => {
  const before = worker.waiting
  if (waiting === before) return
  worker.waiting = waiting
  const { workers } = tenantOf(capacity, worker)
  if (waiting > 0) workers.add(worker)
  else workers.delete(worker)
  count(capacity, worker, waiting - before)
}

/** Reserves capacity for one batch. Must be called in an uninterruptible region. Only the wait for capacity can be interrupted. */
const placeFor = (capacity: Capacity, worker: OutboxWorker): Effect.Effect<Reservation, MemoryError.MemoryError> =>
  Effect.gen(function*() {
    const end = (yield* Clock.currentTimeMillis) + Duration.toMillis(capacity.patience)
    while (isFull(capacity, worker) || tenantOf(capacity, worker).used >= capacity.capacityPerTenant) {
      const left = end - (yield* Clock.currentTimeMillis)
      const isAdmitted = yield* Effect.interruptible(waitForRoom(capacity, worker, left))
      if (isAdmitted && !isFull(capacity, worker)) break
    }
    worker.reserved++
    count(capacity, worker, 1)
    let isReserved = true
    return () => {
      if (!isReserved) return
      isReserved = false
      worker.reserved--
      count(capacity, worker, -1)
    }
  })

/**
 * Waits until capacity is freed. If the result of `workerToExtract` has waiting batches, requests extraction from them, and also returns
 * when the extraction has ended. If the extraction fails, or after `left` milliseconds, returns true for a user who has less than a fair
 * share of the tenant's capacity: the append then exceeds this capacity. For any other user, fails with `rate_limited`.
 */
const waitForRoom = (
  capacity: Capacity,
  worker: OutboxWorker,
  left: number
): Effect.Effect<boolean, MemoryError.MemoryError> =>
  Effect.suspend(() => {
    const { freed } = tenantOf(capacity, worker)
    const full = workerToExtract(capacity, worker)
    const room = Deferred.await(freed)
    const isFair = () => !isFull(capacity, worker) && hasShareLeft(capacity, worker)
    if (difficulty(full) > 1 && isFair()) return Effect.succeed(true)
    const refused = (cause?: MemoryError.MemoryError) =>
      isFair() ? Effect.succeed(true) : refuse(capacity, worker, full, cause)
    return (full.waiting > 0 ? Effect.raceFirst(room, full.extractNow) : room).pipe(
      Effect.timeoutTo({ duration: left, onSuccess: () => true, onTimeout: () => false }),
      Effect.matchEffect({
        onFailure: refused,
        onSuccess: (isInTime) => isInTime ? Effect.succeed(false) : refused()
      })
    )
  })

/** Whether one more batch keeps the user within the tenant's capacity divided by the number of users with waiting batches. */
const hasShareLeft = (capacity: Capacity, worker: OutboxWorker): boolean => {
  const { users } = tenantOf(capacity, worker)
  const used = users.get(userOf(worker)) ?? 0
  return used + 1 <= capacity.capacityPerTenant / (used > 0 ? users.size : users.size + 1)
}

/** Returns a key for the user of a conversation; without a user, for its session or agent. */
const userOf = ({ viewer }: OutboxWorker): string => MemoryScope.key(Viewer.subjectOf(viewer))

const refuse = (capacity: Capacity, worker: OutboxWorker, full: OutboxWorker, cause?: MemoryError.MemoryError) =>
  Effect.flatMap(Clock.currentTimeMillis, (now) => {
    const wait = full.retryAt === undefined ? 0 : full.retryAt - now
    return MemoryError.make("rate_limited", {
      op: "append",
      message: isFull(capacity, worker)
        ? `${capacity.capacityPerConversation} turns of this conversation wait and could not be read`
        : "too many turns of this tenant wait and could not be read",
      detail: { retryAfter: Math.ceil(wait > 0 ? wait : Duration.toMillis(capacity.patience)) },
      ...(full === worker && { cause })
    })
  })

const tenantOf = ({ tenants }: Capacity, { tenant }: OutboxWorker): Tenant => {
  const known = tenants.get(tenant) ??
    { workers: new Set(), used: 0, users: new Map(), freed: Deferred.unsafeMake(FiberId.none) }
  tenants.set(tenant, known)
  return known
}

const count = (capacity: Capacity, worker: OutboxWorker, more: number): void => {
  const tenant = tenantOf(capacity, worker)
  capacity.onCount?.(more)
  tenant.used += more
  const user = userOf(worker)
  const used = (tenant.users.get(user) ?? 0) + more
  if (used > 0) tenant.users.set(user, used)
  else tenant.users.delete(user)
  if (tenant.used === 0) capacity.tenants.delete(worker.tenant)
  if (more > 0) return
  Deferred.unsafeDone(tenant.freed, Effect.void)
  tenant.freed = Deferred.unsafeMake(FiberId.none)
}

const isFull = ({ capacityPerConversation }: Capacity, { reserved, waiting }: OutboxWorker): boolean =>
  waiting + reserved >= capacityPerConversation

/** Returns `worker` if it is full or has waiting batches. Otherwise, returns the worker of the same tenant with the least `difficulty`. */
const workerToExtract = (capacity: Capacity, worker: OutboxWorker): OutboxWorker => {
  if (isFull(capacity, worker) || worker.waiting > 0) return worker
  const { workers } = tenantOf(capacity, worker)
  let best: OutboxWorker | undefined
  for (const other of Array.from(Iterable.take(workers, candidates))) {
    if (best === undefined || difficulty(other) < difficulty(best)) best = other
    workers.delete(other)
    workers.add(other) // moves `other` to the end, so that the next call considers different workers
  }
  return best ?? worker
}

/** Largest number of conversations that `workerToExtract` compares. */
const candidates = 64

/** Rates how difficult an extraction from the conversation is: from 0 (likely to succeed soon) to 3 (unlikely). */
const difficulty = ({ failuresInARow, isExtracting, isSlow }: OutboxWorker): number =>
  failuresInARow > 0 ? 3 : isSlow ? 2 : isExtracting ? 1 : 0
