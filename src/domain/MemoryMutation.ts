/** A change, as data: what a store applies as one batch, a pipeline proposes, and a receipt undoes. */
import * as Schema from "effect/Schema"
import { MemoryId } from "./MemoryId.ts"
import { Draft, MemoryRecord, Patch } from "./MemoryRecord.ts"

/** Refused with `conflict` unless the record stands at this revision; 0: unless there is none. */
const ifRevision = Schema.optional(Schema.NonNegativeInt)

export const Put = Schema.TaggedStruct("Put", { draft: Draft, ifRevision })
export const Update = Schema.TaggedStruct("Update", { id: MemoryId, patch: Patch, ifRevision })
/** A tombstone; with `purge` nothing is left. */
export const Forget = Schema.TaggedStruct("Forget", {
  id: MemoryId,
  purge: Schema.optional(Schema.Boolean),
  ifRevision
})
/** The content becomes that of an earlier revision, as a new one; 0 = forgotten. How `undo` is written. */
export const Restore = Schema.TaggedStruct("Restore", { id: MemoryId, revision: Schema.NonNegativeInt, ifRevision })

export const MemoryMutation = Schema.Union(Put, Update, Forget, Restore)
export type MemoryMutation = typeof MemoryMutation.Type

export const Outcome = Schema.Literal("created", "updated", "duplicate", "forgotten", "absent")

/** What became of one mutation. */
export const Applied = Schema.Struct({
  id: MemoryId,
  outcome: Outcome,
  /** The revision before, 0 = there was none. */
  before: Schema.NonNegativeInt,
  record: Schema.optional(MemoryRecord)
})
export interface Applied extends Schema.Schema.Type<typeof Applied> {}
