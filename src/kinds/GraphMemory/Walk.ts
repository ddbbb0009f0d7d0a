/** Walks along links, breadth first. Cost: the neighbourhood that is walked through, however large the graph. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { MemoryError } from "../../domain/MemoryError.ts"
import { MemoryId } from "../../domain/MemoryId.ts"
import { Link, Unit } from "../../domain/MemoryRecord.ts"
import type { Neighbours } from "../../storage/MemoryStore.ts"

export const Relationship = Schema.Struct({
  from: MemoryId,
  to: MemoryId,
  type: Link.fields.type.pipe(Schema.pattern(/\S/)),
  /** 0..1 */
  weight: Unit
})
export interface Relationship extends Schema.Schema.Type<typeof Relationship> {}

/** Which relationships are gone along. */
export const Along = Schema.Struct({
  /** Any of them; `wikilink` is what a body says. Default all. */
  types: Schema.optional(Schema.Array(Schema.String)),
  /** 0..1, inclusive. Default 0. */
  minWeight: Schema.optional(Unit),
  /** Default `both`. */
  direction: Schema.optional(Schema.Literal("out", "in", "both"))
})
export interface Along extends Schema.Schema.Type<typeof Along> {}

/** A relationship, and the end of it that one comes to. */
export interface Step {
  readonly end: MemoryId
  readonly relationship: Relationship
}

/** The closest tied first; then as the record says them, and as it is spoken of, the newest first. */
export const steps = (
  from: MemoryId,
  neighbours: Neighbours,
  { direction = "both", minWeight = 0, types }: Along
): ReadonlyArray<Step> => {
  const out = neighbours.to.map(({ id, type, weight }): Step => ({
    end: id,
    relationship: { from, to: id, type, weight }
  }))
  const back = neighbours.from.map(({ id, type, weight }): Step => ({
    end: id,
    relationship: { from: id, to: from, type, weight }
  }))
  return [...(direction === "in" ? [] : out), ...(direction === "out" ? [] : back)]
    .filter(({ relationship: { type, weight } }) => weight >= minWeight && (types?.includes(type) ?? true))
    .sort((a, b) => b.relationship.weight - a.relationship.weight)
}

interface At<out A> {
  readonly id: MemoryId
  readonly found: A
  readonly path: ReadonlyArray<Relationship>
}

/** Each once, by a shortest way, nearest first, and `from` not among them; until `isEnough`, asked after each. */
export const breadthFirst = <A>(options: {
  readonly from: MemoryId
  readonly maxDepth: number
  readonly stepsOf: (id: MemoryId) => Effect.Effect<ReadonlyArray<Step>, MemoryError>
  /** `None`: it is not gone through. */
  readonly look: (id: MemoryId) => Effect.Effect<Option.Option<A>, MemoryError>
  readonly isEnough: (found: ReadonlyArray<At<A>>) => boolean
}): Effect.Effect<ReadonlyArray<At<A>>, MemoryError> =>
  Effect.gen(function*() {
    const { from, isEnough, look, maxDepth, stepsOf } = options
    const seen = new Set([from])
    const all: Array<At<A>> = []
    let edge: ReadonlyArray<Pick<At<A>, "id" | "path">> = [{ id: from, path: [] }]
    for (let depth = 0; depth < maxDepth && edge.length > 0; depth++) {
      const start = all.length
      for (const { id, path } of edge) {
        for (const { end, relationship } of yield* stepsOf(id)) {
          if (seen.has(end)) continue
          seen.add(end)
          const found = yield* look(end)
          if (Option.isNone(found)) continue
          all.push({ id: end, found: found.value, path: [...path, relationship] })
          if (isEnough(all)) return all
        }
      }
      edge = all.slice(start)
    }
    return all
  })
