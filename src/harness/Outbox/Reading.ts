/**
 * How a line becomes memories.
 *
 * Law: what came of a batch, the end of its rows and the next place are one write. So whoever comes second finds no rows,
 * and whoever comes after a crash finds either all of it or nothing.
 */
import * as Effect from "effect/Effect"
import * as MemoryError from "../../domain/MemoryError.ts"
import type { Applied, MemoryMutation } from "../../domain/MemoryMutation.ts"
import type { Draft, MemoryRecord } from "../../domain/MemoryRecord.ts"
import { Global, type MemoryScope } from "../../domain/MemoryScope.ts"
import type { Message } from "../../domain/Message.ts"
import * as Viewer from "../../domain/Viewer.ts"
import type * as MemoryPipeline from "../../pipeline/MemoryPipeline.ts"
import type * as MemoryStore from "../../storage/MemoryStore.ts"
import type { ExtractionConfig, Listener, Status } from "../Outbox.ts"
import type { Lane } from "./Lane.ts"
import * as Rows from "./Rows.ts"

type Io<A> = Effect.Effect<A, MemoryError.MemoryError>

export interface Reading {
  /** What the store is known to hold of a line. */
  readonly known: (lane: Lane, kept: Rows.Kept) => Effect.Effect<void>
  /** Keeps those that `meant` means; the place of the first of all. Waits for room. */
  readonly append: (lane: Lane, messages: ReadonlyArray<Message>, meant: (message: Message) => boolean) => Io<number>
  /** One request: tried as long as things go well, and every third one else. */
  readonly attempt: (lane: Lane) => Io<void>
  /** Reads until nothing waits; fails where something does. */
  readonly drain: (lane: Lane) => Io<void>
  /** Takes up again what was parked; how many batches. */
  readonly release: (all: ReadonlyArray<Rows.Kept>) => Io<number>
  /** How many batches the store holds that were parked. */
  readonly parked: (count: number) => void
  readonly status: (lanes: Iterable<Lane>) => Status
}

/** Failures in a row after which a request is tried only every third time, or its batch may be the one at fault. */
const patience = 10
/** Messages that are read at once. */
const most = 100
/** How often a place is looked for anew where another process was first. */
const attempts = 50

