/**
 * Claims a path for one process by creating a file there. No other process can claim the path while the file exists. The lock of a vault is
 * such a file.
 *
 * A process keeps one file open in its staging folder (the folder of its temporary files: see `Layout.stagingFolderOf`). Each claim makes
 * the path a hard link to this kept file. Creating a new file for each claim would get slower over time, because file systems skip the
 * inodes of recently removed files. On a file system without hard links, each claim does create a new file.
 *
 * Laws: while the kept file is open, no other file has its inode. The content is written to the kept file before the link is made. To
 * take over the path from a dead holder, a process first moves away the holder's staging folder. If the holder is alive after all, its next
 * claim does not find the kept file, and creates a new one.
 */
import type { PlatformError } from "@effect/platform/Error"
import * as Effect from "effect/Effect"
import * as ExecutionStrategy from "effect/ExecutionStrategy"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Scope from "effect/Scope"
import type { Files, OpenFile } from "./DirectFiles.ts"

/** An open file with which this process claims a path. While the file is open, no other file can have its inode. */
export interface ExclusiveFile<E = PlatformError> {
  readonly ino: number
  /** Whether the claim is a new hard link to a file in the staging folder. If so, the folder existed at the time of the claim. */
  readonly isFromStaging: boolean
  /** Overwrites the content in place. `text` must not be shorter than the previous text, since the file is not truncated. */
  readonly write: (text: string) => Effect.Effect<void, E>
  /** Closes the file at the end of the claim. Does nothing if the file is kept for further claims. */
  readonly close: Effect.Effect<void>
}

/** An open file in the staging folder. If `hasTwoNames` is true, claims make hard links to this file. `name` is the path of the file. */
interface HeldFile extends ExclusiveFile {
  readonly name: string
  /** Whether the file system supports hard links, and reports the same inode for two names of one file. */
  readonly hasTwoNames: boolean
}

/** The platform's file system calls, and functions that classify their errors. */
export interface Platform {
  readonly fs: Files
  readonly isMissing: (error: PlatformError) => boolean
  readonly alreadyExists: (error: PlatformError) => boolean
  readonly isFull: (error: PlatformError) => boolean
}

/**
 * Makes a function that claims a path for this process. The function can be called many times. It returns `None` if another process has
 * claimed the path. `folder` is the staging folder of this process.
 */
