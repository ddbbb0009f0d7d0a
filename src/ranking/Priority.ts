/**
 * What is worth having in mind now: the weighted mean of three components, each 0..1 (after Park et al., 2023).
 *
 * ```text
 * recency     .4   max(.1, ½^(age / half-life))   since it was last used or changed, half-life 24 hours
 * importance  .3   the record's
 * relevance   .3   the share of the question's terms that it has; 1 where nothing is asked, .5 where that has no term
 * ```
 */
import { type MemoryRecord, recencyOf } from "../domain/MemoryRecord.ts"
import { read } from "./Bm25.ts"
import { fade } from "./Scorer.ts"
import type { Tokenizer } from "./Tokenizer.ts"

/** Each 0..1. */
export interface Priority {
  readonly recency: number
  readonly importance: number
  readonly relevance: number
}

export const defaults: Priority = { recency: 0.4, importance: 0.3, relevance: 0.3 }

/** 24 hours, in ms. */
export const halfLife = 86_400_000

/** The defaults, but for what is said, as shares of 1. `undefined`: there is nothing left to weigh. */
export const shares = (weights: Partial<Priority> = {}): Priority | undefined => {
  const { recency = defaults.recency, importance = defaults.importance, relevance = defaults.relevance } = weights
  const largest = Math.max(recency, importance, relevance)
  if (largest === 0) return undefined
  const total = recency / largest + importance / largest + relevance / largest // the sum itself may be no number
  const share = (weight: number) => weight / largest / total
  return { recency: share(recency), importance: share(importance), relevance: share(relevance) }
}

/** 0..1; no less where one component is more. */
export const score = (components: Priority, shares: Priority): number =>
  Math.min(
    1,
    shares.recency * components.recency + shares.importance * components.importance +
      shares.relevance * components.relevance
  )

export const recency = (
  record: MemoryRecord,
  { accessedAt = 0, halfLife, now }: {
    /** Epoch ms. */
    readonly accessedAt?: number | undefined
    readonly halfLife: number
    readonly now: number
  }
): number => fade(now - Math.max(accessedAt, recencyOf(record)), halfLife)

/** Of summary, body and tags. Cost: the first time its text, then the question's terms. */
export const coverage = (terms: ReadonlySet<string>, tokenizer: Tokenizer): (record: MemoryRecord) => number => {
  if (terms.size === 0) return () => 0.5
  const known = termsBy(tokenizer)
  return (record) => {
    const has = known.get(record) ?? new Set([...read(record, tokenizer).texts].flat())
    known.set(record, has)
    return Array.from(terms).filter((term) => has.has(term)).length / terms.size
  }
}

const tables = new WeakMap<Tokenizer, WeakMap<MemoryRecord, ReadonlySet<string>>>()

const termsBy = (tokenizer: Tokenizer): WeakMap<MemoryRecord, ReadonlySet<string>> => {
  const known = tables.get(tokenizer) ?? new WeakMap<MemoryRecord, ReadonlySet<string>>()
  tables.set(tokenizer, known)
  return known
}
