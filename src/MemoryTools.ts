/**
 * Tools by which a model reaches memory, each behind `MemoryService.guard`: `make` by scope, `makeRecords` by id, `makeStores` by
 * store, `makeThread` over the conversation itself. The harness says who the viewer is, never an argument of a tool.
 *
 * ```ts
 * import { Effect } from "effect"
 * import { MemoryService, MemoryTools, Viewer } from "effect-memory"
 *
 * const program = Effect.gen(function*() {
 *   const [remember, recall] = yield* MemoryTools.make(Viewer.make({ userId: "ada" }))
 *   yield* remember!.call({ scope: "user", kind: "user", summary: "Drinks tea", body: "Drinks tea." })
 *   return (yield* recall!.call({ query: "tea" })).text.includes("Drinks tea.")
 * }).pipe(Effect.provide(MemoryService.layerTest()))
 *
 * await Effect.runPromise(program) // => true
 * ```
 */
export { make, makeRecords, makeStores, makeThread } from "./agent/MemoryTools.ts"
export type { StoreToolsOptions } from "./agent/StoreTools.ts"
