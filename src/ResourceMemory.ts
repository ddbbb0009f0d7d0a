/**
 * Resources: records that point to files, pages and other things outside the store.
 *
 * ```ts
 * import { Effect } from "effect"
 * import { MemoryStore, ResourceMemory, Viewer } from "effect-memory"
 *
 * const ada = Viewer.make({ userId: "ada" })
 * const program = Effect.gen(function*() {
 *   const memory = yield* ResourceMemory.ResourceMemory
 *   const data = { type: "file" as const, location: "docs/guide.md" }
 *   yield* memory.store(ada, { scope: { userId: "ada" }, body: "How to begin.", data })
 *   return (yield* memory.findByLocation(ada, "docs/")).map(({ data }) => data.location)
 * })
 * const locations = await program.pipe(
 *   Effect.provide(ResourceMemory.layer),
 *   Effect.provide(MemoryStore.layerInMemory),
 *   Effect.runPromise
 * )
 *
 * locations // => ["docs/guide.md"]
 * ```
 */
export { layer, ResourceMemory } from "./kinds/ResourceMemory.ts"
export type { Resource, Service } from "./kinds/ResourceMemory.ts"
