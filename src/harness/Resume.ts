/**
 * Checkpoints of an agent's runs. A run is resumed only if its spec equals the saved spec. With `accept`, some fields may differ.
 *
 * Each run has one checkpoint file. A checkpoint is first written to a temporary file, which is then renamed. So after a crash, the run has
 * either the new checkpoint or the previous one.
 */
import type { PlatformError } from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import * as Schema from "effect/Schema"
import { canonicalJson, sha256 } from "../domain/Digest.ts"
import * as MemoryError from "../domain/MemoryError.ts"
import { ScopeId } from "../domain/MemoryScope.ts"
import { type Json, JsonObject } from "../domain/Payload.ts"
import * as Validation from "../domain/Validation.ts"
import { hashedForm, hashSpec } from "./MemorySpec.ts"

/** Schema of a checkpoint. */
export const Checkpoint = Schema.Struct({
  runId: ScopeId,
  /** The spec of the run, as JSON, as it was given to `save`. */
  spec: JsonObject,
  hash: Schema.String,
  /** Number of the turn, from 0. */
  turn: Schema.NonNegativeInt,
  /** Number of messages, counted from the first, that extraction has already processed. */
  cursor: Schema.NonNegativeInt
})
/** The state of a run, saved at the end of a turn. */
export interface Checkpoint extends Schema.Schema.Type<typeof Checkpoint> {}

/**
 * A field that differs between two specs. `before` is the value in the saved spec, and `after` the value in the present spec. The value is
 * `undefined` if the spec lacks the field.
 */
export const Drift = Schema.Struct({
  field: Schema.String,
  before: Schema.optional(Schema.Unknown),
  after: Schema.optional(Schema.Unknown)
})

/** The error of `resume` if the spec of a run has changed since its checkpoint was saved. */
export class ResumeError extends Schema.TaggedError<ResumeError>("@memory/ResumeError")("ResumeError", {
  checkpoint: Checkpoint,
  hash: Schema.String,
  /** The changed fields. A field is named by its path, such as `memory.writesPerTurn`. A dot within a key is written `\.`. */
  changed: Schema.NonEmptyArray(Drift)
}) {
  override get message(): string {
    return this.changed.map(({ after, before, field }) =>
      `${field} ${JSON.stringify(before)} → ${JSON.stringify(after)}`
    ).join(", ")
  }
}

/** Operations of `Resume`. */
export interface Service {
  /**
   * Loads the checkpoint of a run; `None` if the run has none. Fails with `ResumeError` if `spec` differs from the saved spec. Specs with
   * the same hash (`MemorySpec.hashSpec`) count as equal. Fails with `corrupt` if the file is not a checkpoint, and with `unsupported` if a
   * newer version of the library saved it.
   */
  readonly resume: (
    runId: string,
    spec: object
  ) => Effect.Effect<Option.Option<Checkpoint>, ResumeError | MemoryError.MemoryError>
  /**
   * Saves a checkpoint atomically: a crash leaves either this checkpoint or the previous one. If a newer version of the library saved the
   * previous one, fails with `unsupported` and changes nothing. Fails with `invalid_draft` if JSON would lose a value of the spec, such as
   * a `Map`, a symbol, or an instance of a class other than a `Schema.Class`.
   */
  readonly save: (
    runId: string,
    spec: object,
    at: Pick<Checkpoint, "turn" | "cursor">
  ) => Effect.Effect<Checkpoint, MemoryError.MemoryError>
}

/** Tag of the service for checkpoints. */
export class Resume extends Context.Tag("@memory/Resume")<Resume, Service>() {}

/** Storage for the text of each run's checkpoint. Run ids are in the Unicode normalization form NFC. */
interface Shelf {
  readonly read: (runId: string) => Effect.Effect<Option.Option<string>, MemoryError.MemoryError>
  readonly write: (runId: string, text: string) => Effect.Effect<void, MemoryError.MemoryError>
}

