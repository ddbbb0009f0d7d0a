/**
 * The vault as this process knows it: files, rows, indexes, and the files that are no record. A look at the folder makes
 * it current and says what has changed; nothing else takes a row away.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import { sha256 } from "../../../domain/Digest.ts"
import * as MemoryError from "../../../domain/MemoryError.ts"
import type { MemoryId } from "../../../domain/MemoryId.ts"
import * as MemoryKind from "../../../domain/MemoryKind.ts"
import { dedupeKey, MemoryRecord } from "../../../domain/MemoryRecord.ts"
import * as Catalog from "../../Catalog.ts"
import type { Change, Event } from "../../Changes.ts"
import type { Stored } from "../../MemoryStore.ts"
import type { Disk, Stat } from "./Disk.ts"
import * as Document from "./Document.ts"
import * as Layout from "./Layout.ts"

/** A file that is a record. */
export interface Entry {
  readonly path: string
  readonly stat: Stat
  /** Of the text. */
  readonly hash: string
  readonly tenant: string
  readonly signed: boolean
  readonly row: Stored
  readonly extra: Document.Extra
}
/** A file, folder or link that is none. */
interface Bad {
  readonly path: string
  readonly stat: Stat
  readonly error: MemoryError.MemoryError
}

export interface News {
  readonly tenant: string
  readonly events: ReadonlyArray<Event>
}

export interface Mirror {
  readonly entry: (tenant: string, id: MemoryId) => Entry | undefined
  readonly entries: () => ReadonlyArray<Entry>
  /** Every path that claims the id. */
  readonly paths: (tenant: string, id: MemoryId) => ReadonlyArray<string>
  readonly catalog: (tenant: string) => Catalog.Catalog
  readonly tenants: () => ReadonlyArray<string>
  readonly issues: () => ReadonlyArray<{ readonly path: string; readonly error: MemoryError.MemoryError }>
  /** Entries to be held against the files at the next look. */
  readonly restore: (entries: ReadonlyArray<Entry>) => void
  /** Looks at every file. Cost: a `stat` each, and a read of those that changed. */
  readonly look: Effect.Effect<ReadonlyArray<News>, MemoryError.MemoryError>
  /** Looks at these. */
  readonly lookAt: (paths: Iterable<string>) => Effect.Effect<ReadonlyArray<News>, MemoryError.MemoryError>
}
