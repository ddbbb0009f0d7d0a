/** Every memory of every kind. A kind types `data`; there is no second model. */
import type * as FastCheck from "effect/FastCheck"
import type * as Order from "effect/Order"
import * as Schema from "effect/Schema"
import { canonicalJson, sha256 } from "./Digest.ts"
import { MemoryId } from "./MemoryId.ts"
import * as MemoryKind from "./MemoryKind.ts"
import { Global, key, MemoryScope } from "./MemoryScope.ts"
import { JsonObject } from "./Payload.ts"

/** Epoch milliseconds. */
export const Millis = Schema.NonNegativeInt
export const Unit = Schema.Number.pipe(Schema.between(0, 1))
/** 1.. */
export const Revision = Schema.Int.pipe(Schema.positive())

// full Unicode, where Schema's own generator knows ASCII only
const generate = (fc: Pick<typeof FastCheck, "fullUnicodeString">, min: number, max: number, line: boolean) =>
  fc.fullUnicodeString({ minLength: min, maxLength: Math.min(max, 60) })
    .filter((text) => text.length >= min && text.length <= max && !(line && /[\r\n]/.test(text)))

/** One line, 1..200 UTF-16 units. */
export const Summary = Schema.String.pipe(
  Schema.minLength(1),
  Schema.maxLength(200),
  Schema.pattern(/^[^\r\n]+$/),
  Schema.filter((text) => text.isWellFormed())
).annotations({
  identifier: "Summary",
  message: () => "expected one line of 1..200 characters",
  arbitrary: () => (fc) => generate(fc, 1, 200, true)
})
/** Length of a body in UTF-16 units, at most. A note that a person keeps in a file (origin `file`) may be longer. */
export const maxBody = 65_536
export const maxFileBody = 1_048_576

/** Markdown, 0..65,536 UTF-16 units, kept byte for byte. */
export const Body = Schema.String.pipe(Schema.maxLength(maxBody), Schema.filter((text) => text.isWellFormed()))
  .annotations({
    identifier: "Body",
    message: () => "expected at most 65,536 characters, well-formed",
    arbitrary: () => (fc) => generate(fc, 0, 65_536, false)
  })
/** The same, 0..1,048,576 UTF-16 units. A store takes more than `maxBody` for records of origin `file` only. */
export const FileBody = Schema.String.pipe(
  Schema.maxLength(maxFileBody),
  Schema.filter((text) => text.isWellFormed())
).annotations({
  identifier: "FileBody",
  message: () => "expected at most 1,048,576 characters, well-formed",
  arbitrary: () => (fc) => generate(fc, 0, 65_536, false)
})
/** One line, 1..64. `instructions` is reserved. */
export const Tag = Schema.String.pipe(
  Schema.minLength(1),
  Schema.maxLength(64),
  Schema.pattern(/^[^\r\n]+$/),
  Schema.filter((text) => text.isWellFormed())
).annotations({
  identifier: "Tag",
  message: () => "expected one line of 1..64 characters",
  arbitrary: () => (fc) => generate(fc, 1, 64, true)
})
/** Number of tags of a record, at most. */
export const maxTags = 32
export const Tags = Schema.Array(Tag).pipe(Schema.maxItems(maxTags))

/** At most 1,024 UTF-16 units, well-formed. */
const Text = Schema.String.pipe(Schema.maxLength(1_024), Schema.filter((text) => text.isWellFormed())).annotations({
  identifier: "Text",
  message: () => "expected at most 1,024 characters, well-formed",
  arbitrary: () => (fc) => generate(fc, 0, 1_024, false)
})

export const Origin = Schema.Literal("user", "agent", "pipeline", "instructions", "import", "file")
export type Origin = typeof Origin.Type
/** 0 system, 1 the user or the agent itself, 2 derived, 3 untrusted. */
export const Trust = Schema.Literal(0, 1, 2, 3)
export type Trust = typeof Trust.Type

/** What a draft may say about where it comes from. */
const citation = {
  /** A message id, path, url, or the id in the system it was imported from. */
  reference: Schema.optional(Text),
  session: Schema.optional(Text),
  /** Who said it: a name or an id, as others call the speaker. A question that names it finds what it said. */
  actor: Schema.optional(Text),
  /** Place in the session, from 0. */
  sequence: Schema.optional(Schema.NonNegativeInt)
}

export const Source = Schema.Struct({ origin: Origin, trust: Trust, ...citation })
export interface Source extends Schema.Schema.Type<typeof Source> {}

