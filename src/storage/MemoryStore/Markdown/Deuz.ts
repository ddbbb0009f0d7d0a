/**
 * Files of the Deuz SDK's Markdown store, opened where they lie. They are read and never written: the next write of such
 * a record gives it a file of ours in its place.
 *
 * ```text
 * <id>.md               in the root; of the id, what is not [a-zA-Z0-9._-] is _
 *   id hash kind        episodic, semantic, working or procedural
 *   userId agentId runId actorId chatId
 *   importance embeddingModelId createdAt updatedAt lastAccessedAt expiresAt validAt invalidAt
 *   anything else       the caller's metadata, `tags` and `links` among it
 * .deuz-vectors.json    { [id]: number[] }
 * ```
 */
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import { sha256 } from "../../../domain/Digest.ts"
import * as MemoryId from "../../../domain/MemoryId.ts"
import { deriveSummary, Tag } from "../../../domain/MemoryRecord.ts"
import { ScopeId } from "../../../domain/MemoryScope.ts"
import * as Frontmatter from "./Frontmatter.ts"

type Matter = Readonly<Record<string, unknown>>

/** Ours by Deuz's name. */
const scopeFields = { userId: "userId", agentId: "agentId", runId: "runId", chatId: "sessionId", actorId: "actorId" }
const times = ["createdAt", "updatedAt", "validAt", "invalidAt", "expiresAt"] as const
const known = new Set(["id", "hash", "kind", "importance", "embeddingModelId", ...times, ...Object.keys(scopeFields)])

/** What every one of them says, and together no file of another system does; ours have their times as dates. */
const Head = Schema.Struct({
  id: Schema.NonEmptyString,
  kind: Schema.Literal("episodic", "semantic", "working", "procedural"),
  createdAt: Schema.Number.pipe(Schema.between(0, Number.MAX_SAFE_INTEGER)) // Deuz takes a clock with fractions, too
})
const isHead = Schema.is(Head)
const isScopeId = Schema.is(ScopeId)
const isTag = Schema.is(Tag)

/** Whether a file of Deuz's could lie there. */
export const isPlace = (path: string): boolean => !path.includes("/")

export const isFile = (path: string, matter: Matter): matter is Matter & typeof Head.Type =>
  isPlace(path) && Object.keys(scopeFields).some((field) => isSaid(matter[field])) && isHead(matter) &&
  `${matter.id.replace(/[^a-zA-Z0-9._-]/g, "_")}.md` === path

/** Deuz has a key to a line, and garbles tags with a comma or quote in them: a line that is no JSON costs itself only. */
export const split = (path: string, text: string): ReturnType<typeof Frontmatter.split> =>
  Either.orElse(Frontmatter.split(text), (issue) =>
    isPlace(path)
      ? Either.filterOrLeft(Frontmatter.split(text, lines), ([matter]) => isFile(path, matter), () => issue)
      : Either.left(issue))

export interface Read {
  /** As the record's schema takes it, but for importance, which may be absent. */
  readonly fields: Readonly<Record<string, unknown>>
  /** Kept in our file: by which model there is a vector, unless the text is not what it was when Deuz saw it last. */
  readonly extra: Readonly<Record<string, unknown>>
}

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
        ...(typeof importance === "number" && { importance: Math.min(1, Math.max(0, importance)) }), // Deuz has no bounds
        source: { origin: "file", trust: 2, reference: id },
        revision: 1
      },
      extra: typeof embeddingModelId === "string" && !isStale(hash, body) ? { embeddingModelId } : {}
    }
  })

/** Whether a text is Deuz's, is what it was when Deuz wrote it, and names no model. */
export const isUnnamed = (path: string, text: string): boolean =>
  Either.match(split(path, text), {
    onLeft: () => false,
    onRight: ([matter, body]) =>
      isFile(path, matter) && matter["embeddingModelId"] === undefined && !isStale(matter["hash"], body)
  })

const isStale = (hash: unknown, body: string): boolean =>
  typeof hash === "string" && /^[0-9a-f]{64}$/.test(hash) && hash !== sha256(body)

/** An empty id narrows nothing there. */
const isSaid = (id: unknown): boolean => id !== undefined && id !== null && id !== ""

const lines = (text: string): Either.Either<Matter, string> =>
  Either.right(Object.fromEntries(
    text.split(/\r?\n/).flatMap((line) => {
      const [, key, value] = /^([^:]+): (.*)$/.exec(line) ?? []
      return key === undefined || value === undefined ? [] : [[key, Either.getOrElse(json(value), () => value)]]
    })
  ))
const json = Schema.decodeUnknownEither(Schema.parseJson())
