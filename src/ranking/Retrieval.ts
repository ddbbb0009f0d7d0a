/**
 * What ranking asks of whatever holds the records: matches by word and by vector, as facts that say all that a score needs.
 * Bodies are read last, and only of what is shown. `InvertedIndex` answers in memory, a database by a query.
 *
 * Statistics are those of what is in sight, whatever the filter, and what a filter keeps out takes nobody's place.
 */
import type { MemoryFilter } from "../domain/MemoryFilter.ts"
import type { MemoryId } from "../domain/MemoryId.ts"
import type { MemoryRecord } from "../domain/MemoryRecord.ts"

/** A filter over what is in sight. The holder of the records applies all of it, by `passes` where it has no better way. */
export interface Asked {
  readonly filter: Omit<MemoryFilter, "after" | "limit">
  /** Valid time for a filter without `asOf`, epoch milliseconds. Absent: any time. */
  readonly at?: number | undefined
  /** The whole filter, validity included. */
  readonly passes: (record: MemoryRecord) => boolean
}

/** The columns of a record that ranking needs before the body is read. */
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
  /** The speaker, folded. */
  readonly actor: string | undefined
  readonly session: string | undefined
  readonly sequence: number | undefined
  /** Number of terms. */
  readonly length: number
  /** Whether the text is a question, speaks in the first person, names a time: set when the row is written. */
  readonly isQuestion: boolean
  readonly isFirstPerson: boolean
  readonly namesTime: boolean
  /** `data.emotion`, undecoded. */
  readonly emotion: unknown
  /** The record itself, where it is held in memory anyway. */
  readonly record?: MemoryRecord | undefined
}

export interface Question {
  /** Terms in the order of the question. Absent: everything in sight matches with relevance 1. */
  readonly terms: ReadonlyArray<string> | undefined
  /** Weight of what neighbouring turns and sessions lend; 0 switches it off. */
  readonly conversation: number
  /** Final score of a match. Absent: its relevance, and no fact but recency and id is needed for most matches. */
  readonly score?: ((fact: Fact, relevance: number, frequencies: ReadonlyArray<number>) => number) | undefined
  /** Matches that score below it are dropped. */
  readonly minScore: number
  /** Number of candidates to return. */
  readonly depth: number
  /** Ids to score as well, wherever they stand, if they pass: hits of the vector leg, the subject of `whyNot`. */
  readonly also: ReadonlyArray<MemoryId>
}

export interface Candidate {
  readonly fact: Fact
  /** BM25 including what was lent; 0 for an id of `also` that does not match. */
  readonly lexical: number
  readonly lent: number | undefined
  readonly score: number
}

export interface Matches {
  /** Counted over all that is in sight, whatever the filter: records, their total length, document frequency per term. */
  readonly documents: number
  readonly totalLength: number
  readonly documentFrequencies: ReadonlyArray<number>
  /** The best lexical score among those that pass: relevance 1. */
  readonly best: number
  /** The best `depth`, ties newest first, then by id; then the rest of `also`. */
  readonly candidates: ReadonlyArray<Candidate>
  /** Number of matches that pass. Where not `exact`, at least so many. */
  readonly count: number
  readonly exact: boolean
}

export interface Near {
  /** Cosine above 0, best first. */
  readonly hits: ReadonlyArray<{ readonly fact: Fact; readonly cosine: number }>
  /** Records that pass and have no vector of the model. */
  readonly awaiting: number
  readonly exact: boolean
}

/** A place in the order of a page: recency newest first, then id. */
export interface Position {
  readonly recency: number
  readonly id: MemoryId
}
