/**
 * Beliefs: what is held to be true, how surely, and why that changed; with hindsight on tasks, and counterfactuals.
 *
 * Confidence is the record's. Every change but the first is written into the belief with its reason, so that the file says
 * why it stands as it does. What was superseded is history: it is kept and shown, and no longer changes.
 */
import * as Arr from "effect/Array"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { check, invalid } from "../domain/Check.ts"
import { canonicalJson } from "../domain/Digest.ts"
import * as MemoryError from "../domain/MemoryError.ts"
import { Limit, type MemoryFilter, notNarrower } from "../domain/MemoryFilter.ts"
import { MemoryId, stableId, ulid } from "../domain/MemoryId.ts"
import * as MemoryKind from "../domain/MemoryKind.ts"
import { deriveSummary, type MemoryRecord, Millis, recencyOf, Unit } from "../domain/MemoryRecord.ts"
import { Global, matchesScope, MemoryScope } from "../domain/MemoryScope.ts"
import * as Payload from "../domain/Payload.ts"
import type * as Viewer from "../domain/Viewer.ts"
import { MemoryStore } from "../storage/MemoryStore.ts"
import { called, type DraftOf, make as typed, type PatchOf, there, type Typed } from "./TypedMemory.ts"

/** The `data` of a belief. */
export type Belief = Payload.Belief
/** The `data` of a hindsight: how a task came out, and the beliefs that it bears on. */
export type Hindsight = Payload.Hindsight
/** The `data` of a counterfactual: a hypothesis on what would have been, and its predictions. */
export type Counterfactual = Payload.Counterfactual

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
  includeSuperseded: Schema.optional(Schema.Boolean),
  /** Order: by confidence, by when a belief was retained, or by when it last changed. Default `confidence`; ties are newest first. */
  orderBy: Schema.optional(Schema.Literal("confidence", "createdAt", "updatedAt")),
  /** Default `desc`: surest, or newest, first. */
  order: Schema.optional(Schema.Literal("asc", "desc")),
  /** 1..1,000. Default: all. */
  limit: Schema.optional(Limit)
})
export interface BeliefQuery extends Schema.Schema.Type<typeof BeliefQuery> {}

export { confidenceOf, type Level, levelOf } from "../domain/Payload.ts"

/** Counts of the beliefs that a viewer sees. */
export interface Statistics {
  readonly total: number
  /** Beliefs that are held, and beliefs that were superseded; one that merely ended is neither. */
  readonly active: number
  readonly superseded: number
  /** Counts of all beliefs by their level of confidence, superseded ones included. */
  readonly byConfidence: Readonly<Record<Payload.Level, number>>
  readonly bySource: Readonly<Record<Belief["sourceType"], number>>
  /** Changes of beliefs, with their reasons. */
  readonly updates: number
  readonly hindsights: number
  readonly counterfactuals: number
  /** When the first and the last belief was retained, epoch ms; absent without beliefs. */
  readonly oldest: number | undefined
  readonly newest: number | undefined
}

/** A hindsight that was applied: its record, and the beliefs that it corrected, as they are now. */
export interface Corrected {
  readonly hindsight: Typed<Hindsight>
  readonly corrected: ReadonlyArray<Typed<Belief>>
}

