/** Plans a write: the revisions of one record, its file, and what was there, after the file was held against what is known. */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import { sha256 } from "../../../domain/Digest.ts"
import * as MemoryError from "../../../domain/MemoryError.ts"
import type { MemoryId } from "../../../domain/MemoryId.ts"
import { invalid } from "../../Check.ts"
import { revisionsKept, type Stored, type Write } from "../../MemoryStore.ts"
import type { Disk } from "./Disk.ts"
import * as Document from "./Document.ts"
import { partOf } from "./HandEdits.ts"
import type { History, Kept, Part } from "./History.ts"
import * as Layout from "./Layout.ts"
import { type Entry, type Mirror, type News, nowhere } from "./Mirror.ts"
import { textOf } from "./NoteText.ts"

type Io<A> = Effect.Effect<A, MemoryError.MemoryError>

/** What a write needs to know of its vault. */
export interface Circumstances {
  readonly disk: Disk
  readonly mirror: Mirror
  readonly history: History
  readonly context: Document.Context
  /** Tells what a look found, while the lock is held. */
  readonly heard: (look: Io<ReadonlyArray<News>>) => Io<void>
}

/** The writes of one record. */
export interface Plan {
  /** At least one; the last has the file. */
  readonly parts: ReadonlyArray<Part>
  /** The entry of the mirror afterwards; `undefined`: no file. */
  readonly entry: Entry | undefined
  /** Files that go. */
  readonly gone: ReadonlyArray<string>
  readonly content: string | undefined
  /** The texts of all these files before; `null`: no file. */
  readonly texts: ReadonlyArray<readonly [path: string, text: string | null]>
}

/** Plans the writes of one record, at least one. `conflict` where the file or the record moved on; `corrupt` where it is damaged. */
export const make = (
  { context, disk, heard, history, mirror }: Circumstances,
  tenant: string,
  id: MemoryId,
  writes: ReadonlyArray<Write>
): Io<Plan> =>
  Effect.gen(function*() {
    const current = mirror.entry(tenant, id)
    const paths = mirror.paths(tenant, id)
    const expected = writes[0]!.revision // of one write at least
    const last = writes.at(-1)!.next
    if (current?.damage && last && !last.forgotten) {
      return yield* MemoryError.make("corrupt", {
        op: "commit",
        id,
        message: `${current.damage.message}; mend the file, or forget the record`,
        detail: { location: current.path }
      })
    }
    const text = current && !current.damage
      ? yield* textOf(disk, context, current.path, current.stat.size)
      : Option.none()
    const isEdited = Option.map(text, ({ hash }) => hash).pipe(Option.getOrUndefined) !== current?.hash
    if (current && ((!current.damage && isEdited) || Option.isSome(yield* disk.linkAbove(current.path)))) {
      yield* heard(mirror.lookAt([current.path]))
      return yield* conflict("the file was edited", expected, mirror.entry(tenant, id)?.row.record.revision ?? 0)
    }
    if (last && !last.forgotten && current?.isPartial) {
      return yield* invalid(
        "commit",
        "body: the file holds more than the record; edit the file, or forget the record"
      )
    }
    const revision = current?.row.record.revision ?? history.newest(tenant, id)?.revision ?? 0
    if (revision !== expected) return yield* conflict("the record moved on", expected, revision)

    const path = last && !last.forgotten
      ? current && id === Layout.noteId(current.path) && sameScope(current, last)
        ? current.path // a note keeps the name that its owner gave it
        : Layout.pathOf(tenant, last.record.scope, id)
      : undefined
    if (path !== undefined) yield* disk.within(path)
    if (path !== undefined && !paths.includes(path) && (yield* taken(disk, path))) {
      yield* heard(mirror.lookAt([path]))
      const issue = mirror.issue(path)
      if (issue) return yield* issue
      return yield* conflict(
        "a file is there already",
        expected,
        mirror.entry(tenant, id)?.row.record.revision ?? 0
      )
    }
    const extra = current?.extra ?? {}
    const content = last && path !== undefined
      ? yield* print(context, path, tenant, { record: last.record, extra })
      : undefined
    const gone = paths.filter((old) => old !== path)
    const texts = yield* Effect.forEach(
      path === undefined ? paths : [path, ...gone],
      (at) => Effect.map(disk.readLoose(at), (text) => [at, Option.getOrNull(text)] as const)
    )
    const hashes = new Map(texts.map(([at, text]) => [at, text === null ? null : sha256(text)]))
    // a note that was only found so far has no history, and a line may be damaged: what the file has comes first
    const newest = history.newest(tenant, id)
    const isKept = newest !== undefined && Option.isSome(yield* history.read(newest))
    const first = current && !isKept && last
      ? [{ ...partOf(current), path: null, before: null, after: null }]
      : []
    // of many revisions in one batch the last are kept, and an erasure among them erases what was before
    const kept = writes.filter(({ next }, n) => n >= writes.length - revisionsKept || next === undefined)
    const parts = kept.map(({ next }, n): Part => ({
      tenant,
      id,
      record: next?.record ?? null,
      forgotten: next?.forgotten ?? false,
      extra: next ? extra : {},
      ...(n === kept.length - 1
        ? {
          path: path ?? null,
          gone,
          before: hashes.get(path ?? current?.path ?? "") ?? null,
          after: content === undefined ? null : sha256(content)
        }
        : { path: null, gone: [], before: null, after: null })
    }))
    const entry: Entry | undefined = content !== undefined && path !== undefined && last
      ? {
        _tag: "Entry",
        path,
        stat: nowhere,
        settled: false,
        hash: sha256(content),
        tenant,
        signed: true,
        row: last,
        extra
      }
      : undefined
    return { parts: [...first, ...parts], entry, gone, content, texts }
  })

/** Prints the text of a record for the file at `path`. */
export const print = (context: Document.Context, path: string, tenant: string, { extra, record }: Kept): Io<string> =>
  Either.mapLeft(Document.print(context, path, tenant, record, extra), (issue) => invalid("commit", issue))

const taken = (disk: Disk, path: string) =>
  Effect.flatMap(disk.stat(path), (stat) => Option.isSome(stat) ? Effect.succeed(true) : disk.isLink(path))

const sameScope = (current: Entry, row: Stored) =>
  Layout.pathOf("default", current.row.record.scope, row.record.id) ===
    Layout.pathOf("default", row.record.scope, row.record.id)

const conflict = (message: string, expected: number, actual: number) =>
  MemoryError.make("conflict", { op: "commit", message, detail: { expected, actual } })
