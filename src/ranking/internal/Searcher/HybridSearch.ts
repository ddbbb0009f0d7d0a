/**
 * Hybrid search: retrieves matches by vector and matches by words. Each match gets a score by vector and a score by words, whichever search
 * found it. The final score of a match combines both scores.
 */
import * as Option from "effect/Option"
import type { Embedding, Hit } from "../../../domain/MemoryFilter.ts"
import type { MemoryId } from "../../../domain/MemoryId.ts"
import { type MemoryRecord, newestFirst } from "../../../domain/MemoryRecord.ts"
import { key } from "../../../domain/MemoryScope.ts"
import { buildDoc, explain, idf, maxSaturation, slopeOf } from "../../Bm25.ts"
import * as Fusion from "../../Fusion.ts"
import type { Candidate, Fact, Matches, Near } from "../../Retrieval.ts"
import { cosineTo, toFloat32 } from "../../VectorIndex.ts"
import { RecordFact } from "../Outline.ts"
import { Passages } from "../Passages.ts"
import { confidence, type LazyRanker, type Signals } from "../Ranker.ts"
import type { Found, Round, Search, SearchProgram } from "../Searcher.ts"

/**
 * A message (a record of a session) lends at most this share of its cosine to the messages directly before and after it. The vector score
 * of a message uses its own cosine or the cosine lent to it, whichever is higher. A search by vector alone ignores lent cosines.
 */
const lentShare = 0.8
/** Number of nearest records that lend their cosines. The number is fixed, so that scores do not depend on how many are retrieved. */
const maxLenders = 100

/** A match, with the scores that are known so far. */
interface HybridCandidate {
  readonly fact: Fact
  cosine: number
  /** Whether the match was found by vector. */
  readonly isNear: boolean
  lexical: number
  signals: Readonly<Signals> | undefined
}

/**
 * Retrieves the best `depth` matches by vector and the best `depth` by words. Computes both scores of each match. The search by words is
 * left out if there is no text, in mode `vector`, or if `weights.lexical` is 0.
 */
