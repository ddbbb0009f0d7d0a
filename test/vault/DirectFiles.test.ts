/** Tests of synchronous file access: it has the same results as @effect/platform's FileSystem, and regularly lets the event loop run. */
import { NodeContext } from "@effect/platform-node"
import type { PlatformError } from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import * as fs from "node:fs"
import * as path from "node:path"
import * as DirectFiles from "../../src/storage/MemoryStore/Markdown/DirectFiles.ts"
import { place } from "./Place.ts"

const bytes = new TextEncoder().encode("some bytes of a file")
const large = new Uint8Array(DirectFiles.most + 1).fill(65)

/** Makes a folder with files, a folder and a link. */
const filled = Effect.tap(place, (root) =>
  Effect.sync(() => {
    fs.writeFileSync(path.join(root, "file"), bytes)
    fs.writeFileSync(path.join(root, "large"), large)
    fs.mkdirSync(path.join(root, "folder"))
    fs.writeFileSync(path.join(root, "folder/inner"), bytes)
    fs.symlinkSync("file", path.join(root, "link"))
  }))

type Run = (
  files: DirectFiles.Files,
  at: (name: string) => string
) => Effect.Effect<unknown, PlatformError, Scope.Scope>
const names = ["file", "large", "folder", "link", "none", "file/none", "folder/none"]
const opening = (name: string, flag: FileSystem.OpenFlag, content: Uint8Array): readonly [string, Run] => [
  `open ${name} ${flag}, write ${content.length}`,
  (files, at) =>
    Effect.flatMap(files.open(at(name), { flag, mode: 0o600 }), (file) =>
      Effect.gen(function*() {
        if (flag !== "r") yield* file.writeAll(content)
        yield* file.sync
        yield* file.seek(3, "start")
        const read = flag === "r" || flag === "r+" ? yield* file.readAlloc(large.length) : Option.none()
        return [Number((yield* file.stat).size), Option.toArray(read).map((one) => Array.from(one.subarray(0, 40)))]
      }))
]
const calls: ReadonlyArray<readonly [string, Run]> = [
  ...names.flatMap((name): ReadonlyArray<readonly [string, Run]> => [
    [`stat ${name}`, (files, at) => Effect.map(files.stat(at(name)), ({ size, type }) => [type, Number(size)])],
    [`read ${name}`, (files, at) => Effect.map(files.readFile(at(name)), ({ length }) => length)],
    [`list ${name}`, (files, at) => Effect.map(files.readDirectory(at(name)), (all) => all.toSorted())],
    [`read link ${name}`, (files, at) => files.readLink(at(name))],
    [`make ${name}`, (files, at) => Effect.asVoid(files.makeDirectory(at(name), { recursive: true }))],
    [`remove ${name}`, (files, at) => files.remove(at(name))],
    [`remove ${name}, if it is there`, (files, at) => files.remove(at(name), { force: true })],
    [`remove ${name} and all in it`, (files, at) => files.remove(at(name), { recursive: true, force: true })],
    [`rename ${name}`, (files, at) => files.rename(at(name), at("renamed"))],
    [`link to ${name}`, (files, at) => files.link(at(name), at("linked"))],
    [`link over ${name}`, (files, at) => files.link(at("file"), at(name))],
    ...(["r", "r+", "wx", "a"] as const).map((flag) => opening(name, flag, bytes))
  ]),
  opening("file", "r+", large),
  opening("new", "wx", large),
  opening("file", "a", large)
]
/** Returns all entries below a folder: files with their sizes, folders and links. Links are not followed. */
const state = (root: string) =>
  fs.readdirSync(root, { recursive: true, encoding: "utf8" }).sort().map((name) => {
    const stat = fs.lstatSync(path.join(root, name))
    return `${name} ${stat.isFile() ? stat.size : stat.isDirectory() ? "folder" : "link"}`
  })

describe("DirectFiles, which calls Node's file system synchronously", () => {
  it.scoped("DirectFiles has the results and effects of the FileSystem service; only the error of a failed `remove` may give another reason", () =>
    Effect.gen(function*() {
      const service = yield* FileSystem.FileSystem
      for (const [name, call] of calls) {
        const outcome = (files: DirectFiles.Files) =>
          Effect.gen(function*() {
            const root = yield* filled
            const result = yield* Effect.either(call(files, (one) => path.join(root, one)))
            const reason = Either.mapLeft(result, (error) => error._tag === "SystemError" ? error.reason : error._tag)
            return { isDone: Either.isRight(result), result: reason, state: state(root) }
          }).pipe(Effect.scoped)
        const [there, here] = [yield* outcome(service), yield* outcome(DirectFiles.direct(service))]
        if (name.startsWith("remove folder") && !there.isDone) {
          assert.isFalse(here.isDone, name) // the reason differs between Node's two interfaces
          assert.deepStrictEqual(here.state, there.state, name)
        } else assert.deepStrictEqual(here, there, name)
      }
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scoped("`DirectFiles.make` returns a FileSystem service unchanged if its `stat`, `open` or `rename` is not Node's own", () =>
    Effect.gen(function*() {
      const service = yield* FileSystem.FileSystem
      const wrappers: ReadonlyArray<Partial<FileSystem.FileSystem>> = [
        { stat: (at) => service.stat(at) },
        { open: (at, options) => service.open(at, options) },
        { rename: (from, to) => service.rename(from, to) }
      ]
      for (const calls of wrappers) {
        const wrapper: FileSystem.FileSystem = { ...service, ...calls }
        assert.strictEqual(yield* DirectFiles.make(wrapper), wrapper)
      }
      assert.isDefined((yield* DirectFiles.make(service)).linkStatNow)
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scoped("one iteration of the event loop runs at most 128 direct calls, even if 32 fibers make 100 calls each", () =>
    Effect.gen(function*() {
      const files = DirectFiles.direct(yield* FileSystem.FileSystem)
      const root = yield* filled
      let inTurn = 0
      let most = 0
      let isOver = false
      const turn = () => {
        inTurn = 0
        if (!isOver) setImmediate(turn)
      }
      setImmediate(turn)
      const call = Effect.tap(files.stat(path.join(root, "file")), () =>
        Effect.sync(() => {
          most = Math.max(most, ++inTurn)
        }))
      yield* Effect.replicateEffect(Effect.replicateEffect(call, 100), 32, { concurrency: 32 })
      isOver = true
      assert.isAtMost(most, 128) // each turn of the event loop has two phases in which fibers run, with at most 64 calls each
    }).pipe(Effect.provide(NodeContext.layer)))
})

describe("DirectFiles in a bundled program", () => {
  it.effect("`DirectFiles.make` makes direct calls only for the service in `NodeFiles`, and if `NodeFiles` is `None`, only for Node's own service", () =>
    Effect.gen(function*() {
      const service = yield* FileSystem.FileSystem
      const own = { ...service, stat: (at: string) => service.stat(at) }
      const isDirect = (named: Option.Option<FileSystem.FileSystem>, given: FileSystem.FileSystem) =>
        Effect.map(
          Effect.provideService(DirectFiles.make(given), DirectFiles.NodeFiles, named),
          ({ linkStatNow }) => linkStatNow !== undefined
        )
      assert.isFalse(yield* isDirect(Option.none(), own))
      assert.isTrue(yield* isDirect(Option.some(own), own))
      assert.isFalse(yield* isDirect(Option.some(own), service))
      assert.isTrue(yield* isDirect(Option.none(), service))
    }).pipe(Effect.provide(NodeContext.layer)))
})
