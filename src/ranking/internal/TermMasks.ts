/**
 * Masks of the question's terms that documents and groups of documents hold: a bit for each of the first 31 terms. Where few documents match,
 * a posting marks its document alone, and the groups are read off the documents afterwards; where many do, it marks the group, too.
 */
import { int32 } from "./DocIds.ts"

/** The masks of the question under way. */
export class TermMasks {
  // columns by doc id
  /** The number of its group, counted from 1; 0: none. */
  readonly #groups = int32()
  readonly #masks = int32()
  /** Terms that a group holds, by group; of the doc ids of none, whatever they hold, all. */
  readonly #byGroup = int32(new Int32Array(64).fill(-1, 0, 1))
  /** Groups that hold a term: the first `#held`. */
  readonly #touched = int32()
  #held = 0
  /** Marks by term, by group: 1 where `mark` has marked it. Those of the first `#many` terms. */
  readonly #holders: Array<Uint8Array> = []
  #many = 0
  /** The last group. */
  #last = 0

  /** Puts a doc id into a group; 0: into none. */
  join(doc: number, group: number): void {
    this.#groups.set(doc, group)
    if (group === 0) return
    if (group >= this.#byGroup.data.length) this.#byGroup.set(group, 0)
    this.#touched.set(group, 0)
    this.#last = Math.max(this.#last, group)
  }

  /** Makes room for so many doc ids. */
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
    for (let term = 0; term < this.#many; term++) mask |= this.#holders[term]![group]! << term
    return mask
  }

  /** The groups that hold a term. Good until the next `gather`. */
  get touched(): Int32Array {
    const touched = this.#touched.data
    if (this.#many === 0) return touched.subarray(0, this.#held)
    let held = 0
    for (let group = 1; group <= this.#last; group++) {
      touched[held] = group
      held += +(this.maskOfGroup(group) !== 0)
    }
    return touched.subarray(0, held)
  }

  /**
   * Marks the documents of the postings from one place in an arena to another as holders of a term. `isMany`: their groups, too. These
   * have a byte for each term: bits of one number would wait for each other.
   */
  mark(arena: Int32Array, from: number, end: number, term: number, isMany: boolean): void {
    const bit = 1 << term
    if (!isMany) {
      const masks = this.#masks.data
      for (let i = from; i < end; i += 2) masks[arena[i]!]! |= bit
      return
    }
    for (; this.#many <= term; this.#many++) {
      if ((this.#holders[this.#many]?.length ?? 0) <= this.#last) {
        this.#holders[this.#many] = new Uint8Array(this.#byGroup.data.length)
      }
    }
    const [groups, holders, masks] = [this.#groups.data, this.#holders[term]!, this.#masks.data]
    for (let i = from; i < end; i += 2) {
      const doc = arena[i]!
      masks[doc]! |= bit
      holders[groups[doc]!] = 1
    }
  }

  /** Reads off the masks of the doc ids between two places what their groups hold. */
  gather(docs: Int32Array, from: number, end: number): void {
    const [groups, masks] = [this.#groups.data, this.#masks.data]
    const [byGroup, touched] = [this.#byGroup.data, this.#touched.data]
    let held = this.#held
    // no branch is taken: how many turns of a session match is mostly foreseen wrongly
    for (let i = from; i < end; i++) {
      const doc = docs[i]!
      const group = groups[doc]!
      const before = byGroup[group]!
      const after = byGroup[group] = before | masks[doc]!
      touched[held] = group
      held += +(before === 0) & +(after !== 0)
    }
    this.#held = held
  }

  /** Returns how many groups hold each of the first `terms` terms. */
  counts(terms: number): Array<number> {
    const counts = Array.from({ length: terms }, () => 0)
    for (let i = 0; i < this.#held; i++) {
      for (let left = this.#byGroup.data[this.#touched.data[i]!]!; left !== 0; left &= left - 1) {
        counts[31 - Math.clz32(left & -left)]! += 1
      }
    }
    for (let term = 0; term < this.#many; term++) {
      const holders = this.#holders[term]!
      let count = 0
      for (let group = 1; group <= this.#last; group++) count += holders[group]!
      counts[term] = count
    }
    return counts
  }

  /** Forgets what was marked of a doc id. */
  forget(doc: number): void {
    this.#masks.data[doc] = 0
  }

  /** Forgets what was marked, of some doc ids or of all. */
  clear(docs?: Int32Array): void {
    if (docs === undefined) this.#masks.data.fill(0)
    else for (let i = 0; i < docs.length; i++) this.#masks.data[docs[i]!] = 0
    for (let i = 0; i < this.#held; i++) this.#byGroup.data[this.#touched.data[i]!] = 0
    this.#held = 0
    for (let term = 0; term < this.#many; term++) this.#holders[term]!.fill(0)
    this.#many = 0
  }
}
