// An agent behind HTTP. Each request names its viewer; memory and chats are stored in a SQLite file. Answers are streamed.
import { Tool, Toolkit } from "@effect/ai"
import { OpenAiClient, OpenAiLanguageModel } from "@effect/ai-openai"
import { HttpRouter, HttpServer, HttpServerRequest, HttpServerResponse } from "@effect/platform"
import { NodeHttpClient, NodeHttpServer, NodeRuntime } from "@effect/platform-node"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { createServer } from "node:http"
import * as MemoryToolkit from "../../../dist/agent/MemoryToolkit.js"
import { MemoryService, Threads, Viewer } from "../../../dist/index.js"
import { Sqlite } from "../../../dist/sqlite.js"

const [filename, apiUrl] = process.argv.slice(2)

const Weather = Toolkit.make(Tool.make("weather", { parameters: { city: Schema.String }, success: Schema.String }))
const All = Toolkit.merge(Weather, MemoryToolkit.toolkit)

// continues until the model calls no more tools
const turn = (chat, prompt) =>
  Stream.unwrap(Effect.map(All, (toolkit) => {
    let called = false
    return chat.streamText({ prompt, toolkit }).pipe(
      Stream.tap(({ type }) => Effect.sync(() => called ||= type === "tool-result")),
      Stream.filterMap((part) => part.type === "text-delta" ? { _tag: "Some", value: part.delta } : { _tag: "None" }),
      Stream.concat(Stream.suspend(() => called ? turn(chat, []) : Stream.empty))
    )
  }))

const router = HttpRouter.empty.pipe(
  HttpRouter.post(
    "/:thread",
    Effect.gen(function*() {
      const { headers, text } = yield* HttpServerRequest.HttpServerRequest
      const { thread } = yield* HttpRouter.params
      const viewer = yield* Viewer.decode({ userId: headers["x-user"] })
      const prompt = yield* text
      const context = yield* Effect.context()
      const answer = Stream.unwrap(Effect.gen(function*() {
        yield* (yield* MemoryService.MemoryService).turnStart
        return turn(yield* MemoryToolkit.chat(thread, { system: "Be brief." }), prompt)
      })).pipe(Stream.provideService(MemoryService.CurrentViewer, viewer), Stream.encodeText, Stream.provideSomeContext(context))
      return HttpServerResponse.stream(answer, { contentType: "text/plain" })
    })
  )
)

const OpenAi = OpenAiLanguageModel.layer({ model: "gpt-4o" }).pipe(
  Layer.provide(OpenAiClient.layer({ apiKey: Redacted.make("test"), apiUrl })),
  Layer.provide(NodeHttpClient.layerUndici)
)
const Agent = Layer.mergeAll(
  MemoryToolkit.layerInjected.pipe(Layer.provide(OpenAi)),
  MemoryToolkit.layer,
  Weather.toLayer({ weather: ({ city }) => Effect.succeed(`sunny in ${city}`) })
).pipe(Layer.provideMerge(MemoryService.layer()), Layer.provideMerge(Threads.layer), Layer.provideMerge(Sqlite.layer({ filename })))

const said = Layer.effectDiscard(HttpServer.addressWith(({ port }) => Effect.sync(() => console.log(JSON.stringify({ port })))))

HttpServer.serve(router).pipe(
  Layer.provide(said),
  Layer.provide(NodeHttpServer.layer(createServer, { port: 0, host: "127.0.0.1" })),
  Layer.provide(Agent),
  Layer.launch,
  NodeRuntime.runMain
)
