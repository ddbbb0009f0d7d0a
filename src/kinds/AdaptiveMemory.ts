/**
 * Ranks records of any kind by priority (after Park et al., 2023). The priority is the weighted mean of three components, each 0..1. The
 * table shows the default weights.
 *
 * ```text
 * recency     .4   max(.1, ½^(age / half-life)); the age counts from the last use or change, half-life 24 hours
 * importance  .3   the importance of the record
 * relevance   .3   the share of the query's terms in the record (no term: .5), or its vector similarity if higher; 1 without a query
 * ```
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as MemoryError from "../domain/MemoryError.ts"
import { Limit, type MemoryFilter, MemoryQuery } from "../domain/MemoryFilter.ts"
import type { MemoryId } from "../domain/MemoryId.ts"
import { byRecency, type MemoryRecord, recencyOf, Unit } from "../domain/MemoryRecord.ts"
import { check, invalid } from "../domain/Validation.ts"
import type * as Viewer from "../domain/Viewer.ts"
import * as Analyzer from "../ranking/Analyzer.ts"
import { read } from "../ranking/Bm25.ts"
import { fade } from "../ranking/Scorer.ts"
import type { Tokenizer } from "../ranking/Tokenizer.ts"
import { MemoryStore } from "../storage/MemoryStore.ts"

/** Three numbers: the components of the priority of a record, each 0..1, or their weights, each 0 or more. */
export interface Priority {
  readonly recency: number
  readonly importance: number
  readonly relevance: number
}

/** Default weights of the three components. */
export const defaultPriority: Priority = { recency: 0.4, importance: 0.3, relevance: 0.3 }

/** Default half-life of recency: 24 hours, in milliseconds. */
export const defaultHalfLife = 86_400_000

/** Fills in default weights, and scales the weights to a sum of 1. Returns `undefined` if all weights are 0. */
export const sharesOf = (weights: Partial<Priority> = {}): Priority | undefined => {
  const {
    recency = defaultPriority.recency,
    importance = defaultPriority.importance,
    relevance = defaultPriority.relevance
  } = weights
  const largest = Math.max(recency, importance, relevance)
  if (largest === 0) return undefined
  // each weight is divided by `largest` before the addition, since the sum of huge weights would be Infinity
  const total = recency / largest + importance / largest + relevance / largest
  const share = (weight: number) => weight / largest / total
  return { recency: share(recency), importance: share(importance), relevance: share(relevance) }
}

/** Returns the weighted mean of the components, 0..1. The mean does not fall if a component rises. */
export const priorityOf = (components: Priority, shares: Priority): number =>
  Math.min(
    1,
    shares.recency * components.recency + shares.importance * components.importance +
      shares.relevance * components.relevance
  )

/** Returns the recency of a record, 0.1..1. It is 1 at the last use or change, and halves in each `halfLife` (milliseconds). */
export const recencyAt = (
  record: MemoryRecord,
  { accessedAt = 0, halfLife, now }: {
    /** Time of the last use, epoch milliseconds. Default: never used. */
    readonly accessedAt?: number | undefined
    readonly halfLife: number
    readonly now: number
  }
): number => fade(now - Math.max(accessedAt, recencyOf(record)), halfLife)

/**
 * Makes a function from a record to the share of `terms` that occur in the record's summary, body or tags. The share is 0..1, or 0.5 if
 * there are no terms. The first call for a record takes time linear in its text. Later calls take time linear in the number of terms.
 */
export const coverageBy = (terms: ReadonlySet<string>, tokenizer: Tokenizer): (record: MemoryRecord) => number => {
  if (terms.size === 0) return () => 0.5
  const known = termsBy(tokenizer)
  return (record) => {
    const has = known.get(record) ?? new Set([...read(record, tokenizer).texts].flat())
    known.set(record, has)
    return Array.from(terms).filter((term) => has.has(term)).length / terms.size
  }
}

const tables = new WeakMap<Tokenizer, WeakMap<MemoryRecord, ReadonlySet<string>>>()

const termsBy = (tokenizer: Tokenizer): WeakMap<MemoryRecord, ReadonlySet<string>> => {
  const known = tables.get(tokenizer) ?? new WeakMap<MemoryRecord, ReadonlySet<string>>()
  tables.set(tokenizer, known)
  return known
}

/** A query, and the weights and the half-life that determine the ranking of the results. */
export interface Question extends Pick<MemoryQuery, "text" | "embedding"> {
  /**
   * Weights of the components, each 0 or more, scaled to a sum of 1. Default: recency 0.4, importance 0.3, relevance 0.3. A call fails with
   * `invalid_draft` if all weights are 0.
   */
  readonly weights?: Partial<Priority> | undefined
  /** Half-life of recency, above 0. Default 24 hours. */
  readonly halfLife?: Duration.DurationInput | undefined
}
/** The input of `retrieve`: a query, a filter and a minimum score. */
export interface PriorityQuery extends Omit<MemoryFilter, "after" | "forgotten">, Question {
  /** Minimum score, 0..1, inclusive. Default 0. */
  readonly minScore?: number | undefined
}
/** A record with its priority and the components of that priority. */
export interface Prioritised {
  readonly record: MemoryRecord
  /** Priority, 0..1. */
  readonly score: number
  readonly components: Priority
}

type Io<A> = Effect.Effect<A, MemoryError.MemoryError>

