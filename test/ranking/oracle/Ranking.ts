/**
 * A query put to an index:
 *
 * ```text
 * lexical   what the viewer sees → BM25 over just that → filter → what conversations lend
 * vector    what the viewer sees → filter → cosine, above 0
 * both      the best of either leg, fused by score → factors → minScore → order → near-duplicates folded → limit
 * ```
 *
 * Statistics are those of what the viewer sees, and what a filter keeps out takes nobody's place.
 */
import type { Hit, MemoryFilter, MemoryQuery } from "../../../src/domain/MemoryFilter.ts"
import type { MemoryId } from "../../../src/domain/MemoryId.ts"
import type * as MemoryKind from "../../../src/domain/MemoryKind.ts"
import type { MemoryRecord } from "../../../src/domain/MemoryRecord.ts"
import type * as Viewer from "../../../src/domain/Viewer.ts"
import type * as Analyzer from "../../../src/ranking/Analyzer.ts"
import { repeats } from "../../../src/ranking/NearDuplicate.ts"
import type { Conversations } from "./Conversations.ts"
import type { InvertedIndex } from "./InvertedIndex.ts"
import * as Legs from "./Legs.ts"
import type { Space } from "./Space.ts"
import type { Timeline } from "./Timeline.ts"

/** What is looked into. */
export interface Shelf {
  readonly kinds: ReadonlyMap<string, MemoryKind.MemoryKind>
  readonly analyzer: Analyzer.Service
  readonly index: InvertedIndex
  readonly conversations: Conversations
  readonly timeline: Timeline
  readonly slotOf: (id: MemoryId) => number | undefined
  /** Of a slot that is live. */
  readonly recordAt: (slot: number) => MemoryRecord
  readonly space: (model: string) => Space
  /** All that a filter says but what the viewer sees. */
  readonly passes: (viewer: Viewer.Any, filter: MemoryFilter, now: number) => (slot: number) => boolean
}

export interface Ranked {
  readonly hits: ReadonlyArray<Hit>
  /** Beyond the limit. */
  readonly more: number
  readonly folded: number
  /** Whether near-duplicates were left out at all. */
  readonly isFolded: boolean
  /** With a vector leg: how many have no vector. */
  readonly awaiting?: number
}

/** `folding`: whether near-duplicates of a better hit are left out; those of a search without text or vector never are. */
export const rank = (
  shelf: Shelf,
  viewer: Viewer.Any,
  query: MemoryQuery,
  now: number,
  limit: number,
  folding = true
): Ranked => {
  const { conversation = 1, lexical = 1, vector = 0.4 } = query.weights ?? {}
  const view = shelf.index.view(viewer, now)
  const until = shelf.index.until.data
  const question: Legs.Question = {
    shelf,
    query,
    now,
    view,
    isAlive: (slot) => until[slot]! > view.at,
    pass: shelf.passes(viewer, query, now),
    weights: { lexical, vector, conversation }
  }
  // a weight of 0 leaves out what it weighs, but not the only leg there is
  const isVectorial = query.embedding !== undefined && query.mode !== "lexical" &&
    (vector > 0 || query.mode === "vector")
  const isFolded = folding && (query.text !== undefined || isVectorial)
  for (let depth = Math.max(100, 5 * limit);; depth *= 8) {
    try {
      const candidates = isVectorial ? Legs.byVector(question, query.embedding, depth) : Legs.byWord(question)
      const { folded, slots } = pick(shelf, candidates, limit, isFolded)
      if (candidates.isCut?.(slots[limit - 1]) === true) continue // near-duplicates took all the room
      const hits = slots.map((slot): Hit => {
        const hit = { record: shelf.recordAt(slot), score: candidates.scoreOf(slot) }
        return query.explain === true ? { ...hit, explanation: candidates.explanationOf(slot) } : hit
      })
      const { awaiting, count } = candidates
      return { hits, folded, isFolded, more: count - hits.length - folded, ...(awaiting !== undefined && { awaiting }) }
    } finally {
      shelf.index.clear()
    }
  }
}

/** The first `limit` that say something else than those before. */
const pick = (shelf: Shelf, { count, first }: Legs.Candidates, limit: number, folding: boolean) => {
  for (let room = limit;; room = 2 * room + 16) {
    const all = first(Math.min(room, count))
    const slots: Array<number> = []
    let folded = 0
    const isRepeated = repeats()
    for (const slot of all) {
      if (slots.length === limit) break
      if (folding && isRepeated(shelf.recordAt(slot))) folded++
      else slots.push(slot)
    }
    if (slots.length === limit || all.length < room) return { slots, folded }
  }
}