const make = (shelf: Shelf): Service => ({
  resume: (runId, spec) =>
    Effect.gen(function*() {
      const run = yield* legal("resume", runId)
      const current = yield* plain("resume", spec)
      const text = yield* shelf.read(run)
      if (Option.isNone(text)) return Option.none()
      yield* refuseNewer("resume", run, text.value)
      const checkpoint = yield* parse(run, text.value)
      const meant = new Set(drift(hashed(checkpoint.spec), hashed(current)).map(({ field }) => field))
      const [first, ...rest] = drift(checkpoint.spec, current).filter(({ field }) => meant.has(field))
      if (first === undefined) return Option.some(checkpoint)
      return yield* new ResumeError({ checkpoint, hash: hashSpec(current), changed: [first, ...rest] })
    }).pipe(Effect.withSpan("Resume.resume", { attributes: { runId } })),
  save: (runId, spec, at) =>
    Effect.gen(function*() {
      const run = yield* legal("save", runId)
      const json = yield* plain("save", spec)
      const checkpoint = yield* Schema.validate(Checkpoint)({
        runId: run,
        spec: json,
        hash: hashSpec(json),
        turn: at.turn,
        cursor: at.cursor
      }).pipe(Effect.mapError((error) => Validation.invalid("save", ...Validation.lines(error))))
      const old = yield* shelf.read(run)
      if (Option.isSome(old)) yield* refuseNewer("save", run, old.value)
      yield* shelf.write(run, JSON.stringify(checkpoint, null, 2))
      return checkpoint
    }).pipe(Effect.withSpan("Resume.save", { attributes: { runId } }))
})

/** Provides `Resume`, which stores one file per run in `directory`. The directory is created if it is missing. */
export const layer = ({ directory }: { readonly directory: string }): Layer.Layer<
  Resume,
  MemoryError.MemoryError,
  FileSystem.FileSystem | Path.Path
> =>
  Layer.effect(
    Resume,
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const path = yield* Path.Path
      yield* Effect.mapError(fs.makeDirectory(directory, { recursive: true, mode: 0o700 }), io("layer"))

      const fileOf = (runId: string) => path.join(directory, fileName(runId))
      const sync = (name: string) =>
        Effect.scoped(Effect.flatMap(fs.open(name, { flag: "r" }), (folder) => folder.sync))
      const fill = (name: string, text: string) =>
        Effect.scoped(
          Effect.gen(function*() {
            const file = yield* fs.open(name, { flag: "wx", mode: 0o600 })
            yield* file.writeAll(new TextEncoder().encode(text))
            yield* file.sync
          })
        )

      return make({
        read: (runId) =>
          Effect.matchEffect(fs.readFileString(fileOf(runId)), {
            onFailure: (error) => isMissing(error) ? Effect.succeedNone : Effect.fail(io("resume")(error)),
            onSuccess: Effect.succeedSome
          }),
        write: (runId, text) =>
          Effect.gen(function*() {
            const draft = `${fileOf(runId)}.${yield* Random.nextIntBetween(0, 2 ** 48)}.tmp`
            yield* Effect.zipRight(fill(draft, text), fs.rename(draft, fileOf(runId))).pipe(
              Effect.tapError((error) =>
                isTaken(error) ? Effect.void : Effect.orElseSucceed(fs.remove(draft, { force: true }), () => undefined)
              ) // a failure to remove the file is ignored, so that the first error is reported
            )
          }).pipe(
            // retries with another name: a killed process that used the same seed for Random may have left a file of this name
            Effect.retry({ while: isTaken, times: 8 }),
            Effect.zipRight(sync(directory)),
            Effect.uninterruptible,
            Effect.mapError(io("save"))
          )
      })
    })
  )

/** Provides `Resume`, which keeps checkpoints in RAM until the layer is closed. */
export const layerInMemory: Layer.Layer<Resume> = Layer.sync(Resume, () => {
  const texts = new Map<string, string>()
  return make({
    read: (runId) => Effect.sync(() => Option.fromNullable(texts.get(runId))),
    write: (runId, text) => Effect.sync(() => void texts.set(runId, text))
  })
})

/**
 * Catches the `ResumeError` of `resume` if all changed fields are in `fields`. A field includes its subfields: `memory` also accepts a
 * change of `memory.writesPerTurn`. Returns the checkpoint, which has the old spec. The next `save` stores the new spec.
 */
export const accept = (fields: ReadonlyArray<string>) =>
<E, R>(
  self: Effect.Effect<Option.Option<Checkpoint>, E | ResumeError, R>
): Effect.Effect<Option.Option<Checkpoint>, E | ResumeError, R> =>
  Effect.catchIf(
    self,
    (error): error is ResumeError =>
      error instanceof ResumeError &&
      error.changed.every(({ field }) => fields.some((meant) => field === meant || field.startsWith(`${meant}.`))),
    ({ checkpoint }) => Effect.succeedSome(checkpoint)
  )

/** Returns the fields that differ, ordered by name. Objects are compared field by field. Other values are compared as a whole. */
const drift = (before: JsonObject, after: JsonObject, above = ""): ReadonlyArray<typeof Drift.Type> =>
  Array.from(new Set([...Object.keys(before), ...Object.keys(after)])).sort().flatMap((key) => {
    const field = above + key.replace(/[\\.]/g, "\\$&")
    const [was, is] = [ownValue(before, key), ownValue(after, key)]
    if (isObject(was) && isObject(is)) return drift(was, is, `${field}.`)
    return canonicalJson([was]) === canonicalJson([is]) && (was === undefined) === (is === undefined)
      ? []
      : [{ field, before: was, after: is }]
  })

