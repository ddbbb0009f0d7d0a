/**
 * Paths of the files of `MemoryFileCommands`. A file is stored as a record, so its path is only a name. Still, a path outside `/memories`
 * is rejected.
 */
import * as Effect from "effect/Effect"
import type { MemoryError } from "../../domain/MemoryError.ts"
import type { MemoryScope } from "../../domain/MemoryScope.ts"
import * as Message from "../../domain/Message.ts"
import * as PromptText from "../../domain/PromptText.ts"
import type * as MemoryService from "../../harness/MemoryService.ts"
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
 * Fails with `invalid_draft` if the store's redaction would change one of the paths. A file is found by its path, so a file with a redacted
 * path would be lost. `MemoryService.plan` returns texts as they would be stored, and writes nothing.
 */
export const requireUnredacted = (
  { memory, scope }: { readonly memory: MemoryService.Service; readonly scope: MemoryScope },
  paths: ReadonlyArray<string>
): Effect.Effect<void, MemoryError | MemoryTool.Failure, MemoryService.CurrentViewer> =>
  Effect.flatMap(memory.plan(paths.map(Message.user), { scope, infer: false }), ({ mutations }) => {
    const kept = new Set(mutations.map((mutation) => mutation._tag === "Put" ? mutation.draft.body : undefined))
    return paths.every((path) => kept.has(path)) ? Effect.void : Effect.fail(MemoryTool.failure(
      "invalid_draft",
      "Error: The path contains a secret, such as a key or an e-mail address, and would be redacted. Please use another path."
    ))
  })

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
