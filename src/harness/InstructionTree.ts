/**
 * Instruction files as they lie on disk, from the root of the tree down to a working directory.
 *
 * Nothing outside the root is read, whatever links say; a file reached twice is one file.
 */
import type { PlatformError } from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import * as MemoryError from "../domain/MemoryError.ts"
import type { InstructionFilesConfig } from "./MemorySpec.ts"

export interface InstructionFile {
  /** Absolute. */
  readonly path: string
  /** `(repo root)`, or the directory relative to it. */
  readonly label: string
  /** Trimmed, not empty. */
  readonly content: string
  readonly truncated: boolean
}

export interface Loaded {
  readonly files: ReadonlyArray<InstructionFile>
  readonly issues: ReadonlyArray<MemoryError.MemoryError>
}

export interface InstructionTree {
  /** Absolute, links resolved. */
  readonly root: string
  /** Root first, in each directory in the order of `filenames`. */
  readonly load: Effect.Effect<Loaded>
  /** By its path below the root, `docs/AGENTS.md`; `None` where it is missing, blank, or not one of `filenames`. */
  readonly read: (relative: string) => Effect.Effect<Option.Option<InstructionFile>, MemoryError.MemoryError>
  readonly relative: (file: InstructionFile) => string
}

/** How far up from the working directory is looked. */
const levels = 40

/** Fails where the working directory is not there, or not below the root. */
export const open = (
  cwd: string,
  config: InstructionFilesConfig
): Effect.Effect<InstructionTree, MemoryError.MemoryError, FileSystem.FileSystem | Path.Path> =>
  Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const real = (name: string, called: string) =>
      Effect.mapError(fs.realPath(path.resolve(cwd, name)), unreadable(called))

    const bottom = yield* real(".", "the working directory")
    const ancestors = [bottom]
    while (ancestors.length < levels && path.dirname(ancestors.at(-1)!) !== ancestors.at(-1)) {
      ancestors.push(path.dirname(ancestors.at(-1)!)) // never empty
    }
    const marked = (directory: string) => Effect.orElseSucceed(fs.exists(path.join(directory, ".git")), () => false) // not ours to look into: not ours to stop at
    const root = config.root === undefined
      ? Option.getOrElse(yield* Effect.findFirst(ancestors, marked), () => bottom)
      : yield* real(config.root, "the root")
    const below = (name: string) => {
      const relative = path.relative(root, name)
      return relative !== ".." && !relative.startsWith(`..${path.sep}`) && !path.isAbsolute(relative)
    }
    if (!below(bottom)) return yield* escape("the working directory lies outside the root")

    const relative = (name: string) => path.relative(root, name).split(path.sep).join("/")

    /** With the path that links led to. */
    const read = (file: string) =>
      Effect.gen(function*() {
        const called = relative(file)
        const at = yield* fs.realPath(file).pipe(
          Effect.asSome,
          Effect.catchIf(isMissing, () =>
            Effect.matchEffect(fs.readLink(file), {
              onFailure: () => Effect.succeedNone,
              onSuccess: () => broken(called)
            })),
          Effect.mapError((error) => error._tag === "MemoryError" ? error : unreadable(called)(error))
        )
        if (Option.isNone(at)) return Option.none()
        if (!below(at.value)) return yield* escape(`${called} leads out of the root`)
        const text = yield* textOf(fs, at.value, called, config.maxBytesPerFile)
        if (text.content === "") return Option.none()
        const directory = path.dirname(called)
        const label = directory === "." ? "(repo root)" : directory
        return Option.some({ at: at.value, file: { path: file, label, ...text } })
      })

    const tree: InstructionTree = {
      root,
      relative: (file) => relative(file.path),
      read: (called) =>
        config.filenames.includes(path.basename(called))
          ? Effect.map(read(path.join(root, called)), Option.map(({ file }) => file))
          : Effect.succeedNone,
      load: Effect.gen(function*() {
        const seen = new Set<string>()
        const files: Array<InstructionFile> = []
        const issues: Array<MemoryError.MemoryError> = config.filenames.filter((name) => !isName(name)).map((name) =>
          escape(`${JSON.stringify(name)} is no file name`)
        )
        for (const directory of ancestors.filter(below).reverse()) {
          for (const name of config.filenames.filter(isName)) {
            const found = yield* Effect.either(read(path.join(directory, name)))
            if (Either.isLeft(found)) issues.push(found.left)
            else if (Option.isSome(found.right) && !seen.has(found.right.value.at)) {
              const { at, file } = found.right.value
              seen.add(at)
              files.push(file)
            }
          }
        }
        return { files, issues }
      })
    }
    return tree
  }).pipe(Effect.withSpan("InstructionTree.open"))

/** At most `maxBytes` of it, cut before a character that would not be whole, and then saying so. */
const textOf = (fs: FileSystem.FileSystem, file: string, called: string, maxBytes: number) =>
  Effect.gen(function*() {
    const { type } = yield* Effect.mapError(fs.stat(file), unreadable(called))
    if (type !== "File") return yield* MemoryError.make("io", { op, message: `${called} is no file` })
    const bytes = yield* fs.stream(file, { bytesToRead: maxBytes + 1 }).pipe(
      Stream.runCollect,
      Effect.mapBoth({ onFailure: unreadable(called), onSuccess: whole })
    )
    const truncated = bytes.length > maxBytes
    const text = yield* Effect.try({
      // `stream`: an unfinished last character is no error, and not given
      try: () => new TextDecoder("utf-8", { fatal: true }).decode(bytes.subarray(0, maxBytes), { stream: truncated }),
      catch: () => notText(called)
    })
    if (text.includes("\0")) return yield* notText(called)
    const content = text.trim()
    return { content: truncated ? `${content}\n\n${notice(maxBytes)}`.trimStart() : content, truncated }
  })

const whole = (chunks: Chunk.Chunk<Uint8Array>): Uint8Array => {
  const bytes = new Uint8Array(Chunk.reduce(chunks, 0, (length, chunk) => length + chunk.length))
  Chunk.reduce(chunks, 0, (at, chunk) => {
    bytes.set(chunk, at)
    return at + chunk.length
  })
  return bytes
}

const op = "instructions"

const notice = (maxBytes: number) => `[...truncated — file exceeds ${maxBytes} bytes]`

const isName = (name: string): boolean => name !== "." && name !== ".." && !/[/\\\0]/.test(name)

const isMissing = (error: PlatformError): boolean => error._tag === "SystemError" && error.reason === "NotFound"

const unreadable = (called: string) => (cause: PlatformError) =>
  MemoryError.make("io", { op, message: `${called} cannot be read`, cause })

const broken = (called: string) => MemoryError.make("io", { op, message: `${called} is a link to nothing` })

const escape = (message: string) => MemoryError.make("path_escape", { op, message })

const notText = (called: string) =>
  MemoryError.make("corrupt", { op, message: `${called} is no UTF-8 text`, detail: { location: called } })
