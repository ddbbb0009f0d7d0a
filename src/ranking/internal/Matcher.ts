/**
 * Finds and ranks the records of an index. A `Matcher` combines the inverted index, the filter columns, the order by recency and the
 * ranking of candidates. All these parts identify a record by its doc id. A `Matcher` works on the `Outline` of a record. Only
 * passages of long records and a filter's `where` may need the whole record, from RAM (`MemoryIndex`) or a database (`OutlineIndex`).
 */
import type { MemoryId } from "../../domain/MemoryId.ts"
import type { MemoryRecord } from "../../domain/MemoryRecord.ts"
import type * as Viewer from "../../domain/Viewer.ts"
import { relevanceOf } from "../Bm25.ts"
import type { Candidate, CompiledFilter, Fact, Matches, Position, Question } from "../Retrieval.ts"
import type { Tokenizer } from "../Tokenizer.ts"
import { byWords, CandidateRanker } from "./CandidateRanker.ts"
import { narrow } from "./DocIds.ts"
import type { Steps } from "./IndexCodec.ts"
import { InvertedIndex, type View } from "./InvertedIndex.ts"
import { actorOf, type ColumnFilter, Columns, isLong, type Outline } from "./Outline.ts"
import type { QuestionRanker } from "./Ranker.ts"
import { RecencyIndex } from "./RecencyIndex.ts"
import type { ScoreBound } from "./ScoreBound.ts"
import { bestPassing, choose, type DocSet, docSetOf, firstStageSize, MatchCollector, sampleOf } from "./Selection.ts"

/** Options of a `Matcher`. */
export interface Options<R extends Outline> {
  /** Tokenizer for the passages of long records. */
  readonly tokenizer: Tokenizer
  readonly factOf: (record: R, length: number) => Fact
  /** Whether a record passes a filter. Need not test whether the record is valid at `asOf` or `at`: columns test the validity. */
  readonly passes: (compiled: CompiledFilter, record: R) => boolean
  /** Whether the records contain all of their metadata. `MetadataGroups` then groups the records by metadata. Default false. */
  readonly hasMetadata?: boolean | undefined
  /** Returns a long record with its texts, which ranking by passages needs; `undefined` if the texts are not in RAM. */
  readonly textOf: (record: R) => MemoryRecord | undefined
  /** Up to this number of matches, all are filtered and counted. With more matches, the count may be too low. Default 2,048. */
  readonly examined?: number | undefined
}

/** The records that are visible and pass a filter. */
export interface VisibleRecords {
  readonly has: (id: MemoryId) => boolean
  /**
   * The ids of the visible records that pass the filter. `undefined` if no list was requested and many records are visible: an eighth of
   * all records or more.
   */
  readonly few: ReadonlyArray<MemoryId> | undefined
}

/** Finds and ranks the records of one index. */
export class Matcher<R extends Outline> {
  readonly docs = new Map<MemoryId, number>()
  index = new InvertedIndex()
  #records: Array<R | undefined> = []
  #byRecency = new RecencyIndex()
  #candidates: CandidateRanker
  /**
   * Number of special records in each scope, by scope number. A special record has a session or a speaker, or is long. `#anySpecial` is the
   * sum over all scopes.
   */
  #special: Array<number> = []
  #anySpecial = 0
  #columns: Columns
  readonly #options: Options<R>
  /** Up to this number of matches, all are filtered and counted. With more matches, those that cannot be among the best may be skipped. */
  readonly #examined: number

  constructor(options: Options<R>) {
    this.#options = options
    this.#examined = options.examined ?? 2_048
    this.#columns = new Columns(options.hasMetadata === true)
    this.#candidates = this.#noCandidates()
  }

  /** Returns the record of a doc id. The record must still be in the index. */
  readonly recordOf = (doc: number): R => this.#records[doc]!

  /** The records that are not removed, in the order of their doc ids. */
  get records(): ReadonlyArray<R> {
    return this.#records.filter((record) => record !== undefined)
  }

  get(id: MemoryId): R | undefined {
    const doc = this.docs.get(id)
    return doc === undefined ? undefined : this.#records[doc]
  }

  /** Adds a record. The caller must first add the record to the inverted index, which returns `doc`. */
  add(doc: number, record: R): void {
    this.docs.set(record.id, doc)
    this.#records[doc] = record
    this.#byRecency.add(doc, record)
    this.#countSpecial(doc, 1)
    this.#columns.add(doc, record)
  }

  /** Sorts records that were added out of order, in steps. A later `page` may have to sort those left over, all at once. */
  sorting(): Steps<void> {
    return this.#byRecency.sorting()
  }

  /** Removes a record. Returns whether the record was there. */
  remove(id: MemoryId): boolean {
    const doc = this.docs.get(id)
    if (doc === undefined) return false
    this.docs.delete(id)
    this.#countSpecial(doc, -1)
    this.#columns.remove(doc)
    this.#records[doc] = undefined
    this.index.remove(doc)
    if (this.index.removed > 1_024 + this.index.live / 2) this.#compact()
    return true
  }

