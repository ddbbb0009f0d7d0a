/**
 * The search as it was before it was split into an engine's half and the library's: the oracle of the differential test,
 * until both have proven equal. Only `encode` and `restore` are left out.
 *
 * One tenant's live records, searchable by word and by vector (`Ranking`): what stores are built on. Mutable, incremental.
 *
 * Statistics are those of what the viewer sees, scope and expiry, so lexical scores equal `bm25`'s over the same records, and
 * nobody's words show through another's scores; kinds, tags and the rest of a filter don't change them. What a filter
 * keeps out takes nobody's place. `now` may go back. Ties: newest first, then id. Longer than other files, since all that is
 * asked looks into the same slots.
 */
import {
  type Absence,
  absenceIn,
  type Hit,
  type MemoryFilter,
  type MemoryQuery,
  type Page,
  type SearchResult
} from "../../../src/domain/MemoryFilter.ts"
import type { MemoryId } from "../../../src/domain/MemoryId.ts"
import * as MemoryKind from "../../../src/domain/MemoryKind.ts"
import { isExpired, type MemoryRecord, recencyOf } from "../../../src/domain/MemoryRecord.ts"
import { isInternal } from "../../../src/domain/MemoryScope.ts"
import * as Viewer from "../../../src/domain/Viewer.ts"
import type * as Analyzer from "../../../src/ranking/Analyzer.ts"
import { read } from "../../../src/ranking/Bm25.ts"
import { Embeddings } from "../../../src/ranking/Embeddings.ts"
import { saysTheSame } from "../../../src/ranking/NearDuplicate.ts"
import * as Retrieval from "../../../src/ranking/Retrieval.ts"
import { tokenise, type Tokenizer, vocabularyOf } from "../../../src/ranking/Tokenizer.ts"
import { float64 } from "./Column.ts"
import { Conversations } from "./Conversations.ts"
import { InvertedIndex, type View } from "./InvertedIndex.ts"
import { rank, type Shelf } from "./Ranking.ts"
import { Space } from "./Space.ts"
import { Timeline } from "./Timeline.ts"

export interface MemoryIndex {
  /** Records, expired ones included. */
  readonly size: number
  /** Replaces the one of the same id. */
  readonly add: (record: MemoryRecord) => void
  /** Whether it was there. */
  readonly remove: (id: MemoryId) => boolean
  /**
   * Of every text with this hash (`MemoryRecord.textHash`), those to come included. RangeError where it is empty, not finite,
   * or has other dimensions than the model's first.
   */
  readonly attach: (model: string, hash: string, vector: Float32Array) => void
  /** For the store itself: asks for no viewer. */
  readonly get: (id: MemoryId) => MemoryRecord | undefined
  /**
   * `score` is `Scorer.score` of the relevance: by words BM25, with what a conversation lends, over the best of this result; by
   * vector the cosine; by both `Fusion.byScore`. With neither every relevance is 1, so that the order is recency. Mode
   * `vector` or `hybrid` without an embedding is by words alone.
   */
  readonly search: (viewer: Viewer.Any, query: MemoryQuery, now: number) => SearchResult
  /** Newest first, then id. `undefined`: `after` is no cursor of this viewer and filter. */
  readonly list: (viewer: Viewer.Any, filter: MemoryFilter, now: number) => Page<MemoryRecord> | undefined
  /** `undefined`: it is among the hits. Cost: the search, with every hit put in order. */
  readonly whyNot: (viewer: Viewer.Any, id: MemoryId, query: MemoryQuery, now: number) => Absence | undefined
}

export interface Options {
  /** For texts and questions alike, where there is no `analyzer`. Default `tokenise`. */
  readonly tokenizer?: Tokenizer | undefined
  /** Default the `tokenizer`. Stores have the one in force. */
  readonly analyzer?: Analyzer.Service | undefined
  /** Default the library's own seventeen. */
  readonly kinds?: ReadonlyMap<string, MemoryKind.MemoryKind> | undefined
  /** Where vectors are looked up. Default: those that `attach` is given. */
  readonly embeddings?: Embeddings | undefined
}

