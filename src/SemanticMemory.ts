/**
 * Facts as subject, predicate and object. These facts have the kind `semantic`, like facts that are stored as plain sentences.
 *
 * ```ts
 * import { Effect } from "effect"
 * import { MemoryStore, SemanticMemory, Viewer } from "effect-memory"
 *
 * const ada = Viewer.make({ userId: "ada" })
 * const program = Effect.gen(function*() {
 *   const memory = yield* SemanticMemory.SemanticMemory
 *   const data = { subject: "Ada", predicate: "lives in", object: "Bern" }
 *   const { record } = yield* memory.storeFact(ada, { scope: { userId: "ada" }, body: "", data })
 *   const before = (yield* memory.queryBySubject(ada, "Ada")).length
 *   yield* memory.invalidateFact(ada, record.id)
 *   return [before, (yield* memory.queryBySubject(ada, "Ada")).length]
 * })
 * const facts = await program.pipe(
 *   Effect.provide(SemanticMemory.layer),
 *   Effect.provide(MemoryStore.layerInMemory),
 *   Effect.runPromise
 * )
 *
 * facts // => [1, 0]
 * ```
 */
export { layer, SemanticMemory } from "./kinds/SemanticMemory.ts"
export type { AsOf, Fact, Service } from "./kinds/SemanticMemory.ts"
