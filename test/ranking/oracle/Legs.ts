/** The legs of a query: what is found by word, and what by vector and word together. */
import type { Embedding, MemoryQuery } from "../../../src/domain/MemoryFilter.ts"
import type { MemoryId } from "../../../src/domain/MemoryId.ts"
import * as MemoryKind from "../../../src/domain/MemoryKind.ts"
import { buildDoc, explain } from "../../../src/ranking/Bm25.ts"
import * as Fusion from "../../../src/ranking/Fusion.ts"
import type { View } from "./InvertedIndex.ts"
import type { Shelf } from "./Ranking.ts"
import * as Scorer from "./Scorer.ts"
import { top } from "./Top.ts"

/** Candidates of one query. Good until the index is cleared. */
export interface Candidates {
  readonly count: number
  /** Best first, ties newest first. */
  readonly first: (n: number) => ReadonlyArray<number>
  readonly scoreOf: (slot: number) => number
  readonly explanationOf: (slot: number) => Readonly<Record<string, number>>
  readonly awaiting?: number
  /** Whether there may be more that a hit of this slot, the last that is wanted, does not surely beat. `undefined`: of none. */
  readonly isCut?: (last: number | undefined) => boolean
}

export interface Question {
  readonly shelf: Shelf
  readonly query: MemoryQuery
  readonly now: number
  readonly view: View
  /** Neither removed nor expired: what lies in the view's scopes is seen, then. */
  readonly isAlive: (slot: number) => boolean
  /** For any slot that is seen. */
  readonly pass: (slot: number) => boolean
  /** Those of vectors suit word vectors (docs/retrieval.md). */
  readonly weights: { readonly lexical: number; readonly vector: number; readonly conversation: number }
}

/** Those that pass are the first `count` of `index.matches`, with their scores. */
const match = ({ isAlive, pass, query, shelf, view, weights: { conversation } }: Question) => {
  const { analyzer, conversations, index } = shelf
  if (query.text === undefined) index.everything(view)
  else index.match(view, new Set(analyzer.query(query.text)))
  const { data: scores } = index.scores
  const { data: matches } = index.matches
  const lent = query.text === undefined || conversation === 0
    ? undefined
    : conversations.lend(matches.subarray(0, index.matched), scores, index.holders(), view.scopes, isAlive)
  const explained = query.explain === true && lent ? new Map<number, number>() : undefined
  let count = 0
  let best = 0
  for (let i = 0; i < index.matched; i++) {
    const slot = matches[i]!
    if ((view.whole || isAlive(slot)) && pass(slot)) {
      const borrowed = lent?.[i]
      if (borrowed !== undefined) {
        scores[slot] = (scores[slot]! + conversation * borrowed) / (1 + conversation)
        explained?.set(slot, borrowed)
      }
      if (scores[slot]! > best) best = scores[slot]!
      matches[count++] = slot
    } else scores[slot] = 0
  }
  return { count, best, scores, matches, lent: explained }
}

const scorer = ({ now, query, shelf }: Question, weight: number) => {
  const score = Scorer.score(query, weight)
  return (slot: number, relevance: number) => {
    const record = shelf.recordAt(slot)
    return score({ record, relevance, kind: MemoryKind.find(shelf.kinds, record.kind), now })
  }
}

export const byWord = (question: Question): Candidates => {
  const { query, shelf, weights } = question
  const { best, count: all, lent, matches, scores } = match(question)
  const scored = scorer(question, weights.lexical)
  const relevances = new Map<number, number>()
  // where only relevance counts, raw scores have the right order
  const isWeighed = query.weights !== undefined
  const scale = isWeighed ? 1 : best
  let count = all
  if (isWeighed || query.minScore !== undefined) {
    count = 0
    for (let i = 0; i < all; i++) {
      const slot = matches[i]!
      if (isWeighed) {
        if (query.explain === true) relevances.set(slot, scores[slot]! / best)
        scores[slot] = scored(slot, scores[slot]! / best).score
      }
      if (scores[slot]! / scale >= (query.minScore ?? 0)) matches[count++] = slot
      else scores[slot] = 0
    }
  }
  return {
    count,
    first: (n) => top(matches, count, scores, n, shelf.timeline.newestFirst),
    scoreOf: (slot) => scores[slot]! / scale,
    explanationOf: (slot) => {
      const relevance = relevances.get(slot) ?? scores[slot]! / best
      const words = query.text === undefined ? {} : wordsOf(shelf, slot, lent)
      return { ...words, relevance, ...scored(slot, relevance).factors }
    }
  }
}

