/**
 * Automatic memory over several named stores. It searches all stores, adds records, and extracts memories from conversations.
 *
 * ```text
 * search     searches the federation of all stores, by words and, with an embedder, by meaning
 * add        writes the same drafts to each selected store; a store that fails does not affect the others
 * messages   are queued in the outbox of each store that extracts; the outbox keeps them as rows of that store
 * ```
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Fiber from "effect/Fiber"
import * as FiberSet from "effect/FiberSet"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as MemoryError from "../domain/MemoryError.ts"
import { Limit, type MemoryQuery, type SearchResult } from "../domain/MemoryFilter.ts"
import * as MemoryKind from "../domain/MemoryKind.ts"
import type { Draft } from "../domain/MemoryRecord.ts"
import { MemoryScope } from "../domain/MemoryScope.ts"
import type { Message } from "../domain/Message.ts"
import * as Validation from "../domain/Validation.ts"
import { SharedWrites, type Viewer } from "../domain/Viewer.ts"
import * as Completion from "../host/Completion.ts"
import * as Embedder from "../host/Embedder.ts"
import * as Redaction from "../host/Redaction.ts"
import * as MemoryPipeline from "../pipeline/MemoryPipeline.ts"
import * as EmbeddingSync from "../storage/EmbeddingSync.ts"
import * as MemoryStore from "../storage/MemoryStore.ts"
import * as Federated from "../storage/MemoryStore/Federated.ts"
import * as Injection from "./Injection.ts"
import * as MemoryEvents from "./MemoryEvents.ts"
import * as Outbox from "./Outbox.ts"
import * as ExtractionRunner from "./Outbox/ExtractionRunner.ts"
import * as PromptBlock from "./PromptBlock.ts"

export type { InjectionConfig } from "./Injection.ts"
export type { ExtractionConfig } from "./Outbox.ts"

/** Options of the layer. */
export interface Config {
  /** Extraction by store name: `true` for the default options, `false` for no extraction. Default: no extraction in any store. */
  readonly extraction?: { readonly [store: string]: boolean | Outbox.Options | undefined } | undefined
  /** `true` turns injection on, `false` turns it off. An object turns it on with the given options. Default true. */
  readonly injection?: boolean | Injection.InjectionConfig | undefined
}
/** The outcome of `add` in one store. */
export interface Added {
  readonly store: string
  readonly result: Effect.Effect<ReadonlyArray<MemoryStore.Put>, MemoryError.MemoryError>
}
/** A choice of stores. */
export interface StoreSelection {
  /** Names; repeats count once. Absent or `[]`: all stores; for writes, all writable. Unknown names fail (`not_found`) before any call. */
  readonly stores?: ReadonlyArray<string> | undefined
}
/** Operations of `MemoryManager`. */
export interface Service {
  /** The stores, in the order of the federation. */
  readonly stores: Effect.Effect<ReadonlyArray<Federated.Named>>
  readonly search: (
    viewer: Viewer,
    query: string,
    options?: StoreSelection & {
      /** Largest number of results from each store. Default: the `maxResults` with which the store was registered. */
      readonly maxSearchResults?: number | undefined
    }
  ) => Effect.Effect<SearchResult, MemoryError.MemoryError>
  /**
   * Adds drafts to the named stores or, without names, to all writable stores. Returns one outcome per store. Fails with `read_only` if a
   * named store, or every store, is read-only. Fails with `invalid_id` if a draft has an id and several stores are selected. If every store
   * fails, the error names each store. Its reason is `unavailable` if the reasons of the stores differ.
   */
  readonly add: (
    viewer: Viewer,
    drafts: ReadonlyArray<Draft>,
    options?: StoreSelection & MemoryStore.Provenance
  ) => Effect.Effect<ReadonlyArray<Added>, MemoryError.MemoryError>
  /** Checks `stores`, then runs `add` in the background. Its failure is published and logged. `flush` waits, and a closing scope ≤ 30 s. */
  readonly accept: (
    viewer: Viewer,
    drafts: ReadonlyArray<Draft>,
    options?: StoreSelection & MemoryStore.Provenance
  ) => Effect.Effect<void, MemoryError.MemoryError>
  /** Adds messages to the outbox of every store with extraction. Fails if an outbox fails. The error names the store. */
  readonly addMessages: (
    viewer: Viewer,
    session: string,
    messages: ReadonlyArray<Message>
  ) => Effect.Effect<void, MemoryError.MemoryError>
  /** Notifies the extraction triggers that the session has ended. */
  readonly sessionEnd: (viewer: Viewer, session: string) => Effect.Effect<void, MemoryError.MemoryError>
  /** Renders memories for a turn. The block is empty if `InjectionConfig.trigger` excludes the turn or, by default, if nothing is found. */
  readonly inject: Injection.Inject
  /** Waits for the writes of `accept`, then extracts from all waiting messages. An error says how many conversations failed, not which. */
  readonly flush: Effect.Effect<void, MemoryError.MemoryError>
  /** The outboxes, by store name; only stores that extract have one. */
  readonly outboxes: ReadonlyMap<string, Outbox.Service>
}
/** Tag of the manager. */
export class MemoryManager extends Context.Tag("@memory/MemoryManager")<MemoryManager, Service>() {}

