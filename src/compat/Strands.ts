/**
 * The memory of Strands Agents' TypeScript SDK: its `MemoryManager` over named stores of ours, for one viewer. Use it to run code
 * that was written for Strands.
 *
 * `initAgent` makes a manager, whose methods return promises; `run` runs their effects. A store of the configuration is a layer
 * of ours, by default one in memory. What differs on purpose, and the test that holds each difference, is in `docs/compat.md`: a
 * wrong configuration is refused with every violation, hits of all stores are ranked together, and a search that fails in every
 * store fails.
 *
 * ```ts
 * import { Effect } from "effect"
 * import { Viewer } from "effect-memory"
 * import { Strands } from "effect-memory/compat"
 *
 * const viewer = Viewer.make({ userId: "ada", sessionId: "s1" })
 * const found = await Effect.gen(function*() {
 *   const manager = yield* Strands.initAgent({ stores: [{ name: "notes", writable: true }] }, viewer, Effect.runPromise)
 *   return yield* Effect.promise(async () => {
 *     await manager.add("Ada likes tea")
 *     return manager.search("What does Ada like?")
 *   })
 * }).pipe(Effect.scoped, Effect.runPromise)
 *
 * found // => [{ content: "Ada likes tea", storeName: "notes" }]
 * ```
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import * as MemoryTools from "../agent/MemoryTools.ts"
import type { MemoryError } from "../domain/MemoryError.ts"
import { shownText } from "../domain/MemoryFilter.ts"
import type { Message } from "../domain/Message.ts"
import { definedFields, type JsonObject } from "../domain/Payload.ts"
import * as Viewer from "../domain/Viewer.ts"
import * as ExtractionTrigger from "../harness/ExtractionTrigger.ts"
import * as OurManager from "../harness/MemoryManager.ts"
import * as MemoryService from "../harness/MemoryService.ts"
import type * as Outbox from "../harness/Outbox.ts"
import * as Completion from "../host/Completion.ts"
import * as Embedder from "../host/Embedder.ts"
import type { MemoryTool } from "../host/MemoryTool.ts"
import type * as MemoryPipeline from "../pipeline/MemoryPipeline.ts"
import * as Store from "../storage/MemoryStore.ts"
import * as Federated from "../storage/MemoryStore/Federated.ts"
import * as Promises from "./Promises.ts"

/** A named store of a manager. */
export interface MemoryStoreConfig {
  /** Name of the store, which no other store of the manager has. */
  readonly name: string
  /** Text about what the store holds; the descriptions of the tools include it. */
  readonly description?: string | undefined
  /** Most results of a search, where the call says none. Default 3. */
  readonly maxSearchResults?: number | undefined
  /** Whether the store takes writes. Default false. */
  readonly writable?: boolean | undefined
  /** Extraction from conversations: `true` for the defaults, or its options. Default: none. */
  readonly extraction?: boolean | Outbox.Options | undefined
  /** Layer of the store. Default: one in memory. */
  readonly layer?: Layer.Layer<Store.MemoryStore> | undefined
}

/** The configuration of a manager. */
export interface MemoryManagerConfig {
  readonly stores: ReadonlyArray<MemoryStoreConfig>
  /** The tool `search_memory`, or `false` for none. Default: with its own name and description. */
  readonly searchToolConfig?: false | MemoryToolConfig | undefined
  /** The tool `add_memory`. Default: none. */
  readonly addToolConfig?: true | MemoryAddToolConfig | undefined
  /** Names of the stores that the tools reach. Default: all. */
  readonly toolStores?: ReadonlyArray<string> | undefined
  /** Injection, on or off, or its options. Default true. */
  readonly injection?: boolean | OurManager.InjectionConfig | undefined
  /** Model that extracts, as `ModelExtractor` makes one. Default: none. */
  readonly completion?: Layer.Layer<Completion.Completion> | undefined
  /** Embedder of searches by meaning. Default: searches are lexical. */
  readonly embedder?: Layer.Layer<Embedder.Embedder> | undefined
}

/** A memory as a search returns it. */
export interface MemoryEntry {
  readonly content: string
  /** Name of the store that it was found in. */
  readonly storeName?: string
  readonly metadata?: JsonObject
}

/** Options of a search. */
export interface SearchOptions {
  /** Most results from each store, 1..1,000. Default: that of each store. */
  readonly maxSearchResults?: number | undefined
  /** Names of the stores to search; `[]` is none of them. Default: all. */
  readonly stores?: ReadonlyArray<string> | undefined
}

/** Strands' manager, for one viewer. */
export interface MemoryManager {
  /** Finds entries in all stores or the named ones, best first. Is rejected only if every store fails, or one is unknown. */
  search(query: string, options?: SearchOptions): Promise<ReadonlyArray<MemoryEntry>>
  /** Adds a text to all writable stores or the named ones. Is rejected with an `AggregateError` that names those that failed. */
  add(
    content: string,
    options?: { readonly metadata?: JsonObject | undefined; readonly stores?: ReadonlyArray<string> | undefined }
  ): Promise<void>
  /** Keeps messages of the viewer's session in every store that extracts, to be read when its trigger fires. */
  addMessages(messages: ReadonlyArray<Message>): Promise<void>
  /** Reads all messages that wait. Is rejected if a store could not. */
  flush(): Promise<void>
  /** Returns the tools: `search_memory`, `add_memory` if it is configured, then those of the stores. */
  getTools(): Promise<ReadonlyArray<MemoryTool>>
  /** Returns the text that the model is sent at the end of the last message; `""` where nothing bears on it. */
  inject(messages: ReadonlyArray<Message>): Promise<string>
}

