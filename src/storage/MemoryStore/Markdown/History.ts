/**
 * The history of a vault: a log of the revisions of its records, in one append-only file. A compaction keeps at most `revisionsKept`
 * revisions of a record. A note that the library did not write has no revision in the log before its first change. A revision is appended
 * and synced before the library writes its `.md` file. So the history is authoritative, and the `.md` files are a view of the history. Each
 * line states its byte offset, except the lines of revisions that a rewrite of the file wrote. If a line is not at its stated offset, it is
 * ignored: a writer appended it late, without the lock. Each rewrite of the file increments a counter, the epoch. Every line states the
 * epoch, in case the first line is damaged.
 *
 * A batch is a group of revisions that take effect together. A checkpoint is a line which states that the `.md` files of all batches so far
 * are on disk. Later batches are pending. A pending batch counts only if all its lines are there, at their offsets. If its writer dies, the
 * next holder of the lock writes the batch's `.md` files. A line is erased by overwriting it in place.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as MemoryError from "../../../domain/MemoryError.ts"
import type { MemoryId } from "../../../domain/MemoryId.ts"
import * as EventLoop from "../../../host/EventLoop.ts"
import * as HistoryLine from "./HistoryLine.ts"
import { hidden } from "./Layout.ts"
import { isLost, lost } from "./Lock.ts"
import * as RevisionIndex from "./RevisionIndex.ts"
import { isFull, type VaultFileSystem } from "./VaultFileSystem.ts"

/** The types of a history's batches and revisions. */
export type { Batch, Part, RevisionLocation, View, WrittenRevision } from "./HistoryLine.ts"

type Io<A> = Effect.Effect<A, MemoryError.MemoryError>

/** The history of a vault, as far as this process has read it. */
export interface History {
  /** Whether the vault has a history. A new vault, or one whose hidden folder was lost, has none. */
  readonly isThere: () => boolean
  /** Returns the locations of a record's last revisions, at most `revisionsKept`, newest first. */
  readonly locations: (tenant: string, id: MemoryId) => ReadonlyArray<HistoryLine.RevisionLocation>
  readonly newest: (tenant: string, id: MemoryId) => HistoryLine.RevisionLocation | undefined
  /** Returns the location of the newest revision whose `.md` file is at a path. */
  readonly at: (path: string) => HistoryLine.RevisionLocation | undefined
  /** Returns the location of the newest revision of every record of a tenant. */
  readonly all: (tenant: string) => Iterable<HistoryLine.RevisionLocation>
  readonly tenants: () => ReadonlyArray<string>
  /** Number of records of all tenants, forgotten ones included. */
  readonly records: () => number
  /** Number of purges read or appended since the history was last rewritten, without those of the library's own records. */
  readonly erasures: () => number
  /** Reads a revision. `None` if its line was erased or damaged, or if the file was rewritten. Cost: one read of the line. */
  readonly read: (location: HistoryLine.RevisionLocation) => Io<Option.Option<HistoryLine.WrittenRevision>>
  /** Whether the line of a revision is undamaged and still at its location. Cost: one read of the line. */
  readonly isWhole: (location: HistoryLine.RevisionLocation) => Io<boolean>
  /** Number that increases when a rewrite is noticed, and again when the new file is read. Locations in the old file are then invalid. */
  readonly generation: () => number
  /** Whether the file was rewritten, and is not read again yet. Locations are then invalid until `news` is called. */
  readonly isReplaced: Io<boolean>
  /**
   * Files that other processes wrote or removed, and that this process has not read yet. Each file is mapped to the number of the last
   * batch that changed it. The vault removes a file from the map once the file was read and matches the history.
   */
  readonly unreadFiles: Map<string, number>
  /** Returns the sequence number of the last batch. */
  readonly last: () => number
  /** Returns the pending batches, whose `.md` files may not be on disk yet, oldest first. */
  readonly pending: () => ReadonlyArray<HistoryLine.Batch>
  /** Index of everything read so far, for the snapshot. `None` if a batch is pending or incomplete. Cost: visits all locations. */
  readonly index: Io<Option.Option<HistoryLine.HistoryIndex>>
  /** Returns the number of bytes read so far. */
  readonly size: () => number
  /**
   * Starts from a saved index, if the indexed part of the file is unchanged. The first call of `news` then reads only the rest of the file.
   * An index of an earlier release lacks the times of tombstones (forgotten records). Returns true if such times were read from the file.
   */
  readonly restore: (index: HistoryLine.HistoryIndex) => Io<boolean>
  /**
   * Reads what was appended since the last call, or the whole file if the file was rewritten. `locked` says whether this process has the
   * lock. If not, an incomplete batch at the end is left for the next call.
   */
  readonly news: (locked: boolean) => Io<void>
  /** Appends a batch and syncs the file. Fails with `conflict` if another process appended first. Needs the lock. */
  readonly append: (parts: ReadonlyArray<HistoryLine.Part>) => Io<HistoryLine.Batch>
  /** Rolls back a batch in the history, but leaves its files. Does nothing if the batch is not pending. Needs the lock. */
  readonly undo: (batch: HistoryLine.Batch) => Io<void>
  /** Reads new lines. Rolls back failed appends of this process and incomplete batches of dead processes. Needs the lock. */
  readonly rollBackFailed: Io<void>
  /** Whether there is a failed append that was not rolled back yet. */
  readonly hasFailedAppend: () => boolean
  /** Appends a checkpoint: a line which states that the `.md` files of all batches so far are on disk. */
  readonly checkpoint: Io<void>
  /** Returns all lines of these records (see `RevisionIndex.linesOf`). `known`: default, their lines in the index. Reads the whole file. */
  readonly linesOf: (records: RevisionIndex.Purged, known?: RevisionIndex.Lines) => Io<RevisionIndex.Lines>
  /** Overwrites lines in place; `lost` if the generation is not `since`. The `.md` files of a batch of several lines must be on disk. */
  readonly erase: (locations: ReadonlyArray<HistoryLine.RevisionLocation>, since: number) => Io<void>
  /** Whether `erase` has overwritten the whole line. */
  readonly isErased: (location: HistoryLine.RevisionLocation) => Io<boolean>
  /** Replaces the whole history by these revisions. Those of one record must be in order, oldest first. Needs the lock. */
  readonly renew: (parts: ReadonlyArray<HistoryLine.Part>) => Io<void>
  /** Rewrites the file without useless lines, if these are at least half of it and 1 MiB, and no batch is pending. Needs the lock. */
  readonly compact: Io<void>
}