type Revised = { readonly [Part in keyof Belief]?: Belief[Part] | undefined }
/** Fields that a caller leaves out, since the service sets them. */
type Mark = (typeof Payload.marked)[number]
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
  /** Surest first, ties newest first, unless the query says another order. Cost: all beliefs that the viewer sees. */
  readonly query: (viewer: Viewer.Any, query: BeliefQuery) => Io<ReadonlyArray<Typed<Belief>>>
  /** The same belief, said better; as sure as before. What is `undefined` is left alone. */
  readonly revise: (viewer: Viewer.Any, id: MemoryId, data: Revised, because: Because) => Io<Typed<Belief>>
  /** Another in its place, linked to it; the old one is closed and kept. Of two at once the second is `read_only`. */
  readonly supersede: (viewer: Viewer.Any, id: MemoryId, by: DraftOf<Belief>, because: Because) => Io<Typed<Belief>>
  /** `confidence + by · (1 − confidence)`; `by` is 0..1. */
  readonly reinforce: (viewer: Viewer.Any, id: MemoryId, by: number, because: Because) => Io<Typed<Belief>>
  /** `confidence · (1 − by)`; `by` is 0..1. */
  readonly weaken: (viewer: Viewer.Any, id: MemoryId, by: number, because: Because) => Io<Typed<Belief>>
  /** Newest first; what the store keeps of it. */
  readonly history: (viewer: Viewer.Any, id: MemoryId) => Io<ReadonlyArray<Typed<Belief>>>
  /** Oldest first; all changes there were, whatever the store keeps. */
  readonly audit: (viewer: Viewer.Any, id: MemoryId) => Io<ReadonlyArray<Payload.Audited>>
  /**
   * Keeps how a task came out and, in the same batch, weakens the beliefs that it corrects `by` 0..1 (default .5): their source is
   * hindsight from then on, and the hindsight's record their evidence, whose words no audit repeats. Without a body it is told in
   * the words of its data. Said again with the same id and data, it changes nothing; an id that another record has is
   * `invalid_draft`.
   */
  readonly applyHindsight: (
    viewer: Viewer.Any,
    hindsight: DraftOf<Omit<Hindsight, Mark>>,
    by?: number
  ) => Io<Corrected>
  /** Hindsights, of one task or all, newest first. `limit`: default 20. */
  readonly hindsights: (viewer: Viewer.Any, taskId?: string, limit?: number) => Io<ReadonlyArray<Typed<Hindsight>>>
  /**
   * Keeps a hypothesis and its predictions. Its `beliefs` are by default those that its body speaks of most, ten at most, among the
   * beliefs of its own scope and of broader ones. Prompts and tools show it as what might have been, not as what was.
   */
  readonly createCounterfactual: (
    viewer: Viewer.Any,
    counterfactual: DraftOf<Partial<Omit<Counterfactual, Mark | "actual">>>
  ) => Io<Typed<Counterfactual>>
  /** Says what came of it. `not_found` where it is no counterfactual. */
  readonly validateCounterfactual: (
    viewer: Viewer.Any,
    id: MemoryId,
    actual: ReadonlyArray<string>
  ) => Io<Typed<Counterfactual>>
  /** Counterfactuals, of one task or all, newest first. `limit`: default 20. */
  readonly counterfactuals: (
    viewer: Viewer.Any,
    taskId?: string,
    limit?: number
  ) => Io<ReadonlyArray<Typed<Counterfactual>>>
  /** Cost: all beliefs, hindsights and counterfactuals that the viewer sees. */
  readonly statistics: (viewer: Viewer.Any) => Io<Statistics>
  /**
   * Forgets the beliefs that were superseded before `olderThan`, epoch ms. Returns how many: those that change meanwhile, and those
   * that the viewer may not write, stay. They can be restored from the trash.
   */
  readonly pruneSuperseded: (viewer: Viewer.Any, olderThan: number) => Io<number>
}

export class BeliefMemory extends Context.Tag("@memory/BeliefMemory")<BeliefMemory, Service>() {}

const Step = Schema.Struct({ by: Unit })
const Told = Schema.Struct({ body: Schema.String, data: Payload.Hindsight.pipe(Schema.omit(...Payload.marked)) })
const Change = Schema.Struct({ ...Because.fields, ...Step.fields })
const Cutoff = Schema.Struct({ olderThan: Millis })
const Hypothesis = Schema.Struct({
  scope: MemoryScope,
  data: Schema.partial(Payload.Counterfactual.pipe(Schema.omit(...Payload.marked, "actual"))),
  body: Schema.String.pipe(Schema.pattern(/\S/, { message: () => "expected a hypothesis" }))
})

