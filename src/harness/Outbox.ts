/**
 * Keeps messages until they are extracted, as rows of the store itself: each is extracted once, even across crashes. Use it
 * through `MemoryManager`, or directly if a program of its own feeds one store.
 *
 * ```text
 * append     the messages are kept                                       before a trigger may fire
 * read       the model is asked, and its plan is kept                    a retry asks it no more
 * write      the plan, and the end of its messages                       one batch: all of it or nothing
 * ```
 *
 * A line is a conversation: a viewer's messages of one session, read in order, one reading at a time. A batch that can
 * never succeed is parked: one that fails permanently, or that failed ten times while other batches succeeded. Messages
 * that another process left behind are read when the layer is built. Several processes may share a store; of those that
 * read the same batch, the first one writes.
 *
 * Many tenants share an outbox, and none waits for another:
 *
 * ```text
 * limits     A line has room for 1,000 batches that wait, a tenant for 10,000. An append that finds no room has the
 *            line's oldest batches read at once; where nothing of the line waits, those of another line of the tenant.
 *            Where that fails, or takes longer than a `turn`, the append fails with `rate_limited`; it never hangs.
 * readers    16 readings run at once. A free reader goes to the tenants in rotation, and within a tenant to the line
 *            that has waited longest. One reading of up to 100 messages is a turn; then the line queues again.
 * hanging    A reading that outlasts its turn of ten seconds moves to the half of the readers that is kept for slow
 *            readings, up to its timeout. Where that half is full, tenants share it evenly, and a reading without a
 *            place is stopped and started again later. So readings that hang hold up only one another.
 * failures   After ten failures in a row of a line, only every third request of that line is tried.
 * ```
 */
import * as Arr from "effect/Array"
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
import * as Breathing from "./Outbox/Breathing.ts"
import * as Capacity from "./Outbox/Capacity.ts"
import * as Draining from "./Outbox/Draining.ts"
import * as Hearing from "./Outbox/Hearing.ts"
import { issuesOf } from "./Outbox/Issues.ts"
import * as Kept from "./Outbox/Kept.ts"
import * as Lane from "./Outbox/Lane.ts"
import * as Ledger from "./Outbox/Ledger.ts"
import * as Reading from "./Outbox/Reading.ts"
import * as ReadingTurns from "./Outbox/ReadingTurns.ts"
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
  /**
   * Keeps the messages and returns the sequence number of the first one in the session. Fails with `invalid_scope` if there
   * is no scope to remember them in, and with `rate_limited` and `retryAfter` (milliseconds) if too many batches wait and
   * could not be read at once.
   */
  readonly append: (
    viewer: Viewer.Viewer,
    session: string,
    messages: ReadonlyArray<Message>
  ) => Effect.Effect<number, MemoryError.MemoryError>
  /** For triggers that wait for it. */
  readonly sessionEnd: (viewer: Viewer.Viewer, session: string) => Effect.Effect<void, MemoryError.MemoryError>
  /**
   * Reads every line in which messages wait, regardless of triggers and backoff. Fails if a line could be neither written
   * nor parked. The error has counts only: a flush has no viewer, so it names no user's message, id or text.
   */
  readonly flush: Effect.Effect<void, MemoryError.MemoryError>
  readonly status: Effect.Effect<Status>
  /** Of every tenant, as the store has them. */
  readonly parked: Effect.Effect<ReadonlyArray<Parked>, MemoryError.MemoryError>
  /** Takes up again what was given up on; how many batches. */
  readonly release: Effect.Effect<number, MemoryError.MemoryError>
}

export class Outbox extends Context.Tag("@memory/Outbox")<Outbox, Service>() {}