const hashed = (spec: JsonObject) => hashedForm(spec) as JsonObject // the hashed form of an object is an object

const ownValue = (json: JsonObject, key: string): Json | undefined => Object.hasOwn(json, key) ? json[key] : undefined

const isObject = (json: Json | undefined): json is JsonObject =>
  typeof json === "object" && json !== null && !Array.isArray(json)

const legal = (op: string, runId: string) =>
  Schema.decode(ScopeId)(runId).pipe(
    Effect.mapBoth({
      onFailure: (error) =>
        MemoryError.make("invalid_id", { op, message: Validation.lines(error, "runId").join("; ") }),
      onSuccess: (id) => id.normalize("NFC")
    })
  )

/**
 * Converts a spec to JSON. An instance of a `Schema.Class` becomes an object of its fields. Undefined fields and functions are left out.
 * Fails with `invalid_draft` for other values that JSON would lose, since two specs that differ in such a value would then count as equal.
 */
const plain = (op: string, spec: object): Effect.Effect<JsonObject, MemoryError.MemoryError> =>
  Effect.suspend(() => {
    const issues: Array<string> = []
    /** Collects the values that JSON would lose. Also looks at the original in `this`, since `value` is what `toJSON` returned. */
    function checked(this: Readonly<Record<string, unknown>>, key: string, value: unknown): unknown {
      const lost = isLost(value) ? value : isInvalidDate(this[key]) ? this[key] : undefined
      if (lost !== undefined) issues.push(`spec: ${key.slice(0, 64)}: expected JSON, and no ${typeNameOf(lost)}`)
      return value
    }
    return Effect.try({
      try: () => Schema.decodeUnknownSync(JsonObject)(JSON.parse(JSON.stringify(spec, checked))),
      catch: (cause) => Validation.invalid(op, ...Validation.linesOf(cause, "spec: expected JSON", "spec"))
    }).pipe(Effect.tap(() => Validation.refuseOptions(op, issues)))
  })

/** Whether `JSON.stringify` would leave the value out, or lose a part of it. Plain objects, arrays and `Schema.Class` lose nothing. */
const isLost = (value: unknown): boolean =>
  (typeof value === "number" && !Number.isFinite(value)) || typeof value === "symbol" ||
  (typeof value === "object" && value !== null && !Array.isArray(value) && !isFields(value))

/** Whether the own fields of an object are all that it has: a plain object, of any realm, or an instance of a `Schema.Class`. */
const isFields = (value: object): boolean => {
  const prototype: object | null = Object.getPrototypeOf(value)
  return prototype === null || Object.getPrototypeOf(prototype) === null || Schema.isSchema(prototype.constructor)
}

const isInvalidDate = (value: unknown): boolean => value instanceof Date && Number.isNaN(value.getTime())

/** Returns the name of a value's type, such as `Map`. The name of a user's class is not quoted. */
const typeNameOf = (value: unknown): string => {
  const name = Object.prototype.toString.call(value).slice(8, -1)
  return name === "Object" ? "instance of a class" : name
}

const refuseNewer = (op: string, runId: string, text: string) =>
  Validation.refuseNewerJson(text, { op, what: `the checkpoint of ${JSON.stringify(runId)}` })

const parse = (runId: string, text: string): Effect.Effect<Checkpoint, MemoryError.MemoryError> =>
  Schema.decode(Schema.parseJson(Checkpoint))(text).pipe(
    Effect.filterOrFail((checkpoint) => checkpoint.runId === runId && checkpoint.hash === hashSpec(checkpoint.spec)),
    Effect.mapError((cause) =>
      MemoryError.make("corrupt", {
        op: "resume",
        message: "the checkpoint cannot be read",
        detail: { location: fileName(runId) },
        cause
      })
    )
  )

/**
 * Returns the file name of a run. An id that does not match `[a-z0-9_-]{1,64}` is replaced by its hash. So file names of different ids
 * differ, even on case-insensitive disks.
 */
const fileName = (runId: string): string => `run-${/^[a-z0-9_-]{1,64}$/.test(runId) ? runId : `~${sha256(runId)}`}.json`

const io = (op: string) => (cause: PlatformError) =>
  MemoryError.make("io", { op, message: "the checkpoint's folder failed", cause })

const isTaken = (error: PlatformError) => error._tag === "SystemError" && error.reason === "AlreadyExists"

const isMissing = (error: PlatformError) => error._tag === "SystemError" && error.reason === "NotFound"
