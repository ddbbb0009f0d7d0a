/**
 * Merges the rows of a branch with the rows of its base store. A branch is a set of uncommitted changes. Each tenant has one index, which
 * the first call builds. A later call usually reads only the rows that have changed since the previous call. If the base store cannot list
 * its changed rows, as a SQL store cannot, each call builds the index anew.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import type { MemoryError } from "../../../domain/MemoryError.ts"
import type { MemoryId } from "../../../domain/MemoryId.ts"
import type { MemoryMutation } from "../../../domain/MemoryMutation.ts"
import { hashOf, isExpired, type MemoryRecord, type Patch } from "../../../domain/MemoryRecord.ts"
import * as MemoryScope from "../../../domain/MemoryScope.ts"
import * as Viewer from "../../../domain/Viewer.ts"
import { makeTenantLocks, type Mark, type Reader } from "../../Engine.ts"
import { type Provenance, revisionsKept, type Service, type Stored, type VectorBackend } from "../../MemoryStore.ts"
import { draftOf } from "../../Revision.ts"
import * as TenantIndex from "../../TenantIndex.ts"
import * as Vectors from "../../Vectors.ts"
import * as Reads from "../internal/Reads.ts"

type Io<A> = Effect.Effect<A, MemoryError>

/** The options of merged rows: the base store, the branch, the configured kinds, and the analyzer. */
export interface Options extends Pick<TenantIndex.Options, "kinds" | "analyzer"> {
  /** The base store. Only its vectors are used; `reader` reads its rows. */
  readonly baseStore: Pick<Service, "vectors">
  readonly reader: Reader
  /** Returns the rows that the branch has written in a tenant. */
  readonly branchOf: (tenant: string) => ReadonlyMap<MemoryId, Row>
}

/** The merged rows of a branch and its base store, by tenant. */
export interface MergedRows {
  /**
   * Returns the up-to-date index of a tenant. Usual cost: linear in the rows that changed since the last call. The first call, and each
   * call for which the base store cannot list the changed rows, reads all rows.
   */
  readonly tenantIndex: (tenant: string) => Io<TenantIndex.TenantIndex>
  /** Registers rows that the branch has written or removed. The next call of `tenantIndex` reads them again. */
  readonly touch: (tenant: string, ids: Iterable<MemoryId>) => void
  /** Streams the tombstones of the base store. */
  readonly tombstones: (tenant: string) => Stream.Stream<Stored, MemoryError>
  /** The vectors of the branch and of the base store; `undefined` if the base store has no vectors. */
  readonly vectorBackend: VectorBackend | undefined
}

/** The merged rows of one tenant. */
interface Tenant {
  readonly tenantIndex: TenantIndex.TenantIndex
  /** Mark of the last change of the base store that the index includes. */
  mark: Mark | undefined
  /** Ids of rows to read again, even if the base store does not report them as changed. */
  stale: Set<MemoryId>
  /** Hashes of texts whose vectors are still to be read from the base store, by model. */
  readonly wanted: Map<string, Set<string>>
}

const pageSize = 1_000

