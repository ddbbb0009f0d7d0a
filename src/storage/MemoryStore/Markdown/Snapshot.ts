/** What a look at the folder found, for the next process: a cache, signed with the vault's key, held against every file. */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { sign } from "../../../domain/Digest.ts"
import type { MemoryError } from "../../../domain/MemoryError.ts"
import { MemoryRecord } from "../../../domain/MemoryRecord.ts"
import type { Disk } from "./Disk.ts"
import { hidden } from "./Layout.ts"
import type { Entry } from "./Mirror.ts"

const file = `${hidden}/snapshot`

/** None where there is none, or it is not ours. */
export const load = (disk: Disk, key: string): Effect.Effect<ReadonlyArray<Entry>, MemoryError> =>
  Effect.map(disk.read(file), (text) => {
    if (Option.isNone(text)) return []
    const end = text.value.indexOf("\n")
    const json = text.value.slice(end + 1)
    if (text.value.slice(0, end) !== sign(key, json)) return []
    const entries = Schema.decodeEither(Schema.parseJson())(json)
    // signed by us, with the types that we wrote
    return Either.isRight(entries) ? (entries.right as ReadonlyArray<Entry>).map(revived) : []
  })

/** Not forced to disk: what is lost is read again. */
export const save = (disk: Disk, key: string, entries: ReadonlyArray<Entry>): Effect.Effect<void, MemoryError> =>
  Effect.suspend(() => {
    const json = JSON.stringify(entries)
    return disk.write(file, `${sign(key, json)}\n${json}`, { force: false })
  })

const revived = (entry: Entry): Entry => ({
  ...entry,
  row: { ...entry.row, record: new MemoryRecord(entry.row.record, { disableValidation: true }) }
})
