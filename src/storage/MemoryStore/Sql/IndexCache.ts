/**
 * Keeps the indexes of partitions that were searched lately in memory, one index a tenant, so that only the first search reads all
 * words. Each partition has a version; before an index answers, it reads what any process wrote since.
 *
 * Beyond `capacity` the partitions that were asked for longest ago are dropped, except those that the search at hand needs.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { MemoryError } from "../../../domain/MemoryError.ts"
import * as Errors from "../../../domain/MemoryError.ts"
import type { MemoryId } from "../../../domain/MemoryId.ts"
import type { MemoryRecord } from "../../../domain/MemoryRecord.ts"
import { invalid } from "../../../domain/Validation.ts"
import type * as Viewer from "../../../domain/Viewer.ts"
import { turn } from "../../../host/EventLoop.ts"
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

/** Bytes as measured: of the words and outline of a record of 80 words, of an index without records, of a partition without any. */
const bytesOfRecord = 1_000
const bytesOfIndex = 30_000
const bytesOfPartition = 500
/** Returns the bytes of a number of a vector: few vectors are kept whole. */
const bytesOfNumber = (numbers: number): number => numbers < 262_144 ? 4 : 1.2
/** Number of rows that are read, and added, without a pause: about 10 ms. */
const stretch = 500

/** A partition that is held. */
interface Part {
  /** The version up to which it was read; 0: not to the end yet. */
  version: number
  /** Whether rows are being read into it: then it is kept. */
  isRead: boolean
  readonly ids: Set<MemoryId>
}

interface Held {
  readonly index: OutlineIndex
  readonly parts: Map<string, Part>
  /** Version and dimensions of each model's vectors, and the number of records that had come, when they were last looked up. */
  readonly models: Map<string, { readonly version: number; readonly added: number; readonly dimensions: number }>
  /** Number of records that ever came. */
  added: number
  /** Estimated bytes of a record with its vectors. */
  weight: number
}

/** The indexes that a process holds of a SQL database. */
export interface IndexCache {
  /**
   * Brings the partitions in sight up to date and asks their index. Reads the texts and vectors that the answer needs, and asks
   * again until none is missing. Fails with `invalid_draft` where the model's vectors have other dimensions. Cost: the rows that
   * were written since the last search of a partition, or all of its rows.
   */
  readonly ask: <A>(
    sight: Viewer.Sight,
    question: (index: OutlineIndex, texts: Texts, vectors: Vectors) => Answer<A>,
    embedding?: { readonly model: string; readonly dimensions: number }
  ) => Io<A>
  /** Returns the dimensions of a model's vectors when they were last looked up; 0: there were none. `undefined`: they never were. */
  readonly dimensions: (tenant: string, model: string) => number | undefined
  /** Reads rows by id, in their order, and keeps their texts for the searches that come. */
  readonly read: (tenant: string, ids: ReadonlyArray<MemoryId>) => Io<ReadonlyArray<Option.Option<Stored>>>
}

/**
 * Makes a cache of indexes. `capacity` is the bytes of all of them together, by estimate: above it, partitions are dropped until
 * nine tenths are in use. Texts take up to an eighth of it in addition.
 */
