/** Makes the events of memory from what happened, and publishes them: the one place that does, for all of the harness. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type { MemoryError } from "../domain/MemoryError.ts"
import type { MemoryQuery, SearchResult } from "../domain/MemoryFilter.ts"
import type { Applied } from "../domain/MemoryMutation.ts"
import type { MemoryRecord } from "../domain/MemoryRecord.ts"
import type * as Viewer from "../domain/Viewer.ts"
import type { ToolCall } from "../host/HarnessPlugin.ts"
import type { Put } from "../storage/MemoryStore.ts"
import type * as MemoryEvents from "./MemoryEvents.ts"

/** A change of one record, for its event. */
export interface Change extends Pick<Applied, "id" | "outcome" | "record"> {
  /** Whether a record that was forgotten was purged too. Default false. */
  readonly purged?: boolean | undefined
}

export interface EventPublisher {
  /** Publishes `memory_written` or `memory_forgotten` for each change; nothing for a record that was absent. */
  readonly changed: (viewer: Viewer.Any, changes: ReadonlyArray<Change>) => Effect.Effect<void>
  /** Runs a write, and publishes its changes, or `memory_write_failed`. */
  readonly write: <A>(
    viewer: Viewer.Any,
    write: Effect.Effect<A, MemoryError>,
    changesOf: (result: A) => ReadonlyArray<Change>
  ) => Effect.Effect<A, MemoryError>
  /** Publishes `memory_recalled`. */
  readonly recalled: (viewer: Viewer.Viewer, query: MemoryQuery) => (result: SearchResult) => Effect.Effect<void>
  /** Publishes `memory_retired` for each record that went. */
  readonly retired: (system: Viewer.System, records: ReadonlyArray<MemoryRecord>) => Effect.Effect<void>
  /** Publishes `memory_denied`: a plugin refused a call of a tool. */
  readonly denied: (call: ToolCall, plugin: string, reason: string) => Effect.Effect<void>
  /** Publishes `memory_degraded`, and logs a warning: a best effort had no effect. */
  readonly degraded: (viewer: Viewer.Viewer, part: string) => (error: MemoryError) => Effect.Effect<void>
  /** Publishes `memory_viewer_missing`, and logs a warning: `part` skipped a call that named no viewer. */
  readonly viewerMissing: (part: string) => Effect.Effect<void>
}

/** Returns the changes that `put` made. */
export const changesOf = (puts: ReadonlyArray<Put>): ReadonlyArray<Change> =>
  puts.map(({ outcome, record }) => ({ id: record.id, outcome, record }))

/** Makes a publisher of events, which have the time at which they are published. */
export const make = (publish: MemoryEvents.Service["publish"]): EventPublisher => {
  const now = <A, E>(use: (at: number) => Effect.Effect<A, E>) => Effect.flatMap(Clock.currentTimeMillis, use)

  const changed: EventPublisher["changed"] = (viewer, changes) =>
    now((at) =>
      Effect.forEach(changes, ({ id, outcome, purged = false, record }) => {
        if (outcome === "forgotten") return publish({ _tag: "memory_forgotten", viewer, at, id, purged })
        if (outcome === "absent" || record === undefined) return Effect.void
        const { kind, scope, summary } = record
        return publish({ _tag: "memory_written", viewer, at, id, scope, kind, summary, outcome })
      }, { discard: true })
    )

  return {
    changed,
    write: (viewer, write, changesOf) =>
      write.pipe(
        Effect.tapError((error) => now((at) => publish({ _tag: "memory_write_failed", viewer, at, error }))),
        Effect.tap((result) => changed(viewer, changesOf(result)))
      ),
    recalled: (viewer, query) => ({ hits, leftOut }) =>
      now((at) =>
        publish({
          _tag: "memory_recalled",
          viewer,
          at,
          query: query.text ?? null,
          hits: hits.map(({ record: { id, scope }, score }) => ({ id, scope, score })),
          leftOut
        })
      ),
    retired: (system, records) =>
      now((at) =>
        Effect.forEach(
          records,
          ({ id, kind, scope, summary }) =>
            publish({ _tag: "memory_retired", viewer: system, at, id, scope, kind, summary }),
          { discard: true }
        )
      ),
    denied: ({ tool, viewer }, plugin, reason) =>
      now((at) => publish({ _tag: "memory_denied", viewer, at, tool, plugin, reason })),
    degraded: (viewer, part) => (error) =>
      Effect.zipRight(
        Effect.logWarning(`memory: no ${part}`, error),
        now((at) => publish({ _tag: "memory_degraded", viewer, at, part, error }))
      ),
    viewerMissing: (part) =>
      Effect.zipRight(
        Effect.logWarning(`memory: no ${part}, since the call names no viewer: run it within MemoryService.as`),
        now((at) => publish({ _tag: "memory_viewer_missing", viewer: null, at, part }))
      )
  }
}
