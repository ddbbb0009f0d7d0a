/** The MCP server over standard input and output, and clients that send malformed messages. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Queue from "effect/Queue"
import * as Sink from "effect/Sink"
import * as Stream from "effect/Stream"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as MemoryService from "../../src/harness/MemoryService.ts"
import * as McpServer from "../../src/mcp/McpServer.ts"
import { promised, stdio, tried } from "./Served.ts"

const encoder = new TextEncoder()
const decoder = new TextDecoder()
const initialize = {
  jsonrpc: "2.0",
  id: 0,
  method: "initialize",
  params: { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "test", version: "1" } }
}
const call = (id: string | number, name: string, input?: object) => ({
  jsonrpc: "2.0",
  id,
  method: "tools/call",
  params: { name, ...(input && { arguments: input }) }
})

/** Sends chunks of bytes to a server in this process, waits until the server ends, and returns all answers. */
const answers = (chunks: ReadonlyArray<Uint8Array>) =>
  Effect.gen(function*() {
    const out: Array<string> = []
    yield* McpServer.stdio({
      viewer: Viewer.make({ userId: "ada" }),
      stdin: Stream.fromIterable(chunks),
      stdout: Sink.forEach((bytes: Uint8Array) => Effect.sync(() => out.push(decoder.decode(bytes))))
    })
    return out.join("").trim().split("\n").map((line) => JSON.parse(line))
  }).pipe(Effect.provide(MemoryService.layerTest({ spec: { writesPerTurn: 0 } })))

const lines = (...messages: ReadonlyArray<unknown>) =>
  messages.map((message) => encoder.encode(`${typeof message === "string" ? message : JSON.stringify(message)}\n`))

describe("an MCP server over standard input", () => {
  it.live("the server answers each non-blank malformed line with an error, and still answers later lines", () =>
    Effect.gen(function*() {
      const found = yield* answers(lines(
        initialize,
        "rubbish",
        "",
        "   ",
        "[]",
        "null",
        "{\"jsonrpc\":\"2.0\"}",
        "{\"jsonrpc\":\"1.0\",\"id\":\"mine\",\"method\":\"ping\"}",
        "{\"jsonrpc\":\"2.0\",\"id\":7.5,\"method\":\"ping\"}",
        "\u0000\ufffd{",
        call("named", "recall")
      ))
      assert.deepStrictEqual(found.filter(({ error }) => error).map(({ error, id }) => [id, error.code]), [
        [null, -32_700],
        [null, -32_600],
        [null, -32_600],
        [null, -32_600],
        ["mine", -32_600],
        [null, -32_600],
        [null, -32_700]
      ])
      assert.include(found.find(({ id }) => id === "named")!.result.content[0].text, "no memories matched")
    }))

  it.live("the answers do not depend on the sizes of the chunks in which the input arrives", () =>
    Effect.gen(function*() {
      const all = encoder.encode(
        lines(initialize, call("ä", "remember", { kind: "user", summary: "Füße 👣", body: "Füße 👣" })).map((line) =>
          decoder.decode(line)
        ).join("")
      )
      for (const size of [1, 2, 7, 64, all.length]) {
        const chunks = Array.from(
          { length: Math.ceil(all.length / size) },
          (_, n) => all.subarray(n * size, (n + 1) * size)
        )
        const [, saved] = yield* answers(chunks)
        assert.strictEqual(saved.id, "ä")
        assert.match(saved.result.content[0].text, /^saved user\/user memory/)
      }
    }))

  it.live("the server refuses a line of more than 8 MiB, and still answers the next line", () =>
    Effect.gen(function*() {
      const piece = encoder.encode("x".repeat(1_048_576))
      const found = yield* answers([
        ...lines(initialize),
        ...Array.from({ length: 40 }, () => piece),
        ...lines("", call(1, "recall"))
      ])
      assert.sameDeepMembers(found.map(({ error, id }) => [id, error?.code]), [[0, undefined], [null, -32_600], [
        1,
        undefined
      ]])
    }))

  it.live("the server answers both of two concurrent requests with the same id, and refuses an unknown method with error -32601", () =>
    Effect.gen(function*() {
      const found = yield* answers(lines(initialize, call(1, "recall"), call(1, "recall"), {
        jsonrpc: "2.0",
        id: 2,
        method: "no/such"
      }))
      assert.sameMembers(found.map(({ id }) => id), [0, 1, 1, 2])
      assert.strictEqual(found.find(({ id }) => id === 2).error.code, -32_601)
    }))

  it.live("the server answers invalid parameters with an error that does not quote the values", () =>
    Effect.gen(function*() {
      const wrong = [
        { method: "tools/call", params: {} },
        { method: "tools/call", params: { name: 7 } },
        { method: "tools/call", params: "text" },
        { method: "tools/call" },
        { method: "resources/read", params: { uri: ["secret"] } },
        { method: "resources/list", params: { cursor: {} } },
        { method: "prompts/get", params: { name: "recall", arguments: { topic: 7 } } },
        { method: "prompts/get", params: { name: "recall", arguments: { topic: "tea", extra: "secret" } } },
        { method: "logging/setLevel", params: { level: "secret" } }
      ]
      const found = yield* answers(
        lines(initialize, ...wrong.map((message, n) => ({ jsonrpc: "2.0", id: n + 1, ...message })))
      )
      for (const { error, id } of found.filter(({ id }) => id !== 0)) {
        // params that are no object make the message invalid
        assert.include([-32_602, -32_600], error.code, `${id}`)
        assert.notInclude(error.message, "secret")
      }
      assert.lengthOf(found, wrong.length + 1)
    }))

  it.live("the server ends once its input has ended and all running calls are answered", () =>
    Effect.gen(function*() {
      const found = yield* answers(lines(
        initialize,
        ...Array.from({ length: 50 }, (_, n) =>
          call(n + 1, "remember", { kind: "user", summary: `fact ${n}`, body: `fact ${n}` }))
      ))
      assert.lengthOf(
        found.filter(({ result }) =>
          result?.structuredContent?.id
        ),
        50
      )
    }))

  it.live("the server waits for a client that reads slowly, and loses no answer", () =>
    Effect.gen(function*() {
      const out = yield* Queue.bounded<Uint8Array>(1)
      const got: Array<string> = []
      const server = McpServer.stdio({
        viewer: Viewer.make({ userId: "ada" }),
        stdin: Stream.fromIterable(lines(initialize, ...Array.from({ length: 200 }, (_, n) => call(n + 1, "recall")))),
        stdout: Sink.forEach((bytes: Uint8Array) => Queue.offer(out, bytes))
      })
      const reader = Effect.gen(function*() {
        while (got.length < 201) {
          yield* Effect.yieldNow()
          got.push(decoder.decode(yield* Queue.take(out)))
        }
      })
      yield* Effect.all([server, reader], { concurrency: "unbounded" })
      assert.lengthOf(got, 201)
    }).pipe(Effect.provide(MemoryService.layerTest())))

  it.scopedLive("the server still answers the official client after malformed lines", () =>
    Effect.gen(function*() {
      const { client, stderr, write } = yield* stdio
      yield* write("rubbish\n{\"jsonrpc\":\"2.0\"}\n\n{\"half\n")
      yield* promised(() => client.ping())
      assert.include(yield* tried(() => client.callTool({ name: "no such" })), { code: -32_602 })
      assert.strictEqual(stderr.text(), "")
    }))

  it.scopedLive("the server exits with 0 when the client closes the server's standard input", () =>
    Effect.gen(function*() {
      const { child, exit } = yield* stdio
      child!.stdin!.end()
      assert.strictEqual(yield* exit, 0)
    }))
})
