/**
 * The contract of an engine: the part of a store that keeps and reads rows. `MemoryStore.make` makes a store from an engine.
 *
 * The library decides what is written, and who may see what. The library passes each decision to the engine as a pure function. The engine
 * calls the function with the rows that it has read. After a conflict, the function may be called again. An engine therefore needs no rules
 * about viewers, kinds or the analyzer. A search reads the bodies of records last. It reads those of the best matches, and the bodies that
 * the filter or the ranking needs.
 *
 * Terms: a row is a record, or the tombstone of a forgotten record. An `AccessFilter` selects the rows that a call may read. The "cost" of
 * a method is the largest number of rows, or other items, that the method should read. Some engines read more. For example, `due` of an
 * engine made from `Primitives` reads at least all tombstones and all rows that expire.
 *
 * Laws:
 * - Rows that the viewer may not see have no effect on the result of a query. The contract suite tests this on every store.
 * - Each method returns no more rows than its cost allows. The tests of the library run the contract suite on an engine that counts the
 *   rows that it returns.
 *
 * The library by itself never makes one tenant wait for another. An engine may do so: the vault (a folder of Markdown files) and SQLite
 * have a single writer for all tenants.
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
import type { AccessFilter } from "../../domain/Viewer.ts"
import type * as Viewer from "../../domain/Viewer.ts"
import type { CompiledFilter, Retrieval } from "../../ranking/Retrieval.ts"

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
  /** Whether earlier revisions are kept. If not, a forgotten record can be restored only to its last revision. */
  readonly history: boolean
  /** Whether the store accepts raw messages. */
  readonly messages: boolean
}

/** A row: a record, or the tombstone that replaces a forgotten record. */
export interface Stored {
  readonly record: MemoryRecord
  /** Whether the row is a tombstone. `record` is then the forgotten record, and its `updatedAt` is the time of forgetting. */
  readonly forgotten: boolean
  /**
   * Hash of the record's content, for kinds that deduplicate. Several live rows may have the same key: only a put without an id is checked
   * for duplicates.
   */
  readonly dedupeKey?: string | undefined
}

/** The use count of one record. */
export interface Uses {
  readonly count: number
  /** Time of the last use, in epoch milliseconds; absent if the record was never used. */
  readonly accessedAt?: number | undefined
}

/** The use counts of records, stored beside the rows. */
export interface Usage {
  /** Counts one use of each id, at the current time. Makes no revision. A use may be lost, for example in a crash. */
  readonly touch: (viewer: Viewer.Any, ids: ReadonlyArray<MemoryId>) => Effect.Effect<void, MemoryError>
  /** Returns the use count of each id, in the order of `ids`. */
  readonly uses: (viewer: Viewer.Any, ids: ReadonlyArray<MemoryId>) => Effect.Effect<ReadonlyArray<Uses>, MemoryError>
}

/**
 * Accepts raw messages of a session. `sequence` is the number that the first of them has in the session. Messages that are sent again with
 * the same `sequence` change nothing.
 */
export type Ingest = (
  viewer: Viewer.Any,
  session: string,
  messages: ReadonlyArray<Message>,
  sequence: number
) => Effect.Effect<void, MemoryError>

/** A text that has no vector of a model yet, and the text's hash, computed by `MemoryRecord.textHash`. */
export interface Unembedded {
  readonly hash: string
  readonly text: string
}

/** A row with its index terms. The library, not the engine, computes the terms and names, so that all engines search alike. */
export interface Entry {
  readonly stored: Stored
  /** Weight of each term: twice its number of occurrences, plus 1 if the term is a whole tag. */
  readonly terms: ReadonlyMap<string, number>
  /** Number of the record's terms, repetitions included. Compounds and single ASCII characters do not count (`Tokenizer.isCounted`). */
  readonly length: number
  /** Hash under which vectors of the record's text are stored, computed by `MemoryRecord.textHash`. */
  readonly hash: string
  /** Names by which other records can refer to this record. */
  readonly names: ReadonlyArray<string>
  /** Names and ids to which this record's text and links refer. */
  readonly refersTo: ReadonlyArray<string>
}

