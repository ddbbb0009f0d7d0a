/**
 * Who holds a term: one list per term and exact scope, so that a viewer walks his own lists only.
 *
 * ```text
 * terms   term → its number
 * firsts  per term   its first list, how many it has
 * heads   per list   TERM SCOPE NEXT COUNT AT     NEXT: the term's next list; AT: where in the arena
 * arena   per list   slot code slot code …        code = 2 · tf, plus 1 where the term is a whole tag
 * ```
 *
 * A list that is full moves to a block of twice the size; the old one is used again. A list is named by its offset in
 * `heads`. Nothing is taken out: `compacted` copies what is left.
 *
 * What `decode` restores stays packed until someone asks for a term: few of them are ever asked for.
 */
import { detached } from "../Tokenizer.ts"
import { int32 } from "./Slots.ts"

const TERM = 0
const SCOPE = 1
const NEXT = 2
const COUNT = 3
const AT = 4
const stride = 5
/** Stands for the first list of a term whose lists are still packed. */
const packed = -2

/** Terms in the order of their numbers, their lists as a `Writer` writes them, and per term where its bytes end. */
export interface Encoded {
  readonly terms: ReadonlyArray<string>
  readonly lists: Uint8Array
  readonly ends: Int32Array
}

export class Postings {
  readonly #terms = new Map<string, number>()
  #firsts = int32()
  heads: Int32Array = new Int32Array(64 * stride)
  arena: Int32Array = new Int32Array(1_024)
  #lists = 0
  #used = 0
  /** By the logarithm of a block's size: where a block lies idle, plus 1. An idle block holds the next one. */
  #idle: Int32Array = new Int32Array(32)
  /** Open addressing, by term and scope: lists but the first of each term, plus 1. */
  #table: Int32Array = new Int32Array(256)
  #entries = 0
  #packed: Encoded | undefined

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

  push(list: number, slot: number, code: number): void {
    const count = this.heads[list + COUNT]!
    if ((count & (count - 1)) === 0) this.#move(list, count) // nothing, or a power of two: full
    const at = this.heads[list + AT]! + 2 * count
    this.arena[at] = slot
    this.arena[at + 1] = code
    this.heads[list + COUNT] = count + 1
  }

