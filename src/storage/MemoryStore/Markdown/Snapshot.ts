/**
 * The snapshot of a vault is a cache for the next process that opens the vault. The snapshot has the files that a scan of the folder found,
 * and the search indexes of their records. The next process still compares every file with the snapshot.
 *
 * ```text
 * signature   of everything below, made with the vault's key; a line break
 * head        the settings on which entries depend, and the lengths of the parts; a line break
 * entries     parts of up to about 1,000 entries, compressed: JSON without the bodies, a line break, then all bodies
 * history     parts with the locations of up to 2,048 lines of the history, as compressed JSON
 * indexes     parts with the indexes of one or more tenants, concatenated and compressed
 * ```
 *
 * The snapshot is one file, so that each index always matches the records saved with it. The file is divided into small parts. Reading and
 * writing the file therefore does not block the event loop for long.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Struct from "effect/Struct"
import type { MemoryError } from "../../../domain/MemoryError.ts"
import { unchecked } from "../../../domain/MemoryRecord.ts"
import * as EventLoop from "../../../host/EventLoop.ts"
import type { TenantIndex } from "../../TenantIndex.ts"
import * as makeStore from "../internal/makeStore.ts"
import type { Context } from "./Document.ts"
import type { History } from "./History.ts"
import * as HistoryLine from "./HistoryLine.ts"
import * as Layout from "./Layout.ts"
import * as SnapshotPart from "./SnapshotPart.ts"
import { encoder, entriesOf, groupsOf, lineBreak, text, textsOf } from "./SnapshotPart.ts"
import type { Entry } from "./VaultFile.ts"
import type { VaultFileSystem } from "./VaultFileSystem.ts"
import type { VaultState } from "./VaultState.ts"

/** The content of a snapshot. */
export interface Snapshot {
  readonly entries: ReadonlyArray<Entry>
  /** The search index of each tenant that has a complete one. `encoding` encodes the index in steps. */
  readonly indexes: ReadonlyArray<readonly [tenant: string, encoding: EventLoop.Steps<Uint8Array>]>
  /** Locations of all revisions in the history. Absent, for example, if some `.md` files are not synced yet. */
  readonly history?: HistoryLine.HistoryIndex | undefined
}

/** A snapshot that was read. */
export interface Loaded extends Omit<Snapshot, "indexes"> {
  /** The encoded search index of each tenant that had a complete one. */
  readonly indexes: ReadonlyArray<readonly [tenant: string, encoded: Uint8Array]>
  /** Whether every entry has a revision in the history, and the newest one has the same content as the entry's file. */
  readonly isPlaced: boolean
  /** Whether the vault's key has signed the snapshot. May be true even if the content is ignored, for example if the kinds have changed. */
  readonly isSigned: boolean
}

const file = `${Layout.hidden}/snapshot`
const empty: Loaded = { entries: [], indexes: [], isPlaced: false, isSigned: true }
/** Number of bytes that count as one unit of work (see `EventLoop.pacer`). Decoding a full part takes about 4 ms, and a pause follows. */
const bytesPerUnit = 32
/** Largest number of parts of one kind (entries, history or indexes) that are compressed or decompressed in parallel. */
const concurrency = 4

/** The compressed and the uncompressed length of a part, in bytes. */
const Part = Schema.Tuple(Schema.Int, Schema.Int)
const Head = Schema.parseJson(Schema.Struct({
  version: Schema.Literal(...SnapshotPart.versions),
  kinds: Schema.String,
  entries: Schema.Array(Part),
  history: Schema.optional(Schema.Struct({
    epoch: Schema.Int,
    end: Schema.Int,
    batch: Schema.Int,
    dead: Schema.Int,
    hash: Schema.String,
    places: Schema.Array(Part)
  })),
  /** The compressed size of each part. Then the tenant and the uncompressed size of each index in the part. Sizes are in bytes. */
  indexes: Schema.Array(Schema.Tuple(Schema.Int, Schema.Array(Schema.Tuple(Schema.String, Schema.Int))))
}))
type Head = typeof Head.Type
const decodeHead = Schema.decodeOption(Head)
/**
 * The head of a snapshot of version 1. All entries are one JSON value. The entries are read, since only the snapshot has the records of
 * unedited notes (files that this library did not write). The indexes are rebuilt.
 */
