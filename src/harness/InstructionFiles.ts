/**
 * Reads instruction files (AGENTS.md, CLAUDE.md) in every directory from the root of a tree down to the agent's working directory. No file
 * outside the root is read, not even through a symbolic link. A file that is reached twice is returned once. If two files in one directory
 * have the same text, only the first is returned.
 *
 * A file imports another file as in Claude Code: by `@` and a relative path, such as `@docs/git.md`. The `@` begins a line or follows a
 * space, outside code. An imported file follows its importer in the result. A name that belongs to no file is plain text. An import is left
 * out and reported if it leads out of the root, forms a cycle, is more than five levels deep, or follows 100 other imports.
 */
import type { PlatformError } from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Chunk from "effect/Chunk"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import { canonicalJson } from "../domain/Digest.ts"
import * as MemoryError from "../domain/MemoryError.ts"
import * as MemoryId from "../domain/MemoryId.ts"
import type { Applied, MemoryMutation } from "../domain/MemoryMutation.ts"
import { deriveSummary, type Draft, type MemoryRecord } from "../domain/MemoryRecord.ts"
import { Global } from "../domain/MemoryScope.ts"
import type * as Viewer from "../domain/Viewer.ts"
import * as Redaction from "../host/Redaction.ts"
import * as MemoryStore from "../storage/MemoryStore.ts"
import { InstructionFilesConfig } from "./MemorySpec.ts"
import { fenced, line } from "./PromptBlock.ts"

/** An instruction file and its text. */
export interface InstructionFile {
  /** Absolute path. */
  readonly path: string
  /** Path of the file's directory, relative to the root; `(repo root)` for the root itself. */
  readonly label: string
  /** Text of the file, trimmed, not empty. */
  readonly content: string
  readonly truncated: boolean
  /** Path, relative to the root, of the file that begins the chain of imports to this file. Absent if this file is not imported. */
  readonly importedBy?: string | undefined
}
/** The files that were read, and an issue for each file or import that was cut, refused or unreadable. */
export interface Loaded {
  readonly files: ReadonlyArray<InstructionFile>
  readonly issues: ReadonlyArray<MemoryError.MemoryError>
}
/** Operations of `InstructionFiles`. */
export interface Service {
  /** Reads the files, root first. Never fails. An unreadable file is reported as an issue, and so is a file cut at the size limit. */
  readonly load: Effect.Effect<Loaded>
  /** Renders the files for a system prompt. Returns `""` if there are no files. */
  readonly render: Effect.Effect<string>
  /**
   * Stores the files as read-only `Global` records of the tenant. Forgets records of files that are gone or no longer imported. Unchanged
   * records are not rewritten. With `seedMemory: false`, does nothing. Logs changes that fail. Fails if all changes fail, or if the working
   * directory, the root or the store cannot be read.
   */
  readonly seed: (system: Viewer.System) => Effect.Effect<ReadonlyArray<Applied>, MemoryError.MemoryError>
}
/** Tag of the service for instruction files. */
export class InstructionFiles extends Context.Tag("@memory/InstructionFiles")<InstructionFiles, Service>() {}

/** Provides `InstructionFiles` over a `MemoryStore` and a file system. */
export const layer = (
  config: ConstructorParameters<typeof InstructionFilesConfig>[0] = {},
  /** Working directory. Default: the process's. The directory is not in a run's spec, so a run can be resumed in another directory. */
  options: { readonly cwd?: string | undefined } = {}
): Layer.Layer<InstructionFiles, never, MemoryStore.MemoryStore | FileSystem.FileSystem | Path.Path> =>
  Layer.effect(
    InstructionFiles,
    Effect.gen(function*() {
      const store = yield* MemoryStore.MemoryStore
      const disk = yield* Effect.context<FileSystem.FileSystem | Path.Path>()
      const settings = new InstructionFilesConfig(config)
      const redact = Redaction.rereading(yield* Redaction.over(store))
      const open = Effect.provide(openTree(options.cwd ?? ".", settings, redact), disk)
      const load = Effect.flatMap(open, ({ load }) => load).pipe(
        Effect.catchAll((issue) => Effect.succeed({ files: [], issues: [issue] })),
        Effect.withSpan("InstructionFiles.load")
      )
      return {
        load,
        render: Effect.map(Effect.flatMap(load, logIssues), renderInstructionFiles),
        seed: (system) =>
          settings.seedMemory
            ? Effect.flatMap(open, (tree) => seed(store, system, tree, settings.projectKey)).pipe(
              Effect.withSpan("InstructionFiles.seed")
            )
            : Effect.succeed([])
      }
    })
  )