export function* hybridSearch(
  search: Search,
  embedding: Embedding,
  depth: number,
  ranker: LazyRanker | undefined
): SearchProgram<Round> {
  const { minScore, query, retrieval, subject, weights } = search
  const vector = toFloat32(embedding.vector)
  const { floor = 0 } = embedding
  const near: Near = retrieval.vectors === undefined
    ? { hits: [], awaiting: 0, exact: true }
    : above(floor, yield* retrieval.vectors.near(search.access, search.compiled, embedding.model, vector, depth))
  const closest = near.hits[0]?.cosine ?? 0
  const lentCosine = lentCosineOf(near, lentShare * Math.min(1, weights.conversation * weights.ranker))
  const all = new Map<MemoryId, HybridCandidate>()
  for (const { cosine, fact } of near.hits) {
    all.set(fact.id, { fact, cosine, isNear: true, lexical: 0, signals: undefined })
  }
  const terms = query.mode !== "vector" && weights.lexical > 0 ? search.terms : undefined
  const matches = terms === undefined ? undefined : yield* retrieval.match(search.access, search.compiled, {
    terms,
    ranker,
    minScore: 0,
    depth,
    includeIds: subject === undefined ? Array.from(all.keys()) : [...all.keys(), subject.id]
  })
  const words = Math.min(depth, matches?.count ?? 0)
  const others: Array<HybridCandidate> = []
  let candidateOfSubject: HybridCandidate | undefined
  matches?.candidates.forEach(({ signals, fact, lexical }, i) => {
    const known = all.get(fact.id)
    if (known !== undefined) {
      known.lexical = lexical
      known.signals = signals
      return
    }
    const one = { fact, cosine: 0, isNear: false, lexical, signals }
    others.push(one)
    // the first `words` candidates are the best matches by words. The others were requested by id. Of these, only the record `subject` can
    // be missing in `all`
    if (i < words) all.set(fact.id, one)
    else candidateOfSubject = one
  })
  if (subject !== undefined) candidateOfSubject = all.get(subject.id) ?? candidateOfSubject
  if (subject !== undefined && candidateOfSubject === undefined) {
    candidateOfSubject = { fact: new RecordFact(subject, 0), cosine: 0, isNear: false, lexical: 0, signals: undefined }
    others.push(candidateOfSubject)
  }
  yield* compare(search, embedding.model, vector, others, near.known)

  const lexicalOf = (lexical: number): Fusion.Share => ({
    weight: weights.lexical,
    score: lexical,
    best: matches?.best ?? 0
  })
  const vectorOf = (fact: Fact, cosine: number): Fusion.Share => ({
    weight: weights.vector,
    score: Math.max(0, Math.max(cosine, lentCosine(fact)) - floor),
    best: closest - floor
  })
  const weight = weights.vector + (matches ? weights.lexical : 0)
  const scored = search.scorer(weight)
  const foundAs = ({ signals, cosine, fact, lexical }: HybridCandidate): Found => {
    const relevance = matches ? Fusion.byScore([lexicalOf(lexical), vectorOf(fact, cosine)]) : Math.min(1, cosine)
    return { fact, relevance, score: scored ? scored(fact, relevance) : relevance, lexical, signals, cosine }
  }
  const found = Array.from(all.values(), foundAs).filter(({ score }) => score >= minScore).sort(bestFirst)
  const isDeep = near.hits.length < depth && words < depth
  let [vectorOnly, lexicalCount] = [0, 0]
  for (const { isNear, lexical } of all.values()) {
    if (lexical > 0) lexicalCount++
    else if (isNear) vectorOnly++
  }
  return {
    found,
    // matches by vector only, plus matches by words. `matches.count` may be too low, so the higher of the two counts by words is used
    count: query.minScore === undefined ? vectorOnly + Math.max(lexicalCount, matches?.count ?? 0) : found.length,
    // a deeper round is done in two cases, unless both searches found fewer than `depth` matches. First: there are too few hits, although
    // every match reaches `minScore`. Second: there are enough hits, but the last hit has the lowest cosine of this round. A deeper round
    // may then find a newer record with the same cosine. In all other cases, records beyond both depths are not looked for, even if they
    // would score higher
    isCut: (last) =>
      !isDeep &&
      (last === undefined
        ? found.length === all.size
        : all.get(last.fact.id)?.isNear === true && last.cosine === near.hits.at(-1)!.cosine), // `near.hits` is not empty: it has `last`
    explanationOf: (found, record) => {
      const { cosine, fact, lexical, relevance } = found
      const { lexical: whole = 0, ...factors } = search.factors(record, relevance, weight)
      const [byWord, byVector] = [Fusion.partOf(lexicalOf(lexical)), Fusion.partOf(vectorOf(fact, cosine))]
      const both = byWord + byVector || 1
      return {
        ...(matches && wordsOf(search, matches, terms, record, found, ranker)),
        cosine,
        ...(matches && lentCosine(fact) > cosine && { "cosine:lent": lentCosine(fact) }),
        relevance,
        ...(matches && { lexical: whole * byWord / both }),
        vector: matches ? whole * byVector / both : whole,
        ...factors
      }
    },
    passageOf: (record) => passageIn(search, matches, terms ?? search.terms, record),
    confidence: matches && confidenceIn(search, matches, terms),
    awaiting: near.awaiting,
    subject: candidateOfSubject && (candidateOfSubject.lexical > 0 || candidateOfSubject.cosine > floor)
      ? foundAs(candidateOfSubject)
      : undefined,
    // matches by vector beyond the depth are not counted. With `minScore`, matches by words beyond the depth are not counted either
    exact: near.exact && (matches?.exact ?? true) && (query.minScore === undefined ? near.hits.length < depth : isDeep)
  }
}

const above = (floor: number, near: Near): Near =>
  floor === 0 ? near : { ...near, hits: near.hits.filter(({ cosine }) => cosine > floor) }

/** Makes a function that returns the cosine lent to a record: `share` times the best cosine of an adjacent message. */
const lentCosineOf = ({ hits }: Near, share: number): (fact: Fact) => number => {
  const sessions = new Map<string, Array<Near["hits"][number]>>()
  for (const hit of share > 0 ? hits.slice(0, maxLenders) : []) {
    const { sequence, session } = hit.fact
    if (session === undefined || sequence === undefined) continue
    const others = sessions.get(session)
    if (others) others.push(hit)
    else sessions.set(session, [hit])
  }
  return ({ scope, sequence = NaN, session }) => {
    let best = 0
    for (const { cosine, fact } of session === undefined ? [] : sessions.get(session) ?? []) {
      if (cosine > best && Math.abs(fact.sequence! - sequence) === 1 && key(fact.scope) === key(scope)) best = cosine
    }
    return share * best
  }
}

