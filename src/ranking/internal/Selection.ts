/**
 * Best of many matches by their final scores, looking at few records: a match is asked whether it passes, and what it is worth, only
 * while it could be among the best so far. The choice is as if all were asked; at least as many pass as are counted.
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
/** Doc ids to choose from, each once. */
export interface Pool {
  readonly count: number
  /** Doc ids, among which are the best `promised` by rank. */
  readonly promising: Int32Array
  readonly promised: number
  /** Lists all of them, for the caller to reorder: the next call may list them anew. */
  readonly all: () => Int32Array
  /** Lists those whose rank is at least so high. */
  readonly reaching: (least: number) => Int32Array
}

/** Makes a pool of doc ids in a list, which it reorders. `ranks`: by doc id. */
export const poolOf = (docs: Int32Array, ranks: Float64Array): Pool => ({
  count: docs.length,
  promising: docs,
  promised: 0,
  all: () => docs,
  reaching(least) {
    let kept = 0
    // no branch is taken, as in `ColumnFilter.narrow`
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
 * Counts the matches of a question that pass a filter as far as columns tell, and notes which may be among the best, while they are found
 * scope by scope: a scope's matches are still in the nearest cache when the question is done with it, and few of all are reached again.
 * Only what asks for all of them has them listed.
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
  /** The score that is to be reached. */
  #reach = leastScore

  /**
   * `limit`: how many of the best are promised. `slack`: by what share of the best score a match is listed that is behind the last of
   * these. `masks`: those of the matches.
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

  /** Reads the matches from a place on. Returns the score that is to be reached from then on. */
  readonly read = (from: number): number => {
    const index = this.#index
    const { matches: { data: matches }, scores: { data: scores } } = index
    this.#dropUnseen(from)
    if (!index.isDense || !this.#view.whole) this.#masks?.gather(matches, from, index.matched)
    const end = this.#filter.narrow(matches, from, index.matched)
    // others have to be listed
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

  /** Matches that were found. Good until the index is cleared. */
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

  /** Drops the matches from a place on that are not seen. */
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

/** Matches to choose from. */
export interface Choice {
  /** Doc ids, of which those by words hold the best `depth`, or `sampleOf` it where they are `scored`. */
  readonly pool: Pool
  /** Rank by doc id. */
  readonly ranks: Float64Array
  /** The best rank of a doc id that passes, where it is known. */
  readonly best: number | undefined
  /** Whether a doc id passes; `undefined`: all do. */
  readonly rest: Passes | undefined
  /** The final score of a doc id; `undefined`: its relevance, and ranks tell apart what is one number after the division. */
  readonly scored: ((doc: number, relevance: number) => number) | undefined
  /** The most that it can be. */
  readonly scoreBound: ScoreBound | undefined
  readonly newestFirst: (a: number, b: number) => number
  /** Number of matches up to which each is looked at. */
  readonly examined: number
}

/** Matches that were chosen. */
export interface Chosen {
  /** Best first. */
  readonly first: ReadonlyArray<number>
  /** Final scores of these, in their order; absent where a score is the relevance. */
  readonly scores?: ReadonlyArray<number>
  /** The best rank of a doc id that passes. */
  readonly best: number
  /** Number of doc ids that pass and score at least `minScore`; at least so many, where not `isExact`. */
  readonly count: number
  readonly isExact: boolean
}

/** Chooses the best `depth`. Cost: each doc id for a comparison or two, and what it takes to look at few of them. */
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

/** Final scores by doc id, of those that were looked at; and the most that they can be. */
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
    /** The best by rank, by whose scores it is known how good a rank has to be; it may be empty. */
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

/** Returns how many of the best by their ranks are scored first, to tell how good a rank has to be. */
export const sampleOf = (depth: number): number => depth + Math.max(8, depth >> 1)

/** Writes the most that each doc id can be worth, puts those first that can be worth `minScore`, and returns how many can. */
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

/** Matches that passed, and how many did not. */
export interface Passed {
  /** The best that pass, best first. */
  readonly best: ReadonlyArray<number>
  /** Number of doc ids that pass; at least so many, and one more than were wanted, where not `isWhole`. */
  readonly count: number
  readonly isWhole: boolean
}

/**
 * Returns the best `limit` of the doc ids that pass, ties as `tie` has them. Cost: a few comparisons for most, and a call
 * of `passes` for the best of them until enough pass. Without `passes` all do.
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

/** Doc ids among which the best are by rank. */
const bestAmong = (pool: Pool, limit: number): Int32Array => limit <= pool.promised ? pool.promising : pool.all()

interface Looking {
  readonly pool: Pool
  /** The most that a doc id can be worth. */
  readonly most: Float64Array
  /** Number of doc ids that are wanted. */
  readonly limit: number
  readonly tie: (a: number, b: number) => number
}

/** Best matches so far: the scores of those that were reached lie in `finals`; `count`: those that are worth something. */
interface Looked extends Pick<Passed, "count" | "isWhole"> {
  readonly reached: Int32Array
}

/** Numbers of promising doc ids that are set apart, and of the first of them that are put in order, in turn, before all are looked at. */
const stages = [[32, 32], [1_024, 1_024], [8_192, 8_192]] as const

/** Returns how many are set apart first, where the best `limit` that pass are looked for. */
export const firstLook = (limit: number): number => stages[0][0] + 4 * (limit + 1)

/** Looks for the best doc ids by what `look` says that they are worth, `undefined`: nothing. The most promising first, until no other can be better. */
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
      // no later one of those that are worth as much as they can be comes before an earlier one: equals are in the order of ties
      if (final === most[doc] && ++certain === limit) {
        return { reached: new Int32Array(reached), count: found, isWhole: false }
      }
    }
  }
  return lookAtAll(looking, look)
}

/** The same, doc id by doc id. Without `most` looks at each. */
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
