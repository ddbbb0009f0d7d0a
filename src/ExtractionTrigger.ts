/**
 * A trigger decides when memories are extracted from a conversation. The trigger receives the events of the conversation as a stream, and
 * returns a second stream. Each element of the second stream starts an extraction. Time is read from Effect's `Clock`.
 *
 * ```ts
 * import { Effect, Layer } from "effect"
 * import { Completion, Embedder, ExtractionTrigger, Federated, MemoryManager, MemoryStore } from "effect-memory"
 *
 * const trigger = ExtractionTrigger.any(ExtractionTrigger.interval(3), ExtractionTrigger.sessionEnd)
 * const Memory = MemoryManager.layer({ extraction: { notes: { trigger } } }).pipe(
 *   Layer.provide(Federated.layer({ notes: { layer: MemoryStore.layerInMemory, writable: true } })),
 *   Layer.provide([Completion.layerScripted([]), Embedder.layerNone])
 * )
 * const names = await MemoryManager.MemoryManager.pipe(
 *   Effect.map(({ outboxes }) => Array.from(outboxes.keys())),
 *   Effect.provide(Memory),
 *   Effect.runPromise
 * )
 *
 * names // => ["notes"]
 * ```
 */
export { any, idle, interval, invocation, make, sessionEnd } from "./harness/ExtractionTrigger.ts"
export type { ExtractionTrigger, TriggerEvent, Watch } from "./harness/ExtractionTrigger.ts"
