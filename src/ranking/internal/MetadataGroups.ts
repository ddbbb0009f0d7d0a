/**
 * Puts records with equal metadata into groups. A condition on metadata is then evaluated once per group instead of once per record. A
 * record has no group if its metadata is large or nested, or if there are already 1,023 groups of other metadata.
 */
import { type Filtered, matches as matching, type MemoryFilter } from "../../domain/MemoryFilter.ts"
import { GrowableArray } from "./DocIds.ts"

/** Marks a record without a group, in place of a group number. */
const none = 0
const maxGroups = 1_024
/** Metadata with more fields than this is not grouped. */
const maxFields = 8
/** Metadata that has a name or text with more UTF-16 units than this is not grouped. */
const maxLength = 64

/** A condition on one column of the records. The results are cached by value. The object is valid only until the index changes. */
export interface ColumnTest {
  /** Value of each doc id: a group number or a scope number. */
  readonly column: Uint16Array | Int32Array
  /** Cached result by value: 0 not evaluated yet, 1 passes, 2 does not pass. */
  readonly verdicts: Uint8Array
  /**
   * Whether some doc ids may have no group. Such a doc id has the value 0, and the condition is evaluated for it each time. `undefined` if
   * the values are scope numbers. In that case, 0 is a normal scope number.
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
  /** The record that represents each group, by group number. Conditions on metadata are evaluated on this record. */
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
   * Makes a column test of the conditions in `where`; `undefined` if one of them is not on metadata. The test calls `passes` for a record
   * without a group.
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
 * Makes a record that represents a group. Filters are evaluated on this record instead of on all records of the group. Most fields are
 * copied from a record of the group. The tags and metadata are those in `shared`, by default empty. The `data` is empty.
 */
export const representativeOf = (
  { createdAt, id, importance, kind, scope, source: { origin, trust }, validAt }: Filtered,
  shared: Partial<Pick<Filtered, "tags" | "metadata">>
): Filtered => ({
  ...{ id, scope, kind, tags: [], importance, data: {}, metadata: {}, source: { origin, trust }, createdAt, validAt },
  ...shared
})

/** Returns the key of the metadata's group. Returns `undefined` if the metadata is too large or nested, and so has no group. */
const keyOf = (metadata: Filtered["metadata"]): string | undefined => {
  const entries = Object.entries(metadata)
  return entries.length <= maxFields && entries.every(([name, value]) => name.length <= maxLength && isSmall(value))
    ? JSON.stringify(entries)
    : undefined
}

/** Whether a value may be part of a key: a short text, `null`, a boolean or a finite number. */
const isSmall = (value: unknown): boolean =>
  typeof value === "string"
    ? value.length <= maxLength
    : value === null || typeof value === "boolean" || Number.isFinite(value)
