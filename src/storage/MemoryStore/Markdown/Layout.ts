/**
 * The places of records below the root. A path says tenant, scope and id as far as a file name can.
 *
 * ```text
 * global/<id>.md      agents/<agent>/<id>.md      agents/<agent>/runs/<run>/<id>.md      tenants/<tenant>/users/<user>/<id>.md
 * ```
 *
 * A segment is the id itself where every disk can hold it apart from all others: `[a-z0-9_-]{1,64}`, no device name of
 * Windows. An upper-case letter is `+` and the lower one. Anything else is `~` and a hash, and the frontmatter has the id.
 */
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import { sha256 } from "../../../domain/Digest.ts"
import { foreign, type MemoryId, ULID_RE } from "../../../domain/MemoryId.ts"
import * as MemoryScope from "../../../domain/MemoryScope.ts"
import { type Field, fields, Global, isInternal as isInternalScope, ScopeId } from "../../../domain/MemoryScope.ts"

/** The folder of the sidecars. Only the library's own rows are records below it. */
export const hidden = ".effect-memory"
/** The folder of the library's own rows. They have raw conversation, which git ignores with the sidecars. */
export const internal = `${hidden}/outbox`

const folders: Readonly<Record<Field, string>> = {
  userId: "users",
  agentId: "agents",
  runId: "runs",
  sessionId: "sessions",
  actorId: "actors"
}
const fieldOf = new Map(fields.map((field) => [folders[field], field]))
/** The folders in which the library makes files of its own. */
export const roots: ReadonlyArray<string> = [internal, "tenants", ...Object.values(folders), "global"]

const device = /^(?:con|prn|aux|nul|com[0-9]|lpt[0-9])$/

/** The segment of a path that stands for an id: the id, spelled so that every disk tells it from others, or a hash of it. */
export const segmentOf = (id: string): string => {
  const name = id.normalize("NFC")
  if (!/^[A-Za-z0-9_-]{1,64}$/.test(name) || device.test(name.toLowerCase())) return `~${sha256(name).slice(0, 32)}`
  return name.replace(/[A-Z]/g, (letter) => `+${letter.toLowerCase()}`)
}

/** The id of a segment; `undefined` where it is a hash, or no id. A folder that a hand or drover made has the id raw. */
export const idOf = (segment: string): string | undefined => {
  const id = segment.replace(/\+([a-z])/g, (_, letter: string) => letter.toUpperCase())
  if (/^[A-Za-z0-9_-]{1,64}$/.test(id)) return id
  const raw = segment.normalize("NFC")
  return !/^~[0-9a-f]{32}$/.test(segment) && isScopeId(raw) ? raw : undefined
}
const isScopeId = Schema.is(ScopeId)

/** Whether a segment can stand for an id. */
export const stands = (segment: string, id: string): boolean =>
  segment === segmentOf(id) || idOf(segment) === id.normalize("NFC")

/** The folder of a tenant, with a slash at its end; empty for the default tenant. */
export const tenantFolder = (tenant: string): string => tenant === "default" ? "" : `tenants/${segmentOf(tenant)}/`

/** Id of a file whose name its owner chose; the `n`-th of that name, where notes that moved away have those before. */
export const noteId = (path: string, n = 1): MemoryId =>
  foreign("file", n === 1 ? path.normalize("NFC") : `${path.normalize("NFC")}\0${n}`)

/** The canonical path, with `/`. */
export const pathOf = (tenant: string, scope: MemoryScope.MemoryScope, id: MemoryId): string =>
  isInternalScope(scope)
    ? `${internal}/${tenantFolder(tenant)}${id}.md`
    : `${tenantFolder(tenant)}${folderOf(scope)}/${id}.md`

const folderOf = (scope: MemoryScope.MemoryScope): string =>
  scope === Global
    ? "global"
    : fields.flatMap((field) => scope[field] === undefined ? [] : [folders[field], segmentOf(scope[field])]).join("/")