export const make = (database: Database, analyzer: Analyzer.Service, capacity: number): IndexCache => {
  let textCache = new TextCache(capacity / 8)
  /** History of the database that all held indexes belong to, once it is known. */
  let history: string | undefined
  const tenants = new Map<string, Held>()
  /** Partitions that were read, by tenant and name; those asked for last at the end: a Map keeps the order of insertion. */
  const used = new Map<string, readonly [tenant: string, partition: string]>()
  const locks = makeTenantLocks()
  const made = fingerprint(analyzer.index)

  const looks = new WeakMap<Viewer.Sight, Look>()

  /** Drops everything: versions of one history say nothing of another one. */
  const forget = () => {
    tenants.clear()
    used.clear()
    textCache = new TextCache(capacity / 8)
  }

  const held = (tenant: string): Held => {
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

  /** Drops the partitions that were asked for longest ago, except those that are asked for now. */
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
      tenants.delete(name) // the tenant of a viewer that sees nothing yet
      size -= bytesOfIndex
    }
    for (const [key, [owner, partition]] of used) {
      if (size <= 0.9 * capacity) return
      if (owner === tenant && wanted.has(partition)) continue
      const one = tenants.get(owner)
      const part = one?.parts.get(partition)
      if (part?.isRead === true) continue
      used.delete(key)
      if (one === undefined || part === undefined) continue
      size -= bytesOfPartition + part.ids.size * one.weight
      clear(one, part)
      one.parts.delete(partition)
      if (one.parts.size > 0) continue
      tenants.delete(owner)
      size -= bytesOfIndex
    }
  }

  /** Reads rows in sight that are not held, or were written since. */
  const bringUpToDate = (
    source: Reading,
    { tenant }: Viewer.Sight,
    { vectors, wanted }: PartitionVersions,
    model: string | undefined,
    one: Held
  ): Io<void> =>
    Effect.gen(function*() {
      for (const [partition, version] of wanted) {
        if (one.parts.get(partition)?.version === version) continue
        // another fiber that asks for the same waits until it is there
        yield* locks.withLock(`${tenant}\n${partition}`)(Effect.suspend(() => {
          const part = one.parts.get(partition) ?? { version: 0, isRead: false, ids: new Set() }
          one.parts.set(partition, part)
          if (part.version >= version) return Effect.void
          part.isRead = true
          return follow(source, tenant, partition, made, one, part).pipe(
            Effect.map(() => {
              part.version = version
            }),
            Effect.ensuring(Effect.sync(() => {
              part.isRead = false
            }))
          )
        }))
      }
      one.index.pack()
      // an empty sight tells nothing of the model
      if (model !== undefined && wanted.size > 0) {
        yield* locks.withLock(`${tenant}\n\n${model}`)(
          Effect.suspend(() => followModel(source, tenant, model, vectors, one))
        )
      }
      makeRoom(tenant, wanted)
    })

  /**
   * Whether all wanted partitions are there: while one fiber waits, another one may have dropped one to make room, or added records
   * whose vectors are not looked up yet.
   */
  const isThere = (tenant: string, one: Held, { wanted }: PartitionVersions, model: string | undefined): boolean =>
    tenants.get(tenant) === one &&
    (model === undefined || wanted.size === 0 || one.models.get(model)?.added === one.added) &&
    Array.from(wanted).every(([partition, version]) => (one.parts.get(partition)?.version ?? -1) >= version)

  /** Reads rows by id, and keeps their texts. */
  const rowsIn = ({ query }: Reading, tenant: string, ids: ReadonlyArray<MemoryId>) => {
    const cache = textCache // the cache of the history in which they are read
    return rowsOf(query, tenant, ids, ({ forgotten, record }, version, length) => {
      if (!forgotten) cache.add(tenant, version, record, length)
    })
  }

  const isOfNow = (versions: PartitionVersions): boolean => versions.history === history

  /** Returns the versions of the partitions in sight. All parts of one call, which has one `Visibility`, share them. */
  const look = (sight: Viewer.Sight, model: string | undefined): Io<Look> =>
    Effect.gen(function*() {
      const known = looks.get(sight)
      if (known !== undefined && (model === undefined || known.model === model) && isOfNow(known.versions)) return known
      const source = yield* database.reading
      const found = yield* versionsOf(source, sight, database.dialect.history, model)
      // an empty sight returns no row to tell the history
      const there = found.wanted.size === 0 ? yield* historyOf(source, database.dialect.history) : found.history
      const versions = { ...found, history: there ?? source.history ?? history }
      if (versions.history !== history) {
        forget()
        history = versions.history
      }
      const now = { source, versions, model }
      looks.set(sight, now)
      return now
    })

  return {
    read: (tenant, ids) =>
      Effect.map(
        Effect.flatMap(database.reading, (source) => rowsIn(source, tenant, ids)),
        (rows) => ids.map((id) => Option.fromNullable(rows.get(id)))
      ),
    dimensions: (tenant, model) => tenants.get(tenant)?.models.get(model)?.dimensions,
    ask: (sight, question, embedding) =>
      Effect.gen(function*() {
        const model = embedding?.model
        const texts = new Map<MemoryId, MemoryRecord | undefined>()
        const vectors = new Map<string, Float32Array | undefined>()
        for (;;) {
          const { source, versions } = yield* look(sight, model)
          const { dimensions } = versions.vectors
          if (embedding !== undefined && dimensions > 0 && dimensions !== embedding.dimensions) {
            // a replica may be behind
            const now = yield* dimensionsOf(database, sight.tenant, embedding.model)
            if (now === dimensions) return yield* invalid("search", `embedding.vector: expected ${now} dimensions`)
          }
          if (!isOfNow(versions)) continue
          const one = held(sight.tenant) // one step with the look at the history, so that held rows are of the same one
          yield* bringUpToDate(source, sight, versions, model, one)
          if (!isThere(sight.tenant, one, versions, model)) continue
          // one step with the check that all is there
          const answer = question(one.index, texts, vectors)
          if (answer._tag === "Answered") return answer.answer
          const rows = yield* rowsIn(source, sight.tenant, answer.ids)
          for (const id of answer.ids) texts.set(id, rows.get(id)?.record)
          const found = yield* vectorsOf(source, sight.tenant, model ?? "", answer.hashes)
          for (const hash of answer.hashes) vectors.set(hash, found.get(hash))
        }
      })
  }
}

