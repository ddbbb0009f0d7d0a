/**
 * Automatic memory over named stores: search them all, add to all that match, extract by themselves.
 *
 * ```text
 * search     a federation's, by the words and, with an embedder, by meaning
 * add        the same drafts to every store that is meant; one that fails keeps the others from nothing
 * messages   to the outbox of every store that extracts, in that store
 * ```
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as FiberSet from "effect/FiberSet"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as MemoryError from "../domain/MemoryError.ts"
import type { MemoryQuery, SearchResult } from "../domain/MemoryFilter.ts"
import type { Draft } from "../domain/MemoryRecord.ts"
import type { Message } from "../domain/Message.ts"
import type { Viewer } from "../domain/Viewer.ts"
import * as Completion from "../host/Completion.ts"
import * as Embedder from "../host/Embedder.ts"
import * as MemoryPipeline from "../pipeline/MemoryPipeline.ts"
import * as Recall from "../pipeline/Recall.ts"
import * as MemoryStore from "../storage/MemoryStore.ts"
import * as Federated from "../storage/MemoryStore/Federated.ts"
import * as Injection from "./Injection.ts"
import * as MemoryEvents from "./MemoryEvents.ts"
import * as Adding from "./MemoryManager/Adding.ts"
import * as Configuration from "./MemoryManager/Configuration.ts"
import * as Outbox from "./Outbox.ts"
import * as PromptBlock from "./PromptBlock.ts"
import * as Telling from "./Telling.ts"

export type { InjectionConfig } from "./Injection.ts"
export type { ExtractionConfig } from "./Outbox.ts"

export interface Config {
  /** Extraction options by store name: `true` for the defaults of `Outbox.Options`, `false` for none. Default: none. */
  readonly extraction?: { readonly [store: string]: boolean | Outbox.Options | undefined } | undefined
  /** Default true. */
  readonly injection?: boolean | Injection.InjectionConfig | undefined
}

export interface Added {
  readonly store: string
  readonly result: Effect.Effect<ReadonlyArray<MemoryStore.Put>, MemoryError.MemoryError>
}

interface Named {
  /** `[]` and none both mean all. A name twice counts once; an unknown one is `not_found`, before anything is asked. */
  readonly stores?: ReadonlyArray<string> | undefined
}

export interface Service {
  /** In the order of the federation. */
  readonly stores: Effect.Effect<ReadonlyArray<Federated.Named>>
  readonly search: (
    viewer: Viewer,
    query: string,
    options?: Named & {
      /** Of each store. Default each store's own. */
      readonly maxSearchResults?: number | undefined
    }
  ) => Effect.Effect<SearchResult, MemoryError.MemoryError>
  /**
   * To every writable store, or to those that are named, which must be: `read_only`. What each made of it, kept where it
   * succeeded. Fails only where all did, with the reason that they share or `unavailable`, and names them. A draft with an
   * id is one store's: `invalid_id` where several are meant.
   */
  readonly add: (
    viewer: Viewer,
    drafts: ReadonlyArray<Draft>,
    options?: Named & MemoryStore.Provenance
  ) => Effect.Effect<ReadonlyArray<Added>, MemoryError.MemoryError>
  /** The same in the background: what fails is an event and a warning. `flush` waits for it, and the scope's end 30 seconds. */
  readonly accept: (
    viewer: Viewer,
    drafts: ReadonlyArray<Draft>,
    options?: Named & MemoryStore.Provenance
  ) => Effect.Effect<void, MemoryError.MemoryError>
  /** Kept before it returns, by every store that extracts; fails where one could not, and names it. */
  readonly addMessages: (
    viewer: Viewer,
    session: string,
    messages: ReadonlyArray<Message>
  ) => Effect.Effect<void, MemoryError.MemoryError>
  /** For triggers that wait for it. */
  readonly sessionEnd: (viewer: Viewer, session: string) => Effect.Effect<void, MemoryError.MemoryError>
  /** `""` where the trigger says no. */
  readonly inject: Injection.Inject
  /** Waits for accepted drafts, and reads all waiting messages. Fails with counts per store and no user's data: see `Outbox`. */
  readonly flush: Effect.Effect<void, MemoryError.MemoryError>
  /** Of every store that extracts. */
  readonly outboxes: ReadonlyMap<string, Outbox.Service>
}

export class MemoryManager extends Context.Tag("@memory/MemoryManager")<MemoryManager, Service>() {}

/** `invalid_draft`, with every violation, where the configuration does not fit the stores. */
export const layer = (
  config: Config = {}
): Layer.Layer<
  MemoryManager,
  MemoryError.MemoryError,
  Federated.Federated | Completion.Completion | Embedder.Embedder
> => Layer.scoped(MemoryManager, make(config))

/** For how long the scope's end waits for what was accepted: as an outbox does. */
const closing = "30 seconds"

