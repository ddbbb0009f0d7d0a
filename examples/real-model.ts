/** The pipeline with a real provider, through @effect/ai: `OPENAI_API_KEY=… node real-model.js "I moved to Lisbon."` */
import { OpenAiClient, OpenAiEmbeddingModel, OpenAiLanguageModel } from "@effect/ai-openai"
import { NodeContext, NodeHttpClient } from "@effect/platform-node"
import { Config, Console, Effect, Layer } from "effect"
import { Markdown, MemoryService, Message, PromptBlock, Viewer } from "effect-memory"
import * as MemoryToolkit from "effect-memory/ai"
import { argv } from "node:process"

const program = Effect.gen(function*() {
  const memory = yield* MemoryService.MemoryService

  const { applied } = yield* memory.remember([Message.user(argv[2] ?? "I moved to Lisbon.")], {
    scope: { userId: "ada" }
  })
  for (const { outcome, record } of applied) yield* Console.log(outcome, record?.summary)

  const found = yield* memory.recall({ text: "which city is home?" })
  yield* Console.log(PromptBlock.render(found).text)
})

const OpenAi = Layer.mergeAll(
  OpenAiLanguageModel.layer({ model: "gpt-5-mini" }),
  OpenAiEmbeddingModel.layerBatched({ model: "text-embedding-3-small" })
).pipe(
  Layer.provide(OpenAiClient.layerConfig({ apiKey: Config.redacted("OPENAI_API_KEY") })),
  Layer.provide(NodeHttpClient.layerUndici)
)

const Memory = MemoryService.layer().pipe(
  Layer.provide([
    Markdown.layer({ root: ".memory" }),
    MemoryToolkit.layerCompletion,
    MemoryToolkit.layerEmbedder({ model: "text-embedding-3-small", dimensions: 1_536 })
  ]),
  Layer.provide([OpenAi, NodeContext.layer])
)

program.pipe(MemoryService.as(Viewer.make({ userId: "ada" })), Effect.provide(Memory), Effect.runPromise)
