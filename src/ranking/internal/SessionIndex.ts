/**
 * Groups the messages of an index by session, and computes the signals by which the ranker scores a message. A message (in the code: turn)
 * is a record of a session. Some signals come from neighbouring messages, because the answer to a query is often next to a message with the
 * words of the query.
 *
 * ```text
 * session(s)   Σ rarity(t) over the terms t of the query that s contains  ÷  Σ rarity(t) over those that any session contains
 *              rarity(t) = ln(1 + (S − Sₜ + ½) / (Sₜ + ½))       S: number of visible sessions, Sₜ: number of those that contain t
 * coverage(r)  Σ idf(t) over the terms t that r or a message within two of r contains  ÷  Σ idf(t) over those that any record contains
 * ```
 *
 * A session is identified by its scope and `source.session`. Messages are neighbours if their `source.sequence` differs by one or two. All
 * visible messages count, even those that the query's filter rejects. Only the first 31 terms of a query count for `session` and
 * `coverage`.
 */
import type { MemoryId } from "../../domain/MemoryId.ts"
import { idf } from "../Bm25.ts"
import { float64, int32 } from "./DocIds.ts"
import type { InvertedIndex, View } from "./InvertedIndex.ts"
import type { Outline } from "./Outline.ts"
import { type Form, isFirstPerson, isQuestion, type Ranker, type Signals } from "./Ranker.ts"
import { TermMasks } from "./TermMasks.ts"
import { closeness, namesTime, type Times } from "./TimeExpression.ts"

/** Largest number of sessions that `SessionIndex.best` returns. */
const maxSessions = 5
/** Lowest worth of a session that `SessionIndex.best` returns; the comment of that method defines the worth. */
const minWorth = 0.05
/** The sequences of neighbours differ by at most `maxDistance`. At most `maxSteps` messages are visited on each side. */
const maxDistance = 2
const maxSteps = 4

interface Session {
  readonly scope: number
  /**
   * Doc ids of the messages. If `isSorted` is true, they are in the order of their sequences; messages without a sequence come last. If
   * `isSorted` is false, they are in any order, and some may belong to removed messages.
   */
  turns: Array<number>
  isSorted: boolean
  /** Cached `validAt` of the first and of the last message. */
  ends?: readonly [first: number, last: number] | undefined
  /** Number of messages that are not removed. */
  live: number
}

/** The signals of a record of which nothing is known. */
export const noSignals: Readonly<Signals> = {
  ...{ words: 0, isTurn: false, neighbours: 0, session: 0, reply: 0, coverage: 0, isSpeaker: false },
  ...{ isQuestion: false, isFirstPerson: false, namesTime: false, validAt: 0, length: 0 }
}

/** The sessions of an index, and the messages of each. */
export class SessionIndex {
  readonly #sessions: Array<Session> = []
  readonly #numbers = new Map<string, number>()
  /** `#byScope[n]`: numbers of the sessions in scope n. `#live[n]`: how many of these sessions still have messages. */
  readonly #byScope: Array<Array<number>> = []
  readonly #live: Array<number> = []
  /** Bit masks of the query's terms that a message or session contains. Session n has the group number n + 1. */
  readonly masks = new TermMasks()
  // columns by doc id
  readonly #sequence = float64()
  readonly #turnIndex = int32()
  /** Cached properties of each text, such as `isQuestion`. A property has two bits: whether the value is known, and the value. */
  readonly #form = int32()
  readonly #recordOf: (doc: number) => Outline
  // state of the current query, set by `begin`
  #index: InvertedIndex | undefined
  #at = 0
  #isTimed = false
  #isWhen = false
  #weights: ReadonlyArray<number> = []
  #totalWeight = 0
  /** The rarity of each term among the sessions; `#totalRarity` is the sum of the rarities. */
  #rarities: ReadonlyArray<number> = []
  #totalRarity = 0
  readonly #signals: Signals = { ...noSignals }

  /** `recordOf` returns the record of a doc id, unless the record was removed. */
  constructor(recordOf: (doc: number) => Outline) {
    this.#recordOf = recordOf
  }

  /** Adds a record. `scope` is its scope number. */
  add(doc: number, scope: number, record: Outline): void {
    const { sequence, session: name } = record.source
    this.#form.set(doc, 0)
    this.masks.join(doc, 0)
    if (name === undefined) return
    const key = `${scope} ${name}`
    let number = this.#numbers.get(key)
    if (number === undefined) {
      number = this.#sessions.push({ scope, turns: [], isSorted: true, live: 0 }) - 1
      this.#numbers.set(key, number)
      const others = this.#byScope[scope] ??= []
      others.push(number)
    }
    this.masks.join(doc, number + 1)
    this.#sequence.set(doc, sequence ?? Infinity)
    const session = this.#sessions[number]!
    const last = session.turns.at(-1)
    session.isSorted &&= last === undefined || this.#sequence.data[last]! < this.#sequence.data[doc]!
    this.#turnIndex.set(doc, session.turns.push(doc) - 1)
    session.ends = undefined
    if (session.live++ === 0) this.#live[scope] = (this.#live[scope] ?? 0) + 1
  }

