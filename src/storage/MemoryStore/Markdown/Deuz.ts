/**
 * Reads the files that the Deuz SDK (another memory library) wrote in the vault's folder. Such a file is never modified. The next write of
 * its record creates a file in this library's format, and removes Deuz's file.
 *
 * ```text
 * <id>.md               in the root folder; characters of the id other than [a-zA-Z0-9._-] become _
 *   id hash kind        kind: episodic, semantic, working or procedural
 *   userId agentId runId actorId chatId
 *   importance embeddingModelId createdAt updatedAt expiresAt validAt invalidAt
 *   all other keys      become metadata, also `lastAccessedAt`. `tags` become tags, and metadata only if invalid or more than 32
 * .deuz-vectors.json    { [id]: number[] }
 * ```
 */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { sha256 } from "../../../domain/Digest.ts"
import * as MemoryError from "../../../domain/MemoryError.ts"
import * as MemoryId from "../../../domain/MemoryId.ts"
import { deriveSummary, hashOf, Tag } from "../../../domain/MemoryRecord.ts"
import { ScopeId } from "../../../domain/MemoryScope.ts"
import type { VectorBackend } from "../../MemoryStore.ts"
import * as Frontmatter from "./Frontmatter.ts"
import type { Entry } from "./VaultFile.ts"
import type { VaultFileSystem } from "./VaultFileSystem.ts"

type Matter = Readonly<Record<string, unknown>>

/** Maps Deuz's names of the scope fields to this library's names. */
const scopeFields = { userId: "userId", agentId: "agentId", runId: "runId", chatId: "sessionId", actorId: "actorId" }
const times = ["createdAt", "updatedAt", "validAt", "invalidAt", "expiresAt"] as const
const known = new Set(["id", "hash", "kind", "importance", "embeddingModelId", ...times, ...Object.keys(scopeFields)])

/**
 * Fields by which a Deuz file is recognised. Only Deuz writes all of them in this form. Files of this library have a date as `createdAt`,
 * not a number.
 */
const Head = Schema.Struct({
  id: Schema.NonEmptyString,
  kind: Schema.Literal("episodic", "semantic", "working", "procedural"),
  createdAt: Schema.Number.pipe(Schema.between(0, Number.MAX_SAFE_INTEGER)) // Deuz also accepts fractions of milliseconds
})
const isHead = Schema.is(Head)
const isScopeId = Schema.is(ScopeId)
const isTag = Schema.is(Tag)

/** Whether a file is directly in the root folder. Deuz writes files only there. */
export const isPlace = (path: string): boolean => !path.includes("/")

/**
 * Whether a file is a Deuz file. A Deuz file is in the root folder, has the fields of `Head` and a scope field, and is named after its id.
 */
export const isFile = (path: string, matter: Matter): matter is Matter & typeof Head.Type =>
  isPlace(path) && Object.keys(scopeFields).some((field) => isSaid(matter[field])) && isHead(matter) &&
  `${matter.id.replace(/[^a-zA-Z0-9._-]/g, "_")}.md` === path

/**
 * Splits a file into properties and body. Deuz writes invalid YAML for a tag that contains a comma or a quote. If the YAML of a Deuz file
 * is invalid, each line is read by itself, as one property. Lines that cannot be read are skipped.
 */
export const split = (path: string, text: string): ReturnType<typeof Frontmatter.split> =>
  Either.orElse(Frontmatter.split(text), (issue) =>
    isPlace(path)
      ? Either.filterOrLeft(Frontmatter.split(text, lines), ([matter]) => isFile(path, matter), () => issue)
      : Either.left(issue))

/** The record of a Deuz file. */
export interface Read {
  /** Fields of the record, as the schema of a record accepts them. `importance` may be absent. */
  readonly fields: Readonly<Record<string, unknown>>
  /**
   * Properties to keep in the file that the library writes. The only such property is the embedding model of the record's vector. Empty if
   * the text was edited after Deuz wrote it, since the vector then belongs to the old text.
   */
  readonly extra: Readonly<Record<string, unknown>>
}

