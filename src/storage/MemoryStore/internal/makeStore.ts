/**
 * Makes a store (`Service`) over an engine from the functions of `Transaction`, `Reads` and `Compaction`. Each operation checks its viewer.
 * Most operations have a span and a duration metric, and are counted in `Activity`. Periodic work waits for this count to change.
 */
import * as Chunk from "effect/Chunk"
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as FiberId from "effect/FiberId"
import * as Metric from "effect/Metric"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { sign } from "../../../domain/Digest.ts"
import * as MemoryError from "../../../domain/MemoryError.ts"
import * as MemoryKind from "../../../domain/MemoryKind.ts"
import { type Applied, isPurge, type MemoryMutation, type Provenance } from "../../../domain/MemoryMutation.ts"
import { check, invalid, refuseOptions, timeIssues } from "../../../domain/Validation.ts"
import * as Viewer from "../../../domain/Viewer.ts"
import * as Redaction from "../../../host/Redaction.ts"
import * as SecureRandom from "../../../host/SecureRandom.ts"
import * as Analyzer from "../../../ranking/Analyzer.ts"
import { fingerprint } from "../../../ranking/Tokenizer.ts"
import { visibleChange } from "../../ChangeFeed.ts"
import * as Engine from "../../Engine.ts"
import * as Compaction from "../../internal/Compaction.ts"
import * as MemoryEngine from "../../internal/MemoryEngine.ts"
import type { Capabilities, Extras, Primitives, Put, Service } from "../../MemoryStore.ts"
import { entryOf } from "../../Revision.ts"
import * as Vectors from "../../Vectors.ts"
import * as Reads from "./Reads.ts"
import * as Transaction from "./Transaction.ts"

/** Makes a store from the primitives of a backend. `name` is used in spans, metrics and errors. */
export const fromRows = (name: string, primitives: Primitives): Effect.Effect<Service, MemoryError.MemoryError> =>
  Effect.gen(function*() {
    const { capabilities, ingest, outside, tools, trash, usage } = primitives
    yield* checkTrash(name, trash)
    // ignores the declared `history`: the store has history exactly if the backend reads revisions
    const { history: _, ...rest } = capabilities ?? {}
    return yield* make(name, yield* Engine.fromRows(name, primitives), {
      capabilities: rest,
      ingest,
      outside,
      tools,
      usage
    })
  })

const checkTrash = (name: string, trash: Primitives["trash"]) =>
  refuseOptions(`${name}.make`, timeIssues("trash", trash, { least: 0, infinite: true }))

/** Makes a store in RAM. It is named `memory` in spans, metrics and errors. */
export const inMemory = (
  { trash }: Pick<Primitives, "trash">
): Effect.Effect<Service, MemoryError.MemoryError> =>
  Effect.gen(function*() {
    yield* checkTrash("memory", trash)
    const kinds = yield* MemoryKind.registered
    const analyzer = yield* Analyzer.Analyzer
    return yield* make("memory", MemoryEngine.make({ kinds, analyzer, trash }))
  })

