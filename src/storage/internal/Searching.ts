/** `list`, `stream`, `search` and `whyNot` of a store: checks what is asked, and runs a `Searcher` over the engine. */
import * as Chunk from "effect/Chunk"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
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
import { type MemoryRecord, recencyOf } from "../../domain/MemoryRecord.ts"
import * as Viewer from "../../domain/Viewer.ts"
import * as Cursor from "../../ranking/Cursor.ts"
import type { Options } from "../../ranking/Retrievers.ts"
import * as Searcher from "../../ranking/Searcher.ts"
import { check, invalid } from "../Check.ts"
import type { Engine } from "../Engine.ts"
import { Ids } from "./Reads.ts"

type Io<A> = Effect.Effect<A, MemoryError.MemoryError>

export interface Dependencies extends Options {
  /** What errors call the store. */
  readonly name: string
  readonly engine: Pick<Engine, "page" | "match" | "read" | "vectors">
}

// a clause that is not known would widen the answer
const Filter: Schema.Schema<MemoryFilter, typeof MemoryFilter.Encoded> = MemoryFilter.annotations({
  parseOptions: { onExcessProperty: "error" }
})
/** A query, checked: a clause that is not known is refused. */
export const Query: Schema.Schema<MemoryQuery, typeof MemoryQuery.Encoded> = MemoryQuery.annotations({
  parseOptions: { onExcessProperty: "error" }
})

/** Returns a page of the records that the filter means, or of the trash. */
export const list = (store: Dependencies, viewer: Viewer.Any, filter: MemoryFilter): Io<Page<MemoryRecord>> =>
  Effect.gen(function*() {
    const checked = yield* check("list", Filter, filter)
    const now = yield* Clock.currentTimeMillis
    const page = yield* Searcher.run(() => Searcher.list(store.engine, viewer, checked, now))
    return page ?? (yield* noCursor("list"))
  })

/** Streams every record that the filter means, or the trash. Each page goes on where the last one ended; no row is read twice. */
export const stream = (
  store: Dependencies,
  viewer: Viewer.Any,
  filter: MemoryFilter
): Stream.Stream<MemoryRecord, MemoryError.MemoryError> =>
  Stream.unwrap(Effect.gen(function*() {
    const checked = yield* check("list", Filter, filter)
    const { after, limit = Searcher.defaultLimit } = checked
    const first = after === undefined ? undefined : Cursor.read(viewer, checked, after)
    if (after !== undefined && first === undefined) return yield* noCursor("list")
    return Stream.paginateChunkEffect(first, (after) =>
      Effect.gen(function*() {
        const now = yield* Clock.currentTimeMillis
        const found = yield* Searcher.page(store.engine, viewer, checked, after, limit, now)
        const last = found.at(-1)
        const next = last === undefined || found.length < limit
          ? Option.none()
          : Option.some({ recency: recencyOf(last), id: last.id })
        return [Chunk.unsafeFromArray(found), next] as const
      }))
  }))

const noCursor = (op: string) => invalid(op, "after: no cursor of this viewer and filter")

/** Returns the best hits. Without a vector leg that was asked for they are found by words, and `failures` says why. */
export const search = (store: Dependencies, viewer: Viewer.Any, query: MemoryQuery): Io<SearchResult> =>
  Effect.gen(function*() {
    const { answerable, failures } = yield* answerableOf(store, "search", viewer, query)
    const now = yield* Clock.currentTimeMillis
    const found = yield* Searcher.run(() => Searcher.search(store.engine, store, viewer, answerable, now))
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
    const absence = yield* Searcher.run(() => Searcher.whyNot(store.engine, store, viewer, id, answerable, now))
    return Option.fromNullable(absence)
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
