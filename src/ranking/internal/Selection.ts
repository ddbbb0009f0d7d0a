/**
 * Selects the matches with the best final scores. To evaluate a match is to filter and score it. Matches that cannot be among the best, by
 * an upper bound of the score, need not be evaluated. The selection is exact; the count of all matches may be a lower bound.
 */
import { relevanceOf } from "../Bm25.ts"
import type { Question } from "../Retrieval.ts"
import { bestOf, narrow, ScoreThreshold, topK } from "./DocIds.ts"
import { lowestMatchScore } from "./Impacts.ts"
import type { InvertedIndex, View } from "./InvertedIndex.ts"
import type { ColumnFilter } from "./Outline.ts"
import type { ScoreBound } from "./ScoreBound.ts"
import type { TermMasks } from "./TermMasks.ts"

type Passes = (doc: number) => boolean
/** A set of doc ids to select from, in any order. Each doc id has a rank, which is a score: higher is better. */
export interface DocSet {
  readonly count: number
  /** Some of the doc ids. The `topCount` doc ids with the highest ranks are among them. */
  readonly topDocs: Int32Array
  readonly topCount: number
  /** Returns an array of all doc ids. The caller may reorder the array. A later call may overwrite the array. */
  readonly all: () => Int32Array
  /** Returns the doc ids whose rank is `minRank` or higher. */
  readonly withMinRank: (minRank: number) => Int32Array
}

/** Makes a set of the doc ids in an array. The set may reorder the array. `ranks` has the rank of each doc id. */
export const docSetOf = (docs: Int32Array, ranks: Float64Array): DocSet => ({
  count: docs.length,
  topDocs: docs,
  topCount: 0,
  all: () => docs,
  withMinRank(minRank) {
    let passed = 0
    // swaps without a branch, since the processor would often mispredict such a branch
    for (let i = 0; i < docs.length; i++) {
      const doc = docs[i]!
      docs[i] = docs[passed]!
      docs[passed] = doc
      passed += +(ranks[doc]! >= minRank)
    }
    return docs.subarray(0, passed)
  }
})

/**
 * Counts the matches that pass a column filter, and collects those that may be among the best. The index calls `collect` each time it has
 * scored a scope, because the matches are then still in the processor's cache. The index may omit low matches from its list until all
 * matches are asked for.
 */
export class MatchCollector {
  #count = 0
  readonly #topDocs: Array<number> = []
  readonly #index: InvertedIndex
  readonly #view: View
  readonly #filter: ColumnFilter
  readonly #threshold: ScoreThreshold
  readonly #limit: number
  readonly #masks: TermMasks | undefined
  readonly #slack: number
  /** The best score of a match so far. */
  #best = 0
  /** The index need not list matches with a score below this one. */
  #minListed = lowestMatchScore

  /**
   * The `limit` best matches are always among the `topDocs` of `docSet()`. The index need not list matches with low scores. A score is low
   * if its distance to the `limit`-th best exceeds `slack` times the best score. The terms of each match are added to its group in `masks`.
   */
  constructor(
    index: InvertedIndex,
    view: View,
    filter: ColumnFilter,
    limit: number,
    slack: number,
    masks: TermMasks | undefined
  ) {
    this.#index = index
    this.#view = view
    this.#filter = filter
    this.#threshold = new ScoreThreshold(limit)
    this.#limit = limit
    this.#masks = masks
    this.#slack = slack
  }

