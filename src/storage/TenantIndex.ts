/**
 * The rows of one tenant in RAM, with indexes for search, dedupe keys, links, texts and counts. Each index is built when first needed.
 * `queries` implements query methods of an engine with them.
 */
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type { MemoryError } from "../domain/MemoryError.ts"
import type { MemoryId } from "../domain/MemoryId.ts"
import type { MemoryKind } from "../domain/MemoryKind.ts"
import { byRecency, type MemoryRecord } from "../domain/MemoryRecord.ts"
import * as MemoryScope from "../domain/MemoryScope.ts"
import { type AccessFilter, includes } from "../domain/Viewer.ts"
import { atOnce, LazyIndex, paced, type Steps } from "../host/EventLoop.ts"
import * as MemoryIndex from "../ranking/MemoryIndex.ts"
import type { CompiledFilter, Position } from "../ranking/Retrieval.ts"
import { Embeddings } from "../ranking/VectorIndex.ts"
import { Texts } from "./internal/Compaction.ts"
import type { Changed, Engine, Mark, Stored } from "./internal/EngineContract.ts"
import * as Links from "./Links.ts"
import { byAge, isLive } from "./Revision.ts"

/** The rows of one tenant in RAM, and the indexes over them. */
export interface TenantIndex {
  /** Returns the search index of all rows except tombstones. Pending changes are applied first, without a pause. */
  readonly index: () => MemoryIndex.MemoryIndex
  /**
   * Builds the search index, or applies pending changes to it, in steps. The event loop runs between the steps. Rows may be set meanwhile.
   */
  readonly prepared: Effect.Effect<void>
  /** Index of the names of records, and of the references between records. Built in steps when first needed. */
  readonly links: Effect.Effect<Links.Index>
  /** Sets the row of an id; `undefined` removes the row. The search index is updated later, when it is next needed. */
  readonly set: (id: MemoryId, row: Stored | undefined) => void
  /** Prepares the search index for `encoded`: applies pending changes in steps, like `prepared`. A missing index is not built. */
  readonly encodable: Effect.Effect<void>
  /**
   * Encodes the search index of the current rows, in steps; `undefined` if there is no complete index. A process with the same rows can
   * pass the result to `restore`. Rows may be set between the steps.
   */
  readonly encoded: () => Steps<Uint8Array> | undefined
  /** Sets an encoded index. If the index does not match the rows set so far, a new index is built instead. Takes ownership of the bytes. */
  readonly restore: (encoded: Uint8Array) => void
  /** Whether the search index was built in this process instead of restored. */
  readonly isBuilt: () => boolean
  /** Number of rows that are not tombstones, by scope and kind. Counted in steps when first needed. */
  readonly counts: Effect.Effect<Counts>
  /** Returns an index of the rows' texts by hash. Vectors are stored under the same hashes. The index is built when first needed. */
  readonly texts: () => LazyIndex<Stored, Texts>
  /** Number of rows that are not tombstones. */
  readonly size: () => number
  /** Returns all rows that are not tombstones, in any order. */
  readonly rows: () => ReadonlyArray<Stored>
  /** Returns the records of all rows that are not tombstones, expired ones included. */
  readonly records: () => ReadonlyArray<MemoryRecord>
  /** Iterates over the records that `records` returns, without making an array. */
  readonly each: () => Iterable<MemoryRecord>
  /** Returns all tombstones, in any order. */
  readonly tombstones: () => ReadonlyArray<Stored>
  /** Returns the ids of the rows that were set after `since`, a mark from an earlier call. Also returns a new mark for the next call. */
  readonly changed: (since: Mark | undefined) => Changed
  /** Builds the table of dedupe keys that `byDedupeKey` reads, in steps between which the event loop runs. */
  readonly dedupePrepared: Effect.Effect<void>
  /** Returns at most `limit` live records with the key: oldest first, then by id. All records with the key are read. */
  readonly byDedupeKey: (dedupeKey: string, now: number, limit: number) => ReadonlyArray<MemoryRecord>
}

/** Number of rows that are not tombstones, by scope, then by kind. A scope is written as its `MemoryScope.key`. */
export type Counts = ReadonlyMap<string, ReadonlyMap<string, number>>

/** Options of a tenant index. `kinds` are the configured kinds. `embeddings` are the vectors that are kept in RAM. */
export type Options = Pick<MemoryIndex.Options, "analyzer" | "embeddings"> & {
  readonly kinds: ReadonlyMap<string, MemoryKind>
}

/** Number of newest changes of which `changed` knows the record ids. The id of a further change overwrites the oldest id. */
const remembered = 4_096

