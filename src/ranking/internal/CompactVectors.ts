/**
 * Keeps the vectors of one model in RAM. The database of the store holds the original vectors. A small number of vectors is kept as 32-bit
 * floats. A larger number is quantised to 8 bits, which gives bounds of each cosine (see `QuantizedVectors`). The caller then reads the
 * originals of the vectors that may be among the nearest, and computes their exact cosines.
 */
import type { MemoryId } from "../../domain/MemoryId.ts"
import { dot } from "../VectorIndex.ts"
import { TopKBounds } from "./DocIds.ts"
import { QuantizedVectors, strideOf } from "./QuantizedVectors.ts"

/** Vectors are quantised once their 8-bit rows reach this size in bytes. Below this size, WebAssembly memory costs more than it saves. */
const quantizeFrom = 131_072
/** Largest size of the cache of original vectors, in vector components (1 MB). The limit applies once vectors are quantised. */
const cachedComponents = 262_144

/** A vector in its original form, as 32-bit floats. */
export interface Original {
  readonly vector: Float32Array
  /** The sum of the squares of the vector's components. */
  readonly square: number
}

/** The vectors of one model, by id of the record. */
export class CompactVectors {
  readonly dimensions: number
  /** Ids of the records whose vectors were not added yet. */
  readonly waiting = new Set<MemoryId>()
  readonly #docs = new Map<MemoryId, number>()
  // `#ids` and `#hashes` are indexed by doc id. The last entry of each array takes the place of a removed record
  readonly #ids: Array<MemoryId> = []
  readonly #hashes: Array<string> = []
  /** Original vectors, by hash of the text. Once vectors are quantised, this map is only a cache, least recently used first. */
  readonly #originals = new Map<string, Original>()
  #quantized: QuantizedVectors | undefined
  #canQuantise = true

  constructor(dimensions: number) {
    this.dimensions = dimensions
  }

  has(id: MemoryId): boolean {
    return this.#docs.has(id)
  }

  /**
   * Adds the vector of a record that has no vector yet. `hash` is the hash of the record's text. Throws a RangeError if the memory of the
   * quantised vectors cannot grow.
   */
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
    // the original stays if another record has the same text, unless `#originals` is only a cache
    if (this.#quantized !== undefined || !this.#hashes.includes(hash)) this.#originals.delete(hash)
  }

  /** Returns the original vector of the text with this hash; `undefined` if the vector is not in `#originals`. */
  get(hash: string): Original | undefined {
    const original = this.#originals.get(hash)
    if (original !== undefined && this.#quantized !== undefined) {
      this.#originals.delete(hash)
      this.#originals.set(hash, original)
    }
    return original
  }

  /** Keeps the original vector of a text. Once vectors are quantised, a full cache drops the least recently used originals. */
  keep(hash: string, vector: Float32Array): void {
    this.#originals.set(hash, { vector: vector.slice(), square: dot(vector, vector) }) // a copy: `vector` may be part of a larger buffer
    if (this.#quantized !== undefined) this.#shrink()
  }

  #shrink(): void {
    for (const hash of this.#originals.keys()) {
      if (this.#originals.size * this.dimensions <= cachedComponents) return
      this.#originals.delete(hash)
    }
  }

  /**
   * Returns the ids of the `limit` nearest records, and perhaps of other records, in any order. Considers only the records in `among`. If
   * `among` is `undefined`, considers the records that `only` accepts.
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

  /** Quantises all vectors. If that fails, all originals stay in memory, and no further attempt is made. */
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
