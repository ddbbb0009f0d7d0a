/**
 * The read operations of a store: by id, by links, by page and by search. Each operation validates its request and queries the engine. This
 * module also makes the use counts, which say how often each record is used.
 */
import * as Chunk from "effect/Chunk"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as MemoryError from "../../../domain/MemoryError.ts"
import {
  type Absence,
  type Embedding,
  ExactFilter,
  Limit,
  type MemoryFilter,
  MemoryQuery,
  type Page,
  type SearchResult
} from "../../../domain/MemoryFilter.ts"
import { MemoryId } from "../../../domain/MemoryId.ts"
import { isExpired, isValidAt, type MemoryRecord } from "../../../domain/MemoryRecord.ts"
import { check, invalid } from "../../../domain/Validation.ts"
import * as Viewer from "../../../domain/Viewer.ts"
import * as Searcher from "../../../ranking/internal/Searcher.ts"
import * as Retrieval from "../../../ranking/Retrieval.ts"
import type { Engine, EngineUses, Reader, Stored, Usage, Uses } from "../../Engine.ts"
import * as Links from "../../Links.ts"
import * as Revision from "../../Revision.ts"
import { accessible } from "../../TenantIndex.ts"

type Io<A> = Effect.Effect<A, MemoryError.MemoryError>

/** The dependencies of reads by id. */
export interface ById {
  readonly engine: Pick<Engine, "read" | "revisions" | "named" | "referring">
}
/** The dependencies of lists and searches, and the options of search. */
export interface BySearch extends Searcher.Options {
  /** Name of the store in errors. */
  readonly name: string
  readonly engine: Pick<Engine, "page" | "match" | "read" | "vectors">
}

/** The schema of a list of ids. */
export const Ids = Schema.Struct({ ids: Schema.Array(MemoryId) })
const History = Schema.Struct({ id: MemoryId, limit: Limit })

/** Returns the record for each id, in the order of `ids`; `None` if there is no record that the viewer may see. */
export const get = (
  { engine }: ById,
  viewer: Viewer.Any,
  ids: ReadonlyArray<MemoryId>
): Io<ReadonlyArray<Option.Option<MemoryRecord>>> =>
  Effect.gen(function*() {
    yield* check("get", Ids, { ids })
    const now = yield* Clock.currentTimeMillis
    const rows = yield* engine.read(Viewer.tenantOf(viewer), ids)
    return rows.map((row) => Option.flatMapNullable(row, (row) => shown(viewer, row, now)))
  })

/** Returns the visible revisions of a record, newest first. Returns no revisions if `get` returns `None` for the record. */
export const history = (
  { engine }: ById,
  viewer: Viewer.Any,
  id: MemoryId,
  limit: number = Revision.revisionsKept
): Io<ReadonlyArray<MemoryRecord>> =>
  Effect.gen(function*() {
    yield* check("history", History, { id, limit })
    const tenant = Viewer.tenantOf(viewer)
    const [row = Option.none<Stored>()] = yield* engine.read(tenant, [id])
    if (Option.isNone(row) || !shown(viewer, row.value, yield* Clock.currentTimeMillis)) return []
    // reads all kept revisions even if `limit` is small, since the revision that created the record must be found
    const kept = yield* engine.revisions(tenant, id, Math.max(limit, Revision.revisionsKept))
    return visibleRevisions(viewer, kept.map(({ record }) => record)).slice(0, limit)
  })

/**
 * Returns the records that a record refers to, and the records that refer to it. Records that are invisible, forgotten, expired or not
 * valid now are left out. This also holds for the viewer `System`.
 */
