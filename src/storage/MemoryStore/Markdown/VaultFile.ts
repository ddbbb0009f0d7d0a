/**
 * The files of a vault as a scan finds them: how they are listed, how the text of one is read, of ours all of it or none, of a
 * note as much as can be read, what a file was when it was last looked at, and what it will be where the history is ahead.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { sha256 } from "../../../domain/Digest.ts"
import * as MemoryError from "../../../domain/MemoryError.ts"
import type * as MemoryKind from "../../../domain/MemoryKind.ts"
import type { MemoryRecord } from "../../../domain/MemoryRecord.ts"
import * as EventLoop from "../../../host/EventLoop.ts"
import type { Stored } from "../../MemoryStore.ts"
import type { Extra, Frame } from "./Frontmatter.ts"
import type { History, Place } from "./History.ts"
import * as Layout from "./Layout.ts"
import { internal } from "./Layout.ts"
import type { Stat, VaultFileSystem } from "./VaultFileSystem.ts"

/** Settings by which the files of a vault are read and written. */
export interface Context {
  readonly key: string
  readonly kinds: ReadonlyMap<string, MemoryKind.MemoryKind>
  /** Whether any signature counts as ours, so that a record is what its text claims. Default false. */
  readonly isAdopting?: boolean | undefined
  /**
   * The way in which notes that we did not write are read. `whole`: each is a record (`ForeignNote`). Absent: the way of
   * earlier releases, where a field that does not fit makes the file no record, and properties are no metadata.
   */
  readonly notes?: "whole" | undefined
}

/* A file of the vault as it was last looked at: a record, or none. */

/** A file as it was last looked at. */
export interface Seen {
  readonly path: string
  readonly stat: Stat
  /** Whether it was read long enough after it was last changed that its `stat` tells the next change. */
  readonly settled: boolean
}
/** A file that is a record. */
export interface Entry extends Seen {
  readonly _tag: "Entry"
  /** Hash of the text; SHA-256, hex. */
  readonly hash: string
  readonly tenant: string
  readonly signed: boolean
  /** Whether the text has a seal, be it ours or another vault's. Default false. */
  readonly isSealed?: boolean | undefined
  readonly row: Stored
  readonly extra: Extra
  /** Text around the body, where the file is its author's. Absent: the file is in our form. */
  readonly frame?: Frame | undefined
  /** The error for which the file cannot be read; the row is then its last good revision. */
  readonly damage?: MemoryError.MemoryError | undefined
  /** Parts of the text that lost their meaning. Absent: none. */
  readonly issues?: ReadonlyArray<string> | undefined
  /** Whether the file has more than the record, and is not written to. Default false. */
  readonly isPartial?: boolean | undefined
}
/** A file, folder or link that is none. */
export interface Bad extends Seen {
  readonly _tag: "Bad"
  readonly error: MemoryError.MemoryError
}
/** A thing that lies at a path; `undefined`: nothing that is or could be a record. */
export type Found = Entry | Bad | undefined

/** Stands for the times and size of a file that nobody has looked at. */
export const nowhere: Stat = { mtime: -1, size: -1, ino: -1, born: -1 }

/** Bytes of a file that are read: of a note the first so many, of a file of ours none where there are more. */
export const maxBytes = 4_194_304

/** The text of a file, as far as it was read. */
export interface Text {
  readonly text: string
  /** Hash of the text; SHA-256, hex. */
  readonly hash: string
  /** Reasons why the text is not all that the file has, a sentence each. Absent: it is. */
  readonly loss?: ReadonlyArray<string>
}

/** Whether the file is read as a note of somebody else's. */
export const isNote = ({ notes }: Context, path: string): boolean => notes === "whole" && !Layout.parsePath(path).isOurs

