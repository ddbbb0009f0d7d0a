/**
 * The files of a vault as a scan finds them: listing them, reading their texts, detecting damage, and deriving what a file will be if the
 * history has a newer revision than the file.
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

/** The settings for reading and writing the files of a vault. */
export interface Context {
  readonly key: string
  readonly kinds: ReadonlyMap<string, MemoryKind.MemoryKind>
  /** Whether any signature counts as valid, so that a record is what its text claims. Default false. */
  readonly isAdopting?: boolean | undefined
  /**
   * Way of reading notes that the library did not write. With `whole`, each is a record (`ForeignNote`). Absent: as in earlier releases,
   * where a file with an invalid field is not a record, and properties do not become metadata.
   */
  readonly notes?: "whole" | undefined
}

/* A file of the vault as it was when last scanned: a record, or not one. */

/** A file as it was when last scanned. */
export interface Seen {
  readonly path: string
  readonly stat: Stat
  /** Whether the file was read long enough after its last change that a later change would alter its `stat`. */
  readonly settled: boolean
}
/** A file that is a record. */
export interface Entry extends Seen {
  readonly _tag: "Entry"
  /** SHA-256 of the text, in hex. */
  readonly hash: string
  readonly tenant: string
  readonly signed: boolean
  /** Whether the text has a signature, ours or that of another vault. Default false. */
  readonly isSealed?: boolean | undefined
  readonly row: Stored
  readonly extra: Extra
  /** Text around the body, for a note that its author maintains; absent if the file is in our format. */
  readonly frame?: Frame | undefined
  /** The error if the file cannot be read; the row is then its last good revision. */
  readonly damage?: MemoryError.MemoryError | undefined
  /** Parts of the text that could not be read; absent if there are none. */
  readonly issues?: ReadonlyArray<string> | undefined
  /** Whether the file has more text than the record; it is then never written. Default false. */
  readonly isPartial?: boolean | undefined
}
/** A file, folder or link that is not a record. */
export interface Bad extends Seen {
  readonly _tag: "Bad"
  readonly error: MemoryError.MemoryError
}
/** The result of a scan for one path; `undefined` if nothing there is or could be a record. */
export type Found = Entry | Bad | undefined

/** Stands for the status of a file that was not scanned yet. */
export const nowhere: Stat = { mtime: -1, size: -1, ino: -1, born: -1 }

/** Largest number of bytes that are read of a note; a file of ours with more is not read. */
export const maxBytes = 4_194_304

/** The text of a file, as far as it was read. */
export interface Text {
  readonly text: string
  /** SHA-256 of the text, in hex. */
  readonly hash: string
  /** Reasons why the text is incomplete, a sentence each; absent if it is complete. */
  readonly loss?: ReadonlyArray<string>
}

/** Whether the file is read as a note by another author. */
export const isNote = ({ notes }: Context, path: string): boolean => notes === "whole" && !Layout.parsePath(path).isOurs

/** Reads a file's text; a note also if it is too long, or not valid UTF-8. `None` if there is no file. */
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

/* Detects damage in a file that the history knows: content that no person would have written. */

/** Returns a description of the damage in a text; `undefined` if there is none. A valid text of which a part is missing is an edit. */
export const damageIn = (text: string): string | undefined => {
  if (text === "") return "empty"
  if (/^\0+$/.test(text)) return "nothing but zeros"
  return isInConflict(text) ? "an unresolved conflict: its markers are still there" : undefined
}

/** Whether all three markers of a merge conflict are in the text, in order, each at the start of a line and outside of code fences. */
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
    } else if (markers[expected]!.test(line) && ++expected === markers.length) return true // the index stays below the length
  }
  return false
}

/** Longest message of an issue, in UTF-16 units. File names and schema messages may be longer. */
const maxMessage = 300

/** Makes the `corrupt` error of a file that is not a record, or is damaged. */
export const corrupt = (location: string, message: string): MemoryError.MemoryError => {
  const whole = `${Layout.shown(location)}: ${message}`
  const told = whole.length > maxMessage ? `${whole.slice(0, maxMessage - 1).toWellFormed()}…` : whole
  return MemoryError.make("corrupt", { op: "read", message: told, detail: { location } })
}

