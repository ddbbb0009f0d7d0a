/**
 * The engine in memory. It keeps rows and their revisions in maps, and makes an index for each tenant. A transaction is one synchronous
 * step, so no locks are needed, and no tenant waits for another. Exception: the writes of a long batch are computed in many steps, and
 * other fibers run in between. The last step checks that the rows that the batch has read are unchanged, and commits.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import type { MemoryError } from "../../domain/MemoryError.ts"
import type { MemoryId } from "../../domain/MemoryId.ts"
import type { MemoryKind } from "../../domain/MemoryKind.ts"
import type { MemoryRecord } from "../../domain/MemoryRecord.ts"
import * as MemoryScope from "../../domain/MemoryScope.ts"
import { pause } from "../../host/EventLoop.ts"
import type * as Analyzer from "../../ranking/Analyzer.ts"
import { TenantEmbeddings } from "../../ranking/VectorIndex.ts"
import * as ChangeFeed from "../ChangeFeed.ts"
import { defaultTrash, erasableAt, lifetimeOf, revisionsKept } from "../Revision.ts"
import * as TenantIndex from "../TenantIndex.ts"
import * as Vectors from "../Vectors.ts"
import * as Compaction from "./Compaction.ts"
import type { Decide, Decision, Engine, Found, Mark, Needs, Stored, Write } from "./EngineContract.ts"

/** Options of the engine in memory. */
export interface Options {
  readonly kinds: ReadonlyMap<string, MemoryKind>
  readonly analyzer: Analyzer.Service
  /** Shortest time for which a forgotten record can be restored, unless the record expires earlier. Default 30 days. */
  readonly trash?: Duration.DurationInput | undefined
}

interface Memory extends Omit<Options, "trash"> {
  /** Age from which tombstones are erased, in milliseconds. */
  readonly trash: number
  /** Revisions by tenant and id, newest first. Each id has at least one revision. A tenant without rows has no entry. */
  readonly revisions: Map<string, Map<MemoryId, ReadonlyArray<Stored>>>
  readonly tenantIndexes: Cache
  readonly due: Compaction.DueQueue
  readonly embeddings: TenantEmbeddings
  readonly changeFeed: ChangeFeed.ChangeFeed
}

/** Makes an engine without rows. Everything is lost when the process ends. */
export const make = ({ trash = defaultTrash, ...options }: Options): Engine => {
  const revisions: Memory["revisions"] = new Map()
  const memory: Memory = {
    ...options,
    trash: Duration.toMillis(trash),
    revisions,
    tenantIndexes: new Cache((tenant) => makeTenantIndex(memory, tenant)),
    // the time is compared, too, since a record that is put after a purge counts its revisions from 1 again
    due: Compaction.makeDueQueue(({ at, id, revision, tenant }) => {
      const row = rowIn(revisions, tenant, id)
      return row?.record.revision === revision && dueAt(memory, row) === at
    }),
    embeddings: new TenantEmbeddings(),
    changeFeed: ChangeFeed.make()
  }
  const { tenantIndexes } = memory
  const vectors = Vectors.ofBackend(
    Vectors.inMemory(memory.embeddings),
    tenantIndexes.of,
    Effect.sync(() => {
      for (const tenant of memory.embeddings.tenants) prune(memory, tenant)
    })
  )
  return {
    capabilities: { writable: true, durable: false, shared: false, history: true },
    read: (tenant, ids) => Effect.sync(() => ids.map((id) => Option.fromNullable(rowIn(revisions, tenant, id)))),
    revisions: (tenant, id, limit) => Effect.sync(() => revisions.get(tenant)?.get(id)?.slice(0, limit) ?? []),
    transact: (tenant, needs, decide) => transact(memory, tenant, needs, decide),
    ...TenantIndex.queries({
      tenantIndexOf: tenantIndexes.of,
      tenants: Stream.suspend(() => Stream.fromIterable(Array.from(revisions.keys()))),
      tombstones: (tenant, ids) =>
        Effect.sync(() =>
          ids === undefined
            ? tenantIndexes.get(tenant).tombstones()
            : Array.from(new Set(ids)).flatMap((id) => rowIn(revisions, tenant, id) ?? [])
        )
    }),
    tenantsWith: (scope) => tenantsWith(memory, MemoryScope.key(scope)),
    analyzer: Effect.succeed(undefined), // no terms are stored: this process computes the terms of each row
    reindex: () => Effect.void,
    due: (after, limit) => Effect.sync(() => memory.due.next(after, limit)),
    changes: memory.changeFeed.stream,
    vectors: {
      ...vectors,
      attach: (tenant, model, all) =>
        Effect.gen(function*() {
          // builds the table of texts in short steps, so that a later commit need not build the table in one long step
          yield* tenantIndexes.get(tenant).texts().prepared
          yield* vectors.attach(tenant, model, all)
          tenantIndexes.get(tenant).texts().build().attached(all.map(([hash]) => hash))
        })
    }
  }
}

