/** Sample viewers and drafts, and shorthands for operations of a store, for use in the laws. */
import { assert } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { MemoryError } from "../domain/MemoryError.ts"
import type { MemoryFilter, MemoryQuery } from "../domain/MemoryFilter.ts"
import * as MemoryId from "../domain/MemoryId.ts"
import type { Draft, MemoryRecord } from "../domain/MemoryRecord.ts"
import * as Viewer from "../domain/Viewer.ts"
import type { Provenance, Service } from "../storage/MemoryStore.ts"

/** The viewer of the user ada. */
export const ada = Viewer.make({ userId: "ada" })
/** The viewer of the user bob. */
export const bob = Viewer.make({ userId: "bob" })
/** The viewer `System`, on whose behalf the library itself acts. */
export const system = Viewer.system()

/** Makes an id from a name. */
export const id = MemoryId.stableId

/** Makes a draft. By default, its scope is Ada's, and its kind is never deduplicated. */
export const draft = (body: string, fields: Partial<Draft> = {}): Draft => ({
  scope: { userId: "ada" },
  kind: "reference",
  body,
  ...fields
})

/** Makes a draft. By default, its scope is Ada's, and its kind is deduplicated. */
export const fact = (body: string, fields: Partial<Draft> = {}): Draft => draft(body, { kind: "user", ...fields })

/** Puts one draft and returns its record. Default viewer: Ada. */
export const put = (
  store: Service,
  draft: Draft,
  viewer: Viewer.Any = ada,
  provenance: Provenance = {}
): Effect.Effect<MemoryRecord, MemoryError> =>
  Effect.map(store.put(viewer, [draft], provenance), ([put]) => put!.record)

/** Gets one record, or `undefined`. The result is not an `Option`, because chai considers `None` equal to every `Some`. */
export const get = (
  store: Service,
  viewer: Viewer.Any,
  id: MemoryId.MemoryId
): Effect.Effect<MemoryRecord | undefined, MemoryError> =>
  Effect.map(store.get(viewer, [id]), ([found]) => Option.getOrUndefined(found!))

/** Gets one record; fails the test if there is none. */
export const the = (
  store: Service,
  viewer: Viewer.Any,
  id: MemoryId.MemoryId
): Effect.Effect<MemoryRecord, MemoryError> =>
  Effect.map(get(store, viewer, id), (record) => record ?? assert.fail("the record is gone"))

/** Returns the reason why a query does not return a record, or `hit` if the query returns the record. */
export const whyNot = (store: Service, viewer: Viewer.Any, id: MemoryId.MemoryId, query: MemoryQuery) =>
  Effect.map(store.whyNot(viewer, id, query), Option.getOrElse(() => "hit" as const))

/** Returns the bodies of the listed records, in order. */
export const listed = (store: Service, viewer: Viewer.Any, filter: MemoryFilter = {}) =>
  Effect.map(store.list(viewer, filter), ({ items }) => items.map(({ body }) => body))

/** Returns the bodies of the hits of a search, best first. */
export const found = (store: Service, viewer: Viewer.Any, query: MemoryQuery = {}) =>
  Effect.map(store.search(viewer, query), ({ hits }) => hits.map(({ record }) => record.body))
