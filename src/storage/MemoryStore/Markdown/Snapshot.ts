/**
 * What a look at the folder found, and the indexes made of it, for the next process: a cache, held against every file.
 *
 * ```text
 * signature   under the vault's key, of all that follows, and a line break
 * head        what it was made with, how long the parts are, and a line break
 * entries     JSON
 * indexes     of one tenant after the other
 * ```
 *
 * One file, so that an index and the records it is of cannot be of different times.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { sign } from "../../../domain/Digest.ts"
import type { MemoryError } from "../../../domain/MemoryError.ts"
import type { MemoryKind } from "../../../domain/MemoryKind.ts"
import { MemoryRecord } from "../../../domain/MemoryRecord.ts"
import type { Disk } from "./Disk.ts"
import type { Context } from "./Document.ts"
import { hidden } from "./Layout.ts"
import type { Entry } from "./Mirror.ts"

export interface Snapshot {
  readonly entries: ReadonlyArray<Entry>
  /** By tenant. */
  readonly indexes: ReadonlyArray<readonly [tenant: string, encoded: Uint8Array]>
}

/** Raised with each change of `Entry`, or of what a text counts as. */
const version = 1
const file = `${hidden}/snapshot`
const empty: Snapshot = { entries: [], indexes: [] }

const Head = Schema.parseJson(Schema.Struct({
  version: Schema.Literal(version),
  kinds: Schema.String,
  entries: Schema.Int,
  indexes: Schema.Array(Schema.Tuple(Schema.String, Schema.Int))
}))
const decodeHead = Schema.decodeOption(Head)
const encodeHead = Schema.encodeSync(Head)

/** What of the kinds goes into an entry. */
const about = (kinds: ReadonlyMap<string, MemoryKind>): string =>
  JSON.stringify(Array.from(kinds.values(), ({ dedupe, importance, name }) => [name, dedupe, importance]).sort())

/** Empty where there is none, or it is not ours, or of other circumstances. */
export const load = (disk: Disk, context: Context): Effect.Effect<Snapshot, MemoryError> =>
  Effect.map(disk.bytesFrom(file, 0), (bytes) => {
    const signed = bytes.indexOf(lineBreak) + 1
    const body = bytes.subarray(signed)
    if (text(bytes.subarray(0, signed)) !== `${sign(context.key, body)}\n`) return empty
    const end = body.indexOf(lineBreak) + 1
    const head = decodeHead(text(body.subarray(0, end)))
    if (Option.isNone(head) || head.value.kinds !== about(context.kinds)) return empty
    let at = end + head.value.entries
    // sealed by us, with the types that we wrote
    const entries = JSON.parse(text(body.subarray(end, at))) as ReadonlyArray<Entry>
    const indexes = head.value.indexes.map(([tenant, length]) =>
      [tenant, new Uint8Array(body.subarray(at, at += length))] as const
    )
    return { entries: entries.map(revived), indexes }
  })

/** Not forced to disk: what is lost is read again. */
export const save = (disk: Disk, { key, kinds }: Context, snapshot: Snapshot): Effect.Effect<void, MemoryError> =>
  Effect.suspend(() => {
    const entries = encoder.encode(JSON.stringify(snapshot.entries))
    const indexes = snapshot.indexes.map(([tenant, { length }]) => [tenant, length] as const)
    const head = encodeHead({ version, kinds: about(kinds), entries: entries.length, indexes })
    const body = joined([encoder.encode(`${head}\n`), entries, ...snapshot.indexes.map(([, encoded]) => encoded)])
    return disk.write(file, joined([encoder.encode(`${sign(key, body)}\n`), body]), { force: false })
  })

const joined = (parts: ReadonlyArray<Uint8Array>): Uint8Array => {
  const all = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0))
  let at = 0
  for (const part of parts) {
    all.set(part, at)
    at += part.length
  }
  return all
}

/** JSON has no classes. Ten thousand records are not copied to get one. */
const revived = (entry: Entry): Entry => {
  Object.setPrototypeOf(entry.row.record, MemoryRecord.prototype)
  return entry
}

const lineBreak = 10
const encoder = new TextEncoder()
const decoder = new TextDecoder()
const text = (bytes: Uint8Array): string => decoder.decode(bytes)
