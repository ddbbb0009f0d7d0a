/**
 * Makes the one `Service` of an engine: named functions over what they depend on (`Transaction`, `Reads`, `Searching`,
 * `Compaction`), each behind the viewer check, counted as activity, timed and traced.
 */
import * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import * as Metric from "effect/Metric"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { sign } from "../../domain/Digest.ts"
import * as MemoryError from "../../domain/MemoryError.ts"
import * as MemoryKind from "../../domain/MemoryKind.ts"
import * as Viewer from "../../domain/Viewer.ts"
import * as SecureRandom from "../../host/SecureRandom.ts"
import * as Analyzer from "../../ranking/Analyzer.ts"
import { fingerprint } from "../../ranking/Tokenizer.ts"
import * as Activity from "../Activity.ts"
import * as Calls from "../Calls.ts"
import { said } from "../Changes.ts"
import { check, invalid } from "../Check.ts"
import type { Engine, Reader } from "../Engine.ts"
import type { Capabilities, Extras, Primitives, Service } from "../MemoryStore.ts"
import * as Minting from "../Minting.ts"
import * as Usage from "../Usage.ts"
import * as Vectors from "../Vectors.ts"
import { entryOf } from "../Version.ts"
import * as Compaction from "./Compaction.ts"
import * as MemoryEngine from "./MemoryEngine.ts"
import * as Reads from "./Reads.ts"
import * as RowsEngine from "./RowsEngine.ts"
import * as Transaction from "./Transaction.ts"

/** Makes a store of primitives. */
export const fromRows = (name: string, primitives: Primitives): Effect.Effect<Service, MemoryError.MemoryError> =>
  Effect.gen(function*() {
    const { capabilities, ingest, outside, tools, usage } = primitives
    const { history: _, ...rest } = capabilities ?? {} // whoever keeps no revisions has no history, whatever it claims
    return yield* make(name, yield* RowsEngine.fromRows(name, primitives), {
      capabilities: rest,
      ingest,
      outside,
      tools,
      usage
    })
  })

/** Makes a store in memory. */
export const inMemory = (
  { trash }: Pick<Primitives, "trash">
): Effect.Effect<Service, MemoryError.MemoryError> =>
  Effect.gen(function*() {
    const kinds = yield* MemoryKind.Kinds
    const analyzer = yield* Analyzer.Analyzer
    return yield* make("memory", MemoryEngine.make({ kinds, analyzer, trash }))
  })

/** Makes a store of an engine. `name` is what spans and metrics are called. Erases what is due before it returns. */
export const make = (
  name: string,
  engine: Engine,
  extras: Extras = {}
): Effect.Effect<Service, MemoryError.MemoryError> =>
  Effect.gen(function*() {
    const { ingest, outside, tools } = extras
    const capabilities: Capabilities = {
      ...engine.capabilities,
      vector: engine.vectors !== undefined,
      messages: ingest !== undefined,
      ...extras.capabilities
    }
    const secret = yield* secretOf(name, engine, capabilities)
    const analyzer = yield* Analyzer.Analyzer
    yield* madeBy(name, engine, analyzer)
    const store = {
      name,
      engine,
      analyzer,
      kinds: yield* MemoryKind.Kinds,
      minting: (yield* Minting.Shared) ?? (yield* Minting.make),
      entryOf: entryOf(analyzer)
    }
    let nextExpiry = Infinity
    const activity = Activity.make(() => nextExpiry)
    const begun = engine.ready ? Effect.zipRight(activity.called, engine.ready) : activity.called
    const counted = <A, E>(op: string, self: Effect.Effect<A, E>): Effect.Effect<A, E> =>
      observed(name, op, Effect.zipRight(begun, self))
    const compact = Effect.map(Compaction.compact(engine), (compacted) => {
      nextExpiry = compacted.nextExpiry
      return compacted.count
    })
    const usage = extras.usage ?? Usage.make((viewer, ids) => Reads.get(store, viewer, ids), engine.uses)

    const service = Calls.checkingViewer({
      name,
      capabilities,
      ...Calls.writes((op, viewer, mutations, provenance) =>
        counted(op, Transaction.apply(store, op, viewer, mutations, provenance))
      ),
      get: (viewer, ids) => counted("get", Reads.get(store, viewer, ids)),
      search: (viewer, query) => counted("search", Reads.search(store, viewer, query)),
      list: (viewer, filter) => counted("list", Reads.list(store, viewer, filter)),
      stream: (viewer, filter) =>
        Stream.withSpan(
          Stream.unwrap(Effect.as(begun, Reads.stream(store, viewer, filter))),
          `${name}.stream`
        ),
      history: (viewer, id, limit) => counted("history", Reads.history(store, viewer, id, limit)),
      changes: (viewer) => {
        const ours = engine.changes(Viewer.tenantOf(viewer), said(viewer))
        return outside ? Stream.merge(ours, outside(viewer)) : ours
      },
      whyNot: (viewer, id, query) => counted("whyNot", Reads.whyNot(store, viewer, id, query)),
      links: (viewer, id) => counted("links", Reads.links(store, viewer, id)),
      touch: (viewer, ids) => counted("touch", usage.touch(viewer, ids)),
      uses: (viewer, ids) => counted("uses", usage.uses(viewer, ids)),
      tenants: counted("tenants", Effect.map(Stream.runCollect(engine.tenants), Chunk.toReadonlyArray)),
      compact: observed(name, "compact", engine.capabilities.writable ? compact : Effect.succeed(0)),
      activity: { since: activity.since, nextExpiry: activity.nextExpiry },
      vectors: Option.map(Option.fromNullable(engine.vectors), (vectors) => vectorsOf(Vectors.make(vectors), counted)),
      reader: Option.some(readerOf(engine, counted)),
      sign: (purpose, text) => observed(name, "sign", Effect.sync(() => sign(secret, JSON.stringify([purpose, text])))),
      ingest: Option.fromNullable(ingest),
      tools: tools ?? (() => [])
    })
    yield* service.compact
    return service
  })