export interface ExtractionConfig {
  /** Default `ExtractionTrigger.standard`: every five turns, at the end of the session, and after two quiet minutes. */
  readonly trigger?: ExtractionTrigger.ExtractionTrigger | undefined
  /** `pipeline`, or `ingest`: the messages as they are. Default: whichever the store takes, `ingest` first. */
  readonly extractor?: "pipeline" | "ingest" | undefined
  /**
   * The scope that the facts are about. Default: the viewer's user; else its agent, if it names neither session nor actor;
   * else all of its ids, so that a visitor's facts stay with the visit. `agent`: the viewer's agent, so that every other
   * conversation of the agent sees them; for a viewer with a user, `options.sharedWrites` must then include `agent`.
   */
  readonly about?: "agent" | undefined
  /** Options of every extraction. A `scope` here takes precedence over `about`. */
  readonly options?: Partial<MemoryPipeline.Options> | undefined
  /** Default: no tool calls, no tool results. */
  readonly filter?: ((message: Message) => boolean) | undefined
}

export interface Options extends ExtractionConfig {
  /** Batches of a tenant that may wait, at least 1; each append is a batch. Default 10,000. */
  readonly capacityPerTenant?: number | undefined
  /** Batches of a line that may wait, at least 1. Default 1,000. */
  readonly capacityPerLine?: number | undefined
  /** Readings, and so model calls, at once; at least 2. One half, rounded down, is kept for slow readings. Default 16. */
  readonly concurrency?: number | undefined
  /** Longest time that a reading may hold a reader that others wait for, and that an append waits for room. Default 10 s. */
  readonly turn?: Duration.DurationInput | undefined
  /** Between attempts of a line. Default exponential from a second, five minutes at most. */
  readonly retry?: Schedule.Schedule<unknown, MemoryError.MemoryError> | undefined
  /** For an answer to one reading; then it has failed, and is tried again. Default two minutes. */
  readonly timeout?: Duration.DurationInput | undefined
  /** Lines that are followed though nothing waits in them; of the longest idle, the trigger begins anew. Default 1,000. */
  readonly openLines?: number | undefined
  /** For how long the scope's end waits for what is unread; then it stays in the store. 0 waits for nothing. Default 30 seconds. */
  readonly flushTimeout?: Duration.DurationInput | undefined
}

/** What is to be told of. */
export interface Listener {
  readonly applied: (viewer: Viewer.Viewer, applied: ReadonlyArray<Applied>) => Effect.Effect<void>
  readonly degraded: (viewer: Viewer.Viewer, part: string) => (error: MemoryError.MemoryError) => Effect.Effect<void>
}

/** Number of lines that a flush requests at once; `concurrency` limits how many of them are read at once. */
const flushing = 256