/** Makes a store from an engine, and compacts it once. `name` is used in spans, metrics and errors. */
export const make = (
  name: string,
  engine: Engine.Engine,
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
    const redaction = yield* Redaction.Redaction
    const store = {
      name,
      engine,
      analyzer,
      kinds: yield* MemoryKind.registered,
      idGenerator: (yield* Transaction.SharedIdGenerator) ?? (yield* Transaction.makeIdGenerator),
      entryOf: entryOf(analyzer)
    }
    const usage = Reads.usageOf(engine, (viewer, ids) => Reads.get(store, viewer, ids), extras.usage)
    const apply: typeof Transaction.apply = (store, op, viewer, mutations, provenance) =>
      Effect.tap(Transaction.apply(store, op, viewer, mutations, provenance), (applied) => {
        const forgotten = applied.flatMap(({ id, outcome }, n) =>
          outcome === "forgotten" ? [{ id, mutation: mutations[n]! }] : []
        )
        const purged = forgotten.filter(({ mutation }) => isPurge(mutation)).map(({ id }) => id)
        return purged.length === 0 ? Effect.void : Effect.sync(() => usage.erase(Viewer.tenantOf(viewer), purged))
      })
    let nextExpiry = Infinity
    const activity = makeActivity(() => nextExpiry)
    const begun = engine.ready ? Effect.zipRight(activity.called, engine.ready) : activity.called
    const observed = observer(name)
    const counted = <A, E>(op: string, self: Effect.Effect<A, E>): Effect.Effect<A, E> =>
      observed(op, Effect.zipRight(begun, self))
    const compact = Effect.map(Compaction.compact(engine), (compacted) => {
      nextExpiry = compacted.nextExpiry
      return compacted.count
    })

    const service = checkingViewer({
      name,
      capabilities,
      redaction: Option.fromNullable(redaction),
      ...writes((op, viewer, mutations, provenance) =>
        counted(
          op,
          redaction === undefined
            ? apply(store, op, viewer, mutations, provenance)
            : Effect.flatMap(
              Redaction.mutations(redaction, viewer, mutations),
              (mutations) => apply(store, op, viewer, mutations, provenance)
            )
        )
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
        const ours = engine.changes(Viewer.tenantOf(viewer), visibleChange(viewer))
        return outside ? Stream.merge(ours, outside(viewer)) : ours
      },
      whyNot: (viewer, id, query) => counted("whyNot", Reads.whyNot(store, viewer, id, query)),
      links: (viewer, id) => counted("links", Reads.links(store, viewer, id)),
      touch: (viewer, ids) => counted("touch", usage.touch(viewer, ids)),
      uses: (viewer, ids) => counted("uses", usage.uses(viewer, ids)),
      tenants: counted("tenants", Effect.map(Stream.runCollect(engine.tenants), Chunk.toReadonlyArray)),
      compact: observed("compact", engine.capabilities.writable ? compact : Effect.succeed(0)),
      activity: { since: activity.since, nextExpiry: activity.nextExpiry },
      vectors: Option.map(Option.fromNullable(engine.vectors), (vectors) => vectorsOf(Vectors.make(vectors), counted)),
      reader: Option.some(readerOf(name, engine, usage.kept, counted)),
      sign: (purpose, text) => observed("sign", Effect.sync(() => sign(secret, JSON.stringify([purpose, text])))),
      ingest: Option.map(
        Option.fromNullable(ingest),
        (ingest): Engine.Ingest => (viewer, session, messages, sequence) =>
          Effect.flatMap(
            Redaction.messages(redaction, viewer, messages),
            (messages) => ingest(viewer, session, messages, sequence)
          )
      ),
      tools: tools ?? (() => [])
    })
    yield* service.compact
    return service
  })

/** Makes the write operations of a store. `batch` applies mutations, and uses `op` as the name of the operation in errors. */
export const writes = (
  batch: (
    op: "apply" | "put" | "update" | "forget",
    viewer: Viewer.Any,
    mutations: ReadonlyArray<MemoryMutation>,
    provenance?: Provenance
  ) => Effect.Effect<ReadonlyArray<Applied>, MemoryError.MemoryError>
): Pick<Service, "apply" | "put" | "update" | "forget"> => ({
  apply: (viewer, mutations, provenance) => batch("apply", viewer, mutations, provenance),
  put: (viewer, drafts, { ifRevision, ...provenance } = {}) =>
    !Array.isArray(drafts)
      ? invalid("put", "drafts: expected an array")
      : ifRevision !== undefined && drafts.length !== 1
      ? invalid("put", "ifRevision: is about one draft")
      : Effect.map(
        batch("put", viewer, drafts.map((draft) => ({ _tag: "Put", draft, ifRevision })), provenance),
        (all) => all.map(toPut)
      ),
  update: (viewer, id, patch, { ifRevision } = {}) =>
    Effect.map(
      batch("update", viewer, [{ _tag: "Update", id, patch, ifRevision }]),
      ([applied]) => applied!.record! // one mutation has one result, and the result of an update has a record
    ),
  forget: (viewer, ids, { purge } = {}) =>
    !Array.isArray(ids)
      ? invalid("forget", "ids: expected an array")
      : Effect.map(
        batch("forget", viewer, ids.map((id) => ({ _tag: "Forget", id, purge }))),
        (all) => all.map(({ outcome }) => outcome === "forgotten")
      )
})

const toPut = ({ outcome, record }: Applied): Put => ({ record: record!, outcome: outcome as Put["outcome"] }) // every put has a record

