import { NodeContext, NodeFileSystem } from "@effect/platform-node"
import * as PlatformError from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as LogLevel from "effect/LogLevel"
import * as Queue from "effect/Queue"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/TestClock"
import * as process from "node:process"
import { ada, draft, get, put } from "../../src/testing/Sample.ts"
import { eventually, opened, place } from "./Place.ts"

const never = { poll: "1 day" } as const

/** Node's platform with another `watch`. `stat` is wrapped, since a vault ignores `watch` if all other calls are Node's own. */
const watching = (watch: FileSystem.FileSystem["watch"]) =>
  Layer.merge(
    NodeContext.layer,
    Layer.effect(
      FileSystem.FileSystem,
      Effect.map(FileSystem.FileSystem, (fs) => ({ ...fs, watch, stat: (path) => fs.stat(path) }))
    ).pipe(Layer.provide(NodeFileSystem.layer))
  )

const watchers = Effect.sync(() => process.getActiveResourcesInfo().filter((name) => name === "FSEventWrap").length)

describe("a vault that watches its folder", () => {
  it.scopedLive("a put or a forget through another open store of the vault is noticed without waiting for the next poll", () =>
    Effect.gen(function*() {
      const root = yield* place
      const { store } = yield* opened(root, never)
      const other = yield* opened(root)
      let writes = 0
      yield* eventually( // repeats the write until the watch has started
        "a first write",
        Effect.gen(function*() {
          yield* put(other.store, draft(`warm ${++writes}`))
          return (yield* store.list(ada, {})).items.length > 0
        })
      )
      for (let n = 0; n < 20; n++) {
        const { id } = yield* put(other.store, draft(`tea ${n}`))
        yield* eventually(`write ${n}`, Effect.map(store.list(ada, { ids: [id] }), ({ items }) => items.length === 1))
      }
      const [last] = (yield* store.list(ada, { limit: 1 })).items
      yield* other.store.forget(ada, [last!.id])
      yield* eventually("a forget", Effect.map(store.list(ada, { ids: [last!.id] }), ({ items }) => items.length === 0))
    }))

  it.scopedLive("watch events that falsely report removed files make a vault read the history, but remove no record", () =>
    Effect.gen(function*() {
      const root = yield* place
      const events = yield* Queue.unbounded<FileSystem.WatchEvent>()
      const { store } = yield* opened(root, never, watching(() => Stream.fromQueue(events)))
      const other = yield* opened(root)
      const mine = yield* put(store, draft("mine"))
      const theirs = yield* put(other.store, draft("theirs"))
      assert.isUndefined((yield* store.list(ada, { ids: [theirs.id] })).items[0])
      for (const path of [`users/ada/${mine.id}.md`, "log", "lock"]) {
        yield* Queue.offer(events, FileSystem.WatchEventRemove({ path }))
      }
      yield* eventually(
        "theirs",
        Effect.map(store.list(ada, { ids: [theirs.id] }), ({ items }) => items.length === 1)
      )
      assert.deepStrictEqual(yield* get(store, ada, mine.id), mine)
    }))

  const unwatched: Readonly<Record<string, FileSystem.FileSystem["watch"]>> = {
    "cannot be watched": (path) =>
      Stream.fail(
        new PlatformError.SystemError({
          module: "FileSystem",
          reason: "Unknown",
          method: "watch",
          pathOrDescriptor: path
        })
      ),
    "exceeds the limit of watches": () =>
      Stream.die(new Error("ENOSPC: System limit for number of file watchers reached")),
    "stops being watched": () => Stream.empty
  }
  for (const [name, watch] of Object.entries(unwatched)) {
    it.scopedLive(`a vault whose folder ${name} is polled instead, and logs nothing above level Debug`, () =>
      Effect.gen(function*() {
        const said: Array<string> = []
        const logger = Logger.make(({ logLevel }) => void said.push(logLevel._tag))
        const root = yield* place
        const { store } = yield* opened(root, { poll: "10 millis" }, watching(watch)).pipe(
          Effect.provide(Logger.replace(Logger.defaultLogger, logger)),
          Logger.withMinimumLogLevel(LogLevel.Debug)
        )
        const other = yield* opened(root)
        const theirs = yield* put(other.store, draft("theirs"))
        yield* eventually(
          "theirs",
          Effect.map(store.list(ada, { ids: [theirs.id] }), ({ items }) => items.length === 1)
        )
        assert.isTrue(said.every((level) => level === "Debug"), said.join())
      }))
  }

  it.scoped("a watch that ended with an error is started again after a minute", () =>
    Effect.gen(function*() {
      const root = yield* place
      const watches = yield* Queue.unbounded<string>()
      const failing: FileSystem.FileSystem["watch"] = (path) =>
        Stream.zipRight(Stream.fromEffect(Queue.offer(watches, path)), unwatched["cannot be watched"]!(path))
      yield* opened(root, never, watching(failing))
      for (let n = 0; n < 3; n++) {
        assert.strictEqual(yield* Queue.take(watches), `${root}/.effect-memory`)
        assert.strictEqual(yield* Queue.size(watches), 0)
        yield* TestClock.adjust("1 minute")
      }
    }))

  it.live("a vault watches its folder only if the option `poll` is finite, and only until its Effect scope closes", () =>
    Effect.gen(function*() {
      const before = yield* watchers
      const scope = yield* Scope.make()
      const root = yield* Scope.extend(place, scope)
      yield* Scope.extend(opened(root), scope)
      assert.strictEqual(yield* watchers, before)
      yield* Scope.extend(opened(root, never), scope)
      yield* eventually("watched", Effect.map(watchers, (count) => count === before + 1))
      yield* Scope.close(scope, Exit.void)
      yield* eventually("closed", Effect.map(watchers, (count) => count === before))
    }))
})
