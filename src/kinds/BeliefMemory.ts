/**
 * What is held to be true, how surely, and why it changed.
 *
 * Confidence is the record's. Every change but the first is written into the belief with its reason, so that the file says
 * why it stands as it does. What was superseded is history: it is kept and shown, and no longer changes.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { check, invalid } from "../domain/Check.ts"
import * as MemoryError from "../domain/MemoryError.ts"
import type { MemoryFilter } from "../domain/MemoryFilter.ts"
import { MemoryId, stableId } from "../domain/MemoryId.ts"
import * as MemoryKind from "../domain/MemoryKind.ts"
import { deriveSummary, Unit } from "../domain/MemoryRecord.ts"
import * as Payload from "../domain/Payload.ts"
import type * as Viewer from "../domain/Viewer.ts"
import { MemoryStore } from "../storage/MemoryStore.ts"
import { called, type DraftOf, make as typed, type PatchOf, type Typed } from "./TypedMemory.ts"

export type Belief = Payload.Belief

export const Because = Schema.Struct({
  reason: Schema.String.pipe(Schema.pattern(/\S/, { message: () => "expected a reason" })),
  evidence: Schema.optional(Schema.Array(MemoryId))
})
export interface Because extends Schema.Schema.Type<typeof Because> {}

export const BeliefQuery = Schema.Struct({
  /** Compared as they are written. */
  subject: Schema.optional(Schema.String),
  predicate: Schema.optional(Schema.String),
  domain: Schema.optional(Schema.String),
  /** 0..1, inclusive; see `confidenceOf`. */
  minConfidence: Schema.optional(Unit),
  /** Default false. */
  includeSuperseded: Schema.optional(Schema.Boolean)
})
export interface BeliefQuery extends Schema.Schema.Type<typeof BeliefQuery> {}

/** The levels of seed 4 as numbers. */
export const confidenceOf = { high: 0.9, medium: 0.6, low: 0.3, speculative: 0.1 } as const

type Revised = { readonly [Part in keyof Belief]?: Belief[Part] | undefined }
type Io<A> = Effect.Effect<A, MemoryError.MemoryError>

/**
 * A belief that is not there is `not_found`, a change of one that was superseded `read_only`, a blank reason
 * `invalid_draft`. Changes at once all happen, one after another.
 */
export interface Service {
  /** Called by its three parts; confidence is .6 unless it says another. */
  readonly retain: (viewer: Viewer.Any, belief: DraftOf<Belief>) => Io<Typed<Belief>>
  /** Superseded or not. */
  readonly recall: (viewer: Viewer.Any, id: MemoryId) => Io<Option.Option<Typed<Belief>>>
  /** All of them, surest first, ties newest first. Cost: all beliefs that the viewer sees. */
  readonly query: (viewer: Viewer.Any, query: BeliefQuery) => Io<ReadonlyArray<Typed<Belief>>>
  /** The same belief, said better; as sure as before. What is `undefined` is left alone. */
  readonly revise: (viewer: Viewer.Any, id: MemoryId, data: Revised, because: Because) => Io<Typed<Belief>>
  /** Another in its place, linked to it; the old one is closed and kept. Of two at once the second is `read_only`. */
  readonly supersede: (
    viewer: Viewer.Any,
    id: MemoryId,
    by: DraftOf<Belief>,
    because: Because
  ) => Io<Typed<Belief>>
  /** By 0..1 of what is missing. */
  readonly reinforce: (viewer: Viewer.Any, id: MemoryId, by: number, because: Because) => Io<Typed<Belief>>
  /** By 0..1 of what is there. */
  readonly weaken: (viewer: Viewer.Any, id: MemoryId, by: number, because: Because) => Io<Typed<Belief>>
  /** Newest first; what the store keeps of it. */
  readonly history: (viewer: Viewer.Any, id: MemoryId) => Io<ReadonlyArray<Typed<Belief>>>
  /** Oldest first; all changes there were, whatever the store keeps. */
  readonly audit: (viewer: Viewer.Any, id: MemoryId) => Io<ReadonlyArray<Payload.Audited>>
}

export class BeliefMemory extends Context.Tag("@memory/BeliefMemory")<BeliefMemory, Service>() {}

const Change = Schema.Struct({ ...Because.fields, by: Unit })

