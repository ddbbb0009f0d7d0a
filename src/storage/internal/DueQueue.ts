/** Rows in the order in which compaction may erase them. */
import type { Due } from "../Engine.ts"

/** Orders by time, then by tenant and id. */
export const byTime = (a: Due, b: Due): number => a.at - b.at || compare(a.tenant, b.tenant) || compare(a.id, b.id)

const compare = (a: string, b: string): number => a < b ? -1 : a > b ? 1 : 0

/** Returns up to `limit` of sorted rows, after one of them. */
export const dueAfter = (sorted: ReadonlyArray<Due>, after: Due | undefined, limit: number): ReadonlyArray<Due> => {
  const from = after === undefined ? 0 : sorted.findIndex((row) => byTime(row, after) > 0)
  return from < 0 ? [] : sorted.slice(from, from + limit)
}

/** A heap of rows. Rows that have moved on stay in it until they come up, or are most of it. */
export interface DueQueue {
  /** Cost: the logarithm of the size. */
  readonly add: (row: Due) => void
  /** Returns the next rows in order, after one of them. Cost: those up to the last, and their logarithm. */
  readonly next: (after: Due | undefined, limit: number) => ReadonlyArray<Due>
}

/** Makes an empty queue. `isCurrent` says whether a row still is what it was when it was added. */
export const make = (isCurrent: (row: Due) => boolean): DueQueue => {
  let heap: Array<Due> = []
  /** Size at which rows that have moved on are looked for. */
  let full = 1_024

  const swap = (i: number, j: number) => {
    const row = heap[i]!
    heap[i] = heap[j]!
    heap[j] = row
  }
  const up = (from: number) => {
    let at = from
    while (at > 0) {
      const above = (at - 1) >> 1
      if (byTime(heap[at]!, heap[above]!) >= 0) return
      swap(at, above)
      at = above
    }
  }
  const down = () => {
    let at = 0
    for (;;) {
      let least = at
      for (const below of [2 * at + 1, 2 * at + 2]) {
        if (below < heap.length && byTime(heap[below]!, heap[least]!) < 0) least = below
      }
      if (least === at) return
      swap(at, least)
      at = least
    }
  }
  const add = (row: Due) => {
    heap.push(row)
    up(heap.length - 1)
  }
  const pop = (): Due | undefined => {
    const first = heap[0]
    const last = heap.pop()
    if (first === undefined || last === undefined || heap.length === 0) return first
    heap[0] = last
    down()
    return first
  }

  return {
    add(row) {
      if (heap.length >= full) {
        heap = heap.filter(isCurrent).sort(byTime) // sorted, an array is a heap
        full = 1_024 + 2 * heap.length
      }
      add(row)
    },
    next(after, limit) {
      const seen: Array<Due> = []
      const found: Array<Due> = []
      while (found.length < limit) {
        const row = pop()
        if (row === undefined) break
        const last = seen.at(-1)
        if (!isCurrent(row) || (last && byTime(last, row) === 0)) continue // a row may have been added twice
        seen.push(row)
        if (after === undefined || byTime(row, after) > 0) found.push(row)
      }
      for (const row of seen) add(row)
      return found
    }
  }
}
