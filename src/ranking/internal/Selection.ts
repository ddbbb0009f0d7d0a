/**
 * The best of many matches by their final scores, looking at few records: a match is asked whether it passes a filter, and what it
 * is worth, only while it could be among the best so far. What is chosen is the same as if all were asked; how many pass is
 * then only known to be at least so many.
 */
import { relevanceOf } from "../Bm25.ts"
import type { Question, Shares } from "../Retrieval.ts"
import type { InvertedIndex } from "./InvertedIndex.ts"
import { Bar, bestOf, narrow, topK } from "./Slots.ts"

type Passes = (slot: number) => boolean

/** Matches to choose from. */
export interface Choice {
  /** Slots, each once; reordered. */
  readonly slots: Int32Array
  /** Rank by slot. */
  readonly ranks: Float64Array
  /** The best rank of a slot that passes, where it is known. */
  readonly best: number | undefined
  /** Slots that hold the best `depth` by rank, and `sampled` more where they are `scored`. `undefined`: all slots may. */
  readonly promising: Int32Array | undefined
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
  const { newestFirst, ranks, rest, scored, slots } = choice
  if (scored === undefined && minScore === 0) {
    const { best: first, count, isWhole } = bestThat(slots, slots.length, ranks, Math.max(1, depth), newestFirst, rest)
    const best = choice.best ?? (first.length > 0 ? ranks[first[0]!]! : 0)
    return { first: first.slice(0, depth), best, count, isExact: isWhole }
  }
  const ceiling = slots.length > choice.examined ? choice.ceiling : undefined
  const isSampled = ceiling !== undefined && rest === undefined
  const among = choice.promising ?? slots
  const top = choice.best === undefined
    ? bestThat(among, among.length, ranks, isSampled ? depth + sampled : 1, newestFirst, rest).best
    : []
  const best = choice.best ?? (top.length === 0 ? 0 : ranks[top[0]!]!)
  if (scored !== undefined) {
    return weighed({ ...choice, scored, best, ceiling, sample: isSampled ? top : [] }, depth, minScore)
  }
  const count = narrow(slots, slots.length, (slot) => relevanceOf(ranks[slot]!, best) >= minScore)
  const isFew = rest !== undefined && count <= choice.examined
  const found = isFew
    ? bestThat(slots, narrow(slots, count, rest), ranks, depth, newestFirst, undefined)
    : bestThat(slots, count, ranks, depth, newestFirst, rest)
  return { first: found.best, best, count: found.count, isExact: found.isWhole }
}

/** What columns tell of a filter, as a `Sieve` does. */
interface Columnar {
  readonly isOpen: boolean
  readonly passes: Passes
  readonly count: (slots: Int32Array, from: number, end: number) => number
}

/**
 * Reads, scope by scope, which matches of a question may be among the best `limit` that pass as far as columns tell: a scope's matches are
 * still in the nearest cache when the question is done with it, and few of all are reached again.
 */
export class Skim {
  /** Number of matches that pass. */
  count = 0
  /** Slots that may be among the best. */
  readonly promising: Array<number> = []
  readonly #index: InvertedIndex
  readonly #sieve: Columnar
  readonly #bar: Bar

  constructor(index: InvertedIndex, sieve: Columnar, limit: number) {
    this.#index = index
    this.#sieve = sieve
    this.#bar = new Bar(limit)
  }

