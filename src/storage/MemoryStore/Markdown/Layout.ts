/**
 * Maps records to paths of files below the vault's root. A path encodes tenant, scope and id as far as file names allow.
 *
 * ```text
 * global/<id>.md      agents/<agent>/<id>.md      agents/<agent>/runs/<run>/<id>.md      tenants/<tenant>/users/<user>/<id>.md
 * ```
 *
 * The folder of a tenant, user, agent, run, session or actor is named by the id, if the id matches `[a-z0-9_-]{1,64}`: every disk can store
 * and distinguish such names. An upper-case letter becomes `+` and the lower-case letter. A longer id, an id with other characters, and a
 * device name of Windows become `~` and a hash of the id. The frontmatter of each file below a `~` folder states the id.
 */
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import { sha256 } from "../../../domain/Digest.ts"
import { foreign, type MemoryId, ULID_RE } from "../../../domain/MemoryId.ts"
import * as MemoryScope from "../../../domain/MemoryScope.ts"
import { type Field, fields, Global, isInternal as isInternalScope, ScopeId } from "../../../domain/MemoryScope.ts"

/** The folder of the library's own files. Only the files in its subfolder `outbox` are records. */
export const hidden = ".effect-memory"
/** Path of the folder for files whose whole text no record has: damaged ones that were repaired, and forgotten notes read only in part. */
export const damaged = `${hidden}/damaged`
/** Returns the path in `damaged` for a file of a record. `hash` identifies the file's bytes. */
export const damagedOf = (id: MemoryId, hash: string): string => `${damaged}/${id}-${hash.slice(0, 16)}`
/** The folder of the library's internal records. These records contain raw conversations. Git ignores all files in `hidden`. */
export const internal = `${hidden}/outbox`

const folders: Readonly<Record<Field, string>> = {
  userId: "users",
  agentId: "agents",
  runId: "runs",
  sessionId: "sessions",
  actorId: "actors"
}
const fieldOf = new Map(fields.map((field) => [folders[field], field]))
/** The folders below which `pathOf` places the files of records. Notes at other paths stay there. */
export const roots: ReadonlyArray<string> = [internal, "tenants", ...Object.values(folders), "global"]

const device = /^(?:con|prn|aux|nul|com[0-9]|lpt[0-9])$/

/**
 * Returns an id as a path segment. An upper-case letter becomes `+` and the lower-case letter, since some disks ignore case. Some ids
 * become `~` and a hash of the id: long ids, device names of Windows, and ids with other characters than `[A-Za-z0-9_-]`.
 */
export const segmentOf = (id: string): string => {
  const name = id.normalize("NFC")
  if (!/^[A-Za-z0-9_-]{1,64}$/.test(name) || device.test(name.toLowerCase())) return `~${sha256(name).slice(0, 32)}`
  return name.replace(/[A-Z]/g, (letter) => `+${letter.toLowerCase()}`)
}

/**
 * Returns the id that a path segment stands for; `undefined` if the segment is a hash, or is not a valid id. An unescaped id is accepted,
 * too, since a person or drover (another memory program) may have named the folder.
 */
export const idOf = (segment: string): string | undefined => {
  const id = segment.replace(/\+([a-z])/g, (_, letter: string) => letter.toUpperCase())
  if (/^[A-Za-z0-9_-]{1,64}$/.test(id)) return id
  const raw = segment.normalize("NFC")
  return !/^~[0-9a-f]{32}$/.test(segment) && isScopeId(raw) ? raw : undefined
}
const isScopeId = Schema.is(ScopeId)

/** Whether a path segment stands for an id. The segment may be the escaped id (see `segmentOf`) or the id itself. */
export const encodes = (segment: string, id: string): boolean =>
  segment === segmentOf(id) || idOf(segment) === id.normalize("NFC")

/** Returns the folder of a tenant, with a trailing slash; an empty string for the default tenant. */
export const tenantFolder = (tenant: string): string => tenant === "default" ? "" : `tenants/${segmentOf(tenant)}/`

/**
 * Returns the id of a note whose author chose the file name. The id is derived from the path. A note keeps its id when it moves. A new note
 * at the old path therefore gets an id with the next `n`.
 */
export const noteId = (path: string, n = 1): MemoryId =>
  foreign("file", n === 1 ? path.normalize("NFC") : `${path.normalize("NFC")}\0${n}`)

/** Returns the path at which the library writes a record, with `/` as the separator. A note keeps the path that its author chose. */
export const pathOf = (tenant: string, scope: MemoryScope.MemoryScope, id: MemoryId): string =>
  isInternalScope(scope)
    ? `${internal}/${tenantFolder(tenant)}${id}.md`
    : `${tenantFolder(tenant)}${folderOf(scope)}/${id}.md`

