/**
 * Selects the best of many matches by final score, and evaluates as few as possible: filter and score are computed for a match only while
 * its upper bound is above the worst of the best so far. The result is as if all were evaluated; the count may be a lower bound.
 */
import { relevanceOf } from "../Bm25.ts"
import type { Question } from "../Retrieval.ts"
import { bestOf, narrow, ScoreThreshold, topK } from "./DocIds.ts"
import { leastScore } from "./Impacts.ts"
import type { InvertedIndex, View } from "./InvertedIndex.ts"
import type { ColumnFilter } from "./Outline.ts"
import type { ScoreBound } from "./ScoreBound.ts"
import type { TermMasks } from "./TermMasks.ts"

type Passes = (doc: number) => boolean
/** A set of doc ids to select from, in any order. */
export interface Pool {
  readonly count: number
  /** Some of the doc ids. The `promised` doc ids with the highest rank are among them. */
  readonly promising: Int32Array
  readonly promised: number
  /** Returns all doc ids. The caller may reorder the array, and a later call may overwrite it. */
  readonly all: () => Int32Array
  /** Returns the doc ids whose rank is `least` or higher. */
  readonly reaching: (least: number) => Int32Array
}

/** Makes a pool of the doc ids in an array, which it may reorder. `ranks` is by doc id. */
export const poolOf = (docs: Int32Array, ranks: Float64Array): Pool => ({
  count: docs.length,
  promising: docs,
  promised: 0,
  all: () => docs,
  reaching(least) {
    let kept = 0
    // avoids branches, as `ColumnFilter.narrow` does
    for (let i = 0; i < docs.length; i++) {
      const doc = docs[i]!
      docs[i] = docs[kept]!
      docs[kept] = doc
      kept += +(ranks[doc]! >= least)
    }
    return docs.subarray(0, kept)
  }
})

/**
 * Counts the matches of a query that pass the filter's columns, and collects those that may be among the best, while the index scores
 * them scope by scope. So it reads the matches of a scope while they are in the processor's cache, and few of them a second time. The
 * list of all matches is made only if a caller asks the pool for it.
 */
export class MatchCollector {
  #count = 0
  readonly #promising: Array<number> = []
  readonly #index: InvertedIndex
  readonly #view: View
  readonly #filter: ColumnFilter
  readonly #threshold: ScoreThreshold
  readonly #limit: number
  readonly #masks: TermMasks | undefined
  readonly #slack: number
  /** The best score of a match so far. */
  #best = 0
  /** Lowest score with which the index still lists a match. */
  #reach = leastScore

