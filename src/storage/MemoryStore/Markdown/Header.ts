/**
 * The header makes a folder a vault: the version of its format, and the key with which this vault signs. It stands in two
 * files with a checksum each, so that one of them may be torn, empty, deleted or have a digit turned:
 *
 * ```text
 * .effect-memory/vault.json        {"version":1,"key":"64 hex digits","checksum":"64 hex digits"}
 * .effect-memory/vault.copy.json   the same
 * ```
 *
 * Files of earlier releases have no checksum and no copy; both are added when they are opened. Where no key is left, or the
 * records were sealed with another, the vault does not open: docs/vault.md says what to do. `"key":"new"` draws a new one.
 */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Check from "../../../domain/Check.ts"
import { sha256 } from "../../../domain/Digest.ts"
import * as MemoryError from "../../../domain/MemoryError.ts"
import type { MemoryKind } from "../../../domain/MemoryKind.ts"
import * as SecureRandom from "../../../host/SecureRandom.ts"
import type { Disk } from "./Disk.ts"
import * as Document from "./Document.ts"
import * as Layout from "./Layout.ts"
import { hidden, isTemporary } from "./Layout.ts"
import type { Lock } from "./Lock.ts"
import * as Snapshot from "./Snapshot.ts"

/** Format 2 has a history (`History`); format 1 had a file of revisions per record (`Revisions`), and no checksum here. */
const version = 2
const file = `${hidden}/vault.json`
const copy = `${hidden}/vault.copy.json`

const Key = Schema.String.pipe(Schema.pattern(/^[0-9a-f]{64}$/))
const Header = Schema.Struct({
  version: Schema.Int,
  key: Key,
  /** The folder had records of another key when this one was drawn: that their seals do not hold is no damage. */
  foreign: Schema.optional(Schema.Literal(true)),
  /** The way in which notes are read, `Document.Context`; absent in vaults of earlier releases, whose answers stay as they were. */
  notes: Schema.optional(Schema.String),
  checksum: Schema.optional(Key)
})
/** The header of a vault: version, key, and the way in which notes are read. */
export type Header = typeof Header.Type

const Text = Schema.parseJson(Schema.Record({ key: Schema.String, value: Schema.Unknown }))
const decodeText = Schema.decodeEither(Text)
const decodeHeader = Schema.decodeUnknownEither(Header, { onExcessProperty: "error" })
/** Every header that is written was `summed`, so its keys stand in one order. */
const encode = (header: Header): string => JSON.stringify(header)

/** Content of one of the two files. */
type Reading =
  | { readonly _tag: "Absent" }
  | { readonly _tag: "Damaged" }
  | { readonly _tag: "Newer"; readonly error: MemoryError.MemoryError }
  | { readonly _tag: "Renew" }
  | { readonly _tag: "Sound"; readonly header: Header; readonly text: string }

/** A header to go on with, and whether both files have it already. */
interface Decision {
  readonly header: Header
  readonly isWhole: boolean
}

/**
 * Opens the vault of a folder, or makes it one: the key is drawn once, by whoever comes first. A newer version is
 * `unsupported`, and nothing is touched. A file that is damaged is written anew from the other one. `corrupt` where no key
 * is left though records were sealed, or where the key is not the one that sealed them.
 */
export const open = (
  disk: Disk,
  lock: Lock,
  kinds: ReadonlyMap<string, MemoryKind>
): Effect.Effect<Header, MemoryError.MemoryError> =>
  Effect.gen(function*() {
    const known = yield* decide(disk, kinds)
    if (known?.isWhole) return known.header
    yield* disk.makeFolder(hidden)
    const write = lock.withLock(Effect.gen(function*() {
      const decision = yield* decide(disk, kinds)
      if (decision?.isWhole) return decision.header
      const header = decision?.header ?? (yield* drawn(disk))
      yield* disk.write(`${hidden}/.gitignore`, "*\n")
      // the copy first: a reader between the two finds what is there already, or nothing yet
      yield* disk.write(copy, encode(header))
      yield* disk.write(file, encode(header))
      return header
    }))
    return known === undefined ? yield* write : yield* Effect.catchAll(
      write,
      (error) =>
        error.reason === "corrupt" || error.reason === "unsupported"
          ? Effect.fail(error)
          : Effect.as(Effect.logDebug("the vault's key has no second copy yet", error), known.header)
    )
  })

const drawn = (disk: Disk) =>
  Effect.gen(function*() {
    const key = yield* SecureRandom.secret
    const records = yield* sealed(disk, 1)
    return summed({ version, key, notes: "whole", ...(records.length > 0 && { foreign: true as const }) })
  })