const folderOf = (scope: MemoryScope.MemoryScope): string =>
  scope === Global
    ? "global"
    : fields.flatMap((field) => scope[field] === undefined ? [] : [folders[field], segmentOf(scope[field])]).join("/")

/** The tenant, scope and id that a path states. */
export interface RecordPath {
  /** Path segment of the tenant; `undefined` for the default tenant. */
  readonly tenant: string | undefined
  /** Path segments of the scope's ids, by field. `Global` if there are none. `internal` for the library's internal records. */
  readonly scope: typeof Global | typeof internal | ReadonlyMap<Field, string>
  /** The file's name, if it is the id of a record; `undefined` if the author chose another name. */
  readonly id: MemoryId | undefined
  /**
   * Whether the library itself writes files at this path: the file's name is a record's id, and the file is directly in the folder of a
   * scope. All files in the folder `internal` count, too.
   */
  readonly isOurs: boolean
  /** Name of the file, without `.md`. */
  readonly name: string
}

/** Whether a path from an untrusted source stays below the vault's root. */
export const isBelow = (path: string): boolean =>
  !path.includes("\0") && path.split(/[\\/]/).every((part) => part !== "" && part !== "." && part !== "..")

/** Whether a scan of the vault reads the file at this path as a record. */
export const isRecord = (path: string): boolean =>
  isBelow(path) && path.endsWith(".md") && !/(?:^|\/)\./.test(isInternal(path) ? path.slice(internal.length) : path)

/** Whether a file is one of the library's internal records, that is, a file in the folder `internal`. */
export const isInternal = (path: string): boolean => path.startsWith(`${internal}/`)

/** Shortens a path for an error message. Keeps only the end of a path that has more than 150 UTF-16 units. */
export const shortened = (path: string): string => path.length > 150 ? `…${path.slice(-149)}`.toWellFormed() : path

/** Parses a path. Caches the last result, since the path of a file is parsed several times while the file is read. */
export const parsePath = (path: string): RecordPath => {
  if (last?.path !== path) last = { path, parsed: parse(path) }
  return last.parsed
}
let last: { readonly path: string; readonly parsed: RecordPath } | undefined

const parse = (path: string): RecordPath => {
  const parts = (isInternal(path) ? path.slice(internal.length + 1) : path).split("/")
  const name = parts.pop()!.replace(/\.md$/, "") // `split` returns at least one part
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
    scope: isInternal(path) ? internal : scope.size > 0 ? scope : Global, // deeper folders do not change the scope
    id: ULID_RE.test(name) ? (name as MemoryId) : undefined, // `ULID_RE` matches only ids
    isOurs: isInternal(path) || (ULID_RE.test(name) && isScope),
    name
  }
}

/* Compares the tenant and scope in a file's text with those in the file's path. `Left` says which field differs. */

/**
 * Whether the library wrote a text. Such a text has a hash in its frontmatter. `claimedTenant` and `claimedScope` require such a text to
 * state each id that is in the file's path. Thus the library notices a copy of the file in another folder.
 */
export const isLibraryText = ({ hash }: Readonly<Record<string, unknown>>): boolean =>
  typeof hash === "string" && /^[0-9a-f]{64}$/.test(hash)

/**
 * Returns the tenant of a text in the library's format. `Left` if the text and its path state different tenants. Also `Left` if the folder
 * is named by a hash of the tenant, and the text does not state the tenant.
 */
export const claimedTenant = (
  recordPath: RecordPath,
  matter: Readonly<Record<string, unknown>>
): Either.Either<string, string> => {
  const { tenant } = matter
  if (recordPath.tenant === undefined) {
    return tenant === undefined || tenant === "default"
      ? Either.right("default")
      : Either.left("tenant: the folder says default")
  }
  if (tenant === undefined && isLibraryText(matter)) return Either.left("tenant: the text says default")
  if (tenant === undefined) {
    return Either.fromNullable(idOf(recordPath.tenant), () => "tenant: the folder's name is a hash; say it here")
  }
  return isScopeId(tenant) && encodes(recordPath.tenant, tenant)
    ? Either.right(tenant.normalize("NFC"))
    : Either.left("tenant: the folder says another")
}

/**
 * Returns the scope of a text in the library's format. `Left` if the text and its path state different ids. Also `Left` if a folder is
 * named by the hash of an id, and the text does not state this id.
 */
