/**
 * Limits the number of records of a kind in one scope to the `cap` of the kind. Records beyond the cap are forgotten, the least important
 * first. Among equally important records, those with the earliest last change are forgotten first. `layer` does so when it is built, and
 * then hourly while the store is in use. `enforce` does so once.
 *
 * ```ts
 * import { Effect, Layer } from "effect"
 * import { MemoryKind, MemoryStore, Retention, Viewer } from "effect-memory"
 *
 * const Kinds = MemoryKind.layer(MemoryKind.make({ name: "joke", cap: 1 }))
 * const program = Effect.gen(function*() {
 *   const store = yield* MemoryStore.MemoryStore
 *   const joke = { scope: { userId: "ada" }, kind: "joke" }
 *   const drafts = [{ ...joke, body: "A dull one.", importance: 0.1 }, { ...joke, body: "A good one." }]
 *   yield* store.put(Viewer.make({ userId: "ada" }), drafts)
 *   return (yield* Retention.enforce(Viewer.system())).map(({ body }) => body)
 * })
 * const retired = await program.pipe(
 *   Effect.provide(MemoryStore.layerInMemory.pipe(Layer.provideMerge(Kinds))),
 *   Effect.runPromise
 * )
 *
 * retired // => ["A dull one."]
 * ```
 */
export { enforce, layer } from "./harness/Retention.ts"
export type { Options } from "./harness/Retention.ts"
