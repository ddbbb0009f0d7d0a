/**
 * Caches the terms of recently searched partitions in RAM. A partition is a part of a tenant's rows, such as the rows of one user: see
 * `Rows.partitionOf`. Each tenant has one index. The first search of a partition reads all its terms. Each write increments the version of
 * its partition. A later search reads only the rows that were written since the cached version.
 *
 * If the indexes become too large, the least recently used partitions are evicted, but not those of the current search.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { MemoryError } from "../../../domain/MemoryError.ts"
import * as Errors from "../../../domain/MemoryError.ts"
import type { MemoryId } from "../../../domain/MemoryId.ts"
import type { MemoryRecord } from "../../../domain/MemoryRecord.ts"
import { invalid } from "../../../domain/Validation.ts"
import type * as Viewer from "../../../domain/Viewer.ts"
import { pause } from "../../../host/EventLoop.ts"
import type * as Analyzer from "../../../ranking/Analyzer.ts"
import { type Answer, OutlineIndex, type Texts, type Vectors } from "../../../ranking/internal/OutlineIndex.ts"
import { fingerprint } from "../../../ranking/Tokenizer.ts"
import { makeTenantLocks, type Stored } from "../../Engine.ts"
import { type Database, idOf, type Reading, text } from "./Database.ts"
import {
  dimensionsOf,
  historyOf,
  type PartitionVersions,
  versionsOf,
  type Wanted
} from "./IndexCache/PartitionVersions.ts"
import { TextCache } from "./IndexCache/TextCache.ts"
import { rowsOf, vectorsOf } from "./Rows.ts"
import { metaOf } from "./Tables.ts"

type Io<A> = Effect.Effect<A, MemoryError>

/** Measured size in bytes of a record of 80 words in an index, without its vectors. */
const bytesOfRecord = 1_000
/** Measured size in bytes of an index without records. */
const bytesOfIndex = 30_000
/** Measured size in bytes of a partition without records. */
const bytesOfPartition = 500
/** Estimates the bytes per number of a vector. `numbers` counts those of one model's vectors. Many numbers are quantized to fewer bytes. */
const bytesOfNumber = (numbers: number): number => numbers < 262_144 ? 4 : 1.2
/** Number of rows that are read in one step. A step takes about 10 ms, and then the event loop runs. */
const stretch = 500

/** A cached partition. */
interface Part {
  /** Version of the partition up to which its rows were read. 0: all rows must be read; -1: even if a read is running. */
  version: number
  /** Whether rows are being read into the partition. Such a partition must not be evicted. */
  isRead: boolean
  readonly ids: Set<MemoryId>
}

interface TenantCache {
  readonly index: OutlineIndex
  readonly parts: Map<string, Part>
  /** Version and dimensions of each model's vectors at the last read, and the value of `added` at that time. */
  readonly models: Map<string, { readonly version: number; readonly added: number; readonly dimensions: number }>
  /** Number of rows ever added to `index`. If the number has grown, new rows may lack vectors. */
  added: number
  /** Estimated bytes per record, including its vectors. */
  weight: number
}

/** The indexes of a SQL database that this process has cached. */
export interface IndexCache {
  /**
   * Calls `question` with the tenant's index, after an update of the partitions that the viewer sees. If `question` lacks texts or vectors,
   * these are read, and `question` is called again. Fails with `invalid_draft` if `embedding` and the model's vectors differ in dimensions.
   * Cost: linear in the rows written since the last search of each partition. A partition that is not cached is read as a whole.
   */
  readonly ask: <A>(
    access: Viewer.AccessFilter,
    question: (index: OutlineIndex, texts: Texts, vectors: Vectors) => Answer<A>,
    embedding?: { readonly model: string; readonly dimensions: number }
  ) => Io<A>
  /** Returns the last known dimensions of a model's vectors; 0 if there were none, `undefined` if the cache does not have them. */
  readonly dimensions: (tenant: string, model: string) => number | undefined
  /** Returns the row of each id, in order; `None` if there is no row. Caches the texts of these rows for later searches. */
  readonly read: (tenant: string, ids: ReadonlyArray<MemoryId>) => Io<ReadonlyArray<Option.Option<Stored>>>
}

/**
 * Makes a cache of indexes. If their estimated size exceeds `capacity` bytes, partitions are evicted down to nine tenths of `capacity`,
 * except those of the current search and those being read. Cached texts may take another eighth of `capacity`.
 */
