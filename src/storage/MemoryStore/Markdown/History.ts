/**
 * The history of a vault: every revision of every record, in one file that only grows. A revision is appended here and
 * forced to disk before its `.md` is written, so the history is the truth and the `.md` files are its view.
 * A line names the byte at which it stands. A writer that lost the lock and appends late finds other lines there already, so
 * its line stands elsewhere, and no reader takes it. Lines that a compaction wrote with the head name no byte. Every line
 * names the epoch of its file; the first that can be read tells it, so a damaged head loses nothing.
 *
 * Laws: a batch counts when all its parts are there, at their places, and none otherwise. Landed batches are on disk as
 * `.md` files; the others are rolled forward by whoever holds the lock next. Erased lines are overwritten in place.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as MemoryError from "../../../domain/MemoryError.ts"
import type { MemoryId } from "../../../domain/MemoryId.ts"
import * as EventLoop from "../../../host/EventLoop.ts"
import * as HistoryLine from "./HistoryLine.ts"
import { hidden } from "./Layout.ts"
import { isLost, lost } from "./Lock.ts"
import * as Places from "./Places.ts"
import { isFull, type VaultFileSystem } from "./VaultFileSystem.ts"

/** Parts of a history. */
export type { Batch, Part, Place, View, WrittenRevision } from "./HistoryLine.ts"

type Io<A> = Effect.Effect<A, MemoryError.MemoryError>

/** The history of a vault, as far as this process has read it. */
export interface History {
  /** Whether there is a history at all: a new vault has none, nor has one whose hidden folder was lost. */
  readonly isThere: () => boolean
  /** Revisions of a record, newest first, at most `revisionsKept`. */
  readonly places: (tenant: string, id: MemoryId) => ReadonlyArray<HistoryLine.Place>
  readonly newest: (tenant: string, id: MemoryId) => HistoryLine.Place | undefined
  /** The newest revision whose file stands at the path. */
  readonly at: (path: string) => HistoryLine.Place | undefined
  /** The newest revision of every record of the tenant. */
  readonly all: (tenant: string) => Iterable<HistoryLine.Place>
  readonly tenants: () => ReadonlyArray<string>
  /** Number of records of all tenants, forgotten ones among them. */
  readonly records: () => number
  /** `None` where the line was erased or damaged, or the file was written anew since. Cost: one read of the line. */
  readonly read: (place: HistoryLine.Place) => Io<Option.Option<HistoryLine.WrittenRevision>>
  /** Whether the line is there and undamaged. Cost: one read of the line. */
  readonly isWhole: (place: HistoryLine.Place) => Io<boolean>
  /** Raised where the file was found written anew, and once it is read. A place from before says nothing of the file as it is. */
  readonly generation: () => number
  /** Whether the file was written anew and is not read to its end since, so that places are of no use until `news`. */
  readonly isReplaced: Io<boolean>
  /**
   * Files that batches of other processes touched, each with the number of the last such batch. The vault takes out what it
   * has seen as the history has it.
   */
  readonly awaited: Map<string, number>
  /** Number of the last batch. */
  readonly last: () => number
  /** Batches that are not known to have landed, oldest first. */
  readonly unlanded: () => ReadonlyArray<HistoryLine.Batch>
  /** Index of all that was read; `None` while a batch has not landed. Cost: a read of 8 KiB, and one pass over the places. */
  readonly index: Io<Option.Option<HistoryLine.HistoryIndex>>
  /** Bytes read so far. */
  readonly size: () => number
  /**
   * Takes up an index before the first `news`, unless the file no longer begins with what was read. Returns whether it had to read
   * of the file what the index of an earlier release lacks.
   */
  readonly restore: (index: HistoryLine.HistoryIndex) => Io<boolean>
  /**
   * Reads what was appended since the last call, and all of a file that was replaced. Without the lock a batch that is half
   * there is left for the next call.
   */
  readonly news: (locked: boolean) => Io<void>
  /** Appends a batch and forces it to disk. `conflict` where another writer was first. For the holder of the lock. */
  readonly append: (parts: ReadonlyArray<HistoryLine.Part>) => Io<HistoryLine.Batch>
  /** Takes back a batch whose files could not be written. */
  readonly undo: (batch: HistoryLine.Batch) => Io<void>
  /** Reads what is there, and takes back the batches that failed, as nobody else does. For the holder of the lock. */
  readonly settle: Io<void>
  /** Whether an append failed, and what it left was not taken back yet. */
  readonly isUnsettled: () => boolean
  /** Says that the files of every batch so far are forced to disk. */
  readonly land: Io<void>
  /** Overwrites these lines, in place. Each must have landed, or be the only part of its batch. */
  readonly erase: (places: ReadonlyArray<HistoryLine.Place>) => Io<void>
  /** Begins anew with these revisions, each with its file as it is; oldest of a record first. For the holder of the lock. */
  readonly renew: (parts: ReadonlyArray<HistoryLine.Part>) => Io<void>
  /** Rewrites the file without what is erased or no longer kept, where that is most of it. For the holder of the lock. */
  readonly compact: Io<void>
}

