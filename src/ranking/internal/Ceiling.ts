/** The most that the score of a record can be, by columns, so that few records are looked at. */
import type { Shares } from "../Retrieval.ts"

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
export const remembering = (of: (name: string) => number): (name: string) => number => {
  const known = new Map<string, number>()
  return (name) => {
    const value = known.get(name) ?? of(name)
    known.set(name, value)
    return value
  }
}

type Factors = readonly [group: Uint16Array, recency: Float64Array, importance: Float64Array, confidence: Float64Array]

/**
 * The most that a score can be, by columns. It is added up in the order of `Scorer`, so that rounding makes it no less; and it is the
 * score itself where nothing fades any more and no feeling is told.
 */
export class Ceiling {
  readonly #shares: Shares
  readonly #columns: Factors
  /** Half-lives by group, in ms; steps of fading to a millisecond; and what a feeling may give. */
  readonly #halfLives: ReadonlyArray<number>
  readonly #rates: ReadonlyArray<number>
  readonly #feelings: ReadonlyArray<number>
  /** The most that any record's other factors than its relevance add. */
  readonly #others: number

  /** `halfLives` and `feelings`: by group, of which number 0 stands for no group. */
  constructor(
    shares: Shares,
    columns: Factors,
    halfLives: ReadonlyArray<number>,
    feelings: ReadonlyArray<number>,
    [importance, confidence]: readonly [most: number, most: number]
  ) {
    this.#shares = shares
    this.#columns = columns
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

  /**
   * Returns the score of a slot, given its relevance, where columns tell all of it; else `undefined`. It is added up in the order of
   * `Scorer`, so that it is the same number. Few records lie in a cache, columns mostly do.
   */
  exactly(slot: number, relevance: number): number | undefined {
    const { confidence, emotion, importance, now, recency, relevance: share } = this.#shares
    const [groups, recencies, importances, confidences] = this.#columns
    const group = groups[slot]!
    const feeling = this.#feelings[group]!
    if (group === 0 || (emotion > 0 && feeling === emotion)) return undefined // a feeling is read off the record
    const sum = share * relevance +
      (recency > 0 ? recency * fade(now - recencies[slot]!, this.#halfLives[group]!) : 0) +
      importance * importances[slot]! + confidence * confidences[slot]! + feeling
    return Math.min(1, sum)
  }
}
