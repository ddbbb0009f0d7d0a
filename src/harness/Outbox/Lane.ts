/**
 * One conversation, with the fibers that work on it: its trigger says when it is read, and its worker reads until nothing
 * waits, again and again as the retry schedule says where that fails. Closing it loses nothing.
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
import type { ExtractionTrigger, Happening } from "../ExtractionTrigger.ts"
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
  /** Requests a reading that is tried however often others failed, and waits until one has ended. */
  readonly readNow: Effect.Effect<void, MemoryError>
  /** Ends the fibers of the trigger and the worker. */
  readonly close: Effect.Effect<void>
  /** The conversation's rows as last seen. */
  kept: Kept.Kept
  /** True until the first look, and after a write that failed and may have been one. */
  isStale: boolean
  /** Batches that wait, and batches whose append has not ended. Both count against the capacity. */
  waiting: number
  reserved: number
  /** Per batch that failed and still waits: how often, and how often the outbox had succeeded before the first failure. */
  readonly refusals: Map<number, { readonly times: number; readonly since: number }>
  /** True while batches are read one by one, since one of several was refused. */
  isSingle: boolean
  /** Readings that failed since the last success, but for those that can never succeed. */
  failuresInARow: number
  /** Requests since the failures became too many. */
  requests: number
  /** True where `readNow` waits for the next attempt. */
  isUrgent: boolean
  /** When the worker tries again, in epoch milliseconds; `undefined` where it waits for a request only. */
  retryAt: number | undefined
  /** True where the last reading outlasted its turn. */
  isSlow: boolean
  isReading: boolean
  /** Callers that hold the conversation; it is not closed while there are any. */
  users: number
}

/** Whether nothing of the conversation waits, as far as it is known. */
export const isEmpty = ({ kept, waiting }: Lane): boolean => waiting === 0 && kept.plan === undefined
/** Whether the conversation can be closed: no callers, no reading, and nothing waits. */
export const isIdle = (lane: Lane): boolean => lane.users === 0 && !lane.isReading && isEmpty(lane)

export interface Options {
  readonly trigger: ExtractionTrigger
  readonly retry: Schedule.Schedule<unknown, MemoryError>
  /** One attempt to read all that waits: fails while something waits on. */
  readonly attempt: (lane: Lane) => Effect.Effect<void, MemoryError>
}

/** Starts the fibers of a conversation; they end with the scope. */
export const make = (
  line: Rows.Line,
  { attempt, retry, trigger }: Options
): Effect.Effect<Lane, never, Scope.Scope> =>
  Effect.gen(function*() {
    const scope = yield* Effect.flatMap(Effect.scope, (parent) => Scope.fork(parent, ExecutionStrategy.sequential))
    const happenings = yield* Queue.unbounded<Happening>()
    const asked = yield* Queue.sliding<void>(1)
    const ask = Effect.asVoid(Queue.offer(asked, undefined))
    const attempts = attemptsOf()
    const lane: Lane = {
      ...line,
      key: Rows.keyOf(line),
      tenant: Viewer.tenantOf(line.viewer),
      writing: yield* Effect.makeSemaphore(1),
      draining: yield* Effect.makeSemaphore(1),
      tell: (happening) => Queue.offer(happenings, happening),
      ask,
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
    yield* Stream.suspend(() => trigger.fires(Stream.fromQueue(happenings))).pipe(
      Stream.runForEach(() => ask),
      Effect.catchAllDefect((defect) => Effect.logError(`the trigger ${trigger.name} died`, defect)),
      Effect.interruptible, // the fiber that opened the conversation was not
      Effect.forkIn(scope)
    )
    const disconnected = Effect.disconnect(attempt(lane)) // the end of the scope waits for no store that never answers
    yield* work(lane, disconnected, asked, retry, attempts).pipe(Effect.interruptible, Effect.forkIn(scope))
    return lane
  })

interface Attempts {
  /** Done with the result of the next attempt that ends. */
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

/** Tries when asked, until an attempt succeeds: again as the schedule says, or sooner if it is asked again. */
const work = (
  lane: Lane,
  attempt: Effect.Effect<void, MemoryError>,
  asked: Queue.Dequeue<void>,
  retry: Schedule.Schedule<unknown, MemoryError>,
  { ended }: Attempts
): Effect.Effect<never> =>
  Effect.gen(function*() {
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
    const exhausted = Effect.zipRight(Effect.sync(() => failed(undefined)), Effect.never)
    const tried: Effect.Effect<void> = Effect.matchEffect(attempt, {
      onSuccess: () => {
        lane.retryAt = undefined
        ended(Effect.void)
        return delays.reset
      },
      onFailure: (error) => {
        failure = error
        return Effect.raceFirst(
          Effect.orElse(delays.next(error), () => exhausted),
          Queue.take(asked)
        ).pipe(Effect.zipRight(Effect.suspend(() => tried)))
      }
    })
    return yield* Effect.forever(Effect.zipRight(Queue.take(asked), tried))
  })
