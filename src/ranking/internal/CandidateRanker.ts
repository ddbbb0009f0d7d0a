/**
 * Gathers the candidates of a query (the records that may answer it), and ranks them by their `Signals`. A rank is a score.
 *
 * ```text
 * by words     the 40 matches with the highest BM25, and the neighbours (see `SessionIndex`) of the first 10 of them
 * by speaker   up to 32 messages of the speakers that the query names, from the 5 best sessions (see `SessionIndex.best`)
 * by length    up to 16 long matches, those with the largest share of the query's terms
 * ```
 *
 * A message is a record that has a session. Matches that none of these rules selects are no candidates. They are ordered by BM25, and none
 * of them has a higher rank than a candidate whose rank is positive. The number of wanted hits changes neither the candidates nor the order
 * of the first hits.
 */
import type { MemoryRecord } from "../../domain/MemoryRecord.ts"
import { foldName, type Tokenizer } from "../Tokenizer.ts"
import { int32 } from "./DocIds.ts"
import type { InvertedIndex, View } from "./InvertedIndex.ts"
import { actorOf, isLong, type Outline, sizeOf } from "./Outline.ts"
import { Passages } from "./Passages.ts"
import { isMisspelt, type QuestionRanker, type Signals } from "./Ranker.ts"
import { bestPassing, type DocSet, docSetOf, type PassingDocs } from "./Selection.ts"
import { SessionIndex, sumOf } from "./SessionIndex.ts"
import type { TermMasks } from "./TermMasks.ts"

/** Number of best matches by words that become candidates. */
export const byWords = 40
/** Number of best matches by words whose neighbouring messages also become candidates. */
const withNeighbours = 10
/** Largest number of messages that are candidates because of their speaker. */
const maxSpoken = 32
/** Limits of the ranking by passages: the number of long records, and their total length. The first record may have any length. */
const maxLong = 16
const maxLongLength = 262_144

/** The ranked candidates of a query. Other matches follow if the candidates are too few. */
export interface Ranking {
  readonly docs: Int32Array
  /** Rank by doc id, valid only for the doc ids in `docs`. A rank is a score: higher is better. */
  readonly ranks: Float64Array
  readonly best: number
  /** The best BM25 among the matches and the passages of long candidates. */
  readonly bestWords: number
  /** Whether the query names the speaker of a visible record. */
  readonly isNamed: boolean
  /** Number of matches and other candidates that pass the filter; a lower bound if `isExact` is false. */
  readonly count: number
  readonly isExact: boolean
}

type Passes = (doc: number) => boolean

/** Gathers and ranks the candidates of queries, one query at a time. */
export class CandidateRanker {
  readonly #sessions: SessionIndex
  readonly #speakers = new Speakers()
  #ranks = new Float64Array() // rank by doc id: a score, higher is better
  readonly #candidateRound = int32() // last `#round` in which the record was a candidate, by doc id
  /** Number of queries so far whose candidates were gathered. */
  #round = 0
  // state of the current query
  #isSpeaker: Passes | undefined
  #rank: (doc: number) => number = () => 0
  /** Returns the rank of a match that is not a candidate. The rank is a scaled BM25, at most the lowest positive rank of a candidate. */
  #rankOfOther: (bm25: number) => number = () => 0
  readonly #recordOf: (doc: number) => Outline
  readonly #textOf: (doc: number) => MemoryRecord | undefined
  readonly #passages: Passages
  /** Doc ids of long records. */
  readonly #long = new Set<number>()
  /** Score of the best passage of each record that `#addLong` ranked for the current query, by doc id. */
  readonly #words = new Map<number, number>()

  /** `recordOf` returns the record of a doc id, if not removed. `textOf` returns it with its texts; `undefined` if these are not in RAM. */
  constructor(
    recordOf: (doc: number) => Outline,
    textOf: (doc: number) => MemoryRecord | undefined,
    tokenizer: Tokenizer
  ) {
    this.#sessions = new SessionIndex(recordOf)
    this.#recordOf = recordOf
    this.#textOf = textOf
    this.#passages = Passages.of(tokenizer)
  }

  /** Adds a record that is a message, has a speaker or is long. `scope` is the number of the record's scope. */
  add(doc: number, scope: number, record: Outline): void {
    this.#sessions.add(doc, scope, record)
    this.#speakers.add(doc, scope, record)
    if (isLong(record)) this.#long.add(doc)
  }

  remove(doc: number, scope: number): void {
    this.#sessions.remove(doc)
    this.#speakers.remove(doc, scope)
    const text = this.#long.delete(doc) ? this.#textOf(doc) : undefined
    if (text !== undefined) this.#passages.forget(text)
  }

