/** The lines of a file of `MemoryJsonl`, as schemas, and the counts of both directions. */
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type * as MemoryError from "../../domain/MemoryError.ts"
import { MemoryRecord, Millis, Revision } from "../../domain/MemoryRecord.ts"
import { MemoryScope, ScopeId } from "../../domain/MemoryScope.ts"
import * as Viewer from "../../domain/Viewer.ts"
import * as ThreadRows from "../../harness/Threads/ThreadRows.ts"
import { type Lineage, newestOf } from "../../storage/Copy/Lineage.ts"

/** Name of the format in the first line of a file. */
export const format = "effect-memory"
/** The version that is written, and the newest that is read. */
export const version = 1

/** Schema of the first line. */
export const Head = Schema.Struct({ format: Schema.Literal(format), version: Schema.Int })

/** Schema of a record with its past. */
export const RecordLine = Schema.Struct({
  tenant: Viewer.Tenant,
  /** The kept revisions, oldest first. */
  revisions: Schema.NonEmptyArray(MemoryRecord),
  /** Numbers of the revisions that are tombstones. */
  forgotten: Schema.optional(Schema.Array(Revision)),
  uses: Schema.optional(Schema.Struct({ count: Schema.NonNegativeInt, accessedAt: Schema.optional(Millis) })),
  /** Vectors by model and by the hash of the text: little-endian floats of 32 bits, in base 64. */
  vectors: Schema.optional(
    Schema.Record({
      key: Schema.String,
      value: Schema.Record({ key: Schema.String, value: Schema.Uint8ArrayFromBase64 })
    })
  )
})

/** Schema of some messages of a thread. */
export const ThreadLine = Schema.Struct({
  tenant: Viewer.Tenant,
  owner: MemoryScope,
  name: ScopeId,
  /** Place of the first of these messages in the thread. */
  from: Schema.NonNegativeInt,
  messages: Schema.NonEmptyArray(ThreadRows.Stored)
})

/** Schema of the last line: how many lines of records and how many messages a whole file has. */
const EndLine = Schema.Struct({ records: Schema.NonNegativeInt, messages: Schema.NonNegativeInt })

/** Schema of every line but the first. */
export const AnyLine = Schema.Union(
  Schema.Struct({ record: RecordLine }),
  Schema.Struct({ thread: ThreadLine }),
  Schema.Struct({ end: EndLine })
)

/** Counts of what was written to a file, or read from one. */
export interface Counts {
  /** Records, tombstones among them, and rows of the library itself. */
  readonly records: number
  readonly tombstones: number
  /** Revisions, the current one of each record among them. */
  readonly revisions: number
  readonly vectors: number
  readonly threads: number
  readonly messages: number
}
/** Counts that are added to. */
export type Tally = { -readonly [Key in keyof Counts]: number }
/** Counts of nothing. */
export const none: Counts = { records: 0, tombstones: 0, revisions: 0, vectors: 0, threads: 0, messages: 0 }

/** Counts a record with its revisions. */
export const count = (tally: Tally, lineage: Lineage): void => {
  tally.records++
  tally.revisions += lineage.length
  if (newestOf(lineage).forgotten) tally.tombstones++
}

/** Returns the viewer whose threads belong to a scope. */
export const viewerOf = (tenant: string, owner: MemoryScope): Effect.Effect<Viewer.Viewer, MemoryError.MemoryError> =>
  Viewer.decode(owner === "global" ? { tenant } : { ...owner, tenant })
