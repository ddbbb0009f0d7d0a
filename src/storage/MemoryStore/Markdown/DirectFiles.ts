/**
 * The file system calls of the vault, made fast for many small files. Most are synchronous calls of Node, which block the event loop. On a
 * small file, a synchronous call takes a few microseconds. An asynchronous call uses a thread, and takes ten times as long. An fsync and
 * large reads and writes take long, so these are asynchronous. The event loop runs after several synchronous calls in a row.
 */
import { fs } from "#builtins"
import { type PlatformError, SystemError, type SystemErrorReason } from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as EventLoop from "../../../host/EventLoop.ts"

/**
 * Metadata that shows whether a file has changed. Times are in epoch ms, the size in bytes. `born` is the creation time. A tool can replace
 * a file, but cannot set this time back on Linux. The change time of the inode (`ctime`) is missing, since the platform does not report it.
 */
export interface Stat {
  readonly mtime: number
  readonly size: number
  readonly ino: number
  readonly born: number
}

/** The methods of an open file that the vault uses. */
export type OpenFile = Pick<FileSystem.File, "stat" | "seek" | "sync" | "readAlloc" | "writeAll">

/** Status of a file, symbolic link or folder. The status of a link is that of the link itself, not of its target. */
export type LinkStat = Pick<fs.Stats, "isFile" | "isSymbolicLink" | "mtime" | "birthtime" | "size" | "ino">

/** The file system calls of the vault. Only the optional ones are not part of the `FileSystem` service of @effect/platform. */
export interface Files extends
  Pick<
    FileSystem.FileSystem,
    "stat" | "readFile" | "readDirectory" | "readLink" | "makeDirectory" | "rename" | "remove" | "link" | "watch"
  >
{
  readonly open: (
    path: string,
    options: FileSystem.OpenFileOptions
  ) => Effect.Effect<OpenFile, PlatformError, Scope.Scope>
  /** Synchronous `lstat`. Returns "nothing" if the path does not exist. Returns `undefined` if the status cannot be read. */
  readonly linkStatNow?: (path: string) => LinkStat | "nothing" | undefined
  /** Synchronous `stat`. Returns "nothing" if there is no file. Returns `undefined` on errors, or after many calls without a pause. */
  readonly statNow?: (path: string) => (Stat & { readonly type: FileSystem.File.Type }) | "nothing" | undefined
  /**
   * Opens a file, writes the bytes, and closes the file. If `force` is true, syncs the file before closing it. The file is closed even if a
   * step fails. If this method is absent, callers use a separate call for each step.
   */
  readonly writeWhole?: (
    path: string,
    options: FileSystem.OpenFileOptions & { readonly force: boolean },
    bytes: Uint8Array
  ) => Effect.Effect<void, PlatformError>
  /** Reads up to `length` bytes from an offset. If this method is absent, callers open the file, seek and read. */
  readonly readRange?: (path: string, offset: number, length: number) => Effect.Effect<Uint8Array, PlatformError>
}

/**
 * Makes the vault's file system from a `FileSystem` service of @effect/platform. The vault calls Node directly if all methods named in
 * `reads` and `writes` are Node's own. Any other service, such as a wrapper of Node's, is used as it is.
 */
export const make = (service: FileSystem.FileSystem): Effect.Effect<Files> =>
  Effect.map(
    Effect.flatMap(NodeFiles, Option.match({ onNone: () => nodes, onSome: Effect.succeedSome })),
    (nodes) =>
      Option.exists(nodes, (own) => [...reads, ...writes].every((call) => own[call] === service[call]))
        ? direct(service)
        : service
  )

/** Node's `FileSystem`, set by programs that bundle @effect/platform-node. Default: `None`. The service is then imported at run time. */
export class NodeFiles extends Context.Reference<NodeFiles>()("@memory/NodeFiles", {
  defaultValue: (): Option.Option<FileSystem.FileSystem> => Option.none()
}) {}

/** Names of the `FileSystem` methods that must be Node's own before the vault calls Node directly. `watch` is not checked. */
const reads = ["stat", "readFile", "readDirectory", "readLink", "open"] as const
const writes = ["makeDirectory", "rename", "remove", "link"] as const

