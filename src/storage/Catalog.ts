/** What is known of one tenant in memory: its rows, who holds which dedupe key, and the index, made when first asked for. */
import type { MemoryId } from "../domain/MemoryId.ts"
import type { MemoryKind } from "../domain/MemoryKind.ts"
import { isExpired, isValidAt } from "../domain/MemoryRecord.ts"
import * as MemoryIndex from "../ranking/MemoryIndex.ts"
import type { Stored } from "./MemoryStore.ts"

export interface Catalog {
  /** Of what is live or expired; the first to ask waits for it to be built. */
  readonly index: () => MemoryIndex.MemoryIndex
  /** The row of an id is now this one; `undefined`: there is none. */
  readonly set: (id: MemoryId, row: Stored | undefined) => void
  /** Rows, tombstones not among them. */
  readonly size: () => number
  /** Who holds the key, and is live at `now`: neither forgotten, expired nor closed. */
  readonly holder: (dedupeKey: string, now: number) => MemoryId | undefined
}

export const make = (kinds: ReadonlyMap<string, MemoryKind>): Catalog => {
  const rows = new Map<MemoryId, Stored>()
  const holders = new Map<string, ReadonlyArray<MemoryId>>()
  let index: MemoryIndex.MemoryIndex | undefined

  const release = (id: MemoryId) => {
    const key = rows.get(id)?.dedupeKey
    if (key === undefined) return
    const rest = (holders.get(key) ?? []).filter((other) => other !== id)
    if (rest.length > 0) holders.set(key, rest)
    else holders.delete(key)
  }

  return {
    index() {
      if (index === undefined) {
        index = MemoryIndex.make({ kinds })
        for (const { record } of rows.values()) index.add(record)
      }
      return index
    },
    set(id, row) {
      release(id)
      if (row === undefined || row.forgotten) {
        rows.delete(id)
        index?.remove(id)
        return
      }
      rows.set(id, row)
      index?.add(row.record)
      if (row.dedupeKey !== undefined) holders.set(row.dedupeKey, [...(holders.get(row.dedupeKey) ?? []), id])
    },
    size: () => rows.size,
    holder: (dedupeKey, now) =>
      holders.get(dedupeKey)?.find((id) => {
        const record = rows.get(id)?.record
        return record !== undefined && !isExpired(record, now) &&
          isValidAt({ validAt: 0, invalidAt: record.invalidAt }, now)
      })
  }
}
