/** What memory did, for the harness to show, log and count. Not a source of truth: a slow listener misses the oldest. */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type * as Stream from "effect/Stream"
import { MemoryError } from "../domain/MemoryError.ts"
import { MemoryId } from "../domain/MemoryId.ts"
import * as MemoryKind from "../domain/MemoryKind.ts"
import { Millis, Summary, Unit } from "../domain/MemoryRecord.ts"
import { MemoryScope } from "../domain/MemoryScope.ts"
import * as Viewer from "../domain/Viewer.ts"

const common = { viewer: Schema.Union(Viewer.Viewer, Viewer.System), at: Millis }
const entry = { id: MemoryId, scope: MemoryScope, kind: MemoryKind.Name, summary: Summary }

export const MemoryEvent = Schema.Union(
  Schema.TaggedStruct("memory_written", {
    ...common,
    ...entry,
    outcome: Schema.Literal("created", "updated", "duplicate")
  }),
  Schema.TaggedStruct("memory_recalled", {
    ...common,
    query: Schema.NullOr(Schema.String),
    hits: Schema.Array(Schema.Struct({ id: MemoryId, scope: MemoryScope, score: Unit }))
  }),
  Schema.TaggedStruct("memory_forgotten", { ...common, id: MemoryId, purged: Schema.Boolean }),
  Schema.TaggedStruct("memory_denied", {
    ...common,
    tool: Schema.String,
    plugin: Schema.String,
    reason: Schema.String
  }),
  Schema.TaggedStruct("memory_write_failed", { ...common, error: MemoryError }),
  /** A best effort that had no effect: an index, an injection, a leg. */
  Schema.TaggedStruct("memory_degraded", { ...common, part: Schema.String, error: MemoryError }),
  /** A kind was over its cap. */
  Schema.TaggedStruct("memory_retired", { ...common, kind: MemoryKind.Name, ids: Schema.Array(MemoryId) })
)
export type MemoryEvent = typeof MemoryEvent.Type

export interface Service {
  readonly publish: (event: MemoryEvent) => Effect.Effect<void>
  /** From the moment it is run; of every viewer, so for the harness, not for an agent. */
  readonly stream: Stream.Stream<MemoryEvent>
}

export class MemoryEvents extends Context.Tag("@memory/MemoryEvents")<MemoryEvents, Service>() {}

/** Default: the latest 1,024 are kept for each listener. */
export declare const layer: (options?: { readonly capacity?: number | undefined }) => Layer.Layer<MemoryEvents>
