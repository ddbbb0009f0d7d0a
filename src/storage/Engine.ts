/**
 * Makes the engine of a store, the part that keeps and reads rows. An engine is made from `Primitives`: functions that read, scan and
 * commit rows. The engine answers queries from one index per tenant, in RAM. A backend may provide this index. Otherwise the engine builds
 * the index by a scan. The engine then updates it at each commit, or builds a new index for each call if other processes also write.
 */
import * as Chunk from "effect/Chunk"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import * as MemoryError from "../domain/MemoryError.ts"
import type { MemoryId } from "../domain/MemoryId.ts"
import * as MemoryKind from "../domain/MemoryKind.ts"
import type { StoreChange } from "../domain/MemoryMutation.ts"
import * as MemoryScope from "../domain/MemoryScope.ts"
import type * as Viewer from "../domain/Viewer.ts"
import type { MemoryTool } from "../host/MemoryTool.ts"
import * as Analyzer from "../ranking/Analyzer.ts"
import * as ChangeFeed from "./ChangeFeed.ts"
import { byTime, dueAfter, lifetimesOf } from "./internal/Compaction.ts"
import type {
  Capabilities,
  Decide,
  Due,
  Engine,
  Found,
  Ingest,
  Needs,
  Stored,
  Usage,
  Write
} from "./internal/EngineContract.ts"
import { defaultTrash, erasableAt, type Lifetime, revisionsKept } from "./Revision.ts"
import * as TenantIndex from "./TenantIndex.ts"
import * as Vectors from "./Vectors.ts"
import type { VectorBackend } from "./Vectors.ts"

/** The types of the engine's contract, such as `Engine`, `Stored` and `Needs`. */
export type * from "./internal/EngineContract.ts"

