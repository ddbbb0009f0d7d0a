/** What waits of somebody who is to be forgotten, erased; whoever is reading it at this moment finds that it is gone. */
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import * as MemoryError from "../../domain/MemoryError.ts"
import type { MemoryFilter } from "../../domain/MemoryFilter.ts"
import type { MemoryRecord } from "../../domain/MemoryRecord.ts"
import { matchesScope, type MemoryScope } from "../../domain/MemoryScope.ts"
import * as Viewer from "../../domain/Viewer.ts"
import type * as MemoryStore from "../../storage/MemoryStore.ts"
import * as Kept from "./Kept.ts"
import * as Rows from "./Rows.ts"

/** Nobody can say yet of which kind, or about what, will be what waits; and none of it is in the trash. */
export const isMeant = (
  { after: _after, forgotten, limit: _limit, scope: _scope, ...narrower }: MemoryFilter
): boolean => forgotten !== true && Object.values(narrower).every((value) => value === undefined)

/** How often it is looked for what came meanwhile. */
const attempts = 50

/** Of the viewer and of whoever is narrower, in one tenant; with `scope`, of whom that means among them. */
export const purge = (
  store: MemoryStore.Service,
  viewer: Viewer.Viewer,
  scope?: MemoryScope,
  left = attempts
): Effect.Effect<void, MemoryError.MemoryError> =>
  Effect.gen(function*() {
    const lines = new Map<string, Array<readonly [Rows.Data, MemoryRecord]>>()
    yield* Stream.runForEach(Kept.rows(store, viewer.tenant), (row) =>
      Effect.sync(() => {
        const [data] = row
        const whose = Viewer.scopeOf(data.viewer)
        if (!isWithin(viewer, data.viewer) || !(scope === undefined || matchesScope(whose, scope))) return
        const key = Rows.keyOf(data)
        const known = lines.get(key) ?? []
        known.push(row)
        lines.set(key, known)
      }))
    if (lines.size === 0 || left <= 0) return
    const conflicts = yield* Effect.forEach(lines.values(), (rows) =>
      store.apply(Viewer.system(viewer.tenant), Rows.erase(rows.map(([, { id, revision }]) => ({ id, revision }))))
        .pipe(
          Effect.as([]),
          MemoryError.catchReason("conflict", (error) =>
            Effect.succeed([error])) // it has just moved on
        ))
    const [conflict] = conflicts.flat()
    if (conflict && left <= 1) {
      return yield* conflict
    }
    yield* purge(store, viewer, scope, left - 1)
  })

/**
 * Whether what waits is the viewer's to erase: its own, and that of narrower viewers whose messages would become memories
 * that it sees. A viewer of reach `exact` that names an agent alone has nothing to say about the agent's users.
 */
const isWithin = (viewer: Viewer.Viewer, whose: Viewer.Viewer): boolean =>
  viewer.reach === "everyone" ||
  (matchesScope(Viewer.scopeOf(whose), Viewer.scopeOf(viewer)) && Viewer.sees(viewer, Viewer.subjectOf(whose)))
