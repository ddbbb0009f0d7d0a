/**
 * Revisions of a record: what a draft or a patch makes of the one before, and which of several came first; and the row and the
 * entry that a store keeps of one. Pure.
 */
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
  MemoryRecord,
  type Patch,
  recencyOf
} from "../domain/MemoryRecord.ts"
import * as MemoryScope from "../domain/MemoryScope.ts"
import * as Payload from "../domain/Payload.ts"
import type * as Analyzer from "../ranking/Analyzer.ts"
import { buildDoc } from "../ranking/Bm25.ts"
import type { Entry, Stored } from "./internal/EngineContract.ts"
import * as Links from "./Links.ts"

/** How many revisions of a record are kept, the current one among them. */
export const revisionsKept = 20

export interface Circumstances {
  readonly provenance: Provenance
  /** Epoch ms. */
  readonly now: number
  readonly kinds: ReadonlyMap<string, MemoryKind.MemoryKind>
}

/** Makes a record of a draft, as a revision that owes nothing to an earlier one. */
export const created = (
  id: MemoryId,
  draft: Draft,
  { kinds, now, provenance }: Circumstances,
  revision: number
): MemoryRecord =>
  record({
    ...draft,
    id,
    scope: MemoryScope.normalise(draft.scope),
    summary: draft.summary ?? deriveSummary(draft.body),
    summaryDerived: draft.summary === undefined ? true : undefined,
    tags: draft.tags ?? [],
    importance: draft.importance ?? MemoryKind.find(kinds, draft.kind).importance,
    links: draft.links ?? [],
    data: Payload.freeze(draft.data ?? {}),
    metadata: Payload.freeze(draft.metadata ?? {}),
    source: compact({ ...draft.source, origin: provenance.origin ?? "user", trust: provenance.trust ?? 1 }),
    createdAt: now,
    validAt: draft.validAt ?? now,
    revision
  })

/** Replaces a record, but for the time at which it came and, unless the draft says it, the time since which it holds. */
export const replaced = (old: MemoryRecord, fresh: MemoryRecord, draft: Draft, now: number): MemoryRecord =>
  record({ ...fresh, createdAt: old.createdAt, updatedAt: now, validAt: draft.validAt ?? old.validAt })

/** Applies a patch as the next revision. Its trust is the worse of the record's and the writer's. */
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
    data: rest.data ? Payload.freeze(rest.data) : old.data,
    metadata: rest.metadata ? Payload.freeze(rest.metadata) : old.metadata,
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

/** Returns the same record, as another revision. */
export const again = (old: MemoryRecord, revision: number): MemoryRecord => record({ ...old, revision })

/**
 * Whether the revision was put where nothing was: it neither edits the one before nor restores an earlier one. A
 * restoration is known by saying, in every field but `revision`, what one of the `earlier` revisions says.
 */
export const isAnew = (record: MemoryRecord, earlier: ReadonlyArray<MemoryRecord>): boolean =>
  record.updatedAt === undefined && !earlier.some((old) => isSameContent(old, record))

/** Whether two revisions of a record say the same in every field but `revision`. */
export const isSameContent = (one: MemoryRecord, other: MemoryRecord): boolean => contentOf(one) === contentOf(other)

const contentOf = (record: MemoryRecord): string => canonicalJson({ ...record, revision: 0 })

/** Returns the record of a tombstone: as it was when it was forgotten, its `updatedAt` the time of that. */
export const forgotten = (old: MemoryRecord, now: number): MemoryRecord =>
  record({ ...old, revision: old.revision + 1, updatedAt: now })

/** Returns the draft that puts a record as it is: it says everything but who wrote it, when, and what came after it. */
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

/** Whether a row is neither forgotten, expired nor closed. */
export const isLive = ({ forgotten, record }: Stored, now: number): boolean =>
  !forgotten && !isExpired(record, now) && isValidAt({ validAt: 0, invalidAt: record.invalidAt }, now)

/** Orders records by age: the oldest first, then by id. */
export const byAge = (a: MemoryRecord, b: MemoryRecord): number =>
  a.createdAt - b.createdAt || (a.id < b.id ? -1 : a.id > b.id ? 1 : 0)

/** Makes a record of fields that were checked. It is for reading only: whoever is given it holds what the store holds. */
const record = (fields: ConstructorParameters<typeof MemoryRecord>[0]): MemoryRecord => {
  const made = new MemoryRecord(compact(fields), { disableValidation: true })
  for (const part of [made.scope, made.tags, made.links, ...made.links, made.source]) Object.freeze(part)
  // not frozen itself: Effect keeps a hash on what it compares
  for (const key of Object.keys(made)) Object.defineProperty(made, key, { writable: false, configurable: false })
  return made
}

const compact = <A extends object>(fields: A): A =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as A // optional fields only

/** Makes the entry of a row. Costs nothing until a field is read: an index in memory reads the record itself. */
export const entryOf = (analyzer: Analyzer.Service) => (stored: Stored): Entry => new LazyEntry(stored, analyzer)

/** Makes the row of a record that is there. `key` is its dedupe key where that is known already. */
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

/** A tombstone is found by no word, and neither is a row of the library itself. */
const read = ({ forgotten, record }: Stored, analyzer: Analyzer.Service): Pick<Entry, "terms" | "length"> => {
  if (forgotten || MemoryScope.isInternal(record.scope)) return { terms: new Map(), length: 0 }
  const { length, tags, terms } = buildDoc(record.id, record, analyzer.index)
  return { terms: new Map(Array.from(terms, ([term, count]) => [term, 2 * count + (tags.has(term) ? 1 : 0)])), length }
}

/** How long a store keeps what was forgotten, unless it is told otherwise. */
export const defaultTrash: Duration.DurationInput = "30 days"

/** A row as compaction looks at it: when it ends. */
export interface Lifetime {
  readonly id: MemoryId
  readonly revision: number
  readonly forgotten: boolean
  /** Time of the record's last change, of a tombstone the time at which it was forgotten; epoch milliseconds. */
  readonly recency: number
  readonly expiresAt: number | undefined
}

export const lifetimeOf = ({ forgotten, record }: Stored): Lifetime => ({
  id: record.id,
  revision: record.revision,
  forgotten,
  recency: recencyOf(record),
  expiresAt: record.expiresAt
})

/**
 * Returns the time in epoch milliseconds from which compaction may erase the row; `Infinity` if it never may. `trash` is in
 * milliseconds.
 */
export const erasableAt = ({ expiresAt = Infinity, forgotten, recency }: Lifetime, trash: number): number =>
  Math.min(
    expiresAt,
    forgotten ? (trash === 0 ? 0 : recency + trash) : Infinity // 0 holds although the clock was set back
  )
