/**
 * Finds the notes that were renamed or moved between two looks: a file that is gone, and a new one that continues it
 * (`RenameDetection`). Only within one tenant and one scope: elsewhere a note is a new one, since its past belongs to those
 * who saw it where it was.
 */
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import type * as MemoryError from "../../../domain/MemoryError.ts"
import type { MemoryRecord } from "../../../domain/MemoryRecord.ts"
import * as MemoryScope from "../../../domain/MemoryScope.ts"
import type { Disk } from "./Disk.ts"
import type { Context } from "./Document.ts"
import type { Bad, Entry } from "./Entry.ts"
import type { FileReader } from "./FileReader.ts"
import * as Frame from "./Frame.ts"
import type { History, Place } from "./History.ts"
import * as NoteIdentity from "./NoteIdentity.ts"
import { isNote, type Text, textOf } from "./NoteText.ts"
import * as RenameDetection from "./RenameDetection.ts"

type Io<A> = Effect.Effect<A, MemoryError.MemoryError>
type Files = ReadonlyMap<string, Entry | Bad | undefined>

/** A note whose file is gone. */
interface Gone {
  readonly tenant: string
  readonly path: string
  readonly record: MemoryRecord
  readonly hash: string
  readonly frame?: Frame.Frame | undefined
}

/** Whether a file that a look did not find any more was a note that may have moved. The history may know that it did not. */
const isGone = (context: Context, history: History, { path, row: { record }, tenant }: Entry): boolean => {
  const newest = history.newest(tenant, record.id)
  return isNote(context, path) &&
    (newest === undefined || (!newest.forgotten && (newest.path === null || newest.path === path)))
}

/**
 * The notes that a look did not find any more, of those that were `known`, each as the history has it where that is later;
 * and on a first look those of the history that nothing else knows of.
 */
export const gone = (
  context: Context,
  history: History,
  known: ReadonlyArray<Entry>,
  isKnown: ((path: string) => boolean) | undefined
): Io<ReadonlyArray<Gone>> =>
  Effect.gen(function*() {
    const all: Array<Gone> = []
    const add = (place: Place) =>
      Effect.map(history.read(place), (kept) => {
        const { after, path, tenant } = place
        if (Option.isSome(kept) && path !== null && after !== null) {
          all.push({ tenant, path, hash: after, ...kept.value })
        }
      })
    for (const entry of known) {
      if (!isGone(context, history, entry)) continue
      const { frame, hash, path, row: { record }, tenant } = entry
      const place = history.at(path)
      if (place && place.revision > record.revision) yield* add(place)
      else all.push({ tenant, path, record, hash, frame })
    }
    if (isKnown === undefined) return all
    for (const tenant of history.tenants()) {
      for (const place of history.all(tenant)) {
        const { forgotten, path } = place
        if (path !== null && !forgotten && !isKnown(path) && isNote(context, path)) yield* add(place)
      }
    }
    return all
  })

/**
 * The new files that continue one that is gone, each read as the record of that one. `found`: what the look found, by path.
 * Cost: a read of each new file.
 */
export const find = (
  { context, disk, history, reader }: {
    readonly context: Context
    readonly disk: Disk
    readonly history: History
    readonly reader: FileReader
  },
  gone: ReadonlyArray<Gone>,
  found: Files,
  known: (path: string) => Entry | Bad | undefined
): Io<ReadonlyArray<Entry>> =>
  Effect.gen(function*() {
    const fresh = Array.from(found.values()).flatMap((file) =>
      file?._tag === "Entry" && known(file.path)?._tag !== "Entry" && isNote(context, file.path) &&
        history.at(file.path) === undefined
        ? [file]
        : []
    )
    const olds = Arr.groupBy(gone, ({ record, tenant }) => realm(tenant, record))
    const news = Arr.groupBy(fresh, ({ row, tenant }) => realm(tenant, row.record))
    const moved: Array<Entry> = []
    for (const [key, appeared] of Object.entries(news)) {
      const vanished = olds[key]
      if (vanished === undefined) continue
      const texts = new Map<string, Text>()
      for (const { hash, path, stat } of appeared) {
        const text = yield* textOf(disk, context, path, stat.size)
        if (Option.exists(text, (now) => now.hash === hash)) texts.set(path, Option.getOrThrow(text))
      }
      const from = new Map(vanished.map((one) => [one.path, one]))
      const pairs = RenameDetection.detect(
        vanished.map(({ frame, hash, path, record: { body } }) => ({
          path,
          hash,
          text: frame ? Frame.textOf(frame, body) : body
        })),
        Array.from(texts, ([path, { text }]) => ({ path, text }))
      )
      for (const entry of appeared) {
        const old = from.get(pairs.get(entry.path) ?? "")
        const text = texts.get(entry.path)
        if (old === undefined || text === undefined) continue
        const { path, settled, stat } = entry
        const made = yield* reader.entryOf({ path, stat, settled }, text, {
          record: NoteIdentity.moved(old.record, old.path, path),
          properties: old.frame && Frame.propertiesOf(old.frame),
          isSame: text.hash === old.hash
        })
        if (Either.isRight(made)) moved.push(made.right)
      }
    }
    return moved
  })

/** Whose a note is. */
const realm = (tenant: string, { scope }: MemoryRecord): string => JSON.stringify([tenant, MemoryScope.key(scope)])
