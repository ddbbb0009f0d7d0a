/**
 * A durable queue of messages, stored as rows of the store itself. The memories of a message are stored only once, even across crashes. A
 * message whose extraction keeps failing is set aside. Use the queue through `MemoryManager`, or directly in a program with one store.
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