/** Node's `FileSystem` service from @effect/platform-node-shared; `None` if this package is not installed. */
const nodes: Effect.Effect<Option.Option<FileSystem.FileSystem>> = Effect.tryPromise(() => {
  const name: string = "@effect/platform-node-shared/NodeFileSystem" // a variable, so that bundlers do not include the package
  return import(name) as Promise<{ readonly layer: Layer.Layer<FileSystem.FileSystem> }> // the type of the published module
}).pipe(
  Effect.flatMap(({ layer }) => Effect.provide(FileSystem.FileSystem, layer)),
  Effect.option
)

/** Largest number of bytes that one synchronous call reads or writes. */
export const most = 262_144
/** Limit of calls per event loop iteration. `linkStatNow` counts, but may exceed it. Each 16 KiB or 16 listed names count as one more. */
const stretch = 64
const [bytesPerCall, namesPerCall] = [16_384, 16]
const bytesIn = (count: number): number => count / bytesPerCall

/** Makes a file system that calls Node directly. `service` is used only to list or remove folders recursively, and to read large files. */
export const direct = (service: FileSystem.FileSystem): Files => {
  const budget = EventLoop.makeIterationBudget(stretch)
  const open = Effect.unsafeMakeLatch(true)
  let isPausing = false
  /**
   * Waits for the next iteration of the event loop, whatever `Clock` is configured. All fibers share one wait, and so share the limit of
   * `stretch` calls per iteration. The wait is an asynchronous file call, which always completes in a later iteration. A timer is not used,
   * because a timer that is already due may run in the same iteration.
   */
  const pause = Effect.async<void>((resume) => {
    isPausing = true
    open.unsafeClose()
    fs.lstat("/", () => resume(Effect.void))
  }).pipe(Effect.ensuring(Effect.suspend(() => {
    budget.renew()
    isPausing = false
    return open.open
  })))
  /** Runs a synchronous call. Pauses first if the budget of this iteration is spent. A call costs 1 plus the result of `work`. */
  const now = <A>(
    method: string,
    path: string,
    run: () => A,
    work: (done: A) => number = () => 0
  ): Effect.Effect<A, PlatformError> => {
    const attempt: Effect.Effect<A, PlatformError> = Effect.clockWith((clock) => {
      if (budget.isSpent(clock)) return Effect.zipRight(isPausing ? open.await : pause, attempt)
      try {
        const done = run()
        budget.spend(1 + work(done))
        return Effect.succeed(done)
      } catch (cause) {
        budget.spend(1)
        return Effect.fail(failure(method, path, cause))
      }
    })
    return attempt
  }
  const later = (method: string, path: string, run: (done: (error: unknown) => void) => void) =>
    Effect.async<void, PlatformError>((resume) => {
      const done = (error: unknown) => {
        budget.renew()
        resume(error === null ? Effect.void : Effect.fail(failure(method, path, error)))
      }
      try {
        run(done)
      } catch (cause) {
        done(cause)
      }
    }).pipe(Effect.uninterruptible) // an interruption must not close a file that a thread still uses

  const fileOf = (path: string, opened: Opened, isAppending: boolean): OpenFile => {
    let position = 0
    return {
      stat: now("stat", path, () => infoOf(fs.fstatSync(numberOf(opened)))),
      sync: later("sync", path, (done) => fs.fsync(numberOf(opened), done)),
      seek: (offset, from) =>
        Effect.sync(() => {
          position = Number(offset) + (from === "start" ? 0 : position)
          return FileSystem.Size(position)
        }),
      readAlloc: (size) =>
        Effect.gen(function*() {
          const length = Number(size)
          const buffer = new Uint8Array(length)
          let read = 0
          if (length > most) {
            yield* later("readAlloc", path, (done) =>
              fs.read(numberOf(opened), buffer, 0, length, position, (error, count) => {
                read = count
                done(error)
              }))
          } else {
            read = yield* now("readAlloc", path, () =>
              fs.readSync(numberOf(opened), buffer, 0, length, position), bytesIn)
          }
          position += read
          return read === 0 ? Option.none() : Option.some(read === length ? buffer : buffer.subarray(0, read))
        }),
      writeAll: (bytes) =>
        bytes.length <= most
          ? now("writeAll", path, () => {
            const fd = numberOf(opened)
            for (let at = 0; at < bytes.length;) {
              const written = fs.writeSync(fd, bytes, at, bytes.length - at, isAppending ? null : position)
              position += written
              at += written
            }
            return bytes.length
          }, bytesIn).pipe(Effect.asVoid)
          : Effect.gen(function*() {
            for (let at = 0; at < bytes.length;) {
              yield* later("writeAll", path, (done) =>
                fs.write(
                  numberOf(opened),
                  bytes,
                  at,
                  bytes.length - at,
                  isAppending ? null : position,
                  (error, count) => {
                    position += count
                    at += count
                    done(error)
                  }
                ))
            }
          })
    }
  }

  return {
    linkStatNow: (path) => {
      budget.spend(1)
      try {
        return fs.lstatSync(path, { throwIfNoEntry: false }) ?? "nothing"
      } catch {
        return undefined
      }
    },
    statNow: (path) => {
      if (budget.isSpent()) return undefined
      budget.spend(1)
      try {
        const found = fs.statSync(path, { throwIfNoEntry: false })
        return found === undefined ? "nothing" : { ...marksOf(found), type: typeOf(found) }
      } catch {
        return undefined
      }
    },
    writeWhole: (path, { flag = "r", force, mode }, bytes) => {
      const written = now("write", path, () => {
        const fd = fs.openSync(path, flag, mode)
        try {
          for (let at = 0; at < bytes.length;) at += fs.writeSync(fd, bytes, at, bytes.length - at, null)
        } catch (cause) {
          fs.closeSync(fd)
          throw cause
        }
        if (!force) fs.closeSync(fd)
        return fd
      }, () => bytesIn(bytes.length))
      const forced = (fd: number) =>
        Effect.ensuring(
          later("sync", path, (done) => fs.fsync(fd, done)),
          Effect.orDie(now("close", path, () => fs.closeSync(fd)))
        )
      // uninterruptible, since an interruption could leave the file open
      return force ? Effect.uninterruptible(Effect.flatMap(written, forced)) : Effect.asVoid(written)
    },
    readRange: (path, offset, length) =>
      now("read", path, () => {
        const fd = fs.openSync(path, "r")
        try {
          const bytes = new Uint8Array(length)
          const count = fs.readSync(fd, bytes, 0, length, offset)
          return count === length ? bytes : bytes.subarray(0, count)
        } finally {
          fs.closeSync(fd)
        }
      }, ({ length }) => bytesIn(length)),
    stat: (path) => now("stat", path, () => infoOf(fs.statSync(path))),
    readFile: (path) =>
      Effect.flatMap(
        now("readFile", path, () => fs.statSync(path).size),
        (size) =>
          size > most
            ? service.readFile(path)
            : now("readFile", path, () => fs.readFileSync(path), ({ length }) => bytesIn(length))
      ),
    readDirectory: (path, options) =>
      options?.recursive === true
        ? service.readDirectory(path, options)
        : now("readDirectory", path, () => fs.readdirSync(path), ({ length }) => length / namesPerCall),
    readLink: (path) => now("readLink", path, () => fs.readlinkSync(path)),
    makeDirectory: (path, options) => now("makeDirectory", path, () => void fs.mkdirSync(path, options)),
    rename: (from, to) => now("rename", from, () => fs.renameSync(from, to)),
    remove: (path, options) =>
      options?.recursive === true
        ? service.remove(path, options)
        : now("remove", path, () => {
          try {
            fs.unlinkSync(path)
          } catch (cause) {
            if (options?.force !== true || codeOf(cause) !== "ENOENT") throw cause
          }
        }),
    link: (from, to) => now("link", from, () => fs.linkSync(from, to)),
    open: (path, { flag = "r", mode }) =>
      Effect.map(
        Effect.acquireRelease(
          now("open", path, (): Opened => ({ fd: fs.openSync(path, flag, mode) })),
          (opened) =>
            Effect.orDie(now("close", path, () => {
              const fd = numberOf(opened)
              opened.fd = undefined
              fs.closeSync(fd)
            }))
        ),
        (opened) => fileOf(path, opened, flag.startsWith("a"))
      ),
    watch: (path) =>
      Stream.asyncPush<FileSystem.WatchEvent, PlatformError>((emit) => {
        const failed = (cause: unknown) => failure("watch", path, cause)
        const event = FileSystem.WatchEventUpdate({ path })
        const begin = () => fs.watch(path, () => emit.single(event)).on("error", (cause) => emit.fail(failed(cause)))
        const watcher = Effect.try({ try: begin, catch: failed })
        return Effect.acquireRelease(watcher, (watcher) => Effect.sync(() => watcher.close()))
      }, { bufferSize: 1, strategy: "dropping" }) // all events are equal, so one unread event is enough
  }
}

