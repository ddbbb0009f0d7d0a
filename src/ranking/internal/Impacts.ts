/**
 * Impacts: what a posting says beside its document, which is how often that holds the term, and how long it is. Few of these pairs
 * are different ones, so a posting has the number of its pair, and a question for which many documents match works out once for
 * each pair what it gives to a score. In the same way `MetadataGroups` number what metadata records have, so that a filter is asked
 * once for each.
 */
import { saturation } from "../Bm25.ts"
import { type GrowableArray, int32 } from "./DocIds.ts"

/** The least number above 0: every match scores as much. */
export const leastScore = Number.MIN_VALUE

/** The pairs of a code and a length that postings name. */
export class Impacts {
  // columns by number
  readonly #codes = int32()
  readonly #lengths = int32()
  #count = 0
  /** Open addressing, by code and length: numbers, plus 1. */
  #table: Int32Array = new Int32Array(8)

  /** The number of a pair, counted from 0. `code`: see `Postings`. */
  numberOf(code: number, length: number): number {
    const mask = this.#table.length - 1
    for (let i = hash(code, length) & mask;; i = (i + 1) & mask) {
      const number = this.#table[i]! - 1
      if (number < 0) return this.#open(code, length)
      if (this.#codes.data[number] === code && this.#lengths.data[number] === length) return number
    }
  }

  codeOf(number: number): number {
    return this.#codes.data[number]!
  }

  #open(code: number, length: number): number {
    const number = this.#count++
    this.#codes.set(number, code)
    this.#lengths.set(number, length)
    if (2 * this.#count > this.#table.length) {
      this.#table = new Int32Array(2 * this.#table.length)
      for (let one = 0; one < number; one++) this.#seat(one)
    }
    this.#seat(number)
    return number
  }

