/** The doc ids of an index, sorted by `MemoryRecord.byRecency` of their records. Keeps the doc ids of removed records. */
import type { MemoryId } from "../../domain/MemoryId.ts"
import { type MemoryRecord, recencyOf } from "../../domain/MemoryRecord.ts"
import type { Position } from "../Retrieval.ts"
import { float64 } from "./DocIds.ts"

/** Number of doc ids added out of order from which they are sorted into a run. */
const longest = 1_024

/** The sorted doc ids of one index. */
export class RecencyIndex {
  readonly #recency = float64()
  readonly #ids: Array<MemoryId> = []
  /** Sorted doc ids, oldest first. A new record is mostly the newest, so its doc id is appended. */
  readonly #docs: Array<number> = []
  /** Doc ids that were added out of order and are not sorted yet; 1,024 of them become a run. */
  #late: Array<number> = []
  /** Sorted runs of doc ids that were added out of order since the last `all`. Each run is longer than the next, as in a merge sort. */
  readonly #runs: Array<Int32Array> = []

  add(doc: number, record: Pick<MemoryRecord, "id" | "createdAt" | "updatedAt">): void {
    this.#recency.set(doc, recencyOf(record))
    this.#ids[doc] = record.id
    const last = this.#docs.at(-1)
    const isNext = this.#isSorted() && (last === undefined || this.newestFirst(doc, last) < 0)
    if (isNext) this.#docs.push(doc)
    else if (this.#late.push(doc) === longest) this.#endRun()
  }

  readonly newestFirst = (a: number, b: number): number =>
    this.#recency.data[b]! - this.#recency.data[a]! || (this.#ids[a]! < this.#ids[b]! ? -1 : 1)

  /** Returns every doc id, oldest first, removed ones included. Cost: merges late doc ids with those newer than the oldest of them. */
  all(): ReadonlyArray<number> {
    if (this.#isSorted()) return this.#docs
    if (this.#late.length > 0) this.#endRun()
    const late = this.#runs.reduceRight((late, run) => this.#merged(run, late))
    this.#runs.length = 0
    const oldest = late[0]!
    let low = 0
    let high = this.#docs.length
    while (low < high) {
      const middle = (low + high) >>> 1
      if (this.newestFirst(this.#docs[middle]!, oldest) < 0) high = middle
      else low = middle + 1
    }
    for (const doc of this.#merged(Int32Array.from(this.#docs.splice(low)), late)) this.#docs.push(doc)
    return this.#docs
  }

  #isSorted(): boolean {
    return this.#late.length + this.#runs.length === 0
  }

  /** Sorts the late doc ids into a run, and merges it with the runs before it that are not longer. */
  #endRun(): void {
    let run: Int32Array = Int32Array.from(this.#late.sort((a, b) => this.newestFirst(b, a)))
    this.#late = []
    for (let last = this.#runs.at(-1); last !== undefined && last.length <= run.length; last = this.#runs.at(-1)) {
      run = this.#merged(last, run)
      this.#runs.pop()
    }
    this.#runs.push(run)
  }

  #merged(one: Int32Array, other: Int32Array): Int32Array {
    const all = new Int32Array(one.length + other.length)
    const recency = this.#recency.data
    for (let at = 0, i = 0, j = 0; at < all.length; at++) {
      const later = recency[one[i]!]! - recency[other[j]!]! // NaN once a list is exhausted
      const isOther = later === 0 ? this.#ids[one[i]!]! < this.#ids[other[j]!]! : later > 0 || i === one.length
      all[at] = isOther ? other[j++]! : one[i++]!
    }
    return all
  }

  /** Returns how many of `docs`, which are oldest first, come after a position of a page; a page is newest first. */
  after(docs: ReadonlyArray<number>, { id, recency }: Position): number {
    let low = 0
    let high = docs.length
    while (low < high) {
      const middle = (low + high) >>> 1
      const newer = this.#recency.data[docs[middle]!]! - recency
      if (newer < 0 || (newer === 0 && this.#ids[docs[middle]!]! > id)) low = middle + 1
      else high = middle
    }
    return low
  }
}
