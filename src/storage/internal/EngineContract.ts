/**
 * The contract of an engine: the part of a store that holds the records, and from which the store is made.
 *
 * The library decides, the engine fetches. Every decision is a pure function that the engine calls with the rows it has read,
 * as often as it needs: a conflict is retried inside the engine. An engine therefore knows neither viewers nor kinds nor the
 * analyzer. Bodies are read last, and only of what is shown.
 *
 * Laws, held by the contract suite on every engine:
 * - Rows out of sight cost nothing and influence nothing.
 * - Each method reads no more than the bound in its comment; an engine that counts its reads proves it.
 * - The library adds no waiting between tenants. An engine may have a single writer: the vault, SQLite.
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

/** The abilities of a store. */
export interface Capabilities {
  /** Whether the store takes writes. */
  readonly writable: boolean
  /** Whether the store holds vectors. */
  readonly vector: boolean
  /** Whether acknowledged writes survive the process. */
  readonly durable: boolean
  /** Whether several processes may write at once. */
  readonly shared: boolean
  /** Whether earlier revisions are kept; without them only the current one can be restored. */
  readonly history: boolean
  /** Whether the store takes raw messages. */
  readonly messages: boolean
}

/** A row: a record, or the tombstone of one. */
export interface Stored {
  readonly record: MemoryRecord
  /** Whether this is a tombstone: then the record is what was forgotten, and its `updatedAt` the time of that. */
  readonly forgotten: boolean
  /** Key of what the record says, in kinds that deduplicate. Live rows share it where one has an id of its author's own. */
  readonly dedupeKey?: string | undefined
}

/** The uses of one record. */
export interface Uses {
  readonly count: number
  /** Time of the last use, in epoch milliseconds; absent: never. */
  readonly accessedAt?: number | undefined
}

/** The counts of uses, kept beside the rows. */
export interface Usage {
  /** Counts a use of each id, now. Makes no revision; at worst a use is lost. */
  readonly touch: (viewer: Viewer.Any, ids: ReadonlyArray<MemoryId>) => Effect.Effect<void, MemoryError>
  /** Returns the uses of each id, in the order of `ids`. */
  readonly uses: (viewer: Viewer.Any, ids: ReadonlyArray<MemoryId>) => Effect.Effect<ReadonlyArray<Uses>, MemoryError>
}

/** Takes raw messages. `sequence` is that of the first; the same sequence again changes nothing. */
export type Ingest = (
  viewer: Viewer.Any,
  session: string,
  messages: ReadonlyArray<Message>,
  sequence: number
) => Effect.Effect<void, MemoryError>

/** A text that has no vector of a model yet. `hash` is `MemoryRecord.textHash`. */
export interface Unembedded {
  readonly hash: string
  readonly text: string
}

/** A row together with everything it can be found by. The library makes it, so all engines agree on terms and names. */
export interface Entry {
  readonly stored: Stored
  /** Weight of each term: twice its occurrences, plus 1 where the term is a whole tag. */
  readonly terms: ReadonlyMap<string, number>
  /** Number of terms. */
  readonly length: number
  /** Key of its vectors: `MemoryRecord.textHash`. */
  readonly hash: string
  /** Names the record answers to, and names or ids that its text and links refer to. */
  readonly names: ReadonlyArray<string>
  readonly refersTo: ReadonlyArray<string>
}

/** The rows and keys that a batch depends on, known before anything is read. All of them are locked, absent rows included. */
export interface Needs {
  readonly ids: ReadonlyArray<MemoryId>
  readonly dedupeKeys: ReadonlyArray<string>
  /** Ids whose kept revisions are read too: `Restore`. */
  readonly revisions: ReadonlyArray<MemoryId>
}
/** The rows and keys that a transaction has read. */
export interface Found {
  /** Time of the transaction, epoch milliseconds: read once the rows are locked, so that times follow the order of commits. */
  readonly now: number
  readonly rows: ReadonlyMap<MemoryId, Stored>
  /**
   * Records by dedupe key that are live at `now`, oldest first, then by id: one more than `Needs.ids` has entries, since
   * the batch may remove some itself.
   */
  readonly holders: ReadonlyMap<string, ReadonlyArray<MemoryRecord>>
  readonly revisions: ReadonlyMap<MemoryId, ReadonlyArray<Stored>>
}
/** A write of one row. */
export interface Write {
  readonly id: MemoryId
  /** The row to write. `undefined` erases it with its revisions, postings and uses, and the vectors that no other row has. */
  readonly next: Entry | undefined
  /**
   * Whether the decision relies on no other live row having the dedupe key of `next`. An engine that locks `Needs.dedupeKeys`
   * may ignore it; one that only notices conflicts when it commits has to notice this one, too. Default false.
   */
  readonly isUnique?: boolean | undefined
}
/** The writes that a transaction has decided on, and its answer. */
export interface Decision<out A> {
  /** Writes to apply, in order. Empty: nothing is committed (minted ids that are taken, or a batch that is only planned). */
  readonly writes: ReadonlyArray<Write>
  /** Whether listeners are not told: compaction erases records whose end viewers heard of before. Default false. */
  readonly isQuiet?: boolean | undefined
  readonly answer: A
}

