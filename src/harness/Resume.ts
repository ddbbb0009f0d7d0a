/** A run goes on only under the spec it began with, unless somebody says which change is meant. */
import type { FileSystem, Path } from "@effect/platform"
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import type * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { MemoryError } from "../domain/MemoryError.ts"
import { ScopeId } from "../domain/MemoryScope.ts"
import { JsonObject } from "../domain/Payload.ts"

export const Checkpoint = Schema.Struct({
  runId: ScopeId,
  /** Defaults applied, as it was hashed. */
  spec: JsonObject,
  hash: Schema.String,
  /** From 0. */
  turn: Schema.NonNegativeInt,
  /** Messages up to here have been extracted. */
  cursor: Schema.NonNegativeInt
})
export interface Checkpoint extends Schema.Schema.Type<typeof Checkpoint> {}

export const Drift = Schema.Struct({ field: Schema.String, before: Schema.Unknown, after: Schema.Unknown })

export class ResumeError extends Schema.TaggedError<ResumeError>("@memory/ResumeError")("ResumeError", {
  checkpoint: Checkpoint,
  hash: Schema.String,
  /** By dotted field, `memory.writesPerTurn`. */
  changed: Schema.NonEmptyArray(Drift)
}) {
  override get message(): string {
    return this.changed.map(({ after, before, field }) =>
      `${field} ${JSON.stringify(before)} → ${JSON.stringify(after)}`
    ).join(", ")
  }
}

export interface Service {
  /** `None` for a run never saved; `ResumeError` where the spec is another. */
  readonly resume: (runId: string, spec: object) => Effect.Effect<Option.Option<Checkpoint>, ResumeError | MemoryError>
  /** Atomic: after a crash it is this one or the one before. */
  readonly save: (
    runId: string,
    spec: object,
    at: Pick<Checkpoint, "turn" | "cursor">
  ) => Effect.Effect<Checkpoint, MemoryError>
}

export class Resume extends Context.Tag("@memory/Resume")<Resume, Service>() {}

export declare const layer: (options: { readonly directory: string }) => Layer.Layer<
  Resume,
  MemoryError,
  FileSystem.FileSystem | Path.Path
>
export declare const layerInMemory: Layer.Layer<Resume>

/** Goes on where nothing but these fields has changed. */
export declare const accept: (fields: ReadonlyArray<string>) => <E, R>(
  self: Effect.Effect<Option.Option<Checkpoint>, E | ResumeError, R>
) => Effect.Effect<Option.Option<Checkpoint>, E | ResumeError, R>
