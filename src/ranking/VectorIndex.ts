/**
 * Exact vector search by cosine similarity. An index is mutable and has the vectors of one model in typed arrays. A search returns at most
 * `limit` ids, best first. Ids with equal cosines are in the order in which they were added, unless the option `order` is set. Scores are
 * bit-identical on every machine.
 *
 * A large index also has its vectors quantised to 8 bits (`QuantizedVectors`), if the machine has WebAssembly SIMD. Large means at least
 * 256 KiB of quantised vectors, for example 683 vectors of 384 dimensions. A search then skips vectors that cannot be among the best.
 */
import type { Scored } from "./Bm25.ts"
import { float64, int32, TopKBounds } from "./internal/DocIds.ts"
import { QuantizedVectors, strideOf } from "./internal/QuantizedVectors.ts"

/** An index of the vectors of one model. */
export interface VectorIndex<in out Id> {
  readonly size: number
  /**
   * Adds the vector of an id, or replaces the id's vector. A replacement keeps the id's place among ids with equal cosines. The vector is
   * not copied, so the caller must not change it. Throws a RangeError if the vector is not finite or has a wrong number of dimensions.
   * `search` and `searchAmong` throw the same error for an invalid query vector.
   */
  readonly add: (id: Id, vector: Float32Array) => void
  /** Removes the vector of an id. Returns whether the id had a vector. */
  readonly remove: (id: Id) => boolean
  /**
   * Returns at most `limit` ids that the filter `only` accepts, best first, with their cosines, −1..1. If the vectors are quantised, `only`
   * may not be called for every id. Cost at 384 dimensions: ~20 ns per quantised vector, ~300 ns per other vector.
   */
  readonly search: (vector: Float32Array, limit: number, only?: (id: Id) => boolean) => ReadonlyArray<Scored<Id>>
  /** Does the same as `search`, but only among the given ids. Ignores unknown ids. The cost does not grow with the size of the index. */
  readonly searchAmong: (vector: Float32Array, ids: Iterable<Id>, limit: number) => ReadonlyArray<Scored<Id>>
}

/** Makes an empty index. */
export const make = <Id>(dimensions: number, options: {
  /** Vectors are quantised once their 8-bit rows would take this many bytes. Default 256 KiB; `Infinity`: never. */
  readonly quantizeFrom?: number | undefined
  /** Order of ids with equal cosines. Default: the order in which they were added. */
  readonly order?: ((a: Id, b: Id) => number) | undefined
} = {}): VectorIndex<Id> => {
  const { order, quantizeFrom = 262_144 } = options
  const stride = strideOf(dimensions)
  const docs = new Map<Id, number>()
  // the arrays below are indexed by doc id; when an id is removed, the id with the last doc id takes over its doc id
  const ids: Array<Id> = []
  const vectors: Array<Float32Array> = []
  const squares = float64()
  const arrivals = float64()
  /** Number of the last `searchAmong` call that found the doc id. A call thus finds a repeated id only once. */
  const askedIn = int32()
  let arrived = 0
  let asking = 0
  let quantized: QuantizedVectors | undefined
  let mayQuantize = true

  /** Returns the squared length of a vector. Throws if the vector is not finite or has a wrong number of dimensions. */
  const squareOf = (vector: Float32Array): number => {
    if (vector.length !== dimensions) throw new RangeError(`a vector of ${vector.length} among those of ${dimensions}`)
    const square = dot(vector, vector)
    if (!Number.isFinite(square)) throw new RangeError("a vector that is not finite")
    return square
  }

  const quantize = (doc: number) => {
    if (quantized?.set(doc, vectors[doc]!, Math.sqrt(squares.data[doc]!)) !== false) return
    quantized = undefined
    mayQuantize = false
  }

  /**
   * Quantises the vectors once their 8-bit rows would take `quantizeFrom` bytes. Removals can leave most of the memory unused. The
   * remaining vectors are then quantised again, into a smaller memory. If their rows would take less than `quantizeFrom` bytes, the
   * quantised vectors are dropped instead.
   */
  const fitQuantized = () => {
    const size = ids.length * stride
    if (quantized === undefined ? !mayQuantize || size < quantizeFrom : quantized.capacity < 4 * size + quantizeFrom) {
      return
    }
    quantized = size < quantizeFrom ? undefined : QuantizedVectors.make(dimensions)
    mayQuantize = size < quantizeFrom || quantized !== undefined
    for (let doc = 0; doc < ids.length && quantized !== undefined; doc++) quantize(doc)
  }

  const search = (
    vector: Float32Array,
    limit: number,
    among: Int32Array | undefined,
    only?: (doc: number) => boolean
  ): ReadonlyArray<Scored<Id>> => {
    const square = squareOf(vector)
    const cosine = (doc: number) => cosineOf(dot(vector, vectors[doc]!), square, squares.data[doc]!)
    const count = among?.length ?? ids.length
    if (count === 0 || !(limit >= 1)) return []
    const bounds = new TopKBounds(limit)
    if (quantized !== undefined && count > 32 + 2 * limit) {
      quantized.offerBounds(vector, Math.sqrt(square), among, count, bounds, only)
    } else {
      for (let i = 0; i < count; i++) {
        const doc = among === undefined ? i : among[i]!
        if (only !== undefined && !only(doc)) continue
        const score = cosine(doc)
        bounds.offer(doc, score, score)
      }
    }
    return bounds.all
      .map((doc) => ({ id: ids[doc]!, score: cosine(doc), arrival: arrivals.data[doc]! }))
      .sort((a, b) => b.score - a.score || (order === undefined ? a.arrival - b.arrival : order(a.id, b.id)))
      .slice(0, limit)
      .map(({ id, score }) => ({ id, score }))
  }

  return {
    get size() {
      return ids.length
    },
    add(id, vector) {
      const square = squareOf(vector)
      let doc = docs.get(id)
      if (doc === undefined) {
        doc = ids.push(id) - 1
        docs.set(id, doc)
        arrivals.set(doc, arrived++)
        askedIn.set(doc, 0)
      }
      vectors[doc] = vector
      squares.set(doc, square)
      if (quantized !== undefined) quantize(doc)
      else fitQuantized()
    },
    remove(id) {
      const doc = docs.get(id)
      if (doc === undefined) return false
      const last = ids.length - 1
      if (doc < last) {
        ids[doc] = ids[last]!
        vectors[doc] = vectors[last]!
        squares.set(doc, squares.data[last]!)
        arrivals.set(doc, arrivals.data[last]!)
        quantized?.move(last, doc)
        docs.set(ids[doc]!, doc)
      }
      docs.delete(id)
      ids.pop()
      vectors.pop()
      if (quantized !== undefined) fitQuantized()
      return true
    },
    search(vector, limit, only) {
      return search(vector, limit, undefined, only && ((doc) => only(ids[doc]!)))
    },
    searchAmong(vector, wanted, limit) {
      const found: Array<number> = []
      asking++
      for (const id of wanted) {
        const doc = docs.get(id)
        if (doc === undefined || askedIn.data[doc] === asking) continue
        askedIn.data[doc] = asking
        found.push(doc)
      }
      return search(vector, limit, Int32Array.from(found))
    }
  }
}

