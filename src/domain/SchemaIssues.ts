/**
 * What a Schema has against an input, in words that name the field and what is expected of it. The input itself is never
 * quoted: such words end up in events, logs and the answers of tools, which may be read by others than its author.
 */
import * as Arr from "effect/Array"
import * as Option from "effect/Option"
import * as ParseResult from "effect/ParseResult"
import * as AST from "effect/SchemaAST"

export interface SchemaIssue {
  readonly path: ReadonlyArray<PropertyKey>
  readonly message: string
}

/** Every violation, in the order of the Schema. A Schema's own `message` annotations are used as they are. */
export const of = (error: ParseResult.ParseError): ReadonlyArray<SchemaIssue> =>
  ParseResult.ArrayFormatter.formatIssueSync(unquoted(error.issue)).map(({ message, path }) => ({ message, path }))

/** `path.to.field: message`, or the message alone where the input as a whole is at fault. */
export const line = ({ message, path }: SchemaIssue): string =>
  path.length === 0 ? message : `${path.map((key) => String(key).slice(0, longestKey)).join(".")}: ${message}`

/** A line for each violation, at least one; every path begins with `at`. */
export const lines = (error: ParseResult.ParseError, ...at: ReadonlyArray<PropertyKey>): [string, ...Array<string>] => {
  const [first = "not valid", ...rest] = of(error).map(({ message, path }) => line({ message, path: [...at, ...path] }))
  return [first, ...rest]
}

/** The same of anything that was thrown: what is no error of a Schema is `otherwise`, since its own message may quote. */
export const linesOf = (
  cause: unknown,
  otherwise: string,
  ...at: ReadonlyArray<PropertyKey>
): [string, ...Array<string>] => ParseResult.isParseError(cause) ? lines(cause, ...at) : [otherwise]

/** UTF-16 units of a key that a message shows: the keys of a record are its author's, of any length. */
const longestKey = 64

/** The same issue with a message for every leaf that would otherwise quote the input. */
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
        // a transformation's failure is another library's message, such as JSON.parse's
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
