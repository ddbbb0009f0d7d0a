/** Ids of a caller's own, which are names within the scope of a viewer. */
import { foreign, type MemoryId } from "../../domain/MemoryId.ts"
import { key } from "../../domain/MemoryScope.ts"
import * as Viewer from "../../domain/Viewer.ts"

/** Returns the id of the record that stands for a name of the caller's, in the viewer's own scope; each kind has its own names. */
export const idOf = (kind: string, viewer: Viewer.Any, name: string): MemoryId =>
  foreign("nexus", JSON.stringify([kind, key(Viewer.scopeOf(viewer)), name]))
