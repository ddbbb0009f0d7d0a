/** The laws that every implementation of the `Outbox` service obeys over any store. Laws of one implementation are in its own test file. */
import { assert } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import * as Message from "../../src/domain/Message.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as ExtractionTrigger from "../../src/harness/ExtractionTrigger.ts"
import type * as Outbox from "../../src/harness/Outbox.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import * as Boxes from "./Outboxes.ts"

const { ada, bob, down, model, mute, never, refused, refusing, remembered, rows, settled, users, writes } = Boxes

/** A law: a title, and a check of an implementation. */
export interface Law {
  readonly title: string
  readonly check: (opened: typeof Boxes.opened) => Effect.Effect<void, unknown, MemoryStore.MemoryStore | Scope.Scope>
}

const laws: Array<Law> = []
const law = (title: string, check: Law["check"]): void => void laws.push({ title, check })
const theStore = MemoryStore.MemoryStore

/** Waits until the condition holds, one iteration of the event loop after the other; the test's own timeout ends it. */
const until = <E>(condition: Effect.Effect<boolean, E>): Effect.Effect<void, E> =>
  Effect.asVoid(Effect.repeat(Effect.zipRight(settled, condition), { until: (holds) => holds }))

const waitsFor = (outbox: Outbox.Service, count: number) =>
  until(Effect.map(outbox.status, ({ waiting }) => waiting === count))

const remembers = (store: MemoryStore.Service, ...texts: ReadonlyArray<string>) =>
  until(Effect.map(remembered(store), (all) => all.join() === texts.join()))

law(
  "a flush extracts the appended messages once, in order, and removes their rows from the store",
  (opened) =>
    Effect.gen(function*() {
      const store = yield* theStore
      const { calls, extract } = model()
      const outbox = yield* opened(store, { extract }, { trigger: never })
      assert.strictEqual(yield* outbox.append(ada, "s", users("a", "b")), 0)
      assert.strictEqual(yield* outbox.append(ada, "s", users("c")), 2)
      assert.strictEqual((yield* outbox.status).waiting, 3)
      yield* outbox.flush
      yield* outbox.flush
      assert.deepStrictEqual(calls, [["a", "b", "c"]])
      assert.deepStrictEqual(yield* remembered(store), ["a", "b", "c"])
      assert.deepStrictEqual(yield* rows(store), [])
      const { durable } = store.capabilities
      assert.deepStrictEqual(yield* outbox.status, { waiting: 0, deadLetters: 0, failuresInARow: 0, durable })
    })
)

law(
  "a failed write of memories is retried with the model's stored answer",
  (opened) =>
    Effect.gen(function*() {
      const store = yield* theStore
      let failures = 3
      const { calls, extract } = model()
      const fragile = refusing(store, (batch) => writes(batch) && failures-- > 0 ? down : undefined)
      const outbox = yield* opened(fragile, { extract }, { trigger: never })
      yield* outbox.append(ada, "s", users("a"))
      for (let n = 0; n < 3; n++) {
        assert.strictEqual((yield* Effect.flip(outbox.flush)).reason, "unavailable")
        assert.deepStrictEqual(yield* rows(store), ["messages", "plan"])
      }
      yield* outbox.flush
      assert.lengthOf(calls, 1)
      assert.deepStrictEqual(yield* remembered(store), ["a"])
      assert.deepStrictEqual(yield* rows(store), [])
    })
)

