/**
 * Prints a record as the text of its file, and reads the record back. The text consists of YAML frontmatter, a blank line, the body as it
 * is, and a line break.
 *
 * The property `hash` is a signature of the record with the vault's key. A text without a valid signature may come from a person, another
 * program, or another vault (as in a clone). The content of such a text is read. Its revision, trust and origin are ignored.
 */
import * as Either from "effect/Either"
import type * as ParseResult from "effect/ParseResult"
import * as Schema from "effect/Schema"
import * as Yaml from "yaml"
import { canonicalJson, sign } from "../../../domain/Digest.ts"
import * as MemoryId from "../../../domain/MemoryId.ts"
import * as MemoryKind from "../../../domain/MemoryKind.ts"
import { deriveSummary, encoded, MemoryRecord, unchecked } from "../../../domain/MemoryRecord.ts"
import * as MemoryScope from "../../../domain/MemoryScope.ts"
import * as Payload from "../../../domain/Payload.ts"
import * as Validation from "../../../domain/Validation.ts"
import { payloadIssues } from "../../../domain/Validation.ts"
import * as Deuz from "./Deuz.ts"
import * as ForeignNote from "./ForeignNote.ts"
import * as Frontmatter from "./Frontmatter.ts"
import type { Extra } from "./Frontmatter.ts"
import * as Layout from "./Layout.ts"
import type { Context } from "./VaultFile.ts"

/** The settings that `print` and `parse` need. */
export type { Context } from "./VaultFile.ts"

/** A record read from a text. */
export interface Parsed {
  readonly tenant: string
  /**
   * The record. The record of an unsigned text has revision 1, origin `file` and trust 2. Exception: the record of a note that the library
   * did not write keeps trust 3 (less trusted) if it had trust 3 before.
   */
  readonly record: MemoryRecord
  readonly signed: boolean
  /** Whether the text has an invalid signature, such as that of another vault. False if `ForeignNote` reads the text. Default: false. */
  readonly isSealed?: boolean | undefined
  readonly extra: Extra
  /**
   * Reasons why parts of the text could not be read, one sentence each. They are reported along with the record. Only a note that the
   * library did not write has such reasons. Empty or absent if every part was read.
   */
  readonly issues?: ReadonlyArray<string>
  /** Whether the record has only the beginning of the text. A write to the file would lose the rest. Default: false. */
  readonly isPartial?: boolean
  /** The text around the body of a note that the library did not write. Absent if the note's path or `hash` has the library's format. */
  readonly frame?: Frontmatter.Frame | undefined
}

const decodeFields = Schema.decodeUnknownEither(Schema.Struct(MemoryRecord.fields), { errors: "all" })
/** Makes a record from the fields in a text. Bypasses the constructor of `MemoryRecord`, which would validate the fields again. */
const decodeRecord = (fields: unknown) => Either.map(decodeFields(fields), unchecked)

const signatureOf = (key: string, tenant: string, record: MemoryRecord): string =>
  sign(key, canonicalJson([tenant, encoded(record)]))

/**
 * Prints a record as the signed text of the file at `path`. `Left` if no file can contain the record. Parses the text again to check that
 * it contains the same record, unless the text is very simple. If an author chose the file's name, the text does not state the record's id.
 * A property `id` of the author is then kept.
 */
