/**
 * Answers what is asked of an engine from the catalogs of its tenants: what every engine does that has the rows of a tenant in
 * memory. Each answer is exact.
 */
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type { MemoryError } from "../../domain/MemoryError.ts"
import type { MemoryId } from "../../domain/MemoryId.ts"
import { byRecency, type MemoryRecord } from "../../domain/MemoryRecord.ts"
import * as MemoryScope from "../../domain/MemoryScope.ts"
import { includes, type Sight } from "../../domain/Visibility.ts"
import { hashOf } from "../../ranking/Embeddings.ts"
import type { MemoryIndex } from "../../ranking/MemoryIndex.ts"
import type { Asked, Position } from "../../ranking/Retrieval.ts"
import type { Catalog } from "../Catalog.ts"
import type { Change, Engine, Write } from "../Engine.ts"
import type { Stored } from "../MemoryStore.ts"

type Io<A> = Effect.Effect<A, MemoryError>

export interface Source {
  /** The catalog of a tenant, current, for a reader. */
  readonly catalogOf: (tenant: string) => Io<Catalog>
  /** The tombstones of a tenant, or of these ids. */
  readonly tombstones: (tenant: string, ids: ReadonlyArray<MemoryId> | undefined) => Io<ReadonlyArray<Stored>>
  readonly tenants: Stream.Stream<string, MemoryError>
}

/** Makes the methods of an engine that its catalogs answer. */
export const make = (
  { catalogOf, tenants, tombstones }: Source
): Pick<Engine, "page" | "match" | "changed" | "named" | "referring" | "overCap" | "tenants" | "tenantsWith"> => ({
  page: (sight, asked, after, limit) =>
    asked.filter.forgotten === true
      ? Effect.map(
        tombstones(sight.tenant, asked.filter.ids),
        (rows) => trash(rows, sight, asked, after).slice(0, limit)
      )
      : Effect.map(indexOf(catalogOf(sight.tenant)), (index) => index.page(sight, asked, after, limit)),
  match: (sight, asked, question) =>
    Effect.map(indexOf(catalogOf(sight.tenant)), (index) => index.match(sight, asked, question)),
  named: (sight, asked, names) =>
    Effect.map(catalogOf(sight.tenant), (catalog) => within(sight, asked, catalog.links().named(names))),
  referring: (sight, asked, keys) =>
    Effect.map(catalogOf(sight.tenant), (catalog) => within(sight, asked, catalog.links().referring(keys))),
  changed: (tenant, since) => Effect.map(catalogOf(tenant), (catalog) => catalog.changed(since)),
  overCap: (tenant, caps) => Effect.map(catalogOf(tenant), (catalog) => overCap(catalog.counts(), caps)),
  tenants,
  tenantsWith: (scope) => {
    const key = MemoryScope.key(scope)
    return Stream.filterEffect(
      tenants,
      (tenant) => Effect.map(catalogOf(tenant), (catalog) => catalog.counts().has(key))
    )
  }
})

/** Returns the index of a catalog, built with pauses where there is none. */
export const indexOf = (catalog: Io<Catalog>): Io<MemoryIndex> =>
  Effect.flatMap(catalog, (catalog) => Effect.map(catalog.prepared, catalog.index))

/** Returns those of the records that are in sight and pass. */
export const within = (sight: Sight, asked: Asked, found: ReadonlyArray<MemoryRecord>): ReadonlyArray<MemoryRecord> => {
  const sees = includes(sight.visibility)
  return found.filter((record) =>
    sees(record.scope) && (record.expiresAt === undefined || record.expiresAt > sight.now) && asked.passes(record)
  )
}

/** Returns the tombstones in sight that pass, after a position, in the order of a page. Cost: all rows given. */
const trash = (
  rows: ReadonlyArray<Stored>,
  sight: Sight,
  asked: Asked,
  after: Position | undefined
): ReadonlyArray<MemoryRecord> => {
  const place = after && { id: after.id, createdAt: after.recency }
  return within(sight, asked, rows.flatMap(({ forgotten, record }) => forgotten ? [record] : []))
    .filter((record) => place === undefined || byRecency(place, record) < 0)
    .sort(byRecency)
}

const overCap = (
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

const recordOf = (row: Stored | undefined): MemoryRecord | undefined => row && !row.forgotten ? row.record : undefined

/** Whether most of so many vectors are of texts that were edited away. Cost: nothing to speak of as long as they cannot be. */
export const isLittered = (vectors: number, catalog: Catalog): boolean =>
  vectors > 0 && (vectors > 2 * catalog.size() || vectors > 2 * new Set(catalog.records().map(hashOf)).size)
