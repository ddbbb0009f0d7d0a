/** Strands' `MemoryManager` over our own: named stores, its methods and results. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import * as MemoryTools from "../../src/agent/MemoryTools.ts"
import type { MemoryError } from "../../src/domain/MemoryError.ts"
import { shownText } from "../../src/domain/MemoryFilter.ts"
import type { Message } from "../../src/domain/Message.ts"
import type { JsonObject } from "../../src/domain/Payload.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as MemoryManager from "../../src/harness/MemoryManager.ts"
import * as MemoryService from "../../src/harness/MemoryService.ts"
import * as Outbox from "../../src/harness/Outbox.ts"
import * as Completion from "../../src/host/Completion.ts"
import * as Embedder from "../../src/host/Embedder.ts"
import type { MemoryTool } from "../../src/host/MemoryTool.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import * as Federated from "../../src/storage/MemoryStore/Federated.ts"
import type { Run } from "./running.ts"

export interface StoreConfig {
  readonly name: string
  readonly description?: string
  readonly maxSearchResults?: number
  readonly writable?: boolean
  readonly extraction?: boolean | Outbox.Options
  /** Default: one in memory. */
  readonly layer?: Layer.Layer<MemoryStore.MemoryStore>
}

export interface ManagerConfig {
  readonly stores: ReadonlyArray<StoreConfig>
  readonly addToolConfig?: true | { readonly waitForWrites?: boolean; readonly name?: string }
  /** The stores that the tools reach. Default: all. */
  readonly toolStores?: ReadonlyArray<string>
  readonly injection?: MemoryManager.Config["injection"]
  readonly completion?: Layer.Layer<Completion.Completion>
}

export interface MemoryEntry {
  readonly content: string
  readonly storeName?: string
  readonly metadata?: JsonObject
}

export interface Manager {
  search(
    query: string,
    options?: { maxSearchResults?: number; stores?: ReadonlyArray<string> }
  ): Promise<Array<MemoryEntry>>
  add(content: string, options?: { metadata?: JsonObject; stores?: ReadonlyArray<string> }): Promise<void>
  addMessages(messages: ReadonlyArray<Message>): Promise<void>
  flush(): Promise<void>
  getTools(): Promise<ReadonlyArray<MemoryTool>>
  /** What the model is sent at the end of the last message. */
  inject(messages: ReadonlyArray<Message>): Promise<string>
}

const ada = Viewer.make({ userId: "ada", sessionId: "s" })

/** Makes a manager, which fails where the configuration does not fit. Open until the scope closes. */
export const initAgent = (
  config: ManagerConfig,
  run: Run
): Effect.Effect<Manager, MemoryError, Scope.Scope> =>
  Effect.map(Layer.build(layerOf(config)), (context) => {
    const manager = Context.get(context, MemoryManager.MemoryManager)
    const memory = Context.get(context, MemoryService.MemoryService)
    return {
      search: async (query, { maxSearchResults, stores } = {}) => {
        // to us no store is every store; to Strands it is none
        if (stores?.length === 0) return []
        const { hits } = await run(manager.search(ada, query, { maxSearchResults, stores }))
        return hits.map((hit) => ({
          content: shownText(hit),
          ...(hit.store !== undefined && { storeName: hit.store }),
          ...(Object.keys(hit.record.metadata).length > 0 && { metadata: hit.record.metadata })
        }))
      },
      add: async (content, { metadata, stores } = {}) => {
        const draft = { scope: { userId: "ada" }, kind: "reference", body: content, ...(metadata && { metadata }) }
        const added = await run(manager.add(ada, [draft], { stores }))
        const results = await Promise.all(added.map(async ({ result, store }) => {
          const either = await run(Effect.either(result))
          return Either.isLeft(either) ? `${store}: ${either.left.message}` : undefined
        }))
        const failed = results.filter((failure) => failure !== undefined)
        if (failed.length > 0) throw new AggregateError(failed, failed.join("; "))
      },
      addMessages: (messages) => run(manager.addMessages(ada, "s", messages)),
      flush: () => run(manager.flush),
      getTools: () => {
        const { addToolConfig: add, toolStores: stores } = config
        return run(Effect.provide(MemoryTools.makeStores(ada, { add, stores }), context))
      },
      inject: async (messages) => (await run(MemoryService.as(ada)(memory.context(messages)))).text
    }
  })

const layerOf = ({ completion = Completion.layerNone, injection, stores }: ManagerConfig) => {
  const entries = Object.fromEntries(stores.map(({ description, layer, maxSearchResults, name, writable }) => [name, {
    layer: layer ?? Layer.fresh(MemoryStore.layerInMemory),
    description,
    maxResults: maxSearchResults,
    writable
  }]))
  const extraction = Object.fromEntries(stores.map(({ extraction, name }) => [name, extraction]))
  return MemoryService.layer({ writesPerTurn: 0 }).pipe(
    Layer.provideMerge(MemoryManager.layer({ extraction, injection })),
    Layer.provideMerge(Layer.mergeAll(Federated.layer(entries), completion, Embedder.layerNone))
  )
}