export const make: Effect.Effect<Service, never, MemoryStore> = Effect.gen(function*() {
  const store = yield* MemoryStore
  const beliefs = yield* typed(MemoryKind.belief)
  const hindsights = yield* typed({ ...MemoryKind.reflection, schema: Payload.Hindsight })
  const counterfactuals = yield* typed({ ...MemoryKind.reflection, schema: Payload.Counterfactual })

  const require = (op: string, viewer: Viewer.Any, id: MemoryId) => there(op, id, beliefs.get(viewer, id))

  /** The belief, if it is held still. */
  const requireHeld = (op: string, viewer: Viewer.Any, id: MemoryId, now: number) =>
    Effect.filterOrFail(
      require(op, viewer, id),
      ({ record }) => !isClosed(record, now),
      () => MemoryError.make("read_only", { op, id, message: "this belief is no longer held" })
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
      const now = yield* Clock.currentTimeMillis
      const held = yield* requireHeld(op, viewer, id, now)
      const change = { action: op, at: now, reason, evidence }
      return yield* write(held, (confidence) => audited(held, { ...change, confidence }), now)
    }).pipe(MemoryError.retryOnConflict, Effect.withSpan(`BeliefMemory.${op}`))

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
        const asked = yield* check("query", BeliefQuery, query)
        const { includeSuperseded: closed = false, limit, minConfidence = 0, order, orderBy, ...parts } = asked
        const where: MemoryFilter["where"] = Object.fromEntries(
          Object.entries(parts).flatMap(([part, eq]) => eq === undefined ? [] : [[`data.${part}`, { eq }]])
        )
        const all = yield* beliefs.all(viewer, { where, closed })
        const [by, sign] = [orders[orderBy ?? "confidence"], order === "asc" ? 1 : -1]
        return all.filter((belief) => surenessOf(belief) >= minConfidence)
          .sort((a, b) => sign * (by(a) - by(b))) // ties stay as they are: newest first
          .slice(0, limit)
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
      ),
    applyHindsight: Effect.fn("BeliefMemory.applyHindsight")(
      function*(viewer: Viewer.Any, hindsight: DraftOf<Omit<Hindsight, Mark>>, by = 0.5) {
        yield* check("applyHindsight", Step, { by })
        yield* check("applyHindsight", Told, { body: hindsight.body, data: hindsight.data })
        const { actual, corrected: ids, expected, lessons } = hindsight.data
        const corrected = new Set(ids)
        const id = hindsight.id ?? (yield* ulid)
        if (corrected.has(id)) return yield* invalid("applyHindsight", "corrected: nothing corrects itself")
        const words = [...lessons, `expected: ${expected}; came: ${actual}`].join("\n")
        const body = hindsight.body.trim() === "" ? words : hindsight.body
        const data = yield* hindsights.encode({ ...hindsight.data, ...Payload.marks.hindsight })
        const [known] = (yield* store.get(viewer, [id])).flatMap(Option.toArray)
        if (known !== undefined) {
          const isSame = known.kind === hindsights.kind.name && canonicalJson(known.data) === canonicalJson(data)
          if (!isSame) return yield* invalid("applyHindsight", "id: another record has it")
          const held = yield* Effect.forEach(corrected, (id) => beliefs.get(viewer, id))
          return { hindsight: yield* hindsights.decode(known), corrected: held.flatMap(Option.toArray) }
        }
        const now = yield* Clock.currentTimeMillis
        const corrections = yield* Effect.forEach(corrected, (belief) =>
          Effect.gen(function*() {
            const held = yield* requireHeld("applyHindsight", viewer, belief, now)
            const confidence = surenessOf(held) * (1 - by)
            const change = { action: "correct", at: now, confidence, reason: "hindsight", evidence: [id] } as const
            const data = yield* beliefs.encode({ ...audited(held, change), sourceType: "hindsight" })
            const ifRevision = held.record.revision
            return { _tag: "Update", id: belief, patch: { confidence, data }, ifRevision } as const
          }))
        const draft = { ...hindsight, id, kind: hindsights.kind.name, body, data }
        const applied = yield* store.apply(viewer, [{ _tag: "Put", draft, ifRevision: 0 }, ...corrections])
        const [made, ...changed] = applied.flatMap(({ record }) => record ?? [])
        return {
          hindsight: yield* hindsights.decode(made!), // a Put answers with its record
          corrected: yield* Effect.forEach(changed, beliefs.decode)
        }
      },
      MemoryError.retryOnConflict
    ),
    hindsights: (viewer, taskId, limit = 20) =>
      hindsights.listReadable(viewer, { ...about("hindsight", taskId), limit }),
    createCounterfactual: Effect.fn("BeliefMemory.createCounterfactual")(
      function*(viewer: Viewer.Any, draft: DraftOf<Partial<Omit<Counterfactual, Mark | "actual">>>) {
        const { body: text, data, scope } = draft
        yield* check("createCounterfactual", Hypothesis, { body: text, data, scope })
        const { predicted = [], taskId } = data
        const affected = data.beliefs ?? (yield* beliefs.search(viewer, { text, limit: 10, where: notNarrower(scope) }))
          .filter(({ record }) => record.scope === Global || matchesScope(scope, record.scope))
          .map(({ record }) => record.id)
        const made = { ...Payload.marks.counterfactual, taskId, beliefs: affected, predicted }
        return yield* counterfactuals.put(viewer, { ...draft, data: made })
      }
    ),
    validateCounterfactual: Effect.fn("BeliefMemory.validateCounterfactual")(
      function*(viewer: Viewer.Any, id: MemoryId, actual: ReadonlyArray<string>) {
        const found = counterfactuals.listReadable(viewer, { ...about("counterfactual"), ids: [id] })
        const { data, record } = yield* there("validateCounterfactual", id, Effect.map(found, Arr.head))
        return yield* counterfactuals.update(viewer, id, { data: { ...data, actual } }, { ifRevision: record.revision })
      },
      MemoryError.retryOnConflict
    ),
    counterfactuals: (viewer, taskId, limit = 20) =>
      counterfactuals.listReadable(viewer, { ...about("counterfactual", taskId), limit }),
    statistics: Effect.fn("BeliefMemory.statistics")(function*(viewer: Viewer.Any) {
      const counts = statisticsOf(yield* beliefs.all(viewer, { closed: true }), yield* Clock.currentTimeMillis)
      const count = (trigger: keyof typeof Payload.marks) =>
        Stream.runCount(store.stream(viewer, { ...about(trigger), kinds: [MemoryKind.reflection.name], limit: 1_000 }))
      return { ...counts, hindsights: yield* count("hindsight"), counterfactuals: yield* count("counterfactual") }
    }),
    pruneSuperseded: Effect.fn("BeliefMemory.pruneSuperseded")(function*(viewer: Viewer.Any, olderThan: number) {
      yield* check("pruneSuperseded", Cutoff, { olderThan })
      const now = yield* Clock.currentTimeMillis
      const all = yield* beliefs.all(viewer, { closed: true })
      const old = all.filter(({ record }) => isSuperseded(record, now) && record.invalidAt! < olderThan) // it has an end
      const counts = yield* Effect.forEach(Arr.chunksOf(old, 1_000), (some) => beliefs.forgetUnchanged(viewer, some))
      return counts.reduce((sum, count) => sum + count, 0)
    })
  }
})

