/**
 * The memory interface of Strands Agents' TypeScript SDK, for code that was written for Strands. The `MemoryManager` of this module keeps
 * the memories of one viewer in named stores of this library.
 *
 * `initAgent` makes a manager whose methods return promises. The last argument of `initAgent`, such as `Effect.runPromise`, makes these
 * promises from effects. Each store is a `MemoryStore` layer, by default one in memory. `docs/compat.md` lists the deliberate differences
 * from Strands, with a test of each. For example, an invalid configuration fails with a list of violations, not only the first one. The
 * hits of all stores are ranked together. A search that fails in every store rejects.
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
import * as Arr from "effect/Array"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import * as MemoryTools from "../agent/MemoryTools.ts"
import * as MemoryError from "../domain/MemoryError.ts"
import { shownText } from "../domain/MemoryFilter.ts"
import type { Message } from "../domain/Message.ts"
import { definedFields, type JsonObject } from "../domain/Payload.ts"
import { refuseOptions } from "../domain/Validation.ts"
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

/** The configuration of a named store of a manager. */
export interface MemoryStoreConfig {
  /** Name of the store. `initAgent` fails if two stores have the same name. */
  readonly name: string
  /** Description of the store's contents. The memory tools show this description to the model. */
  readonly description?: string | undefined
  /** Largest number of results from this store, if the search sets no limit. Default 3. */
  readonly maxSearchResults?: number | undefined
  /** Whether the manager may write to the store. Default false. */
  readonly writable?: boolean | undefined
  /** Whether memories are extracted from conversations. An object sets the options; `true` means the default options. Default `false`. */
  readonly extraction?: boolean | Outbox.Options | undefined
  /** Layer that provides the store. Default: a store in memory. */
  readonly layer?: Layer.Layer<Store.MemoryStore> | undefined
}

/** The configuration of a manager. */
export interface MemoryManagerConfig {
  readonly stores: ReadonlyArray<MemoryStoreConfig>
  /** Options of the tool `search_memory`, or `false` for no such tool. Default: the tool with its default name and description. */
  readonly searchToolConfig?: false | MemoryToolConfig | undefined
  /** Options of the tool `add_memory`, or `true` for its default options. Default: no such tool. */
  readonly addToolConfig?: true | MemoryAddToolConfig | undefined
  /** Names of the stores that the tools use. Default: all stores. `[]` also means all. */
  readonly toolStores?: ReadonlyArray<string> | undefined
  /** Whether memories are injected into prompts. An object sets the options of injection. Default `true`. */
  readonly injection?: boolean | OurManager.InjectionConfig | undefined
  /** Model that extracts memories, for example from `ModelExtractor`. Default: no model. */
  readonly completion?: Layer.Layer<Completion.Completion> | undefined
  /** Embedder for searches by meaning. Default: searches compare words only. */
  readonly embedder?: Layer.Layer<Embedder.Embedder> | undefined
}

/** A memory as a search returns it. */
export interface MemoryEntry {
  readonly content: string
  /** Name of the store in which the memory was found. */
  readonly storeName?: string
  readonly metadata?: JsonObject
}

/** Options of a search. */
export interface SearchOptions {
  /** Largest number of results from each store, 1..1,000. Default: the `maxSearchResults` of the store. */
  readonly maxSearchResults?: number | undefined
  /** Names of the stores to search; `[]` searches no store. Default: all stores. */
  readonly stores?: ReadonlyArray<string> | undefined
}

/** The memory manager of Strands, which acts for one viewer. */
export interface MemoryManager {
  /** Finds entries in the named stores, by default in all stores, best first. Rejects if every store fails, or if a name is unknown. */
  search(query: string, options?: SearchOptions): Promise<ReadonlyArray<MemoryEntry>>
  /**
   * Adds a text to the named stores (default: all writable stores). Rejects with an `AggregateError` if some of these stores fail. If all
   * of them fail, rejects with the error of this library's own `MemoryManager.add` instead. Both errors name the failed stores. An empty
   * list, an unknown store, or a store that is not writable makes the call reject before any write.
   */
  add(
    content: string,
    options?: { readonly metadata?: JsonObject | undefined; readonly stores?: ReadonlyArray<string> | undefined }
  ): Promise<void>
  /** Adds messages to the viewer's session in every store with extraction. The messages wait until the store's trigger fires. */
  addMessages(messages: ReadonlyArray<Message>): Promise<void>
  /** Extracts memories from all waiting messages. Rejects if some messages still wait because their extraction failed. */
  flush(): Promise<void>
  /** Returns `search_memory` (unless turned off), `add_memory` (if configured), and the tools that the stores define. */
  getTools(): Promise<ReadonlyArray<MemoryTool>>
  /**
   * Returns related memories as text to append to the last message for the model. By default, returns `""` if nothing is found, if the
   * search fails, or if the last message is not from a user.
   */
  inject(messages: ReadonlyArray<Message>): Promise<string>
}

