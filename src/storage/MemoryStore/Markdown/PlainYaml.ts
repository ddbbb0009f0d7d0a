/**
 * Reads the YAML that most frontmatter is, in a small part of the time that a YAML parser takes: one key to a line, with a
 * plain or quoted scalar, nothing, or a list of such below it. What it reads is what the parser would, by the core schema;
 * what it is not sure of, it leaves to the parser.
 */

/** Keys and values of a text of lines; `undefined`: for the parser to read. Cost: one pass. */
export const read = (text: string): Readonly<Record<string, unknown>> | undefined => {
  const found = new Map<string, unknown>()
  const lines = text.split("\n")
  const lineAt = (at: number): string => at < lines.length - 1 ? ended(lines[at]!) : lines[at]!
  for (let at = 0; at < lines.length; at++) {
    const line = lineAt(at)
    const colon = line.indexOf(":")
    const name = line.slice(0, colon)
    if (colon < 1 || !key.test(name) || reserved.has(name) || found.has(name)) return undefined
    if (line.length > colon + 1) {
      if (line[colon + 1] !== " ") return undefined
      const value = line[colon + 2] === "[" ? flowOf(line.slice(colon + 2)) : scalarOf(line.slice(colon + 2))
      if (value === undefined) return undefined
      found.set(name, value)
      continue
    }
    const next = lines[at + 1] ?? ""
    const indent = /^ *(?=- )/.exec(next)?.[0]
    if (indent === undefined) {
      if (next !== "" && !start.test(next)) return undefined // it may belong to this key
      found.set(name, null)
      continue
    }
    const values: Array<unknown> = []
    while (lines[at + 1]?.startsWith(`${indent}- `)) {
      const value = scalarOf(lineAt(++at).slice(indent.length + 2))
      if (value === undefined) return undefined
      values.push(value)
    }
    found.set(name, values)
  }
  return Object.fromEntries(found)
}

const ended = (line: string): string => line.endsWith("\r") ? line.slice(0, -1) : line

const key = /^[\p{L}_](?:[\p{L}\p{M}\p{N}_ -]*[\p{L}\p{M}\p{N}_-])?$/u
/** The beginning of a line that is a key of its own. */
const start = /^[\p{L}_]/u
/** Words that are no text, and a name that no object should have. */
const reserved = new Set([
  ...["null", "Null", "NULL", "true", "True", "TRUE", "false", "False", "FALSE"],
  "__proto__"
])

/** `undefined`: not sure. */
const scalarOf = (text: string): string | number | boolean | undefined => {
  if (text.startsWith("\"")) return quoted.test(text) ? JSON.parse(text) as string : undefined // as the pattern says
  if (text.startsWith("'")) return single.test(text) ? text.slice(1, -1) : undefined
  if (plain.test(text) && !text.endsWith(" ")) {
    if (!reserved.has(text)) return text
    return text.toLowerCase() === "true" ? true : text.toLowerCase() === "false" ? false : undefined
  }
  if (number.test(text)) return Number(text)
  return word.test(text) || time.test(text) || numbered.test(text) ? text : undefined
}

/** A list in brackets on one line, of plain scalars without a comma. */
const flowOf = (text: string): ReadonlyArray<unknown> | undefined => {
  if (text === "[]") return []
  if (!text.endsWith("]")) return undefined
  const values = text.slice(1, -1).split(/, */).map((item) => flow.test(item) ? scalarOf(item) : undefined)
  return values.includes(undefined) ? undefined : values
}
const flow = /^[A-Za-z0-9][A-Za-z0-9 _./-]*$/

/** A string of JSON without control characters, with the escapes that YAML and JSON share. */
const quoted = /^"(?:[^"\\\p{C}\u2028\u2029]|\\["\\/bfnrt])*"$/u
/** Between single quotes, with none of them in it. */
const single = /^'[^'\p{C}\u2028\u2029]*'$/u
/** Begins with a letter, and has no character that means anything anywhere. */
const plain = /^\p{L}(?:[\p{L}\p{M}\p{N}\p{So} _.,;/()'!?%&*+=@$^~|<>"-]|:(?! |$))*$/u
/** Begins with digits and a space, and has a letter next. */
const numbered = /^[0-9]+\.? \p{L}(?:[\p{L}\p{M}\p{N} _.,/()'-]*[\p{L}\p{M}\p{N}_.)])?$/u
/** As JSON writes it, with so few digits that every reader has the same number. */
const number = /^-?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{1,15})?$/
/** A hash or an id that begins with a digit: a letter in it that no number has. */
const word = /^(?!0[ox])[0-9][0-9A-Za-z]*[A-DF-Za-df-z][0-9A-Za-z]*$/
/** A date, a time, or both, with or without seconds and a zone. */
const time =
  /^(?:[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,9})?)?(?:Z|[+-][0-9]{2}:?[0-9]{2})?)?|[0-9]{1,2}:[0-9]{2}(?::[0-9]{2})?)$/
