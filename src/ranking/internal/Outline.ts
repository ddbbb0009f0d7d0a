/**
 * Outlines: what ranking knows of a record before its texts are read, and the facts that it makes of that. What filters and weights
 * ask of every match lies in columns by doc id, so that few records are looked at:
 *
 * ```text
 * group        records alike in kind, tags, trust, and in whether they tell a feeling: a filter is asked once for each group
 * validity     validAt, invalidAt
 * factors      importance, confidence
 * ```
 *
 * Beyond 65,535 groups a record is of none, and a filter is asked for each of these.
 */
import { type Filtered, matches as matching } from "../../domain/MemoryFilter.ts"
import type { MemoryId } from "../../domain/MemoryId.ts"
import { hashOf, type MemoryRecord, recencyOf } from "../../domain/MemoryRecord.ts"
import * as MemoryScope from "../../domain/MemoryScope.ts"
import type { Asked, Fact, Shares } from "../Retrieval.ts"
import { foldName } from "../Tokenizer.ts"
import { float64, GrowableArray, stride } from "./DocIds.ts"
import type { Passing } from "./Impacts.ts"
import type { InvertedIndex } from "./InvertedIndex.ts"
import { type ColumnTest, likeOf, MetadataGroups, passesTest, verdictOf } from "./MetadataGroups.ts"
import type { Form } from "./Ranker.ts"
import { memoized, ScoreBound } from "./ScoreBound.ts"

/** A record without its texts, as far as matching and ranking need it. A record is its own outline. */
export interface Outline extends Filtered, Pick<MemoryRecord, "confidence" | "updatedAt" | "expiresAt"> {
  readonly body?: string | undefined
  /** Length of the body, where the body is not at hand; in UTF-16 units. */
  readonly size?: number | undefined
  /** Default: read off the body. */
  readonly form?: Form | undefined
  /** `MemoryRecord.textHash`, where the body is not at hand. */
  readonly hash?: string | undefined
}

/** Length of the body, in UTF-16 units. */
export const sizeOf = ({ body, size = 0 }: Pick<Outline, "body" | "size">): number => body?.length ?? size

/** Whether the body has more than 2,000 UTF-16 units: such a record is ranked, and shown, by its best passage. */
export const isLong = (record: Pick<Outline, "body" | "size">): boolean => sizeOf(record) > 2_000

/** Returns the speaker of a record: its actor, else, of turns of earlier releases, its metadata's, else that of its scope. */
export const actorOf = (
  { metadata, scope, source }: Pick<Outline, "metadata" | "scope" | "source">
): string | undefined => {
  const said = source.actor ?? metadata["actorId"]
  return typeof said === "string" ? said : scope === MemoryScope.Global ? undefined : scope.actorId
}

/** The facts of a record whose texts are not at hand, read off its outline when asked: making one costs next to nothing. */
export class OutlineFact implements Fact {
  readonly outline: Outline
  readonly length: number

  constructor(outline: Outline, length: number) {
    this.outline = outline
    this.length = length
  }

  get id(): MemoryId {
    return this.outline.id
  }
  get hash(): string {
    return this.outline.hash ?? ""
  }
  get recency(): number {
    return recencyOf(this.outline)
  }
  get validAt(): number {
    return this.outline.validAt
  }
  get kind(): string {
    return this.outline.kind
  }
  get importance(): number {
    return this.outline.importance
  }
  get confidence(): number | undefined {
    return this.outline.confidence
  }
  get trust(): number {
    return this.outline.source.trust
  }
  get actor(): string | undefined {
    const actor = actorOf(this.outline)
    return actor === undefined ? undefined : foldName(actor)
  }
  get scope(): MemoryScope.MemoryScope {
    return this.outline.scope
  }
  get session(): string | undefined {
    return this.outline.source.session
  }
  get sequence(): number | undefined {
    return this.outline.source.sequence
  }
  get emotion(): unknown {
    return this.outline.data["emotion"]
  }
}

/** The facts of a record in memory. */
export class RecordFact extends OutlineFact {
  readonly record: MemoryRecord

  constructor(record: MemoryRecord, length: number) {
    super(record, length)
    this.record = record
  }

  override get hash(): string {
    return hashOf(this.record)
  }
}

/** The group of records that are of none. */
const none = 0
const mostGroups = 65_536

interface Group {
  /** Fields that its records have in common, for a filter to look at. */
  readonly like: Filtered
  readonly isFelt: boolean
  /** Number of records that are not removed. */
  live: number
}

