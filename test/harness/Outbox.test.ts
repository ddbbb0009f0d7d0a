import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schedule from "effect/Schedule"
import * as Scope from "effect/Scope"
import * as TestClock from "effect/TestClock"
import type * as MemoryError from "../../src/domain/MemoryError.ts"
import * as Message from "../../src/domain/Message.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as ExtractionTrigger from "../../src/harness/ExtractionTrigger.ts"
import type * as Outbox from "../../src/harness/Outbox.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import * as Faulty from "../../src/storage/MemoryStore/Faulty.ts"
import { databases, stores } from "../stores.ts"
import { times } from "../vault/Program.ts"
import * as Boxes from "./Outboxes.ts"
import { outboxLaws } from "./OutboxLaws.ts"

const {
  ada,
  bob,
  down,
  model,
  moved,
  mute,
  never,
  opened,
  refused,
  refusing,
  remembered,
  rows,
  settled,
  users,
  writes
} = Boxes

const memory = Effect.provide(MemoryStore.layerInMemory)
const theStore = MemoryStore.MemoryStore
const everySecond: Outbox.Options = { trigger: ExtractionTrigger.invocation, retry: Schedule.spaced("1 second") }

for (const [name, layer] of Object.entries({ memory: stores.memory, markdown: stores.markdown, ...databases })) {
  describe(`an Outbox over ${name}`, () => {
    const law = (title: string, check: Effect.Effect<void, unknown, MemoryStore.MemoryStore | Scope.Scope>) =>
      it.scoped(title, () => Effect.provide(Effect.scoped(check), layer)) // the inner scope closes the outboxes before their store

    for (const { check, title } of outboxLaws) law(title, check(opened))

    law(
      "memories that a closing Outbox extracts but cannot write are written by the next Outbox",
      Effect.gen(function*() {
        const store = yield* theStore
        const first = model()
        yield* Effect.scoped(Effect.gen(function*() {
          const outbox = yield* opened(refusing(store, (batch) => writes(batch) ? down : undefined), first, {
            trigger: never
          })
          yield* outbox.append(ada, "s", users("a"))
        }))
        assert.lengthOf(first.calls, 1)
        assert.deepStrictEqual(yield* rows(store), ["messages", "plan"])
        const second = model()
        const outbox = yield* opened(store, second)
        yield* outbox.flush
        assert.lengthOf(second.calls, 0)
        assert.deepStrictEqual(yield* remembered(store), ["a"])
        assert.deepStrictEqual(yield* rows(store), [])
      })
    )

    law(
      "an Outbox whose model fails can be closed, and the next Outbox extracts the waiting messages",
      Effect.gen(function*() {
        const store = yield* theStore
        yield* Effect.scoped(Effect.gen(function*() {
          const outbox = yield* opened(store, model(() => mute), { trigger: never })
          assert.strictEqual(yield* outbox.append(ada, "s", users("a", "b")), 0)
        }))
        assert.deepStrictEqual(yield* remembered(store), [])
        const outbox = yield* opened(store, model(), { trigger: never })
        yield* outbox.flush
        assert.deepStrictEqual(yield* remembered(store), ["a", "b"])
        assert.strictEqual(yield* outbox.append(ada, "s", users("c")), 2)
      })
    )
  })
}

it.scoped("a new Outbox over an in-memory store reads only the tenants in which an earlier Outbox stored rows", () =>
  Effect.gen(function*() {
    const store = yield* theStore
    const { extract } = model()
    for (const tenant of ["north", "south"]) {
      yield* store.put(Viewer.make({ tenant, userId: "ada" }), [{
        scope: { userId: "ada" },
        kind: "reference",
        body: "a note"
      }])
    }
    yield* Effect.scoped(
      Effect.flatMap(opened(store, { extract }, { trigger: never }), (outbox) => outbox.append(ada, "s", users("a")))
    )
    const read = new Set<string>()
    const noted: MemoryStore.Service = {
      ...store,
      stream: (viewer, filter) => {
        read.add(Viewer.tenantOf(viewer))
        return store.stream(viewer, filter)
      }
    }
    const outbox = yield* opened(noted, { extract }, { trigger: never })
    yield* outbox.flush
    assert.deepStrictEqual(yield* remembered(store), ["a"])
    assert.deepStrictEqual(Array.from(read), ["default"])
  }).pipe(memory))