  /** −1: none. */
  find(term: number, scope: number): number {
    const { heads } = this
    const first = this.first(term)
    if (first < 0 || heads[first + SCOPE] === scope) return first
    if (this.listsOf(term) === 1) return -1
    const mask = this.#table.length - 1
    for (let i = hash(term, scope) & mask;; i = (i + 1) & mask) {
      const list = this.#table[i]! - 1
      if (list < 0 || (heads[list + TERM] === term && heads[list + SCOPE] === scope)) return list
    }
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
  /** Where in the arena. */
  at(list: number): number {
    return this.heads[list + AT]!
  }

  encode(): Encoded {
    const out = new Writer(2 * this.#used)
    const ends = new Int32Array(this.#terms.size)
    for (let term = 0; term < this.#terms.size; term++) {
      for (let list = this.first(term); list >= 0; list = this.next(list)) {
        out.write(this.scopeOf(list))
        out.write(this.count(list))
        let before = -1 // slots ascend
        for (let i = this.at(list), end = i + 2 * this.count(list); i < end; i += 2) {
          out.write(this.arena[i]! - before)
          out.write(this.arena[i + 1]!)
          before = this.arena[i]!
        }
      }
      ends[term] = out.length
    }
    return { terms: Array.from(this.#terms.keys()), lists: out.bytes(), ends }
  }

  /** Restores what `encode` returned, and keeps it. Cost: the terms. */
  static decode(encoded: Encoded): Postings {
    const postings = new Postings()
    const { terms } = encoded
    postings.#packed = encoded
    postings.#firsts = int32(new Int32Array(Math.max(2, 2 * terms.length)).fill(packed))
    for (let number = 0; number < terms.length; number++) postings.#terms.set(terms[number]!, number)
    return postings
  }

  /** Takes the lists of a term out of the bytes. Returns the first; −1: none. */
  #unpack(term: number): number {
    const firsts = this.#firsts.data
    firsts[2 * term] = -1
    firsts[2 * term + 1] = 0
    const { ends, lists } = this.#packed! // a term is packed where something is
    const numbers = readNumbers(lists.subarray(ends[term - 1] ?? 0, ends[term]))
    for (let next = 0; next < numbers.length;) {
      const list = this.#open(term, numbers[next]!)
      const count = numbers[next + 1]!
      const at = this.#block(roomFor(count))
      this.heads[list + COUNT] = count
      this.heads[list + AT] = at
      next = spread(numbers, next + 2, this.arena, at, count)
    }
    return firsts[2 * term]!
  }

  /** A copy with slots and scopes renumbered, ascending; what has become −1 is left behind, and terms without postings. */
  compacted(slots: Int32Array, scopes: Int32Array): Postings {
    const copy = new Postings()
    // room for all there was, and at most half as much again as is left: growing would cost more than copying
    for (let term = 0; term < this.#terms.size; term++) this.first(term) // none is packed any more
    copy.heads = new Int32Array(Math.max(copy.heads.length, this.#lists * stride))
    copy.arena = new Int32Array(Math.max(copy.arena.length, this.#used))
    copy.#table = new Int32Array(2 ** Math.ceil(Math.log2(Math.max(256, 2 * this.#entries))))
    for (const [text, term] of this.#terms) {
      for (let list = this.first(term); list >= 0; list = this.next(list)) {
        let to = -1
        for (let i = this.at(list), end = i + 2 * this.count(list); i < end; i += 2) {
          const slot = slots[this.arena[i]!]!
          if (slot < 0) continue
          if (to < 0) to = copy.#open(copy.termOf(text), scopes[this.scopeOf(list)]!)
          copy.push(to, slot, this.arena[i + 1]!)
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
    const size = count === 0 ? 1 : 2 * count
    const at = this.#block(size)
    if (count > 0) {
      const old = this.heads[list + AT]!
      this.arena.copyWithin(at, old, old + 2 * count)
      const rank = 31 - Math.clz32(count)
      this.arena[old] = this.#idle[rank]!
      this.#idle[rank] = old + 1
    }
    this.heads[list + AT] = at
  }

  #block(size: number): number {
    const rank = 31 - Math.clz32(size)
    const idle = this.#idle[rank]! - 1
    if (idle >= 0) {
      this.#idle[rank] = this.arena[idle]!
      return idle
    }
    const at = this.#used
    this.#used += 2 * size
    if (this.#used > this.arena.length) this.arena = grown(this.arena, this.#used)
    return at
  }

  #enter(list: number): void {
    if (2 * ++this.#entries > this.#table.length) {
      const old = this.#table
      this.#table = new Int32Array(2 * old.length)
      for (const entry of old) if (entry > 0) this.#seat(entry - 1)
    }
    this.#seat(list)
  }

  #seat(list: number): void {
    const mask = this.#table.length - 1
    let i = hash(this.heads[list + TERM]!, this.heads[list + SCOPE]!) & mask
    while (this.#table[i] !== 0) i = (i + 1) & mask
    this.#table[i] = list + 1
  }
}

/** The size of the block that a list of so many postings lies in: the next power of two. */
const roomFor = (count: number): number => 2 ** (32 - Math.clz32(count - 1))

/** Copies `count` postings, whose slots are written as distances, and returns where the next number stands. */
const spread = (numbers: Int32Array, from: number, arena: Int32Array, at: number, count: number): number => {
  let slot = -1
  for (let i = 0; i < 2 * count; i += 2) {
    slot += numbers[from + i]!
    arena[at + i] = slot
    arena[at + i + 1] = numbers[from + i + 1]!
  }
  return from + 2 * count
}

/** Murmur's finaliser: terms and scopes are dense numbers, which a weaker mixture leaves in clusters. */
const hash = (term: number, scope: number): number => {
  let mixed = term ^ Math.imul(scope + 1, 0x9e3779b1)
  mixed = Math.imul(mixed ^ (mixed >>> 16), 0x85ebca6b)
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35)
  return mixed ^ (mixed >>> 16)
}

const grown = (array: Int32Array, length: number): Int32Array => {
  const copy = new Int32Array(Math.max(length, Math.ceil(array.length * 1.5)))
  copy.set(array)
  return copy
}

/*
 * The bytes of an index: names and columns of numbers as one run for the next process, and single numbers in few bytes.
 *
 * ```text
 * format   bytes of the head   number of columns   head: JSON   padding to 4   length int32 …   length int32 …   bytes
 * ```
 *
 * In the byte order of the machine: to another, the format is an unknown one. Nothing is checked but that: seal it.
 *
 * A `Writer` takes whole numbers from 0 up, seven bits to a byte, the lowest first, the eighth where more follow.
 */

/** Raised with each change of what is packed, or of what is counted of a text (`Tokenizer`, `Bm25.read`). */
export const format = 3

export interface Packed {
  readonly head: unknown
  readonly columns: ReadonlyArray<Int32Array>
  readonly bytes: Uint8Array
}

export const pack = ({ bytes, columns, head }: Packed): Uint8Array<ArrayBuffer> => {
  const text = new TextEncoder().encode(JSON.stringify(head))
  const start = 3 + Math.ceil(text.length / 4)
  const end = columns.reduce((sum, column) => sum + 1 + column.length, start)
  const words = new Int32Array(end + Math.ceil(bytes.length / 4))
  const all = new Uint8Array(words.buffer, 0, 4 * end + bytes.length)
  words[0] = format
  words[1] = text.length
  words[2] = columns.length
  all.set(text, 12)
  let at = start
  for (const column of columns) {
    words[at] = column.length
    words.set(column, at + 1)
    at += 1 + column.length
  }
  all.set(bytes, 4 * end)
  return all
}

/** Views: the bytes are theirs from now on, and begin at a multiple of 4. `undefined`: of another format. */
export const unpack = (all: Uint8Array): Packed | undefined => {
  if (all.length < 12) return undefined
  const words = new Int32Array(all.buffer, all.byteOffset, all.length >> 2)
  if (words[0] !== format) return undefined
  const text = words[1]! // of 12 bytes at least
  const head: unknown = JSON.parse(new TextDecoder().decode(all.subarray(12, 12 + text)))
  const columns: Array<Int32Array> = []
  let at = 3 + Math.ceil(text / 4)
  for (let left = words[2]!; left > 0; left--) {
    columns.push(words.subarray(at + 1, at + 1 + words[at]!))
    at += 1 + words[at]!
  }
  return { head, columns, bytes: all.subarray(4 * at) }
}

/** Writes numbers below 2^31 into bytes that grow. */
export class Writer {
  #bytes: Uint8Array
  #used = 0

  /** `size`: how many bytes to begin with. */
  constructor(size: number) {
    this.#bytes = new Uint8Array(Math.max(64, size))
  }

  write(number: number): void {
    if (this.#used + 5 > this.#bytes.length) {
      const grown = new Uint8Array(2 * this.#bytes.length)
      grown.set(this.#bytes)
      this.#bytes = grown
    }
    let rest = number
    while (rest > 127) {
      this.#bytes[this.#used++] = (rest & 127) | 128
      rest >>>= 7
    }
    this.#bytes[this.#used++] = rest
  }

  /** Number of bytes that were written. */
  get length(): number {
    return this.#used
  }

  /** All that was written: a view, good until the next `write`. */
  bytes(): Uint8Array {
    return this.#bytes.subarray(0, this.#used)
  }
}

/** Reads all that a `Writer` wrote, at once: a call for each number would take several times as long. */
export const readNumbers = (bytes: Uint8Array): Int32Array => {
  const numbers = new Int32Array(bytes.length)
  let count = 0
  let number = 0
  let shift = 0
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at]!
    number |= (byte & 127) << shift
    shift += 7
    if (byte < 128) {
      numbers[count++] = number
      number = 0
      shift = 0
    }
  }
  return numbers.subarray(0, count)
}