/** A filter, as far as columns tell. Good until the index changes. */
export class ColumnFilter {
  readonly #validAt: Float64Array
  readonly #invalidAt: Float64Array
  /** Times by which a record has to be valid, and still has to be. */
  readonly #begun: number
  readonly #ended: number
  readonly #tests: ReadonlyArray<ColumnTest>
  /** Every record that is not removed passes. */
  readonly isOpen: boolean
  /** Tells whether no record passes. Cost: the groups. */
  readonly isShut: () => boolean
  /** Tells whether a doc id that has passed the columns passes the whole filter; `undefined`: it does. */
  readonly rest: ((doc: number) => boolean) | undefined

  constructor(
    { isShut, rest, tests, validity }: Pick<ColumnFilter, "isShut" | "rest"> & {
      readonly validity: readonly [validAt: Float64Array, invalidAt: Float64Array, begun: number, ended: number]
      readonly tests: ReadonlyArray<ColumnTest>
    }
  ) {
    ;[this.#validAt, this.#invalidAt, this.#begun, this.#ended] = validity
    this.#tests = tests
    this.isOpen = this.#begun === Infinity && tests.length === 0
    this.isShut = isShut
    this.rest = rest
  }

  /** Whether a doc id passes as far as columns tell. Cost: about 2 ns. */
  readonly passes = (doc: number): boolean => {
    if (!(this.#validAt[doc]! <= this.#begun && this.#invalidAt[doc]! > this.#ended)) return false
    for (let i = 0; i < this.#tests.length; i++) if (!passesTest(this.#tests[i]!, doc)) return false
    return true
  }

  /**
   * Puts those of the doc ids between two places first that pass as far as columns tell, and returns where they end. Without a branch
   * on what is mostly foreseen wrongly: doc ids that do not pass change places.
   */
  narrow(docs: Int32Array, from: number, end: number): number {
    let kept = end
    for (const test of this.#tests) kept = this.#narrowBy(test, docs, from, kept)
    if (this.#begun < Infinity) kept = this.#narrowByTime(docs, from, kept)
    return kept
  }

  /** Tells by groups which of so many doc ids pass, where one column tells it, and its groups are few. */
  byGroup(docs: number): Passing | undefined {
    const [test] = this.#tests
    if (test === undefined || this.#tests.length > 1 || this.#begun < Infinity || test.hasLoners !== false) {
      return undefined
    }
    const { column, verdicts } = test
    if (16 * verdicts.length > docs || !(column instanceof Uint16Array)) return undefined
    for (let value = none + 1; value < verdicts.length; value++) {
      if (verdicts[value] === 0) verdictOf(test, value, 0) // a group tells without a doc id
    }
    return { groups: column, verdicts }
  }

  #narrowBy(test: ColumnTest, docs: Int32Array, from: number, end: number): number {
    const { column, verdicts } = test
    let kept = from
    for (let i = from; i < end; i++) {
      const doc = docs[i]!
      const value = column[doc]!
      let verdict = verdicts[value]!
      if (verdict === 0) verdict = verdictOf(test, value, doc)
      docs[i] = docs[kept]!
      docs[kept] = doc
      kept += verdict & 1
    }
    return kept
  }

  #narrowByTime(docs: Int32Array, from: number, end: number): number {
    const [validAt, invalidAt, begun, ended] = [this.#validAt, this.#invalidAt, this.#begun, this.#ended]
    let kept = from
    for (let i = from; i < end; i++) {
      const doc = docs[i]!
      docs[i] = docs[kept]!
      docs[kept] = doc
      kept += +(validAt[doc]! <= begun) & +(invalidAt[doc]! > ended)
    }
    return kept
  }

  /** Whether a doc id passes the whole filter. */
  readonly has = (doc: number): boolean =>
    (this.isOpen || this.passes(doc)) && (this.rest === undefined || this.rest(doc))
}

/** Columns of what filters and ranking ask of every record, by doc id. */
export class Columns {
  readonly #validAt = float64()
  readonly #invalidAt = float64()
  readonly #group = new GrowableArray((length) => new Uint16Array(length))
  /**
   * The other factors of a score than its relevance: recency in epoch milliseconds, importance, confidence, and the number of the
   * group. They lie side by side, since all are asked for at once, of doc ids far apart.
   */
  readonly #factors = float64()
  /** Groups by number; `none` has no group. */
  readonly #groups: Array<Group | undefined> = [undefined]
  readonly #numbers = new Map<string, number>()
  /** No record becomes valid later than this, or ceases to be valid earlier. */
  #lastValid = -Infinity
  #firstInvalid = Infinity
  /** No record has more. */
  #mostImportance = 0
  #mostConfidence = 0
  readonly #metadata: MetadataGroups | undefined

  /** `hasMetadata`: whether records that are added hold all of their metadata. */
  constructor(hasMetadata: boolean) {
    this.#metadata = hasMetadata ? new MetadataGroups() : undefined
  }

  add(doc: number, record: Outline): void {
    const { confidence = 0.5, importance, invalidAt = Infinity, validAt } = record
    const number = this.#numberOf(record)
    const group = this.#groups[number]
    if (group !== undefined) group.live++
    this.#group.set(doc, number)
    this.#metadata?.add(doc, record)
    this.#validAt.set(doc, validAt)
    this.#invalidAt.set(doc, invalidAt)
    const at = stride * doc
    this.#factors.set(at + 3, number)
    this.#factors.set(at, recencyOf(record))
    this.#factors.set(at + 1, importance)
    this.#factors.set(at + 2, confidence)
    this.#lastValid = Math.max(this.#lastValid, validAt)
    this.#firstInvalid = Math.min(this.#firstInvalid, invalidAt)
    this.#mostImportance = Math.max(this.#mostImportance, importance)
    this.#mostConfidence = Math.max(this.#mostConfidence, confidence)
  }

  remove(doc: number): void {
    const group = this.#groups[this.#group.data[doc]!]
    if (group !== undefined) group.live--
  }

  #numberOf(record: Outline): number {
    const { data, kind, source, tags } = record
    const isFelt = data["emotion"] !== undefined
    const key = `${kind} ${source.trust} ${isFelt ? 1 : 0}${tags.length > 0 ? JSON.stringify(tags) : ""}`
    const known = this.#numbers.get(key)
    if (known !== undefined) return known
    if (this.#groups.length === mostGroups) return none
    const number = this.#groups.push({ like: likeOf(record, { tags }), isFelt, live: 0 }) - 1
    this.#numbers.set(key, number)
    return number
  }

  /** Makes the column filter of a query's filter. `passes`: tells whether a doc id passes the whole filter, validity aside. */
  filter({ at: now, filter }: Asked, index: InvertedIndex, passes: (doc: number) => boolean): ColumnFilter {
    const at = filter.asOf ?? now
    const { closed = false, kinds, maxTrust, scope, tags, where } = filter
    const isTimeless = at === undefined || (this.#lastValid <= at && (closed || this.#firstInvalid > at))
    const groups = this.#groups
    const isLooked = looked.some((clause) => filter[clause] !== undefined)
    const byMetadata = where === undefined || isLooked ? undefined : this.#metadata?.test(where, passes)
    const isLike = kinds === undefined && maxTrust === undefined && tags === undefined
      ? undefined
      : matching({ kinds, maxTrust, tags }, undefined)
    const tests: Array<ColumnTest> = []
    if (isLike !== undefined) {
      tests.push({
        column: this.#group.data,
        verdicts: new Uint8Array(groups.length),
        hasLoners: groups.length === mostGroups,
        isOf: (number, doc) => {
          const group = groups[number]
          return group === undefined ? passes(doc) : isLike(group.like)
        }
      })
    }
    if (scope !== undefined) {
      const [column, count] = index.scopeColumn
      tests.push({
        column,
        verdicts: new Uint8Array(count),
        hasLoners: undefined,
        isOf: (number) => MemoryScope.matchesScope(index.scope(number), scope)
      })
    }
    // matches are counted by one column, as they are scored; else those by metadata are looked at, the most promising first
    const isOnly = byMetadata?.hasLoners === false && tests.length === 0 && isTimeless
    if (isOnly) tests.push(byMetadata)
    const rest = byMetadata === undefined ? passes : (doc: number) => passesTest(byMetadata, doc)
    return new ColumnFilter({
      validity: [
        this.#validAt.data,
        this.#invalidAt.data,
        isTimeless ? Infinity : at,
        isTimeless || closed ? -Infinity : at
      ],
      tests,
      isShut: () =>
        isLike !== undefined && groups.length < mostGroups &&
        !groups.some((group) => group !== undefined && group.live > 0 && isLike(group.like)),
      rest: isLooked || (where !== undefined && !isOnly) ? rest : undefined
    })
  }

  /** Makes what tells the most that a score can be. */
  scoreBound(shares: Shares): ScoreBound {
    const { emotion, halfLifeOf } = shares
    const knownOf = memoized(halfLifeOf)
    return new ScoreBound(
      shares,
      this.#factors.data,
      this.#groups.map((group) => group === undefined ? Infinity : knownOf(group.like.kind)),
      this.#groups.map((group) => emotion * (group === undefined || group.isFelt ? 1 : 0.5)),
      [this.#mostImportance, this.#mostConfidence]
    )
  }
}

/** Clauses of a filter, beside `where`, that no column tells. */
const looked = ["ids", "createdAt", "validAt", "minImportance"] as const
