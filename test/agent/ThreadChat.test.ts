import * as LanguageModel from "@effect/ai/LanguageModel"
import * as Prompt from "@effect/ai/Prompt"
import * as Tool from "@effect/ai/Tool"
import * as Toolkit from "@effect/ai/Toolkit"
import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Ref from "effect/Ref"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as MemoryToolkit from "../../src/agent/MemoryToolkit.ts"
import { turnOf } from "../../src/agent/MemoryToolkit/ThreadChat.ts"
import * as Message from "../../src/domain/Message.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as MemoryService from "../../src/harness/MemoryService.ts"
import * as Threads from "../../src/harness/Threads.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import * as Faulty from "../../src/storage/MemoryStore/Faulty.ts"
import { ada } from "../harness/Service.ts"
import { call, scripted, text } from "./ScriptedModel.ts"

const weather = Toolkit.make(Tool.make("weather", { parameters: { city: Schema.String }, success: Schema.String }))
const handlers = weather.toLayer({ weather: ({ city }) => Effect.succeed(`sunny in ${city}`) })

/** Runs an effect as a process of its own would: with a new model, over threads that outlive it. */
const inProcess = <A, E, R>(
  threads: Threads.Service,
  model: Layer.Layer<LanguageModel.LanguageModel>,
  body: Effect.Effect<A, E, R>
) =>
  body.pipe(
    MemoryService.as(ada),
    Effect.provide([model, handlers]),
    Effect.provideService(Threads.Threads, threads)
  )

const threadsOver = (layer: Layer.Layer<MemoryStore.MemoryStore>) =>
  Effect.map(Layer.build(Layer.provide(Threads.layer, layer)), Context.get(Threads.Threads))

const roles = (prompt: Prompt.Prompt) => prompt.content.map(({ role }) => role)

