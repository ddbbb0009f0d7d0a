/**
 * A server of the Model Context Protocol (MCP). It offers a `MemoryService` to clients as tools, resources and prompts. Over standard input
 * and output, it serves one viewer. Over streamable HTTP, it can serve one viewer per bearer token.
 *
 * The configuration or the token determines the viewer. No argument of a call can change the viewer. A call is interrupted when the client
 * cancels it. A call with a defect is answered with "internal error". Responses and logs to the client contain no stack traces. Other logs
 * contain none if `layerLogger` is provided.
 *
 * Set `writesPerTurn: 0` (no limit) in the `spec` of `MemoryService`. MCP has no turns, so a limit per turn would apply to a session.
 *
 * ```ts
 * import { Client } from "@modelcontextprotocol/sdk/client/index.js"
 * import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js"
 * import { HttpServer } from "@effect/platform"
 * import { NodeHttpServer } from "@effect/platform-node"
 * import { Effect, Layer } from "effect"
 * import { MemoryService, Viewer } from "effect-memory"
 * import { McpServer } from "effect-memory/mcp"
 * import { createServer } from "node:http"
 *
 * const Server = McpServer.layerHttp({ viewer: Viewer.make({ userId: "ada" }) }).pipe(
 *   Layer.provide(MemoryService.layerTest({ spec: { writesPerTurn: 0 } })),
 *   Layer.provideMerge(NodeHttpServer.layer(() => createServer(), { host: "127.0.0.1", port: 0 }))
 * )
 *
 * const program = Effect.gen(function*() {
 *   const { address } = yield* HttpServer.HttpServer
 *   const port = address._tag === "TcpAddress" ? address.port : 0
 *   const client = new Client({ name: "example", version: "1.0.0" })
 *   yield* Effect.promise(() => client.connect(new StreamableHTTPClientTransport(new URL(`http://127.0.0.1:${port}/mcp`))))
 *   const { tools } = yield* Effect.promise(() => client.listTools())
 *   yield* Effect.promise(() => client.close())
 *   return tools.map(({ name }) => name)
 * })
 *
 * await program.pipe(Effect.provide(Server), Effect.scoped, Effect.runPromise) // => ["remember", "recall"]
 * ```
 */
import type * as HttpApp from "@effect/platform/HttpApp"
import * as HttpServer from "@effect/platform/HttpServer"
import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import type * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import type * as Sink from "effect/Sink"
import type * as Stream from "effect/Stream"
import * as MemoryError from "../domain/MemoryError.ts"
import type { Viewer } from "../domain/Viewer.ts"
import type * as MemoryService from "../harness/MemoryService.ts"
import * as HttpGuard from "./HttpGuard.ts"
import * as McpError from "./McpError.ts"
import * as McpHttp from "./McpHttp.ts"
import * as McpLogger from "./McpLogger.ts"
import * as McpProtocol from "./McpProtocol.ts"
import * as McpSession from "./McpSession.ts"

/** Options that all servers have, both over standard input and output and over HTTP. */
export interface Options extends McpSession.Options {}

/** Options of a server over standard input and output. */
export interface StdioOptions extends Options {
  readonly viewer: Viewer
  /** The bytes from the client: `NodeStream.stdin` of @effect/platform-node. */
  readonly stdin: Stream.Stream<Uint8Array, unknown>
  /** The bytes to the client: `NodeSink.stdout` of @effect/platform-node. Nothing else may write to this output. */
  readonly stdout: Sink.Sink<unknown, Uint8Array, unknown, unknown>
  /** Longest wait for running requests once the input has ended or the fiber is interrupted. Default 5 seconds. */
  readonly grace?: Duration.DurationInput | undefined
}

/** Options of a server over HTTP: all options of `layerHttp`, except `routes` and `assets`. */
export interface HttpOptions extends AppOptions, HttpGuard.Access {}

/** Options of the app that `httpApp` makes. */
export interface AppOptions extends McpHttp.Options {}

/** `Access` says who may use a server over HTTP, and how often. A `Guard` adds these checks to an app. */
export type { Access, Guard } from "./HttpGuard.ts"

/**
 * Sends all logs of the program to stderr, one line per log. The logs contain no stack traces and no texts of defects. Provide this layer
 * as the outermost one if the program serves over standard output. A log on stdout would break the protocol.
 */
export const layerLogger: Layer.Layer<never> = McpLogger.layer

/** The default instructions, which tell a model what the memory server is for. */
export const instructions: string = McpSession.instructions

/** Serves a viewer's memory over standard input and output, until the input ends or the output fails. Fails if `options.tools` fails. */
export const stdio = (
  options: StdioOptions
): Effect.Effect<void, MemoryError.MemoryError, MemoryService.MemoryService> =>
  Effect.flatMap(
    McpSession.make(options.viewer, options),
    (session) =>
      McpProtocol.stdio(McpSession.infoOf(options), session, {
        stdin: options.stdin,
        stdout: options.stdout,
        grace: options.grace ?? "5 seconds"
      })
  )

