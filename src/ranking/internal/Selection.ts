/**
 * The best of many matches by their final scores, looking at few records: a match is asked whether it passes a filter, and what it
 * is worth, only while it could be among the best so far. What is chosen is the same as if all were asked; how many pass is
 * then only known to be at least so many.
 */
import { relevanceOf } from "../Bm25.ts"
import type { Question } from "../Retrieval.ts"
import type { Ceiling } from "./Outline.ts"
import { Bar, bestOf, topK } from "./Slots.ts"

type Passes = (slot: number) => boolean

/** Matches to choose from. */
export interface Choice {
  /** Slots, each once; reordered. */
  readonly slots: Int32Array
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
  const [top] = choice.best === undefined ? bestThat(slots, slots.length, ranks, 1, newestFirst, rest).best : []
  const best = choice.best ?? (top === undefined ? 0 : ranks[top]!)
  if (scored !== undefined) return weighed({ ...choice, scored, best }, depth, minScore)
  const count = narrow(slots, slots.length, (slot) => relevanceOf(ranks[slot]!, best) >= minScore)
  const isFew = rest !== undefined && count <= choice.examined
  const found = isFew
    ? bestThat(slots, narrow(slots, count, rest), ranks, depth, newestFirst, undefined)
    : bestThat(slots, count, ranks, depth, newestFirst, rest)
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
  { best, ceiling, examined, newestFirst, ranks, rest, scored, slots }: Choice & {
    readonly scored: NonNullable<Choice["scored"]>
    readonly best: number
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
  const isBounded = ceiling !== undefined && slots.length > examined
  const likely = isBounded
    ? bounded(slots, ranks, best, ceiling, bounds, minScore)
    : slots.length
  const found = isBounded
    ? lookFor({ slots, count: likely, most: bounds, limit: depth + 1, tie: newestFirst }, look)
    : lookAtAll({ slots, count: likely, most: undefined, limit: depth + 1 }, look)
  const first = topK(found.reached, found.reached.length, finals, depth, newestFirst)
  const isCounted = rest === undefined && minScore === 0
  return { first, best, count: isCounted ? slots.length : found.count, isExact: isCounted || found.isWhole }
}

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

/** Puts those of the first `count` slots that pass first, and returns how many do. */
export const narrow = (slots: Int32Array, count: number, passes: Passes): number => {
  let kept = 0
  for (let i = 0; i < count; i++) {
    const slot = slots[i]!
    if (!passes(slot)) continue
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
const stages = [[1_024, 128], [1_024, 1_024], [8_192, 8_192]] as const

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
