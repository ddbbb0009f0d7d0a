/**
 * Where records live.
 *
 * A backend writes `Primitives`; `make` adds the viewer checks, validation, ids, dedupe, revisions, search and
 * spans. `MemoryStoreContract.suite`, not this comment, is the contract.
 */
import * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import type * as Stream from "effect/Stream"
import type { MemoryError } from "../domain/MemoryError.ts"
import type { Absence, MemoryFilter, MemoryQuery, Page, SearchResult } from "../domain/MemoryFilter.ts"
import type { MemoryId } from "../domain/MemoryId.ts"
import type { Applied, MemoryMutation, StoreChange } from "../domain/MemoryMutation.ts"
import type { Draft, MemoryRecord, Origin, Patch, Trust } from "../domain/MemoryRecord.ts"
import type { Message } from "../domain/Message.ts"
import type * as Viewer from "../domain/Viewer.ts"
import type { MemoryTool } from "../host/MemoryTool.ts"
import type { Catalog } from "./Catalog.ts"
import type { Engine, Reader } from "./Engine.ts"
import * as makeStore from "./internal/makeStore.ts"
import * as Store from "./internal/makeStore.ts"
import type { Neighbours } from "./Links.ts"
import { inMemory as vectorsInMemory, type Sidecar, type Vectors } from "./Vectors.ts"
import type { Lifetime } from "./Version.ts"

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

/** Said by the writing path, once per batch; never by a draft, a tool or a file. */
export interface Provenance {
  /** Default `user`. */
  readonly origin?: Origin | undefined
  /** Default 1. */
  readonly trust?: Trust | undefined
}
export interface PutOptions extends Provenance, IfRevision {}
export interface IfRevision {
  /** Else `conflict`. In `put`, of the one draft. */
  readonly ifRevision?: number | undefined
}

export interface Put {
  readonly record: MemoryRecord
  readonly outcome: "created" | "updated" | "duplicate"
}

export interface Uses {
  readonly count: number
  /** Epoch ms; absent = never. */
  readonly accessedAt?: number | undefined
}

/** Raw messages, `sequence` of the first; the same sequence again changes nothing. */
export type Ingest = (
  viewer: Viewer.Any,
  session: string,
  messages: ReadonlyArray<Message>,
  sequence: number
) => Effect.Effect<void, MemoryError>