export const make = (
  store: MemoryStore.Service,
  pipeline: MemoryPipeline.Service,
  options: Options = {},
  listener: Listener = unheard
): Effect.Effect<Service, MemoryError.MemoryError, Scope.Scope> =>
  Effect.gen(function*() {
    const {
      capacityPerLine = 1_000,
      capacityPerTenant = 10_000,
      concurrency = 16,
      filter = Hearing.isSpoken,
      flushTimeout = "30 seconds",
      openLines = 1_000,
      retry = Schedule.either(Schedule.exponential("1 second"), Schedule.spaced("5 minutes")),
      timeout = "2 minutes",
      trigger = ExtractionTrigger.standard,
      turn = "10 seconds"
    } = options
    const [issue, ...issues] = issuesOf(options)
    if (issue !== undefined) {
      const message = [issue, ...issues].join("; ")
      return yield* MemoryError.make("invalid_draft", { op: "Outbox", message, detail: { issues: [issue, ...issues] } })
    }
    const scope = yield* Effect.flatMap(Effect.scope, (scope) => Scope.fork(scope, ExecutionStrategy.sequential))
    const opening = yield* Effect.makeSemaphore(1)
    const lanes = new Map<string, Lane.Lane>()
    const idle = new Set<Lane.Lane>() // in order of use
    const breathing = Breathing.make()
    const ledger = Ledger.make(store, Capacity.make({ capacityPerLine, capacityPerTenant, patience: turn }), breathing)
    const reading = Reading.make({ store, pipeline, options, listener, ledger, timeout })
    const draining = Draining.make({
      ledger,
      reading,
      listener,
      breathing,
      turns: ReadingTurns.make({ concurrency, turn })
    })

    /** Closes the lines that have been idle longest, if more than `openLines` are open. */
    const settle = (lane: Lane.Lane) =>
      Effect.suspend(() => {
        idle.delete(lane)
        if (Lane.isIdle(lane) && lanes.get(lane.key) === lane) idle.add(lane)
        const closing: Array<Lane.Lane> = []
        for (const oldest of idle) {
          if (lanes.size <= openLines) break
          idle.delete(oldest)
          lanes.delete(oldest.key)
          closing.push(oldest)
        }
        return Effect.forEach(closing, ({ close }) => Effect.forkIn(close, scope), { discard: true })
      })
    const drain = (lane: Lane.Lane) => Effect.ensuring(draining.drain(lane), settle(lane))
    const attempt = (lane: Lane.Lane) => Effect.ensuring(draining.attempt(lane), settle(lane))
    const open = (line: Rows.Line) =>
      opening.withPermits(1)(Effect.gen(function*() {
        const key = Rows.keyOf(line)
        const lane = lanes.get(key) ?? (yield* Scope.extend(Lane.make(line, { trigger, retry, attempt }), scope))
        lanes.set(key, lane)
        idle.delete(lane)
        lane.users++
        return lane
      }))
    const using = <A, E>(line: Rows.Line, use: (lane: Lane.Lane) => Effect.Effect<A, E>) =>
      Effect.acquireUseRelease(open(line), use, (lane) => {
        lane.users--
        return settle(lane)
      })

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

    const flush = Effect.suspend(() => {
      const open = Array.from(lanes.values()).filter((lane) => lane.isStale || lane.isReading || !Lane.isEmpty(lane))
      return Effect.flatMap(
        Effect.forEach(open, (lane) => Effect.either(drain(lane)), { concurrency: flushing }),
        (results) => unwritten(Arr.getLefts(results), results.length)
      )
    })

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
      return Effect.forEach(left, (kept) => Effect.zipRight(breathing.step, takeUp(kept)), { discard: true })
    })

    return {
      append: (viewer, session, messages) =>
        Viewer.required("append", viewer, (viewer) => append(viewer, session, messages)).pipe(
          Effect.withSpan("Outbox.append")
        ),
      sessionEnd: (viewer, session) =>
        Viewer.required("sessionEnd", viewer, (viewer) =>
          using({ viewer, session }, ({ tell }) =>
            tell({ _tag: "SessionEnd" }))),
      flush: Effect.withSpan(flush, "Outbox.flush"),
      status: Effect.sync(() => {
        let waiting = 0
        for (const { kept } of lanes.values()) {
          for (const { from, to } of Kept.waiting(kept)) {
            waiting += to - from
          }
        }
        return {
          waiting,
          parked: Array.from(ledger.parked.values()).reduce((sum, count) =>
            sum + count, 0),
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

/** Fails with the number of failed lines per reason; quotes none of their errors, which may hold a user's words. */
const unwritten = (
  errors: ReadonlyArray<MemoryError.MemoryError>,
  tried: number
): Effect.Effect<void, MemoryError.MemoryError> => {
  if (errors.length === 0) return Effect.void
  const counts = new Map<MemoryError.Reason, number>()
  for (const { reason } of errors) counts.set(reason, (counts.get(reason) ?? 0) + 1)
  const reasons = Array.from(counts).sort(([a, n], [b, m]) => m - n || (a < b ? -1 : 1))
  return MemoryError.make(counts.size === 1 && counts.has("model") ? "model" : "unavailable", {
    op: "flush",
    message: `${errors.length} of ${tried} conversations could not be written: ${
      reasons.map(([reason, count]) => `${reason} ${count}`).join(", ")
    }`
  })
}

const left = ({ capabilities, name }: MemoryStore.Service): string =>
  capabilities.durable
    ? `${name}: what is unread waits in the store`
    : `${name}: what is unread is lost, for the store is volatile`

const unheard: Listener = {
  applied: () => Effect.void,
  degraded: (_, part) => (error) => Effect.logWarning(`memory: no ${part}`, error)
}
