/**
 * What a store is made from: an engine, but for what ranking asks of it. `list`, `search` and `whyNot` are answered by the
 * tenant's index in memory until they ask the engine; `Searching` is the one module that knows.
 */
import * as Effect from "effect/Effect"
import type * as Stream from "effect/Stream"
import type { MemoryError } from "../../domain/MemoryError.ts"
import type { MemoryId } from "../../domain/MemoryId.ts"
import type { MemoryRecord } from "../../domain/MemoryRecord.ts"
import type { StoreChange } from "../../domain/StoreChange.ts"
import type * as Viewer from "../../domain/Viewer.ts"
import { includes, type Sight } from "../../domain/Visibility.ts"
import { hashOf } from "../../ranking/Embeddings.ts"
import type { Asked } from "../../ranking/Retrieval.ts"
import type { Catalog } from "../Catalog.ts"
import type { Change, Engine, Write } from "../Engine.ts"
import type { Links } from "../Links.ts"
import type { Capabilities, Ingest, Service, Stored } from "../MemoryStore.ts"
import type { VectorRows } from "../Vectors.ts"

type Io<A> = Effect.Effect<A, MemoryError>

export interface Backend extends Omit<Engine, "page" | "match" | "vectors" | "analyzer" | "reindex"> {
  /** The tenant's rows in memory, current, for a reader. */
  readonly catalog: (tenant: string) => Io<Catalog>
  /** The tombstones of a tenant, or of these ids. */
  readonly tombstones: (tenant: string, ids?: ReadonlyArray<MemoryId>) => Io<ReadonlyArray<Stored>>
  readonly vectors?: VectorRows | undefined
}

/** What a store offers beyond its engine. */
export interface Extras {
  /** Instead of what the engine says. */
  readonly capabilities?: Partial<Capabilities> | undefined
  readonly usage?: Pick<Service, "touch" | "uses"> | undefined
  readonly ingest?: Ingest | undefined
  readonly tools?: Service["tools"] | undefined
  /** Changes that did not come through this store, as the viewer is told them. */
  readonly outside?: ((viewer: Viewer.Any) => Stream.Stream<StoreChange, MemoryError>) | undefined
}

/** Answers `named` or `referring` from an index in memory. */
export const within = (sight: Sight, asked: Asked, found: ReadonlyArray<MemoryRecord>): ReadonlyArray<MemoryRecord> => {
  const sees = includes(sight.visibility)
  return found.filter((record) =>
    sees(record.scope) && (record.expiresAt === undefined || record.expiresAt > sight.now) && asked.passes(record)
  )
}

/** Answers `named` and `referring` from the index of a tenant's links. */
export const byLinks = (linksOf: (tenant: string) => Io<Links>): Pick<Engine, "named" | "referring"> => ({
  named: (sight, asked, names) =>
    Effect.map(linksOf(sight.tenant), (links) => within(sight, asked, links.named(names))),
  referring: (sight, asked, keys) =>
    Effect.map(linksOf(sight.tenant), (links) => within(sight, asked, links.referring(keys)))
})

/** Returns the scopes that hold more rows of a kind than its cap. */
export const overCap = (
  counts: ReadonlyMap<string, ReadonlyMap<string, number>>,
  caps: ReadonlyMap<string, number>
): ReadonlyArray<readonly [scope: string, kind: string]> =>
  Array.from(counts).flatMap(([scope, kinds]) =>
    Array.from(kinds).flatMap(([kind, count]) => count > (caps.get(kind) ?? Infinity) ? [[scope, kind] as const] : [])
  )

/** Returns what there is to hear of writes, in their order. */
export const changesOf = (
  rows: ReadonlyMap<MemoryId, Stored>,
  writes: ReadonlyArray<Write>
): ReadonlyArray<Change> => {
  const current = new Map<MemoryId, Stored | undefined>(rows)
  return writes.map(({ id, next }) => {
    const before = current.get(id)
    current.set(id, next?.stored)
    return { id, before: recordOf(before), after: recordOf(next?.stored), by: "here" }
  })
}

/** Whether most of so many vectors are of texts that were edited away. Cost: nothing to speak of as long as they cannot be. */
export const isLittered = (vectors: number, catalog: Catalog): boolean =>
  vectors > 0 && (vectors > 2 * catalog.size() || vectors > 2 * new Set(catalog.records().map(hashOf)).size)

const recordOf = (row: Stored | undefined): MemoryRecord | undefined => row && !row.forgotten ? row.record : undefined