/** Returns the time from which a row may be erased, in epoch milliseconds; `Infinity` if never. */
const dueAt = ({ trash }: Memory, row: Stored): number => erasableAt(lifetimeOf(row), trash)

const rowIn = (revisions: Memory["revisions"], tenant: string, id: MemoryId): Stored | undefined =>
  revisions.get(tenant)?.get(id)?.[0]

/** Makes the index of a tenant. If the tenant has vectors, also makes the table of texts, which finds orphaned vectors. */
const makeTenantIndex = (
  { analyzer, embeddings, kinds, revisions }: Memory,
  tenant: string
): TenantIndex.TenantIndex => {
  const vectors = embeddings.of(tenant)
  const tenantIndex = TenantIndex.make({ kinds, analyzer, embeddings: vectors })
  if (vectors.size > 0) tenantIndex.texts().build()
  for (const [id, [row]] of revisions.get(tenant) ?? []) tenantIndex.set(id, row)
  return tenantIndex
}

/** Finds the tenants that have a row in a scope. The rows of a small tenant are scanned, since its index would take longer to build. */
const tenantsWith = (memory: Memory, key: string): Stream.Stream<string> =>
  Stream.filterEffect(
    Stream.suspend(() => Stream.fromIterable(Array.from(memory.revisions.keys()))),
    (tenant) => {
      const large = memory.tenantIndexes.large(tenant)
      if (large !== undefined) return Effect.map(large.counts, (counts) => counts.has(key))
      return Effect.sync(() => {
        for (const [row] of memory.revisions.get(tenant)?.values() ?? []) {
          if (row !== undefined && !row.forgotten && MemoryScope.key(row.record.scope) === key) return true
        }
        return false
      })
    }
  )

const transact = <A>(
  memory: Memory,
  tenant: string,
  needs: Needs,
  decide: Decide<A>
): Effect.Effect<A, MemoryError> =>
  Effect.clockWith((clock) => {
    const { paced } = decide
    const attempt = (left: number): Effect.Effect<A, MemoryError> =>
      Effect.suspend(() => {
        const found = gather(memory, tenant, needs, clock.unsafeCurrentTimeMillis())
        if (paced === undefined || left === 0) {
          const decision = decide(found)
          return Either.isLeft(decision)
            ? Effect.fail(decision.left)
            : committed(memory, tenant, found, decision.right)
        }
        const mark = markOf(memory, tenant)
        return Effect.flatMap(Effect.zipLeft(paced(found), pause), (decision) =>
          isSameMark(mark, markOf(memory, tenant)) || isUnchanged(found, gather(memory, tenant, needs, found.now))
            ? Effect.zipLeft(committed(memory, tenant, found, decision), pause)
            : attempt(left - 1))
      })
    return attempt(pacedAttempts)
  })

/**
 * Number of attempts to compute the writes of a long batch in many steps. An attempt fails if another transaction changes rows of the
 * batch. If all attempts fail, the writes are computed in one step.
 */
