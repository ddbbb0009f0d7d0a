/**
 * Whether a key is the one that sealed a vault's records. A wrong key would turn every record into one of origin `file` and
 * trust 2, and nobody would be told.
 */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import type { MemoryError } from "../../../domain/MemoryError.ts"
import type { Disk } from "./Disk.ts"
import * as Document from "./Document.ts"
import * as Layout from "./Layout.ts"
import * as Snapshot from "./Snapshot.ts"

type Io<A> = Effect.Effect<A, MemoryError>

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
/** How many untouched files have to contradict a key that is as it was drawn. */
const many = 8

/**
 * Record files that say they were sealed, at most `limit`, of the folders that the library writes to. Reads at most `most`
 * files and lists as many folders, none of them behind a link.
 */
export const sealed = (disk: Disk, limit: number): Effect.Effect<ReadonlyArray<Sealed>> =>
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

/** What cannot be read now says nothing. */
const available = <A>(self: Io<A>, otherwise: A): Effect.Effect<A> =>
  Effect.catchAll(self, (error) => Effect.as(Effect.logDebug("left out of the check of the key", error), otherwise))

export interface Verdict {
  /** Whether a seal holds, or the signature of the snapshot. */
  readonly holds: boolean
  /** Whether nothing speaks against the key. */
  readonly fits: boolean
  /** Whether some records were sealed with another key, or edited. */
  readonly strangers: boolean
}

/** How many files are enough, as a rule. */
const few = 4

/**
 * Judges a key by the records. One seal that holds is proof enough. Where none does, the signature of the snapshot decides;
 * else files that were last changed when the library wrote them, since a hand has not edited those: a single one
 * speaks against a key that has no checksum, eight against a key whose checksum holds.
 */
export const judge = (
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