/** Reads the files. Logs a warning for each issue (see `Loaded`). Fails if `cwd` does not exist or lies outside the root. */
export const loadInstructionFiles = (
  cwd: string,
  config: InstructionFilesConfig = new InstructionFilesConfig({})
): Effect.Effect<
  ReadonlyArray<InstructionFile>,
  MemoryError.MemoryError,
  FileSystem.FileSystem | Path.Path
> => Effect.flatMap(Effect.flatMap(openTree(cwd, config), ({ load }) => load), logIssues)

/** Renders files for a system prompt; `""` without files. Each text is fenced, so no line of a file counts as a section heading. */
export const renderInstructionFiles = (files: ReadonlyArray<InstructionFile>): string =>
  files.length === 0 ? "" : [
    "## Project instructions",
    "From files of the project, root first: follow them where they bear on the task; the later one wins, and none outranks the rules above.",
    ...files.flatMap(({ content, label, path }) => ["", `### ${line(label)} — ${line(nameOf(path))}`, fenced(content)])
  ].join("\n")

const logIssues = ({ files, issues }: Loaded) =>
  Effect.as(Effect.forEach(issues, (issue) => Effect.logWarning("instruction files are not whole", issue)), files)

const seed = (
  store: MemoryStore.Service,
  system: Viewer.System,
  tree: InstructionTree,
  projectKey: string | undefined
) =>
  Effect.gen(function*() {
    const project = projectKey ?? tree.root
    const known = yield* store.stream(system, {
      scope: Global,
      tags: ["instructions"],
      where: { "data.project": { eq: project } },
      limit: 1_000
    }).pipe(Stream.runCollect, Effect.map(Chunk.toReadonlyArray))
    const files = yield* Effect.flatMap(tree.load, logIssues)

    const apply = (mutation: MemoryMutation) =>
      Effect.map(store.apply(system, [mutation], { origin: "instructions", trust: 0 }), ([applied]) => applied!) // one result per mutation
    const put = (file: InstructionFile) => {
      const draft = draftOf(file, tree.relative(file), project, projectKey)
      const record = known.find(({ id }) => id === draft.id)
      return record && says(record) === says(draft)
        ? Effect.succeed<Applied>({ id: record.id, outcome: "duplicate", before: record.revision, record })
        : apply({ _tag: "Put", draft })
    }
    // the record may come from a process in another directory. It is forgotten only if `tree.read` returns `None`, or if a loaded importer
    // no longer imports the file. If the file cannot be read, the record stays
    const revisit = ({ data, id }: MemoryRecord) => {
      const importer = data["importedBy"]
      const isDropped = typeof importer === "string" && loaded.has(importer)
      return Effect.flatMap(
        tree.read(`${data["path"]}`, typeof importer === "string" ? importer : undefined),
        (file) => isDropped || Option.isNone(file) ? apply({ _tag: "Forget", id }) : put(file.value)
      )
    }

    const loaded = new Set(files.map(tree.relative))
    const [failures, applied] = yield* Effect.partition(
      [...files.map(put), ...known.filter(({ data }) => !loaded.has(`${data["path"]}`)).map(revisit)],
      (change) => change
    )
    yield* Effect.forEach(failures, (error) => Effect.logWarning("instruction file not seeded", error))
    if (failures[0] && applied.length === 0) return yield* failures[0]
    return applied
  })

const draftOf = (
  file: InstructionFile,
  relative: string,
  project: string,
  projectKey: string | undefined
): Draft => {
  const { importedBy, path } = file
  const reference = projectKey === undefined ? path : `${projectKey}/${relative}`
  return {
    id: MemoryId.stableId(reference),
    scope: Global,
    kind: "reference",
    summary: deriveSummary(`Project instructions — ${file.label} (${nameOf(path)})`),
    body: bodyOf(file.content),
    tags: ["instructions"],
    data: { project, path: relative, ...(importedBy !== undefined && { importedBy }) },
    source: { reference: reference.slice(-1_024).toWellFormed() }
  }
}

/** Returns the compared fields as JSON. `seed` rewrites a stored record only if its JSON differs from the JSON of the draft. */
const says = ({ body, data, summary, tags }: Draft | MemoryRecord): string => canonicalJson([summary, body, tags, data])

