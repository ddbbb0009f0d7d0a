/**
 * Combines several stores into one. A new record is written to one of the stores. An update is written to the store that has the record. A
 * search asks all stores in parallel. If two names have the same layer, each name has its own store.
 *
 * ```ts
 * import { Effect } from "effect"
 * import { Federated, MemoryStore, Viewer } from "effect-memory"
 *
 * const Stores = Federated.layer({
 *   notes: { layer: MemoryStore.layerInMemory, writable: true },
 *   team: { layer: MemoryStore.layerInMemory, writable: true }
 * }, { route: ({ kind }) => kind === "project" ? "team" : undefined })
 *
 * const program = Effect.gen(function*() {
 *   const store = yield* MemoryStore.MemoryStore
 *   const ada = Viewer.make({ userId: "ada" })
 *   yield* store.put(ada, [{ scope: { userId: "ada" }, kind: "project", body: "The engine is due in May." }])
 *   return (yield* store.search(ada, { text: "engine" })).hits.map(({ store }) => store)
 * })
 * const stores = await program.pipe(Effect.provide(Stores), Effect.runPromise)
 *
 * stores // => ["team"]
 * ```
 */
export { Federated, important, layer } from "./storage/MemoryStore/Federated.ts"
export type { ContextOf, Entries, ErrorOf, Options, Service } from "./storage/MemoryStore/Federated.ts"
export type { Entry, Named, Registry } from "./storage/MemoryStore/Federated/StoreRegistry.ts"
