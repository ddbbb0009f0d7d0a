/** All that a store does beyond its primitives: checks, ids, dedupe, revisions, search, changes, spans and metrics. */
import * as Chunk from "effect/Chunk"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Metric from "effect/Metric"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as MemoryError from "../domain/MemoryError.ts"
import { Limit, MemoryFilter, MemoryQuery } from "../domain/MemoryFilter.ts"
import * as MemoryId from "../domain/MemoryId.ts"
import * as MemoryKind from "../domain/MemoryKind.ts"
import { type Applied, MemoryMutation } from "../domain/MemoryMutation.ts"
import { dedupeKey, isExpired, type MemoryRecord, Origin, Trust } from "../domain/MemoryRecord.ts"
import * as Viewer from "../domain/Viewer.ts"
import * as Batch from "./Batch.ts"
import * as Catalog from "./Catalog.ts"
import * as Changes from "./Changes.ts"
import { check, invalid } from "./Check.ts"
import {
  type Capabilities,
  type Primitives,
  type Provenance,
  type Put,
  type Service,
  type Stored,
  type Write
} from "./MemoryStore.ts"
import * as Usage from "./Usage.ts"

/** How many revisions of a record are kept, the current one among them. */
export const revisionsKept = 20

/** How often a batch is decided anew where another process was first. */
const attempts = 50

const duration = Metric.timer("memory_store_duration", "How long the operations of a store take")

const Ids = Schema.Struct({ ids: Schema.Array(MemoryId.MemoryId) })
const Mutations = Schema.Struct({
  mutations: Schema.Array(MemoryMutation),
  origin: Schema.optional(Origin),
  trust: Schema.optional(Trust)
})
// a clause that is not known would widen the answer
const Filter = MemoryFilter.annotations({ parseOptions: { onExcessProperty: "error" } })
const Query = MemoryQuery.annotations({ parseOptions: { onExcessProperty: "error" } })
const History = Schema.Struct({ id: MemoryId.MemoryId, limit: Limit })