export const make = (database: Database, analyzer: Analyzer.Service, capacity: number): IndexCache => {
  let textCache = new TextCache(capacity / 8)
  /** Id of the database's history when the cache was filled (see `Dialect.history`); `undefined` if unknown. */
  let history: string | undefined
  const tenants = new Map<string, TenantCache>()
  /** Searched partitions, least recently used first, since a Map keeps insertion order. The key contains tenant and partition. */
  const used = new Map<string, readonly [tenant: string, partition: string]>()
  const locks = makeTenantLocks()
  const analyzerFingerprint = fingerprint(analyzer.index)
  const snapshots = new WeakMap<Viewer.AccessFilter, ReadSnapshot>()

  /** Empties the cache after a fail-over or a restore of the database. Cached versions are then no longer comparable. */
  const forget = () => {
    tenants.clear()
    used.clear()
    textCache = new TextCache(capacity / 8)
  }

  const cacheOf = (tenant: string): TenantCache => {
    const known = tenants.get(tenant) ?? {
      index: new OutlineIndex(analyzer.index, (outline) => textCache.get(tenant, outline.version, outline)),
      parts: new Map(),
      models: new Map(),
      added: 0,
      weight: bytesOfRecord
    }
    tenants.set(tenant, known)
    return known
  }

  /** Marks the wanted partitions as used. If the cache is too large, evicts other partitions, least recently used first. */
  const makeRoom = (tenant: string, wanted: Wanted) => {
    for (const partition of wanted.keys()) {
      const key = `${tenant}\n${partition}`
      used.delete(key)
      used.set(key, [tenant, partition])
    }
    let size = 0
    for (const { index, parts, weight } of tenants.values()) {
      size += bytesOfIndex + parts.size * bytesOfPartition + index.size * weight
    }
    if (size <= capacity) return
    for (const [name, { parts }] of tenants) {
      if (parts.size > 0 || name === tenant) continue
      tenants.delete(name) // a search by a viewer who sees no partition leaves an empty index
      size -= bytesOfIndex
    }
    for (const [key, [owner, partition]] of used) {
      if (size <= 0.9 * capacity) return
      if (owner === tenant && wanted.has(partition)) continue
      const cache = tenants.get(owner)
      const part = cache?.parts.get(partition)
      if (part?.isRead === true) continue
      used.delete(key)
      if (cache === undefined || part === undefined) continue
      size -= bytesOfPartition + part.ids.size * cache.weight
      clear(cache, part)
      cache.parts.delete(partition)
      if (cache.parts.size > 0) continue
      tenants.delete(owner)
      size -= bytesOfIndex
    }
  }

  /** Updates the index of a tenant. Reads only the changes of a cached partition, but all rows of any other visible partition. */
  const bringUpToDate = (
    source: Reading,
    { tenant }: Viewer.AccessFilter,
    { vectors, wanted }: PartitionVersions,
    model: string | undefined,
    cache: TenantCache
  ): Io<void> =>
    Effect.gen(function*() {
      for (const [partition, version] of wanted) {
        if (cache.parts.get(partition)?.version === version) continue
        // the lock makes other fibers that need the partition wait until its rows are read
        yield* locks.withLock(`${tenant}\n${partition}`)(Effect.suspend(() => {
          const part = cache.parts.get(partition) ?? { version: 0, isRead: false, ids: new Set() }
          cache.parts.set(partition, part)
          if (part.version >= version) return Effect.void
          Object.assign(part, { isRead: true, version: Math.max(0, part.version) })
          return follow(source, tenant, partition, analyzerFingerprint, cache, part).pipe(
            Effect.map(() => {
              if (part.version >= 0) part.version = version
            }),
            Effect.ensuring(Effect.sync(() => {
              part.isRead = false
            }))
          )
        }))
      }
      cache.index.pack()
      // `vectors` is unknown if `wanted` is empty: both come from one statement, with a row per visible partition
      if (model !== undefined && wanted.size > 0) {
        yield* locks.withLock(`${tenant}\n\n${model}`)(
          Effect.suspend(() => followModel(source, tenant, model, vectors, cache))
        )
      }
      makeRoom(tenant, wanted)
    })

  /**
   * Whether the cache still has all wanted partitions and their vectors. While this fiber waited, another fiber may have evicted a
   * partition, or added records without vectors.
   */
  const isComplete = (
    tenant: string,
    cache: TenantCache,
    { wanted }: PartitionVersions,
    model: string | undefined
  ): boolean =>
    tenants.get(tenant) === cache &&
    (model === undefined || wanted.size === 0 || cache.models.get(model)?.added === cache.added) &&
    Array.from(wanted).every(([partition, version]) => (cache.parts.get(partition)?.version ?? -1) >= version)

  /** Reads rows by id, and caches their texts, except those of tombstones. */
  const rowsIn = ({ query }: Reading, tenant: string, ids: ReadonlyArray<MemoryId>) => {
    const cache = textCache // kept in a variable, since `forget` may replace the cache during the read
    return rowsOf(query, tenant, ids, ({ forgotten, record }, version, length) => {
      if (!forgotten) cache.add(tenant, version, record, length)
    })
  }

  const isCurrent = (versions: PartitionVersions): boolean => versions.history === history

  /**
   * Returns the versions of the visible partitions, and the database to read from. The result is cached by the object `access`, so that
   * all rounds of one search use the same database and versions, until the model or the database's history changes.
   */
  const snapshotFor = (access: Viewer.AccessFilter, model: string | undefined): Io<ReadSnapshot> =>
    Effect.gen(function*() {
      const known = snapshots.get(access)
      if (known !== undefined && (model === undefined || known.model === model) && isCurrent(known.versions)) {
        return known
      }
      const source = yield* database.reading
      const found = yield* versionsOf(source, access, database.dialect.history, model)
      // `versionsOf` returns no history if no partition is visible, so the history is then read separately
      const latest = found.wanted.size === 0 ? yield* historyOf(source, database.dialect.history) : found.history
      const versions = { ...found, history: latest ?? source.history ?? history }
      if (versions.history !== history) {
        forget()
        history = versions.history
      }
      const now = { source, versions, model }
      snapshots.set(access, now)
      return now
    })

  return {
    read: (tenant, ids) =>
      Effect.map(
        Effect.flatMap(database.reading, (source) => rowsIn(source, tenant, ids)),
        (rows) => ids.map((id) => Option.fromNullable(rows.get(id)))
      ),
    dimensions: (tenant, model) => tenants.get(tenant)?.models.get(model)?.dimensions,
    ask: (access, question, embedding) =>
      Effect.gen(function*() {
        const model = embedding?.model
        const texts = new Map<MemoryId, MemoryRecord | undefined>()
        const vectors = new Map<string, Float32Array | undefined>()
        for (;;) {
          const { source, versions } = yield* snapshotFor(access, model)
          const { dimensions } = versions.vectors
          if (embedding !== undefined && dimensions > 0 && dimensions !== embedding.dimensions) {
            // reads the dimensions again, from the primary, since `versions` may come from a replica that lags behind
            const now = yield* dimensionsOf(database, access.tenant, embedding.model)
            if (now === dimensions) return yield* invalid("search", `embedding.vector: expected ${now} dimensions`)
          }
          if (!isCurrent(versions)) continue
          const cache = cacheOf(access.tenant) // no other fiber has run since `isCurrent`, so the history is the same
          yield* bringUpToDate(source, access, versions, model, cache)
          if (!isComplete(access.tenant, cache, versions, model)) continue
          // no other fiber runs between `isComplete` and `question`, so no partition is evicted in between
          const answer = question(cache.index, texts, vectors)
          if (answer._tag === "Answered") return answer.answer
          const rows = yield* rowsIn(source, access.tenant, answer.ids)
          for (const id of answer.ids) texts.set(id, rows.get(id)?.record)
          const found = yield* vectorsOf(source, access.tenant, model ?? "", answer.hashes)
          for (const hash of answer.hashes) vectors.set(hash, found.get(hash))
        }
      })
  }
}

