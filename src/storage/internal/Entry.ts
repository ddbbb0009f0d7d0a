/** The entry of a row: everything that it can be found by, made when the row is written. */
import type { MemoryKind } from "../../domain/MemoryKind.ts"
import * as MemoryKinds from "../../domain/MemoryKind.ts"
import { dedupeKey, type MemoryRecord } from "../../domain/MemoryRecord.ts"
import { isInternal } from "../../domain/MemoryScope.ts"
import type * as Analyzer from "../../ranking/Analyzer.ts"
import { buildDoc } from "../../ranking/Bm25.ts"
import { hashOf } from "../../ranking/Embeddings.ts"
import type { Entry } from "../Engine.ts"
import * as Links from "../Links.ts"
import type { Stored } from "../MemoryStore.ts"

/** Makes the entry of a row. Costs nothing until a field is read: an index in memory reads the record itself. */
export const entryOf = (analyzer: Analyzer.Service) => (stored: Stored): Entry => new LazyEntry(stored, analyzer)

/** Makes the row of a record that is there. `key` is its dedupe key where that is known already. */
export const rowOf = (
  kinds: ReadonlyMap<string, MemoryKind>,
  tenant: string,
  record: MemoryRecord,
  key?: string
): Stored => ({
  record,
  forgotten: false,
  ...(MemoryKinds.find(kinds, record.kind).dedupe && { dedupeKey: key ?? dedupeKey(tenant, record) })
})

class LazyEntry implements Entry {
  readonly stored: Stored
  readonly #analyzer: Analyzer.Service
  #read: Pick<Entry, "terms" | "length"> | undefined

  constructor(stored: Stored, analyzer: Analyzer.Service) {
    this.stored = stored
    this.#analyzer = analyzer
  }

  get terms(): ReadonlyMap<string, number> {
    return (this.#read ??= read(this.stored, this.#analyzer)).terms
  }
  get length(): number {
    return (this.#read ??= read(this.stored, this.#analyzer)).length
  }
  get hash(): string {
    return hashOf(this.stored.record)
  }
  get names(): ReadonlyArray<string> {
    return this.stored.forgotten ? [] : Links.answersTo(this.stored.record)
  }
  get refersTo(): ReadonlyArray<string> {
    return this.stored.forgotten ? [] : Links.refersTo(this.stored.record)
  }
}

/** A tombstone is found by no word, and neither is a row of the library itself. */
const read = ({ forgotten, record }: Stored, analyzer: Analyzer.Service): Pick<Entry, "terms" | "length"> => {
  if (forgotten || isInternal(record.scope)) return { terms: new Map(), length: 0 }
  const { length, tags, terms } = buildDoc(record.id, record, analyzer.index)
  return { terms: new Map(Array.from(terms, ([term, count]) => [term, 2 * count + (tags.has(term) ? 1 : 0)])), length }
}
