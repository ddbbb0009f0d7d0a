/** Slots in the order of every list and every tie: newest first, then id. */
import type { MemoryId } from "../../../src/domain/MemoryId.ts"
import { type MemoryRecord, recencyOf } from "../../../src/domain/MemoryRecord.ts"
import type { Position } from "../../../src/ranking/Retrieval.ts"
import { float64 } from "./Column.ts"

export class Timeline {
  readonly #recency = float64()
  readonly #ids: Array<MemoryId> = []
  /** Oldest first: what comes is mostly newest, and is added at the end. */
  readonly #slots: Array<number> = []
  #isSorted = true

  add(slot: number, record: MemoryRecord): void {
    const last = this.#slots.at(-1)
    this.#recency.set(slot, recencyOf(record))
    this.#ids[slot] = record.id
    this.#slots.push(slot)
    this.#isSorted &&= last === undefined || this.newestFirst(slot, last) < 0
  }

  readonly newestFirst = (a: number, b: number): number =>
    this.#recency.data[b]! - this.#recency.data[a]! || (this.#ids[a]! < this.#ids[b]! ? -1 : 1)

  /** Every slot, oldest first, dead ones included. Sorts where something came out of order since. */
  all(): ReadonlyArray<number> {
    if (!this.#isSorted) this.#slots.sort((a, b) => this.newestFirst(b, a))
    this.#isSorted = true
    return this.#slots
  }

  /** Of slots that are oldest first: how many come after that place, newest first. */
  after(slots: ReadonlyArray<number>, { id, recency }: Position): number {
    let low = 0
    let high = slots.length
    while (low < high) {
      const middle = (low + high) >>> 1
      const newer = this.#recency.data[slots[middle]!]! - recency
      if (newer < 0 || (newer === 0 && this.#ids[slots[middle]!]! > id)) low = middle + 1
      else high = middle
    }
    return low
  }
}
