/**
 * Several rankings into one. By score, where a leg's score says how good a hit is beside its best:
 *
 * ```text
 * score = Σ legs  weight · score / best  ÷  Σ legs weight        legs that found nothing left out
 * ```
 *
 * or, where scores say nothing of the kind, by reciprocal rank (Cormack, Clarke & Büttcher, 2009):
 *
 * ```text
 * score(id) = Σ legs  weight / (k + rank)  ÷  Σ legs  weight / (k + 1)        rank from 1, k = 60
 * ```
 *
 * Scores of different legs are never compared, only ranks. Hits of equal score share the rank of the first of them
 * (1 2 2 4): a leg has no opinion about what it cannot tell apart.
 */
import type { Scored } from "./Bm25.ts"

export interface Leg<out Id> {
  readonly name: string
  /** Best first, each id once. */
  readonly hits: ReadonlyArray<Scored<Id>>
  /** Default 1. 0 or less: as if the leg were not there. */
  readonly weight?: number | undefined
}

/**
 * 0..1: 1 is first in every leg. What a leg has not found gets nothing from it, nor does anything where it found nothing:
 * leave out a leg that could not answer. Equal scores keep the order of first arrival, leg by leg.
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

/** What one hit has of each leg. */
export interface Share {
  /** 0.. */
  readonly weight: number
  /** Its own; 0 where the leg has not found it. */
  readonly score: number
  /** Of the leg's best hit; 0 or less: the leg found nothing. */
  readonly best: number
}

/** 0..1: 1 is the best of every leg. */
export const byScore = (shares: ReadonlyArray<Share>): number => {
  let sum = 0
  let most = 0
  for (const share of shares) {
    if (share.best > 0) most += share.weight
    sum += partOf(share)
  }
  return most === 0 ? 0 : Math.min(1, sum / most)
}

/** 0..weight. */
export const partOf = ({ best, score, weight }: Share): number => best > 0 ? weight * Math.max(0, score) / best : 0
