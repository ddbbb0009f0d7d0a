/**
 * A service for the language model that the harness (the program that runs the agent) provides. `complete` returns text. `object` returns a
 * value that fits a Schema. `layerRecord` writes a model's answers to a file, called a cassette. `layerReplay` answers from a cassette,
 * without a model.
 */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { values } from "../domain/JsonText.ts"
import * as MemoryError from "../domain/MemoryError.ts"
import * as Validation from "../domain/Validation.ts"

/** Greatest length of an answer that `object` accepts, in UTF-16 units. `object` fails with `model` if an answer is longer. */
export const maxAnswerLength = 262_144

/** A prompt for a model: the system prompt and the message of the user. */
export interface Prompt {
  readonly system: string
  readonly user: string
}

/** A language model that answers prompts. */
export interface Service {
  /** Name of the model, which is written into cassettes. */
  readonly model: string
  /** Asks the model. Has no timeout: waits until the model answers. Fails with `model` if the model reports an error. */
  readonly complete: (prompt: Prompt) => Effect.Effect<string, MemoryError.MemoryError>
  /**
   * Asks the model, and looks for the outermost JSON objects and arrays in its answer. Returns the first of them that fits the schema.
   * Prose or a fence may surround the JSON, and the end of the JSON may be missing. Fails with `model` if no JSON fits, or if the answer is
   * longer than `maxAnswerLength`. A retry may succeed. The error says what was expected, and never quotes the answer.
   */
  readonly object: <A, I>(schema: Schema.Schema<A, I>, prompt: Prompt) => Effect.Effect<A, MemoryError.MemoryError>
}

/** The tag of the language model. */
export class Completion extends Context.Tag("@memory/Completion")<Completion, Service>() {}

/** Makes the service from a function that asks a model. */
export const make = ({ complete, model }: Pick<Service, "model" | "complete">): Service => {
  const asked = (prompt: Prompt) =>
    Effect.withSpan(Effect.suspend(() => complete(prompt)), "Completion.complete", { attributes: { model } })
  return {
    model,
    complete: asked,
    object: (schema, prompt) =>
      Effect.flatMap(asked(prompt), (answer) => decoded(schema, answer)).pipe(
        Effect.withSpan("Completion.object", { attributes: { model } })
      )
  }
}

/** Asks a model. A crash of the model's code, or an interruption that it causes itself, is a failure with reason `model`. @internal */
export const ask = (
  { complete }: Pick<Service, "complete">,
  prompt: Prompt
): Effect.Effect<string, MemoryError.MemoryError> =>
  MemoryError.contain("Completion.complete", "model")(Effect.suspend(() => complete(prompt)))

/** Name of the model of `layerNone`. */
const none = "none"

/** Whether the service has no model, like `layerNone`. True for every service whose `model` is `none`. */
export const isNone = ({ model }: Pick<Service, "model">): boolean => model === none

/**
 * Provides a model that answers from a script, for tests. If `answers` is an Iterable, the n-th call gets its n-th value. Calls after the
 * last value fail with `model`. If `answers` is a function, each call gets the function's result. A string is the answer itself, a
 * `MemoryError` makes the call fail, and any other value is answered as JSON. Each build of the layer starts with the first value again. If
 * `answers` is itself an iterator, such as a generator object, a build continues after the last value that was used.
 */
export const layerScripted = (
  answers: Iterable<unknown> | ((prompt: Prompt) => unknown)
): Layer.Layer<Completion> =>
  Layer.sync(Completion, () => {
    const next = typeof answers === "function" ? (prompt: Prompt) => [answers(prompt)] : queueOf(answers)
    return make({
      model: "scripted",
      complete: (prompt) =>
        Effect.suspend(() => {
          const remaining = next(prompt)
          if (remaining.length === 0) return Effect.fail(failed("the script has no answer left"))
          const [answer] = remaining
          if (answer instanceof MemoryError.MemoryError) return Effect.fail(answer)
          return Effect.succeed(typeof answer === "string" ? answer : JSON.stringify(answer) ?? "")
        })
    })
  })

/**
 * Provides a service without a model. Every call fails with `unsupported`, and the error names the layer to provide. A `MemoryPipeline`
 * with this layer extracts facts only by its option `customExtract`, and adds these facts without asking a model.
 */
export const layerNone: Layer.Layer<Completion> = Layer.succeed(
  Completion,
  make({
    model: none,
    complete: () =>
      Effect.fail(MemoryError.make("unsupported", {
        op: "Completion.complete",
        message: "there is no language model: provide a Completion to the layer that asks it, " +
          "MemoryService.layer().pipe(Layer.provide(layerCompletion)) with layerCompletion of effect-memory/ai"
      }))
  })
)

/**
 * Provides a model that asks the `Completion` of the Effect context. Each answer is appended to the cassette `file` and then returned.
 * Failures are not recorded. Fails with `io` if the cassette cannot be written. The layer fails with `unsupported` if a newer release of
 * the library recorded the cassette. To replace recorded answers, delete the file first.
 */
export const layerRecord = (
  file: string
): Layer.Layer<Completion, MemoryError.MemoryError, Completion | FileSystem.FileSystem | Path.Path> =>
  Layer.effect(
    Completion,
    Effect.gen(function*() {
      const { complete, model } = yield* Completion
      const append = yield* recordTo(file)
      return make({
        model,
        complete: (prompt) => Effect.tap(complete(prompt), (answer) => append({ model, ...prompt, answer }))
      })
    })
  )

/**
 * Provides a model that answers from a cassette. The n-th call with a prompt gets the n-th answer recorded for this prompt. A call fails
 * with `model` if no answer to its prompt is left. Each build of the layer starts with the first answers again. The layer fails with
 * `not_found` if there is no cassette, with `io` if it cannot be read, with `unsupported` if a newer release of the library wrote a line,
 * and with `corrupt` if a line is not a recorded answer.
 */
