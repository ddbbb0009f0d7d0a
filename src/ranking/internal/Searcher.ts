/**
 * The library's half of a search. A `Retrieval` fetches matches as facts; the searcher fuses, weighs, orders, folds and
 * explains them, and reads bodies last:
 *
 * ```text
 * lexical   match: BM25 over what is in sight → filter → candidates ranked → weights → minScore → cut
 * vector    near: what is in sight → filter → cosine above 0 → cut
 * both      the best of either, each with its score in the other → fused by score → weights → minScore
 * then      order, ties newest first → bodies → near-duplicates folded → limit → budget
 * ```
 *
 * Each operation is a program: a generator that yields the effects of the retrieval, as the body of an `Effect.gen` does. A store runs
 * it as an Effect. `atOnce` runs it without a fiber where the retrieval answers at once, as an index in memory does.
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
  type Asked,
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

/** The body of an `Effect.gen` over the effects of a retrieval. */
export type SearchProgram<A> = Generator<YieldWrap<Effect.Effect<unknown, MemoryError>>, A, never>

/** Hits of a query that names no limit. */
export const defaultLimit = 20
/** Time at which a record has to be true to be shown: now, but to the library at any time. */
export const trueAt = (viewer: Viewer.Any, now: number): number | undefined => Viewer.isSystem(viewer) ? undefined : now

/**
 * The filter of a call, as a retrieval applies it. Of the trash a viewer is shown what it may restore, which instructions are
 * not, and whether a record is still true is asked only where the filter says `asOf`.
 */
export const askedOf = (viewer: Viewer.Any, filter: MemoryFilter, now: number): Asked => {
  if (filter.forgotten === true) {
    const isMeant = matching(filter, undefined)
    const isSystem = Viewer.isSystem(viewer)
    return { filter, passes: (record) => (isSystem || record.source.origin !== "instructions") && isMeant(record) }
  }
  const at = trueAt(viewer, now)
  let passes: Asked["passes"] | undefined // most filters say nothing that asks for the record
  return { filter, at, passes: (record) => (passes ??= matching(filter, at))(record) }
}

/** A search under way: what is asked, of whom, and what follows from it. */
export class Search {
  readonly retrieval: Retrieval
  readonly options: Options
  readonly viewer: Viewer.Any
  readonly query: MemoryQuery
  readonly now: number
  readonly sight: Viewer.Sight
  readonly asked: Asked
  readonly limit: number
  readonly minScore: number
  readonly weights: Readonly<Record<"lexical" | "vector" | "conversation" | "ranker", number>>
  /** The vector to search for; `undefined`: words alone. A vector weight of 0 leaves it out, but in mode `vector`. */
  readonly embedding: Embedding | undefined
  /** Whether near-duplicates of a better hit are left out: where anything was asked for, unless the query says otherwise. */
  readonly isFolded: boolean
  /** The record that `whyNot` asks about: in sight, and passing. */
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
    this.sight = Viewer.sightOf(viewer, now)
    this.asked = askedOf(viewer, query, now)
    this.limit = query.limit ?? defaultLimit
    this.minScore = query.minScore ?? 0
    this.weights = { lexical, vector, conversation, ranker }
    this.embedding = isVectorial ? query.embedding : undefined
    this.isFolded = query.fold !== false && (query.text !== undefined || this.embedding !== undefined)
    this.subject = subject
  }

  /** The terms of the text, each once. */
  get terms(): ReadonlyArray<string> | undefined {
    const { text } = this.query
    return text === undefined ? undefined : Array.from(new Set(this.options.analyzer.query(text)))
  }

  /** Makes the final score of a relevance; `weight` is that of its legs together. Absent: the relevance is the score. */
  scorer(weight: number): ((fact: Fact, relevance: number) => number) | undefined {
    const { now, options: { kinds }, query } = this
    if (query.weights === undefined) return undefined
    const score = Scorer.scoreFact(query, weight)
    return (fact, relevance) => score({ fact, relevance, kind: MemoryKind.find(kinds, fact.kind), now })
  }

  /** The parts of a score by factor. */
  factors(record: MemoryRecord, relevance: number, weight: number): Readonly<Record<string, number>> {
    const kind = MemoryKind.find(this.options.kinds, record.kind)
    return Scorer.score(this.query, weight)({ record, relevance, kind, now: this.now }).factors
  }
}

