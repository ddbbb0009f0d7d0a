/** The folder behind a vault, in its own words: paths relative to the root, writes that are whole, failures as `MemoryError`. */
import type { PlatformError } from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import * as MemoryError from "../../../domain/MemoryError.ts"

/** What tells a file apart from itself a moment ago. Epoch ms, bytes, inode. */
export interface Stat {
  readonly mtime: number
  readonly size: number
  readonly ino: number
}

type Io<A> = Effect.Effect<A, MemoryError.MemoryError>

export interface Disk {
  /** The files and folders of a folder, by name; none where there is no folder. */
  readonly list: (folder: string) => Io<ReadonlyArray<string>>
  readonly stat: (path: string) => Io<Option.Option<Stat & { readonly isFolder: boolean }>>
  readonly isLink: (path: string) => Io<boolean>
  /** `None` where there is no file. Bytes that are no UTF-8 are `corrupt`. */
  readonly read: (path: string) => Io<Option.Option<string>>
  /** From a byte on, and how far it goes. */
  readonly readFrom: (path: string, offset: number) => Io<string>
  /**
   * The whole text or the old one, whatever happens: a file beside it, forced to disk and renamed, and the folder forced.
   * Folders are made on the way. `force: false` leaves the forcing to the system, for what can be made again.
   */
  readonly write: (path: string, text: string, options?: { readonly force?: boolean }) => Io<void>
  readonly append: (path: string, text: string) => Io<void>
  /** Fails with `AlreadyExists` as `false`. */
  readonly create: (path: string, text: string) => Io<boolean>
  /** In place: for the heartbeat alone. */
  readonly overwrite: (path: string, text: string) => Io<void>
  readonly remove: (path: string, options?: { readonly force?: boolean }) => Io<void>
  /** `false` where there is nothing to move. */
  readonly move: (from: string, to: string) => Io<boolean>
  readonly makeFolder: (folder: string) => Io<void>
}

