/**
 * Reads the revisions of a vault's records. The current revisions come from the vault's state in RAM, a mirror of the files. Earlier
 * revisions come from the history, the append-only file of all revisions. The revision files of the old vault format 1 are also read.
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
import type { History, Part, RevisionLocation } from "./History.ts"
import * as Layout from "./Layout.ts"
import { hidden, idOf, isBelow, segmentOf } from "./Layout.ts"
import type { Entry } from "./VaultFile.ts"
import type { VaultFileSystem } from "./VaultFileSystem.ts"
import type { News, VaultState } from "./VaultState.ts"

type Io<A> = Effect.Effect<A, MemoryError>

/** Reads the revisions of a vault's records. */
export interface RevisionReader {
  /**
   * Returns a record as its file has it. If the file is damaged, the result is the last good revision. If there is no file, the result is a
   * tombstone with the content of the newest undamaged revision in the history. `None` if no revision can be read.
   */
  readonly read: (tenant: string, id: MemoryId) => Io<Option.Option<Stored>>
  /** Returns up to `limit` revisions, newest first, including the current one. Skips a revision if its line in the history is damaged. */
  readonly all: (tenant: string, id: MemoryId, limit: number) => Io<ReadonlyArray<Stored>>
  /**
   * Returns a tombstone for each record of a tenant that has no file, with the content of its newest undamaged revision in the history.
   * Leaves out a record without such a revision, and one whose file is still to be written, or to be read by this process.
   */
  readonly forgotten: (tenant: string) => Io<ReadonlyArray<Stored>>
  /**
   * Returns the lifetimes of the tenant's tombstones, and of the tenant's records that expire. A lifetime has the fields that decide when a
   * record may be erased. Reads a record from the history in one case: the record has no file, and its tombstone is missing or damaged.
   */
  readonly lifetimes: (tenant: string) => Io<ReadonlyArray<Revision.Lifetime>>
}

/** Finds every record whose file differs from its last revision. `earlier`: snapshot entries whose files changed later, by tenant and id. */
export const changedRecords = (
  state: VaultState,
  history: History,
  earlier: ReadonlyMap<string, Entry>
): Effect.Effect<ReadonlyArray<Touched>> =>
  Effect.gen(function*() {
    const all: Array<Touched> = []
    const [size, generation] = [history.size(), history.generation()]
    let known = 0
    yield* EventLoop.forEach(state.files(), atATime, (file) => {
      if (file._tag !== "Entry") return
      const { hash, path, row: { record: { id } }, tenant } = file
      const location = history.at(path)
      if (location?.id === id && location.after === hash && location.tenant === tenant && !location.forgotten) known++
      else all.push([tenant, id, earlier.get(`${tenant}/${id}`)])
    })
    const isAll = known === history.records() && history.size() === size && history.generation() === generation
    if (isAll) return all // each record of the history has its file, as is usual when a vault is opened
    for (const tenant of history.tenants()) {
      yield* EventLoop.forEach(history.all(tenant), atATime, ({ forgotten, id }) => {
        if (!forgotten && !state.entry(tenant, id)) all.push([tenant, id, earlier.get(`${tenant}/${id}`)])
      })
    }
    return all
  })

