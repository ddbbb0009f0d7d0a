/** The harness's language model, as little of it as we need. */
import type * as FileSystem from "@effect/platform/FileSystem"
import type * as Path from "@effect/platform/Path"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { values } from "../domain/JsonText.ts"
import * as MemoryError from "../domain/MemoryError.ts"
import * as Cassette from "./Cassette.ts"

/** Longest answer that is accepted, in UTF-16 units. A longer one is a `model` failure, and is not parsed. */
export const maxAnswerLength = 262_144

export interface Prompt {
  readonly system: string
  readonly user: string
}

export interface Service {
  /** Recorded in cassettes and receipts. */
  readonly model: string
  /** Fails with `model`. */
  readonly complete: (prompt: Prompt) => Effect.Effect<string, MemoryError.MemoryError>
  /**
   * The first JSON in the answer that decodes; prose, fences and truncation are survived. Objects and arrays only. None
   * that decodes, or an answer longer than `maxAnswerLength`, is `model`: the same call may succeed later. The failure
   * says what was expected, and never quotes the answer.
   */
  readonly object: <A, I>(schema: Schema.Schema<A, I>, prompt: Prompt) => Effect.Effect<A, MemoryError.MemoryError>
}

export class Completion extends Context.Tag("@memory/Completion")<Completion, Service>() {}

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

/**
 * Answers in order, a string as it is, a `MemoryError` as the failure of that call, anything else as its JSON; one call
 * too many fails with `model`. Each time the layer is built the script begins anew, where it can.
 */
export const layerScripted = (
  answers: Iterable<unknown> | ((prompt: Prompt) => unknown)
): Layer.Layer<Completion> =>
  Layer.sync(Completion, () => {
    const next = typeof answers === "function" ? (prompt: Prompt) => [answers(prompt)] : taken(answers)
    return make({
      model: "scripted",
      complete: (prompt) =>
        Effect.suspend(() => {
          const said = next(prompt)
          if (said.length === 0) return Effect.fail(failed("the script has no answer left"))
          const [answer] = said
          if (answer instanceof MemoryError.MemoryError) return Effect.fail(answer)
          return Effect.succeed(typeof answer === "string" ? answer : JSON.stringify(answer) ?? "")
        })
    })
  })

/** Fails every call with `unsupported`, naming what to provide. */
export const layerNone: Layer.Layer<Completion> = Layer.succeed(
  Completion,
  make({
    model: "none",
    complete: () =>
      Effect.fail(MemoryError.make("unsupported", {
        op: "Completion.complete",
        message: "there is no language model: provide a Completion, e.g. layerCompletion of effect-memory/ai"
      }))
  })
)

/**
 * A plugin: asks the model below and appends what it said to a cassette, each answer before it is handed on. Failures
 * are not recorded; a cassette that cannot be written is `io`. To record anew, delete the file first.
 */
export const layerRecord = (
  file: string
): Layer.Layer<Completion, MemoryError.MemoryError, Completion | FileSystem.FileSystem | Path.Path> =>
  Layer.effect(
    Completion,
    Effect.gen(function*() {
      const { complete, model } = yield* Completion
      const append = yield* Cassette.recorder(file)
      return make({
        model,
        complete: (prompt) => Effect.tap(complete(prompt), (answer) => append({ model, ...prompt, answer }))
      })
    })
  )

/**
 * Plays a cassette: to a prompt that was asked several times the answers in the order in which they were recorded, from
 * the first on each time the layer is built. A prompt that is not on it, or was asked less often, fails with `model`.
 * No cassette is `not_found`, one that cannot be read `corrupt`.
 */
export const layerReplay = (
  file: string
): Layer.Layer<Completion, MemoryError.MemoryError, FileSystem.FileSystem> =>
  Layer.effect(
    Completion,
    Effect.map(Cassette.read(file), (entries) => {
      const tracks = new Map<string, Array<string>>()
      for (const entry of entries) {
        const track = trackOf(entry)
        tracks.set(track, [...(tracks.get(track) ?? []), entry.answer])
      }
      const played = new Map<string, number>()
      return make({
        model: entries[0]?.model ?? "none",
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

/** Fails for a prompt without a recorded answer. The error's cause holds the prompt, for logs. */
const notOnCassette = (played: number): string => {
  const lacks = played > 0 ? `only ${played} of the answers to this prompt` : "no answer to this prompt"
  return `the cassette has ${lacks}: delete it and record it anew with Completion.layerRecord`
}

/** Whoever else takes from it takes from the same. */
const taken = (answers: Iterable<unknown>) => {
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
