/**
 * The version of a stored format: of a vault, a checkpoint, a line of a cassette, a row of an outbox.
 *
 * Data names its `version` where it is not the first, so data without one is version 1. A reader refuses a version that it
 * does not know before it decodes, writes or deletes anything: the release that wrote the data finds it as it was.
 *
 * What a vault keeps beside its records (journal, snapshot, log, revisions, vectors) has no version of its own: it changes
 * with the vault's.
 */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import * as MemoryError from "./MemoryError.ts"

interface Options {
  readonly op: string
  /** Names the data in the message: "the checkpoint of run-7". */
  readonly what: string
  /** The newest version that the caller reads. Default 1. */
  readonly known?: number | undefined
}

/** Fails with `unsupported` where `data` names another version than 1..`known`. What is no object has no version. */
export const refuseNewer = (
  data: unknown,
  { known = 1, op, what }: Options
): Effect.Effect<void, MemoryError.MemoryError> => {
  const version = Predicate.hasProperty(data, "version") ? data.version : 1
  return typeof version === "number" && Number.isInteger(version) && version >= 1 && version <= known
    ? Effect.void
    : MemoryError.make("unsupported", {
      op,
      message: `${what} has format ${JSON.stringify(version)}, of a newer release; this one knows ${known}`
    })
}

/** `refuseNewer` for a text. What is no JSON has no version: its reader says what is wrong with it. */
export const refuseNewerJson = (text: string, options: Options): Effect.Effect<void, MemoryError.MemoryError> =>
  refuseNewer(Either.getOrUndefined(parse(text)), options)

const parse = Schema.decodeEither(Schema.parseJson())