export const make = ({ concurrency, listener, options, pipeline, room, store }: {
  readonly store: MemoryStore.Service
  readonly pipeline: MemoryPipeline.Service
  readonly options: ExtractionConfig
  readonly listener: Listener
  /** A permit for each batch. */
  readonly room: Effect.Semaphore
  readonly concurrency: number
}): Effect.Effect<Reading> =>
  Effect.map(Effect.makeSemaphore(concurrency), (readers): Reading => {
    const { extractor = store.capabilities.messages ? "ingest" : "pipeline" } = options
    let failuresInARow = 0
    let successes = 0
    let requests = 0
    let parkedCount = 0

    const system = ({ viewer }: Rows.Line) => Viewer.system(viewer.tenant)
    const put = (drafts: ReadonlyArray<Draft>, ifRevision?: number): ReadonlyArray<MemoryMutation> =>
      drafts.map((draft) => ({ _tag: "Put", draft, ifRevision }))
    const write = (line: Rows.Line, mutations: ReadonlyArray<MemoryMutation>, provenance = ours) =>
      store.apply(system(line), mutations, provenance)

    const hold = (lane: Lane, batches: ReadonlyArray<Rows.Batch>) => {
      lane.batches = batches
      const free = lane.held - Math.min(lane.held, batches.length)
      lane.held -= free
      return free > 0 ? Effect.asVoid(room.release(free)) : Effect.void
    }
    const known = (lane: Lane, kept: Rows.Kept) =>
      Effect.suspend(() => {
        lane.next = Math.max(lane.next ?? 0, kept.next)
        lane.plan = kept.plan
        return hold(lane, kept.batches.filter(({ parked }) => parked === undefined))
      })
    /** What the store says now: another process may have been at it. */
    const refresh = (lane: Lane) =>
      Effect.flatMap(Rows.read(store, lane.viewer.tenant), (all) =>
        known(
          lane,
          all.find((kept) => Rows.keyOf(kept) === lane.key) ?? { ...lane, next: 0, batches: [], plan: undefined }
        ))

    const append: Reading["append"] = (lane, messages, meant) =>
      Effect.gen(function*() {
        if (lane.next === undefined) lane.next = Math.max(lane.next ?? 0, yield* Rows.nextOf(store, lane))
        for (let left = attempts; left > 0; left--) {
          const from = lane.next
          const to = from + messages.length
          const entries = messages.flatMap((message, i) => meant(message) ? [{ sequence: from + i, message }] : [])
          if (entries.length === 0) {
            lane.next = to
            return from
          }
          const isKept = yield* Effect.uninterruptibleMask((restore) =>
            Effect.zipRight(
              restore(room.take(1)),
              write(lane, put(Rows.messages(lane, { from, to }, entries), 0)).pipe(
                Effect.map((applied) => {
                  const rows = applied.map(({ id, record }) => ({ id, revision: record!.revision })) // it was put
                  lane.batches = [...lane.batches, { from, to, rows, parked: undefined }]
                  lane.held++
                  lane.next = Math.max(lane.next ?? 0, to)
                  return true
                }),
                Effect.tapError(() => room.release(1)),
                MemoryError.catchReason("conflict", () => Effect.succeed(false))
              )
            )
          )
          if (isKept) return from
          yield* refresh(lane)
        }
        return yield* MemoryError.make("unavailable", {
          op: "append",
          message: `others were first, ${attempts} times`
        })
      })

    /** The write that ends what was read. */
    const finish = (
      lane: Lane,
      batches: ReadonlyArray<Rows.Batch>,
      mutations: ReadonlyArray<MemoryMutation>,
      provenance: MemoryStore.Provenance = ours
    ) =>
      Effect.gen(function*() {
        const rows = [...batches.flatMap(({ rows }) => rows), ...lane.plan?.rows ?? []]
        const last = Rows.session(lane, lane.next ?? 0)
        const applied = yield* write(lane, [...mutations, ...Rows.erase(rows), last], provenance)
        const gone = new Set(batches)
        lane.plan = undefined
        yield* hold(lane, lane.batches.filter((batch) => !gone.has(batch)))
        const made = applied.slice(0, mutations.length)
        yield* listener.applied(lane.viewer, made)
        return made
      }).pipe(Effect.uninterruptible)

    const planned = (
      lane: Lane,
      batches: ReadonlyArray<Rows.Batch>,
      mutations: ReadonlyArray<MemoryMutation>,
      provenance: MemoryStore.Provenance
    ) =>
      Effect.gen(function*() {
        const of = batches.flatMap(({ rows }) => rows.map(({ id }) => id))
        const old = lane.plan?.rows ?? []
        const drafts = Rows.plan(lane, mutations, provenance, of)
        const applied = yield* write(lane, [...Rows.erase(old.slice(drafts.length)), ...put(drafts)])
        const rows = applied.flatMap(({ id, record }) => record ? [{ id, revision: record.revision }] : [])
        lane.plan = { rows, mutations, provenance, of }
      }).pipe(Effect.uninterruptible)

    const standing = (lane: Lane, batches: ReadonlyArray<Rows.Batch>) =>
      Rows.records(store, lane.viewer.tenant, batches.flatMap(({ rows }) => rows))

    const read = (lane: Lane, batches: ReadonlyArray<Rows.Batch>) =>
      Effect.gen(function*() {
        const { session, viewer } = lane
        const scope = yield* scopeOf(options, viewer)
        const entries = (yield* Effect.forEach(batches, ({ rows }) => Rows.entries(store, viewer.tenant, rows))).flat()
        const messages = entries.map(({ message }) => message)
        if (extractor === "ingest" && store.ingest._tag === "Some") {
          for (const run of runs(entries)) {
            yield* store.ingest.value(viewer, session, run.map(({ message }) => message), run[0]!.sequence) // never empty
          }
          return yield* Effect.asVoid(finish(lane, batches, []))
        }
        let isDone = false
        const infer = extractor === "pipeline"
        yield* pipeline.remember(viewer, messages, {
          infer,
          session,
          ...options.options,
          scope,
          sequence: entries.map(({ sequence }) => sequence),
          apply: (_, mutations, provenance) =>
            Effect.gen(function*() {
              if (infer) yield* planned(lane, batches, mutations, provenance)
              const applied = yield* finish(lane, batches, mutations, provenance)
              isDone = true
              return applied
            }).pipe(
              // a conflict of ours is none that another plan would mend
              MemoryError.catchReason("conflict", (error) => Effect.zipRight(standing(lane, batches), error))
            )
        })
        if (!isDone) yield* finish(lane, batches, [])
      })

    /** What the model said before whatever came between. A plan that does not fit any more is made anew. */
    const resume = (lane: Lane, plan: Rows.Plan) =>
      Effect.gen(function*() {
        const of = new Set(plan.of)
        const batches = lane.batches.filter(({ rows }) => rows.every(({ id }) => of.has(id)))
        const isWhole = batches.flatMap(({ rows }) => rows).length === plan.of.length
        const made = yield* Effect.either(
          isWhole
            ? finish(lane, batches, plan.mutations, plan.provenance)
            : MemoryError.make("conflict", moved(plan.of.length, batches.length))
        )
        if (made._tag === "Right") return yield* embedded(lane, made.right)
        if (made.left.isRetryable && made.left.reason !== "conflict") return yield* made.left
        yield* write(lane, Rows.erase(plan.rows))
        lane.plan = undefined
      })
    const embedded = (lane: Lane, applied: ReadonlyArray<Applied>) =>
      pipeline.embed(applied.flatMap(({ outcome, record }): ReadonlyArray<MemoryRecord> =>
        record && outcome !== "duplicate" ? [record] : []
      )).pipe(Effect.asVoid, Effect.catchAll(listener.degraded(lane.viewer, "vector")))

    const next = (lane: Lane): ReadonlyArray<Rows.Batch> => {
      if (lane.single) {
        return lane.batches.slice(0, 1)
      }
      const first = lane.batches[0]?.from ?? 0
      return lane.batches.filter(({ to }, i) =>
        i === 0 || to - first <= most
      )
    }

    const park = (lane: Lane, batches: ReadonlyArray<Rows.Batch>, { message, reason }: MemoryError.MemoryError) =>
      Effect.gen(function*() {
        const all = yield* standing(lane, batches)
        yield* write(lane, all.map((record) => Rows.parking(record, `${reason}: ${message}`)))
        const gone = new Set(batches)
        parkedCount += batches.length
        yield* hold(lane, lane.batches.filter((batch) => !gone.has(batch)))
      }).pipe(Effect.uninterruptible)

    const succeeded = (lane: Lane) =>
      Effect.sync(() => {
        failuresInARow = requests = lane.failures = 0
        successes++
        if (lane.batches.length === 0) lane.single = false
      })
    const failed = (lane: Lane, batches: ReadonlyArray<Rows.Batch>, error: MemoryError.MemoryError): Io<void> =>
      Effect.gen(function*() {
        if (error.reason === "not_found") {
          const before = lane.batches
          yield* refresh(lane)
          if (batches.some(({ rows }) => !lane.batches.some((batch) => batch.rows[0]!.id === rows[0]!.id))) return // never empty
          lane.batches = before
        }
        failuresInARow++
        if (lane.failures++ === 0) lane.since = successes
        yield* listener.degraded(lane.viewer, "extraction")(error)
        const isItsOwn = !error.isRetryable || (lane.failures >= patience && successes > lane.since)
        if (!isItsOwn) return yield* error
        if (batches.length > 1) {
          lane.single = true
          return
        }
        yield* park(lane, batches, error)
        lane.failures = 0
        if (!error.isRetryable) failuresInARow--
      })

    const step = (lane: Lane): Io<void> =>
      Effect.suspend(() => {
        const batches = next(lane)
        return (lane.plan ? resume(lane, lane.plan) : read(lane, batches)).pipe(
          Effect.catchAllDefect((cause) =>
            MemoryError.make("unsupported", { op: "extract", message: "the extraction died", cause })
          ),
          Effect.matchEffect({
            onSuccess: () => succeeded(lane),
            onFailure: (error) => failed(lane, batches, error)
          })
        )
      })
    const drain = (lane: Lane): Io<void> => {
      const steps: Io<void> = Effect.suspend(() =>
        lane.batches.length === 0 && lane.plan === undefined ? Effect.void : Effect.zipRight(step(lane), steps)
      )
      return Effect.withSpan(lane.draining.withPermits(1)(readers.withPermits(1)(steps)), "Outbox.drain")
    }

    return {
      known,
      append,
      drain,
      attempt: (lane) =>
        Effect.suspend(() =>
          failuresInARow < patience || ++requests % 3 === 0
            ? drain(lane)
            : MemoryError.make("unavailable", { op: "extract", message: "most attempts failed lately" })
        ),
      release: (all) =>
        Effect.map(
          Effect.forEach(all, (kept) => {
            const parked = kept.batches.filter(({ parked }) => parked !== undefined)
            return parked.length === 0 ? Effect.succeed(0) : Effect.flatMap(
              Rows.records(store, kept.viewer.tenant, parked.flatMap(({ rows }) => rows)),
              (records) =>
                Effect.as(write(kept, records.map((record) => Rows.parking(record, undefined))), parked.length)
            )
          }),
          (counts) => counts.reduce((sum, count) => sum + count, 0)
        ),
      parked: (count) => {
        parkedCount = count
      },
      status: (lanes) => ({
        waiting: Array.from(lanes).flatMap(({ batches }) => batches).reduce((sum, { from, to }) => sum + to - from, 0),
        parked: parkedCount,
        failuresInARow,
        durable: store.capabilities.durable
      })
    }
  })