export const links = (
  { engine }: ById,
  viewer: Viewer.Any,
  id: MemoryId
): Io<Links.Neighbours> =>
  Effect.gen(function*() {
    yield* check("links", Ids, { ids: [id] })
    const now = yield* Clock.currentTimeMillis
    const access: Viewer.AccessFilter = { ...Viewer.accessFilterOf(viewer, now), now }
    const compiled: Retrieval.CompiledFilter = { filter: {}, at: now, passes: (record) => isValidAt(record, now) }
    const read = (ids: ReadonlyArray<MemoryId>) =>
      Effect.map(
        ids.length === 0 ? Effect.succeed([]) : engine.read(access.tenant, ids),
        (rows) => accessible(access, compiled, rows.flatMap(live))
      )
    const [record] = yield* read([id])
    if (record === undefined) return { to: [], from: [] }
    const referring = yield* engine.referring(access, compiled, Links.keysFor(record))
    const names = Links.namesAround(record, referring)
    return Links.neighboursOf(record, {
      referring,
      named: names.length === 0 ? [] : yield* engine.named(access, compiled, names),
      byId: new Map((yield* read(Links.idsAround(record, referring))).map((record) => [record.id, record]))
    })
  })

const live = (row: Option.Option<Stored>): ReadonlyArray<MemoryRecord> =>
  Option.isSome(row) && !row.value.forgotten ? [row.value.record] : []

/** Returns the record of a row, unless it is forgotten, expired or invisible to the viewer. The viewer `System` gets every record. */
const shown = (viewer: Viewer.Any, row: Stored, now: number): MemoryRecord | undefined => {
  if (Viewer.isSystem(viewer)) return row.record
  return Viewer.sees(viewer, row.record.scope) && !row.forgotten && !isExpired(row.record, now) ? row.record : undefined
}

/**
 * Returns the revisions since the last creation of the record, except revisions in scopes that the viewer does not see. A new record may
 * have the id of a forgotten record. The revisions of the forgotten record are then left out. A restored record is not a new record: it
 * keeps all its revisions, with the tombstone. The viewer `System` gets every revision.
 */
const visibleRevisions = (viewer: Viewer.Any, revisions: ReadonlyArray<MemoryRecord>): ReadonlyArray<MemoryRecord> => {
  if (Viewer.isSystem(viewer)) return revisions
  const first = revisions.findIndex((record, n) => Revision.isCreation(record, revisions.slice(n + 1)))
  return revisions.slice(0, first < 0 ? undefined : first + 1).filter(({ scope }) => Viewer.sees(viewer, scope))
}

/** The schema of a query. Unknown fields are errors. */
export const Query: Schema.Schema<MemoryQuery, typeof MemoryQuery.Encoded> = MemoryQuery.annotations({
  parseOptions: { onExcessProperty: "error" }
})

/** Returns a page of the records that pass the filter; with `forgotten: true`, a page of the records in the trash. */
export const list = (store: BySearch, viewer: Viewer.Any, filter: MemoryFilter): Io<Page<MemoryRecord>> =>
  Effect.gen(function*() {
    const checked = yield* check("list", ExactFilter, filter)
    const now = yield* Clock.currentTimeMillis
    const page = yield* Searcher.run(() => Searcher.list(store.engine, viewer, checked, now))
    return page ?? (yield* noCursor("list"))
  })

/**
 * Streams the records of all pages of `list`, from the cursor `after` on. `limit` is the page size. Each page starts after the last record
 * of the previous page.
 */
export const stream = (
  store: BySearch,
  viewer: Viewer.Any,
  filter: MemoryFilter
): Stream.Stream<MemoryRecord, MemoryError.MemoryError> =>
  Stream.unwrap(Effect.gen(function*() {
    const checked = yield* check("list", ExactFilter, filter)
    const { after, limit = Searcher.defaultLimit } = checked
    const first = after === undefined ? undefined : Retrieval.readCursor(viewer, checked, after)
    if (after !== undefined && first === undefined) return yield* noCursor("list")
    const page = (after: Retrieval.Position | undefined) =>
      Effect.flatMap(
        Clock.currentTimeMillis,
        (now) => Searcher.page(store.engine, viewer, checked, after, limit, now)
      )
    return Stream.mapConcatChunk(pages(page, limit, first), Chunk.unsafeFromArray)
  }))

/**
 * Streams pages of up to `limit` records. Each page starts after the last record of the previous page. The first page starts after the
 * position `first`, or at the beginning if `first` is absent.
 */
