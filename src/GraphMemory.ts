/**
 * Entities and their relationships. A relationship is a link between two records, indexed in both directions. The record at which the link
 * begins stores the link in the field `links`, or as `[[Name]]` in the body. A `[[Name]]` has the type `wikilink` and weight 1. A viewer
 * sees a relationship if both records are visible to the viewer and valid now. A traversal visits only entities; a search follows links
 * between records of all kinds. The cost of a traversal grows with the number of visited records, not with the size of the graph.
 *
 * ```ts
 * import { Effect } from "effect"
 * import { GraphMemory, MemoryStore, Viewer } from "effect-memory"
 *
 * const ada = Viewer.make({ userId: "ada" })
 * const named = (name: string) => ({ scope: { userId: "ada" }, body: "", data: { name, type: "person" } })
 * const program = Effect.gen(function*() {
 *   const { addEntity, relate, traverse } = yield* GraphMemory.GraphMemory
 *   const [from, to] = yield* Effect.forEach([named("Ada"), named("Charles")], (entity) => addEntity(ada, entity))
 *   yield* relate(ada, { from: from!.record.id, to: to!.record.id, type: "works_with", weight: 1 })
 *   return (yield* traverse(ada, from!.record.id)).map(({ data }) => data.name)
 * }).pipe(Effect.provide(GraphMemory.layer), Effect.provide(MemoryStore.layerInMemory))
 *
 * await Effect.runPromise(program) // => ["Charles"]
 * ```
 */
export { GraphMemory, layer } from "./kinds/GraphMemory.ts"
export type {
  Entity,
  Path,
  PathSearch,
  Reached,
  Relationship,
  Service,
  Traversal,
  Visited
} from "./kinds/GraphMemory.ts"
