/**
 * The store of records: the service from which memory tools, agents and pipelines read, and to which they write.
 *
 * A backend implements `Primitives`; `make` adds the viewer checks, validation, ids, deduplication, revisions, search and spans. The
 * contract tests are `MemoryStoreContract.suite`, which every store passes.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import type * as Stream from "effect/Stream"
import type { MemoryError } from "../domain/MemoryError.ts"
import type { Absence, MemoryFilter, MemoryQuery, Page, SearchResult } from "../domain/MemoryFilter.ts"
import type { MemoryId } from "../domain/MemoryId.ts"
import type { Applied, MemoryMutation, Provenance, StoreChange } from "../domain/MemoryMutation.ts"
import type { Draft, MemoryRecord, Patch } from "../domain/MemoryRecord.ts"
import type * as Viewer from "../domain/Viewer.ts"
import type { MemoryTool } from "../host/MemoryTool.ts"
import type * as Redaction from "../host/Redaction.ts"
import type { Capabilities, Engine, Ingest, Primitives, Reader, Usage } from "./Engine.ts"
import type { Neighbours } from "./Links.ts"
import * as makeStore from "./MemoryStore/internal/makeStore.ts"
import { inMemory as vectorsInMemory, type Vectors } from "./Vectors.ts"

/** Options of `put`. */
export interface PutOptions extends Provenance, IfRevision {}
/** The condition of a write: the revision that the stored record must have. */
export interface IfRevision {
  /** Expected current revision; if it differs, the write fails with `conflict`. `put` accepts it only for a single draft. */
  readonly ifRevision?: number | undefined
}

/** The outcome of one draft. With `duplicate`, nothing was written, and `record` is an existing record with the same content. */
export interface Put {
  readonly record: MemoryRecord
  readonly outcome: "created" | "updated" | "duplicate"
}

