/**
 * Caches recently read records, so that a search need not read their texts from the database again. A partition is a group of scopes that
 * are indexed together. Each write gives its partition a new version. The key of an entry includes the version that the partition had
 * when the row was written, so no entry becomes stale. If the cache is full, the least recently used entries are evicted.
 */
import type { MemoryRecord } from "../../../../domain/MemoryRecord.ts"
import { text } from "../Database.ts"
import { partitionOf } from "../Rows.ts"

interface Entry {
  readonly record: MemoryRecord
  /** Estimated size of the entry in bytes. */
  readonly size: number
}

/** Estimated bytes of a record without its texts. */
const bytesOfRecord = 1_000

/** An LRU cache of records, limited by their estimated size. */
export class TextCache {
  readonly #capacity: number
  #size = 0
  /** Entries by key, least recently used first; a Map keeps insertion order. */
  readonly #entries = new Map<string, Entry>()

  /** Makes an empty cache. `capacity` is its largest estimated size in bytes. */
  constructor(capacity: number) {
    this.#capacity = capacity
  }

  /** Returns a record, if it is cached. `version` is the version of the record's partition when the row was written. */
  get(tenant: string, version: number, { id, scope }: Pick<MemoryRecord, "id" | "scope">): MemoryRecord | undefined {
    const key = keyOf(tenant, version, { id, scope })
    const entry = this.#entries.get(key)
    if (entry === undefined) return undefined
    this.#entries.delete(key)
    this.#entries.set(key, entry)
    return entry.record
  }

  /** Adds a record. `version` is the partition's version at the write of the row. `length` counts the UTF-16 units of the record's JSON. */
  add(tenant: string, version: number, record: MemoryRecord, length: number): void {
    const key = keyOf(tenant, version, record)
    if (this.#entries.has(key)) return
    const size = bytesOfRecord + 2 * length
    this.#size += size
    this.#entries.set(key, { record, size })
    for (const [oldest, { size }] of this.#entries) {
      if (this.#size <= this.#capacity) return
      this.#entries.delete(oldest)
      this.#size -= size
    }
  }
}

const keyOf = (tenant: string, version: number, { id, scope }: Pick<MemoryRecord, "id" | "scope">): string =>
  `${text(tenant)}\n${text(partitionOf(scope))}\n${version}\n${id}`
