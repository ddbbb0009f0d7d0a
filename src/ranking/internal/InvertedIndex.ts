/**
 * Documents by slot, postings by term and scope, totals by scope: BM25 over exactly what is in sight.
 *
 * A document is seen while `until` lies beyond the view's `at`: it expires then, and one that was removed has −Infinity.
 * Where none of a scope's documents is dead or expired, its lists and totals are right as they stand; else they are
 * counted by walking. Removing leaves a tombstone; `compacted` makes a copy without.
 */
import type { MemoryScope } from "../../domain/MemoryScope.ts"
import type { Sight } from "../../domain/Viewer.ts"
import { idf, saturation, slopeOf, type Tokens } from "../Bm25.ts"
import { isCounted, type Vocabulary } from "../Tokenizer.ts"
import type { Packed } from "./Packed.ts"
import { Postings } from "./Postings.ts"
import { float64, type GrowableArray, int32, type Marks, ScopeIndex } from "./Slots.ts"

/** The documents in sight. Good until the index changes. */
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
  kept = 0 // by `Matcher`; they come first
  #marks: Marks | undefined
  // of the last `match`, by term of the question
  readonly documentFrequencies: Array<number> = []
  readonly weights: Array<number> = []
  slope = 0
  /** −1: no document ever had the term. */
  readonly #asked: Array<number> = []

  #postings = new Postings()
  /** By term; 0 but while a document is added. */
  readonly #codes = int32()
  readonly #scopes = new ScopeIndex()
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
    | { readonly vocabulary: Vocabulary; readonly generation: number; readonly terms: GrowableArray<Int32Array> }
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
    learned?: { readonly vocabulary: Vocabulary; readonly numbers: Int32Array; readonly counted: number }
  ): number {
    const postings = this.#postings
    const terms: Array<number> = []
    let length = 0
    if (learned !== undefined) {
      const { counted, numbers, vocabulary } = learned
      const known = this.#termsOf(vocabulary)
      length += counted
      for (let i = 0; i < numbers.length; i++) {
        const number = numbers[i]!
        let term = known.data[number]! - 1 // NaN beyond its end
        if (!(term >= 0)) {
          term = postings.termOf(vocabulary.termOf(number))
          known.set(number, term + 1)
        }
        this.#note(term, terms)
      }
    }
    for (const tokens of texts) {
      for (const token of tokens) {
        if (isCounted(token)) length++
        const term = postings.termOf(token)
        this.#note(term, terms)
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

  /** The same of terms that were counted before: each with twice its occurrences, plus 1 where it is a whole tag. */
  addCounted(scope: MemoryScope, terms: ReadonlyArray<string | number>, length: number, until: number): number {
    const number = this.#scopes.numberOf(scope)
    const slot = this.#place(number, length, until)
    for (let i = 0; i < terms.length; i += 2) {
      const term = this.#postings.termOf(terms[i] as string) // terms and counts take turns
      this.#codes.set(term, 0) // room for the term
      this.#postings.push(this.#postings.list(term, number), slot, terms[i + 1] as number)
    }
    return slot
  }

  #note(term: number, terms: Array<number>): void {
    if (term >= this.#codes.data.length) this.#codes.set(term, 0)
    const codes = this.#codes.data
    if (codes[term] === 0) terms.push(term)
    codes[term]! += 2
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

  view({ now: at, visibility }: Sight): View {
    const scopes = this.#scopes.seenBy(visibility)
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

  readonly scope = (number: number): MemoryScope => this.#scopes.all[number]!

  /** The numbers of scopes by slot, and how many scopes there are. */
  get scopeColumn(): Int32Array {
    return this.#scope.data
  }
  get scopeCount(): number {
    return this.#scopes.all.length
  }

  /** Number of terms. */
  lengthOf(slot: number): number {
    return this.#length.data[slot]!
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

  /** The occurrences in a document of each term of the last `match`. Cost: the logarithm of the term's documents, each. */
  frequenciesIn(slot: number): ReadonlyArray<number> {
    const { arena } = this.#postings
    return this.#asked.map((term) => {
      const list = term < 0 ? -1 : this.#postings.find(term, this.#scope.data[slot]!)
      if (list < 0) return 0
      const at = this.#postings.at(list)
      let low = 0
      let high = this.#postings.count(list)
      while (low < high) { // slots ascend
        const middle = (low + high) >>> 1
        if (arena[at + 2 * middle]! < slot) low = middle + 1
        else high = middle
      }
      return low < this.#postings.count(list) && arena[at + 2 * low] === slot ? arena[at + 2 * low + 1]! >> 1 : 0
    })
  }

  /**
   * Scores the documents that hold any of the terms. Where the view is not `whole`, some matches may not be seen.
   * `clear` before the next. `marks`: marks the matches, too.
   */
  match(view: View, terms: ReadonlyArray<string>, marks?: Marks): void {
    this.#marks = marks
    const slope = this.slope = slopeOf(view.length / view.count)
    let seen: ReadonlySet<number> | undefined
    const isSeen = (scope: number) => (seen ??= new Set(view.scopes)).has(scope)
    for (const text of terms) {
      const term = this.#postings.knownTerm(text) ?? -1
      const lists = term < 0 ? [] : this.#listsOf(term, view, isSeen)
      let df = 0
      for (const list of lists) {
        const whole = view.whole || this.#isWhole(this.#postings.scopeOf(list), view.at)
        df += whole ? this.#postings.count(list) : this.#alive(list, view.at)
      }
      this.#asked.push(term)
      this.documentFrequencies.push(df)
      const n = this.weights.push(df > 0 ? idf(view.count, df) : 0) - 1
      if (df === 0) continue
      for (const list of lists) {
        this.#scatter(list, this.weights[n]!, slope)
        if (marks !== undefined && n < 31) this.#mark(marks, list, n, view)
      }
    }
  }

  #listsOf(term: number, { scopes }: View, isSeen: (scope: number) => boolean): ReadonlyArray<number> {
    const postings = this.#postings
    const lists: Array<number> = []
    if (scopes !== undefined && scopes.length <= postings.listsOf(term)) {
      for (const scope of scopes) {
        const list = postings.find(term, scope)
        if (list >= 0) lists.push(list)
      }
      return lists
    }
    for (let list = postings.first(term); list >= 0; list = postings.next(list)) {
      if (scopes === undefined || isSeen(postings.scopeOf(list))) lists.push(list)
    }
    return lists
  }

  clear(): void {
    for (let i = 0; i < this.matched; i++) this.scores.data[this.matches.data[i]!] = 0
    this.#marks?.clear(this.matches.data.subarray(0, this.matched))
    this.matched = 0
    this.kept = 0
    this.documentFrequencies.length = 0
    this.weights.length = 0
    this.#asked.length = 0
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

  /** Makes the postings small until they are asked for: those of a term are unpacked when they are. Cost: all postings. */
  pack(): void {
    this.#postings = this.#postings.packed()
  }

  /** Of an index without tombstones. */
  encode(): Packed {
    const { ends, lists, terms } = this.#postings.encode()
    const columns = [this.#scope, this.#length].map(({ data }) => data.subarray(0, this.slots))
    return { head: { terms, scopes: this.#scopes.all }, columns: [...columns, ends], bytes: lists }
  }

  /** What `encode` gave; `untils` by slot. Totals are added up anew. */
  static decode({ bytes, columns, head }: Packed, untils: ReadonlyArray<number>): InvertedIndex {
    const { scopes, terms } = head as { scopes: ReadonlyArray<MemoryScope>; terms: ReadonlyArray<string> } // as encoded
    const [scope, length, ends] = columns // three of three
    const index = new InvertedIndex()
    for (const one of scopes) index.#scopes.numberOf(one)
    untils.forEach((until, slot) => index.#place(scope![slot]!, length![slot]!, until))
    index.#postings = Postings.decode({ terms, lists: bytes, ends: ends! })
    return index
  }

  /** Terms by their numbers in a vocabulary, plus 1; 0: not known yet. Of a small index they are found anew each time. */
  #termsOf(vocabulary: Vocabulary): GrowableArray<Int32Array> {
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
    this.matches.set(slot + 1, 0) // one more, which `#scatter` writes to
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

  /** The hot loop: 3 ns a posting. Without a branch, which would be foreseen wrongly for a third of the postings. */
  #scatter(list: number, weight: number, slope: number): void {
    const { arena } = this.#postings
    const scores = this.scores.data
    const matches = this.matches.data
    const lengths = this.#length.data
    let matched = this.matched
    const end = this.#postings.at(list) + 2 * this.#postings.count(list)
    for (let i = this.#postings.at(list); i < end; i += 2) {
      const slot = arena[i]!
      const code = arena[i + 1]!
      const score = scores[slot]!
      matches[matched] = slot
      matched += +(score === 0)
      scores[slot] = score + (weight * saturation(code >> 1, lengths[slot]!, slope) + (code & 1))
    }
    this.matched = matched
  }

  #mark(marks: Marks, list: number, term: number, view: View): void {
    const from = this.#postings.at(list)
    const isWhole = view.whole || this.#isWhole(this.#postings.scopeOf(list), view.at)
    const isSeen = isWhole ? undefined : (slot: number) => this.until.data[slot]! > view.at
    marks.mark(this.#postings.arena, from, from + 2 * this.#postings.count(list), term, isSeen)
  }
}
