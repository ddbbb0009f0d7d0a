/**
 * Computes scores of search hits. `score` makes a function that computes the weighted mean of relevance, recency, importance, confidence
 * and emotion. `defaultMemoryScorer` returns a sum of recency, importance and relevance, which can exceed 1.
 *
 * ```ts
 * import { Effect } from "effect"
 * import { MemoryService, Viewer } from "effect-memory"
 *
 * const program = Effect.gen(function*() {
 *   const { put, search } = yield* MemoryService.MemoryService
 *   const fact = { scope: { userId: "ada" }, kind: "user" }
 *   yield* put({ ...fact, body: "Drinks tea.", importance: 0.1 })
 *   yield* put({ ...fact, body: "Is allergic to nuts, and drinks tea.", importance: 1 })
 *   const { hits } = yield* search({ text: "tea", weights: { importance: 1 } })
 *   return hits[0]?.record.body
 * }).pipe(MemoryService.as(Viewer.make({ userId: "ada" })))
 * const first = await program.pipe(Effect.provide(MemoryService.layerTest()), Effect.runPromise)
 *
 * first // => "Is allergic to nuts, and drinks tea."
 * ```
 */
export { defaultMemoryScorer, score } from "./ranking/Scorer.ts"
export type { Input, ScoredQuery } from "./ranking/Scorer.ts"
