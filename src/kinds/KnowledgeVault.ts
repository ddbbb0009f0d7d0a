/** The knowledge vault: insights, decisions and patterns that stay useful after a session. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { MemoryError } from "../domain/MemoryError.ts"
import type { MemoryId } from "../domain/MemoryId.ts"
import * as MemoryKind from "../domain/MemoryKind.ts"
import type * as Payload from "../domain/Payload.ts"
import type * as Viewer from "../domain/Viewer.ts"
import type { MemoryStore } from "../storage/MemoryStore.ts"
import { type DraftOf, type Found, make as typed, type Typed, withNameAsSummary } from "./TypedMemory.ts"

/** The `data` of an entry of the knowledge vault. */
export type VaultEntry = Payload.VaultEntry

/** Operations of `KnowledgeVault`. */
export interface Service {
  /** Stores an entry. Its summary defaults to its title. Its `links` may name related records. */
  readonly store: (viewer: Viewer.Any, entry: DraftOf<VaultEntry>) => Effect.Effect<Typed<VaultEntry>, MemoryError>
  /** Returns all entries of a category, newest first. Cost: reads all entries that the viewer sees. */
  readonly findByCategory: (
    viewer: Viewer.Any,
    category: VaultEntry["category"]
  ) => Effect.Effect<ReadonlyArray<Typed<VaultEntry>>, MemoryError>
  /** Returns all entries with at least this importance (0..1), newest first. Cost: reads all entries that the viewer sees. */
  readonly findByImportance: (
    viewer: Viewer.Any,
    minImportance: number
  ) => Effect.Effect<ReadonlyArray<Typed<VaultEntry>>, MemoryError>
  /** Finds entries, including archived ones, best first. Default `limit` 20. */
  readonly search: (
    viewer: Viewer.Any,
    text: string,
    limit?: number
  ) => Effect.Effect<ReadonlyArray<Found<VaultEntry>>, MemoryError>
  /** Sets the category of an entry to `archive`. Fails with `not_found` if there is no such entry. */
  readonly archive: (viewer: Viewer.Any, id: MemoryId) => Effect.Effect<Typed<VaultEntry>, MemoryError>
}

/** Tag of the service for the knowledge vault. */
export class KnowledgeVault extends Context.Tag("@memory/KnowledgeVault")<KnowledgeVault, Service>() {}

/** Makes the service over the `MemoryStore` in the context. */
export const make: Effect.Effect<Service, never, MemoryStore> = Effect.map(typed(MemoryKind.vault), (entries) => ({
  store: (viewer, entry) =>
    entries.put(viewer, withNameAsSummary(entry.data?.title, entry)).pipe(Effect.withSpan("KnowledgeVault.store")),
  findByCategory: (viewer, category) =>
    entries.all(viewer, { where: { "data.category": { eq: category } } }).pipe(
      Effect.withSpan("KnowledgeVault.findByCategory")
    ),
  findByImportance: (viewer, minImportance) =>
    entries.all(viewer, { minImportance }).pipe(Effect.withSpan("KnowledgeVault.findByImportance")),
  search: (viewer, text, limit) => Effect.withSpan(entries.search(viewer, { text, limit }), "KnowledgeVault.search"),
  archive: (viewer, id) =>
    entries.modify(viewer, id, (entry) => ({ ...entry, category: "archive" as const })).pipe(
      Effect.withSpan("KnowledgeVault.archive")
    )
}))

/** Provides `KnowledgeVault` over a `MemoryStore`. */
export const layer: Layer.Layer<KnowledgeVault, never, MemoryStore> = Layer.effect(KnowledgeVault, make)
