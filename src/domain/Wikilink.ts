/**
 * `[[Name]]` in markdown: which records a text speaks of, by id or by name.
 *
 * ```text
 * [[target]]   [[target|alias]]   [[target#heading]]   ![[target]]        not in `code`, not in a fence, not after \
 * ```
 */

export interface Wikilink {
  /** An id, a name, or a path that ends in one; trimmed, not empty. */
  readonly target: string
  /** A place in the target: a heading, or `^block`. */
  readonly heading?: string | undefined
  readonly alias?: string | undefined
  /** `![[…]]` */
  readonly embed: boolean
}

/** How many different targets of one text count. */
export const maxTargets = 1_000

/** In order, the first of each target. Cost: one pass. */
export const parse = (text: string): ReadonlyArray<Wikilink> => {
  if (!text.includes("[[")) return []
  const found = new Map<string, Wikilink>()
  for (const paragraph of prose(text)) {
    if (!paragraph.includes("[[")) continue
    for (const link of linksOf(paragraph)) {
      if (!found.has(link.target)) found.set(link.target, link)
      if (found.size === maxTargets) return Array.from(found.values())
    }
  }
  return Array.from(found.values())
}

/** Equal for names that differ in case, white space or Unicode form only. */
export const nameOf = (text: string): string =>
  text.normalize("NFC").replace(/\s+/g, " ").trim().toUpperCase().toLowerCase().normalize("NFC") // ß is ss

/** What may be meant by a target, the likelier first: all of it, then what comes after its folders. */
export const namesOf = (target: string): ReadonlyArray<string> => {
  const name = nameOf(target.replace(/\.md$/i, ""))
  const last = nameOf(name.slice(name.lastIndexOf("/") + 1))
  return [name, last].filter((one, i, all) => one !== "" && all.indexOf(one) === i)
}

/** Paragraphs, for no code span goes beyond one; fences are left out (CommonMark 0.31.2, §4.5). */
const prose = (text: string): ReadonlyArray<string> => {
  const paragraphs: Array<string> = []
  let lines: Array<string> = []
  let fence: string | undefined
  const end = () => {
    if (lines.length > 0) paragraphs.push(lines.join("\n"))
    lines = []
  }
  for (const line of text.split(/\r\n|\r|\n/)) {
    const mark = /^(?:[ \t>]|[-*+][ \t]|\d{1,9}[.)][ \t])*(`{3,}|~{3,})([^]*)$/.exec(line) // in a quotation or a list, too
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

/** A code span ends at the next run of as many backticks as it began with; where there is none, they are text (§6.1). */
const linksOf = (text: string): ReadonlyArray<Wikilink> => {
  const links: Array<Wikilink> = []
  const runs = runsOf(text)
  for (let at = 0; at < text.length; at++) {
    const character = text[at]
    if (character === "\\") at++
    else if (character === "`") {
      let end = at
      while (text[end] === "`") end++
      const length = end - at
      const starts = runs.get(length) ?? []
      while (starts.length > 0 && starts.at(-1)! < end) starts.pop()
      at = (starts.at(-1) ?? at) + length - 1
    } else if (character === "[" && text[at + 1] === "[") {
      let end = at + 2
      while (end < text.length && !"[]\n".includes(text[end]!)) end++
      const link = text.startsWith("]]", end) ? linkOf(text.slice(at + 2, end), text[at - 1] === "!") : undefined
      if (link === undefined) continue
      links.push(link)
      at = end + 1
    }
  }
  return links
}

/** Where runs of so many backticks begin, the last first. */
const runsOf = (text: string): Map<number, Array<number>> => {
  const runs = new Map<number, Array<number>>()
  for (const { 0: { length }, index } of Array.from(text.matchAll(/`+/g)).reverse()) {
    const starts = runs.get(length)
    if (starts) starts.push(index)
    else runs.set(length, [index])
  }
  return runs
}

const linkOf = (inner: string, embed: boolean): Wikilink | undefined => {
  const [before, alias] = halves(inner, "|")
  const [target, heading] = halves(alias === undefined ? before : before.replace(/\\$/, ""), "#") // in a table: \|
  return target === "" ? undefined : { target, heading, alias, embed }
}

const halves = (text: string, mark: string): readonly [string, string | undefined] => {
  const at = text.indexOf(mark)
  return at < 0 ? [text.trim(), undefined] : [text.slice(0, at).trim(), text.slice(at + 1).trim()]
}
