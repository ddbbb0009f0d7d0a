/**
 * The rows behind a store: read, decided about and committed, one batch of a tenant at a time, and the index kept beside
 * them. A batch and the sweep after it hold the lock of their tenant and see the same catalogs.
 */
import * as Chunk from "effect/Chunk"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as MemoryError from "../domain/MemoryError.ts"
import type * as MemoryId from "../domain/MemoryId.ts"
import type { MemoryKind } from "../domain/MemoryKind.ts"
import { type Applied, MemoryMutation } from "../domain/MemoryMutation.ts"
import { isExpired, type MemoryRecord, Origin, Trust } from "../domain/MemoryRecord.ts"
import { isInternal } from "../domain/MemoryScope.ts"
import * as Viewer from "../domain/Viewer.ts"
import type * as Analyzer from "../ranking/Analyzer.ts"
import { hashOf } from "../ranking/Embeddings.ts"
import type { MemoryIndex } from "../ranking/MemoryIndex.ts"
import * as Batch from "./Batch.ts"
import * as Catalog from "./Catalog.ts"
import type * as Changes from "./Changes.ts"
import { check } from "./Check.ts"
import type { Links } from "./Links.ts"
import type { Capabilities, Primitives, Provenance, Stored, Write } from "./MemoryStore.ts"
import * as Minting from "./Minting.ts"
import * as TenantLocks from "./TenantLocks.ts"
import * as Trash from "./Trash.ts"

type Io<A> = Effect.Effect<A, MemoryError.MemoryError>

export interface Rows {
  readonly index: (viewer: Viewer.Any) => Io<MemoryIndex>
  readonly links: (viewer: Viewer.Any) => Io<Links>
  readonly read: (
    tenant: string,
    ids: ReadonlyArray<MemoryId.MemoryId>
  ) => Io<ReadonlyMap<MemoryId.MemoryId, Stored>>
  /** Returns every record of the tenant, expired ones included. */
  readonly records: (tenant: string) => Io<ReadonlyArray<MemoryRecord>>
  /** Returns the tombstones of the tenant, or of these ids. Cost: those of all tenants that the backend reads, or the ids. */
  readonly tombstones: (
    tenant: string,
    ids?: ReadonlyArray<MemoryId.MemoryId>
  ) => Io<ReadonlyArray<Stored>>
  /** Newest first, of a row that is there. */
  readonly revisions: (
    tenant: string,
    id: MemoryId.MemoryId,
    row: Stored | undefined,
    limit: number
  ) => Io<ReadonlyArray<Stored>>
  readonly apply: (
    op: string,
    viewer: Viewer.Any,
    mutations: ReadonlyArray<MemoryMutation>,
    provenance?: Provenance
  ) => Io<ReadonlyArray<Applied>>
  /** Erases what is due, and the vectors of texts that are gone once they are most; how many rows. */
  readonly compact: Io<number>
  /** Earliest time at which a row that the last compaction left is to be erased, in epoch milliseconds; `Infinity` if none is. */
  readonly nextExpiry: () => number
}

/** How many revisions of a record are kept, the current one among them. */
export const revisionsKept = 20

/** How often a batch is decided anew where another process was first. */
const attempts = 50

/** What a batch is held against before anything looks at it. */
export const Mutations = Schema.Struct({
  mutations: Schema.Array(MemoryMutation),
  origin: Schema.optional(Origin),
  trust: Schema.optional(Trust)
})

