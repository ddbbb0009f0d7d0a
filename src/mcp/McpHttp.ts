/**
 * Serves MCP over streamable HTTP, as an app of @effect/platform. A session is the conversation of one client. The session belongs to the
 * viewer that began it. Other viewers get the answer that there is no such session.
 */
import type * as HttpApp from "@effect/platform/HttpApp"
import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as ExecutionStrategy from "effect/ExecutionStrategy"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { canonicalJson } from "../domain/Digest.ts"
import * as Viewer from "../domain/Viewer.ts"
import * as MemoryService from "../harness/MemoryService.ts"
import { failureOf } from "../host/MemoryTool.ts"
import * as SecureRandom from "../host/SecureRandom.ts"
import { refusal } from "./HttpGuard.ts"
import * as McpError from "./McpError.ts"
import * as McpProtocol from "./McpProtocol.ts"
import * as McpSession from "./McpSession.ts"

/** Options of the app that serves MCP over HTTP. */
export interface Options extends McpSession.Options {
  /** Largest size of a request's body in bytes. A request with a larger body is answered with 413. Default 4 MiB. */
  readonly maxBodyBytes?: number | undefined
  /**
   * Largest number of sessions of a viewer. Default 64. If the viewer starts one more session, the viewer's session that has been idle
   * longest ends. If no session is idle, the new session is rejected.
   */
  readonly maxSessions?: number | undefined
  /** Time after which an idle session ends. An idle session has no running request and no open stream. Default 30 minutes. */
  readonly idle?: Duration.DurationInput | undefined
  /** Longest time that the server waits for running requests when the server stops. Default 5 seconds. */
  readonly grace?: Duration.DurationInput | undefined
}

interface Session {
  readonly id: string
  readonly owner: string
  readonly scope: Scope.CloseableScope
  readonly connection: McpProtocol.HttpConnection
  /** Number of responses that are still being sent. */
  open: number
  /** Time at which the session began or its last response ended, epoch milliseconds. */
  usedAt: number
}

/** The app, and the effect that stops it. A stopped app answers requests with 503. */
export interface Mcp {
  readonly app: HttpApp.Default<never, MemoryService.CurrentViewer | Scope.Scope>
  /** Waits for the running requests, at most for `Options.grace`, and then ends all sessions. */
  readonly stop: Effect.Effect<void>
}

/** Time within which the whole body of a request must arrive. */
const bodyTimeout = Duration.seconds(30)

