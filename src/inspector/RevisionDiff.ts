/** The difference between two revisions of a record: the changed fields, and the lines of both bodies. */
import * as Schema from "effect/Schema"
import { canonicalJson } from "../domain/Digest.ts"
import { encoded, type MemoryRecord } from "../domain/MemoryRecord.ts"

/**
 * Schema of a line of text. An `added` line comes from the later revision, a `removed` line from the earlier one, a `same` line from both.
 */
export const Line = Schema.Struct({ change: Schema.Literal("same", "added", "removed"), text: Schema.String })
/** A line, as its schema decodes it. */
export interface Line extends Schema.Schema.Type<typeof Line> {}

/** Schema of a difference. */
export const Difference = Schema.Struct({
  /**
   * Changed fields, with both values as JSON. The body, the revision and the times of creation and change are left out. A value is `null`
   * if the revision lacks the field.
   */
  fields: Schema.Array(Schema.Struct({
    field: Schema.String,
    before: Schema.NullOr(Schema.String),
    after: Schema.NullOr(Schema.String)
  })),
  /** Lines of both bodies if the bodies differ, else empty. */
  lines: Schema.Array(Line)
})
/** A difference, as its schema decodes it. */
export interface Difference extends Schema.Schema.Type<typeof Difference> {}

/**
 * Fields that a difference does not list. Some of these fields never change, others change in every revision. The lines of `body` are
 * compared instead.
 */
const aside = new Set(["id", "body", "revision", "createdAt", "updatedAt"])

/** Returns the difference between an earlier and a later revision. Cost: see `linesOf`. */
export const between = (before: MemoryRecord, after: MemoryRecord): Difference => {
  const earlier = new Map(Object.entries(encoded(before)))
  const later = new Map(Object.entries(encoded(after)))
  const json = (value: unknown) => value === undefined ? null : canonicalJson(value)
  const fields = Array.from(new Set([...earlier.keys(), ...later.keys()])).flatMap((field) => {
    const one = { field, before: json(earlier.get(field)), after: json(later.get(field)) }
    return aside.has(field) || one.before === one.after ? [] : [one]
  })
  return { fields, lines: before.body === after.body ? [] : linesOf(before.body, after.body) }
}

/** Largest number of line pairs to compare. If there are more, all lines from the first to the last change count as replaced. */
const maxPairs = 1_000_000

/**
 * Returns the difference of two texts as lines, by their longest common subsequence. Cost: number of lines of `before` × number of lines of
 * `after`, at most `maxPairs`. Equal lines at the beginning and at the end of the texts do not count.
 */
export const linesOf = (before: string, after: string): ReadonlyArray<Line> => {
  const a = before.split("\n")
  const b = after.split("\n")
  const shorter = Math.min(a.length, b.length)
  let start = 0
  while (start < shorter && a[start] === b[start]) start++
  let end = 0
  while (end < shorter - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end++
  const as = (change: Line["change"]) => (text: string): Line => ({ change, text })
  const removed = a.slice(start, a.length - end)
  const added = b.slice(start, b.length - end)
  const middle = removed.length * added.length > maxPairs
    ? [...removed.map(as("removed")), ...added.map(as("added"))]
    : merged(removed, added)
  return [...a.slice(0, start).map(as("same")), ...middle, ...a.slice(a.length - end).map(as("same"))]
}

const merged = (a: ReadonlyArray<string>, b: ReadonlyArray<string>): ReadonlyArray<Line> => {
  const width = b.length + 1
  // `common[i * width + j]` is the length of the longest common subsequence of `a.slice(i)` and `b.slice(j)`
  const common = new Uint32Array((a.length + 1) * width)
  const at = (i: number, j: number) => common[i * width + j]! // `i` and `j` are always within the table
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      common[i * width + j] = a[i] === b[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1))
    }
  }
  const lines: Array<Line> = []
  let i = 0
  let j = 0
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      lines.push({ change: "same", text: a[i++]! }) // i is below the length
      j++
    } else if (i < a.length && (j === b.length || at(i + 1, j) >= at(i, j + 1))) {
      lines.push({ change: "removed", text: a[i++]! }) // i is below the length
    } else {
      lines.push({ change: "added", text: b[j++]! }) // j is below the length: otherwise, the branch above is taken
    }
  }
  return lines
}
