/**
 * Groups records with equal metadata, so that a condition on metadata is evaluated once per group instead of once per record. Only
 * small, flat metadata is grouped, and at most 1,023 different values of it; the other records have no group.
 */
import { type Filtered, matches as matching, type MemoryFilter } from "../../domain/MemoryFilter.ts"
import { GrowableArray } from "./DocIds.ts"

/** Group number of the records that have no group. */
const none = 0
const maxGroups = 1_024
/** Largest number of fields of metadata that is grouped, and the longest name or text in it, in UTF-16 units. */
const maxFields = 8
const maxLength = 64

/** A condition on a record's value in one column. Evaluated once per value, and the result cached. Valid until the index changes. */
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

/** Evaluates the condition for a value, and caches the result: 1 passes, 2 does not pass. */
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

/** Makes a stand-in for all records of a group, to evaluate a filter on: a copy of one of them, with only the `shared` tags or metadata. */
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