/** Sets the cosines of candidates that were not found by vector. Reads the vectors that `known` does not return. */
function* compare(
  { retrieval, access }: Search,
  model: string,
  vector: Float32Array,
  all: ReadonlyArray<HybridCandidate>,
  known: Near["known"] = () => undefined
): SearchProgram<void> {
  const cosineOf = cosineTo(vector)
  const others = all.filter((one) => {
    const own = known(one.fact.hash)
    if (own !== undefined) one.cosine = cosineOf(own)
    return own === undefined
  })
  if (others.length === 0 || retrieval.vectors === undefined) return
  const vectors = yield* retrieval.vectors.read(access.tenant, model, others.map(({ fact }) => fact.hash))
  others.forEach((one, i) => {
    const own = vectors[i]
    if (own !== undefined && Option.isSome(own)) one.cosine = cosineOf(own.value)
  })
}

const bestFirst = (a: Found, b: Found): number =>
  b.score - a.score || newestFirst(a.fact.recency, a.fact.id, b.fact.recency, b.fact.id)

/**
 * Explains the lexical score of a record. Returns the record's BM25 score and the summands of that score. Also returns `rank:<feature>` for
 * each feature of the ranker: the feature's part of the lexical score, divided by the highest lexical score of all matches.
 */
export const wordsOf = (
  { options: { analyzer } }: Search,
  matches: Matches,
  terms: ReadonlyArray<string> = [],
  record: MemoryRecord,
  { signals, lexical }: Pick<Found, "signals" | "lexical">,
  ranker: LazyRanker | undefined
): Readonly<Record<string, number>> => {
  const { bm25, parts } = explain(
    buildDoc(record.id, record, analyzer.index),
    weightsOf(terms, matches),
    slopeOf(matches.totalLength / matches.documents)
  )
  const { best, bestWords } = matches
  // a record without signals is ranked by its words alone
  const known = signals === undefined ? { words: 1 } : ranker?.read().shares(signals, bestWords ?? 0)
  const shares = ranker === undefined ? [] : Object.entries(known ?? {})
  const whole = shares.reduce((sum, [, share]) => sum + share, 0)
  const ranks = shares.map(([feature, share]) =>
    [`rank:${feature}`, best > 0 ? share / whole * lexical / best : 0] as const
  )
  return { bm25, ...parts, ...Object.fromEntries(ranks) }
}

const weightsOf = (terms: ReadonlyArray<string>, { documentFrequencies, documents }: Matches) =>
  terms.flatMap((term, i) => {
    const df = documentFrequencies[i]! // `documentFrequencies` has one entry per term of the query
    return df > 0 ? [[term, idf(documents, df)] as const] : []
  })

/**
 * Returns the probability that the best match by words answers the query; 0 if there is no such match. Returns `undefined` if the query has
 * no text, or does not ask for this probability.
 */
export const confidenceIn = (
  { query }: Search,
  { best, bestWords = best, candidates, documentFrequencies, documents, isNamed }: Matches,
  terms: ReadonlyArray<string> = []
): number | undefined => {
  if (query.confidence !== true || query.text === undefined) return undefined
  const first = candidates.reduce<Candidate | undefined>(
    (best, one) => one.lexical > (best?.lexical ?? 0) ? one : best,
    undefined
  )
  if (first === undefined) return 0
  const weights = terms.map((_, i) => idf(documents, documentFrequencies[i]!)) // `documentFrequencies` has an entry for each term
  const all = weights.reduce((sum, weight) => sum + weight, 0)
  const unknown = weights.reduce((sum, weight, i) => documentFrequencies[i] === 0 ? sum + weight : sum, 0)
  return confidence({
    rank: first.signals?.isTurn === true ? first.lexical : undefined,
    isMeant: isNamed !== true || first.signals?.isSpeaker === true,
    strength: Math.min(1, bestWords / (maxSaturation * all)),
    unknown: unknown / all
  })
}

/** Returns the passage of a record that fits the query best. All terms have equal weights if there was no search by words. */
export const passageIn = (
  { options: { analyzer } }: Search,
  matches: Matches | undefined,
  terms: ReadonlyArray<string> = [],
  record: MemoryRecord
): Hit["passage"] => {
  const weights = matches === undefined ? terms.map((term) => [term, 1] as const) : weightsOf(terms, matches)
  const slope = matches === undefined ? 0 : slopeOf(matches.totalLength / matches.documents)
  const found = Passages.of(analyzer.index).best(record, weights, slope)
  return found && { text: record.body.slice(found.start, found.end), start: found.start }
}
