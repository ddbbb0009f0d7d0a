/** When a record was last used, and how often: a side table in this process, lost with it. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { MemoryError } from "../domain/MemoryError.ts"
import type { MemoryId } from "../domain/MemoryId.ts"
import type { MemoryRecord } from "../domain/MemoryRecord.ts"
import { key as scopeKey } from "../domain/MemoryScope.ts"
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
