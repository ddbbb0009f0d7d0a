/**
 * The retrievers of a search: by word, and by vector and word together. Each asks a `Retrieval` for its best candidates, and
 * says what they are worth and why.
 */
import type * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { YieldWrap } from "effect/Utils"
import type { MemoryError } from "../../domain/MemoryError.ts"
import type { Embedding, MemoryFilter, MemoryQuery } from "../../domain/MemoryFilter.ts"
import { matches as matching } from "../../domain/MemoryFilter.ts"
import type { MemoryId } from "../../domain/MemoryId.ts"
import * as MemoryKind from "../../domain/MemoryKind.ts"
import type { MemoryRecord } from "../../domain/MemoryRecord.ts"
import * as Viewer from "../../domain/Viewer.ts"
import { type Sight, sightOf } from "../../domain/Visibility.ts"
import type * as Analyzer from "../Analyzer.ts"
import { buildDoc, explain, idf, slopeOf } from "../Bm25.ts"
import * as Fusion from "../Fusion.ts"
import { type Asked, type Fact, type Matches, type Near, RecordFact, type Retrieval } from "../Retrieval.ts"
import * as Scorer from "../Scorer.ts"
import { cosineSimilarity } from "../VectorIndex.ts"
import { toFloat32 } from "./ModelVectors.ts"

/** How texts become terms, and how long kinds matter. */
export interface Options {
  readonly analyzer: Analyzer.Service
  readonly kinds: ReadonlyMap<string, MemoryKind.MemoryKind>
}

/** The body of an `Effect.gen` over the effects of a retrieval. */
export type Plan<A> = Generator<YieldWrap<Effect.Effect<unknown, MemoryError>>, A, never>

export const defaultLimit = 20

/** When a record has to be true to be shown: now, but to the library at any time. */
export const trueAt = (viewer: Viewer.Any, now: number): number | undefined => Viewer.isSystem(viewer) ? undefined : now

/**
 * The filter of a call, as a retrieval applies it. Of the trash a viewer is shown what it may restore, which instructions are
 * not, and whether a record is still true is asked only where the filter says `asOf`.
 */
export const askedOf = (viewer: Viewer.Any, filter: MemoryFilter, now: number): Asked => {
  if (filter.forgotten === true) {
    const isMeant = matching(filter, undefined)
    const isRestorable = (record: MemoryRecord) => Viewer.isSystem(viewer) || record.source.origin !== "instructions"
    return { filter, passes: (record) => isRestorable(record) && isMeant(record) }
  }
  const at = trueAt(viewer, now)
  let passes: Asked["passes"] | undefined // most filters say nothing that asks for the record
  return { filter, at, passes: (record) => (passes ??= matching(filter, at))(record) }
}

/** A search under way: what is asked, of whom, and what follows from it. */
export class Search {
  readonly retrieval: Retrieval
  readonly options: Options
  readonly query: MemoryQuery
  readonly now: number
  readonly sight: Sight
  readonly asked: Asked
  readonly limit: number
  readonly minScore: number
  /** Those of vectors suit word vectors (docs/retrieval.md). */
  readonly weights: { readonly lexical: number; readonly vector: number; readonly conversation: number }
  /** What the vector leg looks for. A weight of 0 leaves a leg out, but not the only one there is. */
  readonly embedding: Embedding | undefined
  /** Whether near-duplicates of a better hit are left out: where anything was asked for. */
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
    const { conversation = 1, lexical = 1, vector = 0.4 } = query.weights ?? {}
    const isVectorial = retrieval.vectors !== undefined && query.mode !== "lexical" &&
      (vector > 0 || query.mode === "vector")
    this.retrieval = retrieval
    this.options = options
    this.query = query
    this.now = now
    this.sight = sightOf(viewer, now)
    this.asked = askedOf(viewer, query, now)
    this.limit = query.limit ?? defaultLimit
    this.minScore = query.minScore ?? 0
    this.weights = { lexical, vector, conversation }
    this.embedding = isVectorial ? query.embedding : undefined
    this.isFolded = query.text !== undefined || this.embedding !== undefined
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
  readonly lent: number | undefined
  readonly cosine: number
}

