/**
 * The viewer of a call: the user, agent, run, session or actor for whom the call is made. The operations of a store that read or write
 * records for somebody take a viewer. Records that the viewer may not see are removed before limits are applied. So these records do not
 * count towards the limits.
 *
 * ```text
 * exact     sees a record iff every id set on the record equals the viewer's   (such as a record of Global or of the user)
 * within    sees a record iff every id set on the viewer equals the record's   (such as a record of the user's session)
 * everyone  sees every record of the tenant, except those that the library writes for itself
 * ```
 *
 * Malformed input never widens what a viewer sees. `make` and `decode` fail for an unknown key, for a key whose value is undefined, null or
 * empty, and for `within` without an id. Only the reach `everyone` and the viewer `System` see a whole tenant.
 *
 * `Visibility` describes what a viewer sees, as data for the queries of a storage engine. `mayWrite` decides what a model may write for a
 * viewer. `trustIn` decides the trust level of a record that is written for a viewer.
 */
import type * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as ParseResult from "effect/ParseResult"
import * as Schema from "effect/Schema"
import * as MemoryError from "./MemoryError.ts"
import type { Trust } from "./MemoryRecord.ts"
import {
  fields,
  Global,
  type Ids,
  isInternal,
  key,
  matchesScope,
  type MemoryScope,
  normalise,
  same,
  ScopeId
} from "./MemoryScope.ts"

/** Schema of the name of a tenant, which follows the rules of `ScopeId`. */
export const Tenant = ScopeId
/** Schema of the reach of a viewer: `exact`, `within` or `everyone`. */
export const Reach = Schema.Literal("exact", "within", "everyone").annotations({
  // replaces the default message, which would quote the value
  message: () => ({
    message: "expected \"exact\" or \"within\"; the whole tenant is Viewer.everyone(tenant)",
    override: true
  })
})
/** The reach of a viewer: the rule by which the ids of the viewer are compared with the ids of a record. */
export type Reach = typeof Reach.Type

const Id = Schema.optionalWith(ScopeId, { exact: true })
const Fields = Schema.Struct({
  /** Tenant. Default `"default"`. A viewer never sees records of another tenant. */
  tenant: Schema.optionalWith(Tenant, { exact: true, default: () => "default" }),
  userId: Id,
  agentId: Id,
  runId: Id,
  sessionId: Id,
  actorId: Id,
  /** Rule by which the ids of the viewer are compared with the ids of a record. Default `"exact"`. */
  reach: Schema.optionalWith(Reach, { exact: true, default: () => "exact" })
}).annotations({ parseOptions: { onExcessProperty: "error" } })

/** A viewer of one tenant. Make it with `make`, or with `decode` if its ids come from outside the process. */
export class Viewer extends Schema.Class<Viewer>("@memory/Viewer")(
  Fields.pipe(Schema.filter((viewer) => {
    const hasId = fields.some((field) => viewer[field] !== undefined)
    if (viewer.reach === "within" && !hasId) {
      return { path: ["reach"], message: "within needs at least one id; the whole tenant is Viewer.everyone(tenant)" }
    }
    return viewer.reach === "everyone" && hasId
      ? { path: ["reach"], message: "everyone has no ids; a user and all that is narrower is within" }
      : undefined
  }))
) {}

/**
 * Schema of a viewer in stored data. Earlier versions of this library stored a viewer of the whole tenant as `within` without ids. Such a
 * viewer is decoded as `everyone`. For ids from outside the process, use `decode`, which fails for a viewer of the whole tenant.
 */
export const Stored: Schema.Schema<Viewer, typeof Viewer.Encoded> = Schema.transform(
  Schema.encodedSchema(Fields).annotations({ parseOptions: { onExcessProperty: "error" } }), // a misspelt id must not be ignored
  Viewer,
  {
    strict: true,
    decode: (stored) =>
      stored.reach === "within" && fields.every((field) => stored[field] === undefined)
        ? { ...stored, reach: "everyone" as const }
        : stored,
    encode: (viewer) => viewer
  }
)

/** The viewer of the library itself. Sees every row of one tenant, including forgotten and expired rows. Never give it to an agent. */
export class System extends Schema.TaggedClass<System>("@memory/System")("System", {
  /** Tenant. Default `"default"`. */
  tenant: Schema.optionalWith(Tenant, { exact: true, default: () => "default" })
}) {}

/** A viewer, or the library itself. */
export type Any = Viewer | System

/** The input of `make`: ids, tenant and reach. Leave out unknown ids: `make` throws if a key has the value `undefined`. */
export interface Input extends Ids {
  /** Tenant. Default `"default"`. */
  readonly tenant?: string | undefined
  /** Rule by which the ids of the viewer are compared with the ids of a record. Default `"exact"`. */
  readonly reach?: "exact" | "within" | undefined
}