/** Reads the record of a Deuz file. The record's id is derived from Deuz's id. `Left` names the field that cannot be read. */
export const read = (matter: Matter & typeof Head.Type, body: string): Either.Either<Read, string> =>
  Either.gen(function*() {
    const scope: Record<string, string> = {}
    for (const [field, ours] of Object.entries(scopeFields)) {
      const id = matter[field]
      if (!isSaid(id)) continue
      if (!isScopeId(id)) return yield* Either.left(`${field}: not an id`)
      scope[ours] = id.normalize("NFC")
    }
    const at: Record<string, number> = {}
    for (const field of times) {
      const time = yield* Frontmatter.timeOf(matter, field, undefined)
      if (time !== undefined) at[field] = time
    }
    const { embeddingModelId, hash, id, importance, kind } = matter
    const { tags = [], ...metadata } = Object.fromEntries(Object.entries(matter).filter(([key]) => !known.has(key)))
    const fit = Array.isArray(tags) ? tags.filter(isTag).slice(0, 32) : []
    const isWhole = Array.isArray(tags) && fit.length === tags.length
    const summary = deriveSummary(body)
    return {
      fields: {
        validAt: at["createdAt"],
        ...at,
        id: MemoryId.foreign("deuz", id),
        scope,
        kind,
        ...(summary === "" ? { summary: deriveSummary(id) || "Untitled" } : { summary, summaryDerived: true }),
        body,
        tags: fit,
        links: [],
        data: {},
        metadata: isWhole ? metadata : { ...metadata, tags },
        ...(typeof importance === "number" && { importance: Math.min(1, Math.max(0, importance)) }), // Deuz does not limit the importance
        source: { origin: "file", trust: 2, reference: id },
        revision: 1
      },
      extra: typeof embeddingModelId === "string" && !isStale(hash, body) ? { embeddingModelId } : {}
    }
  })

/** Whether a text is a Deuz file that was not edited after Deuz wrote it, and that names no embedding model. */
export const isUnnamed = (path: string, text: string): boolean =>
  Either.match(split(path, text), {
    onLeft: () => false,
    onRight: ([matter, body]) =>
      isFile(path, matter) && matter["embeddingModelId"] === undefined && !isStale(matter["hash"], body)
  })

const isStale = (hash: unknown, body: string): boolean =>
  typeof hash === "string" && /^[0-9a-f]{64}$/.test(hash) && hash !== sha256(body)

/** Whether an id in a Deuz file is set; an empty id counts as not set. */
const isSaid = (id: unknown): boolean => id !== undefined && id !== null && id !== ""

const lines = (text: string): Either.Either<Matter, string> =>
  Either.right(Object.fromEntries(
    text.split(/\r?\n/).flatMap((line) => {
      const [, key, value] = /^([^:]+): (.*)$/.exec(line) ?? []
      return key === undefined || value === undefined ? [] : [[key, Either.getOrElse(json(value), () => value)]]
    })
  ))
const json = Schema.decodeUnknownEither(Schema.parseJson())

/*
 * Vectors from Deuz's vector file. The vectors of a model are imported when the model is first used. Another program writes this file, so
 * each vector is validated before its import.
 */

/** A vector backend that imports Deuz's vectors of a tenant and model when `follow` is first called for them. */
export interface DeuzVectors extends VectorBackend {
  /** Returns the error of Deuz's vector file, if the file was needed and could not be read. */
  readonly issues: () => ReadonlyArray<{ readonly path: string; readonly error: MemoryError.MemoryError }>
}

const path = ".deuz-vectors.json"
const Vectors = Schema.parseJson(Schema.Record({ key: Schema.String, value: Schema.Unknown }))