/** Makes merged rows. The index of a tenant is built when it is first needed. */
export const make = (options: Options): MergedRows => {
  const { baseStore, branchOf, reader } = options
  const tenants = new Map<string, Tenant>()
  const locks = makeTenantLocks()
  const { embeddings, models, ...vectors } = Vectors.inMemory()

  const current = (tenant: string): Io<Tenant> =>
    Effect.gen(function*() {
      const known = tenants.get(tenant)
      const since = reader.changed ? yield* reader.changed(tenant, known?.mark) : undefined
      if (known === undefined || since?.ids === undefined) {
        const fresh: Tenant = {
          tenantIndex: TenantIndex.make({ ...options, embeddings: embeddings(tenant) }),
          mark: since?.mark,
          stale: new Set(),
          wanted: new Map()
        }
        tenants.set(tenant, fresh)
        yield* Stream.runForEach(idsOfBase(reader, tenant, false), (ids) => refresh(tenant, fresh, ids))
        yield* refresh(tenant, fresh, Array.from(branchOf(tenant).keys()))
        prune(tenant, fresh.tenantIndex)
        // does not cache an index that cannot be updated (no mark) or that is empty (callers can name any tenant)
        if (fresh.mark === undefined || fresh.tenantIndex.size() === 0) tenants.delete(tenant)
        return fresh
      }
      const ids = new Set([...since.ids, ...known.stale])
      known.stale = new Set()
      known.mark = since.mark
      if (ids.size > 0) yield* refresh(tenant, known, Array.from(ids))
      return known
    }).pipe(
      // a failure may leave the index incomplete, so the next call builds it again
      Effect.onExit((exit) => Effect.sync(() => exit._tag === "Failure" && tenants.delete(tenant))),
      locks.withLock(tenant)
    )

  /** Removes the vectors of texts that no record of the tenant has any more. */
  const prune = (tenant: string, tenantIndex: TenantIndex.TenantIndex): void => {
    const vectors = embeddings(tenant)
    if (vectors.size === 0) return
    const left = new Set(Array.from(tenantIndex.each(), hashOf))
    vectors.retain((hash) => left.has(hash))
  }

  /** Updates the rows with these ids in the index. A row of the branch takes precedence over the base store's row with the same id. */
  const refresh = (tenant: string, { tenantIndex, wanted }: Tenant, ids: ReadonlyArray<MemoryId>): Io<void> =>
    Effect.gen(function*() {
      const others = ids.filter((id) => !branchOf(tenant).has(id))
      const rows = others.length > 0 ? yield* reader.read(tenant, others) : []
      const found = new Map(rows.map((row, n) => [others[n]!, Option.getOrUndefined(row)]))
      for (const id of ids) {
        const branchRow = branchOf(tenant).get(id)
        const row = branchRow ? branchRow.revisions[0] : found.get(id)
        tenantIndex.set(id, row)
        if (row && !row.forgotten) { for (const hashes of wanted.values()) hashes.add(hashOf(row.record)) }
      }
      if (ids.some((id) => (branchOf(tenant).get(id)?.revisions[0] ?? found.get(id)) === undefined)) {
        prune(tenant, tenantIndex)
      }
    })

  /** Reads missing vectors from the base store. The next call asks again for vectors that the base store did not have. */
  const loadVectors = (tenant: string, model: string): Io<void> =>
    Effect.gen(function*() {
      if (Option.isNone(baseStore.vectors)) return
      const { tenantIndex, wanted } = yield* current(tenant)
      const known = embeddings(tenant)
      const hashes = wanted.get(model) ?? new Set(Array.from(tenantIndex.each(), hashOf))
      wanted.set(model, hashes)
      for (const hash of hashes) if (known.get(model, hash)) hashes.delete(hash)
      if (hashes.size === 0) return
      const requested = Array.from(hashes)
      const found = yield* baseStore.vectors.value.read(tenant, model, requested)
      found.forEach((vector, n) => {
        if (Option.isSome(vector)) known.set(model, requested[n]!, vector.value)
      })
    })

  return {
    tenantIndex: (tenant) => Effect.map(current(tenant), ({ tenantIndex }) => tenantIndex),
    touch: (tenant, ids) => {
      const known = tenants.get(tenant)
      for (const id of ids) known?.stale.add(id)
    },
    tombstones: (tenant) =>
      Stream.flatMap(
        idsOfBase(reader, tenant, true),
        (ids) =>
          Stream.fromIterableEffect(
            Effect.map(reader.read(tenant, ids), (rows) => rows.flatMap(Option.toArray))
          )
      ),
    vectorBackend: Option.map(baseStore.vectors, ({ models: modelsOfBase }): VectorBackend => ({
      ...vectors,
      embeddings,
      follow: loadVectors,
      models: (tenant) =>
        Effect.zipWith(models(tenant), modelsOfBase(tenant), (ownModels, baseModels) => [...ownModels, ...baseModels])
    })).pipe(Option.getOrUndefined)
  }
}

/** Streams the ids of a tenant's records in the base store, page by page. If `forgotten`, streams ids of tombstones instead. */
const idsOfBase = (
  reader: Reader,
  tenant: string,
  forgotten: boolean
): Stream.Stream<ReadonlyArray<MemoryId>, MemoryError> =>
  Stream.map(
    Reads.pages(
      (after) =>
        Effect.flatMap(Clock.currentTimeMillis, (now) =>
          reader.page(
            Viewer.accessFilterOf(Viewer.system(tenant), now),
            { filter: { forgotten }, passes: () => true },
            after,
            pageSize
          )),
      pageSize
    ),
    (page) => page.map(({ id }) => id)
  )

/** The state of one record in a branch. */
export interface Row {
  /** The row that the base store had before the branch first wrote the record; `undefined` if there was none. */
  readonly base: Stored | undefined
  /** Whether the branch has purged the record. The revisions in the base store are then hidden. */
  readonly isPurged: boolean
  /**
   * The newest `revisionsKept` revisions made in the branch since the last purge there, newest first. Empty if the record was purged and
   * not created again.
   */
  readonly revisions: ReadonlyArray<Stored>
}