export const make = ({ fs, isFull, isMissing, alreadyExists }: Platform, folder: string) =>
  Effect.gen(function*() {
    // `parent` is forked first, and so is closed last. A finalizer that is added to `scope` later can still make claims
    const scope = yield* Effect.scope
    const parent = yield* Scope.fork(scope, ExecutionStrategy.sequential)
    let kept: HeldFile | undefined
    let isOver = false
    // sets `isOver` before the kept file is closed, so that a later claim does not open another kept file
    yield* Scope.addFinalizer(scope, Effect.sync(() => isOver = true))

    const claimOf = (file: OpenFile, close: Effect.Effect<void>): Effect.Effect<ExclusiveFile, PlatformError> =>
      Effect.map(file.stat, ({ ino }) => ({
        ino: Option.getOrElse(ino, () => 0),
        isFromStaging: false,
        close,
        write: (text) => Effect.zipRight(file.seek(0, "start"), file.writeAll(encoder.encode(text)))
      }))
    /** Writes the content of a claim. Ignores the error of a full disk: a purge, which frees space, needs the lock. */
    const marked = (claim: Pick<ExclusiveFile, "write">, text: string) =>
      Effect.catchIf(claim.write(text), isFull, () => Effect.void)
    const inodeAt = (path: string): Effect.Effect<number | undefined> =>
      Effect.suspend(() => {
        const now = fs.statNow?.(path)
        if (now !== undefined) return Effect.succeed(now === "nothing" ? undefined : now.ino)
        return Effect.map(
          Effect.option(fs.stat(path)),
          (stat) => Option.getOrUndefined(Option.flatMap(stat, ({ ino }) => ino))
        )
      })
    const removed = (path: string, ino: number) =>
      Effect.flatMap(inodeAt(path), (now) => now === ino ? fs.remove(path) : Effect.void)

    const keep = (n = 0): Effect.Effect<HeldFile, PlatformError> =>
      Effect.gen(function*() {
        const name = `${folder}/claim.${n}`
        const scope = yield* Scope.fork(parent, ExecutionStrategy.sequential)
        return yield* Effect.gen(function*() {
          yield* fs.makeDirectory(folder, { recursive: true, mode: 0o700 })
          const file = yield* Effect.flatMap(
            fs.open(name, { flag: "wx+", mode: 0o600 }),
            (file) => claimOf(file, Scope.close(scope, Exit.void))
          )
          let isOpen = true
          // a closed file is not written: a late heartbeat of the lock could reach another file with the same descriptor
          const claim = {
            ...file,
            write: (text: string) => Effect.suspend(() => isOpen ? file.write(text) : Effect.void)
          }
          yield* Effect.addFinalizer(() =>
            Effect.suspend(() => {
              isOpen = false
              return Effect.option(removed(name, file.ino))
            })
          )
          const second = `${name}.too`
          const hasTwoNames = yield* fs.link(name, second).pipe(
            Effect.zipRight(Effect.map(inodeAt(second), (ino) => ino === claim.ino)),
            Effect.orElseSucceed(() => false),
            Effect.ensuring(Effect.option(fs.remove(second)))
          )
          return { ...claim, name, hasTwoNames }
        }).pipe(Scope.extend(scope), Effect.tapError(() => Scope.close(scope, Exit.void)))
      }).pipe(Effect.catchIf(alreadyExists, () => keep(n + 1))) // a file of this name exists: tries the next number
    const known = Effect.suspend(() =>
      kept === undefined ? Effect.tap(keep(), (made) => Effect.sync(() => kept = made)) : Effect.succeed(kept)
    )
    const dropKept = Effect.suspend(() => {
      const { close } = kept ?? { close: Effect.void }
      kept = undefined
      return close
    })

    /** Makes the path a hard link to the kept file. A link that remains from an earlier claim is used again. */
    const linked = (file: HeldFile, path: string): Effect.Effect<Option.Option<ExclusiveFile>, PlatformError> =>
      Effect.matchEffect(fs.link(file.name, path), {
        onFailure: (error) => alreadyExists(error) ? Effect.succeed(false) : Effect.fail(error),
        onSuccess: () => Effect.succeed(true)
      }).pipe(Effect.flatMap((isNew) =>
        Effect.flatMap(inodeAt(path), (ino) =>
          ino === file.ino
            ? Effect.succeedSome({ ...file, isFromStaging: isNew, close: Effect.void })
            : isNew // the link was made, but another process has replaced the kept file or taken over the path
            ? Effect.as(dropKept, Option.none())
            : Effect.succeedNone)
      ))
    const createFile = (path: string, text: string): Effect.Effect<Option.Option<ExclusiveFile>, PlatformError> =>
      Effect.flatMap(Scope.make(), (scope) => {
        const close = Scope.close(scope, Exit.void)
        return Effect.flatMap(fs.open(path, { flag: "wx", mode: 0o600 }), (file) => claimOf(file, close)).pipe(
          Effect.tap((claim) => Effect.tapError(marked(claim, text), () => Effect.option(removed(path, claim.ino)))),
          Effect.asSome,
          Scope.extend(scope),
          Effect.tapError(() => close),
          Effect.catchIf(alreadyExists, () => Effect.succeedNone)
        )
      })

    return (path: string, text: string): Effect.Effect<Option.Option<ExclusiveFile>, PlatformError> =>
      Effect.suspend(() =>
        Effect.flatMap(isOver ? Effect.succeed(undefined) : known, (file) =>
          file?.hasTwoNames === true
            ? Effect.zipRight(marked(file, text), Effect.tapErrorCause(linked(file, path), () => dropKept))
            : createFile(path, text))
        // retries if the staging folder was moved away, or the Effect scope was closed
      ).pipe(Effect.retry({ times: 8, while: (error) => isMissing(error) || isOver }))
  })

const encoder = new TextEncoder()