describe("extraction by an Outbox", () => {
  const law = (
    title: string,
    options: Outbox.Options,
    check: (outbox: Outbox.Service, calls: Boxes.Model["calls"]) => Effect.Effect<void, unknown>
  ) =>
    it.scoped(title, () =>
      Effect.gen(function*() {
        const { calls, extract } = model()
        yield* check(yield* opened(yield* theStore, { extract }, options), calls)
      }).pipe(memory))
  const says = (outbox: Outbox.Service, text: string) => Effect.zipRight(outbox.append(ada, "s", users(text)), settled)

  law(
    "the default trigger starts extraction after two minutes without a new message",
    {},
    (outbox, calls) =>
      Effect.gen(function*() {
        for (const text of ["1", "2", "3", "4"]) yield* says(outbox, text)
        yield* TestClock.adjust("119 seconds")
        assert.lengthOf(calls, 0)
        yield* TestClock.adjust("1 second")
        assert.deepStrictEqual(calls, [["1", "2", "3", "4"]])
      })
  )

  law(
    "the default trigger starts extraction when the session ends",
    {},
    (outbox, calls) =>
      Effect.gen(function*() {
        for (const text of ["1", "2", "3", "4"]) yield* says(outbox, text)
        yield* outbox.sessionEnd(ada, "s")
        yield* settled
        assert.deepStrictEqual(calls, [["1", "2", "3", "4"]])
      })
  )

  law(
    "the default trigger starts extraction at the fifth turn of a conversation, not earlier and not at the sixth",
    {},
    (outbox, calls) =>
      Effect.gen(function*() {
        for (const text of ["1", "2", "3", "4"]) yield* says(outbox, text)
        assert.lengthOf(calls, 0)
        yield* says(outbox, "5")
        yield* says(outbox, "6")
        assert.deepStrictEqual(calls, [["1", "2", "3", "4", "5"]])
      })
  )

  law(
    "the trigger `invocation` starts extraction after each turn",
    { trigger: ExtractionTrigger.invocation },
    (outbox, calls) =>
      Effect.gen(function*() {
        yield* says(outbox, "1")
        yield* says(outbox, "2")
        assert.deepStrictEqual(calls, [["1"], ["2"]])
      })
  )

  law(
    "the trigger `sessionEnd` starts extraction when the conversation's own session ends",
    { trigger: ExtractionTrigger.sessionEnd },
    (outbox, calls) =>
      Effect.gen(function*() {
        yield* says(outbox, "1")
        yield* outbox.sessionEnd(bob, "s")
        yield* outbox.sessionEnd(ada, "t")
        yield* settled
        assert.lengthOf(calls, 0)
        yield* outbox.sessionEnd(ada, "s")
        yield* settled
        assert.deepStrictEqual(calls, [["1"]])
      })
  )

  law("the trigger `idle` extracts after the given time without a message, and a flush extracts at once", {
    trigger: ExtractionTrigger.idle("1 hour")
  }, (
    outbox,
    calls
  ) =>
    Effect.gen(function*() {
      yield* says(outbox, "1")
      yield* TestClock.adjust("59 minutes")
      assert.lengthOf(calls, 0)
      yield* TestClock.adjust("1 minute")
      assert.deepStrictEqual(calls, [["1"]])
      yield* says(outbox, "2")
      yield* outbox.flush
      assert.deepStrictEqual(calls, [["1"], ["2"]])
    }))

  law(
    "tool messages, blank messages and injected memory are not extracted, even if a turn contains nothing else",
    {
      trigger: ExtractionTrigger.invocation
    },
    (
      outbox,
      calls
    ) =>
      Effect.gen(function*() {
        yield* outbox.append(ada, "s", Boxes.lastHasWords)
        yield* outbox.append(ada, "s", [new Message.Message({ role: "tool", content: "43" })])
        yield* settled
        assert.deepStrictEqual(calls, [["new "]])
        assert.strictEqual((yield* outbox.status).waiting, 0)
      })
  )

  law(
    "a message that a custom filter admits is extracted, even a tool message",
    { trigger: ExtractionTrigger.invocation, filter: () => true },
    (
      outbox,
      calls
    ) =>
      Effect.gen(function*() {
        yield* outbox.append(ada, "s", [new Message.Message({ role: "tool", content: "42" })])
        yield* settled
        assert.deepStrictEqual(calls, [["42"]])
      })
  )
})