/** A path as it was parsed: tenant, scope and id. */
export interface RecordPath {
  /** `undefined`: the default tenant. */
  readonly tenant: string | undefined
  /** Segments of the scope's ids, by field. `Global`: the path begins with no folder of an id. */
  readonly scope: typeof Global | typeof internal | ReadonlyMap<Field, string>
  /** `undefined`: a name of somebody's own choosing. */
  readonly id: MemoryId | undefined
  /** Whether the path has the form of those that we write: an id directly in the folder of a scope, or a row of the library. */
  readonly isOurs: boolean
  /** Name of the file, without `.md`. */
  readonly name: string
}

/** Whether a path that somebody wrote down stays below the root. */
export const isBelow = (path: string): boolean =>
  !path.includes("\0") && path.split(/[\\/]/).every((part) => part !== "" && part !== "." && part !== "..")

/** Whether a scan of the folder could come by it. */
export const isRecord = (path: string): boolean =>
  isBelow(path) && path.endsWith(".md") && !/(?:^|\/)\./.test(isInternal(path) ? path.slice(internal.length) : path)

/** Whether a file is a row of the library's own. */
export const isInternal = (path: string): boolean => path.startsWith(`${internal}/`)

/** A path as an error shows it: its end, where it has more than 150 UTF-16 units. */
export const shown = (path: string): string => path.length > 150 ? `…${path.slice(-149)}`.toWellFormed() : path

/** Reads a path. One place is kept, since whoever reads a file asks for its place several times. */
export const parsePath = (path: string): RecordPath => {
  if (last?.path !== path) last = { path, place: placeIn(path) }
  return last.place
}
let last: { readonly path: string; readonly place: RecordPath } | undefined

const placeIn = (path: string): RecordPath => {
  const parts = (isInternal(path) ? path.slice(internal.length + 1) : path).split("/")
  const name = parts.pop()!.replace(/\.md$/, "") // split gives one at least
  const tenant = parts[0] === "tenants" && parts.length > 1 ? parts.splice(0, 2)[1] : undefined
  const scope = new Map<Field, string>()
  for (let i = 0; i + 1 < parts.length; i += 2) {
    const field = fieldOf.get(parts[i]!)
    if (field === undefined || scope.has(field)) break
    scope.set(field, parts[i + 1]!)
  }
  const isScope = scope.size > 0 ? 2 * scope.size === parts.length : parts.length === 1 && parts[0] === "global"
  return {
    tenant,
    scope: isInternal(path) ? internal : scope.size > 0 ? scope : Global, // folders of one's own below it don't widen it
    id: ULID_RE.test(name) ? (name as MemoryId) : undefined, // the pattern admits only ids
    isOurs: isInternal(path) || (ULID_RE.test(name) && isScope),
    name
  }
}

/* The claims of a text about tenant and scope are held against its path. Left: what they disagree about. */

/** Whether it says that we wrote it: then it says all of where it belongs, and a copy elsewhere gives itself away. */
export const isSaidOurs = ({ hash }: Readonly<Record<string, unknown>>): boolean =>
  typeof hash === "string" && /^[0-9a-f]{64}$/.test(hash)

/** Returns the tenant of a text in our form. Left: text and path disagree, or neither names it. */
export const claimedTenant = (
  place: RecordPath,
  matter: Readonly<Record<string, unknown>>
): Either.Either<string, string> => {
  const { tenant } = matter
  if (place.tenant === undefined) {
    return tenant === undefined || tenant === "default"
      ? Either.right("default")
      : Either.left("tenant: the folder says default")
  }
  if (tenant === undefined && isSaidOurs(matter)) return Either.left("tenant: the text says default")
  if (tenant === undefined) {
    return Either.fromNullable(idOf(place.tenant), () => "tenant: the folder's name is a hash; say it here")
  }
  return isScopeId(tenant) && stands(place.tenant, tenant)
    ? Either.right(tenant.normalize("NFC"))
    : Either.left("tenant: the folder says another")
}