export const claimedScope = (
  recordPath: RecordPath,
  matter: Readonly<Record<string, unknown>>
): Either.Either<MemoryScope.MemoryScope, string> =>
  Either.gen(function*() {
    if (recordPath.scope === internal) return MemoryScope.Internal
    const ids: Record<string, string> = {}
    for (const field of MemoryScope.fields) {
      const segment = recordPath.scope === MemoryScope.Global ? undefined : recordPath.scope.get(field)
      const stated = matter[field]
      if (stated !== undefined && !isScopeId(stated)) return yield* Either.left(`${field}: not an id`)
      if (segment !== undefined && stated !== undefined && !encodes(segment, stated)) {
        return yield* Either.left(`${field}: the folder says another`)
      }
      if (segment !== undefined && stated === undefined && isLibraryText(matter)) {
        return yield* Either.left(`${field}: the text says none`)
      }
      if (segment !== undefined && stated === undefined && idOf(segment) === undefined) {
        return yield* Either.left(`${field}: the folder's name is a hash; say it here`)
      }
      const id = stated ?? (segment === undefined ? undefined : idOf(segment))
      if (id !== undefined) ids[field] = id.normalize("NFC")
    }
    if (recordPath.scope === MemoryScope.Global) {
      return Object.keys(ids).length === 0
        ? yield* agreed(MemoryScope.Global, matter)
        : yield* Either.left("scope: the folder says global")
    }
    return yield* agreed(ids, matter)
  })

/** Tenant and scope of a note that the library did not write, and the names of the properties that state them. */
export interface Belonging {
  readonly tenant: string
  readonly scope: MemoryScope.MemoryScope
  readonly properties: ReadonlySet<string>
}

/**
 * Returns the tenant and the scope of a note that the library did not write. The path determines both. A property may add an id to the
 * scope. A property that contradicts the path becomes metadata. `Left` if a folder's name is a hash, and no property states the hashed id.
 */
export const belonging = (
  recordPath: RecordPath,
  matter: Readonly<Record<string, unknown>>
): Either.Either<Belonging, string> => {
  const properties = new Set<string>()
  const idIn = (field: string, segment: string | undefined): Either.Either<string | undefined, string> => {
    const value = textIn(matter[field])
    const claimed = isScopeId(value) ? value.normalize("NFC") : undefined
    if (value !== undefined && value !== null && value !== "" && claimed === undefined && segment === undefined) {
      return Either.left(`${field}: expected one id; a note with another value would be visible to everybody`)
    }
    const isMeant = claimed !== undefined && (segment === undefined || encodes(segment, claimed))
    if (isMeant) properties.add(field)
    if (isMeant || segment === undefined) return Either.right(isMeant ? claimed : undefined)
    return Either.fromNullable(idOf(segment), () => `${field}: the folder's name is a hash; say it here`)
  }
  const tenant = recordPath.tenant === undefined ? Either.right(undefined) : idIn("tenant", recordPath.tenant)
  if (Either.isLeft(tenant)) return Either.left(tenant.left)
  if (recordPath.tenant === undefined && matter["tenant"] === "default") properties.add("tenant")
  const ids: Record<string, string> = {}
  for (const field of MemoryScope.fields) {
    const id = idIn(field, typeof recordPath.scope === "string" ? undefined : recordPath.scope.get(field))
    if (Either.isLeft(id)) return Either.left(id.left)
    if (id.right !== undefined) ids[field] = id.right
  }
  const scope = Object.keys(ids).length === 0 ? MemoryScope.Global : ids
  return Either.right({ tenant: tenant.right ?? "default", scope, properties })
}

const textIn = (value: unknown): unknown => typeof value === "number" ? String(value) : value

/** Returns the scope of the record. `Left` if the property `scope` contradicts it. Drover, another memory program, writes this property. */
const agreed = (scope: MemoryScope.MemoryScope, { scope: stated }: Readonly<Record<string, unknown>>) => {
  const word = scope === MemoryScope.Global
    ? "global"
    : scope.runId !== undefined
    ? "run"
    : scope.agentId !== undefined
    ? "agent"
    : undefined
  return stated === undefined || stated === word ? Either.right(scope) : Either.left("scope: the folder says another")
}

/**
 * Returns the staging folder of a process. The folder contains the temporary files of fenced writes (see `VaultFileSystem.write`). A thief
 * of the lock first moves this folder away. The old holder can then no longer rename its temporary files into place.
 */
export const stagingFolderOf = (own: string): string => `${hidden}/turns/${own}`
/**
 * Returns the name of a temporary file, which is later renamed to `name`. The temporary name contains the id of the writing process. Two
 * writers of one file therefore use different temporary files.
 */
export const temporaryOf = (name: string, writerId: string): string => `.${name}.~${writerId}.tmp`
/** Whether a file name is the name of a temporary file, of any process. */
export const isTemporary = (name: string): boolean => /^\..+\.(?:~[0-9a-z]+|md|jsonl)\.tmp$/s.test(name)
