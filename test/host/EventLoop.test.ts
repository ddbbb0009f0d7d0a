import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as FastCheck from "effect/FastCheck"
import * as Fiber from "effect/Fiber"
import { atOnce, type Steps } from "../../src/host/EventLoop.ts"
import * as EventLoop from "../../src/host/EventLoop.ts"
import { waitsOf } from "../waits.ts"

describe("EventLoop.serialSteps", () => {
  it.live("long steps of concurrent fibers run one after another, each in its own iteration of the event loop", () =>
    Effect.gen(function*() {
      let turn = 0
      let isOver = false
      const count = () => {
        turn++
        if (!isOver) setImmediate(count)
      }
      setImmediate(count)
      const step = yield* EventLoop.serialSteps
      const turns = yield* Effect.forEach(
        Array.from({ length: 8 }, (_, n) => n),
        (n) => step(() => [n, turn] as const, () => 20_000),
        { concurrency: "unbounded" }
      )
      isOver = true
      assert.deepStrictEqual(turns.map(([n]) => n), [0, 1, 2, 3, 4, 5, 6, 7])
      assert.strictEqual(new Set(turns.map(([, turn]) => turn)).size, turns.length)
    }))
})

describe("a step of the event loop that takes too long", () => {
  /** Makes a clock that goes on by `millis` each time it is read, and counts the pauses (its sleeps). */
  const clockOf = (millis: number) => {
    const clock = { ...Clock.make(), now: 0, turns: 0 }
    return Object.assign(clock, {
      unsafeCurrentTimeMillis: () => clock.now += millis,
      sleep: () => Effect.sync(() => void clock.turns++)
    })
  }
  const turnsOf = (millis: number, self: Effect.Effect<unknown>) => {
    const clock = clockOf(millis)
    return Effect.map(Effect.withClock(self, clock), () => clock.turns)
  }

  it.effect("`forEach`, `paced` and `pacer` pause early if a step takes more than 4 ms", () =>
    Effect.gen(function*() {
      const all = Array.from({ length: 160 }, (_, n) => n)
      const pacer = EventLoop.pacer(160)
      const works: ReadonlyArray<Effect.Effect<unknown>> = [
        EventLoop.forEach(all, 160, () => undefined),
        EventLoop.paced(function*() {
          for (const _ of all) yield 1
        }, 160),
        Effect.forEach(all, () => pacer(1))
      ]
      for (const work of works) {
        assert.isAtMost(yield* turnsOf(0, work), 1)
        assert.isAtLeast(yield* turnsOf(5, work), 6)
      }
    }))

  it.live("an IterationBudget is spent after the given work or 4 ms, and is renewed in the next iteration of the event loop", () =>
    Effect.gen(function*() {
      const still = clockOf(0)
      const budget = EventLoop.makeIterationBudget(16)
      assert.isFalse(budget.isSpent(still))
      budget.spend(16)
      assert.deepStrictEqual([budget.isSpent(still), budget.isSpent()], [true, true])
      yield* EventLoop.pause
      yield* EventLoop.pause
      assert.deepStrictEqual([budget.isSpent(still), budget.isSpent()], [false, false])
      const quick = clockOf(5)
      yield* EventLoop.pause
      yield* EventLoop.pause
      budget.spend(1)
      assert.isFalse(EventLoop.makeIterationBudget(16).isSpent(quick))
      assert.isTrue(budget.isSpent(quick))
    }))
})

describe("EventLoop.forEach and EventLoop.paced", () => {
  const steps = (sizes: ReadonlyArray<number>) =>
    function*(): Steps<number> {
      for (const size of sizes) yield size
      return sizes.length
    }

  it.effect("`forEach` and `paced` pause after each N units of work, and at the end if over N/4 units were done since the last pause", () =>
    Effect.gen(function*() {
      for (const [works, expected] of [[0, 0], [2, 0], [3, 1], [8, 1], [10, 1], [11, 2], [24, 3]] as const) {
        const sizes = Array.from({ length: works }, () => 1)
        const seen: Array<number> = []
        const [turns] = yield* waitsOf(EventLoop.forEach(sizes.keys(), 8, (n) => seen.push(n)))
        assert.deepStrictEqual(seen, Array.from(sizes.keys()))
        assert.strictEqual(turns, expected, `${works} of forEach`)
        const [paced, value] = yield* waitsOf(EventLoop.paced(steps(sizes), 8))
        assert.strictEqual(value, works)
        assert.strictEqual(paced, expected, `${works} of paced`)
        assert.strictEqual(atOnce(steps(sizes)()), works)
      }
      const [turns] = yield* waitsOf(EventLoop.forEach([8, 1, 7, 20], 8, () => undefined, (work) => work))
      assert.strictEqual(turns, 3)
      assert.strictEqual((yield* waitsOf(EventLoop.forEach([1, 2, 3], Infinity, () => undefined)))[0], 0)
    }))

  it.effect("the Effect of `forEach` or `paced` can be run again, and then begins anew", () =>
    Effect.gen(function*() {
      let begun = 0
      const work = EventLoop.paced(function*(): Steps<number> {
        yield 1
        return ++begun
      })
      assert.deepStrictEqual([yield* work, yield* work], [1, 2])
      const seen: Array<number> = []
      const all = EventLoop.forEach([1, 2], 1, (n) => seen.push(n))
      yield* Effect.zipRight(all, all)
      assert.deepStrictEqual(seen, [1, 2, 1, 2])
    }))
})

