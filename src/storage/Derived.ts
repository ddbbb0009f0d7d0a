/** All that a store says beyond its primitives: what a viewer is shown and told, checks, spans and metrics. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Metric from "effect/Metric"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { sign } from "../domain/Digest.ts"
import * as MemoryError from "../domain/MemoryError.ts"
import { type Embedding, Limit, MemoryFilter, MemoryQuery } from "../domain/MemoryFilter.ts"
import * as MemoryId from "../domain/MemoryId.ts"
import * as MemoryKind from "../domain/MemoryKind.ts"
import { isExpired, isValidAt, type MemoryRecord } from "../domain/MemoryRecord.ts"
import * as Viewer from "../domain/Viewer.ts"
import * as SecureRandom from "../host/SecureRandom.ts"
import * as Analyzer from "../ranking/Analyzer.ts"
import * as Activity from "./Activity.ts"
import * as Calls from "./Calls.ts"
import * as Changes from "./Changes.ts"
import { check, invalid } from "./Check.ts"
import type { Capabilities, Primitives, Service, Stored } from "./MemoryStore.ts"
import * as Rows from "./Rows.ts"
import * as Trash from "./Trash.ts"
import * as Usage from "./Usage.ts"
import * as Vectors from "./Vectors.ts"
import * as Version from "./Version.ts"
import * as ViewerCheck from "./ViewerCheck.ts"

const duration = Metric.timer("memory_store_duration", "How long the operations of a store take")

const Ids = Schema.Struct({ ids: Schema.Array(MemoryId.MemoryId) })
// a clause that is not known would widen the answer
const Filter = MemoryFilter.annotations({ parseOptions: { onExcessProperty: "error" } })
export const Query = MemoryQuery.annotations({ parseOptions: { onExcessProperty: "error" } })
const Tenancy = Schema.Struct({ tenant: Viewer.Tenant })
const History = Schema.Struct({ id: MemoryId.MemoryId, limit: Limit })

export const make = (name: string, primitives: Primitives): Effect.Effect<Service, MemoryError.MemoryError> =>
  Effect.gen(function*() {
    const kinds = yield* MemoryKind.Kinds
    const analyzer = yield* Analyzer.Analyzer
    const changes = Changes.make()
    const { sidecar } = primitives

    const capabilities: Capabilities = {
      writable: true,
      vector: sidecar !== undefined,
      durable: false,
      shared: false,
      messages: primitives.ingest !== undefined,
      ...primitives.capabilities,
      history: primitives.revisions !== undefined
    }
    const secret = primitives.secret ??
      (capabilities.durable || capabilities.shared ? yield* secretless(name) : yield* SecureRandom.secret)
    const rows = yield* Rows.make({ name, primitives, capabilities, kinds, analyzer, publish: changes.publish })

    const activity = Activity.make(rows.nextExpiry)
    const begun = primitives.ready ? Effect.zipRight(activity.called, primitives.ready) : activity.called
    const counted = <A, E>(op: string, self: Effect.Effect<A, E>): Effect.Effect<A, E> =>
      observed(op, Effect.zipRight(begun, self))
    const observed = <A, E>(op: string, self: Effect.Effect<A, E>): Effect.Effect<A, E> =>
      self.pipe(
        Metric.trackDuration(duration.pipe(Metric.tagged("store", name), Metric.tagged("op", op))),
        Effect.withSpan(`${name}.${op}`)
      )

    const get = (viewer: Viewer.Any, ids: ReadonlyArray<MemoryId.MemoryId>) =>
      Effect.gen(function*() {
        yield* check("get", Ids, { ids })
        const now = yield* Clock.currentTimeMillis
        const found = yield* rows.read(Viewer.tenantOf(viewer), ids)
        return ids.map((id) => Option.fromNullable(shown(viewer, found.get(id), now)))
      })

    const list = (viewer: Viewer.Any, filter: MemoryFilter) =>
      Effect.gen(function*() {
        const checked = yield* check("list", Filter, filter)
        const now = yield* Clock.currentTimeMillis
        const page = checked.forgotten === true
          ? Trash.list(yield* rows.tombstones(Viewer.tenantOf(viewer), checked.ids), viewer, checked, now)
          : (yield* rows.index(viewer)).list(viewer, checked, now)
        return page ?? (yield* invalid("list", "after: no cursor of this viewer and filter"))
      })

    /** Why there is no vector leg. What no store could compare is refused. */
    const missing = (op: string, tenant: string, embedding: Embedding | undefined) =>
      Effect.gen(function*() {
        if (sidecar === undefined) return MemoryError.make("unsupported", { op, message: `${name} holds no vectors` })
        if (embedding === undefined) return invalid(op, "embedding: vectors are searched by a vector")
        const { model, vector } = embedding
        const failure = yield* Effect.flip(sidecar.follow(tenant, model)).pipe(Effect.option)
        if (Option.isSome(failure)) return failure.value
        const dimensions = sidecar.embeddings(tenant).dimensions(model) ?? vector.length
        if (dimensions !== vector.length) {
          return yield* invalid(op, `embedding.vector: expected ${dimensions} dimensions`)
        }
        return undefined
      })
    /** The query as the index can answer it, and what it cannot. */
    const legs = (op: string, viewer: Viewer.Any, query: MemoryQuery) =>
      Effect.gen(function*() {
        const checked = yield* check(op, Query, query)
        const mode = checked.mode ?? (checked.embedding ? "hybrid" : "lexical")
        if (mode === "lexical") return { query: { ...checked, mode }, failures: [] }
        const error = yield* missing(op, Viewer.tenantOf(viewer), checked.embedding)
        if (error === undefined) return { query: { ...checked, mode }, failures: [] }
        if (mode === "vector") return yield* error
        return { query: { ...checked, mode: "lexical" as const }, failures: [{ leg: "vector", error }] }
      })

    const usage = primitives.usage ?? Usage.make(get)

    const service = ViewerCheck.make({
      name,
      capabilities,
      ...Calls.writes((op, viewer, mutations, provenance) =>
        counted(op, rows.apply(op, viewer, mutations, provenance))
      ),
      get: (viewer, ids) => counted("get", get(viewer, ids)),
      search: (viewer, query) =>
        counted(
          "search",
          Effect.gen(function*() {
            const { failures, query: answerable } = yield* legs("search", viewer, query)
            const index = yield* rows.index(viewer)
            const found = index.search(viewer, answerable, yield* Clock.currentTimeMillis)
            return failures.length > 0 ? { ...found, failures } : found
          })
        ),
      list: (viewer, filter) => counted("list", list(viewer, filter)),
      stream: (viewer, filter) =>
        Stream.withSpan(
          Calls.stream((viewer, filter) => Effect.zipRight(begun, list(viewer, filter)), viewer, filter),
          `${name}.stream`
        ),
      history: (viewer, id, limit = Rows.revisionsKept) =>
        counted(
          "history",
          Effect.gen(function*() {
            yield* check("history", History, { id, limit })
            const tenant = Viewer.tenantOf(viewer)
            const row = (yield* rows.read(tenant, [id])).get(id)
            if (!shown(viewer, row, yield* Clock.currentTimeMillis)) return []
            // where a history begins is told by all that is kept, whatever is asked for
            const kept = yield* rows.revisions(tenant, id, row, Math.max(limit, Rows.revisionsKept))
            return told(viewer, kept.map(({ record }) => record)).slice(0, limit)
          })
        ),
      changes: (viewer) => {
        const ours = changes.of(viewer)
        return primitives.outside ? Stream.merge(ours, primitives.outside(viewer)) : ours
      },
      whyNot: (viewer, id, query) =>
        counted(
          "whyNot",
          Effect.gen(function*() {
            yield* check("whyNot", Ids, { ids: [id] })
            const { query: answerable } = yield* legs("whyNot", viewer, query)
            const now = yield* Clock.currentTimeMillis
            return Option.fromNullable((yield* rows.index(viewer)).whyNot(viewer, id, answerable, now))
          })
        ),
      links: (viewer, id) =>
        counted(
          "links",
          Effect.gen(function*() {
            yield* check("links", Ids, { ids: [id] })
            const links = yield* rows.links(viewer)
            const now = yield* Clock.currentTimeMillis
            return links.seen((record) =>
              Viewer.sees(viewer, record.scope) && !isExpired(record, now) && isValidAt(record, now)
            )(id)
          })
        ),
      touch: (viewer, ids) => counted("touch", usage.touch(viewer, ids)),
      uses: (viewer, ids) => counted("uses", usage.uses(viewer, ids)),
      tenants: counted("tenants", primitives.tenants),
      compact: observed("compact", rows.compact),
      activity: { since: activity.since, nextExpiry: activity.nextExpiry },
      vectors: Option.map(Option.fromNullable(sidecar), (sidecar) => {
        const { attach, pending, read } = Vectors.make(sidecar, rows.records)
        return {
          pending: (tenant, model, limit) =>
            counted("pending", Effect.flatMap(named("pending", tenant), (tenant) => pending(tenant, model, limit))),
          attach: (tenant, model, vectors) =>
            counted("attach", Effect.flatMap(named("attach", tenant), (tenant) => attach(tenant, model, vectors))),
          read: (tenant, model, hashes) =>
            counted("read", Effect.flatMap(named("read", tenant), (tenant) => read(tenant, model, hashes)))
        }
      }),
      sign: (purpose, text) => observed("sign", Effect.sync(() => sign(secret, JSON.stringify([purpose, text])))),
      ingest: Option.fromNullable(primitives.ingest),
      tools: primitives.tools ?? (() => [])
    })
    yield* service.compact
    return service
  })

