/**
 * Searches and lists records through a `Retrieval`. The retrieval returns matches as `Fact`s, which may lack the bodies. This module scores
 * and sorts the matches, and then reads the missing bodies of the best ones:
 *
 * ```text
 * lexical   match: BM25 over the visible records → filter → candidates ranked → weights → minScore → cut
 * vector    near: visible records → filter → cosine above 0 → cut → cosine above `floor` → weights → minScore
 * hybrid    the best by words and the best by vector, each with both scores → fused by score → weights → minScore
 * then      order, ties by `newestFirst` → bodies read → near-duplicates removed → limit → budget
 * ```
 *
 * Each operation is a generator that yields the effects of the retrieval, like the body of an `Effect.gen`. A store runs the operation as
 * an Effect (`run`). An index in RAM has synchronous effects, and runs the operation without a fiber (`runSynchronously`).
 */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import { type YieldWrap, yieldWrapGet } from "effect/Utils"
import type { MemoryError } from "../../domain/MemoryError.ts"
import {
  type Absence,
  absenceIn,
  type Embedding,
  type Hit,
  matches as matching,
  type MemoryFilter,
  type MemoryQuery,
  type Page,
  type SearchResult
} from "../../domain/MemoryFilter.ts"
import type { MemoryId } from "../../domain/MemoryId.ts"
import * as MemoryKind from "../../domain/MemoryKind.ts"
import { isExpired, type MemoryRecord } from "../../domain/MemoryRecord.ts"
import * as Viewer from "../../domain/Viewer.ts"
import type * as Analyzer from "../Analyzer.ts"
import { repeats, saysTheSame } from "../NearDuplicate.ts"
import {
  type CompiledFilter,
  type Fact,
  makeCursor,
  type Position,
  positionOf,
  readCursor,
  type Retrieval
} from "../Retrieval.ts"
import * as Scorer from "../Scorer.ts"
import { mayNameTime } from "../Tokenizer.ts"
import { isLong } from "./Outline.ts"
import { type LazyRanker, type QuestionRanker, questionRanker, type Signals } from "./Ranker.ts"
import { confidenceIn, hybridSearch, passageIn, wordsOf } from "./Searcher/HybridSearch.ts"

/** The analyzer and the kinds of the store that is searched. */
export interface Options {
  readonly analyzer: Analyzer.Service
  readonly kinds: ReadonlyMap<string, MemoryKind.MemoryKind>
}

/** A part of a search: a generator for `Effect.gen`. Its effects may fail with `MemoryError`. Its result is an `A`. */
export type SearchProgram<A> = Generator<YieldWrap<Effect.Effect<unknown, MemoryError>>, A, never>

/** Default of `limit`, the largest number of hits of a query or of records on a page. */
export const defaultLimit = 20
/** Returns the time at which a record must be valid to be shown. Returns `undefined` for `System`, which sees records of any time. */
export const trueAt = (viewer: Viewer.Any, now: number): number | undefined => Viewer.isSystem(viewer) ? undefined : now

/**
 * Converts a filter to the form that a retrieval needs. A filter for forgotten records does not test when a record is valid, unless `asOf`
 * is set. Only `System` sees forgotten records of origin `instructions`, since other viewers restore them only by a write of that origin.
 */
export const compileFilter = (viewer: Viewer.Any, filter: MemoryFilter, now: number): CompiledFilter => {
  if (filter.forgotten === true) {
    const isMeant = matching(filter, undefined)
    const isSystem = Viewer.isSystem(viewer)
    return { filter, passes: (record) => (isSystem || record.source.origin !== "instructions") && isMeant(record) }
  }
  const at = trueAt(viewer, now)
  let passes: CompiledFilter["passes"] | undefined // made on the first call, since most filters are decided without a record
  return { filter, at, passes: (record) => (passes ??= matching(filter, at))(record) }
}

/** The state of a search: the query, the viewer, the retrieval, and values derived from these. */
export class Search {
  readonly retrieval: Retrieval
  readonly options: Options
  readonly viewer: Viewer.Any
  readonly query: MemoryQuery
  readonly now: number
  readonly access: Viewer.AccessFilter
  readonly compiled: CompiledFilter
  readonly limit: number
  readonly minScore: number
  readonly weights: Readonly<Record<"lexical" | "vector" | "conversation" | "ranker", number>>
  /** The vector of the query; `undefined` if the search does not use a vector. */
  readonly embedding: Embedding | undefined
  /** Whether near-duplicates of a better hit are left out (`query.fold`). Always false if the search has neither text nor vector. */
  readonly isFolded: boolean
  /** The visible record for which `whyNot` explains why a search does not find it. `undefined` in a search. */
  readonly subject: MemoryRecord | undefined