/** Whom what is said is about. */
export const scopeOf = (
  { options }: ExtractionConfig,
  viewer: Viewer.Viewer
): Effect.Effect<MemoryScope, MemoryError.MemoryError> => {
  const { agentId, userId } = viewer
  const scopes = options?.scope !== undefined
    ? [options.scope]
    : [userId !== undefined && { userId }, agentId !== undefined && { agentId }, Viewer.scopeOf(viewer)]
  const scope = scopes.find((scope) => scope !== false && Viewer.sees(viewer, scope))
  return scope && (scope !== Global || options?.scope === Global)
    ? Effect.succeed(scope)
    : MemoryError.make("invalid_scope", { op: "append", message: "nobody that the viewer could remember it of" })
}

const ours: MemoryStore.Provenance = { origin: "pipeline", trust: 1 }

/** Of places that follow one another. */
const runs = (entries: ReadonlyArray<Rows.Entry>): ReadonlyArray<ReadonlyArray<Rows.Entry>> => {
  const all: Array<Array<Rows.Entry>> = []
  for (const entry of entries) {
    const last = all.at(-1)
    if (last && last.at(-1)!.sequence + 1 === entry.sequence) last.push(entry) // never empty
    else all.push([entry])
  }
  return all
}

const moved = (expected: number, actual: number) => ({
  op: "outbox",
  message: "some of what was planned from is gone",
  detail: { expected, actual }
})
