/**
 * A mutation: a change as data, which a store applies in a batch, a pipeline proposes, and a receipt undoes. And the changes
 * that a store tells of.
 */
import * as Schema from "effect/Schema"
import { MemoryError } from "./MemoryError.ts"
import { MemoryId } from "./MemoryId.ts"
import { Draft, isExpired, MemoryRecord, type Origin, Patch, type Trust } from "./MemoryRecord.ts"

/** Refused with `conflict` unless the record stands at this revision; 0: unless there is none. */
const ifRevision = Schema.optional(Schema.NonNegativeInt)

export const Put = Schema.TaggedStruct("Put", { draft: Draft, ifRevision })
export const Update = Schema.TaggedStruct("Update", { id: MemoryId, patch: Patch, ifRevision })
/** Leaves a tombstone, which `Restore` takes back until compaction erases it; with `purge` nothing is left, of a tombstone either. */
export const Forget = Schema.TaggedStruct("Forget", {
  id: MemoryId,
  purge: Schema.optional(Schema.Boolean),
  ifRevision
})
/**
 * The content becomes that of an earlier revision, as a new one; 0 = forgotten. A tombstone is a revision too: it has what
 * was forgotten. How `undo` is written.
 */
export const Restore = Schema.TaggedStruct("Restore", { id: MemoryId, revision: Schema.NonNegativeInt, ifRevision })

export const MemoryMutation = Schema.Union(Put, Update, Forget, Restore)
export type MemoryMutation = typeof MemoryMutation.Type

/** Where the words of a batch come from: said by the path that writes, once per batch; never by a draft, a tool or a file. */
export interface Provenance {
  /** Default `user`. */
  readonly origin?: Origin | undefined
  /** Default 1. */
  readonly trust?: Trust | undefined
}

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

/** What undoes a batch: each record as it was before it, unless it has moved on since. What has expired is gone. */
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

/** `there`: another process, or a hand in the editor. */
const by = Schema.Literal("here", "there")

export const Written = Schema.TaggedStruct("Written", { record: MemoryRecord, by })
export const Forgotten = Schema.TaggedStruct("Forgotten", { id: MemoryId, by })
/** Skipped and kept where it is; `corrupt`, with the location. Seen by `System` only. */
export const Issue = Schema.TaggedStruct("Issue", { error: MemoryError })

/** A change that a store tells of: a write of its own, an edit from outside, or a place that it could not read. */
export const StoreChange = Schema.Union(Written, Forgotten, Issue)
export type StoreChange = typeof StoreChange.Type
