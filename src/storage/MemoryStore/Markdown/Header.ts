/**
 * What makes a folder a vault: the version of its format, and the key with which this vault signs. In two files with a
 * checksum each, so that one of them may be torn, empty, deleted or have a digit turned:
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
import { sha256 } from "../../../domain/Digest.ts"
import * as FormatVersion from "../../../domain/FormatVersion.ts"
import * as MemoryError from "../../../domain/MemoryError.ts"
import type { MemoryKind } from "../../../domain/MemoryKind.ts"
import * as SecureRandom from "../../../host/SecureRandom.ts"
import { type Disk, isTemporary } from "./Disk.ts"
import * as KeyCheck from "./KeyCheck.ts"
import { hidden } from "./Layout.ts"
import type { Lock } from "./Lock.ts"

/** Format 2 has a history (`History`); format 1 had a file of revisions per record (`Legacy`), and no checksum here. */
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
    const records = yield* KeyCheck.sealed(disk, 1)
    return summed({ version, key, notes: "whole", ...(records.length > 0 && { foreign: true as const }) })
  })

/** `undefined`: a key is to be drawn. */
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
      const isNew = !(yield* hasLived(disk)) || (yield* KeyCheck.sealed(disk, 1)).length === 0
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
        KeyCheck.judge(disk, { key: header.key, kinds }, { isChecked }),
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
      KeyCheck.judge(disk, { key, kinds }, { isChecked: true }),
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
    const isNewer = yield* Effect.flip(FormatVersion.refuseNewer(json.right, {
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
