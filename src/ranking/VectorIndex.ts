/**
 * Exact cosine over typed arrays. One model per index; mutable, incremental. A search gives every id by `cosineSimilarity`, best
 * first, ties in order of arrival, cut to `limit`: the same to the last bit, whatever the machine.
 *
 * Where the rows come to 256 KiB in 8 bits (682 of 384 dimensions) and the machine has SIMD in WebAssembly, a `QuantizedVectors`
 * tells which cosines have to be computed: by bounds, so nothing is approximate.
 */
import type { Scored } from "./Bm25.ts"
import { QuantizedVectors, strideOf } from "./internal/QuantizedVectors.ts"
import { float64, int32, TopKBounds } from "./internal/Slots.ts"

export interface VectorIndex<in out Id> {
  readonly size: number
  /**
   * Replaces the vector of the same id, which keeps its place in the order of arrival. Not copied: it must stay as it is.
   * A vector that is not finite, or has not as many numbers as the index has dimensions, is a RangeError, here and below.
   */
  readonly add: (id: Id, vector: Float32Array) => void
  /** Whether it was there. */
  readonly remove: (id: Id) => boolean
  /**
   * Best first, −1..1; `only` is asked before the cut to `limit`, and of few: not of those that cannot be among the best
   * anyway. Cost at 384 dimensions: ~20 ns a vector with a sieve, ~300 ns without.
   */
  readonly search: (vector: Float32Array, limit: number, only?: (id: Id) => boolean) => ReadonlyArray<Scored<Id>>
  /** As `search` with only these; ids that are not there are passed over. Cost: theirs, not that of the whole index. */
  readonly searchAmong: (vector: Float32Array, ids: Iterable<Id>, limit: number) => ReadonlyArray<Scored<Id>>
}