/** An encoded search index, which is decoded when first needed. */
interface EncodedIndex {
  readonly bytes: Uint8Array
  /** Number of rows that the encoded index must have. */
  readonly size: number
  /** Ids of the rows that changed since `restore` was called, each with the row before the first change. */
  readonly changed: Map<MemoryId, Stored | undefined>
  steps: Steps<void> | undefined
}

/** Maps a dedupe key to the id of its only row, or to the set of the ids of its rows. */
type DedupeIndex = Map<string, MemoryId | Set<MemoryId>>

/** Makes an empty tenant index; the caller sets each row. */
export const make = (options: Options): TenantIndex => {
  const recent: Array<MemoryId> = []
  let version = 0
  const rows = new Map<MemoryId, Stored>() // insertion order is the order in which the search index adds rows
  const tombstones = new Map<MemoryId, Stored>()
  let index: MemoryIndex.MemoryIndex | undefined
  /** Iterator over the ids of the rows while the index is first filled; `undefined` before and after. */
  let unread: Iterator<MemoryId> | undefined
  /** Ids of rows that changed after the index was created. An id is removed when the index has applied the change. */
  const stale = new Set<MemoryId>()
  /** Whether the index was completely filled at least once. */
  let isWhole = false
  /** Whether a sort of the index has begun but not ended. The next run of `prepared` completes an interrupted sort. */
  let isSorting = false
  /** The encoded index, until it is restored. */
  let encodedIndex: EncodedIndex | undefined
  let isBuilt = false
  let links: LazyIndex<Stored, Links.Index> | undefined
  let counts: LazyIndex<Stored, Map<string, Map<string, number>>> | undefined
  let texts: LazyIndex<Stored, Texts> | undefined
  const all = () => Array.from(rows.values())

  const dedupeIndex = new LazyIndex<Stored, DedupeIndex>({
    make: () => new Map(),
    add: addDedupeKey,
    remove: removeDedupeKey,
    rows: () => rows.values()
  })

  /** Restores an encoded index, in steps. A row that changed after the encoding is restored in its old state, and then marked stale. */
  const restoring = ({ bytes, changed, size }: EncodedIndex): Steps<void> => {
    const made = MemoryIndex.make(options)
    const steps = made.restoring(bytes, (id) => (changed.has(id) ? changed.get(id) : rows.get(id))?.record)
    return (function*() {
      if ((yield* steps) && made.size === size) {
        index = made
        isWhole = true
        for (const id of changed.keys()) stale.add(id)
      }
      encodedIndex = undefined
    })()
  }
  const restored = (): Steps<void> | undefined => encodedIndex && (encodedIndex.steps ??= restoring(encodedIndex))
  const restoredInSteps = Effect.suspend(() => {
    const steps = restored() // concurrent callers share the same steps
    return steps === undefined ? Effect.void : paced(() => steps)
  })

  /** Returns the index without applying pending changes. Creates the index if there is none. */
  const begun = (): MemoryIndex.MemoryIndex => {
    const steps = restored()
    if (steps !== undefined) atOnce(steps)
    if (index !== undefined) return index
    unread = rows.keys()
    return index = MemoryIndex.make(options)
  }
  /** Returns the next id from `unread` or, if none is left there, from `ids`. */
  const next = (ids: Iterator<MemoryId>): IteratorResult<MemoryId> => {
    const found = unread?.next()
    if (found?.done !== false) unread = undefined
    return found?.done === false ? found : ids.next()
  }
  /** Adds the current record of an id to the index. An id without a row is removed. Returns the work done, in units of 0.1 µs. */
  const applyChange = (index: MemoryIndex.MemoryIndex, id: MemoryId): number => {
    const row = rows.get(id)
    stale.delete(id)
    if (row) index.add(row.record)
    else index.remove(id)
    return row ? MemoryIndex.workOf(row.record) : 1
  }
  const whole = (): MemoryIndex.MemoryIndex => {
    const index = begun()
    const ids = stale.values()
    for (let id = next(ids); id.done !== true; id = next(ids)) applyChange(index, id.value)
    isBuilt ||= !isWhole
    isWhole = true
    return index
  }

  /** Applies pending changes to the index in steps, and then sorts the index. Changes that arrive meanwhile are applied, too. */
  function* updating(index: MemoryIndex.MemoryIndex): Steps<void> {
    const ids = stale.values() // a live iterator, which also returns ids that are added during the loop
    let left = 2 * (stale.size + rows.size) // limits the loop, in case other fibers keep setting rows
    for (let id = next(ids); id.done !== true && left > 0; id = next(ids), left--) {
      const row = rows.get(id.value)
      if (row !== undefined) yield* index.unpacking(row.record)
      yield applyChange(index, id.value) // reads the row again, since it may have changed during `unpacking`
    }
    isSorting = true
    yield* index.sorting()
    isSorting = false
  }

  const prepared = Effect.zipRight(
    restoredInSteps,
    Effect.suspend(() => {
      const index = begun()
      return unread === undefined && stale.size === 0 && !isSorting ? Effect.void : paced(() => updating(index))
    })
  )

  return {
    index: whole,
    prepared,
    links: Effect.suspend(() => {
      links ??= new LazyIndex({
        make: Links.makeIndex,
        add: (index, { record }) => index.add(record),
        remove: (index, { record }) => index.remove(record),
        rows: () => rows.values()
      })
      return links.prepared
    }),
    encodable: Effect.zipRight(
      Effect.suspend(() => encodedIndex !== undefined && encodedIndex.changed.size > 0 ? restoredInSteps : Effect.void),
      Effect.suspend(() => isWhole && stale.size > 0 ? prepared : Effect.void)
    ),
    encoded() {
      if (encodedIndex?.changed.size === 0) return given(encodedIndex.bytes)
      const steps = restored()
      if (steps !== undefined) atOnce(steps)
      return isWhole ? whole().encoding() : undefined
    },
    restore(bytes) {
      encodedIndex = { bytes, size: rows.size, changed: new Map(), steps: undefined }
    },
    isBuilt: () => isBuilt,
    set(id, row) {
      recent[version++ % remembered] = id
      const before = rows.get(id)
      if (encodedIndex !== undefined && !encodedIndex.changed.has(id)) encodedIndex.changed.set(id, before)
      if (row?.forgotten) tombstones.set(id, row)
      else tombstones.delete(id)
      const after = row?.forgotten === true ? undefined : row
      if (after === undefined) rows.delete(id)
      else rows.set(id, after)
      if (index !== undefined) stale.add(id)
      links?.set(before, after)
      counts?.set(before, after)
      texts?.set(before, after)
      dedupeIndex.set(before, after)
    },
    counts: Effect.suspend(() => {
      counts ??= new LazyIndex({
        make: () => new Map(),
        add: (counts, { record }) => count(counts, record, 1),
        remove: (counts, { record }) => count(counts, record, -1),
        rows: () => rows.values()
      })
      return counts.prepared
    }),
    texts: () =>
      texts ??= new LazyIndex({
        make: () => new Texts(options.embeddings ?? new Embeddings()),
        add: (texts, { record }) => texts.add(record),
        remove: (texts, { record }) => texts.remove(record),
        rows: () => rows.values()
      }),
    changed(since) {
      const mark: Mark = { of: recent, version }
      const isKnown = since?.of === recent && version - since.version <= remembered
      if (!isKnown) return { mark, ids: undefined }
      return {
        mark,
        ids: Array.from({ length: version - since.version }, (_, n) => recent[(since.version + n) % remembered]!)
      }
    },
    size: () => rows.size,
    rows: all,
    records: () => Array.from(rows.values(), ({ record }) => record),
    *each() {
      for (const { record } of rows.values()) yield record
    },
    tombstones: () => Array.from(tombstones.values()),
    dedupePrepared: Effect.asVoid(dedupeIndex.prepared),
    byDedupeKey(dedupeKey, now, limit) {
      const all = dedupeIndex.build().get(dedupeKey)
      if (all === undefined) return []
      const live = (typeof all === "object" ? Array.from(all) : [all]).flatMap((id) => {
        const row = rows.get(id)
        return row && isLive(row, now) ? [row.record] : []
      })
      return live.sort(byAge).slice(0, limit)
    }
  }
}

