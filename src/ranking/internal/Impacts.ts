/**
 * An impact is a pair of numbers: a code, and the length of a document. The code says how often the document contains a term, and whether
 * the term is a tag. BM25 computes the score of a posting from this pair. There are few different pairs, so a posting stores the number of
 * its pair instead of the pair. For a query with many matches, the score is computed once per pair, and then looked up for each posting.
 */
import { saturation } from "../Bm25.ts"
import { type GrowableArray, int32 } from "./DocIds.ts"

/** The smallest number above 0. Every match has at least this score. */
export const lowestMatchScore = Number.MIN_VALUE

/** Gives a number to each pair of a code and a document length. The code is twice a term's frequency, plus 1 if the term is a whole tag. */
export class Impacts {
  // columns by pair number
  readonly #codes = int32()
  readonly #lengths = int32()
  #count = 0
  /** Hash table with open addressing. An entry is the number of a pair plus 1; 0 marks a free slot. */
  #table: Int32Array = new Int32Array(8)

  /** Returns the number of a pair. Gives a new pair the next number, counted from 0. */
  numberOf(code: number, length: number): number {
    const mask = this.#table.length - 1
    for (let i = hash(code, length) & mask;; i = (i + 1) & mask) {
      const number = this.#table[i]! - 1
      if (number < 0) return this.#create(code, length)
      if (this.#codes.data[number] === code && this.#lengths.data[number] === length) return number
    }
  }

  codeOf(number: number): number {
    return this.#codes.data[number]!
  }

  #create(code: number, length: number): number {
    const number = this.#count++
    this.#codes.set(number, code)
    this.#lengths.set(number, length)
    if (2 * this.#count > this.#table.length) {
      this.#table = new Int32Array(2 * this.#table.length)
      for (let one = 0; one < number; one++) this.#insert(one)
    }
    this.#insert(number)
    return number
  }

