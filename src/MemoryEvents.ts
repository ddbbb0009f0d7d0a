/**
 * Events about memory, for the harness to show, log and count. A slow listener misses the oldest events, so do not derive state from
 * events.
 *
 * ```ts
 * import { Effect, Fiber, Stream } from "effect"
 * import { MemoryService, Viewer } from "effect-memory"
 *
 * const program = Effect.gen(function*() {
 *   const { events, put } = yield* MemoryService.MemoryService
 *   const first = yield* events.pipe(Stream.take(1), Stream.runCollect, Effect.fork)
 *   yield* Effect.sleep("10 millis") // lets the fiber subscribe
 *   yield* put({ scope: { userId: "ada" }, kind: "user", body: "Drinks tea." })
 *   return Array.from(yield* Fiber.join(first), ({ _tag }) => _tag)
 * }).pipe(MemoryService.as(Viewer.make({ userId: "ada" })))
 * const tags = await program.pipe(Effect.provide(MemoryService.layerTest()), Effect.runPromise)
 *
 * tags // => ["memory_written"]
 * ```
 */
export { layer, MemoryEvent, MemoryEvents } from "./harness/MemoryEvents.ts"
export type { Options, Service } from "./harness/MemoryEvents.ts"