/**
 * The ids and dedupe keys on which a batch depends. Known before any read. No other transaction may change their rows before the commit.
 * An engine locks all of them, even ids without a row, or checks them again at the commit.
 */
export interface Needs {
  readonly ids: ReadonlyArray<MemoryId>
  readonly dedupeKeys: ReadonlyArray<string>
  /** Ids whose earlier revisions are read too, for `Restore`. */
  readonly revisions: ReadonlyArray<MemoryId>
}
/** The rows that a transaction has read for its `Needs`. */
export interface Found {
  /**
   * Time of the transaction, in epoch milliseconds. It is taken after the rows are locked, so that the times of one record follow the order
   * of its commits.
   */
  readonly now: number
  readonly rows: ReadonlyMap<MemoryId, Stored>
  /**
   * Records that are live at `now`, by dedupe key. The records of one key are ordered by age, oldest first, then by id. Each key has at
   * most `Needs.ids.length + 1` records. More are not needed, because the batch removes at most one record per id.
   */
  readonly byDedupeKey: ReadonlyMap<string, ReadonlyArray<MemoryRecord>>
  readonly revisions: ReadonlyMap<MemoryId, ReadonlyArray<Stored>>
}
/** A write of one row. */
export interface Write {
  readonly id: MemoryId
  /** The row to write. `undefined` erases the row, its revisions, index entries and use counts, and vectors that no other row needs. */
  readonly next: Entry | undefined
  /**
   * Whether the dedupe key of `next` must be unique among the live rows. Default: false. An engine that detects conflicts only at commit
   * must check this. An engine that locks `Needs.dedupeKeys` may ignore this field.
   */
  readonly isUnique?: boolean | undefined
}
/** The writes that a transaction has decided on, and the value that it returns. */
export interface Decision<out A> {
  /** The writes to apply, in order. The list is empty if no row changes, or if a generated id is in use; nothing is then committed. */
  readonly writes: ReadonlyArray<Write>
  /**
   * Whether the writes are not reported to listeners. Default: false. Compaction sets this field, because it erases only forgotten and
   * expired records, which `get` returns only to the viewer `System`.
   */
  readonly isQuiet?: boolean | undefined
  readonly answer: A
}

/** A pure function that computes the writes from the rows found. A `Left` rejects the transaction, and nothing is written. */
export interface Decide<out A> {
  (found: Found): Either.Either<Decision<A>, MemoryError>
  /**
   * Makes the same decision in steps, so that the event loop runs between the steps. Absent for short batches, for compaction and for
   * `Copy`. The rows that the engine has read must stay unchanged until the commit. An engine that calls `paced` must lock these rows, or
   * check them before the commit. An engine that never calls `paced` is still correct, but blocks the event loop.
   */
  readonly paced?: ((found: Found) => Effect.Effect<Decision<A>, MemoryError>) | undefined
}

/**
 * A change of a row. `before` has only those fields of the old row that decide which viewers are notified. `by` is `here` if this store
 * made the change, else `there`.
 */
export interface Change {
  readonly id: MemoryId
  readonly before: { readonly scope: MemoryScope; readonly expiresAt?: number | undefined } | undefined
  readonly after: MemoryRecord | undefined
  readonly by: "here" | "there"
}
/** A change, or an error about a file or other source that could not be read. */
export type Event = Change | { readonly issue: MemoryError }

/** A row that compaction may erase, now or later. */
export interface Due {
  /**
   * Time from which the row may be erased, in epoch milliseconds. This is `expiresAt`, or the end of the time for which a tombstone is
   * kept. If a tombstone has both times, the earlier one counts.
   */
  readonly at: number
  readonly tenant: string
  readonly id: MemoryId
  readonly revision: number
}

/**
 * A point in the sequence of a tenant's changes. `version` is the number of changes up to this point. `of` identifies the index that counts
 * the changes. Two marks can be compared only if they have the same `of`.
 */
export interface Mark {
  readonly of: object
  readonly version: number
}
/** The rows that changed since a mark. */
export interface Changed {
  /** The mark of this call. A later call with this mark returns the rows that changed after this call. */
  readonly mark: Mark
  /** Ids of the rows written or erased since the mark, possibly repeated. `undefined` if unknown: any row may have changed. */
  readonly ids: ReadonlyArray<MemoryId> | undefined
}

