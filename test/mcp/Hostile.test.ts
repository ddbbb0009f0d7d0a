/** An MCP server under thousands of seeded hostile requests: it still answers, reveals no secret, and its heap does not keep growing. */
import { NodeContext } from "@effect/platform-node"
import * as FileSystem from "@effect/platform/FileSystem"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import * as net from "node:net"
import { times } from "../vault/Program.ts"
import { ask, type Asked, call, initialize, session } from "./Raw.ts"
import { httpProcess, promised, secrets, stdio, tokens, traces } from "./Served.ts"

/** Number of requests that the test sends; `npm run soak` sends more. */
const requests = times(2_000, 10_000)

const words = [
  "",
  "rubbish",
  "\u0000\u0001\u0002",
  "\ud800",
  "\ufeff{}",
  "[".repeat(5_000),
  "{\"a\":".repeat(2_000),
  "7".repeat(400),
  "1e999999",
  "\"\\ud800\"",
  "{\"__proto__\":{\"jsonrpc\":\"2.0\"}}",
  "null",
  "[]",
  "[[]]"
]
const values: ReadonlyArray<unknown> = [
  null,
  true,
  -1,
  1e308,
  0.5,
  "",
  "text",
  "../../etc/passwd",
  "<|im_start|>system",
  "x".repeat(10_000),
  [],
  [[]],
  {},
  {
    __proto__: null
  },
  { constructor: { prototype: { polluted: true } } }
]
const methods = [
  "tools/call",
  "tools/list",
  "resources/list",
  "resources/read",
  "resources/subscribe",
  "prompts/get",
  "logging/setLevel",
  "completion/complete",
  "initialize",
  "ping",
  "notifications/cancelled",
  "notifications/initialized",
  "tasks/get",
  "tasks/cancel",
  "sampling/createMessage",
  "__proto__",
  "constructor",
  ""
]
const tools = ["remember", "recall", "forget", "die", "steps", "log", "echo", "no such", "__proto__", "toString"]
const keys = [
  "name",
  "arguments",
  "uri",
  "cursor",
  "level",
  "query",
  "id",
  "body",
  "kind",
  "scope",
  "userId",
  "_meta",
  "requestId",
  "task"
]

const one = <A>(all: ReadonlyArray<A>) => Effect.map(Random.nextIntBetween(0, all.length), (n) => all[n]!)

const object = Effect.gen(function*() {
  const size = yield* Random.nextIntBetween(0, 5)
  const entries = yield* Effect.forEach(Array.from({ length: size }), () => Effect.zip(one(keys), one<unknown>(values)))
  return Object.fromEntries(entries)
})

/** Generates messages. Many are malformed, or ask for something that does not exist; the others are valid requests. */
const message = Effect.gen(function*() {
  const kind = yield* Random.nextIntBetween(0, 10)
  if (kind === 0) return yield* one(words)
  const id = yield* one<unknown>([1, "a", null, 1.5, {}, undefined, Number.MAX_SAFE_INTEGER])
  if (kind < 5) return call(id, yield* one(tools), yield* object)
  const params = kind === 5 ? yield* one<unknown>(values) : yield* object
  return JSON.stringify({ jsonrpc: kind === 6 ? "1.0" : "2.0", id, method: yield* one(methods), params })
})

const unasked: Readonly<Record<string, string>> = {}

/** Generates HTTP requests with the given headers, mostly with one wrong header. Body, path and method may be wrong, too. */
const request = (headers: Readonly<Record<string, string>>) =>
  Effect.gen(function*() {
    const kind = yield* Random.nextIntBetween(0, 20)
    const odd = yield* one<Readonly<Record<string, string>>>([
      unasked,
      unasked,
      unasked,
      { authorization: "Bearer wrong" },
      { authorization: "Bearer " + "x".repeat(4_000) },
      { host: "evil.example" },
      { origin: "https://evil.example" },
      { "mcp-session-id": "f".repeat(64) },
      { "mcp-session-id": "../../x" },
      { "mcp-protocol-version": "9999" },
      { accept: "*/*" },
      { "content-type": "text/plain" },
      { "last-event-id": "0_0" },
      { "content-encoding": "gzip" }
    ])
    const asked: Asked = {
      headers: { ...headers, ...odd },
      body: kind === 1 ? initialize : kind === 2 ? "x".repeat(300_000) : yield* message,
      path: yield* one(["/mcp", "/mcp", "/mcp", "/mcp/", "/mcp?x=1", "/", "/%00", "/../mcp", `/${"a".repeat(5_000)}`])
    }
    if (kind !== 3) return asked
    const { body: _, ...bare } = asked
    return { ...bare, method: yield* one(["PUT", "OPTIONS", "HEAD", "PATCH"]) }
  })

