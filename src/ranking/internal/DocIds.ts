/** Data structures and selection algorithms for doc ids. A doc id is the number of a record in an index. */
import * as MemoryScope from "../../domain/MemoryScope.ts"
import * as Viewer from "../../domain/Viewer.ts"

/** A typed array that grows when an index beyond its end is set. A new element is 0. */
export class GrowableArray<A extends Int32Array | Float64Array | Uint8Array | Uint16Array> {
  /** The array. `set` may replace the array, so read this field again after each `set`. */
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

/** Makes a column (an array that grows) of 32-bit integers. */
export const int32 = (data?: Int32Array): GrowableArray<Int32Array> =>
  new GrowableArray((length) => new Int32Array(length), data)
/** Makes a column (an array that grows) of 64-bit floats. */
export const float64 = (): GrowableArray<Float64Array> => new GrowableArray((length) => new Float64Array(length))

/** A column with several numbers per doc id has this many adjacent entries for each doc id. */
export const stride = 4

/** Number of the low bits of an address. The low bits are the index in a segment. The other bits are the number of the segment. */
const bits = 20
const segment = 2 ** bits

/**
 * Allocates blocks of 32-bit integers for posting lists. A segment is an array that contains blocks. The first segment grows to 4 MB. Then
 * more segments are added, so that growing never copies more than 4 MB. The size of a block is the number of postings that fit into the
 * block, a power of two. A posting takes two integers.
 */
export class Arena {
  readonly #segments: Array<Int32Array> = [new Int32Array(64)]
  /** Address after the last block. */
  #end = 0
  /**
   * The first free block of each size, at index log2(size). The free blocks of one size are a linked list. The first integer of a free
   * block refers to the next block of the list. A reference is an address plus 1, or 0 if there is no block.
   */
  readonly #freeBlocks = new Int32Array(32)

  /** Returns the array with the block at an address. `allocate` may replace the array, so call `at` again after each `allocate`. */
  at(address: number): Int32Array {
    return this.#segments[address >>> bits]!
  }

  /** Returns the index at which a block begins in its array. `at` returns this array for the same address. */
  from(address: number): number {
    return address & (segment - 1)
  }

  /** Upper bound of the number of integers in all blocks. */
  get length(): number {
    return this.#end
  }

