/**
 * Makes a store fail on purpose, to test code that uses the store. A fault occurs before or after an operation, never in the middle. To
 * test a fault in the middle, build the store over a failing `FileSystem` or failing `Primitives`.
 *
 * ```ts
 * import { Effect, Layer } from "effect"
 * import { Faulty, MemoryStore, Viewer } from "effect-memory"
 *
 * const Broken = Faulty.layer({ ops: ["list"], fault: "unavailable" }).pipe(Layer.provide(MemoryStore.layerInMemory))
 * const reason = await Effect.flatMap(MemoryStore.MemoryStore, (store) => store.list(Viewer.make({ userId: "ada" }), {})).pipe(
 *   Effect.flip,
 *   Effect.map(({ reason }) => reason),
 *   Effect.provide(Broken),
 *   Effect.runPromise
 * )
 *
 * reason // => "unavailable"
 * ```
 */
export { layer } from "./storage/MemoryStore/Faulty.ts"
export type { Fault } from "./storage/MemoryStore/Faulty.ts"