const Early = Schema.parseJson(Schema.Struct({
  version: Schema.Literal(1),
  kinds: Schema.String,
  entries: Schema.Int
}))
const decodeEarly = Schema.decodeOption(Early)

/** Encodes the settings on which entries depend: the kinds, and the setting `notes`. Equal settings give equal texts. */
const about = ({ kinds, notes }: Pick<Context, "kinds" | "notes">): string =>
  (notes ?? "") +
  JSON.stringify(Array.from(kinds.values(), ({ dedupe, importance, name }) => [name, dedupe, importance]).sort())

/** Reads the snapshot. Returns an empty one if the file is missing, or if the signature, format or settings do not match. */
export const readSnapshot = (fs: VaultFileSystem, context: Context): Effect.Effect<Loaded, MemoryError> =>
  Effect.gen(function*() {
    const body = yield* opened(yield* fs.bytesFrom(file, 0), context.key)
    if (body === undefined) return { ...empty, isSigned: false }
    const end = body.indexOf(lineBreak) + 1
    const first = text(body.subarray(0, end))
    const head = decodeHead(first)
    const early = Option.isNone(head) ? decodeEarly(first) : Option.none()
    if (Option.isSome(early) && early.value.kinds === about(context)) {
      // the type is right, since the signature proves that this library wrote the JSON
      const entries = JSON.parse(text(body.subarray(end, end + early.value.entries))) as ReadonlyArray<Entry>
      for (const { row: { record } } of entries) unchecked(record)
      return { ...empty, entries }
    }
    if (Option.isNone(head) || head.value.kinds !== about(context)) return empty
    let at = end
    const next = (length: number) => body.subarray(at, at += length)
    const partOf = ([length, whole]: typeof Part.Type) => ({ part: next(length), whole })
    const entries = head.value.entries.map(partOf)
    const locations = head.value.history?.places.map(partOf) ?? []
    const indexes = head.value.indexes.map(([length, of]) => ({ part: next(length), of }))
    const step = yield* EventLoop.serialSteps
    const restored = yield* Effect.all({
      entries: Effect.forEach(entries, ({ part, whole }) =>
        Effect.gen(function*() {
          const bytes = yield* SnapshotPart.decompress(part, whole)
          return yield* step(() => entriesOf(bytes, head.value.version), () => whole / bytesPerUnit)
        }), { concurrency }),
      locations: Effect.forEach(locations, ({ part, whole }) =>
        Effect.gen(function*() {
          const bytes = yield* SnapshotPart.decompress(part, whole)
          // the type is right, since the signature proves that this library wrote the JSON
          const placesOf = () =>
            (JSON.parse(text(bytes)) as ReadonlyArray<SnapshotPart.Tuple>).map(SnapshotPart.fromTuple)
          return yield* step(placesOf, () => whole / bytesPerUnit)
        }), { concurrency }),
      indexes: Effect.forEach(indexes, ({ of, part }) =>
        Effect.map(
          SnapshotPart.decompress(
            part,
            of.reduce((sum, [, length]) => sum + length, 0)
          ),
          (bytes) => {
            let at = 0
            return of.map(([tenant, length]) => [tenant, new Uint8Array(bytes.subarray(at, at += length))] as const)
          }
        ), { concurrency })
    }, { concurrency: 3 }).pipe(Effect.option) // `None` if a release with another compression wrote the snapshot
    if (Option.isNone(restored)) return empty
    const kept: Array<Entry> = []
    const newest: Array<HistoryLine.RevisionLocation> = []
    yield* EventLoop.forEach(restored.value.entries, 4_096, (part) => {
      for (const { entry, location } of part) {
        kept.push(entry)
        if (location) newest.push(location)
      }
    }, ({ length }) => length)
    const isPlaced = newest.length === kept.length
    for (const part of restored.value.locations) for (const location of part) newest.push(location)
    return {
      entries: kept,
      indexes: restored.value.indexes.flat(),
      isPlaced,
      history: head.value.history && { ...Struct.omit(head.value.history, "places"), locations: newest },
      isSigned: true
    }
  })

