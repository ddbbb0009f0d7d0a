/**
 * The store of records: the service that everything else reads and writes through.
 *
 * A backend writes `Primitives`; `make` adds the viewer checks, validation, ids, dedupe, revisions, search and
 * spans. The contract is `MemoryStoreContract.suite`, which every store passes.
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
/** The condition of a write: the revision that the record has to stand at. */
export interface IfRevision {
  /** Revision expected, else the write fails with `conflict`. `put` takes it for a single draft only. */
  readonly ifRevision?: number | undefined
}

/** The outcome of one draft: `duplicate` returns the record that says the same already. */
export interface Put {
  readonly record: MemoryRecord
  readonly outcome: "created" | "updated" | "duplicate"
}

/** The calls of a store. Each acts for a viewer, and answers with what that viewer sees. */
export interface Service extends Usage {
  /** Name of the store in spans, metrics and errors. */
  readonly name: string
  /** Abilities of the store: writes, vectors, history and so on. */
  readonly capabilities: Capabilities
  /** The redaction that the store was built with: it redacts what is written, except by `reader`, and so does whatever is built on it. */
  readonly redaction: Option.Option<Redaction.Service>
  /** Applies all mutations or none, in the order given. `put`, `update` and `forget` are made of it. */
  readonly apply: (
    viewer: Viewer.Any,
    mutations: ReadonlyArray<MemoryMutation>,
    provenance?: Provenance
  ) => Effect.Effect<ReadonlyArray<Applied>, MemoryError>
  /**
   * Writes drafts, all or none, and returns their records in the order given. A draft with an id creates or replaces that record;
   * one without creates a record, unless its kind deduplicates and a live record says the same.
   */
  readonly put: (
    viewer: Viewer.Any,
    drafts: ReadonlyArray<Draft>,
    options?: PutOptions
  ) => Effect.Effect<ReadonlyArray<Put>, MemoryError>
  /** Returns the records of these ids, in their order; `None` where the viewer sees no such record. */
  readonly get: (
    viewer: Viewer.Any,
    ids: ReadonlyArray<MemoryId>
  ) => Effect.Effect<ReadonlyArray<Option.Option<MemoryRecord>>, MemoryError>
  /**
   * Returns the best hits of a query. A retriever (by words, by vector) or a store that fails is listed in `failures`; the hits are those of
   * the others.
   */
  readonly search: (viewer: Viewer.Any, query: MemoryQuery) => Effect.Effect<SearchResult, MemoryError>
  /**
   * Returns a page of the records that pass the filter, newest first. With `forgotten: true` it is a page of the trash:
   * what the viewer forgot, or another of its scope, and can `Restore`.
   */
  readonly list: (viewer: Viewer.Any, filter: MemoryFilter) => Effect.Effect<Page<MemoryRecord>, MemoryError>
  /** Streams every page of `list`; `limit` is the page's size. */
  readonly stream: (viewer: Viewer.Any, filter: MemoryFilter) => Stream.Stream<MemoryRecord, MemoryError>
  /** Changes a record, and returns its next revision. Fails with `not_found` where the viewer sees no such record. */
  readonly update: (
    viewer: Viewer.Any,
    id: MemoryId,
    patch: Patch,
    options?: IfRevision
  ) => Effect.Effect<MemoryRecord, MemoryError>
  /**
   * Forgets records, and returns `true` for each that was there. It leaves a tombstone: absent at once, and restorable until
   * compaction erases it. `purge` leaves no revision, vector or index entry, nor those of an earlier tombstone.
   */
  readonly forget: (
    viewer: Viewer.Any,
    ids: ReadonlyArray<MemoryId>,
    options?: { readonly purge?: boolean | undefined }
  ) => Effect.Effect<ReadonlyArray<boolean>, MemoryError>
  /**
   * Returns the revisions since the record was last put anew, newest first; the last 20 by default. The tombstone of a record
   * that was forgotten and restored is one of them.
   */
  readonly history: (
    viewer: Viewer.Any,
    id: MemoryId,
    limit?: number
  ) => Effect.Effect<ReadonlyArray<MemoryRecord>, MemoryError>
  /** Streams the changes that the viewer may see from now on; it never ends. */
  readonly changes: (viewer: Viewer.Any) => Stream.Stream<StoreChange, MemoryError>
  /** Explains why a record is not among the hits of a query; `None`: it is. */
  readonly whyNot: (
    viewer: Viewer.Any,
    id: MemoryId,
    query: MemoryQuery
  ) => Effect.Effect<Option.Option<Absence>, MemoryError>
  /** Returns the neighbours of a record, by links and `[[names]]` in the text; both ends are visible, live and true now. */
  readonly links: (viewer: Viewer.Any, id: MemoryId) => Effect.Effect<Neighbours, MemoryError>
  /** Tenants that hold anything; for the library's own workers. */
  readonly tenants: Effect.Effect<ReadonlyArray<string>, MemoryError>
  /**
   * Erases expired records, and tombstones older than the store's `trash`; returns how many it erased. Runs when the layer
   * is built, and then as `maintain` says.
   */
  readonly compact: Effect.Effect<number, MemoryError>
  /** Signals that periodic work waits for: `maintain`, `Retention.layer`. */
  readonly activity: makeStore.Activity
  /** Vectors of the store; `None` where it holds none. */
  readonly vectors: Option.Option<Vectors>
  /** The rows, for services on top of this store; `None` where a store has no rows of its own, as a federation. */
  readonly reader: Option.Option<Reader>
  /**
   * Signs a text with the secret of this store: HMAC-SHA-256, 64 hex digits. Equal purpose and text give an equal signature
   * as long as the secret lives: a vault's as long as its folder, that of a store in memory as long as the process. A
   * signature for one `purpose` is not valid for another. For the library's own use: never sign a text that a model or a
   * user can choose if it can also read the signature.
   */
  readonly sign: (purpose: string, text: string) => Effect.Effect<string, MemoryError>
  /** Takes raw messages; `None` where the store takes none. */
  readonly ingest: Option.Option<Ingest>
  /** Returns tools that the store offers to models, for one viewer. */
  readonly tools: (viewer: Viewer.Viewer) => ReadonlyArray<MemoryTool>
}

