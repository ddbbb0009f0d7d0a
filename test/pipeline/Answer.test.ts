import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as FastCheck from "effect/FastCheck"
import * as Layer from "effect/Layer"
import * as Random from "effect/Random"
import * as Stream from "effect/Stream"
import { MemoryError } from "../../src/domain/MemoryError.ts"
import type { MemoryRecord } from "../../src/domain/MemoryRecord.ts"
import * as Message from "../../src/domain/Message.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as Outbox from "../../src/harness/Outbox.ts"
import * as Completion from "../../src/host/Completion.ts"
import * as Embedder from "../../src/host/Embedder.ts"
import { parseFacts, readFacts } from "../../src/pipeline/Extraction.ts"
import * as MemoryPipeline from "../../src/pipeline/MemoryPipeline.ts"
import { parseDecision, readDecision } from "../../src/pipeline/Reconciliation.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import { never } from "../harness/Outboxes.ts"
import { stores } from "../stores.ts"
import { times } from "../vault/Program.ts"
import { answers } from "./answers.ts"

const ada = Viewer.make({ userId: "ada" })
const scope = { userId: "ada" }
const turns = [Message.user("I moved to Porto last month.")]

const facts = (...facts: ReadonlyArray<unknown>) => JSON.stringify({ facts })
const memory = (...memory: ReadonlyArray<unknown>) => JSON.stringify({ memory })

/** Answers of a model that answer neither the prompt for facts nor the prompt for decisions. */
const nonsense: ReadonlyArray<string> = [
  "",
  "  \n",
  "Sorry, I am overloaded",
  "Sorry [] I am overloaded",
  "I could not find any.",
  "null",
  "0",
  "\"a\"",
  "{}",
  "{\"error\": {\"message\": \"overloaded\"}}",
  "{\"facts\": null, \"memory\": null}",
  "{\"facts\": \"none\", \"memory\": \"none\"}",
  "{\"facts\": {}, \"memory\": {}}",
  "{\"facts\": [null, 1, true, {}, [], \" \", {\"text\": null}], \"memory\": [null, 1, \"ADD\", {\"event\": \"FORGET\"}]}",
  "[null, 1]",
  "[503]",
  "{\"facts\": [",
  "{\"memory\": [",
  "{\"facts\": [{\"te",
  "}{][",
  "{\"result\": {\"facts\": [], \"memory\": []}}",
  `[${"x".repeat(Completion.maxAnswerLength)}]`
]

const isFailure = (answer: string, read: Either.Either<unknown, MemoryError>) => {
  const error = Either.getOrThrow(Either.flip(read))
  assert.deepInclude({ ...error }, { reason: "model" })
  assert.isTrue(error.isRetryable)
  assert.include(error.message, `${answer.length} characters`)
}

describe("readFacts", () => {
  it.each(nonsense.map((answer) => [answer.slice(0, 60), answer]))(
    "the answer %j is a failure of the model",
    (_, answer) => isFailure(answer, readFacts(answer))
  )

  it.each([
    "{\"facts\": []}",
    "[]",
    "```json\n{\"facts\": []}\n```",
    "<think>Nothing lasting.</think>\nThere is nothing to keep: {\"facts\": []}",
    "{\"facts\": [], \"note\": \"cut he"
  ])(
    "the answer %j says that there are no facts",
    (answer) => assert.deepStrictEqual(readFacts(answer), Either.right([]))
  )

  it.each([
    ["{\"facts\": {\"text\": \"a\"}}", ["a"]],
    ["{\"facts\": [null, \"a\"]} and {\"facts\": []}", ["a"]],
    ["{\"facts\": []} and then {\"facts\": [\"b\"]}", ["b"]],
    ["{\"facts\": {}} [\"b\"]", ["b"]],
    ["{\"facts\": [\"a\", {\"text\": \"b\"}, {\"te", ["a", "b"]],
    [`{"facts": ["${"x".repeat(65_537)}", "y"]}`, ["y"]]
  ])(
    "the facts in %j are found",
    (answer, texts) =>
      assert.deepStrictEqual(Either.map(readFacts(answer), (all) => all.map(({ text }) => text)), Either.right(texts))
  )

  it("a lone JSON object without `facts` is a failure of the model, since it may be an error message", () =>
    isFailure("{\"text\": \"overloaded\"}", readFacts("{\"text\": \"overloaded\"}")))

  it("`readFacts` finds every fact that `parseFacts` finds", () => {
    FastCheck.assert(
      FastCheck.property(answers("facts"), (answer) => {
        const parsed = parseFacts(answer)
        const read = Either.getOrElse(readFacts(answer), () => [])
        if (parsed.length > 0) assert.deepStrictEqual(read, parsed)
      }),
      { numRuns: 10_000, seed: 5 }
    )
  })
})

