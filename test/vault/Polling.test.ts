/** How often a vault looks at all of its files, by a clock that the test moves. */
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/TestClock"
import * as ChangeFeed from "../../src/storage/ChangeFeed.ts"
import { keepCurrent } from "../../src/storage/MemoryStore/Markdown/MarkdownStore.ts"
import * as VaultFileSystem from "../../src/storage/MemoryStore/Markdown/VaultFileSystem.ts"
import { system } from "../../src/testing/Sample.ts"
import { place } from "./Place.ts"

/** Seconds that a look at every file of this folder takes. */
const takes = 2

/** A vault of a folder so large that a look takes two seconds, and of which nothing else is asked. */
const polled = Effect.gen(function*() {
  const changeFeed = ChangeFeed.make()
  let looks = 0
  const fs = yield* VaultFileSystem.make(yield* place)
  const called = yield* keepCurrent(fs, {
    changeFeed,
    follow: Effect.void,
    land: Effect.void,
    refresh: Effect.zipRight(Effect.sync(() => looks++), Effect.sleep(`${takes} seconds`))
  }, Duration.seconds(1))
  return {
    called,
    listening: Effect.forkScoped(Stream.runDrain(changeFeed.of(system))),
    /** Looks in so many seconds. */
    during: (seconds: number, each: Effect.Effect<void> = Effect.void) =>
      Effect.gen(function*() {
        const before = looks
        for (let n = 0; n < seconds; n++) {
          yield* each
          yield* TestClock.adjust("1 second")
        }
        return looks - before
      })
  }
}).pipe(Effect.provide(NodeContext.layer))

describe("a large vault", () => {
  it.scoped("that is called every second spends a tenth of the time on looks", () =>
    Effect.gen(function*() {
      const { called, during } = yield* polled
      const looks = yield* during(400, called)
      assert.isAtMost(looks * takes, 40)
      assert.isAtLeast(looks * takes, 32)
    }))

  it.scoped("that is listened to and not called spends a hundredth of the time on looks", () =>
    Effect.gen(function*() {
      const { during, listening } = yield* polled
      yield* listening
      yield* during(20)
      const looks = yield* during(2_000)
      assert.isAtMost(looks * takes, 20)
      assert.isAtLeast(looks * takes, 16)
    }))

  it.scoped("that nobody uses is looked at no more", () =>
    Effect.gen(function*() {
      const { called, during } = yield* polled
      assert.isAtMost(yield* during(100), 2)
      assert.strictEqual(yield* during(1_000), 0)
      yield* Effect.fork(called)
      assert.strictEqual(yield* during(takes), 1, "the first call afterwards looks")
    }))

  it.scoped("that was quiet is looked at within ten looks' time after a call", () =>
    Effect.gen(function*() {
      const { called, during, listening } = yield* polled
      yield* listening
      yield* during(250)
      yield* called
      assert.isAtLeast(yield* during(10 * takes + 2), 1)
    }))
})