/** Makes the reader of a vault's revisions. `lastReadBatch` returns the last batch whose files this process has read or written. */
export const make = (history: History, state: VaultState, lastReadBatch: () => number): RevisionReader => {
  /** Repeats a read if the history was rewritten during the read, since a rewrite moves the lines of the history. */
  const current = <A>(read: Io<A>): Io<A> =>
    Effect.gen(function*() {
      for (;;) {
        const began = history.generation()
        const answer = yield* read
        if (!(yield* history.isReplaced) && history.generation() === began) return answer
        yield* history.news(false)
      }
    })

  /**
   * Returns a tombstone of a record that has no file, even if the history has no tombstone because a person deleted the file. The content
   * comes from the record's newest undamaged line in the history. The revision number comes from the record's newest line, damaged or not.
   */
  const tombstoneOf = (tenant: string, id: MemoryId): Io<Option.Option<Stored>> =>
    Effect.gen(function*() {
      const locations = history.locations(tenant, id)
      for (const location of locations) {
        const kept = yield* history.read(location)
        if (Option.isNone(kept)) continue
        const { revision } = locations[0]! // `locations` is not empty inside the loop
        const record = new MemoryRecord({ ...kept.value.record, revision }, { disableValidation: true })
        return Option.some({ record, forgotten: true })
      }
      return Option.none()
    })

  /**
   * Whether the file of a revision is not written yet, or not read yet by this process. The record then exists, although the vault's state
   * in RAM lacks its file.
   */
  const isFilePending = ({ batch, forgotten, path }: RevisionLocation): boolean =>
    !forgotten && path !== null &&
    (history.unreadFiles.has(path) ||
      (batch > lastReadBatch() && history.pending().some(({ number }) => number === batch)))

  /** Returns a record's revisions, newest first. Starts again if another process has erased the record meanwhile. */
  const revisionsOf = (tenant: string, id: MemoryId, limit: number): Io<ReadonlyArray<Stored>> =>
    Effect.gen(function*() {
      const row = state.entry(tenant, id)?.row
      const locations = history.locations(tenant, id)
      const earlier = row ? locations.filter(({ revision }) => revision < row.record.revision) : locations
      const rows = yield* Effect.forEach(
        earlier.slice(0, row ? limit - 1 : limit),
        (location) =>
          Effect.map(
            history.read(location),
            (kept): ReadonlyArray<Stored> =>
              Option.isSome(kept) ? [{ record: kept.value.record, forgotten: location.forgotten }] : []
          )
      )
      if (rows.some(({ length }) => length === 0)) {
        yield* history.news(false)
        if (history.newest(tenant, id) !== locations[0]) return yield* revisionsOf(tenant, id, limit)
      }
      return row ? [row, ...rows.flat()] : rows.flat()
    })

  return {
    read: (tenant, id) => {
      const entry = state.entry(tenant, id)
      return entry ? Effect.succeedSome(entry.row) : current(tombstoneOf(tenant, id))
    },
    all: (tenant, id, limit) => current(revisionsOf(tenant, id, limit)),
    forgotten: (tenant) =>
      current(Effect.gen(function*() {
        const ids: Array<MemoryId> = []
        yield* EventLoop.forEach(history.all(tenant), atATime, (location) => {
          if (state.entry(tenant, location.id) === undefined && !isFilePending(location)) ids.push(location.id)
        })
        const rows = yield* Effect.forEach(ids, (id) => tombstoneOf(tenant, id))
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
          // the history has no readable tombstone of the record. The record may not be forgotten: its file may exist, but be unreachable.
          // So the record is erased only when it expires
          const row = Option.getOrUndefined(yield* tombstoneOf(tenant, id))
          if (row?.record.expiresAt !== undefined) all.push({ ...Revision.lifetimeOf(row), forgotten: false })
        }
        return all
      }))
  }
}

/** Largest number of records that are looked up before yielding to the event loop. */
const atATime = 2_048

/* Finds edits by hand: revisions that are in the vault's files, but not in the history. */

/** A record that a person may have edited. `before` is the earlier entry of the record's file, if known. */
export type Touched = readonly [tenant: string, id: MemoryId, before?: Entry | undefined]

/** Returns the records that have changed according to a scan, each with the entry that its file had before the first change. */
export const touched = (news: ReadonlyArray<News>): ReadonlyArray<Touched> => {
  const about = new Map<string, Touched>()
  for (const { event, tenant, was } of news) {
    if ("issue" in event) continue
    const key = `${tenant}/${event.id}`
    about.set(key, [tenant, event.id, about.get(key)?.[2] ?? was])
  }
  return Array.from(about.values())
}

/** Makes a part of a batch (a revision to append to the history) from the entry of a file that is on disk already. */
export const partOf = ({ extra, frame, hash, path, row, tenant }: Entry): Part => ({
  tenant,
  id: row.record.id,
  record: row.record,
  forgotten: false,
  extra,
  frame,
  path,
  removed: [],
  before: hash,
  after: hash
})

/** Makes a part of a batch from the entry of an earlier revision. The part has no path, since the file now has a later revision. */
export const earlierOf = (entry: Entry): Part => ({ ...partOf(entry), path: null, before: null, after: null })

/**
 * Returns the revisions that the history lacks because a person edited, moved or deleted files. Considers only the files of the records in
 * `about`. Damaged and unreadable files are left out. A note that this library did not write is also left out if nobody has edited or moved
 * the note since its first read.
 */
export const missingRevisions = (
  state: VaultState,
  history: History,
  about: Iterable<Touched>
): Io<ReadonlyArray<Part>> =>
  Effect.gen(function*() {
    const paced = EventLoop.pacer()
    const all: Array<Part> = []
    for (const one of about) {
      all.push(...yield* missingRevisionsOf(state, history, one))
      yield* paced(32)
    }
    return all
  })

