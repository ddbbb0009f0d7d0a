/**
 * The contract of every store's backend (`internal/EngineContract.ts`), and an engine over `Primitives`: rows that can be read,
 * scanned and committed, and nothing else. Such an engine looks things up in an index of the tenant: the backend's own, one made of
 * a scan and kept current by our commits, or, where others write as well, one that is scanned for each call.
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

/** The engine's contract: `Engine`, `Stored`, `Needs` and the rest. */
export type * from "./internal/EngineContract.ts"

/** One row of a batch, decided by `make`: write `next` if the record stands at `revision` (0 = is not there). */
export interface RowWrite {
  readonly revision: number
  readonly id: MemoryId
  /** The row to write; `undefined` erases the record with its revisions. */
  readonly next: Stored | undefined
  /** Whether no other live row may have the dedupe key of `next`, whose id is a minted one. Default false. */
  readonly unique?: boolean | undefined
}
/** The operations that a backend has to provide, and those it may. Ids are unique per tenant. */
export interface Primitives {
  /** Default: `writable`, and nothing else. */
  readonly capabilities?: Partial<Capabilities> | undefined
  readonly read: (
    tenant: string,
    ids: ReadonlyArray<MemoryId>
  ) => Effect.Effect<ReadonlyArray<Option.Option<Stored>>, MemoryError.MemoryError>
  readonly tenants: Effect.Effect<ReadonlyArray<string>, MemoryError.MemoryError>
  /** Streams every row, in any order: `list`, `search` and the index are derived from it. */
  readonly scan: (tenant: string) => Stream.Stream<Stored, MemoryError.MemoryError>
  /** Streams every tombstone, in any order. Default: those of `scan`. */
  readonly tombstones?: ((tenant: string) => Stream.Stream<Stored, MemoryError.MemoryError>) | undefined
  /**
   * Returns the rows of a tenant that expire, and its tombstones, in any order; a tombstone counts only as the newest of `revisions`.
   * Compaction asks for them, the first time when the store is made. Default: those of `scan`.
   */
  readonly lifetimes?: ((tenant: string) => Effect.Effect<ReadonlyArray<Lifetime>, MemoryError.MemoryError>) | undefined
  /**
   * Time that a forgotten record can be restored, at least: compaction erases tombstones that are older. Zero: the next
   * compaction erases them. Infinite: none does. Expired rows are erased without it. Default 30 days.
   */
  readonly trash?: Duration.DurationInput | undefined
  /**
   * Commits all writes or none. `make` calls it from one fiber of a tenant at a time, with revisions just read. A `shared` store that
   * has no `exclusive` answers `conflict` where a revision has moved on or a `unique` key is taken, and `make` reads again.
   */
  readonly commit: (tenant: string, writes: ReadonlyArray<RowWrite>) => Effect.Effect<void, MemoryError.MemoryError>
  /** Runs a read and its commit with every other process shut out; inside, `read` and `tenantIndex` are current. */
  readonly exclusive?:
    | (<A>(self: Effect.Effect<A, MemoryError.MemoryError>) => Effect.Effect<A, MemoryError.MemoryError>)
    | undefined
  /**
   * Runs a batch instead of `exclusive`, by itself like that, and of all tenants one at a time. While its `commit` waits for
   * the disk, others may run that are about other records and keys, so that one wait is enough for all of them; what follows
   * a commit runs in the order of the commits.
   */
  readonly inTurn?:
    | (<A>(
      tenant: string,
      about: Needs,
      self: Effect.Effect<A, MemoryError.MemoryError>
    ) => Effect.Effect<A, MemoryError.MemoryError>)
    | undefined
  /** The tenant index that the backend keeps in memory anyway, always current. Default: made of `scan`, kept current by our commits. */
  readonly tenantIndex?:
    | ((tenant: string) => Effect.Effect<TenantIndex.TenantIndex, MemoryError.MemoryError>)
    | undefined
  /** Returns up to `limit` revisions, newest first, tombstones included. Default: the current one, and the store has no `history`. */
  readonly revisions?:
    | ((tenant: string, id: MemoryId, limit: number) => Effect.Effect<ReadonlyArray<Stored>, MemoryError.MemoryError>)
    | undefined
  /** Runs before each call, so that a backend that stopped polling can catch up. Default: nothing. */
  readonly ready?: Effect.Effect<void> | undefined
  /**
   * Streams edits from outside this store that the viewer may see, and to `System` also places that could not be read. The
   * store adds its own writes. `changeFeed` makes such streams; it buffers for each viewer only the changes that it sees.
   */
  readonly outside?: ((viewer: Viewer.Any) => Stream.Stream<StoreChange, MemoryError.MemoryError>) | undefined
  /** The store of vectors; `vectorsInMemory()` keeps them in this process. Default: no vectors. */
  readonly vectorBackend?: VectorBackend | undefined
  /**
   * Key of `sign`: at least 256 random bits, kept where the rows are. `make` refuses a durable or shared store without one.
   * Default: drawn from `SecureRandom` when the store is made, so it ends with the process.
   */
  readonly secret?: string | undefined
  /** The counts of uses. Default: in this process. */
  readonly usage?: Usage | undefined
  readonly ingest?: Ingest | undefined
  readonly tools?: ((viewer: Viewer.Viewer) => ReadonlyArray<MemoryTool>) | undefined
}

type Io<A> = Effect.Effect<A, MemoryError.MemoryError>

/** Number of times a batch is tried before it fails with `unavailable` because other processes were first. */
const attempts = 50

