/** Renders records as text, for a terminal and, without colours, for a file or a pipe. */
import type { MemoryRecord } from "../domain/MemoryRecord.ts"
import { Global, type MemoryScope } from "../domain/MemoryScope.ts"
import type * as Analyzer from "../ranking/Analyzer.ts"
import { age, iso, safe, safeLine, type Service as Screen, wrap } from "./Screen.ts"

/** Renders a scope in words: `user ada · agent pilot`. */
export const scopeIn = (scope: MemoryScope): string =>
  scope === Global
    ? "global"
    : Object.entries(scope).map(([field, id]) => `${field.replace(/Id$/, "")} ${safeLine(String(id))}`).join(" · ")

/** Returns the time at which a record was last changed. */
export const changedAt = ({ createdAt, updatedAt }: Pick<MemoryRecord, "createdAt" | "updatedAt">): number =>
  updatedAt ?? createdAt

/** Renders the line below the headline of a record: kind, scope, time of change, tags and id. */
export const facts = (record: MemoryRecord, now: number, { isTerminal, paint }: Screen): string => {
  const tags = record.tags.map((tag) => `#${safeLine(tag)}`).join(" ")
  const time = isTerminal ? age(changedAt(record), now) : iso(changedAt(record))
  const parts = [safeLine(record.kind), scopeIn(record.scope), time, tags].filter((part) => part !== "")
  return `${paint("dim", parts.join(" · "))}  ${paint("cyan", record.id)}`
}

/** Renders a record in two lines: its summary, and its `facts`. */
export const row = (record: MemoryRecord, now: number, screen: Screen): string =>
  `${screen.paint("bold", safeLine(record.summary))}\n    ${facts(record, now, screen)}`

const width = 10
/** Renders a score of 0..1 as a bar of ten cells. */
export const bar = (score: number): string => {
  const full = Math.max(0, Math.min(width, Math.round(score * width)))
  return "█".repeat(full) + "░".repeat(width - full)
}

/** Tells whether a word and the query have a term of the analyzer in common. */
export interface IsAsked {
  (word: string): boolean
}

/** Returns a function that tells whether a word occurs in a query. Two words match if the analyzer gives them a common term. */
export const asked = ({ index, query }: Analyzer.Service, question: string): IsAsked => {
  const terms = new Set(query(question))
  const known = new Map<string, boolean>()
  return (word) => {
    const answer = known.get(word) ?? index(word).some((term) => terms.has(term))
    known.set(word, answer)
    return answer
  }
}

const words = /[\p{L}\p{N}]+/gu

/** Escapes control characters in a text, and highlights the words of the query in it. */
export const highlight = (text: string, isAsked: IsAsked, { paint }: Screen): string =>
  safe(text).replace(words, (word) => isAsked(word) ? paint("yellow", paint("bold", word)) : word)

/**
 * Shortens a text to one line of at most `most` characters, not counting `…`. The line is the part of the text around the first word that
 * also occurs in the query. The line has the whole word or, of a longer word, the first `most` characters. If the text has no such word, the
 * line is the beginning of the text. The line is cut at spaces, unless that would cut off the word.
 */
export const excerpt = (text: string, isAsked: IsAsked, most: number): string => {
  const line = text.replace(/\s+/g, " ").trim()
  if (line.length <= most) return line
  const match = Array.from(line.matchAll(words)).find(([word]) => isAsked(word))
  const first = match?.index ?? 0
  const last = first + Math.min(most, match?.[0].length ?? 0)
  const from = Math.max(0, Math.min(Math.max(first - Math.floor(most / 3), last - most), line.length - most))
  const space = line.slice(from, first).indexOf(" ")
  const start = from === 0 ? 0 : from + space + 1
  const cut = line.slice(start, start + most)
  const lastSpace = cut.lastIndexOf(" ")
  const end = start + most >= line.length || start + lastSpace < last ? cut : cut.slice(0, lastSpace)
  return `${start > 0 ? "… " : ""}${end.toWellFormed()}${start + most < line.length ? " …" : ""}`
}

/**
 * Indents every line of a text by `by` spaces. On a terminal, first wraps the text so that the indented lines fit. Lines of at most 40
 * characters stay whole.
 */
export const indented = (text: string, { columns, isTerminal }: Screen, by = 4): string =>
  (isTerminal ? wrap(text, Math.max(40, columns - by)) : text.split("\n")).map((line) => " ".repeat(by) + line).join(
    "\n"
  )
