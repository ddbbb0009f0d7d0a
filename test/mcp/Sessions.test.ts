/** The app that serves MCP over HTTP, in this process: behind a guard, as part of a program's server, and as time passes. */
import { NodeHttpServer } from "@effect/platform-node"
import * as HttpApp from "@effect/platform/HttpApp"
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Scope from "effect/Scope"
import * as TestClock from "effect/TestClock"
import { createServer } from "node:http"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as MemoryService from "../../src/harness/MemoryService.ts"
import * as McpServer from "../../src/mcp/McpServer.ts"
import * as McpTokens from "../../src/mcp/McpTokens.ts"
import { call, initialize, usual } from "./Raw.ts"

const ada = Viewer.make({ userId: "ada" })

/** Makes an app behind a guard, and a function that sends it requests. */
const served = (options: McpServer.HttpOptions) =>
  Effect.gen(function*() {
    const guard = yield* McpServer.guard({ viewer: ada, ...options })
    const app = guard(yield* McpServer.httpApp(options))
    const handler = HttpApp.toWebHandlerRuntime(yield* Effect.runtime<never>())(app)
    return (body: string, headers: Readonly<Record<string, string>> = {}, method = "POST") =>
      Effect.promise(() =>
        handler(
          new Request("http://localhost/mcp", {
            method,
            headers: { host: "localhost", ...usual, ...headers },
            ...(method === "POST" && { body })
          })
        )
      )
  })

const begun = (ask: (body: string) => Effect.Effect<Response>) =>
  Effect.gen(function*() {
    const response = yield* ask(initialize)
    yield* Effect.promise(() => response.text())
    return { "mcp-session-id": response.headers.get("mcp-session-id")! }
  })

const status = (response: Effect.Effect<Response>) =>
  Effect.flatMap(response, (response) => Effect.promise(() => response.text().then(() => response.status)))

const memory = MemoryService.layerTest({ spec: { writesPerTurn: 0 } })

describe("sessions of an MCP server over HTTP", () => {
  it.scoped("a session ends if no request comes within the time of the option `idle`", () =>
    Effect.gen(function*() {
      const ask = yield* served({ idle: "10 minutes" })
      const headers = yield* begun(ask)
      for (let n = 0; n < 3; n++) {
        yield* TestClock.adjust("8 minutes")
        assert.strictEqual(yield* status(ask(call(n, "recall"), headers)), 200)
      }
      yield* TestClock.adjust("13 minutes")
      assert.strictEqual(yield* status(ask(call(9, "recall"), headers)), 404)
    }).pipe(Effect.provide(memory)))

  it.scoped("a session does not end while one of its streams is open", () =>
    Effect.gen(function*() {
      const ask = yield* served({ idle: "10 minutes" })
      const headers = yield* begun(ask)
      const stream = yield* ask("", headers, "GET")
      yield* TestClock.adjust("1 hour")
      assert.strictEqual(yield* status(ask(call(1, "recall"), headers)), 200)
      yield* Effect.promise(() => stream.body!.cancel())
      yield* TestClock.adjust("1 hour")
      assert.strictEqual(yield* status(ask(call(1, "recall"), headers)), 404)
    }).pipe(Effect.provide(memory)))

  it.scoped("a viewer has at most `maxSessions` sessions, even if several begin at the same time", () =>
    Effect.gen(function*() {
      const [waiting, go] = yield* Effect.all([Deferred.make<void>(), Deferred.make<void>()])
      const tools = () => Effect.as(Deferred.succeed(waiting, undefined).pipe(Effect.zipRight(Deferred.await(go))), [])
      const ask = yield* served({ maxSessions: 1, tools })
      const first = yield* Effect.fork(status(ask(initialize)))
      yield* Deferred.await(waiting)
      const second = yield* Effect.fork(status(ask(initialize)))
      yield* Effect.promise(() => new Promise((resume) => setImmediate(resume)))
      yield* Deferred.succeed(go, undefined)
      assert.deepStrictEqual([yield* Fiber.join(first), yield* Fiber.join(second)], [200, 429])
    }).pipe(Effect.provide(memory)))

  it.scoped("a session that is still beginning when the server stops is refused with status 503", () =>
    Effect.gen(function*() {
      const [waiting, go] = yield* Effect.all([Deferred.make<void>(), Deferred.make<void>()])
      const tools = () => Effect.as(Deferred.succeed(waiting, undefined).pipe(Effect.zipRight(Deferred.await(go))), [])
      const scope = yield* Scope.make()
      const ask = yield* Scope.extend(served({ tools }), scope)
      const first = yield* Effect.fork(status(ask(initialize)))
      yield* Deferred.await(waiting)
      yield* Scope.close(scope, Exit.void)
      yield* Deferred.succeed(go, undefined)
      assert.strictEqual(yield* Fiber.join(first), 503)
    }).pipe(Effect.provide(memory)))

  it.scoped("requests beyond the limit per minute are refused until enough time has passed", () =>
    Effect.gen(function*() {
      const ask = yield* served({ requestsPerMinute: 6 })
      const statuses = yield* Effect.forEach(Array.from({ length: 8 }), () => status(ask("{")))
      assert.deepStrictEqual(statuses, [400, 400, 400, 400, 400, 400, 429, 429])
      const refused = yield* ask("{")
      assert.strictEqual(refused.headers.get("retry-after"), "10")
      yield* TestClock.adjust("10 seconds")
      assert.deepStrictEqual([yield* status(ask("{")), yield* status(ask("{"))], [400, 429])
      yield* TestClock.adjust("1 hour")
      const later = yield* Effect.forEach(Array.from({ length: 7 }), () => status(ask("{")))
      assert.deepStrictEqual(later, [400, 400, 400, 400, 400, 400, 429])
    }).pipe(Effect.provide(memory)))
})

describe("an MCP server over HTTP", () => {
  const on = (host: string, options: McpServer.HttpOptions) =>
    Layer.build(McpServer.layerHttp(options)).pipe(
      Effect.as("served"),
      Effect.catchAll(({ message, reason }) => Effect.succeed(`${reason}: ${message}`)),
      Effect.provide(NodeHttpServer.layer(() => createServer(), { host, port: 0 })),
      Effect.provide(memory),
      Effect.provide(Logger.remove(Logger.defaultLogger)),
      Effect.scoped
    )

  it.live("a server without tokens needs a viewer and an address that other machines cannot reach", () =>
    Effect.gen(function*() {
      const { line } = yield* McpTokens.generate("one", ada)
      const tokens = yield* McpTokens.fromText(line)
      assert.strictEqual(yield* on("127.0.0.1", { viewer: ada }), "served")
      assert.strictEqual(yield* on("localhost", { viewer: ada }), "served")
      assert.strictEqual(
        yield* on("0.0.0.0", { viewer: ada }),
        "unsupported: tokens are needed on an address that other machines reach"
      )
      assert.strictEqual(yield* on("127.0.0.1", {}), "unsupported: a viewer or tokens are needed")
      assert.strictEqual(yield* on("0.0.0.0", { tokens }), "served")
    }))
})