  /** Returns the bit masks to pass to `index.match`, one per doc id. A mask has a bit for each of the first 31 query terms. */
  masksFor(index: InvertedIndex): TermMasks {
    const { masks } = this.#sessions
    masks.grow(index.scores.data.length)
    return masks
  }

  /**
   * Ranks the candidates of the query that the index matched last. The result is valid until the next call. `docSet`: the matches.
   * `chosen`: the 40 best matches that pass the filter. `passes`: tests a doc id by the whole filter. `rest`: tests the conditions not
   * tested yet; `undefined` if none. `depth`: number of wanted hits. `isAll`: whether to add all other matches, not tested by `rest`.
   */
  rank(
    index: InvertedIndex,
    view: View,
    { chosen, depth, isAll, newestFirst, passes, docSet, rest, terms }: {
      readonly docSet: DocSet
      readonly chosen: PassingDocs
      readonly rest: Passes | undefined
      readonly passes: Passes
      readonly depth: number
      readonly isAll: boolean
      readonly newestFirst: (a: number, b: number) => number
      readonly terms: ReadonlyArray<string>
    },
    ranker: QuestionRanker
  ): Ranking {
    const scores = index.scores.data
    if (this.#ranks.length < scores.length) this.#ranks = new Float64Array(scores.length)
    if (this.#candidateRound.data.length < scores.length) this.#candidateRound.set(scores.length, 0)
    this.#speakers.grow(scores.length)
    const ranks = this.#ranks
    this.#sessions.begin(index, view, ranker)
    const named = ranker.named(this.#speakers.namesIn(view, index, ranker.words))
    this.#isSpeaker = this.#speakers.speakerTest(index, named, ranker.own)
    const bestMatch = chosen.best.length > 0 ? scores[chosen.best[0]!]! : 0
    const docs = this.#gather(index, view, chosen.best, passes)
    const all = named.length === 0 ? docs : this.#addSpoken(docs, index, view, passes, ranker)
    this.#words.clear()
    const bestWords = this.#long.size === 0
      ? bestMatch
      : Math.max(bestMatch, this.#addLong(all, index, { docSet, rest, terms, newestFirst }))
    this.#rank = (doc) => ranker.rank(this.signalsOf(doc), bestWords)
    let [best, minRank, ranked, wordless] = [0, Infinity, 0, 0]
    for (let i = 0; i < all.length; i++) {
      const doc = all[i]!
      const rank = ranks[doc] = this.#rank(doc)
      if (rank > best) best = rank
      if (rank > 0 && rank < minRank) minRank = rank
      if (rank > 0) ranked++
      if (scores[doc] === 0) wordless++
    }
    this.#rankOfOther = (bm25) => bestMatch > 0 && ranked > 0 ? bm25 / bestMatch * minRank : 0
    let count = chosen.isWhole ? chosen.count + wordless : all.length
    // selects one match more than `depth` if the count is unknown, to find out whether there are more than `depth`
    const wanted = isAll ? Infinity : chosen.isWhole ? Math.min(count, depth) : depth + 1
    if (wanted > ranked) { // matches that are not candidates rank above candidates whose rank is 0
      const others = docSet.all().filter((doc) => this.#candidateRound.data[doc] !== this.#round)
      const few = isAll
        ? others
        : bestPassing(docSetOf(others, scores), scores, wanted - ranked, newestFirst, rest).best
      for (const doc of few) {
        ranks[doc] = this.#rankOfOther(scores[doc]!)
        all.push(doc)
      }
      if (!chosen.isWhole) count = all.length
      if (count > depth && count === wanted) all.pop()
    }
    return {
      docs: new Int32Array(all),
      ranks,
      best,
      bestWords,
      isNamed: named.length > 0,
      count,
      isExact: chosen.isWhole || count <= depth
    }
  }

  /** Returns the rank (a score) of a doc id. A match that is not a candidate never ranks above a candidate of positive rank. */
  rankOf(doc: number, index: InvertedIndex): number {
    if (this.#candidateRound.data[doc] === this.#round) return this.#ranks[doc]!
    return this.#rankOfOther(index.scores.data[doc]!)
  }

  /** Returns the signals of a doc id, in an object that the next call overwrites. */
  signalsOf(doc: number): Signals {
    const signals = this.#sessions.signalsOf(doc)
    signals.isSpeaker = this.#isSpeaker !== undefined && this.#isSpeaker(doc) &&
      (signals.isTurn || this.#speakers.has(doc))
    signals.isFirstPerson = signals.isSpeaker && this.#sessions.isFirstPerson(doc)
    if (this.#words.size > 0) signals.words = Math.max(signals.words, this.#words.get(doc) ?? 0)
    return signals
  }

  /** Adds long matches to `all`: those with the largest share of the query's terms. Returns the best score of a passage. */
  #addLong(
    all: Array<number>,
    index: InvertedIndex,
    { newestFirst, docSet, rest, terms }: {
      readonly docSet: DocSet
      readonly rest: Passes | undefined
      readonly terms: ReadonlyArray<string>
      readonly newestFirst: (a: number, b: number) => number
    }
  ): number {
    const longMatches = docSet.all().filter((doc) => this.#long.has(doc))
    const weights = index.weights.slice(0, 31)
    for (const doc of longMatches) this.#ranks[doc] = sumOf(this.#sessions.masks.maskOf(doc), weights)
    const known = terms.flatMap((term, n) => index.weights[n]! > 0 ? [[term, index.weights[n]!] as const] : [])
    let best = 0
    let left = maxLongLength
    for (const doc of bestPassing(docSetOf(longMatches, this.#ranks), this.#ranks, maxLong, newestFirst, rest).best) {
      left -= sizeOf(this.#recordOf(doc))
      if (left < 0 && this.#words.size > 0) break
      const text = this.#textOf(doc)
      const words = text === undefined ? 0 : this.#passages.score(text, known, index.slope)
      this.#words.set(doc, words)
      best = Math.max(best, words)
      if (this.#candidateRound.data[doc] === this.#round) continue
      this.#candidateRound.data[doc] = this.#round
      all.push(doc)
    }
    return best
  }

  #gather(
    index: InvertedIndex,
    view: View,
    chosen: ReadonlyArray<number>,
    passes: Passes
  ): Array<number> {
    this.#round++
    const all: Array<number> = []
    const rounds = this.#candidateRound.data
    for (let i = 0; i < chosen.length; i++) {
      rounds[chosen[i]!] = this.#round
      all.push(chosen[i]!)
    }
    const addPassing = (doc: number) => this.#addPassing(doc, all, index, view, passes)
    for (const doc of chosen.slice(0, withNeighbours)) this.#sessions.visitNeighbours(doc, addPassing)
    return all
  }

  /** Adds messages of the speakers that the query names. A message without a speaker is never added. */
  #addSpoken(
    all: Array<number>,
    index: InvertedIndex,
    view: View,
    passes: Passes,
    { times }: QuestionRanker
  ): Array<number> {
    let left = maxSpoken
    for (const session of this.#sessions.best(view, times)) {
      const turns = this.#sessions.turnsOf(session)
      for (let i = turns.length; i-- > 0 && left > 0;) {
        const doc = turns[i]!
        if (!this.#speakers.has(doc) || this.#isSpeaker?.(doc) !== true) continue
        left--
        this.#addPassing(doc, all, index, view, passes)
      }
    }
    return all
  }

  #addPassing(doc: number, all: Array<number>, index: InvertedIndex, view: View, passes: Passes): void {
    const rounds = this.#candidateRound.data
    if (rounds[doc] === this.#round || !(index.until.data[doc]! > view.at) || !passes(doc)) return
    rounds[doc] = this.#round
    all.push(doc)
  }
}

interface Speaker {
  /** Name of the speaker, as `foldName` returns it. `given` is the first word of the name. */
  readonly name: string
  readonly given: string
  /** Number of records that the speaker has in each scope, by scope number. */
  readonly scopes: Map<number, number>
}

/** Largest number of speakers that are compared one by one with a query. If there are more, they are looked up by key (see `keysOf`). */
const maxCompared = 32

class Speakers {
  readonly #speakers: Array<Speaker> = []
  readonly #speakerNumbers = new Map<string, number>()
  /** Speaker numbers by key. `keysOf` makes the keys of a speaker from the first word of the name. */
  readonly #byNameKey = new Map<string, Set<number>>()
  /** Speaker number plus 1, by doc id; 0 for a record without a speaker. */
  readonly #speakerByDoc = int32()

  add(doc: number, scope: number, record: Outline): void {
    this.#speakerByDoc.set(doc, this.#speakerOf(record, scope))
  }

  /** Makes room for `docs` doc ids. Doc ids that were not added have no speaker. */
  grow(docs: number): void {
    if (this.#speakerByDoc.data.length < docs) this.#speakerByDoc.set(docs, 0)
  }

  remove(doc: number, scope: number): void {
    const speaker = this.#speakers[this.#speakerByDoc.data[doc]! - 1]
    if (speaker) speaker.scopes.set(scope, (speaker.scopes.get(scope) ?? 1) - 1)
    this.#speakerByDoc.data[doc] = 0
  }

  has(doc: number): boolean {
    return this.#speakerByDoc.data[doc] !== 0
  }

  #speakerOf(record: Outline, scope: number): number {
    const actor = actorOf(record)
    if (actor === undefined) return 0
    let number = this.#speakerNumbers.get(actor)
    if (number === undefined) {
      const name = foldName(actor)
      const [given] = name.split(" ")
      if (!given) return 0
      number = this.#speakers.push({ name, given, scopes: new Map() }) - 1
      this.#speakerNumbers.set(actor, number)
      for (const key of keysOf(given)) {
        const others = this.#byNameKey.get(key)
        if (others) others.add(number)
        else this.#byNameKey.set(key, new Set([number]))
      }
    }
    const { scopes } = this.#speakers[number]!
    scopes.set(scope, (scopes.get(scope) ?? 0) + 1)
    return number + 1
  }

  /** Returns names of speakers of visible records. The first word of a name must equal one of `words`, or be misspelt (`isMisspelt`). */
  namesIn(view: View, index: InvertedIndex, words: ReadonlyArray<string>): ReadonlyArray<string> {
    if (this.#speakers.length === 0) return []
    const found = new Set<number>()
    if (this.#speakers.length <= maxCompared) {
      this.#speakers.forEach(({ given }, number) => {
        if (words.some((word) => word === given || isMisspelt(given, word))) found.add(number)
      })
    } else {
      for (const word of words) this.#addSimilar(word, found)
    }
    if (found.size === 0) return []
    const isVisible = this.#visibleSpeakers(found, view, index)
    return Array.from(new Set(Array.from(found).filter(isVisible).map((number) => this.#speakers[number]!.name))).sort()
  }

  #addSimilar(word: string, found: Set<number>): void {
    for (const key of keysOf(word)) {
      for (const number of this.#byNameKey.get(key) ?? []) {
        const { given } = this.#speakers[number]!
        if (given === word || isMisspelt(given, word)) found.add(number)
      }
    }
  }

  #visibleSpeakers(found: ReadonlySet<number>, view: View, index: InvertedIndex): (number: number) => boolean {
    const scopes = view.scopes && new Set(view.scopes)
    const has = (number: number) =>
      Array.from(this.#speakers[number]!.scopes).some(([scope, count]) =>
        count > 0 && (scopes === undefined || scopes.has(scope))
      )
    if (view.whole) return has
    const live = new Set<number>()
    for (const doc of index.visibleDocs(view)) {
      if (found.has(this.#speakerByDoc.data[doc]! - 1)) live.add(this.#speakerByDoc.data[doc]! - 1)
    }
    return (number) => live.has(number)
  }

  /** Returns a test for records of the speakers in `actors`. A record without a speaker passes if its scope has an id that is in `own`. */
  speakerTest(
    index: InvertedIndex,
    actors: ReadonlyArray<string>,
    own: QuestionRanker["own"]
  ): ((doc: number) => boolean) | undefined {
    if (actors.length === 0 && own === undefined) return undefined
    const isMeant = new Uint8Array(this.#speakers.length + 1)
    for (const name of actors) this.#speakers.forEach((speaker, n) => speaker.name === name && (isMeant[n + 1] = 1))
    const speakers = this.#speakerByDoc.data
    if (own === undefined) return (doc) => isMeant[speakers[doc]!] === 1
    const [userId, actorId] = [own.userId?.normalize("NFC"), own.actorId?.normalize("NFC")]
    const owned = new Map<number, boolean>()
    const isOwned = (scope: number): boolean => {
      const known = owned.get(scope)
      if (known !== undefined) return known
      const ids = index.scope(scope)
      const is = ids !== "global" &&
        ((userId !== undefined && ids.userId === userId) || (actorId !== undefined && ids.actorId === actorId))
      owned.set(scope, is)
      return is
    }
    return (doc) => speakers[doc] === 0 ? isOwned(index.scopeOf(doc)) : isMeant[speakers[doc]!] === 1
  }
}

/** Returns a word's keys: the word and, for 4..40 letters, each variant without one letter. Words that differ in one letter share a key. */
const keysOf = (given: string): ReadonlyArray<string> =>
  given.length < 4 || given.length > 40
    ? [given]
    : [given, ...given.split("").map((_, n) => given.slice(0, n) + given.slice(n + 1))] // UTF-16 units, as `isMisspelt` compares
