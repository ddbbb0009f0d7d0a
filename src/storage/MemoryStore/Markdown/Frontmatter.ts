/**
 * Splits a text into frontmatter (YAML at its beginning) and body. Anyone may have written the YAML. Therefore its size is limited, and
 * only the types of JSON are accepted.
 */
import * as DateTime from "effect/DateTime"
import * as Either from "effect/Either"
import * as Yaml from "yaml"
import type { MemoryRecord } from "../../../domain/MemoryRecord.ts"
import * as Wikilink from "../../../domain/Wikilink.ts"

/** Largest size of a parsed frontmatter, in UTF-16 units: `maxSigned` if it has a hash of the library, otherwise `maxMatter`. */
const maxSigned = 262_144
const maxMatter = 32_768

type Matter = Readonly<Record<string, unknown>>

/**
 * Frontmatter properties that are not fields of a record. A write preserves them, unless it is a purge, or changes the metadata entry of
 * the same name.
 */
export type Extra = Readonly<Record<string, unknown>>

/** Ranges of the parts of a text, in UTF-16 units from its start. */
export interface Parts {
  /** The YAML between the `---` lines; absent if the text does not start with such a line. */
  readonly matter: readonly [start: number, end: number] | undefined
  /** The body, without one line break before it and one at its end. These belong to the file's format. */
  readonly body: readonly [start: number, end: number]
  readonly eol: "\n" | "\r\n"
}

/** Finds the parts of a text. `Left` if the frontmatter's closing `---` is missing. */
export const locate = (text: string): Either.Either<Parts, string> => {
  const from = text.startsWith("\uFEFF") ? 1 : 0
  const eol = /\r?\n/.exec(text)?.[0] === "\r\n" ? "\r\n" : "\n"
  const open = /^---[ \t]*\r?\n/.exec(from === 0 ? text : text.slice(from))
  if (!open) return Either.right({ matter: undefined, body: trimmed(text, from, eol), eol })
  const start = from + open[0].length
  const end = /(?:^|\r?\n)---[ \t]*(?:\r?\n|$)/.exec(text.slice(start)) // no flag `m`, since `^` would also match after U+2028
  if (!end) return Either.left("the frontmatter has no end")
  return Either.right({
    matter: [start, start + end.index],
    body: trimmed(text, start + end.index + end[0].length, eol),
    eol
  })
}

/** Returns the text as the body, without a BOM and without one line break at each end. Used if the frontmatter cannot be read. */
export const bodyOf = (text: string): string =>
  text.slice(...trimmed(text, text.startsWith("\uFEFF") ? 1 : 0, eolOf(text)))

const eolOf = (text: string): string => /\r?\n/.exec(text)?.[0] ?? "\n"

const trimmed = (text: string, start: number, eol: string): readonly [number, number] => {
  const from = text.startsWith(eol, start) ? start + eol.length : start
  return [from, text.length - eol.length >= from && text.endsWith(eol) ? text.length - eol.length : text.length]
}

/** Splits a text into properties and body. `read` parses the frontmatter. `Left` tells why the frontmatter cannot be read. */
export const split = (
  text: string,
  read: (matter: string) => Either.Either<Matter, string> = yaml
): Either.Either<readonly [Matter, string], string> =>
  Either.flatMap(locate(text), ({ body, matter }) => {
    const rest = text.slice(...body)
    if (matter === undefined) return Either.right([{}, rest] as const)
    return Either.map(within(text.slice(...matter), read), (fields) => [fields, rest] as const)
  })

