/**
 * The doc ids of an index: a doc id is the number of one of its records. Columns of numbers by doc id, arenas of their lists,
 * the scopes, and the best few of many.
 */
import * as MemoryScope from "../../domain/MemoryScope.ts"
import * as Viewer from "../../domain/Viewer.ts"

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

/** Numbers of a doc id in a column that holds several of each, side by side. */
export const stride = 4

/** Logarithm of the numbers in a segment. A place is the number of its segment, then that within the segment. */
const bits = 20
const segment = 2 ** bits

/**
 * Blocks of numbers in typed arrays: where the lists of `Postings` lie. The first array grows as it fills; once it is a segment of
 * 4 MB, further ones come beside it, so that no step copies more than one. A block holds twice as many numbers as its size says, and
 * a size is a power of two.
 */
export class Arena {
  readonly #segments: Array<Int32Array> = [new Int32Array(64)]
  /** Place behind the last block. */
  #end = 0
  /** Place of an idle block plus 1, by the logarithm of its size. An idle block holds the next one. */
  readonly #idle = new Int32Array(32)

  /** The array in which the block at a place lies. Replaced when it grows: read it anew after `take`. */
  at(place: number): Int32Array {
    return this.#segments[place >>> bits]!
  }

  /** The index in its array at which the block at a place begins. */
  from(place: number): number {
    return place & (segment - 1)
  }

  /** Most numbers that all blocks together have. */
  get length(): number {
    return this.#end
  }