/** A file descriptor. `undefined` once the file is closed, since the number may then belong to another file. */
interface Opened {
  fd: number | undefined
}
/** Returns the descriptor of an open file. Throws `EBADF` if the file is closed. */
const numberOf = ({ fd }: Opened): number => {
  if (fd === undefined) throw Object.assign(new Error("EBADF: the file is closed"), { code: "EBADF" })
  return fd
}

/**
 * Returns the status of a path without following links; `undefined` if the path does not exist or cannot be read. The platform has no such
 * call, since its `stat` follows links. Calling `stat` and `readLink` instead would take a sixth of a first scan.
 */
export const linkStatOf = (path: string): Effect.Effect<LinkStat | undefined> =>
  Effect.async((resume) => fs.lstat(path, (error, stat) => resume(Effect.succeed(error === null ? stat : undefined))))

const types = ["File", "Directory", "SymbolicLink", "FIFO", "Socket", "CharacterDevice", "BlockDevice"] as const
const typeOf = (stat: fs.Stats): FileSystem.File.Type => types.find((type) => stat[`is${type}`]()) ?? "Unknown"

const infoOf = (stat: fs.Stats): FileSystem.File.Info => ({
  type: typeOf(stat),
  mtime: Option.some(stat.mtime),
  atime: Option.some(stat.atime),
  birthtime: Option.some(stat.birthtime),
  dev: stat.dev,
  ino: Option.some(stat.ino),
  mode: stat.mode,
  nlink: Option.some(stat.nlink),
  uid: Option.some(stat.uid),
  gid: Option.some(stat.gid),
  rdev: Option.some(stat.rdev),
  size: FileSystem.Size(stat.size),
  blksize: Option.some(FileSystem.Size(stat.blksize)),
  blocks: Option.some(stat.blocks)
})