/** The rows, and what this process knows of them. */
interface Source {
  readonly name: string
  readonly primitives: Primitives
  readonly kinds: ReadonlyMap<string, MemoryKind.MemoryKind>
  readonly analyzer: Analyzer.Service
  /** Whether others write as well without telling us. */
  readonly isShared: boolean
  /** Age from which tombstones are erased, in milliseconds. */
  readonly trash: number
  readonly locks: TenantLocks
  readonly changeFeed: ChangeFeed.ChangeFeed
  readonly tenantIndexes: Map<string, TenantIndex.TenantIndex>
  /** Tenants with vectors of texts that were erased. */
  readonly unswept: Set<string>
}

/**
 * Makes an engine of rows that can be read, scanned and committed, with the kinds and the analyzer in force. Its errors call it `name`.
 */
export const fromRows = (name: string, primitives: Primitives): Effect.Effect<Engine> =>
  Effect.gen(function*() {
    return make(name, primitives, { kinds: yield* MemoryKind.Kinds, analyzer: yield* Analyzer.Analyzer })
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
    unswept: new Set()
  }
  const tenantIndexOf = (tenant: string) => catalogBeside(source, tenant)
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
    ...(source.isShared && primitives.tenantIndex === undefined && { changed: undefined }), // a tenant index for each call
    analyzer: Effect.succeed(undefined), // the words of each row are read in this process, by the analyzer in force
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

/** Returns the index of a tenant. Its caller holds the tenant's lock: a scan beside a commit would miss it. */
const tenantIndexOf = (source: Source, tenant: string): Io<TenantIndex.TenantIndex> => {
  const { tenantIndexes, isShared, primitives } = source
  if (primitives.tenantIndex) return primitives.tenantIndex(tenant)
  if (isShared) return scanned(source, tenant)
  const known = tenantIndexes.get(tenant)
  return known
    ? Effect.succeed(known)
    : Effect.tap(scanned(source, tenant), (tenantIndex) =>
      Effect.sync(() => {
        if (tenantIndex.size() > 0) tenantIndexes.set(tenant, tenantIndex) // an empty one is not kept: callers could ask for any number of tenants
      }))
}

/** Returns the index of a tenant, for a reader. */
const catalogBeside = (source: Source, tenant: string): Io<TenantIndex.TenantIndex> =>
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
    return Effect.map(catalogBeside(source, tenant), (tenantIndex) => tenantIndex.tombstones())
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

/** Runs a batch once; `None` where another process was first. */
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
    if (tenantIndex !== undefined) yield* tenantIndex.held
    const read = yield* source.primitives.read(tenant, ids)
    const rows = new Map(read.flatMap((row, n) => Option.isSome(row) ? [[ids[n]!, row.value] as const] : []))
    const kept = yield* Effect.forEach(
      past.filter((id) => rows.has(id)),
      (id) => Effect.map(revisions(source, tenant, id, revisionsKept), (all) => [id, all] as const)
    )
    const now = yield* Clock.currentTimeMillis
    const holders = dedupeKeys.map((key) => [key, tenantIndex?.holders(key, now, ids.length + 1) ?? []] as const)
    return { now, rows, holders: new Map(holders), revisions: new Map(kept) }
  })

const commit = (source: Source, tenant: string, { rows }: Found, writes: ReadonlyArray<Write>, isQuiet: boolean) =>
  Effect.gen(function*() {
    yield* source.primitives.commit(tenant, stepsOf(rows, writes))
    const tenantIndex = source.tenantIndexes.get(tenant)
    for (const { id, next } of writes) tenantIndex?.set(id, next?.stored)
    const litters = writes.some(({ id, next }) => {
      const scope = rows.get(id)?.record.scope
      return next === undefined && !(scope && MemoryScope.isInternal(scope)) // the library's own rows are not embedded
    })
    if (litters) source.unswept.add(tenant)
    yield* sweep(source, tenant)
    if (!isQuiet) yield* source.changeFeed.publish(tenant, ChangeFeed.changesOf(rows, writes))
  }).pipe(Effect.uninterruptible)

/** Returns the writes as a backend takes them: each with the revision that it replaces. */
const stepsOf = (rows: ReadonlyMap<MemoryId, Stored>, writes: ReadonlyArray<Write>): ReadonlyArray<RowWrite> => {
  const current = new Map<MemoryId, number>()
  return writes.map(({ id, isUnique, next }) => {
    const revision = current.get(id) ?? rows.get(id)?.record.revision ?? 0
    current.set(id, next?.stored.record.revision ?? 0)
    return { id, revision, next: next?.stored, unique: isUnique }
  })
}

/** Erases the vectors of texts that no record of the tenant holds. Its caller holds the lock. Cost: the tenant's vectors. */
const sweep = (source: Source, tenant: string): Effect.Effect<void> =>
  Effect.suspend(() => {
    const { primitives: { vectorBackend }, unswept } = source
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
      const tenantIndex = yield* catalogBeside(source, tenant)
      const texts = yield* tenantIndex.texts().prepared
      if (texts.isLittered(size)) source.unswept.add(tenant)
    }
    for (const tenant of Array.from(source.unswept)) {
      yield* exclusive(source, tenant, sweep(source, tenant))
    }
  })

/** Finds what compaction may erase. Cost: the lifetimes of every tenant; without them every row, and a revision of each tombstone. */
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

/** Locks by tenant: a writer waits for the other writers of its tenant only. */
export interface TenantLocks {
  /** Runs an effect while no other one of the tenant runs, in the order of arrival. */
  readonly withLock: (tenant: string) => <A, E, R>(self: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
}

/** Makes locks. A tenant without writers has none. */
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
