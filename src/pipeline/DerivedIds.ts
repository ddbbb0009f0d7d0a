/**
 * Ids that are derived from the record itself: a turn's from its place in the session, a fact's from its words, a
 * successor's from the record that it replaces. Every viewer of the tenant can compute such an id and occupy it first with
 * a record of its own. An occupied id is therefore replaced by one that only the store can compute.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as MemoryError from "../domain/MemoryError.ts"
import { type MemoryId, stableId } from "../domain/MemoryId.ts"
import type { MemoryMutation } from "../domain/MemoryMutation.ts"
import * as Viewer from "../domain/Viewer.ts"
import type * as MemoryStore from "../storage/MemoryStore.ts"

/**
 * Returns the batch with a new id for each Put whose id belongs to a record that the viewer does not see. Cost: one read of
 * the ids that are put.
 */
export const settle = (
  store: Pick<MemoryStore.Service, "get" | "sign">,
  viewer: Viewer.Any,
  mutations: ReadonlyArray<MemoryMutation>
): Effect.Effect<ReadonlyArray<MemoryMutation>, MemoryError.MemoryError> =>
  Effect.gen(function*() {
    const ids = mutations.flatMap((mutation) => mutation._tag === "Put" ? mutation.draft.id ?? [] : [])
    if (ids.length === 0) return mutations
    const found = yield* store.get(Viewer.system(viewer.tenant), ids)
    const foreign = ids.filter((_, i) => Option.exists(found[i]!, ({ scope }) => !Viewer.sees(viewer, scope)) // `get` answers every id
    )
    const others = new Map<MemoryId, MemoryId>()
    for (const id of foreign) others.set(id, stableId(yield* store.sign("derived id", id)))
    return others.size === 0 ? mutations : mutations.map((mutation) => renamed(mutation, others))
  })

const renamed = (mutation: MemoryMutation, others: ReadonlyMap<MemoryId, MemoryId>): MemoryMutation => {
  const id = mutation._tag === "Put" ? mutation.draft.id && others.get(mutation.draft.id) : undefined
  if (mutation._tag === "Put" && id) return { ...mutation, draft: { ...mutation.draft, id } }
  const heir = mutation._tag === "Update" && mutation.patch.supersededBy
    ? others.get(mutation.patch.supersededBy)
    : undefined
  return mutation._tag === "Update" && heir
    ? { ...mutation, patch: { ...mutation.patch, supersededBy: heir } }
    : mutation
}
