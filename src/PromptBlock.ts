/**
 * Formats memories as text for a model: escaped, in a block that says that it is data, with the source of each memory, and within a budget
 * of tokens. `strip` removes the block from a text.
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