/** Returns the cosine of two vectors, −1..1. Returns 0 if a vector is all zeros or not finite, or if the lengths differ. */
export const cosineSimilarity = (a: ArrayLike<number>, b: ArrayLike<number>): number => cosineTo(a)(b)

/** Returns a function that computes the cosine of `a` and `b`. `bb` is the squared length of `b`, if it is already known. */
export const cosineTo = (a: ArrayLike<number>): (b: ArrayLike<number>, bb?: number) => number => {
  const aa = dot(a, a)
  return (b, bb = dot(b, b)) => {
    if (a.length !== b.length) return 0
    if (aa * bb > 1e-290 && aa * bb < 1e290) return cosineOf(dot(a, b), aa, bb)
    const [x, y] = [toUnit(a), toUnit(b)] // scaled, since the squared lengths would overflow or underflow
    return x === undefined || y === undefined ? 0 : cosineOf(dot(x, y), dot(x, x), dot(y, y))
  }
}

/**
 * Returns the cosine of two vectors from their dot product and their squared lengths `aa` and `bb`. `aa * bb` must not overflow. It never
 * does for vectors of 32-bit floats.
 */
const cosineOf = (product: number, aa: number, bb: number): number =>
  aa === 0 || bb === 0 ? 0 : Math.max(-1, Math.min(1, product / Math.sqrt(aa * bb)))

/** Scales a vector so that its largest component is 1 or −1. Returns `undefined` if the vector is all zeros or not finite. */
const toUnit = (vector: ArrayLike<number>): ReadonlyArray<number> | undefined => {
  const numbers = Array.from(vector)
  const largest = numbers.reduce((max, number) => Math.max(max, Math.abs(number)), 0)
  return largest > 0 && largest < Infinity ? numbers.map((number) => number / largest) : undefined
}

/** Returns the dot product of two vectors. Uses four independent sums, which the processor can compute in parallel. */
export const dot = (a: ArrayLike<number>, b: ArrayLike<number>): number => {
  const end = a.length - a.length % 4
  let [s0, s1, s2, s3] = [0, 0, 0, 0]
  for (let i = 0; i < end; i += 4) {
    s0 += a[i]! * b[i]!
    s1 += a[i + 1]! * b[i + 1]!
    s2 += a[i + 2]! * b[i + 2]!
    s3 += a[i + 3]! * b[i + 3]!
  }
  for (let i = end; i < a.length; i++) s0 += a[i]! * b[i]!
  return s0 + s1 + (s2 + s3)
}

/**
 * Converts a vector to 32-bit floats. First scales a vector whose largest component is very large or very small. Cosines change only by
 * rounding.
 */
export const toFloat32 = (vector: ReadonlyArray<number>): Float32Array => {
  const largest = vector.reduce((max, number) => Math.max(max, Math.abs(number)), 0)
  return Float32Array.from(
    largest === 0 || (largest > 1e-30 && largest < 1e30) ? vector : vector.map((number) => number / largest)
  )
}

/* Vectors are stored by model and text hash, so an edited text needs a new vector. Vectors of different models are never compared. */

