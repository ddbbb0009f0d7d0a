/**
 * The contract of whatever holds the records, from which a store is made.
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

export interface Capabilities {
  readonly writable: boolean
  readonly vector: boolean
  /** What was acknowledged survives the process. */
  readonly durable: boolean
  /** Several processes may write at once. */
  readonly shared: boolean
  /** Keeps earlier revisions; without it only the current one can be restored. */
  readonly history: boolean
  /** Takes raw messages. */
  readonly messages: boolean
}

export interface Stored {
  readonly record: MemoryRecord
  /** A tombstone: the record is what was forgotten, its `updatedAt` when. */
  readonly forgotten: boolean
  /** Of kinds that deduplicate: what it says. Live rows share it where one has an id of its author's own. */
  readonly dedupeKey?: string | undefined
}

export interface Uses {
  readonly count: number
  /** Epoch ms; absent = never. */
  readonly accessedAt?: number | undefined
}

/** What is kept beside the rows of how often they are used. */
export interface Usage {
  /** Counts a use of each, now. Makes no revision; a use is lost at worst. */
  readonly touch: (viewer: Viewer.Any, ids: ReadonlyArray<MemoryId>) => Effect.Effect<void, MemoryError>
  /** Returns the uses of each, in the order of `ids`. */
  readonly uses: (viewer: Viewer.Any, ids: ReadonlyArray<MemoryId>) => Effect.Effect<ReadonlyArray<Uses>, MemoryError>
}

/** Takes raw messages, `sequence` of the first; the same sequence again changes nothing. */
export type Ingest = (
  viewer: Viewer.Any,
  session: string,
  messages: ReadonlyArray<Message>,
  sequence: number
) => Effect.Effect<void, MemoryError>

/** A text that has no vector of this model yet. `hash` is `MemoryRecord.textHash`. */
export interface Unembedded {
  readonly hash: string
  readonly text: string
}

/** A row together with everything it can be found by. The library makes it, so all engines agree on terms and names. */
export interface Entry {
  readonly stored: Stored
  /** Twice the occurrences of a term, plus 1 where the term is a whole tag. */
  readonly terms: ReadonlyMap<string, number>
  /** Number of terms. */
  readonly length: number
  /** `MemoryRecord.textHash`: the key of its vectors. */
  readonly hash: string
  /** Names the record answers to, and names or ids that its text and links refer to. */
  readonly names: ReadonlyArray<string>
  readonly refersTo: ReadonlyArray<string>
}

/** What a batch depends on, known before anything is read. All of it is locked, absent rows included. */
export interface Needs {
  readonly ids: ReadonlyArray<MemoryId>
  readonly dedupeKeys: ReadonlyArray<string>
  /** Ids whose kept revisions are read too: `Restore`. */
  readonly revisions: ReadonlyArray<MemoryId>
}
export interface Found {
  /** Time of the transaction, epoch milliseconds: read once the rows are locked, so that times follow the order of commits. */
  readonly now: number
  readonly rows: ReadonlyMap<MemoryId, Stored>
  /**
   * Per dedupe key the records that are live at `now`, oldest first, then by id: one more than `Needs.ids` has entries, since
   * the batch may remove some itself.
   */
  readonly holders: ReadonlyMap<string, ReadonlyArray<MemoryRecord>>
  readonly revisions: ReadonlyMap<MemoryId, ReadonlyArray<Stored>>
}
export interface Write {
  readonly id: MemoryId
  /** `undefined` erases the row, its revisions, postings and uses, and vectors that no other row of the tenant has. */
  readonly next: Entry | undefined
  /**
   * The decision relies on no other live row having the dedupe key of `next`. An engine that locks `Needs.dedupeKeys` may
   * ignore it; one that only notices conflicts when it commits has to notice this one, too. Default false.
   */
  readonly isUnique?: boolean | undefined
}
export interface Decision<out A> {
  /** Applied in order. Empty: nothing is committed (minted ids that are taken, or a batch that is only planned). */
  readonly writes: ReadonlyArray<Write>
  /** Nobody hears of the writes: compaction erases what viewers were told of before. Default false. */
  readonly isQuiet?: boolean | undefined
  readonly answer: A
}

/** Decides what to write, from what was found. Pure; a `Left` is a refusal, and writes nothing. */
export interface Decide<out A> {
  (found: Found): Either.Either<Decision<A>, MemoryError>
  /**
   * The same, with turns for the event loop in between: there where a batch is long. An engine that uses it holds what was found
   * until it commits, by its locks, or looks again whether it still is so; one that does not is right too, and blocks the loop.
   */
  readonly paced?: ((found: Found) => Effect.Effect<Decision<A>, MemoryError>) | undefined
}

/** A change with enough of the row before and after to say who may hear of it. */
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
  /** Time from which it may: of an expired record `expiresAt`, of a tombstone the end of its retention. Epoch milliseconds. */
  readonly at: number
  readonly tenant: string
  readonly id: MemoryId
  readonly revision: number
}

/** A moment in the life of a tenant's rows. Of two moments of one `of` the later one has the higher `version`. */
export interface Mark {
  readonly of: object
  readonly version: number
}
export interface Changed {
  /** Now: what is written from here on is told to whoever asks with it. */
  readonly mark: Mark
  /** Rows that were written or erased since, each once or more; `undefined`: any may have been. */
  readonly ids: ReadonlyArray<MemoryId> | undefined
}

