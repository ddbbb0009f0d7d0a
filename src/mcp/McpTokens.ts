/**
 * Bearer tokens of a server over HTTP. Each token belongs to one viewer. A token file has one line of JSON per token. The line contains a
 * hash of the token. The token cannot be derived from the hash.
 *
 * ```text
 * # a comment
 * {"name":"laptop","sha256":"9f86d0…","viewer":{"userId":"ada"}}
 * ```
 *
 * A token has 256 random bits, so its hash needs no salt. A look-up compares the hash of the given token with the hash in every line.
 * The duration of a look-up therefore does not reveal which line matches.
 *
 * ```ts
 * import { Effect, Option } from "effect"
 * import { Viewer } from "effect-memory"
 * import { McpTokens } from "effect-memory/mcp"
 *
 * const program = Effect.gen(function*() {
 *   const { line, token } = yield* McpTokens.generate("laptop", Viewer.make({ userId: "ada" }))
 *   const tokens = yield* McpTokens.fromText(`# who may connect\n${line}\n`)
 *   return [tokens.holderOf(token), tokens.holderOf("guessed")].map(Option.isSome)
 * })
 *
 * await Effect.runPromise(program) // => [true, false]
 * ```
 */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"
import * as Encoding from "effect/Encoding"
import * as Option from "effect/Option"
import * as ParseResult from "effect/ParseResult"
import * as Schema from "effect/Schema"
import { canonicalJson, sha256 } from "../domain/Digest.ts"
import * as MemoryError from "../domain/MemoryError.ts"
import * as Viewer from "../domain/Viewer.ts"
import { SecureRandom } from "../host/SecureRandom.ts"

/** The holder of a token. Requests with the token act on behalf of `viewer`. `name` comes from the token file. */
export interface Holder {
  readonly name: string
  readonly viewer: Viewer.Viewer
}

/** The tokens that a server accepts. */
export interface Tokens {
  /** Returns the holder of a token; `None` if the token is unknown. */
  readonly holderOf: (token: string) => Option.Option<Holder>
  /** The number of tokens. */
  readonly size: number
}

/** Greatest length of a token, in UTF-16 units. A longer text is treated like an unknown token. */
const maxToken = 512

/**
 * Makes a token for a viewer, and the line for the token file. `name` (1..100 characters) distinguishes the lines of a file. Show the token
 * to its holder at once, since the line does not contain the token. `viewer` must not see the whole tenant, since `fromText` rejects the
 * line of such a viewer.
 */
export const generate = (
  name: string,
  viewer: Viewer.Viewer
): Effect.Effect<{ readonly token: string; readonly line: string }> =>
  Effect.gen(function*() {
    const { bytes } = yield* SecureRandom
    const token = `em_${Encoding.encodeBase64Url(yield* bytes(32))}`
    const { reach, tenant } = viewer
    const line = { name, sha256: sha256(token), viewer: { ...Viewer.idsOf(viewer), reach, tenant } }
    return { token, line: canonicalJson(line) }
  })

/**
 * Parses a token file. Skips blank lines and lines that begin with `#`. Fails with `invalid_draft` if a line is invalid or two lines have
 * the same token. The error contains the numbers of the invalid lines and the names of their wrong fields, but no values.
 */
export const fromText = (text: string): Effect.Effect<Tokens, MemoryError.MemoryError> =>
  Effect.gen(function*() {
    const lines = text.replace(/^\ufeff/, "").split("\n").map((line, n) => [line.trim(), n + 1] as const).filter((
      [line]
    ) => line !== "" && !line.startsWith("#"))
    const [issues, entries] = yield* Effect.partition(lines, ([line, n]) =>
      Effect.gen(function*() {
        const { name, sha256: hash, viewer } = yield* Effect.mapError(
          decode(line),
          (error) => `line ${n}: ${messageOf(error)}`
        )
        const decoded = yield* Effect.mapError(Viewer.decode(viewer), ({ message }) => `line ${n}: viewer: ${message}`)
        return { hash, n, holder: { name, viewer: decoded } }
      }))
    const firstLines = new Map(entries.toReversed().map(({ hash, n }) => [hash, n]))
    const doubled = entries.flatMap(({ hash, n }) =>
      firstLines.get(hash) === n ? [] : [`line ${n}: the same token as line ${firstLines.get(hash)}`]
    )
    const [first, ...rest] = [...issues, ...doubled]
    if (first !== undefined) return yield* refused([first, ...rest])
    return {
      size: entries.length,
      holderOf: (token) => {
        const hash = sha256(token.slice(0, maxToken))
        let found = Option.none<Holder>()
        for (const entry of entries) if (isEqual(hash, entry.hash)) found = Option.some(entry.holder)
        return token.length > maxToken ? Option.none() : found
      }
    }
  })

/** Loads a token file. Fails with `io` if the file is unreadable, and with `invalid_draft` if its content is invalid. */
export const fromFile = (path: string): Effect.Effect<Tokens, MemoryError.MemoryError, FileSystem.FileSystem> =>
  Effect.flatMap(
    FileSystem.FileSystem,
    (fs) =>
      Effect.mapError(
        fs.readFileString(path),
        (cause) =>
          MemoryError.make("io", { op: "McpTokens.fromFile", message: "the file of tokens cannot be read", cause })
      )
  ).pipe(
    Effect.flatMap(fromText)
  )

const Line = Schema.parseJson(Schema.Struct({
  name: Schema.String.pipe(Schema.minLength(1), Schema.maxLength(100)),
  sha256: Schema.String.pipe(Schema.pattern(/^[0-9a-f]{64}$/)),
  viewer: Schema.Unknown
}))
const decode = Schema.decode(Line, { errors: "all", onExcessProperty: "error" })

/** Returns an error message that lists the invalid fields, or says that the line must be a JSON object. */
const messageOf = (error: ParseResult.ParseError): string => {
  const fields = ParseResult.ArrayFormatter.formatErrorSync(error).map(({ path }) => path.join(".").slice(0, 50))
  return fields.every((field) => field === "") ? "expected a JSON object" : `wrong: ${fields.join(", ")}`
}

const refused = (issues: readonly [string, ...ReadonlyArray<string>]) =>
  MemoryError.make("invalid_draft", {
    op: "McpTokens.fromText",
    message: issues.join("; ").slice(0, 1_000),
    detail: { issues }
  })

/** Compares two hashes of 64 digits. The duration does not depend on the digits, so it reveals nothing about them. */
const isEqual = (a: string, b: string): boolean => {
  let difference = a.length ^ b.length
  for (let n = 0; n < 64; n++) difference |= a.charCodeAt(n) ^ b.charCodeAt(n)
  return difference === 0
}