/** Reads a file's text; of a note also where it is too long, or no UTF-8. `None` where there is no file. */
export const textOf = (
  fs: VaultFileSystem,
  context: Context,
  path: string,
  size: number
): Effect.Effect<Option.Option<Text>, MemoryError.MemoryError> => {
  if (!isNote(context, path)) return fs.readHashed(path)
  if (size > maxBytes) {
    return Effect.map(fs.readHead(path, maxBytes), Option.map((text) => partly(text, "longer than 4 MiB")))
  }
  return fs.readHashed(path).pipe(
    Effect.map(Option.map((text): Text => text)),
    MemoryError.catchReason(
      "corrupt",
      () => Effect.map(fs.readLoose(path), Option.map((text) => partly(text, "no UTF-8: what is none is \ufffd")))
    )
  )
}

const partly = (text: string, loss: string): Text => ({ text, hash: sha256(text), loss: [loss] })

/* Finds damage in the text of a file that the history knows, signs that no hand would have written it so, and reports it. */

/** Tells the damage of a text; `undefined` where nothing shows any. Legal text with part of it missing is an edit, and no damage. */
export const damageIn = (text: string): string | undefined => {
  if (text === "") return "empty"
  if (/^\0+$/.test(text)) return "nothing but zeros"
  return isInConflict(text) ? "an unresolved conflict: its markers are still there" : undefined
}

