/**
 * Holders of a term: one list per term and exact scope, so that a viewer walks his own lists only.
 *
 * ```text
 * terms   term → its number
 * firsts  per term   its first list, how many it has
 * heads   per list   TERM SCOPE NEXT COUNT AT     NEXT: the term's next list; AT: where in the arena
 * arena   per list   doc impact doc impact …     the number of a code and of the document's length: see `Impacts`
 *                                                 code = 2 · tf, plus 1 where the term is a whole tag
 * ```
 *
 * A list that is full moves to a block of twice the size; the old one is used again. A list is named by its offset in
 * `heads`. Nothing is taken out: `compacted` copies what is left.
 *
 * What `decode` restores, and what `packed` keeps, stays packed until someone asks for a term: few of them are ever asked for.
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
/** Stands for the first list of a term whose lists are still packed. */
const packed = -2

/** The lists of all terms. */
export class Postings {
  readonly impacts = new Impacts()
  readonly #terms = new Map<string, number>()
  #firsts = int32()
  heads: Int32Array = new Int32Array(16 * stride)
  readonly #arena = new Arena()
  #lists = 0
  /** Open addressing, by term and scope: lists but the first of each term, plus 1. */
  #table: Int32Array = new Int32Array(16)
  #entries = 0
  /** The table before that was full, until each of its entries is in the other, too; the first `#moved` of its places are. */
  #full: Int32Array | undefined
  #moved = 0
  #packed: Encoded | undefined
  /** The doc ids that the numbers in `#packed` stand for. */
  #order: Int32Array | undefined
  /** Lengths of documents by doc id: of those with postings. */
  readonly #lengths: GrowableArray<Int32Array>

  constructor(lengths: GrowableArray<Int32Array>) {
    this.#lengths = lengths
  }

  /** Numbers are dense, from 0. */
  termOf(text: string): number {
    const known = this.#terms.get(text)
    if (known !== undefined) return known
    const term = this.#terms.size
    this.#terms.set(detached(text), term)
    this.#firsts.set(2 * term, -1)
    this.#firsts.set(2 * term + 1, 0)
    return term
  }

  /** `undefined`: nobody ever held it. */
  knownTerm(text: string): number | undefined {
    return this.#terms.get(text)
  }

  /** The list of that term and scope; made where there is none. */
  list(term: number, scope: number): number {
    const found = this.find(term, scope)
    return found >= 0 ? found : this.#open(term, scope)
  }

