/**
 * A mutation describes one change of a store as data. A pipeline proposes mutations, and a store applies them in a batch. `inverse` returns
 * the mutations that undo a batch. A store publishes a `StoreChange` event after a change, and when stored data cannot be read.
 */
import * as Schema from "effect/Schema"
import { MemoryError } from "./MemoryError.ts"
import { MemoryId } from "./MemoryId.ts"
import { Draft, isExpired, MemoryRecord, type Origin, Patch, type Trust } from "./MemoryRecord.ts"

/**
 * Revision that the record must have; 0: no record. In a `Restore`, a tombstone counts as a record. If the revision differs, the write
 * fails with `conflict`. A `Put` may set it only if the draft has an id.
 */
const ifRevision = Schema.optional(Schema.NonNegativeInt)

/** Schema of a mutation that creates a record, or replaces the record that has the draft's id. */
export const Put = Schema.TaggedStruct("Put", { draft: Draft, ifRevision })
/** Schema of a mutation that patches a record. */
export const Update = Schema.TaggedStruct("Update", { id: MemoryId, patch: Patch, ifRevision })
/**
 * Schema of a mutation that forgets a record. A forgotten record leaves a tombstone, which is a row with the forgotten content. `Restore`
 * can bring the record back until compaction erases the tombstone. With `purge`, the record, its earlier revisions and its tombstones are
 * erased at once.
 */
export const Forget = Schema.TaggedStruct("Forget", {
  id: MemoryId,
  purge: Schema.optional(Schema.Boolean),
  ifRevision
})
/**
 * Schema of a mutation that writes the content of an earlier revision of a record as a new revision. Revision 0 forgets the record. A
 * forgotten record leaves a tombstone, a revision with the forgotten content. `inverse` returns mutations of this type to undo a batch.
 */
export const Restore = Schema.TaggedStruct("Restore", { id: MemoryId, revision: Schema.NonNegativeInt, ifRevision })

/** Schema of a mutation. */
export const MemoryMutation = Schema.Union(Put, Update, Forget, Restore)
/** A mutation, one change of a store as data. */
export type MemoryMutation = typeof MemoryMutation.Type

/** Origin and trust level of the records of a batch. The calling code sets them; a draft, a tool or a file cannot. */
export interface Provenance {
  /**
   * Origin of the records that a batch creates or replaces. Default `user`. An `Update` keeps the record's origin, and a `Restore` that of
   * the restored revision.
   */
  readonly origin?: Origin | undefined
  /**
   * Trust level of the records. Default 1. `Viewer.trustIn` may turn 0 or 1 into 2. An `Update` never lowers the number of a record, but a
   * `Put` or `Restore` may.
   */
  readonly trust?: Trust | undefined
}

/** Schema of the outcome of a mutation. */
export const Outcome = Schema.Literal("created", "updated", "duplicate", "forgotten", "absent")

/** Schema of the result of one mutation. */
export const Applied = Schema.Struct({
  id: MemoryId,
  outcome: Outcome,
  /** Revision of the record before the mutation; 0 if there was no record. */
  before: Schema.NonNegativeInt,
  record: Schema.optional(MemoryRecord)
})
/** The result of one mutation, as its schema decodes it. */
export interface Applied extends Schema.Schema.Type<typeof Applied> {}

/** Whether a mutation is a `Forget` that erases the record with its history. @internal */
export const isPurge = (mutation: MemoryMutation): mutation is Extract<MemoryMutation, { _tag: "Forget" }> =>
  mutation._tag === "Forget" && mutation.purge === true

/**
 * Returns the mutations that undo a batch: one `Restore` for each changed record. A `Restore` fails with `conflict` if its record was
 * changed after the batch. A record created by the batch gets no `Restore` if it has expired at `now` (epoch ms). A purge cannot be undone:
 * the `Restore` of a purged record fails with `not_found`.
 */
export const inverse = (applied: ReadonlyArray<Applied>, now: number): ReadonlyArray<MemoryMutation> => {
  const ends = new Map<string, { readonly first: Applied; readonly revision: number; readonly gone: boolean }>()
  for (const one of applied) {
    if (one.outcome === "duplicate" || one.outcome === "absent") continue
    const { record } = one
    const revision = record ? record.revision : one.before + 1 // a forgotten record leaves a tombstone with the next revision
    const first = ends.get(one.id)?.first ?? one
    const isCreated = first.outcome === "created" || one.outcome === "created"
    const gone = isCreated && record !== undefined && isExpired(record, now)
    ends.set(one.id, { first, revision, gone })
  }
  return Array.from(ends.values()).flatMap(({ first: { before, id }, gone, revision }): ReadonlyArray<
    MemoryMutation
  > => gone ? [] : [{ _tag: "Restore", id, revision: before, ifRevision: revision }])
}

/** Writer of a change: `here` is this store; `there` is another process, or a person with an editor. */
const by = Schema.Literal("here", "there")

/** Schema of the event that a record was written. */
export const Written = Schema.TaggedStruct("Written", { record: MemoryRecord, by })
/** Schema of the event that a record was forgotten, or moved to a scope that the viewer does not see. */
export const Forgotten = Schema.TaggedStruct("Forgotten", { id: MemoryId, by })
/**
 * Schema of the event that stored data could not be read. The data is left unchanged. The reason of `error` is `corrupt`. Only the viewer
 * `System` receives the event.
 */
export const Issue = Schema.TaggedStruct("Issue", { error: MemoryError })

/** Schema of an event of a store. A process has written or forgotten a record, or stored data could not be read. */
export const StoreChange = Schema.Union(Written, Forgotten, Issue)
/** An event of a store. A process has written or forgotten a record, or stored data could not be read. */
export type StoreChange = typeof StoreChange.Type
