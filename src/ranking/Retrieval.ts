/**
 * The interface between ranking and a source of records. The source is a `MemoryIndex`, or the engine of a database. The source finds
 * matches by words and by vectors. For each match, it returns a `Fact`: the fields from which the match is scored. Ranking reads the bodies
 * of records last, and only those of the best matches.
 *
 * A record is visible if the viewer may see it and it has not expired. `System` also sees expired records. Statistics, such as document
 * frequencies, cover all visible records, even those that the filter excludes. A limit counts only records that pass the filter.
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

/** A filter for the visible records. A source applies the filter by a database query, or by calls of `passes`. */
export interface CompiledFilter {
  readonly filter: Omit<MemoryFilter, "after" | "limit">
  /** Time at which a record must be valid, epoch ms. Default: validity is not checked. Ignored if the filter has `asOf`. */
  readonly at?: number | undefined
  /** Whether a record passes the whole filter, `at` included. */
  readonly passes: (record: Filtered) => boolean
}

/** The fields of a record that ranking needs, without the body. `RecordFact` computes these fields from a `MemoryRecord`. */
export interface Fact {
  readonly id: MemoryId
  /** Hash of the record's text (`MemoryRecord.textHash`). The vectors of the text are stored under this hash. */
  readonly hash: string
  /** Time of the last change, `updatedAt ?? createdAt`, epoch milliseconds. */
  readonly recency: number
  readonly validAt: number
  readonly kind: string
  readonly importance: number
  readonly confidence: number | undefined
  readonly trust: number
  /** The speaker, normalised by `Tokenizer.foldName`: `source.actor`, else `metadata.actorId`, else the scope's `actorId`. */
  readonly actor: string | undefined
  readonly scope: MemoryScope
  readonly session: string | undefined
  readonly sequence: number | undefined
  /** Number of the record's terms, repetitions included. Compounds and single ASCII characters do not count (`Tokenizer.isCounted`). */
  readonly length: number
  /** The value of `data.emotion`, not decoded. */
  readonly emotion: unknown
  /** The record itself, if the source has it in RAM. */
  readonly record?: MemoryRecord | undefined
}

/** A search by words, as ranking passes it to a source of records. */
export interface Question {
  /** Terms of the query, in order, without repetitions. If undefined, every visible record matches with relevance 1. */
  readonly terms: ReadonlyArray<string> | undefined
  /**
   * Ranks the candidates by more than words. Candidates are the 40 best matches by BM25 (whatever `depth` is), messages next to the best
   * matches, messages of speakers that the query names, and some matches with long bodies. Every other match gets a score in proportion to
   * BM25, at most the lowest positive score of a candidate. These are the scores in `lexical`, not the final ones. Default: every match is
   * scored by BM25.
   */
  readonly ranker?: LazyRanker | undefined
  /**
   * Returns the final score of a match from its `Fact` and its relevance, 0..1. `frequencies` returns how often each of `terms` occurs in
   * the record. It costs one look-up per term. Default: the relevance is the score. The source then reads only the recency and the id of
   * most matches, and not their `Fact`s.
   */
  readonly score?: ((fact: Fact, relevance: number, frequencies: () => ReadonlyArray<number>) => number) | undefined
  /** The weights of `score`, if it is a weighted mean. A source can use them to skip matches that cannot score high enough. */
  readonly shares?: Shares | undefined
  /** Lowest final score of a match. Matches with a lower score are dropped. */
  readonly minScore: number
  /** Number of matches to return. */
  readonly depth: number
  /**
   * Ids of records to score and return in addition to the best matches, even below `minScore`, such as the hits of a search by vector. Ids
   * of records that are not visible or do not pass the filter are ignored.
   */
  readonly includeIds: ReadonlyArray<MemoryId>
}

/** The weights of a score that is a weighted mean of factors, each 0..1 (see `Scorer`). The sum of the weights is 1. */
export interface Shares {
  readonly relevance: number
  /** Weight of the recency, which is computed for the time `now`. */
  readonly recency: number
  /** Time of the search, epoch ms. */
  readonly now: number
  /** Returns the half-life of a kind in ms. */
  readonly halfLifeOf: (kind: string) => number
  readonly importance: number
  /** Weight of the confidence. A record without confidence is scored with a confidence of 0.5. */
  readonly confidence: number
  /** Weight of the agreement between the emotions of record and query. The agreement is 0.5 if the record has no emotion. */
  readonly emotion: number
}

/** A match with its scores. */
export interface Candidate {
  readonly fact: Fact
  /**
   * Score by the ranker. If there is no ranker, or the source did not read it, the score by BM25; 1 if the question has no `terms`. The
   * score is 0 if the record neither matches the query nor is a candidate of the ranker.
   */
  readonly lexical: number
  /** The properties from which the ranker computed its score. Set if the ranker was read and its `isExplained` is true. */
  readonly signals?: Readonly<Signals> | undefined
  readonly score: number
}

