/** Sorts the doc ids of an index by the recency of their records (`MemoryRecord.byRecency`). Doc ids of removed records stay. */
import type { MemoryId } from "../../domain/MemoryId.ts"
import { type MemoryRecord, newestFirst, recencyOf } from "../../domain/MemoryRecord.ts"
import type { Position } from "../Retrieval.ts"
import { float64 } from "./DocIds.ts"
import type { Steps } from "./IndexCodec.ts"

/** Greatest length of a new run: a sorted array of doc ids from `#late`. A step of a merge adds at most this many doc ids to its result. */
const longest = 1_024

/** The sorted doc ids of one index. */
export class RecencyIndex {
  readonly #recency = float64()
  readonly #ids: Array<MemoryId> = []
  /** Sorted doc ids, oldest first. A new record is usually the newest, so its doc id is appended. */
  readonly #docs: Array<number> = []
  /**
   * Doc ids of the newest records, if several have the same time and were added by ascending id, as in a batch. `#docs` does not have these
   * doc ids; `#endTies` moves them to `#docs` in reverse order. The array is empty while `#late` or `#runs` has doc ids.
   */
  readonly #ties: Array<number> = []
  /** Unsorted doc ids: the first added out of order, and all later ones until `#isSorted()` is true. 1,024 of them become a run. */
  #late: Array<number> = []
  /** Sorted runs of doc ids that are not in `#docs` yet. */
  readonly #runs: Array<Int32Array> = []
  /** The merge of the runs, while it is in progress. */
  #merging: Steps<void> | undefined

  add(doc: number, record: Pick<MemoryRecord, "id" | "createdAt" | "updatedAt">): void {
    this.#recency.set(doc, recencyOf(record))
    this.#ids[doc] = record.id
    if (this.#isSorted() && this.#addTie(doc)) return
    this.#endTies()
    const last = this.#docs.at(-1)
    const isNext = this.#isSorted() && (last === undefined || this.newestFirst(doc, last) < 0)
    if (isNext) this.#docs.push(doc)
    else if (this.#late.push(doc) === longest) this.#endRun()
  }

  /** Adds a doc id to `#ties` if it belongs there. Returns whether it was added. */
  #addTie(doc: number): boolean {
    const { data } = this.#recency
    const last = this.#ties.at(-1) ?? this.#docs.at(-1)
    if (last === undefined || data[doc] !== data[last] || this.#ids[doc]! < this.#ids[last]!) return false
    if (this.#ties.length === 0) {
      const before = this.#docs.at(-2)
      if (before !== undefined && data[before] === data[last]) return false
      this.#ties.push(this.#docs.pop()!) // the popped doc id is `last`
    }
    this.#ties.push(doc)
    return true
  }

  #endTies(): void {
    for (let doc = this.#ties.pop(); doc !== undefined; doc = this.#ties.pop()) this.#docs.push(doc)
  }

  /** Compares two doc ids to break ties of a ranking: newest first, then by id, like `MemoryRecord.byRecency`. */
  readonly newestFirst = (a: number, b: number): number =>
    newestFirst(this.#recency.data[a]!, this.#ids[a]!, this.#recency.data[b]!, this.#ids[b]!)

  /**
   * Returns all doc ids, oldest first, including those of removed records. First merges the doc ids that are not in `#docs` yet. The merge
   * with `#docs` costs one pass over the doc ids that are newer than the oldest merged one.
   */
  all(): ReadonlyArray<number> {
    this.#endTies()
    if (this.#late.length > 0) this.#endRun()
    if (this.#isSorted()) return this.#docs
    const merging = this.#merging ??= this.#merge()
    while (merging.next().done !== true);
    return this.#docs
  }

  /** Merges the runs in steps, so that `all` has little left to do. Doc ids may be added between the steps. */
  *sorting(): Steps<void> {
    while (this.#runs.length > 0 || this.#merging !== undefined) {
      const { done, value } = (this.#merging ??= this.#merge()).next() // `all` may have finished this merge
      if (done !== true) yield value
    }
  }

  #isSorted(): boolean {
    return this.#late.length + this.#runs.length === 0 && this.#merging === undefined
  }

  #endRun(): void {
    this.#runs.push(Int32Array.from(this.#late.sort((a, b) => this.newestFirst(b, a))))
    this.#late = []
  }

  /** Merges the runs in pairs, and then the last run with `#docs`. `add` does not change `#docs` meanwhile. */
  *#merge(): Steps<void> {
    for (let run = this.#runs.shift(); run !== undefined; run = this.#runs.shift()) {
      const other = this.#runs.shift()
      if (other !== undefined) {
        this.#runs.push(yield* this.#merged(run, other))
        continue
      }
      const oldest = { id: this.#ids[run[0]!]!, recency: this.#recency.data[run[0]!]! }
      const newer = Int32Array.from(this.#docs.splice(this.after(this.#docs, oldest)))
      yield newer.length >> 4
      const all = yield* this.#merged(newer, run)
      for (let at = 0; at < all.length; at++) {
        this.#docs.push(all[at]!)
        if (at % longest === longest - 1) yield longest >> 3
      }
    }
    this.#merging = undefined
  }

  *#merged(one: Int32Array, other: Int32Array): Steps<Int32Array> {
    const all = new Int32Array(one.length + other.length)
    for (let at = 0, i = 0, j = 0; at < all.length;) {
      const recency = this.#recency.data // the array may have been replaced since the last step
      for (const end = Math.min(all.length, at + longest); at < end; at++) {
        const later = recency[one[i]!]! - recency[other[j]!]! // NaN if the end of `one` or `other` is reached
        const isOther = later === 0 ? this.#ids[one[i]!]! < this.#ids[other[j]!]! : later > 0 || i === one.length
        all[at] = isOther ? other[j++]! : one[i++]!
      }
      yield 4 * longest
    }
    return all
  }

  /**
   * Counts the doc ids that come after a position when the newest are first. `docs` is in the opposite order, so these doc ids are its
   * first entries.
   */
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