describe("EventLoop.makeSerialQueue", () => {
  it.live("a serial queue runs effects one after another in order of arrival, even if some fail or are interrupted", () =>
    Effect.gen(function*() {
      const inLine = EventLoop.makeSerialQueue()
      const go = yield* Deferred.make<void>()
      const began: Array<number> = []
      let inside = 0
      const step = (n: number, self: Effect.Effect<void, string>) =>
        inLine(
          Effect.suspend(() => {
            began.push(n)
            assert.strictEqual(++inside, 1)
            return self
          }).pipe(Effect.ensuring(Effect.sync(() => inside--)))
        )
      const starting = (n: number, self: Effect.Effect<void, string>) =>
        Effect.zipLeft(Effect.fork(Effect.exit(step(n, self))), Effect.yieldNow())
      const first = yield* starting(0, Deferred.await(go))
      const failing = yield* starting(1, Effect.fail("no"))
      const waiting = yield* Effect.fork(step(2, Effect.void))
      const stuck = yield* Effect.fork(step(3, Effect.never))
      const last = yield* starting(4, Effect.void)
      yield* Fiber.interrupt(waiting)
      assert.deepStrictEqual(began, [0])
      yield* Deferred.succeed(go, undefined)
      assert.deepStrictEqual(yield* Fiber.join(first), Exit.void)
      assert.deepStrictEqual(yield* Fiber.join(failing), Exit.fail("no"))
      while (!began.includes(3)) yield* Effect.yieldNow()
      yield* Fiber.interrupt(stuck)
      assert.deepStrictEqual(yield* Fiber.join(last), Exit.void)
      assert.deepStrictEqual(began, [0, 1, 3, 4])
      yield* step(5, Effect.void)
      assert.strictEqual(inside, 0)
    }))
})

interface Row {
  readonly n: number
}

/** Makes a table of rows, and an index of the table: the set of its rows. To index a row takes `work` units. */
const made = (work: number) => {
  const rows = new Map<number, Row>()
  const index = new EventLoop.LazyIndex<Row, Set<Row>>({
    make: () => new Set(),
    add: (index, row) => {
      assert.isFalse(index.has(row), "a row is added once")
      index.add(row)
      return work
    },
    remove: (index, row) => assert.isTrue(index.delete(row), "a row that is taken away was there"),
    rows: () => Array.from(rows.values())
  })
  const set = (n: number, isThere: boolean) => {
    const before = rows.get(n)
    const after = isThere ? { n } : undefined
    if (after === undefined) rows.delete(n)
    else rows.set(n, after)
    index.set(before, after)
  }
  return { index, rows, set }
}

const isOf = (rows: ReadonlyMap<number, Row>, index: ReadonlySet<Row>) => {
  assert.strictEqual(index.size, rows.size)
  assert.isTrue(Array.from(rows.values()).every((row) => index.has(row)))
}

/** Units of work of one row: more than the 16,384 after which `EventLoop.paced` pauses. So a build pauses after each row. */
const aTurn = 131_072

describe("EventLoop.LazyIndex", () => {
  it.live("a LazyIndex includes all writes made during its build, even if a fiber that waits for the build is interrupted", () =>
    Effect.gen(function*() {
      const { array, boolean, integer, tuple } = FastCheck
      const courses = FastCheck.sample(
        tuple(
          integer({ min: 0, max: 9 }),
          array(tuple(integer({ min: 0, max: 12 }), boolean(), integer({ min: 0, max: 3 })), { maxLength: 12 })
        ),
        { seed: 1, numRuns: 60 }
      )
      for (const [count, course] of courses) {
        const { index, rows, set } = made(aTurn / 2)
        for (let n = 0; n < count; n++) set(n, true)
        const fibers = [yield* Effect.fork(index.prepared), yield* Effect.fork(index.prepared)] as const
        yield* EventLoop.pause
        for (const [at, [n, isThere, what]] of course.entries()) {
          set(n, isThere)
          if (what === 0) yield* EventLoop.pause
          if (what === 1 && at === 3) yield* Fiber.interrupt(fibers[0])
          if (what === 2 && at === 5) isOf(rows, index.build())
        }
        isOf(rows, yield* Fiber.join(fibers[1]))
        for (const [n, isThere] of course) set(n + 1, isThere)
        isOf(rows, yield* index.prepared)
      }
    }))

  it.live("a LazyIndex of 100,000 rows includes all writes that are made in the pauses of its build", () =>
    Effect.gen(function*() {
      const { index, rows, set } = made(0)
      for (let n = 0; n < 100_000; n++) set(n, true)
      const fiber = yield* Effect.fork(index.prepared)
      for (const n of [0, 1, 99_998, 99_999, 200_000]) {
        yield* EventLoop.pause
        set(n, false)
        set(n + 1, true)
        set(n + 1, n % 2 === 0)
        set(n, n === 1)
      }
      isOf(rows, yield* Fiber.join(fiber))
    }))

  it.live("a LazyIndex is built once, and its build pauses after each fixed amount of work", () =>
    Effect.gen(function*() {
      const { index, set } = made(aTurn)
      for (let n = 0; n < 10; n++) set(n, true)
      assert.isUndefined(index.known)
      let turns = 0
      const other = yield* Effect.fork(Effect.forever(Effect.zipRight(EventLoop.pause, Effect.sync(() => turns++))))
      const first = yield* index.prepared
      assert.isAtLeast(turns, 8)
      yield* Fiber.interrupt(other)
      assert.strictEqual(yield* index.prepared, first)
      assert.strictEqual(index.build(), first)
      assert.strictEqual(index.known, first)
    }))
})