/** Removes the snapshot. Called after a purge, since the snapshot may contain the purged text. */
export const removeSnapshot = (fs: VaultFileSystem): Effect.Effect<void, MemoryError> =>
  fs.remove(file, { force: false })

/** Whether the snapshot was signed with this key; `undefined` if there is no snapshot. */
export const signedBy = (fs: VaultFileSystem, key: string): Effect.Effect<boolean | undefined, MemoryError> =>
  Effect.flatMap(fs.bytesFrom(file, 0), (bytes) =>
    bytes.length === 0
      ? Effect.succeed(undefined)
      : Effect.map(opened(bytes, key), (body) => body !== undefined))

/** Returns the bytes after a snapshot's signature; `undefined` if the signature is not valid for the key. */
const opened = (bytes: Uint8Array, key: string): Effect.Effect<Uint8Array | undefined> => {
  const end = bytes.indexOf(lineBreak) + 1
  const body = bytes.subarray(end)
  return Effect.map(
    EventLoop.paced(() => SnapshotPart.signed(key, body)),
    (signature) => text(bytes.subarray(0, end)) === `${signature}\n` ? body : undefined
  )
}

/** Writes a snapshot. Does not sync the file, since a lost snapshot can be rebuilt. */
export const writeSnapshot = (
  fs: VaultFileSystem,
  { key, ...context }: Context,
  snapshot: Snapshot
): Effect.Effect<void, MemoryError> =>
  Effect.gen(function*() {
    const inTurn = yield* EventLoop.serialSteps
    const bytesOf = SnapshotPart.makeEncoder()
    const parts = <A>(
      all: ReadonlyArray<A>,
      sizeOf: (one: A) => number,
      textsOf: (group: ReadonlyArray<A>) => ReadonlyArray<string>
    ) =>
      Effect.flatMap(EventLoop.paced(() => groupsOf(all, sizeOf)), (groups) =>
        Effect.forEach(groups, (group) =>
          Effect.gen(function*() {
            const bytes = yield* inTurn(() =>
              bytesOf(textsOf(group)), ({ length }) => length >> 4)
            return { part: yield* SnapshotPart.compress(bytes), whole: bytes.length }
          }), { concurrency }))
    const { history } = snapshot
    const { others, placed } = yield* EventLoop.paced(() =>
      SnapshotPart.locate(snapshot.entries, history?.locations ?? [])
    )
    const entries = yield* parts(placed, ({ entry: { row } }) =>
      row.record.body.length + 512, textsOf)
    const lines = yield* parts(others, () => 256, (group) => [JSON.stringify(group.map(SnapshotPart.toTuple))])
    const encoded = yield* Effect.forEach(
      snapshot.indexes,
      ([tenant, steps]) => Effect.map(EventLoop.paced(() => steps), (bytes) => [tenant, bytes] as const)
    )
    const indexes = yield* Effect.forEach(
      yield* EventLoop.paced(() => groupsOf(encoded, ([, { length }]) => length)),
      (group) =>
        Effect.gen(function*() {
          const bytes = yield* EventLoop.paced(() => HistoryLine.concatSteps(group.map(([, encoded]) => encoded)))
          const part = yield* SnapshotPart.compress(bytes)
          return { part, of: group.map(([tenant, { length }]) => [tenant, length] as const) }
        }),
      { concurrency }
    )
    const head: Head = {
      version: SnapshotPart.version,
      kinds: about(context),
      entries: entries.map(lengthsOf),
      history: history && { ...Struct.omit(history, "locations"), places: lines.map(lengthsOf) },
      indexes: indexes.map(({ of, part }) => [part.length, of] as const)
    }
    const all = yield* EventLoop.paced(() =>
      HistoryLine.concatSteps(
        [encoder.encode(`${JSON.stringify(head)}\n`), ...[...entries, ...lines, ...indexes].map(({ part }) => part)],
        signature
      )
    )
    all.set(encoder.encode(`${yield* EventLoop.paced(() => SnapshotPart.signed(key, all.subarray(signature)))}\n`))
    yield* fs.write(file, all, { force: false }).pipe(
      Effect.uninterruptible // an interruption would leave a temporary file
    )
  })

