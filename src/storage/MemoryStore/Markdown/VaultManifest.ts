/**
 * The manifest makes a folder a vault: the version of its format, and the key with which this vault signs. It stands in two
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
import { sha256 } from "../../../domain/Digest.ts"
import * as MemoryError from "../../../domain/MemoryError.ts"
import type { MemoryKind } from "../../../domain/MemoryKind.ts"
import * as Validation from "../../../domain/Validation.ts"
import * as SecureRandom from "../../../host/SecureRandom.ts"
import * as Document from "./Document.ts"
import * as Layout from "./Layout.ts"
import { hidden, isTemporary } from "./Layout.ts"
import type { Lock } from "./Lock.ts"
import * as Snapshot from "./Snapshot.ts"
import type { VaultFileSystem } from "./VaultFileSystem.ts"

/** Format 2 has a history (`History`); format 1 had a file of revisions per record (`RevisionReader`), and no checksum here. */
const version = 2
const file = `${hidden}/vault.json`
const copy = `${hidden}/vault.copy.json`

const Key = Schema.String.pipe(Schema.pattern(/^[0-9a-f]{64}$/))
const VaultManifest = Schema.Struct({
  version: Schema.Int,
  key: Key,
  /** The folder had records of another key when this one was drawn: that their seals do not hold is no damage. */
  foreign: Schema.optional(Schema.Literal(true)),
  /** The way in which notes are read, `Document.Context`; absent in vaults of earlier releases, whose answers stay as they were. */
  notes: Schema.optional(Schema.String),
  checksum: Schema.optional(Key)
})
/** The manifest of a vault: version, key, and the way in which notes are read. */
export type VaultManifest = typeof VaultManifest.Type

const Text = Schema.parseJson(Schema.Record({ key: Schema.String, value: Schema.Unknown }))
const decodeText = Schema.decodeEither(Text)
const decodeManifest = Schema.decodeUnknownEither(VaultManifest, { onExcessProperty: "error" })
/** Every manifest that is written was `summed`, so its keys stand in one order. */
const encode = (manifest: VaultManifest): string => JSON.stringify(manifest)

/** Content of one of the two files. */
type Reading =
  | { readonly _tag: "Absent" }
  | { readonly _tag: "Damaged" }
  | { readonly _tag: "Newer"; readonly error: MemoryError.MemoryError }
  | { readonly _tag: "Renew" }
  | { readonly _tag: "Sound"; readonly manifest: VaultManifest; readonly text: string }

/** A manifest to go on with, and whether both files have it already. */
interface Decision {
  readonly manifest: VaultManifest
  readonly isWhole: boolean
}

/**
 * Opens the vault of a folder, or makes it one: the key is drawn once, by whoever comes first. A newer version is
 * `unsupported`, and nothing is touched. A file that is damaged is written anew from the other one. `corrupt` where no key
 * is left though records were sealed, or where the key is not the one that sealed them.
 */
export const open = (
  fs: VaultFileSystem,
  lock: Lock,
  kinds: ReadonlyMap<string, MemoryKind>
): Effect.Effect<VaultManifest, MemoryError.MemoryError> =>
  Effect.gen(function*() {
    const known = yield* decide(fs, kinds)
    if (known?.isWhole) return known.manifest
    yield* fs.makeFolder(hidden)
    const write = lock.withLock(Effect.gen(function*() {
      const decision = yield* decide(fs, kinds)
      if (decision?.isWhole) return decision.manifest
      const manifest = decision?.manifest ?? (yield* drawn(fs))
      yield* fs.write(`${hidden}/.gitignore`, "*\n")
      // the copy first: a reader between the two finds what is there already, or nothing yet
      yield* fs.write(copy, encode(manifest))
      yield* fs.write(file, encode(manifest))
      return manifest
    }))
    return known === undefined ? yield* write : yield* Effect.catchAll(
      write,
      (error) =>
        error.reason === "corrupt" || error.reason === "unsupported"
          ? Effect.fail(error)
          : Effect.as(Effect.logDebug("the vault's key has no second copy yet", error), known.manifest)
    )
  })

const drawn = (fs: VaultFileSystem) =>
  Effect.gen(function*() {
    const key = yield* SecureRandom.secret
    const records = yield* sealed(fs, 1)
    return summed({ version, key, notes: "whole", ...(records.length > 0 && { foreign: true as const }) })
  })

/** Decides with which manifest to open the vault; `undefined`: a key is to be drawn. */
const decide = (
  fs: VaultFileSystem,
  kinds: ReadonlyMap<string, MemoryKind>
): Effect.Effect<Decision | undefined, MemoryError.MemoryError> =>
  Effect.gen(function*() {
    const readings = yield* Effect.forEach([file, copy], (path) => reading(fs, path), { concurrency: 2 })
    for (const one of readings) if (one._tag === "Newer") return yield* one.error
    if (readings[0]?._tag === "Renew") return undefined
    const sound = readings.flatMap((one) => one._tag === "Sound" ? [one.manifest] : [])
    if (sound.length === 0) {
      const isNew = !(yield* hasLived(fs)) || (yield* sealed(fs, 1)).length === 0
      return isNew ? undefined : yield* stopped(`${file} and ${copy} hold no key that can be read`)
    }
    const [only, ...others] = distinct(sound)
    if (only !== undefined && others.length === 0 && isWhole(summed(only), readings)) {
      return { manifest: only, isWhole: true } // `confirm` judges it, where nothing else speaks for it
    }
    const judged = yield* Effect.forEach(distinct(sound), (manifest) => {
      const isChecked = manifest.checksum !== undefined
      if (manifest.foreign) return Effect.succeed({ manifest, holds: false, fits: true })
      return Effect.map(
        judge(fs, { key: manifest.key, kinds }, { isChecked }),
        ({ fits, holds, strangers }) => ({
          manifest: isChecked || holds || !strangers ? manifest : { ...manifest, foreign: true as const },
          holds,
          fits
        })
      )
    })
    const chosen = judged.find(({ holds }) => holds) ??
      judged.find(({ fits, manifest }) => fits && manifest.checksum !== undefined) ??
      judged.find(({ fits }) => fits)
    if (chosen === undefined) return yield* stranger
    const manifest = summed(chosen.manifest)
    return { manifest, isWhole: isWhole(manifest, readings) }
  })

