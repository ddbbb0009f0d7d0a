/**
 * An inverted index: posting lists by term and scope, and totals by scope. BM25 is computed over exactly the documents that a viewer sees.
 *
 * A document is visible if the viewer sees its scope, and its expiry time `until` is later than the view's time `at`. A removed document
 * has the `until` −Infinity. Totals and document frequencies are stored by scope. Both still include expired documents, and the frequencies
 * still include removed documents. Each query corrects these numbers by a scan. `compacted` makes a copy without removed documents.
 */
import type { MemoryScope } from "../../domain/MemoryScope.ts"
import type { AccessFilter } from "../../domain/Viewer.ts"
import { idf, slopeOf, type Tokens } from "../Bm25.ts"
import { isCounted, type Vocabulary } from "../Tokenizer.ts"
import { DocIdAllocator, float64, type GrowableArray, int32, ScopeIndex } from "./DocIds.ts"
import { type GroupFilter, lowestMatchScore, type MatchObserver, PostingsCursor } from "./Impacts.ts"
import { encoding, type IndexParts, scopesIn, type Steps } from "./IndexCodec.ts"
import { Postings } from "./Postings.ts"
import type { TermMasks } from "./TermMasks.ts"
/** The documents that a viewer sees. Valid until the index changes. */
export interface View {
  /** Scope numbers of the visible scopes; `undefined` if all scopes are visible. */
  readonly scopes: ReadonlyArray<number> | undefined
  /** Time of the view in epoch ms; −Infinity if expired documents are visible, too. */
  readonly at: number
  /** Number of visible documents. `length` is the sum of their lengths. */
  readonly count: number
  readonly length: number
  /** Whether no document of the visible scopes is removed or expired. Every posting there then belongs to a visible document. */
  readonly whole: boolean
}

/** Indexes with fewer documents than this keep no map `#known`. Thousands of small indexes thus use less memory. */
const small = 256

/** Finds and scores the documents that contain given terms. */
export class InvertedIndex {
  live = 0
  /** Number of removed documents whose postings are still in the index. */
  removed = 0
  readonly until = float64()
  /** The first `matched` entries are the doc ids that the last `match` or `matchAll` listed, in any order. */
  readonly matches = int32()
  matched = 0
  /** Score of each document, by doc id; 0 for a document that does not match. */
  readonly scores = float64()
  /** Number of matches that `groupFilter` accepts. Rejected matches are in `matches`, too, if they score at least `minListed`. */
  passed = 0
  groupFilter: GroupFilter | undefined
  minListed = lowestMatchScore
  /** Whether many documents match. If so, `clear` resets the scores of all documents, not only of the listed ones. */
  isDense = false
  #masks: TermMasks | undefined
  // results of the last `match`, by index of the term in the query
  readonly documentFrequencies: Array<number> = []
  readonly weights: Array<number> = []
  slope = 0
  /** Term number of each term of the query; −1 for a term that is not in the index. */
  readonly #queryTerms: Array<number> = []
  readonly #cursor = new PostingsCursor()

  /** Codes (see `Postings`) of the terms of the document that is being added, by term number. All are 0 at other times. */
  readonly #codes = int32()
  readonly #scopes = new ScopeIndex()
  readonly #scope = int32()
  readonly #length = int32()
  #postings = new Postings(this.#length)
  readonly #docIds = new DocIdAllocator()
  // columns by scope number
  readonly #count = int32()
  readonly #total = float64()
  readonly #dead = int32()
  readonly #soonest = float64()
  #known:
    | { readonly vocabulary: Vocabulary; readonly generation: number; readonly terms: GrowableArray<Int32Array> }
    | undefined
  // sum of the lengths of all documents, and a lower bound of the time at which the first of them expires
  #totalLength = 0
  #totalSoonest = Infinity

