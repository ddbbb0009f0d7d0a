/** The file system of a vault. Paths are relative to the vault's folder. A fenced write fails if another process took over the lock. */
import { isPlatformError, type PlatformError } from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { sha256 } from "../../../domain/Digest.ts"
import * as MemoryError from "../../../domain/MemoryError.ts"
import * as DirectFiles from "./DirectFiles.ts"
import { isAs, isSameStat, type Stat, statOf } from "./DirectFiles.ts"
import * as ExclusiveFile from "./ExclusiveFile.ts"
import { shortened, stagingFolderOf, temporaryOf } from "./Layout.ts"

export { isSameStat, type Stat } from "./DirectFiles.ts"
/** The status of a path. `stat` follows links. `isLink` says whether the path itself is a link. */
export interface PathStatus {
  readonly stat: Option.Option<Stat & { readonly type: FileSystem.File.Type }>
  readonly isLink: boolean
}

type Io<A> = Effect.Effect<A, MemoryError.MemoryError>
/** The file of a lock. Its methods fail with a `MemoryError`. */
export type LockFile = ExclusiveFile.ExclusiveFile<MemoryError.MemoryError>

/** The folder of a vault. All paths are relative to it. */
export interface VaultFileSystem {
  /** Lists the names of the files and folders in a folder; empty if the folder does not exist. */
  readonly list: (folder: string) => Io<ReadonlyArray<string>>
  readonly stat: (path: string) => Io<Option.Option<Stat & { readonly type: FileSystem.File.Type }>>
  /** Runs an effect if the file's status is no longer `was`, or if the status cannot be read. Cost: a `stat`. */
  readonly ifChanged: (path: string, was: Stat, effect: () => Effect.Effect<void>) => Effect.Effect<void>
  /** Whether the file's status is still `was`. False if the status cannot be read synchronously. */
  readonly isAsBefore: (path: string, was: Stat) => boolean
  readonly isLink: (path: string) => Io<boolean>
  /** Returns the status of a path, and whether the path is a link. The status of a link is the status of its target. */
  readonly status: (path: string) => Io<PathStatus>
  /** Like `status`, but synchronous. Returns `undefined` for a folder or a link, and if the status cannot be read synchronously. */
  readonly statusNow: (path: string) => PathStatus | undefined
  /** Returns the topmost symbolic link among the folders above a path, if any. The path may then be outside of the vault. */
  readonly linkAbove: (path: string) => Io<Option.Option<string>>
  /** Reads a text; `None` if there is no file. Fails with `corrupt` if the file is not valid UTF-8. */
  readonly read: (path: string) => Io<Option.Option<string>>
  /** Fails with `path_escape` if a folder above the path is a symbolic link, since the vault must not write there. */
  readonly within: (path: string) => Io<void>
  /** Like `read`, but also returns the SHA-256 of the bytes, in hex. */
  readonly readHashed: (path: string) => Io<Option.Option<{ readonly text: string; readonly hash: string }>>
  /** Reads a text. `None` if there is no file. Invalid UTF-8 becomes U+FFFD, and the caller has to detect this. */
  readonly readLoose: (path: string) => Io<Option.Option<string>>
  /** Reads all bytes of a file; `None` if there is no file. */
  readonly readBytes: (path: string) => Io<Option.Option<Uint8Array>>
  /** Reads the first `length` bytes of a file; invalid UTF-8 is replaced. `None` if there is no file. */
  readonly readHead: (path: string, length: number) => Io<Option.Option<string>>
  /** Reads `length` bytes from an offset, by default to the end of the file. Returns no bytes if there is no file. */
  readonly bytesFrom: (path: string, offset: number, length?: number) => Io<Uint8Array>
  /**
   * Replaces a file atomically: writes a temporary file, syncs it, renames it, and syncs the file's folder. Creates missing folders. If
   * `force` is `false`, nothing is synced; this suits content that can be rebuilt. `guard` runs before the rename. If it fails, nothing is
   * replaced. `isFenced` puts the temporary file into the staging folder. The rename then fails if another process has moved the staging
   * folder away.
   */
  readonly write: (
    path: string,
    content: string | Uint8Array,
    options?: { readonly force?: boolean; readonly guard?: Io<void>; readonly isFenced?: boolean }
  ) => Io<void>
  readonly append: (path: string, content: string | Uint8Array, options?: { readonly force?: boolean }) => Io<void>
  /** Overwrites bytes of a file. Returns `false`, and writes nothing, if the file now has another inode than `ino`. */
  readonly overwrite: (path: string, offset: number, content: Uint8Array, ino: number | undefined) => Io<boolean>
  /** Syncs files and the folders that contain them, each once. Ignores paths that do not exist any more. */
  readonly force: (paths: Iterable<string>) => Io<void>
  /** Random name of this process, different from those of other writers. */
  readonly writerId: string
  /** Creates the staging folder of this process. Fenced writes and removals need this folder. */
  readonly createStaging: Io<void>
  /** Removes the staging folder of another process. Fenced writes and removals of that process fail until it creates the folder again. */
  readonly fence: (writerId: string) => Io<void>
  /** Creates the file of a lock, with a text. Returns `None` if the path is taken, except by an earlier claim of this process. */
  readonly claim: (path: string, text: string) => Io<Option.Option<LockFile>>
  /**
   * Removes a file, if there is one. `isFenced` first moves the file into the staging folder. The move fails if another process has moved
   * that folder away.
   */
  readonly remove: (path: string, options?: { readonly force?: boolean; readonly isFenced?: boolean }) => Io<void>
  /** Removes a file, or a folder with its contents. Does nothing if the path does not exist. */
  readonly discard: (path: string) => Io<void>
  /** Moves a file. Returns `false` if the file does not exist. */
  readonly move: (from: string, to: string) => Io<boolean>
  /** Makes `to` a hard link to the file `from`. Returns `false` if `to` exists. */
  readonly link: (from: string, to: string) => Io<boolean>
  readonly makeFolder: (folder: string) => Io<void>
  /** Emits when a file or folder directly in `folder` may have changed. */
  readonly watch: (folder: string) => Stream.Stream<void, MemoryError.MemoryError>
}