export const print = (
  context: Context,
  path: string,
  tenant: string,
  record: MemoryRecord,
  extra: Extra = {}
): Either.Either<string, string> => {
  const { data, scope, source } = record
  const { metadata, properties } = apart(context, path, record, extra)
  const matter = defined({
    id: Layout.parsePath(path).id,
    kind: record.kind,
    summary: record.summary,
    summaryDerived: record.summaryDerived,
    createdAt: Frontmatter.time(record.createdAt),
    updatedAt: Frontmatter.time(record.updatedAt),
    tenant: tenant === "default" ? undefined : tenant,
    ...(scope === MemoryScope.Global || MemoryScope.isInternal(scope) ? {} : scope),
    tags: record.tags.length > 0 ? record.tags : undefined,
    importance: record.importance,
    confidence: record.confidence,
    validAt: record.validAt === record.createdAt ? undefined : Frontmatter.time(record.validAt),
    invalidAt: Frontmatter.time(record.invalidAt),
    expiresAt: Frontmatter.time(record.expiresAt),
    supersededBy: record.supersededBy,
    links: Frontmatter.printLinks(record),
    data: Object.keys(data).length > 0 ? data : undefined,
    metadata: Object.keys(metadata).length > 0 ? metadata : undefined,
    ...source,
    revision: record.revision,
    hash: signatureOf(context.key, tenant, record)
  })
  const fields = { ...matter, ...properties, ...(source.actor !== undefined && { actor: source.actor }) }
  const framed = (yaml: string) => `---\n${yaml}---\n\n${record.body}\n`
  // simple YAML without extra properties, at the library's own path, is always read back correctly. It needs no full check
  const isPlain = path === Layout.pathOf(tenant, scope, record.id) && Object.keys(properties).length === 0 &&
    record.body.isWellFormed()
  const plain = isPlain ? Frontmatter.printPlain(fields) : undefined
  if (plain !== undefined) return Either.right(framed(plain))
  const text = (options: Yaml.ToStringOptions) =>
    framed(Yaml.stringify(fields, { lineWidth: 0, aliasDuplicateObjects: false, ...options }))
  // parses the text again, since the YAML library sometimes quotes a value wrongly
  const checked = (text: string): Either.Either<string, string> =>
    Either.flatMap(
      parse(context, path, text, record.createdAt, { record }),
      ({ signed }) => signed ? Either.right(text) : Either.left("no file can hold it")
    )
  return Either.orElse(
    checked(text({})),
    () => checked(text({ defaultStringType: "QUOTE_DOUBLE", defaultKeyType: "QUOTE_DOUBLE" }))
  )
}

/**
 * Divides the metadata of a note whose author chose the file's name. `properties` gets the entries that are properties in the author's
 * text; `metadata` gets all others. If the file is not such a note, or if `notes` is not `whole`, returns the metadata undivided, and
 * `extra` as `properties`.
 */
const apart = ({ notes }: Context, path: string, { metadata }: MemoryRecord, extra: Extra) => {
  if (notes !== "whole" || Layout.parsePath(path).id !== undefined) return { metadata, properties: extra }
  // an `id` in the library's format stays in the metadata. As a property next to `hash`, it would make the note a copy of a record
  const names = new Set(Object.keys(extra).filter((key) => key !== "id" || !isId(metadata["id"])))
  const [properties, rest] = [true, false].map((isProperty) =>
    Object.fromEntries(Object.entries(metadata).filter(([key]) => names.has(key) === isProperty))
  )
  return { metadata: rest!, properties: properties! } // `map` returns one object for each of the two values
}

/**
 * Reads the record in the text of a file. `Left` is the reason why the text is not a record. `mtime` becomes the creation time if that is
 * not known otherwise. `previous` is the record that was last read from the file. If a note that the library did not write has no property
 * for a field, the field may keep its value in `previous` (see `ForeignNote.read`).
 */
