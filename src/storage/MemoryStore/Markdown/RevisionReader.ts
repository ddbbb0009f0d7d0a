/**
 * Reads the revisions of a vault's records: the current ones from the files, the earlier ones from the history, and those of
 * format 1 from what it left.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { sha256, sign } from "../../../domain/Digest.ts"
import type { MemoryError } from "../../../domain/MemoryError.ts"
import { type MemoryId, ULID_RE } from "../../../domain/MemoryId.ts"
import { MemoryRecord } from "../../../domain/MemoryRecord.ts"
import * as EventLoop from "../../../host/EventLoop.ts"
import type { Stored } from "../../MemoryStore.ts"
import * as Revision from "../../Revision.ts"
import type { History, Part, Place } from "./History.ts"
import * as Layout from "./Layout.ts"
import { hidden, idOf, isBelow, segmentOf } from "./Layout.ts"
import type { Entry } from "./VaultFile.ts"
import type { VaultFileSystem } from "./VaultFileSystem.ts"
import type { News, VaultState } from "./VaultState.ts"

type Io<A> = Effect.Effect<A, MemoryError>

/** Reads the revisions of records. */
export interface RevisionReader {
  /** The record as its file has it; without a file, as the history has it, and forgotten. */
  readonly read: (tenant: string, id: MemoryId) => Io<Option.Option<Stored>>
  /** Newest first, at most `limit`, the current one among them. A revision whose line is damaged is left out. */
  readonly all: (tenant: string, id: MemoryId, limit: number) => Io<ReadonlyArray<Stored>>
  /** Every record of the tenant that has no file, as it was when it was forgotten. */
  readonly forgotten: (tenant: string) => Io<ReadonlyArray<Stored>>
  /**
   * The records of the tenant that expire, and the tombstones that were written. Reads only what has neither a file nor a whole
   * tombstone.
   */
  readonly lifetimes: (tenant: string) => Io<ReadonlyArray<Revision.Lifetime>>
}

/** Makes the reader of a vault's revisions. `viewed`: the last batch whose files this process wrote or found on disk. */
export const make = (history: History, state: VaultState, viewed: () => number): RevisionReader => {
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

  /** Whether a file of a revision is still to be written, or to be looked at: its record is not forgotten for want of it. */
  const isComing = ({ batch, forgotten, path }: Place): boolean =>
    !forgotten && path !== null &&
    (history.awaited.has(path) || (batch > viewed() && history.unlanded().some(({ number }) => number === batch)))

  return {
    read: (tenant, id) => {
      const entry = state.entry(tenant, id)
      return entry ? Effect.succeedSome(entry.row) : current(gone(tenant, id))
    },
    all: (tenant, id, limit) =>
      current(Effect.gen(function*() {
        const row = state.entry(tenant, id)?.row
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
        yield* EventLoop.forEach(history.all(tenant), atATime, (place) => {
          if (state.entry(tenant, place.id) === undefined && !isComing(place)) ids.push(place.id)
        })
        const rows = yield* Effect.forEach(ids, (id) => gone(tenant, id))
        return rows.flatMap(Option.toArray)
      })),
    lifetimes: (tenant) =>
      current(Effect.gen(function*() {
        const all: Array<Revision.Lifetime> = []
        yield* EventLoop.forEach(state.tenantIndex(tenant).rows(), atATime, (row) => {
          if (row.record.expiresAt !== undefined) all.push(Revision.lifetimeOf(row))
        })
        const untimed: Array<MemoryId> = []
        yield* EventLoop.forEach(history.all(tenant), atATime, ({ forgotten, id, revision, times }) => {
          if (state.entry(tenant, id) !== undefined) return
          if (times === undefined) return void untimed.push(id)
          const [recency, expiresAt] = times
          all.push({ id, revision, forgotten, recency, expiresAt })
        })
        for (const id of untimed) {
          // it may only be out of reach: it is erased when it expires, and not as what was forgotten
          const row = Option.getOrUndefined(yield* gone(tenant, id))
          if (row?.record.expiresAt !== undefined) all.push({ ...Revision.lifetimeOf(row), forgotten: false })
        }
        return all
      }))
  }
}