export const make = (options: {
  readonly name: string
  readonly primitives: Primitives
  readonly capabilities: Capabilities
  readonly kinds: ReadonlyMap<string, MemoryKind>
  readonly analyzer: Analyzer.Service
  readonly publish: Changes.Changes["publish"]
}): Effect.Effect<Rows> =>
  Effect.gen(function*() {
    const locks = TenantLocks.make()
    const minting = (yield* Minting.Shared) ?? (yield* Minting.make)
    const { analyzer, capabilities, kinds, name, primitives, publish } = options
    const trash = Duration.toMillis(primitives.trash ?? Trash.defaultTrash)
    const catalogs = new Map<string, Catalog.Catalog>()

    const scanned = (tenant: string) =>
      Effect.suspend(() => {
        const catalog = Catalog.make({ kinds, analyzer, embeddings: primitives.sidecar?.embeddings(tenant) })
        return Effect.as(
          Stream.runForEach(primitives.scan(tenant), (row) => Effect.sync(() => catalog.set(row.record.id, row))),
          catalog
        )
      })
    /** To be asked by a writer: a scan beside a commit would miss it. */
    const catalogOf = (tenant: string): Effect.Effect<Catalog.Catalog, MemoryError.MemoryError> => {
      if (primitives.catalog) return primitives.catalog(tenant)
      if (capabilities.shared) return scanned(tenant) // nobody tells us what others wrote
      const known = catalogs.get(tenant)
      return known
        ? Effect.succeed(known)
        : Effect.tap(scanned(tenant), (catalog) =>
          Effect.sync(() => {
            if (catalog.size() > 0) catalogs.set(tenant, catalog) // else whoever asks could fill it with tenants
          }))
    }
    /** To be asked by a reader. */
    const catalogBeside = (tenant: string) =>
      Effect.suspend(() =>
        catalogs.has(tenant) || primitives.catalog || capabilities.shared
          ? catalogOf(tenant)
          : locks.withLock(tenant)(Effect.suspend(() => catalogOf(tenant)))
      )
    const index = (viewer: Viewer.Any) =>
      Effect.flatMap(catalogBeside(Viewer.tenantOf(viewer)), (catalog) => Effect.map(catalog.prepared, catalog.index))
    const links = (viewer: Viewer.Any) =>
      Effect.map(catalogBeside(Viewer.tenantOf(viewer)), (catalog) => catalog.links())

    const recordsBy = (catalogOf: (tenant: string) => Io<Catalog.Catalog>) => (tenant: string) =>
      Effect.map(catalogOf(tenant), (catalog) => catalog.records())
    const current = recordsBy(catalogOf)
    const unswept = new Set<string>()
    /** Whether most vectors are of texts that were edited away. Cost: nothing to speak of as long as they cannot be. */
    const isLittered = (tenant: string) =>
      Effect.suspend(() => {
        const size = primitives.sidecar?.embeddings(tenant).size ?? 0
        return size === 0 ?
          Effect.succeed(false) :
          Effect.map(
            current(tenant),
            (records) => size > 2 * records.length || size > 2 * new Set(records.map(hashOf)).size
          )
      })
    /**
     * Erases the vectors of texts that no record of the tenant holds. Cost: all records of the tenant, since another
     * one may have an erased text. Runs within `exclusive`.
     */
    const sweep = (tenant: string) =>
      Effect.suspend(() => {
        const { sidecar } = primitives
        if (sidecar === undefined || !unswept.has(tenant)) return Effect.void
        return current(tenant).pipe(
          Effect.flatMap((records) => sidecar.retain(tenant, new Set(records.map(hashOf)))),
          Effect.tap(() => Effect.sync(() => unswept.delete(tenant))),
          Effect.catchAll((error) => Effect.logWarning("vectors of erased texts could not be removed", error))
        )
      })

    const read = (tenant: string, ids: ReadonlyArray<MemoryId.MemoryId>) =>
      Effect.map(
        primitives.read(tenant, ids),
        (rows): ReadonlyMap<MemoryId.MemoryId, Stored> =>
          new Map(rows.flatMap((row, i) => Option.isSome(row) ? [[ids[i]!, row.value] as const] : []))
      )

    const revisions = (tenant: string, id: MemoryId.MemoryId, row: Stored | undefined, limit: number) =>
      row === undefined
        ? Effect.succeed([])
        : primitives.revisions
        ? primitives.revisions(tenant, id, limit)
        : Effect.succeed([row])

    const tombstones = (tenant: string, ids?: ReadonlyArray<MemoryId.MemoryId>) => {
      if (ids !== undefined) {
        return Effect.map(
          read(tenant, Array.from(new Set(ids))),
          (rows) => Array.from(rows.values()).filter(({ forgotten }) => forgotten)
        )
      }
      if (primitives.tombstones === undefined && primitives.catalog === undefined) {
        return Effect.map(catalogBeside(tenant), (catalog) => catalog.tombstones())
      }
      const all = primitives.tombstones ??
        ((tenant) => Stream.filter(primitives.scan(tenant), ({ forgotten }) => forgotten))
      return Effect.map(Stream.runCollect(all(tenant)), Chunk.toReadonlyArray)
    }

    /** Mints an id for each that is not named, and reads the rows of all of them at once. */
    const identified = (
      tenant: string,
      named: ReadonlyArray<MemoryId.MemoryId | undefined>
    ): Io<readonly [ids: ReadonlyArray<MemoryId.MemoryId>, rows: ReadonlyMap<MemoryId.MemoryId, Stored>]> =>
      Effect.gen(function*() {
        const ids = yield* Effect.forEach(named, (id) => id === undefined ? minting.next(tenant) : Effect.succeed(id))
        const rows = yield* read(tenant, Array.from(new Set(ids)))
        const isTaken = ids.some((id, n) => named[n] === undefined && rows.has(id))
        if (!isTaken) return [ids, rows]
        return yield* identified(tenant, ids.map((id, n) => named[n] === undefined && rows.has(id) ? undefined : id))
      })

    const commit = (
      tenant: string,
      writes: ReadonlyArray<Write>,
      events: ReadonlyArray<Changes.Event>,
      /** Whether an erased text may have left a vector. */
      litters = writes.some(({ next }) => next === undefined)
    ) =>
      Effect.gen(function*() {
        yield* primitives.commit(tenant, writes)
        const catalog = catalogs.get(tenant)
        for (const { id, next } of writes) catalog?.set(id, next)
        if (litters) unswept.add(tenant)
        yield* sweep(tenant)
        yield* publish(tenant, events)
      }).pipe(Effect.uninterruptible)

    const exclusive = <A>(tenant: string, self: Effect.Effect<A, MemoryError.MemoryError>) =>
      locks.withLock(tenant)(primitives.exclusive ? primitives.exclusive(self) : self)

    /** `None` where another process was first. */
    const attempt = (
      op: string,
      viewer: Viewer.Any,
      mutations: ReadonlyArray<MemoryMutation>,
      provenance: Provenance
    ) =>
      Effect.gen(function*() {
        const tenant = Viewer.tenantOf(viewer)
        const now = yield* Clock.currentTimeMillis
        const catalog = yield* catalogOf(tenant)
        const [ids, rows] = yield* identified(
          tenant,
          mutations.map((mutation) => mutation._tag === "Put" ? mutation.draft.id : mutation.id)
        )
        const about = mutations.map((mutation, n) => [ids[n]!, mutation] as const) // an id each
        const kept = new Map(
          yield* Effect.forEach(
            about.filter(([, mutation]) => mutation._tag === "Restore"),
            ([id]) => Effect.map(revisions(tenant, id, rows.get(id), revisionsKept), (all) => [id, all] as const)
          )
        )
        const plan = yield* Batch.plan({
          op,
          viewer,
          mutations: about,
          provenance,
          now,
          kinds,
          rows,
          holder: (key, besides) => catalog.holder(key, now, besides),
          revision: (id, revision) => kept.get(id)?.find((row) => row.record.revision === revision)?.record,
          hasHistory: () => capabilities.history
        })
        if (plan.writes.length === 0) return Option.some(plan.applied)
        const litters = plan.writes.some(({ id, next }) => {
          const scope = rows.get(id)?.record.scope
          return next === undefined && !(scope && isInternal(scope)) // the library's own rows are not embedded
        })
        return yield* commit(tenant, plan.writes, plan.changes, litters).pipe(
          Effect.as(Option.some(plan.applied)),
          MemoryError.catchReason("conflict", () => Effect.succeedNone)
        )
      })

    const apply = (
      op: string,
      viewer: Viewer.Any,
      mutations: ReadonlyArray<MemoryMutation>,
      provenance: Provenance = {}
    ): Effect.Effect<ReadonlyArray<Applied>, MemoryError.MemoryError> =>
      Effect.gen(function*() {
        if (!capabilities.writable) {
          return yield* MemoryError.make("read_only", { op, message: `${name} takes no writes` })
        }
        const checked = yield* check(op, Mutations, { mutations, ...provenance })
        const decide = attempt(op, viewer, checked.mutations, provenance)
        const once = exclusive(Viewer.tenantOf(viewer), decide)
        for (let left = attempts; left > 0; left--) {
          const applied = yield* once
          if (Option.isSome(applied)) {
            return applied.value
          }
        }
        return yield* MemoryError.make("unavailable", {
          op,
          message: `${name}: other writers were first, ${attempts} times`
        })
      })

    /** Finds the rows to erase now, and the time at which the next one is due. */
    const due = (tenant: string) =>
      Effect.gen(function*() {
        const now = yield* Clock.currentTimeMillis
        const rows: Array<Stored> = []
        let next = Infinity
        // by the chunk: an effect for each row of a large store would take as long as the rest of the opening's checks
        yield* Stream.runForEachChunk(primitives.scan(tenant), (chunk) =>
          Effect.sync(() => {
            for (const row of chunk) {
              const at = Trash.erasableAt(row, trash)
              if (at > now) next = Math.min(next, at)
              else rows.push(row)
            }
          }))
        const erased = yield* Effect.filter(
          rows,
          (row) => isExpired(row.record, now) ? Effect.succeed(true) : isWritten(tenant, row)
        )
        const writes = erased.map(({ record: { id, revision } }): Write => ({ id, revision, next: undefined }))
        return { writes, next }
      })
    /**
     * Whether the newest revision of a tombstone's record is the tombstone. It is not where the backend calls a record
     * forgotten because it does not find it: nothing that may only be out of reach is ever erased.
     */
    const isWritten = (tenant: string, row: Stored) =>
      Effect.map(revisions(tenant, row.record.id, row, 1), ([last]) => last?.forgotten === true)
    const erase = (tenant: string) =>
      Effect.flatMap(due(tenant), ({ writes }) =>
        writes.length === 0 ? Effect.succeed(0) : commit(tenant, writes, []).pipe(
          Effect.as(writes.length),
          MemoryError.catchReason("conflict", () => Effect.succeed(0)) // another was first: it is due the next time, too
        ))
    let nextExpiry = Infinity
    const compact = Effect.gen(function*() {
      if (!capabilities.writable) {
        return 0
      }
      let count = 0
      let soonest = Infinity
      for (const tenant of yield* primitives.tenants) {
        const { next, writes } = yield* due(tenant)
        soonest = Math.min(soonest, next)
        if (writes.length > 0) {
          count += yield* exclusive(tenant, erase(tenant))
        }
        if (yield* isLittered(tenant)) {
          unswept.add(tenant)
        }
      }
      nextExpiry = soonest
      for (const tenant of Array.from(unswept)) {
        yield* exclusive(tenant, sweep(tenant))
      }
      return count
    })

    return {
      index,
      links,
      records: recordsBy(catalogBeside),
      read,
      tombstones,
      revisions,
      apply,
      compact,
      nextExpiry: () =>
        nextExpiry
    } satisfies Rows
  })
