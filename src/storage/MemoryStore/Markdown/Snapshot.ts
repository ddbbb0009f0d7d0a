/** What a look at the folder found, for the next process: a cache, signed with the vault's key, held against every file. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { MemoryError } from "../../../domain/MemoryError.ts"
import { MemoryRecord } from "../../../domain/MemoryRecord.ts"
import type { Disk } from "./Disk.ts"
import { hidden } from "./Layout.ts"
import type { Entry } from "./Mirror.ts"
import { seal, unseal } from "./Seal.ts"

const file = `${hidden}/snapshot`
const decode = Schema.decodeOption(Schema.parseJson())

/** None where there is none, or it is not ours. */
export const load = (disk: Disk, key: string): Effect.Effect<ReadonlyArray<Entry>, MemoryError> =>
  Effect.map(disk.readLoose(file), (text) => {
    const entries = Option.flatMap(Option.flatMap(text, (sealed) => unseal(key, sealed)), decode)
    // sealed by us, with the types that we wrote
    return Option.match(entries, { onNone: () => [], onSome: (all) => (all as ReadonlyArray<Entry>).map(revived) })
  })

/** Not forced to disk: what is lost is read again. */
export const save = (disk: Disk, key: string, entries: ReadonlyArray<Entry>): Effect.Effect<void, MemoryError> =>
  Effect.suspend(() => disk.write(file, seal(key, JSON.stringify(entries)), { force: false }))

/** JSON has no classes. Ten thousand records are not copied to get one. */
const revived = (entry: Entry): Entry => {
  Object.setPrototypeOf(entry.row.record, MemoryRecord.prototype)
  return entry
}
