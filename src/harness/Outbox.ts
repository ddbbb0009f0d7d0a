/**
 * Messages on their way into memory, as rows of the store itself: each is extracted once, whatever crashes.
 *
 * ```text
 * append     the messages are kept                                       before a trigger may fire
 * read       the model is asked, and its plan is kept                    a retry asks it no more
 * write      the plan, and the end of its messages                       one batch: all of it or nothing
 * ```
 *
 * A line is a viewer's messages of one session, read in order and by itself. After ten failures in a row, of whatever
 * line, only every third request is tried. What can never succeed is parked: what fails for good, and what has failed
 * ten times while others went well. What another process left behind is read when the layer is built; several may share
 * a store, and whoever is first writes.
 */
import * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as ExecutionStrategy from "effect/ExecutionStrategy"
import * as Layer from "effect/Layer"
import * as Schedule from "effect/Schedule"
import * as Scope from "effect/Scope"
import * as MemoryError from "../domain/MemoryError.ts"
import type { Applied } from "../domain/MemoryMutation.ts"
import type { Message } from "../domain/Message.ts"
import * as Viewer from "../domain/Viewer.ts"
import * as MemoryPipeline from "../pipeline/MemoryPipeline.ts"
import * as MemoryStore from "../storage/MemoryStore.ts"
import * as ExtractionTrigger from "./ExtractionTrigger.ts"
import * as Draining from "./Outbox/Draining.ts"
import * as Hearing from "./Outbox/Hearing.ts"
import * as Kept from "./Outbox/Kept.ts"
import * as Lane from "./Outbox/Lane.ts"
import * as Ledger from "./Outbox/Ledger.ts"
import * as Reading from "./Outbox/Reading.ts"
import * as Rows from "./Outbox/Rows.ts"

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
export interface Parked extends Rows.Line {
  /** Places in the session, `to` excluded. */
  readonly from: number
  readonly to: number
  readonly reason: string
}

export interface Service {
  /** Returns the place in the session of the first, once all are kept. `invalid_scope` where nobody is remembered. */
  readonly append: (
    viewer: Viewer.Viewer,
    session: string,
    messages: ReadonlyArray<Message>
  ) => Effect.Effect<number, MemoryError.MemoryError>
  /** For triggers that wait for it. */
  readonly sessionEnd: (viewer: Viewer.Viewer, session: string) => Effect.Effect<void, MemoryError.MemoryError>
  /** Past triggers and backoff: every line is tried. Fails where one could be neither written nor parked, and waits on. */
  readonly flush: Effect.Effect<void, MemoryError.MemoryError>
  readonly status: Effect.Effect<Status>
  /** Of every tenant, as the store has them. */
  readonly parked: Effect.Effect<ReadonlyArray<Parked>, MemoryError.MemoryError>
  /** Takes up again what was given up on; how many batches. */
  readonly release: Effect.Effect<number, MemoryError.MemoryError>
}

export class Outbox extends Context.Tag("@memory/Outbox")<Outbox, Service>() {}

export interface ExtractionConfig {
  /** Default `interval(5)`. */
  readonly trigger?: ExtractionTrigger.ExtractionTrigger | undefined
  /** `pipeline`, or `ingest`: the messages as they are. Default: whichever the store takes, `ingest` first. */
  readonly extractor?: "pipeline" | "ingest" | undefined
  /**
   * Who the facts are about. Default: the viewer's user; else its agent, where it names neither session nor actor; else
   * exactly the viewer, so that what a visitor says stays with the visit. `agent`: the viewer's agent, so that every other
   * conversation of the agent learns it; for a viewer with a user `options.sharedWrites` must say `agent`, too.
   */
  readonly about?: "agent" | undefined
  /** Options of every extraction. A `scope` here goes before `about`. */
  readonly options?: Partial<MemoryPipeline.Options> | undefined
  /** Default: no tool calls, no tool results. */
  readonly filter?: ((message: Message) => boolean) | undefined
}

export interface Options extends ExtractionConfig {
  /** What was appended and is not read yet, at least 1; then `append` waits. Default 10,000 turns. */
  readonly capacity?: number | undefined
  /** Between attempts of a line. Default exponential from a second, five minutes at most. */
  readonly retry?: Schedule.Schedule<unknown, MemoryError.MemoryError> | undefined
  /** For an answer to one reading; then it has failed, and is tried again. Default two minutes. */
  readonly timeout?: Duration.DurationInput | undefined
  /** Lines that are followed though nothing waits in them; of the longest idle, the trigger begins anew. Default 1,000. */
  readonly openLines?: number | undefined
  /** For how long the scope's end waits for what is unread; then it stays in the store. Default 30 seconds. */
  readonly flushTimeout?: Duration.DurationInput | undefined
}

/** What is to be told of. */
export interface Listener {
  readonly applied: (viewer: Viewer.Viewer, applied: ReadonlyArray<Applied>) => Effect.Effect<void>
  readonly degraded: (viewer: Viewer.Viewer, part: string) => (error: MemoryError.MemoryError) => Effect.Effect<void>
}

/** Lines read at once. */
const concurrency = 4

