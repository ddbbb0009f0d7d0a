/**
 * Keeps records that were read lately in memory, so that a search whose hits were shown before reads no texts from the database. Each
 * is kept as it was at a version of its partition. A write makes a new version, so that no entry ever becomes wrong: an entry that is
 * no longer asked for is dropped once there is no more room.
 */
import type { MemoryRecord } from "../../../../domain/MemoryRecord.ts"
import { text } from "../Database.ts"
import { partitionOf } from "../Rows.ts"

interface Entry {
  readonly record: MemoryRecord
  /** Size of the entry in bytes, by estimate. */
  readonly size: number
}

/** Bytes of a record beside its texts. */
const bytesOfRecord = 1_000

/** The records that were read lately, within a number of bytes. */
export class TextCache {
  readonly #capacity: number
  #size = 0
  /** Entries by key; those asked for last at the end: a Map keeps the order of insertion. */
  readonly #entries = new Map<string, Entry>()

  /** Makes an empty cache. `capacity` is the bytes that it may hold, by estimate. */
  constructor(capacity: number) {
    this.#capacity = capacity
  }

  /** Returns the record that an index has at a version. */
  get(tenant: string, version: number, { id, scope }: Pick<MemoryRecord, "id" | "scope">): MemoryRecord | undefined {
    const key = keyOf(tenant, version, { id, scope })
    const entry = this.#entries.get(key)
    if (entry === undefined) return undefined
    this.#entries.delete(key)
    this.#entries.set(key, entry)
    return entry.record
  }

  /** Adds a record as it was written at a version. `length` is that of its JSON, in UTF-16 units. */
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
