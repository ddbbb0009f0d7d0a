/**
 * Claims a path by a file that one process alone has: what the vault's lock is made of.
 *
 * A process keeps one file, open, in the folder of its turn, and gives it the path as a second name, which fails where the
 * path is taken. A file made and removed for each claim costs more the more often that is done: a disk passes over the inodes
 * of what was just removed. Where a file cannot have two names with one inode, each claim is a file of its own.
 *
 * Laws: as long as the kept file is open, no other file has its inode. It has its text before it gets the path. Whoever takes
 * a claim away moves the folder first; then another file is kept.
 */
import type { PlatformError } from "@effect/platform/Error"
import * as Effect from "effect/Effect"
import * as ExecutionStrategy from "effect/ExecutionStrategy"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Scope from "effect/Scope"
import type { Files, OpenFile } from "./DirectFiles.ts"

/** A file of ours, held open: no other file has its inode meanwhile. */
export interface ExclusiveFile<E = PlatformError> {
  readonly ino: number
  /** Whether the folder of the turn was there when the path was taken: it was taken from inside that folder. */
  readonly isInTurn: boolean
  /** Writes in place: no text is shorter than the one before. */
  readonly write: (text: string) => Effect.Effect<void, E>
  /** Closes a file that is this claim's alone, when the claim is over. */
  readonly close: Effect.Effect<void>
}

/** The file that is kept, and its first name. */
interface HeldFile extends ExclusiveFile {
  readonly name: string
  /** Whether a second name has the same inode here. */
  readonly hasTwoNames: boolean
}

/** Calls of a platform, and what their failures mean. */
export interface Platform {
  readonly fs: Files
  readonly isMissing: (error: PlatformError) => boolean
  readonly isTaken: (error: PlatformError) => boolean
  readonly isFull: (error: PlatformError) => boolean
}

/** Makes the function that claims paths, one after the other, for the turn in `folder`. `None`: the path is taken. */
export const make = ({ fs, isFull, isMissing, isTaken }: Platform, folder: string) =>
  Effect.gen(function*() {
    // a scope that begins here: whatever is added to ours later ends before it, and may claim until then
    const scope = yield* Effect.scope
    const parent = yield* Scope.fork(scope, ExecutionStrategy.sequential)
    let kept: HeldFile | undefined
    let isOver = false
    yield* Scope.addFinalizer(scope, Effect.sync(() => isOver = true)) // the kept file is closed after this, and none is kept any more

    const claimOf = (file: OpenFile, close: Effect.Effect<void>): Effect.Effect<ExclusiveFile, PlatformError> =>
      Effect.map(file.stat, ({ ino }) => ({
        ino: Option.getOrElse(ino, () => 0),
        isInTurn: false,
        close,
        write: (text) => Effect.zipRight(file.seek(0, "start"), file.writeAll(encoder.encode(text)))
      }))
    /** A full disk has room for an empty file, and whoever purges needs the lock. */
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
          // a heartbeat that comes late must not reach whichever file has the number of this one by then
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
      }).pipe(Effect.catchIf(isTaken, () => keep(n + 1))) // a process that has our name, or had it, keeps this one
    const known = Effect.suspend(() =>
      kept === undefined ? Effect.tap(keep(), (made) => Effect.sync(() => kept = made)) : Effect.succeed(kept)
    )
    const forgotten = Effect.suspend(() => {
      const { close } = kept ?? { close: Effect.void }
      kept = undefined
      return close
    })

    /** Gives the kept file the path, or finds that it has it, from a claim that could not be ended. */
    const linked = (file: HeldFile, path: string): Effect.Effect<Option.Option<ExclusiveFile>, PlatformError> =>
      Effect.matchEffect(fs.link(file.name, path), {
        onFailure: (error) => isTaken(error) ? Effect.succeed(false) : Effect.fail(error),
        onSuccess: () => Effect.succeed(true)
      }).pipe(Effect.flatMap((isNew) =>
        Effect.flatMap(inodeAt(path), (ino) =>
          ino === file.ino
            ? Effect.succeedSome({ ...file, isInTurn: isNew, close: Effect.void })
            : isNew // its name was another's file, or the claim was taken away at once
            ? Effect.as(forgotten, Option.none())
            : Effect.succeedNone)
      ))
    const alone = (path: string, text: string): Effect.Effect<Option.Option<ExclusiveFile>, PlatformError> =>
      Effect.flatMap(Scope.make(), (scope) => {
        const close = Scope.close(scope, Exit.void)
        return Effect.flatMap(fs.open(path, { flag: "wx", mode: 0o600 }), (file) => claimOf(file, close)).pipe(
          Effect.tap((claim) => Effect.tapError(marked(claim, text), () => Effect.option(removed(path, claim.ino)))),
          Effect.asSome,
          Scope.extend(scope),
          Effect.tapError(() => close),
          Effect.catchIf(isTaken, () => Effect.succeedNone)
        )
      })

    return (path: string, text: string): Effect.Effect<Option.Option<ExclusiveFile>, PlatformError> =>
      Effect.suspend(() =>
        Effect.flatMap(isOver ? Effect.succeed(undefined) : known, (file) =>
          file?.hasTwoNames === true
            ? Effect.zipRight(marked(file, text), Effect.tapErrorCause(linked(file, path), () => forgotten))
            : alone(path, text))
      ).pipe(Effect.retry({ times: 8, while: (error) => isMissing(error) || isOver })) // the folder was moved away, or the scope closed meanwhile
  })

const encoder = new TextEncoder()