/** Makes a viewer from its ids. Throws an `invalid_scope` error, which names the wrong keys. */
export const make = (input: Input): Viewer => Either.getOrThrowWith(read("Viewer.make", input), (error) => error)

/**
 * Decodes a viewer from outside the process, such as from a token, a request or a configuration. Never returns a viewer of the whole
 * tenant. Fails with an `invalid_scope` error, which names the wrong keys and quotes no value.
 */
export const decode = (input: unknown): Effect.Effect<Viewer, MemoryError.MemoryError> => read("Viewer.decode", input)

/**
 * Makes a viewer that sees all records of the tenant, except records that the library writes for itself. Meant for an administrator, an
 * export or a benchmark. Without an argument, the tenant is `"default"`. An argument that is not a tenant throws `invalid_scope`. So an
 * explicit `undefined` never becomes the default tenant.
 */
export const everyone = (...tenant: [tenant?: string]): Viewer =>
  new Viewer({ tenant: tenant.length === 0 ? "default" : tenantFrom("Viewer.everyone", tenant[0]), reach: "everyone" })

/** Makes the viewer of the library itself, which sees every row of the tenant. Default tenant `"default"`. */
export const system = (tenant = "default"): System => new System({ tenant: tenantFrom("Viewer.system", tenant) })

/** Whether the viewer is the library itself. */
export const isSystem = (viewer: Any): viewer is System => viewer instanceof System

/**
 * Whether the value is a valid viewer. Every field is checked again, since code may have changed the viewer or bypassed its constructor.
 * A plain object with the fields of a viewer is not a viewer.
 */
export const isAny = (value: unknown): value is Any =>
  value instanceof System ? isTenant(value.tenant) : value instanceof Viewer && isWhole(value)

const isWhole = (viewer: Viewer): boolean => {
  let hasId = false
  for (const field of fields) {
    if (viewer[field] === undefined) continue
    if (!isId(viewer[field])) return false
    hasId = true
  }
  const { reach, tenant } = viewer
  return isTenant(tenant) && (reach === "exact" || (reach === "within" && hasId) || (reach === "everyone" && !hasId))
}

/** Makes the `invalid_scope` error for an argument that is not a viewer. */
export const notViewer = (op: string): MemoryError.MemoryError =>
  MemoryError.make("invalid_scope", { op, message: "expected a Viewer: make one with Viewer.make or Viewer.decode" })

/** Runs `call` with the viewer. Fails with `invalid_scope` if the value is not a viewer. */
export const required = <V extends Any, A, E>(
  op: string,
  viewer: V,
  call: (viewer: V) => Effect.Effect<A, E>
): Effect.Effect<A, E | MemoryError.MemoryError> => isAny(viewer) ? call(viewer) : notViewer(op)

/** Returns the name of the viewer's tenant in NFC. Equal tenants have equal names. */
export const tenantOf = (viewer: Any): string => viewer.tenant.normalize("NFC")

/** Whether two viewers are equal in tenant, ids and reach. Compares ids after NFC normalisation. */
export const equals = (a: Any, b: Any): boolean =>
  tenantOf(a) === tenantOf(b) && (isSystem(a) || isSystem(b)
    ? isSystem(a) && isSystem(b)
    : a.reach === b.reach && fields.every((field) => a[field]?.normalize("NFC") === b[field]?.normalize("NFC")))

/** Returns the ids of a viewer. The viewer `System` has no ids. */
export const idsOf = (viewer: Any): Ids =>
  isSystem(viewer)
    ? {}
    : Object.fromEntries(fields.flatMap((field) => viewer[field] === undefined ? [] : [[field, viewer[field]]]))

/** Returns the scope that has exactly the ids of the viewer. If the viewer has no id, returns `Global`. */
export const scopeOf = (viewer: Any): MemoryScope => {
  const ids = idsOf(viewer)
  return Object.keys(ids).length === 0 ? Global : ids
}

/**
 * Returns the scope that a viewer's statements are about. With a user id, the result is the scope of the user alone. With an agent id but
 * no user, session or actor id, the result is the scope of the agent alone. Otherwise, the result is the scope of all ids of the viewer.
 * A viewer with reach `within` and several ids does not see the scope of one id. For such a viewer, the result is the scope of all ids.
 */
export const subjectOf = (viewer: Viewer): MemoryScope => {
  const { actorId, agentId, sessionId, userId } = viewer
  const subject = userId !== undefined
    ? { userId }
    : agentId !== undefined && sessionId === undefined && actorId === undefined
    ? { agentId }
    : undefined
  return subject !== undefined && sees(viewer, subject) ? subject : scopeOf(viewer)
}

