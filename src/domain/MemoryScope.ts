/** Whose a record is. There is no "no scope": `Global` has to be said. */
import * as Arbitrary from "effect/Arbitrary"
import * as Schema from "effect/Schema"

/**
 * 1..256 UTF-16 units without control characters and `\`, never `.` or `..`. A `/` is legal (`org/ada`, a URL): no store makes
 * a path of an id as it is. Compared byte for byte, after NFC.
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
    arbitrary: () => (fc) =>
      fc.oneof(fc.fullUnicodeString({ minLength: 1, maxLength: 20 }), fc.stringMatching(/^[a-zA-Z0-9_-]{1,20}$/))
        .map((id) => id.normalize("NFC"))
        // eslint-disable-next-line no-control-regex
        .filter((id) => /^[^\u0000-\u001f\u007f\\]{1,256}$/.test(id) && id !== "." && id !== "..")
  })
)

/** In canonical order: the order of folders and keys. */
export const ids = {
  userId: Schema.optional(ScopeId),
  agentId: Schema.optional(ScopeId),
  runId: Schema.optional(ScopeId),
  sessionId: Schema.optional(ScopeId),
  actorId: Schema.optional(ScopeId)
}
export const fields = ["userId", "agentId", "runId", "sessionId", "actorId"] as const
export type Field = typeof fields[number]

export const Global = "global"

export interface Ids extends Schema.Struct.Type<typeof ids> {}

/** Of the library's own rows: a run that no viewer can be in, since its id is none. Only `System` sees and writes it. */
export const Internal = { runId: "\u0000internal" } as const
export const isInternal = (scope: MemoryScope): boolean => scope !== Global && scope.runId === Internal.runId

/** `Global`, or at least one id. `{}` is refused with `invalid_scope`. */
export type MemoryScope = typeof Global | Ids
const Somebodys = Schema.Union(
  Schema.Literal(Global),
  Schema.Struct(ids).pipe(Schema.filter((scope) => fields.some((field) => scope[field] !== undefined), {
    message: () => "a scope needs at least one id; say Global where everyone may read"
  }))
)
export const MemoryScope: Schema.Schema<MemoryScope> = Schema.Union(
  ...Somebodys.members,
  Schema.Struct({ runId: Schema.Literal(Internal.runId) })
).annotations({ identifier: "MemoryScope", arbitrary: () => Arbitrary.makeLazy(Somebodys) })

/** Seed 3: throws where the scope names nothing and nobody. */
export const assertScope = (scope: MemoryScope): void => Schema.asserts(MemoryScope)(scope)

/** Seed 3: whether `scope` has every id that `query` has. `Global` as a query means the global records, and no others. */
export const matchesScope = (scope: MemoryScope, query: MemoryScope): boolean =>
  query === Global
    ? scope === Global
    : scope !== Global && fields.every((field) => query[field] === undefined || same(query[field], scope[field]))

/** One string per scope, equal for equal scopes, whatever the order of keys. A `/` within an id is `\/`: no id has a `\`. */
export const key = (scope: MemoryScope): string => {
  if (scope === Global) return Global
  let key = ""
  for (const field of fields) {
    const id = scope[field]
    if (id !== undefined) key += `${key === "" ? "" : "/"}${field}=${id.normalize("NFC").replaceAll("/", "\\/")}`
  }
  return key
}

/** NFC, keys in canonical order, nothing undefined: how a record holds it. */
export const normalise = (scope: MemoryScope): MemoryScope => {
  if (scope === Global) return Global
  const normal: { -readonly [Field in keyof Ids]: Ids[Field] } = {}
  for (const field of fields) {
    const id = scope[field]
    if (id !== undefined) normal[field] = id.normalize("NFC")
  }
  return normal
}

/** Equal after NFC; an absent id equals none. */
export const same = (a: string | undefined, b: string | undefined): boolean =>
  a === b ? a !== undefined : a !== undefined && b !== undefined && a.normalize("NFC") === b.normalize("NFC")
