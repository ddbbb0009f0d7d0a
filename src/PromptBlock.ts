/**
 * Renders memory as text for a model: escaped, fenced as data, with provenance, within a budget, and marked as injected.
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
