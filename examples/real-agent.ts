/** An agent with a real provider, and a chat that remembers: `OPENAI_API_KEY=… node real-agent.js ada monday` */
import { Chat } from "@effect/ai"
import { OpenAiClient, OpenAiLanguageModel } from "@effect/ai-openai"
import { NodeContext, NodeHttpClient, NodeRuntime } from "@effect/platform-node"
import { Config, Console, Effect, Layer, Stream } from "effect"
import {
  Embedder, ExtractionTrigger, Federated, Markdown, MemoryManager, MemoryService, MemoryTools, Message, Viewer
} from "effect-memory"
import * as MemoryToolkit from "effect-memory/ai"
import { argv, stdin } from "node:process"
import { createInterface } from "node:readline"

const viewer = Viewer.make({ userId: argv[2] ?? "ada", sessionId: argv[3] ?? "monday" })

/** Until the model has no more tools to call. Its prompt ends with what is remembered; the history does not. */
const answer = Effect.fn(function*(chat: Chat.Service, prompt: string) {
  const toolkit = yield* Effect.flatMap(MemoryTools.make(viewer), MemoryToolkit.make)
  let reply = yield* chat.generateText({ prompt, toolkit })
  while (reply.toolResults.length > 0) reply = yield* chat.generateText({ prompt: [], toolkit })
  return reply.text
})

const session = Effect.gen(function*() {
  const memory = yield* MemoryService.MemoryService
  const { text: index } = yield* memory.index
  const chat = yield* Chat.fromPrompt([{ role: "system", content: `You are a kind companion.\n\n${index}` }])

  yield* Stream.fromAsyncIterable(createInterface({ input: stdin }), (cause) => cause).pipe(
    Stream.takeWhile((said) => said !== ""),
    Stream.runForEach((said) =>
      Effect.gen(function*() {
        yield* memory.turnStart
        const reply = yield* answer(chat, said)
        yield* Console.log(reply)
        yield* memory.turnEnd([Message.user(said), Message.assistant(reply)])
      })
    ),
    Effect.ensuring(memory.sessionEnd)
  )
})

const OpenAi = OpenAiLanguageModel.layer({ model: "gpt-5-mini" }).pipe(
  Layer.provide(OpenAiClient.layerConfig({ apiKey: Config.redacted("OPENAI_API_KEY") })),
  Layer.provide(NodeHttpClient.layerUndici)
)

/** What is said is kept, read every five turns and when the session ends, and after a crash by the next who comes. */
const trigger = ExtractionTrigger.any(ExtractionTrigger.interval(5), ExtractionTrigger.sessionEnd)

const Agent = MemoryToolkit.layerInjected.pipe(
  Layer.provideMerge(MemoryService.layer({ writesPerTurn: 3 })),
  Layer.provide(MemoryManager.layer({ extraction: { notes: { trigger } } })),
  Layer.provide(Federated.layer({ notes: { layer: Markdown.layer({ root: ".memory" }), writable: true } })),
  Layer.provide([MemoryToolkit.layerCompletion, Embedder.layerNone]),
  Layer.provide([OpenAi, NodeContext.layer])
)

session.pipe(MemoryService.as(viewer), Effect.provide(Agent), NodeRuntime.runMain)
