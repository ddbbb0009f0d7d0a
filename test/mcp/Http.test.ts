/** The MCP server over HTTP: which requests it admits, to whom a session belongs, and how it ends. */
import { NodeContext } from "@effect/platform-node"
import * as FileSystem from "@effect/platform/FileSystem"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as net from "node:net"
import { ask, call, initialize, session } from "./Raw.ts"
import { bobs, httpProcess, promised, tokens, tried } from "./Served.ts"

const folder = Effect.flatMap(FileSystem.FileSystem, (fs) => fs.makeTempDirectoryScoped())

/** Starts a server that requires tokens; returns the headers of ada and bob. */
const guarded = (options: object = {}) =>
  Effect.gen(function*() {
    const { ada, bob, file } = yield* tokens(yield* folder)
    const server = yield* httpProcess({ tokens: file, ...options })
    const bearing = (token: string) => ({ authorization: `Bearer ${token}` })
    return { ...server, tokens: { ada, bob }, ada: bearing(ada), bob: bearing(bob) }
  })

describe("an MCP server over HTTP", () => {
  it.scopedLive("a body that is not exactly one JSON message gets status 400, and a body of invalid JSON also gets error -32700", () =>
    Effect.gen(function*() {
      const { url } = yield* httpProcess()
      const headers = yield* session(url)
      for (const body of ["{", "", "rubbish", "{\"a\":1,}", "\u0000"]) {
        const { json, status } = yield* ask(url, { headers, body })
        assert.deepStrictEqual([status, json.error.code], [400, -32_700], body)
      }
      for (const body of ["7", "null", "{}", "[]", `[${call(1, "recall")}]`]) {
        assert.strictEqual((yield* ask(url, { headers, body })).status, 400, body)
      }
    }))

  it.scopedLive("an answer has the id of its request, whether the id is a string or a number", () =>
    Effect.gen(function*() {
      const { url } = yield* httpProcess()
      const headers = yield* session(url)
      for (const id of ["text", "7", 7, 0, "ü👣"]) {
        const { json } = yield* ask(url, { headers, body: call(id, "recall") })
        assert.strictEqual(json.id, id)
        assert.include(json.result.content[0].text, "no memories matched")
      }
    }))

  it.scopedLive("the server refuses a foreign Host or Origin header with 403, and accepts the allowed hosts and origins", () =>
    Effect.gen(function*() {
      const { url } = yield* httpProcess({ allowedHosts: ["memory.example"], allowedOrigins: ["https://app.example"] })
      const { port } = new URL(url)
      const status = (headers: Record<string, string>) =>
        Effect.map(ask(url, { headers, body: initialize }), ({ status }) => status)
      for (
        const host of [
          "evil.example",
          "localhost.evil.example",
          "127.0.0.1.evil.example",
          "evil@localhost",
          "localhost:x"
        ]
      ) {
        assert.strictEqual(yield* status({ host }), 403, host)
      }
      for (const host of ["localhost", `LOCALHOST:${port}`, "127.0.0.1", "[::1]:80", "memory.example:443"]) {
        assert.strictEqual(yield* status({ host }), 200, host)
      }
      for (
        const origin of ["https://evil.example", "null", "http://localhost:1", "file://", "https://app.example.evil"]
      ) {
        assert.strictEqual(yield* status({ origin }), 403, origin)
      }
      for (const origin of ["https://app.example", `http://127.0.0.1:${port}`]) {
        assert.strictEqual(yield* status({ origin }), 200, origin)
      }
    }))

  it.scopedLive("every request without a valid token gets status 401 and one fixed message, on `/mcp` and on other paths", () =>
    Effect.gen(function*() {
      const { ada, stderr, tokens, url } = yield* guarded()
      const wrong = [
        {},
        { authorization: tokens.ada },
        { authorization: "Bearer" },
        { authorization: "Bearer wrong" },
        {
          authorization: `Basic ${btoa(`ada:${tokens.ada}`)}`
        },
        { authorization: `Bearer ${tokens.ada.slice(0, -1)}` }
      ]
      for (const headers of wrong) {
        for (const path of ["/mcp", "/", "/page", `/mcp?token=${tokens.ada}`]) {
          const { body, headers: answered, status } = yield* ask(url, { headers, path, body: initialize })
          assert.strictEqual(status, 401)
          assert.match(String(answered["www-authenticate"]), /^Bearer/)
          assert.strictEqual(
            body,
            "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32000,\"message\":\"a valid token is needed\"},\"id\":null}"
          )
        }
      }
      assert.strictEqual((yield* ask(url, { headers: ada, body: initialize })).status, 200)
      assert.notInclude(stderr.text(), tokens.ada)
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scopedLive("a request acts for the viewer of its token, and a session refuses requests of other viewers", () =>
    Effect.gen(function*() {
      const { ada, bob, connect, tokens, url } = yield* guarded()
      const [mine, his] = yield* Effect.all([connect(tokens.ada), connect(tokens.bob)])
      assert.include(yield* tried(() => mine.readResource({ uri: `memory://record/${bobs}` })), { code: -32_002 })
      const { contents } = yield* promised(() => his.readResource({ uri: `memory://record/${bobs}` }))
      assert.include(JSON.stringify(contents), "4711")

      const headers = yield* session(url, ada)
      for (const method of ["POST", "GET", "DELETE"]) {
        const body = method === "POST" ? { body: call(1, "recall") } : {}
        const { json, status } = yield* ask(url, { method, headers: { ...headers, ...bob }, ...body })
        assert.deepStrictEqual([status, json.error.code], [404, -32_001])
      }
      assert.strictEqual((yield* ask(url, { headers, body: call(1, "recall") })).status, 200)
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scopedLive("a route that a program adds acts for the viewer of the token, and refuses a foreign Host header with 403", () =>
    Effect.gen(function*() {
      const { ada, bob, url } = yield* guarded()
      assert.strictEqual((yield* ask(url, { method: "GET", path: "/page", headers: ada })).body, "page of ada")
      assert.strictEqual((yield* ask(url, { method: "GET", path: "/mcpage", headers: bob })).body, "page of bob")
      assert.strictEqual(
        (yield* ask(url, { method: "GET", path: "/page", headers: { ...ada, host: "evil" } })).status,
        403
      )
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scopedLive("a DELETE request ends its session: running calls are interrupted, and later requests get 404", () =>
    Effect.gen(function*() {
      const { stderr, url } = yield* httpProcess()
      const headers = yield* session(url)
      const hanging = yield* Effect.fork(ask(url, { headers, body: call("h", "hang") }))
      const events = yield* Effect.fork(ask(url, { method: "GET", headers }))
      yield* stderr.has("hang  began")
      assert.strictEqual((yield* ask(url, { method: "DELETE", headers })).status, 200)
      yield* stderr.has("hang was interrupted")
      assert.include((yield* hanging).json.error.message, "the call was stopped")
      yield* events
      assert.strictEqual((yield* ask(url, { headers, body: call(2, "recall") })).status, 404)
      assert.strictEqual((yield* ask(url, { method: "DELETE", headers })).status, 404)
      assert.strictEqual((yield* ask(url, { method: "GET", headers })).status, 404)
    }))

  it.scopedLive("a request with an unsupported method or header, or without a valid session id, is refused", () =>
    Effect.gen(function*() {
      const { url } = yield* httpProcess()
      const headers = yield* session(url)
      for (const method of ["PUT", "PATCH", "OPTIONS", "HEAD"]) {
        assert.strictEqual((yield* ask(url, { method, headers })).status, 405, method)
      }
      assert.strictEqual((yield* ask(url, { body: call(1, "recall") })).status, 400)
      assert.strictEqual(
        (yield* ask(url, { headers: { "mcp-session-id": "0".repeat(64) }, body: call(1, "recall") })).status,
        404
      )
      assert.strictEqual(
        (yield* ask(url, { headers: { ...headers, accept: "text/html" }, body: call(1, "recall") })).status,
        406
      )
      assert.strictEqual(
        (yield* ask(url, { headers: { ...headers, "content-type": "text/plain" }, body: call(1, "recall") })).status,
        415
      )
      assert.strictEqual(
        (yield* ask(url, { headers: { ...headers, "mcp-protocol-version": "1.0" }, body: call(1, "recall") })).status,
        400
      )
      assert.strictEqual((yield* ask(url, { headers, body: initialize })).status, 400)
    }))

  it.scopedLive("a body of more than 4 MiB is refused, and later requests are still answered", () =>
    Effect.gen(function*() {
      const { url } = yield* httpProcess()
      const headers = yield* session(url)
      const body = call(1, "echo", { text: "x".repeat(4 * 1024 * 1024) })
      for (const framing of [{}, { "transfer-encoding": "chunked" }]) {
        const { json, status } = yield* ask(url, { headers: { ...headers, ...framing }, body })
        assert.deepStrictEqual([status, json.error.message], [413, "a body has 4194304 bytes at most"])
      }
      assert.strictEqual((yield* ask(url, { headers, body: call(2, "recall") })).status, 200)
    }))

  it.scopedLive("a token over its limit of requests per minute gets 429, while other tokens are still served", () =>
    Effect.gen(function*() {
      const { ada, bob, url } = yield* guarded({ requestsPerMinute: 5 })
      const status = (headers: Record<string, string>) => ask(url, { method: "GET", path: "/page", headers })
      const all = yield* Effect.forEach(Array.from({ length: 20 }), () => status(ada))
      assert.isAtLeast(all.filter((answer) => answer.status === 200).length, 5)
      const refused = all.find((answer) => answer.status === 429)!
      assert.match(String(refused.headers["retry-after"]), /^[1-9]\d*$/)
      assert.match(refused.json.error.message, /^too many requests; retry after \d+ s$/)
      assert.strictEqual((yield* status(bob)).status, 200)
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scopedLive("a new session beyond the limit ends the session that was idle longest, and is refused with 429 if none is idle", () =>
    Effect.gen(function*() {
      const { stderr, url } = yield* httpProcess({ maxSessions: 2 })
      const first = yield* session(url)
      const second = yield* session(url)
      yield* ask(url, { headers: first, body: call(1, "recall") })
      const third = yield* session(url)
      const statuses = yield* Effect.forEach(
        [first, second, third],
        (headers) => Effect.map(ask(url, { headers, body: call(1, "recall") }), ({ status }) => status)
      )
      assert.deepStrictEqual(statuses, [200, 404, 200])
      const streams = yield* Effect.forEach(
        [first, third],
        (headers, n) => Effect.fork(ask(url, { headers, body: call(1, "hang", { text: `${n}` }) }))
      )
      yield* Effect.zip(stderr.has("hang 0 began"), stderr.has("hang 1 began"))
      assert.strictEqual((yield* ask(url, { body: initialize })).status, 429)
      yield* Effect.forEach([first, third], (headers) => ask(url, { method: "DELETE", headers }))
      yield* Effect.forEach(streams, (stream) => stream)
    }))

  it.scopedLive("a notification that cancels a request interrupts the call, and ends the request's stream", () =>
    Effect.gen(function*() {
      const { stderr, url } = yield* httpProcess()
      const headers = yield* session(url)
      const hanging = yield* Effect.fork(ask(url, { headers, body: call("h", "hang") }))
      yield* stderr.has("hang  began")
      const cancelled = {
        jsonrpc: "2.0",
        method: "notifications/cancelled",
        params: { requestId: "h", reason: "enough" }
      }
      assert.strictEqual((yield* ask(url, { headers, body: JSON.stringify(cancelled) })).status, 202)
      yield* stderr.has("hang was interrupted")
      assert.strictEqual((yield* hanging).json, undefined)
      assert.strictEqual((yield* ask(url, { headers, body: call("h", "recall") })).json.id, "h")
    }))

  it.scopedLive("SIGTERM stops the server: running calls get an error, and the process exits with 0", () =>
    Effect.gen(function*() {
      const { exit, kill, stderr, url } = yield* httpProcess()
      const headers = yield* session(url)
      const events = yield* Effect.fork(ask(url, { method: "GET", headers }))
      const hanging = yield* Effect.fork(ask(url, { headers, body: call("h", "hang") }))
      const { port } = new URL(url)
      yield* Effect.acquireRelease(
        Effect.async<net.Socket>((resume) => {
          const socket = net.connect(Number(port), "127.0.0.1", () => {
            socket.write("POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{")
            resume(Effect.succeed(socket))
          }).on("error", () => {})
        }),
        (socket) => Effect.sync(() => socket.destroy())
      )
      yield* stderr.has("hang  began")
      yield* kill("SIGTERM")
      assert.include((yield* hanging).json.error.message, "the call was stopped")
      yield* events
      assert.strictEqual(yield* exit, 0)
      assert.strictEqual((yield* ask(url, { headers, body: call(2, "recall") })).status, 0)
    }))
})
