/**
 * Checks input against a Schema. Checks that stored data has a format version that this release can read.
 *
 * Error messages name the field and the expected value. They do not quote an invalid value, since events, logs and tool results may show
 * the messages to other people. The error of `refuseNewer` states the version that was found.
 *
 * Stored data without a `version` field has version 1. Code that changes stored data checks the version first, and fails if the version is
 * unknown. So an older release does not overwrite newer data. One exception: a purge of threads erases rows of any version.
 */
import * as Arr from "effect/Array"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as ParseResult from "effect/ParseResult"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import * as AST from "effect/SchemaAST"
import * as MemoryError from "./MemoryError.ts"
import type { JsonObject } from "./Payload.ts"

/** One violation: a message, and the path to the field. The path is empty if the violation concerns the whole input. */
export interface SchemaIssue {
  readonly path: ReadonlyArray<PropertyKey>
  readonly message: string
}

/**
 * Returns all violations, in the order of the Schema's fields. An invalid optional field causes an extra message "Expected undefined". This
 * message is left out if there are other messages. Equal messages for one path appear once. Messages from the annotation `message` of a
 * Schema are not changed.
 */
export const issuesOf = (error: ParseResult.ParseError): ReadonlyArray<SchemaIssue> => {
  const all = ParseResult.ArrayFormatter.formatIssueSync(unquoted(error.issue)).map(({ message, path }) => ({
    message,
    path
  }))
  const informative = all.filter(({ message }) => message !== "Expected undefined")
  const issues = informative.length === 0 ? all : informative
  const known = new Set<string>()
  return issues.filter(({ message, path }) => {
    const key = JSON.stringify([message, path.map(String)])
    return !known.has(key) && known.add(key)
  })
}

/** Formats a violation as `path.to.field: message`, or as the message alone if the path is empty. */
export const line = ({ message, path }: SchemaIssue): string =>
  path.length === 0 ? message : `${path.map((key) => String(key).slice(0, longestKey)).join(".")}: ${message}`

/** Formats each violation as one line. Puts `at` before the path of each violation. Returns at least one line. */
export const lines = (error: ParseResult.ParseError, ...at: ReadonlyArray<PropertyKey>): [string, ...Array<string>] => {
  const [first = "not valid", ...rest] = issuesOf(error).map(({ message, path }) =>
    line({ message, path: [...at, ...path] })
  )
  return [first, ...rest]
}

/**
 * Formats any thrown value. A `ParseError` becomes one line for each violation (see `lines`). Any other value becomes the text `otherwise`.
 * The message of an unknown error is not used, since it may quote the input.
 */
export const linesOf = (
  cause: unknown,
  otherwise: string,
  ...at: ReadonlyArray<PropertyKey>
): [string, ...Array<string>] => ParseResult.isParseError(cause) ? lines(cause, ...at) : [otherwise]

/** Greatest length of a key in an error message, in UTF-16 units. Longer keys, for example of `metadata`, are cut. */
const longestKey = 64

/** Returns the issue with new messages in place of the default messages that would quote the input. */
const unquoted = (issue: ParseResult.ParseIssue): ParseResult.ParseIssue => {
  switch (issue._tag) {
    case "Type":
      return new ParseResult.Type(issue.ast, issue.actual, issue.message ?? expected(issue.ast))
    case "Pointer":
      return new ParseResult.Pointer(issue.path, issue.actual, unquoted(issue.issue))
    case "Refinement":
      return new ParseResult.Refinement(issue.ast, issue.actual, issue.kind, unquoted(issue.issue))
    case "Transformation":
      return new ParseResult.Transformation(
        issue.ast,
        issue.actual,
        issue.kind,
        // the message of a failed transformation may come from code such as JSON.parse, which quotes the input
        issue.kind === "Transformation"
          ? new ParseResult.Type(issue.ast, issue.actual, expected(issue.ast.to))
          : unquoted(issue.issue)
      )
    case "Composite":
      if (isUnmatched(issue)) return new ParseResult.Type(issue.ast, issue.actual, expected(issue.ast))
      return new ParseResult.Composite(
        issue.ast,
        issue.actual,
        "_tag" in issue.issues ? unquoted(issue.issues) : Arr.map(issue.issues, unquoted),
        issue.output
      )
    default:
      return issue
  }
}

const expected = (ast: AST.AST): string => {
  if (!AST.isRefinement(ast)) return `Expected ${nameOf(ast)}`
  const text = AST.getDescriptionAnnotation(ast).pipe(
    Option.orElse(() => AST.getTitleAnnotation(ast)),
    Option.getOrElse(() => String(ast))
  )
  return `Expected ${text}${limitsBeside(text, ast)}`
}

