/**
 * The methods that ranking needs of a holder of records: matches by word and by vector, as facts that hold all that a score
 * needs. Bodies are read last, and only of hits that are shown. `MemoryIndex` answers in memory, a database by a query.
 *
 * Statistics count all records in sight, whatever the filter. Records that a filter excludes do not count for a limit.
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
import type { LazyRanker, Signals } from "./internal/Ranker.ts"

/** A filter over the records in sight. The holder of the records applies all of it, with `passes` if it has no better way. */
export interface Asked {
  readonly filter: Omit<MemoryFilter, "after" | "limit">
  /** Valid time for a filter without `asOf`, epoch milliseconds. Default: any time. */
  readonly at?: number | undefined
  /** Whether a record passes the whole filter, validity included. */
  readonly passes: (record: Filtered) => boolean
}

/** The columns of a record that ranking needs before the body is read. `RecordFact` has them of a record in memory. */
export interface Fact {
  readonly id: MemoryId
  /** Key of the record's vectors: `MemoryRecord.textHash`. */
  readonly hash: string
  /** Time of the last change, `updatedAt ?? createdAt`, epoch milliseconds. */
  readonly recency: number
  readonly validAt: number
  readonly kind: string
  readonly importance: number
  readonly confidence: number | undefined
  readonly trust: number
  /** Folded name of the speaker of a turn, else of the actor of the scope. */
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
  /** Emotion, `data.emotion`, undecoded. */
  readonly emotion: unknown
  /** The record itself, if it is in memory anyway. */
  readonly record?: MemoryRecord | undefined
}

/** A query as a holder of records gets it. */
export interface Question {
  /** Terms in the order of the question, each once. If absent, every record in sight matches with relevance 1. */
  readonly terms: ReadonlyArray<string> | undefined
  /**
   * Ranker of candidates. Candidates are the best matches, the same number at any `depth`; the turns around the first of them;
   * turns of named speakers; and long records. Other matches follow, by BM25. If absent, every match is ranked by BM25.
   */
  readonly ranker?: LazyRanker | undefined
  /**
   * Final score of a match by its relevance, 0..1. `frequencies` counts the terms of the question in the record, in their
   * order; counting costs a look-up per term. Default: the relevance, which for most matches needs no fact but recency and id.
   */
  readonly score?: ((fact: Fact, relevance: number, frequencies: () => ReadonlyArray<number>) => number) | undefined
  /** Shares of `score`, if it is a weighted mean. They save reading the facts of most matches. */
  readonly shares?: Shares | undefined
  /** Lowest score of a match; others are dropped. */
  readonly minScore: number
  /** Number of candidates to return. */
  readonly depth: number
  /**
   * Further ids to score, whatever their rank and score, if they are in sight and pass: hits of the vector leg, the subject of
   * `whyNot`.
   */
  readonly also: ReadonlyArray<MemoryId>
}

/** The shares of a score that is the weighted mean of factors of 0..1 (`Scorer`): they add up to 1. */
export interface Shares {
  readonly relevance: number
  /** Weight of the recency at `now`, which fades by the half-life of the kind, in milliseconds. */
  readonly recency: number
  readonly now: number
  readonly halfLifeOf: (kind: string) => number
  readonly importance: number
  /** Weight of the confidence; a record without one counts as one half. */
  readonly confidence: number
  /** Weight of the emotion; a record without one counts as one half. */
  readonly emotion: number
}

/** A match with its scores. */
export interface Candidate {
  readonly fact: Fact
  /** Score of the ranker, else BM25; 0 for an id of `also` that neither matches nor is related to a match. */
  readonly lexical: number
  /** Parts of the ranker's score, if they are asked for. */
  readonly signals?: Readonly<Signals> | undefined
  readonly score: number
}

/** The answer to a question by words, with the statistics of the records in sight. */
export interface Matches {
  /** Number of records in sight, whatever the filter; so are their total length and the document frequency per term. */
  readonly documents: number
  readonly totalLength: number
  readonly documentFrequencies: ReadonlyArray<number>
  /** Best lexical score of the records that pass, which counts as relevance 1; 0 if there is no match. */
  readonly best: number
  /** Best BM25 of the records that pass, if there are `signals`. */
  readonly bestWords?: number | undefined
  /** Whether the question names the speaker of a record in sight. Default false. */
  readonly isNamed?: boolean | undefined
  /**
   * Best `depth` matches by final score; ties newest first, then by id. Without `score` they are ordered by lexical score, before it is
   * divided by the best one: the division may round two different scores to one number. Then come the ids of `also` that are not among
   * them, in the order of `also`.
   */
  readonly candidates: ReadonlyArray<Candidate>
  /**
   * Number of matches and further candidates that pass and score at least `minScore`; with `ranker` and a `minScore`, of
   * candidates only. A lower bound unless `exact`.
   */
  readonly count: number
  readonly exact: boolean
}

/** The answer to a question by vector. */
export interface Near {
  /** Records with a cosine above 0, best first. */
  readonly hits: ReadonlyArray<{ readonly fact: Fact; readonly cosine: number }>
  /** Number of records that pass and have no vector of the model. */
  readonly awaiting: number
  readonly exact: boolean
  /** Returns the vector of a text by its hash, if it is in memory; `vectors.read` returns the others. Default: none is. */
  readonly known?: ((hash: string) => Float32Array | undefined) | undefined
}

/** A place in the order of a page: recency newest first, then id. */
export interface Position {
  readonly recency: number
  readonly id: MemoryId
}

/** The methods of a holder of records that ranking needs. Every `Engine` has them; `MemoryIndex` answers them at once. */
export interface Retrieval {
  /** Returns up to `limit` records that pass, after a position. Cost: also the rows between them that the query could not exclude. */
  readonly page: (
    sight: Viewer.Sight,
    asked: Asked,
    after: Position | undefined,
    limit: number
  ) => Effect.Effect<ReadonlyArray<MemoryRecord>, MemoryError>
  readonly match: (sight: Viewer.Sight, asked: Asked, question: Question) => Effect.Effect<Matches, MemoryError>
  /** Reads rows by id, tombstones included. */
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
 * Makes a cursor, the position at which a page ended. It holds the recency and id of the last record, with a hash over viewer and
 * filter. It reveals nothing that was not shown, and stays valid while records change. It is not a secret: a forged cursor
 * reaches only records that the viewer sees anyway.
 */
export const makeCursor = (
  viewer: Viewer.Any,
  filter: MemoryFilter,
  { id, recency }: Position
): Cursor => {
  const place = `${recency.toString(36)}-${id}`
  return FilterCursor.make(`${place}-${seal(viewer, filter, place)}`)
}

/** Reads a cursor; `undefined` if it was not made for this viewer and filter. The size of the page may differ. */
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
