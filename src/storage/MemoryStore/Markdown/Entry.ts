/** A file of the vault as it was last looked at: a record, or none. */
import type * as MemoryError from "../../../domain/MemoryError.ts"
import type { Stored } from "../../MemoryStore.ts"
import type { Stat } from "./Disk.ts"
import type { Extra } from "./Document.ts"
import type { Frame } from "./Frame.ts"

export interface Seen {
  readonly path: string
  readonly stat: Stat
  /** Read long enough after it was last changed that its `stat` tells the next change. */
  readonly settled: boolean
}
/** A file that is a record. */
export interface Entry extends Seen {
  readonly _tag: "Entry"
  /** Hash of the text; SHA-256, hex. */
  readonly hash: string
  readonly tenant: string
  readonly signed: boolean
  /** Whether the text has a seal, be it ours or another vault's. Default false. */
  readonly isSealed?: boolean | undefined
  readonly row: Stored
  readonly extra: Extra
  /** Text around the body, where the file is its author's. Absent: the file is in our form. */
  readonly frame?: Frame | undefined
  /** Why the file cannot be read, where the row is its last good revision. */
  readonly damage?: MemoryError.MemoryError | undefined
  /** Parts of the text that lost their meaning. Absent: none. */
  readonly issues?: ReadonlyArray<string> | undefined
  /** Whether the file has more than the record, and is not written to. Default false. */
  readonly isPartial?: boolean | undefined
}
/** A file, folder or link that is none. */
export interface Bad extends Seen {
  readonly _tag: "Bad"
  readonly error: MemoryError.MemoryError
}
/** A thing that lies at a path; `undefined`: nothing that is or could be a record. */
export type Found = Entry | Bad | undefined

/** Stands for the times and size of a file that nobody has looked at. */
export const nowhere: Stat = { mtime: -1, size: -1, ino: -1, born: -1 }
