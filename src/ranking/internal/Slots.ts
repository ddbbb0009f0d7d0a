/**
 * The slots of an index: a slot is the number of one of its records. Columns of numbers by slot, the order of time, the scopes,
 * and the best few of many slots.
 */
import type { MemoryId } from "../../domain/MemoryId.ts"
import { type MemoryRecord, recencyOf } from "../../domain/MemoryRecord.ts"
import * as MemoryScope from "../../domain/MemoryScope.ts"
import * as Viewer from "../../domain/Viewer.ts"
import type { Position } from "../Retrieval.ts"

/** A typed array that grows as it is written to. A number that was never set is 0. */
export class GrowableArray<A extends Int32Array | Float64Array | Uint8Array | Uint16Array> {
  /** The array. Replaced when it grows: read it anew after `set`. */
  data: A
  readonly #make: (length: number) => A

  constructor(make: (length: number) => A, data = make(4)) {
    this.#make = make
    this.data = data
  }

  set(at: number, value: number): void {
    if (at >= this.data.length) {
      const grown = this.#make(Math.max(at + 1, this.data.length * 2))
      grown.set(this.data)
      this.data = grown
    }
    this.data[at] = value
  }
}

/** Makes a column of whole numbers. */
export const int32 = (data?: Int32Array): GrowableArray<Int32Array> =>
  new GrowableArray((length) => new Int32Array(length), data)
/** Makes a column of numbers. */
export const float64 = (): GrowableArray<Float64Array> => new GrowableArray((length) => new Float64Array(length))

/** The slots of an index in the order of their records' time. A slot stays in it when its record is removed. */
export class RecencyIndex {
  readonly #recency = float64()
  readonly #ids: Array<MemoryId> = []
  /** The first `#sorted` are in order, oldest first: what comes is mostly newest, and is added at the end. */
  readonly #slots: Array<number> = []
  #sorted = 0

  add(slot: number, record: Pick<MemoryRecord, "id" | "createdAt" | "updatedAt">): void {
    this.#recency.set(slot, recencyOf(record))
    this.#ids[slot] = record.id
    const last = this.#slots.at(-1)
    const isNext = this.#sorted === this.#slots.length && (last === undefined || this.newestFirst(slot, last) < 0)
    this.#slots.push(slot)
    if (isNext) this.#sorted++
  }

  /** `recencyOf` by slot. */
  get recencies(): Float64Array {
    return this.#recency.data
  }

  readonly newestFirst = (a: number, b: number): number =>
    this.#recency.data[b]! - this.#recency.data[a]! || (this.#ids[a]! < this.#ids[b]! ? -1 : 1)