/** The result of a search by words, with statistics of the visible records. */
export interface Matches {
  /** Number of visible records. */
  readonly documents: number
  /** Sum of the lengths of the visible records, in terms. */
  readonly totalLength: number
  /** Number of visible records that contain `terms[n]` of the `Question`, at index n. */
  readonly documentFrequencies: ReadonlyArray<number>
  /** Best lexical score of a record that passes the filter, or 0. A relevance is a lexical score divided by `best`. */
  readonly best: number
  /**
   * Best BM25 score of a record that passes the filter or, times 0.9, of a passage of a long candidate. Set if the candidates have
   * `signals`.
   */
  readonly bestWords?: number | undefined
  /** Whether the query names the speaker of a visible record. Default false. */
  readonly isNamed?: boolean | undefined
  /**
   * The `depth` best matches, ordered by final score, then newest first, then by id. The other records of `includeIds` follow, in the order
   * of `includeIds`. Without a `score` in the `Question`, matches are ordered by lexical score. They are not ordered by relevance, because
   * rounding can make two relevances equal.
   */
  readonly candidates: ReadonlyArray<Candidate>
  /** Number of matches that pass the filter and score at least `minScore`. Candidates of the `ranker` count as matches. */
  readonly count: number
  /** Whether `count` is exact. If not, the true number may be higher. */
  readonly exact: boolean
}

/** The result of a search by vector. */
export interface Near {
  /** Records with a cosine above 0, best first. */
  readonly hits: ReadonlyArray<{ readonly fact: Fact; readonly cosine: number }>
  /** Number of records that pass the filter and have no vector of the model. */
  readonly awaiting: number
  readonly exact: boolean
  /**
   * Returns the vector of the text with this hash, if the source has the vector in RAM. Other vectors must be read with `vectors.read` of
   * `Retrieval`. By default, no vector is in RAM.
   */
  readonly known?: ((hash: string) => Float32Array | undefined) | undefined
}

/** The record after which a page begins, by recency and id. Pages are ordered newest first, then by id. */
export interface Position {
  readonly recency: number
  readonly id: MemoryId
}

/**
 * The methods that ranking needs from a source of records. Every `Engine` has these methods. `MemoryIndex` has synchronous forms of `page`,
 * `match` and `vectors.near`.
 */
export interface Retrieval {
  /** Returns at most `limit` records that pass the filter and come after a position. May also read rows that do not pass. */
  readonly page: (
    access: Viewer.AccessFilter,
    compiled: CompiledFilter,
    after: Position | undefined,
    limit: number
  ) => Effect.Effect<ReadonlyArray<MemoryRecord>, MemoryError>
  readonly match: (
    access: Viewer.AccessFilter,
    compiled: CompiledFilter,
    question: Question
  ) => Effect.Effect<Matches, MemoryError>
  /** Reads rows by id, including tombstones (the rows of forgotten records). */
  readonly read: (
    tenant: string,
    ids: ReadonlyArray<MemoryId>
  ) => Effect.Effect<
    ReadonlyArray<Option.Option<{ readonly record: MemoryRecord; readonly forgotten: boolean }>>,
    MemoryError
  >
  readonly vectors?: {
    readonly near: (
      access: Viewer.AccessFilter,
      compiled: CompiledFilter,
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

/** Returns the position of a record in a list: its recency and its id. */
export const positionOf = (record: Pick<MemoryRecord, "id" | "createdAt" | "updatedAt">): Position => ({
  recency: recencyOf(record),
  id: record.id
})

/**
 * Makes the cursor of the next page from the position of a page's last record. The position is the record's recency and id. The cursor
 * consists of the position, and of a hash of the position, the viewer and the filter. The cursor reveals nothing that the page did not
 * show, and stays valid while records change. The hash needs no secret: even a forged cursor returns only records that the viewer may see.
 */
export const makeCursor = (
  viewer: Viewer.Any,
  filter: MemoryFilter,
  { id, recency }: Position
): Cursor => {
  const position = `${recency.toString(36)}-${id}`
  return FilterCursor.make(`${position}-${seal(viewer, filter, position)}`)
}

/**
 * Returns the position in a cursor. Returns `undefined` if the cursor is malformed, or was made for another viewer or filter. The `limit`
 * of the filter may differ.
 */
export const readCursor = (
  viewer: Viewer.Any,
  filter: MemoryFilter,
  cursor: Cursor
): Position | undefined => {
  const [recency = "", id = "", sealed, ...rest] = cursor.length > 100 ? [] : cursor.split("-")
  if (rest.length > 0 || !ULID_RE.test(id) || sealed !== seal(viewer, filter, `${recency}-${id}`)) return undefined
  return { recency: Number.parseInt(recency, 36), id: MemoryId.make(id) }
}

const seal = (viewer: Viewer.Any, filter: MemoryFilter, position: string): string => {
  const who = Viewer.isSystem(viewer)
    ? "System"
    : [viewer.reach, ...fields.map((field) => viewer[field]?.normalize("NFC") ?? null)]
  const clauses = { ...filter, after: undefined, limit: undefined }
  return sha256(canonicalJson([Viewer.tenantOf(viewer), who, clauses, position])).slice(0, 32)
}
