/**
 * The vectors of one model in memory, where a database holds the originals. Few are kept as 32-bit numbers. Many are quantised to 8
 * bits (`QuantizedVectors`), which bounds each cosine from both sides: the caller reads the originals of those that may be among
 * the nearest, and compares them exactly.
 */
import type { MemoryId } from "../../domain/MemoryId.ts"
import { QuantizedVectors, strideOf } from "./QuantizedVectors.ts"
import { TopKBounds } from "./Slots.ts"

/**
 * Bytes from which on vectors are quantised: below, a WebAssembly memory costs more than it saves. Also the number of components that
 * the originals may have which are kept.
 */
const sieveFrom = 262_144

export class CompactVectors {
  readonly dimensions: number
  /** Records of the index whose vector is not held here. */
  readonly waiting = new Set<MemoryId>()
  readonly #slots = new Map<MemoryId, number>()
  // by slot; the last one fills the place of the one that goes
  readonly #ids: Array<MemoryId> = []
  #whole: Array<Float32Array> | undefined = []
  #sieve: QuantizedVectors | undefined
  /** Originals that were read lately of quantised vectors; those asked for last at the end. */
  readonly #recent = new Map<MemoryId, Float32Array>()
  #canQuantise = true

  constructor(dimensions: number) {
    this.dimensions = dimensions
  }

  has(id: MemoryId): boolean {
    return this.#slots.has(id)
  }

  /** Adds the vector of a record that has none here. */
  add(id: MemoryId, vector: Float32Array): void {
    const slot = this.#ids.push(id) - 1
    this.#slots.set(id, slot)
    this.waiting.delete(id)
    this.#whole?.push(vector.slice()) // the caller's may be part of something larger
    if (this.#sieve !== undefined) {
      if (this.#sieve.set(slot, vector, normOf(vector))) return
      throw new RangeError("no room for more vectors")
    }
    if (this.#canQuantise && this.#ids.length * strideOf(this.dimensions) >= sieveFrom) this.#quantise()
  }

  remove(id: MemoryId): void {
    this.waiting.delete(id)
    this.#recent.delete(id)
    const slot = this.#slots.get(id)
    if (slot === undefined) return
    const last = this.#ids.length - 1
    if (slot < last) {
      this.#ids[slot] = this.#ids[last]!
      this.#slots.set(this.#ids[slot], slot)
      if (this.#whole !== undefined) this.#whole[slot] = this.#whole[last]!
      this.#sieve?.move(last, slot)
    }
    this.#slots.delete(id)
    this.#ids.pop()
    this.#whole?.pop()
  }

  /** Returns the vector of a record, where it is kept whole, or was read lately. */
  get(id: MemoryId): Float32Array | undefined {
    if (this.#whole !== undefined) return this.#whole[this.#slots.get(id) ?? -1]
    const vector = this.#recent.get(id)
    if (vector !== undefined) {
      this.#recent.delete(id)
      this.#recent.set(id, vector)
    }
    return vector
  }

  /** Keeps the original of a quantised vector for later questions. Beyond 1 MB the one that was asked for longest ago goes. */
  keep(id: MemoryId, original: Float32Array): void {
    if (this.#whole !== undefined || !this.#slots.has(id)) return
    this.#recent.set(id, original.slice()) // the caller's may be part of something larger
    const [oldest] = this.#recent.keys()
    if (this.#recent.size * this.dimensions > sieveFrom && oldest !== undefined) this.#recent.delete(oldest)
  }

  /**
   * Returns records that include the nearest `limit`, in no order. `among`: those to look at, filtered already. `only`: the filter
   * where `among` is undefined.
   */
  contenders(
    vector: Float32Array,
    limit: number,
    among: ReadonlyArray<MemoryId> | undefined,
    only: (id: MemoryId) => boolean
  ): ReadonlyArray<MemoryId> {
    const slots = among?.flatMap((id) => this.#slots.get(id) ?? [])
    const count = slots?.length ?? this.#ids.length
    if (this.#sieve === undefined || count <= 32 + 2 * limit) {
      return slots === undefined ? this.#ids.filter(only) : slots.map((slot) => this.#ids[slot]!)
    }
    const bounds = new TopKBounds(limit)
    const passes = among === undefined ? (slot: number) => only(this.#ids[slot]!) : undefined
    this.#sieve.sift(vector, normOf(vector), slots && Int32Array.from(slots), count, bounds, passes)
    return bounds.all.map((slot) => this.#ids[slot]!)
  }

  /** Quantises all; where the machine cannot, vectors are kept whole from then on. */
  #quantise(): void {
    this.#canQuantise = false
    const sieve = QuantizedVectors.make(this.dimensions)
    if (sieve === undefined || this.#whole === undefined) return
    for (const [slot, vector] of this.#whole.entries()) if (!sieve.set(slot, vector, normOf(vector))) return
    this.#sieve = sieve
    this.#whole = undefined
  }
}

const normOf = (vector: Float32Array): number => {
  let square = 0
  for (let i = 0; i < vector.length; i++) square += vector[i]! * vector[i]!
  return Math.sqrt(square)
}
