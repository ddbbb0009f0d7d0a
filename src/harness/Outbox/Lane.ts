/**
 * The live state of one conversation: its trigger says when it is read, and its worker reads until nothing waits, trying
 * again by the retry schedule after a failure. Closing it loses no messages.
 */
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as ExecutionStrategy from "effect/ExecutionStrategy"
import * as Exit from "effect/Exit"
import * as FiberId from "effect/FiberId"
import * as Queue from "effect/Queue"
import * as Schedule from "effect/Schedule"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type { MemoryError } from "../../domain/MemoryError.ts"
import * as Viewer from "../../domain/Viewer.ts"
import type { ExtractionTrigger, Happening, Watch } from "../ExtractionTrigger.ts"
import * as Kept from "./Kept.ts"
import * as Rows from "./Rows.ts"

export interface Lane extends Rows.Line {
  readonly key: string
  readonly tenant: string
  /** Serialises writes to the conversation's rows. */
  readonly writing: Effect.Semaphore
  /** Serialises readings of the conversation. */
  readonly draining: Effect.Semaphore
  /** Reports an event to the trigger. */
  readonly tell: (happening: Happening) => Effect.Effect<void>
  /** Requests a reading, whatever the trigger says. */
  readonly ask: Effect.Effect<void>
  /** Requests a reading that is tried at once, however many failed before, and waits until one has ended. */
  readonly readNow: Effect.Effect<void, MemoryError>
  /** Ends the fibers of the trigger and the worker. */
  readonly close: Effect.Effect<void>
  /** The conversation's rows as last seen. */
  kept: Kept.Kept
  /** True until the rows are first read, and after a failed write that may have taken effect. */
  isStale: boolean
  /** Number of batches that wait. Counts against the capacity. */
  waiting: number
  /** Number of batches whose append has not ended. Counts against the capacity. */
  reserved: number
  /** Per waiting batch that failed: how often, and the number of successes of the outbox before its first failure. */
  readonly refusals: Map<number, { readonly times: number; readonly since: number }>
  /** True while batches are read one by one, since one of several was refused. */
  isSingle: boolean
  /** Number of readings that failed since the last success, without those that failed permanently. */
  failuresInARow: number
  /** Number of requests since the conversation failed too often; every third one is tried. */
  requests: number
  /** True where `readNow` waits for the next attempt. */
  isUrgent: boolean
  /** When the worker tries again, in epoch milliseconds; `undefined` where it waits for a request only. */
  retryAt: number | undefined
  /** True where the last reading outlasted its turn. */
  isSlow: boolean
  isReading: boolean
  /** Number of callers that hold the conversation; it is not closed while there are any. */
  users: number
}

/** Whether nothing of the conversation waits, by its rows as last seen. */
export const isEmpty = ({ kept, waiting }: Lane): boolean => waiting === 0 && kept.plan === undefined
/** Whether the conversation can be closed: no callers, no reading, and nothing waits. */
export const isIdle = (lane: Lane): boolean => lane.users === 0 && !lane.isReading && isEmpty(lane)

export interface Options {
  readonly trigger: ExtractionTrigger
  readonly retry: Schedule.Schedule<unknown, MemoryError>
  /** Tries once to read all that waits; fails if something still waits. */
  readonly attempt: (lane: Lane) => Effect.Effect<void, MemoryError>
}

/** Opens a conversation. It has fibers only while it is read or its trigger waits for a time; they end with the scope. */
export const make = (
  line: Rows.Line,
  { attempt, retry, trigger }: Options
): Effect.Effect<Lane, never, Scope.Scope> =>
  Effect.gen(function*() {
    const scope = yield* Effect.flatMap(Effect.scope, (parent) => Scope.fork(parent, ExecutionStrategy.sequential))
    // a fiber of one conversation may be asked for by another, whose context it must not have
    const refs = yield* Effect.getFiberRefs
    const fork: Fork = (self) =>
      Effect.setFiberRefs(refs).pipe(
        Effect.zipRight(self),
        Effect.interruptible,
        Effect.forkIn(scope),
        Effect.asVoid,
        Effect.uninterruptible // the caller has noted that there is a fiber
      )
    const attempts = attemptsOf()
    const lane: Lane = {
      ...line,
      key: Rows.keyOf(line),
      tenant: Viewer.tenantOf(line.viewer),
      writing: yield* Effect.makeSemaphore(1),
      draining: yield* Effect.makeSemaphore(1),
      tell: (happening) => tell(happening),
      ask: Effect.suspend(() => ask),
      readNow: Effect.suspend(() => {
        lane.isUrgent = true
        const next = attempts.next()
        return Effect.zipRight(ask, Deferred.await(next))
      }),
      close: Effect.suspend(() => Scope.close(scope, Exit.void)),
      kept: Kept.empty(line),
      isStale: true,
      waiting: 0,
      reserved: 0,
      refusals: new Map(),
      isSingle: false,
      failuresInARow: 0,
      requests: 0,
      isUrgent: false,
      retryAt: undefined,
      isSlow: false,
      isReading: false,
      users: 0
    }
    const disconnected = Effect.disconnect(attempt(lane)) // the end of the scope waits for no store that never answers
    const ask = yield* worker(lane, disconnected, retry, attempts, fork)
    const tell = trigger.watch
      ? watched(trigger.name, trigger.watch, ask, fork)
      : yield* Effect.flatMap(streamed(trigger, ask), ([tell, run]) => Effect.as(fork(run), tell))
    return lane
  })