describe("MemoryToolkit.chat", () => {
  it.scoped("a second chat of the same thread begins with the first chat's history, including tool calls and their results", () =>
    Effect.gen(function*() {
      const threads = yield* threadsOver(MemoryStore.layerInMemory)
      const first = scripted([call("weather", { city: "Lisbon" })], [text("It is sunny.")])
      const history = yield* inProcess(
        threads,
        first.model,
        Effect.gen(function*() {
          const chat = yield* MemoryToolkit.chat("a", { system: "Be terse." })
          yield* chat.generateText({ prompt: "How is Lisbon?", toolkit: yield* weather })
          yield* chat.generateText({ prompt: [] })
          return yield* Ref.get(chat.history)
        })
      )
      const second = scripted([text("In May, too.")])
      yield* inProcess(
        threads,
        second.model,
        Effect.gen(function*() {
          const chat = yield* MemoryToolkit.chat("a", { system: "Be terse." })
          assert.deepStrictEqual(yield* Ref.get(chat.history), history)
          yield* chat.generateText({ prompt: "And in May?" })
        })
      )
      const asked = second.asked[0]!.prompt
      assert.deepStrictEqual(roles(asked), ["system", "user", "assistant", "tool", "assistant", "user"])
      assert.include(JSON.stringify(asked), "sunny in Lisbon")
      const { items } = yield* threads.messages(ada, "a")
      assert.deepStrictEqual(items.map(({ content, role, tool = false }) => [role, content, tool]), [
        ["user", "How is Lisbon?", false],
        ["assistant", "", true],
        ["tool", "sunny in Lisbon", true],
        ["assistant", "It is sunny.", false],
        ["user", "And in May?", false],
        ["assistant", "In May, too.", false]
      ])
    }))

  it.scoped("the thread stores nothing of a turn in which the model fails", () =>
    Effect.gen(function*() {
      const threads = yield* threadsOver(MemoryStore.layerInMemory)
      const { asked, model } = scripted([text("one")])
      yield* inProcess(
        threads,
        model,
        Effect.gen(function*() {
          const chat = yield* MemoryToolkit.chat("a")
          yield* chat.generateText({ prompt: "first" })
          yield* Effect.flip(chat.generateText({ prompt: "second" })) // fails, since the script has no further answer
          const { items } = yield* threads.messages(ada, "a")
          assert.deepStrictEqual(items.map(({ content }) => content), ["first", "one"])
          assert.lengthOf(asked, 2)
        })
      )
    }))

  it.scoped("the part of a streamed answer that was read is stored, even if the consumer stops early", () =>
    Effect.gen(function*() {
      const threads = yield* threadsOver(MemoryStore.layerInMemory)
      const { model } = scripted([text("whole")], [text("chunk")])
      const open = [
        { type: "text-start", id: "0" },
        { type: "text-delta", id: "0", delta: "part " },
        { type: "text-delta", id: "0", delta: "of it" }
      ] as const
      const hanging = Layer.effect(
        LanguageModel.LanguageModel,
        LanguageModel.make({
          generateText: () => Effect.never,
          streamText: () => Stream.concat(Stream.fromIterable(open), Stream.never)
        })
      )
      yield* inProcess(
        threads,
        model,
        Effect.gen(function*() {
          const chat = yield* MemoryToolkit.chat("a")
          yield* Stream.runDrain(chat.streamText({ prompt: "first" }))
          yield* Stream.runDrain(Stream.take(chat.streamText({ prompt: "second" }), 2))
          yield* Stream.runDrain(Stream.take(chat.streamText({ prompt: "third" }), 3)).pipe(Effect.provide(hanging))
          const { items } = yield* threads.messages(ada, "a")
          assert.deepStrictEqual(items.map(({ content, role }) => [role, content]), [
            ["user", "first"],
            ["assistant", "whole"],
            ["user", "second"],
            ["assistant", "chunk"],
            ["user", "third"],
            ["assistant", "part of it"]
          ])
        })
      )
    }))

  it.scoped("a stream stopped early is stored without unanswered tool calls; a failed stream is not stored", () =>
    Effect.gen(function*() {
      const threads = yield* threadsOver(MemoryStore.layerInMemory)
      const { asked, model } = scripted(
        [text("Let me see."), call("weather", { city: "Lisbon" })],
        [call("weather", { city: "Porto" })],
        [text("Fine.")]
      )
      const hanging = weather.toLayer({ weather: () => Effect.never })
      yield* Effect.gen(function*() {
        const chat = yield* MemoryToolkit.chat("a")
        const leave = (prompt: string) =>
          Effect.flatMap(
            weather,
            (toolkit) =>
              Stream.runDrain(
                Stream.takeUntil(chat.streamText({ prompt, toolkit }), ({ type }) => type === "tool-call")
              )
          )
        yield* leave("first")
        yield* leave("second")
        yield* chat.generateText({ prompt: "third" })
        yield* Effect.flip(Stream.runDrain(chat.streamText({ prompt: "fourth" }))) // fails, since the script has no further answer
        const { items } = yield* threads.messages(ada, "a")
        assert.deepStrictEqual(items.map(({ content, role }) => [role, content]), [
          ["user", "first"],
          ["assistant", "Let me see."],
          ["user", "second"],
          ["user", "third"],
          ["assistant", "Fine."]
        ])
        assert.notInclude(JSON.stringify(asked[2]!.prompt), "tool-call")
      }).pipe(
        MemoryService.as(ada),
        Effect.provide([model, hanging]),
        Effect.provideService(Threads.Threads, threads)
      )
    }))

  it.scoped("tool calls count against the chat's token budget; a search still finds messages that the prompt leaves out", () =>
    Effect.gen(function*() {
      const threads = yield* threadsOver(MemoryStore.layerInMemory)
      const { asked, model } = scripted([call("weather", { city: "x".repeat(4_000) })], [text("Far away.")], [
        text("Yes.")
      ])
      yield* inProcess(
        threads,
        model,
        Effect.gen(function*() {
          const chat = yield* MemoryToolkit.chat("a", { budget: 500 })
          yield* chat.generateText({ prompt: "How is the weather in that long place?", toolkit: yield* weather })
          yield* chat.generateText({ prompt: "So?" })
          yield* chat.generateText({ prompt: "Really?" })
          assert.deepStrictEqual(asked.at(-1)!.prompt.content.map((message) => turnOf(message).content), [
            "So?",
            "Far away.",
            "Really?"
          ])
          const [found] = yield* threads.search(ada, "a", { text: "that long place" })
          assert.strictEqual(found!.message.content, "How is the weather in that long place?")
        })
      )
    }))

  it.scoped("the part of a thread that is sent to the model begins with a user's message, even if this part then exceeds the token budget", () =>
    Effect.gen(function*() {
      const threads = yield* threadsOver(MemoryStore.layerInMemory)
      const { asked, model } = scripted([call("weather", { city: "x".repeat(4_000) })], [text("Far.")], [text("Yes.")])
      yield* inProcess(
        threads,
        model,
        Effect.gen(function*() {
          const chat = yield* MemoryToolkit.chat("a", { budget: 50 })
          yield* chat.generateText({ prompt: "How is it there?", toolkit: yield* weather })
          yield* chat.generateText({ prompt: [] })
          yield* chat.generateText({ prompt: "Really?" })
          yield* threads.append(
            ada,
            "b",
            Array.from({ length: 120 }, () => ({ ...Message.assistant("a"), role: "tool" as const }))
          )
          assert.strictEqual((yield* threads.window(ada, "b", 0)).items.length, 1)
        })
      )
      assert.deepStrictEqual(asked.map(({ prompt }) => roles(prompt)), [
        ["user"],
        ["user", "assistant", "tool"],
        ["user", "assistant", "tool", "assistant", "user"]
      ])
    }))

  it.scoped("a message that is appended directly to the chat's thread is sent to the model with the next prompt", () =>
    Effect.gen(function*() {
      const threads = yield* threadsOver(MemoryStore.layerInMemory)
      const long = "x".repeat(400)
      yield* threads.append(ada, "a", [
        Message.user(long),
        Message.assistant(long),
        Message.user("short"),
        Message.assistant("yes")
      ])
      const { asked, model } = scripted([text("one")], [text("two")])
      yield* inProcess(
        threads,
        model,
        Effect.gen(function*() {
          const chat = yield* MemoryToolkit.chat("a", { budget: 50 })
          yield* chat.generateText({ prompt: "first" })
          yield* threads.append(ada, "a", [Message.user("from elsewhere")])
          yield* chat.generateText({ prompt: "second" })
        })
      )
      const texts = asked.map(({ prompt }) => prompt.content.map((message) => turnOf(message).content))
      assert.deepStrictEqual(texts, [
        ["short", "yes", "first"],
        ["short", "yes", "first", "one", "from elsewhere", "second"]
      ])
    }))

  it.scoped("a file in a prompt is sent to the model again with the next prompt of the chat", () =>
    Effect.gen(function*() {
      const threads = yield* threadsOver(MemoryStore.layerInMemory)
      const { asked, model } = scripted([text("a cat")], [text("grey")])
      const file = Prompt.makePart("file", { mediaType: "image/png", data: new Uint8Array([1, 2, 3]) })
      yield* inProcess(
        threads,
        model,
        Effect.gen(function*() {
          const chat = yield* MemoryToolkit.chat("a")
          yield* chat.generateText({
            prompt: [{ role: "user", content: [Prompt.makePart("text", { text: "what?" }), file] }]
          })
          yield* chat.generateText({ prompt: "which colour?" })
        })
      )
      assert.include(JSON.stringify(asked[1]!.prompt), "\"data\":\"AQID\"")
    }))

  it.scoped("a chat sends the model no messages of a deleted thread, and no more stored messages than fit the token budget", () =>
    Effect.gen(function*() {
      const threads = yield* threadsOver(MemoryStore.layerInMemory)
      const { asked, model } = scripted(
        [text("one")],
        [text("two")],
        ...Array.from({ length: 10 }, () => [text("y".repeat(400))])
      )
      yield* inProcess(
        threads,
        model,
        Effect.gen(function*() {
          const chat = yield* MemoryToolkit.chat("a", { budget: 200 })
          yield* chat.generateText({ prompt: "my secret" })
          yield* threads.delete(ada, "a")
          yield* threads.append(ada, "a", [Message.user("x"), Message.assistant("y"), Message.user("z")])
          yield* chat.generateText({ prompt: "second" })
          assert.notInclude(JSON.stringify(asked[1]!.prompt), "secret")
          for (let n = 0; n < 10; n++) yield* chat.generateText({ prompt: "x".repeat(400) })
        })
      )
      assert.isAtMost(
        JSON.stringify(asked.at(-1)!.prompt.content.map((message) => turnOf(message).content)).length,
        1_300
      )
    }))

  const cycle: { self?: unknown } = {}
  cycle.self = cycle
  const deep = (levels: number): unknown => JSON.parse("[".repeat(levels) + "]".repeat(levels))
  /** Values of which at least one rule of strict JSON does not hold, and what the model is sent of them. */
  const results: ReadonlyArray<readonly [unknown, unknown]> = [
    [undefined, null],
    [Symbol("a"), null],
    [{ text: "x", note: undefined, at: new Date(0) }, { text: "x", at: "1970-01-01T00:00:00.000Z" }],
    [{ n: NaN, many: [Infinity, undefined, 1n] }, { n: null, many: [null, null, "1"] }],
    [{ "\ud83d": "cut \ud83d" }, { "\ufffd": "cut \ufffd" }],
    [JSON.parse("{\"__proto__\":{\"a\":1},\"b\":1}"), { b: 1 }],
    [{ toJSON: () => "custom" }, "custom"],
    [{ bytes: new Uint8Array([1, 2, 3]) }, { bytes: "AQID" }],
    [new Map([["a", 1]]), {}],
    [deep(58), deep(58)],
    [
      Object.create(null, { a: { enumerable: true, get: () => assert.fail("read") } }),
      "[a value that JSON cannot express]"
    ],
    [cycle, "[a value that JSON cannot express]"],
    [deep(100_000), "[a value that JSON cannot express]"]
  ]
  const page = Toolkit.make(Tool.make("page", { parameters: { url: Schema.Any }, success: Schema.Any }))

  it.scoped("every result and every parameter of a tool is stored as `JSON.stringify` writes it, and fails no chat", () =>
    Effect.gen(function*() {
      const threads = yield* threadsOver(MemoryStore.layerInMemory)
      for (const [n, [value, sent]] of results.entries()) {
        for (const way of ["text", "stream"]) {
          const { asked, model } = scripted([call("page", { url: value })], [text("Fine.")])
          yield* Effect.gen(function*() {
            const chat = yield* MemoryToolkit.chat(`${way} ${n}`)
            const options = { prompt: "read", toolkit: yield* page }
            yield* way === "text"
              ? Effect.asVoid(chat.generateText(options))
              : Stream.runDrain(chat.streamText(options))
            yield* chat.generateText({ prompt: [] })
          }).pipe(
            MemoryService.as(ada),
            Effect.provide([model, page.toLayer({ page: () => Effect.succeed(value) })]),
            Effect.provideService(Threads.Threads, threads)
          )
          const parts = asked[1]!.prompt.content.flatMap((message) =>
            message.role === "assistant" || message.role === "tool" ? message.content : []
          )
          assert.deepStrictEqual(
            parts.flatMap((part) => part.type === "tool-result" ? [part.result] : []),
            [sent],
            `${way} ${n}`
          )
          assert.lengthOf(parts, 2)
        }
      }
    }))

  it.scoped("a tool without a result schema is stored, and what is nested too deep for the store becomes its JSON text", () =>
    Effect.gen(function*() {
      const threads = yield* threadsOver(MemoryStore.layerInMemory)
      const lamp = Toolkit.make(Tool.make("lamp"), Tool.make("tree", { success: Schema.Any }))
      const tree = { type: "tool-call", id: "other", name: "tree", params: {} } as const
      const { asked, model } = scripted([call("lamp", {}), tree], [text("Fine.")])
      yield* Effect.gen(function*() {
        const chat = yield* MemoryToolkit.chat("a")
        yield* chat.generateText({ prompt: "light", toolkit: yield* lamp })
        yield* chat.generateText({ prompt: [] })
      }).pipe(
        MemoryService.as(ada),
        Effect.provide([
          model,
          lamp.toLayer({ lamp: () => Effect.void, tree: () => Effect.succeed({ near: 1, far: deep(70) }) })
        ]),
        Effect.provideService(Threads.Threads, threads)
      )
      const [unit, grown] = asked[1]!.prompt.content.flatMap((message) =>
        message.role === "tool" ? message.content.map(({ result }) => result) : []
      )
      assert.isNull(unit)
      assert.strictEqual(JSON.stringify(grown).match(/\[/g)?.length, 70)
      assert.include(JSON.stringify(grown), `["${"[".repeat(13)}]`)
      assert.propertyVal(grown, "near", 1)
    }))

  it.scoped("a chat sends the model nothing of another user's thread that has the same name", () =>
    Effect.gen(function*() {
      const threads = yield* threadsOver(MemoryStore.layerInMemory)
      const { asked, model } = scripted([text("hello Ada")], [text("hello Bob")])
      const bob = Viewer.make({ userId: "bob" })
      const say = (viewer: Viewer.Viewer, prompt: string) =>
        Effect.flatMap(MemoryToolkit.chat("a"), (chat) => chat.generateText({ prompt })).pipe(MemoryService.as(viewer))
      yield* Effect.zipRight(say(ada, "I am Ada"), say(bob, "I am Bob")).pipe(
        Effect.provide(model),
        Effect.provideService(Threads.Threads, threads)
      )
      assert.notInclude(JSON.stringify(asked[1]!.prompt), "Ada")
    }))

  it.scoped("a call for another user or tenant than the chat's is refused before the model is called", () =>
    Effect.gen(function*() {
      const threads = yield* threadsOver(MemoryStore.layerInMemory)
      const { asked, model } = scripted([text("hello Ada")], [text("hello again")])
      yield* Effect.gen(function*() {
        const chat = yield* MemoryToolkit.chat("a").pipe(MemoryService.as(ada))
        const tuesday = Viewer.make({ userId: "ada", sessionId: "tuesday" })
        yield* chat.generateText({ prompt: "one" })
        yield* chat.generateText({ prompt: "two" }).pipe(MemoryService.as(tuesday))
        for (const other of [Viewer.make({ userId: "bob" }), Viewer.make({ userId: "ada", tenant: "other" })]) {
          const calls = [chat.generateText({ prompt: "x" }), Stream.runDrain(chat.streamText({ prompt: "x" }))]
          for (const call of calls) {
            const { cause } = yield* Effect.flip(
              Effect.asVoid<unknown, { readonly cause?: unknown }, LanguageModel.LanguageModel>(call)
            )
              .pipe(MemoryService.as(other))
            assert.deepInclude(cause, { reason: "not_owned" })
          }
          assert.deepStrictEqual(yield* threads.list(other), [])
        }
        assert.lengthOf(asked, 2)
        assert.lengthOf((yield* threads.messages(ada, "a")).items, 4)
      }).pipe(Effect.provide(model), Effect.provideService(Threads.Threads, threads))
    }))

  it.scoped("a call of a chat fails with an `AiError` if the store fails; the cause is the store's `MemoryError`", () =>
    Effect.gen(function*() {
      const threads = yield* threadsOver(
        Faulty.layer({ ops: ["apply"], fault: "unavailable" }).pipe(Layer.provide(MemoryStore.layerInMemory))
      )
      const { model } = scripted([text("one")])
      yield* inProcess(
        threads,
        model,
        Effect.gen(function*() {
          const chat = yield* MemoryToolkit.chat("a")
          const error = yield* Effect.flip(chat.generateText({ prompt: "first" }))
          assert.deepInclude(error, { module: "ThreadChat" })
          assert.deepInclude(error.cause, { reason: "unavailable" })
        })
      )
    }))
})
