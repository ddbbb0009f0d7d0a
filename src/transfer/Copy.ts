/**
 * Copies one store into another. The ids of the rows of threads and outboxes depend on a secret of the store, so the copies of these rows
 * get the ids that the target derives from its own secret.
 */
import type * as Effect from "effect/Effect"
import type * as MemoryError from "../domain/MemoryError.ts"
import * as OutboxState from "../harness/Outbox/OutboxState.ts"
import * as ThreadRows from "../harness/Threads/ThreadRows.ts"
import * as StoreCopy from "../storage/Copy.ts"
import type { Service } from "../storage/MemoryStore.ts"

export type { Counts, Options, Progress, Report } from "../storage/Copy.ts"

/**
 * Copies everything in `from` to `to`. In the result, `written` is 0 if the target already has everything.
 *
 * Memory use is bounded by the size of a batch. Listeners to the target's changes are notified of each revision. A copy skips the checks of
 * viewers in both stores, and validation and policies when it writes, so it is a tool for the operator of both stores. Texts are indexed
 * with the analyzer, and deduplicated by the kinds, that the caller provides. If both stores have a use count of a record, the higher
 * count and the later time of use are kept.
 *
 * A record that is purged from the source after it was copied stays in the target; a record that the target's compaction erased is copied
 * again. A thread that is renamed or deleted in the source after it was copied stays in the target under its earlier name, unlisted, until
 * it is deleted in the target, too. To erase the messages of a renamed thread in the target, delete there the thread of the earlier
 * name. Messages of an outbox that are extracted in the source after they were copied still wait for extraction in the target.
 *
 * Fails with `unsupported` if a store has no rows of its own (a federation), or if the target is read-only. Also fails with `unsupported`
 * if the target redacts what is written, unless `unredacted` is set. Fails with `invalid_draft` if an option is invalid, or if the target's
 * vectors of a model have a different number of dimensions. Fails with `conflict` if the target has other revisions of a record than the
 * source. Also fails with `conflict` if both stores have threads of an owner, but the source lacks one of the target's threads (under any
 * name). The same holds for the outbox messages of a conversation. Conflicts are looked for before anything is written, and again at each
 * write.
 */
export const copy = (
  from: Service,
  to: Service,
  options: StoreCopy.Options = {}
): Effect.Effect<StoreCopy.Report, MemoryError.MemoryError> =>
  StoreCopy.copy(from, to, options, [ThreadRows.readName, OutboxState.readName])
