/**
 * Finds links to other records in markdown: `[[Name]]` or `[text](Name.md)`. `Name` is the id or the name of a record.
 *
 * ```text
 * [[target]]   [[target|alias]]   [[target#heading]]   [[target^block]]   ![[target]]
 * [alias](target.md)   [alias](<target.md#heading>)
 * ```
 *
 * Links in code spans, in fenced code and after a backslash are ignored.
 */

/** A link in markdown. */
export interface Wikilink {
  /** Id or name of a record, or a path that ends with one. A markdown link's target also ends with `.md`. Trimmed, never empty. */
  readonly target: string
  /** The linked part of the target: a heading, or a block written as `^block`. */
  readonly heading?: string | undefined
  readonly alias?: string | undefined
  /** Whether the link is an embed (`![[…]]`), that is, whether the text of the target is shown in place of the link. */
  readonly embed: boolean
  /**
   * Whether the link has the form `[text](target.md)`. Such a target is first looked up relative to the folder of the linking file, unless
   * it begins with `/`.
   */
  readonly markdown?: true
}

/** Largest number of different link targets that are read from one text. Links to further targets are ignored. */
export const maxTargets = 1_000

/** Returns the links of a text in order, at most `maxTargets`. Only the first link to each target is returned. Takes linear time. */
export const parse = (text: string): ReadonlyArray<Wikilink> => {
  if (!mayHaveLink(text)) return []
  const found = new Map<string, Wikilink>()
  for (const paragraph of isPlain(text) ? [text] : prose(text)) {
    if (!mayHaveLink(paragraph)) continue
    for (const link of isPlain(paragraph) ? plainLinksOf(paragraph) : linksOf(paragraph)) {
      if (!found.has(link.target)) found.set(link.target, link)
      if (found.size === maxTargets) return Array.from(found.values())
    }
  }
  return Array.from(found.values())
}

/**
 * Whether the text may contain a link. True for a text with `[[`. Also true for a text with `.md` or `%` in which `](` follows a `[`. A `%`
 * counts, since `.md` may be escaped as `%2Emd`. Takes a fraction of a nanosecond per character.
 */
export const mayHaveLink = (text: string): boolean => {
  const at = text.indexOf("[") // a search for one character takes a third of the time of a search for two characters
  return at >= 0 && (text.indexOf("[[", at) >= 0 || text.indexOf("](", at) >= 0 && /\.md|%/i.test(text))
}

/** Normalises a name: its case and its Unicode form. Each run of white space becomes one space; white space at the ends is removed. */
export const nameOf = (text: string): string =>
  text.normalize("NFC").replace(/\s+/g, " ").trim().toUpperCase().toLowerCase().normalize("NFC") // upper case first, so that ß equals ss

/** Returns the 32-bit FNV-1a hash of the UTF-16 units of a text. */
export const hash = (text: string): number => {
  let sum = offset
  for (let at = 0; at < text.length; at++) sum = Math.imul(sum ^ text.charCodeAt(at), prime)
  return sum
}

/** Returns `hash(nameOf(text))`. For an ASCII text, no string is built, and the cost is about a nanosecond per character. */
export const hashOfName = (text: string): number => {
  let at = 0
  let end = text.length
  while (at < end && folded[text.charCodeAt(at)] === 32) at++
  while (end > at && folded[text.charCodeAt(end - 1)] === 32) end--
  let sum = offset
  let last = 0
  for (; at < end; at++) {
    const code = text.charCodeAt(at)
    if (code > 127) return hash(nameOf(text))
    const next = folded[code]!
    if (next === 32 && last === 32) continue
    sum = Math.imul(sum ^ next, prime)
    last = next
  }
  return sum
}

/** Maps the code of an ASCII character to its code in a normalised name. Capitals become small letters; white space becomes a space. */
const folded = Uint8Array.from(
  { length: 128 },
  (_, code) => code >= 65 && code <= 90 ? code + 32 : code >= 9 && code <= 13 ? 32 : code
)

/** Offset basis of FNV-1a. */
const offset = 0x811c9dc5 | 0
const prime = 0x01000193

/**
 * Returns the record names that a link's target may mean, without `.md` and normalised by `nameOf`. The whole target comes first, then its
 * last path segment.
 */
export const namesOf = (target: string): ReadonlyArray<string> => {
  const name = nameOf(target.replace(/\.md$/i, ""))
  const last = nameOf(name.slice(name.lastIndexOf("/") + 1))
  return [name, last].filter((one, i, all) => one !== "" && all.indexOf(one) === i)
}

/**
 * Returns the `#tag`s of markdown without the `#`, in order. Tags that differ only in case are returned once, as first written. A tag
 * stands at the start of a line or after white space, `(`, `,` or `;`. A tag consists of letters, digits, `_`, `-`, `/` and emoji, but not
 * of digits and `/` alone. Tags in code spans, in fenced code and in `[[…]]` links are ignored. Takes linear time.
 */
