/** What compaction goes by in a vault: read off the index of the history, and not off its lines. */
import { NodeContext, NodeFileSystem } from "@effect/platform-node"
import * as FileSystem from "@effect/platform/FileSystem"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as TestClock from "effect/TestClock"
import { ada, draft, system } from "../../src/testing/Sample.ts"
import { opened, place } from "./Place.ts"

/** Node's file system, and the number of times that the history was opened. */
const counting = () => {
  const reads = { history: 0 }
  const platform = Layer.merge(
    NodeContext.layer,
    Layer.effect(
      FileSystem.FileSystem,
      Effect.map(FileSystem.FileSystem, (fs): FileSystem.FileSystem => ({
        ...fs,
        open: (path, options) =>
          Effect.suspend(() => {
            if (path.endsWith("/history")) reads.history += 1
            return fs.open(path, options)
          }),
        readFile: (path) =>
          Effect.suspend(() => {
            if (path.endsWith("/history")) reads.history += 1
            return fs.readFile(path)
          })
      }))
    ).pipe(Layer.provide(NodeFileSystem.layer))
  )
  return { reads, platform }
}

/** A vault in which so many records were forgotten, and a tenth of them expire in an hour. */
const forgotten = (count: number) =>
  Effect.tap(place, (root) =>
    Effect.scoped(Effect.gen(function*() {
      const { store } = yield* opened(root)
      const put = yield* store.put(
        ada,
        Array.from({ length: count }, (_, n) => draft(`note ${n}`, n % 10 === 0 ? { expiresAt: 3_600_000 } : {}))
      )
      yield* store.forget(ada, put.map(({ record }) => record.id))
    })))

const reopening = (count: number) =>
  Effect.gen(function*() {
    const root = yield* forgotten(count)
    const { platform, reads } = counting()
    yield* Effect.scoped(opened(root, {}, platform))
    return reads.history
  })

describe("the tombstones of a vault", () => {
  it.scoped("an opening with a snapshot reads as much of the history with 150 tombstones as with 50", () =>
    Effect.gen(function*() {
      assert.strictEqual(yield* reopening(150), yield* reopening(50))
    }))

  for (const closed of [true, false]) {
    it.scoped(`are erased when their time has come, ${closed ? "after a reopening" : "by the process that wrote them"}`, () =>
      Effect.gen(function*() {
        const root = yield* place
        const days = 86_400_000
        const writing = Effect.gen(function*() {
          const { store } = yield* opened(root)
          const put = yield* store.put(ada, [draft("soon", { expiresAt: days }), draft("later")])
          yield* store.forget(ada, put.map(({ record }) => record.id))
          return { ids: put.map(({ record }) => record.id), store }
        })
        const { ids, store } = yield* closed
          ? Effect.flatMap(
            Effect.scoped(writing),
            ({ ids }) => Effect.map(opened(root), ({ store }) => ({ ids, store }))
          )
          : writing
        const left = Effect.map(store.get(system, ids), (all) => all.map(Option.isSome))
        assert.deepStrictEqual(yield* left, [true, true])
        yield* TestClock.adjust("2 days")
        yield* store.compact
        assert.deepStrictEqual(yield* left, [false, true])
        yield* TestClock.adjust("29 days")
        yield* store.compact
        assert.deepStrictEqual(yield* left, [false, false])
      }))
  }
})
