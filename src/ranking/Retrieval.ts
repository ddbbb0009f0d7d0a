/**
 * The questions that ranking puts to a holder of records: matches by word and by vector, as facts that say all that a score needs.
 * Bodies are read last, and only of what is shown. `MemoryIndex` answers in memory, a database by a query.
 *
 * Statistics are those of what is in sight, whatever the filter, and what a filter keeps out takes nobody's place.
 */
import type * as Effect from "effect/Effect"
import type * as Option from "effect/Option"
import type { MemoryError } from "../domain/MemoryError.ts"
import type { MemoryFilter } from "../domain/MemoryFilter.ts"
import type { MemoryId } from "../domain/MemoryId.ts"
import { type MemoryRecord, recencyOf } from "../domain/MemoryRecord.ts"
import { Global } from "../domain/MemoryScope.ts"
import type { Sight } from "../domain/Visibility.ts"
import { hashOf } from "./Embeddings.ts"

/** A filter over what is in sight. The holder of the records applies all of it, by `passes` where it has no better way. */
export interface Asked {
  readonly filter: Omit<MemoryFilter, "after" | "limit">
  /** Valid time for a filter without `asOf`, epoch milliseconds. Absent: any time. */
  readonly at?: number | undefined
  /** The whole filter, validity included. */
  readonly passes: (record: MemoryRecord) => boolean
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
  /** Weight of what neighbouring turns and sessions lend; 0 switches it off. */
  readonly conversation: number
  /**
   * Final score of a match by its relevance, 0..1. `frequencies` counts the terms of the question in the record, in their
   * order; counting costs a look-up per term. Absent: the relevance, and no fact but recency and id is needed for most
   * matches.
   */
  readonly score?: ((fact: Fact, relevance: number, frequencies: () => ReadonlyArray<number>) => number) | undefined
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

export interface Candidate {
  readonly fact: Fact
  /** BM25 including what was lent; 0 for an id of `also` that does not match. */
  readonly lexical: number
  /** What its conversation lent, before the weight. Absent for a record of no session, and where nothing lends. */
  readonly lent: number | undefined
  readonly score: number
}

export interface Matches {
  /** Counted over all that is in sight, whatever the filter: records, their total length, document frequency per term. */
  readonly documents: number
  readonly totalLength: number
  readonly documentFrequencies: ReadonlyArray<number>
  /** The best lexical score among those that pass, whatever they score in the end: relevance 1. 0: nothing matches. */
  readonly best: number
  /**
   * The best `depth` by final score; ties newest first, then by id. Without `score` the order is that of the lexical scores,
   * which tells apart what is one number after the division. Then the rest of `also`, in its order.
   */
  readonly candidates: ReadonlyArray<Candidate>
  /** Number of matches that pass and score at least `minScore`. Where not `exact`, at least so many. */
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

/** The methods of a holder of records that ranking needs. Every `Engine` has them; `MemoryIndex` answers them at once. */
/** Returns the position of a record. */
export const positionOf = (record: Pick<MemoryRecord, "id" | "createdAt" | "updatedAt">): Position => ({
  recency: recencyOf(record),
  id: record.id
})

export interface Retrieval {
  /** Up to `limit` records that pass, after a position. Bound: the rows between them that pushdown could not exclude. */
  readonly page: (
    sight: Sight,
    asked: Asked,
    after: Position | undefined,
    limit: number
  ) => Effect.Effect<ReadonlyArray<MemoryRecord>, MemoryError>
  readonly match: (sight: Sight, asked: Asked, question: Question) => Effect.Effect<Matches, MemoryError>
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
      sight: Sight,
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

/** The facts of a record in memory, read off the record when asked: making one costs next to nothing. */
export class RecordFact implements Fact {
  readonly record: MemoryRecord
  readonly length: number

  constructor(record: MemoryRecord, length: number) {
    this.record = record
    this.length = length
  }

  get id(): MemoryId {
    return this.record.id
  }
  get hash(): string {
    return hashOf(this.record)
  }
  get recency(): number {
    return recencyOf(this.record)
  }
  get validAt(): number {
    return this.record.validAt
  }
  get kind(): string {
    return this.record.kind
  }
  get importance(): number {
    return this.record.importance
  }
  get confidence(): number | undefined {
    return this.record.confidence
  }
  get trust(): number {
    return this.record.source.trust
  }
  get actor(): string | undefined {
    const { metadata, scope } = this.record
    const said = metadata["actorId"]
    const actor = typeof said === "string" ? said : scope === Global ? undefined : scope.actorId
    return actor?.normalize("NFC").toLowerCase()
  }
  get session(): string | undefined {
    return this.record.source.session
  }
  get sequence(): number | undefined {
    return this.record.source.sequence
  }
  get emotion(): unknown {
    return this.record.data["emotion"]
  }
}
