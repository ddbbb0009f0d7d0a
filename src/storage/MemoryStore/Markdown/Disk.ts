/** The folder behind a vault, in its own words: paths relative to the root, writes that are whole, failures as `MemoryError`. */
import type { PlatformError } from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as MemoryError from "../../../domain/MemoryError.ts"

/** What tells a file apart from itself a moment ago. Epoch ms, bytes, inode. */
export interface Stat {
  readonly mtime: number
  readonly size: number
  readonly ino: number
}

type Io<A> = Effect.Effect<A, MemoryError.MemoryError>

/** A file of ours, held open: as long as it is, no other file has its inode, and what is written goes into this one alone. */
export interface Claim {
  readonly ino: number
  /** In place. */
  readonly write: (text: string) => Io<void>
}

export interface Disk {
  /** The files and folders of a folder, by name; none where there is no folder. */
  readonly list: (folder: string) => Io<ReadonlyArray<string>>
  readonly stat: (path: string) => Io<Option.Option<Stat & { readonly type: FileSystem.File.Type }>>
  readonly isLink: (path: string) => Io<boolean>
  /** The first folder on the way to it that is a link: whatever is beyond lies elsewhere. */
  readonly linkAbove: (path: string) => Io<Option.Option<string>>
  /** `None` where there is no file. Bytes that are no UTF-8 are `corrupt`. */
  readonly read: (path: string) => Io<Option.Option<string>>
  /** `path_escape` where there is such a folder: it is not ours to write. */
  readonly within: (path: string) => Io<void>
  /** A sidecar's: what is no UTF-8 is replaced, and whoever asked finds no sense in it. */
  readonly readLoose: (path: string) => Io<Option.Option<string>>
  /** From a byte on, and how far it goes. */
  readonly readFrom: (path: string, offset: number) => Io<string>
  /** The same, as bytes; none where there is no file. */
  readonly bytesFrom: (path: string, offset: number) => Io<Uint8Array>
  /**
   * The whole text or the old one, whatever happens: a file beside it, forced to disk and renamed, and the folder forced.
   * Folders are made on the way. `force: false` leaves the forcing to the system, for what can be made again; `guard` has
   * the last word before the old text goes.
   */
  readonly write: (
    path: string,
    content: string | Uint8Array,
    options?: { readonly force?: boolean; readonly guard?: Io<void> }
  ) => Io<void>
  readonly append: (path: string, content: string | Uint8Array) => Io<void>
  /** Made by us and by nobody else; `None` where there is one. */
  readonly claim: (
    path: string,
    text: string
  ) => Effect.Effect<Option.Option<Claim>, MemoryError.MemoryError, Scope.Scope>
  readonly remove: (path: string, options?: { readonly force?: boolean }) => Io<void>
  /** `false` where there is nothing to move. */
  readonly move: (from: string, to: string) => Io<boolean>
  /** A second name for a file; `false` where the name is taken. */
  readonly link: (from: string, to: string) => Io<boolean>
  readonly makeFolder: (folder: string) => Io<void>
  /** That something in the folder itself may have changed. */
  readonly watch: (folder: string) => Stream.Stream<void, MemoryError.MemoryError>
}

