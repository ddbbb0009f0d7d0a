/**
 * Bit masks of documents and groups. A mask tells which of the query's first 31 terms the document or group contains. A group is the set of
 * documents of a session. `mark` marks the documents. If many documents match, and no document of the visible scopes is removed or expired,
 * `mark` also marks their groups. Otherwise, `gather` computes the masks of the groups later.
 */
import { int32 } from "./DocIds.ts"

/** The masks of the current query. */
export class TermMasks {
  // `#groups` and `#masks` are indexed by doc id
  /** Group number of each document, counted from 1; 0 for no group. */
  readonly #groups = int32()
  readonly #masks = int32()
  /** The mask of each group, computed by `gather`. Group 0 means no group. All its bits are set, so that `#touched` never lists it. */
  readonly #byGroup = int32(new Int32Array(64).fill(-1, 0, 1))
  /** The first `#touchedCount` entries are the groups whose mask in `#byGroup` is not 0. */
  readonly #touched = int32()
  #touchedCount = 0
  /**
   * `#flags[term][group]` is 1 if a document of the group contains the term. Flags are used only if many documents match the query
   * (`isMany`). Only the first `#flaggedTerms` terms of the query have flags.
   */
  readonly #flags: Array<Uint8Array> = []
  #flaggedTerms = 0
  /** The highest group number so far. */
  #lastGroup = 0

  /** Puts a doc id into a group. Group 0 means no group. */
  join(doc: number, group: number): void {
    this.#groups.set(doc, group)
    if (group === 0) return
    if (group >= this.#byGroup.data.length) this.#byGroup.set(group, 0)
    this.#touched.set(group, 0)
    this.#lastGroup = Math.max(this.#lastGroup, group)
  }

  /** Makes room for `docs` doc ids. */
  grow(docs: number): void {
    for (const column of [this.#groups, this.#masks]) if (column.data.length < docs) column.set(docs - 1, 0)
  }

  groupOf(doc: number): number {
    return this.#groups.data[doc]!
  }
  maskOf(doc: number): number {
    return this.#masks.data[doc]!
  }
  maskOfGroup(group: number): number {
    let mask = this.#byGroup.data[group]!
    for (let term = 0; term < this.#flaggedTerms; term++) mask |= this.#flags[term]![group]! << term
    return mask
  }

  /** The groups that contain at least one of the query's terms. The array is valid until the next query. */
  get touched(): Int32Array {
    const touched = this.#touched.data
    if (this.#flaggedTerms === 0) return touched.subarray(0, this.#touchedCount)
    let count = 0
    for (let group = 1; group <= this.#lastGroup; group++) {
      touched[count] = group
      count += +(this.maskOfGroup(group) !== 0)
    }
    return touched.subarray(0, count)
  }

  /**
   * Marks the documents of the postings `arena[from..end)` as containing a term. If `isMany`, also marks the groups of the documents, with
   * one byte per group and term. Bit masks would be slower, since each write to a mask would have to wait for the previous write.
   */
  mark(arena: Int32Array, from: number, end: number, term: number, isMany: boolean): void {
    const bit = 1 << term
    if (!isMany) {
      const masks = this.#masks.data
      for (let i = from; i < end; i += 2) masks[arena[i]!]! |= bit
      return
    }
    for (; this.#flaggedTerms <= term; this.#flaggedTerms++) {
      if ((this.#flags[this.#flaggedTerms]?.length ?? 0) <= this.#lastGroup) {
        this.#flags[this.#flaggedTerms] = new Uint8Array(this.#byGroup.data.length)
      }
    }
    const [groups, flags, masks] = [this.#groups.data, this.#flags[term]!, this.#masks.data]
    for (let i = from; i < end; i += 2) {
      const doc = arena[i]!
      masks[doc]! |= bit
      flags[groups[doc]!] = 1
    }
  }

  /** Adds the masks of the documents `docs[from..end)` to the masks of their groups. */
  gather(docs: Int32Array, from: number, end: number): void {
    const [groups, masks] = [this.#groups.data, this.#masks.data]
    const [byGroup, touched] = [this.#byGroup.data, this.#touched.data]
    let count = this.#touchedCount
    // the loop has no branch that depends on a mask, since the processor would often mispredict such a branch
    for (let i = from; i < end; i++) {
      const doc = docs[i]!
      const group = groups[doc]!
      const before = byGroup[group]!
      const after = byGroup[group] = before | masks[doc]!
      touched[count] = group
      count += +(before === 0) & +(after !== 0)
    }
    this.#touchedCount = count
  }

  /** Returns one number for each of the first `terms` terms: how many groups contain the term. */
  counts(terms: number): Array<number> {
    const counts = Array.from({ length: terms }, () => 0)
    for (let i = 0; i < this.#touchedCount; i++) {
      for (let left = this.#byGroup.data[this.#touched.data[i]!]!; left !== 0; left &= left - 1) {
        counts[31 - Math.clz32(left & -left)]! += 1
      }
    }
    for (let term = 0; term < this.#flaggedTerms; term++) {
      const flags = this.#flags[term]!
      let count = 0
      for (let group = 1; group <= this.#lastGroup; group++) count += flags[group]!
      counts[term] = count
    }
    return counts
  }

  /** Clears the mask of a doc id. */
  forget(doc: number): void {
    this.#masks.data[doc] = 0
  }

  /** Clears the masks of all groups, and the masks of the given doc ids (default: of all doc ids). */
  clear(docs?: Int32Array): void {
    if (docs === undefined) this.#masks.data.fill(0)
    else for (let i = 0; i < docs.length; i++) this.#masks.data[docs[i]!] = 0
    for (let i = 0; i < this.#touchedCount; i++) this.#byGroup.data[this.#touched.data[i]!] = 0
    this.#touchedCount = 0
    for (let term = 0; term < this.#flaggedTerms; term++) this.#flags[term]!.fill(0)
    this.#flaggedTerms = 0
  }
}
