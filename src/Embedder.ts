/**
 * Converts texts into vectors: with a model of the harness (the program that runs the agent), or offline with `layerWordVectors`.
 *
 * ```ts
 * import { Effect } from "effect"
 * import { Embedder, VectorIndex } from "effect-memory"
 *
 * const program = Effect.gen(function*() {
 *   const { embed } = yield* Embedder.Embedder
 *   const [tea, same, other] = yield* embed(["green tea", "green tea", "cake"], "search")
 *   return [VectorIndex.cosineSimilarity(tea!, same!), VectorIndex.cosineSimilarity(tea!, other!) < 1]
 * })
 * const cosines = await program.pipe(Effect.provide(Embedder.layerHash()), Effect.runPromise)
 *
 * cosines // => [1, true]
 * ```
 */
export { calibrate, Embedder, layerHash, layerNone, layerWordVectors, make } from "./host/Embedder.ts"
export type { Calibration, Options, Purpose, Service } from "./host/Embedder.ts"