/** Provides the manager. Fails with `invalid_draft` if the configuration does not fit the stores. The error lists every violation. */
export const layer = (
  config: Config = {}
): Layer.Layer<
  MemoryManager,
  MemoryError.MemoryError,
  Federated.Federated | Completion.Completion | Embedder.Embedder
> => Layer.scoped(MemoryManager, make(config))

/** The dependencies that the calls of a manager share. */
interface Managed {
  readonly federated: Federated.Service
  readonly completion: Completion.Service
  readonly embedder: Embedder.Service
  readonly events: MemoryEvents.EventPublisher
  readonly outboxes: ReadonlyMap<string, Outbox.Service>
  readonly working: FiberSet.FiberSet<void> // running fibers of `accept`
  isOpen: boolean // set to false when the Effect scope begins to close; `accept` then fails
}

const make = (
  config: Config
): Effect.Effect<
  Service,
  MemoryError.MemoryError,
  Federated.Federated | Completion.Completion | Embedder.Embedder | Scope.Scope
> =>
  Effect.gen(function*() {
    const federated = yield* Federated.Federated
    const completion = yield* Completion.Completion
    const stores = yield* federated.stores
    const written = stores.filter(({ writable }) => writable).map(({ store }) => store)
    yield* Effect.forEach(written, (store) => Redaction.required("MemoryManager.layer", store), { discard: true })
    const redaction = yield* Redaction.over({ name: "federated", redaction: Redaction.combine(written) })
    const embedder = Redaction.embedder(redaction, yield* Embedder.Embedder)
    const listeners = yield* Effect.serviceOption(MemoryEvents.MemoryEvents)
    const publish = Option.match(listeners, { onNone: () => () => Effect.void, onSome: ({ publish }) => publish })
    const events = MemoryEvents.makePublisher(publish)
    const working = yield* FiberSet.make<void>()
    yield* check(config, stores, completion)
    const outboxes = new Map(
      yield* Effect.forEach(extractionsOf(config), ([name, extraction]) =>
        Effect.gen(function*() {
          const { store } = yield* federated.get(name)
          const pipeline = yield* pipelineOf({ completion, embedder }, store)
          const listener: Outbox.Listener = { applied: events.changed, degraded: events.degraded }
          // ids of messages stored word for word are derived from this name
          const options: Outbox.Options["options"] = { ...extraction.options, conversation: name }
          return [name, yield* Outbox.make(store, pipeline, { ...extraction, options }, listener)] as const
        }))
    )
    const managed: Managed = { federated, completion, embedder, events, outboxes, working, isOpen: true }
    yield* Effect.addFinalizer(() => close(managed))

    const inject = config.injection === false
      ? () => Effect.succeed(PromptBlock.empty)
      : Injection.make(
        (viewer, query) => recall(managed, viewer, query, { maxResults: query.limit }),
        config.injection === true ? {} : config.injection
      )
    return {
      stores: federated.stores,
      search: (viewer, text, { maxSearchResults: maxResults, stores } = {}) =>
        Effect.withSpan(recall(managed, viewer, { text }, { stores, maxResults }), "MemoryManager.search"),
      add: (viewer, drafts, options) => Effect.withSpan(add(managed, viewer, drafts, options), "MemoryManager.add"),
      accept: (viewer, drafts, options) =>
        Effect.withSpan(accept(managed, viewer, drafts, options), "MemoryManager.accept"),
      addMessages: (viewer, session, messages) =>
        (isSession(session) ? each(managed, ({ append }) => append(viewer, session, messages)) : unnamed()).pipe(
          Effect.withSpan("MemoryManager.addMessages")
        ),
      sessionEnd: (viewer, session) =>
        Effect.withSpan(each(managed, ({ sessionEnd }) => sessionEnd(viewer, session)), "MemoryManager.sessionEnd"),
      inject: (viewer, turn) => Effect.withSpan(inject(viewer, turn), "MemoryManager.inject"),
      flush: Effect.suspend(() => managed.isOpen ? Fiber.awaitAll(Array.from(working)) : Effect.void).pipe(
        Effect.zipRight(each(managed, ({ flush }) => flush)),
        Effect.withSpan("MemoryManager.flush")
      ),
      outboxes
    } satisfies Service
  })