const nameOf = (path: string): string => path.slice(Math.max(path.lastIndexOf("/"), path.lastIndexOf("\\")) + 1)

/** Cuts a text to at most 65,536 characters, the greatest length of the body of an instruction record. */
const bodyOf = (content: string): string =>
  content.length <= 65_536
    ? content
    : `${content.slice(0, 65_500).replace(/[\uD800-\uDBFF]$/, "")}\n\n[...truncated]`

/** The instruction files in the directories from the root down to the working directory. */
interface InstructionTree {
  /** Absolute path of the root, with symbolic links resolved. */
  readonly root: string
  /** Reads the files, root first. Within a directory, the order is that of the option `filenames`. */
  readonly load: Effect.Effect<Loaded>
  /** Reads a file. `None` if it or its importer is missing or blank, or if the importer's name (else the file's) is not in `filenames`. */
  readonly read: (
    relative: string,
    importedBy?: string
  ) => Effect.Effect<Option.Option<InstructionFile>, MemoryError.MemoryError>
  readonly relative: (file: InstructionFile) => string
}

/** Largest number of directories, from the working directory upwards, that are searched for the root and for files. */
const maxLevels = 40
/** Largest depth of imports, and largest number of imported files. */
const [maxDepth, maxImports] = [5, 100]

/** A file that was read. `at` is its absolute path with symbolic links resolved. */
interface Found {
  readonly at: string
  readonly file: InstructionFile
}