/**
 * Makes the manager for a viewer. Entries are added to the memory scope that `Viewer.subjectOf` returns. Messages are added to the session
 * with the name `viewer.sessionId`, else `viewer.runId`, else `default`. Invalid options of stores, extraction or injection fail with
 * `invalid_draft`; `getTools` checks the options of the tools. The checks of the stores come before those of extraction and injection. The
 * error lists all violations that the first failed check found. The manager closes with the Effect scope, but first extracts memories from
 * all waiting messages. The extraction of each store may take its `flushTimeout`, by default 30 seconds. Messages that are not extracted by
 * then stay in the store; a store in memory loses them.
 */
export const initAgent = (
  config: MemoryManagerConfig,
  viewer: Viewer.Viewer,
  run: Promises.Run
): Effect.Effect<MemoryManager, MemoryError.MemoryError, Scope.Scope> =>
  Effect.map(Effect.zipRight(failIfRepeated(config), Layer.build(layerOf(config))), (context) => {
    const manager = Context.get(context, OurManager.MemoryManager)
    const memory = Context.get(context, MemoryService.MemoryService)
    return {
      search: async (query, { maxSearchResults, stores } = {}) => {
        // Strands searches no store if the list is empty, but `manager.search` would search all stores
        if (stores?.length === 0) return []
        const { hits } = await run(manager.search(viewer, query, { maxSearchResults, stores }))
        return hits.map((hit) => ({
          content: shownText(hit),
          ...(hit.store !== undefined && { storeName: hit.store }),
          ...(Object.keys(hit.record.metadata).length > 0 && { metadata: hit.record.metadata })
        }))
      },
      add: async (content, { metadata, stores } = {}) => {
        // `manager.add` would write to all writable stores if the list is empty
        if (stores?.length === 0) {
          await run(MemoryError.make("read_only", { op: "add", message: "no writable store matched" }))
        }
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

/** Makes a model for the option `completion` from a function that returns a promise. If the promise rejects, a call fails with `model`. */
export const ModelExtractor = (
  { model, name = "strands" }: {
    readonly model: (prompt: Completion.Prompt) => Promise<string>
    /** Name of the model. Default `strands`. */
    readonly name?: string | undefined
  }
): Layer.Layer<Completion.Completion> => Promises.completion(name, model)

/** Makes a trigger that fires after every turn. A turn is one append of messages. */
export const InvocationTrigger = (): ExtractionTrigger.ExtractionTrigger => ExtractionTrigger.invocation

/** Makes a trigger that fires after every `turns` appends of messages. `initAgent` fails unless `turns` is a whole number above 0. */
export const IntervalTrigger = ({ turns }: { readonly turns: number }): ExtractionTrigger.ExtractionTrigger =>
  ExtractionTrigger.interval(turns)

/** The name and the description of a tool. */
export interface MemoryToolConfig {
  readonly name?: string | undefined
  readonly description?: string | undefined
}

/** Options of the tool `add_memory`. */
export interface MemoryAddToolConfig extends MemoryToolConfig {
  /** Whether a call waits until its entries are written. Default true. */
  readonly waitForWrites?: boolean | undefined
}

/** A store of this library. Unlike in Strands, a method that reads or writes memories takes a viewer, and acts for this viewer. */
export type MemoryStore = Store.Service
/**
 * A function that passes messages of a session to a store. The store makes records from the messages by itself. The last argument is the
 * sequence number of the first message within the session.
 */
export type AddMessagesContext = Store.Ingest
/** A function that selects the messages for the extraction of memories. Default: all messages but tool calls and tool results. */
export type MemoryMessageFilter = NonNullable<Outbox.ExtractionConfig["filter"]>
/** A function that extracts facts instead of a model. Set the function as `extraction.options.customExtract` of a store. */
export type Extractor = NonNullable<MemoryPipeline.Options["customExtract"]>
/** The options of injection. */
export type { InjectionConfig as MemoryInjectionConfig } from "../harness/MemoryManager.ts"
/** The options of extraction. */
export type { ExtractionConfig } from "../harness/Outbox.ts"
/** A trigger, which decides when memories are extracted from a conversation. */
export type { ExtractionTrigger } from "../harness/ExtractionTrigger.ts"

const failIfRepeated = ({ stores }: MemoryManagerConfig): Effect.Effect<void, MemoryError.MemoryError> => {
  const names = stores.map(({ name }) => name)
  const repeated = Arr.dedupe(names.filter((name, n) => names.indexOf(name) !== n))
  return refuseOptions("initAgent", repeated.map((name) => `stores: two stores have the name ${JSON.stringify(name)}`))
}

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