law(
  "a new outbox writes the memories of a stored answer without asking the model again",
  (opened) =>
    Effect.gen(function*() {
      const store = yield* theStore
      const first = model()
      yield* Effect.scoped(Effect.gen(function*() {
        const fragile = refusing(store, (batch) => writes(batch) ? down : undefined)
        const outbox = yield* opened(fragile, first, { trigger: never })
        yield* outbox.append(ada, "s", users("a"))
        yield* Effect.flip(outbox.flush)
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
  "a new outbox extracts the messages that an earlier outbox left waiting",
  (opened) =>
    Effect.gen(function*() {
      const store = yield* theStore
      yield* Effect.scoped(Effect.gen(function*() {
        const outbox = yield* opened(store, model(() => mute), { trigger: never })
        assert.strictEqual(yield* outbox.append(ada, "s", users("a", "b")), 0)
      }))
      assert.deepStrictEqual(yield* remembered(store), [])
      const outbox = yield* opened(store, model(), { trigger: never })
      yield* remembers(store, "a", "b")
      assert.strictEqual(yield* outbox.append(ada, "s", users("c")), 2)
    })
)

law(
  "two outboxes that share a conversation extract every message once, and assign no sequence number twice",
  (opened) =>
    Effect.gen(function*() {
      const store = yield* theStore
      const boxes = [
        yield* opened(store, model(), { trigger: never }),
        yield* opened(store, model(), { trigger: never })
      ]
      const places = yield* Effect.forEach(
        Array.from({ length: 20 }, (_, n) => n),
        (n) =>
          Effect.gen(function*() {
            const box = boxes[n % 2]!
            const place = yield* box.append(ada, "s", users(`m${n}`, `n${n}`))
            if (n % 5 === 4) yield* box.flush
            return place
          }),
        { concurrency: 7 }
      )
      assert.deepStrictEqual(places.sort((a, b) => a - b), Array.from({ length: 20 }, (_, n) => 2 * n))
      yield* Effect.forEach(boxes, ({ flush }) => flush, { concurrency: 2 })
      const expected = Array.from({ length: 20 }, (_, n) => [`m${n}`, `n${n}`]).flat().sort()
      assert.deepStrictEqual(yield* remembered(store), expected)
      assert.deepStrictEqual(yield* rows(store), [])
    })
)

law(
  "an outbox with `extractor: \"ingest\"` stores each message once, word for word",
  (opened) =>
    Effect.gen(function*() {
      const store = yield* theStore
      const { calls, extract } = model()
      const boxes = [
        yield* opened(store, { extract }, { trigger: never, extractor: "ingest" }),
        yield* opened(store, { extract }, { trigger: never, extractor: "ingest" })
      ]
      const coach = Viewer.make({ userId: "ada", agentId: "coach" })
      const within = Viewer.make({ userId: "ada", reach: "within" })
      for (const [n, viewer] of [ada, coach, within].entries()) {
        yield* boxes[n % 2]!.append(viewer, "s", users(`a${n}`))
        yield* boxes[(n + 1) % 2]!.append(viewer, "s", users(`b${n}`))
      }
      yield* Effect.forEach(boxes, ({ flush }) => flush, { concurrency: 2 })
      assert.deepStrictEqual(yield* remembered(store), ["a0", "a1", "a2", "b0", "b1", "b2"])
      const { items } = yield* store.list(ada, {})
      const sources = items.map(({ body, source: { sequence, session } }) => [body[0], session, sequence].join())
      assert.deepStrictEqual(sources.sort(), ["a,s,0", "a,s,0", "a,s,0", "b,s,1", "b,s,1", "b,s,1"])
      assert.lengthOf(calls, 0)
    })
)

law(
  "a message that exceeds the size limit of a record's body is extracted whole",
  (opened) =>
    Effect.gen(function*() {
      const store = yield* theStore
      const { calls, extract } = model()
      const outbox = yield* opened(store, { extract }, { trigger: never })
      const long = `long ${"x🐈\"\n".repeat(50_000)}`
      yield* outbox.append(ada, "s", users(long, "half \ud83d"))
      yield* outbox.flush
      assert.deepStrictEqual(calls, [[long, "half \ufffd"]])
      assert.deepStrictEqual(yield* rows(store), [])
    })
)

law(
  "conversations with the same session id are separate for each user and each tenant",
  (opened) =>
    Effect.gen(function*() {
      const store = yield* theStore
      const outbox = yield* opened(store, model(), { trigger: never })
      for (const tenant of ["one", "two"]) {
        for (const userId of ["ada", "bob"]) {
          const viewer = Viewer.make({ tenant, userId })
          assert.strictEqual(yield* outbox.append(viewer, "s", users(`${tenant} ${userId}`)), 0)
        }
      }
      yield* outbox.flush
      for (const tenant of ["one", "two"]) {
        assert.deepStrictEqual(yield* remembered(store, tenant), [`${tenant} ada`, `${tenant} bob`])
        const { items } = yield* store.list(Viewer.make({ tenant, userId: "ada" }), {})
        assert.deepStrictEqual(items.map(({ scope }) => scope), [{ userId: "ada" }])
      }
    })
)

law(
  "`append` numbers all messages of a conversation without gaps, tool messages included, even across outboxes",
  (opened) =>
    Effect.gen(function*() {
      const store = yield* theStore
      const tool = new Message.Message({ role: "tool", content: "42" })
      let next = 0
      for (let round = 0; round < 3; round++) {
        yield* Effect.scoped(Effect.gen(function*() {
          const outbox = yield* opened(store, model(), { trigger: never })
          for (const turn of [users("a"), [tool, tool], [], [tool, ...users("b")]]) {
            assert.strictEqual(yield* outbox.append(ada, "s", turn), next)
            next += turn.length
          }
        }))
      }
    })
)

law(
  "an outbox extracts a conversation by default at its fifth turn, and when `sessionEnd` is called for it",
  (opened) =>
    Effect.gen(function*() {
      const store = yield* theStore
      const { calls, extract } = model()
      const outbox = yield* opened(store, { extract })
      for (const text of ["1", "2", "3", "4"]) yield* outbox.append(ada, "s", users(text))
      yield* settled
      assert.lengthOf(calls, 0)
      yield* outbox.append(ada, "s", users("5"))
      yield* remembers(store, "1", "2", "3", "4", "5")
      yield* waitsFor(outbox, 0)
      yield* settled
      yield* outbox.append(ada, "s", users("6"))
      yield* outbox.sessionEnd(bob, "s")
      yield* outbox.sessionEnd(ada, "t")
      yield* settled
      assert.lengthOf(calls, 1)
      yield* outbox.sessionEnd(ada, "s")
      yield* remembers(store, "1", "2", "3", "4", "5", "6")
      assert.deepStrictEqual(calls, [["1", "2", "3", "4", "5"], ["6"]])
    })
)

law(
  "tool messages, blank messages and injected memory are not extracted",
  (opened) =>
    Effect.gen(function*() {
      const store = yield* theStore
      const { calls, extract } = model()
      const outbox = yield* opened(store, { extract }, { trigger: ExtractionTrigger.invocation })
      yield* outbox.append(ada, "s", [new Message.Message({ role: "tool", content: "43" })])
      yield* outbox.append(ada, "s", Boxes.lastHasWords)
      yield* remembers(store, "new ")
      assert.deepStrictEqual(calls, [["new "]])
      yield* waitsFor(outbox, 0)
    })
)

law(
  "`append` refuses `Viewer.make({})`, unless the options both set the scope Global and allow writes to it",
  (opened) =>
    Effect.gen(function*() {
      const store = yield* theStore
      const nobody = Viewer.make({})
      for (const options of [{}, { scope: "global" }, { sharedWrites: ["global"] }] as const) {
        const outbox = yield* opened(store, model(), { options })
        assert.strictEqual((yield* Effect.flip(outbox.append(nobody, "s", users("a")))).reason, "invalid_scope")
      }
      const open = yield* opened(store, model(), { options: { scope: "global", sharedWrites: ["global"] } })
      yield* open.append(nobody, "s", users("a"))
      yield* open.flush
      assert.deepStrictEqual(yield* remembered(store), ["a"])
    })
)

law(
  "only the message that cannot be extracted becomes a dead letter, and `release` retries the message",
  (opened) =>
    Effect.gen(function*() {
      const store = yield* theStore
      let isPoison = true
      const { calls, extract } = model((contents) => isPoison && contents.includes("poison") ? refused : Effect.void)
      const outbox = yield* opened(store, { extract }, { trigger: never })
      yield* outbox.append(ada, "s", users("a"))
      yield* outbox.append(ada, "s", users("poison"))
      yield* outbox.append(ada, "s", users("b"))
      yield* outbox.flush
      assert.deepStrictEqual(calls, [["a", "poison", "b"], ["a"], ["poison"], ["b"]])
      assert.deepStrictEqual(yield* remembered(store), ["a", "b"])
      const reason = "invalid_draft: never"
      assert.deepStrictEqual(yield* outbox.deadLetters, [{ viewer: ada, session: "s", from: 1, to: 2, reason }])
      assert.deepInclude(yield* outbox.status, { waiting: 0, deadLetters: 1, failuresInARow: 0 })
      yield* outbox.flush
      assert.lengthOf(calls, 4)

      const later = yield* opened(store, { extract }, { trigger: never })
      assert.deepInclude(yield* later.status, { waiting: 0, deadLetters: 1 })
      isPoison = false
      assert.strictEqual(yield* later.release, 1)
      assert.strictEqual(yield* later.release, 0)
      yield* remembers(store, "a", "b", "poison")
      assert.deepStrictEqual(yield* later.deadLetters, [])
      yield* waitsFor(later, 0)
      assert.strictEqual((yield* later.status).deadLetters, 0)
    })
)

law("messages whose extraction fails with a defect become dead letters", (opened) =>
  Effect.gen(function*() {
    const store = yield* theStore
    const { extract } = model((contents) => contents.includes("bug") ? Effect.die("a bug") : Effect.void)
    const outbox = yield* opened(store, { extract }, { trigger: ExtractionTrigger.invocation })
    yield* outbox.append(ada, "s", users("bug"))
    yield* outbox.append(ada, "s", users("a"))
    yield* remembers(store, "a")
    yield* until(Effect.map(outbox.deadLetters, ([letter]) => letter?.reason === "unsupported: the extraction died"))
  }))

law(
  "an extraction that interrupts itself fails only its own conversation, and the next `flush` extracts that conversation",
  (opened) =>
    Effect.gen(function*() {
      const store = yield* theStore
      let isCut = true
      const { extract } = model((contents) => contents.includes("cut") && isCut ? Effect.interrupt : Effect.void)
      const outbox = yield* opened(store, { extract }, { trigger: never })
      yield* outbox.append(ada, "s", users("cut"))
      for (const session of ["t", "u"]) yield* outbox.append(ada, session, users(session))
      const { message } = yield* Effect.flip(outbox.flush)
      assert.strictEqual(message, "1 of 3 conversations could not be written: unavailable 1")
      yield* remembers(store, "t", "u")
      isCut = false
      yield* outbox.flush
      yield* remembers(store, "cut", "t", "u")
    })
)

law(
  "a `filter` that throws fails the append with `unavailable`, and no message is appended",
  (opened) =>
    Effect.gen(function*() {
      const store = yield* theStore
      const { calls, extract } = model()
      const filter = ({ content }: Message.Message) => {
        if (content === "bad") throw new TypeError("the filter broke")
        return true
      }
      const outbox = yield* opened(store, { extract }, { trigger: never, filter })
      const { reason } = yield* Effect.flip(outbox.append(ada, "s", users("fine", "bad")))
      assert.strictEqual(reason, "unavailable")
      assert.deepInclude(yield* outbox.status, { waiting: 0, deadLetters: 0 })
      assert.strictEqual(yield* outbox.append(ada, "s", users("fine")), 0)
      yield* outbox.flush
      assert.deepStrictEqual(calls, [["fine"]])
    })
)

law(
  "an Outbox with a `ttl`, an `extractor` or a `maxFacts` that is invalid fails with `invalid_draft` when it is made",
  (opened) =>
    Effect.gen(function*() {
      const store = yield* theStore
      const error = yield* Effect.flip(opened(store, model(), {
        extractor: "foo" as "ingest", // an invalid text, as a configuration file may contain it
        options: { maxFacts: 0, ttl: "abc" as "1 day" } // an invalid text, as a configuration file may contain it
      }))
      assert.deepStrictEqual(error.detail, {
        issues: [
          "extractor: expected \"pipeline\" or \"ingest\"",
          "options.maxFacts: expected 1 to 256",
          "options.ttl: expected a time, 0 ms or more, such as \"10 seconds\" or Duration.infinity"
        ]
      })
    })
)

law(
  "an append of an invalid message fails with `invalid_draft` and stores none of its messages",
  (opened) =>
    Effect.gen(function*() {
      const store = yield* theStore
      const { calls, extract } = model()
      const outbox = yield* opened(store, { extract }, { trigger: never })
      const json = (text: string) => [...users("fine"), ...JSON.parse(text)]
      for (const text of ["[{\"role\":\"user\",\"content\":5}]", "[{\"role\":\"bot\",\"content\":\"x\"}]", "[null]"]) {
        assert.strictEqual((yield* Effect.flip(outbox.append(ada, "s", json(text)))).reason, "invalid_draft")
      }
      yield* outbox.flush
      assert.lengthOf(calls, 0)
      assert.strictEqual(yield* outbox.append(ada, "s", users("a")), 0)
    })
)

law(
  "the error of `flush` counts the failed conversations by reason, and quotes no messages",
  (opened) =>
    Effect.gen(function*() {
      const { extract } = model((contents) =>
        contents.includes("well") ? Effect.void : contents.includes("mute") ? mute : down
      )
      const outbox = yield* opened(yield* theStore, { extract }, { trigger: never, flushTimeout: 0 })
      for (const [n, text] of ["well", "secret", "mute", "well", "secret"].entries()) {
        yield* outbox.append(Viewer.make({ tenant: `tenant ${n % 2}`, userId: `user ${n}` }), "s", users(text))
      }
      const { cause, message, op, reason } = yield* Effect.flip(outbox.flush)
      assert.deepStrictEqual({ cause, message, op, reason }, {
        cause: undefined,
        message: "3 of 5 conversations could not be written: unavailable 2, model 1",
        op: "flush",
        reason: "unavailable"
      })
    })
)

law(
  "building an outbox with invalid options fails, and the error lists every invalid option",
  (opened) =>
    Effect.gen(function*() {
      const { detail, reason } = yield* Effect.flip(opened(yield* theStore, model(), {
        trigger: ExtractionTrigger.interval(0),
        capacityPerTenant: 0,
        capacityPerConversation: 1.5,
        concurrency: 1,
        openConversations: NaN,
        timeSlice: 0,
        timeout: Infinity
      }))
      assert.strictEqual(reason, "invalid_draft")
      assert.deepStrictEqual(detail, {
        issues: [
          "interval: expected a whole number of turns, 1 or more",
          "capacityPerTenant: expected a whole number, 1 or more",
          "capacityPerConversation: expected a whole number, 1 or more",
          "concurrency: expected a whole number, 2 or more",
          "openConversations: expected a whole number, 1 or more",
          "timeSlice: expected a finite time, 1 ms or more, such as \"10 seconds\"",
          "timeout: expected a finite time, 1 ms or more, such as \"10 seconds\""
        ]
      })
    })
)

law(
  "an append beyond `capacityPerConversation` first extracts the waiting messages, even if the trigger never fires",
  (opened) =>
    Effect.gen(function*() {
      const store = yield* theStore
      const { calls, extract } = model()
      const outbox = yield* opened(store, { extract }, { trigger: never, capacityPerConversation: 2 })
      for (const [n, text] of ["a", "b", "c", "d", "e"].entries()) {
        assert.strictEqual(yield* outbox.append(ada, "s", users(text)), n)
      }
      yield* outbox.append(ada, "s", [new Message.Message({ role: "tool", content: "takes no room" })])
      yield* outbox.append(bob, "s", users("other"))
      assert.deepStrictEqual(calls.slice(0, 2), [["a", "b"], ["c", "d"]])
      assert.includeMembers(Array.from(yield* remembered(store)), ["a", "b", "c", "d"])
    })
)

law(
  "an append beyond `capacityPerConversation` fails if the waiting messages cannot be extracted",
  (opened) =>
    Effect.gen(function*() {
      const store = yield* theStore
      let isDown = true
      const { extract } = model(() => isDown ? mute : Effect.void)
      const outbox = yield* opened(store, { extract }, { trigger: never, capacityPerConversation: 1 })
      yield* outbox.append(ada, "s", users("a"))
      assert.strictEqual((yield* Effect.flip(outbox.append(ada, "s", users("refused")))).reason, "rate_limited")
      yield* outbox.append(ada, "t", users("another conversation has room"))
      isDown = false
      yield* outbox.flush
      yield* outbox.append(ada, "s", users("b"))
      yield* outbox.flush
      assert.deepStrictEqual(yield* remembered(store), ["a", "another conversation has room", "b"])
    })
)

law(
  "an append beyond `capacityPerTenant` first extracts a conversation of the same tenant",
  (opened) =>
    Effect.gen(function*() {
      const store = yield* theStore
      const { calls, extract } = model()
      const outbox = yield* opened(store, { extract }, { trigger: never, capacityPerTenant: 2 })
      yield* outbox.append(ada, "s", users("a"))
      yield* outbox.append(ada, "t", users("b"))
      yield* outbox.append(Viewer.make({ tenant: "other", userId: "ada" }), "s", users("elsewhere"))
      assert.lengthOf(calls, 0)
      yield* outbox.append(bob, "s", users("c"))
      assert.deepStrictEqual(calls, [["a"]])
      assert.deepStrictEqual(yield* remembered(store), ["a"])
    })
)

law(
  "a user whose failed messages fill the tenant's capacity is refused further appends; another user of the tenant is not",
  (opened) =>
    Effect.gen(function*() {
      const store = yield* theStore
      const { extract } = model((contents) => contents.includes("bad") ? mute : Effect.void)
      const outbox = yield* opened(store, { extract }, { trigger: never, capacityPerTenant: 4 })
      for (const session of ["a", "b", "c", "d"]) yield* outbox.append(ada, session, users("bad"))
      yield* Effect.flip(outbox.flush)
      assert.strictEqual((yield* Effect.flip(outbox.append(ada, "e", users("bad")))).reason, "rate_limited")
      yield* outbox.append(bob, "s", users("good"))
      yield* outbox.append(bob, "t", users("good too"))
      yield* Effect.flip(outbox.flush)
      yield* remembers(store, "good", "good too")
      assert.strictEqual((yield* outbox.status).waiting, 4)
    })
)

law(
  "a flush passes all waiting messages except tool messages to the store's `ingest`; the flush after a failed one passes all of them again",
  (opened) =>
    Effect.gen(function*() {
      const store = yield* theStore
      const given: Array<readonly [ReadonlyArray<string>, number]> = []
      const takesRaw: MemoryStore.Service = {
        ...store,
        capabilities: { ...store.capabilities, messages: true },
        ingest: Option.some((_, __, messages, sequence) =>
          Effect.suspend(() =>
            given.push([messages.map(({ content }) => content), sequence]) === 2 ? down : Effect.void
          )
        )
      }
      const { calls, extract } = model()
      const outbox = yield* opened(takesRaw, { extract }, { trigger: never })
      const tool = new Message.Message({ role: "tool", content: "42" })
      yield* outbox.append(ada, "s", [...users("a", "b"), tool, ...users("c")])
      yield* Effect.flip(outbox.flush)
      yield* outbox.flush
      yield* outbox.append(ada, "s", users("d"))
      yield* outbox.flush
      assert.deepStrictEqual(given, [[["a", "b"], 0], [["c"], 3], [["a", "b"], 0], [["c"], 3], [["d"], 4]])
      assert.lengthOf(calls, 0)
      assert.deepStrictEqual(yield* rows(store), [])
    })
)

law(
  "an outbox discards the model's answer if another outbox has already extracted the same messages",
  (opened) =>
    Effect.gen(function*() {
      const store = yield* theStore
      const answer = yield* Deferred.make<void>()
      const slowModel = model(() => Deferred.await(answer))
      const slow = yield* opened(store, slowModel, { trigger: never })
      yield* slow.append(ada, "s", users("a", "b"))
      const flushed = yield* Effect.fork(slow.flush)
      yield* until(Effect.sync(() => slowModel.calls.length === 1))
      const fast = yield* opened(store, model(), { trigger: never })
      yield* fast.flush
      assert.lengthOf(yield* remembered(store), 2)
      yield* fast.append(ada, "s", users("e"))
      yield* Deferred.succeed(answer, undefined)
      yield* Effect.zipRight(flushed.await, slow.flush)
      yield* fast.flush
      assert.deepStrictEqual(yield* remembered(store), ["a", "b", "e"])
      assert.deepStrictEqual(yield* rows(store), [])
      assert.deepInclude(yield* slow.status, { waiting: 0, failuresInARow: 0 })
    })
)

/** The laws, in order. */
export const outboxLaws: ReadonlyArray<Law> = laws
