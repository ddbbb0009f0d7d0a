/** Makes the next revision of a record from a draft or a patch. Also makes rows and index entries, and orders records by age. */
import type * as Duration from "effect/Duration"
import { canonicalJson } from "../domain/Digest.ts"
import type { MemoryId } from "../domain/MemoryId.ts"
import * as MemoryKind from "../domain/MemoryKind.ts"
import type { Provenance } from "../domain/MemoryMutation.ts"
import {
  dedupeKey,
  deriveSummary,
  type Draft,
  hashOf,
  isExpired,
  isValidAt,
  maxBody,
  MemoryRecord,
  type Patch,
  recencyOf
} from "../domain/MemoryRecord.ts"
import * as MemoryScope from "../domain/MemoryScope.ts"
import * as Payload from "../domain/Payload.ts"
import { payloadIssues } from "../domain/Validation.ts"
import type * as Analyzer from "../ranking/Analyzer.ts"
import { buildDoc } from "../ranking/Bm25.ts"
import type { Entry, Found, Stored } from "./internal/EngineContract.ts"
import * as Links from "./Links.ts"

/** Number of revisions kept of a record, the current one included. */
export const revisionsKept = 20

/** The time of a write, its provenance, and the configured kinds. */
export interface WriteContext {
  readonly provenance: Provenance
  /** Time of the write, in epoch milliseconds. */
  readonly now: number
  readonly kinds: ReadonlyMap<string, MemoryKind.MemoryKind>
}

/** Makes a record from a draft. Earlier revisions are not considered. The JSON values of the draft must be copies by `Payload.owned`. */
export const created = (
  id: MemoryId,
  draft: Draft,
  { kinds, now, provenance }: WriteContext,
  revision: number
): MemoryRecord => {
  const { actor, reference, sequence, session } = draft.source ?? {}
  // each field is listed, because spreading an object would be the largest cost of this function
  return record({
    id,
    scope: MemoryScope.normalise(draft.scope),
    kind: draft.kind,
    summary: draft.summary ?? deriveSummary(draft.body),
    summaryDerived: draft.summary === undefined ? true : undefined,
    body: draft.body,
    tags: draft.tags ?? [],
    importance: draft.importance ?? MemoryKind.find(kinds, draft.kind).importance,
    confidence: draft.confidence,
    links: draft.links ?? [],
    data: draft.data ?? Payload.empty,
    metadata: draft.metadata ?? Payload.empty,
    source: Payload.definedFields({
      reference,
      session,
      actor,
      sequence,
      origin: provenance.origin ?? "user",
      trust: provenance.trust ?? 1
    }),
    createdAt: now,
    validAt: draft.validAt ?? now,
    invalidAt: draft.invalidAt,
    expiresAt: draft.expiresAt,
    revision
  })
}

/**
 * Returns the reasons to refuse the write of a record. Only a write of origin `instructions` or `file` may add the tag `instructions`.
 * Other writes may keep the tag on a record of origin `file`, if `before` has it. `before` is the revision that is changed or restored.
 */
export const issuesOf = (
  record: MemoryRecord,
  { kinds, now, provenance }: WriteContext,
  before?: MemoryRecord
): ReadonlyArray<string> => {
  const issues: Array<string> = []
  const isFile = record.source.origin === "file"
  const mayReserve = provenance.origin === "instructions" || provenance.origin === "file"
  if (record.summary === "") issues.push("summary: a blank body needs one")
  if (isExpired(record, now)) issues.push("expiresAt: already past")
  if (record.body.length > maxBody && !isFile) issues.push("body: expected at most 65,536 characters, well-formed")
  if (!mayReserve && record.tags.some((tag) => isReserved(tag) && !(isFile && before?.tags.includes(tag)))) {
    issues.push("tags: instructions is reserved")
  }
  issues.push(...payloadIssues(MemoryKind.find(kinds, record.kind).schema, record.data))
  return issues
}

const isReserved = (tag: string): boolean => tag.trim().toLowerCase() === "instructions"

/** Returns `fresh` as the replacement of `old`. `createdAt` is that of `old`. If `draft` has no `validAt`, that of `old` stays. */
export const replaced = (old: MemoryRecord, fresh: MemoryRecord, draft: Draft, now: number): MemoryRecord =>
  record({ ...fresh, createdAt: old.createdAt, updatedAt: now, validAt: draft.validAt ?? old.validAt })

/**
 * Applies a patch, and returns the next revision. The caller must have copied the patch's JSON values with `Payload.owned`. The trust
 * number of the result is that of the record or of the writer, whichever is larger (less trusted).
 */