const pacedAttempts = 3

const markOf = (memory: Memory, tenant: string): Mark => memory.tenantIndexes.get(tenant).changed(undefined).mark

/**
 * Whether no row of the tenant was written between two marks. Also false if the index was rebuilt in between, since the new index does not
 * know earlier writes.
 */
const isSameMark = (one: Mark, other: Mark): boolean => one.of === other.of && one.version === other.version

/** Whether the rows and keys of a transaction are unchanged. `found` was read at its start, `now` after the writes were computed. */
const isUnchanged = (found: Found, now: Found): boolean =>
  isSame(found.rows, now.rows, Object.is) &&
  isSame(found.byDedupeKey, now.byDedupeKey, isSameList) &&
  isSame(found.revisions, now.revisions, isSameList)

const isSame = <A>(one: ReadonlyMap<string, A>, other: ReadonlyMap<string, A>, equals: (a: A, b: A) => boolean) => {
  if (one.size !== other.size) return false
  for (const [key, value] of one) {
    const known = other.get(key)
    if (known === undefined || !equals(value, known)) return false
  }
  return true
}

const isSameList = (one: ReadonlyArray<unknown>, other: ReadonlyArray<unknown>): boolean =>
  one.length === other.length && one.every((value, n) => value === other[n])

/**
 * Commits a decision, notifies the listeners, and returns the answer. Commit and notification are one synchronous step, so no reader sees
 * the new rows before the notification.
 */
const committed = <A>(
  memory: Memory,
  tenant: string,
  { now, rows }: Found,
  { answer, isQuiet = false, writes }: Decision<A>
): Effect.Effect<A> => {
  if (writes.length > 0) commit(memory, tenant, writes)
  if (isQuiet || writes.length === 0 || !memory.changeFeed.hasSubscribers()) return Effect.succeed(answer)
  memory.changeFeed.unsafePublish(tenant, ChangeFeed.changesOf(rows, writes), now)
  return Effect.as(Effect.yieldNow(), answer) // lets listeners run before the next write
}

const gather = (memory: Memory, tenant: string, { dedupeKeys, ids, revisions }: Needs, now: number): Found => {
  const tenantIndex = dedupeKeys.length > 0 ? memory.tenantIndexes.get(tenant) : undefined
  const kept = memory.revisions.get(tenant)
  const rows = new Map<MemoryId, Stored>()
  const byDedupeKey = new Map<string, ReadonlyArray<MemoryRecord>>()
  for (const id of ids) {
    const row = kept?.get(id)?.[0]
    if (row !== undefined) rows.set(id, row)
  }
  for (const key of dedupeKeys) byDedupeKey.set(key, tenantIndex?.byDedupeKey(key, now, ids.length + 1) ?? [])
  return {
    now,
    rows,
    byDedupeKey,
    revisions: new Map(revisions.map((id) => [id, kept?.get(id) ?? []] as const))
  }
}

const commit = (memory: Memory, tenant: string, writes: ReadonlyArray<Write>): void => {
  const tenantIndex = memory.tenantIndexes.get(tenant)
  const revisions = memory.revisions.get(tenant) ?? new Map<MemoryId, ReadonlyArray<Stored>>()
  memory.revisions.set(tenant, revisions)
  let orphansVectors = false
  for (const { id, next } of writes) {
    const earlier = revisions.get(id)
    tenantIndex.set(id, next?.stored)
    if (next === undefined) {
      orphansVectors ||= earlier !== undefined && !MemoryScope.isInternal(earlier[0]!.record.scope) // `earlier` is never empty
      revisions.delete(id)
      continue
    }
    revisions.set(id, earlier === undefined ? [next.stored] : [next.stored, ...earlier.slice(0, revisionsKept - 1)])
    const at = dueAt(memory, next.stored)
    if (at !== Infinity) memory.due.add({ at, tenant, id, revision: next.stored.record.revision })
  }
  if (orphansVectors) sweep(memory, tenant, tenantIndex)
  memory.tenantIndexes.keep(tenant, tenantIndex, revisions.size)
  if (revisions.size === 0) memory.revisions.delete(tenant)
}

