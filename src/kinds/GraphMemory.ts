/**
 * Entities and their relationships. A relationship is a link from one record to another. A `[[Name]]` in a body is a link, too, of type
 * `wikilink` and weight 1. A viewer sees a relationship if both records are visible to the viewer and valid now. A traversal follows only
 * links between entities, a search all links. Links are indexed in both directions, so the cost of a traversal grows with the number of
 * visited records, not with the size of the graph.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as MemoryError from "../domain/MemoryError.ts"
import { type Hit, Limit, matches, type MemoryQuery } from "../domain/MemoryFilter.ts"
import { MemoryId } from "../domain/MemoryId.ts"
import * as MemoryKind from "../domain/MemoryKind.ts"
import type { MemoryMutation } from "../domain/MemoryMutation.ts"
import { byRecency, Link, type MemoryRecord, Unit } from "../domain/MemoryRecord.ts"
import type * as Payload from "../domain/Payload.ts"
import { check, invalid } from "../domain/Validation.ts"
import type * as Viewer from "../domain/Viewer.ts"
import * as EventLoop from "../host/EventLoop.ts"
import * as MemoryStore from "../storage/MemoryStore.ts"
import * as TypedMemory from "./TypedMemory.ts"

/** The `data` of an entity. */
export type Entity = Payload.Entity

const RelationshipSchema = Schema.Struct({
  from: MemoryId,
  to: MemoryId,
  type: Link.fields.type.pipe(Schema.pattern(/\S/)),
  /** Strength, 0..1. */
  weight: Unit
})
/** A typed, weighted connection from one record to another. `relate` connects only entities. */
export interface Relationship extends Schema.Schema.Type<typeof RelationshipSchema> {}
/** A path between two records: the relationships on the way, in order. A relationship may be followed in either direction. */
export type Path = ReadonlyArray<Relationship>

/** Schema of the conditions for relationships. Only relationships that meet all conditions are followed. */
const Along = Schema.Struct({
  /** Types of relationships to follow; `wikilink` is the type of a `[[Name]]` in a body. Default: all types. */
  types: Schema.optional(Schema.Array(Schema.String)),
  /** Minimum weight, 0..1, inclusive. Default 0. */
  minWeight: Schema.optional(Unit),
  /** Direction of the relationships. Default `both`. */
  direction: Schema.optional(Schema.Literal("out", "in", "both"))
})
interface Along extends Schema.Schema.Type<typeof Along> {}

/** Schema of the options of a traversal: the relationships to follow, the distance, and the number of results. */
export const Traversal = Schema.Struct({
  ...Along.fields,
  /** Largest number of relationships between the start and a result, 1..5. Default 2. */
  maxDepth: Schema.optional(Schema.Int.pipe(Schema.between(1, 5))),
  /** Largest number of results, 1..1,000. Default 100. `search` takes it as the largest number of records from which one hop starts. */
  limit: Schema.optional(Limit)
})
/** The options of a traversal, as `Traversal` decodes them. */
export interface Traversal extends Schema.Schema.Type<typeof Traversal> {}

/** Schema of the options of a search for a path: which relationships are followed, and how far. */
export const PathSearch = Schema.Struct({
  ...Along.fields,
  /** Largest length of a path, in relationships, at least 1. Default: any length. */
  maxDepth: Schema.optional(Schema.Int.pipe(Schema.positive())),
  /** Largest number of records to visit, nearest first, at least 1. Records that are not entities count, too. Default 10,000. */
  maxVisits: Schema.optional(Schema.Int.pipe(Schema.positive()))
})
/** The options of a search for a path, as `PathSearch` decodes them. */
export interface PathSearch extends Schema.Schema.Type<typeof PathSearch> {}

/** An entity that a traversal reached, and the path to it. */
export interface Visited extends TypedMemory.Typed<Entity> {
  readonly path: Path
}

/** A result of a search: a hit of the query, or a record that a path of relationships connects with a hit. */
export interface Reached {
  readonly record: MemoryRecord
  /** Score, 0..1. */
  readonly score: number
  /** Path from a hit of the query to the record. Empty for a hit, unless a path gives the hit a higher score. */
  readonly path: Path
}