const lengthsOf = ({ part, whole }: { readonly part: Uint8Array; readonly whole: number }) =>
  [part.length, whole] as const

/** Length of a signature and its line break, in bytes. */
const signature = 65

/*
 * Loads a vault's snapshot when the vault opens. Saves a snapshot from time to time during use, and when the vault closes, but only if
 * enough has changed. So even a killed process usually leaves a snapshot.
 */

/** Saves and removes the snapshot of a vault. */
export interface SnapshotKeeper {
  /** Whether a snapshot signed with the vault's key was found. */
  readonly isSigned: boolean
  /** Whether the files and the history agree, and neither has changed since the snapshot was saved. */
  readonly isUnchanged: () => boolean
  /**
   * Saves a snapshot if enough has changed since the last one. Otherwise does nothing; the changes still count for the next call. Returns
   * `false` and leaves no new snapshot if the state lags behind the history, or if a record was purged during the save.
   */
  readonly save: Effect.Effect<boolean, MemoryError>
  /** Removes the snapshot, since it may contain a purged text. The next `save` saves a new snapshot. */
  readonly remove: Effect.Effect<void, MemoryError>
}

/** A snapshot is outdated if there are more changes than `least` and than `share` times the records. A newly indexed record is a change. */
const least = 20
const share = 1 / 50

/** A snapshot is saved if the history has grown by this many bytes. Otherwise the next process would have to read these bytes. */
const appended = 4_194_304

/**
 * Fills the state and the history from the snapshot, if there is one. The next scan compares each entry with its file. The history compares
 * its index with the history file. `isNowhereElse` says whether the history lacks the record of a note. The record is then only in the
 * snapshot. Without the snapshot, the record would get a new id when the note is renamed. `isUpToDate` says whether the state has all that
 * was read from the history.
 */