/** Erases a tenant's orphaned vectors, whose texts no record has any more. Cost: proportional to the number of erased vectors. */
const sweep = ({ embeddings }: Memory, tenant: string, tenantIndex: TenantIndex.TenantIndex): void => {
  if (embeddings.of(tenant).size > 0) tenantIndex.texts().build().erase()
}

/**
 * Erases a tenant's orphaned vectors, whose texts no record has any more. Skips the tenant if each model has at most twice as many vectors
 * as there are texts. Also skips a tenant without rows, since vectors may be added before the records.
 */
const prune = (memory: Memory, tenant: string): void => {
  if (!memory.revisions.has(tenant)) return
  const tenantIndex = memory.tenantIndexes.get(tenant)
  if (tenantIndex.texts().build().hasManyOrphans(memory.embeddings.of(tenant).size)) sweep(memory, tenant, tenantIndex)
}

/**
 * A cache of the tenants' indexes, for an engine that has all rows in memory. The cache evicts the least recently used indexes of tenants
 * with few rows and short texts. Many small tenants thus take little memory. An evicted index is built again when it is needed.
 */
export class Cache {
  readonly #make: (tenant: string) => TenantIndex.TenantIndex
  readonly #large = new Map<string, TenantIndex.TenantIndex>()
  /** Indexes of tenants with few rows, least recently used first. */
  readonly #small = new Map<string, TenantIndex.TenantIndex>()

  /** Makes an empty cache. `make` builds the index of a tenant from all of the tenant's rows. */
  constructor(make: (tenant: string) => TenantIndex.TenantIndex) {
    this.#make = make
  }

  /** Returns the index of a tenant, and builds it if it is not cached. The empty index of a tenant without rows is not cached. */
  get(tenant: string): TenantIndex.TenantIndex {
    const large = this.#large.get(tenant)
    if (large !== undefined) return large
    const small = this.#small.get(tenant)
    const tenantIndex = small ?? this.#make(tenant)
    this.keep(tenant, tenantIndex, small === undefined ? tenantIndex.size() + tenantIndex.tombstones().length : 1)
    return tenantIndex
  }

  readonly of = (tenant: string): Effect.Effect<TenantIndex.TenantIndex> => Effect.sync(() => this.get(tenant))

  /** Returns the index of a tenant if the cache counts it as large (many rows or long texts); `undefined` for other tenants. */
  large(tenant: string): TenantIndex.TenantIndex | undefined {
    return this.#large.get(tenant)
  }

  /**
   * Caches the index of a tenant that has `rows` rows, tombstones included. If `rows` is 0, removes the index from the cache. Then evicts
   * the least recently used small indexes, so that at most `maxSmallIndexes` are left.
   */
  keep(tenant: string, tenantIndex: TenantIndex.TenantIndex, rows: number): void {
    this.#small.delete(tenant)
    this.#large.delete(tenant)
    if (rows > maxSmallRows) this.#large.set(tenant, tenantIndex)
    else if (rows > 0) this.#small.set(tenant, tenantIndex)
    for (const [tenant, tenantIndex] of this.#small) {
      if (this.#small.size <= maxSmallIndexes) return
      this.#small.delete(tenant)
      let size = 0
      for (const { body } of tenantIndex.each()) size += body.length
      // an index of long texts is kept, since building it again would take too long
      if (size > maxSmallLength) this.#large.set(tenant, tenantIndex)
    }
  }
}

/** Largest number of rows of a small tenant. */
const maxSmallRows = 32
/** Largest total length of the bodies of a small tenant's records, in UTF-16 units. */
const maxSmallLength = 65_536

/** Largest number of small tenants whose indexes are cached. */
const maxSmallIndexes = 256
