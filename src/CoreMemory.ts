/**
 * The identity of an agent: one record, whose body is the agent's system prompt.
 *
 * ```ts
 * import { Effect } from "effect"
 * import { CoreMemory, MemoryStore, Viewer } from "effect-memory"
 *
 * const ada = Viewer.make({ userId: "ada", agentId: "mira" })
 * const program = Effect.gen(function*() {
 *   const memory = yield* CoreMemory.CoreMemory
 *   const identity = { role: "companion", name: "Mira", constraints: ["never guess"], capabilities: [] }
 *   yield* memory.setIdentity(ada, identity, "You are Mira. Speak plainly.")
 *   return yield* memory.getConstraints(ada)
 * })
 * const constraints = await program.pipe(
 *   Effect.provide(CoreMemory.layer),
 *   Effect.provide(MemoryStore.layerInMemory),
 *   Effect.runPromise
 * )
 *
 * constraints // => ["never guess"]
 * ```
 */
export { CoreMemory, layer } from "./kinds/CoreMemory.ts"
export type { Identity, Service } from "./kinds/CoreMemory.ts"