const make = (config: Config) =>
  Effect.gen(function*() {
    const federated = yield* Federated.Federated
    const completion = yield* Completion.Completion
    const embedder = yield* Embedder.Embedder
    const events = yield* Effect.serviceOption(MemoryEvents.MemoryEvents)
    const publish = Option.match(events, { onNone: () => () => Effect.void, onSome: ({ publish }) => publish })
    const { degraded, recalled } = Telling.make(publish)
    const listener: Outbox.Listener = { applied: Adding.written(publish), degraded }
    const working = yield* FiberSet.make<void>()
    let isOpen = true

    const extractions = Configuration.extractions(config)
    yield* Configuration.check(config, yield* federated.stores, completion)

    const pipelineOf = (store: MemoryStore.Service) =>
      Effect.provide(
        MemoryPipeline.make,
        Context.make(MemoryStore.MemoryStore, store).pipe(
          Context.add(Completion.Completion, completion),
          Context.add(Embedder.Embedder, embedder)
        )
      )
    const outboxes = new Map(
      yield* Effect.forEach(extractions, ([name, extraction]) =>
        Effect.gen(function*() {
          const { store } = yield* federated.get(name)
          const pipeline = yield* pipelineOf(store)
          return [name, yield* Outbox.make(store, pipeline, extraction, listener)] as const
        }))
    )

    const recall = (viewer: Viewer, query: MemoryQuery, options: Parameters<Federated.Service["search"]>[2]) =>
      Recall.recall(Recall.by(embedder), query, (query) => federated.search(viewer, query, options)).pipe(
        Effect.tap(recalled(viewer, query)),
        Effect.tap(({ failures }) =>
          Effect.forEach(failures, ({ error, leg }) => degraded(viewer, leg)(error), { discard: true })
        )
      )
    const inject = config.injection === false
      ? () => Effect.succeed(PromptBlock.empty)
      : Injection.make(
        (viewer, query) => recall(viewer, query, { maxResults: query.limit }),
        config.injection === true ? {} : config.injection
      )
    const add = (
      viewer: Viewer,
      drafts: ReadonlyArray<Draft>,
      stores: ReadonlyArray<Federated.Named>,
      { origin, trust }: MemoryStore.Provenance
    ) =>
      Adding.add({
        stores,
        viewer,
        drafts,
        provenance: { origin, trust },
        publish,
        embed: (store, records) =>
          Effect.flatMap(pipelineOf(store), ({ embed }) => embed(viewer, records)).pipe(
            Effect.asVoid,
            Effect.catchAll(degraded(viewer, "vector"))
          )
      })
    const each = (ask: (outbox: Outbox.Service) => Effect.Effect<unknown, MemoryError.MemoryError>) =>
      Effect.forEach(
        outboxes,
        ([store, outbox]) =>
          Effect.map(Effect.either(MemoryError.mortal("outbox")(ask(outbox))), (result) => ({ store, result })),
        { concurrency: "unbounded" }
      ).pipe(
        Effect.map(Adding.failuresOf),
        Effect.flatMap((failures) => failures.length > 0 ? Adding.failed("outbox", failures) : Effect.void)
      )

    const accepted = Effect.suspend(() => isOpen ? Fiber.awaitAll(Array.from(working)) : Effect.void)
    const closed = MemoryError.make("unavailable", { op: "accept", message: "the memory is closed" })
    yield* Effect.addFinalizer(() =>
      Effect.suspend(() => {
        const last = Array.from(working)
        isOpen = false
        return Fiber.awaitAll(last)
      }).pipe(
        Effect.interruptible, // no finalizer is
        Effect.timeout(closing),
        Effect.catchTag("TimeoutException", () => Effect.logWarning("memory: what was accepted is not all written"))
      )
    )

    return {
      stores: federated.stores,
      search: (viewer, text, { maxSearchResults: maxResults, stores } = {}) =>
        Effect.withSpan(recall(viewer, { text }, { stores, maxResults }), "MemoryManager.search"),
      add: (viewer, drafts, { stores, ...provenance } = {}) =>
        Effect.flatMap(Adding.targets(federated, stores), (stores) => add(viewer, drafts, stores, provenance)).pipe(
          Effect.withSpan("MemoryManager.add")
        ),
      accept: (viewer, drafts, { stores, ...provenance } = {}) =>
        Effect.flatMap(Adding.targets(federated, stores), (stores) =>
          !isOpen ? closed : add(viewer, drafts, stores, provenance).pipe(
            Effect.flatMap((all) => {
              const failures = Adding.failuresOf(all)
              return failures.length > 0 ? Adding.failed("add", failures) : Effect.void
            }),
            Effect.catchAll(degraded(viewer, "add")),
            Effect.disconnect, // a store that hangs does not keep the scope from closing
            FiberSet.run(working)
          )).pipe(Effect.asVoid, Effect.withSpan("MemoryManager.accept")),
      addMessages: (viewer, session, messages) =>
        (isSession(session)
          ? each(({ append }) =>
            append(viewer, session, messages)
          )
          : unnamed).pipe(
            Effect.withSpan("MemoryManager.addMessages")
          ),
      sessionEnd: (viewer, session) =>
        Effect.withSpan(each(({ sessionEnd }) => sessionEnd(viewer, session)), "MemoryManager.sessionEnd"),
      inject: (viewer, turn) => Effect.withSpan(inject(viewer, turn), "MemoryManager.inject"),
      flush: accepted.pipe(
        Effect.zipRight(each(({ flush }) => flush)),
        Effect.withSpan("MemoryManager.flush")
      ),
      outboxes
    } satisfies Service
  })

/** What a record's source can name. */
const isSession = (session: string): boolean => session.length <= 1_024 && session.isWellFormed()
const unnamed = MemoryError.make("invalid_id", {
  op: "addMessages",
  message: "a session is of at most 1,024 characters, well-formed"
})
