/**
 * A record stores one memory, of any kind. The kind determines the type of the field `data`.
 *
 * ```ts
 * import { Effect } from "effect"
 * import { type MemoryRecord, MemoryService, Viewer } from "effect-memory"
 *
 * const draft: MemoryRecord.Draft = { scope: { userId: "ada" }, kind: "user", body: "Drinks tea. Never coffee." }
 * const { record } = await Effect.flatMap(MemoryService.MemoryService, ({ put }) => put(draft)).pipe(
 *   MemoryService.as(Viewer.make({ userId: "ada" })),
 *   Effect.provide(MemoryService.layerTest()),
 *   Effect.runPromise
 * )
 * const { importance, revision, source, summary } = record
 * const told = [importance, revision, source.origin, summary]
 *
 * told // => [0.5, 1, "user", "Drinks tea. Never coffee."]
 * ```
 */
export { byRecency, Draft, importanceOf, isExpired, MemoryRecord, Patch } from "./domain/MemoryRecord.ts"
export type { Origin, Trust } from "./domain/MemoryRecord.ts"