/**
 * Returns a viewer with the same tenant and ids, and with reach `exact`. The new viewer does not see scopes that have further ids. A viewer
 * without ids, such as `System`, becomes a viewer that sees only `Global`.
 */
export const exactly = (viewer: Any): Viewer => make({ ...idsOf(viewer), tenant: viewer.tenant })

/**
 * Returns a viewer with these ids added or replaced. Reach `everyone` becomes `within`, so that the new viewer sees only records that have
 * these ids.
 */
export const narrowed = (viewer: Viewer, ids: Ids): Viewer =>
  make({
    ...idsOf(viewer),
    ...ids,
    tenant: viewer.tenant,
    reach: viewer.reach === "everyone" ? "within" : viewer.reach
  })

/** Whether the viewer sees records of the scope. */
export const sees = (viewer: Any, scope: MemoryScope): boolean => {
  if (isSystem(viewer)) return true
  if (viewer.reach === "exact") {
    return scope === Global || fields.every((field) => scope[field] === undefined || same(scope[field], viewer[field]))
  }
  if (isInternal(scope)) return false
  return viewer.reach === "everyone" || (scope !== Global && matchesScope(scope, viewer))
}

const FromOutside = Viewer.pipe(
  Schema.filter(({ reach }) =>
    reach === "everyone"
      ? { path: ["reach"], message: "expected \"exact\" or \"within\"; the whole tenant is Viewer.everyone(tenant)" }
      : undefined
  )
)
// compiles the decoder at the first call, not when the package is imported
const decodeOutside = (input: unknown) => Schema.decodeUnknownEither(FromOutside, { errors: "all" })(input)
const isId = Schema.is(ScopeId)
const isTenant = Schema.is(Tenant)

/** Returns the keys that `input` inherits from its prototype, such as the getters of a class. Only the keys of a viewer are checked. */
const inherited = (input: unknown): ReadonlyArray<string> =>
  typeof input === "object" && input !== null
    ? [...fields, "tenant", "reach"].filter((key) => key in input && !Object.hasOwn(input, key))
    : []

const read = (op: string, input: unknown): Either.Either<Viewer, MemoryError.MemoryError> => {
  const [key] = inherited(input)
  if (key !== undefined) {
    return Either.left(MemoryError.make("invalid_scope", { op, message: `${key}: expected a property of its own` }))
  }
  return Either.mapLeft(decodeOutside(input), (error) => {
    const issues = ParseResult.ArrayFormatter.formatErrorSync(error).map(({ message, path }) =>
      path.length === 0 ? "expected the ids of a viewer" : `${path.map(String).join(".").slice(0, 100)}: ${message}`
    )
    return MemoryError.make("invalid_scope", { op, message: issues.join("; ").slice(0, 1_000) })
  })
}

const tenantFrom = (op: string, tenant: string | undefined): string => {
  if (isTenant(tenant)) return tenant
  throw MemoryError.make("invalid_scope", { op, message: "tenant: expected 1..256 characters, not undefined" })
}

/** The scopes that a viewer sees, as data from which a database can make a query. */
export type Visibility =
  /** The visibility of `System`: every row, including the rows that the library writes for itself. */
  | { readonly _tag: "All" }
  /** The visibility of reach `everyone`: every row except the rows that the library writes for itself. */
  | { readonly _tag: "Everyone" }
  /**
   * The visibility of reach `exact`: the scopes with these keys (`MemoryScope.key`). There is one key for each subset of the viewer's ids,
   * and so at most 32 keys.
   */
  | { readonly _tag: "Scopes"; readonly keys: ReadonlyArray<string> }
  /**
   * The visibility of reach `within`: every scope that has all of these ids. There is at least one id. `Global` and the scope of the
   * library itself are not visible.
   */
  | { readonly _tag: "Within"; readonly ids: Ids }

/**
 * The rows that a call may read: rows of one tenant that are in visible scopes and have not expired. Each call makes a new object. So a
 * storage engine can recognise all reads of one call by the object, and answer them from one snapshot.
 */
export interface AccessFilter {
  /** Name of the tenant in NFC. */
  readonly tenant: string
  readonly visibility: Visibility
  /**
   * Time of the call, epoch milliseconds. Rows whose `expiresAt` is at or before this time are not read. With the time −Infinity, expired
   * rows are read, too.
   */
  readonly now: number
}

