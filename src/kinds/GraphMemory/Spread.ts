/** What hits lend to what is linked to them: a share of their score at each hop, times the weight of the link. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { MemoryError } from "../../domain/MemoryError.ts"
import type { Hit } from "../../domain/MemoryFilter.ts"
import type { MemoryId } from "../../domain/MemoryId.ts"
import { byRecency, type MemoryRecord } from "../../domain/MemoryRecord.ts"
import type { Relationship, Step } from "./Walk.ts"

export interface Reached {
  readonly record: MemoryRecord
  /** 0..1 */
  readonly score: number
  /** From the hit that led there; empty where it is one itself. */
  readonly path: ReadonlyArray<Relationship>
}

/** Best first, ties newest first; of several ways to a record, and of its own score, the best. */
export const spread = (options: {
  readonly hits: ReadonlyArray<Hit>
  readonly hops: number
  /** 0..1 */
  readonly share: number
  /** How many, the best, are gone on from at each hop. */
  readonly width: number
  readonly stepsOf: (id: MemoryId) => Effect.Effect<ReadonlyArray<Step>, MemoryError>
  readonly get: (
    ids: ReadonlyArray<MemoryId>
  ) => Effect.Effect<ReadonlyArray<Option.Option<MemoryRecord>>, MemoryError>
}): Effect.Effect<ReadonlyArray<Reached>, MemoryError> =>
  Effect.gen(function*() {
    const { get, hits, hops, share, stepsOf, width } = options
    const best = new Map(hits.map(({ record, score }): [MemoryId, Reached] => [record.id, { record, score, path: [] }]))
    let edge: ReadonlyArray<Reached> = Array.from(best.values())
    for (let hop = 0; hop < hops && edge.length > 0; hop++) {
      const next = new Map<MemoryId, Omit<Reached, "record">>()
      for (const { path, record, score } of edge.slice(0, width)) {
        for (const { end, relationship } of yield* stepsOf(record.id)) {
          const lent = score * relationship.weight * share
          if (lent > (best.get(end)?.score ?? 0) && lent > (next.get(end)?.score ?? 0)) {
            next.set(end, { score: lent, path: [...path, relationship] })
          }
        }
      }
      const records = (yield* get(Array.from(next.keys()))).flatMap(Option.toArray)
      edge = records.map((record) => ({ record, ...next.get(record.id)! })).sort(byScore) // asked for by its keys
      for (const one of edge) best.set(one.record.id, one)
    }
    return Array.from(best.values()).sort(byScore)
  })

const byScore = (a: Reached, b: Reached): number => b.score - a.score || byRecency(a.record, b.record)