const file = `${hidden}/history`
/** Dead bytes that are worth a rewrite: at least these, and more than the living ones. */
const tolerated = 1_048_576

/** Makes the history of a folder; `news` reads it. */
export const make = (fs: VaultFileSystem): History => {
  let ino: number | undefined
  let generation = 0
  let isPartial = false // the file was written anew, and is not read yet
  let epoch = 0
  let [end, torn] = [0, 0] // bytes read so far, and bytes of half a line that follow
  let [batch, landed, dead] = [0, 0, 0]
  let places = Places.make()
  const awaited = new Map<string, number>()
  let isTorn = false // an append failed, and a part of it may be there
  const inLine = EventLoop.makeSerialQueue()
  /** One reader or writer of the file at a time: each goes on where the one before ended, and none ends on the way. */
  const one = <A>(self: Io<A>): Io<A> => Effect.uninterruptible(inLine(self))
  let pending: Array<HistoryLine.Batch> = []
  /**
   * Batches to be taken back, by offset: those of ours whose append failed, with their bytes and the checksum of their first
   * line, since another's may stand there; and those of which a dead writer wrote a part.
   */
  const failed = new Map<number, { readonly number: number; readonly checksum?: string; readonly bytes?: Uint8Array }>()

  /** The parts of a batch take effect together. */
  const take = (number: number, parts: ReadonlyArray<HistoryLine.Parsed>, isLanded: boolean): HistoryLine.Batch => {
    const litter = places.take(parts)
    const made = { number, places: parts, litter }
    batch = Math.max(batch, number)
    if (!isLanded) pending.push(made)
    return made
  }
  const drop = (number: number, offset?: number) => {
    const isMeant = (one: HistoryLine.Batch) =>
      one.number === number && (offset === undefined || one.places.some((place) => place.offset === offset))
    for (const place of pending.filter(isMeant).flatMap((one) => one.places)) {
      places.remove(place)
      dead += place.length
    }
    pending = pending.filter((one) => !isMeant(one))
  }
  const land = (number: number) => {
    landed = Math.max(landed, number)
    batch = Math.max(batch, number)
    pending = pending.filter((one) => one.number > number)
  }
  const clear = () => {
    generation++
    isPartial = true
    ino = undefined
    ;[epoch, end, torn, batch, landed, dead] = [0, 0, 0, 0, 0, 0]
    failed.clear()
    places = Places.make()
    pending = []
  }

  /**
   * Reads the lines of `bytes`, which begin at `end`. Takes the batches that count: whole ones, and of those that landed
   * the parts that can still be read.
   */
  const parse = (bytes: Uint8Array, locked: boolean): Io<void> =>
    Effect.gen(function*() {
      const { at, landed: told, lines, newest, undone } = yield* HistoryLine.linesIn(bytes, end)
      if (epoch > 0 && newest > epoch) { // a file that was written anew got the inode of the one that was read
        const same = ino
        clear()
        ino = same
        return yield* Effect.flatMap(fs.bytesFrom(file, 0), (all) => parse(all, locked))
      }
      torn = bytes.length - at
      end += at
      const known = Math.max(landed, told)
      let open: Array<HistoryLine.Parsed> = []
      /** Ends the batch that is open: it counts if it is whole or has landed. */
      const close = () => {
        const [first] = open
        if (first !== undefined) {
          const isLanded = first.batch <= known
          const isWhole = open.length === first.parts || isLanded
          if (!isWhole && locked) failed.set(first.offset, { number: first.batch })
          if (isWhole && !failed.has(first.offset) && undone.get(first.offset) !== first.batch) {
            const batch = take(first.batch, open.filter(({ isBlank }) => !isBlank), isLanded)
            dead += open.reduce((sum, { isBlank, length }) => isBlank ? sum + length : sum, 0)
            for (const { gone, path } of batch.places) {
              for (const file of path === null ? gone : [path, ...gone]) awaited.set(file, batch.number)
            }
          } else dead += open.reduce((sum, { length }) => sum + length, 0)
        }
        open = []
      }
      const read = ({ line, meta, offset, times }: HistoryLine.Line): void => {
        const length = line.length + 1
        const ours = failed.get(offset)?.checksum
        if (ours !== undefined && HistoryLine.checksumOf(line) !== ours) failed.delete(offset)
        const stands = meta !== undefined && (meta.offset ?? offset) === offset
        if (stands && epoch === 0) epoch = meta.epoch
        const isPlaced = stands && meta.epoch === epoch
        if (!isPlaced || meta.batch === undefined) {
          if (isPlaced && meta.landed !== undefined) land(meta.landed)
          if (isPlaced && meta.undone !== undefined) {
            close()
            drop(meta.undone, meta.at)
            if (meta.at !== undefined) failed.delete(meta.at)
          }
          dead += length
          return
        }
        const part = HistoryLine.placeOf(meta, offset, length, times)
        if (part.batch !== open[0]?.batch || part.part <= (open.at(-1)?.part ?? -1)) close()
        open.push(part)
        if (part.part === part.parts - 1) close()
      }
      yield* EventLoop.forEach(lines, 512, read)
      if (open.length > 0 && !locked) {
        end = open[0]!.offset // the rest of it may be on its way
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
    }).pipe(Effect.map(() => void ([generation, isPartial] = [generation + Number(isPartial), false]))) // a reader that came meanwhile reads again

  /** Appends lines that name their places, and makes sure that they stand there. */
  const appendAt = (make: (offset: number) => ReadonlyArray<Uint8Array>, force: boolean): Io<number> =>
    Effect.gen(function*() {
      const from = end + torn
      const start = from + (torn > 0 ? 1 : 0)
      const lines = make(start)
      const bytes = HistoryLine.joined(torn > 0 ? [Uint8Array.of(10), ...lines] : lines)
      isTorn = true
      yield* fs.append(file, bytes, { force })
      const stat = yield* fs.stat(file)
      const isSame = Option.exists(stat, (now) => now.ino === ino)
      const isOurs = isSame && (Option.exists(stat, ({ size }) => size === from + bytes.length) ||
        HistoryLine.common(bytes, yield* fs.bytesFrom(file, from, bytes.length)) === bytes.length)
      if (!isOurs) return yield* lost
      end = from + bytes.length
      torn = 0
      isTorn = false
      return start
    })

  /** Takes back a batch of ours that stands at `at`, of `length` bytes. A disk without room for a line has its lines blanked in place. */
  const undo = (number: number, at: number, length: number): Io<void> =>
    appendAt((offset) => [HistoryLine.print({ epoch, offset, undone: number, at })], true).pipe(
      Effect.asVoid,
      Effect.catchIf((error) => length > 0 && isFull(error), () =>
        Effect.gen(function*() {
          const blank = HistoryLine.blanked(yield* fs.bytesFrom(file, at, length))
          if (!(yield* fs.overwrite(file, at, blank, ino))) return yield* lost
        })),
      Effect.map(() => drop(number, at))
    )
  /** Takes back the batches whose append failed, since their lines may be there all the same. */
  const settle: Io<void> = Effect.gen(function*() {
    yield* news(true)
    isTorn = false
    for (const [offset, { bytes, number }] of failed) {
      // another writer may stand after what is there of ours
      const length = bytes === undefined
        ? 0
        : HistoryLine.common(bytes, yield* fs.bytesFrom(file, offset, bytes.length))
      yield* undo(number, offset, length)
      failed.delete(offset)
    }
  })
  /** The same, where an append failed. */
  const settled: Io<void> = Effect.suspend(() => isTorn || failed.size > 0 ? settle : Effect.void)

  /** Fails where the file is not as it was read: a writer that lost the lock, and woke late, has appended to it. */
  const unwritten: Io<void> = Effect.flatMap(fs.stat(file), (stat) => {
    const now = Option.getOrUndefined(stat)
    return now?.ino === ino && (now === undefined || now.size === end + torn) ? Effect.void : lost
  })
  /** Writes the file whole: the head, and the lines that are made of these, some at a time. */
  const rewrite = <A>(
    all: ReadonlyArray<A>,
    make: (some: ReadonlyArray<A>, epoch: number) => ReadonlyArray<Uint8Array>
  ) =>
    Effect.gen(function*() {
      const next = epoch + 1
      const head = HistoryLine.print({ epoch: next, offset: 0, landed: batch }) // batches go on counting
      const bytes = yield* HistoryLine.printed(head, all, (some) => make(some, next))
      yield* fs.write(file, bytes, { isFenced: true, guard: unwritten })
      clear()
      yield* news(true)
    })

  const lineOf = (place: HistoryLine.Place) =>
    Effect.map(fs.bytesFrom(file, place.offset, place.length), (bytes) => bytes.subarray(0, place.length - 1))
  const read: History["read"] = (place) => Effect.map(lineOf(place), (line) => HistoryLine.read(line, place))

  const append: History["append"] = (parts) =>
    one(Effect.flatMap(settled, () => {
      const number = batch + 1
      let made: ReturnType<typeof HistoryLine.batch> | undefined
      const appended = appendAt((offset) => {
        made = HistoryLine.batch(parts, epoch, number, offset)
        return made.lines
      }, true)
      const noted = (error: MemoryError.MemoryError) => {
        const [line] = made?.lines ?? []
        if (isLost(error) || made === undefined || line === undefined) return Effect.void
        batch = number // the line may be there, and then its number is used
        failed.set(HistoryLine.spanOf(made.placed).offset, {
          number,
          bytes: HistoryLine.joined(made.lines),
          checksum: HistoryLine.checksumOf(line)
        })
        return Effect.option(settle)
      }
      return Effect.map(Effect.tapError(appended, noted), () => take(number, made?.placed ?? [], false))
    }))

  const isWasteful = () => {
    const waste = dead + places.dead()
    return pending.length === 0 && waste >= Math.max(tolerated, end - waste)
  }
  const compacted = one(Effect.gen(function*() {
    if (!isWasteful()) return // a reader that came before may have found another file
    const kept = yield* HistoryLine.living(yield* fs.bytesFrom(file, 0), places.all())
    yield* rewrite(
      kept,
      (some, next) =>
        some.map(([{ offset: _, ...meta }, row]) =>
          HistoryLine.print({ ...meta, epoch: next, batch: 0, part: 0, parts: 1 }, row)
        )
    )
  }))

  return {
    isThere: () => ino !== undefined && epoch > 0,
    places: (tenant, id) => places.of(tenant, id),
    newest: (tenant, id) => places.of(tenant, id)[0],
    at: (path) => places.at(path),
    all: (tenant) => places.newest(tenant),
    tenants: () => places.tenants(),
    records: () => places.records(),
    read,
    isWhole: (place) => Effect.map(lineOf(place), (line) => HistoryLine.isOf(line, place)),
    generation: () => generation,
    isReplaced: Effect.map(
      Effect.suspend(() => fs.stat(file)),
      (now) => isPartial || Option.getOrUndefined(now)?.ino !== ino
    ),
    last: () => batch,
    size: () => end,
    index: one(Effect.gen(function*() {
      if (pending.length > 0 || torn > 0 || failed.size > 0 || epoch === 0) return Option.none()
      const index = { epoch, end, batch, dead: dead + places.dead(), places: places.all() }
      const hash = yield* HistoryLine.hashOf(fs, file, end)
      // a file that was replaced meanwhile is not the one that was read
      return Option.map(
        Option.filter(yield* fs.stat(file), (stat) => stat.ino === ino),
        () => ({ ...index, hash })
      )
    })),
    restore: (index) =>
      one(Effect.gen(function*() {
        const stat = yield* fs.stat(file)
        if (Option.isNone(stat) || stat.value.size < index.end) return false
        if ((yield* HistoryLine.hashOf(fs, file, index.end)) !== index.hash) return false
        ino = stat.value.ino
        ;({ batch, dead, end, epoch } = index)
        landed = batch
        const timed = yield* HistoryLine.timed(read, index.places)
        yield* EventLoop.forEach(index.places, 1_024, (place) => places.addEarlier(timed.get(place) ?? place))
        return timed.size > 0
      })),
    unlanded: () => pending,
    awaited,
    news: (locked) => one(news(locked)),
    append,
    undo: (made) =>
      one(Effect.zipRight(
        settled,
        // whoever wrote the file anew, or says that all landed, had written its files
        Effect.suspend(() => {
          const { length, offset } = HistoryLine.spanOf(made.places)
          return length > 0 && pending.includes(made) ? undo(made.number, offset, length) : Effect.void
        })
      )),
    settle: one(settle),
    isUnsettled: () => isTorn || failed.size > 0,
    land: one(Effect.gen(function*() {
      yield* settled // else it would be said to have landed
      if (pending.length === 0) return
      yield* appendAt((offset) => [HistoryLine.print({ epoch, offset, landed: batch })], false)
      land(batch)
    })),
    erase: (erased) =>
      one(Effect.gen(function*() {
        for (const place of erased) {
          const { batch, isKept, length, offset, part, parts } = place
          const meta = { epoch, ...(!isKept && { offset }), batch, part, parts }
          if (!(yield* fs.overwrite(file, offset, HistoryLine.blank(meta, length), ino))) return yield* lost
          places.remove(place)
        }
      })),
    renew: (parts) => one(rewrite(parts, (some, epoch) => HistoryLine.batch(some, epoch, 0, undefined).lines)),
    compact: Effect.suspend(() => isWasteful() ? compacted : Effect.void)
  }
}