  /** Notes which of the matches from a place on may be among the best. */
  note(from: number): void {
    const { matches } = this.#index
    for (let i = from, end = this.#read(from); i < end; i++) this.promising.push(matches.data[i]!)
  }

  /** Keeps of the matches from a place on only those that may be among the best, and counts those that pass. */
  keep(from: number): void {
    const index = this.#index
    this.count += this.#sieve.count(index.matches.data, from, index.matched)
    const end = this.#read(from)
    if (!index.isDense) { for (let i = end; i < index.matched; i++) index.scores.data[index.matches.data[i]!] = 0 }
    index.matched = end
  }

  /** Puts those first that may be among the best, and returns where they end. */
  #read(from: number): number {
    const { matched, matches: { data: matches }, scores: { data: scores } } = this.#index
    const { isOpen, passes } = this.#sieve
    const bar = this.#bar
    let least = bar.value
    let end = from
    for (let i = from; i < matched; i++) {
      const slot = matches[i]!
      const score = scores[slot]!
      if (score < least || !(isOpen || passes(slot))) continue
      matches[i] = matches[end]!
      matches[end++] = slot
      if (score === least) continue
      bar.offer(score)
      least = bar.value
    }
    return end
  }
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
  { best, ceiling, newestFirst, ranks, rest, sample, scored, slots }: Choice & {
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
  let likely = slots.length
  let isWhole = true
  if (ceiling !== undefined) {
    const bar = new Bar(limit)
    for (const slot of sample) bar.offer(look(slot) ?? -Infinity)
    const least = Math.max(minScore, bar.value)
    const leastRank = sample.length === 0 ? -Infinity : best * ceiling.leastFor(least)
    const close = reaching(slots, ranks, leastRank)
    likely = bounded(slots, close, ranks, best, ceiling, bounds, least)
    isWhole = bar.value <= minScore || likely === slots.length
  }
  const looking = { slots, count: likely, limit, tie: newestFirst }
  const found = ceiling === undefined
    ? lookAtAll({ ...looking, most: undefined }, look)
    : lookFor({ ...looking, most: bounds }, look)
  const first = topK(found.reached, found.reached.length, finals, depth, newestFirst)
  const isCounted = rest === undefined && minScore === 0
  return {
    first,
    best,
    count: isCounted ? slots.length : found.count,
    isExact: isCounted || (isWhole && found.isWhole)
  }
}

/** Puts those first whose rank is at least so high, and returns how many are. Without a branch, as `Sieve.narrow`. */
const reaching = (slots: Int32Array, ranks: Float64Array, least: number): number => {
  let kept = 0
  for (let i = 0; i < slots.length; i++) {
    const slot = slots[i]!
    slots[i] = slots[kept]!
    slots[kept] = slot
    kept += +(ranks[slot]! >= least)
  }
  return kept
}

/** Number of the best by their ranks whose scores tell how good a rank has to be. */
export const sampled = 8

/** Writes the most that each slot can be worth, puts those first that can be worth `minScore`, and returns how many can. */
const bounded = (
  slots: Int32Array,
  count: number,
  ranks: Float64Array,
  best: number,
  ceiling: Ceiling,
  most: Float64Array,
  minScore: number
): number => {
  let kept = 0
  for (let i = 0; i < count; i++) {
    const slot = slots[i]!
    const bound = ceiling.over(slot, relevanceOf(ranks[slot]!, best))
    most[slot] = bound
    if (bound < minScore) continue
    slots[i] = slots[kept]!
    slots[kept++] = slot
  }
  return kept
}

export interface Passed {
  /** The best that pass, best first. */
  readonly best: ReadonlyArray<number>
  /** Number of slots that pass; at least so many, and one more than were wanted, where not `isWhole`. */
  readonly count: number
  readonly isWhole: boolean
}

/**
 * Returns the best `limit` of the first `count` slots that pass, ties as `tie` has them. Cost: a few comparisons for most, and a call
 * of `passes` for the best of them until enough pass. Without `passes` all do.
 */
export const bestThat = (
  slots: Int32Array,
  count: number,
  scores: Float64Array,
  limit: number,
  tie: (a: number, b: number) => number,
  passes: Passes | undefined
): Passed => {
  if (passes === undefined) return { best: topK(slots, count, scores, limit, tie), count, isWhole: true }
  makeRoom(scores.length)
  const look = (slot: number) => passes(slot) ? scores[slot]! : undefined
  const looking = { slots, count, most: scores, limit: limit + 1, tie }
  const { count: passed, isWhole, reached } = lookFor(looking, look)
  return { best: topK(reached, reached.length, scores, limit, tie), count: passed, isWhole }
}

interface Looking {
  /** The first `count` of these. */
  readonly slots: Int32Array
  readonly count: number
  /** The most that a slot can be worth. */
  readonly most: Float64Array
  /** Number of slots that are wanted. */
  readonly limit: number
  readonly tie: (a: number, b: number) => number
}

/** What was found so far of the best by their final scores. */
interface Looked {
  /** Slots that may be among the best; their scores lie in `finals`. */
  readonly reached: Int32Array
  /** Number of slots that were found to be worth something. */
  readonly count: number
  /** Whether each slot was looked at. */
  readonly isWhole: boolean
}

/**
 * Numbers of the most promising slots that are set apart, and of the first of them that are put in order, one after the other, before
 * all are looked at.
 */
const stages = [[32, 32], [1_024, 1_024], [8_192, 8_192]] as const

/** Looks for the best slots by what `look` says that they are worth, `undefined`: nothing. The most promising first, until no other can be better. */
const lookFor = (looking: Looking, look: (slot: number) => number | undefined): Looked => {
  const { count, limit, most, slots, tie } = looking
  const bar = new Bar(limit)
  const reached: Array<number> = []
  let looked = 0
  let found = 0
  let certain = 0
  let apart = new Int32Array()
  for (const [many, few] of stages) {
    const size = many + 4 * limit
    if (count < 4 * size) break
    if (apart.length < size) apart = new Int32Array(bestOf(slots, count, most, size, tie))
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
      // of those that are worth as much as they can be no later one comes before an earlier one: equals are in the order of ties
      if (final === most[slot] && ++certain === limit) {
        return { reached: new Int32Array(reached), count: found, isWhole: false }
      }
    }
  }
  return lookAtAll(looking, look)
}