/** Decides what to write, from what was found. Pure; a `Left` is a refusal, and writes nothing. */
export interface Decide<out A> {
  (found: Found): Either.Either<Decision<A>, MemoryError>
  /**
   * Decides the same with turns for the event loop in between; present where a batch is long. An engine that uses it keeps what
   * was found locked until it commits, or checks again that it still holds. One that does not is right too, and blocks the loop.
   */
  readonly paced?: ((found: Found) => Effect.Effect<Decision<A>, MemoryError>) | undefined
}

/** A change, with enough of the row before and after to tell which viewers may hear of it. */
export interface Change {
  readonly id: MemoryId
  readonly before: { readonly scope: MemoryScope; readonly expiresAt?: number | undefined } | undefined
  readonly after: MemoryRecord | undefined
  readonly by: "here" | "there"
}
/** A change, or a place that could not be read. */
export type Event = Change | { readonly issue: MemoryError }

/** A row that compaction may erase. */
export interface Due {
  /** Time from which it may, in epoch milliseconds: `expiresAt` of an expired record, the end of a tombstone's retention. */
  readonly at: number
  readonly tenant: string
  readonly id: MemoryId
  readonly revision: number
}

/** A moment in the life of a tenant's rows. The later of two moments with one `of` has the higher `version`. */
export interface Mark {
  readonly of: object
  readonly version: number
}
/** The rows that changed since a mark. */
export interface Changed {
  /** The mark of now: asked with it, the engine tells what is written from here on. */
  readonly mark: Mark
  /** Rows that were written or erased since, each once or more; `undefined`: any may have been. */
  readonly ids: ReadonlyArray<MemoryId> | undefined
}

/**
 * The rows of a store as they are, for services on top of it: tombstones and closed records included, for every viewer, and the
 * tenants where retention and the outbox have work. A layer that changes what a store answers maps it. `transact` writes rows as
 * they are, past viewers, validation and policies: `Copy` does. It fails with `read_only` where the store is.
 */
export interface Reader
  extends Pick<Engine, "read" | "revisions" | "page" | "changed" | "overCap" | "tenantsWith" | "transact">
{
  /** The uses as they are kept, those of tombstones too. Without `set` they cannot be written. */
  readonly uses: Pick<EngineUses, "read" | "set">
}

/** The backend of a store. */
export interface Engine extends Pick<Retrieval, "page" | "match"> {
  readonly capabilities: Pick<Capabilities, "writable" | "durable" | "shared" | "history">
  /**
   * Fingerprint of the analyzer that made the postings that are kept; `undefined` where there are none, as in an empty store.
   * A store that has another analyzer is not made, and its error names `reindex`.
   */
  readonly analyzer: Effect.Effect<string | undefined, MemoryError>
  /** Replaces the terms of every row by those of `entryOf`, and keeps the fingerprint of their analyzer. Bound: all rows. */
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
  /** Reads, decides and commits in one transaction. A `Left` writes nothing. Bound: what is needed and what is written. */
  readonly transact: <A>(
    tenant: string,
    needs: Needs,
    decide: Decide<A>
  ) => Effect.Effect<A, MemoryError>

  /** Returns the ids that changed since a mark. Default: unknown, so that every copy is read again. Bound: the ids. */
  readonly changed?:
    | ((tenant: string, since: Mark | undefined) => Effect.Effect<Changed, MemoryError>)
    | undefined

