/** Derives record ids from the caller's own ids, which are unique only within the scope of a viewer. */
import { foreign, type MemoryId } from "../../domain/MemoryId.ts"
import { key } from "../../domain/MemoryScope.ts"
import * as Viewer from "../../domain/Viewer.ts"

/** Derives a record id from the kind, the viewer's own scope and the caller's id. */
export const idOf = (kind: string, viewer: Viewer.Any, name: string): MemoryId =>
  foreign("nexus", JSON.stringify([kind, key(Viewer.scopeOf(viewer)), name]))
