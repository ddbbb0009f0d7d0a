/**
 * Refuses every call whose viewer is not a `Viewer` with `invalid_scope`, before anything reads it: `undefined`, decoded
 * JSON, a plain object of the same fields. Otherwise such a call would die, or see records that its missing ids leave open.
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

/** Wraps a store so that each operation checks its viewer first. `tools` returns none for a value that is not a viewer. */
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
