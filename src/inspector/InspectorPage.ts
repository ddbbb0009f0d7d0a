/**
 * The files of the inspector's page, and the HTTP headers that isolate the page. The page can run only its own scripts, and can fetch only
 * from its own origin. No page can show it in a frame.
 */
import { FileSystem } from "@effect/platform/FileSystem"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import * as MemoryError from "../domain/MemoryError.ts"

/** Schema of the page's files: the text of each file, by file name. */
export const Files = Schema.Record({ key: Schema.String, value: Schema.String })
/** Files of the page, as their schema decodes them. */
export interface Files extends Schema.Schema.Type<typeof Files> {}

/** Headers of every response, of the page and of the API. */
export const headers = {
  "cache-control": "no-store",
  "content-security-policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY"
} as const

const types: Readonly<Record<string, string>> = {
  html: "text/html; charset=utf-8",
  css: "text/css; charset=utf-8",
  js: "text/javascript; charset=utf-8",
  svg: "image/svg+xml"
}

/** Makes a function that returns the file at a path as a response. `/` is `index.html`. An unknown path gives `undefined`. */
export const make = (files: Files) => {
  const answers = new Map(
    Object.entries(files).map(([name, text]) => [
      name === "index.html" ? "/" : `/${name}`,
      HttpServerResponse.text(text, {
        headers,
        contentType: types[name.slice(name.lastIndexOf(".") + 1)] ?? "text/plain; charset=utf-8"
      })
    ])
  )
  return (path: string): HttpServerResponse.HttpServerResponse | undefined => answers.get(path)
}

/**
 * Reads the page's files from JSON, which the build embeds in the command `effect-memory`. Fails with `unavailable` if the JSON is missing
 * or invalid.
 */
export const fromJson = (json: string | undefined): Either.Either<Files, MemoryError.MemoryError> =>
  Either.mapLeft(
    Schema.decodeUnknownEither(Schema.parseJson(Files))(json),
    (cause) =>
      MemoryError.make("unavailable", {
        op: "InspectorPage.fromJson",
        message: "this build has no page of the inspector",
        cause
      })
  )

/** Reads the page's files from a folder. Fails with `io` if the folder or a file cannot be read. */
export const fromFolder = (folder: string): Effect.Effect<Files, MemoryError.MemoryError, FileSystem> =>
  Effect.gen(function*() {
    const fs = yield* FileSystem
    const names = yield* fs.readDirectory(folder)
    return Object.fromEntries(
      yield* Effect.forEach(
        names,
        (name) => Effect.map(fs.readFileString(`${folder}/${name}`), (text) => [name, text] as const)
      )
    )
  }).pipe(Effect.mapError((cause) =>
    MemoryError.make("io", {
      op: "InspectorPage.fromFolder",
      message: "the files of the page cannot be read",
      cause
    })
  ))
