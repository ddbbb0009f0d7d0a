/** Reads the revisions of a vault's records: the current ones from the files, the earlier ones from the history. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { MemoryError } from "../../../domain/MemoryError.ts"
import type { MemoryId } from "../../../domain/MemoryId.ts"
import { MemoryRecord } from "../../../domain/MemoryRecord.ts"
import type { Stored } from "../../MemoryStore.ts"
import * as Version from "../../Version.ts"
import type { History, Part } from "./History.ts"
import * as Layout from "./Layout.ts"
import type { Entry, Mirror, News } from "./Mirror.ts"

type Io<A> = Effect.Effect<A, MemoryError>

export interface Revisions {
  /** The record as its file has it; without a file, as the history has it, and forgotten. */
  readonly read: (tenant: string, id: MemoryId) => Io<Option.Option<Stored>>
  /** Newest first, at most `limit`, the current one among them. A revision whose line is damaged is left out. */
  readonly all: (tenant: string, id: MemoryId, limit: number) => Io<ReadonlyArray<Stored>>
  /** Every record of the tenant that has no file, as it was when it was forgotten. */
  readonly forgotten: (tenant: string) => Io<ReadonlyArray<Stored>>
}

export const make = (history: History, mirror: Mirror): Revisions => {
  /** Reads again where the history was compacted meanwhile, so that its lines stand elsewhere. */
  const current = <A>(read: Io<A>): Io<A> =>
    Effect.gen(function*() {
      for (;;) {
        const began = history.generation()
        const answer = yield* read
        if (!(yield* history.isReplaced) && history.generation() === began) return answer
        yield* history.news(false)
      }
    })

  /** A record without a file: forgotten, be it by a hand. Where its last line is damaged, the one before stands in. */
  const gone = (tenant: string, id: MemoryId): Io<Option.Option<Stored>> =>
    Effect.gen(function*() {
      const places = history.places(tenant, id)
      for (const place of places) {
        const kept = yield* history.read(place)
        if (Option.isNone(kept)) continue
        const { revision } = places[0]! // one at least
        const record = new MemoryRecord({ ...kept.value.record, revision }, { disableValidation: true })
        return Option.some({ record, forgotten: true })
      }
      return Option.none()
    })

  return {
    read: (tenant, id) => {
      const entry = mirror.entry(tenant, id)
      return entry ? Effect.succeedSome(entry.row) : current(gone(tenant, id))
    },
    all: (tenant, id, limit) =>
      current(Effect.gen(function*() {
        const row = mirror.entry(tenant, id)?.row
        const places = history.places(tenant, id)
        const earlier = row ? places.filter(({ revision }) => revision < row.record.revision) : places
        const rows = yield* Effect.forEach(earlier.slice(0, row ? limit - 1 : limit), (place) =>
          Effect.map(history.read(place), (kept): ReadonlyArray<Stored> =>
            Option.isSome(kept) ? [{ record: kept.value.record, forgotten: place.forgotten }] : []))
        return row ? [row, ...rows.flat()] : rows.flat()
      })),
    forgotten: (tenant) =>
      current(Effect.gen(function*() {
        const ids: Array<MemoryId> = []
        for (const { id } of history.all(tenant)) if (mirror.entry(tenant, id) === undefined) ids.push(id)
        const rows = yield* Effect.forEach(ids, (id) => gone(tenant, id))
        return rows.flatMap(Option.toArray)
      }))
  }
}

/* Finds what hands did to a vault's files: the revisions that the history lacks. */

/** A record that may have been edited, and its file before, where the mirror saw the edit. */
export type Touched = readonly [tenant: string, id: MemoryId, before?: Entry | undefined]

/** The records that a look found changed, each with its file before the first of the changes. */
export const touched = (news: ReadonlyArray<News>): ReadonlyArray<Touched> => {
  const about = new Map<string, Touched>()
  for (const { event, tenant, was } of news) {
    if ("issue" in event) continue
    const key = `${tenant}/${event.id}`
    about.set(key, [tenant, event.id, about.get(key)?.[2] ?? was])
  }
  return Array.from(about.values())
}

/** A record's revision as it stands on disk. */
export const partOf = ({ extra, frame, hash, path, row, tenant }: Entry): Part => ({
  tenant,
  id: row.record.id,
  record: row.record,
  forgotten: false,
  extra,
  frame,
  path,
  gone: [],
  before: hash,
  after: hash
})

/** A revision of a record that has no file of its own. */
export const earlierOf = (entry: Entry): Part => ({ ...partOf(entry), path: null, before: null, after: null })

/**
 * The revisions that the history lacks of these records: edits, moves and removals by hand. None where it has all of them,
 * where a file is damaged or cannot be looked at, and of a note that nobody changed since it was found.
 */
export const lacking = (
  mirror: Mirror,
  history: History,
  about: Iterable<Touched>
): Io<ReadonlyArray<Part>> =>
  Effect.map(Effect.forEach(about, (one) => lackingOf(mirror, history, one)), (all) => all.flat())

const lackingOf = (mirror: Mirror, history: History, [tenant, id, before]: Touched): Io<ReadonlyArray<Part>> =>
  Effect.gen(function*() {
    const entry = mirror.entry(tenant, id)
    const place = history.newest(tenant, id)
    if (entry) {
      if (entry.damage !== undefined) return []
      if (place === undefined && before === undefined && id === Layout.noteId(entry.path)) return [] // a note as it was found
      if (place && !place.forgotten && place.after === entry.hash && place.path === entry.path) return []
      const now = partOf(entry)
      return place === undefined && before !== undefined
        ? [earlierOf(before), now]
        : [now]
    }
    if (place === undefined || place.forgotten || (place.path !== null && mirror.trouble(place.path))) return []
    const kept = yield* history.read(place)
    if (Option.isNone(kept)) return []
    const record = Version.forgotten(kept.value.record, yield* Clock.currentTimeMillis)
    const { frame } = kept.value
    return [{ tenant, id, record, forgotten: true, extra: {}, frame, path: null, gone: [], before: null, after: null }]
  })