/** Makes the file system of a folder. */
export const make = (
  root: string
): Effect.Effect<VaultFileSystem, never, FileSystem.FileSystem | Path.Path | Scope.Scope> =>
  Effect.gen(function*() {
    const fs = yield* DirectFiles.make(yield* FileSystem.FileSystem)
    const path = yield* Path.Path
    const writerId = (yield* Random.nextIntBetween(0, Number.MAX_SAFE_INTEGER)).toString(36)
    let written = 0 // number of fenced writes so far. The number of a write is the name of its temporary file
    const at = (relative: string) => relative === "" ? root : `${root}/${relative}`
    const claim = yield* ExclusiveFile.make({ fs, isFull, isMissing, alreadyExists }, at(stagingFolderOf(writerId)))

    const io = <A>(self: Effect.Effect<A, PlatformError>, relative: string): Io<A> =>
      Effect.mapError(self, failure(relative))
    const absent = (relative: string) => (error: PlatformError): Io<Option.Option<never>> =>
      isMissing(error) || hasCode(error, "ENOTDIR")
        ? Effect.succeedNone
        : Effect.fail(failure(relative)(error))
    const found = <A>(self: Effect.Effect<A, PlatformError>, relative: string): Io<Option.Option<A>> =>
      Effect.matchEffect(self, { onSuccess: Effect.succeedSome, onFailure: absent(relative) })
    const opened = <A>(
      relative: string,
      flag: FileSystem.OpenFlag,
      use: (file: DirectFiles.OpenFile) => Effect.Effect<A, PlatformError, Scope.Scope>
    ) => Effect.scoped(Effect.flatMap(fs.open(at(relative), { flag, mode: 0o600 }), use))
    /** Opens a file, writes bytes if there are any, and syncs the file if `force` is set. */
    const put = (relative: string, flag: FileSystem.OpenFlag, bytes: Uint8Array, force: boolean) =>
      fs.writeWhole !== undefined && bytes.length <= DirectFiles.most
        ? fs.writeWhole(at(relative), { flag, mode: 0o600, force }, bytes)
        : opened(
          relative,
          flag,
          (file) => Effect.zipRight(flag === "r" ? Effect.void : file.writeAll(bytes), force ? file.sync : Effect.void)
        )

    const bytesFrom = (relative: string, offset: number, length = Infinity) =>
      length <= DirectFiles.most && fs.readRange !== undefined
        ? fs.readRange(at(relative), offset, length)
        : opened(relative, "r", (file) =>
          Effect.gen(function*() {
            const size = Math.min(Number((yield* file.stat).size), offset + length)
            yield* file.seek(BigInt(offset), "start")
            return size > offset ? yield* file.readAlloc(BigInt(size - offset)) : Option.none()
          })).pipe(Effect.map(Option.getOrElse(() => new Uint8Array())))

    const forceFolder = (relative: string) =>
      put(relative, "r", new Uint8Array(), true).pipe(
        Effect.catchIf((error) => hasCode(error, "EISDIR"), () => Effect.void) // Windows cannot sync folders; NTFS logs renames itself
      )
    const makeFolder = (relative: string) => fs.makeDirectory(at(relative), { recursive: true, mode: 0o700 })
    const unlessExists = <A, B, R>(
      self: Effect.Effect<A, PlatformError, R>,
      relative: string,
      { existing, done }: { readonly existing: B; readonly done: (value: A) => B }
    ): Effect.Effect<B, MemoryError.MemoryError, R> =>
      Effect.matchEffect(self, {
        onSuccess: (value) => Effect.succeed(done(value)),
        onFailure: (error) => alreadyExists(error) ? Effect.succeed(existing) : Effect.fail(failure(relative)(error))
      })
    /** Returns the status of a path; for a link, the status of the link itself. `undefined` if Node's `lstat` fails. */
    const linkStat = (relative: string) =>
      fs.linkStatNow ? Effect.succeed(fs.linkStatNow(at(relative))) : DirectFiles.linkStatOf(at(relative))
    const isLink = (relative: string): Io<boolean> =>
      Effect.flatMap(
        linkStat(relative),
        (found) =>
          found === undefined
            ? canBeReadAsLink(relative)
            : Effect.succeed(found !== "nothing" && found.isSymbolicLink())
      )
    /** Whether a path is a link, tested by reading the link. Used for paths for which `linkStat` returns `undefined`. */
    const canBeReadAsLink = (relative: string): Io<boolean> =>
      Effect.matchEffect(fs.readLink(at(relative)), {
        onSuccess: () => Effect.succeed(true),
        // EINVAL means that the path exists and is not a link
        onFailure: (error) =>
          isMissing(error) || ["EINVAL", "UNKNOWN", "ENOTDIR"].some((code) => hasCode(error, code))
            ? Effect.succeed(false)
            : Effect.fail(failure(relative)(error))
      })

    const stat: VaultFileSystem["stat"] = (relative) =>
      Effect.suspend(() => {
        const now = fs.statNow?.(at(relative))
        if (now !== undefined) return Effect.succeed(now === "nothing" ? Option.none() : Option.some(now))
        return Effect.matchEffect(fs.stat(at(relative)), {
          onFailure: absent(relative),
          onSuccess: (info) => Effect.succeedSome({ ...statOf(info), type: info.type })
        })
      })

    const status: VaultFileSystem["status"] = (relative) =>
      Effect.flatMap(linkStat(relative), (found) => {
        const known = statusOf(found)
        return known !== undefined
          ? Effect.succeed(known)
          : Effect.zipWith(stat(relative), isLink(relative), (stat, isLink) => ({ stat, isLink }))
      })
    const linkAbove: VaultFileSystem["linkAbove"] = (relative) =>
      Effect.suspend(() => {
        const folders = relative.split("/").slice(0, -1).map((_, i, parts) => parts.slice(0, i + 1).join("/"))
        for (const [n, folder] of folders.entries()) {
          const now = fs.linkStatNow?.(at(folder))
          if (now === undefined) return Effect.findFirst(folders.slice(n), isLink)
          if (now !== "nothing" && now.isSymbolicLink()) return Effect.succeedSome(folder)
        }
        return Effect.succeedNone
      })

    return {
      list: (folder) =>
        Effect.map(found(fs.readDirectory(at(folder)), folder), Option.getOrElse((): ReadonlyArray<string> => [])),
      stat,
      status,
      statusNow: (relative) => statusOf(fs.linkStatNow?.(at(relative))),
      // builds few effects, since a scan may call `ifChanged` for every file
      ifChanged: (relative, was, effect) =>
        Effect.matchEffect(fs.stat(at(relative)), {
          onFailure: effect,
          onSuccess: (info) => isSameStat(was, statOf(info)) ? Effect.void : effect()
        }),
      isAsBefore: (relative, was) => {
        const found = fs.linkStatNow?.(at(relative))
        return found !== undefined && found !== "nothing" && isAs(was, found)
      },
      isLink,
      linkAbove,
      within: (relative) =>
        Effect.flatMap(
          linkAbove(relative),
          Option.match({
            onNone: () => Effect.void,
            onSome: (link) => MemoryError.make("path_escape", { op: "write", message: `${link} is a link` })
          })
        ),
      read: (relative) =>
        Effect.flatMap(
          found(fs.readFile(at(relative)), relative),
          Option.match({ onNone: () => Effect.succeedNone, onSome: (bytes) => Effect.asSome(text(relative, bytes)) })
        ),
      readHashed: (relative) =>
        Effect.flatMap(
          found(fs.readFile(at(relative)), relative),
          Option.match({
            onNone: () => Effect.succeedNone,
            onSome: (bytes) => Effect.map(text(relative, bytes), (text) => Option.some({ text, hash: sha256(bytes) }))
          })
        ),
      readLoose: (relative) =>
        Effect.map(found(fs.readFile(at(relative)), relative), Option.map((bytes) => decoder.decode(bytes))),
      readBytes: (relative) => found(fs.readFile(at(relative)), relative),
      readHead: (relative, length) =>
        Effect.map(
          found(opened(relative, "r", (file) => file.readAlloc(BigInt(length))), relative),
          Option.map((bytes) => decoder.decode(Option.getOrElse(bytes, () => new Uint8Array())))
        ),
      bytesFrom: (relative, offset, length) =>
        Effect.map(found(bytesFrom(relative, offset, length), relative), Option.getOrElse(() => new Uint8Array())),
      writerId,
      // retried, since `makeDirectory` fails if the existing folder is moved away during the call
      createStaging: io(
        Effect.retry(makeFolder(stagingFolderOf(writerId)), { times: 8, while: isMissing }),
        stagingFolderOf(writerId)
      ),
      fence: (other) => {
        const fenced = `${stagingFolderOf(other)}.ended`
        const discard = io(fs.remove(at(fenced), { recursive: true, force: true }), stagingFolderOf(other))
        // first removes the folder that an interrupted earlier call may have left
        return Effect.zipRight(
          discard,
          Effect.flatMap(
            found(fs.rename(at(stagingFolderOf(other)), at(fenced)), stagingFolderOf(other)),
            (moved) => Option.isSome(moved) ? discard : Effect.void
          )
        )
      },
      write: (relative, content, { force = true, guard = Effect.void, isFenced = false } = {}) => {
        const folder = path.dirname(relative)
        const temporary = isFenced
          ? `${stagingFolderOf(writerId)}/${++written}`
          : path.join(folder, temporaryOf(path.basename(relative), writerId))
        const discard = fs.remove(at(temporary), { force: true })
        const made = put(temporary, "wx", bytesOf(content), force) // "wx" never writes through an existing link
        const rename = fs.rename(at(temporary), at(relative))
        const [before, renamed] = isFenced
          ? [
            Effect.catchIf(made, alreadyExists, () => Effect.zipRight(discard, made)), // a dead process may have left the file
            // creates a missing target folder, and renames again
            Effect.catchIf(rename, isMissing, () => Effect.zipRight(makeFolder(folder), rename))
          ]
          : [Effect.zipRight(makeFolder(folder), Effect.zipRight(discard, made)), rename]
        return io(before, relative).pipe(
          Effect.zipRight(guard),
          // a failed rename runs `guard` again: if another process took over the lock meanwhile, the error of `guard` says so
          Effect.zipRight(Effect.tapError(io(renamed, relative), () => guard)),
          Effect.tapError(() => Effect.option(discard)), // ignores a failure of `discard`: the first failure is reported
          (whole) => force ? Effect.zipRight(whole, io(forceFolder(folder), relative)) : whole
        )
      },
      append: (relative, content, { force = false } = {}) => io(put(relative, "a", bytesOf(content), force), relative),
      overwrite: (relative, offset, content, ino) =>
        io(
          opened(relative, "r+", (file) =>
            Effect.gen(function*() {
              if (Option.getOrElse((yield* file.stat).ino, () => 0) !== ino) return false
              yield* file.seek(BigInt(offset), "start")
              yield* file.writeAll(content)
              return true
            })),
          relative
        ),
      force: (paths) =>
        Effect.forEach(
          new Set(Array.from(paths, (one) => [one, path.dirname(one)]).flat()),
          (one) => Effect.asVoid(found(forceFolder(one === "." ? "" : one), one)),
          { discard: true, concurrency: 8 }
        ),
      claim: (relative, text) =>
        Effect.mapBoth(claim(at(relative), text), {
          onFailure: failure(relative),
          onSuccess: Option.map((claim): LockFile => ({ ...claim, write: (text) => io(claim.write(text), relative) }))
        }),
      remove: (relative, { force = true, isFenced = false } = {}) =>
        Effect.flatMap(
          isFenced
            ? Effect.matchEffect(fs.rename(at(relative), at(`${stagingFolderOf(writerId)}/removed`)), {
              onSuccess: () => Effect.asSome(io(fs.remove(at(`${stagingFolderOf(writerId)}/removed`)), relative)),
              // the rename may fail although the file exists: another process may have moved the staging folder away
              onFailure: (error) =>
                Effect.flatMap(
                  stat(relative),
                  (now) => Option.isSome(now) ? Effect.fail(failure(relative)(error)) : absent(relative)(error)
                )
            })
            : found(fs.remove(at(relative)), relative),
          (removed) => force && Option.isSome(removed) ? io(forceFolder(path.dirname(relative)), relative) : Effect.void
        ),
      discard: (relative) => io(fs.remove(at(relative), { recursive: true, force: true }), relative),
      move: (from, to) => Effect.map(found(fs.rename(at(from), at(to)), from), Option.isSome),
      link: (from, to) => unlessExists(fs.link(at(from), at(to)), to, { existing: false, done: () => true }),
      makeFolder: (folder) => io(makeFolder(folder), folder),
      watch: (folder) =>
        Stream.mapBoth(fs.watch(at(folder)), { onFailure: failure(folder), onSuccess: () => undefined })
    }
  })

