import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import * as Queue from "effect/Queue"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/TestClock"
import { user } from "../../src/domain/Message.ts"
import * as Trigger from "../../src/harness/ExtractionTrigger.ts"

const said: Trigger.TriggerEvent = { _tag: "Message", message: user("tea"), sequence: 0 }
const turnEnd: Trigger.TriggerEvent = { _tag: "TurnEnd" }
const sessionEnd: Trigger.TriggerEvent = { _tag: "SessionEnd" }

/** Yields repeatedly, so that other fibers run as far as they can. */
const settled = Effect.repeatN(Effect.yieldNow(), 100)

/** Feeds a trigger the events of one conversation, and counts how often it fires. */
const followed = (trigger: Trigger.ExtractionTrigger) =>
  Effect.gen(function*() {
    const events = yield* Queue.unbounded<Trigger.TriggerEvent>()
    let fired = 0
    yield* trigger.fires(Stream.fromQueue(events)).pipe(
      Stream.runForEach(() => Effect.sync(() => fired++)),
      Effect.forkScoped
    )
    yield* settled
    return {
      tell: (...all: ReadonlyArray<Trigger.TriggerEvent>) => Effect.zipRight(Queue.offerAll(events, all), settled),
      fired: () => fired
    }
  })

describe("ExtractionTrigger", () => {
  it.scoped("the trigger `invocation` fires at the end of every turn, and at no other event", () =>
    Effect.gen(function*() {
      const { fired, tell } = yield* followed(Trigger.invocation)
      yield* tell(said, said, sessionEnd)
      assert.strictEqual(fired(), 0)
      yield* tell(turnEnd, said, turnEnd)
      assert.strictEqual(fired(), 2)
    }))

  it.scoped("the trigger `interval(n)` fires at the end of every n-th turn, counted separately for each conversation", () =>
    Effect.gen(function*() {
      const trigger = Trigger.interval(3)
      const one = yield* followed(trigger)
      const other = yield* followed(trigger)
      for (let turn = 1; turn <= 10; turn++) {
        yield* one.tell(said, said, turnEnd)
        assert.strictEqual(one.fired(), Math.floor(turn / 3))
      }
      yield* other.tell(turnEnd, turnEnd)
      assert.strictEqual(other.fired(), 0)
    }))

  it.scoped("the trigger `sessionEnd` fires when the session ends, and at no other event", () =>
    Effect.gen(function*() {
      const { fired, tell } = yield* followed(Trigger.sessionEnd)
      yield* tell(said, turnEnd)
      assert.strictEqual(fired(), 0)
      yield* tell(sessionEnd)
      assert.strictEqual(fired(), 1)
    }))

  it.scoped("the trigger `idle` fires once after the given time without an event, and never before the first event", () =>
    Effect.gen(function*() {
      const { fired, tell } = yield* followed(Trigger.idle("10 minutes"))
      yield* TestClock.adjust("1 hour")
      assert.strictEqual(fired(), 0)
      yield* tell(said, turnEnd)
      yield* TestClock.adjust("9 minutes")
      yield* tell(said)
      yield* TestClock.adjust("599 seconds")
      assert.strictEqual(fired(), 0)
      yield* TestClock.adjust("1 seconds")
      yield* TestClock.adjust("1 hour")
      assert.strictEqual(fired(), 1)
      yield* tell(turnEnd)
      yield* TestClock.adjust("10 minutes")
      assert.strictEqual(fired(), 2)
    }))

  it.scoped("ExtractionTrigger.make makes a trigger from a function that turns a stream of events into a stream of firings", () =>
    Effect.gen(function*() {
      const urgent = Trigger.make("urgent", (events) =>
        events.pipe(
          Stream.filter((event) => event._tag === "Message" && /remember/.test(event.message.content)),
          Stream.as(undefined)
        ))
      const { fired, tell } = yield* followed(urgent)
      yield* tell(said, turnEnd)
      assert.strictEqual(fired(), 0)
      yield* tell({ _tag: "Message", message: user("remember the tea"), sequence: 1 })
      assert.strictEqual(fired(), 1)
    }))

  it.scoped("ExtractionTrigger.any passes every event to all given triggers, and fires when one of the triggers fires", () =>
    Effect.gen(function*() {
      const trigger = Trigger.any(Trigger.interval(2), Trigger.sessionEnd, Trigger.idle("1 minute"))
      const { fired, tell } = yield* followed(trigger)
      yield* tell(said, turnEnd)
      assert.strictEqual(fired(), 0)
      yield* tell(turnEnd)
      assert.strictEqual(fired(), 1)
      yield* tell(sessionEnd)
      assert.strictEqual(fired(), 2)
      yield* TestClock.adjust("1 minute")
      assert.strictEqual(fired(), 3)
      assert.strictEqual(trigger.name, "interval(2) | sessionEnd | idle(1m)")
    }))

  const triggers = [
    Trigger.invocation,
    Trigger.interval(3),
    Trigger.idle("40 seconds"),
    Trigger.standard,
    Trigger.any(Trigger.idle("15 seconds"), Trigger.any(Trigger.sessionEnd, Trigger.idle("55 seconds")))
  ]
  for (const trigger of triggers) {
    it.scoped(`the methods \`watch\` and \`fires\` of the trigger ${trigger.name} lead to firings at the same times`, () =>
      Effect.gen(function*() {
        const events = FastCheck.constantFrom<Trigger.TriggerEvent | number>(said, turnEnd, sessionEnd, 10, 30, 60)
        for (const happened of FastCheck.sample(FastCheck.array(events, { maxLength: 30 }), { numRuns: 10, seed: 5 })) {
          const { fired, tell } = yield* followed(trigger)
          const watch = trigger.watch!()
          let woken = 0
          for (const event of happened) {
            const now = yield* Clock.currentTimeMillis
            if (typeof event !== "number") {
              yield* tell(event)
              if (watch.on(event, now)) woken++
            } else {
              const end = now + event * 1_000
              yield* TestClock.adjust(event * 1_000)
              for (let due = watch.due(); due !== undefined && due <= end; due = watch.due()) {
                if (watch.wake(due)) woken++
              }
            }
            assert.strictEqual(woken, fired())
          }
        }
      }))
  }

  it("a trigger made by ExtractionTrigger.any has no `watch` if one of the combined triggers has no `watch`", () => {
    const own = Trigger.make("own", (events) => Stream.as(events, undefined))
    assert.isUndefined(Trigger.any(Trigger.sessionEnd, own).watch)
  })

  it("`issues` of a trigger has one reason for each invalid interval and each invalid idle time", () => {
    for (const turns of [0, -1, 1.5, NaN, Infinity]) {
      assert.lengthOf(Trigger.interval(turns).issues ?? [], 1, String(turns))
    }
    for (const time of [0, -1, Infinity]) assert.lengthOf(Trigger.idle(time).issues ?? [], 1, String(time))
    assert.lengthOf(Trigger.any(Trigger.interval(0), Trigger.idle(0), Trigger.invocation).issues ?? [], 2)
    const legal = Trigger.any(Trigger.interval(1), Trigger.idle("1 milli"), Trigger.sessionEnd, Trigger.invocation)
    assert.deepStrictEqual(legal.issues ?? [], [])
  })
})