/** Sends bytes that are no complete, valid HTTP request; the server then closes the connection. */
const rubbish = (port: number) =>
  Effect.flatMap(
    one([
      "\r\n\r\n",
      "GET\r\n\r\n",
      "POST /mcp HTTP/9.9\r\n\r\n",
      "\u0016\u0003\u0001",
      "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10\r\n\r\n{"
    ]),
    (text) =>
      Effect.async<void>((resume) => {
        const socket = net.connect(port, "127.0.0.1", () => socket.end(text))
        socket.on("error", () => {}).on("close", () => resume(Effect.void)).resume()
      })
  )

const used = (url: string, headers: Readonly<Record<string, string>>) =>
  Effect.map(
    ask(url, { headers, body: call("m", "memory_used") }),
    ({ json }) => Number(json.result.structuredContent.result[0])
  )

describe("an MCP server under thousands of hostile requests", () => {
  it.scopedLive("a server over HTTP still answers its client and reveals no secret, and its heap does not keep growing", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const { ada, file } = yield* tokens(yield* fs.makeTempDirectoryScoped())
      const server = yield* httpProcess({ tokens: file, maxSessions: 16 })
      const { stderr, url } = server
      const bearing = { authorization: `Bearer ${ada}` }
      const client = yield* server.connect(ada)
      yield* promised(() =>
        client.callTool({ name: "remember", arguments: { kind: "user", summary: "Tea", body: "Drinks tea" } })
      )
      // the client's open event stream keeps its session from ending
      const round = (count: number) =>
        Effect.gen(function*() {
          const current = yield* session(url, bearing)
          const all = yield* Effect.forEach(Array.from({ length: count }), () => request(current))
          return yield* Effect.forEach(all, (asked, n) =>
            n % 100 === 0 ? Effect.zipRight(rubbish(Number(new URL(url).port)), ask(url, asked)) : ask(url, asked), {
            concurrency: 8
          })
        })
      const statuses = new Map<number, number>()
      let before = 0
      for (let n = 0; n < 10; n++) {
        const answers = yield* round(requests / 10)
        for (const { body, status } of answers) {
          statuses.set(status, (statuses.get(status) ?? 0) + 1)
          assert.notMatch(body, secrets)
          assert.notMatch(body, traces)
        }
        if (n === 2) before = yield* used(url, yield* session(url, bearing))
      }
      const after = yield* used(url, yield* session(url, bearing))
      assert.isBelow(after, before + 24 * 1024 * 1024)
      for (const status of [200, 202, 400, 401, 403, 404, 405]) {
        assert.isAbove(statuses.get(status) ?? 0, 0, `${status}`)
      }
      assert.strictEqual(statuses.get(500) ?? 0, 0)
      const recalled = yield* promised(() => client.callTool({ name: "recall", arguments: { query: "tea" } }))
      assert.include(JSON.stringify(recalled), "Drinks tea")
      assert.notMatch(stderr.text(), secrets)
      assert.notMatch(stderr.text(), traces)
      assert.notInclude(stderr.text(), ada)
    }).pipe(Effect.withRandom(Random.make("hostile")), Effect.provide(NodeContext.layer)))

  it.scopedLive("a server on standard input still answers its client and reveals no secret, and its heap does not keep growing", () =>
    Effect.gen(function*() {
      const { child, client, stderr, write } = yield* stdio
      const grown = Effect.map(
        promised(() => client.callTool({ name: "memory_used" })),
        ({ structuredContent }) => (structuredContent as { readonly result: readonly [number] }).result[0]
      )
      client.onerror = () => {}
      let told = ""
      child!.stdout!.on("data", (chunk: Buffer) => {
        told = (told + chunk.toString()).slice(-200_000)
        assert.notMatch(told, secrets)
      })
      let before = 0
      for (let n = 0; n < 10; n++) {
        const lines = yield* Effect.forEach(Array.from({ length: requests / 10 }), () => message)
        // replaces ids that the client uses itself, since answers to them would end its calls
        yield* write(
          lines.map((line) => `${line.replaceAll("\n", " ").replace("\"id\":1,", "\"id\":\"one\",")}\n`).join("")
        )
        yield* promised(() => client.ping())
        if (n === 2) before = yield* grown
      }
      assert.isBelow(yield* grown, before + 24 * 1024 * 1024)
      const { tools } = yield* promised(() => client.listTools())
      assert.isAbove(tools.length, 3)
      assert.notMatch(stderr.text(), secrets)
      assert.notMatch(stderr.text(), traces)
    }).pipe(Effect.withRandom(Random.make("hostile"))))
})
