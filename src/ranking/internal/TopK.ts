/** The best few of many: by exact scores, and by bounds of scores that are not computed yet. */

/** The `limit`-th best score so far, which the next one must exceed to matter. */
class Bar {
  /** −Infinity until there are `limit` scores. */
  value = -Infinity
  readonly #limit: number
  /** The best `limit` scores, a heap: the worst of them first. */
  readonly #heap: Array<number> = []

  constructor(limit: number) {
    this.#limit = limit
  }

  /** Cost: the logarithm of `limit` where the score raises the bar, nothing to speak of otherwise. */
  offer(score: number): void {
    if (this.#heap.length < this.#limit) this.#rise(score)
    else if (score > this.value) this.#sink(score)
    if (this.#heap.length === this.#limit) this.value = this.#heap[0]!
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

/**
 * Returns the best `limit` of the first `count` slots: highest score first, ties as `tie` has them. Cost: a comparison for
 * most, and for those that share the `limit`-th best score a call of `tie`.
 */
export const topK = (
  slots: Int32Array,
  count: number,
  scores: Float64Array,
  limit: number,
  tie: (a: number, b: number) => number
): Array<number> => {
  const order = (a: number, b: number) => scores[b]! - scores[a]! || tie(a, b)
  if (count <= limit) return Array.from(slots.subarray(0, count)).sort(order)
  const bar = new Bar(limit)
  let reach = -Infinity // no closure sees it: it would be slow in this loop
  const reached: Array<number> = []
  for (let i = count - 1; i >= 0; i--) { // the newest slots last: ties are won by what is new
    const slot = slots[i]!
    const score = scores[slot]!
    if (score < reach) continue
    reached.push(slot)
    if (score === reach) continue
    bar.offer(score)
    reach = bar.value
  }
  const least = reach
  const best = reached.filter((slot) => scores[slot]! > least)
  const wanted = limit - best.length // 1 at least
  const equal: Array<number> = []
  let last = -1
  for (const slot of reached) {
    if (scores[slot]! !== least || (last >= 0 && tie(last, slot) < 0)) continue
    if (equal.push(slot) < 4 * wanted) continue
    equal.sort(tie).length = wanted
    last = equal[wanted - 1]!
  }
  return best.sort(order).concat(equal.sort(tie).slice(0, wanted))
}

/**
 * The slots that may still be among the best `limit`, judged by the least and the most that a score can be: those that could
 * reach the bar, which is the `limit`-th best least score so far. None of the best is ever lost, ties included.
 */
export class TopKBounds {
  readonly #bar: Bar
  readonly #slots: Array<number> = []
  readonly #most: Array<number> = []

  /** At least 1. */
  constructor(limit: number) {
    this.#bar = new Bar(limit)
  }

  /** What the next one must be able to reach. */
  get bar(): number {
    return this.#bar.value
  }

  /** Cost: the logarithm of `limit` where it raises the bar, nothing to speak of otherwise. */
  offer(slot: number, least: number, most: number): void {
    if (most < this.#bar.value) return
    this.#slots.push(slot)
    this.#most.push(most)
    this.#bar.offer(least)
  }

  /** As they came. */
  get all(): Array<number> {
    return this.#slots.filter((_, i) => this.#most[i]! >= this.#bar.value)
  }
}