/** Makes the app that serves MCP over HTTP. The app stops when the Effect scope closes. */
export const make = (options: Options): Effect.Effect<Mcp, never, MemoryService.MemoryService | Scope.Scope> =>
  Effect.gen(function*() {
    const { grace = "5 seconds", idle = "30 minutes", maxBodyBytes = 4 * 1024 * 1024, maxSessions = 64 } = options
    const memory = yield* MemoryService.MemoryService
    const info = McpSession.infoOf(options)
    const idleMillis = Duration.toMillis(idle)
    const sessions = new Map<string, Session>()
    const beginning = new Map<string, number>() // number of sessions that are being made, by owner
    const stopping = yield* Deferred.make<void>()
    let stopped = false

    const end = (session: Session): Effect.Effect<void> =>
      Effect.suspend(() => sessions.delete(session.id) ? Scope.close(session.scope, Exit.void) : Effect.void)

    const isIdle = (session: Session): Effect.Effect<boolean> =>
      Effect.map(session.connection.running, (running) => running === 0 && session.open === 0)

    /**
     * Makes room for a new session of the owner. If the owner has more than `maxSessions` sessions, the one that has been idle longest
     * ends. Returns false if none is idle. The sessions in `beginning` count, the new one among them, but are not idle.
     */
    const makeRoom = (owner: string): Effect.Effect<boolean> =>
      Effect.gen(function*() {
        const owned = Array.from(sessions.values()).filter((session) => session.owner === owner)
        if (owned.length + (beginning.get(owner) ?? 0) <= maxSessions) return true
        const [oldest] = (yield* Effect.filter(owned, isIdle)).sort((a, b) => a.usedAt - b.usedAt)
        if (oldest === undefined) return false
        if (!sessions.has(oldest.id)) return yield* Effect.suspend(() => makeRoom(owner)) // it has ended in the meantime
        yield* end(oldest)
        return true
      })

    const makeSession = (viewer: Viewer.Viewer, owner: string) =>
      Effect.gen(function*() {
        const id = yield* SecureRandom.secret
        const conversation = yield* McpSession.make(viewer, options)
        const scope = yield* Scope.make(ExecutionStrategy.sequential)
        const connection = yield* Scope.extend(McpProtocol.http(info, conversation, id), scope)
        const session: Session = { id, owner, scope, connection, open: 0, usedAt: yield* Clock.currentTimeMillis }
        sessions.set(id, session)
        return session
      }).pipe(Effect.provideService(MemoryService.MemoryService, memory))

    const countBeginning = (owner: string, by: 1 | -1) =>
      Effect.sync(() => {
        const count = (beginning.get(owner) ?? 0) + by
        if (count === 0) beginning.delete(owner)
        else beginning.set(owner, count)
      })
    const begin = (viewer: Viewer.Viewer, owner: string) =>
      Effect.acquireUseRelease(
        countBeginning(owner, 1),
        () =>
          Effect.gen(function*() {
            if (!(yield* makeRoom(owner))) {
              return yield* refused(429, McpError.make("refused", `more than ${maxSessions} sessions are in use`))
            }
            return yield* makeSession(viewer, owner).pipe(
              Effect.mapError((error) =>
                refusal(503, McpError.make("refused", `${error.reason}: ${failureOf(error).message}`))
              ),
              Effect.tap((session) =>
                stopped
                  ? Effect.zipRight(end(session), refused(503, stoppingError, { connection: "close" }))
                  : Effect.void
              ),
              Effect.uninterruptible // a session that began is ended by `stop`, or here
            )
          }),
        () => countBeginning(owner, -1)
      )

    const post = (request: HttpServerRequest.HttpServerRequest, viewer: Viewer.Viewer, owner: string) =>
      Effect.gen(function*() {
        const body = yield* bodyOf(request, maxBodyBytes, Deferred.await(stopping))
        if (Array.isArray(body)) return yield* refused(400, McpError.make("invalidRequest", "expected one message"))
        if (request.headers[sessionHeader] === undefined && McpProtocol.isInitialize(body)) {
          const session = yield* begin(viewer, owner)
          const response = yield* answer(session, request, body)
          if (response.status !== 200) yield* end(session)
          return response
        }
        return yield* answer(yield* known(request, owner), request, body)
      })

    /** Returns the session whose id is in the request's header. Fails with an error response if the owner has no such session. */
    const known = (request: HttpServerRequest.HttpServerRequest, owner: string) =>
      Effect.suspend(() => {
        const id = request.headers[sessionHeader]
        if (id === undefined) return refused(400, McpError.make("refused", "the header Mcp-Session-Id is needed"))
        const session = sessions.get(id)
        return session === undefined || session.owner !== owner
          ? refused(404, McpError.make("noSession", "there is no such session"))
          : Effect.succeed(session)
      })

    const answer = (session: Session, request: HttpServerRequest.HttpServerRequest, body: unknown) =>
      Effect.gen(function*() {
        session.open++
        yield* Effect.addFinalizer(() =>
          Effect.map(Clock.currentTimeMillis, (now) => {
            session.open--
            session.usedAt = now
          })
        )
        return yield* sent(yield* session.connection.respond(webRequestOf(request), body))
      })

    const handle = Effect.gen(function*() {
      if (stopped) return yield* refused(503, stoppingError, { connection: "close" })
      const request = yield* HttpServerRequest.HttpServerRequest
      const viewer = yield* MemoryService.CurrentViewer
      const owner = ownerOf(viewer)
      switch (request.method) {
        case "POST":
          return yield* post(request, viewer, owner)
        case "GET":
          return yield* answer(yield* known(request, owner), request, undefined)
        case "DELETE":
          yield* end(yield* known(request, owner))
          return HttpServerResponse.empty({ status: 200 })
        default:
          return yield* refused(405, McpError.make("refused", "expected POST, GET or DELETE"), {
            allow: "POST, GET, DELETE"
          })
      }
    })

    const stop = Effect.gen(function*() {
      stopped = true
      yield* Deferred.succeed(stopping, undefined)
      yield* Effect.forEach(sessions.values(), ({ connection }) => connection.idle(grace), {
        concurrency: "unbounded",
        discard: true
      })
      yield* Effect.forEach(Array.from(sessions.values()), end, { discard: true })
    })
    yield* Effect.addFinalizer(() => stop)

    const sweep = Effect.gen(function*() {
      yield* Effect.sleep(Duration.millis(Math.max(1_000, idleMillis / 4)))
      const now = yield* Clock.currentTimeMillis
      const due = Array.from(sessions.values()).filter(({ usedAt }) => now - usedAt >= idleMillis)
      yield* Effect.forEach(yield* Effect.filter(due, isIdle), end, { discard: true })
    })
    yield* Effect.forkScoped(Effect.interruptible(Effect.forever(sweep)))

    return {
      stop,
      app: handle.pipe(
        Effect.catchAll(Effect.succeed),
        Effect.catchAllDefect((defect) =>
          Effect.as(McpSession.logDefect("a request", defect), refusal(500, McpError.internal))
        )
      )
    }
  })