  /** Returns the records that refer to any of these ids or names. Bound: those records. */
  readonly referring: (
    sight: Sight,
    asked: Asked,
    keys: ReadonlyArray<string>
  ) => Effect.Effect<ReadonlyArray<MemoryRecord>, MemoryError>
  /** Returns the records that answer to any of these names. Bound: those records. */
  readonly named: (
    sight: Sight,
    asked: Asked,
    names: ReadonlyArray<string>
  ) => Effect.Effect<ReadonlyArray<MemoryRecord>, MemoryError>

  /**
   * Returns rows that expire and tombstones that are not kept for ever, of any tenant, in the order of `at`, tenant and id, from
   * the one after `after` on: those due now come first, and the next one says when to look again. Bound: `limit`.
   */
  readonly due: (after: Due | undefined, limit: number) => Effect.Effect<ReadonlyArray<Due>, MemoryError>
  /** Returns the scopes with more rows of a kind than its cap; expired and closed rows count, tombstones not. Bound: those groups. */
  readonly overCap: (
    tenant: string,
    caps: ReadonlyMap<string, number>
  ) => Effect.Effect<ReadonlyArray<readonly [scope: string, kind: string]>, MemoryError>
  readonly tenants: Stream.Stream<string, MemoryError>
  /** Streams the tenants that have a row of exactly this scope, tombstones aside, for the outbox. Bound: those tenants. */
  readonly tenantsWith: (scope: MemoryScope) => Stream.Stream<string, MemoryError>

  /**
   * Streams the changes from subscription on, each as `heard` makes it; those of other processes too, where `shared`. A change
   * that `heard` answers with `undefined` takes no room in any buffer, so that no listener falls behind for what others write.
   */
  readonly changes: <A>(
    tenant: string,
    heard: (event: Event, now: number) => A | undefined
  ) => Stream.Stream<A, MemoryError>
  /** The counts of uses. Default: a table in this process. */
  readonly uses?: EngineUses | undefined
  /** The vectors. Default: none, and the store has no vector leg. */
  readonly vectors?: EngineVectors | undefined
  /** Key of `MemoryStore.sign`, kept where the rows are. Needed where they are durable or shared; default: drawn by the store. */
  readonly secret?: string | undefined
  /** Runs before each call, so that an engine that stopped polling can catch up. Default: nothing. */
  readonly ready?: Effect.Effect<void> | undefined
}

/** The counts of uses that an engine keeps. */
export interface EngineUses {
  readonly touch: (tenant: string, ids: ReadonlyArray<MemoryId>, now: number) => Effect.Effect<void, MemoryError>
  readonly read: (
    tenant: string,
    ids: ReadonlyArray<MemoryId>
  ) => Effect.Effect<ReadonlyArray<Uses>, MemoryError>
  /**
   * Replaces the uses of each row; an id without a row, tombstones included, is passed over. Absent: a copy cannot bring uses
   * into this engine. Bound: the rows.
   */
  readonly set?:
    | ((tenant: string, uses: ReadonlyArray<readonly [id: MemoryId, uses: Uses]>) => Effect.Effect<void, MemoryError>)
    | undefined
}

/** Vectors by tenant, model and hash of the text: what one tenant embedded tells nothing to another. */
export interface EngineVectors extends NonNullable<Retrieval["vectors"]> {
  /** Returns the models that have a vector of the tenant, each once, in any order. Bound: the models. */
  readonly models: (tenant: string) => Effect.Effect<ReadonlyArray<string>, MemoryError>
  /**
   * Returns the dimensions of the tenant's vectors of this model. An engine may answer `expected` without reading them again where
   * they were that when last read; its `near` then fails with `invalid_draft` where the vector does not fit.
   */
  readonly dimensions: (
    tenant: string,
    model: string,
    expected?: number
  ) => Effect.Effect<number | undefined, MemoryError>
  /** Returns texts without a vector, each once, internal rows excluded. Bound: `limit`. */
  readonly pending: (
    tenant: string,
    model: string,
    limit: number
  ) => Effect.Effect<ReadonlyArray<Unembedded>, MemoryError>
  /** Adds vectors; a hash that has one keeps it. Fails with `conflict` where others came first with other dimensions. */
  readonly attach: (
    tenant: string,
    model: string,
    vectors: ReadonlyArray<readonly [hash: string, vector: Float32Array]>
  ) => Effect.Effect<void, MemoryError>
  /**
   * Erases vectors of texts that no row has, where they may be most of a tenant's: texts that were edited away. Compaction
   * asks for it. Absent: the engine leaves none behind.
   */
  readonly prune?: Effect.Effect<void, MemoryError> | undefined
}