/** Closes the manager: no further drafts are accepted. Waits, at most 30 seconds, until the accepted drafts are written. */
const close = (managed: Managed): Effect.Effect<void> =>
  Effect.suspend(() => {
    const last = Array.from(managed.working)
    managed.isOpen = false
    return Fiber.awaitAll(last)
  }).pipe(
    Effect.interruptible, // lets the timeout interrupt the wait; finalizers are uninterruptible by default
    Effect.timeout("30 seconds"),
    Effect.catchTag("TimeoutException", () => Effect.logWarning("memory: what was accepted is not all written"))
  )

const pipelineOf = (
  { completion, embedder }: Pick<Managed, "completion" | "embedder">,
  store: MemoryStore.Service
): Effect.Effect<MemoryPipeline.Service> =>
  Effect.provide(
    MemoryPipeline.make,
    Context.make(MemoryStore.MemoryStore, store).pipe(
      Context.add(Completion.Completion, completion),
      Context.add(Embedder.Embedder, embedder)
    )
  )

const recall = (
  { embedder, events, federated }: Managed,
  viewer: Viewer,
  query: MemoryQuery,
  options: Parameters<Federated.Service["search"]>[2]
) =>
  events.recall(
    viewer,
    query,
    EmbeddingSync.recall(EmbeddingSync.embedderOf(embedder), query, (query) => federated.search(viewer, query, options))
  ).pipe(
    Effect.tap(({ failures }) =>
      Effect.forEach(failures, ({ error, leg }) => events.degraded(viewer, leg)(error), { discard: true })
    )
  )

const add = (
  managed: Managed,
  viewer: Viewer,
  drafts: ReadonlyArray<Draft>,
  { stores, ...provenance }: StoreSelection & MemoryStore.Provenance = {}
): Effect.Effect<ReadonlyArray<Added>, MemoryError.MemoryError> =>
  Effect.flatMap(targets(managed.federated, stores), (targets) => addTo(managed, viewer, drafts, targets, provenance))

const closed = () => MemoryError.make("unavailable", { op: "accept", message: "the memory is closed" })
const accept = (
  managed: Managed,
  viewer: Viewer,
  drafts: ReadonlyArray<Draft>,
  { stores, ...provenance }: StoreSelection & MemoryStore.Provenance = {}
): Effect.Effect<void, MemoryError.MemoryError> =>
  Effect.flatMap(
    targets(managed.federated, stores),
    (targets) =>
      !managed.isOpen ? closed() : addTo(managed, viewer, drafts, targets, provenance).pipe(
        Effect.flatMap((all) => noneFailed("add", all)),
        Effect.catchAll(managed.events.degraded(viewer, "add")),
        Effect.disconnect, // a store that hangs must not delay the closing of the Effect scope by more than 30 seconds
        FiberSet.run(managed.working),
        Effect.asVoid
      )
  )