const sessionHeader = "mcp-session-id"
const stoppingError = McpError.make("refused", "the server stops")

/** Returns the key of a viewer. Equal viewers have equal keys. The `owner` of a session is such a key. */
const ownerOf = (viewer: Viewer.Viewer): string =>
  canonicalJson([Viewer.tenantOf(viewer), viewer.reach, Viewer.idsOf(viewer)]).normalize("NFC")

const refused = (...args: Parameters<typeof refusal>): Effect.Effect<never, HttpServerResponse.HttpServerResponse> =>
  Effect.fail(refusal(...args))

/**
 * Reads the body of a request as JSON. Fails if the body is too large, too late, unreadable or not JSON, or if the server stops. The
 * failure is the response to send.
 */
const bodyOf = (
  request: HttpServerRequest.HttpServerRequest,
  maxBytes: number,
  stopping: Effect.Effect<void>
): Effect.Effect<unknown, HttpServerResponse.HttpServerResponse> => {
  const tooLarge = refusal(413, McpError.make("refused", `a body has ${maxBytes} bytes at most`))
  if (Number(request.headers["content-length"] ?? 0) > maxBytes) return Effect.fail(tooLarge)
  return textOf(request, maxBytes).pipe(
    Effect.interruptible,
    Effect.raceFirst(Effect.zipRight(Effect.interruptible(stopping), Effect.fail("stopping" as const))),
    Effect.timeoutFail({ duration: bodyTimeout, onTimeout: () => "late" as const }),
    Effect.mapError((error) =>
      error === "late"
        ? refusal(408, McpError.make("refused", "the body did not arrive in time"), { connection: "close" })
        : error === "stopping"
        ? refusal(503, stoppingError, { connection: "close" })
        : refusal(400, McpError.make("refused", "the body could not be read"), { connection: "close" })
    ),
    Effect.flatMap(Effect.mapError(() => tooLarge)),
    Effect.flatMap((text) =>
      Effect.try({
        try: () => JSON.parse(text) as unknown,
        catch: () => refusal(400, McpError.make("parse", "the body is not JSON"))
      })
    )
  )
}

/**
 * Reads the body of a request. Returns `None` if no length is declared and the body has more than `maxBytes` bytes. The bytes beyond are
 * read too, but not kept: Node resets the connection of a partly read body, and the client would not see the response.
 */
const textOf = (request: HttpServerRequest.HttpServerRequest, maxBytes: number) =>
  Effect.suspend(() => {
    if (request.headers["content-length"] !== undefined) return Effect.asSome(request.text)
    const decoder = new TextDecoder()
    let bytes = 0
    let text = ""
    const read = Stream.runForEach(request.stream, (chunk) =>
      Effect.sync(() => {
        bytes += chunk.length
        text = bytes > maxBytes ? "" : text + decoder.decode(chunk, { stream: true })
      }))
    return Effect.map(read, () => bytes > maxBytes ? Option.none() : Option.some(text + decoder.decode()))
  })

/** The request headers that are passed to the SDK's transport. The header with the bearer token is not passed. */
const passedOn = ["accept", "content-type", "last-event-id", "mcp-protocol-version", sessionHeader]

const webRequestOf = ({ headers, method }: HttpServerRequest.HttpServerRequest): Request =>
  new Request("http://localhost/mcp", {
    method,
    headers: passedOn.flatMap((name): Array<[string, string]> => {
      const value = headers[name]
      return value === undefined ? [] : [[name, value]]
    })
  })

/**
 * Converts a response of the SDK's transport to a response of @effect/platform. The stream of the body is cancelled when the request ends,
 * even if unread parts remain.
 */
const sent = (response: Response): Effect.Effect<HttpServerResponse.HttpServerResponse, never, Scope.Scope> =>
  Effect.gen(function*() {
    const { body, status } = response
    const headers = Object.fromEntries(response.headers)
    delete headers["connection"]
    if (body === null) return HttpServerResponse.empty({ status, headers })
    if (headers["content-type"] !== "text/event-stream") {
      return HttpServerResponse.text(yield* Effect.promise(() => response.text()), {
        status,
        headers,
        contentType: headers["content-type"] ?? "text/plain"
      })
    }
    const reader = yield* Effect.acquireRelease(
      Effect.sync(() => body.getReader()),
      (reader) => Effect.promise(() => reader.cancel())
    )
    const events = Stream.repeatEffectOption(
      Effect.flatMap(
        Effect.promise(() => reader.read()),
        ({ done, value }) => done ? Effect.fail(Option.none<never>()) : Effect.succeed(value)
      )
    )
    return HttpServerResponse.stream(events, { status, headers, contentType: "text/event-stream" })
  })
