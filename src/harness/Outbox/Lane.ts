/** One line of messages and those who work on it: a trigger that says when, and a worker that tries until it is empty. */
import * as Effect from "effect/Effect"
import * as ExecutionStrategy from "effect/ExecutionStrategy"
import * as Exit from "effect/Exit"
import * as Queue from "effect/Queue"
import * as Schedule from "effect/Schedule"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type { MemoryError } from "../../domain/MemoryError.ts"
import type { ExtractionTrigger, Happening } from "../ExtractionTrigger.ts"
import * as Kept from "./Kept.ts"
import * as Rows from "./Rows.ts"

export interface Lane extends Rows.Line {
  readonly key: string
  /** One write to the line at a time. */
  readonly writing: Effect.Semaphore
  /** One reading of it at a time. */
  readonly draining: Effect.Semaphore
  readonly tell: (happening: Happening) => Effect.Effect<void>
  /** Now, whatever the trigger says. */
  readonly ask: Effect.Effect<void>
  /** Ends its trigger and its worker. */
  readonly close: Effect.Effect<void>
  /** As it was last seen. */
  kept: Kept.Kept
  /** Nobody has looked yet, or a write failed and may have been one. */
  isStale: boolean
  /** How many of the batches that the outbox has room for are held. */
  held: number
  /** Of each batch that was tried and is still there: how often, and how often the outbox had succeeded before the first. */
  readonly refusals: Map<number, { readonly times: number; readonly since: number }>
  /** Batch by batch, since one of them is refused. */
  isSingle: boolean
  /** Who has it in hand now: it must not be closed. */
  users: number
}

/** Nothing is lost if it is closed. */
export const isIdle = ({ held, kept, users }: Lane): boolean =>
  users === 0 && held === 0 && kept.plan === undefined && Kept.waiting(kept).length === 0

export interface Options {
  readonly trigger: ExtractionTrigger
  readonly retry: Schedule.Schedule<unknown, MemoryError>
  /** What is asked for: fails while something waits on. */
  readonly attempt: (lane: Lane) => Effect.Effect<void, MemoryError>
}

/** Its fibers end with the scope. */
export const make = (
  line: Rows.Line,
  { attempt, retry, trigger }: Options
): Effect.Effect<Lane, never, Scope.Scope> =>
  Effect.gen(function*() {
    const scope = yield* Effect.flatMap(Effect.scope, (parent) => Scope.fork(parent, ExecutionStrategy.sequential))
    const happenings = yield* Queue.unbounded<Happening>()
    const asked = yield* Queue.sliding<void>(1)
    const ask = Effect.asVoid(Queue.offer(asked, undefined))
    const lane: Lane = {
      ...line,
      key: Rows.keyOf(line),
      writing: yield* Effect.makeSemaphore(1),
      draining: yield* Effect.makeSemaphore(1),
      tell: (happening) => Queue.offer(happenings, happening),
      ask,
      close: Effect.suspend(() => Scope.close(scope, Exit.void)),
      kept: Kept.empty(line),
      isStale: true,
      held: 0,
      refusals: new Map(),
      isSingle: false,
      users: 0
    }
    yield* Stream.suspend(() => trigger.fires(Stream.fromQueue(happenings))).pipe(
      Stream.runForEach(() => ask),
      Effect.catchAllDefect((defect) => Effect.logError(`the trigger ${trigger.name} died`, defect)),
      Effect.interruptible, // whoever opened it was not
      Effect.forkIn(scope)
    )
    const disconnected = Effect.disconnect(attempt(lane)) // the end of the scope waits for no store that never answers
    yield* work(disconnected, asked, retry).pipe(Effect.interruptible, Effect.forkIn(scope))
    return lane
  })

/** Each time it is asked, until it succeeds: as the schedule says, or sooner if it is asked again. */
const work = (
  attempt: Effect.Effect<void, MemoryError>,
  asked: Queue.Dequeue<void>,
  retry: Schedule.Schedule<unknown, MemoryError>
): Effect.Effect<never> =>
  Effect.gen(function*() {
    const delays = yield* Schedule.driver(retry)
    const tried: Effect.Effect<void> = Effect.matchEffect(attempt, {
      onSuccess: () => delays.reset,
      onFailure: (error) =>
        Effect.raceFirst(
          Effect.orElse(delays.next(error), () => Effect.never), // it has had enough; whoever asks may try
          Queue.take(asked)
        ).pipe(Effect.zipRight(Effect.suspend(() => tried)))
    })
    return yield* Effect.forever(Effect.zipRight(Queue.take(asked), tried))
  })