  constructor(
    retrieval: Retrieval,
    options: Options,
    viewer: Viewer.Any,
    query: MemoryQuery,
    now: number,
    subject?: MemoryRecord
  ) {
    const { conversation = 1, lexical = 1, ranker = 1, vector = query.embedding?.weight ?? 0.4 } = query.weights ?? {}
    const isVectorial = retrieval.vectors !== undefined && query.mode !== "lexical" &&
      (vector > 0 || query.mode === "vector")
    this.retrieval = retrieval
    this.options = options
    this.viewer = viewer
    this.query = query
    this.now = now
    this.access = Viewer.accessFilterOf(viewer, now)
    this.compiled = compileFilter(viewer, query, now)
    this.limit = query.limit ?? defaultLimit
    this.minScore = query.minScore ?? 0
    this.weights = { lexical, vector, conversation, ranker }
    this.embedding = isVectorial ? query.embedding : undefined
    this.isFolded = query.fold !== false && (query.text !== undefined || this.embedding !== undefined)
    this.subject = subject
  }

  /** The terms of the query text, without repetitions; `undefined` if the query has no text. */
  get terms(): ReadonlyArray<string> | undefined {
    const { text } = this.query
    return text === undefined ? undefined : Array.from(new Set(this.options.analyzer.query(text)))
  }

  /** Makes the function that scores a record. Returns `undefined` if the query has no weights. `weight` is that of the relevance. */
  scorer(weight: number): ((fact: Fact, relevance: number) => number) | undefined {
    const { now, options: { kinds }, query } = this
    if (query.weights === undefined) return undefined
    const score = Scorer.scoreFact(query, weight)
    return (fact, relevance) => score({ fact, relevance, kind: MemoryKind.find(kinds, fact.kind), now })
  }

  /** Returns what each factor adds to the score of a record. */
  factors(record: MemoryRecord, relevance: number, weight: number): Readonly<Record<string, number>> {
    const kind = MemoryKind.find(this.options.kinds, record.kind)
    return Scorer.score(this.query, weight)({ record, relevance, kind, now: this.now }).factors
  }
}

/** A record that a round of retrieval found, with its scores. */
export interface Found {
  readonly fact: Fact
  readonly score: number
  readonly relevance: number
  readonly lexical: number
  readonly signals: Readonly<Signals> | undefined
  readonly cosine: number
}

/** Runs a search program as an Effect. */
export const run = <A>(plan: () => SearchProgram<A>): Effect.Effect<A, MemoryError> => Effect.gen(plan)

/** Runs a search program without a fiber. Every effect must be an `Either`. Throws the error of a `Left`. */
export const runSynchronously = <A>(plan: SearchProgram<A>): A => {
  let step = plan.next()
  while (step.done !== true) {
    const answer = yieldWrapGet(step.value)
    if (!Either.isEither(answer)) throw new TypeError("a retrieval that does not answer at once")
    // the cast is needed, since the type of `next` cannot say which answer belongs to which yielded effect
    step = plan.next(Either.getOrThrowWith(answer, (error) => error) as never)
  }
  return step.value
}

/** Runs a query. Returns the hits best first. Hits with equal scores are ordered newest first, then by id. */
export function* search(
  retrieval: Retrieval,
  options: Options,
  viewer: Viewer.Any,
  query: MemoryQuery,
  now: number
): SearchProgram<SearchResult> {
  const { awaiting, confidence, exact, folded, more, shown } = yield* rank(
    new Search(retrieval, options, viewer, query, now)
  )
  const affordable = fitting(shown, query.budget)
  return {
    hits: shown.slice(0, affordable),
    leftOut: { limit: more, budget: shown.length - affordable, folded, ...(!exact && { exact: false as const }) },
    ...(awaiting !== undefined && { awaiting }),
    ...(confidence !== undefined && { confidence }),
    failures: []
  }
}

/** Returns the reason why a record is not among the hits; `undefined` if it is a hit. Cost: one search, one record and one vector. */
export function* whyNot(
  retrieval: Retrieval,
  options: Options,
  viewer: Viewer.Any,
  id: MemoryId,
  query: MemoryQuery,
  now: number
): SearchProgram<Absence | undefined> {
  const [row] = yield* retrieval.read(Viewer.tenantOf(viewer), [id])
  const { forgotten, record } = (row && Option.getOrUndefined(row)) ?? none
  if (record === undefined || forgotten || !Viewer.sees(viewer, record.scope)) return "absent"
  if (!Viewer.isSystem(viewer) && isExpired(record, now)) return "expired"
  const absence = absenceIn(query, trueAt(viewer, now))(record)
  if (absence !== undefined) return absence
  const { isFolded, shown, subject } = yield* rank(new Search(retrieval, options, viewer, query, now, record))
  if (subject === undefined) return "no_match"
  if (subject.score < (query.minScore ?? 0)) return "below_min_score"
  const position = shown.findIndex((hit) => hit.record.id === id)
  if (position >= 0) return position < fitting(shown, query.budget) ? undefined : "beyond_budget"
  return isFolded && shown.some((hit) => hit.score >= subject.score && saysTheSame(hit.record, record))
    ? "folded"
    : "beyond_limit"
}

