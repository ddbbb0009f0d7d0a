/** Decides how a record is written: the revisions for the history, and the new file. Also detects edits by hand. */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import { sha256 } from "../../../domain/Digest.ts"
import * as MemoryError from "../../../domain/MemoryError.ts"
import type { MemoryId } from "../../../domain/MemoryId.ts"
import type { MemoryRecord } from "../../../domain/MemoryRecord.ts"
import { invalid } from "../../../domain/Validation.ts"
import { revisionsKept, type Write } from "../../MemoryStore.ts"
import * as Revision from "../../Revision.ts"
import * as Document from "./Document.ts"
import * as ForeignEdit from "./ForeignEdit.ts"
import * as Frontmatter from "./Frontmatter.ts"
import type { History, Part, RevisionLocation, WrittenRevision } from "./History.ts"
import * as Layout from "./Layout.ts"
import { earlierOf } from "./RevisionReader.ts"
import { type Entry, nowhere, textOf } from "./VaultFile.ts"
import { isSameStatus, nothing, type PathStatus, type VaultFileSystem } from "./VaultFileSystem.ts"
import type { News, VaultState } from "./VaultState.ts"

type Io<A> = Effect.Effect<A, MemoryError.MemoryError>

/** The parts of a vault that a write uses. */
export interface Dependencies {
  readonly fs: VaultFileSystem
  readonly state: VaultState
  readonly history: History
  readonly context: Document.Context
  /** Runs a scan, then publishes the changes, and appends them to the history. Needs the vault's lock. */
  readonly publishScan: (status: Io<ReadonlyArray<News>>) => Io<void>
}

/** The planned writes of one record. */
export interface WritePlan {
  /** Revisions to append to the history, at least one. The last revision states the path and the hashes of the file. */
  readonly parts: ReadonlyArray<Part>
  /** The record's entry in the vault's state after the write; `undefined` if the record then has no file. */
  readonly entry: Entry | undefined
  /** Paths of the files to remove. */
  readonly removed: ReadonlyArray<string>
  /** The text to write; `undefined` if no file is written. */
  readonly content: string | undefined
  /** The files to write or remove, as they were before the batch. */
  readonly before: ReadonlyArray<readonly [path: string, was: FileBefore]>
}

/** A file as it was before a batch. `content` is `null` if there was no file. `content` was read after `status`. */
export interface FileBefore {
  readonly status: PathStatus
  readonly content: Uint8Array | string | null
}
/** The files that a batch writes or removes, as they were before the batch, by path. */
export type Before = ReadonlyMap<string, FileBefore>

/** Returns the paths of files that have changed since a batch was planned. Cost: a `stat` per path. */
export const changedSince = (
  fs: VaultFileSystem,
  before: Iterable<readonly [path: string, was: FileBefore]>
): Io<ReadonlyArray<string>> =>
  Effect.gen(function*() {
    const changed: Array<string> = []
    for (const [path, { status }] of before) {
      if (!isSameStatus(status, fs.statusNow(path) ?? (yield* fs.status(path)))) changed.push(path)
    }
    return changed
  })

/** Updates a plan whose files were rolled back. If a file has its old content again, the plan gets the new status of the file. */
export const replanned = (fs: VaultFileSystem, plan: WritePlan): Io<WritePlan> =>
  Effect.map(
    Effect.forEach(plan.before, ([path, was]) =>
      Effect.gen(function*() {
        const status = yield* fs.status(path)
        const bytes = Option.getOrNull(yield* fs.readBytes(path))
        const isSame = bytes === null || was.content === null
          ? bytes === was.content
          : sha256(bytes) === sha256(was.content)
        return [path, isSame ? { ...was, status } : was] as const
      })),
    (before) => ({ ...plan, before })
  )

/**
 * Plans one or more writes of a record. Fails with `conflict` if the file or the record has changed. Fails with `corrupt` if the file is
 * damaged, and with `invalid_draft` if the file has more text than the record. These two errors do not occur if the last write forgets or
 * purges the record.
 */
