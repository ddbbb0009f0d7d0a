/**
 * Episodes are events, with the emotions that were felt. Reflections on episodes are stored, too. For a chat, `beforeTurn` finds the
 * episodes that matter for the reply, and `afterTurn` stores the turn as a new episode.
 *
 * ```ts
 * import { Effect } from "effect"
 * import { EpisodicMemory, MemoryStore, Message, Viewer } from "effect-memory"
 *
 * const ada = Viewer.make({ agentId: "mira", actorId: "ada" })
 * const program = Effect.gen(function*() {
 *   const memory = yield* EpisodicMemory.EpisodicMemory
 *   yield* memory.afterTurn(ada, {
 *     episode: { scope: { agentId: "mira", actorId: "ada" }, body: "I swam across the lake.", data: {} }
 *   })
 *   const { block } = yield* memory.beforeTurn(ada, Message.user("How was the lake?"))
 *   return block.includes("I swam across the lake.")
 * })
 * const isRecalled = await program.pipe(
 *   Effect.provide(EpisodicMemory.layer),
 *   Effect.provide(MemoryStore.layerInMemory),
 *   Effect.runPromise
 * )
 *
 * isRecalled // => true
 * ```
 */
export {
  buildMemoryBlock,
  EpisodicMemory,
  layer,
  layerAdapter,
  layerExternal,
  RecallConfig,
  RecallLimits,
  toAdapter
} from "./kinds/EpisodicMemory.ts"
export type { Episode, Recalled, Reflection, Sections, Service, Turn } from "./kinds/EpisodicMemory.ts"
export type { MemoryAdapter, Run, SeedQuery } from "./kinds/EpisodicMemory/Adapter.ts"
export type { RecallQuery, SemanticRecallOptions } from "./kinds/EpisodicMemory/Source.ts"