/**
 * Whether each member of a union refuses the type of a value. One message then names the union. False if a member has a message of its own.
 */
const isUnmatched = (issue: ParseResult.Composite): boolean =>
  AST.isUnion(issue.ast) && Arr.ensure(issue.issues).every(isMismatch)

const isMismatch = (issue: ParseResult.ParseIssue): boolean => {
  if ("ast" in issue && Option.isSome(AST.getMessageAnnotation(issue.ast))) return false
  switch (issue._tag) {
    case "Type":
      return issue.message === undefined
    case "Composite":
      return isUnmatched(issue)
    case "Refinement":
      return issue.kind === "From" && isMismatch(issue.issue)
    default:
      return false
  }
}

/**
 * Returns the name of a Schema: its identifier or title. A union without a name, or of literals only, is the list of its members without
 * `undefined`. An object or array without a name is "an object" or "an array", since a list of its fields would be long.
 */
const nameOf = (ast: AST.AST): string => {
  const named = Option.orElse(AST.getIdentifierAnnotation(ast), () => AST.getTitleAnnotation(ast))
  if (AST.isUnion(ast)) {
    const types = ast.types.filter((type) => !AST.isUndefinedKeyword(type))
    return Option.isSome(named) && !types.every(AST.isLiteral)
      ? named.value
      : Arr.dedupe(types.map(nameOf)).join(" | ")
  }
  if (Option.isSome(named)) return named.value
  if (AST.isTypeLiteral(ast)) return "an object"
  return AST.isTupleType(ast) ? "an array" : AST.isRefinement(ast) ? nameOf(ast.from) : String(ast)
}

/**
 * Returns the Schema's limits on length, number of items and value, as text. Limits of 1 or less are left out. A limit is also left out if
 * its number occurs in `text`, the Schema's description.
 */
const limitsBeside = (text: string, ast: AST.AST): string => {
  const schema = Option.getOrElse(AST.getJSONSchemaAnnotation(ast), () => ({}))
  const limits = Object.entries(schema).flatMap(([name, limit]) =>
    limitNames.has(name) && typeof limit === "number" && limit > 1 && !text.includes(String(limit))
      ? [`${name} ${limit}`]
      : []
  )
  return limits.length === 0 ? "" : ` (${limits.join(", ")})`
}

const limitNames: ReadonlySet<string> = new Set([
  "minLength",
  "maxLength",
  "minItems",
  "maxItems",
  "minimum",
  "maximum"
])

/**
 * Checks a value against a Schema, and returns the value. Fails with `invalid_id` if a field `id` or `ids` is invalid. Otherwise, fails
 * with `path_escape` if an id of an invalid `scope` could lead out of a folder, and with `invalid_scope` if a `scope` is invalid for
 * another reason. Otherwise, fails with `invalid_draft`, which lists every violation. Fields within `data`, `metadata`, `where` and `links`
 * count only for `invalid_draft`, and so do invalid ids in other fields, such as `supersededBy`.
 */
export const check = <A, I>(
  op: string,
  schema: Schema.Schema<A, I>,
  input: A
): Effect.Effect<A, MemoryError.MemoryError> =>
  Either.mapLeft(validate(schema, input), (issues) => refuse(op, input, issues))

/** Makes an `invalid_draft` error whose message and detail list every issue. */
export const invalid = (op: string, ...issues: readonly [string, ...Array<string>]): MemoryError.MemoryError =>
  MemoryError.make("invalid_draft", { op, message: issues.join("; "), detail: { issues } })

/** Fails with `invalid_draft` if there are issues, and lists them in the error. Layers check their options with this function. */
export const refuseOptions = (
  op: string,
  issues: ReadonlyArray<string>
): Effect.Effect<void, MemoryError.MemoryError> => {
  const [first, ...rest] = issues
  return first === undefined ? Effect.void : invalid(op, first, ...rest)
}

/**
 * Checks an option that is a duration. A valid duration has at least `least` milliseconds, and is finite unless `infinite` is true. Returns
 * no issue if the option is valid or undefined. Otherwise, returns one issue with the name of the option and an example.
 */
export const timeIssues = (
  name: string,
  value: Duration.DurationInput | undefined,
  { infinite = false, least }: { readonly least: 0 | 1; readonly infinite?: boolean | undefined }
): ReadonlyArray<string> => {
  const isMeant = (time: Duration.Duration) => Duration.isFinite(time) ? Duration.toMillis(time) >= least : infinite
  // `Duration.decodeUnknown` turns a negative value or NaN into zero, so such values are refused here
  const isNone = typeof value === "string"
    ? value.trim().startsWith("-")
    : [value].flat().some((part) => typeof part !== "object" && !(part! >= 0))
  if (value === undefined || (!isNone && Option.exists(Duration.decodeUnknown(value), isMeant))) return []
  return [
    `${name}: expected ${infinite ? "a time" : "a finite time"}, ${least} ms or more, such as "10 seconds"${
      infinite ? " or Duration.infinity" : ""
    }`
  ]
}

