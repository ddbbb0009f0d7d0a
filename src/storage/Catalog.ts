/** What is known of one tenant in memory: the index of what is there, and who holds which dedupe key. */
import type { MemoryId } from "../domain/MemoryId.ts"
import type { MemoryKind } from "../domain/MemoryKind.ts"
import { isExpired, isValidAt } from "../domain/MemoryRecord.ts"
import * as MemoryIndex from "../ranking/MemoryIndex.ts"
import type { Stored } from "./MemoryStore.ts"

export interface Catalog {
  readonly index: MemoryIndex.MemoryIndex
  /** The row of an id is now this one; `undefined`: there is none. */
  readonly set: (id: MemoryId, row: Stored | undefined) => void
  /** Who holds the key, and is live at `now`: neither forgotten, expired nor closed. */
  readonly holder: (dedupeKey: string, now: number) => MemoryId | undefined
}

export const make = (kinds: ReadonlyMap<string, MemoryKind>): Catalog => {
  const index = MemoryIndex.make({ kinds })
  const keyOf = new Map<MemoryId, string>()
  const holders = new Map<string, Set<MemoryId>>()

  const release = (id: MemoryId) => {
    const key = keyOf.get(id)
    if (key === undefined) return
    keyOf.delete(id)
    const ids = holders.get(key)
    ids?.delete(id)
    if (ids?.size === 0) holders.delete(key)
  }

  return {
    index,
    set(id, row) {
      release(id)
      if (row === undefined || row.forgotten) {
        index.remove(id)
        return
      }
      index.add(row.record)
      if (row.dedupeKey === undefined) return
      keyOf.set(id, row.dedupeKey)
      const ids = holders.get(row.dedupeKey)
      if (ids) ids.add(id)
      else holders.set(row.dedupeKey, new Set([id]))
    },
    holder(dedupeKey, now) {
      for (const id of holders.get(dedupeKey) ?? []) {
        const record = index.get(id)
        if (record && !isExpired(record, now) && isValidAt({ ...record, validAt: 0 }, now)) return id
      }
      return undefined
    }
  }
}
