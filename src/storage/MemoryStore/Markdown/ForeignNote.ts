/**
 * Reads notes that the library did not write: notes by Obsidian, drover (another memory program) or a person. A note becomes a record even
 * if some of its parts cannot be read.
 *
 * ```text
 * frontmatter    is part of the body if it cannot be parsed. Exception: a text is no note if its unreadable frontmatter may restrict who
 *                sees it (see `mayRestrict`)
 * properties     become fields of the record if their names and values match, otherwise metadata with the same names. Exception: drover's
 *                own properties do not become metadata, but stay in the file
 * summary        that of the text, else an earlier explicit summary, else one derived from the body if the file is named after an id, else
 *                the file's name
 * tags           those of the property, then those in the body (#tag). In a text by drover, only the former. If the property has
 *                more than 32 tags or an invalid one, the whole property becomes metadata, too
 * created, date  set createdAt if there is no valid property createdAt
 * expiresAt      becomes metadata, so that no property makes the library delete another author's note. Exception: in a text by drover, or
 *                with a `hash` in the library's format, it sets the field
 * body           at most 1,048,576 characters; the rest is not read. The library then never changes the text, but may restore it
 * ```
 *
 * The field `issues` says which parts of a text could not be read. All functions are pure.
 */
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import * as MemoryId from "../../../domain/MemoryId.ts"
import * as MemoryKind from "../../../domain/MemoryKind.ts"
import { deriveSummary, Link, maxFileBody, MemoryRecord, Summary, Tag, Unit } from "../../../domain/MemoryRecord.ts"
import * as MemoryScope from "../../../domain/MemoryScope.ts"
import * as Payload from "../../../domain/Payload.ts"
import { payloadIssues } from "../../../domain/Validation.ts"
import * as Wikilink from "../../../domain/Wikilink.ts"
import * as Frontmatter from "./Frontmatter.ts"
import * as Layout from "./Layout.ts"

type Matter = Readonly<Record<string, unknown>>

/** The record that was last read from a note's file, for comparison. */
export interface Previous {
  readonly record: MemoryRecord
  /** Names of the properties in the file when `record` was read. The author has removed those that are missing now. Default: none. */
  readonly properties?: ReadonlyArray<string> | undefined
}

/**
 * Returns a `Previous` for a text that the library wrote. Such a text had a property for every field that differed from its default. A
 * property that is missing now therefore counts as removed.
 */
export const withAllProperties = ({ record }: Previous): Previous => ({
  record,
  properties: [...fieldNames, ...Object.keys(record.metadata)]
})

/** The result of reading a note. */
export interface Read {
  readonly tenant: string
  /** Fields of the record, as its schema accepts them. */
  readonly fields: Readonly<Record<string, unknown>>
  /** Properties that are not fields of a record, with their values in the text. */
  readonly extra: Matter
  /** Reasons why parts of the text could not be read, one sentence for each. */
  readonly issues: ReadonlyArray<string>
  /** Whether the text is too long for the body of a record. The body then contains only the beginning of the text. */
  readonly isPartial: boolean
}

/**
 * Names of properties that are never extra: those that the library adds, such as `hash`, and the fields of a record. `id`, `source` and
 * `body` may be extra.
 */
export const fieldNames: ReadonlySet<string> = new Set([
  ...Object.keys(MemoryRecord.fields).filter((key) => !["id", "source", "body"].includes(key)),
  ...["origin", "trust", "reference", "session", "sequence", "tenant", "hash"],
  ...MemoryScope.fields
])
/** Names of properties that are the library's own if the text has a `hash` in the library's format. Otherwise they are the author's. */
const signed = ["origin", "trust", "reference", "session", "sequence", "hash", "revision", "summaryDerived"]

/**
 * Whether a text is a note that the library did not write. The path of such a note has another form than the library's paths. The
 * frontmatter of such a note lacks the library's id or hash.
 */