/** Records between two pauses, of which each is looked up. */
const atATime = 2_048

/* Finds what hands did to a vault's files: the revisions that the history lacks. */

/** A record that may have been edited, and its file before, where the state saw the edit. */
export type Touched = readonly [tenant: string, id: MemoryId, before?: Entry | undefined]

/** The records that a scan found changed, each with its file before the first of the changes. */
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
  state: VaultState,
  history: History,
  about: Iterable<Touched>
): Io<ReadonlyArray<Part>> =>
  Effect.gen(function*() {
    const paced = EventLoop.pacer()
    const all: Array<Part> = []
    for (const one of about) {
      all.push(...yield* lackingOf(state, history, one))
      yield* paced(32)
    }
    return all
  })

const lackingOf = (state: VaultState, history: History, [tenant, id, before]: Touched): Io<ReadonlyArray<Part>> =>
  Effect.gen(function*() {
    const entry = state.entry(tenant, id)
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
    if (place === undefined || place.forgotten || (place.path !== null && state.trouble(place.path))) return []
    const kept = yield* history.read(place)
    if (Option.isNone(kept)) return []
    const record = Revision.forgotten(kept.value.record, yield* Clock.currentTimeMillis)
    const { frame } = kept.value
    return [{ tenant, id, record, forgotten: true, extra: {}, frame, path: null, gone: [], before: null, after: null }]
  })

/*
 * Reads what vaults of format 1 kept: earlier revisions in one file per record, a list of touched paths, and a journal of
 * the batch at hand. The first opening for writing puts the revisions into the history and removes these files.
 */

const revisionsFolder = `${hidden}/revisions`
const journal = `${hidden}/journal.json`
const log = `${hidden}/log`

const Line = Schema.parseJson(Schema.Struct({ record: MemoryRecord, forgotten: Schema.Boolean }))
const Steps = Schema.parseJson(Schema.Array(Schema.Struct({
  path: Schema.String,
  /** The text before the batch; `null`: there was no file. */
  content: Schema.NullOr(Schema.String),
  /** Hash of the text that the batch wrote; `null`: it removed the file. */
  after: Schema.NullOr(Schema.String)
})))
const decodeSteps = Schema.decodeOption(Steps)

/** One revision that format 1 kept. */
export interface Row {
  readonly record: MemoryRecord
  readonly forgotten: boolean
}

/** Whether format 1 left anything. */
export const hasFormat1 = (fs: VaultFileSystem): Io<boolean> =>
  Effect.map(Effect.forEach([revisionsFolder, journal, log], fs.stat), (all) => all.some(Option.isSome))

/**
 * The earlier revisions of every record, oldest first, by tenant. A line that cannot be read is passed over; a folder whose
 * name is a hash is of the tenant of `tenants` with that segment.
 */
export const readFormat1 = (
  fs: VaultFileSystem,
  segments: ReadonlyMap<string, string>
): Io<ReadonlyArray<readonly [tenant: string, id: MemoryId, rows: ReadonlyArray<Row>]>> =>
  Effect.gen(function*() {
    const all: Array<readonly [string, MemoryId, ReadonlyArray<Row>]> = []
    for (const segment of yield* fs.list(revisionsFolder)) {
      const tenant = segments.get(segment) ?? idOf(segment)
      if (tenant === undefined) continue
      for (const name of yield* fs.list(`${revisionsFolder}/${segment}`)) {
        const id = name.replace(/\.jsonl$/, "")
        if (!ULID_RE.test(id)) continue
        const text = yield* fs.readLoose(`${revisionsFolder}/${segment}/${name}`)
        const rows = new Map<number, Row>() // the last word on a revision stands
        for (const line of Option.getOrElse(text, () => "").split("\n")) {
          const row = Schema.decodeEither(Line)(line)
          if (Either.isRight(row)) rows.set(row.right.record.revision, row.right)
        }
        const oldestFirst = Array.from(rows.values()).sort((a, b) => a.record.revision - b.record.revision)
        if (oldestFirst.length > 0) all.push([tenant, id as MemoryId, oldestFirst]) // the pattern admits only ids
      }
    }
    return all
  })

