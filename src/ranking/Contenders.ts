/**
 * Who may still be among the best `limit`, judged by the least and the most that a score can be: whoever could reach the
 * bar, which is the `limit`-th best least score so far. None of the best is ever lost, ties included.
 */
export class Contenders {
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
