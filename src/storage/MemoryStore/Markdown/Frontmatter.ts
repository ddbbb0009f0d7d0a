/** Where the YAML at the head of a text ends and its body begins. YAML of strangers: bounded, and of JSON's types only. */
import * as DateTime from "effect/DateTime"
import * as Either from "effect/Either"
import * as Yaml from "yaml"

/** UTF-16 units. */
const maxMatter = 262_144

type Matter = Readonly<Record<string, unknown>>

/** Keys and values, as `read` finds them between the rules, and the body. Left: what is wrong with them. */
export const split = (
  text: string,
  read: (matter: string) => Either.Either<Matter, string> = yaml
): Either.Either<readonly [Matter, string], string> => {
  const start = text.replace(/^\uFEFF/, "")
  const open = /^---[ \t]*\r?\n/.exec(start)
  const eol = /\r?\n/.exec(start)?.[0] ?? "\n"
  if (!open) return Either.right([{}, trimmed(start, eol)])
  const rest = start.slice(open[0].length)
  const close = /(?:^|\r?\n)---[ \t]*(?:\r?\n|$)/.exec(rest) // not by lines: U+2028 ends one, and ends no YAML
  if (!close) return Either.left("the frontmatter has no end")
  if (close.index > maxMatter) return Either.left("the frontmatter is too large")
  const body = rest.slice(close.index + close[0].length)
  return Either.flatMap(
    read(rest.slice(0, close.index)),
    (matter) => Either.right([matter, trimmed(body, eol)] as const)
  )
}

/** One line break before, and one after, are the file's and not the body's. */
const trimmed = (body: string, eol: string): string => {
  const rest = body.startsWith(eol) ? body.slice(eol.length) : body
  return rest.endsWith(eol) ? rest.slice(0, -eol.length) : rest
}

const yaml = (text: string): Either.Either<Matter, string> =>
  Either.try({
    try: (): unknown => Yaml.parse(text, { maxAliasCount: 20, schema: "core", logLevel: "error" }),
    catch: (error) => `frontmatter: ${fault(error)}`
  }).pipe(
    Either.flatMap((matter) => {
      if (matter === null || matter === undefined) return Either.right({})
      if (typeof matter !== "object" || Array.isArray(matter)) {
        return Either.left("frontmatter: expected keys and values")
      }
      if (Object.hasOwn(matter, "__proto__")) return Either.left("frontmatter: __proto__ is no key")
      return Either.right(matter as Matter) // an object that is no array
    })
  )

/** As a person reads it, where a date can be that late. */
export const time = (millis: number | undefined): string | number | undefined =>
  millis === undefined || millis > 8.64e15 ? millis : DateTime.formatIso(DateTime.unsafeMake(millis))

/** A date, or epoch milliseconds. */
export const timeOf = <A>(
  fields: Readonly<Record<string, unknown>>,
  name: string,
  absent: A
): Either.Either<number | A, string> => {
  const value = fields[name]
  if (value === undefined || value === null) return Either.right(absent)
  const millis = typeof value === "string" ? Date.parse(value) : value
  return typeof millis === "number" && Number.isSafeInteger(millis) && millis >= 0
    ? Either.right(millis)
    : Either.left(`${name}: expected a time`)
}

/** Describes a YAML error by its code and place; the message of the YAML library may quote the text. */
const fault = (error: unknown): string => {
  if (!(error instanceof Yaml.YAMLParseError)) return "not YAML"
  const [start] = error.linePos ?? []
  return start === undefined ? error.code : `${error.code} at line ${start.line}, column ${start.col}`
}