/**
 * Direct access to the rows of a store, for services built on the store. `read` and `revisions` ignore viewers. They also return
 * tombstones, and records whose `invalidAt` has passed. `page` returns what its arguments permit. The service `Retention` uses `overCap` to
 * find scopes with too many records. The module `Outbox` uses `tenantsWith` to find tenants that may have queued messages. A layer that
 * changes what a store returns must also wrap the store's reader.
 *
 * `transact` writes rows as given, as the module `Copy` requires. It does not check viewers, validate the rows, or apply policies. On a
 * read-only store, `transact` fails with `read_only`.
 */
export interface Reader
  extends Pick<Engine, "read" | "revisions" | "page" | "changed" | "overCap" | "tenantsWith" | "transact">
{
  /** The use counts as stored, including those of tombstones. If `set` is absent, use counts cannot be written. */
  readonly uses: Pick<EngineUses, "read" | "set">
}

/** The backend of a store. */
export interface Engine extends Pick<Retrieval, "page" | "match"> {
  readonly capabilities: Pick<Capabilities, "writable" | "durable" | "shared" | "history">
  /**
   * Fingerprint of the analyzer that made the stored index; `undefined` if no index is stored, as in the engine in memory. If the
   * configured analyzer has another fingerprint, `MemoryStore.make` fails. The error names `reindex` as the remedy.
   */
  readonly analyzer: Effect.Effect<string | undefined, MemoryError>
  /**
   * Replaces the stored terms of every row by the terms that `entryOf` returns. Also stores the argument `analyzer`, which is the
   * fingerprint of the new analyzer. Cost: every row.
   */
  readonly reindex: (
    analyzer: string,
    entryOf: (stored: Stored) => Entry
  ) => Effect.Effect<void, MemoryError>

  /** Reads rows by id, tombstones included. Cost: at most one row per id. */
  readonly read: (
    tenant: string,
    ids: ReadonlyArray<MemoryId>
  ) => Effect.Effect<ReadonlyArray<Option.Option<Stored>>, MemoryError>
  /** Reads the revisions of a row, newest first. Cost: at most `limit` rows. */
  readonly revisions: (
    tenant: string,
    id: MemoryId,
    limit: number
  ) => Effect.Effect<ReadonlyArray<Stored>, MemoryError>
  /**
   * Reads the rows of `needs`, calls `decide`, and commits the writes, in one transaction. If `decide` returns a `Left`, nothing is
   * written, and the call fails with the error in the `Left`. Cost: at most the rows needed plus the rows written.
   */
  readonly transact: <A>(
    tenant: string,
    needs: Needs,
    decide: Decide<A>
  ) => Effect.Effect<A, MemoryError>

  /**
   * Returns the ids of the rows that changed since a mark. Cost: at most one row per id returned. If an engine lacks this method, callers
   * must read all their cached rows again.
   */
  readonly changed?:
    | ((tenant: string, since: Mark | undefined) => Effect.Effect<Changed, MemoryError>)
    | undefined

  /** Returns the records that refer to one of `keys`. A key is an id or a name. Cost: at most one row per returned record. */
  readonly referring: (
    access: AccessFilter,
    compiled: CompiledFilter,
    keys: ReadonlyArray<string>
  ) => Effect.Effect<ReadonlyArray<MemoryRecord>, MemoryError>
  /** Returns the records that have any of these names. Cost: at most one row per record returned. */
  readonly named: (
    access: AccessFilter,
    compiled: CompiledFilter,
    names: ReadonlyArray<string>
  ) => Effect.Effect<ReadonlyArray<MemoryRecord>, MemoryError>