export const make = (root: string): Effect.Effect<Disk, never, FileSystem.FileSystem | Path.Path> =>
  Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const own = (yield* Random.nextIntBetween(0, Number.MAX_SAFE_INTEGER)).toString(36)
    const at = (relative: string) => relative === "" ? root : `${root}/${relative}`

    const io = <A>(self: Effect.Effect<A, PlatformError>, relative: string): Io<A> =>
      Effect.mapError(self, failure(relative))
    const absent = (relative: string) => (error: PlatformError): Io<Option.Option<never>> =>
      isReason(error, "NotFound") || hasCode(error, "ENOTDIR")
        ? Effect.succeedNone
        : Effect.fail(failure(relative)(error))
    const found = <A>(self: Effect.Effect<A, PlatformError>, relative: string): Io<Option.Option<A>> =>
      Effect.matchEffect(self, { onSuccess: Effect.succeedSome, onFailure: absent(relative) })
    const opened = <A>(
      relative: string,
      flag: FileSystem.OpenFlag,
      use: (file: FileSystem.File) => Effect.Effect<A, PlatformError, Scope.Scope>
    ) => Effect.scoped(Effect.flatMap(fs.open(at(relative), { flag, mode: 0o600 }), use))

    const bytesFrom = (relative: string, offset: number) =>
      opened(relative, "r", (file) =>
        Effect.gen(function*() {
          const size = Number((yield* file.stat).size)
          yield* file.seek(BigInt(offset), "start")
          return size > offset ? yield* file.readAlloc(BigInt(size - offset)) : Option.none()
        })).pipe(Effect.map(Option.getOrElse(() => new Uint8Array())))

    const forceFolder = (relative: string) =>
      opened(relative, "r", (folder) => folder.sync).pipe(
        Effect.catchIf((error) => hasCode(error, "EISDIR"), () => Effect.void) // Windows opens no folder, and journals its renames
      )
    const makeFolder = (relative: string) => fs.makeDirectory(at(relative), { recursive: true, mode: 0o700 })
    const unlessTaken = <A, B, R>(
      self: Effect.Effect<A, PlatformError, R>,
      relative: string,
      { taken, done }: { readonly taken: B; readonly done: (value: A) => B }
    ): Effect.Effect<B, MemoryError.MemoryError, R> =>
      Effect.matchEffect(self, {
        onSuccess: (value) => Effect.succeed(done(value)),
        onFailure: (error) =>
          isReason(error, "AlreadyExists") ? Effect.succeed(taken) : Effect.fail(failure(relative)(error))
      })
    const isLink = (relative: string): Io<boolean> =>
      Effect.matchEffect(fs.readLink(at(relative)), {
        onSuccess: () => Effect.succeed(true),
        // EINVAL: it is there, and no link
        onFailure: (error) =>
          hasCode(error, "EINVAL") || hasCode(error, "UNKNOWN") || isReason(error, "NotFound") ||
            hasCode(error, "ENOTDIR")
            ? Effect.succeed(false)
            : Effect.fail(failure(relative)(error))
      })

    const linkAbove = (relative: string) =>
      Effect.findFirst(
        relative.split("/").slice(0, -1).map((_, i, parts) => parts.slice(0, i + 1).join("/")),
        isLink
      )

    return {
      list: (folder) =>
        Effect.map(found(fs.readDirectory(at(folder)), folder), Option.getOrElse((): ReadonlyArray<string> => [])),
      // of every file at every look: as few steps as can be
      stat: (relative) =>
        Effect.matchEffect(fs.stat(at(relative)), {
          onFailure: absent(relative),
          onSuccess: ({ ino, mtime, size, type }) =>
            Effect.succeedSome({
              mtime: Option.isSome(mtime) ? mtime.value.getTime() : 0,
              size: Number(size),
              ino: Option.getOrElse(ino, () => 0),
              type
            })
        }),
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
      readLoose: (relative) =>
        Effect.map(found(fs.readFile(at(relative)), relative), Option.map((bytes) => decoder.decode(bytes))),
      readFrom: (relative, offset) =>
        Effect.map(io(bytesFrom(relative, offset), relative), (bytes) => decoder.decode(bytes)),
      bytesFrom: (relative, offset) =>
        Effect.map(found(bytesFrom(relative, offset), relative), Option.getOrElse(() => new Uint8Array())),
      write: (relative, content, { force = true, guard = Effect.void } = {}) => {
        const folder = path.dirname(relative)
        const temporary = path.join(folder, temporaryOf(path.basename(relative), own))
        const discard = fs.remove(at(temporary), { force: true })
        const written = opened(
          temporary,
          "wx", // never through a link that lies there
          (file) => Effect.zipRight(file.writeAll(bytesOf(content)), force ? file.sync : Effect.void)
        )
        return io(Effect.zipRight(makeFolder(folder), Effect.zipRight(discard, written)), relative).pipe(
          Effect.zipRight(guard),
          // one who stood still may find its file swept away: what matters then is that it lost its right to it
          Effect.zipRight(Effect.tapError(io(fs.rename(at(temporary), at(relative)), relative), () => guard)),
          Effect.tapError(() => Effect.option(discard)), // the failure that matters is the first
          Effect.zipRight(force ? io(forceFolder(folder), relative) : Effect.void)
        )
      },
      append: (relative, content) => io(opened(relative, "a", (file) => file.writeAll(bytesOf(content))), relative),
      claim: (relative, content) => {
        const claimed = (file: FileSystem.File) =>
          Effect.gen(function*() {
            yield* file.writeAll(encoder.encode(content))
            return {
              ino: Option.getOrElse((yield* file.stat).ino, () => 0),
              write: (text: string) =>
                io(Effect.zipRight(file.seek(0, "start"), file.writeAll(encoder.encode(text))), relative)
            }
          }).pipe(Effect.tapError(() => Effect.option(fs.remove(at(relative)))))
        return unlessTaken(
          Effect.flatMap(fs.open(at(relative), { flag: "wx", mode: 0o600 }), claimed),
          relative,
          { taken: Option.none(), done: (claim: Claim) => Option.some(claim) }
        )
      },
      remove: (relative, { force = true } = {}) =>
        Effect.flatMap(
          found(fs.remove(at(relative)), relative),
          (removed) => force && Option.isSome(removed) ? io(forceFolder(path.dirname(relative)), relative) : Effect.void
        ),
      move: (from, to) => Effect.map(found(fs.rename(at(from), at(to)), from), Option.isSome),
      link: (from, to) => unlessTaken(fs.link(at(from), at(to)), to, { taken: false, done: () => true }),
      makeFolder: (folder) => io(makeFolder(folder), folder),
      watch: (folder) => fs.watch(at(folder)).pipe(Stream.mapError(failure(folder)), Stream.map(() => undefined))
    }
  })

/** What a file is written as, before it is renamed: of two who write the same, neither has the other's in hand. */
const temporaryOf = (name: string, own: string): string => `.${name}.~${own}.tmp`
/** Whose ever. */
export const isTemporary = (name: string): boolean => /^\..+\.(?:~[0-9a-z]+|md|jsonl)\.tmp$/s.test(name)

const encoder = new TextEncoder()
const bytesOf = (content: string | Uint8Array) => typeof content === "string" ? encoder.encode(content) : content
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
