/** When a record was last used, and how often: in the engine's table, or in one of this process, lost with it. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { MemoryError } from "../domain/MemoryError.ts"
import type { MemoryId } from "../domain/MemoryId.ts"
import type { MemoryRecord } from "../domain/MemoryRecord.ts"
import { key as scopeKey } from "../domain/MemoryScope.ts"
import * as Viewer from "../domain/Viewer.ts"
import type { EngineUses } from "./Engine.ts"
import type { Service, Uses } from "./MemoryStore.ts"

/** Records remembered; then the one touched longest ago is dropped. */
const capacity = 100_000

export const make = (
  get: (
    viewer: Viewer.Any,
    ids: ReadonlyArray<MemoryId>
  ) => Effect.Effect<ReadonlyArray<Option.Option<MemoryRecord>>, MemoryError>,
  table?: EngineUses | undefined
): Pick<Service, "touch" | "uses"> => table === undefined ? inProcess(get) : inEngine(get, table)

type Get = Parameters<typeof make>[0]

/** Asks an engine, which erases the uses of a row with the row. */
const inEngine = (get: Get, { read, touch }: EngineUses): Pick<Service, "touch" | "uses"> => {
  const shown = (viewer: Viewer.Any, ids: ReadonlyArray<MemoryId>) =>
    Effect.map(get(viewer, ids), (found) => found.flatMap(Option.toArray).map(({ id }) => id))
  return {
    touch: (viewer, ids) =>
      Effect.gen(function*() {
        const found = yield* shown(viewer, ids)
        if (found.length > 0) yield* touch(Viewer.tenantOf(viewer), found, yield* Clock.currentTimeMillis)
      }),
    uses: (viewer, ids) =>
      Effect.gen(function*() {
        const found = Array.from(new Set(yield* shown(viewer, ids)))
        const known = found.length > 0 ? yield* read(Viewer.tenantOf(viewer), found) : []
        const uses = new Map(found.map((id, n) => [id, known[n]!])) // one each
        return ids.map((id) => uses.get(id) ?? { count: 0 })
      })
  }
}

const inProcess = (get: Get): Pick<Service, "touch" | "uses"> => {
  const table = new Map<string, Uses>()
  // includes the scope: an erased record's id may be used in another scope, whose viewers must not see the old count
  const keyOf = (viewer: Viewer.Any, { id, scope }: MemoryRecord) =>
    `${Viewer.tenantOf(viewer)}/${id}/${scopeKey(scope)}`

  return {
    touch: (viewer, ids) =>
      Effect.gen(function*() {
        const accessedAt = yield* Clock.currentTimeMillis
        const found = yield* get(viewer, ids)
        for (const record of found) {
          if (Option.isNone(record)) continue
          const key = keyOf(viewer, record.value)
          const count = (table.get(key)?.count ?? 0) + 1
          table.delete(key) // to the end: a Map keeps the order of insertion
          table.set(key, { count, accessedAt })
        }
        for (const key of table.keys()) {
          if (table.size <= capacity) break
          table.delete(key)
        }
      }),
    uses: (viewer, ids) =>
      Effect.map(
        get(viewer, ids),
        (found) =>
          found.map((record): Uses => (Option.isSome(record) && table.get(keyOf(viewer, record.value))) || { count: 0 })
      )
  }
}
