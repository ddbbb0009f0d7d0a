/**
 * Best of many matches by their final scores, looking at few records: a match is asked whether it passes, and what it is worth, only
 * while it could be among the best so far. The choice is as if all were asked; at least as many pass as are counted.
 */
import { relevanceOf } from "../Bm25.ts"
import type { Question } from "../Retrieval.ts"
import type { Ceiling } from "./Ceiling.ts"
import { leastScore } from "./Impacts.ts"
import type { InvertedIndex, View } from "./InvertedIndex.ts"
import type { Marks } from "./Marks.ts"
import type { Sieve } from "./Outline.ts"
import { Bar, bestOf, narrow, topK } from "./Slots.ts"

type Passes = (slot: number) => boolean
/** Slots to choose from, each once. */
export interface Pool {
  readonly count: number
  /** Slots, among which are the best `promised` by rank. */
  readonly promising: Int32Array
  readonly promised: number
  /** Lists all of them, for the caller to reorder: the next call may list them anew. */
  readonly all: () => Int32Array
  /** Lists those whose rank is at least so high. */
  readonly reaching: (least: number) => Int32Array
}

/** Makes a pool of slots in a list, which it reorders. `ranks`: by slot. */
export const poolOf = (slots: Int32Array, ranks: Float64Array): Pool => ({
  count: slots.length,
  promising: slots,
  promised: 0,
  all: () => slots,
  reaching(least) {
    let kept = 0
    // no branch is taken, as in `Sieve.narrow`
    for (let i = 0; i < slots.length; i++) {
      const slot = slots[i]!
      slots[i] = slots[kept]!
      slots[kept] = slot
      kept += +(ranks[slot]! >= least)
    }
    return slots.subarray(0, kept)
  }
})

/**
 * Counts the matches of a question that pass a filter as far as columns tell, and notes which may be among the best, while they are found
 * scope by scope: a scope's matches are still in the nearest cache when the question is done with it, and few of all are reached again.
 * Only what asks for all of them has them listed.
 */
export class Skim {
  #count = 0
  readonly #promising: Array<number> = []
  readonly #index: InvertedIndex
  readonly #view: View
  readonly #sieve: Sieve
  readonly #bar: Bar
  readonly #limit: number
  readonly #marks: Marks | undefined
  readonly #slack: number
  /** The best score of a match so far. */
  #best = 0
  /** The score that is to be reached. */
  #reach = leastScore

  /**
   * `limit`: how many of the best are promised. `slack`: by what share of the best score a match is listed that is behind the last of
   * these. `marks`: those of the matches.
   */
  constructor(
    index: InvertedIndex,
    view: View,
    sieve: Sieve,
    limit: number,
    slack: number,
    marks: Marks | undefined
  ) {
    this.#index = index
    this.#view = view
    this.#sieve = sieve
    this.#bar = new Bar(limit)
    this.#limit = limit
    this.#marks = marks
    this.#slack = slack
  }

