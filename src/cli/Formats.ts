/** The file formats of the commands `import` and `export`, by name. A format's code is loaded only if the format is used. */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Sink from "effect/Sink"
import * as Stream from "effect/Stream"
import * as Viewer from "../domain/Viewer.ts"
import { MemoryStore, type Service } from "../storage/MemoryStore.ts"
import type { Decoder, File, FolderDecoder, Item } from "../transfer/Foreign.ts"
import type { Counts } from "../transfer/MemoryJsonl.ts"
import { Skipped } from "../transfer/Skipped.ts"
import { type Failure, print, type Services, type Shared } from "./Command.ts"
import * as CommandError from "./CommandError.ts"
import * as Progress from "./Progress.ts"
import * as Rows from "./Rows.ts"
import { counted, decodeUtf8, json, number, safeLine, Screen } from "./Screen.ts"
import * as StoreAddress from "./StoreAddress.ts"

/** The arguments of an import: the file or folder to read, and the options that all commands share. */
export interface Reading {
  readonly path: string
  readonly shared: Shared
}
/** The arguments of an export. Without a path, the export writes to stdout. */
export interface Writing {
  readonly path: string | undefined
  readonly shared: Shared
  /** Whether the vectors of the records are written, too. */
  readonly vectors: boolean
}
type Run = Effect.Effect<void, Failure, Services | Scope.Scope>

/** A file format of `import` and `export`. */
export interface Format {
  readonly name: string
  /** Description on one line. */
  readonly summary: string
  /** Reads a file or folder into the store. If the format is that of a single file, the path `-` is stdin. */
  readonly read: (job: Reading) => Run
  /** Writes the store to a file; the path `-` is stdout. This function is absent if the format can only be read. */
  readonly write?: ((job: Writing) => Run) | undefined
}

const counts = {
  records: Schema.Number,
  tombstones: Schema.Number,
  revisions: Schema.Number,
  vectors: Schema.Number,
  threads: Schema.Number,
  messages: Schema.Number
}
/** Schema of the JSON output of `export` to a file. An export to stdout prints no such JSON. */
export const Exported = Schema.Struct(counts)
/** Schema of the JSON output of `import` for a vault or for a file that `export` wrote. */
export const Restored = Schema.Struct({
  ...counts,
  written: Schema.Number,
  complete: Schema.Boolean,
  skipped: Schema.Array(Skipped)
})
/** Schema of the JSON output of `import` for the memories of another system. */
export const Imported = Schema.Struct({
  created: Schema.Number,
  /** Number of records that already existed and therefore were not changed. */
  present: Schema.Number,
  threads: Schema.Number,
  messages: Schema.Number,
  skipped: Schema.Array(Skipped)
})

/**
 * Largest size, in bytes, of a single file from another system. The limit is needed because the whole file is read into memory. The files
 * of a folder have no limit.
 */
const longestFile = 402_653_184

const unreadable = (path: string) =>
  CommandError.make("notFound", `${safeLine(path)} cannot be read`, "the file or folder has to be there, and readable")

const open = (shared: Shared, options: StoreAddress.OpenOptions) =>
  Effect.map(Layer.build(Layer.fresh(StoreAddress.layer(shared.store, options))), Context.get(MemoryStore))

/** Returns `{ tenants: [name] }` with the tenant that `--tenant` names, or `{}` if `--tenant` was not given. */
const tenantsOf = ({ tenant }: Shared) => Option.isSome(tenant) ? { tenants: [tenant.value] } : {}

const lines = (skipped: ReadonlyArray<Skipped>): ReadonlyArray<string> =>
  skipped.map(({ count, examples, reason }) =>
    `left out: ${number(count)}, ${safeLine(reason)} (${examples.map(safeLine).join("; ")}${
      count > examples.length ? "; …" : ""
    })`
  )

const summaryOf = ({ messages, records, revisions, threads, tombstones }: Counts): string =>
  `${counted(records, "record")} (${number(tombstones)} forgotten) with ${counted(revisions, "revision")}, ${
    counted(messages, "message")
  } of ${counted(threads, "thread")}`

/** Opens a file as a stream of bytes; the path `-` is stdin. `size` is the size of a regular file in bytes, and otherwise `undefined`. */
const bytesOf = (path: string) =>
  Effect.gen(function*() {
    const screen = yield* Screen
    if (path === "-") return { bytes: screen.inputBytes, size: undefined }
    const fs = yield* FileSystem.FileSystem
    const { size, type } = yield* Effect.mapError(fs.stat(path), () => unreadable(path))
    return {
      bytes: Stream.mapError(fs.stream(path, { chunkSize: 65_536 }), () => unreadable(path)),
      size: type === "File" ? Number(size) : undefined
    }
  })

