/**
 * Beliefs: statements that an agent takes to be true. Each belief has a confidence, and an audit: the list of its changes with their
 * reasons. A belief is closed when its validity ends, or when another belief supersedes it. A closed belief can be read, but not changed.
 * The module also stores hindsights (what tasks taught about beliefs) and counterfactuals (hypotheses with predictions).
 */
import * as Arr from "effect/Array"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { canonicalJson } from "../domain/Digest.ts"
import { make as makeError, type MemoryError, retryOnConflict } from "../domain/MemoryError.ts"
import { BeliefQuery, type MemoryFilter } from "../domain/MemoryFilter.ts"
import { MemoryId, stableId, ulid } from "../domain/MemoryId.ts"
import * as MemoryKind from "../domain/MemoryKind.ts"
import { deriveSummary, type MemoryRecord, Millis, recencyOf, Unit } from "../domain/MemoryRecord.ts"
import { Global, matchesScope, MemoryScope, notNarrower } from "../domain/MemoryScope.ts"
import * as Payload from "../domain/Payload.ts"
import { Because } from "../domain/Payload.ts"
import { check, invalid } from "../domain/Validation.ts"
import type * as Viewer from "../domain/Viewer.ts"
import { MemoryStore } from "../storage/MemoryStore.ts"
import { type DraftOf, make as typed, orNotFound, type PatchOf, type Typed, withNameAsSummary } from "./TypedMemory.ts"

/** The `data` of a belief. */
export type Belief = Payload.Belief
/** The `data` of a hindsight: the outcome of a task, the beliefs before the task, and the corrected beliefs. */
export type Hindsight = Payload.Hindsight
/** The `data` of a counterfactual: a hypothesis with its predictions. Prompts and tools never present it as a fact. */
export type Counterfactual = Payload.Counterfactual

export { BeliefQuery } from "../domain/MemoryFilter.ts"
export { Because, confidenceOf, type Level, levelOf } from "../domain/Payload.ts"

/** Counts of the beliefs that a viewer sees. */
export interface Statistics {
  readonly total: number
  /** `active` is the number of valid beliefs, and `superseded` the number of replaced beliefs. Other beliefs count in neither. */
  readonly active: number
  readonly superseded: number
  /** Numbers of beliefs, by level of confidence (`byConfidence`) and by type of source (`bySource`). Superseded ones count, too. */
  readonly byConfidence: Readonly<Record<Payload.Level, number>>
  readonly bySource: Readonly<Record<Belief["sourceType"], number>>
  /** Number of changes in the audits of all beliefs. */
  readonly updates: number
  readonly hindsights: number
  readonly counterfactuals: number
  /** Times at which the oldest and the newest belief were stored, epoch ms; `undefined` if there are no beliefs. */
  readonly oldest: number | undefined
  readonly newest: number | undefined
}

/** The result of `applyHindsight`: the stored hindsight, and the corrected beliefs in their current state. */
export interface Corrected {
  readonly hindsight: Typed<Hindsight>
  readonly corrected: ReadonlyArray<Typed<Belief>>
}

/** The fields of a belief to change. A field that is left out stays unchanged. */
export type BeliefPatch = { readonly [Part in keyof Belief]?: Belief[Part] | undefined }
/** The names of the fields that only this service sets in a hindsight or counterfactual. */
type Mark = (typeof Payload.marked)[number]
type Io<A> = Effect.Effect<A, MemoryError>

/**
 * Operations of `BeliefMemory`. `audit` and every change of a belief fail with `not_found` if the belief does not exist. Changes also fail
 * with `read_only` if the belief is no longer valid, and with `invalid_draft` if the reason is blank. No concurrent change is lost.
 */