  #seat(number: number): void {
    const mask = this.#table.length - 1
    let i = hash(this.#codes.data[number]!, this.#lengths.data[number]!) & mask
    while (this.#table[i] !== 0) i = (i + 1) & mask
    this.#table[i] = number + 1
  }

  /**
   * Returns what adds to the scores of documents what the postings of a term give: for many postings reading it off a table, which is
   * written first. `weights`: by number of the term.
   */
  weighed(weights: ReadonlyArray<number>, slope: number, postings: number): Scatter {
    const [codes, lengths] = [this.#codes.data, this.#lengths.data]
    const count = this.#count
    if (postings < 2 * weights.length * count) {
      return (n, arena, from, end, into) => scatterFew(arena, from, end, weights[n]!, slope, codes, lengths, into)
    }
    weights.forEach((weight, n) => {
      const table = (tables[n]?.length ?? 0) < count ? tables[n] = new Float64Array(2 * count) : tables[n]!
      for (let number = 0; number < count; number++) {
        const code = codes[number]!
        table[number] = weight * saturation(code >> 1, lengths[number]!, slope) + (code & 1)
      }
    })
    return (n, arena, from, end, into) =>
      into.passing === undefined
        ? scatter(arena, from, end, tables[n]!, into)
        : scatterPassing(arena, from, end, tables[n]!, into, into.passing)
  }
}

/** Share that each pair gives to a score, by number of a term. */
const tables: Array<Float64Array> = []

/** Groups by doc id, and verdicts by group: odd where its doc ids are counted. */
export interface Passing {
  readonly groups: Uint16Array
  readonly verdicts: Uint8Array
}

/** Call for each scope whose matches are scored, as `InvertedIndex.match` says; and which of all are counted, `undefined`: all. */
export interface Reader {
  readonly read: (from: number) => number
  readonly passing: () => Passing | undefined
}

/** Columns that are written to: scores by doc id; the doc ids of those that reach a score; the number of those that had none, and pass. */
interface Scored {
  readonly scores: { readonly data: Float64Array }
  readonly matches: { readonly data: Int32Array }
  readonly reach: number
  readonly passing: Passing | undefined
  matched: number
  found: number
}

/** Adds what the postings of a term give that lie between two places of an arena. */
type Scatter = (term: number, arena: Int32Array, from: number, end: number, into: Scored) => void

/** The hot loop: 3 ns a posting. It has no branch that is foreseen wrongly, once few documents reach what is to be reached. */
const scatter = (arena: Int32Array, from: number, end: number, table: Float64Array, into: Scored): void => {
  const { matches: { data: matches }, reach, scores: { data: scores } } = into
  let { found, matched } = into
  for (let i = from; i < end; i += 2) {
    const doc = arena[i]!
    const score = scores[doc]!
    const sum = score + table[arena[i + 1]!]!
    scores[doc] = sum
    found += +(score === 0)
    if (sum < reach) continue
    matches[matched] = doc
    matched += +(score < reach)
  }
  into.found = found
  into.matched = matched
}

/** The same, where those are counted that pass. */
const scatterPassing = (
  arena: Int32Array,
  from: number,
  end: number,
  table: Float64Array,
  into: Scored,
  { groups, verdicts }: Passing
): void => {
  const { matches: { data: matches }, reach, scores: { data: scores } } = into
  let { found, matched } = into
  for (let i = from; i < end; i += 2) {
    const doc = arena[i]!
    const score = scores[doc]!
    const sum = score + table[arena[i + 1]!]!
    scores[doc] = sum
    found += +(score === 0) & verdicts[groups[doc]!]!
    if (sum < reach) continue
    matches[matched] = doc
    matched += +(score < reach)
  }
  into.found = found
  into.matched = matched
}

/** The same without a table. */
const scatterFew = (
  arena: Int32Array,
  from: number,
  end: number,
  weight: number,
  slope: number,
  codes: Int32Array,
  lengths: Int32Array,
  into: Scored
): void => {
  const { matches: { data: matches }, passing, reach, scores: { data: scores } } = into
  let { found, matched } = into
  for (let i = from; i < end; i += 2) {
    const doc = arena[i]!
    const number = arena[i + 1]!
    const code = codes[number]!
    const score = scores[doc]!
    const sum = score + (weight * saturation(code >> 1, lengths[number]!, slope) + (code & 1))
    scores[doc] = sum
    found += +(score === 0) & (passing === undefined ? 1 : passing.verdicts[passing.groups[doc]!]!)
    if (sum < reach) continue
    matches[matched] = doc
    matched += +(score < reach)
  }
  into.found = found
  into.matched = matched
}

/** Murmur's finaliser: what is paired are small numbers, which a weaker mixture leaves in clusters. */
export const hash = (a: number, b: number): number => {
  let mixed = a ^ Math.imul(b + 1, 0x9e3779b1)
  mixed = Math.imul(mixed ^ (mixed >>> 16), 0x85ebca6b)
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35)
  return mixed ^ (mixed >>> 16)
}

/** The lists of a question's terms, to be walked scope by scope: within a scope in the order of the terms. */
export class PostingsCursor {
  readonly #lists: Array<number> = []
  readonly #terms: Array<number> = []
  /** Per list, the scope's next one, plus 1. */
  readonly #nexts: Array<number> = []
  /** Per scope, its first and its last list, plus 1; 0 outside of a walk. */
  readonly #ends: GrowableArray<Int32Array> = int32()
  readonly #scopes: Array<number> = []

  add(scope: number, list: number, term: number): void {
    const end = this.#lists.push(list)
    this.#terms.push(term)
    this.#nexts.push(0)
    if (2 * scope + 1 >= this.#ends.data.length) this.#ends.set(2 * scope + 1, 0)
    const ends = this.#ends.data
    if (ends[2 * scope] === 0) {
      ends[2 * scope] = end
      this.#scopes.push(scope)
    } else this.#nexts[ends[2 * scope + 1]! - 1] = end
    ends[2 * scope + 1] = end
  }

  /** Visits all lists, tells when it has visited those of a scope, and forgets them. */
  run(visit: (list: number, term: number) => void, end: () => void): void {
    for (const scope of this.#scopes) {
      for (let at = this.#ends.data[2 * scope]!; at > 0; at = this.#nexts[at - 1]!) {
        visit(this.#lists[at - 1]!, this.#terms[at - 1]!)
      }
      this.#ends.data[2 * scope] = 0
      end()
    }
    for (const each of [this.#lists, this.#terms, this.#nexts, this.#scopes]) each.length = 0
  }
}