type Io<A> = Effect.Effect<A, MemoryError.MemoryError>

/** Operations of `GraphMemory`. */
export interface Service {
  /** Adds an entity. Its summary defaults to its name. `[[Name]]` in a text links to the entity whose summary is `Name`. */
  readonly addEntity: (
    viewer: Viewer.Any,
    entity: TypedMemory.DraftOf<Entity>
  ) => Effect.Effect<TypedMemory.Typed<Entity>, MemoryError.MemoryError>
  /** Adds a relationship, or sets its weight. Fails with `not_found` unless the viewer sees both entities. */
  readonly relate: (viewer: Viewer.Any, relationship: Relationship) => Effect.Effect<void, MemoryError.MemoryError>
  /** Removes a relationship from the `links` of `from`. Returns whether it existed there. A `[[Name]]` in a text stays. */
  readonly unrelate: (
    viewer: Viewer.Any,
    relationship: Omit<Relationship, "weight">
  ) => Effect.Effect<boolean, MemoryError.MemoryError>
  /** Returns the relationships of an entity, highest weight first. */
  readonly relationships: (
    viewer: Viewer.Any,
    id: MemoryId,
    options?: Omit<Traversal, "maxDepth">
  ) => Effect.Effect<ReadonlyArray<Relationship>, MemoryError.MemoryError>
  /** Returns the reached entities, nearest first. Empty if the viewer does not see `from`. */
  readonly traverse: (
    viewer: Viewer.Any,
    from: MemoryId,
    options?: Traversal
  ) => Effect.Effect<ReadonlyArray<Visited>, MemoryError.MemoryError>
  /** Follows outgoing relationships, one step for each type in `types`. Returns the entities at the end of the last step. */
  readonly queryByPath: (
    viewer: Viewer.Any,
    from: MemoryId,
    types: ReadonlyArray<string>
  ) => Effect.Effect<ReadonlyArray<TypedMemory.Typed<Entity>>, MemoryError.MemoryError>
  /**
   * Returns a shortest path of at most `maxDepth` relationships (default: any number), or `None` if there is none. The path from an entity
   * to itself is empty. Fails with `unsupported` if the search ends at the limit `maxVisits`, since a path may still exist.
   */
  readonly findPath: (
    viewer: Viewer.Any,
    from: MemoryId,
    to: MemoryId,
    options?: PathSearch
  ) => Effect.Effect<Option.Option<Path>, MemoryError.MemoryError>
  /**
   * Returns the hits, and linked records that pass the query's filter. Each link on the path from a hit multiplies the score by the link's
   * weight and by `g ÷ (1 + g)`. Here, `g` is `query.weights.graph`, default 1. Of several paths to a record, the one with the best score
   * counts. The first hop starts from the best hits, each later hop from the best records just reached: at most `options.limit` of them.
   */
  readonly search: (
    viewer: Viewer.Any,
    query: Omit<MemoryQuery, "budget" | "explain">,
    options?: Traversal
  ) => Effect.Effect<ReadonlyArray<Reached>, MemoryError.MemoryError>
  /** Forgets an entity. If the entity is valid now, the same batch removes the links to it from all valid entities that the viewer sees. */
  readonly forget: (viewer: Viewer.Any, id: MemoryId) => Effect.Effect<boolean, MemoryError.MemoryError>
}

/** Tag of the service for entities and their relationships. */
export class GraphMemory extends Context.Tag("@memory/GraphMemory")<GraphMemory, Service>() {}

