/**
 * The records of an index by slot, and what finds and ranks them: postings, the order of time, contenders. It needs of a record
 * what an `Outline` says, so that the texts may lie in memory, as those of `MemoryIndex`, or in a database.
 */
import type { MemoryId } from "../../domain/MemoryId.ts"
import type { MemoryRecord } from "../../domain/MemoryRecord.ts"
import type * as Viewer from "../../domain/Viewer.ts"
import { relevanceOf } from "../Bm25.ts"
import type { Asked, Candidate, Fact, Matches, Position, Question } from "../Retrieval.ts"
import type { Tokenizer } from "../Tokenizer.ts"
import type { Ceiling } from "./Ceiling.ts"
import { byWords, Contenders } from "./Contenders.ts"
import { InvertedIndex, type View } from "./InvertedIndex.ts"
import { actorOf, Columns, isLong, type Outline, type Sieve } from "./Outline.ts"
import type { Ranked } from "./Ranker.ts"
import { RecencyIndex } from "./RecencyIndex.ts"
import { bestThat, choose, firstLook, type Pool, poolOf, sampleOf, Skim } from "./Selection.ts"
import { narrow } from "./Slots.ts"

/** Parts of a matcher. */
export interface Options<R extends Outline> {
  /** Makes the words of a passage. */
  readonly tokenizer: Tokenizer
  readonly factOf: (record: R, length: number) => Fact
  /** Whether a record passes a filter, validity aside. */
  readonly passes: (asked: Asked, record: R) => boolean
  /** Whether records hold all of their metadata: then a condition on it is asked once for those that have the same. Default false. */
  readonly hasMetadata?: boolean | undefined
  /** Returns the texts of a long record, to rank it by its passages; `undefined`: they are not at hand. */
  readonly textOf: (record: R) => MemoryRecord | undefined
  /** Number of matches up to which each is looked at, so that those that pass are counted exactly. Default 2,048. */
  readonly examined?: number | undefined
}

/** The records that are in sight and pass a filter. */
export interface Seen {
  readonly has: (id: MemoryId) => boolean
  /** All of them; `undefined`: they are too many to look at one by one. */
  readonly few: ReadonlyArray<MemoryId> | undefined
}

/** The documents that may answer a question, and who may see them. */
export class Matcher<R extends Outline> {
  readonly slots = new Map<MemoryId, number>()
  // columns by slot; they repeat what is asked of every match
  index = new InvertedIndex()
  #records: Array<R | undefined> = []
  #timeline = new RecencyIndex()
  #contenders: Contenders
  /** Number of records that more than words rank, by number of their scope; and of all scopes. */
  #special: Array<number> = []
  #anySpecial = 0
  #columns: Columns
  readonly #options: Options<R>
  /** Number of matches up to which each is looked at. */
  readonly #examined: number

  constructor(options: Options<R>) {
    this.#options = options
    this.#examined = options.examined ?? 2_048
    this.#columns = new Columns(options.hasMetadata === true)
    this.#contenders = this.#noContenders()
  }

  /** The record of a slot that is not removed. */
  readonly recordOf = (slot: number): R => this.#records[slot]!

  /** Records that are not removed, in the order of their slots. */
  get records(): ReadonlyArray<R> {
    return this.#records.filter((record) => record !== undefined)
  }

  get(id: MemoryId): R | undefined {
    const slot = this.slots.get(id)
    return slot === undefined ? undefined : this.#records[slot]
  }

  /** Takes a record that the inverted index has just added at this slot. */
  add(slot: number, record: R): void {
    this.slots.set(record.id, slot)
    this.#records[slot] = record
    this.#timeline.add(slot, record)
    this.#tally(slot, 1)
    this.#columns.add(slot, record)
  }

  /** Returns whether the record was there. */
  remove(id: MemoryId): boolean {
    const slot = this.slots.get(id)
    if (slot === undefined) return false
    this.slots.delete(id)
    this.#tally(slot, -1)
    this.#columns.remove(slot)
    this.#records[slot] = undefined
    this.index.remove(slot)
    if (this.index.removed > 1_024 + this.index.live / 2) this.#compact()
    return true
  }