/** What either leg found, on its way to a score. */
interface Contender {
  readonly fact: Fact
  cosine: number
  /** Whether the vector leg has found it. */
  readonly isNear: boolean
  lexical: number
  lent: number | undefined
}

/** What was found at some depth. */
export interface Round {
  /** Best first. */
  readonly found: ReadonlyArray<Found>
  /** Number of all that is found, at any depth. */
  readonly count: number
  /** Whether there may be more that this hit, the last that is wanted, does not surely beat. `undefined`: there are fewer. */
  readonly isCut: (last: Found | undefined) => boolean
  readonly explanationOf: (found: Found, record: MemoryRecord) => Readonly<Record<string, number>>
  readonly awaiting?: number
  /** The record that `whyNot` asks about, where it is found at all. */
  readonly subject: Found | undefined
  readonly exact: boolean
}

/** Asks for the best by word, weighed, with nothing left to decide but what says the same. */
export function* byWord(search: Search, depth: number): Plan<Round> {
  const { minScore, query, retrieval, subject, terms, weights: { conversation, lexical: weight } } = search
  const matches = yield* retrieval.match(search.sight, search.asked, {
    terms,
    conversation,
    score: search.scorer(weight),
    minScore,
    depth,
    also: subject === undefined ? [] : [subject.id]
  })
  const { best, count, exact } = matches
  const all = matches.candidates.map(({ fact, lent, lexical, score }): Found => ({
    fact,
    score,
    relevance: best > 0 ? lexical / best : 0,
    lexical,
    lent,
    cosine: 0
  }))
  const found = all.slice(0, Math.min(depth, count))
  return {
    found,
    count,
    isCut: (last) => last === undefined && found.length === depth && count > depth,
    explanationOf: ({ lent, relevance }, record) => ({
      ...(query.text !== undefined && wordsOf(search, matches, terms, record, lent)),
      relevance,
      ...search.factors(record, relevance, weight)
    }),
    subject: subject && all.find(({ fact, lexical }) => fact.id === subject.id && lexical > 0),
    exact
  }
}

