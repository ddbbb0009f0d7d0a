/** Reads files of the vault. Determines which record a file contains, if any, and which revision of the record. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import { canonicalJson } from "../../../domain/Digest.ts"
import type * as MemoryError from "../../../domain/MemoryError.ts"
import type { MemoryId } from "../../../domain/MemoryId.ts"
import { MemoryRecord } from "../../../domain/MemoryRecord.ts"
import type { Json } from "../../../domain/Payload.ts"
import { formerNames } from "../../Links.ts"
import type { Stored } from "../../MemoryStore.ts"
import * as Document from "./Document.ts"
import type { Context } from "./Document.ts"
import type * as ForeignNote from "./ForeignNote.ts"
import { fileNameOf } from "./ForeignNote.ts"
import * as Frontmatter from "./Frontmatter.ts"
import type { History, RevisionLocation } from "./History.ts"
import * as Layout from "./Layout.ts"
import { type Bad, type Entry, isNote, maxBytes, nowhere, type Seen, type Text, textOf } from "./VaultFile.ts"
import * as VaultFile from "./VaultFile.ts"
import { isSameStat, type Stat, type VaultFileSystem } from "./VaultFileSystem.ts"

type Io<A> = Effect.Effect<A, MemoryError.MemoryError>

/** The part of the vault's state that a reader needs: the known records and files. */
export interface Known {
  readonly entry: (tenant: string, id: MemoryId) => Entry | undefined
  readonly file: (path: string) => Entry | Bad | undefined
  readonly rowOf: (tenant: string, record: MemoryRecord) => Stored
}

/** Reads files of a vault, and makes the entries of the vault's state from them. */
export interface FileReader {
  /**
   * Reads a file; `undefined` if there is none, or if a folder above it is a symbolic link. The folders are not checked if `listed` is
   * true, that is, if a scan from the vault's root found the file.
   */
  readonly examine: (path: string, listed: boolean) => Io<Entry | Bad | undefined>
  /**
   * Makes the entry of a file from its text. `Left` is the reason why the text is not a record. `known` is the record to which a note
   * already belongs. For a new note, and for a file that is not a note, `known` is `undefined`.
   */
  readonly entryOf: (
    seen: Seen,
    text: Text,
    known: KnownNote | undefined
  ) => Io<Either.Either<Entry, string>>
  /** Makes the entry of an unreadable file from its last revision in the history. `undefined` if that revision is unreadable, too. */
  readonly lastGood: (
    path: string,
    location: RevisionLocation,
    seen: Pick<Entry, "stat" | "settled" | "hash" | "damage">
  ) => Io<Entry | undefined>
  /** Whether the history has a newer revision of a note than the file. The record then cannot be read from the file alone. */
  readonly isBehind: (known: Entry | Bad) => boolean
  /** Starts a scan. Clears the caches that were computed from the history, since the history may have grown. */
  readonly begin: () => void
}

/** Time in milliseconds within which two changes of a file may have the same mtime. A file that changed so recently is read again. */
const racy = 2_000

