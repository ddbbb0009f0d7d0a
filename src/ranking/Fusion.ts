/**
 * Combines several rankings of ids into one. `byScore` is for rankings whose scores say how good a hit is. It divides each score by `best`,
 * the best score of the ranking:
 *
 * ```text
 * score = Σ lists  weight · score / best  ÷  Σ lists weight        both sums without the lists that have no hits
 * ```
 *
 * `reciprocalRank` (Cormack, Clarke & Büttcher, 2009) is for rankings whose scores cannot be compared. It uses ranks only:
 *
 * ```text
 * score(id) = Σ lists  weight / (k + rank)  ÷  Σ lists  weight / (k + 1)        rank from 1, k = 60
 * ```
 *
 * Hits of a ranking with equal scores have the same rank, since their order is arbitrary. Four hits can have the ranks 1, 2, 2 and 4.
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

/** A ranking to combine with others: a list of hits, best first. */
export interface RankedList<out Id> {
  readonly name: string
  /** Hits, best first, without repeated ids. */
  readonly hits: ReadonlyArray<Scored<Id>>
  /** Weight of the ranking. Default 1. A ranking with a weight of 0 or less is left out. */
  readonly weight?: number | undefined
}

/**
 * Combines rankings by reciprocal rank. Scores are 0..1; a hit that is first in every ranking scores 1. A ranking without hits lowers all
 * scores. So leave out a ranking whose search failed. Ids with equal scores are in the order of their first occurrence: first the ids of
 * the first ranking, then the other ids of the second ranking, and so on.
 */
export const reciprocalRank = <Id>(lists: ReadonlyArray<RankedList<Id>>, k = 60): ReadonlyArray<Scored<Id>> => {
  const sums = new Map<Id, number>()
  let maxSum = 0
  for (const { hits, weight = 1 } of lists) {
    if (!(weight > 0)) continue
    maxSum += weight / (k + 1)
    let rank = 1
    hits.forEach(({ id, score }, index) => {
      if (index > 0 && score !== hits[index - 1]!.score) rank = index + 1
      sums.set(id, (sums.get(id) ?? 0) + weight / (k + rank))
    })
  }
  return Array.from(sums, ([id, sum]) => ({ id, score: Math.min(1, sum / maxSum) })).sort((a, b) => b.score - a.score)
}

/** The contribution of one ranking to the score that `byScore` computes for a hit. */
export interface Share {
  /** Weight of the ranking, 0 or more. */
  readonly weight: number
  /** Score of the hit in the ranking; 0 if the ranking does not have the hit. */
  readonly score: number
  /** Score of the best hit of the ranking; 0 or less if the ranking has no hits. */
  readonly best: number
}

/** Combines the scores of a hit in several rankings into one score, 0..1. A hit that is best in every ranking gets 1. */
export const byScore = (shares: ReadonlyArray<Share>): number => {
  let sum = 0
  let totalWeight = 0
  for (const share of shares) {
    if (share.best > 0) totalWeight += share.weight
    sum += partOf(share)
  }
  return totalWeight === 0 ? 0 : Math.min(1, sum / totalWeight)
}

/** Returns the summand of one ranking in the formula of `byScore`: 0..`weight`. */
export const partOf = ({ best, score, weight }: Share): number => best > 0 ? weight * Math.max(0, score) / best : 0
