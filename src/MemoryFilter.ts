/**
 * Filters and queries. A filter selects records; `list` returns them in a `Page`. A query selects and ranks records; `search` returns them
 * in a `SearchResult`.
 *
 * ```ts
 * import { Effect } from "effect"
 * import { type MemoryFilter, MemoryService, Viewer } from "effect-memory"
 *
 * const open: MemoryFilter.MemoryFilter = { tags: ["work"], where: { "metadata.status": { eq: "open" } }, limit: 10 }
 * const program = Effect.gen(function*() {
 *   const { list, put } = yield* MemoryService.MemoryService
 *   const draft = { scope: { userId: "ada" }, kind: "project", tags: ["work"] }
 *   yield* put({ ...draft, body: "Write the manual.", metadata: { status: "open" } })
 *   yield* put({ ...draft, body: "Order paper.", metadata: { status: "done" } })
 *   return (yield* list(open)).items.map(({ body }) => body)
 * }).pipe(MemoryService.as(Viewer.make({ userId: "ada" })))
 * const bodies = await program.pipe(Effect.provide(MemoryService.layerTest()), Effect.runPromise)
 *
 * bodies // => ["Write the manual."]
 * ```
 */
export { Hit, matches, MemoryFilter, MemoryQuery } from "./domain/MemoryFilter.ts"
export type { Absence, Filtered, Page, SearchResult } from "./domain/MemoryFilter.ts"