/**
 * Makes the manager of a viewer. What it adds is of the scope that the viewer's statements are about (`Viewer.subjectOf`), its
 * session is the viewer's `sessionId ?? runId`, else `default`. Fails with `invalid_draft` and every violation if the configuration
 * does not fit. Open until the scope closes, which reads the messages that wait.
 */
export const initAgent = (
  config: MemoryManagerConfig,
  viewer: Viewer.Viewer,
  run: Promises.Run
): Effect.Effect<MemoryManager, MemoryError, Scope.Scope> =>
  Effect.map(Layer.build(layerOf(config)), (context) => {
    const manager = Context.get(context, OurManager.MemoryManager)
    const memory = Context.get(context, MemoryService.MemoryService)
    return {
      search: async (query, { maxSearchResults, stores } = {}) => {
        // no store means every store here, and none in Strands
        if (stores?.length === 0) return []
        const { hits } = await run(manager.search(viewer, query, { maxSearchResults, stores }))
        return hits.map((hit) => ({
          content: shownText(hit),
          ...(hit.store !== undefined && { storeName: hit.store }),
          ...(Object.keys(hit.record.metadata).length > 0 && { metadata: hit.record.metadata })
        }))
      },
      add: async (content, { metadata, stores } = {}) => {
        const draft = {
          scope: Viewer.subjectOf(viewer),
          kind: "reference",
          body: content,
          ...definedFields({ metadata })
        }
        const added = await run(manager.add(viewer, [draft], { stores }))
        const results = await Promise.all(added.map(async ({ result, store }) => {
          const either = await run(Effect.either(result))
          return Either.isLeft(either) ? `${store}: ${either.left.message}` : undefined
        }))
        const failed = results.filter((failure) => failure !== undefined)
        if (failed.length > 0) throw new AggregateError(failed, failed.join("; "))
      },
      addMessages: (messages) =>
        run(manager.addMessages(viewer, viewer.sessionId ?? viewer.runId ?? "default", messages)),
      flush: () => run(manager.flush),
      getTools: () => {
        const { addToolConfig: add, searchToolConfig: search, toolStores: stores } = config
        return run(Effect.provide(MemoryTools.makeStores(viewer, { add, search, stores }), context))
      },
      inject: async (messages) => (await run(MemoryService.as(viewer)(memory.context(messages)))).text
    }
  })

/** Provides the model that extracts, for `completion`: one that answers with a promise. A rejection is a failure with `model`. */
export const ModelExtractor = (
  { model, name = "strands" }: {
    readonly model: (prompt: Completion.Prompt) => Promise<string>
    /** Name of the model. Default `strands`. */
    readonly name?: string | undefined
  }
): Layer.Layer<Completion.Completion> => Promises.completion(name, model)

/** Fires after every turn. */
export const InvocationTrigger = (): ExtractionTrigger.ExtractionTrigger => ExtractionTrigger.invocation

/** Fires after every n-th turn. The configuration is refused unless `turns` is a whole number, 1 or more. */
export const IntervalTrigger = ({ turns }: { readonly turns: number }): ExtractionTrigger.ExtractionTrigger =>
  ExtractionTrigger.interval(turns)

/** The name and the description of a tool. */
export interface MemoryToolConfig {
  readonly name?: string | undefined
  readonly description?: string | undefined
}

/** The name and the description of the tool that adds, and whether it waits for its writes. */
export interface MemoryAddToolConfig extends MemoryToolConfig {
  /** Whether a call waits for its writes. Default true. */
  readonly waitForWrites?: boolean | undefined
}

/** A store of ours, each of whose calls is a viewer's. */
export type MemoryStore = Store.Service
/** The messages that a store is given as they are, with their places in the session. */
export type AddMessagesContext = Store.Ingest
/** Selects the messages that are read; default: all but tool calls and tool results. */
export type MemoryMessageFilter = NonNullable<Outbox.ExtractionConfig["filter"]>
/** Extracts facts in place of a model: `options.customExtract` of an extraction. */
export type Extractor = NonNullable<MemoryPipeline.Options["customExtract"]>
/** The options of injection. */
export type { InjectionConfig as MemoryInjectionConfig } from "../harness/MemoryManager.ts"
/** The options of extraction. */
export type { ExtractionConfig } from "../harness/Outbox.ts"
/** A trigger: decides when a conversation is read for memories. */
export type { ExtractionTrigger } from "../harness/ExtractionTrigger.ts"

const layerOf = (config: MemoryManagerConfig) => {
  const { completion = Completion.layerNone, embedder = Embedder.layerNone, injection, stores } = config
  const entries = Object.fromEntries(stores.map(({ description, layer, maxSearchResults, name, writable }) => [name, {
    layer: layer ?? Layer.fresh(Store.layerInMemory),
    description,
    maxResults: maxSearchResults,
    writable
  }]))
  const extraction = Object.fromEntries(stores.map(({ extraction, name }) => [name, extraction]))
  return MemoryService.layer({ writesPerTurn: 0 }).pipe(
    Layer.provideMerge(OurManager.layer({ extraction, injection })),
    Layer.provideMerge(Layer.mergeAll(Federated.layer(entries), completion, embedder))
  )
}