const file = `${hidden}/history`
/** Total size of erased and outdated lines, in bytes, at which the file is rewritten. They must also be at least half of the file. */
const tolerated = 1_048_576

/** Makes the history of a vault. Reads nothing until `news` or `restore` is called. */
export const make = (fs: VaultFileSystem): History => {
  let ino: number | undefined
  let [generation, epoch] = [0, 0]
  let isPartial = false // whether the file was rewritten, and the new file is not read yet
  let [end, torn] = [0, 0] // bytes read so far, and bytes of an incomplete line after them
  let [batch, lastCheckpoint, dead] = [0, 0, 0]
  let revisions = RevisionIndex.make()
  const unreadFiles = new Map<string, number>()
  let isTorn = false // whether a failed append may have left some of its lines in the file
  const queue = EventLoop.makeSerialQueue()
  /** Runs one reader or writer of the file at a time, uninterruptibly. Each continues where the previous one stopped. */
  const serialized = <A>(self: Io<A>): Io<A> => Effect.uninterruptible(queue(self))
  let pending: Array<HistoryLine.Batch> = []
  /**
   * Batches to roll back, by offset. An incomplete batch of a dead process has only its number. A batch that this process failed to append
   * also has its lines (`bytes`) and the checksum of its first line. Both show whether another process later wrote at the same offset.
   */
  const failed = new Map<number, { readonly number: number; readonly checksum?: string; readonly bytes?: Uint8Array }>()
  /** Adds a batch to the index. Also adds it to `pending`, unless its `.md` files are on disk (`isSynced`). */
  const addBatch = (number: number, parts: ReadonlyArray<HistoryLine.Parsed>, { isOurs = false, isSynced = false }) => {
    const [now, erased] = [generation + Number(isPartial), revisions.add(parts)]
    const made: HistoryLine.Batch = { number, generation: now, locations: parts, erased, isOurs }
    batch = Math.max(batch, number)
    if (!isSynced) pending.push(made)
    return made
  }
  const removeBatch = (number: number, offset?: number) => {
    const isMeant = (one: HistoryLine.Batch) =>
      one.number === number && (offset === undefined || one.locations.some((location) => location.offset === offset))
    for (const location of pending.filter(isMeant).flatMap((one) => one.locations)) {
      revisions.remove(location)
      dead += location.length
    }
    pending = pending.filter((one) => !isMeant(one))
  }
  const markCheckpointed = (number: number) => {
    lastCheckpoint = Math.max(lastCheckpoint, number)
    batch = Math.max(batch, number)
    pending = pending.filter((one) => one.number > number)
  }
  const clear = () => {
    generation++
    isPartial = true
    ino = undefined
    ;[epoch, end, torn, batch, lastCheckpoint, dead] = [0, 0, 0, 0, 0, 0]
    failed.clear()
    revisions = RevisionIndex.make()
    pending = []
  }

  /** Parses lines from offset `end` on. Applies complete batches. Also applies readable parts of a batch whose `.md` files are on disk. */
  const parse = (bytes: Uint8Array, locked: boolean): Io<void> =>
    Effect.gen(function*() {
      const { at, checkpoint, lines, newest, undone } = yield* HistoryLine.linesIn(bytes, end)
      if (epoch > 0 && newest > epoch) { // the file was rewritten, but happens to have the same inode as before
        const same = ino
        clear()
        ino = same
        return yield* Effect.flatMap(fs.bytesFrom(file, 0), (all) => parse(all, locked))
      }
      torn = bytes.length - at
      end += at
      const known = Math.max(lastCheckpoint, checkpoint)
      let open: Array<HistoryLine.Parsed> = []
      /** Ends the current batch. It counts if it is complete or if its `.md` files are on disk, unless it was or will be rolled back. */
      const close = () => {
        const [first] = open
        if (first !== undefined) {
          const isSynced = first.batch <= known
          const isWhole = open.length === first.parts || isSynced
          if (!isWhole && locked) failed.set(first.offset, { number: first.batch })
          if (isWhole && !failed.has(first.offset) && undone.get(first.offset) !== first.batch) {
            const batch = addBatch(first.batch, open.filter(({ isBlank }) => !isBlank), { isSynced })
            dead += open.reduce((sum, { isBlank, length }) => isBlank ? sum + length : sum, 0)
            for (const file of RevisionIndex.filesOf(batch.locations)) unreadFiles.set(file, batch.number)
          } else dead += open.reduce((sum, { length }) => sum + length, 0)
        }
        open = []
      }
      const read = ({ line, meta, offset, times }: HistoryLine.Line): void => {
        const length = line.length + 1
        const ours = failed.get(offset)?.checksum
        if (ours !== undefined && HistoryLine.checksumOf(line) !== ours) failed.delete(offset)
        const isAtOffset = meta !== undefined && (meta.offset ?? offset) === offset
        if (isAtOffset && epoch === 0) epoch = meta.epoch
        const isCurrent = isAtOffset && meta.epoch === epoch
        if (!isCurrent || meta.batch === undefined) {
          if (isCurrent && meta.landed !== undefined) markCheckpointed(meta.landed)
          if (isCurrent && meta.undone !== undefined) {
            close()
            removeBatch(meta.undone, meta.at)
            if (meta.at !== undefined) failed.delete(meta.at)
          }
          dead += length
          return
        }
        const part = HistoryLine.parsedLine(meta, offset, length, times)
        if (part.batch !== open[0]?.batch || part.part <= (open.at(-1)?.part ?? -1)) close()
        open.push(part)
        if (part.part === part.parts - 1) close()
      }
      yield* EventLoop.forEach(lines, 512, read)
      if (open.length > 0 && !locked) {
        end = open[0]!.offset // another process may still be writing the rest of the batch
        torn = 0
      } else close()
    })

  const news: History["news"] = (locked) =>
    Effect.flatMap(fs.stat(file), (stat) => {
      if (Option.isNone(stat)) return ino === undefined ? Effect.void : Effect.sync(clear)
      if (ino !== stat.value.ino || stat.value.size < end) {
        clear()
        ino = stat.value.ino
      } else if (stat.value.size === end) return Effect.void
      return Effect.flatMap(fs.bytesFrom(file, end), (bytes) => parse(bytes, locked))
    }).pipe(Effect.map(() => void ([generation, isPartial] = [generation + Number(isPartial), false])))

  /** Appends the lines that `make` returns for an offset. Checks that the lines are in the file. Returns the offset. */
  const appendAt = (make: (offset: number) => ReadonlyArray<Uint8Array>, force: boolean): Io<number> =>
    Effect.gen(function*() {
      const from = end + torn
      const start = from + (torn > 0 ? 1 : 0)
      const lines = make(start)
      const bytes = HistoryLine.concat(torn > 0 ? [Uint8Array.of(10), ...lines] : lines)
      isTorn = true
      yield* fs.append(file, bytes, { force })
      const stat = yield* fs.stat(file)
      const isSame = Option.exists(stat, (now) => now.ino === ino)
      const isOurs = isSame && (Option.exists(stat, ({ size }) => size === from + bytes.length) ||
        HistoryLine.commonPrefixLength(bytes, yield* fs.bytesFrom(file, from, bytes.length)) === bytes.length)
      if (!isOurs) return yield* lost
      end = from + bytes.length
      torn = 0
      isTorn = false
      return start
    })
  /** Rolls back a batch at offset `at`. Appends a line that says so. On a full disk, blanks the batch's `length` bytes instead. */
  const undo = (number: number, at: number, length: number): Io<void> =>
    appendAt((offset) => [HistoryLine.print({ epoch, offset, undone: number, at })], true).pipe(
      Effect.asVoid,
      Effect.catchIf((error) => length > 0 && isFull(error), () =>
        Effect.gen(function*() {
          const blank = HistoryLine.blanked(yield* fs.bytesFrom(file, at, length))
          if (!(yield* fs.overwrite(file, at, blank, ino))) return yield* lost
        })),
      Effect.map(() => removeBatch(number, at))
    )
  /** Rolls back the batches in `failed`, since the file may contain lines of these batches. */
  const rollBackFailed: Io<void> = Effect.gen(function*() {
    yield* news(true)
    isTorn = false
    for (const [offset, { bytes, number }] of failed) {
      // the length of the part of the batch that is in the file; lines of another process may follow this part
      const length = bytes === undefined
        ? 0
        : HistoryLine.commonPrefixLength(bytes, yield* fs.bytesFrom(file, offset, bytes.length))
      yield* undo(number, offset, length)
      failed.delete(offset)
    }
  })
  const rollBackIfFailed: Io<void> = Effect.suspend(() => isTorn || failed.size > 0 ? rollBackFailed : Effect.void)
  /** Fails if the file has changed since it was read. Another process has then written, after that process or this one lost the lock. */
  const failIfChanged: Io<void> = Effect.flatMap(fs.stat(file), (stat) => {
    const now = Option.getOrUndefined(stat)
    return now?.ino === ino && (now === undefined || now.size === end + torn) ? Effect.void : lost
  })
  /** Rewrites the file: a head line, then the lines of the values in `all`. Each call of `make` returns the lines of a few values. */
  const rewrite = <A>(
    all: ReadonlyArray<A>,
    make: (some: ReadonlyArray<A>, epoch: number) => ReadonlyArray<Uint8Array>
  ) =>
    Effect.gen(function*() {
      const next = epoch + 1
      const head = HistoryLine.print({ epoch: next, offset: 0, landed: batch }) // `landed` lets the batch numbers continue
      const bytes = yield* HistoryLine.printFile(head, all, (some) => make(some, next))
      yield* fs.write(file, bytes, { isFenced: true, guard: failIfChanged })
      const known = new Set(unreadFiles.keys()) // reading the rewritten lines must not add unread files
      clear()
      yield* news(true)
      for (const path of unreadFiles.keys()) if (!known.has(path)) unreadFiles.delete(path)
    })

  const lineOf = (location: HistoryLine.RevisionLocation) =>
    Effect.map(fs.bytesFrom(file, location.offset, location.length), (bytes) => bytes.subarray(0, location.length - 1))
  const read: History["read"] = (location) => Effect.map(lineOf(location), (line) => HistoryLine.read(line, location))

  const append: History["append"] = (parts) =>
    serialized(Effect.flatMap(rollBackIfFailed, () => {
      const number = batch + 1
      let made: ReturnType<typeof HistoryLine.batch> | undefined
      const appended = appendAt((offset) => {
        made = HistoryLine.batch(parts, epoch, number, offset)
        return made.lines
      }, true)
      const noted = (error: MemoryError.MemoryError) => {
        const [line] = made?.lines ?? []
        if (isLost(error) || made === undefined || line === undefined) return Effect.void
        batch = number // lines with this number may be in the file, so the number must not be used again
        failed.set(HistoryLine.spanOf(made.parsed).offset, {
          number,
          bytes: HistoryLine.concat(made.lines),
          checksum: HistoryLine.checksumOf(line)
        })
        return Effect.option(rollBackFailed)
      }
      return Effect.map(Effect.tapError(appended, noted), () => addBatch(number, made?.parsed ?? [], { isOurs: true }))
    }))

  const isWasteful = () => {
    const waste = dead + revisions.dead()
    return pending.length === 0 && waste >= Math.max(tolerated, end - waste)
  }
  const compacted = serialized(Effect.gen(function*() {
    if (!isWasteful()) return // checked again, since another process may have rewritten the file meanwhile
    const kept = yield* RevisionIndex.liveLines(
      yield* fs.bytesFrom(file, 0),
      yield* EventLoop.paced(() => revisions.all(), 2_048)
    )
    yield* rewrite(kept, HistoryLine.reprint)
  }))

  return {
    isThere: () => ino !== undefined && epoch > 0,
    locations: (tenant, id) => revisions.of(tenant, id),
    newest: (tenant, id) => revisions.of(tenant, id)[0],
    at: (path) => revisions.at(path),
    all: (tenant) => revisions.newest(tenant),
    tenants: () => revisions.tenants(),
    records: () => revisions.records(),
    erasures: () => revisions.erasures(),
    read,
    isWhole: (location) => Effect.map(lineOf(location), (line) => HistoryLine.isOf(line, location)),
    generation: () => generation,
    isReplaced: Effect.map(
      Effect.suspend(() => fs.stat(file)),
      (now) => isPartial || Option.getOrUndefined(now)?.ino !== ino
    ),
    last: () => batch,
    size: () => end,
    index: serialized(Effect.gen(function*() {
      if (pending.length > 0 || torn > 0 || failed.size > 0 || epoch === 0) return Option.none()
      const all = yield* EventLoop.paced(() => revisions.all(), 2_048)
      const hash = yield* HistoryLine.hashOf(fs, file, end)
      const stat = Option.filter(yield* fs.stat(file), (stat) => stat.ino === ino) // `None` if the file was replaced meanwhile
      return Option.as(stat, { epoch, end, batch, dead: dead + revisions.dead(), locations: all, hash })
    })),
    restore: (index) =>
      serialized(Effect.gen(function*() {
        const stat = yield* fs.stat(file)
        if (Option.isNone(stat) || stat.value.size < index.end) return false
        if ((yield* HistoryLine.hashOf(fs, file, index.end)) !== index.hash) return false
        ino = stat.value.ino
        ;({ batch, dead, end, epoch } = index)
        lastCheckpoint = batch
        const timed = yield* RevisionIndex.withTimes(read, index.locations)
        yield* EventLoop.forEach(index.locations, 1_024, (one) => revisions.addEarlier(timed.get(one) ?? one))
        return timed.size > 0
      })),
    pending: () => pending,
    unreadFiles,
    news: (locked) => serialized(news(locked)),
    append,
    undo: (made) =>
      serialized(Effect.zipRight(
        rollBackIfFailed,
        // a batch that is not pending is not undone: the file was rewritten, or the batch's `.md` files are on disk
        Effect.suspend(() => {
          const { length, offset } = HistoryLine.spanOf(made.locations)
          return length > 0 && pending.includes(made) ? undo(made.number, offset, length) : Effect.void
        })
      )),
    rollBackFailed: serialized(rollBackFailed),
    hasFailedAppend: () => isTorn || failed.size > 0,
    checkpoint: serialized(Effect.gen(function*() {
      yield* rollBackIfFailed // the checkpoint must not cover a batch whose append failed
      if (pending.length === 0) return
      yield* appendAt((offset) => [HistoryLine.print({ epoch, offset, landed: batch })], false)
      markCheckpointed(batch)
    })),
    linesOf: (records, known = records.flatMap(({ id, tenant }) => revisions.of(tenant, id))) =>
      Effect.flatMap(fs.bytesFrom(file, 0), (bytes) => RevisionIndex.linesOf(bytes, records, known)),
    isErased: (location) => Effect.map(lineOf(location), (line) => HistoryLine.metaOf(line)?.state === "blank"),
    erase: (erased, since) =>
      serialized(Effect.gen(function*() {
        if (generation !== since) return yield* lost
        for (const location of erased) {
          const { batch, isKept, length, offset, part, parts } = location
          const meta = { epoch, ...(!isKept && { offset }), batch, part, parts }
          if (!(yield* fs.overwrite(file, offset, HistoryLine.blank(meta, length), ino))) return yield* lost
          revisions.remove(location)
        }
      })),
    renew: (parts) => serialized(rewrite(parts, (some, epoch) => HistoryLine.batch(some, epoch, 0, undefined).lines)),
    compact: Effect.suspend(() => isWasteful() ? compacted : Effect.void)
  }
}
