// An MCP server over memory, with further tools: one that never ends, one that dies, one with several steps, one that logs.
// `mcp.mjs stdio` serves ada over standard input and output. `mcp.mjs http OPTIONS` prints its port; OPTIONS is JSON.
import { HttpServer, HttpServerResponse } from "@effect/platform"
import { NodeContext, NodeHttpServer, NodeRuntime, NodeSink, NodeStream } from "@effect/platform-node"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { createServer } from "node:http"
import { report } from "../../../dist/host/MemoryTool.js"
import { MemoryService, MemoryStore, MemoryTool, MemoryTools, Viewer } from "../../../dist/index.js"
import { McpServer, McpTokens } from "../../../dist/mcp.js"

const [transport, options = "{}"] = process.argv.slice(2)
const { idle, requestsPerMinute = 0, tokens, ...access } = JSON.parse(options)
const ada = Viewer.make({ userId: "ada" })
const bob = Viewer.make({ userId: "bob" })

const tool = (name, handler, output = Schema.Struct({ ok: Schema.Boolean })) =>
  MemoryTool.make({
    name,
    description: name,
    input: Schema.Struct({ text: Schema.optional(Schema.String) }),
    output,
    writes: false,
    handler
  })

const own = [
  tool("hang", ({ text = "" }) =>
    Effect.zipRight(
      Effect.sync(() => process.stderr.write(`hang ${text} began\n`)),
      Effect.onInterrupt(Effect.never, () => Effect.sync(() => process.stderr.write("hang was interrupted\n")))
    )),
  tool("die", () => Effect.die(new RangeError("the secret sk-1234 of bob"))),
  tool("steps", () =>
    Effect.as(
      Effect.forEach([1, 2, 3], (done) => report({ done, total: 3, message: `step ${done}` })),
      { ok: true }
    )),
  tool("log", () =>
    Effect.logDebug("quiet words").pipe(
      Effect.zipRight(Effect.logInfo("plain words")),
      Effect.zipRight(Effect.logError("loud words", new Error("the secret sk-1234"))),
      Effect.as({ ok: true })
    )),
  tool("echo", ({ text = "" }) => Effect.succeed([text.length]), Schema.Array(Schema.Int)),
  tool("memory_used", () =>
    Effect.sync(() => {
      globalThis.gc?.()
      return [process.memoryUsage().heapUsed]
    }), Schema.Array(Schema.Int))
]

const bobs = MemoryService.MemoryService.pipe(
  Effect.flatMap((memory) =>
    memory.put({
      id: "01BBBBBBBBBBBBBBBBBBBBBBBB",
      scope: { userId: "bob" },
      kind: "user",
      body: "Bob's safe opens with 4711."
    })
  ),
  MemoryService.as(bob),
  Layer.effectDiscard
)

const Memory = Layer.provideMerge(bobs, MemoryService.layer({ writesPerTurn: 0, allowForget: true })).pipe(
  Layer.provide(MemoryStore.layerInMemory)
)
const tools = (viewer) => Effect.map(MemoryTools.make(viewer), (ours) => [...ours, ...own])

const stdio = McpServer.stdio({ viewer: ada, tools, stdin: NodeStream.stdin, stdout: NodeSink.stdout, grace: "1 second" })

const http = Effect.gen(function*() {
  const known = tokens === undefined ? undefined : yield* McpTokens.fromFile(tokens)
  const server = McpServer.layerHttp({
    ...(known === undefined ? { viewer: ada } : { tokens: known }),
    ...access,
    ...(idle !== undefined && { idle }),
    requestsPerMinute,
    grace: "1 second",
    tools,
    routes: Effect.map(MemoryService.CurrentViewer, ({ userId }) => HttpServerResponse.text(`page of ${userId}`))
  })
  const said = Layer.effectDiscard(
    Effect.map(HttpServer.HttpServer, ({ address }) => process.stdout.write(`${JSON.stringify({ port: address.port })}\n`))
  )
  yield* Layer.launch(Layer.provideMerge(said, server))
}).pipe(
  Effect.provide(NodeHttpServer.layer(() => createServer(), { host: access.host ?? "127.0.0.1", port: 0 }))
)

const program = transport === "stdio" ? stdio : http
NodeRuntime.runMain(
  program.pipe(Effect.provide(Memory), Effect.provide(NodeContext.layer), Effect.provide(McpServer.layerLogger)),
  { disablePrettyLogger: true }
)