describe("an Outbox in which extractions fail", () => {
  it.scoped("ten failed extractions in a row make a conversation skip two of every three retries, until an extraction succeeds", () =>
    Effect.gen(function*() {
      const store = yield* theStore
      let isDown = true
      const { calls, extract } = model(() => isDown ? mute : Effect.void)
      const outbox = yield* opened(store, { extract }, everySecond)
      yield* outbox.append(ada, "s", users("first"))
      yield* TestClock.adjust("9 seconds")
      assert.lengthOf(calls, 10)
      assert.strictEqual((yield* outbox.status).failuresInARow, 10)
      yield* TestClock.adjust("30 seconds")
      assert.lengthOf(calls, 20)
      yield* outbox.append(bob, "s", users("second"))
      yield* outbox.append(ada, "s", users("third"))
      isDown = false
      yield* TestClock.adjust("1 minute")
      assert.deepStrictEqual(yield* remembered(store), ["first", "second", "third"])
      assert.strictEqual((yield* outbox.status).failuresInARow, 0)
      assert.deepStrictEqual(yield* outbox.deadLetters, [])
      yield* outbox.append(ada, "s", users("fourth"))
      yield* settled
      assert.lengthOf(yield* remembered(store), 4)
    }).pipe(memory))

  it.scoped("a failed extraction is retried after 1, 2, 4 and 8 seconds, and at once if the trigger fires or on a flush", () =>
    Effect.gen(function*() {
      const { calls, extract } = model(() => mute)
      const outbox = yield* opened(yield* theStore, { extract }, { trigger: ExtractionTrigger.invocation })
      yield* outbox.append(ada, "s", users("a"))
      yield* settled
      assert.lengthOf(calls, 1)
      for (const [seconds, count] of [[1, 2], [2, 3], [4, 4], [8, 5]] as const) {
        yield* TestClock.adjust(seconds * 1_000 - 1)
        assert.lengthOf(calls, count - 1)
        yield* TestClock.adjust(1)
        assert.lengthOf(calls, count)
      }
      yield* outbox.append(ada, "s", users("b"))
      yield* settled
      assert.lengthOf(calls, 6)
      yield* Effect.flip(outbox.flush)
      assert.lengthOf(calls, 7)
    }).pipe(memory))

  it.scoped("a turn whose messages were all filtered out does not count as a successful extraction", () =>
    Effect.gen(function*() {
      const outbox = yield* opened(yield* theStore, model(() => mute), everySecond)
      yield* outbox.append(ada, "s", users("a"))
      yield* TestClock.adjust("4 seconds")
      yield* outbox.append(bob, "s", [new Message.Message({ role: "tool", content: "42" })])
      yield* settled
      assert.strictEqual((yield* outbox.status).failuresInARow, 5)
    }).pipe(memory))

  it.scoped("messages whose extraction failed ten times become dead letters only after other messages have been extracted", () =>
    Effect.gen(function*() {
      const store = yield* theStore
      const { extract } = model((contents) => contents.includes("poison") ? mute : Effect.void)
      const outbox = yield* opened(store, { extract }, everySecond)
      yield* outbox.append(ada, "s", users("poison"))
      yield* TestClock.adjust("90 seconds")
      assert.deepStrictEqual(yield* outbox.deadLetters, [])
      yield* outbox.append(ada, "s", users("a"))
      yield* outbox.append(ada, "s", users("b"))
      yield* TestClock.adjust("90 seconds")
      assert.deepStrictEqual(yield* remembered(store), ["a", "b"])
      assert.deepStrictEqual((yield* outbox.deadLetters).map(({ from, reason, to }) => ({ from, to, reason })), [
        { from: 0, to: 1, reason: "model: mute" }
      ])
      assert.deepInclude(yield* outbox.status, { waiting: 0, deadLetters: 1, failuresInARow: 0 })
    }).pipe(memory))

  it.scoped("a batch that becomes a dead letter leaves the failures of other conversations in `failuresInARow`", () =>
    Effect.gen(function*() {
      const store = yield* theStore
      const fails = new Set(["poison", "broken"])
      const { calls, extract } = model((contents) => contents.some((text) => fails.has(text)) ? mute : Effect.void)
      const outbox = yield* opened(store, { extract }, everySecond)
      yield* outbox.append(ada, "s", users("poison"))
      yield* outbox.append(ada, "s", users("a"))
      while ((yield* remembered(store)).length === 0) yield* TestClock.adjust("1 second")
      yield* TestClock.adjust("3 seconds")
      yield* outbox.append(Viewer.make({ userId: "carl" }), "s", users("fine")) // resets `failuresInARow`, but not Ada's failures
      yield* settled
      yield* outbox.append(bob, "s", users("broken"))
      while ((yield* outbox.deadLetters).length === 0) yield* TestClock.adjust("1 second")
      const failures = calls.filter((contents) => contents.includes("broken")).length
      assert.isAtLeast(failures, 2)
      assert.strictEqual((yield* outbox.status).failuresInARow, failures)
    }).pipe(memory))

  it.scoped("an Outbox with hanging extractions extracts other conversations, and closes within 30 seconds", () =>
    Effect.gen(function*() {
      const store = yield* theStore
      const { extract } = model((contents) =>
        contents.some((text) => text.startsWith("hangs")) ? Effect.never : Effect.void
      )
      const scope = yield* Scope.make()
      const outbox = yield* opened(store, { extract }, { ...everySecond, timeout: "1 minute" }).pipe(
        Scope.extend(scope)
      )
      for (let n = 0; n < 3; n++) yield* outbox.append(ada, `s${n}`, users(`hangs ${n}`))
      yield* outbox.append(ada, "s0", users("hangs too"))
      yield* outbox.append(bob, "s", users("well"))
      yield* settled
      assert.deepStrictEqual(yield* remembered(store), ["well"])
      for (let n = 3; n < 8; n++) yield* outbox.append(ada, `s${n}`, users(`hangs ${n}`))
      yield* settled
      yield* outbox.append(bob, "s", users("still well"))
      yield* settled
      assert.deepStrictEqual(yield* remembered(store), ["well"])
      yield* TestClock.adjust("2 minutes")
      assert.deepStrictEqual(yield* remembered(store), ["still well", "well"])
      assert.strictEqual((yield* outbox.status).waiting, 9)
      const end = yield* Effect.fork(Scope.close(scope, Exit.void))
      yield* TestClock.adjust("29 seconds")
      assert.isTrue(Option.isNone(yield* Fiber.poll(end)))
      yield* TestClock.adjust("1 seconds")
      yield* Fiber.join(end)
      assert.lengthOf((yield* rows(store)).filter((row) => row === "messages"), 9)
    }).pipe(memory))

  it.scoped("an Outbox closes within thirty seconds even if a write to the store hangs", () =>
    Effect.gen(function*() {
      const store = yield* theStore
      let hangs = false
      const scope = yield* Scope.make()
      const outbox = yield* opened(
        { ...store, apply: (...call) => hangs ? Effect.never : store.apply(...call) },
        model(),
        everySecond
      ).pipe(Scope.extend(scope))
      yield* outbox.append(ada, "s", users("a"))
      hangs = true
      yield* Effect.forkDaemon(outbox.append(bob, "s", users("hangs")))
      yield* settled
      const end = yield* Effect.fork(Scope.close(scope, Exit.void))
      yield* TestClock.adjust("29 seconds")
      assert.isTrue(Option.isNone(yield* Fiber.poll(end)))
      yield* TestClock.adjust("1 seconds")
      yield* Fiber.join(end)
    }).pipe(memory))

  it.scoped("an Outbox whose trigger throws still extracts on flush", () =>
    Effect.gen(function*() {
      const store = yield* theStore
      const fires = (): never => {
        throw new Error("a bug")
      }
      const outbox = yield* opened(store, model(), { trigger: { name: "bug", fires } })
      yield* outbox.append(ada, "s", users("a"))
      yield* outbox.flush
      assert.deepStrictEqual(yield* remembered(store), ["a"])
    }).pipe(memory))

  it.scoped("a message with an invalid time or id is extracted", () =>
    Effect.gen(function*() {
      const store = yield* theStore
      const { calls, extract } = model()
      const outbox = yield* opened(store, { extract }, { trigger: never })
      const [message] = users("a")
      yield* outbox.append(ada, "s", [
        new Message.Message({ ...message!, at: NaN, id: "x".repeat(2_000) }),
        new Message.Message({ ...message!, at: Infinity, id: "\ud800" })
      ])
      yield* outbox.flush
      assert.deepStrictEqual(calls, [["a", "a"]])
      assert.deepInclude(yield* outbox.status, { waiting: 0, deadLetters: 0 })
    }).pipe(memory))

  it.scoped("an outbox asks the model again if the memories of a stored answer cannot be written because of a `conflict`", () =>
    Effect.gen(function*() {
      const store = yield* theStore
      let step = 0
      const { calls, extract } = model()
      const outbox = yield* opened(
        refusing(store, (batch) => writes(batch) ? [down, moved][step++] : undefined),
        { extract },
        { trigger: never }
      )
      yield* outbox.append(ada, "s", users("a"))
      yield* Effect.flip(outbox.flush)
      yield* outbox.flush
      assert.deepStrictEqual(calls, [["a"], ["a"]])
      assert.deepStrictEqual(yield* remembered(store), ["a"])
      assert.deepStrictEqual(yield* rows(store), [])
    }).pipe(memory))
})