/** The same, slot by slot. Without `most` looks at each. */
const lookAtAll = (
  { count, limit, most, slots }: Pick<Looking, "slots" | "count" | "limit"> & {
    readonly most: Float64Array | undefined
  },
  look: (slot: number) => number | undefined
): Looked => {
  const bar = new Bar(limit)
  const reached: Array<number> = []
  let found = 0
  let isWhole = true
  for (let i = count - 1; i >= 0; i--) {
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

/** `max(.1, ½^(age / half-life))`, both in ms; 1 of what is yet to come. */
export const fade = (age: number, halfLife: number): number => age <= 0 ? 1 : Math.max(0.1, 0.5 ** (age / halfLife))

/** Number of steps in which a record is taken to fade, to each half-life; and the most that is left in each. */
export const steps = 128
const lastStep = Math.ceil(steps * Math.log2(10)) + 1
const left = Float64Array.from(
  { length: lastStep + 1 },
  (_, n) => n === 0 || n === lastStep ? fade(n, steps) : fade(n, steps) * (1 + 1e-12) // powers are not exact
)

type Factors = readonly [group: Uint16Array, recency: Float64Array, importance: Float64Array, confidence: Float64Array]

/**
 * The most that a score can be, by columns. It is added up in the order of `Scorer`, so that rounding makes it no less; and it is the
 * score itself where nothing fades any more and no feeling is told.
 */
export class Ceiling {
  readonly #shares: Shares
  readonly #columns: Factors
  /** By group: steps of fading to a millisecond, and what a feeling may give. */
  readonly #rates: ReadonlyArray<number>
  readonly #feelings: ReadonlyArray<number>
  /** The most that any record's other factors than its relevance add. */
  readonly #others: number

  constructor(
    shares: Shares,
    columns: Factors,
    rates: ReadonlyArray<number>,
    feelings: ReadonlyArray<number>,
    [importance, confidence]: readonly [most: number, most: number]
  ) {
    this.#shares = shares
    this.#columns = columns
    this.#rates = rates
    this.#feelings = feelings
    this.#others = shares.recency + shares.importance * importance + shares.confidence * confidence + shares.emotion
  }

  /** Returns a relevance below which no score can reach one that is given. */
  leastFor(score: number): number {
    const { relevance } = this.#shares
    return relevance > 0 ? (score - this.#others) / relevance - 1e-9 : 0 // sums are not exact
  }

  /** Returns the most that the score of a slot can be, given its relevance. */
  over(slot: number, relevance: number): number {
    const { confidence, importance, now, recency, relevance: share } = this.#shares
    const [groups, recencies, importances, confidences] = this.#columns
    const group = groups[slot]!
    const age = now - recencies[slot]!
    const step = age > 0 ? Math.min(lastStep, age * this.#rates[group]!) | 0 : 0
    const sum = share * relevance + recency * left[step]! + importance * importances[slot]! +
      confidence * confidences[slot]! + this.#feelings[group]!
    return Math.min(1, sum)
  }
}