function* given<A>(value: A): Steps<A> {
  yield 0
  return value
}

/** Adds the id of a row under its dedupe key. Returns the work done, in units of 0.1 µs. */
const addDedupeKey = (index: DedupeIndex, { dedupeKey, record }: Stored): number => {
  if (dedupeKey === undefined) return 0
  const all = index.get(dedupeKey)
  if (typeof all === "object") all.add(record.id)
  else index.set(dedupeKey, all === undefined ? record.id : new Set([all, record.id]))
  return 4
}

const removeDedupeKey = (index: DedupeIndex, { dedupeKey, record: { id } }: Stored): void => {
  if (dedupeKey === undefined) return
  const all = index.get(dedupeKey)
  if (typeof all === "object") all.delete(id)
  if (all === id || (typeof all === "object" && all.size === 0)) index.delete(dedupeKey)
}

/** Adds `by` to the count of the record's scope and kind. Returns the work done, in units of 0.1 µs. */
const count = (counts: Map<string, Map<string, number>>, record: MemoryRecord, by: 1 | -1): number => {
  const scope = MemoryScope.key(record.scope)
  const kinds = counts.get(scope) ?? new Map<string, number>()
  const sum = (kinds.get(record.kind) ?? 0) + by
  if (sum > 0) kinds.set(record.kind, sum)
  else kinds.delete(record.kind)
  if (kinds.size > 0) counts.set(scope, kinds)
  else counts.delete(scope)
  return 16
}