/** A write of one row. The record `id` must have this `revision` (0: it has no row yet). `next` replaces the row of the record. */
export interface RowWrite {
  readonly revision: number
  readonly id: MemoryId
  /** The row to write; `undefined` erases the record with its revisions. */
  readonly next: Stored | undefined
  /** Whether the write fails with `conflict` if another live row has the same dedupe key. True if the draft had no id. Default false. */
  readonly unique?: boolean | undefined
}
/** The operations of a backend, required and optional. A record's id is unique within its tenant. */
export interface Primitives {
  /** Features of the store. By default, it accepts writes, and is neither durable nor shared. */
  readonly capabilities?: Partial<Capabilities> | undefined
  readonly read: (
    tenant: string,
    ids: ReadonlyArray<MemoryId>
  ) => Effect.Effect<ReadonlyArray<Option.Option<Stored>>, MemoryError.MemoryError>
  readonly tenants: Effect.Effect<ReadonlyArray<string>, MemoryError.MemoryError>
  /** Streams every row of the tenant, in any order. Without `tenantIndex`, the index for `list` and `search` is built from these rows. */
  readonly scan: (tenant: string) => Stream.Stream<Stored, MemoryError.MemoryError>
  /** Streams every tombstone, in any order. Default: the tombstones are taken from `scan`. */
  readonly tombstones?: ((tenant: string) => Stream.Stream<Stored, MemoryError.MemoryError>) | undefined
  /**
   * Returns the lifetimes of all tombstones (rows of forgotten records) and of all rows that expire, in any order. A tombstone is left out
   * if it is not the newest revision of its record. Each compaction calls this function. Default: computed from `scan`.
   */
  readonly lifetimes?: ((tenant: string) => Effect.Effect<ReadonlyArray<Lifetime>, MemoryError.MemoryError>) | undefined
  /**
   * Least time for which a forgotten record can be restored. Default 30 days. Compaction erases older tombstones (rows of forgotten
   * records): all if the time is zero, none if it is infinite. Expired rows are erased in any case.
   */
  readonly trash?: Duration.DurationInput | undefined
  /**
   * Commits all writes or none. Called right after the rows were read. Without `inTurn`, one call per tenant runs at a time. A `shared`
   * backend without `exclusive` must fail with `conflict` in two cases: a revision has changed, or another live row has the dedupe key of a
   * `unique` write. The engine then reads and decides again.
   */
  readonly commit: (tenant: string, writes: ReadonlyArray<RowWrite>) => Effect.Effect<void, MemoryError.MemoryError>
  /** Runs an effect that reads and commits. No other process may write meanwhile, so `read` and `tenantIndex` stay up to date. */
  readonly exclusive?:
    | (<A>(self: Effect.Effect<A, MemoryError.MemoryError>) => Effect.Effect<A, MemoryError.MemoryError>)
    | undefined
  /**
   * Runs a batch (`self`) while no other process writes. Replaces `exclusive`, except to erase vectors. Batches run one after another, also
   * those of different tenants. Exception: while a batch waits in `commit` for the disk, batches that need none of its records and keys may
   * run. One disk flush then serves several batches (group commit). Code after a `commit` runs in the order of the commits.
   */
  readonly inTurn?:
    | (<A>(
      tenant: string,
      about: Needs,
      self: Effect.Effect<A, MemoryError.MemoryError>
    ) => Effect.Effect<A, MemoryError.MemoryError>)
    | undefined
  /** Returns the tenant's index, which the backend keeps up to date. Default: an index of the rows from `scan`. */
  readonly tenantIndex?:
    | ((tenant: string) => Effect.Effect<TenantIndex.TenantIndex, MemoryError.MemoryError>)
    | undefined
  /** Returns up to `limit` revisions, newest first, with tombstones. Without this function, the capability `history` is false. */
  readonly revisions?:
    | ((tenant: string, id: MemoryId, limit: number) => Effect.Effect<ReadonlyArray<Stored>, MemoryError.MemoryError>)
    | undefined
  /** Runs before each call that `Activity` counts. A backend that has stopped polling can then read missed changes. Default: nothing. */
  readonly ready?: Effect.Effect<void> | undefined
  /**
   * Streams changes that are made outside this store, if the viewer may see them. The viewer `System` also gets errors about unreadable
   * sources, such as a broken file. The store adds its own changes. `MemoryStore.changeFeed` makes a feed whose method `of` is such a
   * function.
   */
  readonly outside?: ((viewer: Viewer.Any) => Stream.Stream<StoreChange, MemoryError.MemoryError>) | undefined
  /** The backend for vectors; `vectorsInMemory()` keeps them in this process. Default: no vectors. */
  readonly vectorBackend?: VectorBackend | undefined
  /**
   * Key with which the store's `sign` signs: at least 256 random bits, stored with the rows. A durable or shared store must have a key.
   * Default for other stores: a random key, which is lost when the process ends.
   */
  readonly secret?: string | undefined
  /** The table of use counts (how often and when each record was used). Default: kept in this process. */
  readonly usage?: Usage | undefined
  readonly ingest?: Ingest | undefined
  readonly tools?: ((viewer: Viewer.Viewer) => ReadonlyArray<MemoryTool>) | undefined
}

type Io<A> = Effect.Effect<A, MemoryError.MemoryError>

/** Number of attempts to run a batch. An attempt fails if another process commits first. If all fail, the error is `unavailable`. */
const attempts = 50

/** The state of an engine made from primitives: the primitives, and the caches of this process. */
interface Source {
  readonly name: string
  readonly primitives: Primitives
  readonly kinds: ReadonlyMap<string, MemoryKind.MemoryKind>
  readonly analyzer: Analyzer.Service
  /** Whether other processes may write without notifying this one. */
  readonly isShared: boolean
  /** Age from which tombstones are erased, in milliseconds. */
  readonly trash: number
  readonly locks: TenantLocks
  readonly changeFeed: ChangeFeed.ChangeFeed
  readonly tenantIndexes: Map<string, TenantIndex.TenantIndex>
  /** Tenants that may have vectors of erased texts. The function `sweep` erases these vectors. */
  readonly tenantsWithOrphans: Set<string>
}

/** Makes an engine from `Primitives`, with the configured kinds and analyzer. `name` is used in errors. */
export const fromRows = (name: string, primitives: Primitives): Effect.Effect<Engine> =>
  Effect.gen(function*() {
    return make(name, primitives, { kinds: yield* MemoryKind.registered, analyzer: yield* Analyzer.Analyzer })
  })

