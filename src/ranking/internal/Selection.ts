/**
 * The best of many matches by their final scores, looking at few records: a match is asked whether it passes a filter, and what it
 * is worth, only while it could be among the best so far. What is chosen is the same as if all were asked; how many pass is
 * then only known to be at least so many.
 */
import type { Question } from "../Retrieval.ts"
import type { Ceiling } from "./Columns.ts"
import { Bar, topK } from "./Slots.ts"

/** Number of matches up to which each is looked at, so that those that pass are counted exactly. */
export const examined = 2_048

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

/** 0..1. */
export const relevanceOf = (rank: number, best: number): number => best > 0 ? Math.min(1, rank / best) : 0

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
  const isFew = rest !== undefined && count <= examined
  const found = isFew
    ? bestThat(slots, narrow(slots, count, rest), ranks, depth, newestFirst, undefined)
    : bestThat(slots, count, ranks, depth, newestFirst, rest)
  return { first: found.best, best, count: found.count, isExact: found.isWhole }
}

/** Final scores by slot, of the choice under way. */
let finals = new Float64Array(64)

const weighed = (
  { best, ceiling, newestFirst, ranks, rest, scored, slots }: Choice & {
    readonly scored: NonNullable<Choice["scored"]>
    readonly best: number
  },
  depth: number,
  minScore: number
): Chosen => {
  if (finals.length < ranks.length) finals = new Float64Array(ranks.length)
  const bounds = slots.length > examined ? ceiling : undefined
  const bar = new Bar(depth + 1)
  const reached: Array<number> = []
  let count = 0
  let isWhole = true
  for (let i = slots.length - 1; i >= 0; i--) {
    const slot = slots[i]!
    const relevance = relevanceOf(ranks[slot]!, best)
    if (bounds !== undefined) {
      const most = bounds.over(slot, relevance)
      if (most < minScore) continue
      if (most < bar.value) {
        isWhole = false
        continue
      }
    }
    if (rest !== undefined && !rest(slot)) continue
    const final = scored(slot, relevance)
    if (final < minScore) continue
    count++
    if (final < bar.value) continue
    finals[slot] = final
    reached.push(slot)
    if (final > bar.value) bar.offer(final)
  }
  const held = new Int32Array(reached)
  const first = topK(held, held.length, finals, depth, newestFirst)
  const isCounted = rest === undefined && minScore === 0
  return { first, best, count: isCounted ? slots.length : count, isExact: isCounted || isWhole }
}

export interface Passed {
  /** The best that pass, best first. */
  readonly best: ReadonlyArray<number>
  /** Number of slots that pass; at least so many, and one more than were wanted, where not `isWhole`. */
  readonly count: number
  readonly isWhole: boolean
}

/**
 * Returns the best `limit` of the first `count` slots that pass, ties as `tie` has them. Cost: a comparison for most, and a call of
 * `passes` for those that would be among the best so far. Without `passes` all do.
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
  const bar = new Bar(limit + 1)
  const reached: Array<number> = []
  let passed = 0
  let isWhole = true
  for (let i = count - 1; i >= 0; i--) {
    const slot = slots[i]!
    const score = scores[slot]!
    if (score < bar.value) isWhole = false
    else if (passes(slot)) {
      passed++
      reached.push(slot)
      if (score > bar.value) bar.offer(score)
    }
  }
  const held = new Int32Array(reached)
  return { best: topK(held, held.length, scores, limit, tie), count: passed, isWhole }
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