export interface Service {
  readonly name: string
  readonly capabilities: Capabilities
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
  /** Used now: no revision, and lost at worst. */
  readonly touch: (viewer: Viewer.Any, ids: ReadonlyArray<MemoryId>) => Effect.Effect<void, MemoryError>
  readonly uses: (viewer: Viewer.Any, ids: ReadonlyArray<MemoryId>) => Effect.Effect<ReadonlyArray<Uses>, MemoryError>
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

/** One row of a batch, decided by `make`: write `next` if the record stands at `revision` (0 = is not there). */
export interface Write {
  readonly revision: number
  readonly id: MemoryId
  /** `undefined`: erase it, with its revisions. */
  readonly next: Stored | undefined
  /** Of a minted id: no other live row has the dedupe key of `next`. Default false. */
  readonly unique?: boolean | undefined
}
export interface Stored {
  readonly record: MemoryRecord
  /** A tombstone: the record is what was forgotten, its `updatedAt` when. */
  readonly forgotten: boolean
  /** Of kinds that deduplicate: what it says. Live rows share it where one has an id of its author's own. */
  readonly dedupeKey?: string | undefined
}

/** What a backend cannot be spared. Ids are unique per tenant. */
export interface Primitives {
  /** Default: writable, and nothing else. */
  readonly capabilities?: Partial<Capabilities> | undefined
  readonly read: (
    tenant: string,
    ids: ReadonlyArray<MemoryId>
  ) => Effect.Effect<ReadonlyArray<Option.Option<Stored>>, MemoryError>
  readonly tenants: Effect.Effect<ReadonlyArray<string>, MemoryError>
  /** Every row, any order: what `list`, `search` and the index are derived from. */
  readonly scan: (tenant: string) => Stream.Stream<Stored, MemoryError>
  /** Every tombstone, any order. Default: those of `scan`. */
  readonly tombstones?: ((tenant: string) => Stream.Stream<Stored, MemoryError>) | undefined
  /**
   * The rows of a tenant that expire, and its tombstones, any order; of a tombstone only what `revisions` has as its newest.
   * Compaction asks for them, the first time when the store is made. Default: those of `scan`.
   */
  readonly lifetimes?: ((tenant: string) => Effect.Effect<ReadonlyArray<Lifetime>, MemoryError>) | undefined
  /**
   * How long a forgotten record can be restored, at least: compaction erases tombstones that are older. Zero: the next
   * compaction erases them. Infinite: none does. What has expired is erased without it. Default 30 days.
   */
  readonly trash?: Duration.DurationInput | undefined
  /**
   * All or nothing. `make` calls it from one fiber of a tenant at a time, with revisions just read; a `shared` store without
   * `exclusive`, which is not alone, answers `conflict` where a revision has moved on or what is `unique` is not, and `make` reads again.
   */
  readonly commit: (tenant: string, writes: ReadonlyArray<Write>) => Effect.Effect<void, MemoryError>
  /** Runs a read and its commit with every other process shut out; inside, `read` and `catalog` are current. */
  readonly exclusive?: (<A>(self: Effect.Effect<A, MemoryError>) => Effect.Effect<A, MemoryError>) | undefined
  /** What the backend keeps in memory anyway, current in itself. Default: made of `scan`, kept current by our commits. */
  readonly catalog?: ((tenant: string) => Effect.Effect<Catalog, MemoryError>) | undefined
  /** Newest first, tombstones included. Default: the current one only, and no `history` among the capabilities. */
  readonly revisions?:
    | ((tenant: string, id: MemoryId, limit: number) => Effect.Effect<ReadonlyArray<Stored>, MemoryError>)
    | undefined
  /** Runs before each call, so that a backend that stopped polling can catch up. Default: nothing. */
  readonly ready?: Effect.Effect<void> | undefined
  /**
   * Streams edits from outside this store that the viewer may see, and to `System` also places that could not be read. The
   * store adds its own writes. `changeFeed` makes such streams; it buffers for each viewer only the changes that it sees.
   */
  readonly outside?: ((viewer: Viewer.Any) => Stream.Stream<StoreChange, MemoryError>) | undefined
  /** Default: no vectors. `vectorsInMemory()` keeps them in this process. */
  readonly sidecar?: Sidecar | undefined
  /**
   * Key of `sign`: at least 256 random bits, kept where the rows are. `make` refuses a durable or shared store without one.
   * Default: drawn from `SecureRandom` when the store is made, so it ends with the process.
   */
  readonly secret?: string | undefined
  /** Default: in this process. */
  readonly usage?: Pick<Service, "touch" | "uses"> | undefined
  readonly ingest?: Ingest | undefined
  readonly tools?: ((viewer: Viewer.Viewer) => ReadonlyArray<MemoryTool>) | undefined
}

/** Parts of a store that its engine does not have. */
export interface Extras extends Pick<Primitives, "usage" | "ingest" | "tools" | "outside"> {
  /** Instead of what the engine says. */
  readonly capabilities?: Partial<Capabilities> | undefined
}

export type { Linked, Neighbours } from "./Links.ts"
export type { Sidecar, Unembedded, Vectors } from "./Vectors.ts"
export { vectorsInMemory }
/** Makes a feed of changes: publish events to it, and pass its `of` as `outside`. */
export { make as changeFeed } from "./Changes.ts"

/** How many revisions of a record are kept, the current one among them. */
export { type Lifetime, revisionsKept } from "./Version.ts"

/**
 * Makes a store of an engine, or of primitives. `name` is what spans and metrics are called. Erases what is due before it
 * returns; see `maintain` for the hours after. `unsupported` where the engine's index was made by another analyzer.
 */
export const make = (name: string, source: Primitives | Engine): Effect.Effect<Service, MemoryError> =>
  "transact" in source ? Store.make(name, source) : Store.fromRows(name, source)

export { reindex } from "./internal/makeStore.ts"

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
    Store.inMemory({ trash }).pipe(Effect.tap(maintain), Effect.orDie) // there is nothing that could fail
  )

/** Gone with the layer. Two provisions of this one value are one store. */
export const layerInMemory: Layer.Layer<MemoryStore> = layerInMemoryWith({})
