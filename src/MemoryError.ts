/**
 * The one error of this library: `op` names the operation, `reason` the cause of failure. Catch the tag for any failure, or use
 * `catchReason` for one reason. A `cause` is for logs and never encoded.
 *
 * ```ts
 * import { Effect } from "effect"
 * import { MemoryError } from "effect-memory"
 *
 * const failing = MemoryError.make("conflict", { op: "update", message: "it moved on", detail: { expected: 1, actual: 2 } })
 * const revision = await failing.pipe(
 *   MemoryError.catchReason("conflict", ({ detail }) => Effect.succeed(detail.actual)),
 *   Effect.runPromise
 * )
 *
 * revision // => 2
 * ```
 */
export { catchReason, make, MemoryError, Reason, retryOnConflict } from "./domain/MemoryError.ts"
export type { DetailOf, Details, ErrorFields, For } from "./domain/MemoryError.ts"