/** Parses a frontmatter with `read`. `Left` if the frontmatter is larger than the limit, or if `read` fails. */
export const within = <A>(
  matter: string,
  read: (matter: string) => Either.Either<A, string>
): Either.Either<A, string> =>
  matter.length > maxSigned || (matter.length > maxMatter && !/^hash: ["']?[0-9a-f]{64}["']?\s*$/m.test(matter))
    ? Either.left("the frontmatter is too large")
    : read(matter)

/** Parses YAML with a map as root. The message in a `Left` quotes nothing from the text. Cost: linear in the length of the text. */
export const yaml = (text: string): Either.Either<Matter, string> => {
  const plain = readPlain(text)
  return plain === undefined ? full(text) : Either.right(plain)
}

const full = (text: string): Either.Either<Matter, string> =>
  Either.flatMap(parsed(text), (document) =>
    Either.try({
      try: (): unknown => document.toJS({ maxAliasCount: 20 }),
      catch: () => "frontmatter: not YAML"
    }).pipe(
      Either.flatMap((matter) => {
        if (matter === null || matter === undefined) return Either.right({})
        if (typeof matter !== "object" || Array.isArray(matter)) {
          return Either.left("frontmatter: expected keys and values")
        }
        if (Object.hasOwn(matter, "__proto__")) return Either.left("frontmatter: __proto__ is no key")
        return Either.right(matter as Matter) // the cast is safe: `matter` is an object, not an array
      })
    ))

/**
 * Parses YAML into nodes with their ranges. `Left` if a key occurs twice in a map, or if there are more than 20 aliases. Also `Left` if
 * more than 3 keys that are lists or maps are nested in each other. Such aliases and keys cost the YAML library quadratic time or more.
 */
export const parsed = (text: string): Either.Either<Yaml.Document.Parsed, string> =>
  Either.try({
    // the YAML library's search for duplicate keys, and its error texts, take quadratic time
    try: () => Yaml.parseDocument(text, { schema: "core", logLevel: "error", prettyErrors: false, uniqueKeys: false }),
    catch: (error) => `frontmatter: ${fault(error, text)}`
  }).pipe(
    Either.flatMap((document) => {
      const [error] = document.errors
      const issue = error ? fault(error, text) : issueOf(document)
      return issue === undefined ? Either.right(document) : Either.left(`frontmatter: ${issue}`)
    })
  )

const maxAliases = 20
const maxKeyDepth = 3

const issueOf = (document: Yaml.Document.Parsed): string | undefined => {
  let issue: string | undefined
  let aliases = 0
  /** The lists and maps that are keys, with the number of such keys around each, itself included. */
  const depths = new Map<unknown, number>()
  Yaml.visit(document, {
    Alias: () => {
      if (++aliases > maxAliases) issue = "more than 20 aliases"
      return issue === undefined ? undefined : Yaml.visit.BREAK
    },
    Collection: (place, node, path) => {
      if (place === "key") {
        const depth = 1 + (depths.get(path.findLast((parent) => depths.has(parent))) ?? 0)
        depths.set(node, depth)
        if (depth > maxKeyDepth) issue = "keys within keys"
      }
      if (Yaml.isMap(node)) {
        const keys = new Set<unknown>()
        for (const { key } of node.items) {
          const name: unknown = Yaml.isScalar(key) ? key.value : undefined
          if (name !== undefined && keys.has(name)) issue = "a key is said twice"
          keys.add(name)
        }
      }
      return issue === undefined ? undefined : Yaml.visit.BREAK
    }
  })
  return issue
}

/** Prints a time as an ISO date. A time beyond the range of JavaScript dates is printed as epoch milliseconds. */
export const time = (millis: number | undefined): string | number | undefined =>
  millis === undefined || millis > 8.64e15 ? millis : DateTime.formatIso(DateTime.unsafeMake(millis))

/** Reads a time: a date, or epoch milliseconds, which are rounded down. Returns `absent` if the field is missing. */
export const timeOf = <A>(
  fields: Readonly<Record<string, unknown>>,
  name: string,
  absent: A
): Either.Either<number | A, string> => {
  const value = fields[name]
  if (value === undefined || value === null) return Either.right(absent)
  const millis = typeof value === "string" ? Date.parse(value) : typeof value === "number" ? Math.floor(value) : value
  return typeof millis === "number" && Number.isSafeInteger(millis) && millis >= 0
    ? Either.right(millis)
    : Either.left(`${name}: expected a time`)
}

/**
 * Reads a time that the library did not write, and returns epoch milliseconds. Accepts a date with or without a time of day, such as
 * `2024-05-02` or `[[2024-05-02]]`. The zone is UTC unless the text states another. A number of at least 1e11 counts as epoch milliseconds.
 * The result is `undefined` for other values, and for times before 1970.
 */
export const instantOf = (value: unknown): number | undefined => {
  if (typeof value === "number") return value >= 1e11 && value <= 8.64e15 ? Math.floor(value) : undefined
  if (typeof value !== "string") return undefined
  const found = instant.exec(value.trim().replace(/^\[\[(.*)\]\]$/, "$1"))
  if (found === null) return undefined
  const [, date = "", time = "00:00", seconds = ":00", zone = "Z"] = found
  const millis = Date.parse(`${date}T${time}${seconds.replace(",", ".").slice(0, 7)}${zone}`)
  return Number.isSafeInteger(millis) && millis >= 0 ? millis : undefined
}
const instant = /^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d)(:\d\d(?:[.,]\d+)?)?)? ?(Z|[+-]\d\d:\d\d)?$/