/** Makes the service over the `MemoryStore` in the context. */
export const make: Effect.Effect<Service, never, MemoryStore.MemoryStore> = Effect.gen(function*() {
  const store = yield* MemoryStore.MemoryStore
  const entities = yield* TypedMemory.make(MemoryKind.entity)
  const graph: Graph = { store, entities }
  // `relate`, `unrelate` and `forget` run one at a time: otherwise, an entity could be forgotten just before a link to it is written
  const alone = (yield* Effect.makeSemaphore(1)).withPermits(1)

  return {
    addEntity: (viewer, entity) => entities.put(viewer, TypedMemory.withNameAsSummary(entity.data?.name, entity)),
    relate: (viewer, relationship) => alone(relate(graph, viewer, relationship)),
    unrelate: (viewer, { from, to, type }) => alone(unrelate(graph, viewer, { from, to, type })),
    relationships: (viewer, id, options = {}) => relationships(graph, viewer, id, options),
    traverse: (viewer, from, options = {}) => traverse(graph, viewer, from, options),
    queryByPath: (viewer, from, types) => queryByPath(graph, viewer, from, types),
    findPath: (viewer, from, to, options = {}) => findPath(graph, viewer, from, to, options),
    search: (viewer, query, options = {}) => search(graph, viewer, query, options),
    forget: (viewer, id) => alone(forget(graph, viewer, id))
  }
})

/** Provides `GraphMemory` over a `MemoryStore`. */
export const layer: Layer.Layer<GraphMemory, never, MemoryStore.MemoryStore> = Layer.effect(GraphMemory, make)

interface Graph {
  readonly store: MemoryStore.Service
  readonly entities: TypedMemory.TypedMemory<Entity>
}

const Ends = RelationshipSchema.pipe(Schema.omit("weight"))
const Types = Schema.Struct({ types: Schema.Array(Schema.String) })

const isEntity = ({ entities }: Graph, viewer: Viewer.Any, id: MemoryId) =>
  Effect.map(entities.get(viewer, id), Option.isSome)

const requireEntity = ({ entities }: Graph, op: string, viewer: Viewer.Any, id: MemoryId) =>
  TypedMemory.orNotFound(op, id, entities.get(viewer, id), "entity")

const relate = Effect.fn("GraphMemory.relate")(function*(graph: Graph, viewer: Viewer.Any, relationship: Relationship) {
  yield* check("relate", RelationshipSchema, relationship)
  const { from, to, weight } = relationship
  if (from === to) return yield* invalid("relate", "to: nothing is related to itself")
  yield* requireEntity(graph, "relate", viewer, to)
  yield* relink(graph, "relate", viewer, relationship, weight)
})

const unrelate = Effect.fn("GraphMemory.unrelate")(function*(graph: Graph, viewer: Viewer.Any, ends: typeof Ends.Type) {
  yield* check("unrelate", Ends, ends)
  if (!(yield* isEntity(graph, viewer, ends.from)) || !(yield* isEntity(graph, viewer, ends.to))) return false
  return yield* relink(graph, "unrelate", viewer, ends)
})

/** Adds a link, or sets its weight. If `weight` is absent, removes the link. Returns whether the link changed. */
const relink = (graph: Graph, op: string, viewer: Viewer.Any, { from, to, type }: typeof Ends.Type, weight?: number) =>
  Effect.gen(function*() {
    const { record: { links, revision } } = yield* requireEntity(graph, op, viewer, from)
    const isSame = (link: typeof links[number]) => link.to === to && link.type === type
    if (links.find(isSame)?.weight === weight) return false
    const others = links.filter((link) => !isSame(link))
    const next = weight === undefined ? others : [...others, { to, type, weight }]
    yield* graph.store.update(viewer, from, { links: next }, { ifRevision: revision })
    return true
  }).pipe(MemoryError.retryOnConflict)

const relationships = Effect.fn("GraphMemory.relationships")(
  function*(graph: Graph, viewer: Viewer.Any, id: MemoryId, options: Omit<Traversal, "maxDepth">) {
    const { limit = 100, ...along } = yield* check("relationships", Traversal, options)
    const found: Array<Relationship> = []
    if (!(yield* isEntity(graph, viewer, id))) return found
    for (const { end, relationship } of yield* stepsFrom(graph, viewer, id, along)) {
      if (found.length < limit && (yield* isEntity(graph, viewer, end))) found.push(relationship)
    }
    return found
  }
)

