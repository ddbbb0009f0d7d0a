/**
 * The vectors of one model in memory, where a database holds the originals. Few are kept as 32-bit numbers. Many are quantised to 8
 * bits (`QuantizedVectors`), which bounds each cosine from both sides: the caller reads the originals of those that may be among
 * the nearest, and compares them exactly.
 */
import type { MemoryId } from "../../domain/MemoryId.ts"
import { dot } from "../VectorIndex.ts"
import { TopKBounds } from "./DocIds.ts"
import { QuantizedVectors, strideOf } from "./QuantizedVectors.ts"

/** Bytes from which on vectors are quantised: below, a WebAssembly memory costs more than it saves. */
const quantizeFrom = 131_072
/** Components of the originals that are kept beside quantised vectors: 1 MB. */
const kept = 262_144

/** A vector as it was attached. */
export interface Original {
  readonly vector: Float32Array
  /** The sum of its squares. */
  readonly square: number
}

/** The vectors of one model, by record. */
export class CompactVectors {
  readonly dimensions: number
  /** Records of the index whose vector is not held here. */
  readonly waiting = new Set<MemoryId>()
  readonly #docs = new Map<MemoryId, number>()
  // the next two are by doc id; the last one fills the place of the one that goes
  readonly #ids: Array<MemoryId> = []
  readonly #hashes: Array<string> = []
  /** Originals by hash of the text: all while none is quantised, then those that were read lately, the last one at the end. */
  readonly #originals = new Map<string, Original>()
  #quantized: QuantizedVectors | undefined
  #canQuantise = true

  constructor(dimensions: number) {
    this.dimensions = dimensions
  }

  has(id: MemoryId): boolean {
    return this.#docs.has(id)
  }

  /** Adds the vector of a record that has none here, by the hash of its text. */
  add(id: MemoryId, hash: string, vector: Float32Array): void {
    const doc = this.#ids.push(id) - 1
    this.#docs.set(id, doc)
    this.#hashes[doc] = hash
    this.waiting.delete(id)
    if (this.#quantized !== undefined) {
      if (this.#quantized.set(doc, vector, normOf(vector))) return
      throw new RangeError("no room for more vectors")
    }
    this.keep(hash, vector)
    if (this.#canQuantise && this.#ids.length * strideOf(this.dimensions) >= quantizeFrom) this.#quantise()
  }

  remove(id: MemoryId): void {
    this.waiting.delete(id)
    const doc = this.#docs.get(id)
    if (doc === undefined) return
    const hash = this.#hashes[doc]!
    const last = this.#ids.length - 1
    if (doc < last) {
      this.#ids[doc] = this.#ids[last]!
      this.#hashes[doc] = this.#hashes[last]!
      this.#docs.set(this.#ids[doc], doc)
      this.#quantized?.move(last, doc)
    }
    this.#docs.delete(id)
    this.#ids.pop()
    this.#hashes.pop()
    // other records may have the same text
    if (this.#quantized !== undefined || !this.#hashes.includes(hash)) this.#originals.delete(hash)
  }

  /** Returns the vector of a text, where it is kept whole, or was read lately. */
  get(hash: string): Original | undefined {
    const original = this.#originals.get(hash)
    if (original !== undefined && this.#quantized !== undefined) {
      this.#originals.delete(hash)
      this.#originals.set(hash, original)
    }
    return original
  }

  /** Keeps the vector of a text for later questions. Beside quantised vectors, the one that was asked for longest ago goes. */
  keep(hash: string, vector: Float32Array): void {
    this.#originals.set(hash, { vector: vector.slice(), square: dot(vector, vector) }) // the caller's may be part of something larger
    if (this.#quantized !== undefined) this.#shrink()
  }

  #shrink(): void {
    for (const hash of this.#originals.keys()) {
      if (this.#originals.size * this.dimensions <= kept) return
      this.#originals.delete(hash)
    }
  }

  /**
   * Returns records that include the nearest `limit`, in no order. `among`: those to look at, filtered already. `only`: the filter
   * where `among` is undefined.
   */
  candidates(
    vector: Float32Array,
    limit: number,
    among: ReadonlyArray<MemoryId> | undefined,
    only: (id: MemoryId) => boolean
  ): ReadonlyArray<MemoryId> {
    const docs = among?.flatMap((id) => this.#docs.get(id) ?? [])
    const count = docs?.length ?? this.#ids.length
    if (this.#quantized === undefined || count <= 32 + 2 * limit) {
      return docs === undefined ? this.#ids.filter(only) : docs.map((doc) => this.#ids[doc]!)
    }
    const bounds = new TopKBounds(limit)
    const passes = among === undefined ? (doc: number) => only(this.#ids[doc]!) : undefined
    this.#quantized.offerBounds(vector, normOf(vector), docs && Int32Array.from(docs), count, bounds, passes)
    return bounds.all.map((doc) => this.#ids[doc]!)
  }

  /** Quantises all; where the machine cannot, vectors are kept whole from then on. */
  #quantise(): void {
    this.#canQuantise = false
    const quantized = QuantizedVectors.make(this.dimensions)
    if (quantized === undefined) return
    for (const [doc, hash] of this.#hashes.entries()) {
      const vector = this.#originals.get(hash)?.vector
      if (vector === undefined || !quantized.set(doc, vector, normOf(vector))) return
    }
    this.#quantized = quantized
    this.#shrink()
  }
}

const normOf = (vector: Float32Array): number => {
  let square = 0
  for (let i = 0; i < vector.length; i++) square += vector[i]! * vector[i]!
  return Math.sqrt(square)
}