  /** Adds a document that expires at `until`. `learned`: more terms, by number in a vocabulary. Returns the doc id, the scope's highest. */
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
        let term = known.data[number]! - 1 // NaN if `number` is beyond the end of `known`
        if (!(term >= 0)) {
          term = postings.termOf(vocabulary.termOf(number))
          known.set(number, term + 1)
        }
        this.#countTerm(term, terms)
      }
    }
    for (const tokens of texts) {
      for (const token of tokens) {
        if (isCounted(token)) length++
        this.#countTerm(postings.termOf(token), terms)
      }
    }
    for (const tag of tags) this.#codes.data[postings.termOf(tag)]! |= 1
    const number = this.#scopes.numberOf(scope)
    const doc = this.#setDoc(this.#nextDoc(number), number, length, until)
    for (const term of terms) {
      postings.push(postings.list(term, number), doc, this.#codes.data[term]!)
      this.#codes.data[term] = 0
    }
    return doc
  }

  /** Adds a document with counted terms. In `terms`, each term is followed by its code (see `Postings`). */
  addCounted(scope: MemoryScope, terms: ReadonlyArray<string | number>, length: number, until: number): number {
    const number = this.#scopes.numberOf(scope)
    const doc = this.#setDoc(this.#nextDoc(number), number, length, until)
    for (let i = 0; i < terms.length; i += 2) {
      const term = this.#postings.termOf(terms[i] as string) // terms and codes alternate
      this.#codes.set(term, 0) // makes room for the term in `#codes`
      this.#postings.push(this.#postings.list(term, number), doc, terms[i + 1] as number)
    }
    return doc
  }

  #countTerm(term: number, terms: Array<number>): void {
    if (term >= this.#codes.data.length) this.#codes.set(term, 0)
    const codes = this.#codes.data
    if (codes[term] === 0) terms.push(term)
    codes[term]! += 2
  }

  remove(doc: number): void {
    const scope = this.#scope.data[doc]!
    const length = this.#length.data[doc]!
    this.until.data[doc] = -Infinity
    this.live--
    this.removed++
    this.#totalLength -= length
    this.#count.data[scope]! -= 1
    this.#total.data[scope]! -= length
    this.#dead.data[scope]! += 1
  }

  view({ now: at, visibility }: AccessFilter): View {
    const scopes = this.#scopes.visibleTo(visibility)
    if (scopes === undefined && this.#totalSoonest > at) {
      return { scopes, at, count: this.live, length: this.#totalLength, whole: this.removed === 0 }
    }
    const view = { scopes, at, count: 0, length: 0, whole: true }
    const end = scopes?.length ?? this.#scopes.all.length
    for (let i = 0; i < end; i++) {
      const scope = scopes === undefined ? i : scopes[i]!
      view.count += this.#count.data[scope]!
      view.length += this.#total.data[scope]!
      if (!this.#isWhole(scope, at)) view.whole = false
      if (this.#soonest.data[scope]! > at) continue
      for (let doc = this.#docIds.last(scope); doc >= 0; doc = this.#docIds.before(doc)) {
        const until = this.until.data[doc]!
        if (until > at || until === -Infinity) continue
        view.count--
        view.length -= this.#length.data[doc]!
      }
    }
    return view
  }

  /** Number of doc ids that are assigned or reserved (see `DocIdAllocator`). */
  get docs(): number {
    return this.#docIds.end
  }

  /** Returns the scope number of a document, as in `View.scopes`. */
  scopeOf(doc: number): number {
    return this.#scope.data[doc]!
  }

  readonly scope = (number: number): MemoryScope => this.#scopes.all[number]!

  /** The scope number of each doc id, and the number of scopes. */
  get scopeColumn(): readonly [numbers: Int32Array, count: number] {
    return [this.#scope.data, this.#scopes.all.length]
  }

  /** Returns the length of a document, in terms. */
  lengthOf(doc: number): number {
    return this.#length.data[doc]!
  }

  visibilityIn(view: View): (doc: number) => boolean {
    const scopes = view.scopes && new Set(view.scopes)
    return (doc) => this.until.data[doc]! > view.at && (scopes === undefined || scopes.has(this.#scope.data[doc]!))
  }

  /** Iterates over the visible documents, in any order. Cost: a scan of all documents in the view's scopes. */
  *visibleDocs({ at, scopes }: View): Iterable<number> {
    const { docs, until: { data: until } } = this
    if (scopes === undefined) { for (let doc = 0; doc < docs; doc++) if (until[doc]! > at) yield doc }
    for (const scope of scopes ?? []) {
      for (let doc = this.#docIds.last(scope); doc >= 0; doc = this.#docIds.before(doc)) {
        if (until[doc]! > at) yield doc
      }
    }
  }

  /** Matches every visible document, with score 1. Call `clear` before the next match. */
  matchAll(view: View): void {
    for (const doc of this.visibleDocs(view)) {
      this.scores.data[doc] = 1
      this.matches.data[this.matched++] = doc
    }
  }

  /** Returns how often each term of the last `match` occurs in a document. Cost: a binary search per term. */
  frequenciesIn(doc: number): ReadonlyArray<number> {
    return this.#queryTerms.map((term) => {
      const list = term < 0 ? -1 : this.#postings.find(term, this.#scope.data[doc]!)
      return list < 0 ? 0 : this.#postings.codeIn(list, doc) >> 1
    })
  }

  /**
   * Scores the documents that contain any of the terms, scope by scope. `masks` receives which of the first 31 terms each document has.
   * `matches` lists the documents that score at least `minListed`. If few documents match, all are listed. Removed and expired documents
   * are listed, too, unless the view is `whole`. After each scope, calls `observer.afterScope` with the index in `matches` of the scope's
   * first match. `afterScope` may remove matches (by `drop`, or by lowering `matched`). It returns the next `minListed`, never a lower one.
   * `observer.groupFilter` is called only if many documents match and the view is `whole`. Call `clear` before the next match.
   */
  match(view: View, terms: ReadonlyArray<string>, masks?: TermMasks, observer?: MatchObserver): void {
    this.#masks = masks
    const slope = this.slope = slopeOf(view.length / view.count)
    let seen: ReadonlySet<number> | undefined
    const isSeen = (scope: number) => (seen ??= new Set(view.scopes)).has(scope)
    const postings = this.#postings
    let many = 0
    terms.forEach((text, n) => {
      const term = postings.knownTerm(text) ?? -1
      let df = 0
      for (const list of term < 0 ? [] : postings.listsIn(term, view.scopes, isSeen)) {
        const scope = postings.scopeOf(list)
        const count = postings.count(list)
        df += view.whole || this.#isWhole(scope, view.at) ? count : postings.countOf(list, this.until.data, view.at)
        many += count
        this.#cursor.add(scope, list, n)
      }
      this.#queryTerms.push(term)
      this.documentFrequencies.push(df)
      this.weights.push(df > 0 ? idf(view.count, df) : 0)
    })
    this.isDense = 4 * many > this.docs
    this.groupFilter = this.isDense && view.whole ? observer?.groupFilter() : undefined
    const impacts = postings.impacts.adderFor(this.weights, slope, many)
    let from = 0
    this.#cursor.run((list, n) => {
      if (this.documentFrequencies[n] === 0) return
      const at = postings.at(list)
      const end = at + 2 * postings.count(list)
      const arena = postings.arena(list)
      impacts(n, arena, at, end, this)
      if (masks !== undefined && n < 31) masks.mark(arena, at, end, n, this.isDense && view.whole)
    }, () => {
      const minListed = observer?.afterScope(from) ?? lowestMatchScore
      if (this.isDense) this.minListed = minListed
      from = this.matched
    })
  }

  /** Puts the matches with a score of at least `minScore` (default: all) into `matches`. Does nothing if they are there already. */
  listMatches(minScore = lowestMatchScore): void {
    if (minScore >= this.minListed) return
    this.minListed = minScore
    const { matches: { data: matches }, scores: { data: scores }, docs } = this
    this.matched = 0
    for (let doc = 0; doc < docs; doc++) if (scores[doc]! >= minScore) matches[this.matched++] = doc
  }

  /** Resets the score and the mask of a document, so that it no longer counts as a match. */
  drop(doc: number): void {
    this.scores.data[doc] = 0
    this.#masks?.forget(doc)
  }

  clear(): void {
    const matches = this.matches.data.subarray(0, this.matched)
    const isMany = this.isDense || 4 * matches.length > this.docs
    if (isMany) this.scores.data.fill(0, 0, this.docs)
    else for (let i = 0; i < matches.length; i++) this.scores.data[matches[i]!] = 0
    this.#masks?.clear(isMany ? undefined : matches)
    this.matched = this.passed = 0
    this.minListed = lowestMatchScore
    this.isDense = false
    this.groupFilter = undefined
    for (const each of [this.documentFrequencies, this.weights, this.#queryTerms]) each.length = 0
  }

  /** Returns a copy without removed documents. The doc id n in the copy is the doc id `oldDocs[n]` in this index. */
  compacted(): { readonly index: InvertedIndex; readonly oldDocs: Int32Array } {
    const index = new InvertedIndex()
    const oldDocs = new Int32Array(this.live)
    const docs = new Int32Array(this.docs).fill(-1)
    const scopes = new Int32Array(this.#scopes.all.length).fill(-1)
    for (let scope = 0, left = 0; scope < scopes.length; scope++) {
      if (this.#count.data[scope] === 0) continue
      scopes[scope] = index.#scopes.numberOf(this.#scopes.all[scope]!)
      left += this.#count.data[scope]!
      let to = left
      for (let doc = this.#docIds.last(scope); doc >= 0; doc = this.#docIds.before(doc)) {
        if (this.until.data[doc] !== -Infinity) oldDocs[--to] = doc
      }
      for (; to < left; to++) {
        const doc = oldDocs[to]!
        docs[doc] = index.#setDoc(to, scopes[scope]!, this.#length.data[doc]!, this.until.data[doc]!)
      }
    }
    index.#postings = this.#postings.compacted(docs, scopes, index.#length)
    return { index, oldDocs }
  }

  /** Unpacks the postings of these terms, in steps. A document with these terms is then added quickly. */
  readonly unpacking = (terms: Iterable<string>): Steps<void> => this.#postings.unpacking(terms)

  /** Packs all postings, to save memory. A term's postings are unpacked on first use. Cost: one pass over all postings. */
  pack(): void {
    this.#postings = this.#postings.packed()
  }

  /** Encodes the documents with the doc ids in `order`, in steps. Doc ids of one scope must ascend. The index may change between steps. */
  encode(order: Int32Array) {
    const docs = new Int32Array(this.docs).fill(-1)
    order.forEach((doc, number) => docs[doc] = number)
    const [scopeOf, lengths] = [this.#scope, this.#length].map(({ data }) => order.map((doc) => data[doc]!))
    const { column, kept, scopes } = scopesIn(this.#scopes.all, scopeOf!, this.removed === 0)
    return encoding(kept, [column, lengths!], this.#postings.encode({ docs, scopes, isWhole: scopes === undefined }))
  }

  /** Restores an encoded index, in steps. The n-th document has the expiry time `untils[n]`. Its doc id is returned as `order[n]`. */
  static *decode({ bytes, columns, names: [terms = [], scopes = []] }: IndexParts, untils: ReadonlyArray<number>) {
    const [scope, length, ends] = columns // `encode` wrote these three
    const index = new InvertedIndex()
    for (const one of scopes) if (index.#scopes.numberOf(JSON.parse(one) as MemoryScope) % 256 === 255) yield 16_384 // `encode` wrote it
    const nexts = new Int32Array(scopes.length + 1)
    for (const number of scope!) nexts[number + 1]! += 1
    for (let n = 1; n < nexts.length; n++) nexts[n]! += nexts[n - 1]!
    const order = new Int32Array(untils.length)
    for (let n = 0; n < untils.length; n++) {
      order[n] = index.#setDoc(nexts[scope![n]!]!++, scope![n]!, length![n]!, untils[n]!)
      if ((n & 4_095) === 4_095) yield 12_288
    }
    index.#postings = yield* Postings.decode({ terms, lists: bytes, ends: ends! }, index.#length, order)
    return { index, order }
  }

  /** Returns a map: a term's number in the vocabulary → its number in this index + 1; 0 for an unknown term. Small indexes keep no map. */
  #termsOf(vocabulary: Vocabulary): GrowableArray<Int32Array> {
    if (this.#known?.vocabulary !== vocabulary || this.#known.generation !== vocabulary.generation) {
      this.#known = { vocabulary, generation: vocabulary.generation, terms: int32() }
    }
    const { terms } = this.#known
    if (this.live < small) this.#known = undefined
    return terms
  }

  #nextDoc(scope: number): number {
    const before = this.docs
    const doc = this.#docIds.next(scope)
    this.#grow()
    this.until.data.fill(-Infinity, before, this.docs) // makes the newly reserved doc ids invisible
    return doc
  }

  #grow(): void {
    if (this.matches.data.length > this.docs) return // `Impacts` needs one entry more than there are doc ids
    for (const column of [this.until, this.scores, this.matches]) column.set(this.docs, 0)
  }

  #setDoc(doc: number, scope: number, length: number, until: number): number {
    const isNew = this.#docIds.last(scope) < 0
    this.#docIds.assign(scope, doc)
    this.#grow()
    this.live++
    this.until.data[doc] = until
    this.#scope.set(doc, scope)
    this.#length.set(doc, length)
    this.#count.set(scope, isNew ? 1 : this.#count.data[scope]! + 1)
    this.#total.set(scope, isNew ? length : this.#total.data[scope]! + length)
    this.#dead.set(scope, isNew ? 0 : this.#dead.data[scope]!)
    this.#soonest.set(scope, isNew ? until : Math.min(until, this.#soonest.data[scope]!))
    this.#totalLength += length
    this.#totalSoonest = Math.min(until, this.#totalSoonest)
    return doc
  }

  #isWhole(scope: number, at: number): boolean {
    return this.#dead.data[scope] === 0 && this.#soonest.data[scope]! > at
  }
}