/**
 * Makes the app that serves MCP over streamable HTTP. Each request acts on behalf of the `CurrentViewer` in its context. Use `guard` to
 * provide this viewer. The app is made in an Effect scope. All sessions end when this scope closes.
 */
export const httpApp = (
  options: AppOptions = {}
): Effect.Effect<
  HttpApp.Default<never, MemoryService.CurrentViewer | Scope.Scope>,
  never,
  MemoryService.MemoryService | Scope.Scope
> => Effect.map(McpHttp.make(options), ({ app }) => app)

/**
 * Makes a function that adds the checks of `layerHttp` to an app: Host, Origin, token and rate. Use this function for other routes of your
 * program. A request that passes acts on behalf of its token's viewer. Without `access.tokens`, it acts on behalf of `access.viewer`.
 */
export const guard: (access: HttpGuard.Access) => Effect.Effect<HttpGuard.Guard> = HttpGuard.make

/** Adds checks of the headers Host and Origin to an app, but no check of a token. The app must not serve secrets. */
export const checkHost: (
  access: Pick<HttpGuard.Access, "allowedHosts" | "allowedOrigins">
) => <E, R>(app: HttpApp.Default<E, R>) => HttpApp.Default<E, R> = HttpGuard.checkHost

/**
 * Serves MCP over HTTP at `/mcp`, on the `HttpServer` of the context. The app `routes` handles all other paths. Requests to `routes` must
 * pass the same checks as requests to `/mcp`, so `routes` may use the current viewer.
 *
 * The function `assets` is called first, with the path of each GET or HEAD request. A request that `assets` answers needs no token; only
 * Host and Origin are checked. So `assets` must return nothing secret. It can return, for example, the page that asks for a token.
 *
 * Fails with `unsupported` if neither `tokens` nor `viewer` is set. Without `tokens`, also fails if other machines can reach the server's
 * address. The server stops when the Effect scope of the layer closes. It then rejects new requests to `/mcp`, and waits for running ones
 * at most for `grace`. Finally, it interrupts requests to `/mcp` that still run, and ends all sessions.
 */
export const layerHttp = <E = never, R = never>(
  options: HttpOptions & {
    readonly routes?: HttpApp.Default<E, R> | undefined
    readonly assets?: ((path: string) => HttpServerResponse.HttpServerResponse | undefined) | undefined
  }
): Layer.Layer<
  never,
  MemoryError.MemoryError,
  | MemoryService.MemoryService
  | HttpServer.HttpServer
  | Exclude<Exclude<Exclude<R, MemoryService.CurrentViewer>, HttpServerRequest.HttpServerRequest>, Scope.Scope>
> =>
  Layer.scopedDiscard(Effect.gen(function*() {
    const { address } = yield* HttpServer.HttpServer
    if (options.tokens === undefined) {
      if (options.viewer === undefined) return yield* refused("a viewer or tokens are needed")
      if (address._tag === "TcpAddress" && !HttpGuard.isLoopback(address.hostname)) {
        return yield* refused("tokens are needed on an address that other machines reach")
      }
    }
    const mcp = yield* McpHttp.make(options)
    const guarded = yield* HttpGuard.make(options)
    const { assets, routes } = options
    const app = Effect.flatMap(
      HttpServerRequest.HttpServerRequest,
      ({ url }): HttpApp.Default<E, R | MemoryService.CurrentViewer | Scope.Scope> =>
        /^\/mcp\/?(?:\?|$)/.test(url) ? mcp.app : routes ?? Effect.succeed(notFound)
    )
    const checkedHost = HttpGuard.checkHost(options)
    const open = assets === undefined ? guarded(app) : Effect.flatMap(
      HttpServerRequest.HttpServerRequest,
      ({ method, url }): ReturnType<typeof guarded<E, R | MemoryService.CurrentViewer | Scope.Scope>> => {
        const asset = method === "GET" || method === "HEAD" ? assets(url.replace(/\?.*$/s, "")) : undefined
        return asset === undefined ? guarded(app) : checkedHost(Effect.succeed(asset))
      }
    )
    yield* HttpServer.serveEffect(open)
    yield* Effect.addFinalizer(() => mcp.stop)
    yield* Effect.logInfo(`MCP at ${HttpServer.formatAddress(address)}/mcp`)
  }))

const notFound = HttpGuard.refusal(404, McpError.make("refused", "there is nothing here; MCP is at /mcp"))

const refused = (message: string) => MemoryError.make("unsupported", { op: "McpServer.layerHttp", message })