/** Returns a page of records, newest first, then by id. Returns `undefined` if `filter.after` is no cursor of this viewer and filter. */
export function* list(
  retrieval: Pick<Retrieval, "page">,
  viewer: Viewer.Any,
  filter: MemoryFilter,
  now: number
): SearchProgram<Page<MemoryRecord> | undefined> {
  const after = filter.after === undefined ? undefined : readCursor(viewer, filter, filter.after)
  if (filter.after !== undefined && after === undefined) return undefined
  const limit = filter.limit ?? defaultLimit
  const found = yield* page(retrieval, viewer, filter, after, limit + 1, now)
  if (found.length <= limit) return { items: found }
  const items = found.slice(0, limit)
  return { items, next: makeCursor(viewer, filter, positionOf(items[limit - 1]!)) } // `limit` is at least 1
}

/** Returns at most `limit` records that pass the filter and come after a position, newest first. */
export const page = (
  retrieval: Pick<Retrieval, "page">,
  viewer: Viewer.Any,
  filter: MemoryFilter,
  after: Position | undefined,
  limit: number,
  now: number
) => retrieval.page(Viewer.accessFilterOf(viewer, now), compileFilter(viewer, filter, now), after, limit)

const none = { record: undefined, forgotten: false }
/** Returns how many of the first hits fit into the budget together. The budget is in tokens of four characters. */
export const fitting = (hits: ReadonlyArray<Hit>, budget: number | undefined): number => {
  let left = budget ?? Infinity
  const sizeOf = ({ passage, record }: Hit) => record.summary.length + (passage?.text ?? record.body).length
  const end = hits.findIndex((hit) => (left -= Math.ceil(sizeOf(hit) / 4)) < 0)
  return end < 0 ? hits.length : end
}

/** The result of one round of retrieval. The depth of a round is the number of matches that the round asks for. */
export interface Round {
  /** The matches of the round, best first. */
  readonly found: ReadonlyArray<Found>
  /** Number of matches. A lower bound if `exact` is false. A search with a vector may not count matches beyond the depth. */
  readonly count: number
  /** Whether to do a deeper round, which may change the hits. `last` is the last of `limit` hits; `undefined` if there are fewer hits. */
  readonly isCut: (last: Found | undefined) => boolean
  readonly explanationOf: (found: Found, record: MemoryRecord) => Readonly<Record<string, number>>
  readonly passageOf: (record: MemoryRecord) => Hit["passage"]
  readonly awaiting?: number | undefined
  readonly confidence: number | undefined
  /** The record that `whyNot` asks about, if it is a match. */
  readonly subject: Found | undefined
  readonly exact: boolean
}

/** Does a round by words only. The retrieval returns matches sorted by final score. `pick` then drops near-duplicates and stale records. */
function* byWord(search: Search, depth: number, ranker: LazyRanker | undefined): SearchProgram<Round> {
  const { minScore, query, retrieval, subject, terms, weights: { lexical: weight } } = search
  const matches = yield* retrieval.match(search.access, search.compiled, {
    terms,
    ranker,
    score: search.scorer(weight),
    shares: query.weights && Scorer.shares(query, weight, search.options.kinds, search.now),
    minScore,
    depth,
    includeIds: subject === undefined ? [] : [subject.id]
  })
  const { best, count, exact } = matches
  const all = matches.candidates.map(({ signals, fact, lexical, score }): Found => (
    { fact, score, relevance: best > 0 ? lexical / best : 0, lexical, signals, cosine: 0 }
  ))
  const found = all.slice(0, Math.min(depth, count))
  return {
    found,
    count,
    isCut: (last) => last === undefined && found.length === depth && count > depth,
    explanationOf: (found, record) => ({
      ...(query.text !== undefined && wordsOf(search, matches, terms, record, found, ranker)),
      relevance: found.relevance,
      ...search.factors(record, found.relevance, weight)
    }),
    passageOf: (record) => passageIn(search, matches, terms, record),
    confidence: query.confidence === true ? confidenceIn(search, matches, terms) : undefined,
    subject: subject && all.find(({ fact, lexical }) => fact.id === subject.id && lexical > 0),
    exact
  }
}