/** Opens an outbox as `opened` does. When the test's scope closes, advances the clock by 30 seconds, so that the outbox can close. */
const hanging = (...args: Parameters<typeof opened>) =>
  Effect.gen(function*() {
    const scope = yield* Scope.make()
    const outbox = yield* Scope.extend(opened(...args), scope)
    yield* Effect.addFinalizer(() =>
      Effect.gen(function*() {
        const end = yield* Effect.fork(Scope.close(scope, Exit.void))
        yield* TestClock.adjust("30 seconds")
        yield* Fiber.join(end)
      }).pipe(Effect.interruptible)
    )
    return outbox
  })

describe("the capacity of an Outbox", () => {
  const limited = (error: MemoryError.MemoryError) => ({ reason: error.reason, detail: error.detail })

  it.scoped("an append beyond `capacityPerConversation` fails with `rate_limited` if extraction fails", () =>
    Effect.gen(function*() {
      const store = yield* theStore
      let isDown = true
      const { calls, extract } = model(() => isDown ? mute : Effect.void)
      const outbox = yield* opened(store, { extract }, { trigger: never, capacityPerConversation: 1 })
      yield* outbox.append(ada, "s", users("a"))
      for (const retryAfter of [1_000, 2_000, 4_000]) {
        const error = yield* Effect.flip(outbox.append(ada, "s", users("refused")))
        assert.deepStrictEqual(limited(error), { reason: "rate_limited", detail: { retryAfter } })
      }
      assert.lengthOf(calls, 3)
      yield* outbox.append(ada, "t", users("another conversation has room"))
      isDown = false
      yield* TestClock.adjust("4 seconds")
      yield* outbox.append(ada, "s", users("b"))
      yield* outbox.flush
      assert.deepStrictEqual(yield* remembered(store), ["a", "another conversation has room", "b"])
    }).pipe(memory))

  it.scoped("an append beyond `capacityPerConversation` waits at most `timeSlice` if extraction hangs, then fails with `rate_limited`", () =>
    Effect.gen(function*() {
      const { extract } = model(() => Effect.never)
      const outbox = yield* hanging(yield* theStore, { extract }, { trigger: never, capacityPerConversation: 1 })
      yield* outbox.append(ada, "s", users("a"))
      const refused = yield* Effect.fork(Effect.flip(outbox.append(ada, "s", users("refused"))))
      yield* settled
      yield* TestClock.adjust("9 seconds")
      assert.isTrue(Option.isNone(yield* Fiber.poll(refused)))
      yield* TestClock.adjust("1 seconds")
      const { detail, reason } = yield* Fiber.join(refused)
      assert.deepStrictEqual({ detail, reason }, { reason: "rate_limited", detail: { retryAfter: 10_000 } })
      assert.strictEqual((yield* outbox.status).waiting, 1)
    }).pipe(memory))

  it.scoped("hanging extractions of one tenant delay extractions of another tenant by at most twenty seconds, and its appends not at all", () =>
    Effect.gen(function*() {
      const store = yield* theStore
      const { extract } = model((contents) => contents.includes("hangs") ? Effect.never : Effect.void)
      const outbox = yield* hanging(store, { extract }, { ...everySecond, capacityPerTenant: 40 })
      const full = (n: number) => Viewer.make({ tenant: "full", userId: `user ${n}` })
      for (let n = 0; n < 40; n++) yield* outbox.append(full(n), "s", users("hangs"))
      const refused = yield* Effect.fork(Effect.flip(outbox.append(full(41), "s", users("refused"))))
      yield* outbox.append(bob, "s", users("well"))
      yield* TestClock.adjust("10 seconds")
      assert.deepStrictEqual(yield* remembered(store), ["well"])
      assert.strictEqual((yield* Fiber.join(refused)).reason, "rate_limited")
      for (let n = 0; n < 10; n++) {
        yield* outbox.append(bob, "s", users(`still well ${n}`))
        yield* TestClock.adjust("20 seconds")
        assert.lengthOf(yield* remembered(store), n + 2)
      }
    }).pipe(memory))

  it.scoped("a full tenant accepts a user's concurrent appends up to the user's share of the capacity and refuses the rest, if extraction fails", () =>
    Effect.gen(function*() {
      const outbox = yield* opened(yield* theStore, model(() => mute), { trigger: never, capacityPerTenant: 4 })
      for (const session of ["a", "b", "c", "d"]) yield* outbox.append(ada, session, users("bad"))
      const appended = yield* Effect.forEach(
        ["u", "v", "w"],
        (session) => Effect.either(outbox.append(bob, session, users("bad"))),
        { concurrency: "unbounded" }
      )
      assert.deepStrictEqual(appended.map(({ _tag }) => _tag).sort(), ["Left", "Right", "Right"])
    }).pipe(memory))

  it.scoped("dead letters, and messages that the store failed to write, do not count towards the capacity of an Outbox", () =>
    Effect.gen(function*() {
      const store = yield* theStore
      let refuse = false
      const { extract } = model((contents) => contents.includes("poison") ? refused : Effect.void)
      const outbox = yield* opened(refusing(store, () => refuse ? down : undefined), { extract }, {
        trigger: never,
        capacityPerConversation: 1
      })
      for (let n = 0; n < 3; n++) {
        yield* outbox.append(ada, "s", users("poison"))
        yield* outbox.flush
        refuse = true
        yield* Effect.flip(outbox.append(ada, "s", users("refused")))
        refuse = false
      }
      yield* outbox.append(ada, "s", users("a"))
      yield* outbox.flush
      assert.deepStrictEqual(yield* remembered(store), ["a"])
      assert.lengthOf(yield* outbox.deadLetters, 3)
    }).pipe(memory))

  it.scoped("an Outbox with `openConversations: 3` extracts 20 conversations completely", () =>
    Effect.gen(function*() {
      const store = yield* theStore
      const outbox = yield* opened(store, model(), { openConversations: 3, trigger: ExtractionTrigger.interval(2) })
      const turns = Array.from({ length: 60 }, (_, n) => n)
      yield* Effect.forEach(turns, (n) => outbox.append(ada, `s${n % 20}`, users(`${n}`)), { concurrency: 4 })
      yield* settled
      yield* outbox.flush
      assert.deepStrictEqual(yield* remembered(store), turns.map(String).sort())
      for (let n = 0; n < 20; n++) assert.strictEqual(yield* outbox.append(ada, `s${n}`, users("again")), 3)
    }).pipe(memory))
})