/** The best `depth` of either leg; what one of them has found is held against the other. */
export const byVector = (question: Question, { model, vector }: Embedding, depth: number): Candidates => {
  const { query, shelf, weights } = question
  const { recordAt, slotOf, timeline } = shelf
  const space = shelf.space(model)
  const { few, sees } = visible(question)
  const near = new Map(space.nearest(vector, depth, few ?? sees).map(({ id, score }) => [slotOf(id)!, score]))
  const waiting = few ? few.filter((id) => space.isWaiting(id)) : Array.from(space.waiting).filter(sees)
  const closest = near.values().next().value ?? 0

  const matched = query.text !== undefined && query.mode !== "vector" && weights.lexical > 0
    ? match(question)
    : undefined
  const words = matched ? top(matched.matches, matched.count, matched.scores, depth, timeline.newestFirst) : []
  const rest = words.filter((slot) => !near.has(slot)).map((slot) => recordAt(slot).id)
  const further = new Map(space.cosines(vector, rest).map(({ id, score }) => [slotOf(id)!, score]))

  const lexicalOf = (slot: number): Fusion.Share => ({
    weight: weights.lexical,
    score: matched?.scores[slot] ?? 0,
    best: matched?.best ?? 0
  })
  const vectorOf = (slot: number): Fusion.Share => ({
    weight: weights.vector,
    score: near.get(slot) ?? further.get(slot) ?? 0,
    best: closest
  })
  const scored = scorer(question, weights.vector + (matched ? weights.lexical : 0))
  const all = new Set([...words, ...near.keys()])
  const found = Array.from(all, (slot) => {
    const relevance = matched ? Fusion.byScore([lexicalOf(slot), vectorOf(slot)]) : Math.min(1, vectorOf(slot).score)
    return { slot, relevance, score: query.weights ? scored(slot, relevance).score : relevance }
  })
    .filter(({ score }) => score >= (query.minScore ?? 0))
    .sort((a, b) => b.score - a.score || timeline.newestFirst(a.slot, b.slot))
  const bySlot = new Map(found.map((one) => [one.slot, one]))
  const isDeep = near.size < depth && words.length < depth
  const furthest = Math.min(...near.values())
  const only = matched ? Array.from(near.keys()).filter((slot) => matched.scores[slot] === 0).length : near.size

  return {
    count: query.minScore === undefined ? only + (matched?.count ?? 0) : found.length,
    first: (n) => found.slice(0, n).map(({ slot }) => slot),
    scoreOf: (slot) => bySlot.get(slot)!.score,
    explanationOf: (slot) => {
      const { relevance } = bySlot.get(slot)!
      const { lexical: whole = 0, ...factors } = scored(slot, relevance).factors
      const [lexical, vector] = [lexicalOf(slot), vectorOf(slot)].map(Fusion.partOf)
      const both = lexical! + vector! || 1
      return {
        ...(matched && wordsOf(shelf, slot, matched.lent)),
        cosine: vectorOf(slot).score,
        relevance,
        ...(matched && { lexical: whole * lexical! / both }),
        vector: matched ? whole * vector! / both : whole,
        ...factors
      }
    },
    awaiting: waiting.length,
    // what is further off than one below `minScore` is below it too; of equally near ones it is not the newest that were found
    isCut: (last) => !isDeep && (last === undefined ? found.length === all.size : near.get(last) === furthest)
  }
}

/** Where the viewer sees little of what there is, it is looked at alone. */
const visible = ({ pass, shelf: { index, recordAt, slotOf }, view }: Question) => {
  const isSeen = index.sees(view)
  return {
    few: view.count * 8 < index.live
      ? Array.from(index.seen(view)).filter(pass).map((slot) => recordAt(slot).id)
      : undefined,
    sees: (id: MemoryId) => {
      const slot = slotOf(id)
      return slot !== undefined && isSeen(slot) && pass(slot)
    }
  }
}

/** What the words of the query gave a record, and what its neighbours lent it. */
const wordsOf = ({ analyzer, index, recordAt }: Shelf, slot: number, lent: ReadonlyMap<number, number> | undefined) => {
  const record = recordAt(slot)
  const { bm25, parts } = explain(buildDoc(record.id, record, analyzer.index), index.weights, index.slope)
  const conversation = lent?.get(slot)
  return { bm25, ...parts, ...(conversation !== undefined && { conversation }) }
}
