/**
 * Applies a change of a record to the text of a Markdown note that the library did not write. The rest of the text stays untouched.
 *
 * A changed field other than `updatedAt` is written if the author's frontmatter has a property for the field. Other changed fields must be
 * stored elsewhere. A changed body is written. Law: all other bytes of the text stay the same, such as comments, order, quoting, line ends
 * and the BOM. Exception: comments at a removed property or list item, or inside a replaced value, may be lost. All functions are pure.
 */
import * as Either from "effect/Either"
import * as Yaml from "yaml"
import { canonicalJson } from "../../../domain/Digest.ts"
import type { MemoryRecord } from "../../../domain/MemoryRecord.ts"
import type { Json, JsonObject } from "../../../domain/Payload.ts"
import * as ForeignNote from "./ForeignNote.ts"
import * as Frontmatter from "./Frontmatter.ts"

/** A replacement of a range of the text, in UTF-16 units. */
interface Splice {
  readonly start: number
  readonly end: number
  readonly text: string
}

interface Property {
  readonly name: string
  readonly key: Yaml.Scalar
  readonly value: Yaml.Node | null
  /** The value as JSON, in the same form as in the metadata of a record. */
  readonly json: Json
}

interface Note {
  readonly body: readonly [start: number, end: number]
  readonly eol: string
  /** Range of the frontmatter's YAML in the text. Absent if there is no frontmatter, or if the YAML cannot be parsed. */
  readonly matter?: readonly [start: number, end: number]
  readonly isFlow: boolean
  readonly properties: ReadonlyArray<Property>
}

/**
 * Returns a note's text with the changes from the record `before` to the record `after`. `before` must be the record that was read from
 * `text`. The result is `text` itself if neither a property nor the body changed. `Left` is the reason why the changes cannot be written.
 */
export const edit = (text: string, before: MemoryRecord, after: MemoryRecord): Either.Either<string, string> => {
  const note = parseNote(text)
  if (text.slice(...note.body) !== before.body) return Either.left("body: the file holds another text than the record")
  const changes = note.properties.flatMap((property) => {
    const next = nextOf(property, before, after)
    return canonicalJson(next ?? null) === canonicalJson(property.json) && next !== undefined
      ? []
      : [{ property, next }]
  })
  const expected = new Map<string, Json>(note.properties.map(({ json, name }) => [name, json]))
  for (const { next, property: { name } } of changes) {
    if (next === undefined) expected.delete(name)
    else expected.set(name, next)
  }
  const isSame = before.body === after.body
  if (changes.length === 0 && isSame) return Either.right(text)

  const bodies = isSame
    ? [[]]
    : ["", note.eol].flatMap((head) => ["", note.eol].map((tail) => [bodySplice(note, head + after.body + tail)]))
  for (const way of ["items", "values", "quoted"] satisfies ReadonlyArray<Way>) {
    const splices = changes.map(({ next, property }) =>
      next === undefined ? removal(text, note, property, way) : replacement(text, note, property, next, way)
    ).flat()
    for (const body of bodies) {
      const edited = spliced(text, [...splices, ...body])
      if (reads(edited, after.body, expected)) return Either.right(edited)
    }
  }
  return Either.left("frontmatter: the change cannot be written without touching the rest")
}

/** Whether `text` has exactly the properties `expected`, in this order, and the body `body`. */
const reads = (text: string, body: string, expected: ReadonlyMap<string, Json>): boolean => {
  const { body: at, properties } = parseNote(text)
  return text.slice(...at) === body && canonicalJson(properties.map(({ json, name }) => [name, json])) ===
      canonicalJson(Array.from(expected))
}