/** Prints `stopped` and the text of `where` to stderr if the wrapped import or export is interrupted. */
const tellsStop = (where: () => string) => <A, E, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, E, R | Screen> =>
  Effect.flatMap(Screen, (screen) => Effect.onInterrupt(self, () => screen.err(`stopped ${where()}\n`)))

const goesOn = "The same command goes on from there"

const readJsonl = ({ path, shared }: Reading): Run =>
  Effect.gen(function*() {
    const MemoryJsonl = yield* Effect.promise(() => import("../transfer/MemoryJsonl.ts"))
    const { bytes, size } = yield* bytesOf(path)
    const store = yield* open(shared, { create: true })
    const progress = yield* Progress.make("bytes", size)
    let bytesRead = 0
    let last = 0
    const counting = Stream.tap(bytes, ({ length }) => Effect.sync(() => void (bytesRead += length)))
    const report = yield* MemoryJsonl.read(store, counting, {
      ...tenantsOf(shared),
      onProgress: ({ records }) => {
        last = records
        return progress.at(bytesRead, "reading")
      }
    }).pipe(
      Effect.ensuring(progress.end),
      tellsStop(() => `after ${counted(last, "record")}. ${goesOn}`)
    )
    yield* print(shared, Restored, report, (report) =>
      [
        `${summaryOf(report)}: ${number(report.written)} written`,
        ...(report.complete ? [] : ["the file has no last line: its end may be missing"]),
        ...lines(report.skipped)
      ].join("\n"))
    if (!report.complete || report.skipped.length > 0) {
      return yield* CommandError.make("found", "not everything was read", "the report says what was left out")
    }
  })

const writeJsonl = ({ path, shared, vectors }: Writing): Run =>
  Effect.gen(function*() {
    const MemoryJsonl = yield* Effect.promise(() => import("../transfer/MemoryJsonl.ts"))
    const screen = yield* Screen
    const ids = Viewer.idsOf(shared.viewer)
    if (ids.agentId !== undefined || ids.runId !== undefined || ids.sessionId !== undefined) {
      return yield* CommandError.make("usage", "export takes --user ID for one person, or no id for the whole store")
    }
    const { userId } = ids
    const tenants = userId === undefined ? tenantsOf(shared) : { userId, tenants: [shared.viewer.tenant] }
    const store = yield* open(shared, {})
    const isCounted = screen.isErrorTerminal && userId === undefined
    const progress = yield* Progress.make("records", isCounted ? yield* Rows.count(store, tenants.tenants) : undefined)
    let last: Counts = { records: 0, tombstones: 0, revisions: 0, vectors: 0, threads: 0, messages: 0 }
    const text = MemoryJsonl.write(store, {
      vectors,
      ...tenants,
      onProgress: (now) => {
        last = now
        return progress.at(now.records, "writing")
      }
    })
    if (path === undefined || path === "-") {
      // `visible` is only for a terminal, since an import and a second export must give the same bytes
      const shown = screen.isTerminal ? Stream.map(text, visible) : text
      yield* Stream.runForEach(shown, screen.out).pipe(Effect.ensuring(progress.end))
      return yield* screen.err(`${summaryOf(last)}\n`)
    }
    yield* writeFile(path, Stream.encodeText(text)).pipe(
      Effect.ensuring(progress.end),
      tellsStop(() => `after ${counted(last.records, "record")}. The same command begins again`)
    )
    yield* print(shared, Exported, { ...last }, summaryOf)
  })

/** Escapes control and format characters in lines of JSON. A JSON parser turns the escapes back into characters. */
const visible = (lines: string): string => lines.replace(/[^ -~\n]+/gu, (part) => json(part).slice(1, -1)) // removes the quotes of the JSON

/**
 * Writes a file. The bytes go to a temporary file in the same folder. The temporary file is then renamed, so that an interruption leaves no
 * incomplete file. If the path is a symbolic link, the file to which it links is written. If the path is a pipe, a device or the like, the
 * bytes are written directly to the path.
 */
