/**
 * Makes memories from conversations. `remember` extracts facts, compares the facts with related memories, and writes the result. `undo`
 * takes the receipt that `remember` returned, and reverts what that call wrote. `recall` searches.
 *
 * ```ts
 * import { Effect, Layer } from "effect"
 * import { Completion, Embedder, MemoryPipeline, MemoryStore, Message, Viewer } from "effect-memory"
 *
 * const program = Effect.gen(function*() {
 *   const { remember, undo } = yield* MemoryPipeline.MemoryPipeline
 *   const said = [Message.user("I moved to Lisbon.")]
 *   const receipt = yield* remember(Viewer.make({ userId: "ada" }), said, { scope: { userId: "ada" } })
 *   yield* undo(receipt)
 *   return receipt.applied.map(({ record }) => record?.body)
 * })
 * const script = [{ facts: ["Ada lives in Lisbon"] }, { memory: [{ event: "ADD", text: "Ada lives in Lisbon" }] }]
 * const Pipeline = MemoryPipeline.layer.pipe(
 *   Layer.provide([MemoryStore.layerInMemory, Completion.layerScripted(script), Embedder.layerHash()])
 * )
 * const facts = await program.pipe(Effect.provide(Pipeline), Effect.runPromise)
 *
 * facts // => ["Ada lives in Lisbon"]
 * ```
 */
export { layer, MemoryPipeline, Receipt } from "./pipeline/MemoryPipeline.ts"
export type { Apply, Options, Service } from "./pipeline/MemoryPipeline.ts"
