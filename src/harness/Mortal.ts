/** What stands beside others, or before a turn that must go on: that it died is its own failure, and no end of theirs. */
import * as Effect from "effect/Effect"
import * as MemoryError from "../domain/MemoryError.ts"

/** A defect is `unavailable`, its cause kept for logs. */
export const mortal =
  (op: string) => <A>(self: Effect.Effect<A, MemoryError.MemoryError>): Effect.Effect<A, MemoryError.MemoryError> =>
    Effect.catchAllDefect(self, (cause) => MemoryError.make("unavailable", { op, message: "it died", cause }))