/** The operations of a store. An operation that takes a viewer returns only what that viewer may see. */
export interface Service extends Usage {
  /** Name of the store in spans, metrics and errors. */
  readonly name: string
  /** Features that the store supports: writes, vectors, history and so on. */
  readonly capabilities: Capabilities
  /**
   * The redaction that the store was built with. It is applied to every write, except to writes through `reader`. Services built on this
   * store use it too.
   */
  readonly redaction: Option.Option<Redaction.Service>
  /** Applies all mutations or none, in the order given. `put`, `update` and `forget` are implemented with it. */
  readonly apply: (
    viewer: Viewer.Any,
    mutations: ReadonlyArray<MemoryMutation>,
    provenance?: Provenance
  ) => Effect.Effect<ReadonlyArray<Applied>, MemoryError>
  /**
   * Writes drafts, all or none, and returns their records in the order given. A draft with an id creates or replaces that record. A draft
   * without an id creates a record, unless its kind deduplicates and a live record already has the same content.
   */
  readonly put: (
    viewer: Viewer.Any,
    drafts: ReadonlyArray<Draft>,
    options?: PutOptions
  ) => Effect.Effect<ReadonlyArray<Put>, MemoryError>
  /** Returns the records in the order of the ids; `None` for an id whose record does not exist or is hidden from the viewer. */
  readonly get: (
    viewer: Viewer.Any,
    ids: ReadonlyArray<MemoryId>
  ) => Effect.Effect<ReadonlyArray<Option.Option<MemoryRecord>>, MemoryError>
  /**
   * Returns the best hits of a query. If the search by words, the search by vector, or a member store of a federation fails, `failures`
   * lists its error, and the hits come from the searches and stores that did not fail.
   */
  readonly search: (viewer: Viewer.Any, query: MemoryQuery) => Effect.Effect<SearchResult, MemoryError>
  /**
   * Returns a page of the records that pass the filter, newest first. With `forgotten: true` it returns a page of the trash instead:
   * forgotten records in the viewer's scopes, whoever forgot them. The mutation `Restore` brings them back.
   */
  readonly list: (viewer: Viewer.Any, filter: MemoryFilter) => Effect.Effect<Page<MemoryRecord>, MemoryError>
  /** Streams the records of all pages of `list`; `limit` is the page size. */
  readonly stream: (viewer: Viewer.Any, filter: MemoryFilter) => Stream.Stream<MemoryRecord, MemoryError>
  /** Updates a record, and returns its next revision. Fails with `not_found` if the record does not exist or the viewer may not see it. */
  readonly update: (
    viewer: Viewer.Any,
    id: MemoryId,
    patch: Patch,
    options?: IfRevision
  ) => Effect.Effect<MemoryRecord, MemoryError>
  /**
   * Forgets records, and returns for each whether it existed. Replaces each record by a tombstone, a row that reads do not return. The
   * record can be restored until compaction erases the tombstone. With `purge`, erases the record at once with all revisions, vectors and
   * index entries, even if it was forgotten before.
   */
  readonly forget: (
    viewer: Viewer.Any,
    ids: ReadonlyArray<MemoryId>,
    options?: { readonly purge?: boolean | undefined }
  ) => Effect.Effect<ReadonlyArray<boolean>, MemoryError>
  /**
   * Returns the revisions of a record since it was last created, newest first; by default the last 20. If the record was forgotten and
   * restored, its tombstone is one of these revisions.
   */
  readonly history: (
    viewer: Viewer.Any,
    id: MemoryId,
    limit?: number
  ) => Effect.Effect<ReadonlyArray<MemoryRecord>, MemoryError>
  /** Streams the changes that the viewer may see, starting when the stream runs. The stream never ends by itself. */
  readonly changes: (viewer: Viewer.Any) => Stream.Stream<StoreChange, MemoryError>
  /** Explains why a record is not among the hits of a query; `None` if it is among them. */
  readonly whyNot: (
    viewer: Viewer.Any,
    id: MemoryId,
    query: MemoryQuery
  ) => Effect.Effect<Option.Option<Absence>, MemoryError>
  /**
   * Returns the records linked with a record, by `links` or by `[[names]]` in the text. Ignores linked records that the viewer cannot see,
   * that are expired or forgotten, or that are not valid now. Returns no neighbours if one of these holds for the record itself.
   */
  readonly links: (viewer: Viewer.Any, id: MemoryId) => Effect.Effect<Neighbours, MemoryError>
  /** The tenants that have any row, even if the library keeps that row for itself. Background workers iterate over these tenants. */
  readonly tenants: Effect.Effect<ReadonlyArray<string>, MemoryError>
  /**
   * Erases expired records, and tombstones older than the store's `trash`; returns how many it erased. `make` runs this effect once, and
   * `maintain` runs it periodically.
   */
  readonly compact: Effect.Effect<number, MemoryError>
  /**
   * The number of calls of the store so far, and the earliest time at which compaction may erase a row. `maintain` and `Retention.layer`
   * wait for the next call or for that time before they do their work.
   */
  readonly activity: makeStore.Activity
  /** The vectors of the store; `None` if the store has no vector backend. */
  readonly vectors: Option.Option<Vectors>
  /** Direct access to the rows, for services built on this store; `None` if the store has no rows of its own, like a federation. */
  readonly reader: Option.Option<Reader>
  /**
   * Signs a text with the secret of this store: HMAC-SHA-256, 64 hex digits. The same purpose and text always result in the same signature
   * until the secret is lost: a vault keeps its secret as long as its folder exists, a store in memory as long as the process runs. A
   * signature for one `purpose` is not valid for another. For the library's own use: never sign a text that a model or a user can choose if
   * the same model or user can read the signature.
   */
  readonly sign: (purpose: string, text: string) => Effect.Effect<string, MemoryError>
  /** Accepts raw messages; `None` if the store does not accept any. */
  readonly ingest: Option.Option<Ingest>
  /** Returns the tools that the store offers to models, for one viewer. */
  readonly tools: (viewer: Viewer.Viewer) => ReadonlyArray<MemoryTool>
}

/** The service tag of the store. */
export class MemoryStore extends Context.Tag("@memory/MemoryStore")<MemoryStore, Service>() {}