/** Returns the scope of a text in our form. Left: text and path disagree, or neither names an id of it. */
export const claimedScope = (
  place: RecordPath,
  matter: Readonly<Record<string, unknown>>
): Either.Either<MemoryScope.MemoryScope, string> =>
  Either.gen(function*() {
    if (place.scope === internal) return MemoryScope.Internal
    const ids: Record<string, string> = {}
    for (const field of MemoryScope.fields) {
      const segment = place.scope === MemoryScope.Global ? undefined : place.scope.get(field)
      const said = matter[field]
      if (said !== undefined && !isScopeId(said)) return yield* Either.left(`${field}: not an id`)
      if (segment !== undefined && said !== undefined && !stands(segment, said)) {
        return yield* Either.left(`${field}: the folder says another`)
      }
      if (segment !== undefined && said === undefined && isSaidOurs(matter)) {
        return yield* Either.left(`${field}: the text says none`)
      }
      if (segment !== undefined && said === undefined && idOf(segment) === undefined) {
        return yield* Either.left(`${field}: the folder's name is a hash; say it here`)
      }
      const id = said ?? (segment === undefined ? undefined : idOf(segment))
      if (id !== undefined) ids[field] = id.normalize("NFC")
    }
    if (place.scope === MemoryScope.Global) {
      return Object.keys(ids).length === 0
        ? yield* agreed(MemoryScope.Global, matter)
        : yield* Either.left("scope: the folder says global")
    }
    return yield* agreed(ids, matter)
  })

/** Tenant and scope of a foreign note, and the properties that name them. */
export interface Belonging {
  readonly tenant: string
  readonly scope: MemoryScope.MemoryScope
  readonly said: ReadonlySet<string>
}

/**
 * The folder decides; what the text says may narrow it, and never moves the note to another tenant or id: such a property is
 * its author's. Left: the folder's name is a hash, and the text does not say of which id.
 */
export const belonging = (
  place: RecordPath,
  matter: Readonly<Record<string, unknown>>
): Either.Either<Belonging, string> => {
  const said = new Set<string>()
  const idIn = (field: string, segment: string | undefined): Either.Either<string | undefined, string> => {
    const value = textIn(matter[field])
    const claimed = isScopeId(value) ? value.normalize("NFC") : undefined
    const isMeant = claimed !== undefined && (segment === undefined || stands(segment, claimed))
    if (isMeant) said.add(field)
    if (isMeant || segment === undefined) return Either.right(isMeant ? claimed : undefined)
    return Either.fromNullable(idOf(segment), () => `${field}: the folder's name is a hash; say it here`)
  }
  const tenant = place.tenant === undefined ? Either.right(undefined) : idIn("tenant", place.tenant)
  if (Either.isLeft(tenant)) return Either.left(tenant.left)
  if (place.tenant === undefined && matter["tenant"] === "default") said.add("tenant")
  const ids: Record<string, string> = {}
  for (const field of MemoryScope.fields) {
    const id = idIn(field, typeof place.scope === "string" ? undefined : place.scope.get(field))
    if (Either.isLeft(id)) return Either.left(id.left)
    if (id.right !== undefined) ids[field] = id.right
  }
  const scope = Object.keys(ids).length === 0 ? MemoryScope.Global : ids
  return Either.right({ tenant: tenant.right ?? "default", scope, said })
}

const textIn = (value: unknown): unknown => typeof value === "number" ? String(value) : value

/** Drover's word for a scope, where there is one. */
const agreed = (scope: MemoryScope.MemoryScope, { scope: said }: Readonly<Record<string, unknown>>) => {
  const word = scope === MemoryScope.Global
    ? "global"
    : scope.runId !== undefined
    ? "run"
    : scope.agentId !== undefined
    ? "agent"
    : undefined
  return said === undefined || said === word ? Either.right(scope) : Either.left("scope: the folder says another")
}

/** The folder that holds what a writer has in hand. Moved away by whoever takes the lock from it. */
export const turnOf = (own: string): string => `${hidden}/turns/${own}`
/** Name of a file until it is renamed: of two who write the same, neither has the other's in hand. */
export const temporaryOf = (name: string, own: string): string => `.${name}.~${own}.tmp`
/** Whether a name is one of these, of any process. */
export const isTemporary = (name: string): boolean => /^\..+\.(?:~[0-9a-z]+|md|jsonl)\.tmp$/s.test(name)