export const layerReplay = (
  file: string
): Layer.Layer<Completion, MemoryError.MemoryError, FileSystem.FileSystem> =>
  Layer.effect(
    Completion,
    Effect.map(readCassette(file), (entries) => {
      const tracks = new Map<string, Array<string>>()
      for (const entry of entries) {
        const track = trackOf(entry)
        tracks.set(track, [...(tracks.get(track) ?? []), entry.answer])
      }
      const played = new Map<string, number>()
      return make({
        model: entries[0]?.model ?? "cassette",
        complete: (prompt) =>
          Effect.suspend(() => {
            const track = trackOf(prompt)
            const nth = played.get(track) ?? 0
            const answer = tracks.get(track)?.[nth]
            if (answer === undefined) return Effect.fail(failed(notOnCassette(nth), prompt))
            played.set(track, nth + 1)
            return Effect.succeed(answer)
          })
      })
    })
  )

const trackOf = ({ system, user }: Prompt): string => JSON.stringify([system, user])

/** Makes the error message for a missing answer. `played` is the number of answers to the same prompt that were returned before. */
const notOnCassette = (played: number): string => {
  const lacks = played > 0 ? `only ${played} of the answers to this prompt` : "no answer to this prompt"
  return `the cassette has ${lacks}: delete it and record it anew with Completion.layerRecord`
}

/**
 * Makes a function that returns an array with the next answer of the script. At the end of the script, the array is empty. Functions that
 * are made from the same iterator share its answers.
 */
const queueOf = (answers: Iterable<unknown>) => {
  const iterator = answers[Symbol.iterator]()
  return (): ReadonlyArray<unknown> => {
    const { done, value } = iterator.next()
    return done ? [] : [value]
  }
}

const decoded = <A, I>(schema: Schema.Schema<A, I>, answer: string) =>
  Effect.gen(function*() {
    const length = `the answer of ${answer.length} characters`
    if (answer.length > maxAnswerLength) {
      return yield* failed(`${length} is longer than the maximum of ${maxAnswerLength}`)
    }
    const decode = Schema.decodeUnknown(schema)
    const all = values(answer)
    for (const value of all) {
      const result = yield* Effect.either(decode(value))
      if (Either.isRight(result)) return result.right
    }
    const found = all.length === 0 ? "there is no JSON in it" : "no JSON in it fits"
    return yield* failed(`${length} is not what was asked for: ${found}, expected ${String(schema.ast).slice(0, 500)}`)
  })

const failed = (message: string, cause?: unknown) =>
  MemoryError.make("model", { op: "Completion.complete", message, cause })

/** Schema of one line of a cassette: a prompt and the answer to it, as JSON. */
const CassetteEntry = Schema.Struct({
  model: Schema.String,
  system: Schema.String,
  user: Schema.String,
  answer: Schema.String
})
interface CassetteEntry extends Schema.Schema.Type<typeof CassetteEntry> {}

/**
 * Opens a cassette, and returns a function that appends an entry as one line. Only one entry is written at a time. Creates the folder if it
 * is missing. Removes an incomplete last line, which a crash left. If a newer release of the library recorded the cassette, fails with
 * `unsupported` and leaves the cassette unchanged.
 */
const recordTo = (file: string) =>
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
    return (entry: CassetteEntry) =>
      Effect.flatMap(encodeEntry(entry), (line) => fs.writeFileString(file, `${line}\n`, { flag: "a" })).pipe(
        one.withPermits(1),
        Effect.uninterruptible,
        Effect.mapError((cause) => unwritable(cause)),
        Effect.withSpan("Cassette.append")
      )
  }).pipe(Effect.mapError((cause) => cause instanceof MemoryError.MemoryError ? cause : unwritable(cause)))

/** Returns the entries of a cassette, in order. Fails as described at `layerReplay`. */
const readCassette = (file: string) =>
  Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    const text = yield* Effect.mapError(fs.readFileString(file), (cause) =>
      cause._tag === "SystemError" && cause.reason === "NotFound"
        ? MemoryError.make("not_found", {
          op: reading,
          message: "there is no cassette: record one with Completion.layerRecord",
          cause
        })
        : MemoryError.make("io", { op: reading, message: "the cassette could not be read", cause }))
    return yield* Effect.forEach(linesOf(text), (line, n) =>
      Effect.zipRight(
        refuseNewer(reading, line, n),
        Effect.mapError(decodeEntry(line), (cause) => {
          const location = `line ${n + 1}`
          return MemoryError.make("corrupt", {
            op: reading,
            message: `the cassette's ${location} is not a recorded answer`,
            detail: { location },
            cause
          })
        })
      ))
  }).pipe(Effect.withSpan("Cassette.read"))

const reading = "Cassette.read"
const asLine = Schema.parseJson(CassetteEntry)
// functions, so that each codec is compiled at its first use, and not when the package is imported
const encodeEntry = (entry: CassetteEntry) => Schema.encode(asLine)(entry)
const decodeEntry = (line: string) => Schema.decode(asLine)(line)

/** Returns the complete lines of a cassette. An incomplete last line, which a crash can leave, is ignored. */
const linesOf = (text: string): ReadonlyArray<string> => finished(text).split("\n").slice(0, -1)

const refuseNewer = (op: string, line: string, n: number) =>
  Validation.refuseNewerJson(line, { op, what: `the cassette's line ${n + 1}` })

const finished = (text: string): string => text.slice(0, text.lastIndexOf("\n") + 1)

const unwritable = (cause: unknown) =>
  MemoryError.make("io", { op: "Cassette.append", message: "the cassette could not be written", cause })