/** Returns the named stores, by default all writable stores. Fails with `read_only` if a named store, or every store, is read-only. */
const targets = (
  federated: Federated.Service,
  names: ReadonlyArray<string> = []
): Effect.Effect<ReadonlyArray<Federated.Named>, MemoryError.MemoryError> =>
  Effect.gen(function*() {
    const all = names.length === 0
      ? (yield* federated.stores).filter(({ writable }) => writable)
      : yield* Effect.forEach(new Set(names), federated.get)
    const closed = all.find(({ writable }) => !writable)
    const message = closed ? `the store ${closed.name} takes no writes` : "no writable store matched"
    return closed || all.length === 0 ? yield* MemoryError.make("read_only", { op: "add", message }) : all
  })

/** Adds the drafts to each store. Fails if all stores fail, and with `invalid_id` if a draft has an id and there are several stores. */
const addTo = (
  managed: Managed,
  viewer: Viewer,
  drafts: ReadonlyArray<Draft>,
  stores: ReadonlyArray<Federated.Named>,
  { origin, trust }: MemoryStore.Provenance
): Effect.Effect<ReadonlyArray<Outcome<ReadonlyArray<MemoryStore.Put>>>, MemoryError.MemoryError> => {
  if (stores.length > 1 && drafts.some(({ id }) => id !== undefined)) {
    return MemoryError.make("invalid_id", { op: "add", message: "an id is one store's: name the store" })
  }
  const { degraded, write } = managed.events
  const putInto = ({ name, store }: Federated.Named) =>
    Effect.gen(function*() {
      const put = MemoryError.contain("add")(store.put(viewer, drafts, { origin, trust }))
      const result = yield* Effect.either(write(viewer, put, MemoryEvents.changesOf))
      if (Either.isRight(result)) {
        const records = result.right.flatMap(({ outcome, record }) => outcome === "duplicate" ? [] : [record])
        const { embed } = yield* pipelineOf(managed, store)
        yield* Effect.catchAll(embed(viewer, records), degraded(viewer, "vector")) // the records are stored, so `add` succeeds
      }
      return { store: name, result }
    })
  return Effect.flatMap(Effect.forEach(stores, putInto, { concurrency: "unbounded" }), (all) => {
    const failures = failuresOf(all)
    return failures.length === all.length ? failed("add", failures) : Effect.succeed(all)
  })
}

/** Calls `ask` with every outbox. Fails if any call fails. The message names the store of each failed call. */
const each = (
  { outboxes }: Managed,
  ask: (outbox: Outbox.Service) => Effect.Effect<unknown, MemoryError.MemoryError>
): Effect.Effect<void, MemoryError.MemoryError> =>
  Effect.forEach(outboxes, ([store, outbox]) =>
    ask(outbox).pipe(
      MemoryError.contain("outbox"),
      Effect.either,
      Effect.map((result) => ({ store, result }))
    ), { concurrency: "unbounded" }).pipe(Effect.flatMap((all) => noneFailed("outbox", all)))

type Outcome<A = unknown> = { readonly store: string; readonly result: Either.Either<A, MemoryError.MemoryError> }
type Failure = { readonly store: string; readonly error: MemoryError.MemoryError }

const failuresOf = (all: ReadonlyArray<Outcome>): ReadonlyArray<Failure> =>
  all.flatMap(({ result, store }) => Either.isLeft(result) ? [{ store, error: result.left }] : [])

/** Fails with one combined error if any store failed. */
const noneFailed = (op: string, all: ReadonlyArray<Outcome>): Effect.Effect<void, MemoryError.MemoryError> => {
  const failures = failuresOf(all)
  return failures.length > 0 ? failed(op, failures) : Effect.void
}