const make = (name: string, primitives: Primitives, options: Pick<Source, "kinds" | "analyzer">): Engine => {
  const { capabilities, vectorBackend } = primitives
  const source: Source = {
    ...options,
    name,
    primitives,
    isShared: capabilities?.shared ?? false,
    trash: Duration.toMillis(primitives.trash ?? defaultTrash),
    locks: makeTenantLocks(),
    changeFeed: ChangeFeed.make(),
    tenantIndexes: new Map(),
    tenantsWithOrphans: new Set()
  }
  const tenantIndexOf = (tenant: string) => tenantIndexForRead(source, tenant)
  return {
    capabilities: {
      writable: capabilities?.writable ?? true,
      durable: capabilities?.durable ?? false,
      shared: source.isShared,
      history: primitives.revisions !== undefined
    },
    read: primitives.read,
    revisions: (tenant, id, limit) => revisions(source, tenant, id, limit),
    transact: (tenant, needs, decide) => transact(source, tenant, needs, decide),
    ...TenantIndex.queries({
      tenantIndexOf,
      tenants: Stream.fromIterableEffect(primitives.tenants),
      tombstones: (tenant, ids) => tombstones(source, tenant, ids)
    }),
    ...(source.isShared && primitives.tenantIndex === undefined && { changed: undefined }), // a new index per call has no list of changes
    analyzer: Effect.succeed(undefined), // no terms are stored: this process computes the terms of each row
    reindex: () => Effect.void,
    due: (after, limit) => due(source, after, limit),
    changes: source.changeFeed.stream,
    vectors: vectorBackend && Vectors.ofBackend(
      vectorBackend,
      tenantIndexOf,
      prune(source)
    ),
    secret: primitives.secret,
    ready: primitives.ready
  }
}

const scanned = ({ analyzer, kinds, primitives }: Source, tenant: string): Io<TenantIndex.TenantIndex> =>
  Effect.suspend(() => {
    const tenantIndex = TenantIndex.make({ kinds, analyzer, embeddings: primitives.vectorBackend?.embeddings(tenant) })
    return Effect.as(
      Stream.runForEach(primitives.scan(tenant), (row) => Effect.sync(() => tenantIndex.set(row.record.id, row))),
      tenantIndex
    )
  })

/** Returns the index of a tenant. Building an index that is kept needs the tenant's lock: the scan could miss a concurrent commit. */
const tenantIndexOf = (source: Source, tenant: string): Io<TenantIndex.TenantIndex> => {
  const { tenantIndexes, isShared, primitives } = source
  if (primitives.tenantIndex) return primitives.tenantIndex(tenant)
  if (isShared) return scanned(source, tenant)
  const known = tenantIndexes.get(tenant)
  return known
    ? Effect.succeed(known)
    : Effect.tap(scanned(source, tenant), (tenantIndex) =>
      Effect.sync(() => {
        if (tenantIndex.size() > 0) tenantIndexes.set(tenant, tenantIndex) // an empty index is not kept, since callers can name any tenant
      }))
}

/** Returns the index of a tenant. The caller must not hold the tenant's lock, which is taken to build the index. */
const tenantIndexForRead = (source: Source, tenant: string): Io<TenantIndex.TenantIndex> =>
  Effect.suspend(() =>
    source.tenantIndexes.has(tenant) || source.primitives.tenantIndex || source.isShared
      ? tenantIndexOf(source, tenant)
      : source.locks.withLock(tenant)(Effect.suspend(() => tenantIndexOf(source, tenant)))
  )

const revisions = ({ primitives }: Source, tenant: string, id: MemoryId, limit: number): Io<ReadonlyArray<Stored>> =>
  primitives.revisions
    ? primitives.revisions(tenant, id, limit)
    : Effect.map(primitives.read(tenant, [id]), (rows) => rows.flatMap(Option.toArray))