export const make = <Id>(dimensions: number, options: {
  /** Bytes from which on a sieve pays. Default 256 KiB; `Infinity`: never. */
  readonly sieveFrom?: number | undefined
  /** Order of ids whose cosines are equal. Default: that of arrival. */
  readonly order?: ((a: Id, b: Id) => number) | undefined
} = {}): VectorIndex<Id> => {
  const { order, sieveFrom = 262_144 } = options
  const stride = strideOf(dimensions)
  const slots = new Map<Id, number>()
  // by slot; the last one fills the place of the one that goes
  const ids: Array<Id> = []
  const vectors: Array<Float32Array> = []
  const squares = float64()
  const arrivals = float64()
  /** In which `searchAmong` it was last asked for. */
  const askedIn = int32()
  let arrived = 0
  let asking = 0
  let sieve: QuantizedVectors | undefined
  let mayHaveSieve = true

  /** Of what fits: the square of its length. */
  const squareOf = (vector: Float32Array): number => {
    if (vector.length !== dimensions) throw new RangeError(`a vector of ${vector.length} among those of ${dimensions}`)
    const square = dot(vector, vector)
    if (!Number.isFinite(square)) throw new RangeError("a vector that is not finite")
    return square
  }

  const sift = (slot: number) => {
    if (sieve?.set(slot, vectors[slot]!, Math.sqrt(squares.data[slot]!)) !== false) return
    sieve = undefined
    mayHaveSieve = false
  }

  /** Anew where there is none yet, or one far too large. */
  const fitSieve = () => {
    const size = ids.length * stride
    if (sieve === undefined ? !mayHaveSieve || size < sieveFrom : sieve.capacity < 4 * size + sieveFrom) return
    sieve = size < sieveFrom ? undefined : QuantizedVectors.make(dimensions)
    mayHaveSieve = size < sieveFrom || sieve !== undefined
    for (let slot = 0; slot < ids.length && sieve !== undefined; slot++) sift(slot)
  }

  const search = (
    vector: Float32Array,
    limit: number,
    among: Int32Array | undefined,
    only?: (slot: number) => boolean
  ): ReadonlyArray<Scored<Id>> => {
    const square = squareOf(vector)
    const cosine = (slot: number) => cosineOf(dot(vector, vectors[slot]!), square, squares.data[slot]!)
    const count = among?.length ?? ids.length
    if (count === 0 || !(limit >= 1)) return []
    const contenders = new TopKBounds(limit)
    if (sieve !== undefined && count > 32 + 2 * limit) {
      sieve.sift(vector, Math.sqrt(square), among, count, contenders, only)
    } else {
      for (let i = 0; i < count; i++) {
        const slot = among === undefined ? i : among[i]!
        if (only !== undefined && !only(slot)) continue
        const score = cosine(slot)
        contenders.offer(slot, score, score)
      }
    }
    return contenders.all
      .map((slot) => ({ id: ids[slot]!, score: cosine(slot), arrival: arrivals.data[slot]! }))
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
      let slot = slots.get(id)
      if (slot === undefined) {
        slot = ids.push(id) - 1
        slots.set(id, slot)
        arrivals.set(slot, arrived++)
        askedIn.set(slot, 0)
      }
      vectors[slot] = vector
      squares.set(slot, square)
      if (sieve !== undefined) sift(slot)
      else fitSieve()
    },
    remove(id) {
      const slot = slots.get(id)
      if (slot === undefined) return false
      const last = ids.length - 1
      if (slot < last) {
        ids[slot] = ids[last]!
        vectors[slot] = vectors[last]!
        squares.set(slot, squares.data[last]!)
        arrivals.set(slot, arrivals.data[last]!)
        sieve?.move(last, slot)
        slots.set(ids[slot]!, slot)
      }
      slots.delete(id)
      ids.pop()
      vectors.pop()
      if (sieve !== undefined) fitSieve()
      return true
    },
    search(vector, limit, only) {
      return search(vector, limit, undefined, only && ((slot) => only(ids[slot]!)))
    },
    searchAmong(vector, wanted, limit) {
      const found: Array<number> = []
      asking++
      for (const id of wanted) {
        const slot = slots.get(id)
        if (slot === undefined || askedIn.data[slot] === asking) continue
        askedIn.data[slot] = asking
        found.push(slot)
      }
      return search(vector, limit, Int32Array.from(found))
    }
  }
}

/** −1..1, and 1 of equals; 0 where either is all zeros or not finite, or lengths differ; never NaN. */
export const cosineSimilarity = (a: ArrayLike<number>, b: ArrayLike<number>): number => cosineTo(a)(b)

/** Returns `cosineSimilarity` to a vector whose squares are added up once. `bb`: those of the other one, where they are known. */
export const cosineTo = (a: ArrayLike<number>): (b: ArrayLike<number>, bb?: number) => number => {
  const aa = dot(a, a)
  return (b, bb = dot(b, b)) => {
    if (a.length !== b.length) return 0
    if (aa * bb > 1e-290 && aa * bb < 1e290) return cosineOf(dot(a, b), aa, bb)
    const [x, y] = [toUnit(a), toUnit(b)] // squares that a number cannot hold
    return x === undefined || y === undefined ? 0 : cosineOf(dot(x, y), dot(x, x), dot(y, y))
  }
}

/** Of finite squares: those of 32-bit numbers always are. */
const cosineOf = (product: number, aa: number, bb: number): number =>
  aa === 0 || bb === 0 ? 0 : Math.max(-1, Math.min(1, product / Math.sqrt(aa * bb)))

/** The largest component 1. */
const toUnit = (vector: ArrayLike<number>): ReadonlyArray<number> | undefined => {
  const numbers = Array.from(vector)
  const most = numbers.reduce((most, number) => Math.max(most, Math.abs(number)), 0)
  return most > 0 && most < Infinity ? numbers.map((number) => number / most) : undefined
}

/** Returns the sum of products: four sums side by side, which the processor adds at a time. */
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

