/** The calls of a store that are made of others, and the check of the viewer that each call begins with. */
import * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import type * as MemoryError from "../domain/MemoryError.ts"
import type { MemoryFilter } from "../domain/MemoryFilter.ts"
import type { Applied, MemoryMutation } from "../domain/MemoryMutation.ts"
import * as Viewer from "../domain/Viewer.ts"
import { invalid } from "./Check.ts"
import type { Provenance, Put, Service } from "./MemoryStore.ts"

/** `op` is the call that the batch is made for. */
export const writes = (
  batch: (
    op: "apply" | "put" | "update" | "forget",
    viewer: Viewer.Any,
    mutations: ReadonlyArray<MemoryMutation>,
    provenance?: Provenance
  ) => Effect.Effect<ReadonlyArray<Applied>, MemoryError.MemoryError>
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

type Call = (viewer: Viewer.Any, ...rest: Array<never>) => Effect.Effect<unknown, MemoryError.MemoryError>

const checked = <F extends Call>(op: string, call: F): F =>
  ((viewer, ...rest) => Viewer.isAny(viewer) ? call(viewer, ...rest) : Viewer.notViewer(op)) as F // the same arguments and errors

/**
 * Wraps a store so that each call refuses a viewer that is no `Viewer` with `invalid_scope`, before anything reads it: a plain
 * object may lack the checks of `Viewer.make`, and what it sees is decided by its fields. `tools` returns none for it.
 */
export const checkingViewer = (store: Service): Service => ({
  ...store,
  apply: checked("apply", store.apply),
  put: checked("put", store.put),
  get: checked("get", store.get),
  search: checked("search", store.search),
  list: checked("list", store.list),
  stream: (viewer, filter) =>
    Viewer.isAny(viewer) ? store.stream(viewer, filter) : Stream.fail(Viewer.notViewer("stream")),
  update: checked("update", store.update),
  forget: checked("forget", store.forget),
  history: checked("history", store.history),
  changes: (viewer) => Viewer.isAny(viewer) ? store.changes(viewer) : Stream.fail(Viewer.notViewer("changes")),
  whyNot: checked("whyNot", store.whyNot),
  links: checked("links", store.links),
  touch: checked("touch", store.touch),
  uses: checked("uses", store.uses),
  ingest: Option.map(store.ingest, (ingest) => checked("ingest", ingest)),
  tools: (viewer) => Viewer.isAny(viewer) ? store.tools(viewer) : []
})