const codeOf = (cause: unknown): string | undefined =>
  typeof cause === "object" && cause !== null && "code" in cause && typeof cause.code === "string"
    ? cause.code
    : undefined

/** Error reasons of `@effect/platform`, by Node's error codes. */
const reasons: Readonly<Record<string, SystemErrorReason>> = {
  ENOENT: "NotFound",
  EACCES: "PermissionDenied",
  EEXIST: "AlreadyExists",
  EISDIR: "BadResource",
  ENOTDIR: "BadResource",
  EBUSY: "Busy",
  ELOOP: "BadResource"
}

/** Makes a `PlatformError` with the reason that the platform's `FileSystem` would give. */
const failure = (method: string, path: string, cause: unknown): PlatformError =>
  new SystemError({
    reason: reasons[codeOf(cause) ?? ""] ?? "Unknown",
    module: "FileSystem",
    method,
    pathOrDescriptor: path,
    syscall: method,
    description: cause instanceof Error ? cause.message : undefined,
    cause
  })

/** Converts the platform's file information to `Stat`. */
export const statOf = ({ birthtime, ino, mtime, size }: FileSystem.File.Info): Stat => ({
  mtime: Option.isSome(mtime) ? mtime.value.getTime() : 0,
  born: Option.isSome(birthtime) ? birthtime.value.getTime() || 0 : 0, // `getTime()` is NaN on a disk without creation times
  size: Number(size),
  ino: Option.isSome(ino) ? ino.value : 0
})

/** Converts Node's file information to `Stat`. */
export const marksOf = ({ birthtime, ino, mtime, size }: LinkStat): Stat => ({
  mtime: mtime.getTime(),
  born: birthtime.getTime() || 0,
  size,
  ino
})

/** Whether a regular file still has the earlier metadata `was`. False for anything else, such as a link or a folder. */
export const isAs = (was: Stat, now: LinkStat): boolean =>
  now.ino === was.ino && now.size === was.size && now.isFile() && now.mtime.getTime() === was.mtime &&
  (now.birthtime.getTime() || 0) === was.born

/** Whether `a` and `b` are equal, that is, metadata of the same unchanged file. */
export const isSameStat = (a: Stat, b: Stat): boolean =>
  a.mtime === b.mtime && a.size === b.size && a.ino === b.ino && a.born === b.born