export const patched = (old: MemoryRecord, patch: Patch, { trust = 1 }: Provenance, now: number): MemoryRecord => {
  const { confidence, expiresAt, invalidAt, supersededBy, ...rest } = patch
  const body = rest.body ?? old.body
  const derived = rest.summary === undefined && old.summaryDerived === true
  return record({
    ...old,
    body,
    tags: rest.tags ?? old.tags,
    importance: rest.importance ?? old.importance,
    links: rest.links ?? old.links,
    data: rest.data ?? old.data,
    metadata: rest.metadata ?? old.metadata,
    summary: derived ? deriveSummary(body) : rest.summary ?? old.summary,
    summaryDerived: derived ? true : undefined,
    confidence: confidence === null ? undefined : confidence ?? old.confidence,
    expiresAt: expiresAt === null ? undefined : expiresAt ?? old.expiresAt,
    invalidAt: invalidAt === null ? undefined : invalidAt ?? old.invalidAt,
    supersededBy: supersededBy === null ? undefined : supersededBy ?? old.supersededBy,
    source: { ...old.source, trust: old.source.trust > trust ? old.source.trust : trust },
    updatedAt: now,
    revision: old.revision + 1
  })
}

/** Returns a copy of the record with another revision number. */
export const withRevision = (old: MemoryRecord, revision: number): MemoryRecord => record({ ...old, revision })

/** Whether a revision created its record: it is neither an edit nor a restored copy of one of the `earlier` revisions. */
export const isCreation = (record: MemoryRecord, earlier: ReadonlyArray<MemoryRecord>): boolean =>
  record.updatedAt === undefined && !earlier.some((old) => isSameContent(old, record))

/** Whether two revisions of a record are equal in every field except `revision`. */
export const isSameContent = (one: MemoryRecord, other: MemoryRecord): boolean => contentOf(one) === contentOf(other)

const contentOf = (record: MemoryRecord): string => canonicalJson({ ...record, revision: 0 })

/** Returns the record that a tombstone contains: the last content, with the time of forgetting as `updatedAt`. */
export const forgotten = (old: MemoryRecord, now: number): MemoryRecord =>
  record({ ...old, revision: old.revision + 1, updatedAt: now })

/** Returns the tombstone (the row of a forgotten record) that replaces a row. */
export const tombstone = (row: Stored, now: number): Stored => ({
  record: forgotten(row.record, now),
  forgotten: true
})

/**
 * Returns a draft with the content of the record. It has no times of writing and no `supersededBy`. Its `source` still has origin and
 * trust, which a write ignores.
 */
export const draftOf = (record: MemoryRecord): Draft => ({
  id: record.id,
  scope: record.scope,
  kind: record.kind,
  summary: record.summaryDerived ? undefined : record.summary,
  body: record.body,
  tags: record.tags,
  importance: record.importance,
  confidence: record.confidence,
  links: record.links,
  data: record.data,
  metadata: record.metadata,
  validAt: record.validAt,
  invalidAt: record.invalidAt,
  expiresAt: record.expiresAt,
  source: record.source
})

/** Whether a row is live: not forgotten, not expired, and not past its `invalidAt`. */
export const isLive = ({ forgotten, record }: Stored, now: number): boolean =>
  !forgotten && !isExpired(record, now) && isValidAt({ validAt: 0, invalidAt: record.invalidAt }, now)

/** Orders records by age, oldest first, then by id. */
export const byAge = (a: MemoryRecord, b: MemoryRecord): number =>
  a.createdAt - b.createdAt || (a.id < b.id ? -1 : a.id > b.id ? 1 : 0)

/** Finds records by dedupe key while a batch is being decided. Includes the writes that the batch has decided so far. */
export interface DedupeLookup {
  /** Registers that the batch replaces the row `before` by `after`; `undefined` stands for no row. */
  readonly changed: (before: Stored | undefined, after: Stored | undefined) => void
  /** Returns the oldest live record with the key. The result is cached until a row with the key changes. */
  readonly oldest: (key: string) => MemoryRecord | undefined
}

/**
 * Makes the `DedupeLookup` of a batch from what was read from the store, and from `rows`. `rows` has the batch's rows, which the caller
 * updates with each decided change.
 */
export const makeDedupeLookup = (
  { byDedupeKey, now, rows: found }: Found,
  rows: ReadonlyMap<MemoryId, Stored | undefined>
): DedupeLookup => {
  const byKey = new Map<string, Set<Stored>>()
  const firsts = new Map<string, MemoryRecord | undefined>()
  const changed: DedupeLookup["changed"] = (before, after) => {
    if (before?.dedupeKey !== undefined) {
      byKey.get(before.dedupeKey)?.delete(before)
      firsts.delete(before.dedupeKey)
    }
    if (after?.dedupeKey !== undefined) {
      const all = byKey.get(after.dedupeKey)
      if (all) all.add(after)
      else byKey.set(after.dedupeKey, new Set([after]))
      firsts.delete(after.dedupeKey)
    }
  }
  for (const row of found.values()) changed(undefined, row)
  return {
    changed,
    oldest(key) {
      if (firsts.has(key)) return firsts.get(key)
      let first = byDedupeKey.get(key)?.find(({ id }) => !rows.has(id))
      for (const row of byKey.get(key) ?? []) {
        if (isLive(row, now) && (first === undefined || byAge(row.record, first) < 0)) first = row.record
      }
      firsts.set(key, first)
      return first
    }
  }
}

