/** Finds what hands did to a vault's files: the revisions that the history lacks. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { MemoryError } from "../../../domain/MemoryError.ts"
import type { MemoryId } from "../../../domain/MemoryId.ts"
import type { Stored } from "../../MemoryStore.ts"
import * as Version from "../../Version.ts"
import type { History, Part, Place } from "./History.ts"
import * as Layout from "./Layout.ts"
import type { Entry, Mirror } from "./Mirror.ts"

type Io<A> = Effect.Effect<A, MemoryError>

/** A record that may have been edited, and what it was before, where the mirror saw the edit. */
export type Touched = readonly [tenant: string, id: MemoryId, before?: Stored | undefined]

/** A record's revision as it stands on disk. */
export const partOf = ({ extra, hash, path, row, tenant }: Entry): Part => ({
  tenant,
  id: row.record.id,
  record: row.record,
  forgotten: false,
  extra,
  path,
  gone: [],
  before: hash,
  after: hash
})

/**
 * The revisions that the history lacks of these records: edits, moves and removals by hand. None where it has all of them,
 * where a file is damaged or cannot be looked at, and of a note that nobody changed since it was found.
 */
export const lacking = (
  mirror: Mirror,
  history: History,
  about: Iterable<Touched>
): Io<ReadonlyArray<Part>> =>
  Effect.suspend(() => {
    const open = Array.from(about).filter(([tenant, id]) =>
      !isKnown(mirror.entry(tenant, id), history.newest(tenant, id))
    )
    return Effect.map(Effect.forEach(open, (one) => lackingOf(mirror, history, one)), (all) => all.flat())
  })

/** Whether the history has the file as it is: most of them, whenever a vault opens. */
const isKnown = (entry: Entry | undefined, place: Place | undefined): boolean =>
  place !== undefined && !place.forgotten && place.after === entry?.hash && place.path === entry?.path

const lackingOf = (mirror: Mirror, history: History, [tenant, id, before]: Touched): Io<ReadonlyArray<Part>> =>
  Effect.gen(function*() {
    const entry = mirror.entry(tenant, id)
    const place = history.newest(tenant, id)
    if (entry) {
      if (entry.damage !== undefined) return []
      if (place === undefined && before === undefined && id === Layout.noteId(entry.path)) return [] // a note as it was found
      const now = partOf(entry)
      return place === undefined && before !== undefined
        ? [{ ...now, record: before.record, path: null, before: null, after: null }, now]
        : [now]
    }
    if (place === undefined || place.forgotten || (place.path !== null && mirror.trouble(place.path))) return []
    const kept = yield* history.read(place)
    if (Option.isNone(kept)) return []
    const record = Version.forgotten(kept.value.record, yield* Clock.currentTimeMillis)
    return [{ tenant, id, record, forgotten: true, extra: {}, path: null, gone: [], before: null, after: null }]
  })
