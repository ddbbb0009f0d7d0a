/**
 * The memory interfaces of nexus-agents, for code that was written for nexus-agents. There are interfaces for key-value storage, typed
 * memories, the graph, priorities, notes, sessions and beliefs. An adapter implements one of these interfaces for one viewer, with a
 * service of this library, such as `SemanticMemory`.
 *
 * An adapter is made from three arguments: the service, the viewer, and `run` (such as `Effect.runPromise`). Its methods return promises.
 * New records get the viewer's own scope (exceptions: see `CoreMemory` and `SessionMemory`). The caller's ids are unique only within that
 * scope, so two users may each have a fact with the same id. `docs/compat.md` lists the deliberate differences from nexus-agents, with a
 * test of each. For example, a limit of 0 is rejected. Pruning deletes only records that are older than the given time.
 *
 * ```ts
 * import { Effect, Layer } from "effect"
 * import { MemoryStore, SemanticMemory, Viewer } from "effect-memory"
 * import { Nexus } from "effect-memory/compat"
 *
 * const facts = await Effect.gen(function*() {
 *   const semantic = yield* SemanticMemory.SemanticMemory
 *   return Nexus.toSemanticMemory(semantic, Viewer.make({ userId: "ada" }), Effect.runPromise)
 * }).pipe(Effect.provide(Layer.provide(Nexus.layer, MemoryStore.layerInMemory)), Effect.runPromise)
 * const fact = { factId: "f1", domain: "people", subject: "Ada", predicate: "lives in", object: "Bern", confidence: 1 }
 * await facts.storeFact(fact)
 *
 * (await facts.queryBySubject("Ada")).map(({ object }) => object) // => ["Bern"]
 * ```
 */
import * as Layer from "effect/Layer"
import * as AdaptiveMemory from "../kinds/AdaptiveMemory.ts"
import * as AgenticMemory from "../kinds/AgenticMemory.ts"
import * as BeliefMemory from "../kinds/BeliefMemory.ts"
import * as CoreMemory from "../kinds/CoreMemory.ts"
import * as GraphMemory from "../kinds/GraphMemory.ts"
import * as KnowledgeVault from "../kinds/KnowledgeVault.ts"
import * as ProceduralMemory from "../kinds/ProceduralMemory.ts"
import * as ResourceMemory from "../kinds/ResourceMemory.ts"
import * as SemanticMemory from "../kinds/SemanticMemory.ts"
import * as SessionMemory from "../kinds/SessionMemory.ts"
import * as TaskMemory from "../kinds/TaskMemory.ts"

/** Provides the services that the adapters of this module need. The key-value backend needs its own layer, `KeyValueMemory.layer`. */
export const layer = Layer.mergeAll(
  AdaptiveMemory.layer,
  AgenticMemory.layer,
  BeliefMemory.layer,
  CoreMemory.layer,
  GraphMemory.layer,
  KnowledgeVault.layer,
  ProceduralMemory.layer,
  ResourceMemory.layer,
  SemanticMemory.layer,
  SessionMemory.layer,
  TaskMemory.layer
)

/** The numeric values of the four levels of importance. */
export { importanceOf } from "../domain/MemoryRecord.ts"
/** `confidenceOf` has the number of each of the four levels of confidence. `levelOf` returns the level nearest to a number. */
export { confidenceOf, levelOf } from "../domain/Payload.ts"
/** `CustomMemoryBackend` makes the key-value backend of a namespace for one viewer. `copyBackend` copies the values of another backend. */
export { copyBackend, toBackend as CustomMemoryBackend } from "../kinds/KeyValueMemory.ts"
/** The types of the key-value backend, of the metadata of a value, and of one entry of `batchWrite`. */
export type {
  Entry as WriteOperation,
  MemoryBackend as IMemoryBackend,
  Metadata as MemoryMetadata
} from "../kinds/KeyValueMemory.ts"
export * from "./Nexus/Beliefs.ts"
export * from "./Nexus/Linked.ts"
export * from "./Nexus/Typed.ts"
