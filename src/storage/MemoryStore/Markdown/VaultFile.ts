/**
 * The files of a vault: how they are found, how the text of one is read, of ours all of it or none, of a note as much as can be
 * read, and what a file was when it was last looked at.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { sha256 } from "../../../domain/Digest.ts"
import * as MemoryError from "../../../domain/MemoryError.ts"
import type { Stored } from "../../MemoryStore.ts"
import type { Disk, Stat } from "./Disk.ts"
import type { Context, Extra } from "./Document.ts"
import type { Frame } from "./Frontmatter.ts"
import * as Layout from "./Layout.ts"
import { internal } from "./Layout.ts"

/* A file of the vault as it was last looked at: a record, or none. */

export interface Seen {
  readonly path: string
  readonly stat: Stat
  /** Read long enough after it was last changed that its `stat` tells the next change. */
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
  /** Why the file cannot be read, where the row is its last good revision. */
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

export interface Text {
  readonly text: string
  /** Hash of the text; SHA-256, hex. */
  readonly hash: string
  /** Why the text is not all that the file has. */
  readonly loss?: ReadonlyArray<string>
}

/** Whether the file is read as a note of somebody else's. */
export const isNote = ({ notes }: Context, path: string): boolean => notes === "whole" && !Layout.placeOf(path).isOurs

/** Reads a file's text; of a note also where it is too long, or no UTF-8. `None` where there is no file. */
export const textOf = (
  disk: Disk,
  context: Context,
  path: string,
  size: number
): Effect.Effect<Option.Option<Text>, MemoryError.MemoryError> => {
  if (!isNote(context, path)) return disk.readHashed(path)
  if (size > maxBytes) {
    return Effect.map(disk.readHead(path, maxBytes), Option.map((text) => partly(text, "longer than 4 MiB")))
  }
  return disk.readHashed(path).pipe(
    Effect.map(Option.map((text): Text => text)),
    MemoryError.catchReason(
      "corrupt",
      () => Effect.map(disk.readLoose(path), Option.map((text) => partly(text, "no UTF-8: what is none is \ufffd")))
    )
  )
}

const partly = (text: string, loss: string): Text => ({ text, hash: sha256(text), loss: [loss] })

/* Finds damage in the text of a file that the history knows, signs that no hand would have written it so, and reports it. */

/** Why the text is damaged; `undefined` where nothing says so. Legal text with part of it missing is an edit, and no damage. */
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

/** Why a file is no record, or not as it was written. */
export const corrupt = (location: string, message: string): MemoryError.MemoryError => {
  const whole = `${Layout.shown(location)}: ${message}`
  const told = whole.length > maxMessage ? `${whole.slice(0, maxMessage - 1).toWellFormed()}…` : whole
  return MemoryError.make("corrupt", { op: "read", message: told, detail: { location } })
}

/*
 * Every file of the folder that can be a record. A link is named, and not followed; what begins with a dot is hidden, but
 * for the rows of the library.
 */

const concurrency = 32

/** `unreadable`: what is to be taken for the files of a folder that cannot be read now. */
export const walk = (
  disk: Disk,
  unreadable: (folder: string, error: MemoryError.MemoryError) => ReadonlyArray<string>
): Effect.Effect<ReadonlyArray<string>, MemoryError.MemoryError> => {
  const within = (folder: string): Effect.Effect<ReadonlyArray<string>, MemoryError.MemoryError> =>
    Effect.flatMap(disk.list(folder), (names) => {
      const paths = names.filter((name) => !name.startsWith(".")).map((name) =>
        folder === "" ? name : `${folder}/${name}`
      )
      const notes = paths.filter((path) => path.endsWith(".md"))
      const others = paths.filter((path) => !path.endsWith(".md")) // a fiber for each, and none for a note
      return Effect.map(Effect.forEach(others, below, { concurrency }), (all) => notes.concat(all.flat()))
    })
  const below = (path: string): Effect.Effect<ReadonlyArray<string>> =>
    Effect.gen(function*() {
      const stat = yield* disk.stat(path)
      if (Option.isNone(stat) || stat.value.type !== "Directory") return []
      return (yield* disk.isLink(path)) ? [path] : yield* within(path)
    }).pipe(Effect.catchAll((error) => Effect.sync(() => unreadable(path, error))))

  return Effect.zipWith(within(""), below(internal), (records, rows) => records.concat(rows))
}

/*
 * A rotating sample of files whose size and times say that they are as they were. A look at the vault reads these all the
 * same, since a bit that rots, and a tool that restores the time of a file it changed, leave size and times alone.
 */

export interface Sampling {
  /** The next sample of these paths, which come in the same order each time. Cost: the paths of the sample. */
  readonly next: (paths: ReadonlyArray<string>, now: number) => ReadonlySet<string>
}

/** Number of looks after which every file was read once, in a vault of as many files or more; else of so many files. */
export const rounds = 100
/** Files of a sample at most: a vault of more than 1,600 files takes longer to be read once, and no longer to be looked at. */
const maxSample = 16

/** Begins anywhere, by the clock, so that processes that take one look each do not all read the same files. */
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
