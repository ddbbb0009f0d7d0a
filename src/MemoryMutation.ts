/**
 * A mutation is data that describes one change of a store. A pipeline proposes mutations, and a store applies mutations in a batch.
 * `inverse` returns the mutations that undo a batch. `StoreChange` is an event of a store, for example that a record was written.
 *
 * ```ts
 * import { Effect } from "effect"
 * import { MemoryMutation, MemoryStore, Viewer } from "effect-memory"
 *
 * const ada = Viewer.make({ userId: "ada" })
 * const program = Effect.gen(function*() {
 *   const store = yield* MemoryStore.MemoryStore
 *   const draft = { scope: { userId: "ada" }, kind: "user", body: "Drinks tea." }
 *   const applied = yield* store.apply(ada, [{ _tag: "Put", draft }])
 *   yield* store.apply(ada, MemoryMutation.inverse(applied, 0))
 *   return [applied[0]!.outcome, (yield* store.list(ada, {})).items.length]
 * })
 * const outcome = await program.pipe(Effect.provide(MemoryStore.layerInMemory), Effect.runPromise)
 *
 * outcome // => ["created", 0]
 * ```
 */
export { inverse, MemoryMutation } from "./domain/MemoryMutation.ts"
export type { Applied, Provenance, StoreChange } from "./domain/MemoryMutation.ts"
