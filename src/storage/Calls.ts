/** The calls of a store that are made of others: `put`, `update` and `forget` of batches, `stream` of pages. */
import * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import type { MemoryError } from "../domain/MemoryError.ts"
import type { MemoryFilter } from "../domain/MemoryFilter.ts"
import type { Applied, MemoryMutation } from "../domain/MemoryMutation.ts"
import type * as Viewer from "../domain/Viewer.ts"
import { invalid } from "./Check.ts"
import type { Provenance, Put, Service } from "./MemoryStore.ts"

/** `op` is the call that the batch is made for. */
export const writes = (
  batch: (
    op: "apply" | "put" | "update" | "forget",
    viewer: Viewer.Any,
    mutations: ReadonlyArray<MemoryMutation>,
    provenance?: Provenance
  ) => Effect.Effect<ReadonlyArray<Applied>, MemoryError>
): Pick<Service, "apply" | "put" | "update" | "forget"> => ({
  apply: (viewer, mutations, provenance) => batch("apply", viewer, mutations, provenance),
  put: (viewer, drafts, { ifRevision, ...provenance } = {}) =>
    ifRevision !== undefined && drafts.length !== 1
      ? invalid("put", "ifRevision: is about one draft")
      : Effect.map(
        batch("put", viewer, drafts.map((draft) => ({ _tag: "Put", draft, ifRevision })), provenance),
        (all) => all.map(toPut)
      ),
  update: (viewer, id, patch, { ifRevision } = {}) =>
    Effect.map(
      batch("update", viewer, [{ _tag: "Update", id, patch, ifRevision }]),
      ([applied]) => applied!.record! // one in, one out, and not absent
    ),
  forget: (viewer, ids, { purge } = {}) =>
    Effect.map(
      batch("forget", viewer, ids.map((id) => ({ _tag: "Forget", id, purge }))),
      (all) => all.map(({ outcome }) => outcome === "forgotten")
    )
})

/** Every page. */
export const stream = (list: Service["list"], viewer: Viewer.Any, filter: MemoryFilter) =>
  Stream.paginateChunkEffect(
    filter.after,
    (after) =>
      Effect.map(list(viewer, { ...filter, after }), ({ items, next }) =>
        [Chunk.fromIterable(items), Option.fromNullable(next)] as const)
  )

const toPut = ({ outcome, record }: Applied): Put => ({ record: record!, outcome: outcome as Put["outcome"] }) // a Put is never absent
