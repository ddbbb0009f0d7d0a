/**
 * Tells which record the note at a path is. Its id comes from the path where the note was found, and stays when the note
 * moves; so the history, which binds ids to paths, is asked first.
 *
 * ```text
 * known         the record whose file the path is, by the last look or by the history, whichever is newer
 * departed      the forgotten record whose file lay there last, if the text is what it was then
 * new           an id made of the path; a further one where a note that moved away still has it
 * ```
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as MemoryError from "../../../domain/MemoryError.ts"
import type { MemoryId } from "../../../domain/MemoryId.ts"
import { MemoryRecord } from "../../../domain/MemoryRecord.ts"
import type { Json } from "../../../domain/Payload.ts"
import { formerNames } from "../../Links.ts"
import type { Context } from "./Document.ts"
import type { Bad, Entry } from "./Entry.ts"
import type * as ForeignNote from "./ForeignNote.ts"
import { fileNameOf } from "./ForeignNote.ts"
import * as Frame from "./Frame.ts"
import type { History, Place } from "./History.ts"
import * as Layout from "./Layout.ts"
import { isNote } from "./NoteText.ts"

/** The record that a note continues. */
export interface Known extends ForeignNote.Previous {
  /** Whether the text is what it was: then the record is, too, but for what it has from its path. */
  readonly isSame: boolean
}

export interface NoteIdentity {
  /** The record that the note at `path` continues, given the hash of its text; `undefined` for a new note and a file of ours. */
  readonly of: (path: string, hash: string) => Effect.Effect<Known | undefined, MemoryError.MemoryError>
  /** The record of a new note, with an id that no other record has. */
  readonly fresh: (tenant: string, path: string, record: MemoryRecord) => MemoryRecord
  /** Forgets what was derived from the history, which may have grown. */
  readonly reset: () => void
}

export const make = (
  context: Context,
  history: History,
  { entry, file }: {
    readonly entry: (tenant: string, id: MemoryId) => Entry | undefined
    readonly file: (path: string) => Entry | Bad | undefined
  }
): NoteIdentity => {
  /** Files of forgotten records, by path. Made when it is first asked for. Cost: all records of the history. */
  let departed: ReadonlyMap<string, ReadonlyArray<Place>> | undefined
  const departedFrom = (path: string): ReadonlyArray<Place> => {
    if (departed === undefined) {
      const made = new Map<string, Array<Place>>()
      for (const tenant of history.tenants()) {
        for (const { forgotten, id } of history.all(tenant)) {
          const last = forgotten ? history.places(tenant, id).find((place) => place.path !== null) : undefined
          if (last?.path) made.set(last.path, [...made.get(last.path) ?? [], last])
        }
      }
      departed = made
    }
    return departed.get(path) ?? []
  }
  const read = (place: Place, isSame: boolean): Effect.Effect<Known | undefined, MemoryError.MemoryError> =>
    Effect.map(history.read(place), (kept) =>
      Option.match(kept, {
        onNone: () => undefined,
        onSome: ({ frame, record }) => ({ record, properties: frame && Frame.propertiesOf(frame), isSame })
      }))
  const isTaken = (tenant: string, id: MemoryId, path: string): boolean => {
    const last = entry(tenant, id)?.path ?? history.places(tenant, id).find((place) => place.path !== null)?.path
    return typeof last === "string" && last.normalize("NFC") !== path.normalize("NFC")
  }

  return {
    of: (path, hash) => {
      if (!isNote(context, path)) return Effect.succeed(undefined)
      const known = file(path)
      const place = history.at(path)
      if (known?._tag === "Entry") {
        const { frame, row: { record } } = known
        if (place === undefined || (place.id === record.id && place.revision <= record.revision)) {
          return Effect.succeed({ record, properties: frame && Frame.propertiesOf(frame), isSame: known.hash === hash })
        }
      }
      if (place !== undefined) return read(place, false) // whether it is the same is asked of the history
      const last = departedFrom(path).find(({ after }) => after === hash)
      const newest = last && history.newest(last.tenant, last.id)
      return newest === undefined ? Effect.succeed(undefined) : read(newest, true)
    },
    fresh: (tenant, path, record) => {
      if (!isNote(context, path) || record.id !== Layout.noteId(path)) return record
      let { id } = record
      for (let n = 2; isTaken(tenant, id, path); n++) id = Layout.noteId(path, n)
      return id === record.id ? record : new MemoryRecord({ ...record, id }, { disableValidation: true })
    },
    reset: () => {
      departed = undefined
    }
  }
}

/** Number of earlier names that are kept. */
const maxNames = 16

/** The record of a note whose file lay at `from` and now lies at `to`. */
export const moved = (record: MemoryRecord, from: string, to: string): MemoryRecord => {
  const [last, name] = [fileNameOf(from), fileNameOf(to)]
  const known = record.metadata[formerNames]
  const names = [...(Array.isArray(known) ? known as ReadonlyArray<Json> : []), last] // a list of JSON
    .filter((one, i, all) => one !== name && all.lastIndexOf(one) === i).slice(-maxNames)
  const { reference, ...source } = record.source
  return new MemoryRecord({
    ...record,
    ...(record.summary === last && record.summaryDerived !== true && { summary: name }),
    source: reference === from && to.length > 1_024
      ? source
      : { ...source, reference: reference === from ? to : reference },
    metadata: last === name ? record.metadata : { ...record.metadata, [formerNames]: names }
  }, { disableValidation: true })
}
