/** The vectors of one model, of the records of one index: who has one, and who waits for it. */
import type { MemoryId } from "../../domain/MemoryId.ts"
import type { MemoryRecord } from "../../domain/MemoryRecord.ts"
import type { Scored } from "../Bm25.ts"
import { type Embeddings, hashOf } from "../Embeddings.ts"
import * as VectorIndex from "../VectorIndex.ts"

export class ModelVectors {
  readonly #model: string
  readonly #embeddings: Embeddings
  #vectors: VectorIndex.VectorIndex<MemoryId> | undefined
  readonly #waiting = new Map<MemoryId, MemoryRecord>()
  /** Of those that wait: not looked up yet. */
  readonly #fresh = new Set<MemoryId>()
  #version = 0
  #dimensions: number | undefined

  constructor(model: string, embeddings: Embeddings, records: Iterable<MemoryRecord>) {
    this.#model = model
    this.#embeddings = embeddings
    for (const record of records) this.add(record)
  }

  /** The vectors it was made of are gone, and those that came since have other dimensions: to be made anew. */
  get isStale(): boolean {
    return this.#dimensions !== undefined && this.#dimensions !== this.#embeddings.dimensions(this.#model)
  }

  /** Replaces the one of the same id. */
  add(record: MemoryRecord): void {
    this.remove(record.id)
    this.#waiting.set(record.id, record)
    this.#fresh.add(record.id)
  }

  remove(id: MemoryId): void {
    this.#vectors?.remove(id)
    this.#waiting.delete(id)
    this.#fresh.delete(id)
  }

  /** Those that have no vector of the model. */
  get waiting(): Iterable<MemoryId> {
    this.#catchUp()
    return this.#waiting.keys()
  }

  isWaiting(id: MemoryId): boolean {
    this.#catchUp()
    return this.#waiting.has(id)
  }

  /** Above 0 only, nearest first; ties in no order that means anything. `sees` is asked before the cut. */
  nearest(
    vector: Float32Array,
    limit: number,
    sees: ((id: MemoryId) => boolean) | ReadonlyArray<MemoryId>
  ): ReadonlyArray<Scored<MemoryId>> {
    this.#catchUp()
    if (this.#vectors === undefined || this.#dimensions !== vector.length) return []
    const found = typeof sees === "function"
      ? this.#vectors.search(vector, limit, sees)
      : this.#vectors.searchAmong(vector, sees, limit)
    const end = found.findIndex(({ score }) => !(score > 0))
    return end < 0 ? found : found.slice(0, end)
  }

  /** Cost: those that are new; all that wait, where vectors have come since. */
  #catchUp(): void {
    const version = this.#embeddings.version(this.#model)
    const ids = version === this.#version ? this.#fresh : Array.from(this.#waiting.keys())
    for (const id of ids) {
      const record = this.#waiting.get(id)
      const vector = record && this.#embeddings.get(this.#model, hashOf(record))
      if (vector === undefined || vector.length !== (this.#dimensions ??= vector.length)) continue
      this.#vectors ??= VectorIndex.make(vector.length)
      this.#vectors.add(id, vector)
      this.#waiting.delete(id)
    }
    this.#fresh.clear()
    this.#version = version
  }
}

/** A vector in 32 bits. A cosine asks for no length: what is too long or too short for them is made 1. */
export const toFloat32 = (vector: ReadonlyArray<number>): Float32Array => {
  const most = vector.reduce((most, number) => Math.max(most, Math.abs(number)), 0)
  return Float32Array.from(most === 0 || (most > 1e-30 && most < 1e30) ? vector : vector.map((number) => number / most))
}
