/** Reads a file of the vault as what it is: a record, with the revision that it counts as, or none. */
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
import type { History, Place } from "./History.ts"
import * as Layout from "./Layout.ts"
import { type Bad, type Entry, isNote, maxBytes, nowhere, type Seen, type Text, textOf } from "./VaultFile.ts"
import * as VaultFile from "./VaultFile.ts"
import { isSameStat, type Stat, type VaultFileSystem } from "./VaultFileSystem.ts"

type Io<A> = Effect.Effect<A, MemoryError.MemoryError>

/** The vault as its state knows it. */
export interface Known {
  readonly entry: (tenant: string, id: MemoryId) => Entry | undefined
  readonly file: (path: string) => Entry | Bad | undefined
  readonly rowOf: (tenant: string, record: MemoryRecord) => Stored
}

/** Reads the files of a vault for its state. */
export interface FileReader {
  /** Looks at a file; `undefined` where there is none. `listed`: come by from the root, with no link on the way. */
  readonly examine: (path: string, listed: boolean) => Io<Entry | Bad | undefined>
  /** Reads a text as the note that `known` is. Left: why it is no record. */
  readonly entryOf: (
    seen: Seen,
    text: Text,
    known: KnownNote | undefined
  ) => Io<Either.Either<Entry, string>>
  /** The last revision that the history has of a file that cannot be read. */
  readonly lastGood: (
    path: string,
    place: Place,
    seen: Pick<Entry, "stat" | "settled" | "hash" | "damage">
  ) => Io<Entry | undefined>
  /** Whether the history has a later revision of a note, which its author's text need not show. */
  readonly isBehind: (known: Entry | Bad) => boolean
  /** Begins a scan: the history may have grown since the last one. */
  readonly begin: () => void
}

/** Milliseconds in which two changes of a file may share an mtime. */
const racy = 2_000

/** Makes the reader of a vault. `vault` is asked what is known of a file or a record. */
export const make = (fs: VaultFileSystem, history: History, context: Document.Context, vault: Known): FileReader => {
  const { entry, file, rowOf } = vault
  const identity = makeIdentity(context, history, vault)

  const isBehind = (known: Entry | Bad): boolean =>
    known._tag === "Entry" && known.frame !== undefined &&
    (history.at(known.path)?.revision ?? 0) > known.row.record.revision

  const lastGood: FileReader["lastGood"] = (path, place, seen) =>
    Effect.map(history.read(place), (kept) =>
      Option.match(kept, {
        onNone: () => undefined,
        onSome: ({ extra, frame, record }) => ({
          _tag: "Entry" as const,
          path,
          tenant: place.tenant,
          signed: true,
          row: rowOf(place.tenant, record),
          extra,
          ...(frame && { frame }),
          ...seen
        })
      }))

  /**
   * The revision that a text counts as. What the history has is what it has; what we wrote and it does not know counts as
   * it says, if it is newer; anything else a hand wrote, or brought back: the next revision. `same`: the record of a note
   * whose text is what it was, and whose file lies elsewhere now, or was away.
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
        // the same revision with keys of nobody's, or in other words of YAML
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
      /** A file that the history knows keeps its last good revision; any other is no record. */
      const bad = (stat: Stat, settled: boolean, error: MemoryError.MemoryError, hash = "") =>
        Effect.gen(function*() {
          const damage = known?._tag === "Entry" && known.damage?.message === error.message ? known.damage : error
          const place = history.at(path)
          if (known?._tag === "Entry" && place && place.id === known.row.record.id) {
            return { ...known, stat, settled, hash, damage }
          }
          const last = place ? yield* lastGood(path, place, { stat, settled, hash, damage }) : undefined
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
      const place = history.at(path)
      const damage = place && place.after !== hash ? VaultFile.damageIn(text) : undefined
      if (damage !== undefined) return yield* no(damage, hash)
      const made = yield* entryOf({ path, stat, settled }, read.right.value, yield* identity.of(path, hash))
      return Either.isLeft(made) ? yield* no(made.left, hash) : made.right
    })

  return { examine, entryOf, lastGood, isBehind, begin: identity.reset }
}

const noValidation = { disableValidation: true }

/*
 * Tells which record the note at a path is. Its id comes from the path where the note was found, and stays when the note
 * moves; so the history, which binds ids to paths, is asked first.
 *
 * ```text
 * known         the record whose file the path is, by the last scan or by the history, whichever is newer
 * departed      the forgotten record whose file lay there last, if the text is what it was then
 * new           an id made of the path; a further one where a note that moved away still has it
 * ```
 */

/** The record that a note continues. */
export interface KnownNote extends ForeignNote.Previous {
  /** Whether the text is what it was: then the record is, too, but for what it has from its path. */
  readonly isSame: boolean
}

/** Tells which record a note is. */
export interface NoteIdentity {
  /** The record that the note at `path` continues, given the hash of its text; `undefined` for a new note and a file of ours. */
  readonly of: (path: string, hash: string) => Effect.Effect<KnownNote | undefined, MemoryError.MemoryError>
  /** The record of a new note, with an id that no other record has. */
  readonly fresh: (tenant: string, path: string, record: MemoryRecord) => MemoryRecord
  /** Forgets what was derived from the history, which may have grown. */
  readonly reset: () => void
}

/** Makes the identity of a vault's notes, by the last scan and the history. */
export const makeIdentity = (
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
  const read = (place: Place, isSame: boolean): Effect.Effect<KnownNote | undefined, MemoryError.MemoryError> =>
    Effect.map(history.read(place), (kept) =>
      Option.match(kept, {
        onNone: () => undefined,
        onSome: ({ frame, record }) => ({ record, properties: frame && Frontmatter.propertiesOf(frame), isSame })
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
          return Effect.succeed({
            record,
            properties: frame && Frontmatter.propertiesOf(frame),
            isSame: known.hash === hash
          })
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
