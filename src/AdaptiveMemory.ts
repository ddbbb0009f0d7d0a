/**
 * Ranks records of any kind by priority. The priority of a record is the weighted mean of recency, importance and relevance, each 0..1
 * (Park et al., 2023).
 *
 * ```ts
 * import { Effect } from "effect"
 * import { AdaptiveMemory, MemoryStore, Viewer } from "effect-memory"
 *
 * const ada = Viewer.make({ userId: "ada" })
 * const program = Effect.gen(function*() {
 *   const memory = yield* AdaptiveMemory.AdaptiveMemory
 *   const store = yield* MemoryStore.MemoryStore
 *   const note = { scope: { userId: "ada" }, kind: "project" }
 *   yield* store.put(ada, [{ ...note, body: "Tea at four.", importance: 0.1 }, { ...note, body: "The engine is due." }])
 *   return (yield* memory.retrieve(ada, { limit: 1 })).map(({ record }) => record.body)
 * })
 * const bodies = await program.pipe(
 *   Effect.provide(AdaptiveMemory.layer),
 *   Effect.provide(MemoryStore.layerInMemory),
 *   Effect.runPromise
 * )
 *
 * bodies // => ["The engine is due."]
 * ```
 */
export { AdaptiveMemory, layer } from "./kinds/AdaptiveMemory.ts"
export type { Prioritised, Priority, PriorityQuery, Question, Service } from "./kinds/AdaptiveMemory.ts"
