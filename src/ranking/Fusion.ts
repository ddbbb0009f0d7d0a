/**
 * Combines several rankings, called legs, into one. `byScore` is for legs whose scores show how good a hit is relative to the best:
 *
 * ```text
 * score = Σ legs  weight · score / best  ÷  Σ legs weight        legs that found nothing left out
 * ```
 *
 * `reciprocalRank` (Cormack, Clarke & Büttcher, 2009) is for legs whose scores do not show that:
 *
 * ```text
 * score(id) = Σ legs  weight / (k + rank)  ÷  Σ legs  weight / (k + 1)        rank from 1, k = 60
 * ```
 *
 * It uses the ranks only, never the scores. Hits with equal scores in a leg share the rank of the first of them (1 2 2 4), since their
 * order in the leg means nothing.
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

/** A ranking to combine with others. */
export interface Leg<out Id> {
  readonly name: string
  /** Hits, best first, without repeated ids. */
  readonly hits: ReadonlyArray<Scored<Id>>
  /** Weight of the leg. Default 1; 0 or less leaves the leg out. */
  readonly weight?: number | undefined
}

/**
 * Combines legs by reciprocal rank. Scores are 0..1; a hit that is first in every leg has 1. A leg that did not find a hit adds nothing
 * to its score, so an empty leg lowers all scores: leave out a leg that failed. Equal scores keep the order in which the ids first
 * occur, leg by leg.
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

/** The scores of one leg from which `byScore` computes its part in the score of a hit. */
export interface Share {
  /** Weight of the leg, 0 or more. */
  readonly weight: number
  /** Score of the hit in the leg; 0 if the leg did not find it. */
  readonly score: number
  /** Score of the best hit of the leg; 0 or less if the leg found nothing. */
  readonly best: number
}

/** Combines the scores that one hit has in several legs, 0..1; a hit that is the best of every leg has 1. */
export const byScore = (shares: ReadonlyArray<Share>): number => {
  let sum = 0
  let most = 0
  for (const share of shares) {
    if (share.best > 0) most += share.weight
    sum += partOf(share)
  }
  return most === 0 ? 0 : Math.min(1, sum / most)
}

/** Returns what a leg adds to the sum of `byScore`, 0..`weight`. */
export const partOf = ({ best, score, weight }: Share): number => best > 0 ? weight * Math.max(0, score) / best : 0