  /** Rebuilds the index and all other parts, without the doc ids of removed records. */
  #compact(): void {
    const { index, oldDocs } = this.index.compacted()
    const [before, docs] = [this.#records, Int32Array.from(this.docs.values())]
    this.index = index
    this.#records = []
    this.#byRecency = new RecencyIndex()
    this.#columns = new Columns(this.#options.hasMetadata === true)
    this.#candidates = this.#noCandidates()
    this.#special = []
    this.#anySpecial = 0
    const made = new Int32Array(before.length)
    oldDocs.forEach((old, doc) => made[old] = doc)
    for (const old of docs) this.add(made[old]!, before[old]!) // `docs` is usually oldest first, so little is left to sort
  }

  #noCandidates(): CandidateRanker {
    const { textOf, tokenizer } = this.#options
    return new CandidateRanker(this.recordOf, (doc) => textOf(this.recordOf(doc)), tokenizer)
  }

  #countSpecial(doc: number, by: 1 | -1): void {
    const record = this.recordOf(doc)
    if (record.source.session === undefined && actorOf(record) === undefined && !isLong(record)) return
    const scope = this.index.scopeOf(doc)
    this.#special[scope] = (this.#special[scope] ?? 0) + by
    this.#anySpecial += by
    if (by > 0) this.#candidates.add(doc, scope, record)
    else this.#candidates.remove(doc, scope)
  }

  /** Whether a visible scope has a long record, or a record with a session or a speaker. */
  #hasSpecial({ scopes }: View): boolean {
    return this.#anySpecial > 0 && (scopes === undefined || scopes.some((scope) => (this.#special[scope] ?? 0) > 0))
  }

  /** Makes a filter on doc ids. Some conditions are tested on columns of numbers. All others are tested on the record itself. */
  columnFilter(compiled: CompiledFilter): ColumnFilter {
    const { passes } = this.#options
    return this.#columns.filter(compiled, this.index, (doc) => passes(compiled, this.#records[doc]!))
  }

  /** Orders records of the index: newest first, then by id. */
  readonly newestFirst = (a: MemoryId, b: MemoryId): number =>
    this.#byRecency.newestFirst(this.docs.get(a)!, this.docs.get(b)!)

  factOf(doc: number): Fact {
    return this.#options.factOf(this.recordOf(doc), this.index.lengthOf(doc))
  }

  /**
   * Returns the doc ids of the visible records, oldest first. If more than an eighth of the records are visible, returns all doc ids
   * instead, even those of removed records.
   */
  #byAge(view: View): ReadonlyArray<number> {
    const { index } = this
    if (view.count * 8 > index.live) return this.#byRecency.all()
    index.matchAll(view)
    const seen = Array.from(index.matches.data.subarray(0, index.matched))
    index.clear()
    return seen.sort((a, b) => this.#byRecency.newestFirst(b, a))
  }

  /** Returns synchronously what `Retrieval.match` returns. */
  match(access: Viewer.AccessFilter, compiled: CompiledFilter, question: Question): Matches {
    const { index } = this
    const view = index.view(access)
    // words alone decide the ranking if the query neither names nor asks for a time, and no visible record is special (see `#special`)
    const ranker = question.ranker && (question.ranker.isTimely || this.#hasSpecial(view))
      ? question.ranker.read()
      : undefined
    try {
      const filter = this.columnFilter(compiled)
      const { depth, score, shares, terms } = question
      const masks = ranker && this.#candidates.masksFor(index)
      const best = ranker !== undefined ? byWords : score === undefined ? Math.max(1, depth) : sampleOf(depth)
      const limit = filter.rest === undefined ? best : firstStageSize(best)
      const scoreBound = ranker === undefined && shares !== undefined && index.live > this.#examined
        ? this.#columns.scoreBound(shares)
        : undefined
      let docSet: DocSet
      if (terms === undefined) {
        index.matchAll(view)
        const { matched, matches: { data: matches }, scores: { data: scores } } = index
        docSet = docSetOf(matches.subarray(0, filter.narrow(matches, 0, matched)), scores)
      } else {
        const collector = new MatchCollector(
          index,
          view,
          filter,
          limit,
          score === undefined ? 0 : scoreBound?.slack(index.docs) ?? 1,
          masks
        )
        index.match(view, terms, masks, {
          afterScope: collector.collect,
          groupFilter: () => filter.byGroup(index.docs)
        })
        docSet = collector.docSet()
      }
      return this.#matchesOf(view, filter, question, { ranker, scoreBound }, docSet)
    } finally {
      index.clear()
    }
  }

  /** Ranks, scores and selects the matches of the index. */
  #matchesOf(
    view: View,
    filter: ColumnFilter,
    question: Question,
    { scoreBound: bound, ranker }: {
      readonly ranker: QuestionRanker | undefined
      readonly scoreBound: ScoreBound | undefined
    },
    matches: DocSet
  ): Matches {
    const index = this.index
    const candidates = this.#candidates
    const { newestFirst } = this.#byRecency
    const { includeIds: also, depth, minScore, score, terms = [] } = question
    const scores = index.scores.data
    const examined = this.#examined
    let { rest } = filter
    let docSet = matches
    if (rest !== undefined && docSet.count <= examined) {
      const docs = docSet.all()
      docSet = docSetOf(docs.subarray(0, narrow(docs, docs.length, rest)), scores)
      rest = undefined
    }
    const isAll = minScore > 0 || score !== undefined // the final scores depend on the ranks, so every match needs a rank
    const chosen = ranker && bestPassing(docSet, scores, byWords, newestFirst, rest)
    const ranking = ranker && chosen && candidates.rank(
      index,
      view,
      {
        docSet,
        chosen,
        rest,
        passes: filter.has,
        depth,
        isAll,
        newestFirst,
        terms
      },
      ranker
    )
    // upper bounds are used only if there are more than `examined` matches
    const scoreBound = docSet.count > examined ? bound : undefined
    const scored = score &&
      ((doc: number, relevance: number) =>
        scoreBound?.exactScore(doc, relevance) ??
          score(this.factOf(doc), relevance, () => index.frequenciesIn(doc)))
    const { best, count, first, isExact, scores: finals } = choose({
      docSet: ranking === undefined ? docSet : docSetOf(ranking.docs, ranking.ranks),
      ranks: ranking?.ranks ?? scores,
      best: ranking?.best,
      rest: ranking === undefined || isAll ? rest : undefined,
      scored,
      scoreBound,
      newestFirst,
      examined
    }, question)
    const candidate = (doc: number, n: number): Candidate => {
      const rank = ranking === undefined ? scores[doc]! : candidates.rankOf(doc, index)
      const signals = ranker?.isExplained === true ? { ...candidates.signalsOf(doc) } : undefined
      const relevance = relevanceOf(rank, best)
      return {
        fact: this.factOf(doc),
        lexical: rank,
        signals,
        score: finals?.[n] ?? scored?.(doc, relevance) ?? relevance
      }
    }
    const requested = also.length === 0 ? [] : this.#docsOf(also, first, view, filter.has)
    return {
      documents: view.count,
      totalLength: view.length,
      documentFrequencies: index.documentFrequencies.slice(),
      best,
      bestWords: ranking?.bestWords ?? best,
      isNamed: ranking?.isNamed,
      candidates: [...first, ...requested].map(candidate),
      // `count`, which `choose` returned, may leave out matches that are not candidates; `ranking.count` includes them
      count: ranking === undefined || isAll ? count : ranking.count,
      exact: isExact && (ranking === undefined || isAll || ranking.isExact)
    }
  }

  /** Finds the visible records among `ids` that pass the filter. Returns their doc ids, without those in `known`. */
  #docsOf(
    ids: ReadonlyArray<MemoryId>,
    known: ReadonlyArray<number>,
    view: View,
    pass: (doc: number) => boolean
  ): ReadonlyArray<number> {
    const isVisible = this.index.visibilityIn(view)
    const included = new Set(known)
    const found: Array<number> = []
    for (const id of ids) {
      const doc = this.docs.get(id)
      if (doc === undefined || included.has(doc) || !isVisible(doc) || !pass(doc)) continue
      included.add(doc)
      found.push(doc)
    }
    return found
  }

  /**
   * Returns a test for the records that are visible and pass the filter. The ids of these records are also returned if fewer than an eighth
   * of all records are visible, or if `isListed`. The result is valid until the index changes.
   */
  visibleRecords(access: Viewer.AccessFilter, compiled: CompiledFilter, isListed = false): VisibleRecords {
    const { index, docs } = this
    const view = index.view(access)
    const { has: pass } = this.columnFilter(compiled)
    const isVisible = index.visibilityIn(view)
    return {
      has: (id) => {
        const doc = docs.get(id)
        return doc !== undefined && isVisible(doc) && pass(doc)
      },
      few: isListed || view.count * 8 < index.live
        ? Array.from(index.visibleDocs(view)).filter(pass).map((doc) => this.recordOf(doc).id)
        : undefined
    }
  }

  /** Returns the next page of visible records that pass the filter, after the position `after`. Order: newest first, then by id. */
  page(
    access: Viewer.AccessFilter,
    compiled: CompiledFilter,
    after: Position | undefined,
    limit: number
  ): ReadonlyArray<R> {
    if (compiled.filter.forgotten === true) return [] // an index does not contain forgotten records
    const { has: pass, isShut } = this.columnFilter(compiled)
    if (isShut()) return []
    const view = this.index.view(access)
    const byAge = this.#byAge(view)
    const isVisible = this.index.visibilityIn(view)
    const items: Array<R> = []
    const from = after === undefined ? byAge.length : this.#byRecency.after(byAge, after)
    for (let i = from; i-- > 0 && items.length < limit;) {
      const doc = byAge[i]!
      if (isVisible(doc) && pass(doc)) items.push(this.recordOf(doc))
    }
    return items
  }
}