  remove(doc: number): void {
    const session = this.#sessions[this.masks.groupOf(doc) - 1]
    if (session === undefined) return
    if (--session.live === 0) this.#live[session.scope]! -= 1
    session.isSorted = false
    session.ends = undefined
    this.masks.join(doc, 0)
  }

  /**
   * Prepares this object to compute signals for the query that the index matched last. Computes how rare each term of the query is among
   * the sessions.
   */
  begin(index: InvertedIndex, view: View, { isWhen, times }: Ranker): void {
    const docs = index.scores.data.length
    if (this.#form.data.length < docs) this.#form.set(docs, 0)
    this.#index = index
    this.#isTimed = times !== undefined
    this.#isWhen = isWhen
    this.#at = view.at
    this.#weights = index.weights.slice(0, 31)
    this.#totalWeight = this.#weights.reduce((sum, weight) => sum + weight, 0)
    const counts = this.masks.counts(this.#weights.length)
    const sessions = counts.some((count) => count > 0) ? this.#countVisible(view, index) : 0
    const rarities = counts.map((count) => count > 0 ? idf(sessions, count) : 0)
    this.#rarities = rarities
    this.#totalRarity = rarities.reduce((sum, rarity) => sum + rarity, 0)
  }

  /** Returns the number of sessions with at least one message that is visible and not expired. */
  #countVisible(view: View, index: InvertedIndex): number {
    const isAlive = (doc: number) => index.until.data[doc]! > view.at
    let count = 0
    for (const scope of view.scopes ?? this.#byScope.keys()) {
      if (view.whole) count += this.#live[scope] ?? 0
      else {
        for (const number of this.#byScope[scope] ?? []) {
          if (this.#sessions[number]!.turns.some((doc) => this.masks.groupOf(doc) === number + 1 && isAlive(doc))) {
            count++
          }
        }
      }
    }
    return count
  }

  #sorted(number: number): Session {
    const session = this.#sessions[number]!
    if (!session.isSorted) {
      const sequence = this.#sequence.data
      session.turns = session.turns.filter((doc) => this.masks.groupOf(doc) === number + 1)
        .sort((a, b) =>
          sequence[a]! < sequence[b]!
            ? -1
            : sequence[a]! > sequence[b]!
            ? 1
            : this.#recordOf(a).id < this.#recordOf(b).id
            ? -1
            : 1
        )
      session.turns.forEach((doc, index) => this.#turnIndex.data[doc] = index)
      session.isSorted = true
    }
    return session
  }

  /** Returns the doc ids of the messages of a session, sorted by sequence. */
  turnsOf(session: number): ReadonlyArray<number> {
    return this.#sorted(session).turns
  }

  /**
   * Calls `visit` for each neighbour of a message. `distance` is −2 or −1 for an earlier neighbour, 1 or 2 for a later one. Looks at no
   * more than four messages on each side.
   */
  visitNeighbours(doc: number, visit: (doc: number, distance: number) => void): void {
    const number = this.masks.groupOf(doc) - 1
    if (number < 0) return
    const { turns } = this.#sorted(number)
    const sequence = this.#sequence.data
    const own = sequence[doc]!
    if (own === Infinity) return
    const at = this.#turnIndex.data[doc]!
    for (let i = at - 1; i >= 0 && i >= at - maxSteps; i--) {
      const distance = sequence[turns[i]!]! - own
      if (distance < -maxDistance) break
      if (distance < 0) visit(turns[i]!, distance)
    }
    for (let i = at + 1; i < turns.length && i <= at + maxSteps; i++) {
      const distance = sequence[turns[i]!]! - own
      if (distance > maxDistance) break
      if (distance > 0) visit(turns[i]!, distance)
    }
  }

  /**
   * Returns the sessions of the greatest worth, best first, five at most. Leaves out sessions whose worth is below `minWorth`. The worth is
   * the share of the query's terms that the session contains, where rare terms weigh more. If the query names times, the closeness of the
   * session to these times is added. This is the closeness of its first or its last message, whichever is closer. Sessions of equal worth
   * are ordered by the time of their last message, latest first.
   */
  best(view: View, times: Times | undefined): ReadonlyArray<number> {
    const later = (a: number, b: number) =>
      this.#endsOf(b)[1] - this.#endsOf(a)[1] || (this.#firstOf(a) < this.#firstOf(b) ? -1 : 1)
    const worths = new Float64Array(this.#sessions.length)
    const matching = Array.from(this.masks.touched, (group) => group - 1)
    for (const number of matching) worths[number] = this.#shareOf(number)
    if (times === undefined) return bestSessions(matching, worths, later)
    const sessions = Array.from(view.scopes ?? this.#byScope.keys()).flatMap((scope) => this.#byScope[scope] ?? [])
      .filter((number) => this.#sessions[number]!.live > 0)
    for (const number of sessions) {
      const [first, last] = this.#endsOf(number)
      worths[number]! += Math.max(closeness(times, first), closeness(times, last))
    }
    return bestSessions(sessions, worths, later)
  }

  /** Returns the share of the query's terms that a session contains. Rare terms weigh more: see `session(s)` at the top of this file. */
  #shareOf(number: number): number {
    const mask = this.masks.maskOfGroup(number + 1)
    return mask === 0 ? 0 : sumOf(mask, this.#rarities) / this.#totalRarity
  }

  #firstOf(number: number): MemoryId {
    return this.#recordOf(this.#sorted(number).turns[0]!).id
  }

  #endsOf(number: number): readonly [first: number, last: number] {
    const known = this.#sessions[number]!.ends
    if (known !== undefined) return known
    const session = this.#sorted(number)
    const { turns } = session
    return session.ends = [this.#recordOf(turns[0]!).validAt, this.#recordOf(turns[turns.length - 1]!).validAt]
  }

  /** Computes the signals of a doc id, except `isSpeaker` and `isFirstPerson`. The next call overwrites the returned object. */
  signalsOf(doc: number): Signals {
    const index = this.#index!
    const own = index.scores.data
    const number = this.masks.groupOf(doc) - 1
    const signals = this.#signals
    signals.words = own[doc]!
    signals.isTurn = number >= 0
    signals.isQuestion = this.#is(doc, "isQuestion")
    signals.isFirstPerson = false
    signals.namesTime = this.#isWhen && this.#is(doc, "namesTime")
    signals.validAt = this.#isTimed ? this.#recordOf(doc).validAt : 0
    signals.length = index.lengthOf(doc)
    if (number >= 0) this.#setSessionSignals(doc, number, index)
    return signals
  }

  /** Sets the signals that a message gets from its session and its neighbours. */
  #setSessionSignals(doc: number, number: number, index: InvertedIndex): void {
    const signals = this.#signals
    const own = index.scores.data
    const { masks } = this
    const until = index.until.data
    const sequence = this.#sequence.data
    const at = this.#at
    const here = sequence[doc]!
    let mask = masks.maskOf(doc)
    let near = 0
    let far = 0
    let reply = 0
    if (here !== Infinity) {
      const { turns } = this.#sorted(number)
      const turn = this.#turnIndex.data[doc]!
      for (let side = -1; side <= 1; side += 2) {
        let next = 0
        let second = 0
        for (let n = 1, i = turn + side; n <= maxSteps && i >= 0 && i < turns.length; n++, i += side) {
          const other = turns[i]!
          const distance = (sequence[other]! - here) * side
          if (distance > maxDistance) break
          const words = own[other]!
          if (words === 0 || distance === 0 || !(until[other]! > at)) continue
          mask |= masks.maskOf(other)
          if (distance === 2) {
            if (words > second) second = words
            continue
          }
          if (words > next) next = words
          if (side < 0 && words > reply && this.#is(other, "isQuestion")) reply = words
        }
        near += next
        far += second
      }
    }
    signals.neighbours = near / 2 + far / 4
    signals.reply = reply
    signals.session = this.#shareOf(number)
    signals.coverage = this.#totalWeight > 0 ? sumOf(mask, this.#weights) / this.#totalWeight : 0
  }

  /** Whether the text of a doc id is in the first person. */
  isFirstPerson(doc: number): boolean {
    return this.#is(doc, "isFirstPerson")
  }

  /** Whether a text has a property. The result is cached, since regular expressions are slow. */
  #is(doc: number, sign: keyof Form): boolean {
    const { known, read, value } = signs[sign]
    const before = this.#form.data[doc]!
    if ((before & known) !== 0) return (before & value) !== 0
    const { body = "", form } = this.#recordOf(doc)
    const is = form === undefined ? read(body) : form[sign]
    this.#form.data[doc] = before | known | (is ? value : 0)
    return is
  }
}

/** Properties of a text. `read` computes a property. The bits `known` and `value` of `#form` cache the property. */
const signs = {
  isQuestion: { known: 1, value: 2, read: isQuestion },
  isFirstPerson: { known: 4, value: 8, read: isFirstPerson },
  namesTime: { known: 16, value: 32, read: namesTime }
}

/** Returns the sessions of the greatest worth, best first, at most `maxSessions`. Each has a worth of at least `minWorth`. */
const bestSessions = (
  sessions: ReadonlyArray<number>,
  worths: Float64Array,
  tie: (a: number, b: number) => number
): ReadonlyArray<number> => {
  const best: Array<number> = []
  let bar = minWorth
  for (let i = 0; i < sessions.length; i++) {
    const number = sessions[i]!
    const worth = worths[number]!
    if (worth < bar) continue
    let at = best.length
    while (
      at > 0 && (worths[best[at - 1]!]! < worth || (worths[best[at - 1]!] === worth && tie(number, best[at - 1]!) < 0))
    ) {
      at--
    }
    best.splice(at, 0, number)
    if (best.length > maxSessions) best.length = maxSessions
    if (best.length === maxSessions) bar = worths[best[maxSessions - 1]!]!
  }
  return best
}

/** Returns the sum of the weights of the terms whose bits are set in a mask. */
export const sumOf = (mask: number, weights: ReadonlyArray<number>): number => {
  let sum = 0
  for (let left = mask; left !== 0; left &= left - 1) sum += weights[31 - Math.clz32(left & -left)]!
  return sum
}