export const Link = Schema.Struct({
  to: MemoryId,
  /** Default `related_to`. */
  type: Text,
  /** 0..1, default 1. */
  weight: Unit
})

/** What the author decides. */
const authored = {
  tags: Schema.optional(Tags),
  importance: Schema.optional(Unit),
  confidence: Schema.optional(Unit),
  links: Schema.optional(Schema.Array(Link)),
  data: Schema.optional(JsonObject),
  metadata: Schema.optional(JsonObject),
  /** When it began, and ceased, to be true in the world. Default now, and never. */
  validAt: Schema.optional(Millis),
  invalidAt: Schema.optional(Millis),
  /** From then on invisible everywhere. */
  expiresAt: Schema.optional(Millis)
}

export class MemoryRecord extends Schema.Class<MemoryRecord>("@memory/MemoryRecord")({
  ...authored,
  id: MemoryId,
  scope: MemoryScope,
  kind: MemoryKind.Name,
  summary: Summary,
  /** The summary was cut from the body, at a word. */
  summaryDerived: Schema.optional(Schema.Literal(true)),
  /** At most `maxBody`, of origin `file` at most `maxFileBody`. */
  body: FileBody,
  tags: Tags,
  importance: Unit,
  links: Schema.Array(Link),
  data: JsonObject,
  metadata: JsonObject,
  source: Source,
  createdAt: Millis,
  updatedAt: Schema.optional(Millis),
  validAt: Millis,
  revision: Revision,
  supersededBy: Schema.optional(MemoryId)
}) {}

/**
 * Makes a record of an object that a schema has checked, without checking it again: the object becomes the record. Cost: a
 * tenth of the constructor's.
 */
export const unchecked = (fields: { readonly [Key in keyof MemoryRecord]: MemoryRecord[Key] }): MemoryRecord =>
  Object.setPrototypeOf(fields, MemoryRecord.prototype)

/** With an id: a whole replacement, never deduplicated. Without: a new record, or the equal one that is there. */
export const Draft = Schema.Struct({
  ...authored,
  id: Schema.optional(MemoryId),
  scope: MemoryScope,
  kind: MemoryKind.Name,
  /** Absent: derived from the body. */
  summary: Schema.optional(Summary),
  /** At most `maxBody`; with provenance of origin `file`, as of a copy, at most `maxFileBody`. */
  body: FileBody,
  source: Schema.optional(Schema.Struct(citation))
})
export interface Draft extends Schema.Schema.Type<typeof Draft> {}

/** Changes what it names. `undefined` leaves alone; `null` clears. Scope, kind and source are not a patch's to change. */
export const Patch = Schema.Struct({
  summary: Schema.optional(Summary),
  /** At most `maxBody`, for a record of origin `file` at most `maxFileBody`. */
  body: Schema.optional(FileBody),
  tags: Schema.optional(Tags),
  importance: Schema.optional(Unit),
  confidence: Schema.optional(Schema.NullOr(Unit)),
  links: Schema.optional(Schema.Array(Link)),
  data: Schema.optional(JsonObject),
  metadata: Schema.optional(JsonObject),
  invalidAt: Schema.optional(Schema.NullOr(Millis)),
  expiresAt: Schema.optional(Schema.NullOr(Millis)),
  supersededBy: Schema.optional(Schema.NullOr(MemoryId))
})
export interface Patch extends Schema.Schema.Type<typeof Patch> {}

export const importanceOf = { critical: 1, high: 0.75, medium: 0.5, low: 0.25 } as const

export const isExpired = (record: Pick<MemoryRecord, "expiresAt">, now: number): boolean =>
  record.expiresAt !== undefined && record.expiresAt <= now

/** Whether it was true in the world at `at`: from `validAt`, before `invalidAt`. */
export const isValidAt = (record: Pick<MemoryRecord, "validAt" | "invalidAt">, at: number): boolean =>
  record.validAt <= at && (record.invalidAt === undefined || record.invalidAt > at)

/** Recency: when it last changed, else when it came. Epoch ms. */
export const recencyOf = (record: Pick<MemoryRecord, "createdAt" | "updatedAt">): number =>
  record.updatedAt ?? record.createdAt

/** Newest first, then id. The order of every list, and of every tie. */
export const byRecency: Order.Order<Pick<MemoryRecord, "id" | "createdAt" | "updatedAt">> = (a, b) => {
  const newer = recencyOf(b) - recencyOf(a)
  return newer !== 0 ? (newer < 0 ? -1 : 1) : a.id < b.id ? -1 : a.id > b.id ? 1 : 0
}