export const layer: Layer.Layer<BeliefMemory, never, MemoryStore> = Layer.effect(BeliefMemory, make)

const nameOf = ({ object, predicate, subject }: Belief): string => `${subject} ${predicate} ${object}`

/** Nobody's to bring along is what was done to it. */
const toDraft = (belief: DraftOf<Belief>): DraftOf<Belief> => ({
  ...called(nameOf(belief.data), belief),
  confidence: belief.confidence ?? Payload.confidenceOf.medium,
  data: { ...belief.data, audit: undefined }
})

const surenessOf = ({ record }: Typed<Belief>): number => record.confidence ?? Payload.confidenceOf.medium

const orders = {
  confidence: surenessOf,
  createdAt: ({ record }: Typed<Belief>) => record.createdAt,
  updatedAt: ({ record }: Typed<Belief>) => recencyOf(record)
}

/** The belief with one more change in its audit. */
const audited = ({ data, record }: Typed<Belief>, change: Omit<Payload.Audited, "revision">): Belief => ({
  ...data,
  audit: [...(data.audit ?? []), { ...change, revision: record.revision + 1 }]
})

/** Hindsights or counterfactuals, of one task or all. */
const about = (trigger: keyof typeof Payload.marks, taskId?: string): Pick<MemoryFilter, "where"> => ({
  where: {
    "data.beliefMemory": { eq: Payload.marks[trigger].beliefMemory },
    ...(taskId !== undefined && { "data.taskId": { eq: taskId } })
  }
})

const statisticsOf = (all: ReadonlyArray<Typed<Belief>>, now: number) => {
  const byConfidence = { high: 0, medium: 0, low: 0, speculative: 0 }
  const bySource = { observation: 0, inference: 0, external: 0, user_input: 0, hindsight: 0, prior: 0 }
  let [active, superseded, updates] = [0, 0, 0]
  for (const belief of all) {
    byConfidence[Payload.levelOf(surenessOf(belief))]++
    bySource[belief.data.sourceType]++
    if (!isClosed(belief.record, now)) active++
    if (isSuperseded(belief.record, now)) superseded++
    updates += belief.data.audit?.length ?? 0
  }
  const times = all.map(({ record }) => record.createdAt).sort((a, b) => a - b)
  const [oldest, newest] = [times[0], times.at(-1)]
  return { total: all.length, active, superseded, byConfidence, bySource, updates, oldest, newest }
}

const isClosed = ({ invalidAt }: MemoryRecord, now: number): boolean => invalidAt !== undefined && invalidAt <= now

const isSuperseded = (record: MemoryRecord, now: number): boolean =>
  record.supersededBy !== undefined && isClosed(record, now)