describe("readDecision", () => {
  it.each(nonsense.map((answer) => [answer.slice(0, 60), answer]))(
    "the answer %j is a failure of the model",
    (_, answer) => isFailure(answer, readDecision(answer, 2))
  )
  it.each([
    memory({ event: "ADD" }),
    memory({ event: "ADD", text: " " }),
    memory({ event: "UPDATE", id: "0" }),
    memory({ event: "DELETE" }),
    memory({ text: "a" }),
    facts("a"),
    facts()
  ])(
    "the answer %j is a failure of the model, although it looks like a decision or like facts",
    (answer) => isFailure(answer, readDecision(answer, 2))
  )

  it.each([
    memory(),
    "[]",
    "```\n[]\n```",
    memory({ event: "DELETE", id: "2" }),
    memory(null, { event: "UPDATE", id: "f3", text: "a" }),
    "{\"event\": \"DELETE\", \"id\": 7}"
  ])(
    "the answer %j is a decision to do nothing",
    (answer) => assert.deepStrictEqual(readDecision(answer, 2), Either.right([]))
  )

  it.each([
    "{\"memory\": {\"event\": \"ADD\", \"text\": \"a\"}}",
    "{\"event\": \"ADD\", \"text\": \"a\"}",
    "{\"memory\": {\"event\": \"ADD\", \"text\": \"a\"}} [0]",
    "[null, {\"event\": \"ADD\", \"text\": \"a\"}, {\"eve"
  ])(
    "the decision in %j is found",
    (answer) => assert.deepStrictEqual(readDecision(answer, 2), Either.right([{ event: "ADD", text: "a" }]))
  )

  it("`readDecision` finds every decision that `parseDecision` finds", () => {
    FastCheck.assert(
      FastCheck.property(answers("memory"), (answer) => {
        const parsed = parseDecision(answer, 2)
        const read = Either.getOrElse(readDecision(answer, 2), () => [])
        if (parsed.length > 0) assert.deepStrictEqual(read, parsed)
      }),
      { numRuns: 10_000, seed: 6 }
    )
  })
})

type Script = Parameters<typeof Completion.layerScripted>[0]

/** Returns a function that provides a pipeline over a store, with seeded randomness, to an effect. */
const within = (script: Script, store: Layer.Layer<MemoryStore.MemoryStore, unknown> = MemoryStore.layerInMemory) => {
  const layer = MemoryPipeline.layer.pipe(
    Layer.provideMerge(Layer.mergeAll(Layer.orDie(store), Completion.layerScripted(script), Embedder.layerNone)),
    Layer.provideMerge(Layer.setRandom(Random.make("answers")))
  )
  return <A, E>(self: Effect.Effect<A, E, MemoryPipeline.MemoryPipeline | MemoryStore.MemoryStore>) =>
    Effect.provide(self, layer)
}

const all = Effect.flatMap(MemoryStore.MemoryStore, (store) =>
  Effect.map(
    Stream.runCollect(store.stream(Viewer.system(), {})),
    (records) => Array.from(records).sort((a, b) => (a.id < b.id ? -1 : 1))
  ))
