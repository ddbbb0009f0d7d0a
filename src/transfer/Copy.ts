/** Copies one store into another, as `Copy.copy` of the strata below does, so that threads and conversations of an outbox are found in it. */
import type * as Effect from "effect/Effect"
import type * as MemoryError from "../domain/MemoryError.ts"
import * as OutboxState from "../harness/Outbox/OutboxState.ts"
import * as ThreadRows from "../harness/Threads/ThreadRows.ts"
import * as StoreCopy from "../storage/Copy.ts"
import type { Service } from "../storage/MemoryStore.ts"

export type { Counts, Options, Progress, Report } from "../storage/Copy.ts"

/**
 * Copies all that `from` holds into `to`. `written` is 0 where the target has it already.
 *
 * Memory is bounded by the batch. Listeners to changes of the target are told of each revision. A copy reads past viewers, and
 * writes past viewers, validation and policies: it is for the operator of both stores. Texts are indexed by the analyzer in force,
 * and deduplicated by the kinds in force. The higher count of uses and the later time stay. A record that was purged from the
 * source after an earlier copy stays in the target; what the target's compaction erases, a later copy brings again.
 *
 * Fails with `unsupported` where a store has no rows of its own, as a federation, where the target takes no writes, or where it
 * redacts what is written and `unredacted` is not set. Fails with `conflict` where the target has another past of an id, or another
 * thread of the same owner and name, which is found before anything is written unless it comes about meanwhile. Fails with
 * `invalid_draft` where options are not legal, or a model's vectors have other dimensions in the target.
 */
export const copy = (
  from: Service,
  to: Service,
  options: StoreCopy.Options = {}
): Effect.Effect<StoreCopy.Report, MemoryError.MemoryError> =>
  StoreCopy.copy(from, to, options, [ThreadRows.readName, OutboxState.readName])