export const make = ({
  embeddings = new Embeddings(),
  kinds = MemoryKind.Kinds.defaultValue(),
  tokenizer = tokenise,
  analyzer = { index: tokenizer, query: tokenizer }
}: Options = {}): MemoryIndex => {
  const slots = new Map<MemoryId, number>()
  let index = new InvertedIndex()
  // by slot; the columns repeat what is asked of every match
  let records: Array<MemoryRecord | undefined> = []
  let timeline = new Timeline()
  let conversations = new Conversations()
  const spaces = new Map<string, Space>()
  const validAt = float64()
  const invalidAt = float64()

  const place = (slot: number, record: MemoryRecord) => {
    slots.set(record.id, slot)
    records[slot] = record
    timeline.add(slot, record)
    conversations.add(slot, index.scopeOf(slot), record)
    validAt.set(slot, record.validAt)
    invalidAt.set(slot, record.invalidAt ?? Infinity)
  }

  const remove = (id: MemoryId): boolean => {
    const slot = slots.get(id)
    if (slot === undefined) return false
    slots.delete(id)
    records[slot] = undefined
    conversations.remove(slot)
    for (const space of spaces.values()) space.remove(id)
    index.remove(slot)
    if (index.slots - index.live > 1_024 + index.live / 2) compact()
    return true
  }

  const compact = () => {
    const { index: compacted, kept } = index.compacted()
    const before = records
    index = compacted
    records = []
    timeline = new Timeline()
    conversations = new Conversations()
    kept.forEach((old, slot) => place(slot, before[old]!))
  }

  /** Validity is looked up in the columns, which is all that most queries need; the record is for the other clauses. */
  const passes = (viewer: Viewer.Any, filter: MemoryFilter, now: number): (slot: number) => boolean => {
    const at = filter.asOf ?? trueAt(viewer, now)
    const absence = clauses.some((clause) => filter[clause] !== undefined) ? absenceIn(filter, at) : undefined
    return (slot) =>
      (at === undefined || (validAt.data[slot]! <= at && (filter.closed === true || invalidAt.data[slot]! > at))) &&
      (absence === undefined || absence(records[slot]!) === undefined)
  }

  const shelf: Shelf = {
    kinds,
    analyzer,
    get index() {
      return index
    },
    get conversations() {
      return conversations
    },
    get timeline() {
      return timeline
    },
    slotOf: (id) => slots.get(id),
    recordAt: (slot) => records[slot]!,
    space: (model) => {
      const known = spaces.get(model)
      if (known && !known.isStale) return known
      const space = new Space(model, embeddings, records.filter((record) => record !== undefined))
      // else whoever asks could fill it with models
      if (embeddings.dimensions(model) === undefined) spaces.delete(model)
      else spaces.set(model, space)
      return space
    },
    passes
  }

  /** Oldest first; where the viewer sees much of what there is, what he does not see is among it. */
  const byAge = (view: View): ReadonlyArray<number> => {
    if (view.count * 8 > index.live) return timeline.all()
    index.everything(view)
    const seen = Array.from(index.matches.data.subarray(0, index.matched))
    index.clear()
    return seen.sort((a, b) => timeline.newestFirst(b, a))
  }

  return {
    get size() {
      return slots.size
    },
    add(record) {
      // the library's own rows are listed but never searched, and indexing a long one would take a while
      const tokenizer: Tokenizer = isInternal(record.scope) ? () => [] : analyzer.index
      const { body, summary, summaryDerived, tags } = record
      const vocabulary = vocabularyOf(tokenizer)
      // the same tokens, but those of the long texts by their numbers
      const tokens = read(vocabulary === undefined ? record : { summary: "", body: "", tags }, tokenizer)
      const numbers = vocabulary?.read(summaryDerived === true ? [body] : [summary, body])
      remove(record.id)
      const learned = vocabulary && numbers && { vocabulary, numbers }
      place(index.add(record.scope, tokens, record.expiresAt ?? Infinity, learned), record)
      for (const space of spaces.values()) space.add(record)
    },
    remove,
    attach(model, hash, vector) {
      if (!embeddings.set(model, hash, vector)) throw new RangeError(`${model}: no vector like the others`)
    },
    get(id) {
      const slot = slots.get(id)
      return slot === undefined ? undefined : records[slot]
    },
    search(viewer, query, now) {
      const { awaiting, folded, hits, more } = rank(shelf, viewer, query, now, query.limit ?? defaultLimit)
      const affordable = fitting(hits, query.budget)
      return {
        hits: hits.slice(0, affordable),
        leftOut: { limit: more, budget: hits.length - affordable, folded },
        ...(awaiting !== undefined && { awaiting }),
        failures: []
      }
    },
    list(viewer, filter, now) {
      const after = filter.after === undefined ? undefined : Retrieval.readCursor(viewer, filter, filter.after)
      if (filter.after !== undefined && after === undefined) return undefined
      const view = index.view(viewer, now)
      const seen = byAge(view)
      const sees = index.sees(view)
      const pass = passes(viewer, filter, now)
      const limit = filter.limit ?? defaultLimit
      const items: Array<MemoryRecord> = []
      for (let i = after === undefined ? seen.length : timeline.after(seen, after); i-- > 0;) {
        const slot = seen[i]!
        if (!sees(slot) || !pass(slot)) continue
        if (items.length === limit) {
          const last = items[limit - 1]!
          return { items, next: Retrieval.makeCursor(viewer, filter, { recency: recencyOf(last), id: last.id }) }
        }
        items.push(records[slot]!)
      }
      return { items }
    },
    whyNot(viewer, id, query, now) {
      const slot = slots.get(id)
      const record = slot === undefined ? undefined : records[slot]
      if (record === undefined || !Viewer.sees(viewer, record.scope)) return "absent"
      if (!Viewer.isSystem(viewer) && isExpired(record, now)) return "expired"
      const absence = absenceIn(query, trueAt(viewer, now))(record)
      if (absence !== undefined) return absence
      const all = { ...query, minScore: undefined, explain: undefined }
      const { hits } = rank(shelf, viewer, all, now, Infinity, false)
      const found = hits.find((hit) => hit.record.id === id)
      if (found === undefined) return "no_match"
      if (found.score < (query.minScore ?? 0)) return "below_min_score"
      const { hits: shown, isFolded } = rank(shelf, viewer, query, now, query.limit ?? defaultLimit)
      const position = shown.findIndex((hit) => hit.record.id === id)
      if (position >= 0) return position < fitting(shown, query.budget) ? undefined : "beyond_budget"
      return isFolded && shown.some(({ record, score }) => score >= found.score && saysTheSame(record, found.record))
        ? "folded"
        : "beyond_limit"
    }
  }
}

export const defaultLimit = 20

/** When a record has to be true to be shown: now, but to the library at any time. */
const trueAt = (viewer: Viewer.Any, now: number): number | undefined => Viewer.isSystem(viewer) ? undefined : now

/** All of a filter but validity, viewer, cursor and limit. */
const clauses = [
  "scope",
  "kinds",
  "tags",
  "ids",
  "createdAt",
  "validAt",
  "minImportance",
  "maxTrust",
  "where"
] as const

/** How many of the first hits the budget pays for, at four characters a token: the first that it does not ends it. */
export const fitting = (hits: ReadonlyArray<Hit>, budget: number | undefined): number => {
  let left = budget ?? Infinity
  const end = hits.findIndex(({ record }) => (left -= Math.ceil((record.summary.length + record.body.length) / 4)) < 0)
  return end < 0 ? hits.length : end
}