describe("an Outbox whose store fails or whose extraction is interrupted", () => {
  const kept = (store: MemoryStore.Service) =>
    Effect.scoped(Effect.gen(function*() {
      const outbox = yield* opened(store, model(() => mute), { trigger: never })
      yield* outbox.append(ada, "s", users("a", "b"))
      yield* outbox.append(ada, "s", users("c"))
      yield* outbox.append(bob, "s", users("d"))
    }))
  const flushed = (outbox: Outbox.Service) =>
    outbox.flush.pipe(
      Effect.zipRight(outbox.status),
      Effect.filterOrFail(({ waiting }) => waiting === 0, () => down),
      Effect.retry({ times: 12 })
    )

  const again = <A, E, R>(self: Effect.Effect<A, E, R>) => Effect.retry(Effect.sandbox(self), { times: 1 })

  for (const when of ["before", "after"] as const) {
    for (const fault of ["io", "conflict", "crash"] as const) {
      it.effect(`every message is remembered once if the fault \`${fault}\` occurs ${when} any one call of the store`, () =>
        Effect.gen(function*() {
          for (let at = 1; at <= 24; at += times(3, 1)) {
            yield* Effect.gen(function*() {
              const store = yield* theStore
              yield* kept(store)
              const ops = ["apply", "get", "stream", "search", "list"] as const
              const faulty = yield* Effect.provide(
                theStore,
                Layer.provide(Faulty.layer({ at, when, fault, ops }), Layer.succeed(theStore, store))
              )
              yield* Effect.scoped(Effect.gen(function*() {
                const outbox = yield* Effect.retry(Effect.sandbox(opened(faulty, model(), { trigger: never })), {
                  times: 1
                })
                yield* flushed(outbox)
                yield* again(outbox.release)
                yield* flushed(outbox)
              }))
              assert.deepStrictEqual(yield* remembered(store), ["a", "b", "c", "d"], `call ${at}`)
              assert.deepStrictEqual(yield* rows(store), [], `call ${at}`)
            }).pipe(Effect.provide(Layer.fresh(MemoryStore.layerInMemory)))
          }
        }))
    }
  }

  it.effect("every message is remembered once if a flush is interrupted at any step and then repeated", () =>
    Effect.gen(function*() {
      for (let steps = 0; steps < 120; steps += times(5, 1)) {
        yield* Effect.gen(function*() {
          const store = yield* theStore
          yield* kept(store)
          const outbox = yield* opened(store, model(() => Effect.yieldNow()), { trigger: never })
          const fiber = yield* Effect.fork(outbox.flush)
          yield* Effect.repeatN(Effect.yieldNow(), steps)
          yield* Fiber.interrupt(fiber)
          yield* flushed(outbox)
          assert.deepStrictEqual(yield* remembered(store), ["a", "b", "c", "d"], `${steps} steps`)
          assert.deepStrictEqual(yield* rows(store), [])
        }).pipe(Effect.scoped, Effect.provide(Layer.fresh(MemoryStore.layerInMemory)))
      }
    }))

  it.scoped("a flush does not extract a conversation that is already being extracted", () =>
    Effect.gen(function*() {
      const store = yield* theStore
      yield* kept(store)
      const { calls, extract } = model(() => Effect.sleep("1 second"))
      const outbox = yield* opened(store, { extract }, { trigger: never })
      yield* settled
      const flushes = yield* Effect.fork(Effect.all([outbox.flush, outbox.flush], { concurrency: 2 }))
      yield* settled
      yield* TestClock.adjust("1 second")
      yield* settled
      assert.deepStrictEqual(calls.toSorted(), [["a", "b", "c"], ["d"]])
      assert.deepStrictEqual(yield* remembered(store), ["a", "b", "c", "d"])
      yield* TestClock.adjust("1 minute")
      yield* Fiber.join(flushes)
      assert.lengthOf(calls, 2)
    }).pipe(memory))

  it.scoped("messages that an earlier process left waiting are extracted when an Outbox opens", () =>
    Effect.gen(function*() {
      const store = yield* theStore
      yield* kept(store)
      yield* opened(store, model(), { trigger: never })
      yield* settled
      assert.deepStrictEqual(yield* remembered(store), ["a", "b", "c", "d"])
    }).pipe(memory))

  it.scoped("an outbox discards the model's answer if another outbox has already extracted the same messages", () =>
    Effect.gen(function*() {
      const store = yield* theStore
      yield* kept(store)
      const answer = yield* Deferred.make<void>()
      const slow = yield* opened(store, model(() => Deferred.await(answer)), { trigger: never })
      yield* settled
      const fast = yield* opened(store, model(), { trigger: never })
      yield* fast.flush
      assert.lengthOf(yield* remembered(store), 4)
      yield* fast.append(ada, "s", users("e"))
      yield* Deferred.succeed(answer, undefined)
      yield* slow.flush
      yield* fast.flush
      assert.deepStrictEqual(yield* remembered(store), ["a", "b", "c", "d", "e"])
      assert.deepStrictEqual(yield* rows(store), [])
      assert.deepInclude(yield* slow.status, { waiting: 0, failuresInARow: 0 })
    }).pipe(memory))
})
