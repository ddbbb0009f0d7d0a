/**
 * The scope of a record says to whom the record belongs. The scope `Global` means the whole tenant. Every other scope has one or more ids:
 * of a user, agent, run, session or actor.
 */
import type { LazyArbitrary } from "effect/Arbitrary"
import type * as FastCheck from "effect/FastCheck"
import * as Schema from "effect/Schema"

const anId: LazyArbitrary<string> = (fc) =>
  fc.oneof(fc.fullUnicodeString({ minLength: 1, maxLength: 20 }), fc.stringMatching(/^[a-zA-Z0-9_-]{1,20}$/))
    .map((id) => id.normalize("NFC"))
    // eslint-disable-next-line no-control-regex -- control characters are refused
    .filter((id) => /^[^\u0000-\u001f\u007f\\]{1,256}$/.test(id) && id !== "." && id !== "..")

/**
 * Schema of an id of a scope: 1..256 UTF-16 units. ASCII control characters, `\`, lone surrogates, and the ids `.` and `..` are refused. A
 * `/` is allowed, as in `org/ada` or in a URL, since every store escapes ids in paths. Ids are compared exactly, after NFC normalisation.
 */
export const ScopeId = Schema.String.pipe(
  Schema.minLength(1),
  Schema.maxLength(256),
  // eslint-disable-next-line no-control-regex -- control characters are refused
  Schema.pattern(/^[^\u0000-\u001f\u007f\\]+$/),
  Schema.filter((id) => id !== "." && id !== ".." && id.isWellFormed()),
  Schema.annotations({
    identifier: "ScopeId",
    // replaces the default messages of the checks above, which would quote the id
    message: () => ({
      message: "expected 1..256 characters without control characters or \\, and not . or ..",
      override: true
    }),
    arbitrary: () => anId
  })
)

/** Schemas of the ids of a scope, in canonical order. Scope keys (see `key`) and the folders of a vault use this order. */
export const ids = {
  userId: Schema.optional(ScopeId),
  agentId: Schema.optional(ScopeId),
  runId: Schema.optional(ScopeId),
  sessionId: Schema.optional(ScopeId),
  actorId: Schema.optional(ScopeId)
}
/** The names of the ids of a scope, in canonical order. */
export const fields = ["userId", "agentId", "runId", "sessionId", "actorId"] as const
/** The name of an id of a scope. */
export type Field = typeof fields[number]

/** The scope of records of the whole tenant. All viewers of the tenant may read them, except viewers with reach `within`. */
export const Global = "global"

/** The ids of a scope, each of them optional. */
export interface Ids extends Schema.Struct.Type<typeof ids> {}

/**
 * The scope of the records that the library writes for itself. Only the viewer `System` can see or write these records. The run id begins
 * with a control character, which `ScopeId` refuses. So no other viewer can have this run id.
 */
export const Internal = { runId: "\u0000internal" } as const
/** Whether the scope is `Internal`. */
export const isInternal = (scope: MemoryScope): boolean => scope !== Global && scope.runId === Internal.runId

/** A scope: `Global`, or an object with at least one id. `{}` fails with `invalid_scope`. */
export type MemoryScope = typeof Global | Ids
/** Generates scopes for property tests. Written by hand, since an import of `effect/Arbitrary` would enlarge every bundle. */
const aScope: LazyArbitrary<MemoryScope> = (fc) => {
  const id = anId(fc)
  const record: FastCheck.Arbitrary<Ids> = fc.record(
    { userId: id, agentId: id, runId: id, sessionId: id, actorId: id },
    {
      requiredKeys: []
    }
  )
  return fc.oneof(
    fc.constant<MemoryScope>(Global),
    record.filter((scope) => fields.some((field) => scope[field] !== undefined))
  )
}
/** Schema of a scope. */
export const MemoryScope: Schema.Schema<MemoryScope> = Schema.Union(
  Schema.Literal(Global),
  Schema.Struct(ids).pipe(Schema.filter((scope) => fields.some((field) => scope[field] !== undefined), {
    message: () => "a scope needs at least one id; say Global where everyone may read"
  })),
  Schema.Struct({ runId: Schema.Literal(Internal.runId) })
).annotations({ identifier: "MemoryScope", arbitrary: () => aScope })

/** Throws a `ParseError` unless the value is a scope: `Global`, or an object with at least one id. */
export const assertScope = (scope: MemoryScope): void => Schema.asserts(MemoryScope)(scope)

/** Whether `scope` has every id that `query` has. The query `Global` matches `Global` only. */
export const matchesScope = (scope: MemoryScope, query: MemoryScope): boolean =>
  query === Global
    ? scope === Global
    : scope !== Global && fields.every((field) => query[field] === undefined || same(query[field], scope[field]))

/**
 * Returns a string that identifies a scope. The order of the ids in the object does not matter. A `/` in an id is escaped as `\/`. The
 * escape is unambiguous, since no id contains a `\`.
 */
export const key = (scope: MemoryScope): string => {
  if (scope === Global) return Global
  let key = ""
  for (const field of fields) {
    const id = scope[field]
    if (id !== undefined) key += `${key === "" ? "" : "/"}${field}=${id.normalize("NFC").replaceAll("/", "\\/")}`
  }
  return key
}

/** Returns the stored form of a scope. The ids are in NFC and in canonical order. Undefined ids are left out. */
export const normalise = (scope: MemoryScope): MemoryScope => {
  if (scope === Global) return Global
  const normal: { -readonly [Field in keyof Ids]: Ids[Field] } = {}
  for (const field of fields) {
    const id = scope[field]
    if (id !== undefined) normal[field] = id.normalize("NFC")
  }
  return normal
}

/** Whether both ids are present, and are equal after NFC normalisation. */
export const same = (a: string | undefined, b: string | undefined): boolean =>
  a === b ? a !== undefined : a !== undefined && b !== undefined && a.normalize("NFC") === b.normalize("NFC")

/**
 * Returns one `where` condition of a filter for each id field that `scope` lacks: the scope of a record must lack the field, too. The values
 * of the ids are not compared. @internal
 */
export const notNarrower = (scope: MemoryScope): Readonly<Record<string, { readonly exists: false }>> => {
  const absent = fields.filter((field) => scope === Global || scope[field] === undefined)
  return Object.fromEntries(absent.map((field) => [`scope.${field}`, { exists: false }]))
}
