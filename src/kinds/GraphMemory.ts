/**
 * Entities and what holds between them: links of records, indexed both ways.
 *
 * A relationship is a link of the record it begins at, or a `[[Name]]` in its body: one of type `wikilink`, weight 1,
 * which only the body can take back. Where an end is not seen there is no relationship. Walks go through entities only, a
 * search through all kinds.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as MemoryError from "../domain/MemoryError.ts"
import { Limit, matches, type MemoryQuery } from "../domain/MemoryFilter.ts"
import { MemoryId } from "../domain/MemoryId.ts"
import * as MemoryKind from "../domain/MemoryKind.ts"
import type { MemoryMutation } from "../domain/MemoryMutation.ts"
import { deriveSummary } from "../domain/MemoryRecord.ts"
import type * as Payload from "../domain/Payload.ts"
import type * as Viewer from "../domain/Viewer.ts"
import { check, invalid } from "../storage/Check.ts"
import { MemoryStore } from "../storage/MemoryStore.ts"
import { type Reached, spread } from "./GraphMemory/Spread.ts"
import * as Walk from "./GraphMemory/Walk.ts"
import { type DraftOf, make as typed, type Typed } from "./TypedMemory.ts"

export type Entity = Payload.Entity
export type Relationship = Walk.Relationship
export type { Reached }

export const Traversal = Schema.Struct({
  ...Walk.Along.fields,
  /** 1..5, default 2. */
  maxDepth: Schema.optional(Schema.Int.pipe(Schema.between(1, 5))),
  /** 1..1,000, default 100. */
  limit: Schema.optional(Limit)
})
export interface Traversal extends Schema.Schema.Type<typeof Traversal> {}

export interface Visited extends Typed<Entity> {
  readonly path: ReadonlyArray<Relationship>
}
type Io<A> = Effect.Effect<A, MemoryError.MemoryError>

export interface Service {
  /** Called by its name where it has no summary: so a `[[Name]]` finds it. */
  readonly addEntity: (viewer: Viewer.Any, entity: DraftOf<Entity>) => Io<Typed<Entity>>
  /** One per from, to and type: again, it has the new weight. `not_found` unless both ends are visible entities. Cost: those of `from`. */
  readonly relate: (viewer: Viewer.Any, relationship: Relationship) => Io<void>
  /** Whether there was one. */
  readonly unrelate: (viewer: Viewer.Any, relationship: Omit<Relationship, "weight">) => Io<boolean>
  /** The closest tied first. */
  readonly relationships: (
    viewer: Viewer.Any,
    id: MemoryId,
    options?: Omit<Traversal, "maxDepth">
  ) => Io<ReadonlyArray<Relationship>>
  /** Breadth first: nearest first, of these the closest tied. Neighbours are `maxDepth: 1`. */
  readonly traverse: (viewer: Viewer.Any, from: MemoryId, options?: Traversal) => Io<ReadonlyArray<Visited>>
  /** Ends of walks along exactly these types, each in its direction; of no types, `from` itself. */
  readonly queryByPath: (
    viewer: Viewer.Any,
    from: MemoryId,
    types: ReadonlyArray<string>
  ) => Io<ReadonlyArray<Typed<Entity>>>
  /** A shortest one, within `maxDepth`; to itself it is empty. */
  readonly findPath: (
    viewer: Viewer.Any,
    from: MemoryId,
    to: MemoryId,
    options?: Omit<Traversal, "limit">
  ) => Io<Option.Option<ReadonlyArray<Relationship>>>
  /**
   * The hits of a search, and what is linked to them, of any kind that the query lets through. Along a link the score is
   * `weight · graph ÷ (1 + graph)` of what it was, by the query's `weights.graph` (default 1: half); of several ways, and of
   * its own, the best. `limit` is how many are gone on from at each hop.
   */
  readonly search: (
    viewer: Viewer.Any,
    query: Omit<MemoryQuery, "budget" | "explain">,
    options?: Traversal
  ) => Io<ReadonlyArray<Reached>>
  /** And every relationship of it that the viewer sees: all of it, or nothing. */
  readonly forget: (viewer: Viewer.Any, id: MemoryId) => Io<boolean>
}

