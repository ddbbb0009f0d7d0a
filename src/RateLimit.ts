/**
 * The write limit is a plugin of the harness. It counts the writes of a model in each turn of a run, and denies writes above the limit.
 * `MemoryService.layer` adds this plugin, with the limit `MemorySpec.writesPerTurn`. A plugin of your own with the same id replaces this
 * plugin.
 *
 * ```ts
 * import { Effect } from "effect"
 * import { MemoryService, MemoryTools, Viewer } from "effect-memory"
 *
 * const program = Effect.gen(function*() {
 *   const [remember] = yield* MemoryTools.make(Viewer.make({ userId: "ada" }))
 *   const write = (body: string) =>
 *     remember!.call({ scope: "user", kind: "user", summary: body, body }).pipe(
 *       Effect.as("written"),
 *       Effect.catchAll(({ reason }) => Effect.succeed(reason))
 *     )
 *   return [yield* write("Drinks tea."), yield* write("Eats cake.")]
 * })
 * const Memory = MemoryService.layerTest({ spec: { writesPerTurn: 1 } })
 * const outcomes = await program.pipe(Effect.provide(Memory), Effect.runPromise)
 *
 * outcomes // => ["written", "rate_limited"]
 * ```
 */
export { layer, make } from "./harness/RateLimit.ts"
export type { Options } from "./harness/RateLimit.ts"
