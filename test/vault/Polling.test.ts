/** Tests, with a test clock, at which times a vault scans all of its files. */
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

/** Duration of each scan of the vault, in seconds. */
const takes = 2

/** Makes a vault whose scans take two seconds each. The effect `called` stands for a call of the store. */
const polled = Effect.gen(function*() {
  const changeFeed = ChangeFeed.make()
  let looks = 0
  const fs = yield* VaultFileSystem.make(yield* place)
  const called = yield* keepCurrent(fs, {
    changeFeed,
    follow: Effect.void,
    checkpoint: Effect.void,
    refresh: Effect.zipRight(Effect.sync(() => looks++), Effect.sleep(`${takes} seconds`))
  }, Duration.seconds(1))
  return {
    called,
    listening: Effect.forkScoped(Stream.runDrain(changeFeed.of(system))),
    /** Runs `each` once a second for so many seconds, and returns the number of scans meanwhile. */
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

describe("a vault whose scan of all files takes long", () => {
  it.scoped("a vault that is called every second spends at most a tenth of the time on scans", () =>
    Effect.gen(function*() {
      const { called, during } = yield* polled
      const looks = yield* during(400, called)
      assert.isAtMost(looks * takes, 40)
      assert.isAtLeast(looks * takes, 32)
    }))

  it.scoped("a vault with a subscriber but no calls spends at most a hundredth of the time on scans after the first 20 seconds", () =>
    Effect.gen(function*() {
      const { during, listening } = yield* polled
      yield* listening
      yield* during(20)
      const looks = yield* during(2_000)
      assert.isAtMost(looks * takes, 20)
      assert.isAtLeast(looks * takes, 16)
    }))

  it.scoped("a vault without calls and subscribers is no longer scanned after a while; the next call causes a scan", () =>
    Effect.gen(function*() {
      const { called, during } = yield* polled
      assert.isAtMost(yield* during(100), 2)
      assert.strictEqual(yield* during(1_000), 0)
      yield* Effect.fork(called)
      assert.strictEqual(yield* during(takes), 1, "the first call afterwards looks")
    }))

  it.scoped("a call of a vault with a subscriber causes a scan within 22 seconds if the last scan ended long before the call", () =>
    Effect.gen(function*() {
      const { called, during, listening } = yield* polled
      yield* listening
      yield* during(250)
      yield* called
      assert.isAtLeast(yield* during(10 * takes + 2), 1)
    }))
})
