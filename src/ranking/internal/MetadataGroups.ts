/**
 * Groups records with equal metadata, so that a condition on metadata is evaluated once per group instead of once per record. A record has
 * no group if its metadata is large or nested, or if there are 1,023 groups of other metadata already.
 */
import { type Filtered, matches as matching, type MemoryFilter } from "../../domain/MemoryFilter.ts"
import { GrowableArray } from "./DocIds.ts"

/** Group number of the records that have no group. */
const none = 0
const maxGroups = 1_024
/** Largest number of fields of metadata that is grouped. */
const maxFields = 8
/** Greatest length of a name or text in metadata that is grouped, in UTF-16 units. */
const maxLength = 64

/** A condition on the value of a record in one column. The result is cached for each value. Valid until the index changes. */
export interface ColumnTest {
  /** Values by doc id: group numbers or scope numbers. */
  readonly column: Uint16Array | Int32Array
  /** Cached result by value: 0 not evaluated yet, 1 passes, 2 does not pass. */
  readonly verdicts: Uint8Array
  /**
   * Whether there may be doc ids without a group. Their value is 0, and the condition is evaluated for each of them. `undefined` if the
   * values are scope numbers, of which 0 is one like any other.
   */
  readonly hasUngrouped: boolean | undefined
  readonly evaluate: (value: number, doc: number) => boolean
}

/** Returns 1 if a value passes the condition, otherwise 2. Caches the result, unless the doc id has no group. */
export const verdictOf = (
  { hasUngrouped: hasLoners, evaluate: isOf, verdicts }: ColumnTest,
  value: number,
  doc: number
): number => {
  const verdict = isOf(value, doc) ? 1 : 2
  if (value !== none || hasLoners === undefined) verdicts[value] = verdict
  return verdict
}

/** Whether a doc id passes the condition. */
export const passesTest = (test: ColumnTest, doc: number): boolean => {
  const value = test.column[doc]!
  return (test.verdicts[value]! || verdictOf(test, value, doc)) === 1
}

/** The metadata groups of an index. */
export class MetadataGroups {
  readonly #group = new GrowableArray((length) => new Uint16Array(length))
  /** The representative of each group, by number: one record of the group, on which conditions on metadata are evaluated. */
  readonly #representatives: Array<Filtered | undefined> = [undefined]
  readonly #numbers = new Map<string, number>()
  /** Whether a record without a group was added. */
  #hasUngrouped = false

  add(doc: number, record: Filtered): void {
    const number = this.#numberOf(record)
    if (number === none) this.#hasUngrouped = true
    this.#group.set(doc, number)
  }

  #numberOf(record: Filtered): number {
    const { metadata } = record
    const key = keyOf(metadata)
    if (key === undefined) return none
    const known = this.#numbers.get(key)
    if (known !== undefined) return known
    if (this.#representatives.length === maxGroups) return none
    const number = this.#representatives.push(representativeOf(record, { metadata: { ...metadata } })) - 1
    this.#numbers.set(key, number)
    return number
  }

  /**
   * Makes a column test of the conditions in `where`. The test calls `passes` for a record without a group. Returns `undefined` if a
   * condition is not on metadata.
   */
  test(where: NonNullable<MemoryFilter["where"]>, passes: (doc: number) => boolean): ColumnTest | undefined {
    if (!Object.keys(where).every((path) => path.startsWith("metadata."))) return undefined
    const isMet = matching({ where }, undefined)
    const representatives = this.#representatives
    return {
      column: this.#group.data,
      verdicts: new Uint8Array(representatives.length),
      hasUngrouped: this.#hasUngrouped,
      evaluate: (group, doc) => {
        const representative = representatives[group]
        return representative === undefined ? passes(doc) : isMet(representative)
      }
    }
  }
}

/**
 * Makes the record on which a filter is evaluated in place of all records of a group. It has fields of one record of the group. Its tags
 * and metadata are those in `shared`, by default empty, and its `data` is empty.
 */
export const representativeOf = (
  { createdAt, id, importance, kind, scope, source: { origin, trust }, validAt }: Filtered,
  shared: Partial<Pick<Filtered, "tags" | "metadata">>
): Filtered => ({
  ...{ id, scope, kind, tags: [], importance, data: {}, metadata: {}, source: { origin, trust }, createdAt, validAt },
  ...shared
})

/** Returns a key that is equal for equal metadata; `undefined` if the metadata is too large or nested to be grouped. */
const keyOf = (metadata: Filtered["metadata"]): string | undefined => {
  const entries = Object.entries(metadata)
  return entries.length <= maxFields && entries.every(([name, value]) => name.length <= maxLength && isSmall(value))
    ? JSON.stringify(entries)
    : undefined
}

/** Whether a value is short, and its JSON differs from that of every other value. */
const isSmall = (value: unknown): boolean =>
  typeof value === "string"
    ? value.length <= maxLength
    : value === null || typeof value === "boolean" || Number.isFinite(value)