export const make = (name: string, primitives: Primitives): Effect.Effect<Service, MemoryError.MemoryError> =>
  Effect.gen(function*() {
    const kinds = yield* MemoryKind.Kinds
    const writing = yield* Effect.makeSemaphore(1)
    const changes = Changes.make()
    const catalogs = new Map<string, Catalog.Catalog>()
    let lastId: MemoryId.MemoryId | undefined

    const capabilities: Capabilities = {
      writable: true,
      vector: primitives.vectors !== undefined,
      durable: false,
      shared: false,
      messages: primitives.ingest !== undefined,
      ...primitives.capabilities,
      history: primitives.revisions !== undefined
    }

    const observed = <A, E>(op: string, self: Effect.Effect<A, E>): Effect.Effect<A, E> =>
      self.pipe(
        Metric.trackDuration(duration.pipe(Metric.tagged("store", name), Metric.tagged("op", op))),
        Effect.withSpan(`${name}.${op}`)
      )

    const scanned = (tenant: string) =>
      Effect.suspend(() => {
        const catalog = Catalog.make(kinds)
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
    const index = (viewer: Viewer.Any) =>
      Effect.suspend(() => {
        const tenant = Viewer.tenantOf(viewer)
        return catalogs.has(tenant) || primitives.catalog || capabilities.shared
          ? catalogOf(tenant)
          : writing.withPermits(1)(Effect.suspend(() => catalogOf(tenant)))
      }).pipe(Effect.map((catalog) => catalog.index()))

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

    const get = (viewer: Viewer.Any, ids: ReadonlyArray<MemoryId.MemoryId>) =>
      Effect.gen(function*() {
        yield* check("get", Ids, { ids })
        const now = yield* Clock.currentTimeMillis
        const rows = yield* read(Viewer.tenantOf(viewer), ids)
        return ids.map((id) => Option.fromNullable(shown(viewer, rows.get(id), now)))
      })

    const mint = (tenant: string): Effect.Effect<MemoryId.MemoryId, MemoryError.MemoryError> =>
      Effect.gen(function*() {
        lastId = yield* MemoryId.mint(lastId)
        const [taken] = yield* primitives.read(tenant, [lastId])
        return taken && Option.isSome(taken) ? yield* mint(tenant) : lastId
      })

    const commit = (tenant: string, writes: ReadonlyArray<Write>, events: ReadonlyArray<Changes.Event>) =>
      Effect.gen(function*() {
        yield* primitives.commit(tenant, writes)
        const catalog = catalogs.get(tenant)
        for (const { id, next } of writes) catalog?.set(id, next)
        yield* changes.publish(tenant, events)
      }).pipe(Effect.uninterruptible)

    const exclusive = <A>(self: Effect.Effect<A, MemoryError.MemoryError>) =>
      writing.withPermits(1)(primitives.exclusive ? primitives.exclusive(self) : self)

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
        const about = yield* Effect.forEach(mutations, (mutation) => {
          const named = mutation._tag === "Put" ? mutation.draft.id : mutation.id
          return Effect.map(named === undefined ? mint(tenant) : Effect.succeed(named), (id) => [id, mutation] as const)
        })
        const holders = mutations.flatMap((mutation) => {
          const id = mutation._tag === "Put" ? catalog.holder(dedupeKey(tenant, mutation.draft), now) : undefined
          return id === undefined ? [] : [id]
        })
        const rows = yield* read(tenant, Array.from(new Set([...about.map(([id]) => id), ...holders])))
        const kept = new Map(
          yield* Effect.forEach(about.filter(([, mutation]) => mutation._tag === "Restore"), ([id]) =>
            Effect.map(revisions(tenant, id, rows.get(id), revisionsKept), (all) => [id, all] as const))
        )
        const plan = yield* Batch.plan({
          op,
          viewer,
          mutations: about,
          provenance,
          now,
          kinds,
          rows,
          holder: (key) =>
            catalog.holder(key, now),
          revision: (id, revision) =>
            kept.get(id)?.find((row) => row.record.revision === revision && !row.forgotten)?.record
        })
        if (plan.writes.length === 0) return Option.some(plan.applied)
        return yield* commit(tenant, plan.writes, plan.changes).pipe(
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
        const once = exclusive(decide)
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

    const list = (viewer: Viewer.Any, filter: MemoryFilter) =>
      Effect.gen(function*() {
        const checked = yield* check("list", Filter, filter)
        const now = yield* Clock.currentTimeMillis
        const page = (yield* index(viewer)).list(viewer, checked, now)
        return page ?? (yield* invalid("list", "after: no cursor of this viewer and filter"))
      })

    const due = (tenant: string) =>
      Effect.flatMap(
        Clock.currentTimeMillis,
        (now) =>
          Stream.runFold(primitives.scan(tenant), new Array<Write>(), (writes, { forgotten, record }) => {
            if (forgotten || isExpired(record, now)) {
              writes.push({ id: record.id, revision: record.revision, next: undefined })
            }
            return writes
          })
      )
    const erase = (tenant: string) =>
      Effect.flatMap(due(tenant), (writes) =>
        writes.length === 0 ? Effect.succeed(0) : commit(tenant, writes, []).pipe(
          Effect.as(writes.length),
          MemoryError.catchReason("conflict", () => Effect.succeed(0)) // another was first: it is due the next time, too
        ))
    const compact = Effect.gen(function*() {
      if (!capabilities.writable) return 0
      let count = 0
      for (const tenant of yield* primitives.tenants) {
        if ((yield* due(tenant)).length > 0) count += yield* exclusive(erase(tenant))
      }
      return count
    })

    const usage = primitives.usage ?? Usage.make(get)

    const service: Service = {
      name,
      capabilities,
      apply: (viewer, mutations, provenance) => observed("apply", apply("apply", viewer, mutations, provenance)),
      put: (viewer, drafts, { ifRevision, ...provenance } = {}) =>
        observed(
          "put",
          Effect.gen(function*() {
            if (ifRevision !== undefined && drafts.length !== 1) {
              return yield* invalid("put", "ifRevision: is about one draft")
            }
            const mutations = drafts.map((draft): MemoryMutation => ({ _tag: "Put", draft, ifRevision }))
            return (yield* apply("put", viewer, mutations, provenance)).map(toPut)
          })
        ),
      get: (viewer, ids) => observed("get", get(viewer, ids)),
      search: (viewer, query) =>
        observed(
          "search",
          Effect.gen(function*() {
            const checked = yield* check("search", Query, query)
            const unsupported = MemoryError.make("unsupported", { op: "search", message: `${name} holds no vectors` })
            if (checked.mode === "vector") return yield* unsupported
            const found = (yield* index(viewer)).search(viewer, checked, yield* Clock.currentTimeMillis)
            const wanted = checked.mode === "hybrid" || checked.embedding !== undefined
            return wanted ? { ...found, failures: [...found.failures, { leg: "vector", error: unsupported }] } : found
          })
        ),
      list: (viewer, filter) => observed("list", list(viewer, filter)),
      stream: (viewer, filter) =>
        Stream.withSpan(
          Stream.paginateChunkEffect(filter.after, (after) =>
            Effect.map(list(viewer, { ...filter, after }), ({ items, next }) =>
              [Chunk.fromIterable(items), Option.fromNullable(next)] as const)),
          `${name}.stream`
        ),
      update: (viewer, id, patch, { ifRevision } = {}) =>
        observed(
          "update",
          Effect.map(apply("update", viewer, [{ _tag: "Update", id, patch, ifRevision }]), ([applied]) =>
            applied!.record!)
        ), // one in, one out, and not absent
      forget: (viewer, ids, { purge } = {}) =>
        observed(
          "forget",
          Effect.map(
            apply("forget", viewer, ids.map((id): MemoryMutation => ({ _tag: "Forget", id, purge }))),
            (all) => all.map(({ outcome }) => outcome === "forgotten")
          )
        ),
      history: (viewer, id, limit = revisionsKept) =>
        observed(
          "history",
          Effect.gen(function*() {
            yield* check("history", History, { id, limit })
            const tenant = Viewer.tenantOf(viewer)
            const row = (yield* read(tenant, [id])).get(id)
            if (!shown(viewer, row, yield* Clock.currentTimeMillis)) return []
            const rows = yield* revisions(tenant, id, row, limit)
            return told(viewer, rows)
          })
        ),
      changes: (viewer) => {
        const tenant = Viewer.tenantOf(viewer)
        const ours = changes.events(tenant)
        return (primitives.outside ? Stream.merge(ours, primitives.outside(tenant)) : ours).pipe(Changes.tell(viewer))
      },
      whyNot: (viewer, id, query) =>
        observed(
          "whyNot",
          Effect.gen(function*() {
            yield* check("whyNot", Ids, { ids: [id] })
            const checked = yield* check("whyNot", Query, query)
            const now = yield* Clock.currentTimeMillis
            return Option.fromNullable((yield* index(viewer)).whyNot(viewer, id, checked, now))
          })
        ),
      touch: (viewer, ids) => observed("touch", usage.touch(viewer, ids)),
      uses: (viewer, ids) => observed("uses", usage.uses(viewer, ids)),
      tenants: observed("tenants", primitives.tenants),
      compact: observed("compact", compact),
      vectors: Option.fromNullable(primitives.vectors),
      ingest: Option.fromNullable(primitives.ingest),
      tools: primitives.tools ?? (() => [])
    }
    yield* service.compact
    return service
  })

/** A tombstone is absent, and so is what expired; the library itself sees both. */
const shown = (viewer: Viewer.Any, row: Stored | undefined, now: number): MemoryRecord | undefined => {
  if (row === undefined) return undefined
  if (Viewer.isSystem(viewer)) return row.record
  return Viewer.sees(viewer, row.record.scope) && !row.forgotten && !isExpired(row.record, now) ? row.record : undefined
}

/** What was forgotten stays forgotten: a viewer's history begins after the last tombstone. */
const told = (viewer: Viewer.Any, rows: ReadonlyArray<Stored>): ReadonlyArray<MemoryRecord> => {
  if (Viewer.isSystem(viewer)) return rows.map(({ record }) => record)
  const end = rows.findIndex(({ forgotten }) => forgotten)
  return rows.slice(0, end < 0 ? undefined : end).flatMap(({ record }) =>
    Viewer.sees(viewer, record.scope) ? [record] : []
  )
}

const toPut = ({ outcome, record }: Applied): Put => ({ record: record!, outcome: outcome as Put["outcome"] }) // a Put is never absent