export const isForeign = (recordPath: Layout.RecordPath, matter: Matter): boolean =>
  !recordPath.isOurs && !(isId(matter["id"]) && Layout.isLibraryText(matter))

/**
 * Whether a text with unreadable frontmatter is a damaged copy of a record. If so, the text is not a note. A damaged copy has an `id` line
 * and a `hash` line in the library's format.
 */
export const isBrokenCopy = (text: string): boolean =>
  /^id: ["']?[0-9A-HJKMNP-TV-Z]{26}["']?\s*$/m.test(text) && /^hash: ["']?[0-9a-f]{64}["']?\s*$/m.test(text) &&
  text.trimStart().startsWith("---")

/**
 * Whether unreadable frontmatter may restrict who sees a note. Such a text is not read as a note, since it would be visible to more people.
 * True if a line names an id of a scope or the tenant, or if `previous` has another scope than the note's folder gives.
 */
export const mayRestrict = (path: string, text: string, previous: Previous | undefined): boolean => {
  if (restriction.test(text)) return true
  const belonging = Layout.belonging(Layout.parsePath(path), {})
  return previous !== undefined && Either.isRight(belonging) &&
    MemoryScope.key(belonging.right.scope) !== MemoryScope.key(previous.record.scope)
}
const restriction = new RegExp(`^\\s*["']?(?:${[...MemoryScope.fields, "tenant"].join("|")})["']?\\s*:`, "m")

/**
 * Whether drover (another memory program) wrote a text. Such a text has a path in the library's format, but no hash. Its property `scope`
 * is a word that drover uses.
 */
export const isDrovers = (recordPath: Layout.RecordPath, matter: Matter): boolean =>
  recordPath.isOurs && recordPath.scope !== Layout.internal && matter["hash"] === undefined &&
  ["global", "agent", "run"].includes(String(matter["scope"]))

/**
 * Reads the record of a note from its properties and body. A field without a property keeps its value in `previous`, unless the author
 * removed the property. Exceptions: derived values, `scope`, `updatedAt`, `revision`, and `source` (only trust 3 is kept). The creation
 * time is `mtime` (epoch ms) if not known otherwise. `Left` if a folder's name is the hash of an id, and the text does not state this id.
 * Also `Left` if a text of drover (another memory program) states another tenant or scope than its path.
 */
export const read = (
  kinds: ReadonlyMap<string, MemoryKind.MemoryKind>,
  path: string,
  [matter, whole]: readonly [Matter, string],
  mtime: number,
  previous?: Previous
): Either.Either<Read, string> => {
  const recordPath = Layout.parsePath(path)
  return Either.map(
    recordPath.isOurs ? drovers(recordPath, matter) : Layout.belonging(recordPath, matter),
    (belonging) => readAt({ kinds, path, recordPath, belonging }, [matter, whole], mtime, previous)
  )
}

/** Returns the tenant and the scope of a text that drover (another memory program) wrote. */
const drovers = (recordPath: Layout.RecordPath, matter: Matter): Either.Either<Layout.Belonging, string> =>
  Either.flatMap(
    Layout.claimedTenant(recordPath, matter),
    (tenant) =>
      Either.map(Layout.claimedScope(recordPath, matter), (scope) => ({ tenant, scope, properties: droverProperties }))
  )

interface At {
  readonly kinds: ReadonlyMap<string, MemoryKind.MemoryKind>
  readonly path: string
  readonly recordPath: Layout.RecordPath
  readonly belonging: Layout.Belonging
}

const readAt = (
  { belonging, kinds, path, recordPath }: At,
  [matter, whole]: readonly [Matter, string],
  mtime: number,
  previous: Previous | undefined
): Read => {
  const issues: Array<string> = []
  const before = previous?.record
  const had = new Set(previous?.properties)
  const isGone = (key: string): boolean => had.has(key) && !(key in matter)
  const kept = <K extends keyof MemoryRecord>(key: K): MemoryRecord[K] | undefined =>
    before === undefined || isGone(key) ? undefined : before[key]

  /** Properties from which no field has been read so far. Those that remain in the end become metadata, except drover's own properties. */
  const rest = new Map(Object.entries(matter).filter(([key]) => !belonging.properties.has(key)))
  const isSigned = Layout.isLibraryText(matter)
  const source = isSigned
    ? defined({ session: asText(matter["session"]), sequence: asCount(matter["sequence"]) })
    : {}
  if (isSigned) { for (const key of signed) rest.delete(key) }
  const take = <A>(key: string, as: (value: unknown) => A | undefined): A | undefined => {
    const value = rest.get(key)
    const parsed = value === undefined || value === null ? undefined : as(value)
    if (parsed !== undefined || value === null && fieldNames.has(key)) rest.delete(key)
    else if (value !== undefined && recordPath.isOurs) issues.push(`${key}: kept in metadata`)
    return parsed
  }
  const time = (key: string): number | undefined =>
    take(key, (value) => {
      const millis = typeof value === "number" && value >= 0 ? asMillis(value) : Frontmatter.instantOf(value)
      if (millis !== undefined && millis !== value && typeof value === "number") {
        issues.push(`${key}: a fraction of a millisecond is cut off`)
      }
      return millis
    })

  const body = cut(whole)
  if (body.length < whole.length) issues.push("body: longer than 1,048,576 characters; the rest is left out")
  const payload = payloadOf(kinds, take, kept)
  const summary = take("summary", (value) => asLine(value, () => issues.push("summary: cut; whole in metadata")))
  if (summary !== undefined && summary !== String(matter["summary"])) rest.set("summary", matter["summary"])
  const tags = tagsOf(rest, issues, {
    base: without(kept("tags") ?? [], Wikilink.tags(before?.body ?? "")),
    inline: recordPath.isOurs ? [] : Wikilink.tags(body)
  })
  const fields = {
    ...payload,
    ...named(recordPath, body, summary, isGone("summary") ? undefined : before),
    id: before?.id ?? recordPath.id ?? Layout.noteId(path),
    scope: belonging.scope,
    body,
    tags,
    importance: take("importance", asUnit) ?? kept("importance") ?? MemoryKind.find(kinds, payload.kind).importance,
    confidence: take("confidence", asUnit) ?? kept("confidence"),
    links: take("links", (value) => asLinks(Frontmatter.readLinks(value))) ?? kept("links") ?? [],
    supersededBy: take("supersededBy", asId) ?? kept("supersededBy"),
    updatedAt: time("updatedAt"),
    invalidAt: time("invalidAt") ?? kept("invalidAt"),
    expiresAt: (recordPath.isOurs || isSigned ? time("expiresAt") : undefined) ?? kept("expiresAt"),
    source: {
      ...source,
      ...(recordPath.id === undefined && path.length <= 1_024 && { reference: path }),
      origin: "file",
      trust: before?.source.trust === 3 ? 3 : 2
    },
    revision: 1
  }
  const createdAt = time("createdAt") ?? Frontmatter.instantOf(matter["created"]) ??
    Frontmatter.instantOf(matter["date"]) ?? kept("createdAt") ?? Math.floor(mtime)
  const validAt = time("validAt") ?? (before?.validAt === before?.createdAt ? undefined : kept("validAt")) ??
    createdAt
  const stated = take("metadata", asObject) ?? {}
  // drover is another memory program. Its own properties are kept in `extra`, not in the metadata
  const properties = Array.from(rest).filter(([key]) => !recordPath.isOurs || fieldNames.has(key))
  const past = Object.entries(before?.metadata ?? {}).filter(([key]) => !isGone(key) && !belonging.properties.has(key))
  return {
    tenant: belonging.tenant,
    fields: defined({
      ...fields,
      createdAt,
      validAt,
      metadata: { ...Object.fromEntries(past), ...stated, ...jsonOf(properties, issues) }
    }),
    extra: Object.fromEntries(Array.from(rest).filter(([key]) => !fieldNames.has(key))),
    issues,
    isPartial: body.length < whole.length
  }
}

const droverProperties: ReadonlySet<string> = new Set([...MemoryScope.fields, "tenant", "scope", "id"])

type Take = <A>(key: string, as: (value: unknown) => A | undefined) => A | undefined

/**
 * Returns the kind of a note, and data that the kind's schema accepts. Both come from the text if possible, else from the previous record.
 * If the schema accepts neither these data nor `{}`, returns the kind `reference` and `{}`.
 */
const payloadOf = (
  kinds: ReadonlyMap<string, MemoryKind.MemoryKind>,
  take: Take,
  kept: <K extends keyof MemoryRecord>(key: K) => MemoryRecord[K] | undefined
): { readonly kind: string; readonly data: Payload.JsonObject } => {
  const fits = (kind: string, data: Payload.JsonObject) =>
    payloadIssues(MemoryKind.find(kinds, kind).schema, data).length === 0
  let data: Payload.JsonObject | undefined
  const kind = take("kind", (value) => {
    if (!isKind(value)) return undefined
    data = take("data", (stated) => isJsonObject(stated) && fits(value, stated) ? stated : undefined)
    return data !== undefined || fits(value, kept("data") ?? {}) ? value : undefined
  })
  const known = kind ?? kept("kind") ?? "reference"
  const all = [data, take("data", asObject), kept("data"), {}].filter((one) => one !== undefined)
  const [fit] = all.filter((one) => fits(known, one))
  return fit === undefined ? { kind: "reference", data: {} } : { kind: known, data: fit }
}

/**
 * Returns the summary of a note. The first choice is the summary in the text. The second is the explicit summary of the previous record.
 * The third is a summary derived from the body, if the file is named after an id. The last is the file's name.
 */
const named = (
  recordPath: Layout.RecordPath,
  body: string,
  summary: string | undefined,
  before: MemoryRecord | undefined
): { readonly summary: string; readonly summaryDerived?: true } => {
  if (summary !== undefined) return { summary }
  if (
    before !== undefined && before.summaryDerived !== true && before.summary !== fileNameOf(before.source.reference)
  ) {
    return { summary: before.summary }
  }
  const derived = recordPath.id === undefined ? "" : deriveSummary(body)
  return derived === ""
    ? { summary: deriveSummary(recordPath.name) || "Untitled" }
    : { summary: derived, summaryDerived: true }
}

/** Returns the file's name without `.md` as a summary; `Untitled` if the name is blank. */
export const fileNameOf = (path = ""): string => deriveSummary(Layout.parsePath(path).name) || "Untitled"

/**
 * Returns at most 32 tags: first the tags of the property `tags`, then `inline`, the tags in the body. `base` takes the place of a missing
 * property. A property with an invalid tag or more than 32 tags stays in `rest`, and so also becomes metadata.
 */
const tagsOf = (
  rest: Map<string, unknown>,
  issues: Array<string>,
  { base, inline }: { readonly base: ReadonlyArray<string>; readonly inline: ReadonlyArray<string> }
): ReadonlyArray<string> => {
  const stated = rest.get("tags")
  const items = listOf(stated)
  const texts = items.flatMap((item) => typeof item === "object" ? [] : [String(item).trim().replace(/^#/, "")])
  const fit = distinct(texts.filter(isTag))
  const isWhole = texts.length === items.length && texts.every(isTag) && fit.length <= maxTags
  if (isWhole) rest.delete("tags")
  else issues.push("tags: those that are too many, too long or none are in metadata only")
  return distinct([...(stated === undefined ? base : fit), ...inline.filter(isTag)]).slice(0, maxTags)
}

const maxTags = 32

/** Converts the property `tags` to a list. The value may be a list, or a line of words as in Obsidian. No value gives an empty list. */
export const listOf = (tags: unknown): ReadonlyArray<unknown> =>
  typeof tags === "string"
    ? tags.split(/[\s,]+/).filter((tag) => tag !== "")
    : (Array.isArray(tags) ? tags : [tags]).filter((tag) => tag !== undefined && tag !== null)

/** Keeps the first of several tags that differ only in case. */
const distinct = (tags: ReadonlyArray<string>): ReadonlyArray<string> => {
  const seen = new Set<string>()
  return tags.filter((tag) => seen.size < seen.add(tag.normalize("NFC").toLowerCase()).size)
}

/** Returns the tags that are not in `others`, ignoring case. */
export const without = (tags: ReadonlyArray<string>, others: ReadonlyArray<string>): ReadonlyArray<string> => {
  const known = new Set(others.map((tag) => tag.normalize("NFC").toLowerCase()))
  return tags.filter((tag) => !known.has(tag.normalize("NFC").toLowerCase()))
}

/** Converts properties to JSON. A value that is not JSON becomes text. A value that is nested too deeply becomes null. */
export const jsonOf = (
  properties: ReadonlyArray<readonly [string, unknown]>,
  issues: Array<string> = []
): Payload.JsonObject => {
  const json = (value: unknown, depth: number): Payload.Json => {
    if (typeof value === "string") return value.toWellFormed()
    if (typeof value === "boolean" || value === null || value === undefined) return value ?? null
    if (typeof value === "number" && Number.isFinite(value)) return value + 0
    if (typeof value !== "object") return String(value)
    if (depth === 0) {
      issues.push("metadata: what is nested too deep is left out")
      return null
    }
    return Array.isArray(value) ? value.map((one) => json(one, depth - 1)) : object(Object.entries(value), depth - 1)
  }
  const object = (entries: ReadonlyArray<readonly [string, unknown]>, depth: number): Payload.JsonObject =>
    Object.fromEntries(entries.flatMap(([key, value]) => {
      if (key === "__proto__") issues.push("metadata: __proto__ is no key")
      return key === "__proto__" ? [] : [[key.toWellFormed(), json(value, depth)]]
    }))
  return object(properties, Payload.maxDepth - 2)
}

const defined = (fields: Matter): Matter =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined))

const cut = (body: string): string =>
  body.length <= maxFileBody ? body : body.slice(0, maxFileBody).replace(/[\uD800-\uDBFF]$/, "")

/**
 * Converts a value to one line of at most 200 characters. Cuts a longer text, between words if possible. Calls `wasCut` if the text was
 * cut, or had line breaks. Returns `undefined` for a list, a map or a blank text.
 */
const asLine = (value: unknown, wasCut: () => void): string | undefined => {
  if (typeof value === "object") return undefined
  const text = String(value).toWellFormed()
  if (isSummary(text)) return text.trim() === "" ? undefined : text
  const line = deriveSummary(text)
  if (line === "") return undefined
  wasCut()
  return line
}

/** Makes a function that returns a value unchanged if the schema accepts the value, and `undefined` otherwise. */
const fit = <A, I>(schema: Schema.Schema<A, I>): (value: unknown) => A | undefined => {
  const is = Schema.is(schema)
  return (value) => is(value) ? value : undefined
}
const isId = Schema.is(MemoryId.MemoryId)
const isKind = Schema.is(MemoryKind.Name)
const isTag = Schema.is(Tag)
const isSummary = Schema.is(Summary)
const isJsonObject = Schema.is(Payload.JsonObject)
const asObject = fit(Payload.JsonObject)
const asUnit = fit(Unit)
const asId = fit(MemoryId.MemoryId)
const asLinks = fit(Schema.Array(Link))
const asText = fit(Schema.String.pipe(Schema.maxLength(1_024), Schema.filter((text) => text.isWellFormed())))
const asCount = fit(Schema.NonNegativeInt)
const asMillis = (value: number): number | undefined =>
  Number.isSafeInteger(Math.floor(value)) ? Math.floor(value) : undefined