/** Returns the ranker of the query. Returns `undefined` if there is no text, in mode `vector`, or if the ranker's weight is 0. */
const rankerOf = ({ now, query, viewer, weights }: Search): LazyRanker | undefined => {
  const { asOf = now, confidence = false, explain = false, mode, text } = query
  if (text === undefined || mode === "vector" || weights.ranker === 0) return undefined
  let read: QuestionRanker | undefined
  return {
    isTimely: mayNameTime.test(text),
    read: () => read ??= questionRanker(text, viewer, asOf, weights, explain || confidence)
  }
}

interface Result extends Pick<Round, "awaiting" | "confidence" | "subject" | "exact"> {
  readonly shown: ReadonlyArray<Hit>
  /** Number of hits beyond the limit. */
  readonly more: number
  readonly folded: number
  readonly isFolded: boolean
}

/** Retrieves, sorts and deduplicates matches in rounds of growing depth. Stops at the first round whose `isCut` returns false. */
function* rank(search: Search): SearchProgram<Result> {
  const { embedding, isFolded, limit, query } = search
  const ranker = rankerOf(search)
  // the depth exceeds `limit` in a search by vector, and if near-duplicates may be removed
  let depth = embedding !== undefined ? Math.max(100, 5 * limit) : isFolded ? limit + (limit >> 2) + 4 : limit
  for (;;) {
    const round = embedding === undefined
      ? yield* byWord(search, depth, ranker)
      : yield* hybridSearch(search, embedding, depth, ranker)
    const { folded, stale, picked } = yield* pick(search, round.found)
    depth = deeper(depth, limit, Math.max(1, picked.length))
    if (round.isCut(picked[limit - 1]?.found)) continue
    return {
      ...round,
      shown: picked.map(({ found, record }): Hit => {
        const passage = isLong(record) && query.text !== undefined ? round.passageOf(record) : undefined
        const explanation = query.explain === true && { explanation: round.explanationOf(found, record) }
        return { record, score: found.score, ...(passage && { passage }), ...explanation }
      }),
      more: round.count - picked.length - folded - stale,
      folded,
      isFolded
    }
  }
}

/** Returns the depth of the next round: 2 to 16 times `depth`. The factor is larger if this round picked fewer records. */
const deeper = (depth: number, limit: number, picked: number): number =>
  Math.ceil(depth * Math.min(16, Math.max(2, limit / picked * (1 + 2 / picked))))

interface Picked {
  readonly picked: ReadonlyArray<{ readonly found: Found; readonly record: MemoryRecord }>
  readonly folded: number
  readonly stale: number
}

/**
 * Picks the first `limit` records that are not near-duplicates of a better hit. Reads the bodies in batches. `folded` is the number of
 * near-duplicates. `stale` is the number of records that `bodiesOf` leaves out.
 */
function* pick(search: Search, all: ReadonlyArray<Found>): SearchProgram<Picked> {
  const { isFolded, limit } = search
  const picked: Array<Picked["picked"][number]> = []
  const isRepeated = repeats()
  let [folded, stale] = [0, 0]
  for (let from = 0, size = limit; picked.length < limit && from < all.length; size = 2 * (limit - picked.length) + 8) {
    const batch = all.slice(from, from + size)
    const bodies = yield* bodiesOf(search, batch)
    for (const found of batch) {
      if (picked.length === limit) break
      const record = found.fact.record ?? bodies.get(found.fact.id)
      if (record === undefined) stale++
      else if (isFolded && isRepeated(record)) folded++
      else picked.push({ found, record })
    }
    from += batch.length
  }
  return { picked, folded, stale }
}

/** Reads the record of each `Fact` that has none. Leaves out records that are no longer visible or no longer pass the filter. */
function* bodiesOf(
  { compiled, retrieval, access }: Search,
  all: ReadonlyArray<Found>
): SearchProgram<ReadonlyMap<MemoryId, MemoryRecord>> {
  const ids = all.flatMap(({ fact }) => fact.record === undefined ? [fact.id] : [])
  if (ids.length === 0) return new Map()
  const isSeen = Viewer.includes(access.visibility)
  const rows = yield* retrieval.read(access.tenant, ids)
  return new Map(
    rows.flatMap((row) =>
      Option.isSome(row) && !row.value.forgotten && isSeen(row.value.record.scope) &&
        !isExpired(row.value.record, access.now) && compiled.passes(row.value.record)
        ? [[row.value.record.id, row.value.record] as const]
        : []
    )
  )
}
