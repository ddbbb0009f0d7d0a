/**
 * Lists the files of a vault for a scan, reads their texts, and detects damage. Also computes the future content of a file if the history
 * has a newer revision than the file. The history is the append-only file of all revisions.
 */
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { sha256 } from "../../../domain/Digest.ts"
import * as MemoryError from "../../../domain/MemoryError.ts"
import type * as MemoryKind from "../../../domain/MemoryKind.ts"
import type { MemoryRecord } from "../../../domain/MemoryRecord.ts"
import * as EventLoop from "../../../host/EventLoop.ts"
import type { Stored } from "../../MemoryStore.ts"
import type { Extra, Frame } from "./Frontmatter.ts"
import type { History, RevisionLocation } from "./History.ts"
import * as Layout from "./Layout.ts"
import { internal } from "./Layout.ts"
import { filesOf } from "./RevisionIndex.ts"
import type { Stat, VaultFileSystem } from "./VaultFileSystem.ts"

/** The settings with which the files of a vault are read and written. */
export interface Context {
  readonly key: string
  readonly kinds: ReadonlyMap<string, MemoryKind.MemoryKind>
  /** Whether every signature counts as valid. Each record then has the trust and the origin that its text states. Default false. */
  readonly isAdopting?: boolean | undefined
  /**
   * Selects how to read notes that this library did not write. With `whole`, a note is a record even if parts of it cannot be read (see
   * `ForeignNote`). If absent, a note with an invalid field is not a record, and properties do not become metadata. Earlier releases did
   * the same.
   */
  readonly notes?: "whole" | undefined
}

/* The files that the last scan found. A file is either a record (`Entry`) or not a record (`Bad`). */

/** A file as the last scan found it. */
export interface Seen {
  readonly path: string
  readonly stat: Stat
  /** Whether the file was read long enough after its last change. A later change is then sure to alter `stat`. */
  readonly settled: boolean
}
/** A file that is a record. */
export interface Entry extends Seen {
  readonly _tag: "Entry"
  /** SHA-256 of the text, in hex. */
  readonly hash: string
  readonly tenant: string
  readonly signed: boolean
  /** Whether the text has an invalid signature, such as that of another vault. False if `ForeignNote` reads the text. Default false. */
  readonly isSealed?: boolean | undefined
  readonly row: Stored
  readonly extra: Extra
  /** Text around the body of a note that this library did not write. Absent if the file has the library's format. */
  readonly frame?: Frame | undefined
  /** The error of a damaged or unreadable file. `row` is then the last good revision. Otherwise absent. */
  readonly damage?: MemoryError.MemoryError | undefined
  /** Reasons why parts of the text could not be read. Absent if there are none. */
  readonly issues?: ReadonlyArray<string> | undefined
  /** Whether the file has more text than the record. The library never changes such a text, but may restore it. Default false. */
  readonly isPartial?: boolean | undefined
}
/** A file, folder or link that is not a record. */
export interface Bad extends Seen {
  readonly _tag: "Bad"
  readonly error: MemoryError.MemoryError
}
/** The result of a scan for one path; `undefined` if no file at the path can be a record. */
export type Found = Entry | Bad | undefined

/** Stands for an unknown status, such as that of a file that was not scanned yet. */
export const nowhere: Stat = { mtime: -1, size: -1, ino: -1, born: -1 }

/** Largest size of a file that is read, in bytes. A larger note that this library did not write is read up to this size. */
export const maxBytes = 4_194_304

/** The text of a file, or as much as could be read. */
export interface Text {
  readonly text: string
  /** SHA-256 of the text, in hex. */
  readonly hash: string
  /** Reasons why the text is incomplete, one sentence each. Absent if the text is complete. */
  readonly loss?: ReadonlyArray<string>
}

/** Whether the file at a path is read as a note that this library did not write. */
export const isNote = ({ notes }: Context, path: string): boolean => notes === "whole" && !Layout.parsePath(path).isOurs

/**
 * Reads the text of a file; `None` if there is no file. In a note (see `isNote`), invalid UTF-8 is replaced, and at most `maxBytes` are
 * read. Fails with `corrupt` if any other file has invalid UTF-8.
 */
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

/* Detects damage (content that no person would have written) in a file that the history knows. */

/** Describes the damage in a text; `undefined` if there is none. A text from which a part was deleted does not count as damaged. */
export const damageIn = (text: string): string | undefined => {
  if (text === "") return "empty"
  if (/^\0+$/.test(text)) return "nothing but zeros"
  return isInConflict(text) ? "an unresolved conflict: its markers are still there" : undefined
}

/** Whether a text has the three markers of a merge conflict, in order. Markers in code fences do not count. */
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
      // `markers[expected]` exists, since the function returns once `expected` reaches the number of markers
    } else if (markers[expected]!.test(line) && ++expected === markers.length) return true
  }
  return false
}

