/** Who and what the laws speak of. */
import { assert } from "@effect/vitest"
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

/** `undefined` where there is none: an assertion of chai takes one `Option` for another. */
export const get = (
  store: Service,
  viewer: Viewer.Any,
  id: MemoryId.MemoryId
): Effect.Effect<MemoryRecord | undefined, MemoryError> =>
  Effect.map(store.get(viewer, [id]), ([found]) => Option.getOrUndefined(found!))

/** One that is there, or the law is broken. */
export const the = (
  store: Service,
  viewer: Viewer.Any,
  id: MemoryId.MemoryId
): Effect.Effect<MemoryRecord, MemoryError> =>
  Effect.map(get(store, viewer, id), (record) => record ?? assert.fail("the record is gone"))

export const whyNot = (store: Service, viewer: Viewer.Any, id: MemoryId.MemoryId, query: MemoryQuery) =>
  Effect.map(store.whyNot(viewer, id, query), Option.getOrElse(() => "hit" as const))

/** The bodies of what a list holds, in its order. */
export const listed = (store: Service, viewer: Viewer.Any, filter: MemoryFilter = {}) =>
  Effect.map(store.list(viewer, filter), ({ items }) => items.map(({ body }) => body))

/** The same of a search. */
export const found = (store: Service, viewer: Viewer.Any, query: MemoryQuery = {}) =>
  Effect.map(store.search(viewer, query), ({ hits }) => hits.map(({ record }) => record.body))