  /**
   * `limit` is the number of best matches that the pool promises. A match below the `limit`-th best score so far is listed only if its
   * score is lower by at most `slack` times the best score. `masks` receives the terms that each match contains.
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

  /** Reads the matches of the index from position `from` on. Returns the least score that a later match needs: the index omits others. */
  readonly read = (from: number): number => {
    const index = this.#index
    const { matches: { data: matches }, scores: { data: scores } } = index
    this.#dropUnseen(from)
    if (!index.isDense || !this.#view.whole) this.#masks?.gather(matches, from, index.matched)
    const end = this.#filter.narrow(matches, from, index.matched)
    // every match must be listed to be counted, unless `isCounted` is true: the index itself then counts
    const isCounted = this.#view.whole && (this.#filter.isOpen || index.passing !== undefined)
    this.#count = isCounted ? index.found : this.#count + end - from
    const threshold = this.#threshold
    const promising = this.#promising
    let least = threshold.value
    let best = this.#best
    for (let i = from; i < end; i++) {
      const doc = matches[i]!
      const score = scores[doc]!
      if (score < least) continue
      promising.push(doc)
      if (score > best) best = score
      if (score === least) continue
      threshold.offer(score)
      least = threshold.value
    }
    this.#best = best
    if (index.isDense) index.matched = end
    if (isCounted) this.#reach = Math.max(this.#reach, least - this.#slack * best)
    return this.#reach
  }

  /** Returns the matches that were found. The pool is valid until the index is cleared. */
  pool(): Pool {
    const index = this.#index
    const listed = (least?: number) => {
      index.gather(least)
      const { matched, matches: { data: matches } } = index
      return matches.subarray(0, this.#filter.narrow(matches, 0, matched))
    }
    return {
      count: this.#count,
      promising: new Int32Array(this.#promising),
      promised: this.#limit,
      all: () => listed(),
      reaching: (least) => poolOf(listed(Math.max(leastScore, least)), index.scores.data).reaching(least)
    }
  }

  /** Drops the matches from position `from` on that have expired or were removed. */
  #dropUnseen(from: number): void {
    const { at, whole } = this.#view
    if (whole) return
    const index = this.#index
    const matches = index.matches.data
    const until = index.until.data
    let seen = from
    for (let i = from; i < index.matched; i++) {
      const doc = matches[i]!
      if (until[doc]! > at) matches[seen++] = doc
      else index.drop(doc)
    }
    index.matched = seen
  }
}

/** Matches to select from, and how they are scored. */
export interface Choice {
  /** Doc ids to select from. For matches by words, `promised` must be at least `depth`, or `sampleOf(depth)` if `scored` is given. */
  readonly pool: Pool
  /** Rank by doc id. The relevance of a doc id is its rank divided by the best one. */
  readonly ranks: Float64Array
  /** The best rank of a doc id that passes the filter, if it is known. */
  readonly best: number | undefined
  /** Whether a doc id passes the filter; `undefined` if all do. */
  readonly rest: Passes | undefined
  /**
   * Computes the final score. Default: the relevance. Matches are then ordered by rank, as two ranks may have the same relevance.
   */
  readonly scored: ((doc: number, relevance: number) => number) | undefined
  /** Upper bounds of the final scores. */
  readonly scoreBound: ScoreBound | undefined
  readonly newestFirst: (a: number, b: number) => number
  /** Largest number of matches that are all evaluated. If there are more, only those that may be among the best are evaluated. */
  readonly examined: number
}

/** The matches that `choose` selected. */
export interface Chosen {
  /** Doc ids, best first. */
  readonly first: ReadonlyArray<number>
  /** Final score of each doc id of `first`; absent if the relevance is the score. */
  readonly scores?: ReadonlyArray<number>
  /** The best rank of a doc id that passes the filter. */
  readonly best: number
  /** Number of doc ids that pass the filter and score at least `minScore`; a lower bound if `isExact` is false. */
  readonly count: number
  readonly isExact: boolean
}

/** Selects the best `depth` matches. Cost: one or two comparisons per doc id, and the evaluation of few of them. */
export const choose = (choice: Choice, { depth, minScore }: Pick<Question, "depth" | "minScore">): Chosen => {
  const { newestFirst, pool, ranks, rest, scored } = choice
  if (scored === undefined && minScore === 0) {
    const { best: first, count, isWhole } = bestThat(pool, ranks, Math.max(1, depth), newestFirst, rest)
    const best = choice.best ?? (first.length > 0 ? ranks[first[0]!]! : 0)
    return { first: first.slice(0, depth), best, count, isExact: isWhole }
  }
  const scoreBound = pool.count > choice.examined ? choice.scoreBound : undefined
  const isSampled = scoreBound !== undefined && rest === undefined
  const top = choice.best === undefined
    ? bestThat(pool, ranks, isSampled ? sampleOf(depth) : 1, newestFirst, rest).best
    : []
  const best = choice.best ?? (top.length === 0 ? 0 : ranks[top[0]!]!)
  if (scored !== undefined) {
    return weighed({ ...choice, scored, best, scoreBound, sample: isSampled ? top : [] }, depth, minScore)
  }
  const docs = pool.all()
  const count = narrow(docs, docs.length, (doc) => relevanceOf(ranks[doc]!, best) >= minScore)
  const isFew = rest !== undefined && count <= choice.examined
  const found = isFew
    ? bestThat(poolOf(docs.subarray(0, narrow(docs, count, rest)), ranks), ranks, depth, newestFirst, undefined)
    : bestThat(poolOf(docs.subarray(0, count), ranks), ranks, depth, newestFirst, rest)
  return { first: found.best, best, count: found.count, isExact: found.isWhole }
}

/** Scratch arrays by doc id: the final scores of the doc ids that were evaluated, and upper bounds of final scores. */
let finals = new Float64Array(64)
let bounds = new Float64Array(64)

const makeRoom = (docs: number): void => {
  if (finals.length >= docs) return
  finals = new Float64Array(docs)
  bounds = new Float64Array(docs)
}

const weighed = (
  { best, scoreBound, newestFirst, pool, ranks, rest, sample, scored }: Choice & {
    readonly scored: NonNullable<Choice["scored"]>
    readonly best: number
    /** The best doc ids by rank. Their final scores show how high the rank of any other one must be. May be empty. */
    readonly sample: ReadonlyArray<number>
  },
  depth: number,
  minScore: number
): Chosen => {
  makeRoom(ranks.length)
  const look = (doc: number): number | undefined => {
    if (rest !== undefined && !rest(doc)) return undefined
    const final = scored(doc, relevanceOf(ranks[doc]!, best))
    return final < minScore ? undefined : final
  }
  const limit = depth + 1
  let looking = { pool, limit, tie: newestFirst }
  let isWhole = true
  if (scoreBound !== undefined) {
    const threshold = new ScoreThreshold(limit)
    for (const doc of sample) threshold.offer(look(doc) ?? -Infinity)
    const least = Math.max(minScore, threshold.value)
    const leastRank = sample.length === 0 ? -Infinity : best * scoreBound.leastFor(least)
    const close = pool.reaching(leastRank)
    const likely = close.subarray(0, bounded(close, ranks, best, scoreBound, bounds, least))
    isWhole = threshold.value <= minScore || likely.length === pool.count
    looking = { ...looking, pool: poolOf(likely, bounds) }
  }
  const found = scoreBound === undefined
    ? lookAtAll({ ...looking, most: undefined }, look)
    : lookFor({ ...looking, most: bounds }, look)
  const first = topK(found.reached, found.reached.length, finals, depth, newestFirst)
  const isCounted = rest === undefined && minScore === 0
  const scores = first.map((doc) => finals[doc]!)
  const isExact = isCounted || (isWhole && found.isWhole)
  return { first, scores, best, count: isCounted ? pool.count : found.count, isExact }
}

/** Returns the number of doc ids with the highest ranks to evaluate first. Their final scores show which other doc ids can be skipped. */
export const sampleOf = (depth: number): number => depth + Math.max(8, depth >> 1)

/** Writes the upper bound of each score to `most`, moves the doc ids whose bound is at least `minScore` to the front; returns how many. */
const bounded = (
  docs: Int32Array,
  ranks: Float64Array,
  best: number,
  scoreBound: ScoreBound,
  most: Float64Array,
  minScore: number
): number => {
  let kept = 0
  for (let i = 0; i < docs.length; i++) {
    const doc = docs[i]!
    const bound = scoreBound.over(doc, relevanceOf(ranks[doc]!, best))
    most[doc] = bound
    if (bound < minScore) continue
    docs[i] = docs[kept]!
    docs[kept++] = doc
  }
  return kept
}

/** The best doc ids that pass a filter, and the number of all that pass. */
export interface Passed {
  /** The best doc ids that pass, best first. */
  readonly best: ReadonlyArray<number>
  /** Number of doc ids that pass. If `isWhole` is false, not all were examined, and this is a lower bound. */
  readonly count: number
  readonly isWhole: boolean
}

/**
 * Returns the best `limit` of the doc ids that pass, ties in the order of `tie`. If `passes` is undefined, all pass. Cost: a few
 * comparisons per doc id, and a call of `passes` for the best of them until enough have passed.
 */
export const bestThat = (
  pool: Pool,
  scores: Float64Array,
  limit: number,
  tie: (a: number, b: number) => number,
  passes: Passes | undefined
): Passed => {
  if (passes === undefined) {
    const docs = bestAmong(pool, limit)
    return { best: topK(docs, docs.length, scores, limit, tie), count: pool.count, isWhole: true }
  }
  makeRoom(scores.length)
  const look = (doc: number) => passes(doc) ? scores[doc]! : undefined
  const looking = { pool, most: scores, limit: limit + 1, tie }
  const { count: passed, isWhole, reached } = lookFor(looking, look)
  return { best: topK(reached, reached.length, scores, limit, tie), count: passed, isWhole }
}

/** Returns doc ids that include the best `limit` by rank. */
const bestAmong = (pool: Pool, limit: number): Int32Array => limit <= pool.promised ? pool.promising : pool.all()

interface Looking {
  readonly pool: Pool
  /** Upper bound of the score, by doc id. */
  readonly most: Float64Array
  /** Number of wanted doc ids. */
  readonly limit: number
  readonly tie: (a: number, b: number) => number
}

/** Doc ids that may be among the best. Their scores are in `finals`. `count` is the number of evaluated doc ids that passed. */
interface Looked extends Pick<Passed, "count" | "isWhole"> {
  readonly reached: Int32Array
}

/** Stages of `lookFor`: how many doc ids it selects by upper bound, and how many of these it evaluates; plus 4 · `limit` each. */
const stages = [[32, 32], [1_024, 1_024], [8_192, 8_192]] as const

/** Returns how many doc ids the first stage selects if the best `limit` doc ids that pass a filter are wanted. */
export const firstLook = (limit: number): number => stages[0][0] + 4 * (limit + 1)

/** Finds the best doc ids by the score of `look` (`undefined`: no match), highest upper bound first. Evaluates all if need be. */
const lookFor = (looking: Looking, look: (doc: number) => number | undefined): Looked => {
  const { limit, most, pool, tie } = looking
  const threshold = new ScoreThreshold(limit)
  const reached: Array<number> = []
  let looked = 0
  let found = 0
  let certain = 0
  let apart = new Int32Array()
  for (const [many, few] of stages) {
    const size = many + 4 * limit
    if (pool.count < 4 * size) break
    if (apart.length < size) {
      const docs = bestAmong(pool, size)
      apart = new Int32Array(bestOf(docs, docs.length, most, size, tie))
    }
    const promising = topK(apart, apart.length, most, few + 4 * limit, tie)
    for (; looked < promising.length; looked++) {
      const doc = promising[looked]!
      if (most[doc]! < threshold.value) return { reached: new Int32Array(reached), count: found, isWhole: false }
      const final = look(doc)
      if (final === undefined) continue
      found++
      finals[doc] = final
      reached.push(doc)
      threshold.offer(final)
      // sorted by upper bound, then by `tie`: once `limit` of them have scored their bound, no later one can come before these
      if (final === most[doc] && ++certain === limit) {
        return { reached: new Int32Array(reached), count: found, isWhole: false }
      }
    }
  }
  return lookAtAll(looking, look)
}

/** Does the same as `lookFor`, from the end of the pool to its start. Skips doc ids whose upper bound `most` is too low. */
const lookAtAll = (
  { limit, most, pool }: Pick<Looking, "pool" | "limit"> & {
    readonly most: Float64Array | undefined
  },
  look: (doc: number) => number | undefined
): Looked => {
  const threshold = new ScoreThreshold(limit)
  const reached: Array<number> = []
  let found = 0
  let isWhole = true
  const docs = pool.all()
  for (let i = docs.length - 1; i >= 0; i--) {
    const doc = docs[i]!
    if (most !== undefined && most[doc]! < threshold.value) {
      isWhole = false
      continue
    }
    const final = look(doc)
    if (final === undefined) continue
    found++
    if (final < threshold.value) continue
    finals[doc] = final
    reached.push(doc)
    if (final > threshold.value) threshold.offer(final)
  }
  return { reached: new Int32Array(reached), count: found, isWhole }
}
