import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Random from "effect/Random"
import * as Schema from "effect/Schema"
import type { MemoryError } from "../../src/domain/MemoryError.ts"
import * as Message from "../../src/domain/Message.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as Completion from "../../src/host/Completion.ts"
import * as Embedder from "../../src/host/Embedder.ts"
import { fitConversation } from "../../src/pipeline/Extraction.ts"
import * as MemoryPipeline from "../../src/pipeline/MemoryPipeline.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import { stores } from "../stores.ts"

const ada = Viewer.make({ userId: "ada" })
const scope = { userId: "ada" }
const turns = [Message.user("I keep a long list.")]

const texts = (count: number, from = 0) => Array.from({ length: count }, (_, n) => `Ada owns book ${from + n}`)
const existingIn = (user: string): ReadonlyArray<{ readonly id: string; readonly text: string }> =>
  JSON.parse(user.split("\n")[1]!)
const factsIn = (user: string): ReadonlyArray<string> => JSON.parse(user.split("\n")[3]!)
const isDecision = ({ user }: Completion.Prompt) => user.startsWith("EXISTING:")

/** Makes a model that extracts these facts and answers with the decisions of `decide`; by default it adds each fact. */
const model = (
  facts: ReadonlyArray<unknown>,
  decide = ({ user }: Completion.Prompt): ReadonlyArray<unknown> =>
    factsIn(user).map((text) => ({ event: "ADD", text }))
) =>
(prompt: Completion.Prompt) => isDecision(prompt) ? { memory: decide(prompt) } : { facts }

const within = (
  script: Parameters<typeof Completion.layerScripted>[0],
  store: Layer.Layer<MemoryStore.MemoryStore, unknown> = MemoryStore.layerInMemory
) => {
  const layer = MemoryPipeline.layer.pipe(
    Layer.provideMerge(Layer.mergeAll(Layer.orDie(store), Completion.layerScripted(script), Embedder.layerNone)),
    Layer.provideMerge(Layer.setRandom(Random.make("limits")))
  )
  return <A, E>(self: Effect.Effect<A, E, MemoryPipeline.MemoryPipeline | MemoryStore.MemoryStore>) =>
    Effect.provide(self, layer)
}
const pipeline = MemoryPipeline.MemoryPipeline
const reason = <A, R>(self: Effect.Effect<A, MemoryError, R>) => Effect.map(Effect.flip(self), ({ reason }) => reason)
const bodies = ({ applied }: MemoryPipeline.Receipt) => applied.map(({ record }) => record?.body)