export const pages = (
  page: (after: Retrieval.Position | undefined) => Io<ReadonlyArray<MemoryRecord>>,
  limit: number,
  first?: Retrieval.Position
): Stream.Stream<ReadonlyArray<MemoryRecord>, MemoryError.MemoryError> =>
  Stream.paginateEffect(
    Option.fromNullable(first),
    (after) =>
      Effect.map(page(Option.getOrUndefined(after)), (found) => {
        const last = found.at(-1)
        const next = last === undefined || found.length < limit
          ? Option.none()
          : Option.some(Option.some(Retrieval.positionOf(last)))
        return [found, next] as const
      })
  )

const noCursor = (op: string) => invalid(op, "after: no cursor of this viewer and filter")

/**
 * Returns the best hits. If a search by vector is impossible, a hybrid query searches by words only, with the reason in `failures`, and a
 * query of mode `vector` fails. A vector of wrong dimensions fails in both modes.
 */
export const search = (store: BySearch, viewer: Viewer.Any, query: MemoryQuery): Io<SearchResult> =>
  Effect.gen(function*() {
    const { answerable, failures } = yield* answerableOf(store, "search", viewer, query)
    const now = yield* Clock.currentTimeMillis
    const found = yield* Searcher.run(() => Searcher.search(store.engine, store, viewer, answerable, now))
    return failures.length > 0 ? { ...found, failures } : found
  })

