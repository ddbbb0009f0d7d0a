/**
 * The version of a stored format: of a vault, a checkpoint, a line of a cassette, a row of an outbox.
 *
 * Data of version 1 carries no `version` field; data of every later version does. A reader refuses a version that it does
 * not know before it decodes, writes or deletes anything, so the newer release that wrote the data finds it unchanged.
 *
 * The other files of a vault (journal, snapshot, log, revisions, vectors) have no version of their own: their format
 * changes with the version of the vault.
 */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import * as MemoryError from "./MemoryError.ts"

interface Options {
  /** Operation that the error names. */
  readonly op: string
  /** Name of the data in the error message, such as "the checkpoint of run-7". */
  readonly what: string
  /** The newest version that the caller reads. Default 1. */
  readonly known?: number | undefined
}

/**
 * Fails with `unsupported` unless the version of `data` is one of 1..`known`. A value without a `version` field counts as
 * version 1.
 */
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

/** Applies `refuseNewer` to JSON text. Text that is not JSON passes: the reader that decodes it reports what is wrong. */
export const refuseNewerJson = (text: string, options: Options): Effect.Effect<void, MemoryError.MemoryError> =>
  refuseNewer(Either.getOrUndefined(parse(text)), options)

const parse = Schema.decodeEither(Schema.parseJson())