/** A candidate of one round, and what it is worth. */
export interface Found {
  readonly fact: Fact
  readonly score: number
  readonly relevance: number
  readonly lexical: number
  readonly signals: Readonly<Signals> | undefined
  readonly cosine: number
}

/** Runs a program as an Effect. */
export const run = <A>(plan: () => SearchProgram<A>): Effect.Effect<A, MemoryError> => Effect.gen(plan)

/** Runs a program over a retrieval whose answers are `Either.right`s, which are Effects that need no fiber. */
export const runSynchronously = <A>(plan: SearchProgram<A>): A => {
  let step = plan.next()
  while (step.done !== true) {
    const answer = yieldWrapGet(step.value)
    if (!Either.isEither(answer)) throw new TypeError("a retrieval that does not answer at once")
    // never: a generator is typed for the answers to all of its questions, of which this is the one to its last
    step = plan.next(Either.getOrThrowWith(answer, (error) => error) as never)
  }
  return step.value
}

/** Searches. Best first; ties newest first, then by id. */
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

/** Tells why a record is not among the hits; `undefined`: it is. Cost: the search, and a record and a vector more. */
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

/** Returns a page, newest first, then by id. `undefined`: `after` is no cursor of this viewer and filter. */
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
  return { items, next: makeCursor(viewer, filter, positionOf(items[limit - 1]!)) } // a limit is at least 1
}

/** The records of a list after a position, at most `limit`. */
export const page = (
  retrieval: Pick<Retrieval, "page">,
  viewer: Viewer.Any,
  filter: MemoryFilter,
  after: Position | undefined,
  limit: number,
  now: number
) => retrieval.page(Viewer.sightOf(viewer, now), askedOf(viewer, filter, now), after, limit)

const none = { record: undefined, forgotten: false }
/** Returns how many of the first hits fit into the budget, at four characters a token. Ends at the first that does not. */
export const fitting = (hits: ReadonlyArray<Hit>, budget: number | undefined): number => {
  let left = budget ?? Infinity
  const sizeOf = ({ passage, record }: Hit) => record.summary.length + (passage?.text ?? record.body).length
  const end = hits.findIndex((hit) => (left -= Math.ceil(sizeOf(hit) / 4)) < 0)
  return end < 0 ? hits.length : end
}

/** The result of one round of retrieval, at some depth. */
export interface Round {
  /** Best first. */
  readonly found: ReadonlyArray<Found>
  /** Number of all that is found, at any depth. */
  readonly count: number
  /** Whether a deeper round may change what is shown. `last` is the last hit that is wanted; `undefined`: there are fewer. */
  readonly isCut: (last: Found | undefined) => boolean
  readonly explanationOf: (found: Found, record: MemoryRecord) => Readonly<Record<string, number>>
  readonly passageOf: (record: MemoryRecord) => Hit["passage"]
  readonly awaiting?: number | undefined
  readonly confidence: number | undefined
  /** The record that `whyNot` asks about, where it is found at all. */
  readonly subject: Found | undefined
  readonly exact: boolean
}