const writeFile = (path: string, bytes: Stream.Stream<Uint8Array, Failure>) =>
  Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    const failed = () => CommandError.make("unavailable", `${safeLine(path)} cannot be written`)
    const to = (target: string, flag: "w" | "a") =>
      Stream.run(bytes, Sink.mapError(fs.sink(target, { flag, mode: 0o600 }), failed))
    const there = yield* Effect.option(fs.stat(path))
    if (Option.isSome(there) && there.value.type !== "File") return yield* to(path, "a") // flag `a` (append), since a pipe cannot seek
    const target = yield* Effect.orElseSucceed(fs.realPath(path), () => path)
    const part = `${target}.${process.pid}.part`
    yield* to(part, "w").pipe(
      Effect.zipRight(Effect.mapError(fs.rename(part, target), failed)),
      Effect.onError(() => Effect.orElseSucceed(fs.remove(part), () => undefined))
    )
  })

/** Makes a format that imports memories of another system. Ids on the command line (such as `--user`) replace the ids in the file. */
const foreign = (
  name: string,
  summary: string,
  decoded: (path: string) => Effect.Effect<
    (context: Parameters<Decoder>[1]) => ReturnType<Decoder>,
    Failure,
    Services
  >
): Format => ({
  name,
  summary,
  read: ({ path, shared }) =>
    Effect.gen(function*() {
      const { apply } = yield* Effect.promise(() => import("../transfer/Foreign.ts"))
      const decode = yield* decoded(path)
      const scope = Viewer.scopeOf(shared.viewer)
      const items = decode({ scope, overrules: scope !== "global" })
      if (Either.isLeft(items)) return yield* CommandError.make("refused", items.left)
      const store = yield* open(shared, { create: true })
      const progress = yield* Progress.make("items", items.right.length)
      let last = 0
      const report = yield* apply(store, shared.viewer, items.right, {
        onProgress: (done) => {
          last = done
          return progress.at(done, "reading")
        }
      }).pipe(
        Effect.ensuring(progress.end),
        tellsStop(() => `after ${number(last)} of ${counted(items.right.length, "item")}. ${goesOn}`)
      )
      yield* print(shared, Imported, report, ({ created, messages, present, skipped, threads }) =>
        [
          `${counted(created, "record")} created, ${number(present)} were there, ${
            counted(messages, "message")
          } appended to ${counted(threads, "thread")}`,
          ...lines(skipped)
        ].join("\n"))
      if (items.right.length > 0 && items.right.every(({ _tag }) => _tag === "Skip")) {
        return yield* CommandError.make("found", "nothing of it could be read", `is it of the format ${name}?`)
      }
    })
})

const file = (name: string, summary: string, load: () => Promise<Decoder>): Format =>
  foreign(name, summary, (path) =>
    Effect.gen(function*() {
      const screen = yield* Screen
      const fs = yield* FileSystem.FileSystem
      const decode = yield* Effect.promise(load)
      const tooLong = CommandError.make("refused", `${safeLine(path)} is longer than ${number(longestFile)} bytes`)
      if (path === "-") {
        const text = yield* Effect.mapError(
          screen.input(longestFile),
          (error) => error === "too long" ? tooLong : CommandError.notUtf8("stdin")
        )
        return (context: Parameters<Decoder>[1]) => decode(text, context)
      }
      const { size } = yield* Effect.mapError(fs.stat(path), () => unreadable(path))
      if (size > longestFile) return yield* tooLong
      const text = decodeUtf8(yield* Effect.mapError(fs.readFile(path), () => unreadable(path)))
      if (text === undefined) return yield* CommandError.notUtf8(safeLine(path))
      return (context) => decode(text, context)
    }))

const folder = (name: string, summary: string, load: () => Promise<FolderDecoder>): Format =>
  foreign(name, summary, (root) =>
    Effect.gen(function*() {
      const decode = yield* Effect.promise(load)
      const { files, left, name } = yield* filesOf(root)
      return (context) => Either.right([...decode(files, { ...context, folder: name }), ...left])
    }))

/**
 * Returns the files of a folder and its subfolders, sorted by path. Only Markdown files are read; the `text` of any other file is empty.
 * Links to folders, and links that lead out of the folder, are skipped. `left` contains what was skipped, with the reasons.
 */