/**
 * Makes a backend with the vectors of `vectorBackend` and the vectors of Deuz. Deuz's vector is not used if the record was edited after
 * Deuz wrote it. `unnamed` is the model of each vector whose record has a file that names no model. Default: such vectors are not used.
 */
export const vectors = (
  fs: VaultFileSystem,
  entries: () => ReadonlyArray<Entry>,
  vectorBackend: VectorBackend,
  unnamed?: string
): Effect.Effect<DeuzVectors> =>
  Effect.map(Effect.makeSemaphore(1), (importing) => {
    const asked = new Set<string>()
    let issue: MemoryError.MemoryError | undefined

    const left = Effect.flatMap(fs.read(path), (text) => Schema.decode(Vectors)(Option.getOrElse(text, () => "{}")))
      .pipe(
        Effect.matchEffect({
          onSuccess: (vectors) => Effect.as(Effect.sync(() => issue = undefined), new Map(Object.entries(vectors))),
          onFailure: (cause) =>
            Effect.sync(() => {
              issue = MemoryError.make("corrupt", {
                op: "read",
                message: `${path} cannot be read`,
                detail: { location: path },
                cause
              })
              return new Map<string, unknown>()
            })
        })
      )

    const isOf = (model: string) => ({ extra, path }: Entry) =>
      extra["embeddingModelId"] !== undefined || model !== unnamed
        ? Effect.succeed(extra["embeddingModelId"] === model)
        : Effect.map(fs.readLoose(path), (text) => Option.exists(text, (text) => isUnnamed(path, text)))

    const bringIn = (tenant: string, model: string) =>
      Effect.gen(function*() {
        const embeddings = vectorBackend.embeddings(tenant)
        const open = entries().filter(({ path, row, tenant: at }) =>
          at === tenant && isPlace(path) && embeddings.get(model, hashOf(row.record)) === undefined
        )
        const wanted = yield* Effect.filter(open, isOf(model))
        if (wanted.length === 0) return
        const vectors = yield* left
        const rows = wanted.flatMap(({ row: { record } }) => {
          const vector = vectors.get(record.source.reference ?? "")
          return isVector(vector) ? [[hashOf(record), Float32Array.from(vector)] as const] : []
        }).filter(([, vector]) => vector.every(Number.isFinite)) // a number that is too large for 32 bits has become infinite
        const dimensions = embeddings.dimensions(model) ?? mostCommon(rows.map(([, { length }]) => length))
        const fit = rows.filter(([, { length }]) => length === dimensions)
        if (fit.length > 0) yield* vectorBackend.append(tenant, model, fit)
      })

    return {
      ...vectorBackend,
      models: (tenant) =>
        Effect.map(vectorBackend.models(tenant), (known) => [
          ...known,
          ...entries().flatMap(({ extra, path, tenant: at }) => {
            const model = extra["embeddingModelId"] ?? unnamed
            return at === tenant && isPlace(path) && typeof model === "string" ? [model] : []
          })
        ]),
      follow: (tenant, model) =>
        Effect.zipRight(
          vectorBackend.follow(tenant, model),
          Effect.suspend(() => {
            const key = JSON.stringify([tenant, model])
            return asked.has(key) ?
              Effect.void :
              Effect.tap(
                bringIn(tenant, model),
                () =>
                  Effect.sync(() => vectorBackend.embeddings(tenant).dimensions(model) !== undefined && asked.add(key))
              )
          }).pipe(importing.withPermits(1))
        ),
      issues: () => issue === undefined ? [] : [{ path, error: issue }]
    }
  })

const isVector = Schema.is(Schema.NonEmptyArray(Schema.Number))

/** Returns the most common length, which is taken as the model's dimensions. A few vectors may be damaged. */
const mostCommon = (lengths: ReadonlyArray<number>): number | undefined => {
  const counts = new Map<number, number>()
  for (const length of lengths) counts.set(length, (counts.get(length) ?? 0) + 1)
  return Array.from(counts).sort(([, a], [, b]) => b - a)[0]?.[0]
}