describe("maxFacts", () => {
  it.effect.each(Object.entries(stores))(
    "the first 64 facts are kept by default, and the receipt counts the others, on %s",
    ([, store]) =>
      Effect.gen(function*() {
        const { remember } = yield* pipeline
        const receipt = yield* remember(ada, turns, { scope })
        assert.deepStrictEqual(bodies(receipt), texts(64))
        assert.deepStrictEqual(receipt.leftOut, { facts: 36, decisions: 0, characters: 0 })
        const json = JSON.parse(JSON.stringify(yield* Schema.encode(MemoryPipeline.Receipt)(receipt)))
        assert.deepStrictEqual(
          (yield* Schema.decodeUnknown(MemoryPipeline.Receipt)(json)).leftOut,
          receipt.leftOut
        )
      }).pipe(within(model(texts(100)), store))
  )

  it.effect("`maxFacts` also limits the facts that `customExtract` returns", () =>
    Effect.gen(function*() {
      const { remember } = yield* pipeline
      const receipt = yield* remember(ada, turns, {
        scope,
        maxFacts: 3,
        customExtract: () => Effect.succeed(texts(5).map((text) => ({ text })))
      })
      assert.deepStrictEqual(bodies(receipt), texts(3))
      assert.deepStrictEqual(receipt.leftOut, { facts: 2, decisions: 0, characters: 0 })
    }).pipe(within(model([]))))

  it.effect("`remember` refuses a `maxFacts` that is not an integer from 1 to 256 before it asks the model", () => {
    const answer = model(texts(100))
    let calls = 0
    return Effect.gen(function*() {
      const { plan, remember } = yield* pipeline
      for (const maxFacts of [0, -1, 1.5, 257, Number.NaN]) {
        assert.strictEqual(yield* reason(remember(ada, turns, { scope, maxFacts })), "invalid_draft")
      }
      assert.strictEqual(calls, 0)
      const receipt = yield* plan(ada, turns, { scope, maxFacts: 256 })
      assert.lengthOf(receipt.mutations, 100)
      assert.isUndefined(receipt.leftOut)
    }).pipe(within((prompt) => {
      calls++
      return answer(prompt)
    }))
  })

  it.effect("`maxFacts` also limits how many records the model's decisions add, even if there is only one fact", () =>
    Effect.gen(function*() {
      const { remember } = yield* pipeline
      const receipt = yield* remember(ada, turns, { scope, maxFacts: 4 })
      assert.deepStrictEqual(bodies(receipt), texts(4))
      assert.deepStrictEqual(receipt.leftOut, { facts: 0, decisions: 996, characters: 0 })
    }).pipe(within(model(["one fact"], () => texts(1_000).map((text) => ({ event: "ADD", text }))))))

  const added = ({ mutations }: MemoryPipeline.Receipt) =>
    mutations.flatMap((mutation) => mutation._tag === "Put" ? mutation.draft.body : [])
  const updated = ({ mutations }: MemoryPipeline.Receipt) => mutations.filter(({ _tag }) => _tag === "Update")

  it.effect("an UPDATE decision about a memory that has `data` adds a record, and this record counts towards `maxFacts`", () =>
    Effect.gen(function*() {
      const { plan } = yield* pipeline
      const store = yield* MemoryStore.MemoryStore
      const data = { subject: "Ada", predicate: "owns" }
      const old = texts(10, 20).map((body, n) => ({ scope, kind: "semantic", body, data: { ...data, object: `${n}` } }))
      yield* store.put(Viewer.system(), old)
      const receipt = yield* plan(ada, turns, { scope, topK: 1_000, maxFacts: 4 })
      assert.deepStrictEqual(added(receipt), [
        "Ada sold book 1",
        "Ada sold book 2",
        "Ada sold book 3",
        "Ada sold book 4"
      ])
      assert.lengthOf(updated(receipt), 3)
      assert.strictEqual(receipt.leftOut?.decisions, 8)
    }).pipe(within(model(["Ada owns many books"], ({ user }) => [
      { event: "ADD", text: "Ada sold book 1" },
      ...existingIn(user).map(({ id }, n) => ({ event: "UPDATE", id, text: `Ada sold book ${n + 2}` })),
      { event: "ADD", text: "Ada sold book 99" }
    ]))))

  it.effect("the model's ADD decisions are left out if the facts that replace deleted memories use up `maxFacts`", () =>
    Effect.gen(function*() {
      const { plan } = yield* pipeline
      const store = yield* MemoryStore.MemoryStore
      yield* store.put(Viewer.system(), texts(4, 20).map((body) => ({ scope, kind: "semantic", body })))
      const receipt = yield* plan(ada, turns, { scope, topK: 1_000, maxFacts: 4 })
      assert.deepStrictEqual(added(receipt), texts(4))
      assert.lengthOf(updated(receipt), 4)
      assert.strictEqual(receipt.leftOut?.decisions, 3)
    }).pipe(within(model(texts(4), ({ user }) => [
      ...["alpha", "beta", "gamma"].map((text) => ({ event: "ADD", text })),
      ...existingIn(user).map(({ id }) => ({ event: "DELETE", id }))
    ]))))
})

describe("the facts of one extraction", () => {
  it.effect("facts beyond 262,144 characters in total are left out, and the receipt counts the facts left out", () =>
    Effect.gen(function*() {
      const { plan } = yield* pipeline
      const receipt = yield* plan(ada, turns, {
        scope,
        customExtract: () => Effect.succeed(texts(6).map((text) => ({ text: `${text} `.padEnd(60_000, "x") })))
      })
      assert.lengthOf(receipt.mutations, 4)
      assert.deepStrictEqual(receipt.leftOut, { facts: 2, decisions: 0, characters: 0 })
    }).pipe(within(model([]))))
})

