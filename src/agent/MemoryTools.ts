/** The tools of four seeds, declared once and neutrally, each behind `MemoryService.guard`. The viewer is the harness's to say, never an argument's. */
import type * as Effect from "effect/Effect"
import type { MemoryError } from "../domain/MemoryError.ts"
import type { Viewer } from "../domain/Viewer.ts"
import type { MemoryManager } from "../harness/MemoryManager.ts"
import type { MemoryService } from "../harness/MemoryService.ts"
import type { MemoryTool } from "../host/MemoryTool.ts"

/** remember, recall, and forget with `allowForget`; none where the spec says `enabled: false`. */
export declare const make: (viewer: Viewer) => Effect.Effect<ReadonlyArray<MemoryTool>, never, MemoryService>

/** memory_append, memory_search, memory_update, memory_delete, memory_view. */
export declare const makeRecords: (viewer: Viewer) => Effect.Effect<ReadonlyArray<MemoryTool>, never, MemoryService>

export interface StoreToolsOptions {
  /** Default: all. */
  readonly stores?: ReadonlyArray<string> | undefined
  readonly search?:
    | false
    | { readonly name?: string | undefined; readonly description?: string | undefined }
    | undefined
  /** Default none. */
  readonly add?: true | {
    readonly name?: string | undefined
    readonly description?: string | undefined
    /** Default true. */
    readonly waitForWrites?: boolean | undefined
  } | undefined
}

/** search_memory, add_memory, then the stores' own. A name used twice is refused with `invalid_id`. */
export declare const makeStores: (
  viewer: Viewer,
  options?: StoreToolsOptions
) => Effect.Effect<ReadonlyArray<MemoryTool>, MemoryError, MemoryManager | MemoryService>
