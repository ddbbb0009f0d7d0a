/**
 * Copies one store into another. The ids of thread rows and outbox rows are derived from the secret of their store. The copies of these
 * rows therefore get new ids, which are derived from the secret of the target.
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
 * viewers in both stores, and validation and policies when it writes, so it is a tool for the operator of both stores. The caller provides
 * the analyzer and the kinds, from which index terms and dedupe keys are computed. If both stores have a use count of a record, the higher
 * count and the later time of use are kept.
 *
 * A record that is purged from the source after a copy stays in the target. A record that the target's compaction erased is copied again. A
 * thread that is renamed or deleted in the source after a copy stays in the target under its earlier name. It is not listed there. To erase
 * its messages, delete the thread of the earlier name in the target. Outbox messages that are extracted in the source after a copy still
 * wait for extraction in the target.
 *
 * Fails with `unsupported` if a store has no rows of its own (a federation), or if the target is read-only. Also fails with `unsupported`
 * if the target redacts what is written, unless `unredacted` is set. Fails with `invalid_draft` if an option is invalid, or if the target's
 * vectors of a model have a different number of dimensions. Fails with `conflict` if a revision of a record differs between the stores, or
 * if the source lacks the target's newest revision. Also fails with `conflict` if both stores have threads of an owner, but the source
 * lacks one of the target's threads (under any name). The same holds for the outbox messages of a conversation. Conflicts are looked for
 * before anything is written, and again at each write.
 */
export const copy = (
  from: Service,
  to: Service,
  options: StoreCopy.Options = {}
): Effect.Effect<StoreCopy.Report, MemoryError.MemoryError> =>
  StoreCopy.copy(from, to, options, [ThreadRows.readName, OutboxState.readName])
