/**
 * `list`, `search` and `whyNot` of a store. The one module that knows that a tenant's index in memory answers them: what is
 * in sight, and the filter, could be asked of the engine instead.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Schema from "effect/Schema"
import * as MemoryError from "../../domain/MemoryError.ts"
import {
  type Absence,
  type Embedding,
  MemoryFilter,
  MemoryQuery,
  type Page,
  type SearchResult
} from "../../domain/MemoryFilter.ts"
import type { MemoryId } from "../../domain/MemoryId.ts"
import type { MemoryRecord } from "../../domain/MemoryRecord.ts"
import * as Viewer from "../../domain/Viewer.ts"
import type { MemoryIndex } from "../../ranking/MemoryIndex.ts"
import { check, invalid } from "../Check.ts"
import * as Trash from "../Trash.ts"
import type { Backend } from "./Backend.ts"
import { Ids } from "./Reads.ts"

type Io<A> = Effect.Effect<A, MemoryError.MemoryError>

export interface Dependencies {
  /** What errors call the store. */
  readonly name: string
  readonly engine: Pick<Backend, "catalog" | "tombstones" | "vectors">
}

// a clause that is not known would widen the answer
const Filter: Schema.Schema<MemoryFilter, typeof MemoryFilter.Encoded> = MemoryFilter.annotations({
  parseOptions: { onExcessProperty: "error" }
})
/** A query, checked: a clause that is not known is refused. */
export const Query: Schema.Schema<MemoryQuery, typeof MemoryQuery.Encoded> = MemoryQuery.annotations({
  parseOptions: { onExcessProperty: "error" }
})

/** Returns the index of the viewer's tenant. */
const indexOf = ({ engine }: Dependencies, viewer: Viewer.Any): Io<MemoryIndex> =>
  Effect.flatMap(
    engine.catalog(Viewer.tenantOf(viewer)),
    (catalog) => Effect.map(catalog.prepared, catalog.index)
  )

/** Returns a page of the records that the filter means, or of the trash. */
export const list = (store: Dependencies, viewer: Viewer.Any, filter: MemoryFilter): Io<Page<MemoryRecord>> =>
  Effect.gen(function*() {
    const checked = yield* check("list", Filter, filter)
    const now = yield* Clock.currentTimeMillis
    const page = checked.forgotten === true
      ? Trash.list(yield* store.engine.tombstones(Viewer.tenantOf(viewer), checked.ids), viewer, checked, now)
      : (yield* indexOf(store, viewer)).list(viewer, checked, now)
    return page ?? (yield* invalid("list", "after: no cursor of this viewer and filter"))
  })

/** Returns the best hits. Without a vector leg that was asked for they are found by words, and `failures` says why. */
export const search = (store: Dependencies, viewer: Viewer.Any, query: MemoryQuery): Io<SearchResult> =>
  Effect.gen(function*() {
    const { answerable, failures } = yield* answerableOf(store, "search", viewer, query)
    const index = yield* indexOf(store, viewer)
    const found = index.search(viewer, answerable, yield* Clock.currentTimeMillis)
    return failures.length > 0 ? { ...found, failures } : found
  })

/** Returns why a record is not among the hits; `None` where it is. */
export const whyNot = (
  store: Dependencies,
  viewer: Viewer.Any,
  id: MemoryId,
  query: MemoryQuery
): Io<Option.Option<Absence>> =>
  Effect.gen(function*() {
    yield* check("whyNot", Ids, { ids: [id] })
    const { answerable } = yield* answerableOf(store, "whyNot", viewer, query)
    const now = yield* Clock.currentTimeMillis
    return Option.fromNullable((yield* indexOf(store, viewer)).whyNot(viewer, id, answerable, now))
  })

/** Returns the query as it can be answered, and what keeps it from being answered as it was asked. */
const answerableOf = (store: Dependencies, op: string, viewer: Viewer.Any, query: MemoryQuery) =>
  Effect.gen(function*() {
    const checked = yield* check(op, Query, query)
    const mode = checked.mode ?? (checked.embedding ? "hybrid" : "lexical")
    if (mode === "lexical") return { answerable: { ...checked, mode }, failures: [] }
    const error = yield* missingLeg(store, op, Viewer.tenantOf(viewer), checked.embedding)
    if (error === undefined) return { answerable: { ...checked, mode }, failures: [] }
    if (mode === "vector") return yield* error
    return { answerable: { ...checked, mode: "lexical" as const }, failures: [{ leg: "vector", error }] }
  })

/** Returns why there is no vector leg. What no store could compare is refused. */
const missingLeg = (
  { engine: { vectors }, name }: Dependencies,
  op: string,
  tenant: string,
  embedding: Embedding | undefined
): Io<MemoryError.MemoryError | undefined> =>
  Effect.gen(function*() {
    if (vectors === undefined) return MemoryError.make("unsupported", { op, message: `${name} holds no vectors` })
    if (embedding === undefined) return invalid(op, "embedding: vectors are searched by a vector")
    const { model, vector } = embedding
    const known = yield* Effect.either(vectors.dimensions(tenant, model))
    if (known._tag === "Left") return known.left
    const dimensions = known.right ?? vector.length
    return dimensions === vector.length
      ? undefined
      : yield* invalid(op, `embedding.vector: expected ${dimensions} dimensions`)
  })