const traverse = Effect.fn("GraphMemory.traverse")(
  function*(graph: Graph, viewer: Viewer.Any, from: MemoryId, options: Traversal) {
    const { limit = 100, maxDepth = 2, ...along } = yield* check("traverse", Traversal, options)
    const all = yield* breadthFirst(graph, viewer, from, { ...along, maxDepth }, ({ length }) => length === limit)
    return all.map((one): Visited => ({ ...one.found, path: pathTo(one) }))
  }
)

const queryByPath = Effect.fn("GraphMemory.queryByPath")(
  function*(graph: Graph, viewer: Viewer.Any, from: MemoryId, types: ReadonlyArray<string>) {
    yield* check("queryByPath", Types, { types })
    let ends = Option.toArray(yield* graph.entities.get(viewer, from))
    for (const type of types) {
      const next = new Set<MemoryId>()
      for (const { record } of ends) {
        const steps = yield* stepsFrom(graph, viewer, record.id, { types: [type], direction: "out" })
        for (const { end } of steps) next.add(end)
      }
      ends = (yield* Effect.forEach(next, (id) => graph.entities.get(viewer, id))).flatMap(Option.toArray)
    }
    return ends
  }
)

const findPath = Effect.fn("GraphMemory.findPath")(
  function*(graph: Graph, viewer: Viewer.Any, from: MemoryId, to: MemoryId, options: PathSearch) {
    const { maxDepth = Infinity, maxVisits = 10_000, ...along } = yield* check("findPath", PathSearch, options)
    if (!(yield* isEntity(graph, viewer, to))) return Option.none()
    if (from === to) return Option.some([])
    let visits = 0
    const isEnough = (all: ReadonlyArray<PathNode>) => ++visits > maxVisits || all.at(-1)?.id === to
    const all = yield* breadthFirst(graph, viewer, from, { ...along, maxDepth }, isEnough)
    if (visits > maxVisits) {
      const message = `no path through the nearest ${maxVisits} records: follow fewer relationships, or raise maxVisits`
      return yield* MemoryError.make("unsupported", { op: "findPath", id: from, message })
    }
    return Option.fromNullable(all.at(-1)).pipe(Option.filter(({ id }) => id === to), Option.map(pathTo))
  }
)

const search = Effect.fn("GraphMemory.search")(
  function*(graph: Graph, viewer: Viewer.Any, query: Parameters<Service["search"]>[1], options: Traversal) {
    const { limit = 100, maxDepth = 2, ...along } = yield* check("search", Traversal, options)
    const { hits } = yield* graph.store.search(viewer, query)
    const { graph: graphWeight = 1 } = query.weights ?? {}
    const reached = yield* spreadActivation(graph, viewer, {
      hits,
      along,
      hops: maxDepth,
      share: graphWeight / (1 + graphWeight),
      width: limit
    })
    const passes = matches(query, yield* Clock.currentTimeMillis)
    return reached
      .filter(({ path, record, score }) => path.length === 0 || (score >= (query.minScore ?? 0) && passes(record)))
      .slice(0, query.limit ?? 20)
  }
)

const forget = Effect.fn("GraphMemory.forget")(function*(graph: Graph, viewer: Viewer.Any, id: MemoryId) {
  if (!(yield* isEntity(graph, viewer, id))) return false
  const { from } = yield* graph.store.links(viewer, id)
  const linkers = yield* graph.store.get(viewer, Array.from(new Set(from.map(({ id }) => id))))
  const mutations = linkers.flatMap(Option.toArray).flatMap((record): ReadonlyArray<MemoryMutation> => {
    const links = record.links.filter(({ to }) => to !== id)
    return record.kind === MemoryKind.entity.name && links.length < record.links.length
      ? [{ _tag: "Update", id: record.id, patch: { links }, ifRevision: record.revision }]
      : []
  })
  const applied = yield* graph.store.apply(viewer, [...mutations, { _tag: "Forget", id }])
  return applied.at(-1)?.outcome === "forgotten"
}, MemoryError.retryOnConflict)

/** One step of a traversal: a relationship, and the id of the record to which it leads. */
interface Step {
  readonly end: MemoryId
  readonly relationship: Relationship
}