export class GraphMemory extends Context.Tag("@memory/GraphMemory")<GraphMemory, Service>() {}

const Ends = Schema.Struct({ ...Walk.Relationship.fields, weight: Schema.optional(Walk.Relationship.fields.weight) })
const Types = Schema.Struct({ types: Schema.Array(Schema.String) })

export const make: Effect.Effect<Service, never, MemoryStore> = Effect.gen(function*() {
  const store = yield* MemoryStore
  const entities = yield* typed(MemoryKind.entity)
  const alone = (yield* Effect.makeSemaphore(1)).withPermits(1) // an end that is forgotten meanwhile is no end

  const stepsOf = (viewer: Viewer.Any, along: Walk.Along) => (id: MemoryId) =>
    Effect.map(store.links(viewer, id), (neighbours) => Walk.steps(id, neighbours, along))
  const isEntity = (viewer: Viewer.Any, id: MemoryId) => Effect.map(entities.get(viewer, id), Option.isSome)
  const require = (op: string, viewer: Viewer.Any, id: MemoryId) =>
    Effect.flatMap(
      entities.get(viewer, id),
      Option.match({
        onNone: () => MemoryError.make("not_found", { op, id, message: "there is no such entity" }),
        onSome: Effect.succeed
      })
    )

  /** The link of that end and type is now of this weight, or gone; whether that is a change. */
  const relink = (op: string, viewer: Viewer.Any, { from, to, type }: typeof Ends.Type, weight?: number) =>
    Effect.gen(function*() {
      const { record: { links, revision } } = yield* require(op, viewer, from)
      const isIt = (link: typeof links[number]) => link.to === to && link.type === type
      if (links.find(isIt)?.weight === weight) return false
      const others = links.filter((link) => !isIt(link))
      const next = weight === undefined ? others : [...others, { to, type, weight }]
      yield* store.update(viewer, from, { links: next }, { ifRevision: revision })
      return true
    }).pipe(Effect.retry({ while: ({ reason }) => reason === "conflict" }))

  const walk = (
    viewer: Viewer.Any,
    from: MemoryId,
    { maxDepth = 2, ...along }: Traversal,
    isEnough: (found: ReadonlyArray<{ readonly id: MemoryId }>) => boolean
  ) =>
    Effect.flatMap(isEntity(viewer, from), (isThere) =>
      isThere
        ? Walk.breadthFirst({
          from,
          maxDepth,
          stepsOf: stepsOf(viewer, along),
          look: (id) => entities.get(viewer, id),
          isEnough
        })
        : Effect.succeed([]))

  return {
    addEntity: (viewer, entity) =>
      entities.put(viewer, {
        ...entity,
        summary: entity.summary ?? (deriveSummary(entity.data.name) || undefined)
      }),
    relate: (viewer, relationship) =>
      Effect.gen(function*() {
        yield* check("relate", Walk.Relationship, relationship)
        const { from, to, weight } = relationship
        if (from === to) return yield* invalid("relate", "to: nothing is related to itself")
        yield* require("relate", viewer, to)
        yield* relink("relate", viewer, relationship, weight)
      }).pipe(alone, Effect.withSpan("GraphMemory.relate")),
    unrelate: (viewer, { from, to, type }) =>
      Effect.gen(function*() {
        yield* check("unrelate", Ends, { from, to, type })
        if (!(yield* isEntity(viewer, from)) || !(yield* isEntity(viewer, to))) return false
        return yield* relink("unrelate", viewer, { from, to, type })
      }).pipe(alone, Effect.withSpan("GraphMemory.unrelate")),
    relationships: (viewer, id, options = {}) =>
      Effect.gen(function*() {
        const { limit = 100, ...along } = yield* check("relationships", Traversal, options)
        const found: Array<Relationship> = []
        if (!(yield* isEntity(viewer, id))) return found
        for (const { end, relationship } of yield* stepsOf(viewer, along)(id)) {
          if (found.length < limit && (yield* isEntity(viewer, end))) found.push(relationship)
        }
        return found
      }).pipe(Effect.withSpan("GraphMemory.relationships")),
    traverse: (viewer, from, options = {}) =>
      Effect.gen(function*() {
        const { limit = 100, ...along } = yield* check("traverse", Traversal, options)
        const all = yield* walk(viewer, from, along, ({ length }) => length === limit)
        return all.map(({ found, path }): Visited => ({ ...found, path }))
      }).pipe(Effect.withSpan("GraphMemory.traverse")),
    queryByPath: (viewer, from, types) =>
      Effect.gen(function*() {
        yield* check("queryByPath", Types, { types })
        let ends = Option.toArray(yield* entities.get(viewer, from))
        for (const type of types) {
          const next = new Set<MemoryId>()
          for (const { record } of ends) {
            for (const { end } of yield* stepsOf(viewer, { types: [type], direction: "out" })(record.id)) next.add(end)
          }
          ends = (yield* Effect.forEach(next, (id) => entities.get(viewer, id))).flatMap(Option.toArray)
        }
        return ends
      }).pipe(Effect.withSpan("GraphMemory.queryByPath")),
    findPath: (viewer, from, to, options = {}) =>
      Effect.gen(function*() {
        const along = yield* check("findPath", Traversal, options)
        if (!(yield* isEntity(viewer, to))) return Option.none()
        if (from === to) return Option.some([])
        const all = yield* walk(viewer, from, along, (found) => found.at(-1)?.id === to)
        const last = all.at(-1)
        return last?.id === to ? Option.some(last.path) : Option.none()
      }).pipe(Effect.withSpan("GraphMemory.findPath")),
    search: (viewer, query, options = {}) =>
      Effect.gen(function*() {
        const { limit = 100, maxDepth = 2, ...along } = yield* check("search", Traversal, options)
        const { hits } = yield* store.search(viewer, query)
        const { graph = 1 } = query.weights ?? {}
        const reached = yield* spread({
          hits,
          hops: maxDepth,
          share: graph / (1 + graph),
          width: limit,
          stepsOf: stepsOf(viewer, along),
          get: (ids) => store.get(viewer, ids)
        })
        const isMeant = matches(query, yield* Clock.currentTimeMillis)
        return reached
          .filter(({ path, record, score }) => path.length === 0 || (score >= (query.minScore ?? 0) && isMeant(record)))
          .slice(0, query.limit ?? 20)
      }).pipe(Effect.withSpan("GraphMemory.search")),
    forget: (viewer, id) =>
      Effect.gen(function*() {
        if (!(yield* isEntity(viewer, id))) return false
        const { from } = yield* store.links(viewer, id)
        const linkers = yield* store.get(viewer, Array.from(new Set(from.map(({ id }) => id))))
        const mutations = linkers.flatMap(Option.toArray).flatMap((record): ReadonlyArray<MemoryMutation> => {
          const links = record.links.filter(({ to }) => to !== id)
          return record.kind === MemoryKind.entity.name && links.length < record.links.length
            ? [{ _tag: "Update", id: record.id, patch: { links }, ifRevision: record.revision }]
            : []
        })
        const applied = yield* store.apply(viewer, [...mutations, { _tag: "Forget", id }])
        return applied.at(-1)?.outcome === "forgotten"
      }).pipe(
        Effect.retry({ while: ({ reason }) => reason === "conflict" }),
        alone,
        Effect.withSpan("GraphMemory.forget")
      )
  }
})

export const layer: Layer.Layer<GraphMemory, never, MemoryStore> = Layer.effect(GraphMemory, make)
