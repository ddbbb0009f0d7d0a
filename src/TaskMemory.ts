/**
 * Episodes about tasks: what was tried, and what the outcome was. These episodes have the kind `episodic`, like the turns and events of
 * conversations.
 *
 * ```ts
 * import { Effect } from "effect"
 * import { MemoryStore, TaskMemory, Viewer } from "effect-memory"
 *
 * const ada = Viewer.make({ userId: "ada" })
 * const program = Effect.gen(function*() {
 *   const memory = yield* TaskMemory.TaskMemory
 *   const task = { taskId: "42", action: "deploy the engine", outcome: "failure" as const }
 *   yield* memory.recordEpisode(ada, { scope: { userId: "ada" }, body: "The cache was stale.", data: { task } })
 *   return (yield* memory.getRecentFailures(ada)).map(({ data }) => data.task.action)
 * })
 * const actions = await program.pipe(
 *   Effect.provide(TaskMemory.layer),
 *   Effect.provide(MemoryStore.layerInMemory),
 *   Effect.runPromise
 * )
 *
 * actions // => ["deploy the engine"]
 * ```
 */
export { layer, TaskMemory } from "./kinds/TaskMemory.ts"
export type { EpisodeQuery, Service, TaskEpisode } from "./kinds/TaskMemory.ts"
