/**
 * A mutation describes one change of a store as data: a pipeline proposes mutations, a store applies them in a batch, and the receipt of a
 * batch contains mutations that undo the batch. `StoreChange` is an event that a store publishes after a change.
 */
import * as Schema from "effect/Schema"
import { MemoryError } from "./MemoryError.ts"
import { MemoryId } from "./MemoryId.ts"
import { Draft, isExpired, MemoryRecord, type Origin, Patch, type Trust } from "./MemoryRecord.ts"

/**
 * Revision that the record must have, or 0 if the record must not exist. If the revision is another, the mutation fails with `conflict`.
 */
const ifRevision = Schema.optional(Schema.NonNegativeInt)

/** Schema of a mutation that creates a record, or replaces the record that has the draft's id. */
export const Put = Schema.TaggedStruct("Put", { draft: Draft, ifRevision })
/** Schema of a mutation that patches a record. */
export const Update = Schema.TaggedStruct("Update", { id: MemoryId, patch: Patch, ifRevision })
/**
 * Schema of a mutation that forgets a record. It leaves a tombstone, a row with the forgotten content, from which `Restore` can bring the
 * record back until compaction erases the tombstone. With `purge`, it erases the record and any tombstone of it at once.
 */
export const Forget = Schema.TaggedStruct("Forget", {
  id: MemoryId,
  purge: Schema.optional(Schema.Boolean),
  ifRevision
})
/**
 * Schema of a mutation that writes the content of an earlier revision as a new revision; with revision 0, it forgets the record. A
 * tombstone (the row that remains of a forgotten record) counts as a revision and has the forgotten content. The mutations that undo a
 * batch are of this type.
 */
export const Restore = Schema.TaggedStruct("Restore", { id: MemoryId, revision: Schema.NonNegativeInt, ifRevision })

/** Schema of a mutation. */
export const MemoryMutation = Schema.Union(Put, Update, Forget, Restore)
/** A mutation, one change of a store as data. */
export type MemoryMutation = typeof MemoryMutation.Type

/** Origin and trust level of the records of a batch. The calling code sets them; a draft, a tool or a file cannot. */
export interface Provenance {
  /** Origin of the records. Default `user`. */
  readonly origin?: Origin | undefined
  /** Trust level of the records. Default 1. */
  readonly trust?: Trust | undefined
}

/** Schema of the outcome of a mutation. */
export const Outcome = Schema.Literal("created", "updated", "duplicate", "forgotten", "absent")

/** Schema of the result of one mutation. */
export const Applied = Schema.Struct({
  id: MemoryId,
  outcome: Outcome,
  /** Revision before the mutation; 0 if there was no record. */
  before: Schema.NonNegativeInt,
  record: Schema.optional(MemoryRecord)
})
/** The result of one mutation, as its schema decodes it. */
export interface Applied extends Schema.Schema.Type<typeof Applied> {}

/**
 * Returns the mutations that undo a batch: one `Restore` per changed record, which fails with `conflict` if the record was changed after
 * the batch. Returns none for a record that the batch created and that has expired at `now`, epoch ms.
 */
export const inverse = (applied: ReadonlyArray<Applied>, now: number): ReadonlyArray<MemoryMutation> => {
  const ends = new Map<string, { readonly first: Applied; readonly revision: number; readonly gone: boolean }>()
  for (const one of applied) {
    if (one.outcome === "duplicate" || one.outcome === "absent") continue
    const { record } = one
    const revision = record ? record.revision : one.before + 1 // a tombstone is a revision too
    const gone = one.outcome === "created" && record !== undefined && isExpired(record, now)
    ends.set(one.id, { first: ends.get(one.id)?.first ?? one, revision, gone })
  }
  return Array.from(ends.values()).flatMap(({ first: { before, id }, gone, revision }): ReadonlyArray<
    MemoryMutation
  > => gone ? [] : [{ _tag: "Restore", id, revision: before, ifRevision: revision }])
}

/** Writer of a change: `here` is this store; `there` is another process, or a person with an editor. */
const by = Schema.Literal("here", "there")

/** Schema of the event that a record was written. */
export const Written = Schema.TaggedStruct("Written", { record: MemoryRecord, by })
/** Schema of the event that a record was forgotten. */
export const Forgotten = Schema.TaggedStruct("Forgotten", { id: MemoryId, by })
/**
 * Schema of an event: stored data could not be read, and was left unchanged. `error` has the reason `corrupt`. Only the viewer `System`
 * receives the event.
 */
export const Issue = Schema.TaggedStruct("Issue", { error: MemoryError })

/** Schema of an event that a store publishes: a record was written or forgotten, by this store or elsewhere, or stored data is corrupt. */
export const StoreChange = Schema.Union(Written, Forgotten, Issue)
/** An event that a store publishes after a change. */
export type StoreChange = typeof StoreChange.Type