export interface Service {
  /** Stores a belief. Its summary defaults to its subject, predicate and object; its confidence defaults to 0.6. */
  readonly retain: (viewer: Viewer.Any, belief: DraftOf<Belief>) => Effect.Effect<Typed<Belief>, MemoryError>
  /** Returns a belief, even if the belief is superseded. */
  readonly recall: (viewer: Viewer.Any, id: MemoryId) => Effect.Effect<Option.Option<Typed<Belief>>, MemoryError>
  /** Returns matching beliefs, by default the most confident first. Cost: one read of all beliefs that the viewer sees. */
  readonly query: (viewer: Viewer.Any, query: BeliefQuery) => Effect.Effect<ReadonlyArray<Typed<Belief>>, MemoryError>
  /** Changes fields of a belief, but not its confidence. Ignores `audit`, and fields that are `undefined`. */
  readonly revise: (
    viewer: Viewer.Any,
    id: MemoryId,
    data: BeliefPatch,
    because: Because
  ) => Effect.Effect<Typed<Belief>, MemoryError>
  /** Stores belief `by` with a link to belief `id`, and ends the validity of `id`. Of concurrent calls, only one succeeds. */
  readonly supersede: (
    viewer: Viewer.Any,
    id: MemoryId,
    by: DraftOf<Belief>,
    because: Because
  ) => Effect.Effect<Typed<Belief>, MemoryError>
  /** Raises the confidence to `confidence + by · (1 − confidence)`; `by` is 0..1. */
  readonly reinforce: (
    viewer: Viewer.Any,
    id: MemoryId,
    by: number,
    because: Because
  ) => Effect.Effect<Typed<Belief>, MemoryError>
  /** Lowers the confidence to `confidence · (1 − by)`; `by` is 0..1. */
  readonly weaken: (
    viewer: Viewer.Any,
    id: MemoryId,
    by: number,
    because: Because
  ) => Effect.Effect<Typed<Belief>, MemoryError>
  /** Returns the revisions of a belief that are still in the store, newest first, at most 20. */
  readonly history: (viewer: Viewer.Any, id: MemoryId) => Effect.Effect<ReadonlyArray<Typed<Belief>>, MemoryError>
  /** Returns all changes of a belief, oldest first, including changes whose revisions the store has erased. */
  readonly audit: (viewer: Viewer.Any, id: MemoryId) => Effect.Effect<ReadonlyArray<Payload.Audited>, MemoryError>
  /**
   * Stores a hindsight: the outcome of a task, and the beliefs that the outcome corrects. The same batch lowers the confidence of these
   * beliefs to `confidence · (1 − by)`; `by` is 0..1, default 0.5. The batch also sets their source type to `hindsight`. Their audits refer
   * to the hindsight by its id. If the body is blank, a text made from the data is stored. A repeated call with the same id and data
   * changes nothing. Fails with `invalid_draft` if another record has the id.
   */
  readonly applyHindsight: (
    viewer: Viewer.Any,
    hindsight: DraftOf<Omit<Hindsight, Mark>>,
    by?: number
  ) => Effect.Effect<Corrected, MemoryError>
  /** Returns hindsights, newest first: those of one task, or of all tasks if `taskId` is absent. Default `limit` 20. */
  readonly hindsights: (
    viewer: Viewer.Any,
    taskId?: string,
    limit?: number
  ) => Effect.Effect<ReadonlyArray<Typed<Hindsight>>, MemoryError>
  /** Stores a hypothesis. Default `beliefs`: at most ten beliefs that match the body best, in the draft's scope or a broader scope. */
  readonly createCounterfactual: (
    viewer: Viewer.Any,
    counterfactual: DraftOf<Partial<Omit<Counterfactual, Mark | "actual">>>
  ) => Effect.Effect<Typed<Counterfactual>, MemoryError>
  /** Stores the outcome of a hypothesis. Fails with `not_found` if there is no counterfactual with the id. */
  readonly validateCounterfactual: (
    viewer: Viewer.Any,
    id: MemoryId,
    actual: ReadonlyArray<string>
  ) => Effect.Effect<Typed<Counterfactual>, MemoryError>
  /** Returns the counterfactuals of a task, or all if `taskId` is absent, newest first. Default `limit` 20. */
  readonly counterfactuals: (
    viewer: Viewer.Any,
    taskId?: string,
    limit?: number
  ) => Effect.Effect<ReadonlyArray<Typed<Counterfactual>>, MemoryError>
  /** Counts the beliefs, hindsights and counterfactuals that the viewer sees, also those with invalid data. Cost: reads all of them. */
  readonly statistics: (viewer: Viewer.Any) => Effect.Effect<Statistics, MemoryError>
  /** Forgets beliefs superseded before `olderThan` (epoch ms), and returns their number. Skips beliefs that the viewer may not write. */
  readonly pruneSuperseded: (viewer: Viewer.Any, olderThan: number) => Effect.Effect<number, MemoryError>
}

/** Tag of the service for beliefs. */
export class BeliefMemory extends Context.Tag("@memory/BeliefMemory")<BeliefMemory, Service>() {}

const Step = Schema.Struct({ by: Unit })
const Outcome = Schema.Struct({ body: Schema.String, data: Payload.Hindsight.pipe(Schema.omit(...Payload.marked)) })
const Change = Schema.Struct({ ...Because.fields, ...Step.fields })
const Cutoff = Schema.Struct({ olderThan: Millis })
const Hypothesis = Schema.Struct({
  scope: MemoryScope,
  data: Schema.partial(Payload.Counterfactual.pipe(Schema.omit(...Payload.marked, "actual"))),
  body: Schema.String.pipe(Schema.pattern(/\S/, { message: () => "expected a hypothesis" }))
})

