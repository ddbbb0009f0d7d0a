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
import { recencyOf } from "../domain/MemoryRecord.ts"
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
