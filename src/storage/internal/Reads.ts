/** Reads by id: what a viewer is shown of a row, of its past, and of the records around it. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { MemoryError } from "../../domain/MemoryError.ts"
import { Limit } from "../../domain/MemoryFilter.ts"
import { MemoryId } from "../../domain/MemoryId.ts"
import { isExpired, isValidAt, type MemoryRecord } from "../../domain/MemoryRecord.ts"
import * as Viewer from "../../domain/Viewer.ts"
import { type Sight, sightOf } from "../../domain/Visibility.ts"
import type { Asked } from "../../ranking/Retrieval.ts"
import { check } from "../Check.ts"
import type { Engine } from "../Engine.ts"
import * as Links from "../Links.ts"
import type { Stored } from "../MemoryStore.ts"
import * as Version from "../Version.ts"
import { within } from "./CatalogQueries.ts"
import { revisionsKept } from "./Limits.ts"

export interface Dependencies {
  readonly engine: Pick<Engine, "read" | "revisions" | "named" | "referring">
}

export const Ids = Schema.Struct({ ids: Schema.Array(MemoryId) })
const History = Schema.Struct({ id: MemoryId, limit: Limit })

/** Returns the records that the viewer is shown, in the order of `ids`. */
export const get = (
  { engine }: Dependencies,
  viewer: Viewer.Any,
  ids: ReadonlyArray<MemoryId>
): Effect.Effect<ReadonlyArray<Option.Option<MemoryRecord>>, MemoryError> =>
  Effect.gen(function*() {
    yield* check("get", Ids, { ids })
    const now = yield* Clock.currentTimeMillis
    const rows = yield* engine.read(Viewer.tenantOf(viewer), ids)
    return rows.map((row) => Option.flatMapNullable(row, (row) => shown(viewer, row, now)))
  })

/** Returns the revisions of a record that the viewer is told of, newest first. */
export const history = (
  { engine }: Dependencies,
  viewer: Viewer.Any,
  id: MemoryId,
  limit: number = revisionsKept
): Effect.Effect<ReadonlyArray<MemoryRecord>, MemoryError> =>
  Effect.gen(function*() {
    yield* check("history", History, { id, limit })
    const tenant = Viewer.tenantOf(viewer)
    const [row = Option.none<Stored>()] = yield* engine.read(tenant, [id])
    if (Option.isNone(row) || !shown(viewer, row.value, yield* Clock.currentTimeMillis)) return []
    // where a history begins is told by all that is kept, whatever is asked for
    const kept = yield* engine.revisions(tenant, id, Math.max(limit, revisionsKept))
    return told(viewer, kept.map(({ record }) => record)).slice(0, limit)
  })

/** Returns the neighbours of a record: both ends visible, live and true now, to the library itself as well. */
export const links = (
  { engine }: Dependencies,
  viewer: Viewer.Any,
  id: MemoryId
): Effect.Effect<Links.Neighbours, MemoryError> =>
  Effect.gen(function*() {
    yield* check("links", Ids, { ids: [id] })
    const now = yield* Clock.currentTimeMillis
    const sight: Sight = { ...sightOf(viewer, now), now }
    const asked: Asked = { filter: {}, at: now, passes: (record) => isValidAt(record, now) }
    const read = (ids: ReadonlyArray<MemoryId>) =>
      Effect.map(
        ids.length === 0 ? Effect.succeed([]) : engine.read(sight.tenant, ids),
        (rows) => within(sight, asked, rows.flatMap(live))
      )
    const [record] = yield* read([id])
    if (record === undefined) return { to: [], from: [] }
    const referring = yield* engine.referring(sight, asked, Links.keysFor(record))
    const names = Links.namesAround(record, referring)
    return Links.neighboursOf(record, {
      referring,
      named: names.length === 0 ? [] : yield* engine.named(sight, asked, names),
      byId: new Map((yield* read(Links.idsAround(record, referring))).map((record) => [record.id, record]))
    })
  })

const live = (row: Option.Option<Stored>): ReadonlyArray<MemoryRecord> =>
  Option.isSome(row) && !row.value.forgotten ? [row.value.record] : []

/** A tombstone is absent, and so is what expired; the library itself sees both. */
const shown = (viewer: Viewer.Any, row: Stored, now: number): MemoryRecord | undefined => {
  if (Viewer.isSystem(viewer)) return row.record
  return Viewer.sees(viewer, row.record.scope) && !row.forgotten && !isExpired(row.record, now) ? row.record : undefined
}

/**
 * The part of a history that a viewer is told: since the record was last put anew, so what was forgotten before stays
 * forgotten. What was forgotten and restored has all of its past again, the tombstone among it.
 */
const told = (viewer: Viewer.Any, revisions: ReadonlyArray<MemoryRecord>): ReadonlyArray<MemoryRecord> => {
  if (Viewer.isSystem(viewer)) return revisions
  const first = revisions.findIndex((record, n) => Version.isAnew(record, revisions.slice(n + 1)))
  return revisions.slice(0, first < 0 ? undefined : first + 1).filter(({ scope }) => Viewer.sees(viewer, scope))
}