  /** Every slot, oldest first, dead ones included. Cost: what came out of order since, and what is newer than the oldest of that. */
  all(): ReadonlyArray<number> {
    if (this.#sorted === this.#slots.length) return this.#slots
    const late = this.#slots.splice(this.#sorted)
    const oldest = late.reduce((oldest, slot) => this.newestFirst(slot, oldest) > 0 ? slot : oldest)
    let low = 0
    let high = this.#slots.length
    while (low < high) {
      const middle = (low + high) >>> 1
      if (this.newestFirst(this.#slots[middle]!, oldest) < 0) high = middle
      else low = middle + 1
    }
    const moved = this.#slots.splice(low).concat(late).sort((a, b) => this.newestFirst(b, a))
    for (const slot of moved) this.#slots.push(slot)
    this.#sorted = this.#slots.length
    return this.#slots
  }

  /** Returns how many of some slots, given oldest first, come after a position in the order of a page: newest first. */
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

/** The scopes of an index by number, so that each slot needs only a number, and what a viewer sees is a set of numbers. */
export class ScopeIndex {
  readonly all: Array<MemoryScope.MemoryScope> = []
  readonly #numbers = new Map<string, number>()
  /** The scopes that have an id, by the key of that id alone: `userId=ada`. */
  readonly #having = new Map<string, Array<number>>()

  /** Returns the number of a scope, counted from 0; equal scopes have the same. */
  numberOf(scope: MemoryScope.MemoryScope): number {
    const key = MemoryScope.key(scope)
    const known = this.#numbers.get(key)
    if (known !== undefined) return known
    const number = this.all.push(scope) - 1
    this.#numbers.set(key, number)
    if (scope === MemoryScope.Global) return number
    for (const id of idsOf(scope)) {
      const having = this.#having.get(id)
      if (having) having.push(number)
      else this.#having.set(id, [number])
    }
    return number
  }

  /**
   * Returns the numbers of the scopes in sight; `undefined` stands for all of them. Cost: for `Scopes` a look-up for each key, for
   * `Within` the scopes that have the rarest of its ids, for `Everyone` all scopes, if there are internal ones.
   */
  seenBy(visibility: Viewer.Visibility): ReadonlyArray<number> | undefined {
    switch (visibility._tag) {
      case "All":
        return undefined
      case "Everyone":
        return this.#numbers.has(internal) ? this.#included(visibility, this.all.keys()) : undefined
      case "Scopes":
        return visibility.keys.flatMap((key) => this.#numbers.get(key) ?? [])
      case "Within": {
        const ids = idsOf(visibility.ids)
        const having = ids.map((id) => this.#having.get(id) ?? [])
        const fewest = having.reduce((least, scopes) => scopes.length < least.length ? scopes : least)
        return ids.length === 1 ? fewest : this.#included(visibility, fewest)
      }
    }
  }

  #included(visibility: Viewer.Visibility, numbers: Iterable<number>): ReadonlyArray<number> {
    const includes = Viewer.includes(visibility)
    return Array.from(numbers).filter((number) => includes(this.all[number]!))
  }
}

const internal = MemoryScope.key(MemoryScope.Internal)

const idsOf = (ids: MemoryScope.Ids): ReadonlyArray<string> =>
  MemoryScope.fields.flatMap((field) => ids[field] === undefined ? [] : [MemoryScope.key({ [field]: ids[field] })])

/** Most slots that a scope is given at once. */
const mostRoom = 1_024

/**
 * Slots of the documents of each scope. Those of one scope lie side by side, so that a question that walks scope by scope reads and
 * writes what is in the processor's nearest cache: a scope that has filled its slots is given as many again, up to 1,024.
 */
export class ScopeSlots {
  /** Slots given to scopes: those of documents, of removed ones, and those that wait for one. */
  end = 0
  // columns by scope
  /** The slot of its last document, plus 1; how many slots wait behind that; and how many documents came. */
  readonly #last = int32()
  readonly #room = int32()
  readonly #filled = int32()
  /** Slot before in the same scope, plus 1, by slot. */
  readonly #before = int32()

  /** Returns the slot of a scope's next document; where that is new, `end` grows. */
  next(scope: number): number {
    if (this.last(scope) >= 0 && this.#room.data[scope]! > 0) {
      this.#room.data[scope]! -= 1
      return this.#last.data[scope]!
    }
    const room = this.last(scope) < 0 ? 1 : Math.min(mostRoom, this.#filled.data[scope]!)
    this.#room.set(scope, room - 1)
    this.end += room
    return this.end - room
  }

  /** Takes a slot for a document of a scope. */
  take(scope: number, slot: number): void {
    const last = this.last(scope)
    this.#before.set(slot, last + 1)
    this.#filled.set(scope, last < 0 ? 1 : this.#filled.data[scope]! + 1)
    this.#last.set(scope, slot + 1)
    this.#room.set(scope, last < 0 ? 0 : this.#room.data[scope]!)
    if (slot >= this.end) this.end = slot + 1
  }

  /** The slot of a scope's last document; −1: none. */
  last(scope: number): number {
    return scope < this.#last.data.length ? this.#last.data[scope]! - 1 : -1
  }
  /** The slot before in the same scope; −1: none. */
  before(slot: number): number {
    return this.#before.data[slot]! - 1
  }
}

/** The `limit`-th best score so far, which the next one must exceed to matter. */
export class Bar {
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
): Array<number> => bestOf(slots, count, scores, limit, tie).sort((a, b) => scores[b]! - scores[a]! || tie(a, b))

/** Number of intervals into which the scores of many slots are sorted, so that few are looked at more closely. */
const intervals = 256
const histogram = new Int32Array(intervals + 1)

/** The same where there are many: those below the interval of the `limit`-th best score cannot be among the best. */
const bestOfMany = (
  slots: Int32Array,
  count: number,
  scores: Float64Array,
  limit: number,
  tie: (a: number, b: number) => number
): Array<number> => {
  let most = 0
  for (let i = 0; i < count; i++) if (scores[slots[i]!]! > most) most = scores[slots[i]!]!
  const scale = intervals / most // 0 or less lies in the first interval, and no other number is a score
  histogram.fill(0)
  for (let i = 0; i < count; i++) histogram[(scores[slots[i]!]! * scale) | 0]!++
  let least = intervals
  for (let above = histogram[least]!; least > 0 && above < limit; above += histogram[least]!) least--
  const close: Array<number> = []
  for (let i = 0; i < count; i++) if (((scores[slots[i]!]! * scale) | 0) >= least) close.push(slots[i]!)
  return bestOfFew(new Int32Array(close), close.length, scores, limit, tie)
}

/** Returns the same slots, in no order that means anything. */
export const bestOf = (
  slots: Int32Array,
  count: number,
  scores: Float64Array,
  limit: number,
  tie: (a: number, b: number) => number
): Array<number> =>
  count <= limit
    ? Array.from(slots.subarray(0, count))
    : limit >= 160 && count > 4 * limit
    ? bestOfMany(slots, count, scores, limit, tie)
    : bestOfFew(slots, count, scores, limit, tie)

const bestOfFew = (
  slots: Int32Array,
  count: number,
  scores: Float64Array,
  limit: number,
  tie: (a: number, b: number) => number
): Array<number> => {
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
  return best.concat(equal.sort(tie).slice(0, wanted))
}

/**
 * The slots that may still be among the best `limit`, judged by the least and the most that a score can be: those that could
 * reach the bar, which is the `limit`-th best least score so far. None of the best is ever lost, ties included.
 */
export class TopKBounds {
  readonly #bar: Bar
  readonly #slots: Array<number> = []
  readonly #most: Array<number> = []

  /** `limit`: at least 1. */
  constructor(limit: number) {
    this.#bar = new Bar(limit)
  }

  /** The score that the next slot must be able to reach. */
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

  /** The slots that may be among the best, in the order in which they came. */
  get all(): Array<number> {
    return this.#slots.filter((_, i) => this.#most[i]! >= this.#bar.value)
  }
}

/** Puts those of the first `count` slots that pass first, and returns how many do. */
export const narrow = (slots: Int32Array, count: number, passes: (slot: number) => boolean): number => {
  let kept = 0
  for (let i = 0; i < count; i++) {
    const slot = slots[i]!
    if (!passes(slot)) continue
    slots[i] = slots[kept]!
    slots[kept++] = slot
  }
  return kept
}
