/**
 * Relevance made worth: the weighted mean of relevance, recency, importance, confidence and feeling.
 *
 * ```text
 * lexical     relevance                     default weight 1, all others 0: as it stands, the order is BM25's
 * recency     max(.1, ½^(age / half-life))  age since the last change, half-life of the kind; 1 where it does not fade
 * importance  the record's
 * confidence  the record's, .5 where it says none
 * emotion     congruence of `data.emotion` with the query's, .5 where the record has none; needs `query.emotion`
 * ```
 *
 * `vector` and `conversation` are part of the relevance (`Ranking`); `graph` is what a
 * link lends, and follows the search (`GraphMemory.search`).
 */
import * as Duration from "effect/Duration"
import * as Schema from "effect/Schema"
import { congruence, VAD } from "../../../src/domain/Emotion.ts"
import type * as MemoryFilter from "../../../src/domain/MemoryFilter.ts"
import type * as MemoryKind from "../../../src/domain/MemoryKind.ts"
import * as MemoryRecord from "../../../src/domain/MemoryRecord.ts"

export interface Input {
  readonly record: MemoryRecord.MemoryRecord
  /** 0..1, of the fused legs. */
  readonly relevance: number
  readonly kind: MemoryKind.MemoryKind
  /** Epoch ms. */
  readonly now: number
}

/** 0..1, with the share of it that each factor gave: they add up to the score. All weights 0: the relevance. */
export const score = (
  query: Pick<MemoryFilter.MemoryQuery, "weights" | "emotion">,
  /** Of relevance: those of its legs together. */
  weight: number = query.weights?.lexical ?? 1
): (input: Input) => { readonly score: number; readonly factors: Readonly<Record<string, number>> } => {
  const parts = factorsOf(query, weight)
  const total = parts.reduce((sum, [, weight]) => sum + weight, 0)
  if (total === 0) return ({ relevance }) => ({ score: relevance, factors: { lexical: relevance } })
  return (input) => {
    const factors: Record<string, number> = {}
    let sum = 0
    for (const [name, weight, factor] of parts) sum += factors[name] = (weight / total) * factor(input)
    return { score: Math.min(1, sum), factors }
  }
}

/** Seed 3's formula, unnormalised: `.995^hours + importance + relevance`, hours since the last change. */
export const defaultMemoryScorer = ({ now, record, relevance }: Input): number =>
  0.995 ** (ageOf(record, now) / 3_600_000) + record.importance + relevance

type Factor = (input: Input) => number

const factorsOf = (
  { emotion, weights = {} }: Pick<MemoryFilter.MemoryQuery, "weights" | "emotion">,
  weight: number
): ReadonlyArray<readonly [name: string, weight: number, factor: Factor]> => {
  const all: ReadonlyArray<readonly [string, number, Factor]> = [
    ["lexical", weight, ({ relevance }) => relevance],
    ["recency", weights.recency ?? 0, recency],
    ["importance", weights.importance ?? 0, ({ record }) => record.importance],
    ["confidence", weights.confidence ?? 0, ({ record }) => record.confidence ?? 0.5],
    ["emotion", emotion ? weights.emotion ?? 0 : 0, ({ record }) => {
      const felt = record.data["emotion"]
      return emotion && isVad(felt) ? congruence(felt, emotion) : 0.5
    }]
  ]
  return all.filter(([, weight]) => weight > 0)
}

const isVad = Schema.is(VAD)

const recency: Factor = ({ kind, now, record }) => fade(ageOf(record, now), Duration.toMillis(kind.halfLife))

/** `max(.1, ½^(age / half-life))`, both in ms; 1 of what is yet to come. */
export const fade = (age: number, halfLife: number): number => age <= 0 ? 1 : Math.max(0.1, 0.5 ** (age / halfLife))

/** In ms; 0 where the clock has gone back. */
const ageOf = (record: MemoryRecord.MemoryRecord, now: number): number =>
  Math.max(0, now - MemoryRecord.recencyOf(record))