const filesOf = (root: string) =>
  Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const base = yield* Effect.mapError(fs.realPath(root), () => unreadable(root))
    const files: Array<File> = []
    const left: Array<Item> = []
    const skip = (reason: string, place: string) => void left.push({ _tag: "Skip", reason, place })
    const visit = (relative: string, folders: Array<string>) =>
      Effect.gen(function*() {
        const at = path.join(base, relative)
        const real = yield* fs.realPath(at)
        const { type } = yield* fs.stat(at)
        if (real !== at && type === "Directory") return skip("a link to a folder", relative)
        if (real !== at && !real.startsWith(path.join(base, path.sep))) {
          return skip("a link out of the folder", relative)
        }
        if (type === "Directory") return void folders.push(relative)
        if (type !== "File") return skip("neither a file nor a folder", relative)
        const text = /\.md$/i.test(relative) ? decodeUtf8(yield* fs.readFile(at)) : ""
        if (text === undefined) return skip("not UTF-8 text", relative)
        files.push({ path: relative, text })
      }).pipe(Effect.orElse(() => Effect.sync(() => skip("a file that cannot be read", relative))))
    const folders = [""]
    for (const folder of folders) { // `folders` grows as folders are found
      const listed = yield* Effect.either(fs.readDirectory(path.join(base, folder)))
      if (Either.isRight(listed)) {
        for (const name of listed.right) yield* visit(folder === "" ? name : `${folder}/${name}`, folders)
      } else if (folder === "") return yield* unreadable(root)
      else skip("a folder that cannot be read", folder)
    }
    return { files: files.sort((a, b) => a.path < b.path ? -1 : 1), left, name: path.basename(base) }
  })

/**
 * Imports a vault, which is any folder that the Markdown store can open. Threads (conversations) and the outbox (messages that wait for
 * extraction) are imported, too. Folders of the systems drover and Deuz are also vaults.
 */
const readVault = ({ path, shared }: Reading): Run =>
  Effect.gen(function*() {
    const { copy } = yield* Effect.promise(() => import("../transfer/Copy.ts"))
    const screen = yield* Screen
    const fs = yield* FileSystem.FileSystem
    yield* Effect.mapError(fs.readDirectory(path), () => unreadable(path))
    const from: Service = yield* open({ ...shared, store: { _tag: "Vault", root: path } }, {})
    const to = yield* open(shared, { create: true })
    const tenants = tenantsOf(shared)
    const total = screen.isErrorTerminal ? yield* Rows.count(from, tenants.tenants) : undefined
    const progress = yield* Progress.make("records", total)
    let last = 0
    const { differing, records, revisions, tombstones, verified, vectors, written } = yield* copy(from, to, {
      ...tenants,
      onProgress: ({ phase, records }) => {
        if (phase === "copy") last = records
        return progress.at(records, phase === "copy" ? "reading" : "comparing")
      }
    }).pipe(
      Effect.ensuring(progress.end),
      tellsStop(() => `after ${counted(last, "record")}. ${goesOn}`)
    )
    const { messages, threads } = yield* Rows.threads(from, tenants.tenants)
    const report = {
      records,
      revisions,
      tombstones,
      vectors,
      threads,
      messages,
      written,
      skipped: [],
      complete: verified
    }
    yield* print(shared, Restored, report, (report) => `${summaryOf(report)}: ${number(report.written)} written`)
    if (!verified) return yield* CommandError.make("found", `the folder and the store differ in ${number(differing)}`)
  })

/** All formats of `import` and `export`. */
export const all: ReadonlyArray<Format> = [
  { name: "jsonl", summary: "what export writes, without loss", read: readJsonl, write: writeJsonl },
  { name: "vault", summary: "a vault, also one of drover or deuz", read: readVault },
  folder("obsidian", "a folder of notes", () => import("../transfer/Notes.ts").then((m) => m.decodeObsidian)),
  folder(
    "claude-code",
    "CLAUDE.md and memory/*.md",
    () => import("../transfer/Notes.ts").then((m) => m.decodeClaudeCode)
  ),
  file(
    "mcp",
    "memory.jsonl of the reference server of MCP",
    () => import("../transfer/McpMemory.ts").then((m) => m.decode)
  ),
  file("mem0", "memories of mem0", () => import("../transfer/Mem0.ts").then((m) => m.decode)),
  file("langgraph", "items of a store of LangGraph", () => import("../transfer/LangGraph.ts").then((m) => m.decode)),
  file("letta", "an agent file of Letta (.af)", () => import("../transfer/Letta.ts").then((m) => m.decode)),
  file("zep", "edges and nodes of Zep or Graphiti", () => import("../transfer/Zep.ts").then((m) => m.decode)),
  file(
    "chatgpt",
    "conversations.json of ChatGPT",
    () => import("../transfer/Conversations.ts").then((m) => m.decodeChatGpt)
  ),
  file(
    "claude",
    "conversations.json of Claude",
    () => import("../transfer/Conversations.ts").then((m) => m.decodeClaude)
  )
]
