/**
 * A test collection from a folder:
 *
 * ```text
 * docs.jsonl      { id, text, title?, speaker?, caption?, conv?, session?, date? }    in order, oldest first
 * queries.jsonl   { id, text, conv?, category? }
 * qrels.tsv       query id, document id, grade                                 above 0 is relevant
 * ```
 */
import { readFileSync } from "node:fs"
import { join } from "node:path"

/** What is wrong with the data or the command: said without a stack trace. */
export class Refusal extends Error {}

/**
 * Documents with what an evaluation needs: `text`, `conv` (`undefined`: of none), `session`, `sequence`, the place in
 * the session, `speaker`, and `at`, when it was said, in epoch milliseconds. Queries with their `grades` by document; those without a relevant document are left out, as is `excluded`.
 */
export const load = (folder, { exclude } = {}) => {
  const docs = unique(jsonLines(join(folder, "docs.jsonl")))
  const all = unique(jsonLines(join(folder, "queries.jsonl")))
  const grades = judgements(join(folder, "qrels.tsv"))

  const lengths = new Map()
  const documents = docs.map((doc) => {
    const conv = optional(doc.conv)
    const session = optional(doc.session)
    const key = JSON.stringify([conv, session])
    const sequence = session === undefined ? undefined : lengths.get(key) ?? 0
    lengths.set(key, (sequence ?? 0) + 1)
    const { date, id, place, speaker } = doc
    return {
      id: String(id),
      text: textOf(doc).toWellFormed(),
      conv,
      session,
      sequence,
      speaker,
      at: timeOf(date, place)
    }
  })

  const queries = all.flatMap((query) => {
    const judged = grades.get(String(query.id)) ?? new Map()
    const category = optional(query.category)
    if (category !== undefined && category === exclude) return []
    if (!Array.from(judged.values()).some((grade) => grade > 0)) return []
    return [{
      id: String(query.id),
      text: query.text.toWellFormed(),
      conv: optional(query.conv),
      category,
      grades: judged
    }]
  })
  if (queries.length === 0) throw new Refusal(`${folder}: no query that has a relevant document`)
  return { documents, queries }
}

/** Text and caption where somebody speaks, else title and text. */
const textOf = ({ caption, speaker, text, title }) =>
  speaker === undefined ? [title, text].filter(Boolean).join("\n") : [text, caption].filter(Boolean).join(" ")

/** `1:56 pm on 8 May, 2023`, `29.12.2023, 22:42:04`, or what `Date` reads; as of UTC. */
const timeOf = (date, place) => {
  if (date === undefined) return undefined
  const [, hour, minute, half, day] = /^(\d+):(\d+) (am|pm) on (.+)$/.exec(date) ?? []
  const [, d, m, y, time] = /^(\d+)\.(\d+)\.(\d+), ([\d:]+)$/.exec(date) ?? []
  const at = half !== undefined
    ? Date.parse(`${day} UTC`) + ((Number(hour) % 12 + (half === "pm" ? 12 : 0)) * 60 + Number(minute)) * 60_000
    : Date.parse(time === undefined ? date : `${y}-${m}-${d}T${time}Z`)
  if (!Number.isFinite(at)) throw new Refusal(`${place}: no date`)
  return at
}

const optional = (value) => value === undefined || value === null ? undefined : String(value)

const lines = (path) => {
  const read = () => {
    try {
      return readFileSync(path, "utf8")
    } catch (error) {
      throw new Refusal(`cannot read ${path}: ${error.code}`)
    }
  }
  return read().split(/\r?\n/).flatMap((line, i) => line.trim() === "" ? [] : [[line, `${path}:${i + 1}`]])
}

const jsonLines = (path) =>
  lines(path).map(([line, place]) => {
    const value = parsed(line, place)
    if (typeof value?.id !== "string" && typeof value?.id !== "number") throw new Refusal(`${place}: no id`)
    if (typeof value.text !== "string") throw new Refusal(`${place}: no text`)
    return { ...value, place }
  })

const parsed = (line, place) => {
  try {
    return JSON.parse(line)
  } catch {
    throw new Refusal(`${place}: not JSON`)
  }
}

const unique = (rows) => {
  const seen = new Set()
  for (const { id, place } of rows) {
    if (seen.has(String(id))) throw new Refusal(`${place}: ${id} is there twice`)
    seen.add(String(id))
  }
  return rows
}

const judgements = (path) => {
  const grades = new Map()
  for (const [line, place] of lines(path)) {
    const [query, doc, grade, ...rest] = line.split("\t")
    if (rest.length > 0 || grade === undefined || grade.trim() === "" || !Number.isFinite(Number(grade))) {
      throw new Refusal(`${place}: expected query id, document id and grade, tab separated`)
    }
    if (!grades.has(query)) grades.set(query, new Map())
    grades.get(query).set(doc, Number(grade))
  }
  return grades
}
