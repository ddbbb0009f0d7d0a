/** The best few of many: by exact scores, and by bounds of scores that are not computed yet. */

/**
 * Returns the best `limit` slots: highest score first, ties as `tie` has them. Sorts a little more than `limit` at a time, and
 * from then on looks only at what beats the last of those. Cost: one comparison for most.
 */
export const topK = (
  slots: Int32Array,
  count: number,
  scores: Float64Array,
  limit: number,
  tie: (a: number, b: number) => number
): Array<number> => {
  const order = (a: number, b: number) => scores[b]! - scores[a]! || tie(a, b)
  const room = 4 * limit
  const best: Array<number> = []
  let last = -1
  let bar = 0
  for (let i = count - 1; i >= 0; i--) { // the newest slots last: ties are won by what is new
    const slot = slots[i]!
    const score = scores[slot]!
    if (score < bar || (score === bar && last >= 0 && tie(last, slot) < 0)) continue
    if (best.push(slot) < room) continue
    best.sort(order).length = limit
    last = best[limit - 1]!
    bar = scores[last]!
  }
  best.sort(order)
  if (best.length > limit) best.length = limit
  return best
}

/**
 * The slots that may still be among the best `limit`, judged by the least and the most that a score can be: those that could
 * reach the bar, which is the `limit`-th best least score so far. None of the best is ever lost, ties included.
 */
export class TopKBounds {
  /** What the next one must be able to reach. */
  bar = -Infinity
  readonly #limit: number
  readonly #slots: Array<number> = []
  readonly #most: Array<number> = []
  /** The best `limit` least scores, a heap: the worst of them first. */
  readonly #heap: Array<number> = []

  /** At least 1. */
  constructor(limit: number) {
    this.#limit = limit
  }

  /** Cost: the logarithm of `limit` where it raises the bar, nothing to speak of otherwise. */
  offer(slot: number, least: number, most: number): void {
    if (most < this.bar) return
    this.#slots.push(slot)
    this.#most.push(most)
    if (this.#heap.length < this.#limit) this.#rise(least)
    else if (least > this.bar) this.#sink(least)
    if (this.#heap.length === this.#limit) this.bar = this.#heap[0]!
  }

  /** As they came. */
  get all(): Array<number> {
    return this.#slots.filter((_, i) => this.#most[i]! >= this.bar)
  }

  #rise(score: number): void {
    const heap = this.#heap
    let at = heap.push(score) - 1
    while (at > 0) {
      const parent = (at - 1) >> 1
      if (heap[parent]! <= score) break
      heap[at] = heap[parent]!
      at = parent
    }
    heap[at] = score
  }

  #sink(score: number): void {
    const heap = this.#heap
    let at = 0
    for (;;) {
      let child = 2 * at + 1
      if (child + 1 < heap.length && heap[child + 1]! < heap[child]!) child++
      if (child >= heap.length || heap[child]! >= score) break
      heap[at] = heap[child]!
      at = child
    }
    heap[at] = score
  }
}
