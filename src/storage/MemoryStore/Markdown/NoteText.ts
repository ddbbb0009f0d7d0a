/** Reads the text of a file: of ours all of it or none, of a note as much as can be read. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { sha256 } from "../../../domain/Digest.ts"
import * as MemoryError from "../../../domain/MemoryError.ts"
import type { Disk } from "./Disk.ts"
import type { Context } from "./Document.ts"
import * as Layout from "./Layout.ts"

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