const missingRevisionsOf = (
  state: VaultState,
  history: History,
  [tenant, id, before]: Touched
): Io<ReadonlyArray<Part>> =>
  Effect.gen(function*() {
    const entry = state.entry(tenant, id)
    const location = history.newest(tenant, id)
    if (entry) {
      if (entry.damage !== undefined) return []
      // the history needs no revision of a note that nobody has changed since it was first read
      if (location === undefined && before === undefined && id === Layout.noteId(entry.path)) return []
      if (location && !location.forgotten && location.after === entry.hash && location.path === entry.path) return []
      const now = partOf(entry)
      return location === undefined && before !== undefined
        ? [earlierOf(before), now]
        : [now]
    }
    if (
      location === undefined || location.forgotten || (location.path !== null && state.trouble(location.path))
    ) return []
    const kept = yield* history.read(location)
    if (Option.isNone(kept)) return []
    const record = Revision.forgotten(kept.value.record, yield* Clock.currentTimeMillis)
    const { extra, frame } = kept.value
    return [{
      tenant,
      id,
      record,
      forgotten: true,
      extra,
      frame,
      path: null,
      removed: [],
      before: null,
      after: null
    }]
  })

/*
 * Reads the files of the old vault format 1: a file of earlier revisions for each record, and a journal. The journal serves to roll back an
 * incomplete batch. A third file, a log of changed paths, is not read. If the vault has no history yet, opening the vault moves the
 * revisions to the history, and removes all these files.
 */

const revisionsFolder = `${hidden}/revisions`
const journal = `${hidden}/journal.json`
const log = `${hidden}/log`

const Line = Schema.parseJson(Schema.Struct({ record: MemoryRecord, forgotten: Schema.Boolean }))
const Steps = Schema.parseJson(Schema.Array(Schema.Struct({
  path: Schema.String,
  /** Text before the batch; `null` if there was no file. */
  content: Schema.NullOr(Schema.String),
  /** Hash of the text that the batch wrote; `null` if the batch removed the file. */
  after: Schema.NullOr(Schema.String)
})))
const decodeSteps = Schema.decodeOption(Steps)

/** A revision in a file of format 1. */
export interface Row {
  readonly record: MemoryRecord
  readonly forgotten: boolean
}

/** Whether the vault has files of format 1. */
export const hasFormat1 = (fs: VaultFileSystem): Io<boolean> =>
  Effect.map(Effect.forEach([revisionsFolder, journal, log], fs.stat), (all) => all.some(Option.isSome))

/**
 * Returns the earlier revisions of each record, oldest first, with the record's tenant and id. Skips lines that cannot be read. `segments`
 * maps folder names to tenants, since a folder name may be a hash of the tenant. A hash that `segments` lacks is skipped, too.
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
        const rows = new Map<number, Row>() // a later line of a revision replaces an earlier line
        for (const line of Option.getOrElse(text, () => "").split("\n")) {
          const row = Schema.decodeEither(Line)(line)
          if (Either.isRight(row)) rows.set(row.right.record.revision, row.right)
        }
        const oldestFirst = Array.from(rows.values()).sort((a, b) => a.record.revision - b.record.revision)
        if (oldestFirst.length > 0) all.push([tenant, id as MemoryId, oldestFirst]) // the id was checked with `ULID_RE`
      }
    }
    return all
  })

/** Rolls back an incomplete batch of format 1. Skips files that were changed after the batch. Needs the vault's lock. */
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

/** Removes the files of format 1. */
export const discardFormat1 = (fs: VaultFileSystem): Io<void> =>
  Effect.forEach([revisionsFolder, journal, log], (path) => fs.discard(path), { discard: true })

/** Returns the parts `current` and the revisions of format 1, as parts. The revisions of a record are in order, the current one last. */
export const migratedParts = (
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
      const none = { tenant, id, extra: {}, path: null, removed: [], before: null, after: null }
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

/** Sets the update time of a tombstone to 1970, so that the next compaction erases the tombstone. */
const due = (record: MemoryRecord): MemoryRecord =>
  new MemoryRecord({ ...record, updatedAt: 0 }, { disableValidation: true })

/** Signs the text with a key. Returns the signature, a line break, and the text. */
export const signText = (key: string, text: string): string => `${sign(key, text)}\n${text}`

/** Returns the text without its signature; `None` if the text is incomplete, forged, or from another vault. */
export const verifyText = (key: string, sealed: string): Option.Option<string> => {
  const end = sealed.indexOf("\n")
  const text = sealed.slice(end + 1)
  return sealed.slice(0, end) === sign(key, text) ? Option.some(text) : Option.none()
}
