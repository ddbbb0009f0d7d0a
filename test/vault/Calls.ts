/** Node's file system with an effect that runs before its disk calls (exceptions: see `calling`). */
import { NodeContext } from "@effect/platform-node"
import type { PlatformError } from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { reached } from "./Place.ts"

/**
 * Makes Node's file system with `before` run ahead of each disk call of a vault, those of the lock's heartbeat included, except seeks and
 * `watch`. If `before` fails, the disk call fails, and a write has then written half of its bytes.
 */
export const calling = (
  before: (method: string, at: string) => Effect.Effect<void, PlatformError>
): Layer.Layer<FileSystem.FileSystem | Path.Path> => {
  const wrapped = Layer.effect(
    FileSystem.FileSystem,
    Effect.map(FileSystem.FileSystem, (real): FileSystem.FileSystem => {
      const call = <Args extends ReadonlyArray<unknown>, A>(
        method: string,
        run: (at: string, ...args: Args) => Effect.Effect<A, PlatformError>
      ) =>
      (at: string, ...args: Args) => Effect.zipRight(before(method, at), run(at, ...args))
      const file = (inner: FileSystem.File, at: string): FileSystem.File =>
        new Proxy(inner, {
          get(target, key) {
            if (key === "sync") return Effect.zipRight(before("fsync", at), target.sync)
            if (key === "stat") return Effect.zipRight(before("fstat", at), target.stat)
            if (key === "readAlloc") {
              return (...asked: Parameters<FileSystem.File["readAlloc"]>) =>
                Effect.zipRight(before("fread", at), target.readAlloc(...asked))
            }
            if (key === "writeAll") {
              return (bytes: Uint8Array) =>
                Effect.catchAll(before("write", at), (error) =>
                  Effect.zipRight(target.writeAll(bytes.subarray(0, bytes.length >> 1)), Effect.fail(error))).pipe(
                    Effect.zipRight(Effect.suspend(() =>
                      target.writeAll(bytes)
                    ))
                  )
            }
            const value: unknown = Reflect.get(target, key)
            return typeof value === "function" ? value.bind(target) : value
          }
        })
      return {
        ...real,
        stat: call("stat", real.stat),
        readFile: call("read", real.readFile),
        readDirectory: call("scandir", real.readDirectory),
        readLink: call("readlink", real.readLink),
        makeDirectory: call("mkdir", real.makeDirectory),
        rename: call("rename", real.rename),
        remove: call("unlink", real.remove),
        link: call("link", real.link),
        open: (at, options) =>
          Effect.zipRight(before("open", at), Effect.map(real.open(at, options), (f) => file(f, at)))
      }
    })
  ).pipe(Layer.provide(reached))
  return Layer.merge(wrapped, Path.layer).pipe(Layer.provideMerge(NodeContext.layer)) as Layer.Layer<
    FileSystem.FileSystem | Path.Path
  > // the wrapped file system overrides Node's
}
