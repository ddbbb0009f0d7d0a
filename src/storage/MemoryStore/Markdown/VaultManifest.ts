/**
 * The manifest marks a folder as a vault. It has the version of the format, and the key with which the vault signs. There are two copies
 * with a checksum each. The vault still opens if one copy is incomplete, empty or deleted, or has a wrong digit:
 *
 * ```text
 * .effect-memory/vault.json        {"version":2,"key":"64 hex digits","notes":"whole","checksum":"64 hex digits"}
 * .effect-memory/vault.copy.json   the same
 * ```
 *
 * Vaults of earlier releases have neither checksum nor copy. Opening such a vault adds both. A vault with signed records does not open if
 * its hidden folder has no readable key, or if another key signed the records: see docs/vault.md. `"key":"new"` makes the vault generate a
 * new key. A vault that has lost its hidden folder also gets a new key.
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

/**
 * Version of the vault's format. Format 1 has a file of revisions for each record (see `RevisionReader`), and no checksum in the manifest.
 * Format 2 has one history instead of these files (see `History`).
 */
const version = 2
const file = `${hidden}/vault.json`
const copy = `${hidden}/vault.copy.json`

const Key = Schema.String.pipe(Schema.pattern(/^[0-9a-f]{64}$/))
const VaultManifest = Schema.Struct({
  version: Schema.Int,
  key: Key,
  /**
   * Whether invalid signatures are expected. Set if the folder already contained signed records when the key was generated. Also set if an
   * earlier release wrote the manifest, without a checksum, and only invalid signatures were found.
   */
  foreign: Schema.optional(Schema.Literal(true)),
  /**
   * Selects how to read notes that this library did not write: see `notes` of `Document.Context`. Absent in vaults of earlier releases.
   * These vaults therefore still give the same results.
   */
  notes: Schema.optional(Schema.String),
  checksum: Schema.optional(Key)
})
/** The manifest of a vault: the version of its format, its signing key, and how to read notes that the library did not write. */
export type VaultManifest = typeof VaultManifest.Type

const Text = Schema.parseJson(Schema.Record({ key: Schema.String, value: Schema.Unknown }))
const decodeText = Schema.decodeEither(Text)
const decodeManifest = Schema.decodeUnknownEither(VaultManifest, { onExcessProperty: "error" })
/** Encodes a manifest. Equal manifests give equal texts, since `summed` (which adds the checksum) fixes the order of the properties. */
const encode = (manifest: VaultManifest): string => JSON.stringify(manifest)

/** The result of reading one of the two manifest files. */
type Reading =
  | { readonly _tag: "Absent" }
  | { readonly _tag: "Damaged" }
  | { readonly _tag: "Newer"; readonly error: MemoryError.MemoryError }
  | { readonly _tag: "Renew" }
  | { readonly _tag: "Sound"; readonly manifest: VaultManifest; readonly text: string }

/** The manifest to use. `isWhole` says whether both files already have exactly this manifest. */
interface Decision {
  readonly manifest: VaultManifest
  readonly isWhole: boolean
}

/**
 * Opens the vault of a folder, or makes the folder a vault with a generated key. If several processes do so at once, the first one
 * generates the key. A damaged manifest file is rewritten from the other one. Fails with `unsupported`, and changes nothing, if a later
 * release wrote the manifest. Fails with `corrupt` if there are signed records, and the hidden folder of the vault has no readable key. A
 * vault without its hidden folder gets a new key instead. Also fails with `corrupt` if another key signed the records. The signatures are
 * not checked if both manifest files are intact and equal: see `confirm`.
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
      // the copy is written first, so that a process that reads in between still finds the old manifest, or none, in `file`
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

/** Returns the manifest to use. `undefined` if a key must be generated. */
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
      // `confirm` checks later whether the records were signed with the manifest's key, unless the snapshot proves it
      return { manifest: only, isWhole: true }
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

/** Whether both files can be read, and contain exactly this manifest. */
const isWhole = (manifest: VaultManifest, readings: ReadonlyArray<Reading>): boolean =>
  readings.every((one) => one._tag === "Sound" && one.text === encode(manifest))

/**
 * Fails with `corrupt` if the records were signed with another key. A manifest that is marked as `foreign` is not checked, because invalid
 * signatures are then expected. Cost: usually a few files are read.
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

/** Removes duplicates. Of two manifests with the same key, only the one with a checksum stays. Both stay if their checksums differ. */
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
      // `summed` uses the version of this release. If the checksum matches although the version differs, only this number is damaged
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

/** Whether the hidden folder shows that a vault was created. Ignores files that a process leaves if it dies while it creates the vault. */
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
      "then every record whose file is not as the history has it counts as of origin file and trust 2 (docs/vault.md)",
    detail: { location: file }
  })

/*
 * Section: checks whether a vault's records were signed with a key. Without this check, nobody would notice a wrong key. Every signature
 * would be invalid. A record would have the origin `file` and trust 2, unless the history has the text of its file.
 */

type Io<A> = Effect.Effect<A, MemoryError.MemoryError>

/** A record's file that contains a signature. */
interface Sealed {
  readonly path: string
  readonly text: string
  /** Time of the file's last change, in epoch milliseconds. */
  readonly mtime: number
}

/** Largest number of files that are read to check a key, and largest number of folders that are listed. */
const most = 256
/**
 * Largest difference between the last update of a record and the modification time of its file, in milliseconds. If the difference is
 * larger, the file counts as changed after the library wrote it.
 */
const moment = 2_000
/** Number of invalid signatures that disprove a key with a valid checksum. Files that a person may have edited do not count. */
const many = 8

/**
 * Returns at most `limit` record files that contain a signature, from the folders that the library writes to. At most `most` files are
 * read, and at most `most` folders are listed. Linked folders are skipped.
 */
const sealed = (fs: VaultFileSystem, limit: number): Effect.Effect<ReadonlyArray<Sealed>> =>
  Effect.gen(function*() {
    const found: Array<Sealed> = []
    const folders = Layout.roots.slice()
    let left = most
    for (let listed = 0; folders.length > 0 && listed < most; listed++) {
      const folder = folders.pop()! // the loop runs only if there is a folder
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

/** Runs a read. Returns `otherwise` if the read fails, since a failure says nothing about the key. */
const available = <A>(self: Io<A>, otherwise: A): Effect.Effect<A> =>
  Effect.catchAll(self, (error) => Effect.as(Effect.logDebug("left out of the check of the key", error), otherwise))

interface Verdict {
  /** Whether the signature of a record or of the snapshot is valid, which proves the key. */
  readonly holds: boolean
  /** Whether the key may be the right one. The key is wrong if too many signatures are invalid: see `judge`. */
  readonly fits: boolean
  /** Whether an edited record, or one signed with another key, was found. The search ends at the first valid signature. */
  readonly strangers: boolean
}

/** Number of files with a signature that are checked first. Usually, one of these signatures is valid. */
const few = 4

/**
 * Checks a key against the signatures of records. One valid signature of a record or of the snapshot proves the key. Otherwise, invalid
 * signatures are counted, but only in files unchanged since the library wrote them. A person may have edited the other files. Eight invalid
 * signatures disprove a key with a valid checksum. One invalid signature of a record or of the snapshot disproves a key without a checksum.
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
