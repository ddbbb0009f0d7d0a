/**
 * Reads notes that we did not write: Obsidian's, drover's, a hand's. Each of them is a record, whatever is in it.
 *
 * ```text
 * frontmatter    stays part of the body where it cannot be parsed
 * properties     are the record's fields where they have their names and fit, and metadata under their own names otherwise
 * summary        the file's name, unless the text says one
 * tags           those of the properties, then #inline ones; beyond 32, or where one is no tag, all are in metadata, too
 * created, date  set createdAt where nothing else does
 * expiresAt      is metadata: no property makes the library delete what somebody else wrote
 * body           1,048,576 characters at most; the rest is left out, and the file not written to
 * ```
 *
 * What of a text loses its meaning is told in `issues`. Pure.
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

/** The note as it was known last. */
export interface Previous {
  readonly record: MemoryRecord
  /** Properties that its text had then: one that is missing now was taken away by its author. Default none. */
  readonly properties?: ReadonlyArray<string> | undefined
}

/** Returns the previous note of a text in our form, which says all that there is: what is missing in it now was taken away. */
export const saidAll = ({ record }: Previous): Previous => ({
  record,
  properties: [...fieldNames, ...Object.keys(record.metadata)]
})

/** The record of a note, and what its text has beside it. */
export interface Read {
  readonly tenant: string
  /** Fields of the record, as its schema takes them. */
  readonly fields: Readonly<Record<string, unknown>>
  /** Properties that are no field of ours, as they were written. */
  readonly extra: Matter
  /** Parts of the text that lost their meaning, a sentence each. */
  readonly issues: ReadonlyArray<string>
  /** Whether the record has only the beginning of the body. */
  readonly isPartial: boolean
}

/** Names of properties that are never printed as they were: fields of a record, and what we say of a text of ours. */
export const fieldNames: ReadonlySet<string> = new Set([
  ...Object.keys(MemoryRecord.fields).filter((key) => !["id", "source", "body"].includes(key)),
  ...["origin", "trust", "reference", "session", "sequence", "tenant", "hash"],
  ...MemoryScope.fields
])
/** Properties that are ours where the text has a hash of ours, and otherwise their author's. */
const signed = ["origin", "trust", "reference", "session", "sequence", "hash", "revision", "summaryDerived"]

/** Whether nobody of ours wrote a text: neither has its path our form, nor the text an id and a hash of ours. */
export const isForeign = (place: Layout.RecordPath, matter: Matter): boolean =>
  !place.isOurs && !(isId(matter["id"]) && Layout.isSaidOurs(matter))

/** Whether a text whose frontmatter cannot be parsed has lines that only we write: a broken copy of a record, and no note. */
export const isBrokenCopy = (text: string): boolean =>
  /^id: ["']?[0-9A-HJKMNP-TV-Z]{26}["']?\s*$/m.test(text) && /^hash: ["']?[0-9a-f]{64}["']?\s*$/m.test(text) &&
  text.trimStart().startsWith("---")

/** Whether drover wrote a text: at a path of our form, with its word for the scope, and without a hash. */
export const isDrovers = (place: Layout.RecordPath, matter: Matter): boolean =>
  place.isOurs && place.scope !== Layout.internal && matter["hash"] === undefined &&
  ["global", "agent", "run"].includes(String(matter["scope"]))

/**
 * Reads a text that has been split into properties and body. `mtime` (epoch ms) stands in for a time of creation that nobody
 * knows; what the text has no property for is taken from `previous`. Left: the place does not say whose the note is.
 */
export const read = (
  kinds: ReadonlyMap<string, MemoryKind.MemoryKind>,
  path: string,
  [matter, whole]: readonly [Matter, string],
  mtime: number,
  previous?: Previous
): Either.Either<Read, string> => {
  const place = Layout.parsePath(path)
  return Either.map(
    place.isOurs ? drovers(place, matter) : Layout.belonging(place, matter),
    (belonging) => readAt({ kinds, path, place, belonging }, [matter, whole], mtime, previous)
  )
}

/** Returns tenant and scope of a text that drover wrote at a path of our form. */
const drovers = (place: Layout.RecordPath, matter: Matter): Either.Either<Layout.Belonging, string> =>
  Either.flatMap(
    Layout.claimedTenant(place, matter),
    (tenant) => Either.map(Layout.claimedScope(place, matter), (scope) => ({ tenant, scope, said: droverSays }))
  )

interface At {
  readonly kinds: ReadonlyMap<string, MemoryKind.MemoryKind>
  readonly path: string
  readonly place: Layout.RecordPath
  readonly belonging: Layout.Belonging
}

const readAt = (
  { belonging, kinds, path, place }: At,
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

  /** Properties that become metadata: all but those that become fields. */
  const rest = new Map(Object.entries(matter).filter(([key]) => !belonging.said.has(key)))
  const isSigned = Layout.isSaidOurs(matter)
  const source = isSigned
    ? defined({ session: asText(matter["session"]), sequence: asCount(matter["sequence"]) })
    : {}
  if (isSigned) { for (const key of signed) rest.delete(key) }
  const take = <A>(key: string, as: (value: unknown) => A | undefined): A | undefined => {
    const value = rest.get(key)
    const taken = value === undefined || value === null ? undefined : as(value)
    if (taken !== undefined || value === null && fieldNames.has(key)) rest.delete(key)
    else if (value !== undefined && place.isOurs) issues.push(`${key}: kept in metadata`)
    return taken
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
    inline: place.isOurs ? [] : Wikilink.tags(body)
  })
  const fields = {
    ...payload,
    ...named(place, body, summary, isGone("summary") ? undefined : before),
    id: before?.id ?? place.id ?? Layout.noteId(path),
    scope: belonging.scope,
    body,
    tags,
    importance: take("importance", asUnit) ?? kept("importance") ?? MemoryKind.find(kinds, payload.kind).importance,
    confidence: take("confidence", asUnit) ?? kept("confidence"),
    links: take("links", (value) => asLinks(Frontmatter.readLinks(value))) ?? kept("links") ?? [],
    supersededBy: take("supersededBy", asId) ?? kept("supersededBy"),
    updatedAt: time("updatedAt"),
    invalidAt: time("invalidAt") ?? kept("invalidAt"),
    expiresAt: (place.isOurs || isSigned ? time("expiresAt") : undefined) ?? kept("expiresAt"),
    source: {
      ...source,
      ...(place.id === undefined && path.length <= 1_024 && { reference: path }),
      origin: "file",
      trust: before?.source.trust === 3 ? 3 : 2
    },
    revision: 1
  }
  const createdAt = time("createdAt") ?? Frontmatter.instantOf(matter["created"]) ??
    Frontmatter.instantOf(matter["date"]) ?? kept("createdAt") ?? Math.floor(mtime)
  const validAt = time("validAt") ?? (before?.validAt === before?.createdAt ? undefined : kept("validAt")) ??
    createdAt
  const said = take("metadata", asObject) ?? {}
  const own = Array.from(rest).filter(([key]) => !place.isOurs || fieldNames.has(key)) // other properties of drover's are extra
  const past = Object.entries(before?.metadata ?? {}).filter(([key]) => !isGone(key) && !belonging.said.has(key))
  return {
    tenant: belonging.tenant,
    fields: defined({
      ...fields,
      createdAt,
      validAt,
      metadata: { ...Object.fromEntries(past), ...said, ...jsonOf(own, issues) }
    }),
    extra: Object.fromEntries(Array.from(rest).filter(([key]) => !fieldNames.has(key))),
    issues,
    isPartial: body.length < whole.length
  }
}