export const parse = (
  context: Context,
  path: string,
  text: string,
  mtime: number,
  previous?: ForeignNote.Previous
): Either.Either<Parsed, string> => {
  const recordPath = Layout.parsePath(path)
  const parts = Deuz.split(path, text)
  const [matter, body] = Either.getOrElse(parts, () => [{}, Frontmatter.bodyOf(text)] as const)
  if (Either.isRight(parts) && Deuz.isFile(path, matter)) {
    return Either.flatMap(Deuz.read(matter, body), ({ extra, fields }) => unsigned(context, "default", fields, extra))
  }
  const isForeign = context.notes === "whole" && ForeignNote.isForeign(recordPath, matter)
  if (
    Either.isLeft(parts) &&
    (!isForeign || ForeignNote.isBrokenCopy(text) || ForeignNote.mayRestrict(path, text, previous))
  ) {
    return Either.left(parts.left)
  }
  if (!isForeign && (context.notes !== "whole" || !ForeignNote.isDrovers(recordPath, matter))) {
    return strict(context, path, matter, body, mtime)
  }
  const isInOurForm = Layout.isLibraryText(matter)
  const ours = isInOurForm ? strict(context, path, matter, body, mtime, previous?.record.id) : undefined
  if (ours !== undefined && Either.isRight(ours) && ours.right.signed) return ours
  const past = previous && isInOurForm ? ForeignNote.withAllProperties(previous) : previous
  return Either.flatMap(
    ForeignNote.read(context.kinds, path, [matter, body], mtime, past),
    (note) =>
      Either.map(unsigned(context, note.tenant, note.fields, note.extra), (read): Parsed => {
        const issues = Either.isLeft(parts) ? [`${parts.left}; it is part of the body`, ...note.issues] : note.issues
        const frame = isForeign && !isInOurForm ? Frontmatter.frameIn(path, text, read.record.body) : undefined
        return { ...read, issues, isPartial: note.isPartial, ...(frame && { frame }) }
      })
  )
}

/**
 * Reads a text in the library's format, which the library or a person wrote. `bound` is the id of the record that was in the file before.
 * Default: the id in the path. If the path has no id, the default is derived from the path.
 */
const strict = (
  context: Context,
  path: string,
  matter: Readonly<Record<string, unknown>>,
  body: string,
  mtime: number,
  bound?: MemoryId.MemoryId
): Either.Either<Parsed, string> =>
  Either.gen(function*() {
    const recordPath = Layout.parsePath(path)
    const isNote = context.notes === "whole" && ForeignNote.isForeign(recordPath, matter)
    const { scope, tenant } = isNote
      ? yield* Layout.belonging(recordPath, matter)
      : {
        tenant: yield* Layout.claimedTenant(recordPath, matter),
        scope: yield* Layout.claimedScope(recordPath, matter)
      }
    const id = bound ?? recordPath.id ?? Layout.noteId(path)
    const { hash, id: statedId, scope: _, tenant: __, ...rest } = matter
    if (!isNote && statedId !== undefined && statedId !== id && (recordPath.id !== undefined || isId(statedId))) {
      return yield* Either.left("id: the file's name says another")
    }

    const isOurs = (key: string) => libraryFields.has(key) || (key === "actor" && !isNote)
    const known = Object.fromEntries(Object.entries(rest).filter(([key]) => isOurs(key)))
    const extra = defined({
      id: recordPath.id === undefined && statedId !== id ? statedId : undefined,
      ...Object.fromEntries(Object.entries(rest).filter(([key]) => !isOurs(key)))
    })
    const {
      actor,
      origin,
      reference,
      sequence,
      session,
      trust,
      userId,
      agentId,
      runId,
      sessionId,
      actorId,
      ...fields
    } = known
    const createdAt = yield* Frontmatter.timeOf(fields, "createdAt", mtime)
    const written = defined({
      ...fields,
      id,
      scope,
      kind: recordPath.id === undefined && !isKind(fields["kind"]) ? "reference" : fields["kind"],
      summary: fields["summary"] ?? summaryOf(recordPath, body),
      summaryDerived: fields["summaryDerived"] ??
        (recordPath.id !== undefined && fields["summary"] === undefined ? true : undefined),
      body,
      tags: tagsOf(fields["tags"]),
      links: Frontmatter.readLinks(fields["links"]),
      data: fields["data"] ?? {},
      metadata: fields["metadata"] ?? {},
      importance: importanceIn(context, fields),
      createdAt,
      updatedAt: yield* Frontmatter.timeOf(fields, "updatedAt", undefined),
      validAt: yield* Frontmatter.timeOf(fields, "validAt", createdAt),
      invalidAt: yield* Frontmatter.timeOf(fields, "invalidAt", undefined),
      expiresAt: yield* Frontmatter.timeOf(fields, "expiresAt", undefined)
    })
    if (typeof hash === "string") {
      const source = defined({ origin, trust, reference, session, actor, sequence })
      const isSigned = (record: Either.Either<MemoryRecord, unknown>): record is Either.Right<never, MemoryRecord> =>
        Either.isRight(record) &&
        (context.isAdopting === true || signatureOf(context.key, tenant, record.right) === hash)
      const ours = decodeRecord({ ...written, source })
      const whole = isNote && Object.keys(extra).length > 0
        ? decodeRecord({
          ...written,
          source,
          metadata: { ...ForeignNote.jsonOf(Object.entries(extra)), ...asObject(written.metadata) }
        })
        : ours
      // earlier releases did not copy a note's properties to the metadata, so their signatures do not cover these properties
      if (isSigned(whole) || (isSigned(ours) && Either.isRight(whole))) {
        return { tenant, record: frozen(whole.right), signed: true, extra }
      }
      // records of earlier releases had no field `actor`, so their signatures do not cover `actor`
      const before = decodeRecord({ ...written, source: defined({ ...source, actor: undefined }) })
      if (actor !== undefined && isSigned(before)) {
        return { tenant, record: frozen(before.right), signed: true, extra: { ...extra, actor } }
      }
    }
    const source = defined({
      origin: "file",
      trust: 2,
      reference: reference ?? (recordPath.id ? undefined : path),
      session,
      actor,
      sequence
    })
    const summary = written.summaryDerived === true ? deriveSummary(body) : written.summary
    const parsed = yield* unsigned(context, tenant, { ...written, summary, source, revision: 1 }, extra)
    return { ...parsed, isSealed: typeof hash === "string" }
  })

