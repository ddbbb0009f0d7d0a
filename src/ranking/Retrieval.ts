/**
 * The questions that ranking puts to a holder of records: matches by word and by vector, as facts that say all that a score needs.
 * Bodies are read last, and only of what is shown. `MemoryIndex` answers in memory, a database by a query.
 *
 * Statistics are those of what is in sight, whatever the filter, and what a filter keeps out takes nobody's place.
 */
import type * as Effect from "effect/Effect"
import type * as Option from "effect/Option"
import { canonicalJson, sha256 } from "../domain/Digest.ts"
import type { MemoryError } from "../domain/MemoryError.ts"
import { Cursor as FilterCursor, type Filtered, type MemoryFilter } from "../domain/MemoryFilter.ts"
import { MemoryId, ULID_RE } from "../domain/MemoryId.ts"
import { type MemoryRecord, recencyOf } from "../domain/MemoryRecord.ts"
import { fields, type MemoryScope } from "../domain/MemoryScope.ts"
import * as Viewer from "../domain/Viewer.ts"
import type { Asking, Clues } from "./internal/Ranker.ts"

/** A filter over what is in sight. The holder of the records applies all of it, by `passes` where it has no better way. */
export interface Asked {
  readonly filter: Omit<MemoryFilter, "after" | "limit">
  /** Valid time for a filter without `asOf`, epoch milliseconds. Absent: any time. */
  readonly at?: number | undefined
  /** The whole filter, validity included. */
  readonly passes: (record: Filtered) => boolean
}

/** The columns of a record that ranking needs before the body is read. `RecordFact` has them of a record in memory. */
export interface Fact {
  readonly id: MemoryId
  /** `MemoryRecord.textHash`: the key of the record's vectors. */
  readonly hash: string
  /** `updatedAt ?? createdAt`, epoch milliseconds. */
  readonly recency: number
  readonly validAt: number
  readonly kind: string
  readonly importance: number
  readonly confidence: number | undefined
  readonly trust: number
  /** The speaker, folded: who said a turn, else the actor of the scope. */
  readonly actor: string | undefined
  readonly scope: MemoryScope
  readonly session: string | undefined
  readonly sequence: number | undefined
  /** Number of terms. */
  readonly length: number
  /** Whether the text is a question, speaks in the first person, names a time: set when the row is written, absent before. */
  readonly isQuestion?: boolean | undefined
  readonly isFirstPerson?: boolean | undefined
  readonly namesTime?: boolean | undefined
  /** `data.emotion`, undecoded. */
  readonly emotion: unknown
  /** The record itself, where it is held in memory anyway. */
  readonly record?: MemoryRecord | undefined
}

export interface Question {
  /** Terms in the order of the question, each once. Absent: everything in sight matches with relevance 1. */
  readonly terms: ReadonlyArray<string> | undefined
  /**
   * How contenders are ranked. Contenders are the best matches, as many at any `depth`; the turns around the first of them; turns
   * of the speakers that are named; and long records. Other matches follow, by BM25. Absent: every match, by BM25.
   */
  readonly ranked?: Asking | undefined
  /**
   * Final score of a match by its relevance, 0..1. `frequencies` counts the terms of the question in the record, in their
   * order; counting costs a look-up per term. Absent: the relevance, and no fact but recency and id is needed for most
   * matches.
   */
  readonly score?: ((fact: Fact, relevance: number, frequencies: () => ReadonlyArray<number>) => number) | undefined
  /** The shares of `score`, where it is a weighted mean. With them, few facts are read of many matches. */
  readonly shares?: Shares | undefined
  /** Matches that score below it are dropped. */
  readonly minScore: number
  /** Number of candidates to return. */
  readonly depth: number
  /**
   * Ids to score as well, wherever they stand and whatever they score, if they are in sight and pass: hits of the vector leg,
   * the subject of `whyNot`.
   */
  readonly also: ReadonlyArray<MemoryId>
}

/** The shares of a score that is the weighted mean of factors of 0..1 (`Scorer`): they add up to 1. */
export interface Shares {
  readonly relevance: number
  /** Weight of what is left of a record by its age at `now`, with the half-life of its kind in milliseconds. */
  readonly recency: number
  readonly now: number
  readonly halfLifeOf: (kind: string) => number
  readonly importance: number
  /** Weight of the confidence; a record that says none counts as one half. */
  readonly confidence: number
  /** Weight of what a feeling gives; a record that tells none counts as one half. */
  readonly emotion: number
}

export interface Candidate {
  readonly fact: Fact
  /** Its rank, without one its BM25; 0 for an id of `also` that neither matches nor has anything to do with what matches. */
  readonly lexical: number
  /** What the rank is made of, where that is asked for. */
  readonly clues?: Readonly<Clues> | undefined
  readonly score: number
}

