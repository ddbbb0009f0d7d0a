/** The most that the score of a record can be, by columns, so that few records are looked at. */
import type { Shares } from "../Retrieval.ts"
import { stride } from "./DocIds.ts"

/** `max(.1, ½^(age / half-life))`, both in ms; 1 of what is yet to come. */
export const fade = (age: number, halfLife: number): number => age <= 0 ? 1 : Math.max(0.1, 0.5 ** (age / halfLife))

/** Number of steps in which a record is taken to fade, to each half-life; and the most that is left in each. */
export const steps = 128
const lastStep = Math.ceil(steps * Math.log2(10)) + 1
const left = Float64Array.from(
  { length: lastStep + 1 },
  (_, n) => n === 0 || n === lastStep ? fade(n, steps) : fade(n, steps) * (1 + 1e-12) // powers are not exact
)

/** Makes a function that is asked once for each name. */
export const memoized = (of: (name: string) => number): (name: string) => number => {
  const known = new Map<string, number>()
  return (name) => {
    const value = known.get(name) ?? of(name)
    known.set(name, value)
    return value
  }
}

/** Number of doc ids by which the other factors of all are estimated. */
const estimated = 64

/**
 * The most that a score can be, by columns. It is added up in the order of `Scorer`, so that rounding makes it no less; and it is the
 * score itself where nothing fades any more and no feeling is told.
 */
export class ScoreBound {
  readonly #shares: Shares
  readonly #factors: Float64Array
  /** Half-lives by group, in ms; steps of fading to a millisecond; and what a feeling may give. */
  readonly #halfLives: ReadonlyArray<number>
  readonly #rates: ReadonlyArray<number>
  readonly #feelings: ReadonlyArray<number>
  /** The most that any record's other factors than its relevance add. */
  readonly #others: number

  /** `factors`: see `Columns`. `halfLives` and `feelings`: by group, of which number 0 stands for no group. */
  constructor(
    shares: Shares,
    factors: Float64Array,
    halfLives: ReadonlyArray<number>,
    feelings: ReadonlyArray<number>,
    [importance, confidence]: readonly [most: number, most: number]
  ) {
    this.#shares = shares
    this.#factors = factors
    this.#halfLives = halfLives
    this.#rates = halfLives.map((halfLife) => steps / halfLife)
    this.#feelings = feelings
    this.#others = shares.recency + shares.importance * importance + shares.confidence * confidence + shares.emotion
  }

  /** Returns a relevance below which no score can reach one that is given. */
  leastFor(score: number): number {
    const { relevance } = this.#shares
    return relevance > 0 ? (score - this.#others) / relevance - 1e-9 : 0 // sums are not exact
  }

  /**
   * Returns how much less relevance than the `sampleOf`th best most doc ids need that are worth as much as it: what sets the best of
   * the other factors apart from those of three quarters of the doc ids. An estimate, from some of so many doc ids.
   */
  slack(docs: number): number {
    const { relevance } = this.#shares
    if (relevance <= 0 || docs === 0) return 1
    const others = Float64Array.from(
      { length: estimated },
      (_, n) => this.over(Math.floor(n * docs / estimated), 0)
    ).sort()
    return Math.min(1, (others[estimated - 1]! - others[estimated >> 2]!) / relevance)
  }

  /** Returns the most that the score of a doc id can be, given its relevance. */
  over(doc: number, relevance: number): number {
    const { confidence, importance, now, recency, relevance: share } = this.#shares
    const factors = this.#factors
    const at = stride * doc
    const group = factors[at + 3]!
    const age = now - factors[at]!
    const step = age > 0 ? Math.min(lastStep, age * this.#rates[group]!) | 0 : 0
    const sum = share * relevance + recency * left[step]! + importance * factors[at + 1]! +
      confidence * factors[at + 2]! + this.#feelings[group]!
    return Math.min(1, sum)
  }

  /**
   * Returns the score of a doc id, given its relevance, where columns tell all of it; else `undefined`. It is added up in the order of
   * `Scorer`, so that it is the same number. Few records lie in a cache, columns mostly do.
   */
  exactly(doc: number, relevance: number): number | undefined {
    const { confidence, emotion, importance, now, recency, relevance: share } = this.#shares
    const factors = this.#factors
    const at = stride * doc
    const group = factors[at + 3]!
    const feeling = this.#feelings[group]!
    if (group === 0 || (emotion > 0 && feeling === emotion)) return undefined // a feeling is read off the record
    const sum = share * relevance +
      (recency > 0 ? recency * fade(now - factors[at]!, this.#halfLives[group]!) : 0) +
      importance * factors[at + 1]! + confidence * factors[at + 2]! + feeling
    return Math.min(1, sum)
  }
}
