/**
 * A branch of a base store. A read returns the records of the base store, with the changes of the branch. A write stays in the branch until
 * `commit`. Use a branch for evals, sub-agents and plans.
 *
 * ```ts
 * import { Effect, Layer } from "effect"
 * import { MemoryStore, Overlay, Viewer } from "effect-memory"
 *
 * const program = Effect.gen(function*() {
 *   const branch = yield* MemoryStore.MemoryStore
 *   const { commit, pending } = yield* Overlay.Overlay
 *   yield* branch.put(Viewer.make({ userId: "ada" }), [{ scope: { userId: "ada" }, kind: "project", body: "Plan A" }])
 *   const before = (yield* pending).length
 *   yield* commit
 *   return [before, (yield* pending).length]
 * })
 * const Branch = Overlay.layer.pipe(Layer.provide(MemoryStore.layerInMemory))
 * const pending = await program.pipe(Effect.provide(Branch), Effect.runPromise)
 *
 * pending // => [1, 0]
 * ```
 */
export { layer, layerWith, Overlay } from "./storage/MemoryStore/Overlay.ts"
export type { Service } from "./storage/MemoryStore/Overlay.ts"