/** Decides with which header to open the vault; `undefined`: a key is to be drawn. */
const decide = (
  disk: Disk,
  kinds: ReadonlyMap<string, MemoryKind>
): Effect.Effect<Decision | undefined, MemoryError.MemoryError> =>
  Effect.gen(function*() {
    const readings = yield* Effect.forEach([file, copy], (path) => reading(disk, path), { concurrency: 2 })
    for (const one of readings) if (one._tag === "Newer") return yield* one.error
    if (readings[0]?._tag === "Renew") return undefined
    const sound = readings.flatMap((one) => one._tag === "Sound" ? [one.header] : [])
    if (sound.length === 0) {
      const isNew = !(yield* hasLived(disk)) || (yield* sealed(disk, 1)).length === 0
      return isNew ? undefined : yield* stopped(`${file} and ${copy} hold no key that can be read`)
    }
    const [only, ...others] = distinct(sound)
    if (only !== undefined && others.length === 0 && isWhole(summed(only), readings)) {
      return { header: only, isWhole: true } // `confirm` judges it, where nothing else speaks for it
    }
    const judged = yield* Effect.forEach(distinct(sound), (header) => {
      const isChecked = header.checksum !== undefined
      if (header.foreign) return Effect.succeed({ header, holds: false, fits: true })
      return Effect.map(
        judge(disk, { key: header.key, kinds }, { isChecked }),
        ({ fits, holds, strangers }) => ({
          header: isChecked || holds || !strangers ? header : { ...header, foreign: true as const },
          holds,
          fits
        })
      )
    })
    const chosen = judged.find(({ holds }) => holds) ??
      judged.find(({ fits, header }) => fits && header.checksum !== undefined) ??
      judged.find(({ fits }) => fits)
    if (chosen === undefined) return yield* stranger
    const header = summed(chosen.header)
    return { header, isWhole: isWhole(header, readings) }
  })

/** Whether both files say this, in these words. */
const isWhole = (header: Header, readings: ReadonlyArray<Reading>): boolean =>
  readings.every((one) => one._tag === "Sound" && one.text === encode(header))

/**
 * Fails with `corrupt` where the key of a vault that was opened is not the one that sealed its records. Cost: a few of their
 * files, as a rule.
 */
export const confirm = (
  disk: Disk,
  { foreign, key }: Header,
  kinds: ReadonlyMap<string, MemoryKind>
): Effect.Effect<void, MemoryError.MemoryError> =>
  foreign
    ? Effect.void
    : Effect.flatMap(
      judge(disk, { key, kinds }, { isChecked: true }),
      ({ fits }) => fits ? Effect.void : stranger
    )

/** One header per key: of two with the same key, the one with a checksum. */
const distinct = (headers: ReadonlyArray<Header>): ReadonlyArray<Header> =>
  headers.filter((one, n) =>
    !headers.some((other, m) =>
      other.key === one.key && m !== n &&
      (one.checksum === other.checksum ? m < n : one.checksum === undefined)
    )
  )

const reading = (disk: Disk, path: string): Effect.Effect<Reading, MemoryError.MemoryError> =>
  Effect.gen(function*() {
    const stat = yield* disk.stat(path)
    if (Option.isNone(stat)) return { _tag: "Absent" }
    if (stat.value.type !== "File") return { _tag: "Damaged" }
    const text = yield* disk.readLoose(path)
    if (Option.isNone(text)) return { _tag: "Absent" }
    const json = decodeText(text.value)
    if (Either.isLeft(json)) return { _tag: "Damaged" }
    const ours = decodeHeader({ ...json.right, version })
    if (Either.isRight(ours)) {
      const header = summed(ours.right)
      // a version with the checksum of ours is ours, and a digit of it was turned
      if (header.checksum === ours.right.checksum) return { _tag: "Sound", header, text: text.value }
      if (json.right["version"] === version || json.right["version"] === 1) {
        return ours.right.checksum === undefined
          ? { _tag: "Sound", header: ours.right, text: text.value }
          : { _tag: "Damaged" }
      }
    }
    const isNewer = yield* Effect.flip(Check.refuseNewer(json.right, {
      op: "open",
      what: "the vault",
      known: version
    })).pipe(Effect.option)
    if (Option.isSome(isNewer) && typeof json.right["version"] === "number") {
      return { _tag: "Newer", error: isNewer.value }
    }
    return json.right["key"] === "new" ? { _tag: "Renew" } : { _tag: "Damaged" }
  })

const summed = ({ foreign, key, notes }: Omit<Header, "checksum">): Header => ({
  version,
  key,
  ...(foreign && { foreign }),
  ...(notes !== undefined && { notes }),
  checksum: sha256(JSON.stringify(["effect-memory vault", version, key, foreign ?? false, notes ?? null]))
})

/** Whether the hidden folder holds more than what a process leaves that died while it made the vault. */
const hasLived = (disk: Disk): Effect.Effect<boolean, MemoryError.MemoryError> =>
  Effect.map(
    disk.list(hidden),
    (names) =>
      names.some((name) => name !== ".gitignore" && name !== "turns" && !name.startsWith("lock") && !isTemporary(name))
  )

