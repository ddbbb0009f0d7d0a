/**
 * An outline is a record without its texts. It has the fields that filtering and ranking need. `Columns` copies some of these fields to
 * arrays indexed by doc id, so that few records are read:
 *
 * ```text
 * group        number of a group: records with equal kind, tags and trust, all with or all without emotion. A filter tests a group once
 * validity     validAt, invalidAt
 * factors      recency, importance, confidence
 * ```
 *
 * There are at most 65,535 groups. A later record that fits none of them has no group, and is filtered by itself.
 */
import { type Filtered, matches as matching } from "../../domain/MemoryFilter.ts"
import type { MemoryId } from "../../domain/MemoryId.ts"
import { hashOf, type MemoryRecord, recencyOf } from "../../domain/MemoryRecord.ts"
import * as MemoryScope from "../../domain/MemoryScope.ts"
import type { CompiledFilter, Fact, Shares } from "../Retrieval.ts"
import { foldName } from "../Tokenizer.ts"
import { float64, GrowableArray, stride } from "./DocIds.ts"
import type { GroupFilter } from "./Impacts.ts"
import type { InvertedIndex } from "./InvertedIndex.ts"
import { type ColumnTest, MetadataGroups, passesTest, representativeOf, verdictOf } from "./MetadataGroups.ts"
import type { Form } from "./Ranker.ts"
import { memoized, ScoreBound } from "./ScoreBound.ts"

/** The fields of a record that matching and ranking need. A `MemoryRecord` is an outline, too. */
export interface Outline extends Filtered, Pick<MemoryRecord, "confidence" | "updatedAt" | "expiresAt"> {
  readonly body?: string | undefined
  /** Length of a long body in UTF-16 units, if the body is absent. Default 0, for a short body. */
  readonly size?: number | undefined
  /** Form of the text. Default: computed from the body. */
  readonly form?: Form | undefined
  /** Hash of the text (`MemoryRecord.textHash`), if the body is absent. */
  readonly hash?: string | undefined
}

/** Returns the length of the body in UTF-16 units; 0 if the body and its `size` are absent. */
export const sizeOf = ({ body, size = 0 }: Pick<Outline, "body" | "size">): number => body?.length ?? size

/** Whether the body has more than 2,000 UTF-16 units. Ranking and hits may then use the best passage of the record. */
export const isLong = (record: Pick<Outline, "body" | "size">): boolean => sizeOf(record) > 2_000

/** Returns a record's speaker: `source.actor`, or else `metadata.actorId` (set by early releases), or else `scope.actorId`. */
export const actorOf = (
  { metadata, scope, source }: Pick<Outline, "metadata" | "scope" | "source">
): string | undefined => {
  const actor = source.actor ?? metadata["actorId"]
  return typeof actor === "string" ? actor : scope === MemoryScope.Global ? undefined : scope.actorId
}

/** A `Fact` whose values come from an outline. The properties are getters, so that a `Fact` is cheap to make. */
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

/** A `Fact` that reads its values from a whole `MemoryRecord`. */
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

/** Marks a record without a group, in place of a group number. */
const none = 0
const maxGroups = 65_536

interface Group {
  /** The record on which a filter is evaluated in place of all records of the group. */
  readonly representative: Filtered
  readonly hasEmotion: boolean
  /** Number of records in the group, without removed ones. */
  live: number
}

/**
 * A filter on doc ids. `passes` tests some conditions, on columns. `rest` tests all others. The object is valid until the index changes.
 */
export class ColumnFilter {
  readonly #validAt: Float64Array
  readonly #invalidAt: Float64Array
  /** A record passes only if `validAt` ≤ `#maxValidAt` and `invalidAt` > `#minInvalidAt`. */
  readonly #maxValidAt: number
  readonly #minInvalidAt: number
  readonly #tests: ReadonlyArray<ColumnTest>
  /** Whether `passes` accepts every doc id. */
  readonly isOpen: boolean
  /** Returns true if it is certain that no record passes, false if a record may pass. Cost: at most one test per group. */
  readonly isShut: () => boolean
  /** Tests the remaining conditions. Is called only for doc ids that `passes` accepts. Absent if no conditions remain. */
  readonly rest: ((doc: number) => boolean) | undefined

