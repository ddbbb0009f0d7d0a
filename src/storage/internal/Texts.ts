/**
 * The texts of a tenant's rows by the hash that their vectors are kept under: which records have a text, which texts wait for a
 * vector, and which vectors are of a text that no record has any more. The library's own rows are never embedded, and left out.
 */
import { embeddingText, hashOf, isExpired, type MemoryRecord } from "../../domain/MemoryRecord.ts"
import { isInternal } from "../../domain/MemoryScope.ts"
import type { Embeddings } from "../../ranking/VectorIndex.ts"
import type { Unembedded } from "./EngineContract.ts"

/** The texts that may wait for a vector of one model. */
interface Waiting {
  /** Goes through the texts that were not looked at yet; whatever comes before it has ended is among them. */
  readonly rest: Iterator<string>
  /** Those that had no vector when they were looked at, and those that came since. */
  readonly seen: Set<string>
  /** `Embeddings.removals` when it was made. */
  readonly removals: number
}

export class Texts {
  readonly #embeddings: Embeddings
  readonly #holders = new Map<string, MemoryRecord | Set<MemoryRecord>>()
  readonly #litter: Set<string>
  readonly #waiting = new Map<string, Waiting>()

  /** Makes a table without texts: every vector that there is is litter. */
  constructor(embeddings: Embeddings) {
    this.#embeddings = embeddings
    this.#litter = new Set(embeddings.models.flatMap((model) => Array.from(embeddings.all(model), ([hash]) => hash)))
  }

  /** Whether a record has the text. */
  has(hash: string): boolean {
    return this.#holders.has(hash)
  }

  /** Whether most of so many vectors are of texts that were edited away. */
  isLittered(vectors: number): boolean {
    return vectors > 2 * this.#holders.size
  }

  /** Returns the work that took, in units of a `Pacer`. */
  add(record: MemoryRecord): number {
    if (isInternal(record.scope)) return 0
    const hash = hashOf(record)
    const holders = this.#holders.get(hash)
    if (holders instanceof Set) holders.add(record)
    else this.#holders.set(hash, holders === undefined ? record : new Set([holders, record]))
    if (holders === undefined) {
      this.#litter.delete(hash)
      for (const { seen } of this.#waiting.values()) seen.add(hash)
    }
    return perText + record.body.length
  }

  /** Takes away a record that was added. */
  remove(record: MemoryRecord): void {
    if (isInternal(record.scope)) return
    const hash = hashOf(record)
    const holders = this.#holders.get(hash)
    if (holders instanceof Set && holders.delete(record) && holders.size > 0) return
    this.#holders.delete(hash)
    for (const { seen } of this.#waiting.values()) seen.delete(hash)
    if (this.#embeddings.has(hash)) this.#litter.add(hash)
  }

  /** Takes note of vectors that have come. */
  attached(hashes: Iterable<string>): void {
    for (const hash of hashes) if (!this.#holders.has(hash)) this.#litter.add(hash)
  }

  /** Erases the vectors of texts that no record has. Cost: those. */
  erase(): void {
    this.#embeddings.drop(this.#litter)
    this.#litter.clear()
  }

  /**
   * Returns up to `limit` texts that have no vector of the model, each once, of records that are not expired at `now`. Cost: those,
   * the texts that have come to have a vector since the last time, and those of expired records; the first time all before them.
   */
  pending(model: string, limit: number, now: number): ReadonlyArray<Unembedded> {
    const found: Array<Unembedded> = []
    const take = (hash: string) => {
      const holders = this.#holders.get(hash)!
      const live = (holders instanceof Set ? Array.from(holders) : [holders]).find((record) => !isExpired(record, now))
      if (live !== undefined) found.push({ hash, text: embeddingText(live) })
    }
    const { rest, seen } = this.#waitingFor(model)
    for (const hash of seen) {
      if (found.length >= limit) return found
      if (this.#embeddings.get(model, hash) === undefined) take(hash)
      else seen.delete(hash)
    }
    while (found.length < limit) {
      const { done, value: hash } = rest.next()
      if (done === true) break
      if (seen.has(hash) || this.#embeddings.get(model, hash) !== undefined) continue
      seen.add(hash)
      take(hash)
    }
    return found
  }

  #waitingFor(model: string): Waiting {
    const { removals } = this.#embeddings
    const known = this.#waiting.get(model)
    if (known?.removals === removals) return known
    const made = { rest: this.#holders.keys(), seen: new Set<string>(), removals }
    // of a model without vectors it is not kept: a caller could ask for any number of names
    if (this.#embeddings.dimensions(model) === undefined) this.#waiting.delete(model)
    else this.#waiting.set(model, made)
    return made
  }
}

/** What hashing a text costs beside its characters. */
const perText = 32
