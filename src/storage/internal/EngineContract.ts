/**
 * The contract of an engine: the part of a store that keeps the records, and from which the store is made.
 *
 * The library decides, the engine fetches. Every decision is a pure function, which the engine calls with the rows it has read, and calls
 * again when it retries after a conflict. An engine therefore knows neither viewers nor kinds nor the analyzer. Bodies are read last, and
 * only of records that are returned.
 *
 * Laws, which the contract suite tests on every engine:
 * - Rows that the viewer may not see neither cost anything nor influence a result.
 * - Each method reads no more than the bound in its comment; an engine that counts its reads proves this.
 * - The library makes no tenant wait for another. An engine may have a single writer for all tenants: the vault and SQLite do.
 */
import type * as Effect from "effect/Effect"
import type * as Either from "effect/Either"
import type * as Option from "effect/Option"
import type * as Stream from "effect/Stream"
import type { MemoryError } from "../../domain/MemoryError.ts"
import type { MemoryId } from "../../domain/MemoryId.ts"
import type { MemoryRecord } from "../../domain/MemoryRecord.ts"
import type { MemoryScope } from "../../domain/MemoryScope.ts"
import type { Message } from "../../domain/Message.ts"
import type { Sight } from "../../domain/Viewer.ts"
import type * as Viewer from "../../domain/Viewer.ts"
import type { Asked, Retrieval } from "../../ranking/Retrieval.ts"

/** The features of a store. */
export interface Capabilities {
  /** Whether the store accepts writes. */
  readonly writable: boolean
  /** Whether the store keeps vectors. */
  readonly vector: boolean
  /** Whether acknowledged writes survive the end of the process. */
  readonly durable: boolean
  /** Whether several processes may write at once. */
  readonly shared: boolean
  /** Whether earlier revisions are kept; otherwise only the current revision can be restored. */
  readonly history: boolean
  /** Whether the store accepts raw messages. */
  readonly messages: boolean
}

/** A row: a record, or the tombstone of one. */
export interface Stored {
  readonly record: MemoryRecord
  /** Whether the row is a tombstone. Its `record` is then the forgotten record, with the time of forgetting as `updatedAt`. */
  readonly forgotten: boolean
  /** Hash of what the record says, for kinds that deduplicate. Live rows can share a key if one of them has an id that its author chose. */
  readonly dedupeKey?: string | undefined
}

/** The use count of one record. */
export interface Uses {
  readonly count: number
  /** Time of the last use, in epoch milliseconds; absent if it was never used. */
  readonly accessedAt?: number | undefined
}

/** The use counts of records, stored beside the rows. */
export interface Usage {
  /** Counts one use of each id, at the current time. Makes no revision; in the worst case a use is lost. */
  readonly touch: (viewer: Viewer.Any, ids: ReadonlyArray<MemoryId>) => Effect.Effect<void, MemoryError>
  /** Returns the use counts of each id, in the order of `ids`. */
  readonly uses: (viewer: Viewer.Any, ids: ReadonlyArray<MemoryId>) => Effect.Effect<ReadonlyArray<Uses>, MemoryError>
}

/** Accepts raw messages. `sequence` is the number of the first message; sending the same sequence again changes nothing. */
export type Ingest = (
  viewer: Viewer.Any,
  session: string,
  messages: ReadonlyArray<Message>,
  sequence: number
) => Effect.Effect<void, MemoryError>

/** A text that has no vector of a model yet. `hash` is its `MemoryRecord.textHash`. */
export interface Unembedded {
  readonly hash: string
  readonly text: string
}

/** A row together with its index terms. The library computes them, so that all engines agree on terms and names. */
export interface Entry {
  readonly stored: Stored
  /** Weight of each term: twice its occurrences, plus 1 where the term is a whole tag. */
  readonly terms: ReadonlyMap<string, number>
  /** Number of terms in the record, repetitions included. */
  readonly length: number
  /** Hash under which vectors of the record's text are stored: `MemoryRecord.textHash`. */
  readonly hash: string
  /** Names by which other records can refer to this one; `refersTo` has the names and ids that its text and links refer to. */
  readonly names: ReadonlyArray<string>
  readonly refersTo: ReadonlyArray<string>
}

