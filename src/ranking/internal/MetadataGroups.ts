/**
 * Groups of records with the same metadata, by slot: a condition on metadata is asked once for each group, so that few records are
 * read. Only small flat metadata is grouped, and only 1,023 different ones; the other records are of no group.
 */
import { type Filtered, matches as matching, type MemoryFilter } from "../../domain/MemoryFilter.ts"
import { GrowableArray } from "./Slots.ts"

/** The group of records that are of none. */
const none = 0
const mostGroups = 1_024
/** Most fields of metadata that is grouped, and the longest text in it, in UTF-16 units. */
const mostFields = 8
const longest = 64

/** Metadata of records by slot. */
export class MetadataGroups {
  readonly #group = new GrowableArray((length) => new Uint16Array(length))
  /** Fields for a filter to look at, by number of the group; of these it is given its metadata only. */
  readonly #likes: Array<Filtered | undefined> = [undefined]
  readonly #numbers = new Map<string, number>()

  add(slot: number, record: Filtered): void {
    this.#group.set(slot, this.#numberOf(record))
  }

  #numberOf({ createdAt, id, importance, kind, metadata, scope, source, validAt }: Filtered): number {
    const key = keyOf(metadata)
    if (key === undefined) return none
    const known = this.#numbers.get(key)
    if (known !== undefined) return known
    if (this.#likes.length === mostGroups) return none
    const { origin, trust } = source
    const like = {
      id,
      scope,
      kind,
      tags: [],
      importance,
      data: {},
      metadata: { ...metadata },
      source: { origin, trust },
      createdAt,
      validAt
    }
    const number = this.#likes.push(like) - 1
    this.#numbers.set(key, number)
    return number
  }

  /**
   * Makes what tells whether a slot meets conditions: by its group, else by `passes`; `passes` itself where the conditions ask for
   * more than metadata.
   */
  passing(where: NonNullable<MemoryFilter["where"]>, passes: (slot: number) => boolean): (slot: number) => boolean {
    if (!Object.keys(where).every((path) => path.startsWith("metadata."))) return passes
    const isMet = matching({ where }, undefined)
    const groups = this.#group.data
    const likes = this.#likes
    /** Verdicts by group: 0 not known yet, 1 passes, 2 does not. */
    const verdicts = new Uint8Array(likes.length)
    return (slot) => {
      const group = groups[slot]!
      const verdict = verdicts[group]!
      if (verdict > 0) return verdict === 1
      const like = likes[group]
      if (like === undefined) return passes(slot)
      const is = isMet(like)
      verdicts[group] = is ? 1 : 2
      return is
    }
  }
}

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