/** Makes a record from the fields of a text without a valid signature. */
const unsigned = (
  context: Context,
  tenant: string,
  fields: Readonly<Record<string, unknown>>,
  extra: Extra
): Either.Either<Parsed, string> =>
  Either.flatMap(
    Either.mapLeft(decodeRecord({ ...fields, importance: importanceIn(context, fields) }), issuesOf),
    (record) => {
      const issues = payloadIssues(MemoryKind.find(context.kinds, record.kind).schema, record.data)
      return issues.length > 0
        ? Either.left(issues.join("; "))
        : Either.right({ tenant, record: frozen(record), signed: false, extra })
    }
  )

const importanceIn = ({ kinds }: Context, { importance, kind }: Readonly<Record<string, unknown>>): unknown =>
  importance ?? MemoryKind.find(kinds, String(kind)).importance

const libraryFields = new Set([
  ...Object.keys(MemoryRecord.fields).filter((key) => !["id", "scope", "source", "body"].includes(key)),
  ...["origin", "trust", "reference", "session", "sequence"],
  ...MemoryScope.fields
])

const asObject = (value: unknown): object => typeof value === "object" && value !== null ? value : {}

const isId = Schema.is(MemoryId.MemoryId)
const isKind = Schema.is(MemoryKind.Name)

/** Returns the default summary. It is the file's name if the author chose that name, else a summary derived from the body. */
const summaryOf = (recordPath: Layout.RecordPath, body: string): string | undefined =>
  recordPath.id === undefined ? deriveSummary(recordPath.name) : deriveSummary(body) || undefined

/**
 * Converts the property `tags` to a list. The value may be a list, or a line of words as in Obsidian. No value gives an empty list. Any
 * other value is returned unchanged, so that the schema rejects it.
 */
const tagsOf = (tags: unknown): unknown =>
  typeof tags === "string"
    ? tags.split(/[\s,]+/).filter((tag) => tag !== "").map((tag) => tag.replace(/^#/, ""))
    : tags ?? []

const issuesOf = (error: ParseResult.ParseError): string => Validation.lines(error).join("; ")

const frozen = (record: MemoryRecord): MemoryRecord =>
  unchecked({ ...record, data: Payload.freeze(record.data), metadata: Payload.freeze(record.metadata) })

const defined = <A extends object>(fields: A): A =>
  // the cast is safe: reading a missing key gives `undefined`, too
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as A