/** Puts back what a batch of format 1 left half done, but for files that were changed since. For the holder of the lock. */
export const recoverFormat1 = (fs: VaultFileSystem, key: string): Io<void> =>
  Effect.gen(function*() {
    const left = yield* fs.readLoose(journal)
    if (Option.isNone(left)) return
    const steps = Option.flatMap(verifyText(key, left.value), decodeSteps)
    if (Option.isNone(steps)) {
      yield* Effect.logWarning("the journal of an earlier version cannot be read; it is put aside")
      yield* fs.move(journal, `${journal}.unread`)
      return
    }
    for (const { after, content, path } of steps.value.toReversed()) {
      if (!isBelow(path) || Option.isSome(yield* fs.linkAbove(path))) continue
      const text = Option.getOrNull(yield* fs.readLoose(path))
      if ((text === null ? null : sha256(text)) !== after) continue
      yield* content === null ? fs.remove(path) : fs.write(path, content)
    }
    yield* fs.remove(journal)
  })

/** Removes what format 1 kept. */
export const discardFormat1 = (fs: VaultFileSystem): Io<void> =>
  Effect.forEach([revisionsFolder, journal, log], (path) => fs.discard(path), { discard: true })

/** The revisions of format 1, and after those of a record what is there now. */
export const inherited = (
  fs: VaultFileSystem,
  state: VaultState,
  current: ReadonlyArray<Part>
): Io<ReadonlyArray<Part>> =>
  Effect.gen(function*() {
    const segments = new Map(state.tenants().map((tenant) => [segmentOf(tenant), tenant]))
    const parts = new Map(current.map((part) => [`${part.tenant}/${part.id}`, part]))
    const all: Array<Part> = []
    for (const [tenant, id, rows] of yield* readFormat1(fs, segments)) {
      const entry = state.entry(tenant, id)
      const now = parts.get(`${tenant}/${id}`) ?? (entry && partOf(entry))
      parts.delete(`${tenant}/${id}`)
      const none = { tenant, id, extra: {}, path: null, gone: [], before: null, after: null }
      const earlier = rows.filter(({ record }) => !now?.record || record.revision < now.record.revision)
      const newest = rows.at(-1)
      for (const row of earlier) {
        all.push({
          ...none,
          ...row,
          record: !now && row === newest && row.forgotten ? due(row.record) : row.record
        })
      }
      if (now) {
        all.push(now)
      } else if (newest && !newest.forgotten) {
        const record = Revision.forgotten(newest.record, yield* Clock.currentTimeMillis)
        all.push({ ...none, record, forgotten: true })
      }
    }
    return [...all, ...parts.values()]
  })

/** A tombstone of format 1, which the next compaction was to erase: it counts as one of long ago. */
const due = (record: MemoryRecord): MemoryRecord =>
  new MemoryRecord({ ...record, updatedAt: 0 }, { disableValidation: true })

/* A text of our own, sealed with the vault's key: what is torn, forged or of another vault does not open. */

/** Puts the signature of a text under a key before it, on a line of its own. */
export const signText = (key: string, text: string): string => `${sign(key, text)}\n${text}`

/** Returns the text that was sealed under this key; `None` where the signature does not hold. */
export const verifyText = (key: string, sealed: string): Option.Option<string> => {
  const end = sealed.indexOf("\n")
  const text = sealed.slice(end + 1)
  return sealed.slice(0, end) === sign(key, text) ? Option.some(text) : Option.none()
}