/** Makes the reader of a vault. `vault` returns what is known about a file or a record. */
export const make = (fs: VaultFileSystem, history: History, context: Document.Context, vault: Known): FileReader => {
  const { entry, file, rowOf } = vault
  const identity = makeIdentity(context, history, vault)

  const isBehind = (known: Entry | Bad): boolean =>
    known._tag === "Entry" && known.frame !== undefined &&
    (history.at(known.path)?.revision ?? 0) > known.row.record.revision

  const lastGood: FileReader["lastGood"] = (path, location, seen) =>
    Effect.map(history.read(location), (kept) =>
      Option.match(kept, {
        onNone: () => undefined,
        onSome: ({ extra, frame, record }) => ({
          _tag: "Entry" as const,
          path,
          tenant: location.tenant,
          signed: true,
          row: rowOf(location.tenant, record),
          extra,
          ...(frame && { frame }),
          ...seen
        })
      }))

  /**
   * Returns the record with its revision number. If the text has the hash of the newest revision in the history, it is that revision. A
   * signed text keeps the number that it states, if all known revisions have lower numbers. Most other texts come from a person, and become
   * the next revision. `same` is the record of a note whose text is unchanged, but whose file was moved or was missing for a while.
   */
  const counted = (
    { record, signed, tenant }: Document.Parsed,
    path: string,
    mtime: number,
    hash: string,
    same: MemoryRecord | undefined
  ) =>
    Effect.gen(function*() {
      const last = entry(tenant, record.id)?.row.record.revision ?? 0
      const newest = history.newest(tenant, record.id)
      if (newest && !newest.forgotten && newest.after === hash && (same === undefined || newest.path === path)) {
        if (signed && record.revision === newest.revision) return { record, signed }
        const kept = yield* history.read(newest)
        if (Option.isSome(kept)) return { record: kept.value.record, signed: true }
      }
      const known = Math.max(last, newest?.revision ?? 0)
      if (same !== undefined) {
        const updatedAt = Math.max(Math.floor(mtime), same.createdAt, same.updatedAt ?? 0)
        return { record: new MemoryRecord({ ...same, updatedAt, revision: known + 1 }, noValidation), signed: true }
      }
      if (signed && (record.revision > known || (newest === undefined && record.revision === last))) {
        return { record, signed }
      }
      if (signed && newest?.revision === record.revision && !newest.forgotten && last <= record.revision) {
        const kept = yield* history.read(newest)
        // the record is the same: a person only added properties to the text, or formatted its YAML differently
        if (Option.exists(kept, (old) => canonicalJson(old.record) === canonicalJson(record))) return { record, signed }
      }
      if (!signed && known === 0) return { record, signed }
      const updatedAt = Math.max(Math.floor(mtime), record.createdAt)
      return { record: new MemoryRecord({ ...record, updatedAt, revision: known + 1 }, noValidation), signed: false }
    })

  const entryOf: FileReader["entryOf"] = (seen, { hash, loss, text }, known) =>
    Effect.gen(function*() {
      const { path, stat } = seen
      const parsed = Document.parse(context, path, text, stat.mtime, known)
      if (Either.isLeft(parsed)) return Either.left(parsed.left)
      const { extra, frame, isPartial, isSealed, tenant } = parsed.right
      const found = known ? parsed.right.record : identity.fresh(tenant, path, parsed.right.record)
      const { record, signed } = yield* counted(
        { ...parsed.right, record: found },
        path,
        stat.mtime,
        hash,
        known?.isSame === true ? known.record : undefined
      )
      const issues = [...(loss ?? []), ...(parsed.right.issues ?? [])]
      return Either.right({
        ...{ _tag: "Entry" as const, ...seen, hash, tenant, signed, isSealed, row: rowOf(tenant, record), extra },
        ...(frame && loss === undefined && { frame }),
        ...(issues.length > 0 && { issues }),
        ...((isPartial === true || loss !== undefined) && { isPartial: true })
      })
    })

  const examine: FileReader["examine"] = (path, listed) =>
    Effect.gen(function*() {
      if (!listed && Option.isSome(yield* fs.linkAbove(path))) return undefined
      const { isLink, stat: found } = yield* fs.status(path)
      const known = file(path)
      /**
       * Returns the last good revision of a file that cannot be read, together with the error. If the history has no readable revision of
       * the file, returns only the error.
       */
      const bad = (stat: Stat, settled: boolean, error: MemoryError.MemoryError, hash = "") =>
        Effect.gen(function*() {
          const damage = known?._tag === "Entry" && known.damage?.message === error.message ? known.damage : error
          const location = history.at(path)
          if (known?._tag === "Entry" && location && location.id === known.row.record.id) {
            return { ...known, stat, settled, hash, damage }
          }
          const last = location ? yield* lastGood(path, location, { stat, settled, hash, damage }) : undefined
          if (last) return last
          return known?._tag === "Bad" && known.error.message === error.message
            ? { ...known, stat, settled }
            : { _tag: "Bad" as const, path, stat, settled, error }
        })
      if (Option.isNone(found) || found.value.type === "Directory") {
        if (isLink) return yield* bad(nowhere, false, VaultFile.corrupt(path, "a link"))
        return Option.isSome(found) && path.endsWith(".md")
          ? yield* bad(nowhere, false, VaultFile.corrupt(path, "a folder"))
          : undefined
      }
      const { type, ...stat } = found.value
      const settled = stat.mtime < (yield* Clock.currentTimeMillis) - racy
      const no = (message: string, hash = "") => bad(stat, settled, VaultFile.corrupt(path, message), hash)
      if (isLink) return yield* no("a link")
      if (type !== "File") return yield* no("no file")
      if (stat.size > maxBytes && !isNote(context, path)) return yield* no("too large")
      const read = yield* Effect.either(textOf(fs, context, path, stat.size))
      if (Either.isLeft(read)) {
        return yield* read.left.reason === "corrupt" ? bad(stat, settled, read.left) : read.left
      }
      if (Option.isNone(read.right)) return undefined
      const { hash, text } = read.right.value
      if (known?._tag === "Entry" && known.hash === hash && !isBehind(known)) {
        return known.settled && isSameStat(known.stat, stat) ? known : { ...known, stat, settled }
      }
      const location = history.at(path)
      const damage = location && location.after !== hash ? VaultFile.damageIn(text) : undefined
      if (damage !== undefined) return yield* no(damage, hash)
      const made = yield* entryOf({ path, stat, settled }, read.right.value, yield* identity.of(path, hash))
      return Either.isLeft(made) ? yield* no(made.left, hash) : made.right
    })

  return { examine, entryOf, lastGood, isBehind, begin: identity.reset }
}