  /** Reads the matches from a place on. Returns the score that is to be reached from then on. */
  readonly read = (from: number): number => {
    const index = this.#index
    const { matches: { data: matches }, scores: { data: scores } } = index
    this.#dropUnseen(from)
    if (!index.isDense || !this.#view.whole) this.#marks?.gather(matches, from, index.matched)
    const end = this.#sieve.narrow(matches, from, index.matched)
    // others have to be listed
    const isCounted = this.#view.whole && (this.#sieve.isOpen || index.passing !== undefined)
    this.#count = isCounted ? index.found : this.#count + end - from
    const bar = this.#bar
    const promising = this.#promising
    let least = bar.value
    let best = this.#best
    for (let i = from; i < end; i++) {
      const slot = matches[i]!
      const score = scores[slot]!
      if (score < least) continue
      promising.push(slot)
      if (score > best) best = score
      if (score === least) continue
      bar.offer(score)
      least = bar.value
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
      return matches.subarray(0, this.#sieve.narrow(matches, 0, matched))
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
      const slot = matches[i]!
      if (until[slot]! > at) matches[seen++] = slot
      else index.drop(slot)
    }
    index.matched = seen
  }
}

/** Matches to choose from. */
export interface Choice {
  /** Slots, of which those by words hold the best `depth`, or `sampleOf` it where they are `scored`. */
  readonly pool: Pool
  /** Rank by slot. */
  readonly ranks: Float64Array
  /** The best rank of a slot that passes, where it is known. */
  readonly best: number | undefined
  /** Whether a slot passes; `undefined`: all do. */
  readonly rest: Passes | undefined
  /** The final score of a slot; `undefined`: its relevance, and ranks tell apart what is one number after the division. */
  readonly scored: ((slot: number, relevance: number) => number) | undefined
  /** The most that it can be. */
  readonly ceiling: Ceiling | undefined
  readonly newestFirst: (a: number, b: number) => number
  /** Number of matches up to which each is looked at. */
  readonly examined: number
}

/** Matches that were chosen. */
export interface Chosen {
  /** Best first. */
  readonly first: ReadonlyArray<number>
  /** The best rank of a slot that passes. */
  readonly best: number
  /** Number of slots that pass and score at least `minScore`; at least so many, where not `isExact`. */
  readonly count: number
  readonly isExact: boolean
}

/** Chooses the best `depth`. Cost: each slot for a comparison or two, and what it takes to look at few of them. */
export const choose = (choice: Choice, { depth, minScore }: Pick<Question, "depth" | "minScore">): Chosen => {
  const { newestFirst, pool, ranks, rest, scored } = choice
  if (scored === undefined && minScore === 0) {
    const { best: first, count, isWhole } = bestThat(pool, ranks, Math.max(1, depth), newestFirst, rest)
    const best = choice.best ?? (first.length > 0 ? ranks[first[0]!]! : 0)
    return { first: first.slice(0, depth), best, count, isExact: isWhole }
  }
  const ceiling = pool.count > choice.examined ? choice.ceiling : undefined
  const isSampled = ceiling !== undefined && rest === undefined
  const top = choice.best === undefined
    ? bestThat(pool, ranks, isSampled ? sampleOf(depth) : 1, newestFirst, rest).best
    : []
  const best = choice.best ?? (top.length === 0 ? 0 : ranks[top[0]!]!)
  if (scored !== undefined) {
    return weighed({ ...choice, scored, best, ceiling, sample: isSampled ? top : [] }, depth, minScore)
  }
  const slots = pool.all()
  const count = narrow(slots, slots.length, (slot) => relevanceOf(ranks[slot]!, best) >= minScore)
  const isFew = rest !== undefined && count <= choice.examined
  const found = isFew
    ? bestThat(poolOf(slots.subarray(0, narrow(slots, count, rest)), ranks), ranks, depth, newestFirst, undefined)
    : bestThat(poolOf(slots.subarray(0, count), ranks), ranks, depth, newestFirst, rest)
  return { first: found.best, best, count: found.count, isExact: found.isWhole }
}

/** Final scores by slot, of those that were looked at; and the most that they can be. */
let finals = new Float64Array(64)
let bounds = new Float64Array(64)

const makeRoom = (slots: number): void => {
  if (finals.length >= slots) return
  finals = new Float64Array(slots)
  bounds = new Float64Array(slots)
}

const weighed = (
  { best, ceiling, newestFirst, pool, ranks, rest, sample, scored }: Choice & {
    readonly scored: NonNullable<Choice["scored"]>
    readonly best: number
    /** The best by rank, by whose scores it is known how good a rank has to be; it may be empty. */
    readonly sample: ReadonlyArray<number>
  },
  depth: number,
  minScore: number
): Chosen => {
  makeRoom(ranks.length)
  const look = (slot: number): number | undefined => {
    if (rest !== undefined && !rest(slot)) return undefined
    const final = scored(slot, relevanceOf(ranks[slot]!, best))
    return final < minScore ? undefined : final
  }
  const limit = depth + 1
  let looking = { pool, limit, tie: newestFirst }
  let isWhole = true
  if (ceiling !== undefined) {
    const bar = new Bar(limit)
    for (const slot of sample) bar.offer(look(slot) ?? -Infinity)
    const least = Math.max(minScore, bar.value)
    const leastRank = sample.length === 0 ? -Infinity : best * ceiling.leastFor(least)
    const close = pool.reaching(leastRank)
    const likely = close.subarray(0, bounded(close, ranks, best, ceiling, bounds, least))
    isWhole = bar.value <= minScore || likely.length === pool.count
    looking = { ...looking, pool: poolOf(likely, bounds) }
  }
  const found = ceiling === undefined
    ? lookAtAll({ ...looking, most: undefined }, look)
    : lookFor({ ...looking, most: bounds }, look)
  const first = topK(found.reached, found.reached.length, finals, depth, newestFirst)
  const isCounted = rest === undefined && minScore === 0
  return {
    first,
    best,
    count: isCounted ? pool.count : found.count,
    isExact: isCounted || (isWhole && found.isWhole)
  }
}

/** Returns how many of the best by their ranks are scored first, to tell how good a rank has to be. */
export const sampleOf = (depth: number): number => depth + Math.max(8, depth >> 1)

/** Writes the most that each slot can be worth, puts those first that can be worth `minScore`, and returns how many can. */
const bounded = (
  slots: Int32Array,
  ranks: Float64Array,
  best: number,
  ceiling: Ceiling,
  most: Float64Array,
  minScore: number
): number => {
  let kept = 0
  for (let i = 0; i < slots.length; i++) {
    const slot = slots[i]!
    const bound = ceiling.over(slot, relevanceOf(ranks[slot]!, best))
    most[slot] = bound
    if (bound < minScore) continue
    slots[i] = slots[kept]!
    slots[kept++] = slot
  }
  return kept
}

/** Matches that passed, and how many did not. */
export interface Passed {
  /** The best that pass, best first. */
  readonly best: ReadonlyArray<number>
  /** Number of slots that pass; at least so many, and one more than were wanted, where not `isWhole`. */
  readonly count: number
  readonly isWhole: boolean
}

/**
 * Returns the best `limit` of the slots that pass, ties as `tie` has them. Cost: a few comparisons for most, and a call
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
    const slots = bestAmong(pool, limit)
    return { best: topK(slots, slots.length, scores, limit, tie), count: pool.count, isWhole: true }
  }
  makeRoom(scores.length)
  const look = (slot: number) => passes(slot) ? scores[slot]! : undefined
  const looking = { pool, most: scores, limit: limit + 1, tie }
  const { count: passed, isWhole, reached } = lookFor(looking, look)
  return { best: topK(reached, reached.length, scores, limit, tie), count: passed, isWhole }
}

/** Slots among which the best are by rank. */
const bestAmong = (pool: Pool, limit: number): Int32Array => limit <= pool.promised ? pool.promising : pool.all()

interface Looking {
  readonly pool: Pool
  /** The most that a slot can be worth. */
  readonly most: Float64Array
  /** Number of slots that are wanted. */
  readonly limit: number
  readonly tie: (a: number, b: number) => number
}

/** Best matches so far: the scores of those that were reached lie in `finals`; `count`: those that are worth something. */
interface Looked extends Pick<Passed, "count" | "isWhole"> {
  readonly reached: Int32Array
}

/** Numbers of promising slots that are set apart, and of the first of them that are put in order, in turn, before all are looked at. */
const stages = [[32, 32], [1_024, 1_024], [8_192, 8_192]] as const

/** Returns how many are set apart first, where the best `limit` that pass are looked for. */
export const firstLook = (limit: number): number => stages[0][0] + 4 * (limit + 1)

/** Looks for the best slots by what `look` says that they are worth, `undefined`: nothing. The most promising first, until no other can be better. */
const lookFor = (looking: Looking, look: (slot: number) => number | undefined): Looked => {
  const { limit, most, pool, tie } = looking
  const bar = new Bar(limit)
  const reached: Array<number> = []
  let looked = 0
  let found = 0
  let certain = 0
  let apart = new Int32Array()
  for (const [many, few] of stages) {
    const size = many + 4 * limit
    if (pool.count < 4 * size) break
    if (apart.length < size) {
      const slots = bestAmong(pool, size)
      apart = new Int32Array(bestOf(slots, slots.length, most, size, tie))
    }
    const promising = topK(apart, apart.length, most, few + 4 * limit, tie)
    for (; looked < promising.length; looked++) {
      const slot = promising[looked]!
      if (most[slot]! < bar.value) return { reached: new Int32Array(reached), count: found, isWhole: false }
      const final = look(slot)
      if (final === undefined) continue
      found++
      finals[slot] = final
      reached.push(slot)
      bar.offer(final)
      // no later one of those that are worth as much as they can be comes before an earlier one: equals are in the order of ties
      if (final === most[slot] && ++certain === limit) {
        return { reached: new Int32Array(reached), count: found, isWhole: false }
      }
    }
  }
  return lookAtAll(looking, look)
}

/** The same, slot by slot. Without `most` looks at each. */
const lookAtAll = (
  { limit, most, pool }: Pick<Looking, "pool" | "limit"> & {
    readonly most: Float64Array | undefined
  },
  look: (slot: number) => number | undefined
): Looked => {
  const bar = new Bar(limit)
  const reached: Array<number> = []
  let found = 0
  let isWhole = true
  const slots = pool.all()
  for (let i = slots.length - 1; i >= 0; i--) {
    const slot = slots[i]!
    if (most !== undefined && most[slot]! < bar.value) {
      isWhole = false
      continue
    }
    const final = look(slot)
    if (final === undefined) continue
    found++
    if (final < bar.value) continue
    finals[slot] = final
    reached.push(slot)
    if (final > bar.value) bar.offer(final)
  }
  return { reached: new Int32Array(reached), count: found, isWhole }
}
