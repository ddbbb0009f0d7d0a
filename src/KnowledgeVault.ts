/**
 * Stores insights, decisions and patterns: knowledge that stays useful after the session in which it was learned.
 *
 * ```ts
 * import { Effect } from "effect"
 * import { KnowledgeVault, MemoryStore, Viewer } from "effect-memory"
 *
 * const ada = Viewer.make({ userId: "ada" })
 * const program = Effect.gen(function*() {
 *   const memory = yield* KnowledgeVault.KnowledgeVault
 *   const data = { category: "decision" as const, title: "Freeze the API" }
 *   yield* memory.store(ada, { scope: { userId: "ada" }, body: "No breaking change before May.", data })
 *   return (yield* memory.findByCategory(ada, "decision")).map(({ data }) => data.title)
 * })
 * const titles = await program.pipe(
 *   Effect.provide(KnowledgeVault.layer),
 *   Effect.provide(MemoryStore.layerInMemory),
 *   Effect.runPromise
 * )
 *
 * titles // => ["Freeze the API"]
 * ```
 */
export { KnowledgeVault, layer } from "./kinds/KnowledgeVault.ts"
export type { Service, VaultEntry } from "./kinds/KnowledgeVault.ts"
