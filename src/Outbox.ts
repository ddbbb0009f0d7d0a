/**
 * A queue of messages that wait for extraction, stored as rows of the memory store. `MemoryPipeline` stores the memories of a message only
 * once, even after a crash. A message is set aside if its extraction fails permanently, or ten times while other extractions succeed. Use
 * the queue through `MemoryManager`, or directly in a program with one store.
 *
 * ```ts
 * import { Effect, Layer } from "effect"
 * import { Completion, Embedder, MemoryPipeline, MemoryStore, Message, Outbox, Viewer } from "effect-memory"
 *
 * const program = Effect.gen(function*() {
 *   const { append, flush } = yield* Outbox.Outbox
 *   const ada = Viewer.make({ userId: "ada" })
 *   yield* append(ada, "monday", [Message.user("I live in Lisbon.")])
 *   yield* flush
 *   return (yield* (yield* MemoryStore.MemoryStore).list(ada, {})).items.map(({ body }) => body)
 * })
 * const Kept = Outbox.layer({ options: { infer: false, kind: "semantic" } }).pipe(
 *   Layer.provide(MemoryPipeline.layer),
 *   Layer.provide([Completion.layerNone, Embedder.layerNone]),
 *   Layer.provideMerge(MemoryStore.layerInMemory)
 * )
 * const bodies = await program.pipe(Effect.provide(Kept), Effect.runPromise)
 *
 * bodies // => ["I live in Lisbon."]
 * ```
 */
export { layer, Outbox } from "./harness/Outbox.ts"
export type { DeadLetter, ExtractionConfig, Options, Service, Status } from "./harness/Outbox.ts"