/** Returns the scopes that a viewer sees. For every scope, `includes(visibilityOf(viewer))(scope)` equals `sees(viewer, scope)`. */
export const visibilityOf = (viewer: Any): Visibility => {
  if (isSystem(viewer)) return { _tag: "All" }
  if (viewer.reach === "everyone") return { _tag: "Everyone" }
  const ids = normalise(idsOf(viewer)) as Ids // ids never normalise to Global
  if (viewer.reach === "within") return { _tag: "Within", ids }
  const scopes = fields.reduce<ReadonlyArray<Ids>>(
    (all, field) =>
      ids[field] === undefined ? all : [...all, ...all.map((scope) => ({ ...scope, [field]: ids[field] }))],
    [{}]
  )
  return { _tag: "Scopes", keys: [Global, ...scopes.slice(1).map(key)] }
}

/** Returns the filter of the rows that a viewer may read at the time `now`, epoch ms. The viewer `System` may also read expired rows. */
export const accessFilterOf = (viewer: Any, now: number): AccessFilter => ({
  tenant: tenantOf(viewer),
  visibility: visibilityOf(viewer),
  now: isSystem(viewer) ? -Infinity : now
})

/** Returns a predicate that tells whether a scope is visible. Make the predicate once, and call it for many rows. */
export const includes = (visibility: Visibility): (scope: MemoryScope) => boolean => {
  switch (visibility._tag) {
    case "All":
      return () => true
    case "Everyone":
      return (scope) => !isInternal(scope)
    case "Scopes": {
      const keys = new Set(visibility.keys)
      return (scope) => keys.has(key(scope))
    }
    case "Within":
      return (scope) =>
        scope !== Global && !isInternal(scope) &&
        matchesScope(scope, visibility.ids)
  }
}

/**
 * Schema of the shared scopes that a model may write, besides the scopes that `mayWrite` always permits. `agent` stands for all scopes with
 * the viewer's agent and without a user. `global` stands for `Global`. Other users can read the records of shared scopes.
 */
export const SharedWrites = Schema.Array(Schema.Literal("agent", "global")).annotations({ identifier: "SharedWrites" })
/** The shared scopes that a model may write. */
export type SharedWrites = typeof SharedWrites.Type

/**
 * Whether a model may write records of the scope for the viewer. This rule is for writes by tools, by extraction and by the pipeline. The
 * code of the harness may write any scope that the viewer sees. `trustIn` limits the trust level of records that the harness writes, too.
 *
 * ```text
 * ids of the viewer           a model may write, among the scopes that the viewer sees
 * a user                      scopes that have this user
 * only an agent and/or run    every scope that the viewer sees, since the agent is assumed to serve one person only
 * a session or an actor       scopes that have all ids of the viewer, who is assumed to be one of many visitors of a bot
 * no id                       nothing; with reach `everyone`, every scope except Global; for `System`, every scope
 * ```
 *
 * `shared` permits further scopes (default: none). A viewer with only the id of a bot's agent may write everything that it sees. So a bot
 * that serves many people must give each person a viewer with a user, session or actor id.
 */
export const mayWrite = (viewer: Any, scope: MemoryScope, shared: SharedWrites = []): boolean => {
  if (isSystem(viewer)) return true
  if (!sees(viewer, scope)) return false
  if (isShared(viewer, scope, shared)) return true
  if (viewer.userId !== undefined) return scope !== Global && same(scope.userId, viewer.userId)
  if (isPersonal(viewer)) return true
  return scope !== Global &&
    (viewer.reach === "everyone" || (hasIds(viewer) && matchesScope(scope, viewer)))
}

/**
 * Returns the trust level of a record that the viewer writes into the scope. Normally, this is `trust`. If the viewer has a user id and the
 * scope has none, the levels 0 and 1 become 2 (less trusted). Other users can read such a record, and must not trust it like their own.
 */
export const trustIn = (viewer: Any, scope: MemoryScope, trust: Trust): Trust =>
  trust < 2 && !isSystem(viewer) && viewer.userId !== undefined &&
    (scope === Global || scope.userId === undefined)
    ? 2
    : trust

/** Whether the viewer has an agent or run id, and no user, session or actor id. Such an agent is assumed to serve only one person. */
export const isPersonal = ({ actorId, agentId, runId, sessionId, userId }: Viewer): boolean =>
  userId === undefined && sessionId === undefined && actorId === undefined &&
  (agentId !== undefined || runId !== undefined)

const isShared = (viewer: Viewer, scope: MemoryScope, shared: SharedWrites): boolean =>
  scope === Global
    ? shared.includes("global")
    : shared.includes("agent") && scope.userId === undefined && same(scope.agentId, viewer.agentId)

const hasIds = (viewer: Viewer): boolean => fields.some((field) => viewer[field] !== undefined)
