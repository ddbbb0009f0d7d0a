/**
 * Combines several rankings (legs) into one: by score, if a leg's score tells how good a hit is relative to its best one,
 *
 * ```text
 * score = Σ legs  weight · score / best  ÷  Σ legs weight        legs that found nothing left out
 * ```
 *
 * or, if scores do not tell that, by reciprocal rank (Cormack, Clarke & Büttcher, 2009):
 *
 * ```text
 * score(id) = Σ legs  weight / (k + rank)  ÷  Σ legs  weight / (k + 1)        rank from 1, k = 60
 * ```
 *
 * Scores of different legs are never compared, only ranks. Hits of equal score share the rank of the first of them
 * (1 2 2 4), since the leg does not tell them apart.
 *
 * ```ts
 * import { Fusion } from "effect-memory/ranking"
 *
 * const byWords = { name: "words", hits: [{ id: "a", score: 9 }, { id: "b", score: 2 }] }
 * const byMeaning = { name: "meaning", hits: [{ id: "b", score: 0.8 }, { id: "c", score: 0.7 }] }
 * const ids = Fusion.reciprocalRank([byWords, byMeaning]).map(({ id }) => id)
 *
 * ids // => ["b", "a", "c"]
 * ```
 */
import type { Scored } from "./Bm25.ts"

/** A ranking to combine. */
export interface Leg<out Id> {
  readonly name: string
  /** Hits, best first, each id once. */
  readonly hits: ReadonlyArray<Scored<Id>>
  /** Weight of the leg. Default 1; 0 or less leaves the leg out. */
  readonly weight?: number | undefined
}

/**
 * Fuses legs by reciprocal rank. Scores are 0..1; 1 is first in every leg. A hit gets nothing from a leg that has not found it,
 * and an empty leg lowers every score: leave out a leg that could not answer. Equal scores keep the order of first arrival, leg
 * by leg.
 */
export const reciprocalRank = <Id>(legs: ReadonlyArray<Leg<Id>>, k = 60): ReadonlyArray<Scored<Id>> => {
  const sums = new Map<Id, number>()
  let most = 0
  for (const { hits, weight = 1 } of legs) {
    if (!(weight > 0)) continue
    most += weight / (k + 1)
    let rank = 1
    hits.forEach(({ id, score }, place) => {
      if (place > 0 && score !== hits[place - 1]!.score) rank = place + 1
      sums.set(id, (sums.get(id) ?? 0) + weight / (k + rank))
    })
  }
  return Array.from(sums, ([id, sum]) => ({ id, score: Math.min(1, sum / most) })).sort((a, b) => b.score - a.score)
}

/** The part of one leg in the score of a hit. */
export interface Share {
  /** Weight of the leg, 0 or more. */
  readonly weight: number
  /** Score of the hit in the leg; 0 if the leg has not found it. */
  readonly score: number
  /** Score of the leg's best hit; 0 or less: the leg found nothing. */
  readonly best: number
}

/** Fuses the scores of one hit, 0..1; 1 is the best of every leg. */
export const byScore = (shares: ReadonlyArray<Share>): number => {
  let sum = 0
  let most = 0
  for (const share of shares) {
    if (share.best > 0) most += share.weight
    sum += partOf(share)
  }
  return most === 0 ? 0 : Math.min(1, sum / most)
}

/** Returns the part of a leg in the sum, 0..weight. */
export const partOf = ({ best, score, weight }: Share): number => best > 0 ? weight * Math.max(0, score) / best : 0
