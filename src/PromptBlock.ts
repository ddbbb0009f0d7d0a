/**
 * Formats memories as one block of text for a model. Each memory is escaped and shown with its origin. The block tells the model that the
 * content is data. The length of the block can be limited. `strip` removes the block from a message.
 *
 * ```ts
 * import { Effect } from "effect"
 * import { MemoryService, PromptBlock, Viewer } from "effect-memory"
 *
 * const program = Effect.gen(function*() {
 *   const { put, search } = yield* MemoryService.MemoryService
 *   yield* put({ scope: { userId: "ada" }, kind: "user", body: "Drinks tea." })
 *   return PromptBlock.formatMemoriesForPrompt(yield* search({ text: "tea" })).includes("Drinks tea.")
 * }).pipe(MemoryService.as(Viewer.make({ userId: "ada" })))
 * const isShown = await program.pipe(Effect.provide(MemoryService.layerTest()), Effect.runPromise)
 *
 * isShown // => true
 * ```
 */
export { formatMemoriesForPrompt, render, strip } from "./harness/PromptBlock.ts"
export type { Options, PromptBlock } from "./harness/PromptBlock.ts"