const homes = ["Ada lives in Lisbon", "Ada drinks tea"]
const seeded = Effect.flatMap(
  MemoryStore.MemoryStore,
  (store) =>
    store.put(
      Viewer.system(),
      homes.map((body) => ({ scope, kind: "semantic", body }))
    )
)

describe("MemoryPipeline.remember with an unusable answer of the model", () => {
  it.effect.each<[string, ReadonlyArray<string>]>([
    ["the facts", [nonsense[2]!]],
    ["the decision", [facts("Ada moved to Porto"), nonsense[2]!]]
  ])(
    "the store is unchanged after an apology in place of %s, and a second call succeeds",
    ([, script]) =>
      Effect.gen(function*() {
        const pipeline = yield* MemoryPipeline.MemoryPipeline
        yield* seeded
        const before = yield* all
        const remember = pipeline.remember(ada, turns, { scope })
        const error = yield* Effect.flip(remember)
        assert.deepInclude({ ...error }, { reason: "model" })
        assert.isTrue(error.isRetryable)
        assert.deepStrictEqual(yield* all, before)
        yield* remember
        assert.include((yield* all).map(({ body }) => body), "Ada moved to Porto")
      }).pipe(within([...script, facts("Ada moved to Porto"), memory({ event: "ADD", text: "Ada moved to Porto" })]))
  )

  it.effect("the error of `remember` does not quote the model's answer, since the answer may quote the conversation", () =>
    Effect.gen(function*() {
      const pipeline = yield* MemoryPipeline.MemoryPipeline
      const failures = [
        yield* Effect.flip(pipeline.remember(ada, turns, { scope })),
        yield* Effect.flip(pipeline.remember(ada, turns, { scope }))
      ]
      for (const error of failures) assert.notInclude(JSON.stringify({ ...error, cause: error.cause }), "hunter2")
    }).pipe(within(["hunter2", JSON.stringify({ facts: [{ hunter2: "hunter2" }] })])))
})

describe("an Outbox with an unusable answer of the model", () => {
  it.effect("the next flush extracts the messages again after an unusable answer, and the fact is remembered once", () =>
    Effect.gen(function*() {
      const outbox = yield* Outbox.Outbox
      yield* outbox.append(ada, "s", turns)
      for (let i = 0; i < 2; i++) yield* Effect.flip(outbox.flush)
      yield* outbox.flush
      yield* outbox.flush
      assert.deepStrictEqual(
        (yield* all).flatMap(({ body, kind }) => kind === "semantic" ? [body] : []),
        ["Ada moved to Porto"]
      )
    }).pipe(
      Effect.provide(Outbox.layer({ trigger: never })),
      within([
        "Sorry, I am overloaded",
        facts("Ada moved to Porto"),
        "I would rather not.",
        facts("Ada moved to Porto"),
        memory({ event: "ADD", text: "Ada moved to Porto" })
      ])
    ))
})