  /** Returns the place of a block of a size. Its numbers are any. */
  take(size: number): number {
    const rank = 31 - Math.clz32(size)
    const idle = this.#idle[rank]! - 1
    if (idle >= 0) {
      this.#idle[rank] = this.at(idle)[this.from(idle)]!
      return idle
    }
    const room = segment - this.from(this.#end)
    if (2 * size > room) this.#close(room)
    const place = this.#end
    this.#end += 2 * size
    const number = place >>> bits
    const first = this.#segments[0]!
    if (number > 0) {
      this.#segments[number] ??= new Int32Array(Math.max(segment, 2 * size))
      if (2 * size > segment) this.#end = Math.ceil(this.#end / segment) * segment // no other begins in it
    } else if (this.#end > first.length) {
      const grown = new Int32Array(Math.min(segment, Math.max(this.#end, Math.ceil(first.length * 1.5))))
      grown.set(first)
      this.#segments[0] = grown
    }
    return place
  }

  /** Gives a block back. */
  give(place: number, size: number): void {
    const rank = 31 - Math.clz32(size)
    this.at(place)[this.from(place)] = this.#idle[rank]!
    this.#idle[rank] = place + 1
  }

  /** Makes idle blocks of what is left of a segment, so that the next block begins another. */
  #close(room: number): void {
    const number = this.#end >>> bits
    if (number > 0 && room === segment) return // nothing lies in it
    if (number === 0 && this.#segments[0]!.length < segment) {
      const grown = new Int32Array(segment)
      grown.set(this.#segments[0]!)
      this.#segments[0] = grown
    }
    this.#segments[number] ??= new Int32Array(segment)
    for (let left = room; left > 0;) {
      const size = 2 ** (30 - Math.clz32(left)) // the largest power of two in half of it
      this.give(this.#end, size)
      this.#end += 2 * size
      left -= 2 * size
    }
  }
}

/** The scopes of an index by number, so that each doc id needs only a number, and what a viewer sees is a set of numbers. */
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

/** Most doc ids that a scope is given at once. */
const mostRoom = 1_024

/**
 * Doc ids of the documents of each scope. Those of one scope lie side by side, so that a question that walks scope by scope reads and
 * writes what is in the processor's nearest cache: a scope that has filled its doc ids is given as many again, up to 1,024.
 */
export class ScopeDocs {
  /** Doc ids given to scopes: those of documents, of removed ones, and those that wait for one. */
  end = 0
  // columns by scope
  /** The doc id of its last document, plus 1; how many doc ids wait behind that; and how many documents came. */
  readonly #last = int32()
  readonly #room = int32()
  readonly #filled = int32()
  /** Previous doc id of the same scope, plus 1, by doc id; 0 where there is none. */
  readonly #before = int32()

  /** Returns the doc id of a scope's next document; where that is new, `end` grows. */
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

  /** Takes a doc id for a document of a scope. */
  take(scope: number, doc: number): void {
    const last = this.last(scope)
    this.#before.set(doc, last + 1)
    this.#filled.set(scope, last < 0 ? 1 : this.#filled.data[scope]! + 1)
    this.#last.set(scope, doc + 1)
    this.#room.set(scope, last < 0 ? 0 : this.#room.data[scope]!)
    if (doc >= this.end) this.end = doc + 1
  }

  /** The doc id of a scope's last document; −1: none. */
  last(scope: number): number {
    return scope < this.#last.data.length ? this.#last.data[scope]! - 1 : -1
  }
  /** The doc id before in the same scope; −1: none. */
  before(doc: number): number {
    return this.#before.data[doc]! - 1
  }
}

/** The `limit`-th best score so far, which the next one must exceed to matter. */
export class ScoreThreshold {
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
 * Returns the best `limit` of the first `count` doc ids: highest score first, ties as `tie` has them. Cost: a comparison for
 * most, and for those that share the `limit`-th best score a call of `tie`.
 */
export const topK = (
  docs: Int32Array,
  count: number,
  scores: Float64Array,
  limit: number,
  tie: (a: number, b: number) => number
): Array<number> => bestOf(docs, count, scores, limit, tie).sort((a, b) => scores[b]! - scores[a]! || tie(a, b))

/** Number of intervals into which the scores of many doc ids are sorted, so that few are looked at more closely. */
const intervals = 256
const histogram = new Int32Array(intervals + 1)

/** The same where there are many: those below the interval of the `limit`-th best score cannot be among the best. */
const bestOfMany = (
  docs: Int32Array,
  count: number,
  scores: Float64Array,
  limit: number,
  tie: (a: number, b: number) => number
): Array<number> => {
  let most = 0
  for (let i = 0; i < count; i++) if (scores[docs[i]!]! > most) most = scores[docs[i]!]!
  const scale = intervals / most // 0 or less lies in the first interval, and no other number is a score
  histogram.fill(0)
  for (let i = 0; i < count; i++) histogram[(scores[docs[i]!]! * scale) | 0]!++
  let least = intervals
  for (let above = histogram[least]!; least > 0 && above < limit; above += histogram[least]!) least--
  const close: Array<number> = []
  for (let i = 0; i < count; i++) if (((scores[docs[i]!]! * scale) | 0) >= least) close.push(docs[i]!)
  return bestOfFew(new Int32Array(close), close.length, scores, limit, tie)
}

/** Returns the same doc ids, in no order that means anything. */
export const bestOf = (
  docs: Int32Array,
  count: number,
  scores: Float64Array,
  limit: number,
  tie: (a: number, b: number) => number
): Array<number> =>
  count <= limit
    ? Array.from(docs.subarray(0, count))
    : limit >= 160 && count > 4 * limit
    ? bestOfMany(docs, count, scores, limit, tie)
    : bestOfFew(docs, count, scores, limit, tie)

const bestOfFew = (
  docs: Int32Array,
  count: number,
  scores: Float64Array,
  limit: number,
  tie: (a: number, b: number) => number
): Array<number> => {
  const threshold = new ScoreThreshold(limit)
  let reach = -Infinity // no closure sees it: it would be slow in this loop
  const reached: Array<number> = []
  for (let i = count - 1; i >= 0; i--) { // the newest doc ids last: ties are won by what is new
    const doc = docs[i]!
    const score = scores[doc]!
    if (score < reach) continue
    reached.push(doc)
    if (score === reach) continue
    threshold.offer(score)
    reach = threshold.value
  }
  const least = reach
  const best = reached.filter((doc) => scores[doc]! > least)
  const wanted = limit - best.length // 1 at least
  const equal: Array<number> = []
  let last = -1
  for (const doc of reached) {
    if (scores[doc]! !== least || (last >= 0 && tie(last, doc) < 0)) continue
    if (equal.push(doc) < 4 * wanted) continue
    equal.sort(tie).length = wanted
    last = equal[wanted - 1]!
  }
  return best.concat(equal.sort(tie).slice(0, wanted))
}

/**
 * The doc ids that may still be among the best `limit`, judged by the least and the most that a score can be: those that could
 * reach the bar, which is the `limit`-th best least score so far. None of the best is ever lost, ties included.
 */
export class TopKBounds {
  readonly #threshold: ScoreThreshold
  readonly #docs: Array<number> = []
  readonly #most: Array<number> = []

  /** `limit`: at least 1. */
  constructor(limit: number) {
    this.#threshold = new ScoreThreshold(limit)
  }

  /** The score that the next doc id must be able to reach. */
  get bar(): number {
    return this.#threshold.value
  }

  /** Cost: the logarithm of `limit` where it raises the bar, nothing to speak of otherwise. */
  offer(doc: number, least: number, most: number): void {
    if (most < this.#threshold.value) return
    this.#docs.push(doc)
    this.#most.push(most)
    this.#threshold.offer(least)
  }

  /** The doc ids that may be among the best, in the order in which they came. */
  get all(): Array<number> {
    return this.#docs.filter((_, i) => this.#most[i]! >= this.#threshold.value)
  }
}

/** Puts those of the first `count` doc ids that pass first, and returns how many do. */
export const narrow = (docs: Int32Array, count: number, passes: (doc: number) => boolean): number => {
  let kept = 0
  for (let i = 0; i < count; i++) {
    const doc = docs[i]!
    if (!passes(doc)) continue
    docs[i] = docs[kept]!
    docs[kept++] = doc
  }
  return kept
}
