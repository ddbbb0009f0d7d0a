/**
 * The one error of this library: `op` says where, `reason` why. Catch the tag for
 * any failure, `catchReason` for one of them. A `cause` is for logs, never encoded.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { MemoryId } from "./MemoryId.ts"

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
export type Reason = typeof Reason.Type

/** What a reason has to tell beyond its name. The reasons that are not here have nothing. */
export const details = {
  /** Revisions; `actual` 0 = gone. */
  conflict: Schema.Struct({ expected: Schema.Int, actual: Schema.Int }),
  /** Milliseconds; null = until the next turn. */
  rate_limited: Schema.Struct({ retryAfter: Schema.NullOr(Schema.NonNegativeInt) }),
  /** A path within the store, or a table and key; never absolute. */
  corrupt: Schema.Struct({ location: Schema.String }),
  /** Every violation, not the first. */
  invalid_draft: Schema.Struct({ issues: Schema.NonEmptyArray(Schema.String) })
}
export type DetailOf<R extends Reason> = R extends keyof typeof details ? (typeof details)[R]["Type"] : undefined

export class MemoryError extends Schema.TaggedError<MemoryError>("@memory/MemoryError")("MemoryError", {
  op: Schema.String,
  reason: Reason,
  message: Schema.String,
  id: Schema.optional(MemoryId),
  detail: Schema.optional(Schema.Union(details.conflict, details.rate_limited, details.corrupt, details.invalid_draft))
}) {
  /** Whether the same call, made again, may succeed. */
  get isRetryable(): boolean {
    return this.reason === "io" || this.reason === "unavailable" || this.reason === "rate_limited" ||
      this.reason === "conflict" || this.reason === "model"
  }
}

/** A `MemoryError` known to have failed for `R`: its detail is typed, and there. */
export interface For<R extends Reason> extends MemoryError {
  readonly reason: R
  readonly detail: DetailOf<R>
}

type Fields<R extends Reason> =
  & { readonly op: string; readonly message: string; readonly id?: MemoryId | undefined; readonly cause?: unknown }
  & (R extends keyof typeof details ? { readonly detail: DetailOf<R> } : unknown)

/** The `cause` is there for logs, and not enumerable: nothing that encodes or prints the error shows it. */
export const make = <const R extends Reason>(reason: R, fields: Fields<NoInfer<R>>): For<R> => {
  const { cause, ...rest } = fields
  const error = new MemoryError({ ...rest, reason })
  if (cause !== undefined) Object.defineProperty(error, "cause", { value: cause, enumerable: false })
  return error as For<R> // `Fields<R>` demanded the detail that `R` has
}

/** Recovers from one reason and lets every other failure pass. */
export const catchReason = <R extends Reason, A2, E2, R2>(
  reason: R,
  f: (error: For<R>) => Effect.Effect<A2, E2, R2>
) =>
<A, E, R1>(self: Effect.Effect<A, E, R1>): Effect.Effect<A | A2, E | E2, R1 | R2> =>
  Effect.catchAll(self, (error): Effect.Effect<A2, E | E2, R2> => isFor(reason, error) ? f(error) : Effect.fail(error))

/** Most attempts after the first one: more than there are writers of a record at once. */
const attempts = 1_000

/**
 * Runs an effect again while it fails with `conflict`: it reads anew what somebody else changed. A turn of the event loop lies
 * between two attempts, and a conflict that lasts for 1,000 of them is what it fails with.
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

/** That it died is its own failure, and no end of what stands beside it: `unavailable`, the cause kept for logs. */
export const mortal =
  (op: string) => <A, R>(self: Effect.Effect<A, MemoryError, R>): Effect.Effect<A, MemoryError, R> =>
    Effect.catchAllDefect(self, (cause) => make("unavailable", { op, message: "it died", cause }))

const isFor = <R extends Reason>(reason: R, error: unknown): error is For<R> =>
  error instanceof MemoryError && error.reason === reason
