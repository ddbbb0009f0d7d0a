/**
 * Ids that a record is given because of what it is: a turn its place, a fact its words, a successor what it follows.
 * Anybody can compute them, so a stranger of the same tenant can put a record there first. Such an id is replaced by one
 * that only the store can compute, so that the stranger keeps nobody from remembering.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as MemoryError from "../domain/MemoryError.ts"
import { type MemoryId, stableId } from "../domain/MemoryId.ts"
import type { MemoryMutation } from "../domain/MemoryMutation.ts"
import * as Viewer from "../domain/Viewer.ts"
import type * as MemoryStore from "../storage/MemoryStore.ts"

/** The batch with other ids where a record that the viewer does not see has them. Cost: one read of the ids that are put. */
export const settle = (
  store: Pick<MemoryStore.Service, "get" | "sign">,
  viewer: Viewer.Any,
  mutations: ReadonlyArray<MemoryMutation>
): Effect.Effect<ReadonlyArray<MemoryMutation>, MemoryError.MemoryError> =>
  Effect.gen(function*() {
    const ids = mutations.flatMap((mutation) => mutation._tag === "Put" ? mutation.draft.id ?? [] : [])
    if (ids.length === 0) return mutations
    const found = yield* store.get(Viewer.system(viewer.tenant), ids)
    const foreign = ids.filter((_, i) => Option.exists(found[i]!, ({ scope }) => !Viewer.sees(viewer, scope)) // one in, one out
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