/** Snapshot for one search: the versions of the partitions that its viewer sees, and the database from which it reads. */
interface ReadSnapshot {
  /** The database from which the calls of `ask` read. A replica may lack rows that the primary has. */
  readonly source: Reading
  readonly versions: PartitionVersions
  readonly model: string | undefined
}

/** Removes the records of a partition from the index. */
const clear = ({ index }: TenantCache, { ids }: Part): void => {
  for (const id of ids) index.remove(id)
  ids.clear()
}

/**
 * Updates a cached partition. Reads the rows that were written or erased since `part.version`; version 0 means all rows. Fails with
 * `unsupported` if another analyzer has rebuilt the stored index. A rebuild increments the version of every partition.
 */
const follow = (
  { query }: Reading,
  tenant: string,
  partition: string,
  analyzer: string,
  cache: TenantCache,
  part: Part
): Io<void> =>
  Effect.gen(function*() {
    if ((yield* metaOf(query, "analyzer")) !== analyzer) {
      return yield* Errors.make("unsupported", {
        op: "search",
        message: "the index was made anew by another analyzer. Provide that one, and open the store again"
      })
    }
    if (part.version > 0) {
      // `memory_gone` is complete only above the version `floor`. One statement reads both, so that they match
      const erased = yield* query(
        `SELECT p.floor, g.id FROM memory_partitions AS p
         LEFT JOIN memory_gone AS g ON g.tenant = p.tenant AND g.partition = p.partition AND g.version > ?
         WHERE p.tenant = ? AND p.partition = ?`,
        [part.version, text(tenant), partition]
      )
      // ids that were erased between `part.version` and `floor` are unknown, so the partition is read completely
      if (Number(erased[0]?.[0] ?? Infinity) > part.version) part.version = 0
      // removes erased ids before rows are added, since an erased id may have been written again meanwhile
      else for (const [, id] of erased) if (id !== null && part.ids.delete(idOf(id))) cache.index.remove(idOf(id))
    }
    if (part.version === 0) clear(cache, part) // rows of an earlier or failed read may have been erased since
    let [version, last] = [part.version + 1, ""]
    for (;;) {
      const rows = yield* query(
        `SELECT version, id, entry FROM memory_records WHERE tenant = ? AND partition = ? AND (version, id) > (?, ?)
         ORDER BY version, id LIMIT ?`,
        [text(tenant), partition, version, last, stretch]
      )
      yield* Effect.try({
        try: () => {
          for (const [version, id, entry] of rows) applyEntry(cache, part, idOf(id), String(entry), Number(version))
        },
        catch: (cause) =>
          Errors.make("corrupt", {
            op: "read",
            message: "a row whose words are damaged",
            detail: { location: "memory_records" },
            cause
          })
      })
      const end = rows.at(-1)
      if (end === undefined || rows.length < stretch) return
      ;[version, last] = [Number(end[0]), String(end[1])]
      yield* pause
    }
  })