/** Combines errors into one error that names each store. The reason is `unavailable` if the reasons of the errors differ. */
const failed = (op: string, failures: ReadonlyArray<Failure>): MemoryError.MemoryError => {
  const [first] = failures
  const message = failures.map(({ error, store }) => `${store}: ${error.message}`).join("; ")
  return first && failures.every(({ error }) => error.reason === first.error.reason)
    ? MemoryError.make(first.error.reason, { ...first.error, message, cause: first.error })
    : MemoryError.make("unavailable", { op, message, cause: first?.error })
}

/** Whether a session name may be stored in the `source` of a record. */
const isSession = (session: string): boolean => session.length <= 1_024 && session.isWellFormed()
const unnamed = () =>
  MemoryError.make("invalid_id", {
    op: "addMessages",
    message: "a session is of at most 1,024 characters, well-formed"
  })

const extractionsOf = ({ extraction = {} }: Config): ReadonlyArray<readonly [store: string, options: Outbox.Options]> =>
  Object.entries(extraction).flatMap(([name, config]) => config ? [[name, config === true ? {} : config] as const] : [])

/** Checks that the configuration fits the stores; fails with all violations at once. */
const check = (
  config: Config,
  stores: ReadonlyArray<Federated.Named>,
  completion: Completion.Service
): Effect.Effect<void, MemoryError.MemoryError> => {
  const { injection } = config
  const issues = [
    ...extractionsOf(config).flatMap(([name, extraction]) => {
      const store = stores.find((store) => store.name === name)
      const found = store === undefined
        ? [`there is no such store; there are ${stores.map(({ name }) => name).join(", ")}`]
        : [
          ...(store.writable ? [] : ["the store takes no writes"]),
          ...ofExtraction(extraction, store, completion)
        ]
      return found.map((issue) => `extraction.${name}: ${issue}`)
    }),
    ...(typeof injection === "object" ? ofInjection(injection) : []).map((issue) => `injection.${issue}`)
  ]
  return Validation.refuseOptions("MemoryManager.layer", issues)
}

const ofExtraction = (
  extraction: Outbox.Options,
  { store }: Federated.Named,
  completion: Completion.Service
): ReadonlyArray<string> => {
  const { about, extractor, options = {} } = extraction
  const asks = (extractor ?? (store.capabilities.messages ? "ingest" : "pipeline")) === "pipeline" &&
    options.customExtract === undefined && options.infer !== false
  return [
    ...ExtractionRunner.issuesOf(extraction),
    ...(asks && Completion.isNone(completion)
      ? ["there is no language model: provide a Completion below MemoryManager.layer"]
      : []),
    ...(about === undefined || about === "agent" ? [] : ["about: expected \"agent\", or nothing"]),
    ...(options.sharedWrites === undefined || isShared(options.sharedWrites)
      ? []
      : ["options.sharedWrites: expected a list of \"agent\" and \"global\""]),
    ...(options.scope === undefined || isScope(options.scope) ? [] : ["options.scope: a scope needs at least one id"]),
    ...(options.kind === undefined || isKind(options.kind) ? [] : ["options.kind: expected a name such as semantic"]),
    ...(options.topK === undefined || isLimit(options.topK) ? [] : ["options.topK: expected 1 to 1,000"])
  ]
}

const ofInjection = ({ budget, maxEntries, minConfidence = 0 }: Injection.InjectionConfig): ReadonlyArray<string> => [
  ...(maxEntries === undefined || isLimit(maxEntries) ? [] : ["maxEntries: expected 1 to 1,000"]),
  ...(minConfidence >= 0 && minConfidence <= 1 ? [] : ["minConfidence: expected 0 to 1"]),
  ...(budget === undefined || (Number.isInteger(budget) && budget > 0)
    ? []
    : ["budget: expected a whole number of tokens"])
]

const isShared = Schema.is(SharedWrites)
const isKind = Schema.is(MemoryKind.Name)
const isScope = Schema.is(MemoryScope)
const isLimit = Schema.is(Limit)
