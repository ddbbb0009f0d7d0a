/**
 * A procedure is a list of steps to do something. A procedure also counts how often it was executed, and how often it succeeded.
 *
 * ```ts
 * import { Effect } from "effect"
 * import { MemoryStore, ProceduralMemory, Viewer } from "effect-memory"
 *
 * const ada = Viewer.make({ userId: "ada" })
 * const program = Effect.gen(function*() {
 *   const memory = yield* ProceduralMemory.ProceduralMemory
 *   const steps = [{ action: "build" }, { action: "upload" }]
 *   const data = { name: "deploy", steps, triggers: ["ship it"], successes: 0, executions: 0 }
 *   const { record } = yield* memory.storeProcedure(ada, { scope: { userId: "ada" }, body: "", data })
 *   yield* memory.recordExecution(ada, record.id, true)
 *   const [found] = yield* memory.findProcedures(ada, "please ship it")
 *   return [found?.data.name, found?.data.successes]
 * })
 * const procedure = await program.pipe(
 *   Effect.provide(ProceduralMemory.layer),
 *   Effect.provide(MemoryStore.layerInMemory),
 *   Effect.runPromise
 * )
 *
 * procedure // => ["deploy", 1]
 * ```
 */
export { layer, ProceduralMemory, successRate } from "./kinds/ProceduralMemory.ts"
export type { Procedure, Service } from "./kinds/ProceduralMemory.ts"