/** The rows and keys that a batch depends on, known before anything is read. All are locked, even ids without a row. */
export interface Needs {
  readonly ids: ReadonlyArray<MemoryId>
  readonly dedupeKeys: ReadonlyArray<string>
  /** Ids whose earlier revisions are read too, as `Restore` needs. */
  readonly revisions: ReadonlyArray<MemoryId>
}
/** The rows that a transaction has read for its `Needs`. */
export interface Found {
  /** Time of the transaction, in epoch milliseconds. Read after the rows are locked, so that times follow the order of commits. */
  readonly now: number
  readonly rows: ReadonlyMap<MemoryId, Stored>
  /**
   * Records that are live at `now`, by dedupe key, oldest first, then by id. At most one more than `Needs.ids` has entries, since the
   * batch may itself remove as many.
   */
  readonly holders: ReadonlyMap<string, ReadonlyArray<MemoryRecord>>
  readonly revisions: ReadonlyMap<MemoryId, ReadonlyArray<Stored>>
}
/** A write of one row. */
export interface Write {
  readonly id: MemoryId
  /** The row to write. `undefined` erases the row with its revisions, postings and use counts, and the vectors that no other row needs. */
  readonly next: Entry | undefined
  /**
   * Whether the decision assumes that no other live row has the dedupe key of `next`. An engine that locks `Needs.dedupeKeys` may ignore
   * this; an engine that detects conflicts only at commit must check it too. Default false.
   */
  readonly isUnique?: boolean | undefined
}
/** The writes that a transaction has decided on, and the value that it returns. */
export interface Decision<out A> {
  /** Writes to apply, in order. If empty, nothing is committed: the batch was only planned, or a generated id was already taken. */
  readonly writes: ReadonlyArray<Write>
  /**
   * Whether listeners are not notified. Compaction sets it, since viewers already learned that its records were forgotten or expired.
   * Default false.
   */
  readonly isQuiet?: boolean | undefined
  readonly answer: A
}

/** Decides what to write, given the rows found. A pure function; a `Left` rejects the transaction, and nothing is written. */
export interface Decide<out A> {
  (found: Found): Either.Either<Decision<A>, MemoryError>
  /**
   * Decides the same, but yields to the event loop in between; present if the batch is long. An engine that uses it must keep the rows it
   * found locked until the commit, or check before the commit that they are unchanged. An engine that ignores it is still correct, but
   * blocks the event loop.
   */
  readonly paced?: ((found: Found) => Effect.Effect<Decision<A>, MemoryError>) | undefined
}

/** A change, with as much of the row before and after as is needed to decide which viewers are notified. */
export interface Change {
  readonly id: MemoryId
  readonly before: { readonly scope: MemoryScope; readonly expiresAt?: number | undefined } | undefined
  readonly after: MemoryRecord | undefined
  readonly by: "here" | "there"
}
/** A change, or an error about a place that could not be read. */
export type Event = Change | { readonly issue: MemoryError }

/** A row that compaction may erase, now or later. */
export interface Due {
  /** Time from which it may be erased, in epoch milliseconds: `expiresAt` of a record, or the end of a tombstone's retention. */
  readonly at: number
  readonly tenant: string
  readonly id: MemoryId
  readonly revision: number
}

/**
 * A point in the history of a tenant's changes. Marks with the same `of` are ordered by `version`; marks with different `of` cannot be
 * compared.
 */
export interface Mark {
  readonly of: object
  readonly version: number
}
/** The rows that changed since a mark. */
export interface Changed {
  /** The mark of the current moment. Passed to the next call, it selects the changes after this one. */
  readonly mark: Mark
  /** Rows written or erased since the mark; an id may occur more than once. `undefined` if unknown: then any row may have changed. */
  readonly ids: ReadonlyArray<MemoryId> | undefined
}

/**
 * Direct access to the rows of a store, for services built on it. Reads ignore viewers, and include tombstones and records whose
 * `invalidAt` has passed; `overCap` and `tenantsWith` find where retention and the outbox have work. A layer that changes
 * what a store returns must wrap its reader too. `transact` writes rows as given, without viewer checks, validation or policies, as `Copy`
 * needs. It fails with `read_only` if the store is read-only.
 */
export interface Reader
  extends Pick<Engine, "read" | "revisions" | "page" | "changed" | "overCap" | "tenantsWith" | "transact">
{
  /** The use counts as stored, those of tombstones included. Without `set` they cannot be written. */
  readonly uses: Pick<EngineUses, "read" | "set">
}

/** The backend of a store. */
export interface Engine extends Pick<Retrieval, "page" | "match"> {
  readonly capabilities: Pick<Capabilities, "writable" | "durable" | "shared" | "history">
  /**
   * Fingerprint of the analyzer that made the stored postings; `undefined` if there are none, as in an empty store. `make` refuses an
   * engine with the fingerprint of another analyzer, and its error names `reindex`.
   */
  readonly analyzer: Effect.Effect<string | undefined, MemoryError>
  /** Replaces the terms of every row by those of `entryOf`, and stores the fingerprint of their analyzer. Bound: all rows. */
  readonly reindex: (
    analyzer: string,
    entryOf: (stored: Stored) => Entry
  ) => Effect.Effect<void, MemoryError>

  /** Reads rows by id, tombstones included. Bound: the rows. */
  readonly read: (
    tenant: string,
    ids: ReadonlyArray<MemoryId>
  ) => Effect.Effect<ReadonlyArray<Option.Option<Stored>>, MemoryError>
  /** Reads the revisions of a row, newest first. Bound: `limit`. */
  readonly revisions: (
    tenant: string,
    id: MemoryId,
    limit: number
  ) => Effect.Effect<ReadonlyArray<Stored>, MemoryError>
  /**
   * Reads, decides and commits in one transaction. If the decision is a `Left`, nothing is written. Bound: the rows needed and the rows
   * written.
   */
  readonly transact: <A>(
    tenant: string,
    needs: Needs,
    decide: Decide<A>
  ) => Effect.Effect<A, MemoryError>

