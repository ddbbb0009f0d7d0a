/**
 * Posting lists of an inverted index. Each list belongs to one term and one scope, so that a query scans only scopes that its viewer sees.
 *
 * ```text
 * terms   term → its number
 * firsts  per term   its first list, its number of lists
 * heads   per list   TERM SCOPE NEXT COUNT AT     NEXT: the term's next list; AT: address in the arena
 * arena   per list   doc impact doc impact …     impact: number of the pair of code and length of the document, see `Impacts`
 *                                                 code = 2 · tf, plus 1 if the term is a whole tag
 * ```
 *
 * A list is identified by its offset in `heads`. A full list moves to a block of twice the size. Postings are never removed; `compacted`
 * makes a copy without the postings of removed documents.
 *
 * `decode` and `packed` make postings with packed lists. The lists of a term are unpacked on first use, since most terms are never used.
 */
import { detached } from "../Tokenizer.ts"
import { Arena, type GrowableArray, int32 } from "./DocIds.ts"
import { hash, Impacts } from "./Impacts.ts"
import { atOnce, type Encoded, type Numbering, readNumbers, type Steps, Writer } from "./IndexCodec.ts"

const TERM = 0
const SCOPE = 1
const NEXT = 2
const COUNT = 3
const AT = 4
const stride = 5
/** Value in `firsts` that marks a term whose lists are still packed. */
const packed = -2

/** The posting lists of all terms. */
export class Postings {
  readonly impacts = new Impacts()
  readonly #terms = new Map<string, number>()
  #firsts = int32()
  heads: Int32Array = new Int32Array(16 * stride)
  readonly #arena = new Arena()
  #lists = 0
  /** Hash table from term and scope to a list's offset plus 1; 0 is a free slot. The first list of each term is not in the table. */
  #table: Int32Array = new Int32Array(16)
  #entries = 0
  /** The previous hash table, while its entries are being moved to `#table`. The first `#moved` slots are done. */
  #full: Int32Array | undefined
  #moved = 0
  #packed: Encoded | undefined
  /** Number of bytes of `#packed` that were not unpacked yet. */
  #packedBytes = 0
  /** Maps a document number in `#packed` to a doc id. `undefined` if both are equal. */
  #order: Int32Array | undefined
  /** Lengths of documents, by doc id. */
  readonly #lengths: GrowableArray<Int32Array>

  constructor(lengths: GrowableArray<Int32Array>) {
    this.#lengths = lengths
  }

  /** Returns the number of a term, counted from 0; adds the term if it is new. */
  termOf(text: string): number {
    const known = this.#terms.get(text)
    if (known !== undefined) return known
    const term = this.#terms.size
    this.#terms.set(detached(text), term)
    this.#firsts.set(2 * term, -1)
    this.#firsts.set(2 * term + 1, 0)
    return term
  }

  /** Returns the number of a term; `undefined` if the term has none. */
  knownTerm(text: string): number | undefined {
    return this.#terms.get(text)
  }

  /** Returns the offset in `heads` of the posting list of a term and scope. Makes the list if there is none. */
  list(term: number, scope: number): number {
    const found = this.find(term, scope)
    return found >= 0 ? found : this.#createList(term, scope)
  }