/** A vector in 32 bits. A cosine asks for no length: what is too long or too short for them is made 1. */
export const toFloat32 = (vector: ReadonlyArray<number>): Float32Array => {
  const most = vector.reduce((most, number) => Math.max(most, Math.abs(number)), 0)
  return Float32Array.from(most === 0 || (most > 1e-30 && most < 1e30) ? vector : vector.map((number) => number / most))
}

/* Vectors by model and by the hash of the text they are of: an edit invalidates itself, and models are never mixed. */

interface Table {
  /** Of every vector of the model; the first one says. */
  readonly dimensions: number
  readonly vectors: Map<string, Float32Array>
  version: number
}

/** The vectors of several tenants. A tenant without vectors takes no memory. */
export class TenantEmbeddings {
  readonly #all: All = { tenants: new Map(), arrived: 0, removals: 0 }

  /** The tenants that have a vector. */
  get tenants(): ReadonlyArray<string> {
    return Array.from(this.#all.tenants.keys())
  }

  /** Returns the vectors of one tenant. Every call for the same tenant returns a view of the same vectors. */
  of(tenant: string): Embeddings {
    return new Embeddings(this.#all, tenant)
  }
}

interface All {
  readonly tenants: Map<string, Map<string, Table>>
  /** Number of vectors ever added, removed ones included. */
  arrived: number
  /** Number of times that `retain` has removed any. */
  removals: number
}

export class Embeddings {
  readonly #all: All
  readonly #tenant: string

  /** Makes an independent set of vectors; `TenantEmbeddings.of` makes the view of a tenant. */
  constructor(all: All = { tenants: new Map(), arrived: 0, removals: 0 }, tenant = "") {
    this.#all = all
    this.#tenant = tenant
  }

  get #tables(): ReadonlyMap<string, Table> {
    return this.#all.tenants.get(this.#tenant) ?? none
  }

  /** The models that have a vector. */
  get models(): ReadonlyArray<string> {
    return Array.from(this.#tables.keys())
  }

  /** `undefined`: there is no vector of this model. */
  dimensions(model: string): number | undefined {
    return this.#tables.get(model)?.dimensions
  }

  /** Another with each vector that comes, never the same again: what was not there may be there now. */
  version(model: string): number {
    return this.#tables.get(model)?.version ?? 0
  }

  /** How many vectors of the model that has the most. */
  get size(): number {
    return Math.max(0, ...Array.from(this.#tables.values(), ({ vectors }) => vectors.size))
  }

  /** Another after each `retain` that removed something: what was there may be gone. */
  get removals(): number {
    return this.#all.removals
  }

  /** Whether there is a vector of any model. Cost: the models. */
  has(hash: string): boolean {
    for (const { vectors } of this.#tables.values()) if (vectors.has(hash)) return true
    return false
  }

  get(model: string, hash: string): Float32Array | undefined {
    return this.#tables.get(model)?.vectors.get(hash)
  }

  all(model: string): Iterable<readonly [hash: string, vector: Float32Array]> {
    return this.#tables.get(model)?.vectors ?? []
  }

  /**
   * Not copied. A hash that has one keeps it: of one text a model makes one vector. `false`, and nothing changed: it is
   * empty, not finite, or has not the dimensions of the others.
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

  /** Drops vectors of every model, or of one. Returns how many went. Cost: all vectors. */
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

  /** Removes vectors of texts that no record has, in every model. Cost: those, for each model. */
  drop(hashes: Iterable<string>): void {
    const tables = Array.from(this.#tables.values())
    for (const hash of hashes) for (const { vectors } of tables) vectors.delete(hash)
    this.#tidy()
  }

  /** Gives up the tables without vectors. */
  #tidy(): void {
    const tables = this.#all.tenants.get(this.#tenant)
    if (tables === undefined) return
    for (const [model, { vectors }] of tables) if (vectors.size === 0) tables.delete(model)
    if (tables.size === 0) this.#all.tenants.delete(this.#tenant)
  }
}

const none: ReadonlyMap<string, Table> = new Map()