/** Returns the status of a regular file or of a missing path. Returns `undefined` for anything else. More calls are then needed. */
const statusOf = (found: DirectFiles.LinkStat | "nothing" | undefined): PathStatus | undefined =>
  found === "nothing"
    ? nothing
    : found?.isFile() === true
    ? { stat: Option.some({ ...DirectFiles.marksOf(found), type: "File" }), isLink: false }
    : undefined
/** The status of a path that does not exist. */
export const nothing: PathStatus = { stat: Option.none(), isLink: false }
/** Whether both statuses are of the same unchanged file, or both are of a path that does not exist. */
export const isSameStatus = (one: PathStatus, other: PathStatus): boolean =>
  one.isLink === other.isLink &&
  (Option.isSome(one.stat) && Option.isSome(other.stat)
    ? one.stat.value.type === other.stat.value.type && isSameStat(one.stat.value, other.stat.value)
    : Option.isNone(one.stat) && Option.isNone(other.stat))

const encoder = new TextEncoder()
const bytesOf = (content: string | Uint8Array) => typeof content === "string" ? encoder.encode(content) : content
const decoder = new TextDecoder("utf-8", { ignoreBOM: true }) // keeps a U+FEFF at the start of a text
const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true })

const text = (location: string, bytes: Uint8Array): Io<string> =>
  Effect.try({
    try: () => strict.decode(bytes),
    catch: (cause) =>
      MemoryError.make("corrupt", {
        op: "read",
        message: `${shortened(location)} is no UTF-8`,
        detail: { location },
        cause
      })
  })