/** The service tag of the store. */
export class MemoryStore extends Context.Tag("@memory/MemoryStore")<MemoryStore, Service>() {}

/** Parts of a store that its engine does not have. */
export interface Extras extends Pick<Primitives, "usage" | "ingest" | "tools" | "outside"> {
  /** Capabilities that replace what the engine says. */
  readonly capabilities?: Partial<Capabilities> | undefined
}

/** The origin and the trust of a write. */
export type { Provenance }
/** The types that a backend is written with. */
export type { Capabilities, Ingest, Primitives, RowWrite as Write, Stored, Uses } from "./Engine.ts"
/** The ends of links. */
export type { Linked, Neighbours } from "./Links.ts"
/** The vectors of a store, and where a backend keeps them. */
export type { Unembedded, VectorBackend, Vectors } from "./Vectors.ts"
/** A vector backend of vectors that is gone with the process. */
export { vectorsInMemory }
/** Makes a feed of changes: publish events to it, and pass its `of` as `outside`. */
export { make as changeFeed } from "./ChangeFeed.ts"
/** Number of its own changes by which a stream of changes may fall behind before it fails. Read as the stream is run; 65,536. */
export { ChangeFeedCapacity } from "./ChangeFeed.ts"

/** The number of kept revisions of a record, 20 with the current one; and a row as compaction looks at it. */
export { type Lifetime, revisionsKept } from "./Revision.ts"

/**
 * Makes a store of an engine, or of primitives. Spans, metrics and errors call it `name`. Erases what is due before it returns; see
 * `maintain` for the hours after. Fails with `unsupported` where the engine's index was made by another analyzer.
 */
export const make = (name: string, source: Primitives | Engine): Effect.Effect<Service, MemoryError> =>
  "transact" in source ? makeStore.make(name, source) : makeStore.fromRows(name, source)

/** Makes the index of a store again with the analyzer in force: see `internal/makeStore.ts`. */
export { reindex } from "./MemoryStore/internal/makeStore.ts"

/**
 * Compacts the store until the scope closes, at most once an hour: whenever it was used since the last compaction, or a
 * record has expired, or a tombstone has outlived the trash. So a long sleep of the machine is followed by one compaction,
 * and an unused store has none. A failure is logged, and the next hour tries again.
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
  // calls that are made before the fiber runs count, too
  return Effect.flatMap(makeStore.calls(activity), (known) => Effect.forkScoped(round(known))).pipe(Effect.asVoid)
}

/** Makes a store in memory, gone with the layer. Each call makes another store. `trash` is that of `Primitives`; default 30 days. */
export const layerInMemoryWith = ({ trash }: Pick<Primitives, "trash">): Layer.Layer<MemoryStore> =>
  Layer.scoped(
    MemoryStore,
    makeStore.inMemory({ trash }).pipe(Effect.tap(maintain), Effect.orDie) // nothing fails but a `trash` that is no time, a mistake in the program
  )

/** A store in memory, gone with the layer. Two provisions of this one value are one store. */
export const layerInMemory: Layer.Layer<MemoryStore> = layerInMemoryWith({})
