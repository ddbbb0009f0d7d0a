/**
 * Turns Schema errors into messages that name the field and the expected value. The messages never quote the input, since
 * they end up in events, logs and tool results, which people other than the input's author may read.
 */
import * as Arr from "effect/Array"
import * as Option from "effect/Option"
import * as ParseResult from "effect/ParseResult"
import * as AST from "effect/SchemaAST"

/** One violation: the path to the field, empty for the input as a whole, and the message. */
export interface SchemaIssue {
  readonly path: ReadonlyArray<PropertyKey>
  readonly message: string
}

/** Returns every violation, in the order of the Schema's fields. Keeps a Schema's own `message` annotations unchanged. */
export const of = (error: ParseResult.ParseError): ReadonlyArray<SchemaIssue> =>
  ParseResult.ArrayFormatter.formatIssueSync(unquoted(error.issue)).map(({ message, path }) => ({ message, path }))

/** Formats a violation as `path.to.field: message`, or as the message alone where the path is empty. */
export const line = ({ message, path }: SchemaIssue): string =>
  path.length === 0 ? message : `${path.map((key) => String(key).slice(0, longestKey)).join(".")}: ${message}`

/** Formats every violation as a line, at least one. Prefixes every path with `at`. */
export const lines = (error: ParseResult.ParseError, ...at: ReadonlyArray<PropertyKey>): [string, ...Array<string>] => {
  const [first = "not valid", ...rest] = of(error).map(({ message, path }) => line({ message, path: [...at, ...path] }))
  return [first, ...rest]
}

/**
 * Formats any thrown value: a `ParseError` as `lines` does, anything else as the one line `otherwise`, since the message of
 * another error may quote the input.
 */
export const linesOf = (
  cause: unknown,
  otherwise: string,
  ...at: ReadonlyArray<PropertyKey>
): [string, ...Array<string>] => ParseResult.isParseError(cause) ? lines(cause, ...at) : [otherwise]

/** Longest key that a message shows, in UTF-16 units. Authors choose the keys of a record, at any length. */
const longestKey = 64

/** Returns the issue with a message of its own at every leaf whose default message would quote the input. */
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
        // the message of a failed transformation comes from elsewhere, such as JSON.parse, and may quote the input
        issue.kind === "Transformation"
          ? new ParseResult.Type(issue.ast, issue.actual, expected(issue.ast.to))
          : unquoted(issue.issue)
      )
    case "Composite":
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

const expected = (ast: AST.AST): string =>
  `Expected ${
    AST.isRefinement(ast)
      ? AST.getDescriptionAnnotation(ast).pipe(
        Option.orElse(() => AST.getTitleAnnotation(ast)),
        Option.getOrElse(() => String(ast))
      )
      : String(ast)
  }`