export const make = (
  { context, fs, publishScan, history, state }: Dependencies,
  tenant: string,
  id: MemoryId,
  writes: ReadonlyArray<Write>
): Io<WritePlan> =>
  Effect.gen(function*() {
    const current = state.entry(tenant, id)
    const paths = state.paths(tenant, id)
    const expected = writes[0]!.revision // there is at least one write
    const last = writes.at(-1)!.next
    if (current?.damage && last && !last.forgotten) {
      return yield* MemoryError.make("corrupt", {
        op: "commit",
        id,
        message: `${current.damage.message}; mend the file, or forget the record`,
        detail: { location: current.path }
      })
    }
    const found = current ? yield* fs.status(current.path) : nothing
    const text = current && !current.damage
      ? yield* textOf(fs, context, current.path, current.stat.size).pipe(
        MemoryError.catchReason("corrupt", () => Effect.succeedNone) // invalid UTF-8 is an edit, too; the scan below finds the damage
      )
      : Option.none()
    const isEdited = Option.map(text, ({ hash }) => hash).pipe(Option.getOrUndefined) !== current?.hash
    if (current && ((!current.damage && isEdited) || Option.isSome(yield* fs.linkAbove(current.path)))) {
      yield* publishScan(state.scanPaths([current.path]))
      return yield* conflict("the file was edited", expected, state.entry(tenant, id)?.row.record.revision ?? 0)
    }
    if (last && !last.forgotten && current?.isPartial) {
      return yield* invalid(
        "commit",
        "body: the file holds more than the record; edit the file, or forget the record"
      )
    }
    const revision = current?.row.record.revision ?? history.newest(tenant, id)?.revision ?? 0
    if (revision !== expected) return yield* conflict("the record moved on", expected, revision)

    const lastPurge = writes.findLastIndex(({ next }) => next === undefined)
    const isPurged = lastPurge >= 0 // a record that is put after its purge keeps no text and no property of its file
    const note = isPurged ? undefined : yield* noteOf({ context, fs, history }, tenant, id, current, text)
    const path = last && !last.forgotten
      ? note && isSameScope(note.record, last.record) && (paths.includes(note.path) || !(yield* isInUse(fs, note.path)))
        ? note.path // a note keeps the file name that its author chose, even when the note is restored
        : current && id === Layout.noteId(current.path) && isSameScope(current.row.record, last.record)
        ? current.path
        : Layout.pathOf(tenant, last.record.scope, id)
      : undefined
    if (path !== undefined) yield* fs.within(path)
    if (path !== undefined && !paths.includes(path) && (yield* isInUse(fs, path))) {
      yield* publishScan(state.scanPaths([path]))
      const issue = state.issue(path)
      if (issue) return yield* issue
      return yield* conflict(
        "a file is there already",
        expected,
        state.entry(tenant, id)?.row.record.revision ?? 0
      )
    }
    const extra = isPurged || !last ? {} : current ? current.extra : yield* keptExtra(history, tenant, last.record)
    const content = last === undefined || path === undefined
      ? undefined
      : note?.isAuthors && path === note.path
      ? yield* noteText(history, tenant, note, last.record)
      : yield* print(context, path, tenant, { record: last.record, extra })
    const frame = !last || !note?.isAuthors
      ? undefined
      : path === undefined
      ? Frontmatter.frameIn(note.path, note.text, note.record.body)
      : path === note.path && content !== undefined
      ? Frontmatter.frameIn(path, content, last.record.body)
      : undefined
    const removed = paths.filter((old) => old !== path)
    const hashes = new Map<string, string | null>()
    const before: Array<WritePlan["before"][number]> = []
    for (const at of path === undefined ? paths : [path, ...removed]) {
      const isRead = at === current?.path && Option.isSome(text) && text.value.loss === undefined
      // all files of the record are in `paths`. Any other path has no file, as was checked above
      const status = at === current?.path ? found : paths.includes(at) ? yield* fs.status(at) : nothing
      const bytes = isRead || !paths.includes(at) ? null : Option.getOrNull(yield* fs.readBytes(at))
      const content = isRead ? text.value.text : bytes
      if (bytes !== null && last?.forgotten && current?.isPartial) {
        yield* fs.write(Layout.damagedOf(id, sha256(bytes)), bytes)
      }
      before.push([at, { status, content }])
      hashes.set(at, isRead ? text.value.hash : content === null ? null : sha256(content))
    }
    const after = content === undefined ? null : sha256(content)
    // `isKept` says whether the history has the current revision. The line of this revision may be damaged or lost. A note that a person
    // wrote has no line until its first change. If `isKept` is false, the current revision is appended first, except for a purge
    const newest = history.newest(tenant, id)
    const isKept = newest !== undefined && newest.revision === current?.row.record.revision &&
      (yield* history.isWhole(newest))
    const first = current && !isKept && last && !isPurged
      ? [earlierOf(current)]
      : []
    // keeps the last `revisionsKept` writes after the last purge, and this purge. The texts before the purge are never written
    const kept = writes.filter((_, n) => n === lastPurge || n > lastPurge && n >= writes.length - revisionsKept)
    const parts = kept.map(({ next }, n): Part => ({
      tenant,
      id,
      record: next?.record ?? null,
      forgotten: next?.forgotten ?? false,
      extra: next ? extra : {},
      ...(n === kept.length - 1 && frame && { frame }),
      ...(n === kept.length - 1
        ? {
          path: path ?? null,
          removed,
          before: hashes.get(path ?? current?.path ?? "") ?? null,
          after
        }
        : { path: null, removed: [], before: null, after: null })
    }))
    const entry: Entry | undefined = after !== null && content !== undefined && path !== undefined && last
      ? {
        _tag: "Entry",
        path,
        stat: nowhere,
        settled: false,
        hash: after,
        tenant,
        signed: true,
        row: last,
        extra,
        ...(frame && { frame, issues: current?.issues }),
        ...(frame && frame.tail.length > 2 && { isPartial: true }) // more than a line break follows the body
      }
      : undefined
    const isWritten = entry !== undefined && hashes.get(entry.path) !== entry.hash // false if the file already has this text
    return { parts: [...first, ...parts], entry, removed, content: isWritten ? content : undefined, before }
  })

