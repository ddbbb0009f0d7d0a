/**
 * Which of a question's terms documents and groups of documents hold: a bit for each of the first 31 terms. A posting marks its
 * document alone; the groups are read off the documents afterwards.
 */
import { int32 } from "./Slots.ts"

export class Marks {
  // by slot
  /** The number of its group, counted from 1; 0: none. */
  readonly #groups = int32()
  readonly #masks = int32()
  /** By group: which terms it holds; of the slots of none, whatever they hold, all. */
  readonly #byGroup = int32(new Int32Array(64).fill(-1, 0, 1))
  /** Groups that hold a term: the first `#held`. */
  readonly #touched = int32()
  #held = 0

  /** Puts a slot into a group; 0: into none. */
  join(slot: number, group: number): void {
    this.#groups.set(slot, group)
    if (group === 0) return
    if (group >= this.#byGroup.data.length) this.#byGroup.set(group, 0)
    this.#touched.set(group, 0)
  }

  /** Makes room for so many slots. */
  grow(slots: number): void {
    for (const column of [this.#groups, this.#masks]) if (column.data.length < slots) column.set(slots - 1, 0)
  }

  groupOf(slot: number): number {
    return this.#groups.data[slot]!
  }
  maskOf(slot: number): number {
    return this.#masks.data[slot]!
  }
  maskOfGroup(group: number): number {
    return this.#byGroup.data[group]!
  }

  /** The groups that hold a term. Good until the next `gather`. */
  get touched(): Int32Array {
    return this.#touched.data.subarray(0, this.#held)
  }

  /** Marks the documents of the postings from one place in an arena to another as holders of a term. */
  mark(arena: Int32Array, from: number, end: number, term: number): void {
    const masks = this.#masks.data
    const bit = 1 << term
    for (let i = from; i < end; i += 2) masks[arena[i]!]! |= bit
  }

  /** Reads off the marks of the slots between two places what their groups hold. */
  gather(slots: Int32Array, from: number, end: number): void {
    const [groups, masks] = [this.#groups.data, this.#masks.data]
    const [byGroup, touched] = [this.#byGroup.data, this.#touched.data]
    let held = this.#held
    // without a branch: how many turns of a session match is mostly foreseen wrongly
    for (let i = from; i < end; i++) {
      const slot = slots[i]!
      const group = groups[slot]!
      const before = byGroup[group]!
      const after = byGroup[group] = before | masks[slot]!
      touched[held] = group
      held += +(before === 0) & +(after !== 0)
    }
    this.#held = held
  }

  /** Returns how many groups hold each of the first `terms` terms. */
  counts(terms: number): Array<number> {
    const counts = Array.from({ length: terms }, () => 0)
    for (const group of this.touched) {
      for (let left = this.#byGroup.data[group]!; left !== 0; left &= left - 1) {
        counts[31 - Math.clz32(left & -left)]! += 1
      }
    }
    return counts
  }

  /** Forgets what was marked of a slot. */
  forget(slot: number): void {
    this.#masks.data[slot] = 0
  }

  /** Forgets what was marked, of some slots or of all. */
  clear(slots?: Int32Array): void {
    if (slots === undefined) this.#masks.data.fill(0)
    else for (let i = 0; i < slots.length; i++) this.#masks.data[slots[i]!] = 0
    for (let i = 0; i < this.#held; i++) this.#byGroup.data[this.#touched.data[i]!] = 0
    this.#held = 0
  }
}