/** Runs a fiber of the conversation until its scope ends. */
type Fork = (self: Effect.Effect<void>) => Effect.Effect<void>

/** Follows a trigger that has `watch`: uses one fiber at most, while the trigger waits for a time. */
const watched = (name: string, start: () => Watch, ask: Effect.Effect<void>, fork: Fork): Lane["tell"] => {
  let watch: Watch | undefined
  let isWaiting = false
  const waits = (watch: Watch): Effect.Effect<void> =>
    Effect.gen(function*() {
      for (let due = watch.due(); due !== undefined; due = watch.due()) {
        yield* Effect.sleep(Math.max(1, due - (yield* Clock.currentTimeMillis)))
        if (watch.wake(yield* Clock.currentTimeMillis)) yield* ask
      }
    }).pipe(Effect.ensuring(Effect.sync(() => isWaiting = false)))
  const safe = Effect.catchAllDefect((defect) => Effect.logError(`the trigger ${name} died`, defect))
  return (happening) =>
    Effect.flatMap(Clock.currentTimeMillis, (now) => {
      watch ??= start()
      const fires = watch.on(happening, now)
      const isToWait = !isWaiting && watch.due() !== undefined
      isWaiting ||= isToWait
      return Effect.zipRight(isToWait ? fork(safe(waits(watch))) : Effect.void, fires ? ask : Effect.void)
    }).pipe(safe)
}

/** Follows a trigger that is a stream only. */
const streamed = (trigger: ExtractionTrigger, ask: Effect.Effect<void>) =>
  Effect.map(Queue.unbounded<Happening>(), (happenings): readonly [Lane["tell"], Effect.Effect<void>] => [
    (happening) => Queue.offer(happenings, happening),
    Stream.suspend(() => trigger.fires(Stream.fromQueue(happenings))).pipe(
      Stream.runForEach(() => ask),
      Effect.catchAllDefect((defect) => Effect.logError(`the trigger ${trigger.name} died`, defect))
    )
  ])

interface Attempts {
  /** Completed with the result of the next attempt that ends. */
  readonly next: () => Deferred.Deferred<void, MemoryError>
  readonly ended: (result: Effect.Effect<void, MemoryError>) => void
}
const attemptsOf = (): Attempts => {
  let next: Deferred.Deferred<void, MemoryError> | undefined
  return {
    next: () => next ??= Deferred.unsafeMake(FiberId.none),
    ended: (result) => {
      if (next) Deferred.unsafeDone(next, result)
      next = undefined
    }
  }
}

/**
 * Makes the worker and returns its request for a reading. The worker's fiber tries until an attempt succeeds: again by the
 * schedule, or sooner on another request. It ends when no request is left.
 */
const worker = (
  lane: Lane,
  attempt: Effect.Effect<void, MemoryError>,
  retry: Schedule.Schedule<unknown, MemoryError>,
  { ended }: Attempts,
  fork: Fork
): Effect.Effect<Effect.Effect<void>> =>
  Effect.gen(function*() {
    let isAsked = false
    let isWorking = false
    let asked: Deferred.Deferred<void> | undefined // completed by the next request
    let failure: MemoryError | undefined
    const failed = (retryAt: number | undefined) => {
      lane.retryAt = retryAt
      if (failure) ended(failure)
      failure = undefined
    }
    const delays = yield* Schedule.driver(Schedule.modifyDelayEffect(retry, (_, delay) =>
      Effect.map(Clock.currentTimeMillis, (now) => {
        failed(now + Duration.toMillis(delay)) // before it is waited for
        return delay
      })))
    const exhausted = Effect.zipRight(
      Effect.sync(() =>
        failed(undefined)
      ),
      Effect.never
    )
    const waits = (error: MemoryError) =>
      Effect.suspend(() => {
        failure = error
        const request = asked = Deferred.unsafeMake(FiberId.none)
        return Effect.raceFirst(Effect.orElse(delays.next(error), () => exhausted), Deferred.await(request))
      })
    const works = Effect.gen(function*() {
      while (isAsked) {
        isAsked = false
        const result = yield* Effect.either(attempt)
        if (result._tag === "Left") {
          if (!isAsked) yield* waits(result.left)
          else failed(undefined)
          asked = undefined
          isAsked = true
        } else {
          lane.retryAt = undefined
          ended(Effect.void)
          yield* delays.reset
        }
      }
    }).pipe(Effect.ensuring(Effect.sync(() => isWorking = false)))
    return Effect.suspend(() => {
      isAsked = true
      if (asked) Deferred.unsafeDone(asked, Effect.void)
      if (isWorking) return Effect.void
      isWorking = true
      return fork(works)
    })
  })
