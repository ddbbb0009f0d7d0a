/**
 * Where records live.
 *
 * A backend writes `Primitives`; `make` adds the viewer checks, validation, ids, dedupe, revisions, search and
 * spans. `MemoryStoreContract.suite`, not this comment, is the contract.
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
export interface IfRevision {
  /** Else `conflict`. In `put`, of the one draft. */
  readonly ifRevision?: number | undefined
}

export interface Put {
  readonly record: MemoryRecord
  readonly outcome: "created" | "updated" | "duplicate"
}

export interface Service extends Usage {
  readonly name: string
  readonly capabilities: Capabilities
  /** The redaction that the store was built with: it redacts what is written, except by `reader`, and so does whatever is built on it. */
  readonly redaction: Option.Option<Redaction.Service>
  /** All or nothing, in the order given. What `put`, `update` and `forget` are made of. */
  readonly apply: (
    viewer: Viewer.Any,
    mutations: ReadonlyArray<MemoryMutation>,
    provenance?: Provenance
  ) => Effect.Effect<ReadonlyArray<Applied>, MemoryError>
  readonly put: (
    viewer: Viewer.Any,
    drafts: ReadonlyArray<Draft>,
    options?: PutOptions
  ) => Effect.Effect<ReadonlyArray<Put>, MemoryError>
  readonly get: (
    viewer: Viewer.Any,
    ids: ReadonlyArray<MemoryId>
  ) => Effect.Effect<ReadonlyArray<Option.Option<MemoryRecord>>, MemoryError>
  readonly search: (viewer: Viewer.Any, query: MemoryQuery) => Effect.Effect<SearchResult, MemoryError>
  /**
   * Returns a page of the records that the filter means, newest first. With `forgotten: true` it is a page of the trash:
   * what the viewer forgot, or another of its scope, and can `Restore`.
   */
  readonly list: (viewer: Viewer.Any, filter: MemoryFilter) => Effect.Effect<Page<MemoryRecord>, MemoryError>
  /** Every page of `list`; `limit` is the page's size. */
  readonly stream: (viewer: Viewer.Any, filter: MemoryFilter) => Stream.Stream<MemoryRecord, MemoryError>
  readonly update: (
    viewer: Viewer.Any,
    id: MemoryId,
    patch: Patch,
    options?: IfRevision
  ) => Effect.Effect<MemoryRecord, MemoryError>
  /**
   * `true` for each that was there. Leaves a tombstone: absent at once, and restorable until compaction erases it. `purge`
   * leaves no revision, vector or index entry, of an earlier tombstone either.
   */
  readonly forget: (
    viewer: Viewer.Any,
    ids: ReadonlyArray<MemoryId>,
    options?: { readonly purge?: boolean | undefined }
  ) => Effect.Effect<ReadonlyArray<boolean>, MemoryError>
  /**
   * Returns the revisions since the record was last put anew, newest first; the last 20 by default. Of what was forgotten
   * and restored, the tombstone is one of them.
   */
  readonly history: (
    viewer: Viewer.Any,
    id: MemoryId,
    limit?: number
  ) => Effect.Effect<ReadonlyArray<MemoryRecord>, MemoryError>
  /** From now on, never ending. */
  readonly changes: (viewer: Viewer.Any) => Stream.Stream<StoreChange, MemoryError>
  /** `None`: it is among the hits. */
  readonly whyNot: (
    viewer: Viewer.Any,
    id: MemoryId,
    query: MemoryQuery
  ) => Effect.Effect<Option.Option<Absence>, MemoryError>
  /** Who speaks of whom, by links and `[[names]]` in the text; both ends visible, live and true now. */
  readonly links: (viewer: Viewer.Any, id: MemoryId) => Effect.Effect<Neighbours, MemoryError>
  /** Those that hold anything; for the library's own workers. */
  readonly tenants: Effect.Effect<ReadonlyArray<string>, MemoryError>
  /**
   * Erases expired records, and tombstones older than the store's `trash`; returns how many it erased. Runs when the layer
   * is built, and then as `maintain` says.
   */
  readonly compact: Effect.Effect<number, MemoryError>
  /** Signals that periodic work waits for: `maintain`, `Retention.layer`. */
  readonly activity: makeStore.Activity
  readonly vectors: Option.Option<Vectors>
  /** For what stands on this store; `None` of what has no rows of its own, as a federation. */
  readonly reader: Option.Option<Reader>
  /**
   * Signs a text with the secret of this store: HMAC-SHA-256, 64 hex digits. Equal purpose and text give an equal signature
   * as long as the secret lives: a vault's as long as its folder, that of a store in memory as long as the process. A
   * signature for one `purpose` is not valid for another. For the library's own use: never sign a text that a model or a
   * user can choose if it can also read the signature.
   */
  readonly sign: (purpose: string, text: string) => Effect.Effect<string, MemoryError>
  readonly ingest: Option.Option<Ingest>
  readonly tools: (viewer: Viewer.Viewer) => ReadonlyArray<MemoryTool>
}

export class MemoryStore extends Context.Tag("@memory/MemoryStore")<MemoryStore, Service>() {}

/** Parts of a store that its engine does not have. */
export interface Extras extends Pick<Primitives, "usage" | "ingest" | "tools" | "outside"> {
  /** Instead of what the engine says. */
  readonly capabilities?: Partial<Capabilities> | undefined
}

export type { Provenance }
export type { Capabilities, Ingest, Primitives, RowWrite as Write, Stored, Uses } from "./Engine.ts"
export type { Linked, Neighbours } from "./Links.ts"
export type { Sidecar, Unembedded, Vectors } from "./Vectors.ts"
export { vectorsInMemory }
/** Makes a feed of changes: publish events to it, and pass its `of` as `outside`. */
export { make as changeFeed } from "./Changes.ts"
/** Number of its own changes by which a stream of changes may fall behind before it fails. Read as the stream is run; 65,536. */
export { ChangesCapacity } from "./Changes.ts"

/** How many revisions of a record are kept, the current one among them. */
export { type Lifetime, revisionsKept } from "./Version.ts"

/**
 * Makes a store of an engine, or of primitives. `name` is what spans and metrics are called. Erases what is due before it
 * returns; see `maintain` for the hours after. `unsupported` where the engine's index was made by another analyzer.
 */
export const make = (name: string, source: Primitives | Engine): Effect.Effect<Service, MemoryError> =>
  "transact" in source ? makeStore.make(name, source) : makeStore.fromRows(name, source)

export { reindex } from "./MemoryStore/internal/makeStore.ts"

/**
 * Compacts the store until the scope closes, at most once an hour: whenever it was used since the last compaction, or a
 * record has expired, or a tombstone has outlived the trash. So a long sleep of the machine is followed by one compaction, and an unused store has none. A failure
 * is logged, and the next hour tries again.
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

/** Makes a store in memory, gone with the layer. Each call makes another store. `trash`: see `Primitives`; default 30 days. */
export const layerInMemoryWith = ({ trash }: Pick<Primitives, "trash">): Layer.Layer<MemoryStore> =>
  Layer.scoped(
    MemoryStore,
    makeStore.inMemory({ trash }).pipe(Effect.tap(maintain), Effect.orDie) // nothing fails but a `trash` that is no time, a mistake in the program
  )

/** Gone with the layer. Two provisions of this one value are one store. */
export const layerInMemory: Layer.Layer<MemoryStore> = layerInMemoryWith({})
