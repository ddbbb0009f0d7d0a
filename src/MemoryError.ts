/**
 * `MemoryError` is the error type of the services of this library. The exceptions are `ResumeError` of `Resume`, `Failure` of `MemoryTool`,
 * and the errors of adapters for other libraries and protocols. The field `op` names the failed operation, and the field `reason` says why
 * it failed. Catch the tag `MemoryError` to handle all of these failures, or use `catchReason` to handle one reason. The field `cause` is
 * for logs, and is never encoded.
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