export const load = (
  fs: VaultFileSystem,
  context: Context,
  state: VaultState,
  history: History,
  { isNowhereElse, isUpToDate }: {
    readonly isNowhereElse: (entry: Entry) => boolean
    readonly isUpToDate: () => boolean
  }
): Effect.Effect<SnapshotKeeper, MemoryError> =>
  Effect.gen(function*() {
    const saving = yield* Effect.makeSemaphore(1)
    const { entries, history: index, indexes, isPlaced, isSigned } = yield* readSnapshot(fs, context)
    // the snapshot is outdated if its index lacks times (an earlier release wrote it), or does not match the history file
    let isOutdated = index !== undefined && ((yield* history.restore(index)) || history.size() !== index.end)
    yield* EventLoop.forEach(entries, 1_024, state.restore)
    for (const [tenant, encoded] of indexes) state.tenantIndex(tenant).restore(encoded)
    const { changed } = state
    const isWhole = isPlaced && history.records() === entries.length
    const isUnchanged = () => isWhole && history.size() === index?.end && changed.size === 0
    let wasThere = entries.length > 0
    const indexed = new WeakSet<TenantIndex>()
    const purgesRead = () => `${history.generation()} ${history.erasures()}`
    let [read, erasuresSaved] = [history.size(), history.erasures()]
    const isKept = ({ damage, path }: Entry) => damage === undefined && !Layout.isInternal(path)
    const save = Effect.gen(function*() {
      const tenantIndexes = state.tenants().map((tenant) => [tenant, state.tenantIndex(tenant)] as const)
      const isNew = (tenantIndex: TenantIndex) => tenantIndex.isBuilt() && !indexed.has(tenantIndex)
      const built = tenantIndexes.reduce((sum, [, one]) => isNew(one) ? sum + one.size() : sum, 0)
      const records = tenantIndexes.reduce((sum, [, tenantIndex]) => sum + tenantIndex.size(), 0)
      const news = Array.from(changed.values())
      const grown = Math.abs(history.size() - read)
      const isLost = wasThere && Option.isNone(yield* fs.stat(file)) // a purge has removed the snapshot
      const isStale = built + news.length > Math.max(least, records * share) ||
        (isLost && records > 0) || grown >= appended || isOutdated || (wasThere && history.erasures() !== erasuresSaved)
      if (!isStale && !news.some((file) => file?._tag === "Entry" && isKept(file) && isNowhereElse(file))) return true
      const [purges, erasures] = [purgesRead(), history.erasures()]
      const index = Option.getOrUndefined(yield* history.index)
      for (const [, tenantIndex] of tenantIndexes) yield* tenantIndex.encodable
      yield* EventLoop.pause
      if (!isUpToDate()) return false
      // the files and the indexes are taken in one step, since each index must match the records saved with it
      const [paths, files, all] = [Array.from(changed.keys()), Array.from(changed.values()), state.files()]
      const indexes = tenantIndexes.flatMap(([tenant, tenantIndex]) => {
        const encoding = tenantIndex.encoded()
        return encoding === undefined ? [] : [[tenant, encoding] as const]
      })
      const withIndex = tenantIndexes.flatMap(([, tenantIndex]) => tenantIndex.isBuilt() ? [tenantIndex] : [])
      yield* EventLoop.pause
      const entries: Array<Entry> = []
      yield* EventLoop.forEach(all, 4_096, (file) => {
        if (file._tag === "Entry" && isKept(file)) entries.push(file)
      })
      const isWritten = yield* writeSnapshot(fs, context, { entries, history: index, indexes }).pipe(
        Effect.zipRight(Effect.tapError(history.news(false), () => Effect.option(removeSnapshot(fs)))),
        Effect.flatMap(() => purgesRead() === purges ? Effect.succeed(true) : Effect.as(removeSnapshot(fs), false)),
        Effect.uninterruptible // a snapshot with a purged text must not stay
      )
      wasThere = true
      if (!isWritten) return false
      isOutdated = false
      erasuresSaved = erasures
      yield* EventLoop.forEach(paths.entries(), 2_048, ([n, path]) => {
        if (changed.get(path) === files[n]) changed.delete(path)
      })
      read = index?.end ?? read
      for (const tenantIndex of withIndex) indexed.add(tenantIndex)
      return true
    })
    const remove = Effect.suspend(() => {
      wasThere = true // even if this process has never saved a snapshot, the next `save` saves one
      return removeSnapshot(fs)
    })
    return { isSigned, isUnchanged, save: saving.withPermits(1)(save), remove: saving.withPermits(1)(remove) }
  })

/** Time between opening the vault and the first save of a snapshot, so that saving does not delay the first calls. */
const settling = "10 seconds"
/** Shortest time between two saves while the vault is in use, in milliseconds. */
const spacing = 60_000
/** The pause after a save is at least this many times as long as the save. So saving takes at most a twentieth of the time. */
const rest = 20

/**
 * Runs `save` ten seconds after opening, and then again and again. Each further save waits for a call of the store, and then for a minute,
 * or longer if saves are slow. A failure is logged only at debug level: without a snapshot, the next process opens the vault more slowly.
 */
export const keep = (
  save: Effect.Effect<void, MemoryError>,
  activity: makeStore.Activity
): Effect.Effect<void, never, Scope.Scope> => {
  const attempt = Effect.gen(function*() {
    const start = yield* Clock.currentTimeMillis
    yield* Effect.catchAll(save, unsaved)
    return (yield* Clock.currentTimeMillis) - start
  })
  const round = (known: number, took: number): Effect.Effect<never> =>
    Effect.gen(function*() {
      yield* activity.since(known)
      yield* Effect.sleep(Math.max(spacing, rest * took))
      const calls = yield* makeStore.calls(activity)
      const next = yield* attempt
      return yield* Effect.suspend(() => round(calls, next))
    })
  return Effect.gen(function*() {
    const calls = yield* makeStore.calls(activity)
    yield* Effect.sleep(settling)
    return yield* round(calls, yield* attempt)
  }).pipe(Effect.forkScoped, Effect.asVoid)
}

/** Logs that no snapshot was saved. */
export const unsaved = (error: MemoryError): Effect.Effect<void> => Effect.logDebug("no snapshot", error)