/** Returns why a record is not among the hits of a query; `None` if the record is a hit. */
export const whyNot = (
  store: BySearch,
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

/**
 * Returns the query that the store can answer. If a search by vector is impossible, a hybrid query becomes a search by words, with the
 * reason in `failures`, and a query of mode `vector` fails. A vector of wrong dimensions fails in both modes.
 */
const answerableOf = (store: BySearch, op: string, viewer: Viewer.Any, query: MemoryQuery) =>
  Effect.gen(function*() {
    const checked = yield* check(op, Query, query)
    const mode = checked.mode ?? (checked.embedding ? "hybrid" : "lexical")
    if (mode === "lexical") return { answerable: { ...checked, mode }, failures: [] }
    const error = yield* vectorProblem(store, op, Viewer.tenantOf(viewer), checked.embedding)
    if (error === undefined) return { answerable: { ...checked, mode }, failures: [] }
    if (mode === "vector") return yield* error
    return { answerable: { ...checked, mode: "lexical" as const }, failures: [{ leg: "vector", error }] }
  })

/** Returns the error that prevents a vector search, or `undefined`. Fails if the query's vector has the wrong dimensions. */
const vectorProblem = (
  { engine: { vectors }, name }: BySearch,
  op: string,
  tenant: string,
  embedding: Embedding | undefined
): Io<MemoryError.MemoryError | undefined> =>
  Effect.gen(function*() {
    if (vectors === undefined) return MemoryError.make("unsupported", { op, message: `${name} holds no vectors` })
    if (embedding === undefined) return invalid(op, "embedding: vectors are searched by a vector")
    const { model, vector } = embedding
    const known = yield* Effect.either(vectors.dimensions(tenant, model, vector.length))
    if (known._tag === "Left") return known.left
    const dimensions = known.right ?? vector.length
    return dimensions === vector.length
      ? undefined
      : yield* invalid(op, `embedding.vector: expected ${dimensions} dimensions`)
  })

/** Largest number of records whose use counts are kept in RAM. The least recently used records are evicted first. */
const capacity = 100_000

/** The use counts of a store's records. Unlike `touch` and `uses`, `kept` takes no viewer, and has access to all records. */
interface KeptUsage extends Usage {
  readonly kept: Reader["uses"]
  /** Erases the use counts in RAM of records that were purged. */
  readonly erase: (tenant: string, ids: ReadonlyArray<MemoryId>) => void
}

type Get = (
  viewer: Viewer.Any,
  ids: ReadonlyArray<MemoryId>
) => Effect.Effect<ReadonlyArray<Option.Option<MemoryRecord>>, MemoryError.MemoryError>

/** Returns the use counts: `given`, or those of the engine, or new ones in RAM. The counts in RAM are lost at the end of the process. */
export const usageOf = (engine: Engine, get: Get, given: Usage | undefined): KeptUsage =>
  given !== undefined
    ? { ...given, kept: { read: (tenant, ids) => given.uses(Viewer.system(tenant), ids) }, erase: () => {} }
    : engine.uses !== undefined
    ? inEngine(get, engine.uses)
    : inProcess(get, engine)

/** Makes use counts from the table of an engine. The engine erases the use counts of a row together with the row. */
const inEngine = (get: Get, table: EngineUses): KeptUsage => {
  const { read, touch } = table
  const shown = (viewer: Viewer.Any, ids: ReadonlyArray<MemoryId>) =>
    Effect.map(get(viewer, ids), (found) => found.flatMap(Option.toArray).map(({ id }) => id))
  return {
    kept: table,
    erase: () => {},
    touch: (viewer, ids) =>
      Effect.gen(function*() {
        const found = yield* shown(viewer, ids)
        if (found.length > 0) yield* touch(Viewer.tenantOf(viewer), found, yield* Clock.currentTimeMillis)
      }),
    uses: (viewer, ids) =>
      Effect.gen(function*() {
        const found = Array.from(new Set(yield* shown(viewer, ids)))
        const known = found.length > 0 ? yield* read(Viewer.tenantOf(viewer), found) : []
        const uses = new Map(found.map((id, n) => [id, known[n]!])) // `read` returns one count for each id
        return ids.map((id) => uses.get(id) ?? { count: 0 })
      })
  }
}

/** The uses of a record, and the time at which the record was created. */
interface UsesInProcess extends Pick<MemoryRecord, "createdAt"> {
  readonly uses: Uses
}

const inProcess = (get: Get, engine: Engine): KeptUsage => {
  const table = new Map<string, UsesInProcess>()
  const keyOf = (tenant: string, id: MemoryId) => `${tenant}/${id}`
  // another `createdAt` means a new record with the id of an earlier one, so its count starts at 0
  const usesOf = (tenant: string, record: MemoryRecord | undefined): Uses => {
    const known = record && table.get(keyOf(tenant, record.id))
    return known?.createdAt === record?.createdAt ? known?.uses ?? { count: 0 } : { count: 0 }
  }
  const keep = (tenant: string, { createdAt, id }: MemoryRecord, uses: Uses) => {
    const key = keyOf(tenant, id)
    table.delete(key) // moves the key to the end, since a Map keeps insertion order
    table.set(key, { uses, createdAt })
  }
  const trim = () => {
    for (const key of table.keys()) {
      if (table.size <= capacity) break
      table.delete(key)
    }
  }
  const rows = (tenant: string, ids: ReadonlyArray<MemoryId>) =>
    Effect.map(engine.read(tenant, ids), (rows) => rows.map((row) => Option.getOrUndefined(row)?.record))

  return {
    touch: (viewer, ids) =>
      Effect.gen(function*() {
        const accessedAt = yield* Clock.currentTimeMillis
        const tenant = Viewer.tenantOf(viewer)
        for (const record of (yield* get(viewer, ids)).flatMap(Option.toArray)) {
          keep(tenant, record, { count: usesOf(tenant, record).count + 1, accessedAt })
        }
        trim()
      }),
    uses: (viewer, ids) =>
      Effect.map(
        get(viewer, ids),
        (found) => found.map((record) => usesOf(Viewer.tenantOf(viewer), Option.getOrUndefined(record)))
      ),
    kept: {
      read: (tenant, ids) => Effect.map(rows(tenant, ids), (found) => found.map((record) => usesOf(tenant, record))),
      set: (tenant, uses) =>
        Effect.map(rows(tenant, uses.map(([id]) => id)), (found) => {
          found.forEach((record, n) => record && keep(tenant, record, uses[n]![1])) // ids without a row are skipped
          trim()
        })
    },
    erase: (tenant, ids) => {
      for (const id of ids) table.delete(keyOf(tenant, id))
    }
  }
}