  push(list: number, doc: number, code: number): void {
    const count = this.heads[list + COUNT]!
    if ((count & (count - 1)) === 0) this.#enlarge(list, count) // 0 or a power of two: the block is full
    const arena = this.arena(list)
    const at = this.at(list) + 2 * count
    arena[at] = doc
    arena[at + 1] = this.impacts.numberOf(code, this.#lengths.data[doc]!)
    this.heads[list + COUNT] = count + 1
  }

  /** Returns the offset in `heads` of the list of a term and scope; −1 if there is none. */
  find(term: number, scope: number): number {
    const first = this.first(term) // is called before `heads` is read, since `first` may replace `heads`
    const { heads } = this
    if (first < 0 || heads[first + SCOPE] === scope) return first
    if (this.listsOf(term) === 1) return -1
    const found = findIn(this.#table, heads, term, scope)
    return found < 0 && this.#full !== undefined ? findIn(this.#full, heads, term, scope) : found
  }

  /** Returns the offset in `heads` of the first list of a term; −1 if the term has no list. */
  first(term: number): number {
    const first = this.#firsts.data[2 * term]!
    return first === packed ? this.#unpack(term) : first
  }
  listsOf(term: number): number {
    if (this.#firsts.data[2 * term] === packed) this.#unpack(term)
    return this.#firsts.data[2 * term + 1]!
  }
  /** Returns the offset in `heads` of the next list of the same term; −1 after the last list. */
  next(list: number): number {
    return this.heads[list + NEXT]!
  }
  scopeOf(list: number): number {
    return this.heads[list + SCOPE]!
  }
  /** Returns the number of postings of a list, including postings of removed documents. */
  count(list: number): number {
    return this.heads[list + COUNT]!
  }
  /** Returns how many documents of a list are neither removed nor expired at the time `at`. Scans the list. */
  countOf(list: number, until: Float64Array, at: number): number {
    const arena = this.arena(list)
    let count = 0
    for (let i = this.at(list), end = i + 2 * this.count(list); i < end; i += 2) {
      if (until[arena[i]!]! > at) count++
    }
    return count
  }
  /** Returns the array that contains a list. The array is valid until a posting is added or the lists of a term are unpacked. */
  arena(list: number): Int32Array {
    return this.#arena.at(this.heads[list + AT]!)
  }
  /** Returns the index in `arena(list)` at which a list begins. */
  at(list: number): number {
    return this.#arena.from(this.heads[list + AT]!)
  }

  /** Returns the lists of a term in `scopes`. Default: in all scopes. `isSeen` tells whether a scope is in `scopes`. */
  listsIn(
    term: number,
    scopes: ReadonlyArray<number> | undefined,
    isSeen: (scope: number) => boolean
  ): ReadonlyArray<number> {
    const lists: Array<number> = []
    if (scopes !== undefined && scopes.length <= this.listsOf(term)) {
      for (const scope of scopes) {
        const list = this.find(term, scope)
        if (list >= 0) lists.push(list)
      }
      return lists
    }
    for (let list = this.first(term); list >= 0; list = this.next(list)) {
      if (scopes === undefined || isSeen(this.scopeOf(list))) lists.push(list)
    }
    return lists
  }

  /** Returns the code of a document in a list: twice the term's frequency, plus 1 for a whole tag. 0 if the list lacks the document. */
  codeIn(list: number, doc: number): number {
    const arena = this.arena(list)
    const at = this.at(list)
    let low = 0
    let high = this.count(list)
    while (low < high) { // the doc ids in a list ascend
      const middle = (low + high) >>> 1
      if (arena[at + 2 * middle]! < doc) low = middle + 1
      else high = middle
    }
    const isIn = low < this.count(list) && arena[at + 2 * low] === doc
    return isIn ? this.impacts.codeOf(arena[at + 2 * low + 1]!) : 0
  }

  /**
   * Encodes the present postings in steps. Postings may be added between the steps. `as` gives new numbers to documents and scopes, and may
   * leave out documents. Terms that then occur in no document are left out, too. Without `as`, all numbers stay as they are.
   */
  encode(as?: Numbering): Steps<Encoded> {
    const order = this.#order
    const isAsPacked = as === undefined
      ? order === undefined
      : as.isWhole && order !== undefined && order.every((doc, number) => as.docs[doc] === number)
    return this.#encoding(Array.from(this.#terms.keys()), as ?? this.#asItIs(), isAsPacked, as === undefined)
  }

  #asItIs(): Numbering {
    return { docs: this.#lengths.data.map((_, doc) => doc), isWhole: true }
  }

  *#encoding(
    terms: ReadonlyArray<string>,
    as: Numbering,
    isAsPacked: boolean,
    isEvery: boolean
  ): Steps<Encoded> {
    const kept: Array<string> = []
    const out = new Writer(2 * this.#arena.length)
    const ends = new Int32Array(terms.length)
    let work = 0
    for (let term = 0; term < terms.length; term++) {
      if (isAsPacked && this.#firsts.data[2 * term] === packed) out.append(bytesOf(this.#packed!, term))
      else {
        for (let list = this.first(term); list >= 0; list = this.next(list)) {
          this.#write(list, as, out)
          work += 16 + this.count(list)
        }
      }
      if (isEvery || out.length > (ends[kept.length - 1] ?? 0)) ends[kept.push(terms[term]!) - 1] = out.length
      work += 16
      if (work < 16_384) continue
      yield work >> 1 // a high estimate, since code that is not compiled yet takes ten times as long
      work = 0
    }
    return { terms: kept, lists: out.bytes(), ends: ends.subarray(0, kept.length) }
  }

  #write(list: number, { isWhole, scopes, docs: numbers }: Numbering, out: Writer): void {
    const arena = this.arena(list)
    const from = this.at(list)
    let end = from + 2 * this.count(list)
    while (end > from && !(numbers[arena[end - 2]!]! >= 0)) end -= 2 // skips omitted or new documents at the end, which have no number
    let count = (end - from) >> 1
    if (!isWhole) { for (let i = from; i < end; i += 2) if (numbers[arena[i]!]! < 0) count-- }
    if (count === 0) return
    out.write(scopes?.[this.scopeOf(list)] ?? this.scopeOf(list))
    out.write(count)
    let before = -1 // the numbers ascend, so each difference is at least 1
    for (let i = from; i < end; i += 2) {
      const number = numbers[arena[i]!]!
      if (number < 0) continue
      out.write(number - before)
      out.write(this.impacts.codeOf(arena[i + 1]!))
      before = number
    }
  }

  /** Returns a packed copy, whose lists take about a sixth of the memory. Cost: one pass over all lists. */
  packed(): Postings {
    const { lists, ...rest } = atOnce(this.encode())
    return atOnce(Postings.decode({ ...rest, lists: lists.slice() }, this.#lengths)) // `lists` is a view of the writer's larger buffer
  }

  /** Restores encoded postings in steps. The lists stay packed. `order[n]` is the doc id of the n-th encoded document; default n. */
  static *decode(encoded: Encoded, lengths: GrowableArray<Int32Array>, order?: Int32Array): Steps<Postings> {
    const postings = new Postings(lengths)
    const { terms } = encoded
    postings.#packed = encoded
    postings.#packedBytes = encoded.lists.length
    postings.#order = order
    postings.#firsts = int32(new Int32Array(Math.max(2, 2 * terms.length)).fill(packed))
    for (let number = 0; number < terms.length; number++) {
      postings.#terms.set(terms[number]!, number)
      if ((number & 1_023) === 1_023) yield 4_096
    }
    return postings
  }

  /** Unpacks the lists of terms, one term per step. Does nothing if 7/8 of all bytes are unpacked: only rare terms are left then. */
  *unpacking(terms: Iterable<string>): Steps<void> {
    if (this.#packed === undefined || 8 * this.#packedBytes <= this.#packed.lists.length) return
    for (const text of terms) {
      const term = this.#terms.get(text)
      if (term === undefined || this.#firsts.data[2 * term] !== packed) continue
      this.#unpack(term)
      yield 2 * bytesOf(this.#packed, term).length
    }
  }

  /** Unpacks the lists of a term. Returns the offset in `heads` of the first list; −1 if the term has no list. */
  #unpack(term: number): number {
    const firsts = this.#firsts.data
    firsts[2 * term] = -1
    firsts[2 * term + 1] = 0
    const bytes = bytesOf(this.#packed!, term) // `#packed` is set, since the term is packed
    const numbers = readNumbers(bytes)
    this.#packedBytes -= bytes.length
    for (let next = 0; next < numbers.length;) {
      const list = this.#createList(term, numbers[next]!)
      const count = numbers[next + 1]!
      const at = this.#arena.allocate(roomFor(count))
      this.heads[list + COUNT] = count
      this.heads[list + AT] = at
      next = this.#unpackPostings(numbers, next + 2, at, count)
    }
    return firsts[2 * term]!
  }

  /** Decodes `count` postings from `numbers` into the arena. Document numbers are stored as differences. Returns the next index to read. */
  #unpackPostings(numbers: Int32Array, from: number, address: number, count: number): number {
    const [arena, lengths, order] = [this.#arena.at(address), this.#lengths.data, this.#order]
    const at = this.#arena.from(address)
    let number = -1
    for (let i = 0; i < 2 * count; i += 2) {
      number += numbers[from + i]!
      const doc = order === undefined ? number : order[number]!
      arena[at + i] = doc
      arena[at + i + 1] = this.impacts.numberOf(numbers[from + i + 1]!, lengths[doc]!)
    }
    return from + 2 * count
  }

  /** Returns a renumbered copy. `docs` and `scopes` map old to new numbers; −1 omits a document. Doc ids of one scope keep their order. */
  compacted(docs: Int32Array, scopes: Int32Array, lengths: GrowableArray<Int32Array>): Postings {
    const copy = new Postings(lengths)
    // unpacks all terms to count the lists, then allocates room for all of them at once: growing step by step would cost more than copying
    for (let term = 0; term < this.#terms.size; term++) this.first(term)
    copy.heads = new Int32Array(Math.max(copy.heads.length, this.#lists * stride))
    copy.#table = new Int32Array(2 ** Math.ceil(Math.log2(Math.max(256, 2 * this.#entries))))
    for (const [text, term] of this.#terms) {
      for (let list = this.first(term); list >= 0; list = this.next(list)) {
        const arena = this.arena(list)
        let to = -1
        for (let i = this.at(list), end = i + 2 * this.count(list); i < end; i += 2) {
          const doc = docs[arena[i]!]!
          if (doc < 0) continue
          if (to < 0) to = copy.#createList(copy.termOf(text), scopes[this.scopeOf(list)]!)
          copy.push(to, doc, this.impacts.codeOf(arena[i + 1]!))
        }
      }
    }
    return copy
  }

  #createList(term: number, scope: number): number {
    const first = this.first(term)
    const made = this.#lists++ * stride
    if (made + stride > this.heads.length) this.heads = grown(this.heads, made + stride)
    this.heads[made + TERM] = term
    this.heads[made + SCOPE] = scope
    this.heads[made + NEXT] = first < 0 ? -1 : this.next(first)
    if (first < 0) this.#firsts.data[2 * term] = made
    else {
      this.heads[first + NEXT] = made
      this.#addToTable(made)
    }
    this.#firsts.data[2 * term + 1]! += 1
    return made
  }

  #enlarge(list: number, count: number): void {
    const address = this.#arena.allocate(count === 0 ? 1 : 2 * count)
    if (count > 0) {
      const [arena, at] = [this.arena(list), this.at(list)]
      const to = this.#arena.at(address)
      const from = this.#arena.from(address)
      if (count > 32) to.set(arena.subarray(at, at + 2 * count), from)
      else for (let i = 0; i < 2 * count; i++) to[from + i] = arena[at + i]!
      this.#arena.free(this.heads[list + AT]!, count)
    }
    this.heads[list + AT] = address
  }

  /** Adds a list to the hash table. A half-full table is replaced by a larger one. Later additions move the old entries, some at a time. */
  #addToTable(list: number): void {
    if (2 * ++this.#entries > this.#table.length) {
      this.#moveEntries(Infinity)
      this.#full = this.#table
      this.#moved = 0
      this.#table = new Int32Array(2 * this.#full.length)
    }
    this.#insert(list)
    this.#moveEntries(slotsAtATime)
  }

  #moveEntries(limit: number): void {
    const full = this.#full
    if (full === undefined) return
    const end = Math.min(full.length, this.#moved + limit)
    for (; this.#moved < end; this.#moved++) if (full[this.#moved]! > 0) this.#insert(full[this.#moved]! - 1)
    if (end === full.length) this.#full = undefined
  }

  #insert(list: number): void {
    const mask = this.#table.length - 1
    let i = hash(this.heads[list + TERM]!, this.heads[list + SCOPE]!) & mask
    while (this.#table[i] !== 0) i = (i + 1) & mask
    this.#table[i] = list + 1
  }
}

/** Number of slots that each addition moves from the previous hash table. The move ends before the new table is half full. */
const slotsAtATime = 16

/** Looks up the list of a term and scope in a hash table. Returns its offset in `heads`; −1 if there is none. */
const findIn = (table: Int32Array, heads: Int32Array, term: number, scope: number): number => {
  const mask = table.length - 1
  for (let i = hash(term, scope) & mask;; i = (i + 1) & mask) {
    const list = table[i]! - 1
    if (list < 0 || (heads[list + TERM] === term && heads[list + SCOPE] === scope)) return list
  }
}

const bytesOf = ({ ends, lists }: Encoded, term: number): Uint8Array => lists.subarray(ends[term - 1] ?? 0, ends[term])

/** Returns the size of the block for `count` postings: `count`, rounded up to a power of two. */
const roomFor = (count: number): number => 2 ** (32 - Math.clz32(count - 1))

const grown = (array: Int32Array, length: number): Int32Array => {
  const copy = new Int32Array(Math.max(length, Math.ceil(array.length * 1.5)))
  copy.set(array)
  return copy
}