const tombstones = (
  source: Source,
  tenant: string,
  ids: ReadonlyArray<MemoryId> | undefined
): Io<ReadonlyArray<Stored>> => {
  const { primitives } = source
  if (ids !== undefined) {
    return Effect.map(
      primitives.read(tenant, Array.from(new Set(ids))),
      (rows) => rows.flatMap(Option.toArray)
    )
  }
  if (primitives.tombstones === undefined && primitives.tenantIndex === undefined) {
    return Effect.map(tenantIndexForRead(source, tenant), (tenantIndex) => tenantIndex.tombstones())
  }
  const all = primitives.tombstones ??
    ((tenant) => Stream.filter(primitives.scan(tenant), ({ forgotten }) => forgotten))
  return Effect.map(Stream.runCollect(all(tenant)), Chunk.toReadonlyArray)
}

const exclusive = <A>({ locks, primitives }: Source, tenant: string, self: Io<A>): Io<A> =>
  locks.withLock(tenant)(primitives.exclusive ? primitives.exclusive(self) : self)

const transact = <A>(source: Source, tenant: string, needs: Needs, decide: Decide<A>): Io<A> =>
  Effect.gen(function*() {
    const run = attempt(source, tenant, needs, decide)
    const once = source.primitives.inTurn?.(tenant, needs, run) ?? exclusive(source, tenant, run)
    for (let left = attempts; left > 0; left--) {
      const answer = yield* once
      if (Option.isSome(answer)) return answer.value
    }
    return yield* MemoryError.make("unavailable", {
      op: "commit",
      message: `${source.name}: other writers were first, ${attempts} times`
    })
  })

/** Runs a batch once. Returns `None` if another process committed first. */
const attempt = <A>(
  source: Source,
  tenant: string,
  needs: Needs,
  decide: Decide<A>
): Io<Option.Option<A>> =>
  Effect.gen(function*() {
    const found = yield* gather(source, tenant, needs)
    const { answer, isQuiet = false, writes } = yield* (decide.paced ?? decide)(found)
    if (writes.length === 0) return Option.some(answer)
    return yield* commit(source, tenant, found, writes, isQuiet).pipe(
      Effect.as(Option.some(answer)),
      MemoryError.catchReason("conflict", () => Effect.succeedNone)
    )
  })

const gather = (source: Source, tenant: string, { dedupeKeys, ids, revisions: past }: Needs): Io<Found> =>
  Effect.gen(function*() {
    const tenantIndex = dedupeKeys.length > 0 ? yield* tenantIndexOf(source, tenant) : undefined
    if (tenantIndex !== undefined) yield* tenantIndex.dedupePrepared
    const read = yield* source.primitives.read(tenant, ids)
    const rows = new Map(read.flatMap((row, n) => Option.isSome(row) ? [[ids[n]!, row.value] as const] : []))
    const kept = yield* Effect.forEach(
      past.filter((id) => rows.has(id)),
      (id) => Effect.map(revisions(source, tenant, id, revisionsKept), (all) => [id, all] as const)
    )
    const now = yield* Clock.currentTimeMillis
    const live = dedupeKeys.map((key) => [key, tenantIndex?.byDedupeKey(key, now, ids.length + 1) ?? []] as const)
    return { now, rows, byDedupeKey: new Map(live), revisions: new Map(kept) }
  })

const commit = (source: Source, tenant: string, { rows }: Found, writes: ReadonlyArray<Write>, isQuiet: boolean) =>
  Effect.gen(function*() {
    yield* source.primitives.commit(tenant, rowWritesOf(rows, writes))
    const tenantIndex = source.tenantIndexes.get(tenant)
    for (const { id, next } of writes) tenantIndex?.set(id, next?.stored)
    const orphansVectors = writes.some(({ id, next }) => {
      const scope = rows.get(id)?.record.scope
      return next === undefined && !(scope && MemoryScope.isInternal(scope)) // the library's own rows have no vectors
    })
    if (orphansVectors) source.tenantsWithOrphans.add(tenant)
    yield* sweep(source, tenant)
    if (!isQuiet) yield* source.changeFeed.publish(tenant, ChangeFeed.changesOf(rows, writes))
  }).pipe(Effect.uninterruptible)