/** The source of a call's reads, and the versions that it goes by. */
interface Look {
  /** Database that the whole call reads: a replica may lack what the versions of the primary promise. */
  readonly source: Reading
  readonly versions: PartitionVersions
  readonly model: string | undefined
}

/** Removes the records of a partition. */
const clear = ({ index }: Held, { ids }: Part): void => {
  for (const id of ids) index.remove(id)
  ids.clear()
}

/**
 * Reads the rows that were written or erased since the version of a partition; 0: all. Fails with `unsupported` where its words
 * are those of another analyzer: making an index again raises all versions.
 */
const follow = (
  { query }: Reading,
  tenant: string,
  partition: string,
  analyzer: string,
  one: Held,
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
      // one statement: notes of erasures are complete above this floor only
      const gone = yield* query(
        `SELECT p.floor, g.id FROM memory_partitions AS p
         LEFT JOIN memory_gone AS g ON g.tenant = p.tenant AND g.partition = p.partition AND g.version > ?
         WHERE p.tenant = ? AND p.partition = ?`,
        [part.version, text(tenant), partition]
      )
      // notes of erasures below the floor are gone, or words were counted by another analyzer
      if (Number(gone[0]?.[0] ?? Infinity) > part.version) part.version = 0
      // erasures come before rows: an id that was erased may have been put again, here or into another partition
      else for (const [, id] of gone) if (id !== null && part.ids.delete(idOf(id))) one.index.remove(idOf(id))
    }
    if (part.version === 0) clear(one, part) // also removes what a reading that broke off has left
    let [version, last] = [part.version + 1, ""]
    for (;;) {
      const rows = yield* query(
        `SELECT version, id, entry FROM memory_records WHERE tenant = ? AND partition = ? AND (version, id) > (?, ?)
         ORDER BY version, id LIMIT ?`,
        [text(tenant), partition, version, last, stretch]
      )
      yield* Effect.try({
        try: () => {
          for (const [version, id, entry] of rows) take(one, part, idOf(id), String(entry), Number(version))
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
      yield* turn
    }
  })

/** Adds a row to a partition; an empty entry is that of a tombstone. */
const take = (one: Held, part: Part, id: MemoryId, entry: string, version: number): void => {
  if (!part.ids.has(id) && one.index.has(id)) {
    // erased there, and put here; or the other way round, where these rows are older: then they are read again
    for (const other of one.parts.values()) if (other.ids.delete(id)) other.version = 0
  }
  if (entry === "") {
    part.ids.delete(id)
    one.index.remove(id)
    return
  }
  part.ids.add(one.index.add(entry, version)) // one string for both
  one.added++
}

/**
 * Looks up the vectors of a model for those records that have none here, if any may have come. One fiber at a time does so for a
 * model, since each begins with what the one before it has left.
 */
const followModel = (
  source: Reading,
  tenant: string,
  model: string,
  now: PartitionVersions["vectors"],
  one: Held
): Io<void> =>
  Effect.gen(function*() {
    const { index } = one
    for (;;) {
      const { added } = one
      const known = one.models.get(model)
      if (known !== undefined && known.version >= now.version && known.added === added) return
      // another fiber, or a replica, may have read an older version than the one that is held
      const { dimensions, version } = known === undefined || now.version > known.version ? now : known
      if (index.dimensions(model) !== dimensions) index.detach(model)
      const lacking = dimensions === 0 ? [] : index.lacking(model, dimensions)
      for (let at = 0; at < lacking.length; at += vectorsAtATime) {
        if (at > 0) yield* turn
        const some = lacking.slice(at, at + vectorsAtATime)
        const found = yield* vectorsOf(source, tenant, model, some.map(([, hash]) => hash))
        for (const [id, hash] of some) {
          const vector = found.get(hash)
          if (vector !== undefined) index.attach(model, id, hash, vector)
        }
      }
      one.models.set(model, { version, added, dimensions })
      one.weight = bytesOfRecord
      for (const { dimensions } of one.models.values()) {
        one.weight += dimensions * bytesOfNumber(dimensions * index.size)
      }
    }
  })

/** Number of vectors that are looked up between two pauses: half a MB of 512 dimensions. */
const vectorsAtATime = 250