const stranger = Effect.suspend(() => stopped(`the key in ${file} is not the one that sealed the records`))

const stopped = (why: string) =>
  MemoryError.make("corrupt", {
    op: "open",
    message: `${why}: restore ${file} from a backup, or write {"version":2,"key":"new"} into it and remove ${copy}; ` +
      "then every record counts as of origin file and trust 2 (docs/vault.md)",
    detail: { location: file }
  })

/*
 * Whether a key is the one that sealed a vault's records. A wrong key would turn every record into one of origin `file` and
 * trust 2, and nobody would be told.
 */

type Io<A> = Effect.Effect<A, MemoryError.MemoryError>

/** A record's file that says it was sealed. */
interface Sealed {
  readonly path: string
  readonly text: string
  /** Epoch ms. */
  readonly mtime: number
}

/** Most files, and most folders, that are looked at. */
const most = 256
/** Milliseconds between the time that a record says it was written and that of its file, if nobody has touched it since. */
const moment = 2_000
/** Number of untouched files that have to contradict a key whose checksum holds. */
const many = 8

/**
 * Record files that say they were sealed, at most `limit`, of the folders that the library writes to. Reads at most `most`
 * files and lists as many folders, none of them behind a link.
 */
const sealed = (disk: Disk, limit: number): Effect.Effect<ReadonlyArray<Sealed>> =>
  Effect.gen(function*() {
    const found: Array<Sealed> = []
    const folders = Layout.roots.slice()
    let left = most
    for (let listed = 0; folders.length > 0 && listed < most; listed++) {
      const folder = folders.pop()! // there is one
      if (yield* available(disk.isLink(folder), true)) continue
      for (const name of yield* available(disk.list(folder), [])) {
        const path = `${folder}/${name}`
        if (!name.endsWith(".md")) folders.push(path)
        else if (Layout.placeOf(path).id !== undefined) {
          if (left-- === 0) return found
          found.push(...yield* sealedAt(disk, path))
          if (found.length === limit) return found
        }
      }
    }
    return found
  })

const sealedAt = (disk: Disk, path: string): Effect.Effect<ReadonlyArray<Sealed>> =>
  Effect.gen(function*() {
    const stat = yield* available(disk.stat(path), Option.none())
    if (!Option.exists(stat, ({ size, type }) => type === "File" && size <= largest)) return []
    const text = Option.getOrElse(yield* available(disk.read(path), Option.none()), () => "")
    return /^hash: ["']?[0-9a-f]{64}["']?\r?$/m.test(text)
      ? [{ path, text, mtime: Option.getOrThrow(stat).mtime }]
      : []
  })
const largest = 262_144

/** Returns `otherwise`, and logs the error, where something cannot be read now: it says nothing about the key. */
const available = <A>(self: Io<A>, otherwise: A): Effect.Effect<A> =>
  Effect.catchAll(self, (error) => Effect.as(Effect.logDebug("left out of the check of the key", error), otherwise))

interface Verdict {
  /** Whether a seal holds, or the signature of the snapshot. */
  readonly holds: boolean
  /** Whether nothing speaks against the key. */
  readonly fits: boolean
  /** Whether some records were sealed with another key, or edited. */
  readonly strangers: boolean
}

/** Number of files that are enough, as a rule. */
const few = 4

/**
 * Judges a key by the records. One seal that holds is proof enough. Where none does, the signature of the snapshot decides;
 * else files that were last changed when the library wrote them, since a hand has not edited those: a single one
 * speaks against a key that has no checksum, eight against a key whose checksum holds.
 */
const judge = (
  disk: Disk,
  context: Document.Context,
  { isChecked }: { readonly isChecked: boolean }
): Effect.Effect<Verdict> =>
  Effect.gen(function*() {
    for (const limit of [few, most]) {
      const { holds, strangers, untouched } = weighed(context, yield* sealed(disk, limit))
      if (holds || !strangers) return { holds, fits: true, strangers }
      if (limit < most) continue
      const signed = yield* available(Snapshot.signedBy(disk, context.key), undefined)
      if (signed === true) return { holds: true, fits: true, strangers }
      const fits = isChecked ? untouched < many : signed === undefined && untouched === 0
      return { holds: false, fits, strangers }
    }
    return { holds: false, fits: true, strangers: false }
  })

const weighed = (context: Document.Context, records: ReadonlyArray<Sealed>) => {
  let untouched = 0
  let strangers = false
  for (const { mtime, path, text } of records) {
    const parsed = Document.parse(context, path, text, mtime)
    if (Either.isLeft(parsed)) continue
    if (parsed.right.signed) return { holds: true, strangers, untouched }
    strangers = true
    const { createdAt, updatedAt = createdAt } = parsed.right.record
    if (Math.abs(mtime - updatedAt) <= moment) untouched++
  }
  return { holds: false, strangers, untouched }
}
