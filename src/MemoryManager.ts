/**
 * Automatic memory over several named stores. It searches all or some stores, adds records to all or some stores, and extracts memories
 * from conversations. An agent with one store needs only `MemoryService`, unless memories are to be extracted automatically.
 *
 * ```ts
 * import { Effect, Layer } from "effect"
 * import { Completion, Embedder, Federated, MemoryManager, MemoryStore, Viewer } from "effect-memory"
 *
 * const Manager = MemoryManager.layer().pipe(
 *   Layer.provide(Federated.layer({
 *     notes: { layer: MemoryStore.layerInMemory, writable: true },
 *     team: { layer: MemoryStore.layerInMemory, writable: true }
 *   })),
 *   Layer.provide([Completion.layerNone, Embedder.layerNone])
 * )
 * const program = Effect.gen(function*() {
 *   const memory = yield* MemoryManager.MemoryManager
 *   const ada = Viewer.make({ userId: "ada" })
 *   const draft = { scope: { userId: "ada" }, kind: "user", body: "Drinks tea." }
 *   const added = yield* memory.add(ada, [draft], { stores: ["team"] })
 *   yield* Effect.forEach(added, ({ result }) => result)
 *   return (yield* memory.search(ada, "tea")).hits.map(({ store }) => store)
 * })
 * const stores = await program.pipe(Effect.provide(Manager), Effect.runPromise)
 *
 * stores // => ["team"]
 * ```
 */
export type { Inject, InjectionConfig } from "./harness/Injection.ts"
export { layer, MemoryManager } from "./harness/MemoryManager.ts"
export type { Added, Config, Service, StoreSelection } from "./harness/MemoryManager.ts"