  /** Makes all of it anew without the slots of removed records. */
  #compact(): void {
    const { index, kept } = this.index.compacted()
    const [before, slots] = [this.#records, Int32Array.from(this.slots.values())]
    this.index = index
    this.#records = []
    this.#timeline = new RecencyIndex()
    this.#columns = new Columns(this.#options.hasMetadata === true)
    this.#contenders = this.#noContenders()
    this.#special = []
    this.#anySpecial = 0
    const made = new Int32Array(before.length)
    kept.forEach((old, slot) => made[old] = slot)
    for (const old of slots) this.add(made[old]!, before[old]!) // the order is that in which they came, which is mostly that of time
  }

  #noContenders(): Contenders {
    const { textOf, tokenizer } = this.#options
    return new Contenders(this.recordOf, (slot) => textOf(this.recordOf(slot)), tokenizer)
  }

  #tally(slot: number, by: 1 | -1): void {
    const record = this.recordOf(slot)
    if (record.source.session === undefined && actorOf(record) === undefined && !isLong(record)) return
    const scope = this.index.scopeOf(slot)
    this.#special[scope] = (this.#special[scope] ?? 0) + by
    this.#anySpecial += by
    if (by > 0) this.#contenders.add(slot, scope, record)
    else this.#contenders.remove(slot, scope)
  }

  /** Whether anything in sight may be of a session, have a speaker or be long. Cost: the scopes. */
  #hasSpecial({ scopes }: View): boolean {
    return this.#anySpecial > 0 && (scopes === undefined || scopes.some((scope) => (this.#special[scope] ?? 0) > 0))
  }

  /** Makes what tells whether slots pass a filter: by columns, and by the record where those do not tell. */
  passing(asked: Asked): Sieve {
    const { passes } = this.#options
    return this.#columns.sieve(asked, this.index, (slot) => passes(asked, this.#records[slot]!))
  }

  /** Orders records that are there: newest first, then by id. */
  readonly newestFirst = (a: MemoryId, b: MemoryId): number =>
    this.#timeline.newestFirst(this.slots.get(a)!, this.slots.get(b)!)

  factOf(slot: number): Fact {
    return this.#options.factOf(this.recordOf(slot), this.index.lengthOf(slot))
  }

  /** Oldest first; where the viewer sees much of what there is, what it does not see is among it. */
  #byAge(view: View): ReadonlyArray<number> {
    const { index } = this
    if (view.count * 8 > index.live) return this.#timeline.all()
    index.everything(view)
    const seen = Array.from(index.matches.data.subarray(0, index.matched))
    index.clear()
    return seen.sort((a, b) => this.#timeline.newestFirst(b, a))
  }

  /** Finds the matches of a question, in one step: see `Retrieval`. */
  match(sight: Viewer.Sight, asked: Asked, question: Question): Matches {
    const { index } = this
    const view = index.view(sight)
    // records that nothing but words ranks are in the order of their words
    const ranked = question.ranked && (question.ranked.isTimely || this.#hasSpecial(view))
      ? question.ranked.read()
      : undefined
    try {
      const sieve = this.passing(asked)
      const { depth, score, shares, terms } = question
      const marks = ranked && this.#contenders.marksFor(index)
      const best = ranked !== undefined ? byWords : score === undefined ? Math.max(1, depth) : sampleOf(depth)
      const limit = sieve.rest === undefined ? best : firstLook(best)
      const ceiling = ranked === undefined && shares !== undefined && index.live > this.#examined
        ? this.#columns.ceiling(shares)
        : undefined
      let pool: Pool
      if (terms === undefined) {
        index.everything(view)
        const { matched, matches: { data: matches }, scores: { data: scores } } = index
        pool = poolOf(matches.subarray(0, sieve.narrow(matches, 0, matched)), scores)
      } else {
        const skim = new Skim(
          index,
          view,
          sieve,
          limit,
          score === undefined ? 0 : ceiling?.slack(index.slots) ?? 1,
          marks
        )
        index.match(view, terms, marks, { read: skim.read, passing: () => sieve.byGroup(index.slots) })
        pool = skim.pool()
      }
      return this.#matchesOf(view, sieve, question, { ranked, ceiling }, pool)
    } finally {
      index.clear()
    }
  }

  /** Ranks, weighs and cuts what the index has matched. */
  #matchesOf(
    view: View,
    sieve: Sieve,
    question: Question,
    { ceiling: bound, ranked }: { readonly ranked: Ranked | undefined; readonly ceiling: Ceiling | undefined },
    passed: Pool
  ): Matches {
    const index = this.index
    const contenders = this.#contenders
    const { newestFirst } = this.#timeline
    const { also, depth, minScore, score, terms = [] } = question
    const scores = index.scores.data
    const examined = this.#examined
    let { rest } = sieve
    let pool = passed
    if (rest !== undefined && pool.count <= examined) {
      const slots = pool.all()
      pool = poolOf(slots.subarray(0, narrow(slots, slots.length, rest)), scores)
      rest = undefined
    }
    const chosen = ranked && bestThat(pool, scores, byWords, newestFirst, rest)
    const ranking = ranked && chosen && contenders.rank(
      index,
      view,
      {
        pool,
        chosen,
        rest,
        passes: sieve.has,
        depth,
        isAll: minScore > 0, // whether they reach it is seen by their ranks
        newestFirst,
        terms
      },
      ranked
    )
    // each of a few is looked at
    const ceiling = pool.count > examined ? bound : undefined
    const scored = score &&
      ((slot: number, relevance: number) =>
        ceiling?.exactly(slot, relevance) ??
          score(this.factOf(slot), relevance, () => index.frequenciesIn(slot)))
    const { best, count, first, isExact } = choose({
      pool: ranking === undefined ? pool : poolOf(ranking.slots, ranking.ranks),
      ranks: ranking?.ranks ?? scores,
      best: ranking?.best,
      rest: ranking === undefined || minScore > 0 ? rest : undefined,
      scored,
      ceiling,
      newestFirst,
      examined
    }, question)
    const candidate = (slot: number): Candidate => {
      const rank = ranking === undefined ? scores[slot]! : contenders.rankOf(slot, index)
      const clues = ranked?.isExplained === true ? { ...contenders.cluesOf(slot) } : undefined
      const relevance = relevanceOf(rank, best)
      return { fact: this.factOf(slot), lexical: rank, clues, score: scored?.(slot, relevance) ?? relevance }
    }
    const wanted = also.length === 0 ? [] : this.#slotsOf(also, first, view, sieve.has)
    return {
      documents: view.count,
      totalLength: view.length,
      documentFrequencies: index.documentFrequencies.slice(),
      best,
      bestWords: ranking?.bestWords ?? best,
      isNamed: ranking?.isNamed,
      candidates: [...first, ...wanted].map(candidate),
      // matches that are no contenders are found as well, further down
      count: ranking === undefined || minScore > 0 ? count : ranking.count,
      exact: isExact && (ranking === undefined || minScore > 0 || ranking.isExact)
    }
  }

  /** The slots of ids that are in sight and pass, but for those known already. */
  #slotsOf(
    ids: ReadonlyArray<MemoryId>,
    known: ReadonlyArray<number>,
    view: View,
    pass: (slot: number) => boolean
  ): ReadonlyArray<number> {
    const sees = this.index.sees(view)
    const seen = new Set(known)
    const found: Array<number> = []
    for (const id of ids) {
      const slot = this.slots.get(id)
      if (slot === undefined || seen.has(slot) || !sees(slot) || !pass(slot)) continue
      seen.add(slot)
      found.push(slot)
    }
    return found
  }

  /**
   * Tells which records are in sight and pass: any by id, and all of them as a list where they are few of what there is, or where a
   * list is asked for. Good until the next change.
   */
  seen(sight: Viewer.Sight, asked: Asked, isListed = false): Seen {
    const { index, slots } = this
    const view = index.view(sight)
    const { has: pass } = this.passing(asked)
    const isSeen = index.sees(view)
    return {
      has: (id) => {
        const slot = slots.get(id)
        return slot !== undefined && isSeen(slot) && pass(slot)
      },
      few: isListed || view.count * 8 < index.live
        ? Array.from(index.seen(view)).filter(pass).map((slot) => this.recordOf(slot).id)
        : undefined
    }
  }

  /** Returns up to `limit` records that pass after a position, newest first, then by id. */
  page(sight: Viewer.Sight, asked: Asked, after: Position | undefined, limit: number): ReadonlyArray<R> {
    if (asked.filter.forgotten === true) return [] // an index has no tombstones
    const { has: pass, isShut } = this.passing(asked)
    if (isShut()) return []
    const view = this.index.view(sight)
    const seen = this.#byAge(view)
    const sees = this.index.sees(view)
    const items: Array<R> = []
    const from = after === undefined ? seen.length : this.#timeline.after(seen, after)
    for (let i = from; i-- > 0 && items.length < limit;) {
      const slot = seen[i]!
      if (sees(slot) && pass(slot)) items.push(this.recordOf(slot))
    }
    return items
  }
}