/** Describes a YAML error by its code and position. The original message is not used, since it may quote the text. */
const fault = (error: unknown, text: string): string => {
  if (!(error instanceof Yaml.YAMLParseError)) return "not YAML"
  const before = text.slice(0, error.pos[0]).split("\n")
  return `${error.code} at line ${before.length}, column ${before.at(-1)!.length + 1}`
}

/*
 * The format of links in a file. Obsidian can follow such links, and a person can write them:
 *
 * ```yaml
 * links:
 *   - to: "[[01J8Z3N5T6V7W8X9Y0ABCDEFGH]]"
 *     type: knows
 *     weight: 0.5
 *   - "[[01J8Z3N5T6V7W8X9Y0ABCDEFGH|Charles]]"        related_to, weight 1
 * ```
 */

/** Prints the links of a record; `undefined` if there are none. */
export const printLinks = ({ links }: Pick<MemoryRecord, "links">) =>
  links.length === 0 ? undefined : links.map(({ to, type, weight }) => ({ to: `[[${to}]]`, type, weight }))

/** Reads links. The id of a link may be in brackets. An invalid item stays as it is, so that the schema rejects it. */
export const readLinks = (links: unknown): unknown => Array.isArray(links) ? links.map(linkOf) : links ?? []

const linkOf = (link: unknown): unknown => {
  if (typeof link === "string") return { ...defaults, to: targetOf(link) }
  return typeof link === "object" && link !== null && "to" in link
    ? { ...defaults, ...link, to: targetOf(link.to) }
    : link
}

const defaults = { type: "related_to", weight: 1 }

const targetOf = (to: unknown): unknown => typeof to === "string" ? Wikilink.parse(to)[0]?.target ?? to : to

/*
 * A frame is what surrounds the body in a note of another author: the text before the body, and the text after it. The history stores the
 * frame next to the record. The note can thus be restored byte for byte, although its body is stored only once. A file in the library's own
 * format needs no frame, since the library can print its text again.
 */

/** The text around the body in a file. */
export interface Frame {
  /** Path of the file. */
  readonly path: string
  /** Text before the body (`head`) and after the body (`tail`). */
  readonly head: string
  readonly tail: string
}

/** Returns the frame of a file: the text before and after `body`. Returns `undefined` if `text` does not contain `body`. */
export const frameIn = (path: string, text: string, body: string): Frame | undefined => {
  const at = text.lastIndexOf(body)
  return at < 0 ? undefined : { path, head: text.slice(0, at), tail: text.slice(at + body.length) }
}

/** Returns the text of a file: the frame's text before the body, the body, and the frame's text after it. */
export const framed = ({ head, tail }: Frame, body: string): string => head + body + tail

/** Returns the names of a file's properties. The result is empty if the frontmatter cannot be parsed. */
export const propertiesOf = ({ head }: Frame): ReadonlyArray<string> =>
  Either.match(split(head), { onLeft: () => [], onRight: ([matter]) => Object.keys(matter) })

/*
 * A fast reader for simple YAML. Most frontmatter is simple YAML: each key has its own line, and its value is empty, a scalar, or a list of
 * scalars. The reader returns the same values as the YAML library with the core schema, in a small part of the time. If the YAML library
 * might return other values, the reader returns `undefined`. The YAML library then parses the text.
 */