const parseNote = (text: string): Note => {
  const parts = Frontmatter.locate(text)
  const start = text.startsWith("\uFEFF") ? 1 : 0
  const whole = Frontmatter.bodyOf(text)
  const eol = text.includes("\r\n") ? "\r\n" : "\n"
  const at = text.startsWith(eol, start) ? start + eol.length : start
  const none: Note = { body: [at, at + whole.length], eol, isFlow: false, properties: [] }
  if (Either.isLeft(parts)) return none
  const { body, matter } = parts.right
  if (matter === undefined) return { ...none, body, eol: parts.right.eol }
  const source = text.slice(...matter)
  const document = Frontmatter.within(source, Frontmatter.parsed)
  if (Either.isLeft(document) || Either.isLeft(Frontmatter.within(source, Frontmatter.yaml))) return none
  const { contents } = document.right
  if (!Yaml.isMap(contents)) return { ...none, body, matter }
  const properties = contents.items.flatMap(({ key, value }): ReadonlyArray<Property> => {
    if (!Yaml.isScalar(key)) return []
    const name = String(key.value)
    const node = Yaml.isNode(value) ? value : null
    const js: unknown = node?.toJS(document.right, { maxAliasCount: 20 })
    return [{ name, key, value: node, json: ForeignNote.jsonOf([["value", js]])["value"] ?? null }]
  })
  return { body, eol: parts.right.eol, matter, isFlow: contents.flow === true, properties }
}

/** Record fields whose property has the same name and value as the field. */
const fields = ["kind", "summary", "importance", "confidence", "supersededBy", "data"] as const
const times = ["createdAt", "validAt", "invalidAt", "expiresAt"] as const

/** Returns the new value of a property; `undefined` if the property must be removed. */
const nextOf = (property: Property, before: MemoryRecord, after: MemoryRecord): Json | undefined => {
  const { json, name } = property
  if (name === "tags") {
    const tags = tagsAfter(property, before, after)
    if (tags !== json) return tags
  }
  const field = fields.find((field) => field === name)
  const time = times.find((time) => time === name)
  const [old, next] = field !== undefined
    ? [before[field], after[field]]
    : time !== undefined
    ? [before[time], after[time]]
    : name === "links"
    ? [Frontmatter.printLinks(before) ?? [], Frontmatter.printLinks(after) ?? []]
    : [undefined, undefined]
  const isMetadata = Object.hasOwn(before.metadata, name) && same(before.metadata[name], json)
  if (!same(old, next) && (!isMetadata || name === "summary")) {
    // the cast is safe: times, links, and the fields in `fields` have JSON values
    return time === undefined || typeof json === "number" ? next as Json | undefined : Frontmatter.time(after[time])
  }
  if (isMetadata) return after.metadata[name]
  if (name === "metadata" && typeof json === "object" && json !== null && !Array.isArray(json)) {
    const kept = Object.entries(json as JsonObject).flatMap(([key, value]) =>
      // the cast is safe: the condition above excludes arrays
      same(before.metadata[key], value)
        ? after.metadata[key] === undefined ? [] : [[key, after.metadata[key]] as const]
        : [[key, value] as const]
    )
    return Object.fromEntries(kept)
  }
  return json
}

const same = (a: unknown, b: unknown): boolean => canonicalJson(a ?? null) === canonicalJson(b ?? null)