describe("the related memories shown to the model in one extraction", () => {
  const fill = (count: number, length = 0) =>
    Effect.flatMap(MemoryStore.MemoryStore, (store) =>
      store.put(
        Viewer.system(),
        texts(count, 20).map((body) => ({ scope, kind: "semantic", body: `${body} `.padEnd(length, "x") }))
      ))

  it.effect("the model sees at most 1,000 memories, and can change at most 128 of these memories", () => {
    let shown = 0
    return Effect.gen(function*() {
      const { plan } = yield* pipeline
      yield* fill(1_200)
      const receipt = yield* plan(ada, turns, { scope, topK: 1_000 })
      assert.strictEqual(shown, 1_000)
      assert.lengthOf(receipt.mutations.filter(({ _tag }) => _tag === "Update"), 128)
      assert.strictEqual(receipt.leftOut?.decisions, 872)
    }).pipe(within(model(["Ada owns a book", "Ada owns many"], ({ user }) => {
      const existing = existingIn(user)
      shown = existing.length
      return existing.map(({ id }) => ({ event: "DELETE", id }))
    })))
  })

  it.effect("the model sees at most 262,144 characters of memories, starting with the best match of each fact", () => {
    const shown: Array<string> = []
    return Effect.gen(function*() {
      const { plan } = yield* pipeline
      yield* fill(12, 60_000)
      yield* plan(ada, turns, { scope, topK: 3 })
      assert.deepStrictEqual(shown.map((text) => text.slice(0, 16)).slice(0, 4).sort(), [
        "Ada owns book 21",
        "Ada owns book 22",
        "Ada owns book 23",
        "Ada owns book 24"
      ])
      assert.isAtMost(shown.join("").length, 262_144)
    }).pipe(within(model(["book 21", "book 22", "book 23", "book 24"], ({ user }) => {
      shown.push(...existingIn(user).map(({ text }) => text))
      return []
    })))
  })
})

describe("the conversation shown to the model in one extraction", () => {
  const read = (messages: ReadonlyArray<Message.Message>) => {
    const { leftOut, turns } = fitConversation(messages)
    return { leftOut, lengths: turns.map(({ content }) => content.length) }
  }

  it("a conversation of at most 262,144 characters is shown to the model unchanged", () => {
    const messages = [Message.user("a".repeat(262_143)), Message.user("b")]
    assert.deepStrictEqual(fitConversation(messages), { turns: messages, leftOut: 0 })
  })

  it("a conversation of over 262,144 characters is shortened: its longest messages are cut to one length", () => {
    const messages = [300_000, 10, 200_000, 40_000].map((length) => Message.user("x".repeat(length)))
    const room = (262_144 - 10 - 40_000) / 2
    assert.deepStrictEqual(read(messages), {
      lengths: [room, 10, room, 40_000],
      leftOut: 500_000 - 2 * room
    })
  })

  it("the model is shown only the last 4,096 messages of a longer conversation", () => {
    const messages = Array.from({ length: 5_000 }, (_, n) => Message.user(`${n}`))
    const { leftOut, turns } = fitConversation(messages)
    assert.strictEqual(turns[0]?.content, "904")
    assert.strictEqual(leftOut, 10 + 90 * 2 + 804 * 3)
  })

  it("a message that is cut inside a surrogate pair is still well-formed", () => {
    const [turn] = fitConversation([Message.user(`x${"\u{1f375}".repeat(200_000)}`)]).turns
    assert.isTrue(turn?.content.isWellFormed())
  })

  it.effect("a conversation that is too long is shortened in the prompt, and the receipt counts the characters left out", () => {
    const lengths: Array<number> = []
    return Effect.gen(function*() {
      const { remember } = yield* pipeline
      const receipt = yield* remember(ada, [Message.user("x".repeat(1_000_000)), Message.user("hi")], { scope })
      assert.deepStrictEqual(receipt.leftOut, { facts: 0, decisions: 0, characters: 1_000_002 - 262_144 })
      assert.isBelow(lengths[0]!, 262_300)
    }).pipe(within(({ user }: Completion.Prompt) => {
      lengths.push(user.length)
      return { facts: [] }
    }))
  })
})
