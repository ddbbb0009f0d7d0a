/** The record that stores a memory of any kind. The kind determines the type of the field `data`. */
import type * as FastCheck from "effect/FastCheck"
import type * as Order from "effect/Order"
import * as Schema from "effect/Schema"
import { canonicalJson, sha256 } from "./Digest.ts"
import { MemoryId } from "./MemoryId.ts"
import * as MemoryKind from "./MemoryKind.ts"
import { Global, key, MemoryScope } from "./MemoryScope.ts"
import { JsonObject } from "./Payload.ts"

/** Schema of a time in epoch milliseconds. */
export const Millis = Schema.NonNegativeInt
/** Schema of a number 0..1. */
export const Unit = Schema.Number.pipe(Schema.between(0, 1))
/** Schema of a revision: a whole number from 1. */
export const Revision = Schema.Int.pipe(Schema.positive())

// generates text in all of Unicode for property tests; the generator that Schema derives is limited to ASCII
const generate = (fc: Pick<typeof FastCheck, "fullUnicodeString">, min: number, max: number, line: boolean) =>
  fc.fullUnicodeString({ minLength: min, maxLength: Math.min(max, 60) })
    .filter((text) => text.length >= min && text.length <= max && !(line && /[\r\n]/.test(text)))

/** Schema of a summary: one line, 1..200 UTF-16 units. */
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
/** Greatest length of a record's body, in UTF-16 units. Records of origin `file` have a limit of their own, `maxFileBody`. */
export const maxBody = 65_536
/** Greatest length of the body of a record of origin `file`, in UTF-16 units. */
export const maxFileBody = 1_048_576

/** Schema of a body: markdown, 0..65,536 UTF-16 units, kept byte for byte. */
export const Body = Schema.String.pipe(Schema.maxLength(maxBody), Schema.filter((text) => text.isWellFormed()))
  .annotations({
    identifier: "Body",
    message: () => "expected at most 65,536 characters, well-formed",
    arbitrary: () => (fc) => generate(fc, 0, 65_536, false)
  })
/** Schema of a body of up to 1,048,576 UTF-16 units. Only records of origin `file` may have a body longer than `maxBody`. */
export const FileBody = Schema.String.pipe(
  Schema.maxLength(maxFileBody),
  Schema.filter((text) => text.isWellFormed())
).annotations({
  identifier: "FileBody",
  message: () => "expected at most 1,048,576 characters, well-formed",
  arbitrary: () => (fc) => generate(fc, 0, 65_536, false)
})
/** Schema of a tag: one line, 1..64 UTF-16 units. Only a write of origin `instructions` or `file` may add the tag `instructions`. */
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
/** Largest number of tags of a record. */
export const maxTags = 32
/** Schema of the tags of a record, at most `maxTags`. */
export const Tags = Schema.Array(Tag).pipe(Schema.maxItems(maxTags))

const Text = Schema.String.pipe(Schema.maxLength(1_024), Schema.filter((text) => text.isWellFormed())).annotations({
  identifier: "Text",
  message: () => "expected at most 1,024 characters, well-formed",
  arbitrary: () => (fc) => generate(fc, 0, 1_024, false)
})

/** Schema of an origin: how a record came into the store. */
export const Origin = Schema.Literal("user", "agent", "pipeline", "instructions", "import", "file")
/** An origin: how a record came into the store. */
export type Origin = typeof Origin.Type
/** Schema of a trust level: 0 for the system, 1 for the user or the agent itself, 2 for derived content, 3 for untrusted content. */
export const Trust = Schema.Literal(0, 1, 2, 3)
/** A trust level. A higher number means less trust. */
export type Trust = typeof Trust.Type

/** The fields of a source that a draft may set. The store itself sets the fields `origin` and `trust`. */
const citation = {
  /** Place where the content comes from: a message id, a path, a URL, or the id of imported content in its original system. */
  reference: Schema.optional(Text),
  session: Schema.optional(Text),
  /** Name or id of the speaker. If a query contains the name, records of the speaker rank higher. */
  actor: Schema.optional(Text),
  /** Position of the content in the session, from 0. */
  sequence: Schema.optional(Schema.NonNegativeInt)
}

