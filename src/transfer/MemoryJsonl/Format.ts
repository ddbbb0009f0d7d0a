/** Schemas of the lines of a `MemoryJsonl` file, and the counts that reading and writing report. */
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
/** The version that is written, and the newest version that can be read. */
export const version = 1

/** Schema of the first line. */
export const Head = Schema.Struct({ format: Schema.Literal(format), version: Schema.Int })

/** Schema of a line with a record and its earlier revisions. */
export const RecordLine = Schema.Struct({
  tenant: Viewer.Tenant,
  /** The revisions that the store keeps, oldest first. */
  revisions: Schema.NonEmptyArray(MemoryRecord),
  /** Numbers of the revisions that are tombstones. */
  forgotten: Schema.optional(Schema.Array(Revision)),
  uses: Schema.optional(Schema.Struct({ count: Schema.NonNegativeInt, accessedAt: Schema.optional(Millis) })),
  /** Vectors by model, and then by the hash of the text. Each vector is base64 of little-endian 32-bit floats. */
  vectors: Schema.optional(
    Schema.Record({
      key: Schema.String,
      value: Schema.Record({ key: Schema.String, value: Schema.Uint8ArrayFromBase64 })
    })
  )
})

/** Schema of a line with some messages of a thread. */
export const ThreadLine = Schema.Struct({
  tenant: Viewer.Tenant,
  owner: MemoryScope,
  name: ScopeId,
  /** Sequence number, within the thread, of the first message in `messages`. */
  from: Schema.NonNegativeInt,
  messages: Schema.NonEmptyArray(ThreadRows.Stored)
})

/** Schema of the last line, which has the numbers of record lines and of messages in a complete file. */
const EndLine = Schema.Struct({ records: Schema.NonNegativeInt, messages: Schema.NonNegativeInt })

/** Schema of every line but the first. */
export const AnyLine = Schema.Union(
  Schema.Struct({ record: RecordLine }),
  Schema.Struct({ thread: ThreadLine }),
  Schema.Struct({ end: EndLine })
)

/** Numbers of the items that were written to a file, or read from one. */
export interface Counts {
  /** Number of records, including tombstones (forgotten records) and the library's own rows, but not the rows of threads. */
  readonly records: number
  readonly tombstones: number
  /** Number of revisions, including the current one of each record. */
  readonly revisions: number
  readonly vectors: number
  readonly threads: number
  readonly messages: number
}
/** `Counts` that can be changed. */
export type Tally = { -readonly [Key in keyof Counts]: number }
/** Counts that are all 0. */
export const none: Counts = { records: 0, tombstones: 0, revisions: 0, vectors: 0, threads: 0, messages: 0 }

/** Adds a record and its revisions to the counts. */
export const count = (tally: Tally, lineage: Lineage): void => {
  tally.records++
  tally.revisions += lineage.length
  if (newestOf(lineage).forgotten) tally.tombstones++
}

/** Returns the viewer whose threads have this owner. */
export const viewerOf = (tenant: string, owner: MemoryScope): Effect.Effect<Viewer.Viewer, MemoryError.MemoryError> =>
  Viewer.decode(owner === "global" ? { tenant } : { ...owner, tenant })