/**
 * What a store tells to that which stands on it: rows as they are, tombstones and closed records included, whoever may see
 * them, and where there is work for retention and the outbox. A layer that changes what a store answers maps it. `transact`
 * writes rows as they are, past viewers, validation and policies: `Copy` does. It fails with `read_only` where the store is.
 */
export interface Reader
  extends Pick<Engine, "read" | "revisions" | "page" | "changed" | "overCap" | "tenantsWith" | "transact">
{
  /** The uses as they are kept, those of tombstones too. Without `set` they cannot be written. */
  readonly uses: Pick<EngineUses, "read" | "set">
}

export interface Engine extends Pick<Retrieval, "page" | "match"> {
  readonly capabilities: Pick<Capabilities, "writable" | "durable" | "shared" | "history">
  /**
   * Fingerprint of the analyzer that made the postings that are kept; `undefined` where there are none, as in an empty store.
   * A store that has another analyzer is not made, and its error names `reindex`.
   */
  readonly analyzer: Effect.Effect<string | undefined, MemoryError>
  readonly reindex: (
    analyzer: string,
    entryOf: (stored: Stored) => Entry
  ) => Effect.Effect<void, MemoryError>

  /** Rows by id, tombstones included. Bound: the rows. */
  readonly read: (
    tenant: string,
    ids: ReadonlyArray<MemoryId>
  ) => Effect.Effect<ReadonlyArray<Option.Option<Stored>>, MemoryError>
  /** Revisions of a row, newest first. Bound: `limit`. */
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

  /** Default: nobody can tell what was written, and whoever keeps a copy reads everything again. Bound: the ids. */
  readonly changed?:
    | ((tenant: string, since: Mark | undefined) => Effect.Effect<Changed, MemoryError>)
    | undefined

  /** Records that refer to any of these ids or names. Bound: those records. */
  readonly referring: (
    sight: Sight,
    asked: Asked,
    keys: ReadonlyArray<string>
  ) => Effect.Effect<ReadonlyArray<MemoryRecord>, MemoryError>
  /** Records that answer to any of these names. Bound: those records. */
  readonly named: (
    sight: Sight,
    asked: Asked,
    names: ReadonlyArray<string>
  ) => Effect.Effect<ReadonlyArray<MemoryRecord>, MemoryError>

  /**
   * Rows that expire and tombstones that are not kept for ever, of any tenant, in the order of `at`, tenant and id, after one
   * of them: those due now come first, and the next one says when compaction is worth another look. Bound: `limit`.
   */
  readonly due: (after: Due | undefined, limit: number) => Effect.Effect<ReadonlyArray<Due>, MemoryError>
  /** Scopes that hold more rows of a kind than its cap, expired and closed ones counted, tombstones not. Bound: those groups. */
  readonly overCap: (
    tenant: string,
    caps: ReadonlyMap<string, number>
  ) => Effect.Effect<ReadonlyArray<readonly [scope: string, kind: string]>, MemoryError>
  readonly tenants: Stream.Stream<string, MemoryError>
  /** Tenants that have a row of exactly this scope, tombstones aside; how the outbox finds its work. Bound: those tenants. */
  readonly tenantsWith: (scope: MemoryScope) => Stream.Stream<string, MemoryError>

  /**
   * Changes from subscription on, each as `heard` makes it; those of other processes too, where `shared`. A change that
   * `heard` answers with `undefined` takes no room in any buffer, so that nobody falls behind for what others write.
   */
  readonly changes: <A>(
    tenant: string,
    heard: (event: Event, now: number) => A | undefined
  ) => Stream.Stream<A, MemoryError>
  /** Default: a table in this process. */
  readonly uses?: EngineUses | undefined
  readonly vectors?: EngineVectors | undefined
  /** Key of `MemoryStore.sign`, kept where the rows are. Needed where they are durable or shared; default: drawn by the store. */
  readonly secret?: string | undefined
  /** Runs before each call, so that an engine that stopped polling can catch up. Default: nothing. */
  readonly ready?: Effect.Effect<void> | undefined
}

export interface EngineUses {
  readonly touch: (tenant: string, ids: ReadonlyArray<MemoryId>, now: number) => Effect.Effect<void, MemoryError>
  readonly read: (
    tenant: string,
    ids: ReadonlyArray<MemoryId>
  ) => Effect.Effect<ReadonlyArray<Uses>, MemoryError>
  /**
   * Replaces the uses of each row; an id without a row, tombstones included, is passed over. Default: a copy cannot bring uses
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
   * Dimensions of the tenant's vectors of this model. Where they were `expected` when they were last read, an engine may answer so
   * without reading them again; its `near` then fails with `invalid_draft` where the vector does not fit.
   */
  readonly dimensions: (
    tenant: string,
    model: string,
    expected?: number
  ) => Effect.Effect<number | undefined, MemoryError>
  /** Texts without a vector, each once, internal rows excluded. Bound: `limit`. */
  readonly pending: (
    tenant: string,
    model: string,
    limit: number
  ) => Effect.Effect<ReadonlyArray<Unembedded>, MemoryError>
  /** A hash that has a vector keeps it. `conflict` where others came first with other dimensions. */
  readonly attach: (
    tenant: string,
    model: string,
    vectors: ReadonlyArray<readonly [hash: string, vector: Float32Array]>
  ) => Effect.Effect<void, MemoryError>
  /**
   * Erases vectors of texts that no row has, where they may be most of a tenant's: texts that were edited away. Compaction
   * asks for it. Default: nothing is left behind.
   */
  readonly prune?: Effect.Effect<void, MemoryError> | undefined
}