/** Returns the new value of the property `tags`. Returns the old value itself if no tag was added or removed. */
const tagsAfter = ({ json }: Property, before: MemoryRecord, after: MemoryRecord): Json => {
  const added = ForeignNote.without(after.tags, before.tags)
  const removed = ForeignNote.without(before.tags, after.tags)
  const items = ForeignNote.listOf(json) as ReadonlyArray<Json> // the cast is safe: the items of a JSON value are JSON
  const kept = items.filter((item) =>
    typeof item === "object" || ForeignNote.without([String(item).trim().replace(/^#/, "")], removed).length > 0
  )
  if (added.length === 0 && kept.length === items.length) return json
  const list = [...kept, ...added]
  if (typeof json !== "string" || list.some((tag) => /[\s,]/.test(String(tag)))) return list
  return list.join(json.includes(",") ? ", " : " ")
}

const offsetOf = ({ matter = [0, 0] }: Note): number => matter[0]

/** Ways to write a changed property, tried in this order: only the changed list items, the whole value, the value in quotes. */
type Way = "items" | "values" | "quoted"

/**
 * Removes a property with the rest of its line. If `way` is `quoted`, also removes the comments up to the next property, since they could
 * become part of the preceding property.
 */
const removal = (text: string, note: Note, { key, name, value }: Property, way: Way): ReadonlyArray<Splice> => {
  const offset = offsetOf(note)
  const [, matterEnd] = note.matter ?? [0, 0]
  const start = offset + (key.range?.[0] ?? 0)
  const end = offset + Math.max(key.range?.[1] ?? 0, value?.range?.[1] ?? 0)
  if (note.isFlow) {
    const at = note.properties.findIndex((property) => property.name === name)
    const next = note.properties[at + 1]?.key.range?.[0]
    const last = note.properties[at - 1]
    if (next !== undefined) return [{ start, end: offset + next, text: "" }]
    const from = last === undefined ? start : offset + Math.max(last.key.range?.[1] ?? 0, last.value?.range?.[1] ?? 0)
    return [{ start: from, end: text.startsWith(":", end) ? end + 1 : end, text: "" }]
  }
  const isLineEnd = text[end - 1] === "\n" && end > start
  const following = note.properties[note.properties.findIndex((property) => property.name === name) + 1]?.key.range?.[0]
  const least = isLineEnd ? end : text.indexOf("\n", end) + 1
  const line = way !== "quoted" ? least : following === undefined ? matterEnd : offset + following
  const to = line === 0 || line > matterEnd ? matterEnd : line
  if (to < matterEnd || start === offset) return [{ start, end: to, text: "" }]
  return [{ start: start - (text.slice(0, start).endsWith("\r\n") ? 2 : 1), end: to, text: "" }] // includes the preceding line break
}

/** Replaces the value of a property. If `way` is `items`, changes only single items of a list, where possible. */
const replacement = (
  text: string,
  note: Note,
  { json, key, value }: Property,
  next: Json,
  way: Way
): ReadonlyArray<Splice> => {
  const offset = offsetOf(note)
  const quoting = way === "quoted" || note.isFlow ? "QUOTE_DOUBLE" : styleOf(value)
  const inline = (json: Json) => written(json, quoting)
  const range = value?.range
  if (!range || range[0] === range[1]) {
    const colon = text.indexOf(":", offset + (key.range?.[1] ?? 0)) + 1
    return [{ start: colon, end: colon, text: ` ${inline(next)}` }]
  }
  if (way === "items" && Yaml.isSeq(value) && Array.isArray(next) && Array.isArray(json)) {
    // the casts are safe: both values are JSON, and the condition above checks that they are arrays
    const items = itemwise(text, offset, note.eol, value, json as ReadonlyArray<Json>, next as ReadonlyArray<Json>)
    if (items) return items
  }
  const [start, end] = [offset + range[0], offset + range[1]]
  const column = start - (text.lastIndexOf("\n", start - 1) + 1)
  const isBlock = Yaml.isCollection(value) && value.flow !== true
  const isLong = isBlock && way !== "quoted" && typeof next === "object" && next !== null &&
    Object.keys(next).length > 0
  const lines = isLong ? Yaml.stringify(next, { lineWidth: 0 }).trimEnd().split("\n") : [inline(next)]
  const tail = /\r?\n$/.exec(text.slice(start, end))?.[0] ?? ""
  const replaced = lines.join(note.eol + " ".repeat(isLong ? column : 0)) + tail
  if (!isBlock || isLong) return [{ start, end, text: replaced }]
  // the old value starts below its key. The new value goes on the line of the key, before a comment on that line
  const colon = text.indexOf(":", offset + (key.range?.[1] ?? 0)) + 1
  const line = trimmedEnd(text, text.indexOf("\n", colon) + 1)
  return line > start
    ? [{ start: colon, end, text: ` ${replaced}` }]
    : [{ start: colon, end: colon, text: ` ${inline(next)}` }, { start: line, end: end - tail.length, text: "" }]
}

/** Removes items from a list, and appends new items. Returns `undefined` if no item is kept, or if an item is not a scalar. */
const itemwise = (
  text: string,
  offset: number,
  eol: string,
  list: Yaml.YAMLSeq,
  json: ReadonlyArray<Json>,
  next: ReadonlyArray<Json>
): ReadonlyArray<Splice> | undefined => {
  const nodes = list.items.flatMap((item) => Yaml.isScalar(item) && item.range ? [item.range] : [])
  if (nodes.length !== list.items.length || nodes.length === 0) return undefined
  let kept = 0
  const isKept = json.map((item) => kept < next.length && same(item, next[kept]) && ++kept > 0)
  const added = next.slice(kept)
  if (kept === 0 || json.slice(0, -1).some((_, i) => nodes[i]![1] > nodes[i + 1]![0])) return undefined
  const isFlow = list.flow === true
  const style = styleOf(list.items.at(-1))
  const lineStart = (at: number) => text.lastIndexOf("\n", at - 1) + 1
  const lineEnd = (at: number) => text.indexOf("\n", at) + 1 || text.length
  const splices: Array<Splice> = []
  const last = isKept.lastIndexOf(true)
  for (const [i, isThere] of isKept.entries()) {
    if (isThere) continue
    const [start, end] = [offset + nodes[i]![0], offset + nodes[i]![1]]
    if (!isFlow) {
      // removes the line break before the item, since the last line may have no line break after it
      splices.push({
        start: lineStart(start) - (text[lineStart(start) - 2] === "\r" ? 2 : 1),
        end: trimmedEnd(text, lineEnd(end)),
        text: ""
      })
    } else if (i > last) splices.push({ start: offset + nodes[i - 1]![1], end, text: "" })
    else splices.push({ start, end: offset + nodes[i + 1]![0], text: "" })
  }
  if (added.length > 0) {
    const [start, end] = [offset + nodes[last]![0], offset + nodes[last]![1]]
    const indent = text.slice(lineStart(start), start)
    const at = isFlow ? end : trimmedEnd(text, lineEnd(end))
    const texts = added.map((item) => written(item, isFlow && style === "PLAIN" ? undefined : style))
    splices.push({
      start: at,
      end: at,
      text: texts.map((item) => isFlow ? `, ${item}` : `${eol}${indent}${item}`).join("")
    })
  }
  return splices
}

/** Returns the position of the line break that ends at `end`; `end` itself if there is none. */
const trimmedEnd = (text: string, end: number): number =>
  text.endsWith("\r\n", end) ? end - 2 : text.endsWith("\n", end) ? end - 1 : end

type Style = "PLAIN" | "QUOTE_SINGLE" | "QUOTE_DOUBLE"

const styleOf = (node: unknown): Style =>
  Yaml.isScalar(node) && (node.type === "QUOTE_SINGLE" || node.type === "QUOTE_DOUBLE") ? node.type : "PLAIN"

/** Prints JSON as one line of YAML. If `style` is `undefined`, prints the JSON as it must stand between the brackets of a list. */
const written = (json: Json, style: Style | undefined): string => {
  const options = { lineWidth: 0, blockQuote: false, flowCollectionPadding: false } as const
  if (style === undefined) return Yaml.stringify([json], { ...options, collectionStyle: "flow" }).trimEnd().slice(1, -1)
  if (typeof json === "object" && json !== null) {
    return Yaml.stringify(json, { ...options, collectionStyle: "flow", defaultStringType: style }).trimEnd()
  }
  const isLong = typeof json === "string" && /[\r\n]/.test(json)
  return Yaml.stringify(json, { ...options, defaultStringType: isLong ? "QUOTE_DOUBLE" : style }).trimEnd()
}

const bodySplice = ({ body: [start, end] }: Note, text: string): Splice => ({ start, end, text })

const spliced = (text: string, splices: ReadonlyArray<Splice>): string =>
  splices.slice().sort((a, b) => b.start - a.start || b.end - a.end)
    .reduce((rest, { end, start, text }) => rest.slice(0, start) + text + rest.slice(end), text)