  /** Reads the index's list of matches from position `from` on. Returns a score: the index may omit later matches that score lower. */
  readonly collect = (from: number): number => {
    const index = this.#index
    const { matches: { data: matches }, scores: { data: scores } } = index
    this.#dropExpired(from)
    if (!index.isDense || !this.#view.whole) this.#masks?.gather(matches, from, index.matched)
    const end = this.#filter.narrow(matches, from, index.matched)
    // the index counts the matches; if it cannot, it lists all matches, and this method counts them
    const isCounted = this.#view.whole && (this.#filter.isOpen || index.groupFilter !== undefined)
    this.#count = isCounted ? index.passed : this.#count + end - from
    const threshold = this.#threshold
    const topDocs = this.#topDocs
    let minScore = threshold.value
    let best = this.#best
    for (let i = from; i < end; i++) {
      const doc = matches[i]!
      const score = scores[doc]!
      if (score < minScore) continue
      topDocs.push(doc)
      if (score > best) best = score
      if (score === minScore) continue
      threshold.offer(score)
      minScore = threshold.value
    }
    this.#best = best
    if (index.isDense) index.matched = end
    if (isCounted) this.#minListed = Math.max(this.#minListed, minScore - this.#slack * best)
    return this.#minListed
  }

  /** Returns the matches that were found. The set is valid until the index is cleared. */
  docSet(): DocSet {
    const index = this.#index
    const listed = (minScore?: number) => {
      index.listMatches(minScore)
      const { matched, matches: { data: matches } } = index
      return matches.subarray(0, this.#filter.narrow(matches, 0, matched))
    }
    return {
      count: this.#count,
      topDocs: new Int32Array(this.#topDocs),
      topCount: this.#limit,
      all: () => listed(),
      withMinRank: (minRank) =>
        docSetOf(listed(Math.max(lowestMatchScore, minRank)), index.scores.data).withMinRank(minRank)
    }
  }

  /** Removes expired and removed documents from the list of matches, beginning at position `from`. */
  #dropExpired(from: number): void {
    const { at, whole } = this.#view
    if (whole) return
    const index = this.#index
    const matches = index.matches.data
    const until = index.until.data
    let kept = from
    for (let i = from; i < index.matched; i++) {
      const doc = matches[i]!
      if (until[doc]! > at) matches[kept++] = doc
      else index.drop(doc)
    }
    index.matched = kept
  }
}

/** Matches to select from, and how they are scored. */
export interface Choice {
  /** Doc ids to select from. */
  readonly docSet: DocSet
  /** Rank (a score, higher is better) by doc id. The relevance of a doc id is its rank divided by the best rank. */
  readonly ranks: Float64Array
  /** The best rank of a doc id that passes the filter, if it is known. */
  readonly best: number | undefined
  /** Returns whether a doc id passes the filter; `undefined` if all doc ids pass. */
  readonly rest: Passes | undefined
  /** Computes the final score. Default: the relevance. Matches are then sorted by rank, which is more precise than the relevance. */
  readonly scored: ((doc: number, relevance: number) => number) | undefined
  /** Upper bounds of the final scores. */
  readonly scoreBound: ScoreBound | undefined
  readonly newestFirst: (a: number, b: number) => number
  /** Number of doc ids up to which `scoreBound` is not used. */
  readonly examined: number
}

/** The matches that `choose` selected. */
export interface Chosen {
  /** Doc ids, best first. */
  readonly first: ReadonlyArray<number>
  /** Final scores of the doc ids in `first`, in the same order. Absent if the final score is the relevance. */
  readonly scores?: ReadonlyArray<number>
  /** The highest rank of a doc id that passes the filter. A rank is a score by words or by the ranker. */
  readonly best: number
  /** Number of doc ids that pass the filter and score at least `minScore`; a lower bound if `isExact` is false. */
  readonly count: number
  readonly isExact: boolean
}

/** Selects the best `depth` matches. If upper bounds of the scores are known, only a few of many doc ids are filtered and scored. */
export const choose = (choice: Choice, { depth, minScore }: Pick<Question, "depth" | "minScore">): Chosen => {
  const { newestFirst, docSet, ranks, rest, scored } = choice
  if (scored === undefined && minScore === 0) {
    const { best: first, count, isWhole } = bestPassing(docSet, ranks, Math.max(1, depth), newestFirst, rest)
    const best = choice.best ?? (first.length > 0 ? ranks[first[0]!]! : 0)
    return { first: first.slice(0, depth), best, count, isExact: isWhole }
  }
  const scoreBound = docSet.count > choice.examined ? choice.scoreBound : undefined
  const isSampled = scoreBound !== undefined && rest === undefined
  const top = choice.best === undefined
    ? bestPassing(docSet, ranks, isSampled ? sampleOf(depth) : 1, newestFirst, rest).best
    : []
  const best = choice.best ?? (top.length === 0 ? 0 : ranks[top[0]!]!)
  if (scored !== undefined) {
    return chooseByScore({ ...choice, scored, best, scoreBound, sample: isSampled ? top : [] }, depth, minScore)
  }
  const docs = docSet.all()
  const count = narrow(docs, docs.length, (doc) => relevanceOf(ranks[doc]!, best) >= minScore)
  const isFilteredFirst = rest !== undefined && count <= choice.examined
  const found = isFilteredFirst
    ? bestPassing(docSetOf(docs.subarray(0, narrow(docs, count, rest)), ranks), ranks, depth, newestFirst, undefined)
    : bestPassing(docSetOf(docs.subarray(0, count), ranks), ranks, depth, newestFirst, rest)
  return { first: found.best, best, count: found.count, isExact: found.isWhole }
}

/** Arrays by doc id, shared by all calls. `finals` has final scores of evaluated doc ids. `bounds` has upper bounds of final scores. */
let finals = new Float64Array(64)
let bounds = new Float64Array(64)

const makeRoom = (docs: number): void => {
  if (finals.length >= docs) return
  finals = new Float64Array(docs)
  bounds = new Float64Array(docs)
}

const chooseByScore = (
  { best, scoreBound, newestFirst, docSet, ranks, rest, sample, scored }: Choice & {
    readonly scored: NonNullable<Choice["scored"]>
    readonly best: number
    /** The doc ids with the best ranks, or none. Their final scores show below which rank doc ids can be skipped. */
    readonly sample: ReadonlyArray<number>
  },
  depth: number,
  minScore: number
): Chosen => {
  makeRoom(ranks.length)
  const evaluate = (doc: number): number | undefined => {
    if (rest !== undefined && !rest(doc)) return undefined
    const final = scored(doc, relevanceOf(ranks[doc]!, best))
    return final < minScore ? undefined : final
  }
  const limit = depth + 1
  let request = { docSet, limit, tie: newestFirst }
  let isWhole = true
  if (scoreBound !== undefined) {
    const threshold = new ScoreThreshold(limit)
    for (const doc of sample) threshold.offer(evaluate(doc) ?? -Infinity)
    const minFinal = Math.max(minScore, threshold.value)
    const minRank = sample.length === 0 ? -Infinity : best * scoreBound.minRelevance(minFinal)
    const ranked = docSet.withMinRank(minRank)
    const bounded = ranked.subarray(0, writeBounds(ranked, ranks, best, scoreBound, bounds, minFinal))
    isWhole = threshold.value <= minScore || bounded.length === docSet.count
    request = { ...request, docSet: docSetOf(bounded, bounds) }
  }
  const found = scoreBound === undefined
    ? evaluateAll({ ...request, upperBounds: undefined }, evaluate)
    : evaluateBest({ ...request, upperBounds: bounds }, evaluate)
  const first = topK(found.docs, found.docs.length, finals, depth, newestFirst)
  const isCounted = rest === undefined && minScore === 0
  const scores = first.map((doc) => finals[doc]!)
  const isExact = isCounted || (isWhole && found.isWhole)
  return { first, scores, best, count: isCounted ? docSet.count : found.count, isExact }
}

/** Returns the number of highest-ranked doc ids that are evaluated first. Their final scores show which other doc ids to skip. */
export const sampleOf = (depth: number): number => depth + Math.max(8, depth >> 1)

/** Fills `upperBounds`. Moves the doc ids whose bound is at least `minScore` to the front of `docs`. Returns their number. */
const writeBounds = (
  docs: Int32Array,
  ranks: Float64Array,
  best: number,
  scoreBound: ScoreBound,
  upperBounds: Float64Array,
  minScore: number
): number => {
  let passed = 0
  for (let i = 0; i < docs.length; i++) {
    const doc = docs[i]!
    const bound = scoreBound.upperBound(doc, relevanceOf(ranks[doc]!, best))
    upperBounds[doc] = bound
    if (bound < minScore) continue
    docs[i] = docs[passed]!
    docs[passed++] = doc
  }
  return passed
}

/** The best doc ids that pass a filter, and the number of all doc ids that pass. */
export interface PassingDocs {
  /** The best doc ids that pass, best first. */
  readonly best: ReadonlyArray<number>
  /** Number of doc ids that pass the filter. If `isWhole` is false, not all doc ids were examined, and more may pass. */
  readonly count: number
  readonly isWhole: boolean
}

/**
 * Returns the best `limit` doc ids that pass the filter. Doc ids with equal scores are in the order of `tie`. Without `passes`, all doc ids
 * pass. A large set is filtered from the highest scores down, until enough doc ids have passed. Cost: a few comparisons per doc id.
 */
export const bestPassing = (
  docSet: DocSet,
  scores: Float64Array,
  limit: number,
  tie: (a: number, b: number) => number,
  passes: Passes | undefined
): PassingDocs => {
  if (passes === undefined) {
    const docs = bestAmong(docSet, limit)
    return { best: topK(docs, docs.length, scores, limit, tie), count: docSet.count, isWhole: true }
  }
  makeRoom(scores.length)
  const evaluate = (doc: number) => passes(doc) ? scores[doc]! : undefined
  const request = { docSet, upperBounds: scores, limit: limit + 1, tie }
  const { count: passed, isWhole, docs } = evaluateBest(request, evaluate)
  return { best: topK(docs, docs.length, scores, limit, tie), count: passed, isWhole }
}

/** Returns some of the doc ids. The best `limit` by rank are among them. */
const bestAmong = (from: DocSet, limit: number): Int32Array => limit <= from.topCount ? from.topDocs : from.all()

interface EvaluationRequest {
  readonly docSet: DocSet
  /** Upper bound of the score, by doc id. */
  readonly upperBounds: Float64Array
  /** Number of wanted doc ids. */
  readonly limit: number
  readonly tie: (a: number, b: number) => number
}

/** Doc ids that may be among the best. `finals` has their scores. `count` is the number of all evaluated doc ids that passed. */
interface Evaluated extends Pick<PassingDocs, "count" | "isWhole"> {
  readonly docs: Int32Array
}

/** Stages of `evaluateBest`: [how many doc ids to select by upper bound, how many to evaluate]. 4 · `limit` is added to both numbers. */
const stages = [[32, 32], [1_024, 1_024], [8_192, 8_192]] as const

/** Returns how many doc ids the first stage selects if `bestPassing` is called with `limit` and a filter. */
export const firstStageSize = (limit: number): number => stages[0][0] + 4 * (limit + 1)

/** Finds the best doc ids. A large set is evaluated from high upper bounds down. `evaluate` returns `undefined` for a doc id that fails. */
const evaluateBest = (request: EvaluationRequest, evaluate: (doc: number) => number | undefined): Evaluated => {
  const { limit, upperBounds, docSet, tie } = request
  const threshold = new ScoreThreshold(limit)
  const evaluated: Array<number> = []
  let next = 0
  let found = 0
  let certain = 0
  let preselected = new Int32Array()
  for (const [many, few] of stages) {
    const size = many + 4 * limit
    if (docSet.count < 4 * size) break
    if (preselected.length < size) {
      const docs = bestAmong(docSet, size)
      preselected = new Int32Array(bestOf(docs, docs.length, upperBounds, size, tie))
    }
    const stage = topK(preselected, preselected.length, upperBounds, few + 4 * limit, tie)
    for (; next < stage.length; next++) {
      const doc = stage[next]!
      if (upperBounds[doc]! < threshold.value) return { docs: new Int32Array(evaluated), count: found, isWhole: false }
      const final = evaluate(doc)
      if (final === undefined) continue
      found++
      finals[doc] = final
      evaluated.push(doc)
      threshold.offer(final)
      // the doc ids are sorted by upper bound. No later doc id is better once `limit` final scores equal their upper bounds
      if (final === upperBounds[doc] && ++certain === limit) {
        return { docs: new Int32Array(evaluated), count: found, isWhole: false }
      }
    }
  }
  return evaluateAll(request, evaluate)
}

/** Finds the best doc ids, from the end of the set to its start. Skips doc ids whose upper bound is too low. */
const evaluateAll = (
  { limit, upperBounds, docSet }: Pick<EvaluationRequest, "docSet" | "limit"> & {
    readonly upperBounds: Float64Array | undefined
  },
  evaluate: (doc: number) => number | undefined
): Evaluated => {
  const threshold = new ScoreThreshold(limit)
  const evaluated: Array<number> = []
  let found = 0
  let isWhole = true
  const docs = docSet.all()
  for (let i = docs.length - 1; i >= 0; i--) {
    const doc = docs[i]!
    if (upperBounds !== undefined && upperBounds[doc]! < threshold.value) {
      isWhole = false
      continue
    }
    const final = evaluate(doc)
    if (final === undefined) continue
    found++
    if (final < threshold.value) continue
    finals[doc] = final
    evaluated.push(doc)
    if (final > threshold.value) threshold.offer(final)
  }
  return { docs: new Int32Array(evaluated), count: found, isWhole }
}