/** Schema of a source: the origin and trust level of a record, and the place and speaker of its content. */
export const Source = Schema.Struct({ origin: Origin, trust: Trust, ...citation })
/** A source, as its schema decodes it. */
export interface Source extends Schema.Schema.Type<typeof Source> {}

/** Schema of a link to another record. */
export const Link = Schema.Struct({
  to: MemoryId,
  /** Type of the relation. A link in a Markdown file of a vault has the type `related_to` by default. */
  type: Text,
  /** Strength of the link, 0..1. A link in a Markdown file of a vault has the weight 1 by default. */
  weight: Unit
})

/** Optional fields of a draft, which are also fields of a record. */
const authored = {
  tags: Schema.optional(Tags),
  importance: Schema.optional(Unit),
  confidence: Schema.optional(Unit),
  links: Schema.optional(Schema.Array(Link)),
  data: Schema.optional(JsonObject),
  metadata: Schema.optional(JsonObject),
  /**
   * Time from which the content is valid in the world, epoch ms. Default for a new record: the time of creation; for a replacement: the old
   * `validAt`.
   */
  validAt: Schema.optional(Millis),
  /** Time from which the content is no longer valid in the world, epoch ms. Default: no end. */
  invalidAt: Schema.optional(Millis),
  /** Time of expiry, epoch ms. From then on, only the viewer `System` can read the record. Default: never. */
  expiresAt: Schema.optional(Millis)
}