/** Adds a row to a partition and to the index. A row with an empty entry is a tombstone, and is removed instead. */
const applyEntry = (cache: TenantCache, part: Part, id: MemoryId, entry: string, version: number): void => {
  if (!part.ids.has(id) && cache.index.has(id)) {
    // the record is also cached in another partition. Either row may be the newer one, so that partition will be read again
    for (const other of cache.parts.values()) if (other.ids.delete(id)) other.version = -1
  }
  if (entry === "") {
    part.ids.delete(id)
    cache.index.remove(id)
    return
  }
  part.ids.add(cache.index.add(entry, version)) // `add` returns the id as the index stores it, so that memory contains only one string
  cache.added++
}

/**
 * Reads the vectors that the records in the index still lack for a model. Does nothing if the model's vectors have no new version and the
 * index has no new rows. The caller must hold the lock of the model, so that no vector is read twice.
 */
const followModel = (
  source: Reading,
  tenant: string,
  model: string,
  now: PartitionVersions["vectors"],
  cache: TenantCache
): Io<void> =>
  Effect.gen(function*() {
    const { index } = cache
    for (;;) {
      const { added } = cache
      const known = cache.models.get(model)
      if (known !== undefined && known.version >= now.version && known.added === added) return
      // `now` may be older than `known`, if another fiber has read meanwhile or if a replica lags behind
      const { dimensions, version } = known === undefined || now.version > known.version ? now : known
      if (index.dimensions(model) !== dimensions) index.detach(model)
      const missing = dimensions === 0 ? [] : index.withoutVector(model, dimensions)
      for (let at = 0; at < missing.length; at += vectorsAtATime) {
        if (at > 0) yield* pause
        const some = missing.slice(at, at + vectorsAtATime)
        const found = yield* vectorsOf(source, tenant, model, some.map(([, hash]) => hash))
        for (const [id, hash] of some) {
          const vector = found.get(hash)
          if (vector !== undefined) index.attach(model, id, hash, vector)
        }
      }
      cache.models.set(model, { version, added, dimensions })
      cache.weight = bytesOfRecord
      for (const { dimensions } of cache.models.values()) {
        cache.weight += dimensions * bytesOfNumber(dimensions * index.size)
      }
    }
  })

/** Number of vectors that are read between two pauses for the event loop. This is half a megabyte for 512 dimensions. */
const vectorsAtATime = 250