/** Returns the names that follow an `@` in a text outside of code, at most 1,000, each once. A span of code ends in its paragraph. */
const importsOf = (text: string): ReadonlySet<string> => {
  const names = Array.from(text.replace(code, "").matchAll(/(?<=^|\s)@((?:[^\s\\@]|\\ )+)/g), ([, name]) => name!) // the group always matches
  return new Set(names.slice(0, 1_000))
}
const code = /^[ \t]*(`{3,}(?!.*`)|~{3,})[^]*?(?:^[ \t]*\1|$(?![^]))|(?<!`)(`+)(?!`)(?:(?!\n\s*\n)[^])+?(?<!`)\2(?!`)/gm

/** Finds the root and returns functions that read the files below it. Fails if `cwd` does not exist or lies outside the root. */
const openTree = (
  cwd: string,
  config: InstructionFilesConfig,
  redacting?: ReturnType<typeof Redaction.rereading>
): Effect.Effect<InstructionTree, MemoryError.MemoryError, FileSystem.FileSystem | Path.Path> =>
  Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const redact = redacting ?? Redaction.rereading(yield* Redaction.Redaction)
    const real = (name: string, called: string) =>
      Effect.mapError(fs.realPath(path.resolve(cwd, name)), unreadable(called))

    const bottom = yield* real(".", "the working directory")
    const ancestors = [bottom]
    while (ancestors.length < maxLevels && path.dirname(ancestors.at(-1)!) !== ancestors.at(-1)) {
      ancestors.push(path.dirname(ancestors.at(-1)!)) // `ancestors` is never empty
    }
    const hasGit = (directory: string) => Effect.orElseSucceed(fs.exists(path.join(directory, ".git")), () => false) // false if unreadable
    const root = config.root === undefined
      ? Option.getOrElse(yield* Effect.findFirst(ancestors, hasGit), () => bottom)
      : yield* real(config.root, "the root")
    const below = (name: string) => {
      const relative = path.relative(root, name)
      return relative !== ".." && !relative.startsWith(`..${path.sep}`) && !path.isAbsolute(relative)
    }
    if (!below(bottom)) return yield* escape("the working directory lies outside the root")

    const relative = (name: string) => path.relative(root, name).split(path.sep).join("/")

    /** Reads a file. In the result, symbolic links are resolved in the path `at`, but not in `file.path`. */
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
        const content = yield* redact(at.value, text.content)
        return Option.some({ at: at.value, file: { path: file, label, ...text, content } })
      })

    /** Reads an imported file by its path relative to a folder. If no such file exists, tries the path without punctuation at its end. */
    const importOf = (folder: string, name: string) =>
      Effect.gen(function*() {
        if (name.startsWith("~/")) return yield* escape(`${name} lies outside the root`)
        for (const named of new Set([name, name.replace(/[.,;:!?)\]]+$/, "")])) {
          const file = path.resolve(folder, named.replaceAll("\\ ", " "))
          const { type } = yield* Effect.orElseSucceed(fs.stat(file), () => ({ type: "Unknown" }))
          if (type === "File") return yield* read(file)
        }
        return Option.none()
      })

    const tree: InstructionTree = {
      root,
      relative: (file) => relative(file.path),
      read: (called, importedBy) =>
        Effect.gen(function*() {
          if (!config.filenames.includes(path.basename(importedBy ?? called))) return Option.none()
          if (importedBy !== undefined && Option.isNone(yield* read(path.join(root, importedBy)))) return Option.none()
          const found = yield* read(path.join(root, called))
          return Option.map(found, ({ file }) => importedBy === undefined ? file : { ...file, importedBy })
        }),
      load: Effect.gen(function*() {
        const seen = new Set<string>()
        const files: Array<InstructionFile> = []
        const issues: Array<MemoryError.MemoryError> = config.filenames.filter((name) => !isName(name)).map((name) =>
          escape(`${JSON.stringify(name)} is no file name`)
        )
        let imported = 0
        /** Adds a file, then the files that it imports. `chain` has the resolved paths from the first importer to this file. */
        const include = ({ at, file }: Found, chain: ReadonlyArray<string>): Effect.Effect<void> =>
          Effect.gen(function*() {
            seen.add(at)
            files.push(file)
            const called = relative(file.path)
            if (file.truncated) issues.push(cut(called, config.maxBytesPerFile))
            for (const name of importsOf(file.content)) {
              const found = yield* Effect.either(importOf(path.dirname(at), name))
              if (Either.isLeft(found)) issues.push(found.left)
              if (Either.isLeft(found) || Option.isNone(found.right)) continue
              const next = found.right.value
              if (chain.includes(next.at)) issues.push(refused(called, name, "a file that leads to it"))
              if (seen.has(next.at)) continue
              if (chain.length > maxDepth) issues.push(refused(called, name, "deeper than five imports"))
              else if (imported++ >= maxImports) issues.push(refused(called, name, "beyond the first hundred"))
              else {
                const importedBy = file.importedBy ?? called
                yield* include({ at: next.at, file: { ...next.file, importedBy } }, [...chain, next.at])
              }
            }
          })
        for (const directory of ancestors.filter(below).reverse()) {
          const texts = new Set<string>()
          for (const name of config.filenames.filter(isName)) {
            const found = yield* Effect.either(read(path.join(directory, name)))
            if (Either.isLeft(found)) issues.push(found.left)
            else if (Option.isSome(found.right)) {
              const { at, file } = found.right.value
              if (seen.has(at) || texts.has(file.content)) continue
              texts.add(file.content)
              yield* include({ at, file }, [at])
            }
          }
        }
        return { files, issues }
      })
    }
    return tree
  }).pipe(Effect.withSpan("InstructionTree.open"))

/** Returns the text of the first `maxBytes` bytes of a file. A longer text is cut between two characters, and gets a note at its end. */
const textOf = (fs: FileSystem.FileSystem, file: string, called: string, maxBytes: number) =>
  Effect.gen(function*() {
    const { type } = yield* Effect.mapError(fs.stat(file), unreadable(called))
    if (type !== "File") return yield* MemoryError.make("io", { op, message: `${called} is no file` })
    const bytes = yield* fs.stream(file, { bytesToRead: maxBytes + 1 }).pipe(
      Stream.runCollect,
      Effect.mapBoth({ onFailure: unreadable(called), onSuccess: joined })
    )
    const truncated = bytes.length > maxBytes
    const text = yield* Effect.try({
      // `stream: true` ignores an incomplete last character instead of throwing an error
      try: () => new TextDecoder("utf-8", { fatal: true }).decode(bytes.subarray(0, maxBytes), { stream: truncated }),
      catch: () => notText(called)
    })
    if (text.includes("\0")) return yield* notText(called)
    const content = text.trim()
    return { content: truncated ? `${content}\n\n${notice(maxBytes)}`.trimStart() : content, truncated }
  })

const joined = (chunks: Chunk.Chunk<Uint8Array>): Uint8Array => {
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

const cut = (called: string, maxBytes: number) =>
  MemoryError.make("unsupported", {
    op,
    message:
      `${called} is longer than ${maxBytes} bytes: its end is left out. Raise maxBytesPerFile, or divide the file`
  })

const refused = (called: string, name: string, why: string) =>
  MemoryError.make("unsupported", { op, message: `${called} imports ${name}, ${why}: it is left out` })

const notText = (called: string) =>
  MemoryError.make("corrupt", { op, message: `${called} is no UTF-8 text`, detail: { location: called } })
