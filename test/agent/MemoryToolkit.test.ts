import * as AiError from "@effect/ai/AiError"
import * as EmbeddingModel from "@effect/ai/EmbeddingModel"
import * as LanguageModel from "@effect/ai/LanguageModel"
import * as Model from "@effect/ai/Model"
import * as Prompt from "@effect/ai/Prompt"
import type * as Response from "@effect/ai/Response"
import * as Tool from "@effect/ai/Tool"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as MemoryToolkit from "../../src/agent/MemoryToolkit.ts"
import * as MemoryTools from "../../src/agent/MemoryTools.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as MemoryService from "../../src/harness/MemoryService.ts"
import * as Completion from "../../src/host/Completion.ts"
import * as Embedder from "../../src/host/Embedder.ts"

const pilot = Viewer.make({ agentId: "pilot", runId: "run-7" })
const down = new AiError.UnknownError({ module: "Test", method: "ask", description: "key sk-123 refused" })

const text = (text: string): Response.PartEncoded => ({ type: "text", text })
const call = (name: string, params: unknown): Response.PartEncoded => ({ type: "tool-call", id: "call", name, params })

/** A model of @effect/ai that says what it is told to, in turn, and writes down what it was asked. */
const scripted = (...script: Array<ReadonlyArray<Response.PartEncoded>>) => {
  const asked: Array<LanguageModel.ProviderOptions> = []
  const next = (options: LanguageModel.ProviderOptions) =>
    Effect.suspend(() => {
      asked.push(options)
      const parts = script.shift()
      return parts ? Effect.succeed([...parts]) : Effect.fail(down)
    })
  const model = Layer.effect(
    LanguageModel.LanguageModel,
    LanguageModel.make({ generateText: next, streamText: () => Stream.fail(down) })
  )
  return { asked, model }
}

describe("MemoryToolkit.make", () => {
  const toolkit = Effect.flatMap(MemoryTools.make(pilot), MemoryToolkit.make)
  const say = Effect.fn(function*(prompt: string) {
    const { toolResults } = yield* LanguageModel.generateText({ prompt, toolkit: yield* toolkit })
    return toolResults.map(({ isFailure, name, result }) => ({ name, isFailure, result }))
  })
  const memory = MemoryService.layerTest({ spec: { allowForget: true, writesPerTurn: 2 } })
  const tea = { scope: "agent", kind: "user", summary: "Likes tea", body: "Green." }

  it.effect("a model remembers and recalls, and reads what the tool tells", () => {
    const { model } = scripted([call("remember", tea)], [call("recall", { query: "tea" })])
    return Effect.gen(function*() {
      const [written] = yield* say("I like tea")
      assert.isFalse(written!.isFailure)
      const [recalled] = yield* say("what do I like?")
      assert.include(`${recalled!.result}`, "Likes tea")
      assert.include(`${recalled!.result}`, "Green.")
    }).pipe(Effect.provide([model, memory]))
  })

  it.effect("failures are results: the turn goes on", () => {
    const { model } = scripted([
      call("remember", { ...tea, summary: 7, trust: 0 }),
      call("remember", "tea"),
      call("forget", { id: "01ARZ3NDEKTSV4RRFFQ69G5FAV" }),
      call("remember", { ...tea, id: "nonsense" }),
      call("remember", tea),
      call("remember", tea),
      call("remember", tea)
    ])
    return Effect.gen(function*() {
      const results = yield* say("remember")
      const told = results.map(({ isFailure, result }) =>
        isFailure && typeof result === "object" ? result.reason : "told"
      )
      assert.deepStrictEqual(told.slice(0, 2), ["invalid_draft", "invalid_draft"])
      assert.strictEqual(told[3], "invalid_id")
      assert.strictEqual(told.at(-1), "rate_limited")
    }).pipe(Effect.provide([model, memory]))
  })

  it.effect("the model is shown each tool as the tool describes itself", () => {
    const { asked, model } = scripted([text("hello")])
    return Effect.gen(function*() {
      yield* say("hello")
      const tools = yield* MemoryTools.make(pilot)
      const shown = asked[0]!.tools.map((tool) => ({
        name: tool.name,
        description: tool.description,
        jsonSchema: Tool.getJsonSchemaFromSchemaAst(tool.parametersSchema.ast)
      }))
      const told = tools.map(({ description, jsonSchema, name }) => ({ name, description, jsonSchema }))
      assert.deepStrictEqual(JSON.parse(JSON.stringify(shown)), JSON.parse(JSON.stringify(told)))
    }).pipe(Effect.provide([model, memory]))
  })
})