export const tags = (text: string): ReadonlyArray<string> => {
  if (!mayHaveTag(text)) return [] // fast path: most texts have `#` in headings only
  const found = new Map<string, string>()
  for (const paragraph of prose(text)) {
    if (!paragraph.includes("#")) continue
    const text = withoutCode(paragraph).replace(/\[\[[^[\]\n]*\]\]/g, " ")
    for (let at = text.indexOf("#"); at >= 0; at = text.indexOf("#", at + 1)) {
      if (at > 0 && !/[\s,;(]/.test(text[at - 1]!)) continue
      inline.lastIndex = at + 1
      const [tag] = inline.exec(text) ?? []
      if (tag !== undefined && !/^[\p{N}/]*$/u.test(tag) && !found.has(tag.toLowerCase())) {
        found.set(tag.toLowerCase(), tag)
      }
    }
  }
  return Array.from(found.values())
}

/** Whether some `#` may begin a tag. Its position must be one that `tags` allows. White space or another `#` must not follow. */
const mayHaveTag = (text: string): boolean => {
  for (let at = text.indexOf("#"); at >= 0; at = text.indexOf("#", at + 1)) {
    if ((at === 0 || /[\s,;(]/.test(text[at - 1]!)) && /[^\s#]/.test(text[at + 1] ?? "")) return true
  }
  return false
}

const inline = /[\p{L}\p{M}\p{N}\p{So}\u200d_/-]+/uy

/** Replaces each code span by a space. */
const withoutCode = (text: string): string => {
  if (!text.includes("`")) return text
  const runs = runsOf(text)
  let rest = ""
  let from = 0
  for (let at = text.indexOf("`"); at >= 0; at = text.indexOf("`", at)) {
    if (text[at - 1] === "\\") {
      at++
      continue
    }
    const [end, next] = spanAt(text, at, runs)
    if (next > end) {
      rest += text.slice(from, at) + " "
      from = next
    }
    at = next
  }
  return rest + text.slice(from)
}

/**
 * Returns the paragraphs of a text, without fenced code (CommonMark 0.31.2, §4.5). A code span never extends beyond its paragraph, so each
 * paragraph can be parsed separately.
 */
const prose = (text: string): ReadonlyArray<string> => {
  if (!text.includes("```") && !text.includes("~~~")) return text.split(blankLines) // the usual case: the text has no fence
  const paragraphs: Array<string> = []
  let lines: Array<string> = []
  let fence: string | undefined
  const end = () => {
    if (lines.length > 0) paragraphs.push(lines.join("\n"))
    lines = []
  }
  for (const line of text.split(/\r\n|\r|\n/)) {
    const mark = line.includes("```") || line.includes("~~~")
      ? /^(?:[ \t>]|[-*+][ \t]|\d{1,9}[.)][ \t])*(`{3,}|~{3,})([^]*)$/.exec(line) // a fence may be in a quotation or a list
      : null
    if (fence !== undefined) {
      if (mark && mark[1]!.startsWith(fence) && mark[2]!.trim() === "") fence = undefined
    } else if (mark && !(mark[1]!.startsWith("`") && mark[2]!.includes("`"))) {
      end()
      fence = mark[1]!
    } else if (line.trim() === "") end()
    else lines.push(line)
  }
  end()
  return paragraphs
}

/** Matches a line break and one or more blank lines after it. `\r\n` counts as one line break. */
const blankLines = /(?:\r\n|\n|\r(?!\n))[^\S\r\n]*[\r\n]\s*/

/** Whether a text has no backtick, backslash, `](` or `~~~`. Any link in such a text has the form `[[…]]`. */
const isPlain = (text: string): boolean =>
  !text.includes("`") && !text.includes("](") && !text.includes("\\") && !text.includes("~~~")

/** Returns the links of a text for which `isPlain` is true. Faster than `linksOf`, since it looks only for `[[`. */
const plainLinksOf = (text: string): ReadonlyArray<Wikilink> => {
  const links: Array<Wikilink> = []
  for (let at = text.indexOf("[["); at >= 0; at = text.indexOf("[[", at)) {
    const end = endOfTarget(text, at + 2)
    const link = text.startsWith("]]", end) ? linkOf(text.slice(at + 2, end), text[at - 1] === "!") : undefined
    if (link !== undefined) links.push(link)
    at = link === undefined ? at + 1 : end + 2
  }
  return links
}

/** Returns the index of the first square bracket or line break from `at` on, or the length of the text if there is none. */
const endOfTarget = (text: string, at: number): number => {
  let end = at
  while (end < text.length && !"[]\n\r".includes(text[end]!)) end++
  return end
}

/**
 * Returns the links of a paragraph, except links in code spans. A code span begins with a run of backticks, and ends with the next run of
 * the same length. Without such a next run, the backticks are plain text (CommonMark §6.1).
 */
const linksOf = (text: string): ReadonlyArray<Wikilink> => {
  const links: Array<Wikilink> = []
  const runs = runsOf(text)
  let opening: number | undefined
  for (let at = nextSpecial(text, 0); at < text.length; at = nextSpecial(text, at + 1)) {
    const character = text[at]
    if (character === "\\") at++
    else if (character === "`") at = spanAt(text, at, runs)[1] - 1
    else if (character === "[" && text[at + 1] === "[") {
      const end = endOfTarget(text, at + 2)
      const link = text.startsWith("]]", end) ? linkOf(text.slice(at + 2, end), text[at - 1] === "!") : undefined
      if (link === undefined) continue
      links.push(link)
      at = end + 1
    } else if (character === "[") opening = at
    else if (character === "]" && text[at + 1] === "(" && opening !== undefined) {
      const [link, end] = destinationAt(text, at + 2, text[opening - 1] === "!", text.slice(opening + 1, at))
      opening = undefined
      if (link === undefined) continue
      links.push(link)
      at = end
    }
  }
  return links
}

/**
 * Returns two indices: the end of the run of backticks at `at`, and the end of the code span that begins with the run. The two are equal if
 * no code span begins with the run.
 */
const spanAt = (text: string, at: number, runs: Map<number, Array<number>>): readonly [run: number, span: number] => {
  let end = at
  while (text[end] === "`") end++
  const starts = runs.get(end - at) ?? []
  while (starts.length > 0 && starts.at(-1)! < end) starts.pop()
  const close = starts.at(-1)
  return [end, close === undefined ? end : close + end - at]
}

/** Greatest length of a markdown link's destination, in UTF-16 units. */
const maxDestination = 2_048

/**
 * Parses the destination of a link (the part in parentheses), which begins at `at`. Returns the link and the index of the closing
 * parenthesis. The destination must be a `.md` path without a scheme such as `https:`. Otherwise, returns `undefined` and `at`.
 */
const destinationAt = (
  text: string,
  at: number,
  embed: boolean,
  alias: string
): readonly [Wikilink | undefined, number] => {
  const rest = text.slice(at, at + maxDestination)
  const found = /^\s*(?:<([^<>\n]*)>|([^\s<>()]*(?:\([^\s()]*\)[^\s<>()]*)*))(?:\s+(?:"[^"]*"|'[^']*'))?\s*\)/.exec(
    rest
  )
  const [path = "", heading] = halves(found?.[1] ?? found?.[2] ?? "", "#")
  const target = decoded(path)
  if (found === null || !/\.md$/i.test(target) || /^(?:[a-z][a-z0-9+.-]*:|\/\/)/i.test(target)) return [undefined, at]
  return [{ target, heading, alias: alias.trim() || undefined, embed, markdown: true }, at + found[0].length - 1]
}

/** Decodes percent escapes, and trims the result. Returns the text unchanged if an escape is invalid. */
const decoded = (text: string): string => {
  try {
    return decodeURIComponent(text).trim()
  } catch {
    return text
  }
}

/** Returns the index of the first backslash, backtick or square bracket from `at` on, or the length of the text if there is none. */
const nextSpecial = (text: string, at: number): number => {
  special.lastIndex = at
  return special.test(text) ? special.lastIndex - 1 : text.length
}
const special = /[\\`[\]]/g

/** Finds the runs of backticks in a text. Maps each length to the start indices of all runs of this length, last run first. */
const runsOf = (text: string): Map<number, Array<number>> => {
  const runs = new Map<number, Array<number>>()
  for (let end = text.length; end > 0;) {
    const last = text.lastIndexOf("`", end - 1)
    if (last < 0) break
    let start = last
    while (text[start - 1] === "`") start--
    const starts = runs.get(last + 1 - start)
    if (starts) starts.push(start)
    else runs.set(last + 1 - start, [start])
    end = start
  }
  return runs
}

const linkOf = (inner: string, embed: boolean): Wikilink | undefined => {
  const [before, alias] = halves(inner, "|")
  const path = alias === undefined ? before : before.replace(/\\$/, "") // markdown tables write the `|` as `\|`
  const [whole, heading] = halves(path, "#")
  const [target, block] = halves(whole, "^")
  return target === "" ? undefined : {
    target,
    heading: heading ?? (block === undefined ? undefined : `^${block}`),
    alias,
    embed
  }
}

const halves = (text: string, mark: string): readonly [string, string | undefined] => {
  const at = text.indexOf(mark)
  return at < 0 ? [text.trim(), undefined] : [text.slice(0, at).trim(), text.slice(at + 1).trim()]
}