  /** Returns the ids that changed since a mark. Without this method, callers read all of their cached rows again. Bound: the ids. */
  readonly changed?:
    | ((tenant: string, since: Mark | undefined) => Effect.Effect<Changed, MemoryError>)
    | undefined

  /** Returns the records that refer to any of these ids or names. Bound: those records. */
  readonly referring: (
    sight: Sight,
    asked: Asked,
    keys: ReadonlyArray<string>
  ) => Effect.Effect<ReadonlyArray<MemoryRecord>, MemoryError>
  /** Returns the records that have any of these names. Bound: those records. */
  readonly named: (
    sight: Sight,
    asked: Asked,
    names: ReadonlyArray<string>
  ) => Effect.Effect<ReadonlyArray<MemoryRecord>, MemoryError>

  /**
   * Returns the rows that expire and the tombstones that are not kept for ever, of all tenants, ordered by `at`, tenant and id, starting
   * after `after`. So the rows due now come first, and the next row tells when to compact again. Bound: `limit`.
   */
  readonly due: (after: Due | undefined, limit: number) => Effect.Effect<ReadonlyArray<Due>, MemoryError>
  /**
   * Returns the scopes with more rows of a kind than its cap. Expired rows and rows whose `invalidAt` has passed count; tombstones do not.
   * Bound: the groups returned.
   */
  readonly overCap: (
    tenant: string,
    caps: ReadonlyMap<string, number>
  ) => Effect.Effect<ReadonlyArray<readonly [scope: string, kind: string]>, MemoryError>
  readonly tenants: Stream.Stream<string, MemoryError>
  /** Streams the tenants that have a row of exactly this scope, not counting tombstones; the outbox uses it. Bound: those tenants. */
  readonly tenantsWith: (scope: MemoryScope) => Stream.Stream<string, MemoryError>

  /**
   * Streams the changes after subscription, each converted by `heard`; changes of other processes too, if the engine is `shared`. A change
   * for which `heard` returns `undefined` takes no room in the buffer, so that a listener cannot fall behind because of changes it does not
   * see.
   */
  readonly changes: <A>(
    tenant: string,
    heard: (event: Event, now: number) => A | undefined
  ) => Stream.Stream<A, MemoryError>
  /** The use counts. Default: a table in this process. */
  readonly uses?: EngineUses | undefined
  /** The vectors. Default: none, and the store does not search by vector. */
  readonly vectors?: EngineVectors | undefined
  /** Key of `MemoryStore.sign`, stored with the rows. Required if the rows are durable or shared; otherwise generated by the store. */
  readonly secret?: string | undefined
  /** Runs before each call, so that an engine that stopped polling can read what changed meanwhile. Default: nothing. */
  readonly ready?: Effect.Effect<void> | undefined
}

/** The use counts that an engine keeps. */
export interface EngineUses {
  readonly touch: (tenant: string, ids: ReadonlyArray<MemoryId>, now: number) => Effect.Effect<void, MemoryError>
  readonly read: (
    tenant: string,
    ids: ReadonlyArray<MemoryId>
  ) => Effect.Effect<ReadonlyArray<Uses>, MemoryError>
  /**
   * Replaces the use counts of each row; ignores ids without a row (a tombstone is a row). Without `set`, a copy cannot bring use counts
   * into this engine. Bound: the rows.
   */
  readonly set?:
    | ((tenant: string, uses: ReadonlyArray<readonly [id: MemoryId, uses: Uses]>) => Effect.Effect<void, MemoryError>)
    | undefined
}

/**
 * The vectors, by tenant, model and hash of the text. Tenants share no vectors, so that a tenant cannot learn what another one embedded.
 */
export interface EngineVectors extends NonNullable<Retrieval["vectors"]> {
  /** Returns the models of which the tenant has a vector, each once, in any order. Bound: the models. */
  readonly models: (tenant: string) => Effect.Effect<ReadonlyArray<string>, MemoryError>
  /**
   * Returns the dimensions of the tenant's vectors of this model. An engine may return `expected` without reading them again if they had
   * that value at the last read; its `near` then fails with `invalid_draft` if the vector has other dimensions.
   */
  readonly dimensions: (
    tenant: string,
    model: string,
    expected?: number
  ) => Effect.Effect<number | undefined, MemoryError>
  /** Returns texts without a vector of the model, each once, without those of the library's own rows. Bound: `limit`. */
  readonly pending: (
    tenant: string,
    model: string,
    limit: number
  ) => Effect.Effect<ReadonlyArray<Unembedded>, MemoryError>
  /** Adds vectors; a hash that has one keeps it. Fails with `invalid_draft` if another process was first, with other dimensions. */
  readonly attach: (
    tenant: string,
    model: string,
    vectors: ReadonlyArray<readonly [hash: string, vector: Float32Array]>
  ) => Effect.Effect<void, MemoryError>
  /**
   * Erases the vectors of texts that no row has any more, for tenants where these may be the majority. They stem from texts that were
   * edited. Compaction calls it. Absent if the engine never leaves such vectors.
   */
  readonly prune?: Effect.Effect<void, MemoryError> | undefined
}