/** Fails if another analyzer made the engine's index. The terms of such an index do not match the terms of queries. */
const madeBy = (
  name: string,
  engine: Engine.Engine,
  analyzer: Analyzer.Service
): Effect.Effect<void, MemoryError.MemoryError> =>
  Effect.flatMap(engine.analyzer, (made) =>
    made === undefined || made === fingerprint(analyzer.index)
      ? Effect.void
      : MemoryError.make("unsupported", {
        op: "make",
        message: `${name}: its index was made by another analyzer. Provide that one, or run MemoryStore.reindex`
      }))

/** Rebuilds the index of an engine with the configured analyzer. Nothing else may use the engine at the same time. */
export const reindex = (engine: Engine.Engine): Effect.Effect<void, MemoryError.MemoryError> =>
  Effect.flatMap(Analyzer.Analyzer, (analyzer) => engine.reindex(fingerprint(analyzer.index), entryOf(analyzer)))

const duration = Metric.timer("memory_store_duration", "How long the operations of a store take")

/** Makes a function that adds a span and a duration metric to an operation. The metrics are cached by operation. */
const observer = (name: string) => {
  const durations = new Map<string, typeof duration>()
  return <A, E>(op: string, self: Effect.Effect<A, E>): Effect.Effect<A, E> => {
    const known = durations.get(op)
    const metric = known ?? duration.pipe(Metric.tagged("store", name), Metric.tagged("op", op))
    if (known === undefined) durations.set(op, metric)
    return Effect.withSpan(Metric.trackDuration(self, metric), `${name}.${op}`, untraced)
  }
}

/** Span options without stack traces. A trace would cost more than the rest of the span, and show only the library's code. */
const untraced = { captureStackTrace: false }

/** Returns the secret for `sign`. A durable or shared engine must have a secret, so that all processes use the same one. */
const secretOf = (name: string, { secret }: Engine.Engine, { durable, shared }: Capabilities) =>
  secret !== undefined
    ? Effect.succeed(secret)
    : durable || shared
    ? invalid("make", `${name}: a durable or shared store needs a \`secret\`, the same each time it is made`)
    : SecureRandom.secret

const readerOf = (
  name: string,
  { capabilities, changed, overCap, page, read, revisions, tenantsWith, transact }: Engine.Engine,
  uses: Engine.Reader["uses"],
  counted: <A, E>(op: string, self: Effect.Effect<A, E>) => Effect.Effect<A, E>
): Engine.Reader => ({
  read: (tenant, ids) => counted("read", read(tenant, ids)),
  revisions: (tenant, id, limit) => counted("revisions", revisions(tenant, id, limit)),
  page: (access, compiled, after, limit) => counted("page", page(access, compiled, after, limit)),
  changed: changed && ((tenant, since) => counted("changed", changed(tenant, since))),
  overCap: (tenant, caps) => counted("overCap", overCap(tenant, caps)),
  tenantsWith,
  transact: (tenant, needs, decide) =>
    capabilities.writable
      ? counted("transact", transact(tenant, needs, decide))
      : MemoryError.make("read_only", { op: "transact", message: `${name} takes no writes` }),
  uses
})

const Tenancy = Schema.Struct({ tenant: Viewer.Tenant })

/** Wraps the vectors of a store. Each call validates its tenant, and converts the tenant to NFC. */
const vectorsOf = (
  { attach, models, pending, read }: Vectors.Vectors,
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
    models: (tenant) => within("models", tenant, models),
    read: (tenant, model, hashes) => within("read", tenant, (tenant) => read(tenant, model, hashes))
  }
}

/**
 * The activity of a store: the number of calls of its operations, and the time at which the next row may be erased. Periodic work waits
 * until the store is called. Compaction also runs when that time comes, and again if the last compaction failed. If none of this happens,
 * the work never runs. A long sleep of the machine, or a large step of a test's clock, causes only one run.
 */
export interface Activity {
  /**
   * Waits until the number of calls of the store differs from `known`, and returns the number. Calls of `compact`, `sign`, `changes`,
   * `ingest`, `tools`, `reader.tenantsWith` and `reader.uses` are not counted.
   */
  readonly since: (known: number) => Effect.Effect<number>
  /** Earliest time at which a row may be erased, in epoch milliseconds; `Infinity` if none. The last compaction computed this time. */
  readonly nextExpiry: Effect.Effect<number>
}

