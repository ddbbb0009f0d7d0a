/**
 * The memories of nexus-agents: its backend of keys and values, its typed memories, graph, priorities, notes, sessions and beliefs,
 * each an adapter of a kind of ours for one viewer. Use it to run code that was written for its `IMemoryBackend` and its siblings.
 *
 * An adapter takes the service of the kind, the viewer and `run`, and returns promises. What it writes is of the viewer's own scope;
 * ids of the caller's are names within it, so that two users may have a fact of one id. What differs on purpose, and the test that
 * holds each difference, is in `docs/compat.md`: a limit of 0 is refused, an invalidated fact stays readable by `asOf`, and pruning
 * deletes only what is older than the time that is given.
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

/** Provides the service of every kind that has an adapter here, over one store; that of keys and values is `KeyValueMemory.layer`. */
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

/** Numbers of the four levels of importance. */
export { importanceOf } from "../domain/MemoryRecord.ts"
/** Numbers of the four levels of confidence, and the nearest level of a number. */
export { confidenceOf, levelOf } from "../domain/Payload.ts"
/** The backend of a namespace for one viewer, and the copy of what a backend of your own holds. */
export { copyBackend, toBackend as CustomMemoryBackend } from "../kinds/KeyValueMemory.ts"
/** The backend of keys and values, what it keeps beside a value, and an entry of `batchWrite`. */
export type {
  Entry as WriteOperation,
  MemoryBackend as IMemoryBackend,
  Metadata as MemoryMetadata
} from "../kinds/KeyValueMemory.ts"
export * from "./Nexus/Beliefs.ts"
export * from "./Nexus/Linked.ts"
export * from "./Nexus/Typed.ts"