type Io<A> = Effect.Effect<A, MemoryError>

/** The data that `queries` reads: the tenants, their indexes and their tombstones. */
export interface Source {
  /** Returns the current index of a tenant, which the caller must not change. */
  readonly tenantIndexOf: (tenant: string) => Io<TenantIndex>
  /** Returns all tombstones of a tenant. With `ids`, returns the rows with these ids instead. These rows need not be tombstones. */
  readonly tombstones: (tenant: string, ids: ReadonlyArray<MemoryId> | undefined) => Io<ReadonlyArray<Stored>>
  readonly tenants: Stream.Stream<string, MemoryError>
}

/** Implements the query methods of an engine with its tenant indexes. */
export const queries = (
  { tenantIndexOf, tenants, tombstones }: Source
): Pick<
  Engine,
  "page" | "match" | "changed" | "named" | "referring" | "overCap" | "tenants" | "tenantsWith"
> => ({
  page: (access, compiled, after, limit) =>
    compiled.filter.forgotten === true
      ? Effect.map(
        tombstones(access.tenant, compiled.filter.ids),
        (rows) => pageOf(rows, access, compiled, after, limit)
      )
      : Effect.map(indexOf(tenantIndexOf(access.tenant)), (index) => index.page(access, compiled, after, limit)),
  match: (access, compiled, question) =>
    Effect.map(indexOf(tenantIndexOf(access.tenant)), (index) => index.match(access, compiled, question)),
  named: (access, compiled, names) =>
    Effect.map(linksOf(tenantIndexOf(access.tenant)), (links) => links.named(names, predicate(access, compiled))),
  referring: (access, compiled, keys) =>
    Effect.map(linksOf(tenantIndexOf(access.tenant)), (links) => links.referring(keys, predicate(access, compiled))),
  changed: (tenant, since) => Effect.map(tenantIndexOf(tenant), (tenantIndex) => tenantIndex.changed(since)),
  overCap: (tenant, caps) => Effect.map(countsOf(tenantIndexOf(tenant)), (counts) => overCap(counts, caps)),
  tenants,
  tenantsWith: (scope) => {
    const key = MemoryScope.key(scope)
    return Stream.filterEffect(
      tenants,
      (tenant) => Effect.map(countsOf(tenantIndexOf(tenant)), (counts) => counts.has(key))
    )
  }
})

/** Returns the search index of a tenant. If needed, builds it in steps between which the event loop runs. */
export const indexOf = (tenantIndex: Io<TenantIndex>): Io<MemoryIndex.MemoryIndex> =>
  Effect.flatMap(tenantIndex, (tenantIndex) => Effect.map(tenantIndex.prepared, tenantIndex.index))

const countsOf = (tenantIndex: Io<TenantIndex>): Io<Counts> => Effect.flatMap(tenantIndex, ({ counts }) => counts)

const linksOf = (tenantIndex: Io<TenantIndex>): Io<Links.Index> => Effect.flatMap(tenantIndex, ({ links }) => links)

/** Returns the records in `found` that `access` permits and that pass the filter. */
export const accessible = (
  access: AccessFilter,
  compiled: CompiledFilter,
  found: ReadonlyArray<MemoryRecord>
): ReadonlyArray<MemoryRecord> => found.filter(predicate(access, compiled))

/** Returns a function that tests whether `access` permits a record and the record passes the filter. */
const predicate = (access: AccessFilter, compiled: CompiledFilter): (record: MemoryRecord) => boolean => {
  const isVisible = includes(access.visibility)
  return (record) =>
    isVisible(record.scope) && (record.expiresAt === undefined || record.expiresAt > access.now) &&
    compiled.passes(record)
}

/** Returns a page of the given rows: newest first, then by id. Cost: one pass over the given rows. */
export const pageOf = (
  rows: ReadonlyArray<Stored>,
  access: AccessFilter,
  compiled: CompiledFilter,
  after: Position | undefined,
  limit: number
): ReadonlyArray<MemoryRecord> => {
  const isTrash = compiled.filter.forgotten === true
  const position = after && { id: after.id, createdAt: after.recency }
  return accessible(access, compiled, rows.flatMap(({ forgotten, record }) => forgotten === isTrash ? [record] : []))
    .filter((record) => position === undefined || byRecency(position, record) < 0)
    .sort(byRecency)
    .slice(0, limit)
}

const overCap = (
  counts: Counts,
  caps: ReadonlyMap<string, number>
): ReadonlyArray<readonly [scope: string, kind: string]> =>
  Array.from(counts).flatMap(([scope, kinds]) =>
    Array.from(kinds).flatMap(([kind, count]) => count > (caps.get(kind) ?? Infinity) ? [[scope, kind] as const] : [])
  )
