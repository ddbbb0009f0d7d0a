/**
 * Groups of records with the same metadata, by doc id: a condition on metadata is asked once for each group, so that few records are
 * read. Only small flat metadata is grouped, and only 1,023 different ones; the other records are of no group.
 */
import { type Filtered, matches as matching, type MemoryFilter } from "../../domain/MemoryFilter.ts"
import { GrowableArray } from "./DocIds.ts"

/** The group of records that are of none. */
const none = 0
const mostGroups = 1_024
/** Most fields of metadata that is grouped, and the longest text in it, in UTF-16 units. */
const mostFields = 8
const longest = 64

/** A condition that a column tells. Good until the index changes. */
export interface ColumnTest {
  /** Values by doc id, whole numbers. */
  readonly column: Uint16Array | Int32Array
  /** Verdicts by value: 0 not known yet, 1 passes, 2 does not. */
  readonly verdicts: Uint8Array
  /** Whether some doc ids have the value 0, which stands for no group: each is asked for by itself. `undefined`: 0 is a value as any. */
  readonly hasLoners: boolean | undefined
  readonly isOf: (value: number, doc: number) => boolean
}

/** Asks for the verdict on a value: 1 or 2. */
export const verdictOf = ({ hasLoners, isOf, verdicts }: ColumnTest, value: number, doc: number): number => {
  const verdict = isOf(value, doc) ? 1 : 2
  if (value !== none || hasLoners === undefined) verdicts[value] = verdict
  return verdict
}

/** Whether a doc id passes a test. */
export const passesTest = (test: ColumnTest, doc: number): boolean => {
  const value = test.column[doc]!
  return (test.verdicts[value]! || verdictOf(test, value, doc)) === 1
}

/** The groups of an index. */
export class MetadataGroups {
  readonly #group = new GrowableArray((length) => new Uint16Array(length))
  /** Fields for a filter to look at, by number of the group; of these it is given its metadata only. */
  readonly #likes: Array<Filtered | undefined> = [undefined]
  readonly #numbers = new Map<string, number>()
  /** Whether a record of no group was added. */
  #hasLoners = false

  add(doc: number, record: Filtered): void {
    const number = this.#numberOf(record)
    if (number === none) this.#hasLoners = true
    this.#group.set(doc, number)
  }

  #numberOf(record: Filtered): number {
    const { metadata } = record
    const key = keyOf(metadata)
    if (key === undefined) return none
    const known = this.#numbers.get(key)
    if (known !== undefined) return known
    if (this.#likes.length === mostGroups) return none
    const number = this.#likes.push(likeOf(record, { metadata: { ...metadata } })) - 1
    this.#numbers.set(key, number)
    return number
  }

  /**
   * Makes the test of conditions, which asks `passes` about a record of no group. `undefined`: the conditions ask for more than
   * metadata.
   */
  test(where: NonNullable<MemoryFilter["where"]>, passes: (doc: number) => boolean): ColumnTest | undefined {
    if (!Object.keys(where).every((path) => path.startsWith("metadata."))) return undefined
    const isMet = matching({ where }, undefined)
    const likes = this.#likes
    return {
      column: this.#group.data,
      verdicts: new Uint8Array(likes.length),
      hasLoners: this.#hasLoners,
      isOf: (group, doc) => {
        const like = likes[group]
        return like === undefined ? passes(doc) : isMet(like)
      }
    }
  }
}

/** Returns what a filter is given in place of the records of a group: one of them, with nothing that others may not have. */
export const likeOf = (
  { createdAt, id, importance, kind, scope, source: { origin, trust }, validAt }: Filtered,
  shared: Partial<Pick<Filtered, "tags" | "metadata">>
): Filtered => ({
  ...{ id, scope, kind, tags: [], importance, data: {}, metadata: {}, source: { origin, trust }, createdAt, validAt },
  ...shared
})

/** Returns a key that metadata of the same fields and values shares; `undefined`: it is not grouped. */
const keyOf = (metadata: Filtered["metadata"]): string | undefined => {
  const entries = Object.entries(metadata)
  return entries.length <= mostFields && entries.every(([name, value]) => name.length <= longest && isSmall(value))
    ? JSON.stringify(entries)
    : undefined
}

/** Whether a value is told apart from any other by its JSON, and is short. */
const isSmall = (value: unknown): boolean =>
  typeof value === "string"
    ? value.length <= longest
    : value === null || typeof value === "boolean" || Number.isFinite(value)