/** Reads the keys and values of simple YAML. Returns `undefined` if the YAML library must parse the text. */
export const readPlain = (text: string): Readonly<Record<string, unknown>> | undefined => {
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
      if (next !== "" && !start.test(next)) return undefined // the next line may belong to the value of this key
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
/** Matches the beginning of a line that starts a new key. */
const start = /^[\p{L}_]/u
/** Words that are not strings in YAML, and a name that must not be a key of an object. */
const reserved = new Set([
  ...["null", "Null", "NULL", "true", "True", "TRUE", "false", "False", "FALSE"],
  "__proto__"
])

/** Reads a scalar; `undefined` if the YAML library has to parse it. */
const scalarOf = (text: string): string | number | boolean | undefined => {
  // the cast is safe: `quoted` matches only JSON strings
  if (text.startsWith("\"")) return quoted.test(text) ? JSON.parse(text) as string : undefined
  if (text.startsWith("'")) return single.test(text) ? text.slice(1, -1) : undefined
  if (plain.test(text) && !text.endsWith(" ")) {
    if (!reserved.has(text)) return text
    return text.toLowerCase() === "true" ? true : text.toLowerCase() === "false" ? false : undefined
  }
  if (number.test(text)) return Number(text)
  return word.test(text) || timeText.test(text) || numbered.test(text) ? text : undefined
}

/** Reads a list in brackets on one line. Returns `undefined` if an item is not a plain scalar. */
const flowOf = (text: string): ReadonlyArray<unknown> | undefined => {
  if (text === "[]") return []
  if (!text.endsWith("]")) return undefined
  const values = text.slice(1, -1).split(/, */).map((item) => flow.test(item) ? scalarOf(item) : undefined)
  return values.includes(undefined) ? undefined : values
}
const flow = /^[A-Za-z0-9][A-Za-z0-9 _./-]*$/

/** Matches a JSON string that has no control characters, and only escapes that mean the same in YAML. */
const quoted = /^"(?:[^"\\\p{C}\u2028\u2029]|\\["\\/bfnrt])*"$/u
/** Matches a text in single quotes that contains no single quote itself. */
const single = /^'[^'\p{C}\u2028\u2029]*'$/u
/** Matches a text that starts with a letter, and contains nothing with a special meaning in YAML. */
const plain = /^\p{L}(?:[\p{L}\p{M}\p{N}\p{So} _.,;/()'!?%&*+=@$^~|<>"-]|:(?! |$))*$/u
/** Matches a text that starts with digits, an optional full stop, a space and a letter, such as `2. step`. */
const numbered = /^[0-9]+\.? \p{L}(?:[\p{L}\p{M}\p{N} _.,/()'-]*[\p{L}\p{M}\p{N}_.)])?$/u
/** Matches a number in JSON format, with so few digits that every parser reads the same value. */
const number = /^-?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{1,15})?$/
/** Matches a hash or id that starts with a digit. The text must have a letter other than e, so that YAML does not read a number. */
const word = /^(?!0[ox])[0-9][0-9A-Za-z]*[A-DF-Za-df-z][0-9A-Za-z]*$/
/** Matches a date, a time, or both. Seconds are optional, and after a date and time also a zone. */
const timeText =
  /^(?:[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,9})?)?(?:Z|[+-][0-9]{2}:?[0-9]{2})?)?|[0-9]{1,2}:[0-9]{2}(?::[0-9]{2})?)$/

/* A fast printer for simple YAML. Prints the same bytes as the YAML library. */

/**
 * Prints keys and values as YAML. Keys must be plain words. Keys with the value `undefined` are left out. The result is `undefined` if a
 * value is not simple or the text is too long. The text is also read back, and the result is `undefined` if the values differ.
 */
export const printPlain = (matter: Matter): string | undefined => {
  let text = ""
  for (const name in matter) {
    const value = matter[name]
    if (value === undefined) continue
    if (!Array.isArray(value)) {
      const printed = plainOf(value)
      if (printed === undefined) return undefined
      text += `${name}: ${printed}\n`
      continue
    }
    text += `${name}:\n`
    for (const item of value) {
      const printed = plainOf(item)
      if (printed === undefined) return undefined
      text += `  - ${printed}\n`
    }
  }
  return text.length > maxMatter || !isReadBack(text, matter) ? undefined : text
}

const plainOf = (value: unknown): string | undefined => {
  if (value === true) return "true"
  if (typeof value === "number") return Object.is(value, -0) ? undefined : JSON.stringify(value)
  if (typeof value !== "string" || !printable.test(value)) return undefined
  if (/:(?: |$)| #| $/.test(value)) return value.includes("\"") ? undefined : `"${value}"`
  return /^[0-9]/.test(value)
    ? (word.test(value) || timeText.test(value)) && value.length > 9 ? value : undefined
    : reserved.has(value)
    ? undefined
    : value
}
/** Matches one line of ASCII that starts with a letter or digit and has no backslash. */
const printable = /^[A-Za-z0-9][ -[\]-~]*$/

const isReadBack = (text: string, matter: Matter): boolean => {
  const read = readPlain(text.slice(0, -1)) // omits the final line break, which would be read as an empty line
  if (read === undefined) return false
  for (const name in matter) {
    const [value, back] = [matter[name], read[name]]
    const isSame = Array.isArray(value) && Array.isArray(back)
      ? value.length === back.length && value.every((item, n) => item === back[n])
      : value === back
    if (!isSame) return false
  }
  return true
}
