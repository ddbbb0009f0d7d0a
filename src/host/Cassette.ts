/** What a model said, on file: a line of JSON for each answer. A last line without its end was never finished, and is none. */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as FormatVersion from "../domain/FormatVersion.ts"
import * as MemoryError from "../domain/MemoryError.ts"

export const Entry = Schema.Struct({
  model: Schema.String,
  system: Schema.String,
  user: Schema.String,
  answer: Schema.String
})
export interface Entry extends Schema.Schema.Type<typeof Entry> {}

/**
 * Appends lines to a cassette, one write per line and one at a time. Creates a missing folder and cuts off an unfinished
 * line. Fails with `unsupported`, and changes nothing, if a newer release recorded the cassette.
 */
export const recorder = (file: string) =>
  Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    yield* fs.makeDirectory(path.dirname(file), { recursive: true })
    if (yield* fs.exists(file)) {
      const text = yield* fs.readFileString(file)
      yield* Effect.forEach(linesOf(text), (line, n) => refuseNewer("Cassette.append", line, n), { discard: true })
      if (text !== finished(text)) yield* fs.writeFileString(file, finished(text))
    }
    const one = yield* Effect.makeSemaphore(1)
    return (entry: Entry) =>
      Effect.flatMap(encode(entry), (line) => fs.writeFileString(file, `${line}\n`, { flag: "a" })).pipe(
        one.withPermits(1),
        Effect.uninterruptible,
        Effect.mapError((cause) => unwritable(cause)),
        Effect.withSpan("Cassette.append")
      )
  }).pipe(Effect.mapError((cause) => cause instanceof MemoryError.MemoryError ? cause : unwritable(cause)))

/** Reads the recorded answers, in order. Fails with `unsupported` if a newer release recorded one of them. */
export const read = (file: string) =>
  Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    const text = yield* Effect.mapError(fs.readFileString(file), (cause) =>
      cause._tag === "SystemError" && cause.reason === "NotFound"
        ? MemoryError.make("not_found", {
          op,
          message: "there is no cassette: record one with Completion.layerRecord",
          cause
        })
        : MemoryError.make("io", { op, message: "the cassette could not be read", cause }))
    return yield* Effect.forEach(linesOf(text), (line, n) =>
      Effect.zipRight(
        refuseNewer(op, line, n),
        Effect.mapError(decode(line), (cause) => {
          const location = `line ${n + 1}`
          return MemoryError.make("corrupt", {
            op,
            message: `the cassette's ${location} is not a recorded answer`,
            detail: { location },
            cause
          })
        })
      ))
  }).pipe(Effect.withSpan("Cassette.read"))

const op = "Cassette.read"
const json = Schema.parseJson(Entry)
const encode = Schema.encode(json)
const decode = Schema.decode(json)

const linesOf = (text: string): ReadonlyArray<string> => finished(text).split("\n").slice(0, -1)

const refuseNewer = (op: string, line: string, n: number) =>
  FormatVersion.refuseNewerJson(line, { op, what: `the cassette's line ${n + 1}` })

const finished = (text: string): string => text.slice(0, text.lastIndexOf("\n") + 1)

const unwritable = (cause: unknown) =>
  MemoryError.make("io", { op: "Cassette.append", message: "the cassette could not be written", cause })
