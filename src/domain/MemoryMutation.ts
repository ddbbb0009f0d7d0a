/**
 * Mutations, which are changes as data: a store applies them in a batch, a pipeline proposes them, a receipt undoes them. The
 * module also has the changes that a store publishes.
 */
import * as Schema from "effect/Schema"
import { MemoryError } from "./MemoryError.ts"
import { MemoryId } from "./MemoryId.ts"
import { Draft, isExpired, MemoryRecord, type Origin, Patch, type Trust } from "./MemoryRecord.ts"

/** Revision that the record must have, else the mutation fails with `conflict`; 0: there must be no record. */
const ifRevision = Schema.optional(Schema.NonNegativeInt)

/** Schema of a mutation that creates a record, or replaces the one with the draft's id. */
export const Put = Schema.TaggedStruct("Put", { draft: Draft, ifRevision })
/** Schema of a mutation that patches a record. */
export const Update = Schema.TaggedStruct("Update", { id: MemoryId, patch: Patch, ifRevision })
/** Forgets a record and leaves a tombstone, which `Restore` takes back until compaction erases it. With `purge`, erases both. */
export const Forget = Schema.TaggedStruct("Forget", {
  id: MemoryId,
  purge: Schema.optional(Schema.Boolean),
  ifRevision
})
/**
 * Restores the content of an earlier revision as a new revision; 0 forgets the record. A tombstone counts as a revision and
 * holds what was forgotten. `undo` is made of these.
 */
export const Restore = Schema.TaggedStruct("Restore", { id: MemoryId, revision: Schema.NonNegativeInt, ifRevision })

/** Schema of a mutation. */
export const MemoryMutation = Schema.Union(Put, Update, Forget, Restore)
/** A mutation: one change as data. */
export type MemoryMutation = typeof MemoryMutation.Type

/** Origin and trust of a batch. The code that writes sets it once per batch; a draft, a tool or a file cannot. */
export interface Provenance {
  /** Origin of the records. Default `user`. */
  readonly origin?: Origin | undefined
  /** Trust of the records. Default 1. */
  readonly trust?: Trust | undefined
}

/** Schema of the outcome of a mutation. */
export const Outcome = Schema.Literal("created", "updated", "duplicate", "forgotten", "absent")

/** Schema of the result of one mutation. */
export const Applied = Schema.Struct({
  id: MemoryId,
  outcome: Outcome,
  /** Revision before the mutation; 0 = no record. */
  before: Schema.NonNegativeInt,
  record: Schema.optional(MemoryRecord)
})
/** The result of one mutation, as its schema decodes it. */
export interface Applied extends Schema.Schema.Type<typeof Applied> {}

/**
 * Returns the mutations that undo a batch: one `Restore` per changed record, which fails with `conflict` if the record has
 * changed since. Skips a created record that has expired.
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

/** The writer: `here` is this store, `there` another process or an editor. */
const by = Schema.Literal("here", "there")

/** Schema of the change that a record was written. */
export const Written = Schema.TaggedStruct("Written", { record: MemoryRecord, by })
/** Schema of the change that a record was forgotten. */
export const Forgotten = Schema.TaggedStruct("Forgotten", { id: MemoryId, by })
/** Schema of a place that could not be read, and is left as it is. The error is `corrupt`, with the location. Only `System` sees it. */
export const Issue = Schema.TaggedStruct("Issue", { error: MemoryError })

/** Schema of a change that a store publishes: its own write, an edit from outside, or a place that it could not read. */
export const StoreChange = Schema.Union(Written, Forgotten, Issue)
/** A change that a store publishes. */
export type StoreChange = typeof StoreChange.Type