/** Returns the steps from a record, highest weight first. If weights are equal, links from the record come before links to it. */
const stepsFrom = (
  { store }: Graph,
  viewer: Viewer.Any,
  from: MemoryId,
  { direction = "both", minWeight = 0, types }: Along
): Io<ReadonlyArray<Step>> =>
  Effect.map(store.links(viewer, from), (neighbours) => {
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
  })

interface PathNode {
  readonly id: MemoryId
  readonly found: TypedMemory.Typed<Entity>
  /** The entity before this one on the path; `undefined` for the first entity after the start. */
  readonly previous: PathNode | undefined
  readonly via: Relationship
  readonly depth: number
}

const pathTo = (end: PathNode): Path => {
  const path: Array<Relationship> = []
  for (let one: PathNode | undefined = end; one !== undefined; one = one.previous) path.push(one.via)
  return path.reverse()
}

/** Finds entities breadth first, each by a shortest path. Asks `isEnough` after each visited record whether to stop. */
const breadthFirst = (
  graph: Graph,
  viewer: Viewer.Any,
  from: MemoryId,
  { maxDepth, ...along }: Along & { readonly maxDepth: number },
  isEnough: (found: ReadonlyArray<PathNode>) => boolean
): Io<ReadonlyArray<PathNode>> =>
  Effect.gen(function*() {
    const all: Array<PathNode> = []
    if (!(yield* isEntity(graph, viewer, from))) return all
    const [paced, seen] = [EventLoop.pacer(), new Set([from])]
    for (let at = -1; at < all.length; at++) {
      const before = all[at] // `before` is undefined at the start
      const { depth, id } = before ?? { depth: 0, id: from }
      if (depth === maxDepth) break
      for (const { end, relationship } of yield* stepsFrom(graph, viewer, id, along)) {
        if (seen.has(end)) continue
        seen.add(end)
        const found = yield* graph.entities.get(viewer, end)
        if (Option.isSome(found)) {
          all.push({ id: end, found: found.value, previous: before, via: relationship, depth: depth + 1 })
        }
        yield* paced(256)
        if (isEnough(all)) return all
      }
    }
    return all
  })

/** Returns the hits and the linked records, best first. Each step along a link multiplies the score by `share` and by the link's weight. */
const spreadActivation = (graph: Graph, viewer: Viewer.Any, { along, hits, hops, share, width }: {
  readonly hits: ReadonlyArray<Hit>
  readonly along: Along
  readonly hops: number
  /** Share of a score that a link of weight 1 passes on, 0..1. */
  readonly share: number
  /** Largest number of records whose links one hop follows: the best of the hits, or of the records that the previous hop reached. */
  readonly width: number
}): Io<ReadonlyArray<Reached>> =>
  Effect.gen(function*() {
    const best = new Map(hits.map(({ record, score }): [MemoryId, Reached] => [record.id, { record, score, path: [] }]))
    let edge: ReadonlyArray<Reached> = Array.from(best.values())
    for (let hop = 0; hop < hops && edge.length > 0; hop++) {
      const next = new Map<MemoryId, Omit<Reached, "record">>()
      for (const { path, record, score } of edge.slice(0, width)) {
        for (const { end, relationship } of yield* stepsFrom(graph, viewer, record.id, along)) {
          const passedOn = score * relationship.weight * share
          if (passedOn > (best.get(end)?.score ?? 0) && passedOn > (next.get(end)?.score ?? 0)) {
            next.set(end, { score: passedOn, path: [...path, relationship] })
          }
        }
      }
      const records = (yield* graph.store.get(viewer, Array.from(next.keys()))).flatMap(Option.toArray)
      edge = records.map((record) => ({ record, ...next.get(record.id)! })).sort(byScore) // `next` has each id
      for (const one of edge) best.set(one.record.id, one)
    }
    return Array.from(best.values()).sort(byScore)
  })

const byScore = (a: Reached, b: Reached): number => b.score - a.score || byRecency(a.record, b.record)
