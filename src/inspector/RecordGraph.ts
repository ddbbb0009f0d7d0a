/** The records within a given distance of a record, and the links between them. Everything hidden from the viewer is left out. */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { MemoryError } from "../domain/MemoryError.ts"
import { MemoryId } from "../domain/MemoryId.ts"
import type { Neighbours } from "../storage/Links.ts"

/** Largest distance from the requested record, in links. */
export const maxDepth = 3
/** Largest number of records in a graph. */
export const maxNodes = 60

/** Schema of a graph of ids. */
export const Graph = Schema.Struct({
  /** The requested record first, then the others, nearest first. `depth` is the distance in links. */
  nodes: Schema.Array(Schema.Struct({ id: MemoryId, depth: Schema.NonNegativeInt })),
  /** Links between the records in `nodes`, each link once. */
  edges: Schema.Array(
    Schema.Struct({ from: MemoryId, to: MemoryId, type: Schema.String, weight: Schema.Number })
  ),
  /** Whether records are left out because there are more than `maxNodes`. */
  isCut: Schema.Boolean
})
/** A graph, as its schema decodes it. */
export interface Graph extends Schema.Schema.Type<typeof Graph> {}

/**
 * Returns the graph around a record. Links are followed in both directions, breadth first. Cost: one call of `links` for each record of the
 * graph. The outermost records need a call, too, since they may have links to each other.
 */
export const around = (
  links: (id: MemoryId) => Effect.Effect<Neighbours, MemoryError>,
  id: MemoryId,
  depth: number
): Effect.Effect<Graph, MemoryError> =>
  Effect.gen(function*() {
    const depths = new Map([[id, 0]])
    const edges = new Map<string, Graph["edges"][number]>()
    let isCut = false
    // iterating a Map also visits entries that are added during the loop
    for (const [current, distance] of depths) {
      const { from, to } = yield* links(current)
      const ends = [
        ...to.map(({ id, type, weight }) => ({ other: id, from: current, to: id, type, weight })),
        ...from.map(({ id, type, weight }) => ({ other: id, from: id, to: current, type, weight }))
      ]
      for (const { other, ...edge } of ends) {
        if (!depths.has(other) && distance < depth) {
          if (depths.size < maxNodes) depths.set(other, distance + 1)
          else isCut = true
        }
        edges.set(`${edge.from} ${edge.to} ${edge.type}`, edge)
      }
    }
    return {
      nodes: Array.from(depths, ([id, depth]) => ({ id, depth })),
      edges: Array.from(edges.values()).filter(({ from, to }) => depths.has(from) && depths.has(to)),
      isCut
    }
  })
