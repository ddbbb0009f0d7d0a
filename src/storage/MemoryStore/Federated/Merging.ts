/**
 * The hits of several stores as one list. Pure.
 *
 * ```text
 * each store's own, scores 0..1  →  a copy goes to the hit it is of  →  by score, ties newest first, then id
 *   →  what says the same is folded into the better  →  limit  →  budget
 * ```
 *
 * A score says how good a hit is beside the best of its store, which has about 1: so no store takes every place, and the
 * best of one that knows little of the matter stands beside the best of one that knows much.
 */
import type { Absence, Hit, MemoryQuery, SearchResult } from "../../../domain/MemoryFilter.ts"
import type { MemoryId } from "../../../domain/MemoryId.ts"
import { byRecency } from "../../../domain/MemoryRecord.ts"
import { fitting } from "../../../ranking/MemoryIndex.ts"
import { saysTheSame } from "../../../ranking/NearDuplicate.ts"

export interface Answer {
  readonly store: string
  /** Whether most of what it holds is likely to be others'. */
  readonly isMirror: boolean
  readonly result: SearchResult
}

export interface Merged {
  readonly result: SearchResult
  /** Why the hit of a store is none of all. */
  readonly absent: ReadonlyMap<MemoryId, Absence>
}

/**
 * `ownerOf`: the store whose record it is. What a store left out is counted by as much as of its hits was its own: of a
 * mirror nothing, where all that it found are copies.
 */
export const merge = (
  answers: ReadonlyArray<Answer>,
  query: MemoryQuery,
  ownerOf: (id: MemoryId) => string | undefined
): Merged => {
  const own = new Map<MemoryId, Hit>()
  const alsoIn = new Map<MemoryId, Set<string>>()
  const isAlsoIn = (id: MemoryId, store: string) => alsoIn.set(id, (alsoIn.get(id) ?? new Set()).add(store))
  const left = { limit: 0, budget: 0, folded: 0 }
  let awaiting: number | undefined

  for (const { isMirror, result, store } of answers) {
    const ours = result.hits.filter(({ record }) => ownerOf(record.id) === store)
    for (const hit of ours) own.set(hit.record.id, { ...hit, store })
    for (const { record } of result.hits) if (ownerOf(record.id) !== store) isAlsoIn(record.id, store)
    const part = result.hits.length > 0 ? ours.length / result.hits.length : isMirror ? 0 : 1
    left.limit += Math.round(part * result.leftOut.limit)
    left.folded += Math.round(part * result.leftOut.folded)
    if (result.awaiting !== undefined) awaiting = (awaiting ?? 0) + Math.round(part * result.awaiting)
  }

  const absent = new Map<MemoryId, Absence>()
  const distinct: Array<Hit> = []
  const isFolded = query.text !== undefined || (query.embedding !== undefined && query.mode !== "lexical")
  for (const hit of Array.from(own.values()).sort((a, b) => b.score - a.score || byRecency(a.record, b.record))) {
    const { id } = hit.record
    // those of one store say different things
    const better = isFolded &&
      distinct.find(({ record, store }) => store !== hit.store && saysTheSame(record, hit.record))
    if (!better) distinct.push(hit)
    else {
      absent.set(id, "folded")
      for (const store of [hit.store!, ...alsoIn.get(id) ?? []]) isAlsoIn(better.record.id, store) // ours have one
    }
  }
  left.folded += absent.size
  const { limit = Infinity } = query
  const shown = distinct.slice(0, limit)
  const affordable = fitting(shown, query.budget)
  distinct.forEach(({ record }, n) => {
    if (n >= affordable) absent.set(record.id, n < limit ? "beyond_budget" : "beyond_limit")
  })
  left.limit += distinct.length - shown.length
  left.budget += shown.length - affordable

  return {
    absent,
    result: {
      hits: shown.slice(0, affordable).map((hit) => {
        const others = Array.from(alsoIn.get(hit.record.id) ?? []).filter((store) => store !== hit.store)
        return others.length > 0 ? { ...hit, alsoIn: others } : hit
      }),
      leftOut: {
        ...left,
        ...(answers.some(({ result }) => result.leftOut.exact === false) && { exact: false as const })
      },
      ...(awaiting !== undefined && { awaiting }),
      failures: legs(answers)
    }
  }
}

/** What failed in the same way in every store is told once, else with the store's name before the leg's. */
const legs = (answers: ReadonlyArray<Answer>): SearchResult["failures"] => {
  const all = answers.flatMap(({ result, store }) => result.failures.map((failure) => ({ ...failure, store })))
  const isShared = ({ error, leg }: SearchResult["failures"][number]) =>
    answers.every(({ result }) => result.failures.some((one) => one.leg === leg && one.error.reason === error.reason))
  return [
    ...(answers[0]?.result.failures ?? []).filter(isShared),
    ...all.filter((one) => !isShared(one)).map(({ error, leg, store }) => ({ leg: `${store}.${leg}`, error }))
  ]
}
