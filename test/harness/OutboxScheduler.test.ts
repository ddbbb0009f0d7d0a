import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as TestClock from "effect/TestClock"
import * as OutboxScheduler from "../../src/harness/Outbox/OutboxScheduler.ts"

/** Yields repeatedly, so that other fibers run as far as they can. */
const settled = Effect.repeatN(Effect.yieldNow(), 300)

/** Makes a scheduler with extraction runs of a given length, and records which began, in order, and which ended. */
const world = (concurrency: number) => {
  const turns = OutboxScheduler.make({ concurrency, timeSlice: "10 seconds" })
  const began: Array<string> = []
  const ended: Array<string> = []
  let running = 0
  let most = 0
  const readers = new Map<string, OutboxScheduler.ScheduledConversation>()
  const read = (tenant: string, line: string, seconds: number) =>
    Effect.suspend(() => {
      const reader = readers.get(line) ?? { tenant, isSlow: false }
      readers.set(line, reader)
      return OutboxScheduler.schedule(
        turns,
        reader,
        Effect.suspend(() => {
          began.push(line)
          most = Math.max(most, ++running)
          return seconds === Infinity ? Effect.never : Effect.sleep(seconds * 1_000)
        }).pipe(
          Effect.tap(() => Effect.sync(() => ended.push(line))),
          Effect.ensuring(Effect.sync(() => running--))
        )
      )
    })
  const start = (tenant: string, lines: ReadonlyArray<string>, seconds: number) =>
    Effect.tap(Effect.forEach(lines, (line) => Effect.fork(read(tenant, line, seconds))), () => settled)
  return { began, ended, most: () => most, read, start }
}
const lines = (name: string, count: number) => Array.from({ length: count }, (_, n) => `${name}${n}`)

describe("OutboxScheduler", () => {
  it.effect("tenants take turns to start extractions, and each tenant's extractions start in the order of the requests", () =>
    Effect.gen(function*() {
      const { began, ended, most, start } = world(4)
      yield* start("a", lines("a", 6), 1)
      yield* start("b", lines("b", 3), 1)
      yield* start("c", lines("c", 1), 1)
      yield* TestClock.adjust("10 seconds")
      assert.deepStrictEqual(began, ["a0", "a1", "a2", "b0", "c0", "a3", "b1", "a4", "b2", "a5"])
      assert.lengthOf(ended, 10)
      assert.strictEqual(most(), 2)
    }))

  it.effect("a tenant waits at most one time slice for the start of its next extraction, even if another tenant's extractions hang", () =>
    Effect.gen(function*() {
      const { ended, most, start } = world(4)
      yield* start("hanging", lines("h", 30), Infinity)
      yield* start("well", lines("w", 2), 1)
      yield* TestClock.adjust("11 seconds")
      assert.deepStrictEqual(ended.toSorted(), ["w0"])
      yield* TestClock.adjust("10 seconds")
      assert.deepStrictEqual(ended.toSorted(), ["w0", "w1"])
      yield* TestClock.adjust("5 minutes")
      yield* start("well", lines("x", 20), 1)
      yield* TestClock.adjust("11 seconds")
      assert.lengthOf(ended, 22)
      assert.strictEqual(most(), 4)
    }))

  it.effect("twenty extractions that exceed the time slice are all completed, with at most forty starts", () =>
    Effect.gen(function*() {
      const { began, ended, start } = world(4)
      yield* start("slow", lines("s", 20), 30)
      yield* TestClock.adjust("10 minutes")
      assert.deepStrictEqual(ended.toSorted(), lines("s", 20).toSorted())
      assert.isAtMost(began.length, 40)
    }))

  it.effect("a tenant's slow extractions are completed even if thirty extractions of another tenant hang", () =>
    Effect.gen(function*() {
      const { ended, start } = world(8)
      yield* start("hanging", lines("h", 30), Infinity)
      yield* TestClock.adjust("5 minutes")
      yield* start("slow", lines("s", 4), 60)
      yield* TestClock.adjust("4 minutes")
      assert.deepStrictEqual(ended.toSorted(), lines("s", 4))
    }))

  it.effect("an extraction that exceeds its time slice continues if no other extraction waits to start", () =>
    Effect.gen(function*() {
      const { began, ended, start } = world(2)
      yield* start("a", lines("a", 2), 60)
      yield* TestClock.adjust("2 minutes")
      assert.deepStrictEqual(began, ["a0", "a1"])
      assert.deepStrictEqual(ended, ["a0", "a1"])
    }))

  it.effect("an interrupted extraction, whether it was waiting or running, does not delay later extractions", () =>
    Effect.gen(function*() {
      const { began, ended, start } = world(2)
      const fibers = yield* start("a", lines("a", 3), Infinity)
      yield* Fiber.interruptAll(fibers)
      yield* start("a", lines("b", 2), 1)
      yield* TestClock.adjust("2 seconds")
      assert.deepStrictEqual(began, ["a0", "b0", "b1"])
      assert.deepStrictEqual(ended, ["b0", "b1"])
    }))
})
