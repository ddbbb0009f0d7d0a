/**
 * Documents by slot, postings by term and scope, totals by scope: BM25 over exactly what a viewer sees.
 *
 * A document is seen while `until` lies beyond the view's `at`: it expires then, and one that was removed has −Infinity.
 * Where none of a scope's documents is dead or expired, its lists and totals are right as they stand; else they are
 * counted by walking. Removing leaves a tombstone; `compacted` makes a copy without. Longer than other files, since all of
 * it looks into the same columns.
 */
import type { MemoryScope } from "../../../src/domain/MemoryScope.ts"
import * as Viewer from "../../../src/domain/Viewer.ts"
import { idf, saturation, slopeOf, type Tokens } from "../../../src/ranking/Bm25.ts"
import { Postings } from "../../../src/ranking/internal/Postings.ts"
import type { Vocabulary } from "../../../src/ranking/Tokenizer.ts"
import { type Column, float64, int32 } from "./Column.ts"
import { Scopes } from "./Scopes.ts"

/** What a viewer sees at a time. Good until the index changes. */
export interface View {
  /** `undefined`: every scope. */
  readonly scopes: ReadonlyArray<number> | undefined
  /** Epoch ms; −Infinity sees what is expired too. */
  readonly at: number
  /** How many documents, and their lengths together. */
  readonly count: number
  readonly length: number
  /** No list of these scopes has a posting that is not seen. */
  readonly whole: boolean
}

/** Documents of an index that remembers no numbers: a vault may have an index for each of thousands of tenants. */
const small = 256

export class InvertedIndex {
  /** Slots given out, dead ones included. */
  slots = 0
  live = 0
  readonly until = float64()
  /** Slots, in no order that means anything. The first `matched` are those of the last `match` or `everything`. */
  readonly matches = int32()
  matched = 0
  /** By slot; 0 but for the matches. */
  readonly scores = float64()
  /** Of the last `match`: the query's terms that are seen, in the order of the query. */
  readonly weights = new Map<string, number>()
  slope = 0
  /** Of the terms that `weights` has. */
  readonly #lists: Array<ReadonlyArray<number>> = []

  #postings = new Postings()
  /** By term; 0 but while a document is added. */
  readonly #codes = int32()
  readonly #scopes = new Scopes()
  readonly #scope = int32()
  readonly #length = int32()
  /** The slot before in the same scope, plus 1. */
  readonly #before = int32()
  // by scope
  readonly #last = int32()
  readonly #count = int32()
  readonly #total = float64()
  readonly #dead = int32()
  readonly #soonest = float64()
  #known:
    | { readonly vocabulary: Vocabulary; readonly generation: number; readonly terms: Column<Int32Array> }
    | undefined
  // of all scopes; `soonest` is never later than the first expiry
  #totalLength = 0
  #totalSoonest = Infinity

