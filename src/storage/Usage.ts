/** When a record was last used, and how often: a side table in this process, lost with it. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { MemoryError } from "../domain/MemoryError.ts"
import type { MemoryId } from "../domain/MemoryId.ts"
import type { MemoryRecord } from "../domain/MemoryRecord.ts"
import * as Viewer from "../domain/Viewer.ts"
import type { Service, Uses } from "./MemoryStore.ts"

/** Records remembered; then the one touched longest ago is dropped. */
const capacity = 100_000

export const make = (
  get: (
    viewer: Viewer.Any,
    ids: ReadonlyArray<MemoryId>
  ) => Effect.Effect<ReadonlyArray<Option.Option<MemoryRecord>>, MemoryError>
): Pick<Service, "touch" | "uses"> => {
  const table = new Map<string, Uses>()
  const keyOf = (viewer: Viewer.Any, id: MemoryId) => `${Viewer.tenantOf(viewer)}/${id}`

  return {
    touch: (viewer, ids) =>
      Effect.gen(function*() {
        const accessedAt = yield* Clock.currentTimeMillis
        const found = yield* get(viewer, ids)
        ids.forEach((id, i) => {
          if (Option.isNone(found[i]!)) return
          const key = keyOf(viewer, id)
          const count = (table.get(key)?.count ?? 0) + 1
          table.delete(key) // to the end: a Map keeps the order of insertion
          table.set(key, { count, accessedAt })
        })
        for (const key of table.keys()) {
          if (table.size <= capacity) break
          table.delete(key)
        }
      }),
    uses: (viewer, ids) =>
      Effect.map(
        get(viewer, ids),
        (found) => ids.map((id, i): Uses => (Option.isSome(found[i]!) && table.get(keyOf(viewer, id))) || { count: 0 })
      )
  }
}