describe("MemoryToolkit.layerCompletion", () => {
  const ask = Effect.flatMap(Completion.Completion, (_) => _.complete({ system: "Be terse.", user: "Tea?" }))

  it.effect("asks the model with a system and a user message, and answers with its text", () => {
    const { asked, model } = scripted([text("Yes"), text(", please.")])
    return Effect.gen(function*() {
      assert.strictEqual(yield* ask, "Yes, please.")
      assert.deepStrictEqual(
        asked[0]!.prompt,
        Prompt.make([{ role: "system", content: "Be terse." }, { role: "user", content: "Tea?" }])
      )
    }).pipe(Effect.provide(Layer.provide(MemoryToolkit.layerCompletion, model)))
  })

  it.effect("without a system text there is no system message", () => {
    const { asked, model } = scripted([text("Yes")])
    return Effect.gen(function*() {
      const { complete } = yield* Completion.Completion
      yield* complete({ system: "", user: "Tea?" })
      assert.deepStrictEqual(asked[0]!.prompt, Prompt.make([{ role: "user", content: "Tea?" }]))
    }).pipe(Effect.provide(Layer.provide(MemoryToolkit.layerCompletion, model)))
  })

  it.effect("objects are found in what it says", () => {
    const { model } = scripted([text("Sure: {\"facts\":[\"tea\"]}")])
    const Facts = Schema.Struct({ facts: Schema.Array(Schema.String) })
    return Effect.gen(function*() {
      const { object } = yield* Completion.Completion
      assert.deepStrictEqual(yield* object(Facts, { system: "", user: "?" }), { facts: ["tea"] })
    }).pipe(Effect.provide(Layer.provide(MemoryToolkit.layerCompletion, model)))
  })

  it.effect("its failure is ours, and tells nothing that is not for everybody", () =>
    Effect.gen(function*() {
      const error = yield* Effect.flip(ask)
      assert.deepStrictEqual([error.reason, error.message], ["model", "the language model failed (UnknownError)"])
      assert.instanceOf(error.cause, AiError.UnknownError)
    }).pipe(Effect.provide(Layer.provide(MemoryToolkit.layerCompletion, scripted().model))))

  it.effect("it is named after its provider, where there is one", () =>
    Effect.gen(function*() {
      const named = Layer.provide(MemoryToolkit.layerCompletion, Model.make("acme", scripted().model))
      assert.strictEqual((yield* Effect.provide(Completion.Completion, named)).model, "acme")
      const unnamed = Layer.provide(MemoryToolkit.layerCompletion, scripted().model)
      assert.strictEqual((yield* Effect.provide(Completion.Completion, unnamed)).model, "language-model")
    }))
})

describe("MemoryToolkit.layerEmbedder", () => {
  const provided = (embedMany: Parameters<typeof EmbeddingModel.make>[0]["embedMany"]) =>
    MemoryToolkit.layerEmbedder({ model: "length", dimensions: 2 }).pipe(
      Layer.provide(Layer.effect(EmbeddingModel.EmbeddingModel, EmbeddingModel.make({ embedMany })))
    )
  const embed = (texts: ReadonlyArray<string>) => Effect.flatMap(Embedder.Embedder, (_) => _.embed(texts, "add"))

  it.effect("vectors come in order, in batches, and are kept", () => {
    const calls: Array<number> = []
    return Effect.gen(function*() {
      const texts = Array.from({ length: 40 }, (_, n) => "x".repeat(n))
      const vectors = yield* embed(texts)
      assert.deepStrictEqual(vectors, texts.map(({ length }) => Float32Array.of(length, 1)))
      yield* embed(texts)
      assert.deepStrictEqual(calls.toSorted(), [32, 8])
      const { dimensions, model } = yield* Embedder.Embedder
      assert.deepStrictEqual([model, dimensions], ["length", 2])
    }).pipe(Effect.provide(provided((texts) =>
      Effect.sync(() => {
        calls.push(texts.length)
        return texts.map(({ length }, index) => ({ index, embeddings: [length, 1] })).reverse()
      })
    )))
  })

  it.effect("a failure, or vectors of other dimensions, is the model's", () =>
    Effect.gen(function*() {
      const failing = provided(() => Effect.fail(down))
      assert.include(yield* Effect.flip(Effect.provide(embed(["a"]), failing)), { reason: "model" })
      const wrong = provided(() => Effect.succeed([{ index: 0, embeddings: [1, 2, 3] }]))
      const error = yield* Effect.flip(Effect.provide(embed(["a"]), wrong))
      assert.include(error.message, "3 dimensions, not 2")
    }))
})
