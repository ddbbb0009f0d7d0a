/** Helpers of the vault tests: a folder on a real disk, vaults opened in it, and its files. */
import { NodeContext, NodeFileSystem } from "@effect/platform-node"
import * as FileSystem from "@effect/platform/FileSystem"
import type * as Path from "@effect/platform/Path"
import { assert } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import type { MemoryError } from "../../src/domain/MemoryError.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import * as Markdown from "../../src/storage/MemoryStore/Markdown.ts"
import * as DirectFiles from "../../src/storage/MemoryStore/Markdown/DirectFiles.ts"

/** A temporary folder, removed when the scope closes. */
export const place: Effect.Effect<string, never, Scope.Scope> = Effect.acquireRelease(
  Effect.sync(() => fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), "vault-")))),
  (root) => Effect.sync(() => fs.rmSync(root, { recursive: true, force: true }))
)

/** A temporary folder with a copy of a folder of `test/fixtures`, removed when the scope closes. */
export const copyOf = (fixture: string) =>
  Effect.tap(
    place,
    (root) =>
      Effect.sync(() => fs.cpSync(path.join(import.meta.dirname, "../fixtures", fixture), root, { recursive: true }))
  )

export interface Opened {
  readonly store: MemoryStore.Service
  readonly vault: Markdown.VaultService
}

/** Opens a vault until the scope closes. By default it does not poll, and takes over a stale lock after 300 ms. */
export const opened = (
  root: string,
  options: Partial<Markdown.Options> = {},
  platform: Layer.Layer<FileSystem.FileSystem | Path.Path> = NodeContext.layer
): Effect.Effect<Opened, MemoryError, Scope.Scope> =>
  Layer.build(
    Markdown.layer({ root, poll: Infinity, lockTimeout: 300, ...options }).pipe(Layer.provide(platform))
  ).pipe(
    Effect.map((context) => ({
      store: Context.get(context, MemoryStore.MemoryStore),
      vault: Context.get(context, Markdown.Vault)
    }))
  )

/**
 * Node's file system as a service. Its methods that a vault uses are those of `DirectFiles.direct`, without the optional ones. A layer
 * built on this service can observe and change each of these calls.
 */
export const reached: Layer.Layer<FileSystem.FileSystem> = Layer.effect(
  FileSystem.FileSystem,
  Effect.map(FileSystem.FileSystem, (real): FileSystem.FileSystem => {
    // leaves out the optional methods, so that the vault makes a separate call for each step
    const { linkStatNow: _, readRange: __, statNow: ___, writeWhole: ____, ...files } = DirectFiles.direct(real)
    return { ...real, ...files } as FileSystem.FileSystem // the vault makes no other calls on an open file
  })
).pipe(Layer.provide(NodeFileSystem.layer))

/** Node's platform with some calls of its file system replaced. */
export const platformWith = (
  change: (real: FileSystem.FileSystem) => Partial<FileSystem.FileSystem>
): Layer.Layer<FileSystem.FileSystem | Path.Path> =>
  Layer.merge(
    NodeContext.layer,
    Layer.effect(
      FileSystem.FileSystem,
      Effect.map(FileSystem.FileSystem, (real) => ({ ...real, ...change(real) }))
    ).pipe(Layer.provide(reached))
  )

/** Returns the text of every file by path, except of hidden files and of files behind a symbolic link. */
export const files = (root: string): Readonly<Record<string, string>> =>
  Object.fromEntries(
    fs.readdirSync(root, { recursive: true, encoding: "utf8" })
      .filter((name) => !name.split(path.sep).some((part) => part.startsWith(".")))
      .filter((name) => fs.realpathSync(path.join(root, name)) === path.join(root, name)) // excludes files behind a link
      .filter((name) => fs.statSync(path.join(root, name)).isFile())
      .sort()
      .map((name) => [name, fs.readFileSync(path.join(root, name), "utf8")])
  )

/** Waits until a condition holds, looking every 10 ms; dies after five minutes. */
export const eventually = <E>(what: string, look: Effect.Effect<boolean, E>): Effect.Effect<void, E> =>
  look.pipe(
    Effect.repeat({ until: (seen) => seen, schedule: Schedule.spaced("10 millis") }),
    Effect.timeoutOption("5 minutes"),
    Effect.map((seen) => assert.strictEqual(seen._tag, "Some", `${what}: not within five minutes`))
  )

/** Makes a gate: after `arm`, it holds back the next disk call on a path that the condition accepts, until `release` runs. */
export const gate = Effect.gen(function*() {
  const [reached, go] = yield* Effect.all([Deferred.make<void>(), Deferred.make<void>()])
  let isMeant: ((path: string) => boolean) | undefined
  return {
    arm: (meant: (path: string) => boolean) => {
      isMeant = meant
    },
    reached: Deferred.await(reached),
    release: Deferred.succeed(go, undefined),
    hold: <A, E, R>(path: string, call: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
      Effect.suspend(() => {
        if (!isMeant?.(path)) return call
        isMeant = undefined
        return Deferred.succeed(reached, undefined).pipe(
          Effect.zipRight(Deferred.await(go)),
          Effect.zipRight(call)
        )
      })
  }
})
