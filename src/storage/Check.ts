/** The checks of what comes in, each before anything else is done: of values against a Schema, and of viewers. */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import type * as ParseResult from "effect/ParseResult"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as MemoryError from "../domain/MemoryError.ts"
import type { JsonObject } from "../domain/Payload.ts"
import * as SchemaIssues from "../domain/SchemaIssues.ts"
import * as Viewer from "../domain/Viewer.ts"
import type { Service } from "./MemoryStore.ts"

/**
 * Checks a value against a Schema. Fails with `invalid_id`, `path_escape` or `invalid_scope` where an id or a scope is at fault,
 * else with `invalid_draft` and every issue.
 */
export const check = <A, I>(
  op: string,
  schema: Schema.Schema<A, I>,
  input: A
): Effect.Effect<A, MemoryError.MemoryError> =>
  Either.mapLeft(validate(schema, input), (issues) => refuse(op, input, issues))

/** Makes an `invalid_draft` that says all that is wrong. */
export const invalid = (op: string, ...issues: readonly [string, ...Array<string>]): MemoryError.MemoryError =>
  MemoryError.make("invalid_draft", { op, message: issues.join("; "), detail: { issues } })

/** Returns what the Schema of a kind has against `data`; none where it fits. */
export const payloadIssues = (schema: Schema.Schema<unknown, unknown>, data: JsonObject): ReadonlyArray<string> =>
  Either.match(Schema.decodeUnknownEither(schema, { errors: "all", onExcessProperty: "preserve" })(data), {
    onLeft: (error) => SchemaIssues.lines(error, "data"),
    onRight: () => []
  })

const validate = <A, I>(schema: Schema.Schema<A, I>, input: A) =>
  Either.mapLeft(validatorOf(schema)(input), (error) => SchemaIssues.of(error))

type Validator = (input: unknown) => Either.Either<unknown, ParseResult.ParseError>
/** Caches validators by schema: making one takes four times as long as using it. */
const validators = new WeakMap<object, Validator>()
const validatorOf = <A, I>(schema: Schema.Schema<A, I>) => {
  const known = validators.get(schema)
  const validator = known ?? Schema.validateEither(schema, { errors: "all" })
  if (known === undefined) validators.set(schema, validator)
  return validator as (input: unknown) => Either.Either<A, ParseResult.ParseError> // the cached validator was made from this schema
}

const refuse = (
  op: string,
  input: unknown,
  issues: ReadonlyArray<SchemaIssues.SchemaIssue>
): MemoryError.MemoryError => {
  const [first = "not valid", ...rest] = issues.map(SchemaIssues.line)
  const message = [first, ...rest].join("; ").slice(0, 1_000)
  if (issues.some(({ path }) => names(path, "id") || names(path, "ids"))) {
    return MemoryError.make("invalid_id", { op, message })
  }
  const scope = issues.find(({ path }) => names(path, "scope"))
  if (scope) {
    const at = scope.path.slice(0, scope.path.indexOf("scope") + 1)
    return MemoryError.make(escapes(at.reduce(child, input)) ? "path_escape" : "invalid_scope", { op, message })
  }
  return MemoryError.make("invalid_draft", { op, message, detail: { issues: [first, ...rest] } })
}

/** Whether a path has the key, but for keys below what its author names. */
const names = (path: ReadonlyArray<PropertyKey>, key: string): boolean =>
  path.includes(key) && !["data", "metadata", "where", "links"].some((own) => path.includes(own))

const child = (value: unknown, key: PropertyKey): unknown =>
  typeof value === "object" && value !== null && Object.hasOwn(value, key) ? Reflect.get(value, key) : undefined

const escapes = (scope: unknown): boolean =>
  typeof scope === "object" && scope !== null &&
  Object.values(scope).some((id) => typeof id === "string" && (id === "." || id === ".." || /[\\\0]/.test(id)))

type Call = (viewer: Viewer.Any, ...rest: Array<never>) => Effect.Effect<unknown, MemoryError.MemoryError>

const checked = <F extends Call>(op: string, call: F): F =>
  ((viewer, ...rest) => Viewer.isAny(viewer) ? call(viewer, ...rest) : Viewer.notViewer(op)) as F // the same arguments and errors

/**
 * Wraps a store so that each call refuses a viewer that is no `Viewer` with `invalid_scope`, before anything reads it: a plain
 * object may lack the checks of `Viewer.make`, and what it sees is decided by its fields. `tools` returns none for it.
 */
export const checkingViewer = (store: Service): Service => ({
  ...store,
  apply: checked("apply", store.apply),
  put: checked("put", store.put),
  get: checked("get", store.get),
  search: checked("search", store.search),
  list: checked("list", store.list),
  stream: (viewer, filter) =>
    Viewer.isAny(viewer) ? store.stream(viewer, filter) : Stream.fail(Viewer.notViewer("stream")),
  update: checked("update", store.update),
  forget: checked("forget", store.forget),
  history: checked("history", store.history),
  changes: (viewer) => Viewer.isAny(viewer) ? store.changes(viewer) : Stream.fail(Viewer.notViewer("changes")),
  whyNot: checked("whyNot", store.whyNot),
  links: checked("links", store.links),
  touch: checked("touch", store.touch),
  uses: checked("uses", store.uses),
  ingest: Option.map(store.ingest, (ingest) => checked("ingest", ingest)),
  tools: (viewer) => Viewer.isAny(viewer) ? store.tools(viewer) : []
})