/** Asks for the best by word, weighed, with nothing left to decide but what says the same. */
function* byWord(search: Search, depth: number, ranker: LazyRanker | undefined): SearchProgram<Round> {
  const { minScore, query, retrieval, subject, terms, weights: { lexical: weight } } = search
  const matches = yield* retrieval.match(search.sight, search.asked, {
    terms,
    ranker,
    score: search.scorer(weight),
    shares: query.weights && Scorer.shares(query, weight, search.options.kinds, search.now),
    minScore,
    depth,
    also: subject === undefined ? [] : [subject.id]
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

/** Ranking of the candidates of a question; `undefined`: no words are asked for, or nothing but words counts. */
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

/** Retrieves, orders and folds, deeper as long as that may change what is shown: mostly once. */
function* rank(search: Search): SearchProgram<Result> {
  const { embedding, isFolded, limit, query } = search
  const ranker = rankerOf(search)
  // some more than is wanted, where some may be folded
  let depth = embedding !== undefined ? Math.max(100, 5 * limit) : isFolded ? limit + (limit >> 2) + 4 : limit
  for (;;) {
    const round = embedding === undefined
      ? yield* byWord(search, depth, ranker)
      : yield* hybridSearch(search, embedding, depth, ranker)
    const { folded, gone, kept } = yield* pick(search, round.found)
    depth = deeper(depth, limit, Math.max(1, kept.length))
    if (round.isCut(kept[limit - 1]?.found)) continue
    return {
      ...round,
      shown: kept.map(({ found, record }): Hit => {
        const passage = isLong(record) && query.text !== undefined ? round.passageOf(record) : undefined
        const explanation = query.explain === true && { explanation: round.explanationOf(found, record) }
        return { record, score: found.score, ...(passage && { passage }), ...explanation }
      }),
      more: round.count - kept.length - folded - gone,
      folded,
      isFolded
    }
  }
}

/** Returns the next depth: enough if hits fold at the rate of those that were kept, and the more beyond it the fewer these are. */
const deeper = (depth: number, limit: number, kept: number): number =>
  Math.ceil(depth * Math.min(16, Math.max(2, limit / kept * (1 + 2 / kept))))

interface Picked {
  readonly kept: ReadonlyArray<{ readonly found: Found; readonly record: MemoryRecord }>
  readonly folded: number
  readonly gone: number
}

/**
 * Takes the first `limit` records that do not repeat an earlier one. Reads the bodies of as many as are wanted, and of some more
 * for those that fold. `gone` counts records that were forgotten, hidden, expired or changed since they matched.
 */
function* pick(search: Search, all: ReadonlyArray<Found>): SearchProgram<Picked> {
  const { isFolded, limit } = search
  const kept: Array<Picked["kept"][number]> = []
  const isRepeated = repeats()
  let [folded, gone] = [0, 0]
  for (let from = 0, size = limit; kept.length < limit && from < all.length; size = 2 * (limit - kept.length) + 8) {
    const batch = all.slice(from, from + size)
    const bodies = yield* bodiesOf(search, batch)
    for (const found of batch) {
      if (kept.length === limit) break
      const record = found.fact.record ?? bodies.get(found.fact.id)
      if (record === undefined) gone++
      else if (isFolded && isRepeated(record)) folded++
      else kept.push({ found, record })
    }
    from += batch.length
  }
  return { kept, folded, gone }
}

/** Reads the records that are not in memory. One that was forgotten, hidden or changed since, so that it does not pass, is left out. */
function* bodiesOf(
  { asked, retrieval, sight }: Search,
  all: ReadonlyArray<Found>
): SearchProgram<ReadonlyMap<MemoryId, MemoryRecord>> {
  const ids = all.flatMap(({ fact }) => fact.record === undefined ? [fact.id] : [])
  if (ids.length === 0) return new Map()
  const isSeen = Viewer.includes(sight.visibility)
  const rows = yield* retrieval.read(sight.tenant, ids)
  return new Map(
    rows.flatMap((row) =>
      Option.isSome(row) && !row.value.forgotten && isSeen(row.value.record.scope) &&
        !isExpired(row.value.record, sight.now) && asked.passes(row.value.record)
        ? [[row.value.record.id, row.value.record] as const]
        : []
    )
  )
}