/** A stored memory. The constructor checks the fields of the record, and throws if one is invalid. */
export class MemoryRecord extends Schema.Class<MemoryRecord>("@memory/MemoryRecord")({
  ...authored,
  id: MemoryId,
  scope: MemoryScope,
  kind: MemoryKind.Name,
  summary: Summary,
  /** `true` if the summary was derived from the body by `deriveSummary`. */
  summaryDerived: Schema.optional(Schema.Literal(true)),
  /** Text of at most `maxBody` UTF-16 units. If the origin of the record is `file`, the limit is `maxFileBody`. */
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
 * Makes a record from fields that a schema has already checked. The record is the object `fields` itself, with a new prototype. The
 * constructor would check the fields again, and would take ten times as long.
 */
export const unchecked = (fields: { readonly [Key in keyof MemoryRecord]: MemoryRecord[Key] }): MemoryRecord =>
  Object.setPrototypeOf(fields, MemoryRecord.prototype)

/**
 * Schema of a draft, from which a store makes a record. A draft with an id creates or replaces the record with that id. A draft without an
 * id creates a record. For a deduplicated kind, a draft without an id is ignored if a live record of its scope has the same content.
 */
export const Draft = Schema.Struct({
  ...authored,
  id: Schema.optional(MemoryId),
  scope: MemoryScope,
  kind: MemoryKind.Name,
  /** Summary in one line. Default: a summary derived from the body. Required if the body is blank. */
  summary: Schema.optional(Summary),
  /** Text of at most `maxBody` UTF-16 units. If the origin of the write is `file`, the limit is `maxFileBody`. */
  body: FileBody,
  source: Schema.optional(Schema.Struct(citation))
})
/** A draft, as its schema decodes it. */
export interface Draft extends Schema.Schema.Type<typeof Draft> {}

/**
 * Schema of a patch, a change of some fields of a record. The value `undefined` keeps the field, but a derived summary follows the body.
 * The value `null` clears `confidence`, `invalidAt`, `expiresAt` or `supersededBy`. A patch cannot set scope, kind, source or `validAt`.
 */
export const Patch = Schema.Struct({
  summary: Schema.optional(Summary),
  /** Text of at most `maxBody` UTF-16 units. If the origin of the record is `file`, the limit is `maxFileBody`. */
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
/** A patch, as its schema decodes it. */
export interface Patch extends Schema.Schema.Type<typeof Patch> {}

/** Importance, 0..1, of each named level. */
export const importanceOf = { critical: 1, high: 0.75, medium: 0.5, low: 0.25 } as const

/** Whether the record has expired: `expiresAt` ≤ `now`, both in epoch ms. */
export const isExpired = (record: Pick<MemoryRecord, "expiresAt">, now: number): boolean =>
  record.expiresAt !== undefined && record.expiresAt <= now

/** Whether the record is valid in the world at the time `at`, epoch ms: `validAt` ≤ `at` < `invalidAt`. */
export const isValidAt = (record: Pick<MemoryRecord, "validAt" | "invalidAt">, at: number): boolean =>
  record.validAt <= at && (record.invalidAt === undefined || record.invalidAt > at)

/** Returns the time of a record's last change, in epoch ms. A record that was never changed has the time of its creation. */
export const recencyOf = (record: Pick<MemoryRecord, "createdAt" | "updatedAt">): number =>
  record.updatedAt ?? record.createdAt

/** Orders records: newest first, by the time of the last change; records with equal times by id. */
export const byRecency: Order.Order<Pick<MemoryRecord, "id" | "createdAt" | "updatedAt">> = (a, b) =>
  newestFirst(recencyOf(a), a.id, recencyOf(b), b.id)

/**
 * Compares two records: newest first, by the times of their last changes; records with equal times by id. Lists of records and pages have
 * this order. Hits with equal scores have it, too. `RecencyIndex` and `Sql/Rows` rely on the same order.
 */
export const newestFirst = (timeA: number, idA: MemoryId, timeB: number, idB: MemoryId): -1 | 0 | 1 =>
  timeA !== timeB ? (timeA > timeB ? -1 : 1) : idA < idB ? -1 : idA > idB ? 1 : 0

/**
 * Derives a summary from a body: the first words on one line, at most 200 UTF-16 units. A summary that was cut ends in `…`. The summary of
 * a blank body is `""`. An untyped program may pass a value that is not a string. Its summary is `""`, and the store refuses the draft.
 */
export const deriveSummary = (body: string): string => {
  if (typeof body !== "string") return ""
  const start = body.trimStart()
  const head = oneLine(start.slice(0, 512))
  const text = head.length > 200 ? head : oneLine(start.slice(0, 4_096)) // the first 512 units may be mostly white space
  if (text.length <= 200 && !/\S/.test(start.slice(4_096))) return text
  const cut = text.slice(0, 199)
  const word = cut.lastIndexOf(" ")
  return (word > 100 ? cut.slice(0, word) : cut.replace(/[\uD800-\uDBFF]$/, "")) + "…"
}

const oneLine = (text: string): string => text.replace(/[\uD800-\uDBFF]$/, "").replace(/\s+/g, " ").trim()

/**
 * Returns the text from which the vector of a record is computed: the summary, then the body. A summary derived from the body is left out.
 * The text is in NFC, so texts that differ only in their Unicode form have the same vector.
 */
export const embeddingText = (
  { body, summary, summaryDerived }: Pick<MemoryRecord, "summary" | "summaryDerived" | "body">
): string => (summaryDerived === true ? body : body === "" ? summary : `${summary}\n${body}`).normalize("NFC")

/** Returns the SHA-256 of `embeddingText` in hex. A store keeps the vector of a record under this hash. */
export const textHash = (record: Pick<MemoryRecord, "summary" | "summaryDerived" | "body">): string =>
  sha256(embeddingText(record))

/** Returns the `textHash` of a record. Computes the hash only once for each record object. */
export const hashOf = (record: MemoryRecord): string => {
  const known = hashes.get(record)
  if (known !== undefined) return known
  const hash = textHash(record)
  hashes.set(record, hash)
  return hash
}
const hashes = new WeakMap<MemoryRecord, string>()

/** Returns the deduplication key of a draft. Each run of white space in the summary or the body counts as one space. */
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
 * Returns the text in NFC, trimmed, with each run of white space replaced by one space.
 *
 * @internal
 */
export const collapseSpace = (text: string): string => {
  const normal = text.normalize("NFC")
  return (/[^\S ]| {2}/.test(normal) ? normal.replace(/\s+/g, " ") : normal).trim()
}

/**
 * Returns the text in NFC and lower case, for comparison regardless of case.
 *
 * @internal
 */
export const foldCase = (text: string): string => text.normalize("NFC").toLowerCase()

/** Encodes a record as the schema of `MemoryRecord` does, in a tenth of the time. The order of the fields is the same. */
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

/** Greatest length of one piece that `pieces` returns, in UTF-16 units. */
const room = 60_000

/**
 * Splits a text into pieces of at most 60,000 UTF-16 units. Each piece fits into the body of a record. Surrogate pairs are never split.
 * An empty text has no pieces.
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