/** Longest message of an issue, in UTF-16 units. A longer message is cut. */
const maxMessage = 300

/** Makes the `corrupt` error of a file. Cuts a long message (see `maxMessage`). */
export const corrupt = (location: string, message: string): MemoryError.MemoryError => {
  const whole = `${Layout.shortened(location)}: ${message}`
  const shown = whole.length > maxMessage ? `${whole.slice(0, maxMessage - 1).toWellFormed()}…` : whole
  return MemoryError.make("corrupt", { op: "read", message: shown, detail: { location } })
}

/** Makes the issue of a vault that was opened without its hidden folder. `records` is the number of records signed with another key. */
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
 * Lists every file in the vault that can be a record. Symbolic links are listed, but not followed. Names that start with a dot are skipped,
 * except for the folder with the library's own records.
 */

const concurrency = 32

/** Returns the paths of all files that can be records. `unreadable` returns the paths to use for a folder that cannot be read. */
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
      const others = paths.filter((path) => !path.endsWith(".md")) // mostly folders; each of these paths gets a fiber
      return Effect.map(Effect.forEach(others, below, { concurrency }), (all) => {
        for (const some of all) for (const path of some) notes.push(path) // a loop, since `flat` takes ten times as long
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
 * Selects a sample of the files for each scan of the whole vault. A scan reads these files even if their size and times are unchanged. This
 * detects bit rot, and changes by tools that restore a file's times. Each scan takes another sample, so that all files are read in turn.
 */

/** Selects the samples of successive scans. */
export interface Sampling {
  /** Returns the next sample of `paths`. The order of the paths must be the same in every call. */
  readonly next: (paths: ReadonlyArray<string>, now: number) => ReadonlySet<string>
}

/** Number of scans in which every file is sampled at least once, if there are at most 1,600 files. */
export const rounds = 100
/** Largest number of files in a sample, so that scans stay fast. Sampling more than 1,600 files takes more than `rounds` (100) scans. */
const maxSample = 16

/** Makes a sampling. The first sample depends on the time. Otherwise processes that scan only once would all sample the same files. */
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
 * Completes a scan if the history is ahead of the files. A writer first appends a batch (revisions that take effect together) to the
 * history. The writer then writes the files of the batch one by one. A scan in between would find only some of the new files. Therefore the
 * history is read after the files. A file with its old content then counts as having the new content, until a scan finds the new content
 * in the file, or until the next holder of the lock has completed the batch.
 */

type Io<A> = Effect.Effect<A, MemoryError.MemoryError>

/** The result of a scan before newer revisions are added from the history. Some files may still be older than the history. */
export interface PendingScan {
  /** Whether this is the first scan. The first scan may pause, since nobody uses the vault yet. */
  readonly isFirstScan: boolean
  /** Files that the scan has read, or has found missing. */
  readonly found: Map<string, Found>
  /** Files that the scan could not read. `found` has them as they were known before. */
  readonly unread: ReadonlySet<string>
  /** Returns a file as the vault's state has it now, without the results of this scan. */
  readonly known: (path: string) => Found
  /** Registers that the file at a path agrees with the history. Other scans then ignore what they have already read from this file. */
  readonly confirm: (path: string) => void
}

/** Completes scans, and remembers the files for which the history has a newer revision. */
export interface Ahead {
  /**
   * Starts a scan. The returned function makes an effect that completes the scan, and must run after the files were read. If a file is
   * older than its newest revision in the history, the effect adds this revision to `found`. The effect returns `false` if the history was
   * rewritten since the start. All files must then be scanned again, since any file may have changed.
   */
  readonly begin: () => (scan: PendingScan) => Io<boolean>
  /** Whether the history had a newer revision of the file when the file was last scanned. */
  readonly has: (path: string) => boolean
}

/** Number of paths or revisions that are processed in one step. */
const atATime = 256

/** Makes the service that completes scans. `lastReadBatch` returns the last batch whose files this process has read or written. */
export const makeAhead = (
  history: History,
  { rowOf, lastReadBatch }: {
    readonly lastReadBatch: () => number
    readonly rowOf: (tenant: string, record: MemoryRecord) => Stored
  }
): Ahead => {
  const ahead = new Set<string>()

  /** Returns the newest revision at a path in the history. If there is none, returns the newest revision of the record in `file`. */
  const newest = (path: string, file: Found): RevisionLocation | undefined =>
    history.at(path) ?? (file?._tag === "Entry" ? history.newest(file.tenant, file.row.record.id) : undefined)

  /**
   * Returns revisions that were written after batch `since`, and whose files are older. Only the newest revision of a record counts. Adds
   * the paths of these files to the sets `behind` and `ahead`. If the history says that a file is gone, sets the file to `undefined` in
   * `found`. Must run in one step if other scans may run at the same time. Each scan then sees in `ahead` every file that is older than the
   * history.
   */
  function* unseenRevisions(
    since: number,
    { confirm, found, known, unread }: PendingScan,
    behind: Set<string>
  ): EventLoop.Steps<ReadonlyArray<RevisionLocation>> {
    const stateOf = (path: string) => found.has(path) ? found.get(path) : known(path)
    const remove = (path: string) => {
      found.set(path, undefined)
      confirm(path)
    }
    const pending = history.pending().filter(({ number }) => number > since)
    const [theirs, ours] = Arr.partition(pending, ({ isOurs }) => isOurs)
    // files of this process's own pending batches after `since` are left out: their writer adds them to the state once the batch is written
    for (const file of filesOf(ours.flatMap(({ locations }) => locations))) found.delete(file)
    const own = new Set(ours.map(({ number }) => number))
    const locations = new Set<RevisionLocation>(theirs.flatMap(({ locations }) => locations))
    const add = (location: RevisionLocation | undefined) => {
      if (location !== undefined && location.batch > since && !own.has(location.batch)) locations.add(location)
    }
    let work = 0
    for (const [path, file] of found) {
      add(newest(path, file))
      if (++work % atATime === 0) yield 8 * atATime
    }
    const [unseen, purged]: [Array<RevisionLocation>, Array<string>] = [[], []]
    for (const path of Array.from(history.unreadFiles.keys())) {
      const file = stateOf(path)
      const location = newest(path, file)
      add(location)
      if (location === undefined && file?._tag === "Entry") purged.push(path)
      if (++work % atATime === 0) yield 8 * atATime
    }
    /** Adds the newest revision of a record to the result if the file is still as it was before this revision. */
    const compare = (location: RevisionLocation): void => {
      const { after, before, removed, id, path, tenant } = location
      const all = history.locations(tenant, id)
      const texts = new Set([before, ...all.map((old) => old.after)])
      const isCreation = (one: RevisionLocation) => one.batch > since && one.path !== null && one.before === null
      /** Whether a file is as it was before the revision. The file then has an earlier text, or is missing if the record is new. */
      const isBefore = (path: string, file: Found) =>
        file === undefined ? all.some(isCreation) : file.path === path && file._tag === "Entry" && texts.has(file.hash)
      for (const old of removed) {
        const file = stateOf(old)
        if (history.at(old)) continue
        if (file === undefined) confirm(old)
        else if (isBefore(old, file)) {
          remove(old)
          behind.add(old)
        }
      }
      const isLast = history.newest(tenant, id)?.offset === location.offset
      // `before === after` means that the file already had this text: an edit by hand, or a write that changed no text
      if (!isLast || path === null || after === null || before === after) return
      const file = stateOf(path)
      if (file?._tag === "Entry" && file.hash === after) confirm(path)
      else if (isBefore(path, file)) {
        confirm(path)
        behind.add(path)
        unseen.push(location)
      }
    }
    for (const location of locations) {
      compare(location)
      if (++work % atATime === 0) yield 16 * atATime
    }
    for (const path of purged) if (stateOf(path) !== undefined) remove(path)
    for (const path of ahead.size > 0 ? found.keys() : []) {
      if (!unread.has(path) && !behind.has(path)) ahead.delete(path)
    }
    for (const path of behind) ahead.add(path)
    return unseen
  }

  const complete = (began: number, since: number, scan: PendingScan, behind: Set<string>): Io<boolean> =>
    Effect.gen(function*() {
      yield* history.news(false)
      if (history.generation() !== began) return false
      const locations = scan.isFirstScan
        ? yield* EventLoop.paced(() => unseenRevisions(since, scan, behind))
        : EventLoop.atOnce(unseenRevisions(since, scan, behind))
      for (const location of locations) {
        const kept = yield* history.read(location)
        if (Option.isNone(kept)) yield* history.news(false)
        if (history.generation() !== began) return false
        const { after, id, path, tenant } = location
        if (Option.isNone(kept)) {
          // the line was erased by a later batch (then all is compared again), or is damaged (then the file stays as found)
          if (history.newest(tenant, id)?.offset !== location.offset) return yield* complete(began, since, scan, behind)
          if (path !== null) ahead.delete(path)
          continue
        }
        if (path === null || after === null) continue
        const { extra, frame, record } = kept.value
        scan.found.set(path, {
          ...{ _tag: "Entry", path, tenant, hash: after, extra, frame, row: rowOf(tenant, record) },
          ...{ signed: true, stat: nowhere, settled: false }
        })
      }
      return true
    })

  return {
    has: (path) => ahead.has(path),
    begin: () => {
      // the files of all batches up to `since` are surely on disk now; the files of later batches are compared with the history after the
      // scan
      const since = Math.max(lastReadBatch(), (history.pending()[0]?.number ?? history.last() + 1) - 1)
      const [began, behind] = [history.generation(), new Set<string>()]
      return (scan) => complete(began, since, scan, behind)
    }
  }
}