  /**
   * The slot: above every earlier one. `until`: epoch ms, or Infinity. `learned`: further tokens, by their numbers in a
   * vocabulary.
   */
  add(
    scope: MemoryScope,
    { tags, texts }: Tokens,
    until: number,
    learned?: { readonly vocabulary: Vocabulary; readonly numbers: Int32Array }
  ): number {
    const postings = this.#postings
    const terms: Array<number> = []
    let length = 0
    if (learned !== undefined) {
      const { numbers, vocabulary } = learned
      const known = this.#termsOf(vocabulary)
      length += numbers.length
      for (let i = 0; i < numbers.length; i++) {
        const number = numbers[i]!
        let term = known.data[number]! - 1 // NaN beyond its end
        if (!(term >= 0)) {
          term = postings.termOf(vocabulary.termOf(number))
          known.set(number, term + 1)
        }
        if (term >= this.#codes.data.length) this.#codes.set(term, 0)
        const codes = this.#codes.data
        const code = codes[term]!
        if (code === 0) terms.push(term)
        codes[term] = code + 2
      }
    }
    for (const tokens of texts) {
      length += tokens.length
      for (const token of tokens) {
        const term = postings.termOf(token)
        if (term >= this.#codes.data.length) this.#codes.set(term, 0)
        const codes = this.#codes.data
        const code = codes[term]!
        if (code === 0) terms.push(term)
        codes[term] = code + 2
      }
    }
    for (const tag of tags) this.#codes.data[postings.termOf(tag)]! |= 1
    const number = this.#scopes.numberOf(scope)
    const slot = this.#place(number, length, until)
    for (const term of terms) {
      postings.push(postings.list(term, number), slot, this.#codes.data[term]!)
      this.#codes.data[term] = 0
    }
    return slot
  }

  remove(slot: number): void {
    const scope = this.#scope.data[slot]!
    const length = this.#length.data[slot]!
    this.until.data[slot] = -Infinity
    this.live--
    this.#totalLength -= length
    this.#count.data[scope]! -= 1
    this.#total.data[scope]! -= length
    this.#dead.data[scope]! += 1
  }

  view(viewer: Viewer.Any, now: number): View {
    const at = Viewer.isSystem(viewer) ? -Infinity : now
    const scopes = this.#scopes.seenBy(viewer)
    if (scopes === undefined && this.#totalSoonest > at) {
      return { scopes, at, count: this.live, length: this.#totalLength, whole: this.live === this.slots }
    }
    const view = { scopes, at, count: 0, length: 0, whole: true }
    const end = scopes?.length ?? this.#scopes.all.length
    for (let i = 0; i < end; i++) {
      const scope = scopes === undefined ? i : scopes[i]!
      view.count += this.#count.data[scope]!
      view.length += this.#total.data[scope]!
      if (!this.#isWhole(scope, at)) view.whole = false
      if (this.#soonest.data[scope]! > at) continue
      for (let slot = this.#last.data[scope]! - 1; slot >= 0; slot = this.#before.data[slot]! - 1) {
        const until = this.until.data[slot]!
        if (until > at || until === -Infinity) continue
        view.count--
        view.length -= this.#length.data[slot]!
      }
    }
    return view
  }

  /** The number that a document's scope has in a view. */
  scopeOf(slot: number): number {
    return this.#scope.data[slot]!
  }

  sees(view: View): (slot: number) => boolean {
    const scopes = view.scopes && new Set(view.scopes)
    return (slot) => this.until.data[slot]! > view.at && (scopes === undefined || scopes.has(this.#scope.data[slot]!))
  }

  /** Every document that is seen, in no order that means anything. Cost: the documents of the view's scopes. */
  *seen({ at, scopes }: View): Iterable<number> {
    const until = this.until.data
    if (scopes === undefined) { for (let slot = 0; slot < this.slots; slot++) if (until[slot]! > at) yield slot }
    for (const scope of scopes ?? []) {
      for (let slot = this.#last.data[scope]! - 1; slot >= 0; slot = this.#before.data[slot]! - 1) {
        if (until[slot]! > at) yield slot
      }
    }
  }

  /** Matches every document that is seen, with score 1. `clear` before the next. */
  everything(view: View): void {
    for (const slot of this.seen(view)) {
      this.scores.data[slot] = 1
      this.matches.data[this.matched++] = slot
    }
  }

  /** The documents of each term of the last `match`, some of which may not be seen. */
  *holders(): Iterable<Iterable<number>> {
    for (const lists of this.#lists) yield this.#slotsOf(lists)
  }

  *#slotsOf(lists: ReadonlyArray<number>): Iterable<number> {
    const { arena } = this.#postings
    for (const list of lists) {
      for (let i = this.#postings.at(list), end = i + 2 * this.#postings.count(list); i < end; i += 2) yield arena[i]!
    }
  }

  /**
   * Scores the documents that hold any of the terms. Where the view is not `whole`, some matches may not be seen.
   * `clear` before the next.
   */
  match(view: View, terms: Iterable<string>): void {
    const postings = this.#postings
    this.slope = slopeOf(view.length / view.count)
    let seen: ReadonlySet<number> | undefined
    for (const term of terms) {
      const number = postings.knownTerm(term)
      if (number === undefined) continue
      const lists: Array<number> = []
      if (view.scopes !== undefined && view.scopes.length <= postings.listsOf(number)) {
        for (const scope of view.scopes) {
          const list = postings.find(number, scope)
          if (list >= 0) lists.push(list)
        }
      } else {
        if (view.scopes !== undefined) seen ??= new Set(view.scopes)
        for (let list = postings.first(number); list >= 0; list = postings.next(list)) {
          if (seen === undefined || seen.has(postings.scopeOf(list))) lists.push(list)
        }
      }
      let df = 0
      for (const list of lists) {
        const whole = view.whole || this.#isWhole(postings.scopeOf(list), view.at)
        df += whole ? postings.count(list) : this.#alive(list, view.at)
      }
      if (df === 0) continue
      const weight = idf(view.count, df)
      this.weights.set(term, weight)
      this.#lists.push(lists)
      for (const list of lists) this.#scatter(list, weight)
    }
  }

  clear(): void {
    for (let i = 0; i < this.matched; i++) this.scores.data[this.matches.data[i]!] = 0
    this.matched = 0
    this.weights.clear()
    this.#lists.length = 0
  }

  /** A copy without tombstones, and the slots that are left: the n-th is slot n of the copy. */
  compacted(): { readonly index: InvertedIndex; readonly kept: Int32Array } {
    const index = new InvertedIndex()
    const kept = new Int32Array(this.live)
    const slots = new Int32Array(this.slots).fill(-1)
    const scopes = new Int32Array(this.#scopes.all.length).fill(-1)
    for (let slot = 0; slot < this.slots; slot++) {
      const until = this.until.data[slot]!
      if (until === -Infinity) continue
      const scope = this.#scope.data[slot]!
      if (scopes[scope]! < 0) scopes[scope] = index.#scopes.numberOf(this.#scopes.all[scope]!)
      slots[slot] = index.#place(scopes[scope]!, this.#length.data[slot]!, until)
      kept[slots[slot]!] = slot
    }
    index.#postings = this.#postings.compacted(slots, scopes)
    return { index, kept }
  }

  /** Terms by their numbers in a vocabulary, plus 1; 0: not known yet. Of a small index they are found anew each time. */
  #termsOf(vocabulary: Vocabulary): Column<Int32Array> {
    const { generation } = vocabulary
    if (this.#known?.vocabulary !== vocabulary || this.#known.generation !== generation) {
      this.#known = { vocabulary, generation, terms: int32() }
    }
    const { terms } = this.#known
    if (this.slots < small) this.#known = undefined
    return terms
  }

  #place(scope: number, length: number, until: number): number {
    const slot = this.slots++
    const isNew = scope >= this.#last.data.length || this.#last.data[scope] === 0
    this.live++
    this.until.set(slot, until)
    this.scores.set(slot, 0)
    this.matches.set(slot, 0)
    this.#scope.set(slot, scope)
    this.#length.set(slot, length)
    this.#before.set(slot, isNew ? 0 : this.#last.data[scope]!)
    this.#last.set(scope, slot + 1)
    this.#count.set(scope, isNew ? 1 : this.#count.data[scope]! + 1)
    this.#total.set(scope, isNew ? length : this.#total.data[scope]! + length)
    if (isNew) this.#dead.set(scope, 0)
    this.#soonest.set(scope, isNew ? until : Math.min(until, this.#soonest.data[scope]!))
    this.#totalLength += length
    this.#totalSoonest = Math.min(until, this.#totalSoonest)
    return slot
  }

  #isWhole(scope: number, at: number): boolean {
    return this.#dead.data[scope] === 0 && this.#soonest.data[scope]! > at
  }

  #alive(list: number, at: number): number {
    const { arena } = this.#postings
    const until = this.until.data
    let alive = 0
    for (let i = this.#postings.at(list), end = i + 2 * this.#postings.count(list); i < end; i += 2) {
      if (until[arena[i]!]! > at) alive++
    }
    return alive
  }

  /** The hot loop: 4 ns a posting. */
  #scatter(list: number, weight: number): void {
    const { arena } = this.#postings
    const { slope } = this
    const scores = this.scores.data
    const matches = this.matches.data
    const lengths = this.#length.data
    let matched = this.matched
    for (let i = this.#postings.at(list), end = i + 2 * this.#postings.count(list); i < end; i += 2) {
      const slot = arena[i]!
      const code = arena[i + 1]!
      const score = scores[slot]!
      if (score === 0) matches[matched++] = slot
      scores[slot] = score + (weight * saturation(code >> 1, lengths[slot]!, slope) + (code & 1))
    }
    this.matched = matched
  }
}
