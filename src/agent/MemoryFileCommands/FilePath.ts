/**
 * Paths of the files of `MemoryFileCommands`. A file is stored as a record, so its path is only a name. Still, a path outside `/memories`
 * is rejected.
 */
import * as Effect from "effect/Effect"
import * as PromptText from "../../domain/PromptText.ts"
import * as MemoryTool from "../../host/MemoryTool.ts"

/** The directory that holds all files. */
export const root = "/memories"

/**
 * Returns the path in Unicode form NFC, without a slash at its end. Fails with `path_escape` if the path is not legal. A legal path is
 * `/memories` or a path below it. It has at most 1,024 UTF-16 units. `PromptText.oneLine` must not change it, so most invisible characters,
 * two spaces in a row and chat-template markers are refused. Each of its segments is a plain name (see `isName`) of at most 255 units.
 */
export const pathOf = (path: string): Effect.Effect<string, MemoryTool.Failure> => {
  const normal = path.normalize("NFC").replace(/(?<=.)\/$/, "")
  const names = normal.split("/").slice(1)
  const isLegal = normal.length <= 1_024 && (normal === root || normal.startsWith(`${root}/`)) &&
    PromptText.oneLine(normal) === normal && names.every((name) => name.length <= 255 && isName(name))
  return isLegal
    ? Effect.succeed(normal)
    : Effect.fail(MemoryTool.failure(
      "path_escape",
      `Error: a path begins with ${root} and has neither "..", nor "\\", nor hidden characters`
    ))
}

/**
 * Whether a path segment is a plain name, even after up to three rounds of percent-decoding. A plain name is not empty, `.` or `..`. It has
 * no slash, no backslash and no character below U+0020.
 */
const isName = (name: string): boolean => {
  let decoded = name
  for (let n = 0; n < 4; n++) {
    // eslint-disable-next-line no-control-regex -- control characters are refused
    if (decoded === "" || decoded === "." || decoded === ".." || /[/\\\u0000-\u001f]/.test(decoded)) return false
    decoded = decoded.replace(/%([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(parseInt(hex, 16)))
  }
  return true
}