/** The body's words up to 200 UTF-16 units, cut at a word and marked `…`; `""` of a blank body. */
export const deriveSummary = (body: string): string => {
  const start = body.trimStart()
  const head = oneLine(start.slice(0, 512))
  const text = head.length > 200 ? head : oneLine(start.slice(0, 4_096)) // more than is shown is not looked at
  if (text.length <= 200) return text
  const cut = text.slice(0, 199)
  const word = cut.lastIndexOf(" ")
  return (word > 100 ? cut.slice(0, word) : cut.replace(/[\uD800-\uDBFF]$/, "")) + "…"
}

const oneLine = (text: string): string => text.replace(/[\uD800-\uDBFF]$/, "").replace(/\s+/g, " ").trim()

/** What an embedder is given: the summary, unless it was cut from the body, and the body. NFC, for the two forms are one text. */
export const embeddingText = (
  { body, summary, summaryDerived }: Pick<MemoryRecord, "summary" | "summaryDerived" | "body">
): string => (summaryDerived === true ? body : body === "" ? summary : `${summary}\n${body}`).normalize("NFC")

/** SHA-256 of `embeddingText`, hex: what a vector is kept under, so that an edit has none. */
export const textHash = (record: Pick<MemoryRecord, "summary" | "summaryDerived" | "body">): string =>
  sha256(embeddingText(record))

/** `textHash`, worked out once for each record. */
export const hashOf = (record: MemoryRecord): string => {
  const known = hashes.get(record)
  if (known !== undefined) return known
  const hash = textHash(record)
  hashes.set(record, hash)
  return hash
}
const hashes = new WeakMap<MemoryRecord, string>()

/** SHA-256 of tenant, exact scope, kind, text (NFC, white space collapsed) and canonical data. */
export const dedupeKey = (
  tenant: string,
  draft: Pick<Draft, "scope" | "kind" | "summary" | "body" | "data"> & { readonly summaryDerived?: true | undefined }
): string =>
  sha256(canonicalJson([
    tenant.normalize("NFC"),
    key(draft.scope),
    draft.kind,
    draft.summaryDerived === true || draft.summary === undefined ? "" : collapseSpace(draft.summary),
    collapseSpace(draft.body),
    draft.data ?? {}
  ]))

/**
 * Returns the text in NFC, with each run of white space as one space and none at the ends.
 *
 * @internal
 */
export const collapseSpace = (text: string): string => {
  const normal = text.normalize("NFC")
  return (/[^\S ]| {2}/.test(normal) ? normal.replace(/\s+/g, " ") : normal).trim()
}

/**
 * Returns the text in NFC and lower case, so that texts compare equal in any case of letters.
 *
 * @internal
 */
export const foldCase = (text: string): string => text.normalize("NFC").toLowerCase()

/** A record as its schema encodes it, in JSON: the fields in the schema's order. Cost: a tenth of the schema's. */
export const encoded = (record: MemoryRecord) => {
  const { scope, source } = record
  return {
    tags: record.tags,
    importance: record.importance,
    confidence: record.confidence,
    links: record.links.map(({ to, type, weight }) => ({ to, type, weight })),
    data: record.data,
    metadata: record.metadata,
    validAt: record.validAt,
    invalidAt: record.invalidAt,
    expiresAt: record.expiresAt,
    id: record.id,
    scope: scope === Global
      ? scope
      : {
        userId: scope.userId,
        agentId: scope.agentId,
        runId: scope.runId,
        sessionId: scope.sessionId,
        actorId: scope.actorId
      },
    kind: record.kind,
    summary: record.summary,
    summaryDerived: record.summaryDerived,
    body: record.body,
    source: {
      origin: source.origin,
      trust: source.trust,
      reference: source.reference,
      session: source.session,
      actor: source.actor,
      sequence: source.sequence
    },
    createdAt: record.createdAt,
    updatedAt: record.updatedAt,
    revision: record.revision,
    supersededBy: record.supersededBy
  }
}

/** Number of characters of a piece. */
const room = 60_000

/**
 * Cuts a text that is longer than a body into the bodies of several records, none of which ends within a character; an empty text has
 * none.
 */
export const pieces = (text: string): ReadonlyArray<string> => {
  const all: Array<string> = []
  for (let start = 0; start < text.length;) {
    const end = Math.min(start + room, text.length)
    const cut = end < text.length && /[\ud800-\udbff]/.test(text[end - 1]!) ? end - 1 : end
    all.push(text.slice(start, cut))
    start = cut
  }
  return all
}