/** Validates a tenant and returns it in NFC, the form that is used as a key. */
const named = (op: string, tenant: string) =>
  Effect.map(check(op, Tenancy, { tenant }), ({ tenant }) => tenant.normalize("NFC"))

/** Makes the error of a durable or shared store without a secret: every process has to sign its rows with the same one. */
const secretless = (name: string) =>
  invalid("make", `${name}: a durable or shared store needs a \`secret\`, the same each time it is made`)

/** A tombstone is absent, and so is what expired; the library itself sees both. */
const shown = (viewer: Viewer.Any, row: Stored | undefined, now: number): MemoryRecord | undefined => {
  if (row === undefined) return undefined
  if (Viewer.isSystem(viewer)) return row.record
  return Viewer.sees(viewer, row.record.scope) && !row.forgotten && !isExpired(row.record, now) ? row.record : undefined
}

/**
 * The part of a history that a viewer is told: since the record was last put anew, so what was forgotten before stays
 * forgotten. What was forgotten and restored has all of its past again, the tombstone among it.
 */
const told = (viewer: Viewer.Any, revisions: ReadonlyArray<MemoryRecord>): ReadonlyArray<MemoryRecord> => {
  if (Viewer.isSystem(viewer)) return revisions
  const first = revisions.findIndex((record, n) => Version.isAnew(record, revisions.slice(n + 1)))
  return revisions.slice(0, first < 0 ? undefined : first + 1).filter(({ scope }) => Viewer.sees(viewer, scope))
}
