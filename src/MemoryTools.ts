/**
 * Tools with which a model reads and writes memory; `MemoryService.guard` checks each call. `make` makes tools that select memories by
 * scope, `makeRecords` by record id, and `makeStores` by store name. `makeThread` makes a tool that searches the messages of the
 * conversation. The harness chooses the viewer; no argument of a tool call can choose another viewer.
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