export const make = (
  store: MemoryStore.Service,
  pipeline: MemoryPipeline.Service,
  options: Options = {},
  listener: Listener = unheard
): Effect.Effect<Service, MemoryError.MemoryError, Scope.Scope> =>
  Effect.gen(function*() {
    const {
      capacity = 10_000,
      filter = Hearing.isSpoken,
      flushTimeout = "30 seconds",
      openLines = 1_000,
      retry = Schedule.either(Schedule.exponential("1 second"), Schedule.spaced("5 minutes")),
      timeout = "2 minutes",
      trigger = ExtractionTrigger.interval(5)
    } = options
    const scope = yield* Effect.flatMap(Effect.scope, (scope) => Scope.fork(scope, ExecutionStrategy.sequential))
    const opening = yield* Effect.makeSemaphore(1)
    const lanes = new Map<string, Lane.Lane>() // in order of use
    const ledger = Ledger.make(store, yield* Effect.makeSemaphore(Math.max(1, capacity)))
    const reading = Reading.make({ store, pipeline, options, listener, ledger, timeout })
    const draining = Draining.make({ ledger, reading, listener, readers: yield* Effect.makeSemaphore(concurrency) })

    const open = (line: Rows.Line) =>
      opening.withPermits(1)(Effect.gen(function*() {
        const key = Rows.keyOf(line)
        const lane = lanes.get(key) ??
          (yield* Scope.extend(Lane.make(line, { trigger, retry, attempt: draining.attempt }), scope))
        lanes.delete(key)
        lanes.set(key, lane)
        lane.users++
        for (const idle of lanes.values()) {
          if (lanes.size <= openLines) break
          if (!Lane.isIdle(idle)) continue
          lanes.delete(idle.key)
          yield* idle.close
        }
        return lane
      }))
    const using = <A, E>(line: Rows.Line, use: (lane: Lane.Lane) => Effect.Effect<A, E>) =>
      Effect.acquireUseRelease(open(line), use, (lane) => Effect.sync(() => void lane.users--))

    const append = (viewer: Viewer.Viewer, session: string, messages: ReadonlyArray<Message>) =>
      using({ viewer, session }, (lane) =>
        Effect.gen(function*() {
          yield* Reading.targetOf(options, viewer)
          const from = yield* ledger.append(
            lane,
            messages.map(Hearing.plain),
            (message) => message.content.trim() !== "" && filter(message)
          )
          yield* Effect.forEach(messages, (message, i) => lane.tell({ _tag: "Message", message, sequence: from + i }), {
            discard: true
          })
          yield* lane.tell({ _tag: "TurnEnd" })
          return from
        }))

    const flush = Effect.suspend(() =>
      Effect.forEach(Array.from(lanes.values()), (lane) => Effect.either(draining.drain(lane)), { concurrency })
    ).pipe(Effect.flatMap((results) => Effect.forEach(results, (result) => result, { discard: true })))

    const everywhere = Effect.flatMap(store.tenants, Effect.forEach((tenant) => Kept.all(store, tenant))).pipe(
      Effect.map((all) => all.flat())
    )
    const takeUp = (kept: Kept.Kept) =>
      using(kept, (lane) =>
        Effect.zipRight(
          ledger.known(lane, kept),
          kept.plan || Kept.waiting(kept).length > 0 ? lane.ask : Effect.void
        ))
    const releaseOf = (kept: Kept.Kept) =>
      using(kept, (lane) => Effect.tap(ledger.release(lane), (count) => count > 0 ? lane.ask : Effect.void))

    yield* Effect.addFinalizer(() =>
      flush.pipe(
        Effect.interruptible,
        Effect.disconnect, // from a store that never answers
        Effect.interruptible,
        Effect.timeoutFail({
          duration: flushTimeout,
          onTimeout: () => MemoryError.make("unavailable", { op: "flush", message: "it took too long" })
        }),
        Effect.catchAll((error) => Effect.logWarning(left(store), error))
      )
    )
    yield* Effect.flatMap(everywhere, (all) => {
      const left = all.filter(({ batches, plan }) => plan || batches.length > 0) // sessions that ended well are many
      return Effect.forEach(left, takeUp, { discard: true })
    })

    return {
      append: (viewer, session, messages) => Effect.withSpan(append(viewer, session, messages), "Outbox.append"),
      sessionEnd: (viewer, session) => using({ viewer, session }, ({ tell }) => tell({ _tag: "SessionEnd" })),
      flush: Effect.withSpan(flush, "Outbox.flush"),
      status: Effect.sync(() => {
        const waiting = Array.from(lanes.values()).flatMap(({ kept }) => Kept.waiting(kept))
        return {
          waiting: waiting.reduce((sum, { from, to }) => sum + to - from, 0),
          parked: Array.from(ledger.parked.values()).reduce((sum, count) => sum + count, 0),
          failuresInARow: draining.failuresInARow(),
          durable: store.capabilities.durable
        }
      }),
      parked: Effect.map(everywhere, (all) =>
        all.flatMap((kept) => {
          const { session, viewer } = kept
          return Kept.parked(kept).map(({ from, parked: reason = "", to }) => ({ viewer, session, from, to, reason }))
        })),
      release: Effect.flatMap(everywhere, (all) =>
        Effect.forEach(
          all.filter((kept) => Kept.parked(kept).length > 0),
          releaseOf
        )).pipe(
          Effect.map((counts) => counts.reduce((sum, count) => sum + count, 0))
        )
    }
  })

export const layer = (
  options: Options = {}
): Layer.Layer<Outbox, MemoryError.MemoryError, MemoryStore.MemoryStore | MemoryPipeline.MemoryPipeline> =>
  Layer.scoped(
    Outbox,
    Effect.flatMap(
      Effect.all([MemoryStore.MemoryStore, MemoryPipeline.MemoryPipeline]),
      ([store, pipeline]) => make(store, pipeline, options)
    )
  )

const left = ({ capabilities, name }: MemoryStore.Service): string =>
  capabilities.durable
    ? `${name}: what is unread waits in the store`
    : `${name}: what is unread is lost, for the store is volatile`

const unheard: Listener = {
  applied: () => Effect.void,
  degraded: (_, part) => (error) => Effect.logWarning(`memory: no ${part}`, error)
}
