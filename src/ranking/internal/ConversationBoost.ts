/**
 * Turns of one conversation, which lend each other score: evidence is often in the turn before or after the one with the
 * words of the question.
 *
 * ```text
 * lent(r)    = ½ (own(r−1) + own(r+1)) + ¼ (own(r−2) + own(r+2)) + session(r)        own: BM25, 0 without a match
 * session(s) = Σ t ∈ query that any seen turn of s holds:  ln(1 + (S − Sₜ + ½) / (Sₜ + ½))
 * score(r)   = (own(r) + c · lent(r)) / (1 + c)                                      c: the weight `conversation`
 * ```
 *
 * S: sessions of which anything is seen, Sₜ: those that hold t. A session is one of a scope (`source.session`), r ± n is
 * the turn whose `source.sequence` is n away; of several with one number the best lends. Only what is seen lends, and only
 * who matches borrows. The division keeps turns and records of no session comparable. Constants by ablation: docs/retrieval.md.
 */
import type { MemoryRecord } from "../../domain/MemoryRecord.ts"
import { idf } from "../Bm25.ts"
import { int32 } from "./Slots.ts"

const shares = [1 / 2, 1 / 4]

interface Conversation {
  /** Slots by sequence number, and those without one. */
  readonly turns: Map<number | undefined, Array<number>>
}

export class ConversationBoost {
  readonly #all: Array<Conversation> = []
  readonly #numbers = new Map<string, number>()
  /** By slot, plus 1; 0: of no session. */
  readonly #of = int32()
  readonly #sequences = new Map<number, number>()
  /** Numbers of conversations by number of the scope. */
  readonly #byScope: Array<Array<number>> = []
  #lent = new Float64Array()

  /** `scope` is the number of the record's. */
  add(slot: number, scope: number, { source }: MemoryRecord): void {
    this.#of.set(slot, 0)
    if (source.session === undefined) return
    const name = `${scope} ${source.session}`
    let number = this.#numbers.get(name)
    if (number === undefined) {
      number = this.#all.push({ turns: new Map() }) - 1
      this.#numbers.set(name, number)
      const others = this.#byScope[scope] ??= []
      others.push(number)
    }
    this.#of.set(slot, number + 1)
    if (source.sequence !== undefined) this.#sequences.set(slot, source.sequence)
    const { turns } = this.#all[number]!
    const same = turns.get(source.sequence)
    if (same) same.push(slot)
    else turns.set(source.sequence, [slot])
  }

  remove(slot: number): void {
    const turns = this.#all[this.#numberOf(slot)]?.turns
    if (turns === undefined) return
    const sequence = this.#sequences.get(slot)
    const same = turns.get(sequence)!
    same.splice(same.indexOf(slot), 1)
    if (same.length === 0) turns.delete(sequence)
    this.#sequences.delete(slot)
    this.#of.data[slot] = 0
  }

  /** −1: of no session. */
  #numberOf(slot: number): number {
    return (this.#of.data[slot] ?? 0) - 1
  }

  /**
   * Returns what each of `slots` is lent, by slot: −1 for a slot of no session, anything for another slot; `undefined` where
   * there is no session at all. Good until the next call. `own` is BM25 by slot; `postings` has for each term of the question the slots
   * of `scopes` that hold it. `isAlive` is asked of all of these.
   */
  lend(
    slots: Int32Array,
    own: Float64Array,
    postings: Iterable<Iterable<number>>,
    scopes: ReadonlyArray<number> | undefined,
    isAlive: (slot: number) => boolean
  ): Float64Array | undefined {
    if (this.#all.length === 0) return undefined
    if (this.#lent.length < own.length) this.#lent = new Float64Array(own.length)
    const all = this.#lent
    const sessions = this.#sessions(postings, scopes, isAlive)
    const best = (turns: ReadonlyArray<number> | undefined) =>
      turns?.reduce((best, slot) => own[slot]! > best && isAlive(slot) ? own[slot]! : best, 0) ?? 0
    for (const slot of slots) {
      const number = this.#numberOf(slot)
      if (number < 0) {
        all[slot] = -1
        continue
      }
      const { turns } = this.#all[number]!
      const sequence = this.#sequences.get(slot)
      let lent = sessions.get(number) ?? 0
      if (sequence !== undefined) {
        shares.forEach((share, n) => {
          lent += share * (best(turns.get(sequence - n - 1)) + best(turns.get(sequence + n + 1)))
        })
      }
      all[slot] = lent
    }
    return all
  }

  #sessions(
    postings: Iterable<Iterable<number>>,
    scopes: ReadonlyArray<number> | undefined,
    isAlive: (slot: number) => boolean
  ): ReadonlyMap<number, number> {
    const isSeen = (number: number) => some(this.#all[number]!.turns.values(), (slots) => slots.some(isAlive))
    let seen = 0
    for (const scope of scopes ?? this.#byScope.keys()) {
      for (const number of this.#byScope[scope] ?? []) if (isSeen(number)) seen++
    }
    const sums = new Map<number, number>()
    for (const slots of postings) {
      const holders = new Set<number>()
      for (const slot of slots) {
        const number = this.#numberOf(slot)
        if (number >= 0 && isAlive(slot)) holders.add(number)
      }
      const weight = idf(seen, holders.size)
      for (const number of holders) sums.set(number, (sums.get(number) ?? 0) + weight)
    }
    return sums
  }
}

const some = <A>(all: Iterable<A>, is: (one: A) => boolean): boolean => {
  for (const one of all) if (is(one)) return true
  return false
}