  push(list: number, doc: number, code: number): void {
    const count = this.heads[list + COUNT]!
    if ((count & (count - 1)) === 0) this.#move(list, count) // nothing, or a power of two: full
    const arena = this.arena(list)
    const at = this.at(list) + 2 * count
    arena[at] = doc
    arena[at + 1] = this.impacts.numberOf(code, this.#lengths.data[doc]!)
    this.heads[list + COUNT] = count + 1
  }

  /** −1: none. */
  find(term: number, scope: number): number {
    const first = this.first(term) // may unpack the term, into heads that grow
    const { heads } = this
    if (first < 0 || heads[first + SCOPE] === scope) return first
    if (this.listsOf(term) === 1) return -1
    const found = findIn(this.#table, heads, term, scope)
    return found < 0 && this.#full !== undefined ? findIn(this.#full, heads, term, scope) : found
  }

  /** The term's first list; −1: none. */
  first(term: number): number {
    const first = this.#firsts.data[2 * term]!
    return first === packed ? this.#unpack(term) : first
  }
  listsOf(term: number): number {
    if (this.#firsts.data[2 * term] === packed) this.#unpack(term)
    return this.#firsts.data[2 * term + 1]!
  }
  /** The term's next list; −1 after the last. */
  next(list: number): number {
    return this.heads[list + NEXT]!
  }
  scopeOf(list: number): number {
    return this.heads[list + SCOPE]!
  }
  /** Postings, dead ones included. */
  count(list: number): number {
    return this.heads[list + COUNT]!
  }
  /** Postings of documents whose time, by doc id, lies beyond another. Cost: the list. */
  countOf(list: number, until: Float64Array, at: number): number {
    const arena = this.arena(list)
    let count = 0
    for (let i = this.at(list), end = i + 2 * this.count(list); i < end; i += 2) {
      if (until[arena[i]!]! > at) count++
    }
    return count
  }
  /** The array that a list lies in. Good until the next posting is added. */
  arena(list: number): Int32Array {
    return this.#arena.at(this.heads[list + AT]!)
  }
  /** The place in that array at which a list begins. */
  at(list: number): number {
    return this.#arena.from(this.heads[list + AT]!)
  }

  /** The lists of a term in some scopes; `undefined`: in all. `isSeen`: whether a scope is among them. */
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

  /** The code of a document in a list; 0: it is not in it. Cost: the logarithm of the list. */
  codeIn(list: number, doc: number): number {
    const arena = this.arena(list)
    const at = this.at(list)
    let low = 0
    let high = this.count(list)
    while (low < high) { // doc ids ascend
      const middle = (low + high) >>> 1
      if (arena[at + 2 * middle]! < doc) low = middle + 1
      else high = middle
    }
    const isIn = low < this.count(list) && arena[at + 2 * low] === doc
    return isIn ? this.impacts.codeOf(arena[at + 2 * low + 1]!) : 0
  }

  /**
   * Begins to encode the postings of now, in steps; postings may come meanwhile. `as`: how what is there is
   * numbered, and without terms that nothing else has; default: all of it as it is.
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
      yield work >> 1 // a posting takes ten times as long until the code is compiled
      work = 0
    }
    return { terms: kept, lists: out.bytes(), ends: ends.subarray(0, kept.length) }
  }

  #write(list: number, { isWhole, scopes, docs: numbers }: Numbering, out: Writer): void {
    const arena = this.arena(list)
    const from = this.at(list)
    let end = from + 2 * this.count(list)
    while (end > from && !(numbers[arena[end - 2]!]! >= 0)) end -= 2 // doc ids that came since are the last
    let count = (end - from) >> 1
    if (!isWhole) { for (let i = from; i < end; i += 2) if (numbers[arena[i]!]! < 0) count-- }
    if (count === 0) return
    out.write(scopes?.[this.scopeOf(list)] ?? this.scopeOf(list))
    out.write(count)
    let before = -1 // doc ids ascend
    for (let i = from; i < end; i += 2) {
      const number = numbers[arena[i]!]!
      if (number < 0) continue
      out.write(number - before)
      out.write(this.impacts.codeOf(arena[i + 1]!))
      before = number
    }
  }

  /** Returns a copy whose lists take about a sixth of the memory. Cost: all lists. */
  packed(): Postings {
    const { lists, ...rest } = atOnce(this.encode())
    return atOnce(Postings.decode({ ...rest, lists: lists.slice() }, this.#lengths)) // a view would hold all that the writer has room for
  }

  /** Restores what `encode` returned, in steps, and keeps it. `order`: the doc id of each number; default: the same. Cost: the terms. */
  static *decode(encoded: Encoded, lengths: GrowableArray<Int32Array>, order?: Int32Array): Steps<Postings> {
    const postings = new Postings(lengths)
    const { terms } = encoded
    postings.#packed = encoded
    postings.#order = order
    postings.#firsts = int32(new Int32Array(Math.max(2, 2 * terms.length)).fill(packed))
    for (let number = 0; number < terms.length; number++) {
      postings.#terms.set(terms[number]!, number)
      if ((number & 1_023) === 1_023) yield 4_096
    }
    return postings
  }

  /** Takes the lists of a term out of the bytes. Returns the first; −1: none. */
  #unpack(term: number): number {
    const firsts = this.#firsts.data
    firsts[2 * term] = -1
    firsts[2 * term + 1] = 0
    const numbers = readNumbers(bytesOf(this.#packed!, term)) // a term is packed where something is
    for (let next = 0; next < numbers.length;) {
      const list = this.#open(term, numbers[next]!)
      const count = numbers[next + 1]!
      const at = this.#arena.take(roomFor(count))
      this.heads[list + COUNT] = count
      this.heads[list + AT] = at
      next = this.#spread(numbers, next + 2, at, count)
    }
    return firsts[2 * term]!
  }

  /** Copies `count` postings, whose documents are written as distances, and returns where the next number stands. */
  #spread(numbers: Int32Array, from: number, place: number, count: number): number {
    const [arena, lengths, order] = [this.#arena.at(place), this.#lengths.data, this.#order]
    const at = this.#arena.from(place)
    let number = -1
    for (let i = 0; i < 2 * count; i += 2) {
      number += numbers[from + i]!
      const doc = order === undefined ? number : order[number]!
      arena[at + i] = doc
      arena[at + i + 1] = this.impacts.numberOf(numbers[from + i + 1]!, lengths[doc]!)
    }
    return from + 2 * count
  }

  /** A copy with doc ids and scopes renumbered, ascending; what has become −1 is left behind, and terms without postings. */
  compacted(docs: Int32Array, scopes: Int32Array, lengths: GrowableArray<Int32Array>): Postings {
    const copy = new Postings(lengths)
    // room for all there was: growing would cost more than copying
    for (let term = 0; term < this.#terms.size; term++) this.first(term) // none is packed any more
    copy.heads = new Int32Array(Math.max(copy.heads.length, this.#lists * stride))
    copy.#table = new Int32Array(2 ** Math.ceil(Math.log2(Math.max(256, 2 * this.#entries))))
    for (const [text, term] of this.#terms) {
      for (let list = this.first(term); list >= 0; list = this.next(list)) {
        const arena = this.arena(list)
        let to = -1
        for (let i = this.at(list), end = i + 2 * this.count(list); i < end; i += 2) {
          const doc = docs[arena[i]!]!
          if (doc < 0) continue
          if (to < 0) to = copy.#open(copy.termOf(text), scopes[this.scopeOf(list)]!)
          copy.push(to, doc, this.impacts.codeOf(arena[i + 1]!))
        }
      }
    }
    return copy
  }

  #open(term: number, scope: number): number {
    const first = this.first(term)
    const made = this.#lists++ * stride
    if (made + stride > this.heads.length) this.heads = grown(this.heads, made + stride)
    this.heads[made + TERM] = term
    this.heads[made + SCOPE] = scope
    this.heads[made + NEXT] = first < 0 ? -1 : this.next(first)
    if (first < 0) this.#firsts.data[2 * term] = made
    else {
      this.heads[first + NEXT] = made
      this.#enter(made)
    }
    this.#firsts.data[2 * term + 1]! += 1
    return made
  }

  #move(list: number, count: number): void {
    const place = this.#arena.take(count === 0 ? 1 : 2 * count)
    if (count > 0) {
      const [arena, at] = [this.arena(list), this.at(list)]
      const to = this.#arena.at(place)
      const from = this.#arena.from(place)
      if (count > 32) to.set(arena.subarray(at, at + 2 * count), from)
      else for (let i = 0; i < 2 * count; i++) to[from + i] = arena[at + i]!
      this.#arena.give(this.heads[list + AT]!, count)
    }
    this.heads[list + AT] = place
  }

  /** Enters a list into the table. A table that is full is moved into one of twice the size a few places at a time. */
  #enter(list: number): void {
    if (2 * ++this.#entries > this.#table.length) {
      this.#moveEntries(Infinity)
      this.#full = this.#table
      this.#moved = 0
      this.#table = new Int32Array(2 * this.#full.length)
    }
    this.#seat(list)
    this.#moveEntries(placesAtATime)
  }

  #moveEntries(most: number): void {
    const full = this.#full
    if (full === undefined) return
    const end = Math.min(full.length, this.#moved + most)
    for (; this.#moved < end; this.#moved++) if (full[this.#moved]! > 0) this.#seat(full[this.#moved]! - 1)
    if (end === full.length) this.#full = undefined
  }

  #seat(list: number): void {
    const mask = this.#table.length - 1
    let i = hash(this.heads[list + TERM]!, this.heads[list + SCOPE]!) & mask
    while (this.#table[i] !== 0) i = (i + 1) & mask
    this.#table[i] = list + 1
  }
}

/** Places of a full table that are moved with each new entry: all are before the next table is full. */
const placesAtATime = 16

/** Returns the list of a term and scope that a table has; −1: none. */
const findIn = (table: Int32Array, heads: Int32Array, term: number, scope: number): number => {
  const mask = table.length - 1
  for (let i = hash(term, scope) & mask;; i = (i + 1) & mask) {
    const list = table[i]! - 1
    if (list < 0 || (heads[list + TERM] === term && heads[list + SCOPE] === scope)) return list
  }
}

const bytesOf = ({ ends, lists }: Encoded, term: number): Uint8Array => lists.subarray(ends[term - 1] ?? 0, ends[term])

/** The size of the block that a list of so many postings lies in: the next power of two. */
const roomFor = (count: number): number => 2 ** (32 - Math.clz32(count - 1))

const grown = (array: Int32Array, length: number): Int32Array => {
  const copy = new Int32Array(Math.max(length, Math.ceil(array.length * 1.5)))
  copy.set(array)
  return copy
}