/** Converts writes for a backend. Adds to each write the revision that the write replaces. */
const rowWritesOf = (rows: ReadonlyMap<MemoryId, Stored>, writes: ReadonlyArray<Write>): ReadonlyArray<RowWrite> => {
  const current = new Map<MemoryId, number>()
  return writes.map(({ id, isUnique, next }) => {
    const revision = current.get(id) ?? rows.get(id)?.record.revision ?? 0
    current.set(id, next?.stored.record.revision ?? 0)
    return { id, revision, next: next?.stored, unique: isUnique }
  })
}

/** Erases the vectors of texts that no record has. The caller must hold the tenant's lock, or run within `inTurn`. */
const sweep = (source: Source, tenant: string): Effect.Effect<void> =>
  Effect.suspend(() => {
    const { primitives: { vectorBackend }, tenantsWithOrphans: unswept } = source
    if (vectorBackend === undefined || !unswept.has(tenant)) return Effect.void
    return tenantIndexOf(source, tenant).pipe(
      Effect.flatMap((tenantIndex) => tenantIndex.texts().prepared),
      Effect.flatMap((texts) => vectorBackend.retain(tenant, texts)),
      Effect.tap(() => Effect.sync(() => unswept.delete(tenant))),
      Effect.catchAll((error) => Effect.logWarning("vectors of erased texts could not be removed", error))
    )
  })

const prune = (source: Source): Io<void> =>
  Effect.gen(function*() {
    for (const tenant of yield* source.primitives.tenants) {
      const size = source.primitives.vectorBackend?.embeddings(tenant).size ?? 0
      if (size === 0) continue
      const tenantIndex = yield* tenantIndexForRead(source, tenant)
      const texts = yield* tenantIndex.texts().prepared
      if (texts.hasManyOrphans(size)) source.tenantsWithOrphans.add(tenant)
    }
    for (const tenant of Array.from(source.tenantsWithOrphans)) {
      yield* exclusive(source, tenant, sweep(source, tenant))
    }
  })

/** Finds the rows that compaction may erase, now or later. Without the primitive `lifetimes`, all rows are read. */
const due = (source: Source, after: Due | undefined, limit: number): Io<ReadonlyArray<Due>> =>
  Effect.gen(function*() {
    const found: Array<Due> = []
    for (const tenant of yield* source.primitives.tenants) {
      const lifetimes = yield* source.primitives.lifetimes?.(tenant) ?? scannedLifetimes(source, tenant)
      for (const lifetime of lifetimes) {
        const at = erasableAt(lifetime, source.trash)
        const { id, revision } = lifetime
        if (at !== Infinity) found.push({ at, tenant, id, revision })
      }
    }
    return dueAfter(found.sort(byTime), after, limit)
  })

const scannedLifetimes = (source: Source, tenant: string): Io<ReadonlyArray<Lifetime>> => {
  const { primitives, trash } = source
  const newest = (id: MemoryId) => Effect.map(revisions(source, tenant, id, 1), ([row]) => row)
  return lifetimesOf(primitives.scan(tenant), trash, primitives.revisions && newest)
}

/** One lock for each tenant, so that a writer waits only for other writers of the same tenant. */
export interface TenantLocks {
  /** Runs an effect while no other effect runs under the lock of the tenant. Waiting effects may run in another order than they came. */
  readonly withLock: (tenant: string) => <A, E, R>(self: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
}

/** Makes the locks. The lock of a tenant takes memory only while a writer holds or awaits the lock. */
export const makeTenantLocks = (): TenantLocks => {
  const locks = new Map<string, { readonly semaphore: Effect.Semaphore; users: number }>()
  return {
    withLock: (tenant) => (self) =>
      Effect.acquireUseRelease(
        Effect.sync(() => {
          const lock = locks.get(tenant) ?? { semaphore: Effect.unsafeMakeSemaphore(1), users: 0 }
          lock.users += 1
          locks.set(tenant, lock)
          return lock
        }),
        ({ semaphore }) => semaphore.withPermits(1)(self),
        (lock) =>
          Effect.sync(() => {
            lock.users -= 1
            if (lock.users === 0) locks.delete(tenant)
          })
      )
  }
}