  #insert(number: number): void {
    const mask = this.#table.length - 1
    let i = hash(this.#codes.data[number]!, this.#lengths.data[number]!) & mask
    while (this.#table[i] !== 0) i = (i + 1) & mask
    this.#table[i] = number + 1
  }

  /**
   * Returns a function that adds the BM25 summand of each posting of a term to the score of the posting's document. If there are many
   * postings, the summands of all pairs are computed first, and then looked up. `weights`: the weight of each term of the query.
   * `postings`: the number of postings of all these terms.
   */
  adderFor(weights: ReadonlyArray<number>, slope: number, postings: number): AddScores {
    const [codes, lengths] = [this.#codes.data, this.#lengths.data]
    const count = this.#count
    if (postings < 2 * weights.length * count) {
      return (n, arena, from, end, into) => addScoresOfFew(arena, from, end, weights[n]!, slope, codes, lengths, into)
    }
    weights.forEach((weight, n) => {
      const table = (tables[n]?.length ?? 0) < count ? tables[n] = new Float64Array(2 * count) : tables[n]!
      for (let number = 0; number < count; number++) {
        const code = codes[number]!
        table[number] = weight * saturation(code >> 1, lengths[number]!, slope) + (code & 1)
      }
    })
    return (n, arena, from, end, into) =>
      into.groupFilter === undefined
        ? addScores(arena, from, end, tables[n]!, into)
        : addScoresFiltered(arena, from, end, tables[n]!, into, into.groupFilter)
  }
}

/** BM25 summands of a query: one table per query term, by pair number. The next query reuses the tables. */
const tables: Array<Float64Array> = []

/**
 * A filter that decides which matches are counted. `groups` has the group of each doc id, and `verdicts` the verdict on each group. Matches
 * of a group with verdict 1 are counted. Matches of a group with verdict 2 are not counted.
 */
export interface GroupFilter {
  readonly groups: Uint16Array
  readonly verdicts: Uint8Array
}

/**
 * Callbacks of `InvertedIndex.match`. This method scores one scope after another, and lists the matches in the array `matches`.
 * `afterScope` is called after each scope, with the index in `matches` of the scope's first match. If many documents match, a match of a
 * later scope is listed only if it reaches the score that `afterScope` returns. `groupFilter` returns the filter that decides which matches
 * are counted; `undefined` if all are.
 */
export interface MatchObserver {
  readonly afterScope: (from: number) => number
  readonly groupFilter: () => GroupFilter | undefined
}

/** The fields of an `InvertedIndex` that a function of type `AddScores` uses. The comments are in `InvertedIndex`. */
interface Scored {
  readonly scores: { readonly data: Float64Array }
  readonly matches: { readonly data: Int32Array }
  readonly minListed: number
  readonly groupFilter: GroupFilter | undefined
  matched: number
  passed: number
}

/** Adds the summand of each posting in `arena[from..end)` to the document's score. `term` is the index of the term in the query. */
type AddScores = (term: number, arena: Int32Array, from: number, end: number, into: Scored) => void

/**
 * Adds the summand of each posting to the score of its document. A document whose score was 0 is counted. A document whose score now
 * reaches `minListed` is listed. The loop takes 3 ns per posting. Its only branch compares a score with `minListed`. The processor predicts
 * this branch correctly if few documents reach `minListed`.
 */
const addScores = (arena: Int32Array, from: number, end: number, table: Float64Array, into: Scored): void => {
  const { matches: { data: matches }, minListed, scores: { data: scores } } = into
  let { passed, matched } = into
  for (let i = from; i < end; i += 2) {
    const doc = arena[i]!
    const score = scores[doc]!
    const sum = score + table[arena[i + 1]!]!
    scores[doc] = sum
    passed += +(score === 0)
    if (sum < minListed) continue
    matches[matched] = doc
    matched += +(score < minListed)
  }
  into.passed = passed
  into.matched = matched
}

/** A variant of `addScores` that counts only the matches that the group filter accepts. */
const addScoresFiltered = (
  arena: Int32Array,
  from: number,
  end: number,
  table: Float64Array,
  into: Scored,
  { groups, verdicts }: GroupFilter
): void => {
  const { matches: { data: matches }, minListed, scores: { data: scores } } = into
  let { passed, matched } = into
  for (let i = from; i < end; i += 2) {
    const doc = arena[i]!
    const score = scores[doc]!
    const sum = score + table[arena[i + 1]!]!
    scores[doc] = sum
    passed += +(score === 0) & verdicts[groups[doc]!]!
    if (sum < minListed) continue
    matches[matched] = doc
    matched += +(score < minListed)
  }
  into.passed = passed
  into.matched = matched
}

/** A variant of `addScores` without a table, for few postings. */
const addScoresOfFew = (
  arena: Int32Array,
  from: number,
  end: number,
  weight: number,
  slope: number,
  codes: Int32Array,
  lengths: Int32Array,
  into: Scored
): void => {
  const { matches: { data: matches }, groupFilter, minListed, scores: { data: scores } } = into
  let { passed, matched } = into
  for (let i = from; i < end; i += 2) {
    const doc = arena[i]!
    const number = arena[i + 1]!
    const code = codes[number]!
    const score = scores[doc]!
    const sum = score + (weight * saturation(code >> 1, lengths[number]!, slope) + (code & 1))
    scores[doc] = sum
    passed += +(score === 0) & (groupFilter === undefined ? 1 : groupFilter.verdicts[groupFilter.groups[doc]!]!)
    if (sum < minListed) continue
    matches[matched] = doc
    matched += +(score < minListed)
  }
  into.passed = passed
  into.matched = matched
}

/** Hashes a pair of numbers with the finaliser of MurmurHash3. With a weaker hash, pairs of small numbers would form clusters. */
export const hash = (a: number, b: number): number => {
  let mixed = a ^ Math.imul(b + 1, 0x9e3779b1)
  mixed = Math.imul(mixed ^ (mixed >>> 16), 0x85ebca6b)
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35)
  return mixed ^ (mixed >>> 16)
}

/** Visits the posting lists of a query's terms scope by scope, and within a scope in the order of the terms. */
export class PostingsCursor {
  readonly #lists: Array<number> = []
  readonly #terms: Array<number> = []
  /** Entry n: the index in `#lists` of the list after list n in the same scope, plus 1; 0 if there is none. */
  readonly #nexts: Array<number> = []
  /** The first and the last list of each scope number, as two entries. An entry is an index in `#lists` plus 1, or 0 for no list. */
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

  /** Calls `visit` for each list, scope by scope, and `end` after the lists of each scope. Then empties the cursor. */
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