const droverSays: ReadonlySet<string> = new Set([...MemoryScope.fields, "tenant", "scope", "id"])

type Take = <A>(key: string, as: (value: unknown) => A | undefined) => A | undefined

/** A kind, and data that its Schema takes: those of the text, else those from before, else a reference without any. */
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
    data = take("data", (said) => isJsonObject(said) && fits(value, said) ? said : undefined)
    return data !== undefined || fits(value, kept("data") ?? {}) ? value : undefined
  })
  const known = kind ?? kept("kind") ?? "reference"
  const all = [data, take("data", asObject), kept("data"), {}].filter((one) => one !== undefined)
  const [fit] = all.filter((one) => fits(known, one))
  return fit === undefined ? { kind: "reference", data: {} } : { kind: known, data: fit }
}

/** A note is called what its file is called, unless its text, or somebody before, said otherwise. */
const named = (
  place: Layout.RecordPath,
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
  const derived = place.id === undefined ? "" : deriveSummary(body)
  return derived === ""
    ? { summary: deriveSummary(place.name) || "Untitled" }
    : { summary: derived, summaryDerived: true }
}

/** Name of a note whose text says no other. */
export const fileNameOf = (path = ""): string => deriveSummary(Layout.parsePath(path).name) || "Untitled"

/** Returns the tags of the property, else `base`; then those in the text. Leaves the property in `rest` where it does not fit. */
const tagsOf = (
  rest: Map<string, unknown>,
  issues: Array<string>,
  { base, inline }: { readonly base: ReadonlyArray<string>; readonly inline: ReadonlyArray<string> }
): ReadonlyArray<string> => {
  const said = rest.get("tags")
  const items = listOf(said)
  const texts = items.flatMap((item) => typeof item === "object" ? [] : [String(item).trim().replace(/^#/, "")])
  const fit = distinct(texts.filter(isTag))
  const isWhole = texts.length === items.length && texts.every(isTag) && fit.length <= maxTags
  if (isWhole) rest.delete("tags")
  else issues.push("tags: those that are too many, too long or none are in metadata only")
  return distinct([...(said === undefined ? base : fit), ...inline.filter(isTag)]).slice(0, maxTags)
}

const maxTags = 32

/** Obsidian takes a list, or words in a line. An empty property is an empty list. */
export const listOf = (tags: unknown): ReadonlyArray<unknown> =>
  typeof tags === "string"
    ? tags.split(/[\s,]+/).filter((tag) => tag !== "")
    : (Array.isArray(tags) ? tags : [tags]).filter((tag) => tag !== undefined && tag !== null)

/** Keeps the first of tags that differ in case only. */
const distinct = (tags: ReadonlyArray<string>): ReadonlyArray<string> => {
  const seen = new Set<string>()
  return tags.filter((tag) => seen.size < seen.add(tag.normalize("NFC").toLowerCase()).size)
}

/** Returns the tags that are not among the others, whatever the case. */
export const without = (tags: ReadonlyArray<string>, others: ReadonlyArray<string>): ReadonlyArray<string> => {
  const known = new Set(others.map((tag) => tag.normalize("NFC").toLowerCase()))
  return tags.filter((tag) => !known.has(tag.normalize("NFC").toLowerCase()))
}

/** Returns properties as JSON: a value that JSON has no word for is text, one that is too deep is null. */
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

/** One line of at most 200 characters, cut at a word where it is more. */
const asLine = (value: unknown, wasCut: () => void): string | undefined => {
  if (typeof value === "object") return undefined
  const text = String(value).toWellFormed()
  if (isSummary(text)) return text.trim() === "" ? undefined : text
  const line = deriveSummary(text)
  if (line === "") return undefined
  wasCut()
  return line
}

/** The value, where the schema takes it. */
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
