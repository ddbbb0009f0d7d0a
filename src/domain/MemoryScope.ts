/** Scopes: the user, agent, run, session or actor that a record belongs to. A record for everyone must name `Global`. */
import type { LazyArbitrary } from "effect/Arbitrary"
import type * as FastCheck from "effect/FastCheck"
import * as Schema from "effect/Schema"

/** Generates ids, for tests. */
const anId: LazyArbitrary<string> = (fc) =>
  fc.oneof(fc.fullUnicodeString({ minLength: 1, maxLength: 20 }), fc.stringMatching(/^[a-zA-Z0-9_-]{1,20}$/))
    .map((id) => id.normalize("NFC"))
    // eslint-disable-next-line no-control-regex
    .filter((id) => /^[^\u0000-\u001f\u007f\\]{1,256}$/.test(id) && id !== "." && id !== "..")

/**
 * Schema of an id: 1..256 UTF-16 units without control characters and `\`, never `.` or `..`. A `/` is legal (`org/ada`, a
 * URL), since no store uses an id as a path unescaped. Ids are compared byte for byte, after NFC.
 */
export const ScopeId = Schema.String.pipe(
  Schema.minLength(1),
  Schema.maxLength(256),
  // eslint-disable-next-line no-control-regex
  Schema.pattern(/^[^\u0000-\u001f\u007f\\]+$/),
  Schema.filter((id) => id !== "." && id !== ".." && id.isWellFormed()), // not a lookahead: a generator reads the pattern
  Schema.annotations({
    identifier: "ScopeId",
    // replaces every inner message, which would quote the value
    message: () => ({
      message: "expected 1..256 characters without control characters or \\, and not . or ..",
      override: true
    }),
    arbitrary: () => anId
  })
)

/** Schemas of the ids of a scope, in canonical order, which is that of folders and keys. */
export const ids = {
  userId: Schema.optional(ScopeId),
  agentId: Schema.optional(ScopeId),
  runId: Schema.optional(ScopeId),
  sessionId: Schema.optional(ScopeId),
  actorId: Schema.optional(ScopeId)
}
/** The names of the ids, in canonical order. */
export const fields = ["userId", "agentId", "runId", "sessionId", "actorId"] as const
/** The name of an id of a scope. */
export type Field = typeof fields[number]

/** The scope of records that every viewer of the tenant may read. */
export const Global = "global"

/** The ids of a scope, each optional. */
export interface Ids extends Schema.Struct.Type<typeof ids> {}

/** The scope of the library's own rows. Its run id is not a valid one, so only `System` sees and writes it. */
export const Internal = { runId: "\u0000internal" } as const
/** Whether a scope is that of the library's own rows. */
export const isInternal = (scope: MemoryScope): boolean => scope !== Global && scope.runId === Internal.runId

/** A scope: `Global`, or at least one id. `{}` is refused with `invalid_scope`. */
export type MemoryScope = typeof Global | Ids
/** Generates scopes, for tests. `effect/Arbitrary` would do it, and be in every bundle. */
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

/** Throws a `ParseError` unless the value is a scope, `Global` or at least one id. */
export const assertScope = (scope: MemoryScope): void => Schema.asserts(MemoryScope)(scope)

/** Whether `scope` has every id that `query` has. The query `Global` matches `Global` only. */
export const matchesScope = (scope: MemoryScope, query: MemoryScope): boolean =>
  query === Global
    ? scope === Global
    : scope !== Global && fields.every((field) => query[field] === undefined || same(query[field], scope[field]))

/** Returns a string that is equal for equal scopes, whatever the order of keys. A `/` within an id is `\/`, since no id has a `\`. */
export const key = (scope: MemoryScope): string => {
  if (scope === Global) return Global
  let key = ""
  for (const field of fields) {
    const id = scope[field]
    if (id !== undefined) key += `${key === "" ? "" : "/"}${field}=${id.normalize("NFC").replaceAll("/", "\\/")}`
  }
  return key
}

/** Returns the scope as a record holds it: ids in NFC, keys in canonical order, none undefined. */
export const normalise = (scope: MemoryScope): MemoryScope => {
  if (scope === Global) return Global
  const normal: { -readonly [Field in keyof Ids]: Ids[Field] } = {}
  for (const field of fields) {
    const id = scope[field]
    if (id !== undefined) normal[field] = id.normalize("NFC")
  }
  return normal
}

/** Whether two ids are equal after NFC. An absent id equals no id, another absent one included. */
export const same = (a: string | undefined, b: string | undefined): boolean =>
  a === b ? a !== undefined : a !== undefined && b !== undefined && a.normalize("NFC") === b.normalize("NFC")