/** Makes the issue of a vault that was opened without its hidden folder, with the number of records that another key signed. */
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
 * Lists every file of the folder that can be a record. Links are listed, but not followed. Names that start with a dot are skipped, except
 * for the library's own rows.
 */

const concurrency = 32

/** Lists the paths of these files. `unreadable` returns the paths to use for a folder that cannot be read. */
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
      const others = paths.filter((path) => !path.endsWith(".md")) // a fiber for each folder, but none for a file
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
 * A rotating sample of files whose size and times are unchanged. A scan reads these anyway, to detect bit rot, and tools that restore the
 * times of a file they changed.
 */

/** Selects the samples of successive scans. */
export interface Sampling {
  /** Returns the next sample of these paths, which must always be in the same order. Cost: the paths of the sample. */
  readonly next: (paths: ReadonlyArray<string>, now: number) => ReadonlySet<string>
}

/** Number of scans after which every file has been sampled once, for 100 to 1,600 files. With fewer files, each scan samples one. */
export const rounds = 100
/** Largest number of files in a sample. With more than 1,600 files a full round takes more scans, but no scan takes longer. */
const maxSample = 16

/**
 * Makes a sampling that starts at a position derived from the clock, so that processes which scan only once do not all sample the same
 * files.
 */
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
 * Completes a scan if the history is ahead of the files. A writer appends a batch to the history, and then writes its files one by one, so
 * a scan in between would find half of the batch. Therefore the history is read after the files, and a file that is still as it was before
 * a batch counts as having the content of the batch.
 *
 * This ends once a scan finds the file with the content of the batch, or the next holder of the lock has completed the batch.
 */

type Io<A> = Effect.Effect<A, MemoryError.MemoryError>

/** The findings of a scan, to be completed. */
export interface PendingScan {
  /** Whether there are no other readers or writers yet, so that the completion may pause. */
  readonly isFirst: boolean
  /** Files that the scan found changed or missing. */
  readonly found: Map<string, Found>
  /** Returns a file as it was known before. */
  readonly known: (path: string) => Found
  /** Called for each file that now agrees with the history; findings of earlier scans are then outdated. */
  readonly confirm: (path: string) => void
}

/** Completes scans, and knows the files that the history is ahead of. */
export interface Ahead {
  /**
   * Starts a scan. The function returned is called after the files were read; it adds to `found` the files that the history has but the
   * files do not show yet. `false` if the history was replaced since the start: any file may then have changed, and all must be scanned.
   */
  readonly begin: () => (scan: PendingScan) => Io<boolean>
  /** Whether the last scan found the file older than the history. */
  readonly has: (path: string) => boolean
}

/** Number of paths or revisions per step. */
const atATime = 256

/** Makes the completion of a vault's scans. `viewed` returns the last batch whose files this process wrote or found on disk. */
export const makeAhead = (
  history: History,
  { rowOf, viewed }: { readonly viewed: () => number; readonly rowOf: (tenant: string, record: MemoryRecord) => Stored }
): Ahead => {
  const ahead = new Set<string>()

  /** Returns the last revision of the record at a path, or of the record that was last there. */
  const newest = (path: string, file: Found): Place | undefined =>
    history.at(path) ?? (file?._tag === "Entry" ? history.newest(file.tenant, file.row.record.id) : undefined)

  /**
   * Finds the revisions that the files do not show yet, and removes from `found` the files that are gone in the history. Must run without
   * pauses if other scans may run concurrently.
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
    /** Collects a revision unless the files show it. */
    const take = (place: Place): void => {
      const { after, before, gone, id, path, tenant } = place
      const texts = new Set([before, ...history.places(tenant, id).map((old) => old.after)])
      /** Whether a file is as it was before the revision: absent, or with an earlier text of the history. */
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
      if (!isLast || path === null || after === null || before === after) return // `before === after` marks an edit by hand
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
          // the line was erased by a later batch, which has the current state; or it is damaged, and then the file stays as found
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
      // the batches to compare with are those not landed at the start, since the scan may read files as they were then
      const since = Math.max(viewed(), (history.unlanded()[0]?.number ?? history.last() + 1) - 1)
      const began = history.generation()
      return (scan) => complete(began, since, scan)
    }
  }
}