/** Checks that an option is undefined or a whole number of at least `least`. Returns one issue if it is not, otherwise none. */
export const countIssues = (name: string, value: number | undefined, least: number): ReadonlyArray<string> =>
  value === undefined || (Number.isSafeInteger(value) && value >= least)
    ? []
    : [`${name}: expected a whole number, ${least} or more`]

/** Returns every way in which `data` violates the Schema of its kind. */
export const payloadIssues = (schema: Schema.Schema<unknown, unknown>, data: JsonObject): ReadonlyArray<string> => {
  const decoded = decoderOf(schema)(data)
  return Either.isLeft(decoded) ? lines(decoded.left, "data") : none
}
const none: ReadonlyArray<string> = []

const decoders = new WeakMap<object, Validator>()
const decoderOf = (schema: Schema.Schema<unknown, unknown>): Validator => {
  const known = decoders.get(schema)
  const decoder = known ?? Schema.decodeUnknownEither(schema, { errors: "all", onExcessProperty: "preserve" })
  if (known === undefined) decoders.set(schema, decoder)
  return decoder
}

/** Checks a value against a Schema. Returns the value or all violations. `refuse` makes an error from the violations. */
export const validate = <A, I>(schema: Schema.Schema<A, I>, input: A): Either.Either<A, ReadonlyArray<SchemaIssue>> =>
  Either.mapLeft(validatorOf(schema)(input), (error) => issuesOf(error))

type Validator = (input: unknown) => Either.Either<unknown, ParseResult.ParseError>
/** Cache of validators by schema, since compiling a validator takes four times as long as using it once. */
const validators = new WeakMap<object, Validator>()
const validatorOf = <A, I>(schema: Schema.Schema<A, I>) => {
  const known = validators.get(schema)
  const validator = known ?? Schema.validateEither(schema, { errors: "all" })
  if (known === undefined) validators.set(schema, validator)
  return validator as (input: unknown) => Either.Either<A, ParseResult.ParseError> // the cache maps a schema to its own validator
}

/** Makes an error from the violations that were found in an input. `check` fails with this error. */
export const refuse = (
  op: string,
  input: unknown,
  issues: ReadonlyArray<SchemaIssue>
): MemoryError.MemoryError => {
  const [first = "not valid", ...rest] = issues.map(line)
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

/** Whether a path contains the key. Returns false for every path into `data`, `metadata`, `where` or `links`. */
const names = (path: ReadonlyArray<PropertyKey>, key: string): boolean =>
  path.includes(key) && !["data", "metadata", "where", "links"].some((own) => path.includes(own))

const child = (value: unknown, key: PropertyKey): unknown =>
  typeof value === "object" && value !== null && Object.hasOwn(value, key) ? Reflect.get(value, key) : undefined

const escapes = (scope: unknown): boolean =>
  typeof scope === "object" && scope !== null &&
  Object.values(scope).some((id) => typeof id === "string" && (id === "." || id === ".." || /[\\\0]/.test(id)))

interface Version {
  /** Name of the operation, for the error. */
  readonly op: string
  /** Name of the data for the error message, such as "the checkpoint of run-7". */
  readonly what: string
  /** Newest version that the caller can read. Default 1. */
  readonly known?: number | undefined
}

/** Fails with `unsupported` unless the version of `data` is in 1..`known`. Data without a field `version` has version 1. */
export const refuseNewer = (
  data: unknown,
  { known = 1, op, what }: Version
): Effect.Effect<void, MemoryError.MemoryError> => {
  const version = Predicate.hasProperty(data, "version") ? data.version : 1
  return typeof version === "number" && Number.isInteger(version) && version >= 1 && version <= known
    ? Effect.void
    : MemoryError.make("unsupported", {
      op,
      message: `${what} has format ${JSON.stringify(version)}, of a newer release; this one knows ${known}`
    })
}

/** Checks the version of data in JSON text, as `refuseNewer` does. Text that is not JSON passes this check. */
export const refuseNewerJson = (text: string, options: Version): Effect.Effect<void, MemoryError.MemoryError> =>
  refuseNewer(Either.getOrUndefined(parse(text)), options)

const parse = Schema.decodeEither(Schema.parseJson())
