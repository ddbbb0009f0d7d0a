/**
 * Plugins of the harness, the program that runs the agent. A plugin is told when a turn starts or ends, and when a session ends. A plugin
 * may also deny tool calls.
 *
 * ```ts
 * import { Effect, Layer } from "effect"
 * import { HarnessPlugin, MemoryService, MemoryStore, MemoryTools, Viewer } from "effect-memory"
 *
 * const quiet = HarnessPlugin.layer({
 *   id: "no-writes",
 *   beforeToolCall: ({ writes }) => Effect.succeed(writes ? HarnessPlugin.deny("not at night") : HarnessPlugin.allow)
 * })
 * const Memory = MemoryService.layer().pipe(Layer.provide(quiet), Layer.provide(MemoryStore.layerInMemory))
 * const program = Effect.gen(function*() {
 *   const [remember] = yield* MemoryTools.make(Viewer.make({ userId: "ada" }))
 *   const call = remember!.call({ scope: "user", kind: "user", summary: "Tea", body: "Drinks tea." })
 *   return (yield* Effect.flip(call)).reason
 * })
 * const reason = await program.pipe(Effect.provide(Memory), Effect.runPromise)
 *
 * reason // => "unsupported"
 * ```
 */
export { allow, deny, layer, Plugins } from "./host/HarnessPlugin.ts"
export type { HarnessPlugin, PluginSource, Signal, ToolCall, Verdict } from "./host/HarnessPlugin.ts"