/** Makes the service over the `MemoryStore` in the context. */
export const make: Effect.Effect<Service, never, MemoryStore> = Effect.gen(function*() {
  const store = yield* MemoryStore
  const beliefs = yield* typed(MemoryKind.belief)
  const hindsights = yield* typed({ ...MemoryKind.reflection, schema: Payload.Hindsight })
  const counterfactuals = yield* typed({ ...MemoryKind.reflection, schema: Payload.Counterfactual })

  const require = (op: string, viewer: Viewer.Any, id: MemoryId) => orNotFound(op, id, beliefs.get(viewer, id))

  /** Returns the belief. Fails with `not_found` if it does not exist, and with `read_only` if it is no longer valid. */
  const requireOpen = (op: string, viewer: Viewer.Any, id: MemoryId, now: number) =>
    Effect.filterOrFail(
      require(op, viewer, id),
      ({ record }) => !isClosed(record, now),
      () => makeError("read_only", { op, id, message: "this belief is no longer held" })
    )

  /** Reads a belief and passes it to `write`. If another writer changed the belief in between, starts again. */
  const change = <A>(
    op: Payload.Audited["action"],
    viewer: Viewer.Any,
    id: MemoryId,
    because: Because,
    write: (current: Typed<Belief>, audited: (confidence: number) => Belief, now: number) => Io<A>
  ): Io<A> =>
    Effect.gen(function*() {
      const { evidence, reason } = because
      yield* check(op, Because, { reason, evidence })
      const now = yield* Clock.currentTimeMillis
      const current = yield* requireOpen(op, viewer, id, now)
      const change = { action: op, at: now, reason, evidence }
      return yield* write(current, (confidence) => audited(current, { ...change, confidence }), now)
    }).pipe(retryOnConflict, Effect.withSpan(`BeliefMemory.${op}`))

  const update = (viewer: Viewer.Any, { record: { id, revision } }: Typed<Belief>, patch: PatchOf<Belief>) =>
    beliefs.update(viewer, id, patch, { ifRevision: revision })

  const adjust = (
    op: "reinforce" | "weaken",
    viewer: Viewer.Any,
    id: MemoryId,
    by: number,
    because: Because,
    to: (confidence: number) => number
  ) =>
    Effect.zipRight(
      check(op, Change, { ...because, by }),
      change(op, viewer, id, because, (current, audited) => {
        const confidence = to(confidenceIn(current))
        return update(viewer, current, { confidence, data: audited(confidence) })
      })
    )

  return {
    retain: (viewer, belief) => beliefs.put(viewer, toDraft(belief)).pipe(Effect.withSpan("BeliefMemory.retain")),
    recall: (viewer, id) => Effect.withSpan(beliefs.get(viewer, id), "BeliefMemory.recall"),
    query: (viewer, query) =>
      Effect.gen(function*() {
        const checked = yield* check("query", BeliefQuery, query)
        const { includeSuperseded: closed = false, limit, minConfidence = 0, order, orderBy, ...parts } = checked
        const where: MemoryFilter["where"] = Object.fromEntries(
          Object.entries(parts).flatMap(([part, eq]) => eq === undefined ? [] : [[`data.${part}`, { eq }]])
        )
        const all = yield* beliefs.all(viewer, { where, closed })
        const [by, sign] = [orders[orderBy ?? "confidence"], order === "asc" ? 1 : -1]
        return all.filter((belief) => confidenceIn(belief) >= minConfidence)
          .sort((a, b) => sign * (by(a) - by(b))) // the sort is stable, so equal beliefs stay newest first
          .slice(0, limit)
      }).pipe(Effect.withSpan("BeliefMemory.query")),
    revise: (viewer, id, { audit: _, ...data }, because) =>
      change("revise", viewer, id, because, (current, audited) => {
        const next = { ...audited(confidenceIn(current)), ...Payload.definedFields(data) }
        const isCalledBySelf = current.record.summary === deriveSummary(nameOf(current.data))
        return update(viewer, current, {
          data: next,
          summary: isCalledBySelf ? deriveSummary(nameOf(next)) || undefined : undefined
        })
      }),
    supersede: (viewer, id, by, because) =>
      by.id === id
        ? invalid("supersede", "by.id: nothing supersedes itself")
        : change("supersede", viewer, id, because, (current, audited, now) =>
          Effect.gen(function*() {
            const { record } = current
            const next = by.id ?? stableId(JSON.stringify(["supersedes", id, record.revision]))
            const draft = toDraft(by)
            const links = [...(by.links ?? []), { to: id, type: "supersedes", weight: 1 }]
            const old = yield* beliefs.encode(audited(confidenceIn(current)))
            const patch = { invalidAt: now, supersededBy: next, data: old }
            const data = yield* beliefs.encode(draft.data)
            yield* store.apply(viewer, [
              { _tag: "Update", id, patch, ifRevision: record.revision },
              { _tag: "Put", draft: { ...draft, id: next, kind: beliefs.kind.name, links, data } }
            ])
            return yield* require("supersede", viewer, next)
          })),
    reinforce: (viewer, id, by, because) =>
      adjust("reinforce", viewer, id, by, because, (confidence) => confidence + by * (1 - confidence)),
    weaken: (viewer, id, by, because) => adjust("weaken", viewer, id, by, because, (old) => old * (1 - by)),
    history: (viewer, id) => Effect.withSpan(beliefs.history(viewer, id), "BeliefMemory.history"),
    audit: (viewer, id) =>
      Effect.map(require("audit", viewer, id), ({ data }) => data.audit ?? []).pipe(
        Effect.withSpan("BeliefMemory.audit")
      ),
    applyHindsight: Effect.fn("BeliefMemory.applyHindsight")(
      function*(viewer: Viewer.Any, hindsight: DraftOf<Omit<Hindsight, Mark>>, by = 0.5) {
        yield* check("applyHindsight", Step, { by })
        yield* check("applyHindsight", Outcome, { body: hindsight.body, data: hindsight.data })
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
          const current = yield* Effect.forEach(corrected, (id) => beliefs.get(viewer, id))
          return { hindsight: yield* hindsights.decode(known), corrected: current.flatMap(Option.toArray) }
        }
        const now = yield* Clock.currentTimeMillis
        const corrections = yield* Effect.forEach(corrected, (belief) =>
          Effect.gen(function*() {
            const current = yield* requireOpen("applyHindsight", viewer, belief, now)
            const confidence = confidenceIn(current) * (1 - by)
            const change = { action: "correct", at: now, confidence, reason: "hindsight", evidence: [id] } as const
            const data = yield* beliefs.encode({ ...audited(current, change), sourceType: "hindsight" })
            const ifRevision = current.record.revision
            return { _tag: "Update", id: belief, patch: { confidence, data }, ifRevision } as const
          }))
        const draft = { ...hindsight, id, kind: hindsights.kind.name, body, data }
        const applied = yield* store.apply(viewer, [{ _tag: "Put", draft, ifRevision: 0 }, ...corrections])
        const [made, ...changed] = applied.flatMap(({ record }) => record ?? [])
        return {
          hindsight: yield* hindsights.decode(made!), // a Put returns its record
          corrected: yield* Effect.forEach(changed, beliefs.decode)
        }
      },
      retryOnConflict
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
        const { data, record } = yield* orNotFound("validateCounterfactual", id, Effect.map(found, Arr.head))
        return yield* counterfactuals.update(viewer, id, { data: { ...data, actual } }, { ifRevision: record.revision })
      },
      retryOnConflict
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
      const old = all.filter(({ record }) => isSuperseded(record, now) && record.invalidAt! < olderThan) // `isSuperseded` tests `invalidAt`
      const counts = yield* Effect.forEach(Arr.chunksOf(old, 1_000), (some) => beliefs.forgetUnchanged(viewer, some))
      return counts.reduce((sum, count) => sum + count, 0)
    })
  }
})

