/** How what waits becomes memories: the model is asked, its plan is kept, and the plan is written. */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as MemoryError from "../../domain/MemoryError.ts"
import type { Applied, MemoryMutation } from "../../domain/MemoryMutation.ts"
import type { MemoryRecord } from "../../domain/MemoryRecord.ts"
import { Global, type MemoryScope } from "../../domain/MemoryScope.ts"
import * as Sharing from "../../domain/Sharing.ts"
import * as Viewer from "../../domain/Viewer.ts"
import type * as MemoryPipeline from "../../pipeline/MemoryPipeline.ts"
import type * as MemoryStore from "../../storage/MemoryStore.ts"
import type { ExtractionConfig, Listener } from "../Outbox.ts"
import * as Kept from "./Kept.ts"
import type { Lane } from "./Lane.ts"
import type { Ledger } from "./Ledger.ts"
import * as Rows from "./Rows.ts"

type Io<A> = Effect.Effect<A, MemoryError.MemoryError>

export interface Reading {
  /** Asks for what they mean, and writes it with their end; `taken` where somebody else was first. */
  readonly read: (lane: Lane, batches: ReadonlyArray<Rows.Batch>) => Io<void>
  /** What the model said before whatever came between; `false` where that does not fit any more, and is gone. */
  readonly resume: (lane: Lane, plan: Rows.Plan) => Io<boolean>
}

export const make = ({ ledger, listener, options, pipeline, store, timeout }: {
  readonly store: MemoryStore.Service
  readonly ledger: Ledger
  readonly pipeline: MemoryPipeline.Service
  readonly options: ExtractionConfig
  readonly listener: Listener
  /** Of what is asked of the model, or of the store that reads for itself. */
  readonly timeout: Duration.DurationInput
}): Reading => {
  const { extractor = store.capabilities.messages ? "ingest" : "pipeline" } = options
  const infer = options.options?.infer ?? extractor === "pipeline"

  /** Limits the time of a call, without waiting for one that ignores interruption: its late write finds its rows gone. */
  const inTime = <A>(self: Io<A>): Io<A> =>
    Effect.timeoutFail(Effect.disconnect(self), {
      duration: timeout,
      onTimeout: () =>
        MemoryError.make("unavailable", {
          op: "extract",
          message: `no answer within ${Duration.format(Duration.decode(timeout))}`
        })
    })
  const finish = (
    lane: Lane,
    batches: ReadonlyArray<Rows.Batch>,
    plan: Rows.Plan | undefined,
    mutations: ReadonlyArray<MemoryMutation>,
    provenance?: MemoryStore.Provenance
  ) =>
    Effect.tap(
      ledger.finish(lane, batches, plan, mutations, provenance),
      (applied) => listener.applied(lane.viewer, applied)
    )
  /**
   * Whether the plan writes only scopes that are open today. A plan outlives its process: another configuration, or a
   * release with other rules, may have made it.
   */
  const isOpen = ({ viewer }: Lane, { mutations }: Rows.Plan): Io<boolean> =>
    Effect.gen(function*() {
      const target = yield* Effect.either(targetOf(options, viewer))
      if (Either.isLeft(target)) return false
      const { sharedWrites } = target.right
      const ids = mutations.flatMap((mutation) => mutation._tag === "Put" ? [] : [mutation.id])
      const records = Array.from(yield* store.get(Viewer.system(viewer.tenant), ids), Option.toArray).flat()
      const puts = mutations.flatMap((mutation) => mutation._tag === "Put" ? [mutation.draft] : [])
      return [...puts, ...records].every(({ scope }) => Sharing.mayWrite(viewer, scope, sharedWrites))
    })
  const noVector = ({ viewer }: Lane) => listener.degraded(viewer, "vector")

  return {
    read: (lane, batches) =>
      Effect.gen(function*() {
        const { session, viewer } = lane
        const { scope, sharedWrites } = yield* targetOf(options, viewer)
        const entries = yield* Kept.entries(store, viewer.tenant, batches)
        if (extractor === "ingest" && store.ingest._tag === "Some") {
          for (const run of runs(entries)) {
            const messages = run.map(({ message }) => message)
            yield* inTime(store.ingest.value(viewer, session, messages, run[0]!.sequence)) // never empty
          }
          return yield* Effect.asVoid(finish(lane, batches, undefined, []))
        }

        let plan: Rows.Plan | undefined
        let isWritten = false
        const apply: MemoryPipeline.Apply = (_, mutations, provenance) =>
          Effect.gen(function*() {
            if (infer) plan = yield* ledger.plan(lane, batches, { mutations, provenance }, plan)
            const applied = yield* finish(lane, batches, plan, mutations, provenance)
            isWritten = true
            return applied
          }).pipe(Effect.uninterruptible)
        const remembered = pipeline.remember(viewer, entries.map(({ message }) => message), {
          infer,
          session,
          ...options.options,
          scope,
          sharedWrites,
          line: Rows.keyOf(lane),
          sequence: entries.map(({ sequence }) => sequence),
          apply
        })
        yield* inTime(remembered).pipe(
          Effect.catchAll((error) => isWritten ? noVector(lane)(error) : error) // what comes after the write
        )
        if (!isWritten) yield* finish(lane, batches, undefined, [])
      }),

    resume: (lane, plan) =>
      Effect.gen(function*() {
        const of = new Set(plan.of)
        const batches = Kept.waiting(lane.kept).filter(({ rows }) => rows.every(({ id }) => of.has(id)))
        if (batches.flatMap(({ rows }) => rows).length === of.size && (yield* isOpen(lane, plan))) {
          const written = yield* Effect.either(
            Effect.uninterruptible(finish(lane, batches, plan, plan.mutations, plan.provenance))
          )
          if (written._tag === "Right") {
            const records = written.right.flatMap(({ outcome, record }: Applied): ReadonlyArray<MemoryRecord> =>
              record && outcome !== "duplicate" ? [record] : []
            )
            yield* inTime(pipeline.embed(lane.viewer, records)).pipe(Effect.catchAll(noVector(lane)))
            return true
          }
          const { left } = written
          if (Kept.isTaken(left) || (left.isRetryable && left.reason !== "conflict")) return yield* left
        }
        yield* ledger.drop(lane, plan)
        return false
      })
  }
}

/**
 * Returns the scope into which a viewer's messages are extracted, and the shared scopes that are open to it. `about: "agent"`
 * is consent to share the words of visitors without a user; a user's words are shared only if `sharedWrites` has `agent`.
 * Fails with `invalid_scope` if the scope is closed, or would be Global without an option that says so.
 */
export const targetOf = (
  { about, options }: ExtractionConfig,
  viewer: Viewer.Viewer
): Io<{ readonly scope: MemoryScope; readonly sharedWrites: Sharing.SharedWrites }> => {
  const { agentId, userId } = viewer
  const sharedWrites: Sharing.SharedWrites = [
    ...options?.sharedWrites ?? [],
    ...about === "agent" && userId === undefined ? ["agent" as const] : []
  ]
  const scope = options?.scope ?? (about === "agent" ? agentId !== undefined && { agentId } : Viewer.subjectOf(viewer))
  const isSaid = scope !== false && (scope !== Global || options?.scope === Global)
  return isSaid && Sharing.mayWrite(viewer, scope, sharedWrites)
    ? Effect.succeed({ scope, sharedWrites })
    : MemoryError.make("invalid_scope", {
      op: "append",
      message: "the viewer has no scope to remember this in: name a user, a session or an agent, or open sharedWrites"
    })
}

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