/** Returns the number of calls of the store so far. */
export const calls = (activity: Activity): Effect.Effect<number> => activity.since(-1)

/**
 * Makes the activity of a store. The effect `called` counts one call of the store each time it runs. `nextExpiry` returns the earliest time
 * at which a row may be erased, in epoch milliseconds.
 */
export const makeActivity = (nextExpiry: () => number): Activity & { readonly called: Effect.Effect<void> } => {
  let count = 0
  let next: Deferred.Deferred<void> | undefined
  const since = (known: number): Effect.Effect<number> =>
    Effect.suspend(() => {
      if (count !== known) return Effect.succeed(count)
      next ??= Deferred.unsafeMake(FiberId.none)
      return Effect.zipRight(Deferred.await(next), since(known))
    })
  return {
    since,
    nextExpiry: Effect.sync(nextExpiry),
    called: Effect.sync(() => {
      count++
      if (next === undefined) return
      Deferred.unsafeDone(next, Effect.void)
      next = undefined
    })
  }
}

/**
 * Combines the activities of several stores into one activity, which counts the calls of all these stores. `all` runs again after each call
 * of one of the stores. A store that was added is then included.
 */
export const combineActivities = (all: Effect.Effect<ReadonlyArray<Activity>>): Activity => {
  const since = (known: number): Effect.Effect<number> =>
    Effect.gen(function*() {
      const activities = yield* all
      const counts = yield* Effect.forEach(activities, calls)
      const sum = counts.reduce((sum, count) => sum + count, 0)
      if (sum !== known) return sum
      yield* Effect.raceAll(activities.map((one, n) => one.since(counts[n]!)))
      return yield* since(known)
    })
  return {
    since,
    nextExpiry: Effect.flatMap(all, (activities) =>
      Effect.map(
        Effect.forEach(activities, ({ nextExpiry }) => nextExpiry),
        (times) => Math.min(...times)
      ))
  }
}

/** Longest delay of a timer in JavaScript, in milliseconds: about 24 days. */
const longest = 2 ** 31 - 1

/**
 * Sleeps until a time in epoch milliseconds; for ever if the time is `Infinity`. A sleep of more than 24 days uses several timers, one
 * after another.
 */
export const sleepUntil = (time: number): Effect.Effect<void> =>
  time === Infinity
    ? Effect.never
    : Effect.flatMap(Clock.currentTimeMillis, (now) =>
      now >= time
        ? Effect.void
        : Effect.zipRight(Effect.sleep(Math.min(time - now, longest)), Effect.suspend(() => sleepUntil(time))))

type Call = (viewer: Viewer.Any, ...rest: Array<never>) => Effect.Effect<unknown, MemoryError.MemoryError>

const checked = <F extends Call>(op: string, call: F): F =>
  ((viewer, ...rest) => Viewer.isAny(viewer) ? call(viewer, ...rest) : Viewer.notViewer(op)) as F // the wrapper has the type of `call`

/**
 * Wraps a store so that each operation checks its viewer. An operation fails with `invalid_scope` if the viewer is not a valid `Viewer`. A
 * plain object is not valid: it could have any fields, and the fields decide what may be read. Only `tools` does not fail, but returns no
 * tools.
 */
export const checkingViewer = (store: Service): Service => ({
  ...store,
  apply: checked("apply", store.apply),
  put: checked("put", store.put),
  get: checked("get", store.get),
  search: checked("search", store.search),
  list: checked("list", store.list),
  stream: (viewer, filter) =>
    Viewer.isAny(viewer) ? store.stream(viewer, filter) : Stream.fail(Viewer.notViewer("stream")),
  update: checked("update", store.update),
  forget: checked("forget", store.forget),
  history: checked("history", store.history),
  changes: (viewer) => Viewer.isAny(viewer) ? store.changes(viewer) : Stream.fail(Viewer.notViewer("changes")),
  whyNot: checked("whyNot", store.whyNot),
  links: checked("links", store.links),
  touch: checked("touch", store.touch),
  uses: checked("uses", store.uses),
  ingest: Option.map(store.ingest, (ingest) => checked("ingest", ingest)),
  tools: (viewer) => Viewer.isAny(viewer) ? store.tools(viewer) : []
})