/** Converts a `PlatformError`. The new message has no absolute path. The `PlatformError` becomes the cause. */
const failure = (location: string) => (cause: PlatformError): MemoryError.MemoryError =>
  MemoryError.make("io", {
    op: cause.method,
    message: `${location === "" ? "the folder" : shortened(location)}: ${codeOf(cause) ?? reasonOf(cause)}`,
    cause
  })

const reasonOf = (error: PlatformError): string => error._tag === "SystemError" ? error.reason : "bad argument"
const isReason = (error: PlatformError, reason: string): boolean =>
  error._tag === "SystemError" && error.reason === reason
const alreadyExists = (error: PlatformError): boolean => isReason(error, "AlreadyExists")
const isMissing = (error: PlatformError): boolean => isReason(error, "NotFound")
const hasCode = (error: PlatformError, code: string): boolean => codeOf(error) === code
/** Whether a write failed because the disk or the quota is full. */
export const isFull = (error: PlatformError | MemoryError.MemoryError): boolean => {
  const { cause } = error
  if (error._tag !== "MemoryError") return hasCode(error, "ENOSPC") || hasCode(error, "EDQUOT")
  return isPlatformError(cause) && isFull(cause)
}
const codeOf = ({ cause }: PlatformError): string | undefined =>
  typeof cause === "object" && cause !== null && "code" in cause && typeof cause.code === "string"
    ? cause.code
    : undefined