export const make = (root: string): Effect.Effect<Disk, never, FileSystem.FileSystem | Path.Path> =>
  Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const at = (relative: string) => path.join(root, relative)

    const io = <A>(self: Effect.Effect<A, PlatformError>, relative: string): Io<A> =>
      Effect.mapError(self, failure(relative))
    const found = <A>(self: Effect.Effect<A, PlatformError>, relative: string): Io<Option.Option<A>> =>
      Effect.matchEffect(self, {
        onSuccess: Effect.succeedSome,
        onFailure: (error) =>
          isReason(error, "NotFound") || hasCode(error, "ENOTDIR")
            ? Effect.succeedNone
            : Effect.fail(failure(relative)(error))
      })
    const opened = <A>(
      relative: string,
      flag: FileSystem.OpenFlag,
      use: (file: FileSystem.File) => Effect.Effect<A, PlatformError, Scope.Scope>
    ) => Effect.scoped(Effect.flatMap(fs.open(at(relative), { flag, mode: 0o600 }), use))

    const forceFolder = (relative: string) =>
      opened(relative, "r", (folder) => folder.sync).pipe(
        Effect.catchIf((error) => hasCode(error, "EISDIR"), () => Effect.void) // Windows opens no folder, and journals its renames
      )
    const makeFolder = (relative: string) => fs.makeDirectory(at(relative), { recursive: true, mode: 0o700 })

    return {
      list: (folder) =>
        Effect.map(found(fs.readDirectory(at(folder)), folder), Option.getOrElse((): ReadonlyArray<string> => [])),
      stat: (relative) =>
        Effect.map(
          found(fs.stat(at(relative)), relative),
          Option.map((info) => ({
            mtime: Option.match(info.mtime, { onNone: () => 0, onSome: (date) => date.getTime() }),
            size: Number(info.size),
            ino: Option.getOrElse(info.ino, () => 0),
            isFolder: info.type === "Directory"
          }))
        ),
      isLink: (relative) =>
        Effect.matchEffect(fs.readLink(at(relative)), {
          onSuccess: () => Effect.succeed(true),
          // EINVAL: it is there, and no link
          onFailure: (error) =>
            hasCode(error, "EINVAL") || hasCode(error, "UNKNOWN") || isReason(error, "NotFound")
              ? Effect.succeed(false)
              : Effect.fail(failure(relative)(error))
        }),
      read: (relative) =>
        Effect.flatMap(
          found(fs.readFile(at(relative)), relative),
          Option.match({ onNone: () => Effect.succeedNone, onSome: (bytes) => Effect.asSome(text(relative, bytes)) })
        ),
      readFrom: (relative, offset) =>
        opened(relative, "r", (file) =>
          Effect.gen(function*() {
            const size = Number((yield* file.stat).size)
            yield* file.seek(BigInt(offset), "start")
            return size > offset ? yield* file.readAlloc(BigInt(size - offset)) : Option.none()
          })).pipe(
            Effect.map(Option.match({ onNone: () => "", onSome: (bytes) => decoder.decode(bytes) })),
            (self) => io(self, relative)
          ),
      write: (relative, content, { force = true } = {}) => {
        const folder = path.dirname(relative)
        const temporary = path.join(folder, `.${path.basename(relative)}.tmp`)
        const written = opened(
          temporary,
          "w",
          (file) => Effect.zipRight(file.writeAll(encoder.encode(content)), force ? file.sync : Effect.void)
        )
        return makeFolder(folder).pipe(
          Effect.zipRight(written),
          Effect.zipRight(fs.rename(at(temporary), at(relative))),
          Effect.tapError(() => Effect.option(fs.remove(at(temporary), { force: true }))), // the failure that matters is the first
          Effect.zipRight(force ? forceFolder(folder) : Effect.void),
          (self) => io(self, relative)
        )
      },
      append: (relative, content) =>
        io(opened(relative, "a", (file) => file.writeAll(encoder.encode(content))), relative),
      create: (relative, content) =>
        Effect.matchEffect(opened(relative, "wx", (file) => file.writeAll(encoder.encode(content))), {
          onSuccess: () => Effect.succeed(true),
          onFailure: (error) =>
            isReason(error, "AlreadyExists") ? Effect.succeed(false) : Effect.fail(failure(relative)(error))
        }),
      overwrite: (relative, content) =>
        io(opened(relative, "r+", (file) => file.writeAll(encoder.encode(content))), relative),
      remove: (relative, { force = true } = {}) =>
        Effect.flatMap(
          found(fs.remove(at(relative)), relative),
          (removed) => force && Option.isSome(removed) ? io(forceFolder(path.dirname(relative)), relative) : Effect.void
        ),
      move: (from, to) => Effect.map(found(fs.rename(at(from), at(to)), from), Option.isSome),
      makeFolder: (folder) => io(makeFolder(folder), folder)
    }
  })

const encoder = new TextEncoder()
const decoder = new TextDecoder()
const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true })

const text = (location: string, bytes: Uint8Array): Io<string> =>
  Effect.try({
    try: () => strict.decode(bytes),
    catch: (cause) =>
      MemoryError.make("corrupt", { op: "read", message: `${location} is no UTF-8`, detail: { location }, cause })
  })

/** The platform's message names an absolute path: it stays in the cause. */
const failure = (location: string) => (cause: PlatformError): MemoryError.MemoryError =>
  MemoryError.make("io", { op: cause.method, message: `${location}: ${codeOf(cause) ?? reasonOf(cause)}`, cause })

const reasonOf = (error: PlatformError): string => error._tag === "SystemError" ? error.reason : "bad argument"
const isReason = (error: PlatformError, reason: string): boolean =>
  error._tag === "SystemError" && error.reason === reason
const hasCode = (error: PlatformError, code: string): boolean => codeOf(error) === code
const codeOf = (error: PlatformError): string | undefined => {
  const { cause } = error
  return typeof cause === "object" && cause !== null && "code" in cause && typeof cause.code === "string"
    ? cause.code
    : undefined
}