describe("MemoryPipeline.remember with a mutated answer of the model", () => {
  const item = FastCheck.constantFrom<unknown>(
    "Ada moved to Porto",
    { text: "Ada drinks coffee", kind: "semantic", importance: "high" },
    { event: "ADD", text: "Ada moved to Porto" },
    { event: "UPDATE", id: "0", text: "Ada lives in Porto", old_memory: "Ada lives in Lisbon" },
    { event: "UPDATE", id: 1, text: "Ada drinks green tea" },
    { event: "DELETE", id: "0" },
    { event: "DELETE", id: "9" },
    { event: "NOOP", id: "1" }
  )
  type Change = (json: string) => string
  const at = FastCheck.double({ min: 0, max: 1, noNaN: true })
  const change: FastCheck.Arbitrary<Change> = FastCheck.oneof(
    at.map((share): Change => (json) => json.slice(0, Math.floor(json.length * share))),
    FastCheck.tuple(at, FastCheck.constantFrom(..."{}[]\",:\\ x", "null", "```")).map(
      ([share, piece]): Change => (json) => {
        const place = Math.floor(json.length * share)
        return json.slice(0, place) + piece + json.slice(place)
      }
    ),
    at.map((share): Change => (json) => {
      const place = Math.floor(json.length * share)
      return json.slice(0, place) + json.slice(place + 1)
    }),
    FastCheck.constantFrom<Change>(
      (json) => json,
      (json) => "```json\n" + json + "\n```",
      (json) => `<think>[0] {"facts": 1}</think>Sure! ${json} Anything else?`,
      (json) => `${json}\n${json}`,
      (json) => json.replace(/"(?:facts|memory)":/, "\"items\":"),
      (json) => json.replace(/^\{"\w+":|\}$/g, ""),
      (json) => json.replace("[", "[null,"),
      (json) => json.replaceAll("\"text\"", "\"Text\""),
      (json) => json.replaceAll("\"event\":\"ADD\"", "\"event\":null")
    )
  )
  const mutated = (name: string) =>
    FastCheck.tuple(FastCheck.array(item, { maxLength: 4 }), FastCheck.array(change, { minLength: 1, maxLength: 3 }))
      .map(
        ([items, changes]) => changes.reduce((json, change) => change(json), JSON.stringify({ [name]: items }))
      )
  const pairs = FastCheck.tuple(
    FastCheck.oneof({ weight: 1, arbitrary: mutated("facts") }, {
      weight: 2,
      arbitrary: FastCheck.constant(facts("Ada moved to Porto", "Ada drinks coffee"))
    }),
    mutated("memory")
  )

  /** Remembers a conversation of user `n` with a model that gives these two answers; checks that all or nothing was written. */
  const law = (n: number, extraction: string, decision: string) =>
    Effect.gen(function*() {
      const pipeline = yield* MemoryPipeline.MemoryPipeline
      const store = yield* MemoryStore.MemoryStore
      const scope = { userId: `user-${n}` }
      const viewer = Viewer.make(scope)
      const known = Effect.map(store.list(viewer, { closed: true, limit: 100 }), ({ items }) =>
        new Map<string, MemoryRecord>(items.map((record) => [record.id, record])))
      yield* store.put(viewer, homes.map((body) => ({ scope, kind: "semantic", body })))
      const before = yield* known
      const result = yield* Effect.either(pipeline.remember(viewer, turns, { scope }))
      const after = yield* known
      if (Either.isLeft(result)) {
        assert.instanceOf(result.left, MemoryError)
        assert.strictEqual(result.left.reason, "model", `${extraction} ${decision}`)
        assert.deepStrictEqual(after, before)
        return false
      }
      const { applied, mutations } = result.right
      assert.lengthOf(applied, mutations.length)
      for (const { id, record } of applied) {
        if (record) {
          before.set(id, record)
        } else before.delete(id)
      }
      assert.deepStrictEqual(new Set(after.values()), new Set(before.values()))
      return mutations.length > 0
    })
  const run = (seed: number, numRuns: number, store?: Layer.Layer<MemoryStore.MemoryStore, unknown>) => {
    let current: readonly [string, string] = ["", ""]
    return Effect.gen(function*() {
      let changed = 0
      for (const [n, pair] of FastCheck.sample(pairs, { seed, numRuns }).entries()) {
        current = pair
        if (yield* law(n, ...pair)) changed++
      }
      assert.isAbove(changed, numRuns / 8) // otherwise too few answers led to a change of the store
      assert.isBelow(changed, numRuns - numRuns / 8) // otherwise too few answers led to no change
    }).pipe(within(({ user }: Completion.Prompt) => user.startsWith("EXISTING:") ? current[1] : current[0], store))
  }

  it.effect("`remember` fails with the reason `model` and changes nothing, or makes exactly the changes in its receipt", () =>
    run(7, times(400, 1_600)))

  it.effect.each(Object.entries(stores))(
    "`remember` either fails with the reason `model` and changes nothing, or makes all changes that its receipt lists, on the store %s",
    ([, store]) => run(8, 24, store)
  )
})
