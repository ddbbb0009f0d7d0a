/**
 * `MemoryError` is the error type of this library's services. Exceptions: `ResumeError` of `Resume`, `Failure` of `MemoryTool`, and the
 * errors of adapters such as MCP. The field `op` has the name of the failed operation. The field `reason` says why the operation failed.
 * Catch the tag `MemoryError` to handle every reason, or use `catchReason` to handle one reason. The property `cause` is for logs and is
 * never encoded.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { MemoryId } from "./MemoryId.ts"

/**
 * Schema of the reasons why an operation fails.
 *
 * ```text
 * not_found      there is no such record, thread or store, or the viewer does not see it: the error does not say which
 * invalid_scope  a scope that is malformed, or that the viewer may not write
 * path_escape    a path that leads out of its folder
 * invalid_id     an id or name that is malformed, in use, or not allowed here
 * invalid_draft  a value that breaks a rule; the detail lists every violation
 * io             the disk, the database or the network failed
 * not_owned      the viewer may not do this, for example change a record that it sees
 * read_only      the store, the scope or the memory of this run does not accept this write
 * conflict       the record does not have the revision that the caller expected
 * corrupt        stored data cannot be read; the detail says where
 * rate_limited   too many writes; the detail says when to retry
 * model          the language model or the embedder failed, or its answer cannot be used
 * unavailable    a store, a plugin or a model does not work
 * unsupported    the operation is not possible here or in this state, a plugin refused it, or a newer release wrote the data
 * ```
 */
export const Reason = Schema.Literal(
  "not_found",
  "invalid_scope",
  "path_escape",
  "invalid_id",
  "invalid_draft",
  "io",
  "not_owned",
  "read_only",
  "conflict",
  "corrupt",
  "rate_limited",
  "model",
  "unavailable",
  "unsupported"
)
/** A reason why an operation fails. */
export type Reason = typeof Reason.Type

/** The type of `detail` for each reason. A reason that is not listed has no detail. */
export interface Details {
  /** `expected` is the revision that the caller expected. `actual` is the record's revision, or 0 if there is no record. */
  readonly conflict: { readonly expected: number; readonly actual: number }
  /** Milliseconds until a retry may succeed; null if no retry can succeed before the agent's next turn. */
  readonly rate_limited: { readonly retryAfter: number | null }
  /** Location of the corrupt data, such as a path relative to the store's folder, a table and key, or a record's id. */
  readonly corrupt: { readonly location: string }
  /** All violations that were found, not only the first one. */
  readonly invalid_draft: { readonly issues: readonly [string, ...Array<string>] }
}
/** The detail of an error with the reason `R`; `undefined` if the reason has none. */
export type DetailOf<R extends Reason> = R extends keyof Details ? Details[R] : undefined

/** Schemas of the details, by reason. */
export const details = {
  conflict: Schema.Struct({ expected: Schema.Int, actual: Schema.Int }),
  rate_limited: Schema.Struct({ retryAfter: Schema.NullOr(Schema.NonNegativeInt) }),
  corrupt: Schema.Struct({ location: Schema.String }),
  invalid_draft: Schema.Struct({ issues: Schema.NonEmptyArray(Schema.String) })
} satisfies { readonly [R in keyof Details]: Schema.Schema.All & { readonly Type: Details[R] } }

/**
 * The error of an operation. The message may be shown to people. The message about an invalid record, filter or query names the field, and
 * does not quote the value.
 */
export class MemoryError extends Schema.TaggedError<MemoryError>("@memory/MemoryError")("MemoryError", {
  op: Schema.String,
  reason: Reason,
  message: Schema.String,
  id: Schema.optional(MemoryId),
  detail: Schema.optional(Schema.Union(details.conflict, details.rate_limited, details.corrupt, details.invalid_draft))
}) {
  /** Whether a retry may succeed. If the call failed with `conflict` and had an `ifRevision`, the retry needs the current revision. */
  get isRetryable(): boolean {
    return this.reason === "io" || this.reason === "unavailable" || this.reason === "rate_limited" ||
      this.reason === "conflict" || this.reason === "model"
  }
}

/** A `MemoryError` whose reason is `R`, with the detail of that reason. */
export interface For<R extends Reason> extends MemoryError {
  readonly reason: R
  readonly detail: DetailOf<R>
}

/** The input of `make`. The field `detail` is required if the reason has a detail. */
export type ErrorFields<R extends Reason> =
  & { readonly op: string; readonly message: string; readonly id?: MemoryId | undefined; readonly cause?: unknown }
  & (R extends keyof Details ? { readonly detail: DetailOf<R> } : unknown)

/** Makes an error. Its property `cause` is not enumerable, so that encoders leave out the cause. */
export const make = <const R extends Reason>(reason: R, fields: ErrorFields<NoInfer<R>>): For<R> => {
  const { cause, ...rest } = fields
  const error = new MemoryError({ ...rest, reason })
  if (cause !== undefined) Object.defineProperty(error, "cause", { value: cause, enumerable: false })
  return error as For<R> // `ErrorFields<R>` required the detail that `R` has
}

/** Recovers from failures that have the reason `reason`. All other failures pass through. */
export const catchReason = <R extends Reason, A2, E2, R2>(
  reason: R,
  f: (error: For<R>) => Effect.Effect<A2, E2, R2>
) =>
<A, E, R1>(self: Effect.Effect<A, E, R1>): Effect.Effect<A | A2, E | E2, R1 | R2> =>
  Effect.catchAll(self, (error): Effect.Effect<A2, E | E2, R2> => isFor(reason, error) ? f(error) : Effect.fail(error))

/**
 * Largest number of retries of `retryOnConflict`. A record is assumed to have fewer than 1,000 writers at a time. Each writer can cause one
 * conflict.
 */
const attempts = 1_000

/**
 * Retries an effect after a `conflict`, at most 1,000 times. Then the effect fails with the last `conflict`. The event loop runs between
 * attempts. The effect must read the records again in each attempt, since another writer may have changed them.
 *
 * @internal
 */
export const retryOnConflict = <A, E extends { readonly reason: Reason }, R>(
  self: Effect.Effect<A, E, R>
): Effect.Effect<A, E, R> =>
  self.pipe(
    Effect.tapError(({ reason }) => reason === "conflict" ? Effect.sleep(0) : Effect.void),
    Effect.retry({ times: attempts, while: ({ reason }) => reason === "conflict" })
  )

/**
 * Turns a defect into a failure with the defect as `cause`. Also turns an interruption that the effect itself causes into a failure. So
 * callers can handle a crash of a store or model like its failures. An interruption of the fiber from outside stays an interruption.
 */
export const contain =
  (op: string, reason: "model" | "unavailable" = "unavailable") =>
  <A, R>(self: Effect.Effect<A, MemoryError, R>): Effect.Effect<A, MemoryError, R> =>
    Effect.uninterruptibleMask((restore) =>
      Effect.flatMap(Effect.exit(restore(self)), (exit) => {
        if (Exit.isSuccess(exit) || Option.isSome(Cause.failureOption(exit.cause))) return exit
        // a fiber that was interrupted from outside ends when this region ends, whatever the result here is
        return Cause.isInterruptedOnly(exit.cause)
          ? make(reason, { op, message: "it was interrupted" })
          : make(reason, { op, message: "it died", cause: Cause.squash(exit.cause) })
      })
    )

const isFor = <R extends Reason>(reason: R, error: unknown): error is For<R> =>
  error instanceof MemoryError && error.reason === reason
