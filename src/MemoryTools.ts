/**
 * Tools by which a model reads and writes memory, each behind `MemoryService.guard`. `make` makes tools that address memory by scope,
 * `makeRecords` by record id, `makeStores` by the name of a store; `makeThread` those over the messages of the conversation. The harness
 * passes the viewer to them; no argument that a model fills in can name another one.
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