export interface Matches {
  /** Counted over all that is in sight, whatever the filter: records, their total length, document frequency per term. */
  readonly documents: number
  readonly totalLength: number
  readonly documentFrequencies: ReadonlyArray<number>
  /** The best lexical score among those that pass, whatever they score in the end: relevance 1. 0: nothing matches. */
  readonly best: number
  /** The best BM25 among those that pass, where there are `clues`. */
  readonly bestWords?: number | undefined
  /** Whether the question names somebody in sight as a speaker. Absent: no. */
  readonly isNamed?: boolean | undefined
  /**
   * The best `depth` by final score; ties newest first, then by id. Without `score` the order is that of the lexical scores,
   * which tells apart what is one number after the division. Then the rest of `also`, in its order.
   */
  readonly candidates: ReadonlyArray<Candidate>
  /**
   * Number of matches and further contenders that pass and score at least `minScore`; with `ranked` and a `minScore` contenders
   * alone are counted. Where not `exact`, at least so many.
   */
  readonly count: number
  readonly exact: boolean
}

export interface Near {
  /** Cosine above 0, best first. */
  readonly hits: ReadonlyArray<{ readonly fact: Fact; readonly cosine: number }>
  /** Records that pass and have no vector of the model. */
  readonly awaiting: number
  readonly exact: boolean
  /** Returns the vector of a text, by hash, where it is at hand: `vectors.read` is asked for the others. Default: none is. */
  readonly known?: ((hash: string) => Float32Array | undefined) | undefined
}

/** A place in the order of a page: recency newest first, then id. */
export interface Position {
  readonly recency: number
  readonly id: MemoryId
}

/** The methods of a holder of records that ranking needs. Every `Engine` has them; `MemoryIndex` answers them at once. */
export interface Retrieval {
  /** Up to `limit` records that pass, after a position. Bound: the rows between them that pushdown could not exclude. */
  readonly page: (
    sight: Viewer.Sight,
    asked: Asked,
    after: Position | undefined,
    limit: number
  ) => Effect.Effect<ReadonlyArray<MemoryRecord>, MemoryError>
  readonly match: (sight: Viewer.Sight, asked: Asked, question: Question) => Effect.Effect<Matches, MemoryError>
  /** Rows by id, tombstones included. */
  readonly read: (
    tenant: string,
    ids: ReadonlyArray<MemoryId>
  ) => Effect.Effect<
    ReadonlyArray<Option.Option<{ readonly record: MemoryRecord; readonly forgotten: boolean }>>,
    MemoryError
  >
  readonly vectors?: {
    readonly near: (
      sight: Viewer.Sight,
      asked: Asked,
      model: string,
      vector: Float32Array,
      depth: number
    ) => Effect.Effect<Near, MemoryError>
    readonly read: (
      tenant: string,
      model: string,
      hashes: ReadonlyArray<string>
    ) => Effect.Effect<ReadonlyArray<Option.Option<Float32Array>>, MemoryError>
  } | undefined
}

type Cursor = typeof FilterCursor.Type

/** Returns the position of a record. */
export const positionOf = (record: Pick<MemoryRecord, "id" | "createdAt" | "updatedAt">): Position => ({
  recency: recencyOf(record),
  id: record.id
})

/**
 * Makes a cursor: where a page ended. It holds the recency and id of the last record it showed, sealed with the viewer and the
 * filter. It tells nothing but what was shown, holds while records come and go, and is no secret: a seal that is forged reaches
 * only what the viewer sees anyway.
 */
export const makeCursor = (
  viewer: Viewer.Any,
  filter: MemoryFilter,
  { id, recency }: Position
): Cursor => {
  const place = `${recency.toString(36)}-${id}`
  return FilterCursor.make(`${place}-${seal(viewer, filter, place)}`)
}

/** `undefined`: not made for this viewer and filter, or not at all. The page's size may differ. */
export const readCursor = (
  viewer: Viewer.Any,
  filter: MemoryFilter,
  cursor: Cursor
): Position | undefined => {
  const [recency = "", id = "", sealed, ...rest] = cursor.length > 100 ? [] : cursor.split("-")
  if (rest.length > 0 || !ULID_RE.test(id) || sealed !== seal(viewer, filter, `${recency}-${id}`)) return undefined
  return { recency: Number.parseInt(recency, 36), id: MemoryId.make(id) }
}

const seal = (viewer: Viewer.Any, filter: MemoryFilter, place: string): string => {
  const who = Viewer.isSystem(viewer)
    ? "System"
    : [viewer.reach, ...fields.map((field) => viewer[field]?.normalize("NFC") ?? null)]
  const clauses = { ...filter, after: undefined, limit: undefined }
  return sha256(canonicalJson([Viewer.tenantOf(viewer), who, clauses, place])).slice(0, 32)
}
