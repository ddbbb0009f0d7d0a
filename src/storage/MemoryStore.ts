/**
 * The service that stores memories as records. Memory tools, agents and pipelines use this service.
 *
 * A backend implements `Primitives`. The function `make` adds viewer checks, validation, ids, deduplication, revisions, search and spans.
 * Every store passes the contract tests, `MemoryStoreContract.suite`.
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
  /**
   * Expected current revision; 0: no record. The write fails with `conflict` if the revision differs. If set, `put` needs exactly one
   * draft, with an id.
   */
  readonly ifRevision?: number | undefined
}

/** The outcome of one draft. `duplicate` means that nothing was written, because `record` already has the same content. */
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
   * The redaction, which removes secrets from writes. `None` if the store has no redaction. Services that are built on this store also
   * apply the redaction. Writes through `reader`, the library's own rows, and updates by the viewer `System` are not redacted.
   */
  readonly redaction: Option.Option<Redaction.Service>
  /** Applies mutations in the order given, all or none. `put`, `update` and `forget` are special cases, but do not call `apply`. */
  readonly apply: (
    viewer: Viewer.Any,
    mutations: ReadonlyArray<MemoryMutation>,
    provenance?: Provenance
  ) => Effect.Effect<ReadonlyArray<Applied>, MemoryError>
  /**
   * Writes drafts, all or none, and returns the records in the same order. A draft with an id creates or replaces the record with this id.
   * A draft without an id creates a record. If its kind deduplicates, a live record with the same content is returned instead.
   */
  readonly put: (
    viewer: Viewer.Any,
    drafts: ReadonlyArray<Draft>,
    options?: PutOptions
  ) => Effect.Effect<ReadonlyArray<Put>, MemoryError>
  /** Returns the records in the order of the ids. The result for an id is `None` if the viewer sees no record with this id. */
  readonly get: (
    viewer: Viewer.Any,
    ids: ReadonlyArray<MemoryId>
  ) => Effect.Effect<ReadonlyArray<Option.Option<MemoryRecord>>, MemoryError>
  /**
   * Returns the best hits of a query. If the store cannot do the vector part of a hybrid query, or if a store of a federation fails,
   * `failures` has the error, and the hits come from the rest of the search. If the search by words fails, the store's whole search fails.
   */
  readonly search: (viewer: Viewer.Any, query: MemoryQuery) => Effect.Effect<SearchResult, MemoryError>
  /**
   * Returns a page of the records that pass the filter, newest first. With `forgotten: true`, returns forgotten records in the viewer's
   * scopes instead, whoever forgot them. The mutation `Restore` restores such a record.
   */
  readonly list: (viewer: Viewer.Any, filter: MemoryFilter) => Effect.Effect<Page<MemoryRecord>, MemoryError>
  /** Streams the records of all pages of `list`; `limit` is the page size. */
  readonly stream: (viewer: Viewer.Any, filter: MemoryFilter) => Stream.Stream<MemoryRecord, MemoryError>
  /** Updates a record, and returns the new revision. Fails with `not_found` if the viewer sees no such record. */
  readonly update: (
    viewer: Viewer.Any,
    id: MemoryId,
    patch: Patch,
    options?: IfRevision
  ) => Effect.Effect<MemoryRecord, MemoryError>
  /**
   * Forgets records. Returns for each id whether the viewer saw the record. A record that was already forgotten counts as not seen, even if
   * it is purged. A forgotten record can be restored until compaction erases its row. With `purge`, records are erased at once, also those
   * that were forgotten before. Their revisions, index entries, and vectors that no other record needs are erased, too.
   */
  readonly forget: (
    viewer: Viewer.Any,
    ids: ReadonlyArray<MemoryId>,
    options?: { readonly purge?: boolean | undefined }
  ) => Effect.Effect<ReadonlyArray<boolean>, MemoryError>
  /**
   * Returns the revisions of a record, newest first. Default limit 20. If a forgotten record was restored, its tombstone is one of the
   * revisions. If a forgotten record's id was used for a new record, only the viewer `System` gets the old revisions.
   */
  readonly history: (
    viewer: Viewer.Any,
    id: MemoryId,
    limit?: number
  ) => Effect.Effect<ReadonlyArray<MemoryRecord>, MemoryError>
  /**
   * Streams the changes that the viewer may see, starting when the stream runs. Does not end by itself. Fails with `unavailable` if more
   * than `ChangeFeedCapacity` changes are unread.
   */
  readonly changes: (viewer: Viewer.Any) => Stream.Stream<StoreChange, MemoryError>
  /** Explains why a record is not among the hits of a query; `None` if it is among them. */
  readonly whyNot: (
    viewer: Viewer.Any,
    id: MemoryId,
    query: MemoryQuery
  ) => Effect.Effect<Option.Option<Absence>, MemoryError>
  /**
   * Returns the records to which a record links, and the records that link to it. A link is one of `links`, or a `[[name]]` or
   * `[text](name.md)` in the text. Leaves out records that are forgotten, expired, not valid now, or hidden from the viewer. Returns no
   * records if `id` is one of those.
   */
  readonly links: (viewer: Viewer.Any, id: MemoryId) => Effect.Effect<Neighbours, MemoryError>
  /** The tenants that have at least one row. Rows that the library keeps for itself count, too. */
  readonly tenants: Effect.Effect<ReadonlyArray<string>, MemoryError>
  /**
   * Erases expired records, and tombstones (rows of forgotten records) older than the store's option `trash`. Returns the number of erased
   * rows. `make` runs this effect once. `maintain` runs it periodically.
   */
  readonly compact: Effect.Effect<number, MemoryError>
  /**
   * The number of calls of the store so far, and the next time at which compaction may erase a row. Background work such as `maintain`
   * waits for a further call or for this time.
   */
  readonly activity: makeStore.Activity
  /** The vectors of the store; `None` if the store has no vector backend. */
  readonly vectors: Option.Option<Vectors>
  /** Direct access to the rows, for services on top of this store. `None` if the store has no own rows, like a federation. */
  readonly reader: Option.Option<Reader>
  /**
   * Signs a text with the secret of this store: HMAC-SHA-256, 64 hex digits. The signature depends only on the secret, `purpose` and
   * `text`. A durable store keeps its secret. A store in memory gets a new secret each time it is made. For the library's own use: if a
   * model or a user can read the signature, that model or user must not choose the text.
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
/** Types for the implementation of a backend. */
export type { Capabilities, Ingest, Primitives, RowWrite as Write, Stored, Uses } from "./Engine.ts"
/** `Neighbours`: the records that link to a record, and those to which it links. `Linked`: one of them, with the link's type and weight. */
export type { Linked, Neighbours } from "./Links.ts"
/** The vectors of a store, the backend that keeps the vectors, and a text that has no vector yet (`Unembedded`). */
export type { Unembedded, VectorBackend, Vectors } from "./Vectors.ts"
/** A vector backend that keeps vectors in memory, until the process ends. */
export { vectorsInMemory }
/**
 * Makes a change feed. A backend needs a feed if other processes also change its rows. The backend publishes those changes to the feed. The
 * feed's `of` is the value for the option `outside` of `Primitives`.
 */
