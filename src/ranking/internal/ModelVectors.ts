/** The vectors of one model over the records of a `MemoryIndex`. */
import type { MemoryId } from "../../domain/MemoryId.ts"
import type { Scored } from "../Bm25.ts"
import { type Embeddings, make, type VectorIndex } from "../VectorIndex.ts"
import { atOnce, type Steps } from "./IndexCodec.ts"

/** A record's id, and the hash of the record's text. `hash` may be a getter, which computes the hash on the first read. */
export interface Hashed {
  readonly id: MemoryId
  readonly hash: string
}

/** The vectors of one model in one index. A record waits until `Embeddings` has its vector. A search by vector finds no waiting record. */
export class ModelVectors {
  readonly #model: string
  readonly #embeddings: Embeddings
  readonly #order: (a: MemoryId, b: MemoryId) => number
  #vectors: VectorIndex<MemoryId> | undefined
  readonly #waiting = new Map<MemoryId, Hashed>()
  /** Ids of the waiting records whose vectors are still to be looked up in `Embeddings`. */
  readonly #fresh = new Set<MemoryId>()
  /** Ids of the records that were in the index when this object was made, and that `preparing` has not added yet. */
  readonly #first: Array<MemoryId>
  readonly #recordOf: (id: MemoryId) => Hashed | undefined
  #version = 0
  #dimensions: number | undefined

  /** `recordOf` returns a record if it is still in the index. `order` orders records with equal cosines. */
  constructor(
    model: string,
    embeddings: Embeddings,
    ids: Iterable<MemoryId>,
    recordOf: (id: MemoryId) => Hashed | undefined,
    order: (a: MemoryId, b: MemoryId) => number
  ) {
    this.#model = model
    this.#embeddings = embeddings
    this.#first = Array.from(ids)
    this.#recordOf = recordOf
    this.#order = order
  }

  /** Whether the model's number of dimensions has changed since the first vector was added. If so, this object must be replaced. */
  get isStale(): boolean {
    return this.#dimensions !== undefined && this.#dimensions !== this.#embeddings.dimensions(this.#model)
  }

  /** Adds a record, or replaces the record with the same id. */
  add(record: Hashed): void {
    this.remove(record.id)
    this.#waiting.set(record.id, record)
    this.#fresh.add(record.id)
  }

  remove(id: MemoryId): void {
    this.#vectors?.remove(id)
    this.#waiting.delete(id)
    this.#fresh.delete(id)
  }

  /** Ids of the records that have no vector of the model. */
  get waiting(): Iterable<MemoryId> {
    this.#catchUp()
    return this.#waiting.keys()
  }

  isWaiting(id: MemoryId): boolean {
    this.#catchUp()
    return this.#waiting.has(id)
  }

  /** Returns at most `limit` records with cosines above 0, nearest first. Searches only the records that `among` accepts or lists. */
  nearest(
    vector: Float32Array,
    limit: number,
    among: ((id: MemoryId) => boolean) | ReadonlyArray<MemoryId>
  ): ReadonlyArray<Scored<MemoryId>> {
    this.#catchUp()
    if (this.#vectors === undefined || this.#dimensions !== vector.length) return []
    const found = typeof among === "function"
      ? this.#vectors.search(vector, limit, among)
      : this.#vectors.searchAmong(vector, among, limit)
    const end = found.findIndex(({ score }) => !(score > 0))
    return end < 0 ? found : found.slice(0, end)
  }

  /** Whether no record remains to be looked up in `Embeddings`. */
  get isPrepared(): boolean {
    const isCurrent = this.#version === this.#embeddings.version(this.#model)
    return isCurrent && this.#first.length === 0 && this.#fresh.size === 0
  }

  /**
   * Looks up the vectors of new records in `Embeddings`, in steps. If `Embeddings` got vectors since the last call, looks up all records
   * that have no vector yet. The steps of two calls may alternate.
   */
  *preparing(): Steps<void> {
    for (let id = this.#first.pop(); id !== undefined; id = this.#first.pop()) {
      const record = this.#recordOf(id)
      if (record !== undefined) this.add(record)
      yield lookUpWork
    }
    const version = this.#embeddings.version(this.#model)
    if (version !== this.#version) {
      let count = 0
      for (const id of this.#waiting.keys()) {
        this.#fresh.add(id)
        if (++count % 512 === 0) yield 512
      }
      this.#version = version // is set after the loop, because the caller may stop this generator during the loop
    }
    for (const id of this.#fresh) {
      this.#fresh.delete(id)
      yield this.#lookUp(id)
    }
  }

  /** Adds the vector of a waiting record if `Embeddings` has that vector. Returns the work done, in units of 0.1 µs. */
  #lookUp(id: MemoryId): number {
    const record = this.#waiting.get(id)
    const vector = record && this.#embeddings.get(this.#model, record.hash)
    if (vector === undefined || vector.length !== (this.#dimensions ??= vector.length)) return lookUpWork
    this.#vectors ??= make(vector.length, { order: this.#order })
    this.#vectors.add(id, vector)
    this.#waiting.delete(id)
    return lookUpWork + vector.length
  }

  readonly #catchUp = (): void => atOnce(this.preparing())
}

/** Work of looking up the vector of a record, in units of 0.1 µs. */
const lookUpWork = 8
