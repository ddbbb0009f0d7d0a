/** Looks a vault over: what is damaged or differs from the history, what can be restored, and what a clone brought along. */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import { sha256 } from "../../../domain/Digest.ts"
import * as MemoryError from "../../../domain/MemoryError.ts"
import type { MemoryId } from "../../../domain/MemoryId.ts"
import { MemoryRecord } from "../../../domain/MemoryRecord.ts"
import * as EventLoop from "../../../host/EventLoop.ts"
import type { Disk } from "./Disk.ts"
import * as Document from "./Document.ts"
import * as Layout from "./Layout.ts"
import * as Plan from "./Plan.ts"
import { partOf } from "./Revisions.ts"
import type { Vault } from "./Vault.ts"
import { type Entry, nowhere, textOf } from "./VaultFile.ts"

type Io<A> = Effect.Effect<A, MemoryError.MemoryError>

/** A file that is not as it should be. */
export interface Finding {
  /** Relative to the root. */
  readonly path: string
  /**
   * `damaged`: cannot be read, and the last good revision is served instead. `drifted`: other bytes than were last seen, or
   * gone. `partial`: a record, part of whose text has no meaning. `ignored`: no record. `issues` has the last two as well.
   */
  readonly kind: "damaged" | "drifted" | "partial" | "ignored"
  readonly message: string
  /** The record, where the vault knows it. */
  readonly id?: MemoryId | undefined
}

/** A file that `repair` restores. */
export interface Repair {
  readonly path: string
  readonly id: MemoryId
  /** The revision that stands in the file afterwards. */
  readonly revision: number
}

/** The issue of a vault that was opened without its hidden folder, with so many records of another key. */
export const unsealed = (records: number) => ({
  path: Layout.hidden,
  error: MemoryError.make("corrupt", {
    op: "open",
    message: `opened without ${Layout.hidden}: ${records} records have origin file and trust 2, and no history; ` +
      "Vault.adopt seals them again",
    detail: { location: Layout.hidden }
  })
})

/** Reads every file. Changes nothing on disk but what a look at the folder records. */
export const verify = (disk: Disk, { context, mirror, refresh }: Vault): Io<ReadonlyArray<Finding>> =>
  Effect.gen(function*() {
    yield* refresh
    const paced = EventLoop.pacer()
    const found: Array<Finding> = []
    const kinds = new Map<string, "damaged" | "partial">()
    for (const { damage, hash, issues, path, row: { record: { id } }, stat } of mirror.entries()) {
      if (damage !== undefined) kinds.set(path, "damaged")
      else if (issues !== undefined) kinds.set(path, "partial")
      if (damage !== undefined) continue
      const text = yield* textOf(disk, context, path, stat.size).pipe(
        MemoryError.catchReason("corrupt", () => Effect.succeedSome({ text: "", hash: "" })) // no UTF-8 any more
      )
      yield* paced(Option.match(text, { onNone: () => 0, onSome: ({ text }) => text.length }))
      if (Option.exists(text, (now) => now.hash === hash)) continue
      const message = Option.isNone(text) ? "the file is gone" : "its bytes changed, and its size and time did not"
      found.push({ path, kind: "drifted", message, id })
    }
    const ids = new Map(mirror.entries().map(({ path, row: { record: { id } } }) => [path, id]))
    return [
      ...found,
      ...mirror.issues().map(({ error: { message }, path }): Finding => {
        const kind = kinds.get(path)
        return kind ? { path, kind, message, id: ids.get(path) } : { path, kind: "ignored", message }
      })
    ]
  })

/**
 * Restores each damaged file from its last good revision, and moves the damaged bytes into a folder of the hidden one.
 * Without `write` it only says what it would do.
 */
export const repair = (
  disk: Disk,
  { context, exclusive, history, mirror, refresh }: Vault,
  write: boolean
): Io<ReadonlyArray<Repair>> => {
  const damaged = () => mirror.entries().filter(({ damage }) => damage !== undefined)
  const told = (all: ReadonlyArray<Entry>) =>
    all.map(({ path, row: { record: { id, revision } } }): Repair => ({ path, id, revision }))
  if (!write) return Effect.map(refresh, () => told(damaged()))
  return Effect.zipRight(
    refresh,
    exclusive(Effect.gen(function*() {
      const all = damaged()
      for (const { damage: _, extra, row, ...entry } of all) {
        const { frame, path, tenant } = entry
        const content = yield* Plan.print(context, path, tenant, { record: row.record, extra, frame })
        yield* disk.makeFolder(`${Layout.hidden}/damaged`)
        yield* disk.move(
          path,
          `${Layout.hidden}/damaged/${sha256(`${path}\0${entry.hash}\0${entry.stat.mtime}`).slice(0, 16)}`
        )
        yield* disk.write(path, content, { isFenced: true })
        const mended: Entry = { ...entry, row, extra, stat: nowhere, settled: false, hash: sha256(content) }
        if (history.newest(tenant, row.record.id)?.after !== mended.hash) yield* history.append([partOf(mended)])
        mirror.set(path, mended)
      }
      return told(all)
    }))
  )
}

/**
 * Seals the records that this vault did not write itself, as those of a clone: each counts from now on as what its text
 * claims of trust and origin. Returns their number. Only for folders whose texts are trusted.
 */
export const adopt = (disk: Disk, { commit, context, exclusive, mirror, refresh }: Vault): Io<number> =>
  Effect.zipRight(
    refresh,
    exclusive(Effect.gen(function*() {
      let count = 0
      for (const entry of mirror.entries()) {
        const { damage, path, row: { record: { id, revision } }, tenant } = entry
        if (damage !== undefined || Layout.placeOf(path).id === undefined) continue
        const text = yield* disk.readLoose(path)
        if (Option.isNone(text)) continue
        const claimed = Document.parse({ ...context, isAdopting: true }, path, text.value, 0)
        const sealed = Document.parse(context, path, text.value, 0)
        if (Either.isLeft(claimed) || !claimed.right.signed || (Either.isRight(sealed) && sealed.right.signed)) continue
        const { record } = claimed.right
        const next = new MemoryRecord({ ...record, revision: Math.max(record.revision, revision + 1) }, {
          disableValidation: true
        })
        yield* commit(tenant, [{ id, revision, next: mirror.rowOf(tenant, next) }])
        count++
      }
      return count
    }))
  )