/** Whether a plan purges a record whose file may be in the snapshot. The library's internal records are never in the snapshot. */
export const isPurge = (plans: ReadonlyArray<WritePlan>): boolean =>
  plans.some(({ removed, parts }) => parts.at(-1)?.record === null && removed.some((path) => !Layout.isInternal(path)))

/**
 * Returns the text of a revision for the file at `path`. A frame is the author's text around the body. If the revision has a frame for this
 * path, the text is the frame with the body inside. Otherwise the text is the record in the library's format.
 */
export const print = (
  context: Document.Context,
  path: string,
  tenant: string,
  { extra, frame, record }: WrittenRevision
): Io<string> =>
  frame?.path === path
    ? Effect.succeed(Frontmatter.framed(frame, record.body))
    : Either.mapLeft(Document.print(context, path, tenant, record, extra), (issue) => invalid("commit", issue))

/** A file whose name its author chose. `text` is the current or last known text, and `record` is the record in this text. */
interface Note {
  readonly path: string
  readonly text: string
  readonly record: MemoryRecord
  /** Whether the text has the format in which the author wrote it. If not, the library has written the text in its own format. */
  readonly isAuthors: boolean
}

/**
 * Returns the note of a record: its file, if an author chose the name of the file. If the file is missing or damaged, the note comes from
 * the newest revision in the history. Returns `undefined` if there is no note, or if the vault does not have the setting `notes: "whole"`.
 */
const noteOf = (
  { context, fs, history }: Pick<Dependencies, "context" | "fs" | "history">,
  tenant: string,
  id: MemoryId,
  current: Entry | undefined,
  text: Option.Option<{ readonly text: string }>
): Io<Note | undefined> =>
  Effect.gen(function*() {
    if (context.notes !== "whole") return undefined
    if (current && !current.damage) {
      const { path, row: { record } } = current
      if (Option.isNone(text) || Layout.parsePath(path).isOurs) return undefined
      const parsed = Document.parse(context, path, text.value.text, record.createdAt)
      if (Either.isLeft(parsed)) return undefined
      const isAuthors = parsed.right.frame !== undefined
      const isNamed = parsed.right.record.id === Layout.noteId(path)
      return isAuthors || isNamed ? { path, text: text.value.text, record, isAuthors } : undefined
    }
    const newest = history.newest(tenant, id)
    const kept = newest && Option.getOrUndefined(yield* history.read(newest))
    const path = kept?.frame?.path
    if (kept?.frame === undefined || path === undefined) return undefined
    if (
      !Layout.isRecord(path) || Layout.parsePath(path).isOurs || Option.isSome(yield* fs.linkAbove(path))
    ) return undefined
    return { path, text: Frontmatter.framed(kept.frame, kept.record.body), record: kept.record, isAuthors: true }
  })

/**
 * Returns the text of a note for its next revision, `next`. If `next` restores a revision whose text is in the history, the result is
 * exactly that text. Otherwise the current text is edited to have the new content. Fails with `invalid_draft` if no such edit is possible.
 */
const noteText = (history: History, tenant: string, note: Note, next: MemoryRecord): Io<string> =>
  Effect.gen(function*() {
    if ((next.updatedAt ?? 0) <= (note.record.updatedAt ?? 0)) {
      for (const location of history.locations(tenant, next.id)) {
        const kept = Option.getOrUndefined(yield* history.read(location))
        if (kept?.frame && Revision.isSameContent(kept.record, next)) {
          return Frontmatter.framed(kept.frame, kept.record.body)
        }
      }
      if (Revision.isSameContent(note.record, next)) return note.text
    }
    return yield* Either.mapLeft(ForeignEdit.edit(note.text, note.record, next), (issue) => invalid("commit", issue))
  })

/**
 * Returns the extra properties of a record that has no file: those of its last readable revision in the history. If another record had the
 * same id before, its properties are left out.
 */