const noValidation = { disableValidation: true }

/*
 * Finds the record of a note. A note is a file that the library did not write. The id of a new note is derived from its path, and stays the
 * same when the note moves. So the record is first looked up by the note's path, in the last scan and in the history.
 *
 * ```text
 * known         the record that had this path in the last scan or in the history, whichever of the two is newer
 * departed      the forgotten record whose last file was at this path, if the text has not changed since
 * new           an id derived from the path, with a number if a note that moved away still has that id
 * ```
 */

/** The record of a note that is not new. The note's text is the current or the next revision of this record. */
export interface KnownNote extends ForeignNote.Previous {
  /** Whether the text is known to be unchanged. If so, the record is unchanged, too, except for fields that are derived from the path. */
  readonly isSame: boolean
}

/** Finds the records of notes. A note is a file that the library did not write. */
export interface NoteIdentity {
  /**
   * Returns the record to which the note at `path` already belongs. Returns `undefined` if no such record can be read, or if the path is
   * not that of a note. `hash` is the hash of the note's text.
   */
  readonly of: (path: string, hash: string) => Effect.Effect<KnownNote | undefined, MemoryError.MemoryError>
  /**
   * Returns the record of a new note. If its id is derived from the path, and a note that has moved away has this id, the record gets
   * another id. Any other record is returned unchanged.
   */
  readonly fresh: (tenant: string, path: string, record: MemoryRecord) => MemoryRecord
  /** Clears the caches that were computed from the history. */
  readonly reset: () => void
}

/** Makes the `NoteIdentity` of a vault, which uses the files of the last scan and the history. */
export const makeIdentity = (
  context: Context,
  history: History,
  { entry, file }: {
    readonly entry: (tenant: string, id: MemoryId) => Entry | undefined
    readonly file: (path: string) => Entry | Bad | undefined
  }
): NoteIdentity => {
  /**
   * Maps a path to the forgotten records whose last file was at this path. Each record is given as the location of its last revision that
   * had a file. Computed when first needed, from all records of the history.
   */
  let departed: ReadonlyMap<string, ReadonlyArray<RevisionLocation>> | undefined
  const departedFrom = (path: string): ReadonlyArray<RevisionLocation> => {
    if (departed === undefined) {
      const made = new Map<string, Array<RevisionLocation>>()
      for (const tenant of history.tenants()) {
        for (const { forgotten, id } of history.all(tenant)) {
          const last = forgotten ? history.locations(tenant, id).find((location) => location.path !== null) : undefined
          if (last?.path) made.set(last.path, [...made.get(last.path) ?? [], last])
        }
      }
      departed = made
    }
    return departed.get(path) ?? []
  }
  const read = (
    location: RevisionLocation,
    isSame: boolean
  ): Effect.Effect<KnownNote | undefined, MemoryError.MemoryError> =>
    Effect.map(history.read(location), (kept) =>
      Option.match(kept, {
        onNone: () => undefined,
        onSome: ({ frame, record }) => ({ record, properties: frame && Frontmatter.propertiesOf(frame), isSame })
      }))
  const isTaken = (tenant: string, id: MemoryId, path: string): boolean => {
    const last = entry(tenant, id)?.path ??
      history.locations(tenant, id).find((location) => location.path !== null)?.path
    return typeof last === "string" && last.normalize("NFC") !== path.normalize("NFC")
  }

  return {
    of: (path, hash) => {
      if (!isNote(context, path)) return Effect.succeed(undefined)
      const known = file(path)
      const location = history.at(path)
      if (known?._tag === "Entry") {
        const { frame, row: { record } } = known
        if (location === undefined || (location.id === record.id && location.revision <= record.revision)) {
          return Effect.succeed({
            record,
            properties: frame && Frontmatter.propertiesOf(frame),
            isSame: known.hash === hash
          })
        }
      }
      // `false` (the text may have changed) is always safe, since the caller compares the hash of the text with the history
      if (location !== undefined) return read(location, false)
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

/** Largest number of former names that are kept for a note. A link to a former name still finds the note. */
const maxNames = 16

/** Returns the record of a note whose file was moved from the path `from` to the path `to`. */
export const moved = (record: MemoryRecord, from: string, to: string): MemoryRecord => {
  const [last, name] = [fileNameOf(from), fileNameOf(to)]
  const known = record.metadata[formerNames]
  const names = [...(Array.isArray(known) ? known as ReadonlyArray<Json> : []), last] // the cast is safe: metadata is JSON
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
