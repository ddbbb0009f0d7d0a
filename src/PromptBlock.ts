/**
 * Formats memories as text for a model. The text of each memory is escaped and shown with its source. All memories are put into one block,
 * which stays within a budget of tokens and tells the model that the content is data. `strip` removes the block from a text.
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