const keptExtra = (history: History, tenant: string, { createdAt, id }: MemoryRecord): Io<Frontmatter.Extra> =>
  Effect.gen(function*() {
    for (const location of history.locations(tenant, id)) {
      const kept = Option.getOrUndefined(yield* history.read(location))
      if (kept !== undefined) return kept.record.createdAt === createdAt ? kept.extra : {}
    }
    return {}
  })

const isInUse = (fs: VaultFileSystem, path: string) =>
  Effect.map(fs.status(path), ({ isLink, stat }) => isLink || Option.isSome(stat))

const isSameScope = (one: MemoryRecord, other: MemoryRecord): boolean =>
  Layout.pathOf("default", one.scope, one.id) === Layout.pathOf("default", other.scope, one.id)

const conflict = (message: string, expected: number, actual: number) =>
  MemoryError.make("conflict", { op: "commit", message, detail: { expected, actual } })

/*
 * Completes a revision whose writer died too early: the revision is in the history, but perhaps not in the files. Only missing files,
 * incomplete files and files with the old text are changed. Any other text comes from a person or from git, and becomes the next revision.
 */

/** Prints the text of a record for the file at `path`. */
export type Print = (path: string, tenant: string, kept: WrittenRevision) => Io<string>

/** Writes or removes the files of one revision. `erased` are the revisions that the same batch erased. Needs the vault's lock. */
export const writeFiles = (
  fs: VaultFileSystem,
  history: History,
  print: Print,
  location: RevisionLocation,
  erased: ReadonlyArray<RevisionLocation>
): Io<void> =>
  Effect.gen(function*() {
    const { after, before, forgotten, removed, id, path, tenant } = location
    if (path !== null && before === after && removed.length === 0) return // the file already had this text, for example by an edit
    if (history.newest(tenant, id)?.batch !== location.batch && !isErasure(history, location)) return // a later batch has newer content
    const known = new Set([before, ...[...history.locations(tenant, id), ...erased].map((old) => old.after)])
    const status = (at: string) =>
      Effect.gen(function*() {
        // a path of no record, or below a link, is neither written nor removed
        if (!Layout.isRecord(at) || Option.isSome(yield* fs.linkAbove(at))) return undefined
        const stat = yield* fs.stat(at)
        if (Option.exists(stat, ({ type }) => type !== "File")) return undefined
        const bytes = yield* fs.readBytes(at)
        return { hash: Option.map(bytes, sha256).pipe(Option.getOrNull), isTorn: Option.exists(bytes, isTorn) }
      })
    for (const old of removed) {
      if (history.at(old)) continue
      const file = yield* status(old)
      if (file && file.hash !== null && (file.isTorn || known.has(file.hash))) {
        yield* fs.remove(old, { isFenced: true })
      }
    }
    if (path === null || after === null || forgotten) return
    const file = yield* status(path)
    if (!file || file.hash === after || (file.hash !== null && file.hash !== before && !file.isTorn)) return
    const kept = yield* history.read(location)
    if (Option.isNone(kept)) return
    const content = yield* print(path, tenant, kept.value)
    yield* fs.write(path, content, { force: false, isFenced: true })
  })

const isErasure = (history: History, { id, path, tenant }: RevisionLocation): boolean =>
  path === null && history.newest(tenant, id) === undefined

/** Whether a file looks like an unsynced file after a power loss: it is empty, or contains a NUL byte. */
const isTorn = (bytes: Uint8Array): boolean => bytes.length === 0 || bytes.includes(0)

/**
 * Undoes the file changes of a batch. A file in `before` gets its earlier content if the file now is as the batch left it. All other files
 * are skipped. `locations` are the revisions of the batch in the history. If no revision in `locations` has the path of a file, the batch
 * removed the file.
 */
export const rollBack = (
  fs: VaultFileSystem,
  locations: ReadonlyArray<RevisionLocation>,
  before: Before
): Io<void> =>
  Effect.forEach(before, ([path, { content }]) =>
    Effect.gen(function*() {
      const now = yield* fs.readBytes(path)
      const after = locations.find((location) => location.path === path)?.after ?? null
      if (Option.map(now, sha256).pipe(Option.getOrNull) !== after) return
      yield* content === null ? fs.remove(path, { isFenced: true }) : fs.write(path, content, { isFenced: true })
    }), { discard: true })

/** Removes the damaged files of these records that `Vault.repair` kept. An earlier release named them without the record's id. */
export const removeDamaged = (fs: VaultFileSystem, ids: Iterable<MemoryId>): Io<void> =>
  Effect.gen(function*() {
    for (const name of yield* fs.list(Layout.damaged)) {
      const path = `${Layout.damaged}/${name}`
      const text = name.includes("-") ? name : Option.getOrElse(yield* fs.readLoose(path), () => "")
      if (Array.from(ids).some((id) => text.includes(id))) yield* fs.discard(path)
    }
  })