/** Operations of `AdaptiveMemory`. */
export interface Service {
  /**
   * Returns the records that match the filter, best first. Among equal scores, the newest record comes first. A record may be returned
   * although it contains no word of the query. Default `limit` 20. If an embedding is given, the relevance of the 1,000 nearest records is
   * at least their similarity to the embedding. Fails with `unsupported` if an embedding is given but the store has no vectors. Cost: reads
   * all records that match the filter. The returned records are not marked as used. Call `touch` for the records that the agent uses.
   */
  readonly retrieve: (
    viewer: Viewer.Any,
    query: PriorityQuery
  ) => Effect.Effect<ReadonlyArray<Prioritised>, MemoryError.MemoryError>
  /** Returns the priority of one record. Fails with `not_found` if the viewer sees no such record. */
  readonly getPriorityScore: (
    viewer: Viewer.Any,
    id: MemoryId,
    question?: Question
  ) => Effect.Effect<Prioritised, MemoryError.MemoryError>
  /** Marks a record as used now, without a new revision. */
  readonly touch: (viewer: Viewer.Any, id: MemoryId) => Effect.Effect<void, MemoryError.MemoryError>
}

/** Tag of the service that ranks records by priority. */
export class AdaptiveMemory extends Context.Tag("@memory/AdaptiveMemory")<AdaptiveMemory, Service>() {}

const Weight = Schema.NonNegative.pipe(Schema.finite())
const Checked = Schema.Struct({
  text: MemoryQuery.fields.text,
  weights: Schema.partial(Schema.Struct({ recency: Weight, importance: Weight, relevance: Weight })),
  limit: Limit,
  minScore: Unit
})

/** Makes the service over the `MemoryStore` in the context. */
export const make: Effect.Effect<Service, never, MemoryStore> = Effect.gen(function*() {
  const store = yield* MemoryStore
  const analyzer = yield* Analyzer.Analyzer

  const cosines = (viewer: Viewer.Any, filter: MemoryFilter, { embedding }: Question) =>
    embedding === undefined
      ? Effect.succeed(new Map<MemoryId, number>())
      : Effect.map(
        store.search(viewer, { ...filter, embedding, mode: "vector", fold: false, limit: 1_000 }),
        ({ hits }) => new Map(hits.map(({ record, score }) => [record.id, score]))
      )

  const prioritise = (
    op: string,
    viewer: Viewer.Any,
    question: Question,
    filter: MemoryFilter,
    records: Io<ReadonlyArray<MemoryRecord>>
  ) =>
    Effect.gen(function*() {
      const shares = sharesOf(question.weights)
      if (shares === undefined) return yield* invalid(op, "weights: one of them must be above 0")
      const halfLife = Duration.decodeUnknown(question.halfLife ?? defaultHalfLife).pipe(
        Option.map(Duration.toMillis),
        Option.filter((millis) => millis > 0)
      )
      if (Option.isNone(halfLife)) return yield* invalid(op, "halfLife: expected a time above 0")
      const found = yield* records
      const uses = yield* store.uses(viewer, found.map(({ id }) => id))
      const near = yield* cosines(viewer, filter, question)
      const covers = question.text !== undefined
        ? coverageBy(new Set(analyzer.query(question.text)), analyzer.index)
        : () => question.embedding === undefined ? 1 : 0
      const now = yield* Clock.currentTimeMillis
      return found.map((record, i): Prioritised => {
        const components = {
          recency: recencyAt(record, { accessedAt: uses[i]?.accessedAt, halfLife: halfLife.value, now }),
          importance: record.importance,
          relevance: Math.max(covers(record), near.get(record.id) ?? 0)
        }
        return { record, score: priorityOf(components, shares), components }
      })
    })

  return {
    retrieve: (viewer, { embedding, halfLife, limit = 20, minScore = 0, text, weights = {}, ...filter }) =>
      Effect.gen(function*() {
        yield* check("retrieve", Checked, { text, weights, limit, minScore })
        const records = Effect.map(
          Stream.runCollect(store.stream(viewer, { ...filter, limit: 1_000 })),
          (all) => Array.from(all)
        )
        const all = yield* prioritise("retrieve", viewer, { embedding, halfLife, text, weights }, filter, records)
        return all.filter(({ score }) => score >= minScore).sort(byPriority).slice(0, limit)
      }).pipe(Effect.withSpan("AdaptiveMemory.retrieve")),
    getPriorityScore: (viewer, id, { embedding, halfLife, text, weights = {} } = {}) =>
      Effect.gen(function*() {
        const op = "getPriorityScore"
        yield* check(op, Checked, { text, weights, limit: 1, minScore: 0 })
        const record = Effect.flatMap(store.get(viewer, [id]), ([found]) =>
          Option.match(found ?? Option.none(), {
            onNone: () => MemoryError.make("not_found", { op, id, message: "there is no such record" }),
            onSome: (record) => Effect.succeed([record])
          }))
        const [one] = yield* prioritise(op, viewer, { embedding, halfLife, text, weights }, { ids: [id] }, record)
        return one! // one record was passed, so there is one result
      }).pipe(Effect.withSpan("AdaptiveMemory.getPriorityScore")),
    touch: (viewer, id) => store.touch(viewer, [id])
  }
})

/** Provides `AdaptiveMemory` over a `MemoryStore`. */
export const layer: Layer.Layer<AdaptiveMemory, never, MemoryStore> = Layer.effect(AdaptiveMemory, make)

const byPriority = (a: Prioritised, b: Prioritised): number => b.score - a.score || byRecency(a.record, b.record)