/** Whether all three markers of a merge conflict stand in order, each at the beginning of a line and outside of fences. */
const isInConflict = (text: string): boolean => {
  if (!text.includes("<<<<<<< ")) return false
  const markers = [/^<{7} /, /^={7}$/, /^>{7} /]
  let expected = 0
  let fence: string | undefined
  for (const line of text.split(/\r?\n/)) {
    const rule = /^ {0,3}(`{3,}|~{3,})/.exec(line)?.[1]
    if (fence === undefined && rule) fence = rule
    else if (fence !== undefined) {
      if (rule?.startsWith(fence) && line.trim() === rule) fence = undefined
    } else if (markers[expected]!.test(line) && ++expected === markers.length) return true // three markers, so never beyond
  }
  return false
}

/** Longest message of an issue, in UTF-16 units. A file's name and a Schema's complaints may be of any length. */
const maxMessage = 300

/** Makes the `corrupt` error of a file that is no record, or not as it was written. */
export const corrupt = (location: string, message: string): MemoryError.MemoryError => {
  const whole = `${Layout.shown(location)}: ${message}`
  const told = whole.length > maxMessage ? `${whole.slice(0, maxMessage - 1).toWellFormed()}…` : whole
  return MemoryError.make("corrupt", { op: "read", message: told, detail: { location } })
}

/** The issue of a vault that was opened without its hidden folder, with so many records of another key. */
export const unsealed = (records: number) => ({
  path: Layout.hidden,
  error: MemoryError.make("corrupt", {
    op: "open",
    message: `opened without ${Layout.hidden}: ${records} records have origin file and trust 2, and no history; ` +
      "Vault.adopt seals them again",
    detail: { location: Layout.hidden }
  })
})

/*
 * Every file of the folder that can be a record. A link is named, and not followed; what begins with a dot is hidden, but
 * for the rows of the library.
 */

const concurrency = 32

/** Lists the paths of those files. `unreadable` returns what is to be taken for the files of a folder that cannot be read now. */
export const listFiles = (
  fs: VaultFileSystem,
  unreadable: (folder: string, error: MemoryError.MemoryError) => ReadonlyArray<string>
): Effect.Effect<ReadonlyArray<string>, MemoryError.MemoryError> => {
  const within = (folder: string): Effect.Effect<ReadonlyArray<string>, MemoryError.MemoryError> =>
    Effect.flatMap(fs.list(folder), (names) => {
      const paths = names.filter((name) => !name.startsWith(".")).map((name) =>
        folder === "" ? name : `${folder}/${name}`
      )
      const notes = paths.filter((path) => path.endsWith(".md"))
      const others = paths.filter((path) => !path.endsWith(".md")) // a fiber for each, and none for a note
      return Effect.map(Effect.forEach(others, below, { concurrency }), (all) => {
        for (const some of all) for (const path of some) notes.push(path) // `flat` takes ten times as long
        return notes
      })
    })
  const below = (path: string): Effect.Effect<ReadonlyArray<string>> =>
    Effect.gen(function*() {
      const stat = yield* fs.stat(path)
      if (Option.isNone(stat) || stat.value.type !== "Directory") return []
      return (yield* fs.isLink(path)) ? [path] : yield* within(path)
    }).pipe(Effect.catchAll((error) => Effect.sync(() => unreadable(path, error))))

  return Effect.zipWith(within(""), below(internal), (records, rows) => records.concat(rows))
}

/*
 * A rotating sample of files whose size and times say that they are as they were. A scan of the vault reads these all the
 * same, since a bit that rots, and a tool that restores the time of a file it changed, leave size and times alone.
 */

/** Draws the samples of the scans, one after the other. */
export interface Sampling {
  /** The next sample of these paths, which come in the same order each time. Cost: the paths of the sample. */
  readonly next: (paths: ReadonlyArray<string>, now: number) => ReadonlySet<string>
}

/** Number of scans after which every file was read once, in a vault of as many files or more; else of so many files. */
export const rounds = 100
/** Files of a sample at most: a vault of more than 1,600 files takes longer to be read once, and no longer to be looked at. */
const maxSample = 16

/** Makes a sampling that begins anywhere, by the clock: processes that take one scan each do not all read the same files. */
export const makeSampling = (): Sampling => {
  let at: number | undefined
  return {
    next(paths, now) {
      const count = Math.min(maxSample, Math.ceil(paths.length / rounds))
      if (count === 0) return new Set()
      at = (at ?? now % Math.ceil(paths.length / count) * count) % paths.length
      const sample = new Set([
        ...paths.slice(at, at + count),
        ...paths.slice(0, Math.max(0, at + count - paths.length))
      ])
      at += count
      return sample
    }
  }
}

/*
 * Completes a scan of the files where the history is ahead of them. A writer appends a batch to the history and then writes
 * its files one after the other; a scan between the two would find half of the batch. What a scan found is therefore held
 * against the history, read after the files: a file that is as it was before a batch counts as the batch has it.
 *
 * A file counts so until it was found as the batch has it, or whoever takes the lock next has rolled the batch forward.
 */

type Io<A> = Effect.Effect<A, MemoryError.MemoryError>

/** The findings of a scan, to be completed. */
export interface PendingScan {
  /** Whether nobody reads or writes yet, so that it may be completed with pauses. */
  readonly isFirst: boolean
  /** The files that it found changed, or did not find. */
  readonly found: Map<string, Found>
  /** A file as it was known before. */
  readonly known: (path: string) => Found
  /** Told of each file that is now as the history says: what other scans found earlier does not count. */
  readonly confirm: (path: string) => void
}

/** Completes scans, and knows the files that the history is ahead of. */
export interface Ahead {
  /**
   * Begins a scan. What it returns brings what was found up to the history: `found` gets what the files will be. `false`: the
   * history was replaced since the scan began, so that any file may have changed, and no batch can be told from what it has.
   */
  readonly begin: () => (scan: PendingScan) => Io<boolean>
  /** Whether the last scan found the file as it was before what the history has. */
  readonly has: (path: string) => boolean
}

/** Paths or revisions of a step. */
const atATime = 256

/** Makes the completion of a vault's scans. `viewed`: the last batch whose files this process wrote or found on disk. */
export const makeAhead = (
  history: History,
  { rowOf, viewed }: { readonly viewed: () => number; readonly rowOf: (tenant: string, record: MemoryRecord) => Stored }
): Ahead => {
  const ahead = new Set<string>()

  /** The last revision of what lies at a path, and of what does not lie there any more. */
  const newest = (path: string, file: Found): Place | undefined =>
    history.at(path) ?? (file?._tag === "Entry" ? history.newest(file.tenant, file.row.record.id) : undefined)

  /**
   * Finds the revisions that files do not show yet. Removes from `found` what is gone. To be run at one moment, since scans run side by
   * side.
   */
  function* hidden(since: number, { confirm, found, known }: PendingScan): EventLoop.Steps<ReadonlyArray<Place>> {
    if (ahead.size > 0) { for (const path of found.keys()) ahead.delete(path) }
    const stateOf = (path: string) => found.has(path) ? found.get(path) : known(path)
    const remove = (path: string) => {
      found.set(path, undefined)
      confirm(path)
    }
    const places = new Set<Place>()
    let work = 0
    for (const { places: pending } of history.unlanded()) for (const place of pending) places.add(place)
    const add = (place: Place | undefined) => {
      if (place !== undefined && place.batch > since) places.add(place)
    }
    for (const [path, file] of found) {
      add(newest(path, file))
      if (++work % atATime === 0) yield 8 * atATime
    }
    for (const path of Array.from(history.awaited.keys())) {
      const file = stateOf(path)
      const place = newest(path, file)
      add(place)
      if (place === undefined && file?._tag === "Entry") remove(path) // purged since
      if (++work % atATime === 0) yield 8 * atATime
    }
    const unseen: Array<Place> = []
    /** Takes a revision in, unless files show it. */
    const take = (place: Place): void => {
      const { after, before, gone, id, path, tenant } = place
      const texts = new Set([before, ...history.places(tenant, id).map((old) => old.after)])
      /** Whether a file is as it was before: absent, or with a text that the history has as an earlier one. */
      const isBefore = (path: string, file: Found) =>
        file === undefined ? before === null : file.path === path && file._tag === "Entry" && texts.has(file.hash)
      for (const old of gone) {
        const file = stateOf(old)
        if (history.at(old)) continue
        if (file === undefined) confirm(old)
        else if (isBefore(old, file)) {
          remove(old)
          ahead.add(old)
        }
      }
      const isLast = history.newest(tenant, id)?.offset === place.offset
      if (!isLast || path === null || after === null || before === after) return // the last one is by hand
      const file = stateOf(path)
      if (file?._tag === "Entry" && file.hash === after) confirm(path)
      else if (isBefore(path, file)) {
        confirm(path)
        unseen.push(place)
      }
    }
    for (const place of places) {
      if (place.batch > since) take(place)
      if (++work % atATime === 0) yield 16 * atATime
    }
    return unseen
  }

  const complete = (began: number, since: number, scan: PendingScan): Io<boolean> =>
    Effect.gen(function*() {
      yield* history.news(false)
      if (history.generation() !== began) return false
      const places = scan.isFirst
        ? yield* EventLoop.paced(() => hidden(since, scan))
        : EventLoop.atOnce(hidden(since, scan))
      for (const place of places) {
        const kept = yield* history.read(place)
        const { after, id, path, tenant } = place
        if (history.generation() !== began) return false
        if (Option.isNone(kept)) {
          // erased by a later batch, which tells what there is now; or damaged, and then the file stays as it is
          if (history.newest(tenant, id)?.offset !== place.offset) return yield* complete(began, since, scan)
          continue
        }
        if (path === null || after === null) continue
        const { extra, frame, record } = kept.value
        const entry: Entry = {
          ...{ _tag: "Entry", path, tenant, hash: after, extra, frame, row: rowOf(tenant, record) },
          ...{ signed: true, stat: nowhere, settled: false }
        }
        scan.found.set(path, entry)
        ahead.add(path)
      }
      return true
    })

  return {
    has: (path) => ahead.has(path),
    begin: () => {
      // a scan may find files as they were when it began, whatever has landed or another scan has found meanwhile
      const since = Math.max(viewed(), (history.unlanded()[0]?.number ?? history.last() + 1) - 1)
      const began = history.generation()
      return (scan) => complete(began, since, scan)
    }
  }
}
