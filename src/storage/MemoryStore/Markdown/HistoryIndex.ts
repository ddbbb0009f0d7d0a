/**
 * What was read of a history, for the snapshot: whoever opens the vault next reads what was appended since, and not the whole
 * file. It counts where the file still begins and ends, up to there, with the bytes that were read.
 */
import * as Effect from "effect/Effect"
import { sha256 } from "../../../domain/Digest.ts"
import type { MemoryError } from "../../../domain/MemoryError.ts"
import { joined } from "./Bytes.ts"
import type { Disk } from "./Disk.ts"
import type { Place } from "./HistoryLine.ts"
import type { Entry } from "./Mirror.ts"

export interface HistoryIndex {
  readonly epoch: number
  /** Bytes that were read. */
  readonly end: number
  /** Number of the last batch. All of them have landed. */
  readonly batch: number
  /** Bytes of lines that count no more. */
  readonly dead: number
  /** Hash of the first and the last bytes that were read. */
  readonly hash: string
  /** Revisions of all records, of each the newest first. */
  readonly places: ReadonlyArray<Place>
}

/** Bytes at each end that are compared. The head and the last lines name their epoch, and the bytes at which they stand. */
const compared = 4_096

/** Hash of the first and the last of the first `end` bytes of a file. */
export const hashOf = (disk: Disk, file: string, end: number): Effect.Effect<string, MemoryError> =>
  Effect.zipWith(
    disk.bytesFrom(file, 0, Math.min(end, compared)),
    disk.bytesFrom(file, Math.max(0, end - compared), Math.min(end, compared)),
    (first, last) => sha256(joined([first, last]))
  )

/** A place as JSON without names. */
export type Tuple = readonly [
  tenant: string,
  id: Place["id"],
  revision: number,
  forgotten: boolean,
  path: string | null,
  after: string | null,
  before: string | null,
  gone: ReadonlyArray<string> | 0,
  at: At
]
/** Position of a line in the file and in its batch. */
type At = readonly [offset: number, length: number, batch: number, part: number, parts: number, isKept: boolean]

const none: ReadonlyArray<string> = []

const atOf = ({ batch, isKept, length, offset, part, parts }: Place): At => [offset, length, batch, part, parts, isKept]

export const toTuple = (place: Place): Tuple => {
  const { after, before, forgotten, gone, id, path, revision, tenant } = place
  return [tenant, id, revision, forgotten, path, after, before, gone.length > 0 ? gone : 0, atOf(place)]
}

export const fromTuple = ([tenant, id, revision, forgotten, path, after, before, gone, at]: Tuple): Place => {
  const [offset, length, batch, part, parts, isKept] = at
  const names = gone === 0 ? none : gone
  return {
    tenant,
    id,
    revision,
    forgotten,
    path,
    after,
    before,
    gone: names,
    offset,
    length,
    batch,
    part,
    parts,
    isKept
  }
}

/** Rest of a place, beside what a record and its file say of their newest revision. */
export type Beside = readonly [before: string | null, at: At]

/** Whether a place says of its revision what a record and its file say, so that a snapshot needs it no second time. */
export const isBeside = ({ hash, path, row: { record }, tenant }: Entry, place: Place): boolean =>
  place.tenant === tenant && place.id === record.id && place.path === path && place.after === hash &&
  place.revision === record.revision && !place.forgotten && place.gone.length === 0

/** The place of a record's newest revision. Its texts are those of the record: ten thousand of them are not kept twice. */
export const fromBeside = (
  { hash, path, row: { record: { id, revision } }, tenant }: Entry,
  [before, at]: Beside
): Place => fromTuple([tenant, id, revision, false, path, hash, before, 0, at])
