/**
 * Copies one store into another. Rows of threads and outboxes, whose ids depend on a store's secret, get the ids that the target derives.
 */
import type * as Effect from "effect/Effect"
import type * as MemoryError from "../domain/MemoryError.ts"
import * as OutboxState from "../harness/Outbox/OutboxState.ts"
import * as ThreadRows from "../harness/Threads/ThreadRows.ts"
import * as StoreCopy from "../storage/Copy.ts"
import type { Service } from "../storage/MemoryStore.ts"

export type { Counts, Options, Progress, Report } from "../storage/Copy.ts"

/**
 * Copies everything in `from` to `to`. `written` is 0 if the target already has everything.
 *
 * Memory use is bounded by the batch. Listeners to the target's changes are notified of each revision. A copy skips the checks of viewers
 * in both stores, and validation and policies when it writes, so it is a tool for the operator of both stores. Texts are indexed with the
 * configured analyzer, and deduplicated by the configured kinds. Of two use counts the higher one is kept, of two times the later one. A
 * record purged from the source after an earlier copy stays in the target; a record erased by the target's compaction is copied again. So a
 * thread that was renamed or deleted in the source stays in the target under its earlier name, though it is not listed, until it is deleted
 * there, too; deleting the earlier name of a renamed thread erases its messages. Messages of an outbox that were extracted in the source
 * after an earlier copy still wait for extraction in the target.
 *
 * Fails with `unsupported` if a store has no rows of its own (a federation), if the target is read-only, or if it redacts what is written
 * and `unredacted` is not set. Fails with `conflict` if the target has other revisions of an id; so also if it has threads of an owner, of
 * whatever name, or messages of a conversation, that the source does not have. This is checked before anything is written, and again at
 * each write. Fails with `invalid_draft` if an option is invalid, or the target has vectors of a model with other dimensions.
 */
export const copy = (
  from: Service,
  to: Service,
  options: StoreCopy.Options = {}
): Effect.Effect<StoreCopy.Report, MemoryError.MemoryError> =>
  StoreCopy.copy(from, to, options, [ThreadRows.readName, OutboxState.readName])
