/** Who and what the laws speak of. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { MemoryError } from "../domain/MemoryError.ts"
import type { MemoryFilter, MemoryQuery } from "../domain/MemoryFilter.ts"
import * as MemoryId from "../domain/MemoryId.ts"
import type { Draft, MemoryRecord } from "../domain/MemoryRecord.ts"
import * as Viewer from "../domain/Viewer.ts"
import type { Provenance, Service } from "../storage/MemoryStore.ts"

export const ada = Viewer.make({ userId: "ada" })
export const bob = Viewer.make({ userId: "bob" })
export const system = Viewer.system()

export const id = MemoryId.stableId

/** Ada's, of a kind that is never deduplicated. */
export const draft = (body: string, fields: Partial<Draft> = {}): Draft => ({
  scope: { userId: "ada" },
  kind: "reference",
  body,
  ...fields
})

/** Ada's, of a kind that is. */
export const fact = (body: string, fields: Partial<Draft> = {}): Draft => draft(body, { kind: "user", ...fields })

/** One record, as the viewer that may write it, Ada unless said. */
export const put = (
  store: Service,
  draft: Draft,
  viewer: Viewer.Any = ada,
  provenance: Provenance = {}
): Effect.Effect<MemoryRecord, MemoryError> =>
  Effect.map(store.put(viewer, [draft], provenance), ([put]) => put!.record)

export const get = (
  store: Service,
  viewer: Viewer.Any,
  id: MemoryId.MemoryId
): Effect.Effect<Option.Option<MemoryRecord>, MemoryError> =>
  Effect.map(store.get(viewer, [id]), ([record]) => record ?? Option.none())

/** The first words of what a list holds, in its order. */
export const listed = (store: Service, viewer: Viewer.Any, filter: MemoryFilter = {}) =>
  Effect.map(store.list(viewer, filter), ({ items }) => items.map(({ body }) => body))

/** The same of a search. */
export const found = (store: Service, viewer: Viewer.Any, query: MemoryQuery = {}) =>
  Effect.map(store.search(viewer, query), ({ hits }) => hits.map(({ record }) => record.body))