/** Makes a record from valid fields. The store keeps the returned object, so callers must not change it. */
const record = (fields: ConstructorParameters<typeof MemoryRecord>[0]): MemoryRecord => {
  const made: MemoryRecord = Object.create(MemoryRecord.prototype)
  // the object is not frozen, because Effect caches a hash on it. Instead, each property is defined as read-only from the start, since
  // making it read-only afterwards takes five times as long
  for (const [key, value] of Object.entries(fields)) {
    if (value !== undefined) Object.defineProperty(made, key, { value, enumerable: true })
  }
  Object.freeze(made.scope)
  Object.freeze(made.tags)
  for (const link of Object.freeze(made.links)) Object.freeze(link)
  Object.freeze(made.source)
  return made
}

/** Makes the index entry of a row. The terms are computed when they are first read. An in-memory index does not read them. */
export const entryOf = (analyzer: Analyzer.Service) => (stored: Stored): Entry => new LazyEntry(stored, analyzer)

/** Makes the row of a live record. `key` is the record's dedupe key, if the caller has computed it already. */
export const rowOf = (
  kinds: ReadonlyMap<string, MemoryKind.MemoryKind>,
  tenant: string,
  record: MemoryRecord,
  key?: string
): Stored => ({
  record,
  forgotten: false,
  ...(MemoryKind.find(kinds, record.kind).dedupe && { dedupeKey: key ?? dedupeKey(tenant, record) })
})

class LazyEntry implements Entry {
  readonly stored: Stored
  readonly #analyzer: Analyzer.Service
  #read: Pick<Entry, "terms" | "length"> | undefined

  constructor(stored: Stored, analyzer: Analyzer.Service) {
    this.stored = stored
    this.#analyzer = analyzer
  }

  get terms(): ReadonlyMap<string, number> {
    return (this.#read ??= read(this.stored, this.#analyzer)).terms
  }
  get length(): number {
    return (this.#read ??= read(this.stored, this.#analyzer)).length
  }
  get hash(): string {
    return hashOf(this.stored.record)
  }
  get names(): ReadonlyArray<string> {
    return this.stored.forgotten ? [] : Links.answersTo(this.stored.record)
  }
  get refersTo(): ReadonlyArray<string> {
    return this.stored.forgotten ? [] : Links.refersTo(this.stored.record)
  }
}

/** Computes the search terms of a row. Tombstones and internal rows of the library have no terms. So words never match these rows. */
const read = ({ forgotten, record }: Stored, analyzer: Analyzer.Service): Pick<Entry, "terms" | "length"> => {
  if (forgotten || MemoryScope.isInternal(record.scope)) return { terms: new Map(), length: 0 }
  const { length, tags, terms } = buildDoc(record.id, record, analyzer.index)
  return { terms: new Map(Array.from(terms, ([term, count]) => [term, 2 * count + (tags.has(term) ? 1 : 0)])), length }
}

/** Time for which a store keeps tombstones by default. */
export const defaultTrash: Duration.DurationInput = "30 days"

/** The fields of a row from which compaction decides when to erase the row. */
export interface Lifetime {
  readonly id: MemoryId
  readonly revision: number
  readonly forgotten: boolean
  /** Time of the record's last change, in epoch milliseconds. For a tombstone, this is the time of forgetting. */
  readonly recency: number
  readonly expiresAt: number | undefined
}

/** Returns the lifetime of a row. */
export const lifetimeOf = ({ forgotten, record }: Stored): Lifetime => ({
  id: record.id,
  revision: record.revision,
  forgotten,
  recency: recencyOf(record),
  expiresAt: record.expiresAt
})

/**
 * Returns the time from which compaction may erase a row, in epoch milliseconds. `Infinity` means never. `trash` is the time for which
 * tombstones (rows of forgotten records) are kept, in milliseconds.
 */
export const erasableAt = ({ expiresAt = Infinity, forgotten, recency }: Lifetime, trash: number): number =>
  Math.min(
    expiresAt,
    forgotten ? (trash === 0 ? 0 : recency + trash) : Infinity // 0 means at once, even if the clock was set back
  )
