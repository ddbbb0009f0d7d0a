/**
 * Learnings are what an agent learned in a work session. A session ends when its Effect scope closes. The method `end` ends the session
 * earlier, and also stores a summary.
 *
 * ```ts
 * import { Effect } from "effect"
 * import { MemoryStore, SessionMemory, Viewer } from "effect-memory"
 *
 * const ada = Viewer.make({ userId: "ada" })
 * const program = Effect.gen(function*() {
 *   const memory = yield* SessionMemory.SessionMemory
 *   const session = yield* memory.start(ada, "monday")
 *   yield* session.recordError("ECONNRESET on upload", "Raise the proxy's timeout.")
 *   return (yield* memory.search(ada, "ECONNRESET")).map(({ data }) => data.solution)
 * }).pipe(Effect.scoped)
 * const solutions = await program.pipe(
 *   Effect.provide(SessionMemory.layer),
 *   Effect.provide(MemoryStore.layerInMemory),
 *   Effect.runPromise
 * )
 *
 * solutions // => ["Raise the proxy's timeout."]
 * ```
 */
export { layer, SessionMemory } from "./kinds/SessionMemory.ts"
export type { Learning, Service, Session } from "./kinds/SessionMemory.ts"