interface Table {
  /** Number of dimensions of every vector of the model, determined by the first vector. */
  readonly dimensions: number
  readonly vectors: Map<string, Float32Array>
  version: number
}

/** The vectors of all tenants. A tenant without vectors takes no memory. */
export class TenantEmbeddings {
  readonly #all: All = { tenants: new Map(), arrived: 0, removals: 0 }

  /** Names of the tenants that have a vector. */
  get tenants(): ReadonlyArray<string> {
    return Array.from(this.#all.tenants.keys())
  }

  /** Returns a view of the vectors of one tenant. Views of the same tenant share the vectors. */
  of(tenant: string): Embeddings {
    return new Embeddings(this.#all, tenant)
  }
}

interface All {
  readonly tenants: Map<string, Map<string, Table>>
  /** Number of vectors that were ever added, including removed ones. */
  arrived: number
  /** Number of calls of `Embeddings.retain` that removed vectors. */
  removals: number
}

/** The vectors of one tenant, by model and by the hash of their text. */
export class Embeddings {
  readonly #all: All
  readonly #tenant: string

  /** Makes a view of the vectors of `tenant` in `all`. Makes a new, empty set of vectors if there are no arguments. */
  constructor(all: All = { tenants: new Map(), arrived: 0, removals: 0 }, tenant = "") {
    this.#all = all
    this.#tenant = tenant
  }

  get #tables(): ReadonlyMap<string, Table> {
    return this.#all.tenants.get(this.#tenant) ?? none
  }

  /** Names of the models that have a vector. */
  get models(): ReadonlyArray<string> {
    return Array.from(this.#tables.keys())
  }

  /** Returns the number of dimensions of a model; `undefined` if the model has no vector. */
  dimensions(model: string): number | undefined {
    return this.#tables.get(model)?.dimensions
  }

  /** Returns the version of a model's vectors, a number that increases with each added vector. */
  version(model: string): number {
    return this.#tables.get(model)?.version ?? 0
  }

  /** Number of vectors of the model that has the most vectors. */
  get size(): number {
    return Math.max(0, ...Array.from(this.#tables.values(), ({ vectors }) => vectors.size))
  }

  /** Number of calls of `retain` that removed vectors, over all tenants. */
  get removals(): number {
    return this.#all.removals
  }

  /** Whether the text with this hash has a vector of any model. Cost: one look-up per model. */
  has(hash: string): boolean {
    for (const { vectors } of this.#tables.values()) if (vectors.has(hash)) return true
    return false
  }

  /** Returns the vector of the text with this hash. */
  get(model: string, hash: string): Float32Array | undefined {
    return this.#tables.get(model)?.vectors.get(hash)
  }

  /** Returns the vectors of a model, by hash. */
  all(model: string): Iterable<readonly [hash: string, vector: Float32Array]> {
    return this.#tables.get(model)?.vectors ?? []
  }

  /**
   * Adds a vector without copying it. If the text with this hash already has a vector, that vector stays, because a model makes the same
   * vector each time. Returns `false` if the vector is empty or not finite, or has another number of dimensions than the model's other
   * vectors. Nothing is then changed.
   */
  set(model: string, hash: string, vector: Float32Array): boolean {
    const known = this.#tables.get(model)
    if (vector.length === 0 || vector.length !== (known?.dimensions ?? vector.length)) return false
    if (!vector.every(Number.isFinite)) return false
    const table = known ?? { dimensions: vector.length, vectors: new Map(), version: 0 }
    if (known === undefined) {
      this.#all.tenants.set(this.#tenant, (this.#all.tenants.get(this.#tenant) ?? new Map()).set(model, table))
    }
    if (table.vectors.has(hash)) return true
    table.vectors.set(hash, vector)
    table.version = ++this.#all.arrived
    return true
  }

  /**
   * Removes the vectors whose hash `keep` rejects. Returns the number of removed vectors. If the model `only` is given, only vectors of
   * this model are removed. Cost: a scan of the vectors.
   */
  retain(keep: (hash: string) => boolean, only?: string): number {
    let count = 0
    for (const [model, { vectors }] of this.#tables) {
      if (only !== undefined && model !== only) continue
      for (const hash of vectors.keys()) if (!keep(hash) && vectors.delete(hash)) count++
    }
    if (count > 0) this.#all.removals++
    this.#tidy()
    return count
  }

  /** Removes the vectors of the given hashes, of every model. Cost: one look-up per hash and model. */
  drop(hashes: Iterable<string>): void {
    const tables = Array.from(this.#tables.values())
    for (const hash of hashes) for (const { vectors } of tables) vectors.delete(hash)
    this.#tidy()
  }

  /** Removes the tenant's models that have no vectors, and then the tenant if it has no models. */
  #tidy(): void {
    const tables = this.#all.tenants.get(this.#tenant)
    if (tables === undefined) return
    for (const [model, { vectors }] of tables) if (vectors.size === 0) tables.delete(model)
    if (tables.size === 0) this.#all.tenants.delete(this.#tenant)
  }
}

const none: ReadonlyMap<string, Table> = new Map()