/**
 * Returns the state of a record in the branch after a write of `next`. If `next` is `undefined`, the write is a purge. Returns `undefined`
 * after the purge of a record that the base store did not have.
 */
export const write = (row: Row, next: Stored | undefined): Row | undefined => {
  if (next) return { ...row, revisions: [next, ...row.revisions].slice(0, revisionsKept) }
  return row.base && { base: row.base, isPurged: true, revisions: [] }
}

/** Returns the record's revision number in the branch; 0 if the branch has purged the record and not created it again. */
export const revisionOf = (row: Row): number => row.revisions[0]?.record.revision ?? 0

/**
 * Returns the mutations by which a commit writes a record of the branch to the base store. There are none if the record was created in the
 * branch and is now forgotten or expired, or if the record belongs to an instruction file.
 */
export const mutations = (id: MemoryId, row: Row, now: number): ReadonlyArray<MemoryMutation> => {
  const { base, isPurged } = row
  const baseRecord = base && !base.forgotten ? base.record : undefined
  const live = liveAt(row, now)
  const ifRevision = baseRecord?.revision ?? 0
  if (isInstructions(row)) return []
  if (!live) {
    if (base && isPurged) return [{ _tag: "Forget", id, purge: true, ifRevision }]
    return baseRecord ? [{ _tag: "Forget", id, ifRevision }] : []
  }
  if (isUpdate(row, live)) {
    return [{ _tag: "Update", id, patch: patchTo(live), ifRevision }]
  }
  return [
    ...(base && isPurged ? [{ _tag: "Forget", id, purge: true, ifRevision } as const] : []),
    { _tag: "Put", draft: draftOf(live), ifRevision: isPurged ? 0 : ifRevision },
    ...(live.supersededBy === undefined
      ? []
      : [{ _tag: "Update", id, patch: { supersededBy: live.supersededBy } } as const])
  ]
}

/**
 * Returns the provenance of a commit. A record counts if the commit creates it, replaces it as a whole, or changes its trust. The origin is
 * the common origin of these records, or `pipeline` if their origins differ. The trust is that of the least trusted of these records.
 */
export const provenance = (rows: Iterable<Row>, now: number): Provenance => {
  const written = Array.from(rows).flatMap((row) => {
    const live = isInstructions(row) ? undefined : liveAt(row, now)
    return live && (!isUpdate(row, live) || live.source.trust !== row.base?.record.source.trust) ? [live.source] : []
  })
  const [first, ...others] = new Set(written.map(({ origin }) => origin))
  return {
    origin: others.length > 0 ? "pipeline" : first,
    trust: written.reduce<NonNullable<Provenance["trust"]>>((worst, { trust }) => trust > worst ? trust : worst, 0)
  }
}

/** Whether a row belongs to an instruction file. */
export const isInstructions = ({ base, revisions: [last] }: Row): boolean =>
  (last ?? base)?.record.source.origin === "instructions"

const liveAt = ({ revisions: [last] }: Row, now: number): MemoryRecord | undefined =>
  last && !last.forgotten && !isExpired(last.record, now) ? last.record : undefined

/** Whether a commit writes the record `live` of a row as an `Update` of the base store's record. If not, a `Put` writes the record. */
const isUpdate = ({ base, isPurged }: Row, live: MemoryRecord): boolean =>
  base !== undefined && !base.forgotten && !isPurged && isPatch(base.record, live)

/** Whether a mutation `Update` can turn the record `from` into `to`. If not, a `Put` must replace the record. */
const isPatch = (from: MemoryRecord, to: MemoryRecord): boolean =>
  MemoryScope.key(from.scope) === MemoryScope.key(to.scope) && from.kind === to.kind && from.validAt === to.validAt &&
  from.createdAt === to.createdAt && (from.summaryDerived === true || to.summaryDerived === undefined) &&
  from.source.origin === to.source.origin && from.source.trust <= to.source.trust &&
  from.source.reference === to.source.reference && from.source.session === to.source.session &&
  from.source.actor === to.source.actor && from.source.sequence === to.source.sequence

const patchTo = (record: MemoryRecord): Patch => ({
  summary: record.summaryDerived ? undefined : record.summary,
  body: record.body,
  tags: record.tags,
  importance: record.importance,
  confidence: record.confidence ?? null,
  links: record.links,
  data: record.data,
  metadata: record.metadata,
  invalidAt: record.invalidAt ?? null,
  expiresAt: record.expiresAt ?? null,
  supersededBy: record.supersededBy ?? null
})
