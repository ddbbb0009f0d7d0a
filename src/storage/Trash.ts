/**
 * The trash of a store: what was forgotten, from the moment its tombstone is written until compaction erases it.
 *
 * Laws: a tombstone is erased once it is older than the store's `trash`, and a record that has expired without it. Whatever
 * the list shows a viewer, the viewer can restore:
 *
 * ```ts
 * import { Effect } from "effect"
 * import { MemoryStore, Viewer } from "effect-memory"
 *
 * const ada = Viewer.make({ userId: "ada" })
 *
 * const program = Effect.gen(function*() {
 *   const store = yield* MemoryStore.MemoryStore
 *   yield* store.put(ada, [{ scope: { userId: "ada" }, kind: "reference", body: "The key lies under the mat." }])
 *   const { items } = yield* store.list(ada, {})
 *   yield* store.forget(ada, items.map(({ id }) => id))
 *
 *   const trash = yield* store.list(ada, { forgotten: true })
 *   yield* store.apply(ada, trash.items.map(({ id, revision }) => ({ _tag: "Restore", id, revision })))
 *   return (yield* store.list(ada, {})).items.map(({ body }) => body)
 * })
 *
 * const restored = await program.pipe(Effect.provide(MemoryStore.layerInMemory), Effect.runPromise)
 *
 * restored // => ["The key lies under the mat."]
 * ```
 */
import type * as Duration from "effect/Duration"
import { matches, type MemoryFilter, type Page } from "../domain/MemoryFilter.ts"
import { byRecency, isExpired, type MemoryRecord, recencyOf } from "../domain/MemoryRecord.ts"
import * as Viewer from "../domain/Viewer.ts"
import * as Cursor from "../ranking/Cursor.ts"
import { defaultLimit } from "../ranking/MemoryIndex.ts"
import type { Stored } from "./MemoryStore.ts"

/** How long a store keeps what was forgotten, unless it is told otherwise. */
export const defaultTrash: Duration.DurationInput = "30 days"

/**
 * Returns the time in epoch milliseconds from which compaction may erase the row; `Infinity` if it never may. `trash` is in
 * milliseconds. A tombstone's time is its record's `updatedAt`.
 */
export const erasableAt = ({ forgotten, record }: Stored, trash: number): number =>
  Math.min(
    record.expiresAt ?? Infinity,
    forgotten ? (trash === 0 ? 0 : recencyOf(record) + trash) : Infinity // 0 holds although the clock was set back
  )

/**
 * Returns a page of the tombstones that the viewer may restore, newest forgotten first, then by id. `filter.after` is a
 * cursor of this list. Whether a record is still true is not asked, unless the filter says `asOf`. The library is shown
 * tombstones of instructions, and expired ones, as well. `undefined`: `after` is no cursor of this viewer and filter.
 * Cost: all rows given, and sorting those that match.
 */
export const list = (
  rows: ReadonlyArray<Stored>,
  viewer: Viewer.Any,
  filter: MemoryFilter,
  now: number
): Page<MemoryRecord> | undefined => {
  const after = filter.after === undefined ? undefined : Cursor.read(viewer, filter, filter.after)
  if (filter.after !== undefined && after === undefined) return undefined
  const limit = filter.limit ?? defaultLimit
  const isMeant = matches(filter, undefined)
  const isBeyond = (record: MemoryRecord) =>
    after === undefined || byRecency({ id: after.id, createdAt: after.recency }, record) < 0
  const all = rows.flatMap(({ forgotten, record }) =>
    forgotten && isRestorable(viewer, record, now) && isMeant(record) && isBeyond(record) ? [record] : []
  ).sort(byRecency)
  const items = all.slice(0, limit)
  const last = items.at(-1)
  return last === undefined || all.length <= limit
    ? { items }
    : { items, next: Cursor.make(viewer, filter, { recency: recencyOf(last), id: last.id }) }
}

const isRestorable = (viewer: Viewer.Any, record: MemoryRecord, now: number): boolean =>
  Viewer.isSystem(viewer) ||
  (Viewer.sees(viewer, record.scope) && record.source.origin !== "instructions" && !isExpired(record, now))