export const make: Effect.Effect<Service, never, MemoryStore> = Effect.gen(function*() {
  const store = yield* MemoryStore
  const beliefs = yield* typed(MemoryKind.belief)

  const require = (op: string, viewer: Viewer.Any, id: MemoryId) =>
    Effect.flatMap(
      beliefs.get(viewer, id),
      Option.match({
        onNone: () => MemoryError.make("not_found", { op, id, message: "there is no such belief" }),
        onSome: Effect.succeed
      })
    )

  /** Read, change, write if nobody else did; again until it holds. */
  const change = <A>(
    op: Payload.Audited["action"],
    viewer: Viewer.Any,
    id: MemoryId,
    because: Because,
    write: (held: Typed<Belief>, audited: (confidence: number) => Belief, now: number) => Io<A>
  ): Io<A> =>
    Effect.gen(function*() {
      const { evidence, reason } = because
      yield* check(op, Because, { reason, evidence })
      const held = yield* require(op, viewer, id)
      const { invalidAt, revision } = held.record
      const now = yield* Clock.currentTimeMillis
      if (invalidAt !== undefined && invalidAt <= now) {
        return yield* MemoryError.make("read_only", { op, id, message: "this belief is no longer held" })
      }
      const audited = (confidence: number): Belief => ({
        ...held.data,
        audit: [
          ...(held.data.audit ?? []),
          { action: op, at: now, revision: revision + 1, confidence, reason, evidence }
        ]
      })
      return yield* write(held, audited, now)
    }).pipe(
      MemoryError.retryOnConflict,
      Effect.withSpan(`BeliefMemory.${op}`)
    )

  const update = (viewer: Viewer.Any, { record: { id, revision } }: Typed<Belief>, patch: PatchOf<Belief>) =>
    beliefs.update(viewer, id, patch, { ifRevision: revision })

  const move = (
    op: "reinforce" | "weaken",
    viewer: Viewer.Any,
    id: MemoryId,
    by: number,
    because: Because,
    to: (confidence: number) => number
  ) =>
    Effect.zipRight(
      check(op, Change, { ...because, by }),
      change(op, viewer, id, because, (held, audited) => {
        const confidence = to(surenessOf(held))
        return update(viewer, held, { confidence, data: audited(confidence) })
      })
    )

  return {
    retain: (viewer, belief) => beliefs.put(viewer, toDraft(belief)).pipe(Effect.withSpan("BeliefMemory.retain")),
    recall: (viewer, id) => Effect.withSpan(beliefs.get(viewer, id), "BeliefMemory.recall"),
    query: (viewer, query) =>
      Effect.gen(function*() {
        const { includeSuperseded: closed = false, minConfidence = 0, ...parts } = yield* check(
          "query",
          BeliefQuery,
          query
        )
        const where: MemoryFilter["where"] = Object.fromEntries(
          Object.entries(parts).flatMap(([part, eq]) => eq === undefined ? [] : [[`data.${part}`, { eq }]])
        )
        const all = yield* beliefs.all(viewer, { where, closed })
        return all.filter((belief) => surenessOf(belief) >= minConfidence).sort(surestFirst)
      }).pipe(Effect.withSpan("BeliefMemory.query")),
    revise: (viewer, id, { audit: _, ...data }, because) =>
      change("revise", viewer, id, because, (held, audited) => {
        const next = { ...audited(surenessOf(held)), ...Payload.definedFields(data) }
        const isCalledBySelf = held.record.summary === deriveSummary(nameOf(held.data))
        return update(viewer, held, {
          data: next,
          summary: isCalledBySelf ? deriveSummary(nameOf(next)) || undefined : undefined
        })
      }),
    supersede: (viewer, id, by, because) =>
      by.id === id
        ? invalid("supersede", "by.id: nothing supersedes itself")
        : change("supersede", viewer, id, because, (held, audited, now) =>
          Effect.gen(function*() {
            const { record } = held
            const next = by.id ?? stableId(JSON.stringify(["supersedes", id, record.revision]))
            const draft = toDraft(by)
            const links = [...(by.links ?? []), { to: id, type: "supersedes", weight: 1 }]
            const patch = { invalidAt: now, supersededBy: next, data: yield* beliefs.encode(audited(surenessOf(held))) }
            const data = yield* beliefs.encode(draft.data)
            yield* store.apply(viewer, [
              { _tag: "Update", id, patch, ifRevision: record.revision },
              { _tag: "Put", draft: { ...draft, id: next, kind: beliefs.kind.name, links, data } }
            ])
            return yield* require("supersede", viewer, next)
          })),
    reinforce: (viewer, id, by, because) =>
      move("reinforce", viewer, id, by, because, (confidence) => confidence + by * (1 - confidence)),
    weaken: (viewer, id, by, because) => move("weaken", viewer, id, by, because, (confidence) => confidence * (1 - by)),
    history: (viewer, id) => Effect.withSpan(beliefs.history(viewer, id), "BeliefMemory.history"),
    audit: (viewer, id) =>
      Effect.map(require("audit", viewer, id), ({ data }) => data.audit ?? []).pipe(
        Effect.withSpan("BeliefMemory.audit")
      )
  }
})

export const layer: Layer.Layer<BeliefMemory, never, MemoryStore> = Layer.effect(BeliefMemory, make)

const nameOf = ({ object, predicate, subject }: Belief): string => `${subject} ${predicate} ${object}`

/** Nobody's to bring along is what was done to it. */
const toDraft = (belief: DraftOf<Belief>): DraftOf<Belief> => ({
  ...called(nameOf(belief.data), belief),
  confidence: belief.confidence ?? confidenceOf.medium,
  data: { ...belief.data, audit: undefined }
})

const surenessOf = ({ record }: Typed<Belief>): number => record.confidence ?? confidenceOf.medium

/** Ties stay as they are: newest first. */
const surestFirst = (a: Typed<Belief>, b: Typed<Belief>): number => surenessOf(b) - surenessOf(a)
