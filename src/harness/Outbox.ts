/**
 * Messages on their way into memory, as rows of the store itself: each is extracted once, whatever crashes.
 *
 * ```text
 * append     the messages are kept                                       before a trigger may fire
 * read       the model is asked, and its plan is kept                    a retry asks it no more
 * write      the plan, the end of its messages and the next place        one batch: all of it or nothing
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
import { Message } from "../domain/Message.ts"
import { withoutMemory } from "../domain/PromptText.ts"
import * as Viewer from "../domain/Viewer.ts"
import * as MemoryPipeline from "../pipeline/MemoryPipeline.ts"
import * as MemoryStore from "../storage/MemoryStore.ts"
import * as ExtractionTrigger from "./ExtractionTrigger.ts"
import * as Lane from "./Outbox/Lane.ts"
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
  /** Past triggers and backoff: every row is tried. Fails where one could be neither written nor parked, and waits on. */
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
  /** Of every fact. Default: the viewer's user, else its agent, else all of its ids. */
  readonly options?: Partial<MemoryPipeline.Options> | undefined
  /** Default: no tool calls, no tool results. */
  readonly filter?: ((message: Message) => boolean) | undefined
}

export interface Options extends ExtractionConfig {
  /** Rows; then `append` waits. Default 10,000. */
  readonly capacity?: number | undefined
  /** Between attempts of a line. Default exponential from a second, five minutes at most. */
  readonly retry?: Schedule.Schedule<unknown, MemoryError.MemoryError> | undefined
  /** For how long the scope's end waits for what is unread; then it stays in the store. Default 30 seconds. */
  readonly flushTimeout?: Duration.DurationInput | undefined
}

/** What is to be told of. */
export interface Listener {
  readonly applied: (viewer: Viewer.Viewer, applied: ReadonlyArray<Applied>) => Effect.Effect<void>
  readonly degraded: (viewer: Viewer.Viewer, part: string) => (error: MemoryError.MemoryError) => Effect.Effect<void>
}

/** Lines that nothing waits in, beyond which the longest idle is closed: its trigger begins anew. */
const lanesKept = 1_000
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
      filter = isSpoken,
      flushTimeout = "30 seconds",
      retry = Schedule.either(Schedule.exponential("1 second"), Schedule.spaced("5 minutes")),
      trigger = ExtractionTrigger.interval(5)
    } = options
    const scope = yield* Effect.flatMap(Effect.scope, (scope) => Scope.fork(scope, ExecutionStrategy.sequential))
    const room = yield* Effect.makeSemaphore(capacity)
    const opening = yield* Effect.makeSemaphore(1)
    const lanes = new Map<string, Lane.Lane>() // in order of use
    const reading = yield* Reading.make({ store, pipeline, options, listener, room, concurrency })

    const open = (line: Rows.Line) =>
      opening.withPermits(1)(Effect.gen(function*() {
        const key = Rows.keyOf(line)
        const lane = lanes.get(key) ??
          (yield* Scope.extend(Lane.make(line, { trigger, retry, attempt: reading.attempt }), scope))
        lanes.delete(key)
        lanes.set(key, lane)
        lane.users++
        for (const idle of lanes.values()) {
          if (lanes.size <= lanesKept) break
          if (idle.users > 0 || idle.batches.length > 0 || idle.plan) continue
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
          yield* Reading.scopeOf(options, viewer)
          const from = yield* lane.appending.withPermits(1)(
            reading.append(lane, messages.map(plain), (message) => message.content.trim() !== "" && filter(message))
          )
          yield* Effect.forEach(messages, (message, i) => lane.tell({ _tag: "Message", message, sequence: from + i }), {
            discard: true
          })
          yield* lane.tell({ _tag: "TurnEnd" })
          return from
        }))

    const flush = Effect.suspend(() =>
      Effect.forEach(
        Array.from(lanes.values()),
        (lane) => Effect.either(reading.drain(lane)),
        { concurrency }
      )
    ).pipe(Effect.flatMap((results) => Effect.forEach(results, (result) => result, { discard: true })))

    const everywhere = Effect.flatMap(store.tenants, Effect.forEach((tenant) => Rows.read(store, tenant))).pipe(
      Effect.map((all) => all.flat())
    )
    const takeUp = Effect.flatMap(everywhere, (all) => {
      reading.parked(all.flatMap(({ batches }) => batches).filter(({ parked }) => parked !== undefined).length)
      const waiting = all.filter(({ batches, plan }) => plan || batches.some(({ parked }) => parked === undefined))
      return Effect.forEach(
        waiting,
        (kept) => using(kept, (lane) => Effect.zipRight(reading.known(lane, kept), lane.ask)),
        { discard: true }
      )
    })

    yield* Effect.addFinalizer(() =>
      flush.pipe(
        Effect.interruptible,
        Effect.timeoutFail({
          duration: flushTimeout,
          onTimeout: () => MemoryError.make("unavailable", { op: "flush", message: "it took too long" })
        }),
        Effect.catchAll((error) => Effect.logWarning(left(store), error))
      )
    )
    yield* takeUp

    return {
      append: (viewer, session, messages) => Effect.withSpan(append(viewer, session, messages), "Outbox.append"),
      sessionEnd: (viewer, session) => using({ viewer, session }, ({ tell }) => tell({ _tag: "SessionEnd" })),
      flush: Effect.withSpan(flush, "Outbox.flush"),
      status: Effect.sync(() => reading.status(lanes.values())),
      parked: Effect.map(everywhere, (all) =>
        all.flatMap(({ batches, session, viewer }) =>
          batches.flatMap(({ from, parked, to }) =>
            parked === undefined ? [] : [{ viewer, session, from, to, reason: parked }]
          )
        )),
      release: Effect.flatMap(everywhere, (all) =>
        reading.release(all)).pipe(Effect.tap(takeUp))
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

/** What injection put there is no news. */
const plain = (message: Message): Message =>
  new Message({ ...message, content: withoutMemory(message.content) }, { disableValidation: true })

const isSpoken = ({ role, tool }: Message): boolean => role !== "tool" && tool !== true

const left = ({ capabilities, name }: MemoryStore.Service): string =>
  capabilities.durable
    ? `${name}: what is unread waits in the store`
    : `${name}: what is unread is lost, for the store is volatile`

const unheard: Listener = {
  applied: () => Effect.void,
  degraded: (_, part) => (error) => Effect.logWarning(`memory: no ${part}`, error)
}
