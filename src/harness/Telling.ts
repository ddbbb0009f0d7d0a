/** The events that several operations have in common. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type { MemoryError } from "../domain/MemoryError.ts"
import type { MemoryQuery, SearchResult } from "../domain/MemoryFilter.ts"
import type { Viewer } from "../domain/Viewer.ts"
import type * as MemoryEvents from "./MemoryEvents.ts"

export interface Telling {
  /** A best effort had no effect: an event, and a warning. */
  readonly degraded: (viewer: Viewer, part: string) => (error: MemoryError) => Effect.Effect<void>
  /** Reports, by an event and a warning, that `part` skipped a call that named no viewer. */
  readonly viewerMissing: (part: string) => Effect.Effect<void>
  readonly recalled: (viewer: Viewer, query: MemoryQuery) => (result: SearchResult) => Effect.Effect<void>
}

export const make = (publish: MemoryEvents.Service["publish"]): Telling => ({
  degraded: (viewer, part) => (error) =>
    Effect.zipRight(
      Effect.logWarning(`memory: no ${part}`, error),
      Effect.flatMap(Clock.currentTimeMillis, (at) => publish({ _tag: "memory_degraded", viewer, at, part, error }))
    ),
  viewerMissing: (part) =>
    Effect.zipRight(
      Effect.logWarning(`memory: no ${part}, since the call names no viewer: run it within MemoryService.as`),
      Effect.flatMap(
        Clock.currentTimeMillis,
        (at) => publish({ _tag: "memory_viewer_missing", viewer: null, at, part })
      )
    ),
  recalled: (viewer, query) => ({ hits, leftOut }) =>
    Effect.flatMap(Clock.currentTimeMillis, (at) =>
      publish({
        _tag: "memory_recalled",
        viewer,
        at,
        query: query.text ?? null,
        hits: hits.map(({ record: { id, scope }, score }) => ({ id, scope, score })),
        leftOut
      }))
})