export { make as changeFeed } from "./ChangeFeed.ts"
/** Largest number of unread changes that a stream may have. A stream with more fails. Default 65,536; changes apply to later streams. */
export { ChangeFeedCapacity } from "./ChangeFeed.ts"

/**
 * `revisionsKept` is the number of revisions that are kept of a record: 20, the current one included. `Lifetime` has the fields of a row
 * that decide when compaction erases the row.
 */
export { type Lifetime, revisionsKept } from "./Revision.ts"

/**
 * Makes a store from an engine or from primitives. `name` appears in spans, metrics and errors. Runs one compaction; `maintain` runs later
 * compactions. Fails with `unsupported` if the engine's index was made with another analyzer.
 */
export const make = (name: string, source: Primitives | Engine): Effect.Effect<Service, MemoryError> =>
  "transact" in source ? makeStore.make(name, source) : makeStore.fromRows(name, source)

/** Rebuilds the index of an engine with the configured analyzer. Nothing else may use the engine at the same time. */
export { reindex } from "./MemoryStore/internal/makeStore.ts"

/**
 * Compacts the store in the background, at most once an hour, until the Effect scope closes. A compaction runs after calls of the store, or
 * when a row can be erased. A machine that slept for days runs one compaction when it wakes. A failure is logged, and compaction is tried
 * again after an hour.
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
  // the calls are counted before the fork, so that calls made before the fiber starts cause a compaction, too
  return Effect.flatMap(makeStore.calls(activity), (known) => Effect.forkScoped(round(known))).pipe(Effect.asVoid)
}

/**
 * Makes a layer of a store in memory. The store is lost when the layer closes. Each call makes a separate store. `trash` is the time for
 * which forgotten records are kept; default 30 days.
 */
export const layerInMemoryWith = ({ trash }: Pick<Primitives, "trash">): Layer.Layer<MemoryStore> =>
  Layer.scoped(
    MemoryStore,
    makeStore.inMemory({ trash }).pipe(Effect.tap(maintain), Effect.orDie) // the only failure is an invalid `trash`
  )

/**
 * Layer of a store in memory. The store is lost when the layer closes. Two uses within one composed layer share one store; two calls of
 * `Effect.provide` make two stores.
 */
export const layerInMemory: Layer.Layer<MemoryStore> = layerInMemoryWith({})
