/** Computes upper bounds of records' scores from columns of numbers. Most records then need not be read and scored. */
import type { Shares } from "../Retrieval.ts"
import { stride } from "./DocIds.ts"

/** Returns the recency score: `max(.1, ½^(age / halfLife))`. An age below 0 counts as 0. Both arguments are in ms. */
export const fade = (age: number, halfLife: number): number => age <= 0 ? 1 : Math.max(0.1, 0.5 ** (age / halfLife))

/** Number of steps per half-life in `fadeBounds`. Entry n is an upper bound of `fade` from step n to step n + 1. */
export const steps = 128
const lastStep = Math.ceil(steps * Math.log2(10)) + 1
const fadeBounds = Float64Array.from(
  { length: lastStep + 1 },
  (_, n) => n === 0 || n === lastStep ? fade(n, steps) : fade(n, steps) * (1 + 1e-12) // the margin covers rounding errors of powers
)

/** Caches the results of a function by its argument. */
export const memoized = (of: (name: string) => number): (name: string) => number => {
  const known = new Map<string, number>()
  return (name) => {
    const value = known.get(name) ?? of(name)
    known.set(name, value)
    return value
  }
}

/** Number of doc ids that `slack` samples. */
const sampleSize = 64

/**
 * Computes upper bounds of scores. Adds the summands in the same order as `Scorer`, so that rounding cannot make a bound lower than the
 * score. The bound is exact if the record's group has no emotion and the record is at least 3.34 half-lives old. Its recency score is then
 * at the minimum, 0.1.
 */
export class ScoreBound {
  readonly #shares: Shares
  readonly #factors: Float64Array
  /** Half-life in ms, by group of `Columns`. */
  readonly #halfLives: ReadonlyArray<number>
  /** Number of steps of `fadeBounds` per ms, by group of `Columns`. */
  readonly #rates: ReadonlyArray<number>
  /** The most that the emotion can add to a score, by group of `Columns`. */
  readonly #emotionTerms: ReadonlyArray<number>
  /** The most that all factors except the relevance add to the score of any record. */
  readonly #others: number

  /**
   * `factors` has four numbers per doc id: recency, importance, confidence and group number. `halfLives` and `emotionTerms` are indexed by
   * group number; 0 stands for no group. The last argument has the highest importance and the highest confidence of all records.
   */
  constructor(
    shares: Shares,
    factors: Float64Array,
    halfLives: ReadonlyArray<number>,
    emotionTerms: ReadonlyArray<number>,
    [importance, confidence]: readonly [most: number, most: number]
  ) {
    this.#shares = shares
    this.#factors = factors
    this.#halfLives = halfLives
    this.#rates = halfLives.map((halfLife) => steps / halfLife)
    this.#emotionTerms = emotionTerms
    this.#others = shares.recency + shares.importance * importance + shares.confidence * confidence + shares.emotion
  }

  /** Returns the lowest relevance with which a record may reach `score`. All other factors are assumed to be at their maximum. */
  minRelevance(score: number): number {
    const { relevance } = this.#shares
    return relevance > 0 ? (score - this.#others) / relevance - 1e-9 : 0 // the margin covers rounding errors of sums
  }

  /**
   * Estimates the largest difference in relevance (0..1) that the other factors of a score, such as recency, can outweigh. Adds up the
   * other factors of each of 64 doc ids below `docs`. Returns the difference between the highest sum and the first quartile of the sums,
   * divided by the weight of the relevance. Returns at most 1.
   */
  slack(docs: number): number {
    const { relevance } = this.#shares
    if (relevance <= 0 || docs === 0) return 1
    const others = Float64Array.from(
      { length: sampleSize },
      (_, n) => this.upperBound(Math.floor(n * docs / sampleSize), 0)
    ).sort()
    return Math.min(1, (others[sampleSize - 1]! - others[sampleSize >> 2]!) / relevance)
  }

  /** Returns an upper bound of the score of a doc id with the given relevance. */
  upperBound(doc: number, relevance: number): number {
    const { confidence, importance, now, recency, relevance: share } = this.#shares
    const factors = this.#factors
    const at = stride * doc
    const group = factors[at + 3]!
    const age = now - factors[at]!
    const step = age > 0 ? Math.min(lastStep, age * this.#rates[group]!) | 0 : 0
    const sum = share * relevance + recency * fadeBounds[step]! + importance * factors[at + 1]! +
      confidence * factors[at + 2]! + this.#emotionTerms[group]!
    return Math.min(1, sum)
  }

  /**
   * Returns the score of a doc id with the given relevance; `undefined` if the columns lack a factor of the score. The result equals that
   * of `Scorer`, since both add in the same order. Reading the record would be slower, since it is rarely in the processor's cache.
   */
  exactScore(doc: number, relevance: number): number | undefined {
    const { confidence, emotion, importance, now, recency, relevance: share } = this.#shares
    const factors = this.#factors
    const at = stride * doc
    const group = factors[at + 3]!
    const emotionTerm = this.#emotionTerms[group]!
    if (group === 0 || (emotion > 0 && emotionTerm === emotion)) return undefined // the columns lack emotions, and a half-life for group 0
    const sum = share * relevance +
      (recency > 0 ? recency * fade(now - factors[at]!, this.#halfLives[group]!) : 0) +
      importance * factors[at + 1]! + confidence * factors[at + 2]! + emotionTerm
    return Math.min(1, sum)
  }
}