  /**
   * Returns rows that compaction may erase, now or later, from all tenants. These are rows that expire, and tombstones that are kept for a
   * limited time. The rows are ordered by `at`, tenant and id. The result has at most `limit` rows, and starts after the row `after`. The
   * first row that is not due yet tells when to compact again. Cost: at most `limit` rows.
   */
  readonly due: (after: Due | undefined, limit: number) => Effect.Effect<ReadonlyArray<Due>, MemoryError>
  /**
   * Returns each pair of scope and kind that has more rows than the cap of the kind. Tombstones do not count. Expired rows count, and so do
   * rows whose `invalidAt` has passed. Cost: at most one item per pair returned.
   */
  readonly overCap: (
    tenant: string,
    caps: ReadonlyMap<string, number>
  ) => Effect.Effect<ReadonlyArray<readonly [scope: string, kind: string]>, MemoryError>
  readonly tenants: Stream.Stream<string, MemoryError>
  /** Streams the tenants that have a row in exactly this scope. Tombstones do not count. Cost: at most one item per returned tenant. */
  readonly tenantsWith: (scope: MemoryScope) => Stream.Stream<string, MemoryError>

  /**
   * Streams the changes made after the subscription, each converted by `convert`. A `shared` engine also streams the changes of other
   * processes. Exception: an engine made from `Primitives` streams only its own changes, and the store adds those of `outside`. If
   * `convert` returns `undefined`, the change is skipped. Skipped changes take no room in the listener's buffer. So changes that the
   * listener may not see cannot make the buffer overflow.
   */
  readonly changes: <A>(
    tenant: string,
    convert: (event: Event, now: number) => A | undefined
  ) => Stream.Stream<A, MemoryError>
  /** The use counts. Default: a table in this process. */
  readonly uses?: EngineUses | undefined
  /** The vectors. Default: the store has no vectors, and cannot search by vector. */
  readonly vectors?: EngineVectors | undefined
  /**
   * Key with which `MemoryStore.sign` signs. The key is stored with the rows. Required if the engine is durable or shared. Default for
   * other engines: a key that the store generates.
   */
  readonly secret?: string | undefined
  /**
   * Runs before each call of the store that `Activity` counts, so not before `compact` or `changes`. An engine that has stopped polling
   * reads the latest changes here. Default: nothing.
   */
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
   * Replaces the use counts of rows, including tombstones. Ignores ids without a row. Cost: at most one row per item of `uses`. If this
   * method is absent, `Copy` cannot write use counts into the engine.
   */
  readonly set?:
    | ((tenant: string, uses: ReadonlyArray<readonly [id: MemoryId, uses: Uses]>) => Effect.Effect<void, MemoryError>)
    | undefined
}

/**
 * The vectors, by tenant, model and hash of the text. Tenants share no vectors, so no tenant can find out which texts another tenant has
 * embedded.
 */
export interface EngineVectors extends NonNullable<Retrieval["vectors"]> {
  /** Returns the names of the models for which the tenant has vectors, without repetitions. Cost: at most one item per model. */
  readonly models: (tenant: string) => Effect.Effect<ReadonlyArray<string>, MemoryError>
  /**
   * Returns the number of dimensions of the tenant's vectors of this model; `undefined` without vectors. The engine may return `expected`
   * without a read if its last read found the same number. If the vectors have other dimensions by then, `near` fails with `invalid_draft`.
   */
  readonly dimensions: (
    tenant: string,
    model: string,
    expected?: number
  ) => Effect.Effect<number | undefined, MemoryError>
  /**
   * Returns texts that have no vector of the model, each text once. Leaves out a text if all rows with it are tombstones, expired, or the
   * library's own (scope `Internal`). Cost: at most `limit` texts.
   */
  readonly pending: (
    tenant: string,
    model: string,
    limit: number
  ) => Effect.Effect<ReadonlyArray<Unembedded>, MemoryError>
  /**
   * Adds vectors. If a hash already has a vector, the old vector stays. Fails with `invalid_draft` if another process has already stored
   * vectors of this model with other dimensions.
   */
  readonly attach: (
    tenant: string,
    model: string,
    vectors: ReadonlyArray<readonly [hash: string, vector: Float32Array]>
  ) => Effect.Effect<void, MemoryError>
  /**
   * Erases the vectors of texts that no row has any more (orphaned vectors). May also erase the vectors of texts that only tombstones have.
   * Compaction runs this effect. Absent if the engine never keeps orphaned vectors. May skip a tenant if no model has more than twice as
   * many vectors as there are texts.
   */
  readonly prune?: Effect.Effect<void, MemoryError> | undefined
}