/** Asks for the best `depth` of either leg; what one of them has found is held against the other. */
export function* byVector(search: Search, embedding: Embedding, depth: number): Plan<Round> {
  const { minScore, query, retrieval, subject, weights } = search
  const vector = toFloat32(embedding.vector)
  const near: Near = retrieval.vectors === undefined
    ? { hits: [], awaiting: 0, exact: true }
    : yield* retrieval.vectors.near(search.sight, search.asked, embedding.model, vector, depth)
  const closest = near.hits[0]?.cosine ?? 0
  const all = new Map<MemoryId, Contender>()
  for (const { cosine, fact } of near.hits) {
    all.set(fact.id, { fact, cosine, isNear: true, lexical: 0, lent: undefined })
  }
  const terms = query.mode !== "vector" && weights.lexical > 0 ? search.terms : undefined
  const matches = terms === undefined ? undefined : yield* retrieval.match(search.sight, search.asked, {
    terms,
    conversation: weights.conversation,
    minScore: 0,
    depth,
    also: subject === undefined ? Array.from(all.keys()) : [...all.keys(), subject.id]
  })
  const words = Math.min(depth, matches?.count ?? 0)
  const others: Array<Contender> = []
  let about: Contender | undefined
  matches?.candidates.forEach(({ fact, lent, lexical }, i) => {
    const known = all.get(fact.id)
    if (known !== undefined) {
      known.lexical = lexical
      known.lent = lent
      return
    }
    const one = { fact, cosine: 0, isNear: false, lexical, lent }
    others.push(one)
    if (i < words) all.set(fact.id, one)
    else about = one // of `also` only the subject is not near
  })
  if (subject !== undefined) about = all.get(subject.id) ?? about
  if (subject !== undefined && about === undefined) {
    about = { fact: new RecordFact(subject, 0), cosine: 0, isNear: false, lexical: 0, lent: undefined }
    others.push(about)
  }
  yield* compare(search, embedding.model, vector, others)

  const lexicalOf = (lexical: number): Fusion.Share => ({
    weight: weights.lexical,
    score: lexical,
    best: matches?.best ?? 0
  })
  const vectorOf = (cosine: number): Fusion.Share => ({ weight: weights.vector, score: cosine, best: closest })
  const weight = weights.vector + (matches ? weights.lexical : 0)
  const scored = search.scorer(weight)
  const foundAs = ({ cosine, fact, lent, lexical }: Contender): Found => {
    const relevance = matches ? Fusion.byScore([lexicalOf(lexical), vectorOf(cosine)]) : Math.min(1, cosine)
    return { fact, relevance, score: scored ? scored(fact, relevance) : relevance, lexical, lent, cosine }
  }
  const found = Array.from(all.values(), foundAs).filter(({ score }) => score >= minScore).sort(bestFirst)
  const isDeep = near.hits.length < depth && words < depth
  let only = 0
  for (const { isNear, lexical } of all.values()) if (isNear && lexical === 0) only++
  return {
    found,
    count: query.minScore === undefined ? only + (matches?.count ?? 0) : found.length,
    // what is further off than one below `minScore` is below it too; of equally near ones it is not the newest that were found
    isCut: (last) =>
      !isDeep &&
      (last === undefined
        ? found.length === all.size
        : all.get(last.fact.id)?.isNear === true && last.cosine === near.hits.at(-1)!.cosine), // one of `near` at least
    explanationOf: ({ cosine, lent, lexical, relevance }, record) => {
      const { lexical: whole = 0, ...factors } = search.factors(record, relevance, weight)
      const [byWord, byVector] = [Fusion.partOf(lexicalOf(lexical)), Fusion.partOf(vectorOf(cosine))]
      const both = byWord + byVector || 1
      return {
        ...(matches && wordsOf(search, matches, terms, record, lent)),
        cosine,
        relevance,
        ...(matches && { lexical: whole * byWord / both }),
        vector: matches ? whole * byVector / both : whole,
        ...factors
      }
    },
    awaiting: near.awaiting,
    subject: about && (about.lexical > 0 || about.cosine > 0) ? foundAs(about) : undefined,
    exact: near.exact && (matches?.exact ?? true)
  }
}

/** Reads the vectors of records that the vector leg did not return, and sets their cosines. */
function* compare(
  { retrieval, sight }: Search,
  model: string,
  vector: Float32Array,
  all: ReadonlyArray<Contender>
): Plan<void> {
  if (all.length === 0 || retrieval.vectors === undefined) return
  const vectors = yield* retrieval.vectors.read(sight.tenant, model, all.map(({ fact }) => fact.hash))
  all.forEach((one, i) => {
    const own = vectors[i]
    if (own !== undefined && Option.isSome(own)) one.cosine = cosineSimilarity(vector, own.value)
  })
}

const bestFirst = (a: Found, b: Found): number =>
  b.score - a.score || b.fact.recency - a.fact.recency || (a.fact.id < b.fact.id ? -1 : 1)

/** What the words of the query gave a record, and what its neighbours lent it. */
const wordsOf = (
  { options: { analyzer } }: Search,
  { documentFrequencies, documents, totalLength }: Matches,
  terms: ReadonlyArray<string> = [],
  record: MemoryRecord,
  lent: number | undefined
): Readonly<Record<string, number>> => {
  const weights = terms.flatMap((term, i) => {
    const df = documentFrequencies[i]! // of as many terms as were asked for
    return df > 0 ? [[term, idf(documents, df)] as const] : []
  })
  const { bm25, parts } = explain(
    buildDoc(record.id, record, analyzer.index),
    weights,
    slopeOf(totalLength / documents)
  )
  return { bm25, ...parts, ...(lent !== undefined && { conversation: lent }) }
}
