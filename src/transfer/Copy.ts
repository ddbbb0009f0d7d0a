/**
 * Copies one store into another. The library's rows of threads and outboxes have ids that are derived from the store's secret. In the
 * target, thread rows and outbox session rows get ids derived from the target's secret. Other outbox rows keep their ids.
 */
import type * as Effect from "effect/Effect"
import type * as MemoryError from "../domain/MemoryError.ts"
import * as OutboxState from "../harness/Outbox/OutboxState.ts"
import * as ThreadRows from "../harness/Threads/ThreadRows.ts"
import * as StoreCopy from "../storage/Copy.ts"
import type { Service } from "../storage/MemoryStore.ts"

export type { Counts, Options, Progress, Report } from "../storage/Copy.ts"

/**
 * Copies everything in `from` to `to`. In the result, `written` is 0 if the target already had everything.
 *
 * A copy is a tool for the operator of both stores: it checks no viewer, and skips validation and policies when it writes. Memory use is
 * bounded by the size of a batch. Listeners to the target's changes are notified of each revision. The caller provides the analyzer and the
 * kinds, which determine index terms and dedupe keys. If both stores count the uses of a record, the higher count and the later time of use
 * are kept.
 *
 * A later copy erases nothing in the target. A record that was purged from the source stays. A record that the target's compaction erased
 * is copied again. A thread that was renamed or deleted in the source stays under its earlier name, but is not listed. A renamed thread has
 * the same messages under both names: deleting the earlier name in the target erases the messages of both. To erase the messages of a
 * deleted thread, delete the thread of that name in the target. A later copy then fails with `conflict`, since the target's list of threads
 * has changed. Outbox messages that were extracted in the source still wait for extraction in the target.
 *
 * - Fails with `unsupported` if a store has no rows of its own (a federation), or if the target is read-only. Also fails with `unsupported`
 *   if the target redacts what is written, unless `unredacted` is set.
 * - Fails with `invalid_draft` if an option is invalid, or if the target's vectors of a model have another length.
 * - Fails with `conflict` if a revision differs between the stores, or if the source lacks the target's newest revision of a record. Also
 *   fails if both stores have threads of the same owner, and the target has one that the source never had. The same rule holds for the
 *   outbox messages of a conversation. Conflicts are looked for before anything is written, and again at each write.
 */
export const copy = (
  from: Service,
  to: Service,
  options: StoreCopy.Options = {}
): Effect.Effect<StoreCopy.Report, MemoryError.MemoryError> =>
  StoreCopy.copy(from, to, options, [ThreadRows.readName, OutboxState.readName])
