/** Resources: records that point to files, pages and other things outside the store. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { MemoryError } from "../domain/MemoryError.ts"
import type { MemoryId } from "../domain/MemoryId.ts"
import * as MemoryKind from "../domain/MemoryKind.ts"
import type * as Payload from "../domain/Payload.ts"
import type * as Viewer from "../domain/Viewer.ts"
import * as Redaction from "../host/Redaction.ts"
import { MemoryStore } from "../storage/MemoryStore.ts"
import { type DraftOf, type Found, make as typed, type Typed, withNameAsSummary } from "./TypedMemory.ts"

/** The `data` of a resource. */
export type Resource = Payload.Resource

/** Operations of `ResourceMemory`. */
export interface Service {
  /** Stores a resource. Its summary defaults to its location; its importance defaults to low (0.25). */
  readonly store: (viewer: Viewer.Any, resource: DraftOf<Resource>) => Effect.Effect<Typed<Resource>, MemoryError>
  /** Returns all resources of a type, newest first. Cost: reads all resources that the viewer sees. */
  readonly findByType: (
    viewer: Viewer.Any,
    type: Resource["type"]
  ) => Effect.Effect<ReadonlyArray<Typed<Resource>>, MemoryError>
  /**
   * Returns resources whose location contains `location` (case-sensitive), newest first. Cost: reads all resources that the viewer sees.
   */
  readonly findByLocation: (
    viewer: Viewer.Any,
    location: string
  ) => Effect.Effect<ReadonlyArray<Typed<Resource>>, MemoryError>
  /** Finds resources, best first. Default `limit` 20. */
  readonly search: (
    viewer: Viewer.Any,
    text: string,
    limit?: number
  ) => Effect.Effect<ReadonlyArray<Found<Resource>>, MemoryError>
  /** Marks a resource as used now, without a new revision. */
  readonly touch: (viewer: Viewer.Any, id: MemoryId) => Effect.Effect<void, MemoryError>
}

/** Tag of the service for resources. */
export class ResourceMemory extends Context.Tag("@memory/ResourceMemory")<ResourceMemory, Service>() {}

/** Makes the service over the `MemoryStore` in the context. */
export const make: Effect.Effect<Service, never, MemoryStore> = Effect.gen(function*() {
  const store = yield* MemoryStore
  const redaction = yield* Redaction.over(store)
  const resources = yield* typed(MemoryKind.resource)

  return {
    store: (viewer, resource) =>
      resources.put(viewer, withNameAsSummary(resource.data.location, resource)).pipe(
        Effect.withSpan("ResourceMemory.store")
      ),
    findByType: (viewer, type) =>
      resources.all(viewer, { where: { "data.type": { eq: type } } }).pipe(
        Effect.withSpan("ResourceMemory.findByType")
      ),
    findByLocation: (viewer, location) =>
      Effect.zipWith(
        Redaction.redactQuery(redaction, location),
        resources.all(viewer),
        (location, all) => all.filter(({ data }) => data.location.includes(location))
      ).pipe(
        Effect.withSpan("ResourceMemory.findByLocation")
      ),
    search: (viewer, text, limit) =>
      Effect.withSpan(resources.search(viewer, { text, limit }), "ResourceMemory.search"),
    touch: (viewer, id) => store.touch(viewer, [id])
  }
})

/** Provides `ResourceMemory` over a `MemoryStore`. */
export const layer: Layer.Layer<ResourceMemory, never, MemoryStore> = Layer.effect(ResourceMemory, make)