  constructor(
    { isShut, rest, tests, validity }: Pick<ColumnFilter, "isShut" | "rest"> & {
      readonly validity: readonly [validAt: Float64Array, invalidAt: Float64Array, begun: number, ended: number]
      readonly tests: ReadonlyArray<ColumnTest>
    }
  ) {
    ;[this.#validAt, this.#invalidAt, this.#maxValidAt, this.#minInvalidAt] = validity
    this.#tests = tests
    this.isOpen = this.#maxValidAt === Infinity && tests.length === 0
    this.isShut = isShut
    this.rest = rest
  }

  /** Whether a doc id passes `#tests` and the test of validity. Cost: about 2 ns. */
  readonly passes = (doc: number): boolean => {
    if (!(this.#validAt[doc]! <= this.#maxValidAt && this.#invalidAt[doc]! > this.#minInvalidAt)) return false
    for (let i = 0; i < this.#tests.length; i++) if (!passesTest(this.#tests[i]!, doc)) return false
    return true
  }

  /**
   * Moves the doc ids that `passes` accepts to the front of `docs[from..end)`. Returns the index after the last accepted doc id. No branch
   * depends on the result of a test, because the processor would often mispredict such a branch.
   */
  narrow(docs: Int32Array, from: number, end: number): number {
    let kept = end
    for (const test of this.#tests) kept = this.#narrowBy(test, docs, from, kept)
    if (this.#maxValidAt < Infinity) kept = this.#narrowByTime(docs, from, kept)
    return kept
  }

  /**
   * Returns which groups `passes` accepts. Returns `undefined` if `passes` is not a single test of groups, if there are fewer than 16 doc
   * ids per group, or if a doc id may have no group. `docs` is the number of all doc ids.
   */
  byGroup(docs: number): GroupFilter | undefined {
    const [test] = this.#tests
    if (test === undefined || this.#tests.length > 1 || this.#maxValidAt < Infinity || test.hasUngrouped !== false) {
      return undefined
    }
    const { column, verdicts } = test
    if (16 * verdicts.length > docs || !(column instanceof Uint16Array)) return undefined
    for (let value = none + 1; value < verdicts.length; value++) {
      if (verdicts[value] === 0) verdictOf(test, value, 0) // the 0 stands for no doc id, since a group is tested as a whole
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
    const [validAt, invalidAt, begun, ended] = [this.#validAt, this.#invalidAt, this.#maxValidAt, this.#minInvalidAt]
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

/** The fields that filters and ranking read for every match, in arrays indexed by doc id. */
export class Columns {
  readonly #validAt = float64()
  readonly #invalidAt = float64()
  readonly #group = new GrowableArray((length) => new Uint16Array(length))
  /**
   * Four numbers per doc id: recency (epoch ms), importance, confidence and group number. The four numbers are adjacent, so that reading
   * them touches one cache line.
   */
  readonly #factors = float64()
  /** Groups by group number. The number 0 (`none`) stands for no group. */
  readonly #groups: Array<Group | undefined> = [undefined]
  readonly #numbers = new Map<string, number>()
  /** Latest `validAt` of all records that were ever added. */
  #lastValid = -Infinity
  /** Earliest `invalidAt` of all records that were ever added. */
  #firstInvalid = Infinity
  /** Highest importance of all records that were ever added. */
  #maxImportance = 0
  /** Highest confidence of all records that were ever added. */
  #maxConfidence = 0
  readonly #metadata: MetadataGroups | undefined

  /** `hasMetadata`: whether added records have all of their metadata. If so, the records are also grouped by metadata. */
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
    this.#maxImportance = Math.max(this.#maxImportance, importance)
    this.#maxConfidence = Math.max(this.#maxConfidence, confidence)
  }

  remove(doc: number): void {
    const group = this.#groups[this.#group.data[doc]!]
    if (group !== undefined) group.live--
  }

  #numberOf(record: Outline): number {
    const { data, kind, source, tags } = record
    const hasEmotion = data["emotion"] !== undefined
    const key = `${kind} ${source.trust} ${hasEmotion ? 1 : 0}${tags.length > 0 ? JSON.stringify(tags) : ""}`
    const known = this.#numbers.get(key)
    if (known !== undefined) return known
    if (this.#groups.length === maxGroups) return none
    const number = this.#groups.push({ representative: representativeOf(record, { tags }), hasEmotion, live: 0 }) - 1
    this.#numbers.set(key, number)
    return number
  }

  /** Makes a `ColumnFilter` from a compiled filter. `passes` applies the filter to a doc id, but may ignore `asOf` and `at`. */
  filter({ at: now, filter }: CompiledFilter, index: InvertedIndex, passes: (doc: number) => boolean): ColumnFilter {
    const at = filter.asOf ?? now
    const { closed = false, kinds, maxTrust, scope, tags, where } = filter
    const isTimeless = at === undefined || (this.#lastValid <= at && (closed || this.#firstInvalid > at))
    const groups = this.#groups
    const needsRecord = recordClauses.some((clause) => filter[clause] !== undefined)
    const byMetadata = where === undefined || needsRecord ? undefined : this.#metadata?.test(where, passes)
    const matchesGroup = kinds === undefined && maxTrust === undefined && tags === undefined
      ? undefined
      : matching({ kinds, maxTrust, tags }, undefined)
    const tests: Array<ColumnTest> = []
    if (matchesGroup !== undefined) {
      tests.push({
        column: this.#group.data,
        verdicts: new Uint8Array(groups.length),
        hasUngrouped: groups.length === maxGroups,
        evaluate: (number, doc) => {
          const group = groups[number]
          return group === undefined ? passes(doc) : matchesGroup(group.representative)
        }
      })
    }
    if (scope !== undefined) {
      const [column, count] = index.scopeColumn
      tests.push({
        column,
        verdicts: new Uint8Array(count),
        hasUngrouped: undefined,
        evaluate: (number) => MemoryScope.matchesScope(index.scope(number), scope)
      })
    }
    // the metadata test goes into `tests` if it is the only test and every record has a group. Matches can then be counted while they are
    // scored. Otherwise, the metadata test goes into `rest`
    const isOnly = byMetadata?.hasUngrouped === false && tests.length === 0 && isTimeless
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
        matchesGroup !== undefined && groups.length < maxGroups &&
        !groups.some((group) => group !== undefined && group.live > 0 && matchesGroup(group.representative)),
      rest: needsRecord || (where !== undefined && !isOnly) ? rest : undefined
    })
  }

  /** Makes a `ScoreBound`, which computes upper bounds of scores with the given weights. */
  scoreBound(shares: Shares): ScoreBound {
    const { emotion, halfLifeOf } = shares
    const knownOf = memoized(halfLifeOf)
    return new ScoreBound(
      shares,
      this.#factors.data,
      this.#groups.map((group) => group === undefined ? Infinity : knownOf(group.representative.kind)),
      this.#groups.map((group) => emotion * (group === undefined || group.hasEmotion ? 1 : 0.5)),
      [this.#maxImportance, this.#maxConfidence]
    )
  }
}

/** Fields of a filter that are always tested on the record itself, never by columns. */
const recordClauses = ["ids", "createdAt", "validAt", "minImportance"] as const