  /** Allocates a block for `size` postings, a power of two, and returns its address. The block is not cleared. */
  allocate(size: number): number {
    const rank = 31 - Math.clz32(size)
    const reused = this.#freeBlocks[rank]! - 1
    if (reused >= 0) {
      this.#freeBlocks[rank] = this.at(reused)[this.from(reused)]!
      return reused
    }
    const room = segment - this.from(this.#end)
    if (2 * size > room) this.#closeSegment(room)
    const address = this.#end
    this.#end += 2 * size
    const number = address >>> bits
    const first = this.#segments[0]!
    if (number > 0) {
      this.#segments[number] ??= new Int32Array(Math.max(segment, 2 * size))
      if (2 * size > segment) this.#end = Math.ceil(this.#end / segment) * segment // a segment of more than 4 MB has a single block
    } else if (this.#end > first.length) {
      const grown = new Int32Array(Math.min(segment, Math.max(this.#end, Math.ceil(first.length * 1.5))))
      grown.set(first)
      this.#segments[0] = grown
    }
    return address
  }

  /** Frees a block. */
  free(address: number, size: number): void {
    const rank = 31 - Math.clz32(size)
    this.at(address)[this.from(address)] = this.#freeBlocks[rank]!
    this.#freeBlocks[rank] = address + 1
  }

  /** Turns the rest of the current segment (`room` integers) into free blocks. The next block then begins a new segment. */
  #closeSegment(room: number): void {
    const number = this.#end >>> bits
    if (number > 0 && room === segment) return // the segment has no blocks
    if (number === 0 && this.#segments[0]!.length < segment) {
      const grown = new Int32Array(segment)
      grown.set(this.#segments[0]!)
      this.#segments[0] = grown
    }
    this.#segments[number] ??= new Int32Array(segment)
    for (let left = room; left > 0;) {
      const size = 2 ** (30 - Math.clz32(left)) // the largest block that fits: a block takes 2 * size integers
      this.free(this.#end, size)
      this.#end += 2 * size
      left -= 2 * size
    }
  }
}

/** Gives a number to each scope of an index. A document has the number of its scope. A viewer sees a set of scope numbers. */
export class ScopeIndex {
  readonly all: Array<MemoryScope.MemoryScope> = []
  readonly #numbers = new Map<string, number>()
  /** Numbers of the scopes that have an id. The map's key is the key of the id, such as `userId=ada`. */
  readonly #byId = new Map<string, Array<number>>()

  /** Returns the number of a scope. Gives a new scope the next number, counted from 0. */
  numberOf(scope: MemoryScope.MemoryScope): number {
    const key = MemoryScope.key(scope)
    const known = this.#numbers.get(key)
    if (known !== undefined) return known
    const number = this.all.push(scope) - 1
    this.#numbers.set(key, number)
    if (scope === MemoryScope.Global) return number
    for (const id of idsOf(scope)) {
      const numbers = this.#byId.get(id)
      if (numbers) numbers.push(number)
      else this.#byId.set(id, [number])
    }
    return number
  }

  /**
   * Returns the numbers of the visible scopes; `undefined` if all are visible. The cost depends on the tag. `Scopes`: one look-up per key.
   * `Within`: a scan of the scopes that have the rarest of its ids. `Everyone`: a scan of all scopes if one of them is internal.
   */
  visibleTo(visibility: Viewer.Visibility): ReadonlyArray<number> | undefined {
    switch (visibility._tag) {
      case "All":
        return undefined
      case "Everyone":
        return this.#numbers.has(internal) ? this.#included(visibility, this.all.keys()) : undefined
      case "Scopes":
        return visibility.keys.flatMap((key) => this.#numbers.get(key) ?? [])
      case "Within": {
        const ids = idsOf(visibility.ids)
        const scopesById = ids.map((id) => this.#byId.get(id) ?? [])
        const fewest = scopesById.reduce((least, scopes) => scopes.length < least.length ? scopes : least)
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

/** Largest number of doc ids that are reserved for a scope at once. */
const maxReserved = 1_024

/**
 * Assigns adjacent doc ids to documents of one scope. A query visits one scope after another, so its reads and writes then hit the
 * processor's cache. If a scope has no reserved doc id left, more doc ids are reserved for the scope. Their number is the number of
 * documents ever added to the scope, but at most 1,024.
 */
export class DocIdAllocator {
  /** Number of doc ids that are assigned or reserved. Doc ids of removed documents count, too. */
  end = 0
  /** Doc id of the scope's last document, plus 1, by scope number; 0 if there is none. */
  readonly #last = int32()
  /** Number of doc ids reserved for the scope after its last document, by scope number. */
  readonly #reserved = int32()
  /** Number of documents ever added to the scope, by scope number. */
  readonly #added = int32()
  /** Previous doc id of the same scope, plus 1, by doc id; 0 if there is none. */
  readonly #before = int32()

  /** Returns the next doc id of a scope. If no reserved doc id is left, reserves more and increases `end`. */
  next(scope: number): number {
    if (this.last(scope) >= 0 && this.#reserved.data[scope]! > 0) {
      this.#reserved.data[scope]! -= 1
      return this.#last.data[scope]!
    }
    const size = this.last(scope) < 0 ? 1 : Math.min(maxReserved, this.#added.data[scope]!)
    this.#reserved.set(scope, size - 1)
    this.end += size
    return this.end - size
  }

  /** Adds a document with this doc id to a scope, as the last document of the scope. */
  assign(scope: number, doc: number): void {
    const last = this.last(scope)
    this.#before.set(doc, last + 1)
    this.#added.set(scope, last < 0 ? 1 : this.#added.data[scope]! + 1)
    this.#last.set(scope, doc + 1)
    this.#reserved.set(scope, last < 0 ? 0 : this.#reserved.data[scope]!)
    if (doc >= this.end) this.end = doc + 1
  }

  /** Returns the doc id of the last document of a scope; −1 if it has none. */
  last(scope: number): number {
    return scope < this.#last.data.length ? this.#last.data[scope]! - 1 : -1
  }
  /** Returns the previous doc id of the same scope; −1 if there is none. */
  before(doc: number): number {
    return this.#before.data[doc]! - 1
  }
}

/** Tracks the `limit`-th best score so far. A lower score is not among the best `limit` scores. */
export class ScoreThreshold {
  /** The `limit`-th best score so far; −Infinity if there are fewer than `limit` scores. */
  value = -Infinity
  readonly #limit: number
  /** The best `limit` scores as a heap, the lowest first. */
  readonly #heap: Array<number> = []

  constructor(limit: number) {
    this.#limit = limit
  }

  /** Adds a score. Cost: O(log `limit`) if the score is among the best so far, otherwise one comparison. */
  offer(score: number): void {
    if (this.#heap.length < this.#limit) this.#siftUp(score)
    else if (score > this.value) this.#siftDown(score)
    if (this.#heap.length === this.#limit) this.value = this.#heap[0]!
  }

  #siftUp(score: number): void {
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

  #siftDown(score: number): void {
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
 * Returns the `limit` best of the first `count` doc ids, highest score first. Doc ids with equal scores are in the order of `tie`. Cost:
 * one comparison for most doc ids.
 */
export const topK = (
  docs: Int32Array,
  count: number,
  scores: Float64Array,
  limit: number,
  tie: (a: number, b: number) => number
): Array<number> => bestOf(docs, count, scores, limit, tie).sort((a, b) => scores[b]! - scores[a]! || tie(a, b))

/** Number of intervals of the histogram of scores. */
const intervals = 256
const histogram = new Int32Array(intervals + 1)

/** A variant of `bestOf` for many doc ids. A histogram of the scores first excludes doc ids whose score is too low. */
const bestOfMany = (
  docs: Int32Array,
  count: number,
  scores: Float64Array,
  limit: number,
  tie: (a: number, b: number) => number
): Array<number> => {
  let maxScore = 0
  for (let i = 0; i < count; i++) if (scores[docs[i]!]! > maxScore) maxScore = scores[docs[i]!]!
  const scale = intervals / maxScore // scores of 0 or less fall into the first interval
  histogram.fill(0)
  for (let i = 0; i < count; i++) histogram[Math.max(0, scores[docs[i]!]! * scale) | 0]!++
  let lowest = intervals
  for (let above = histogram[lowest]!; lowest > 0 && above < limit; above += histogram[lowest]!) lowest--
  const close: Array<number> = []
  for (let i = 0; i < count; i++) if ((Math.max(0, scores[docs[i]!]! * scale) | 0) >= lowest) close.push(docs[i]!)
  return bestOfFew(new Int32Array(close), close.length, scores, limit, tie)
}

/** Returns the same doc ids as `topK`, but unsorted. */
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
  let minScore = -Infinity // no closure captures this variable, which keeps the loop fast
  const found: Array<number> = []
  for (let i = count - 1; i >= 0; i--) { // visits the last doc ids first: they are usually the newest, which win ties
    const doc = docs[i]!
    const score = scores[doc]!
    if (score < minScore) continue
    found.push(doc)
    if (score === minScore) continue
    threshold.offer(score)
    minScore = threshold.value
  }
  const kthScore = minScore
  const best = found.filter((doc) => scores[doc]! > kthScore)
  const wanted = limit - best.length // 1 or more, since fewer than `limit` scores are above the `limit`-th best
  const equal: Array<number> = []
  let last = -1
  for (const doc of found) {
    if (scores[doc]! !== kthScore || (last >= 0 && tie(last, doc) < 0)) continue
    if (equal.push(doc) < 4 * wanted) continue
    equal.sort(tie).length = wanted
    last = equal[wanted - 1]!
  }
  return best.concat(equal.sort(tie).slice(0, wanted))
}

/**
 * Collects the doc ids that may be among the best `limit`. Only a lower and an upper bound of each score are known. A doc id is kept if its
 * upper bound is at least the `limit`-th best lower bound so far. So all of the best doc ids are kept, ties included.
 */
export class TopKBounds {
  readonly #threshold: ScoreThreshold
  readonly #docs: Array<number> = []
  readonly #upperBounds: Array<number> = []

  /** Makes an empty collection. `limit` must be at least 1. */
  constructor(limit: number) {
    this.#threshold = new ScoreThreshold(limit)
  }

  /** The `limit`-th best lower bound so far. A doc id is collected only if its upper bound is at least `threshold`. */
  get threshold(): number {
    return this.#threshold.value
  }

  /** Adds a doc id with the bounds of its score. Cost: O(log `limit`) if `lower` is among the best lower bounds, otherwise constant. */
  offer(doc: number, lower: number, upper: number): void {
    if (upper < this.#threshold.value) return
    this.#docs.push(doc)
    this.#upperBounds.push(upper)
    this.#threshold.offer(lower)
  }

  /** The doc ids that may be among the best, in the order in which they were offered. */
  get all(): Array<number> {
    return this.#docs.filter((_, i) => this.#upperBounds[i]! >= this.#threshold.value)
  }
}

/** Tests the first `count` doc ids. Moves the doc ids that pass to the front of `docs`, and returns their number. */
export const narrow = (docs: Int32Array, count: number, passes: (doc: number) => boolean): number => {
  let passed = 0
  for (let i = 0; i < count; i++) {
    const doc = docs[i]!
    if (!passes(doc)) continue
    docs[i] = docs[passed]!
    docs[passed++] = doc
  }
  return passed
}
