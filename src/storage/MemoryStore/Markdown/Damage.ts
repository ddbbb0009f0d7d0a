/** Finds damage in the text of a file that the history knows, signs that no hand would have written it so, and reports it. */
import * as MemoryError from "../../../domain/MemoryError.ts"
import * as Layout from "./Layout.ts"

/** Why the text is damaged; `undefined` where nothing says so. Legal text with part of it missing is an edit, and no damage. */
export const find = (text: string): string | undefined => {
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
