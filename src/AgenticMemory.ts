/**
 * A memory of notes (A-MEM; Xu et al., 2025). Each new note gets attributes that are derived from its text. The service also suggests links
 * between the new note and other notes. It suggests changes to older notes, too.
 *
 * ```ts
 * import { Effect } from "effect"
 * import { AgenticMemory, MemoryStore, Viewer } from "effect-memory"
 *
 * const ada = Viewer.make({ userId: "ada" })
 * const program = Effect.gen(function*() {
 *   const memory = yield* AgenticMemory.AgenticMemory
 *   const note = (body: string) => ({ scope: { userId: "ada" }, body })
 *   yield* memory.store(ada, note("The Payments Gateway retries failed webhooks."))
 *   const { suggestions } = yield* memory.store(ada, note("The Payments Gateway retries failed webhooks for a day."))
 *   return suggestions.map(({ type }) => type)
 * })
 * const types = await program.pipe(
 *   Effect.provide(AgenticMemory.layer),
 *   Effect.provide(MemoryStore.layerInMemory),
 *   Effect.runPromise
 * )
 *
 * types // => ["same_entity"]
 * ```
 */
export { AgenticMemory, layer } from "./kinds/AgenticMemory.ts"
export type { Attributes, Evolution, LinkSuggestion, Note, Service, Stored } from "./kinds/AgenticMemory.ts"