/** Provides `BeliefMemory` over a `MemoryStore`. */
export const layer: Layer.Layer<BeliefMemory, never, MemoryStore> = Layer.effect(BeliefMemory, make)

const nameOf = ({ object, predicate, subject }: Belief): string => `${subject} ${predicate} ${object}`

/** Adds the defaults to the draft of a belief. Removes the audit, which only this service may write. */
const toDraft = (belief: DraftOf<Belief>): DraftOf<Belief> => ({
  ...withNameAsSummary(nameOf(belief.data), belief),
  confidence: belief.confidence ?? Payload.confidenceOf.medium,
  data: { ...belief.data, audit: undefined }
})

const confidenceIn = ({ record }: Typed<Belief>): number => record.confidence ?? Payload.confidenceOf.medium

const orders = {
  confidence: confidenceIn,
  createdAt: ({ record }: Typed<Belief>) => record.createdAt,
  updatedAt: ({ record }: Typed<Belief>) => recencyOf(record)
}

/** Returns the data of a belief, with the change added to its audit (the list of its changes). */
const audited = ({ data, record }: Typed<Belief>, change: Omit<Payload.Audited, "revision">): Belief => ({
  ...data,
  audit: [...(data.audit ?? []), { ...change, revision: record.revision + 1 }]
})

/** Returns the filter for hindsights or counterfactuals: those of one task, or all if `taskId` is absent. */
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
    byConfidence[Payload.levelOf(confidenceIn(belief))]++
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
