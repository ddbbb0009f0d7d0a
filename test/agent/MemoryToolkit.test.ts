import * as AiError from "@effect/ai/AiError"
import * as Chat from "@effect/ai/Chat"
import * as EmbeddingModel from "@effect/ai/EmbeddingModel"
import * as LanguageModel from "@effect/ai/LanguageModel"
import * as Model from "@effect/ai/Model"
import * as Prompt from "@effect/ai/Prompt"
import * as Tool from "@effect/ai/Tool"
import * as Toolkit from "@effect/ai/Toolkit"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Ref from "effect/Ref"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as MemoryToolkit from "../../src/agent/MemoryToolkit.ts"
import * as MemoryTools from "../../src/agent/MemoryTools.ts"
import * as Message from "../../src/domain/Message.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as MemoryService from "../../src/harness/MemoryService.ts"
import * as Completion from "../../src/host/Completion.ts"
import * as Embedder from "../../src/host/Embedder.ts"
import type * as MemoryStore from "../../src/storage/MemoryStore.ts"
import { ada, down as storeDown, draft, heard, over } from "../harness/Service.ts"
import { call, down, scripted, text } from "./ScriptedModel.ts"

const pilot = Viewer.make({ agentId: "pilot", runId: "run-7" })

describe("MemoryToolkit.make", () => {
  const toolkit = Effect.flatMap(MemoryTools.make(pilot), MemoryToolkit.make)
  const say = Effect.fn(function*(prompt: string) {
    const { toolResults } = yield* LanguageModel.generateText({ prompt, toolkit: yield* toolkit })
    return toolResults.map(({ isFailure, name, result }) => ({ name, isFailure, result }))
  })
  const memory = MemoryService.layerTest({ spec: { allowForget: true, writesPerTurn: 2 } })
  const tea = { scope: "agent", kind: "user", summary: "Likes tea", body: "Green." }

  it.effect("a model can call the tools `remember` and `recall`; the result of `recall` has the summary and the body of the record", () => {
    const { model } = scripted([call("remember", tea)], [call("recall", { query: "tea" })])
    return Effect.gen(function*() {
      const [written] = yield* say("I like tea")
      assert.isFalse(written!.isFailure)
      const [recalled] = yield* say("what do I like?")
      assert.include(`${recalled!.result}`, "Likes tea")
      assert.include(`${recalled!.result}`, "Green.")
    }).pipe(Effect.provide([model, memory]))
  })

  it.effect("a tool's failure is returned to the model as a result, and the model's call does not fail", () => {
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

  it.effect("the model gets the name, the description and the schema of each tool", () => {
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

  it.effect("the Completion sends a system and a user message to the model, and returns the model's text", () => {
    const { asked, model } = scripted([text("Yes"), text(", please.")])
    return Effect.gen(function*() {
      assert.strictEqual(yield* ask, "Yes, please.")
      assert.deepStrictEqual(
        asked[0]!.prompt,
        Prompt.make([{ role: "system", content: "Be terse." }, { role: "user", content: "Tea?" }])
      )
    }).pipe(Effect.provide(Layer.provide(MemoryToolkit.layerCompletion, model)))
  })

  it.effect("the Completion sends no system message if the system text is empty", () => {
    const { asked, model } = scripted([text("Yes")])
    return Effect.gen(function*() {
      const { complete } = yield* Completion.Completion
      yield* complete({ system: "", user: "Tea?" })
      assert.deepStrictEqual(asked[0]!.prompt, Prompt.make([{ role: "user", content: "Tea?" }]))
    }).pipe(Effect.provide(Layer.provide(MemoryToolkit.layerCompletion, model)))
  })

  it.effect("the method `object` of the Completion finds a JSON object in the model's text", () => {
    const { model } = scripted([text("Sure: {\"facts\":[\"tea\"]}")])
    const Facts = Schema.Struct({ facts: Schema.Array(Schema.String) })
    return Effect.gen(function*() {
      const { object } = yield* Completion.Completion
      assert.deepStrictEqual(yield* object(Facts, { system: "", user: "?" }), { facts: ["tea"] })
    }).pipe(Effect.provide(Layer.provide(MemoryToolkit.layerCompletion, model)))
  })

  it.effect("the Completion fails with the reason `model` if the provider fails; the message contains none of the provider's details", () =>
    Effect.gen(function*() {
      const error = yield* Effect.flip(ask)
      assert.deepStrictEqual([error.reason, error.message], ["model", "the language model failed (UnknownError)"])
      assert.instanceOf(error.cause, AiError.UnknownError)
    }).pipe(Effect.provide(Layer.provide(MemoryToolkit.layerCompletion, scripted().model))))

  it.effect("`model` of the Completion is the provider's name, or `language-model` if the provider has no name", () =>
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

  it.effect("the Embedder requests vectors in batches, caches them, and returns them in the order of the texts", () => {
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

  it.effect("the Embedder fails with the reason `model` if the provider fails, and also fails for a vector of the wrong length", () =>
    Effect.gen(function*() {
      const failing = provided(() => Effect.fail(down))
      assert.include(yield* Effect.flip(Effect.provide(embed(["a"]), failing)), { reason: "model" })
      const wrong = provided(() => Effect.succeed([{ index: 0, embeddings: [1, 2, 3] }]))
      const error = yield* Effect.flip(Effect.provide(embed(["a"]), wrong))
      assert.include(error.message, "3 dimensions, not 2")
    }))
})

describe("MemoryToolkit.layerInjected", () => {
  const bob = Viewer.make({ userId: "bob" })
  const block = (prompt: Prompt.Prompt) => blocks(prompt).join()
  const blocks = (prompt: Prompt.Prompt) => JSON.stringify(prompt).match(/<memory>.*?<\/memory>/g) ?? []
  /** Returns the part of a prompt before the memory block, as JSON. */
  const prefix = (prompt: Prompt.Prompt) => JSON.stringify(prompt.content).split(/,\{[^{}]*\\n\\n<memory>/)[0]!
  const generate = (prompt: Prompt.RawInput) => LanguageModel.generateText({ prompt })

  /**
   * Makes a function that runs an effect with injected memory. It first stores that Ada likes green tea, and Bob black tea. Default viewer:
   * Ada.
   */
  const injected = (
    { asked, model }: ReturnType<typeof scripted>,
    memory: Layer.Layer<MemoryService.MemoryService, never, never> = MemoryService.layerTest(),
    layer = MemoryToolkit.layerInjectedFor(ada)
  ) => {
    const built = layer.pipe(
      Layer.provide(model),
      Layer.provideMerge(memory)
    )
    return <A, E>(
      body: (asked: ReadonlyArray<LanguageModel.ProviderOptions>) => Effect.Effect<
        A,
        E,
        LanguageModel.LanguageModel | MemoryService.MemoryService
      >
    ) =>
      Effect.gen(function*() {
        const { put } = yield* MemoryService.MemoryService
        yield* put(draft("Likes green tea")).pipe(MemoryService.as(ada))
        yield* put(draft("Likes black tea", { scope: { userId: "bob" } })).pipe(MemoryService.as(bob))
        return yield* body(asked)
      }).pipe(Effect.provide(built))
  }

  it.effect("`generateText`, `generateObject` and `streamText` append the memory block to the last user message", () =>
    injected(scripted([text("a")], [text("{\"tea\":1}")], [text("c")]))((asked) =>
      Effect.gen(function*() {
        assert.strictEqual((yield* generate("Which tea?")).text, "a")
        const schema = Schema.Struct({ tea: Schema.Number })
        const { value } = yield* LanguageModel.generateObject({ prompt: "Which tea?", schema })
        assert.deepStrictEqual(value, { tea: 1 })
        const parts = yield* Stream.runCollect(LanguageModel.streamText({ prompt: "Which tea?" }))
        assert.include(Array.from(parts, (part) => part.type === "text-delta" ? part.delta : ""), "c")
        assert.lengthOf(asked, 3)
        for (const { prompt } of asked) {
          const [message, ...rest] = prompt.content
          assert.deepStrictEqual(rest, [])
          if (message?.role !== "user") return assert.fail("not the user's")
          const [said, block, ...others] = message.content
          assert.deepStrictEqual(others, [])
          assert.deepInclude(said, { type: "text", text: "Which tea?" })
          if (block?.type !== "text") return assert.fail("not a text")
          assert.match(block.text, /^\n\n<memory>\n[^]*Likes green tea\n<\/entry>\n<\/memory>$/)
        }
      })
    ))

  it.effect("a memory block is part of one prompt only, and never of the chat's history", () =>
    injected(scripted([text("Green.")], [text("Hot.")], [text("Yes.")]))((asked) =>
      Effect.gen(function*() {
        const chat = yield* Chat.fromPrompt([{ role: "system", content: "Be terse." }])
        for (const prompt of ["Which tea do I like?", "How do I like my tea?", "Green tea, is it?"]) {
          yield* chat.generateText({ prompt })
        }
        const history = yield* Ref.get(chat.history)
        assert.lengthOf(history.content, 7)
        assert.notInclude(JSON.stringify(history), "memory")
        assert.notInclude(yield* chat.exportJson, "memory")
        assert.deepStrictEqual(asked.map(({ prompt }) => blocks(prompt).length), [1, 1, 1])
        const prefixes = [...asked.map(({ prompt }) => prefix(prompt)), JSON.stringify(history.content)]
        for (let n = 1; n < prefixes.length; n++) {
          assert.isTrue(prefixes[n]!.startsWith(prefixes[n - 1]!), `${prefixes[n - 1]} / ${prefixes[n]}`)
          assert.isAbove(prefixes[n]!.length, prefixes[n - 1]!.length)
        }
      })
    ))

  it.effect("the history of a chat whose answers are streamed contains no memory block", () =>
    injected(scripted([text("Green.")], [text("Hot.")]))((asked) =>
      Effect.gen(function*() {
        const chat = yield* Chat.empty
        for (const prompt of ["Which tea?", "Green tea?"]) yield* Stream.runDrain(chat.streamText({ prompt }))
        const history = yield* Ref.get(chat.history)
        assert.lengthOf(history.content, 4)
        assert.notInclude(JSON.stringify(history), "memory")
        assert.deepStrictEqual(asked.map(({ prompt }) => blocks(prompt).length), [1, 1])
      })
    ))

  it.effect("the caller's prompt is not changed, and may be an iterable that can be iterated only once", () =>
    injected(scripted([text("a")], [text("b")]))((asked) =>
      Effect.gen(function*() {
        const prompt = Prompt.make("Which tea?")
        const before = JSON.stringify(prompt)
        yield* generate(prompt)
        assert.strictEqual(JSON.stringify(prompt), before)
        function* once(): Generator<Prompt.MessageEncoded> {
          yield { role: "user", content: "Which tea?" }
        }
        yield* generate(once())
        assert.deepStrictEqual(asked[1]!.prompt, asked[0]!.prompt)
      })
    ))

  it.effect("the model receives a prompt unchanged if no memory matches; by default also if the prompt does not end with a user message", () =>
    injected(scripted([text("a")], [text("b")], [text("c")], [text("d")]))((asked) =>
      Effect.gen(function*() {
        const prompts = [
          Prompt.make("Which coffee?"),
          Prompt.make([{ role: "system", content: "tea" }]),
          Prompt.make([{ role: "user", content: "tea" }, { role: "assistant", content: "Green." }]),
          Prompt.empty
        ]
        for (const prompt of prompts) yield* generate(prompt)
        assert.deepStrictEqual(asked.map(({ prompt }) => prompt), prompts)
      })
    ))

  it.effect("nothing is injected by default into a prompt that ends with a tool's result", () => {
    const fetch = Tool.make("fetch", { success: Schema.String })
    const toolkit = Toolkit.make(fetch)
    return injected(scripted([call("fetch", {})], [text("Here you are.")]))((asked) =>
      Effect.gen(function*() {
        const chat = yield* Chat.empty
        yield* chat.generateText({ prompt: "Fetch me tea", toolkit })
        yield* chat.generateText({ prompt: [], toolkit })
        assert.deepStrictEqual(asked.map(({ prompt }) => prompt.content.map(({ role }) => role)), [
          ["user"],
          ["user", "assistant", "tool"]
        ])
        assert.deepStrictEqual(asked.map(({ prompt }) => blocks(prompt).length), [1, 0])
      }).pipe(Effect.provide(toolkit.toLayer({ fetch: () => Effect.succeed("tea") })))
    )
  })

  it.effect("all parts and provider options of the user message are kept", () =>
    injected(scripted([text("a")]))((asked) =>
      Effect.gen(function*() {
        const file = Prompt.makePart("file", { mediaType: "image/png", data: new Uint8Array([1, 2]) })
        const content = [
          Prompt.makePart("text", { text: "Is this tea" }),
          file,
          Prompt.makePart("text", { text: "green?" })
        ]
        const options = { acme: { cache: true } }
        yield* generate(Prompt.fromMessages([Prompt.makeMessage("user", { content, options })]))
        const [message] = asked[0]!.prompt.content
        assert.deepStrictEqual(message!.options, options)
        assert.deepStrictEqual(message!.content.slice(0, 3), content)
        assert.lengthOf(message!.content, 4)
        assert.include(block(asked[0]!.prompt), "Likes green tea")
      })
    ))

  const shared = MemoryToolkit.layerInjected

  it.effect("twenty concurrent calls of two users can share one layer, and each call gets the memory of its own viewer", () =>
    injected(scripted(...Array.from({ length: 20 }, () => [text("a")])), undefined, shared)((asked) =>
      Effect.gen(function*() {
        const users = Array.from({ length: 20 }, (_, n) => n % 2 === 0 ? ada : bob)
        yield* Effect.forEach(
          users,
          (viewer, n) => Effect.zipRight(Effect.yieldNow(), generate(`Which tea? ${n}`)).pipe(MemoryService.as(viewer)),
          { concurrency: "unbounded" }
        )
        for (const { prompt } of asked) {
          const even = /Which tea\? \d*[02468]"/.test(JSON.stringify(prompt))
          assert.include(block(prompt), even ? "green" : "black")
          assert.notInclude(block(prompt), even ? "black" : "green")
        }
        assert.lengthOf(asked, 20)
      })
    ))

  it.effect("nothing is injected into a call without a viewer, and an event is published", () =>
    injected(scripted([text("a")], [text("{\"tea\":1}")], [text("c")]), undefined, shared)((asked) =>
      Effect.gen(function*() {
        const schema = Schema.Struct({ tea: Schema.Number })
        const { events } = yield* heard(Effect.all([
          generate("Which tea?"),
          LanguageModel.generateObject({ prompt: "Which tea?", schema }),
          Stream.runDrain(LanguageModel.streamText({ prompt: "Which tea?" }))
        ]))
        assert.deepStrictEqual(
          events,
          Array.from(
            { length: 3 },
            () => ({ _tag: "memory_viewer_missing", viewer: null, at: 0, part: "injection" }) as const
          )
        )
        assert.deepStrictEqual(
          asked.map(({ prompt }) => prompt),
          Array.from({ length: 3 }, () => Prompt.make("Which tea?"))
        )
      })
    ))

  it.effect("the viewer of a stream is the current viewer when the stream runs, not when the stream is made", () =>
    injected(
      scripted([text("a")], [text("b")], [text("c")]),
      undefined,
      shared.pipe(Layer.provide(Layer.succeed(MemoryService.CurrentViewer, ada)))
    )((asked) =>
      Effect.gen(function*() {
        const made = Effect.succeed(LanguageModel.streamText({ prompt: "Which tea?" }))
        const { tags } = yield* heard(Effect.flatMap(MemoryService.as(ada)(made), Stream.runDrain))
        assert.deepStrictEqual(tags, ["memory_viewer_missing"])
        const model = yield* LanguageModel.LanguageModel
        const ofModel = Effect.sync(() => model.streamText({ prompt: "Which tea?" })).pipe(MemoryService.as(ada))
        yield* Effect.flatMap(ofModel, Stream.runDrain)
        assert.deepStrictEqual(asked.map(({ prompt }) => block(prompt)), ["", ""])
        yield* Effect.flatMap(ofModel, Stream.runDrain).pipe(MemoryService.as(bob))
        assert.include(block(asked[2]!.prompt), "black")
      })
    ))

  it.effect("the viewer passed to `layerInjectedFor` is used only for calls that have no viewer of their own", () =>
    injected(scripted([text("a")], [text("b")]))((asked) =>
      Effect.gen(function*() {
        const { tags } = yield* heard(generate("Which tea?"))
        assert.deepStrictEqual(tags, ["memory_recalled"])
        yield* generate("Which tea?").pipe(MemoryService.as(bob))
        assert.include(block(asked[0]!.prompt), "green")
        assert.include(block(asked[1]!.prompt), "black")
      })
    ))

  it.effect("each call of a chat gets the memory of the call's viewer, not of the viewer that made the chat", () =>
    injected(scripted([text("a")], [text("b")]))((asked) =>
      Effect.gen(function*() {
        const chat = yield* Chat.empty.pipe(MemoryService.as(ada))
        yield* chat.generateText({ prompt: "Which tea?" }).pipe(MemoryService.as(bob))
        assert.include(block(asked[0]!.prompt), "black")
      })
    ))

  it.effect("the model is called without a memory block if the memory fails; the event `memory_degraded` is published", () => {
    const store: Layer.Layer<MemoryStore.MemoryStore> = over(() => ({ search: () => Effect.fail(storeDown) }))
    return injected(scripted([text("a")]), Layer.provide(Layer.orDie(MemoryService.layer()), store))((asked) =>
      Effect.gen(function*() {
        const { result, tags } = yield* heard(generate("Which tea?"))
        assert.strictEqual(result.text, "a")
        assert.deepStrictEqual(tags, ["memory_degraded"])
        assert.deepStrictEqual(asked[0]!.prompt, Prompt.make("Which tea?"))
      })
    )
  })

  it.effect("a call fails with the model's own error if the model fails", () =>
    injected(scripted())(() =>
      Effect.gen(function*() {
        assert.strictEqual((yield* Effect.flip(generate("Which tea?")))._tag, "UnknownError")
      })
    ))

  it.effect("a block that a custom MemoryService.context returns is appended to the last user message, even if an assistant message follows", () => {
    const memory = Layer.effect(
      MemoryService.MemoryService,
      Effect.map(MemoryService.MemoryService, (service) => ({
        ...service,
        context: () => Effect.succeed({ text: "<memory>\nx\n</memory>", ids: [], leftOut: 0 })
      }))
    ).pipe(Layer.provide(MemoryService.layerTest()))
    return injected(scripted([text("a")], [text("b")]), memory)((asked) =>
      Effect.gen(function*() {
        const [first, second, third, fourth] = [
          { role: "user", content: "One" },
          { role: "assistant", content: "Two" },
          { role: "user", content: "Three" },
          { role: "assistant", content: "Four" }
        ] as const
        yield* generate([first, second, third, fourth])
        yield* generate([second])
        assert.deepStrictEqual(
          asked[0]!.prompt,
          Prompt.make([first, second, {
            role: "user",
            content: [{ type: "text", text: "Three" }, { type: "text", text: "\n\n<memory>\nx\n</memory>" }]
          }, fourth])
        )
        assert.deepStrictEqual(asked[1]!.prompt, Prompt.make([second]))
      })
    )
  })

  it.effect("MemoryService.context receives the role and the text of every message of the prompt", () => {
    const turns: Array<ReadonlyArray<Message.Message>> = []
    const memory = Layer.effect(
      MemoryService.MemoryService,
      Effect.map(MemoryService.MemoryService, (service) => ({
        ...service,
        context: (turn: ReadonlyArray<Message.Message>) => {
          turns.push(turn)
          return service.context(turn)
        }
      }))
    ).pipe(Layer.provide(MemoryService.layerTest()))
    return injected(scripted([text("a")]), memory)(() =>
      Effect.gen(function*() {
        const part = { type: "tool-call", id: "1", name: "fetch", params: {}, providerExecuted: false } as const
        const answer = {
          type: "tool-result",
          id: "1",
          name: "fetch",
          isFailure: false,
          providerExecuted: false
        } as const
        yield* generate([
          { role: "system", content: "Be terse." },
          { role: "user", content: [{ type: "text", text: "One" }, { type: "text", text: "two" }] },
          { role: "assistant", content: [{ type: "text", text: "Let me see." }, part] },
          { role: "assistant", content: [part] },
          { role: "tool", content: [{ ...answer, result: "tea" }, { ...answer, result: { hot: true } }] }
        ])
        assert.deepStrictEqual(turns, [[
          new Message.Message({ role: "system", content: "Be terse." }),
          Message.user("One\ntwo"),
          Message.assistant("Let me see."),
          new Message.Message({ role: "assistant", content: "", tool: true }),
          new Message.Message({ role: "tool", content: "tea\n{\"hot\":true}", tool: true })
        ]])
      })
    )
  })
})
