import { NodeContext, NodeFileSystem } from "@effect/platform-node"
import * as FileSystem from "@effect/platform/FileSystem"
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import { pathOf } from "../../src/storage/MemoryStore/Markdown/Layout.ts"
import { ada, draft, fact, put } from "../../src/testing/Sample.ts"
import { opened, place } from "./Place.ts"

/** The real one, but for what is said. */
const platform = (change: (fs: FileSystem.FileSystem) => Partial<FileSystem.FileSystem>) =>
  Layer.merge(
    NodeContext.layer,
    Layer.effect(
      FileSystem.FileSystem,
      Effect.map(FileSystem.FileSystem, (fs) => ({ ...fs, ...change(fs) }))
    ).pipe(Layer.provide(NodeFileSystem.layer))
  )

describe("a look that is under way", () => {
  it.scopedLive("leaves nothing unseen by a writer of the same process", () =>
    Effect.gen(function*() {
      const root = yield* place
      const [reached, go] = yield* Effect.all([Deferred.make<void>(), Deferred.make<void>()])
      let held: string | undefined
      const { store, vault } = yield* opened(
        root,
        {},
        platform((fs) => ({
          readFile: (path) =>
            Effect.suspend(() => {
              if (held === undefined || !path.endsWith(held)) return fs.readFile(path)
              held = undefined
              return Deferred.succeed(reached, undefined).pipe(
                Effect.zipRight(Deferred.await(go)),
                Effect.zipRight(fs.readFile(path))
              )
            })
        }))
      )
      yield* put(store, draft("first"))
      const other = yield* opened(root)
      const tea = yield* put(other.store, fact("Tea"))
      yield* put(other.store, draft("later"))
      held = pathOf("default", tea.scope, tea.id)
      const look = yield* Effect.fork(vault.refresh)
      yield* Deferred.await(reached)
      const [again] = yield* store.put(ada, [fact("Tea")])
      yield* Deferred.succeed(go, undefined)
      yield* Fiber.join(look)
      assert.strictEqual(again?.outcome, "duplicate")
      assert.strictEqual(again?.record.id, tea.id)
    }))
})

describe("a writer", () => {
  it.scopedLive("whose lock was taken before it wrote begins again, and whoever asked it to write is not told", () =>
    Effect.gen(function*() {
      const root = yield* place
      const history = `${root}/.effect-memory/history`
      let taken = 0
      const { store } = yield* opened(
        root,
        {},
        platform((fs) => ({
          stat: (path) =>
            path === history && ++taken === 1
              ? Effect.zipRight(fs.remove(`${root}/.effect-memory/lock`), fs.stat(path))
              : fs.stat(path)
        }))
      )
      taken = 0
      assert.strictEqual((yield* put(store, draft("tea"))).body, "tea")
      assert.isAbove(taken, 1)
    }))
})
