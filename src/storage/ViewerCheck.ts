/**
 * Answers every call that is made for no `Viewer` with `invalid_scope`, before anything looks at it: a plain object of the
 * same fields, `undefined`, a decoded JSON. Without this such a call would die, or see what its missing ids do not forbid.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import type * as MemoryError from "../domain/MemoryError.ts"
import * as Viewer from "../domain/Viewer.ts"
import type { Service } from "./MemoryStore.ts"

type Call = (viewer: Viewer.Any, ...rest: Array<never>) => Effect.Effect<unknown, MemoryError.MemoryError>

const checked = <F extends Call>(op: string, call: F): F =>
  ((viewer, ...rest) => Viewer.isAny(viewer) ? call(viewer, ...rest) : Viewer.notViewer(op)) as F // the same arguments and errors

/** The same store, which lets no call pass that is made for no viewer. */
export const make = (store: Service): Service => ({
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