/** Whether both copies of the manifest can be read, and hold exactly this text. */
const isWhole = (manifest: VaultManifest, readings: ReadonlyArray<Reading>): boolean =>
  readings.every((one) => one._tag === "Sound" && one.text === encode(manifest))

/**
 * Fails with `corrupt` where the key of a vault that was opened is not the one that sealed its records. Cost: a few of their
 * files, as a rule.
 */
export const confirm = (
  fs: VaultFileSystem,
  { foreign, key }: VaultManifest,
  kinds: ReadonlyMap<string, MemoryKind>
): Effect.Effect<void, MemoryError.MemoryError> =>
  foreign
    ? Effect.void
    : Effect.flatMap(
      judge(fs, { key, kinds }, { isChecked: true }),
      ({ fits }) => fits ? Effect.void : stranger
    )

/** One manifest per key: of two with the same key, the one with a checksum. */
const distinct = (manifests: ReadonlyArray<VaultManifest>): ReadonlyArray<VaultManifest> =>
  manifests.filter((one, n) =>
    !manifests.some((other, m) =>
      other.key === one.key && m !== n &&
      (one.checksum === other.checksum ? m < n : one.checksum === undefined)
    )
  )

const reading = (fs: VaultFileSystem, path: string): Effect.Effect<Reading, MemoryError.MemoryError> =>
  Effect.gen(function*() {
    const stat = yield* fs.stat(path)
    if (Option.isNone(stat)) return { _tag: "Absent" }
    if (stat.value.type !== "File") return { _tag: "Damaged" }
    const text = yield* fs.readLoose(path)
    if (Option.isNone(text)) return { _tag: "Absent" }
    const json = decodeText(text.value)
    if (Either.isLeft(json)) return { _tag: "Damaged" }
    const ours = decodeManifest({ ...json.right, version })
    if (Either.isRight(ours)) {
      const manifest = summed(ours.right)
      // a version with the checksum of ours is ours, and a digit of it was turned
      if (manifest.checksum === ours.right.checksum) return { _tag: "Sound", manifest, text: text.value }
      if (json.right["version"] === version || json.right["version"] === 1) {
        return ours.right.checksum === undefined
          ? { _tag: "Sound", manifest: ours.right, text: text.value }
          : { _tag: "Damaged" }
      }
    }
    const isNewer = yield* Effect.flip(Validation.refuseNewer(json.right, {
      op: "open",
      what: "the vault",
      known: version
    })).pipe(Effect.option)
    if (Option.isSome(isNewer) && typeof json.right["version"] === "number") {
      return { _tag: "Newer", error: isNewer.value }
    }
    return json.right["key"] === "new" ? { _tag: "Renew" } : { _tag: "Damaged" }
  })

const summed = ({ foreign, key, notes }: Omit<VaultManifest, "checksum">): VaultManifest => ({
  version,
  key,
  ...(foreign && { foreign }),
  ...(notes !== undefined && { notes }),
  checksum: sha256(JSON.stringify(["effect-memory vault", version, key, foreign ?? false, notes ?? null]))
})

/** Whether the hidden folder holds more than what a process leaves that died while it made the vault. */
const hasLived = (fs: VaultFileSystem): Effect.Effect<boolean, MemoryError.MemoryError> =>
  Effect.map(
    fs.list(hidden),
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
const sealed = (fs: VaultFileSystem, limit: number): Effect.Effect<ReadonlyArray<Sealed>> =>
  Effect.gen(function*() {
    const found: Array<Sealed> = []
    const folders = Layout.roots.slice()
    let left = most
    for (let listed = 0; folders.length > 0 && listed < most; listed++) {
      const folder = folders.pop()! // there is one
      if (yield* available(fs.isLink(folder), true)) continue
      for (const name of yield* available(fs.list(folder), [])) {
        const path = `${folder}/${name}`
        if (!name.endsWith(".md")) folders.push(path)
        else if (Layout.parsePath(path).id !== undefined) {
          if (left-- === 0) return found
          found.push(...yield* sealedAt(fs, path))
          if (found.length === limit) return found
        }
      }
    }
    return found
  })

const sealedAt = (fs: VaultFileSystem, path: string): Effect.Effect<ReadonlyArray<Sealed>> =>
  Effect.gen(function*() {
    const stat = yield* available(fs.stat(path), Option.none())
    if (!Option.exists(stat, ({ size, type }) => type === "File" && size <= largest)) return []
    const text = Option.getOrElse(yield* available(fs.read(path), Option.none()), () => "")
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
  fs: VaultFileSystem,
  context: Document.Context,
  { isChecked }: { readonly isChecked: boolean }
): Effect.Effect<Verdict> =>
  Effect.gen(function*() {
    for (const limit of [few, most]) {
      const { holds, strangers, untouched } = weighed(context, yield* sealed(fs, limit))
      if (holds || !strangers) return { holds, fits: true, strangers }
      if (limit < most) continue
      const signed = yield* available(Snapshot.signedBy(fs, context.key), undefined)
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