/** Fails where the engine's index has the terms of another analyzer: questions would be asked in words that it does not have. */
const madeBy = (
  name: string,
  engine: Engine,
  analyzer: Analyzer.Service
): Effect.Effect<void, MemoryError.MemoryError> =>
  Effect.flatMap(engine.analyzer, (made) =>
    made === undefined || made === fingerprint(analyzer.index)
      ? Effect.void
      : MemoryError.make("unsupported", {
        op: "make",
        message: `${name}: its index was made by another analyzer. Provide that one, or run MemoryStore.reindex`
      }))

/** Makes the index of an engine anew, with the analyzer in force. Nobody may use the engine meanwhile. */
export const reindex = (engine: Engine): Effect.Effect<void, MemoryError.MemoryError> =>
  Effect.flatMap(Analyzer.Analyzer, (analyzer) => engine.reindex(fingerprint(analyzer.index), entryOf(analyzer)))

const duration = Metric.timer("memory_store_duration", "How long the operations of a store take")

/** Times and traces a call. */
const observed = <A, E>(name: string, op: string, self: Effect.Effect<A, E>): Effect.Effect<A, E> =>
  self.pipe(
    Metric.trackDuration(duration.pipe(Metric.tagged("store", name), Metric.tagged("op", op))),
    Effect.withSpan(`${name}.${op}`)
  )

/** Every process that shares a store, or opens it again, has to sign its rows with the same secret. */
const secretOf = (name: string, { secret }: Engine, { durable, shared }: Capabilities) =>
  secret !== undefined
    ? Effect.succeed(secret)
    : durable || shared
    ? invalid("make", `${name}: a durable or shared store needs a \`secret\`, the same each time it is made`)
    : SecureRandom.secret

const readerOf = (
  { changed, page, read, revisions }: Engine,
  counted: <A, E>(op: string, self: Effect.Effect<A, E>) => Effect.Effect<A, E>
): Reader => ({
  read: (tenant, ids) => counted("read", read(tenant, ids)),
  revisions: (tenant, id, limit) => counted("revisions", revisions(tenant, id, limit)),
  page: (sight, asked, after, limit) => counted("page", page(sight, asked, after, limit)),
  changed: changed && ((tenant, since) => counted("changed", changed(tenant, since)))
})

const Tenancy = Schema.Struct({ tenant: Viewer.Tenant })

/** Checks the tenant of each call, and asks in NFC, the form that is used as a key. */
const vectorsOf = (
  { attach, pending, read }: Vectors.Vectors,
  counted: <A, E>(op: string, self: Effect.Effect<A, E>) => Effect.Effect<A, E>
): Vectors.Vectors => {
  const within = <A>(
    op: string,
    tenant: string,
    call: (tenant: string) => Effect.Effect<A, MemoryError.MemoryError>
  ): Effect.Effect<A, MemoryError.MemoryError> =>
    counted(op, Effect.flatMap(check(op, Tenancy, { tenant }), ({ tenant }) => call(tenant.normalize("NFC"))))
  return {
    pending: (tenant, model, limit) => within("pending", tenant, (tenant) => pending(tenant, model, limit)),
    attach: (tenant, model, vectors) => within("attach", tenant, (tenant) => attach(tenant, model, vectors)),
    read: (tenant, model, hashes) => within("read", tenant, (tenant) => read(tenant, model, hashes))
  }
}