/** Optional parts of a store that an engine does not provide. */
export interface Extras extends Pick<Primitives, "usage" | "ingest" | "tools" | "outside"> {
  /** Capabilities that override those of the engine. */
  readonly capabilities?: Partial<Capabilities> | undefined
}

/** The origin of a write and the trust in its author. */
export type { Provenance }
/** The types with which a backend is written. */
export type { Capabilities, Ingest, Primitives, RowWrite as Write, Stored, Uses } from "./Engine.ts"
/** The records at the other ends of a record's links. */
export type { Linked, Neighbours } from "./Links.ts"
/** The vectors of a store, and the backend that keeps them. */
export type { Unembedded, VectorBackend, Vectors } from "./Vectors.ts"
/** A vector backend that keeps vectors in memory, until the process ends. */
export { vectorsInMemory }
/**
 * Makes a change feed, which a backend needs if other processes change its rows: publish their changes to the feed, and set the option
 * `outside` of `Primitives` to the feed's `of`.
 */
export { make as changeFeed } from "./ChangeFeed.ts"
/**
 * Number of unread changes that a stream of changes buffers. If there are more, the reader is too slow, and the stream fails. The number is
 * read when the stream starts; default 65,536.
 */
export { ChangeFeedCapacity } from "./ChangeFeed.ts"

/**
 * `revisionsKept`: number of revisions kept of each record (20, the current one included). `Lifetime`: the fields of a row that compaction
 * reads.
 */
export { type Lifetime, revisionsKept } from "./Revision.ts"

/**
 * Makes a store from an engine or from primitives. `name` is used in spans, metrics and errors. Runs one compaction before it returns; for
 * later compactions run `maintain`. Fails with `unsupported` if another analyzer built the engine's index.
 */
export const make = (name: string, source: Primitives | Engine): Effect.Effect<Service, MemoryError> =>
  "transact" in source ? makeStore.make(name, source) : makeStore.fromRows(name, source)

/** Rebuilds the index of a store with the configured analyzer: see `internal/makeStore.ts`. */
export { reindex } from "./MemoryStore/internal/makeStore.ts"

/**
 * Compacts the store in the background until the Effect scope closes, at most once an hour. Compacts it only if the store was used since
 * the last compaction, a record has expired, or a tombstone is older than the store's `trash`. So a machine that slept for days runs a
 * single compaction when it wakes, and an unused store runs none. Logs a failure, and retries after an hour.
 */
export const maintain = (
  store: Pick<Service, "name" | "compact" | "activity">
): Effect.Effect<void, never, Scope.Scope> => {
  const { activity, compact, name } = store
  const round = (known: number): Effect.Effect<never> =>
    Effect.gen(function*() {
      yield* Effect.raceFirst(
        Effect.zipRight(activity.since(known), Effect.sleep("1 hour")),
        Effect.zipRight(Effect.sleep("1 hour"), Effect.flatMap(activity.nextExpiry, makeStore.sleepUntil))
      )
      const now = yield* makeStore.calls(activity)
      const failure = yield* Effect.flip(compact).pipe(Effect.option)
      if (failure._tag === "Some") yield* Effect.logWarning(`${name}: compaction failed`, failure.value)
      return yield* Effect.suspend(() => round(failure._tag === "Some" ? -1 : now))
    })
  // counts the calls now, so that calls made before the fiber starts cause a compaction too
  return Effect.flatMap(makeStore.calls(activity), (known) => Effect.forkScoped(round(known))).pipe(Effect.asVoid)
}

/**
 * Makes a store in memory, which is lost when the layer closes. Each call makes a separate store. `trash` is as in `Primitives`; default 30
 * days.
 */
export const layerInMemoryWith = ({ trash }: Pick<Primitives, "trash">): Layer.Layer<MemoryStore> =>
  Layer.scoped(
    MemoryStore,
    makeStore.inMemory({ trash }).pipe(Effect.tap(maintain), Effect.orDie) // only an invalid `trash` can fail, which is a programming error
  )

/** A store in memory, which is lost when the layer closes. Providing this value twice provides one store, since layers are memoised. */
export const layerInMemory: Layer.Layer<MemoryStore> = layerInMemoryWith({})
