/**
 * Wraps the server of the official MCP SDK in Effect. Only this module imports the SDK. Each request runs in a fiber of its own. The fiber
 * is interrupted when the client cancels the request or the session ends.
 */
import { Server } from "@modelcontextprotocol/sdk/server/index.js"
import { WebStandardStreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js"
import type { Transport } from "@modelcontextprotocol/sdk/shared/transport.js"
import { isInitializeRequest, type JSONRPCMessage, JSONRPCMessageSchema } from "@modelcontextprotocol/sdk/types.js"
import * as Cause from "effect/Cause"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as FiberId from "effect/FiberId"
import * as FiberSet from "effect/FiberSet"
import * as Mailbox from "effect/Mailbox"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Queue from "effect/Queue"
import type * as Scope from "effect/Scope"
import type * as Sink from "effect/Sink"
import * as Stream from "effect/Stream"
import * as EventLoop from "../host/EventLoop.ts"
import * as McpError from "./McpError.ts"
import type * as McpLogger from "./McpLogger.ts"
import type { Session } from "./McpSession.ts"

/** The name, the version and the instructions that a client receives when it connects. */
export interface Info {
  readonly name: string
  readonly version: string
  readonly instructions: string
}

/** Largest number of requests that run at once on a connection. Any further request is rejected. */
const maxCalls = 1_024

/** Largest number of logs of one request that wait to be sent. If more logs wait, the oldest are dropped. */
const maxLogs = 256

/** Longest line on stdin, in bytes. A longer line is answered with an error and skipped. */
const maxLine = 8 * 1024 * 1024

/** Whether a message is the `initialize` request, which begins a session. */
export const isInitialize = (message: unknown): boolean => isInitializeRequest(message)

interface Connection {
  readonly server: Server
  /** The running requests. */
  readonly calls: FiberSet.FiberSet<object, McpError.McpError>
}

/**
 * Connects a session to a transport. When the Effect scope closes, running requests are interrupted and answered with an error. Then the
 * transport is closed. A request that the client cancels gets no answer; `cancelled` is called with the id of the request.
 */
const connect = (
  info: Info,
  session: Session,
  transport: Transport,
  cancelled: (id: string | number) => void
): Effect.Effect<Connection, never, Scope.Scope> =>
  Effect.gen(function*() {
    const server = new Server({ name: info.name, version: info.version }, {
      capabilities: { tools: {}, resources: {}, prompts: {}, logging: {} },
      instructions: info.instructions,
      jsonSchemaValidator: noValidator
    })
    server.removeRequestHandler("logging/setLevel") // `session` handles this request, since it stores the level
    yield* Effect.addFinalizer(() => Effect.promise(() => server.close()))
    yield* Effect.addFinalizer(() => EventLoop.sleepLive(0)) // gives the SDK time to answer the interrupted requests
    const calls = yield* FiberSet.make<object, McpError.McpError>()
    const run = yield* FiberSet.runtime(calls)<never>()
    const debugging = yield* FiberSet.makeRuntime<never>()
    server.onerror = (error) => {
      debugging(Effect.logDebug("a message of MCP could not be handled", error))
    }
    server.fallbackRequestHandler = ({ method, params }, { requestId, sendNotification, signal }) =>
      new Promise((resolve, reject) => {
        if (Array.from(calls).length >= maxCalls) {
          return reject(McpError.make("refused", `more than ${maxCalls} requests run at once`))
        }
        const notify = (method: string, params: object) =>
          // cast: `notify` gets only notifications that MCP defines
          Effect.tryPromise(() => sendNotification({ method, params: { ...params } } as never)).pipe(
            Effect.catchAll((error) => Effect.logDebug("a notification could not be sent", error))
          )
        const fiber = run(
          Effect.interruptible(logging(notify, (log) => session.handle({ method, params, notify, log })))
        )
        const abort = () => fiber.unsafeInterruptAsFork(FiberId.none)
        signal.addEventListener("abort", abort, { once: true })
        fiber.addObserver((exit) => {
          signal.removeEventListener("abort", abort)
          if (Exit.isSuccess(exit)) resolve({ ...exit.value })
          else reject(Option.getOrElse(Cause.failureOption(exit.cause), () => McpError.stopped))
          if (signal.aborted) cancelled(requestId)
        })
      })
    yield* Effect.promise(() => server.connect(transport))
    return { server, calls }
  })

/** Runs a request, and sends its logs to the client. Waiting logs are sent before the answer. */
const logging = <A, E>(
  notify: (method: string, params: object) => Effect.Effect<void>,
  handle: (log: (notice: McpLogger.Notice) => void) => Effect.Effect<A, E>
): Effect.Effect<A, E> =>
  Effect.gen(function*() {
    const notices = yield* Queue.sliding<McpLogger.Notice>(maxLogs)
    const send = (notice: McpLogger.Notice) => notify("notifications/message", notice)
    const sending = yield* Effect.fork(Effect.forever(Effect.flatMap(Queue.take(notices), send)))
    const rest = Effect.zipRight(
      Fiber.interrupt(sending),
      Effect.flatMap(Queue.takeAll(notices), (left) => Effect.forEach(left, send, { discard: true }))
    )
    return yield* Effect.ensuring(handle((notice) => notices.unsafeOffer(notice)), rest)
  })

/** Replaces the SDK's default validator of the user's answers. It is never used, since this server asks no questions. */
const noValidator = {
  getValidator: () => () => ({ valid: false as const, data: undefined, errorMessage: "nothing was asked" })
}

/** Waits until no request runs, at most for `grace`. */
const idle = (calls: Connection["calls"], grace: Duration.DurationInput) =>
  Effect.zipRight(atMost(FiberSet.awaitEmpty(calls), grace), EventLoop.sleepLive(0))

/** Runs an effect for at most the given time. The effect becomes interruptible, so the limit holds in finalizers, too. */
const atMost = <A, E>(self: Effect.Effect<A, E>, time: Duration.DurationInput) =>
  Effect.timeoutOption(Effect.interruptible(self), time)

/** Standard input and output. `grace` is the longest wait for running requests after the input has ended. */
export interface Stdio {
  readonly stdin: Stream.Stream<Uint8Array, unknown>
  readonly stdout: Sink.Sink<unknown, Uint8Array, unknown, unknown>
  readonly grace: Duration.DurationInput
}

/**
 * Serves a session over standard input and output. Ends when the input ends or the output fails. Each line is one message. A line that is
 * not a valid message is answered with an error.
 */
export const stdio = (info: Info, session: Session, { grace, stdin, stdout }: Stdio): Effect.Effect<void> =>
  Effect.scoped(Effect.gen(function*() {
    const out = yield* Mailbox.make<Uint8Array>(16)
    const writing = yield* Effect.forkScoped(Effect.exit(Stream.run(Mailbox.toStream(out), stdout)))
    yield* Effect.addFinalizer(() => Effect.zipRight(out.end, atMost(Fiber.join(writing), grace)))
    const sends = yield* FiberSet.make<unknown>()
    const send = yield* FiberSet.runtimePromise(sends)<never>()
    const write = (message: object) => out.offer(encoder.encode(`${JSON.stringify(message)}\n`))
    yield* Effect.addFinalizer(() => atMost(FiberSet.awaitEmpty(sends), grace))

    const transport: Transport = {
      start: () => Promise.resolve(),
      send: (message) => send(Effect.asVoid(write(message))),
      close: () => {
        transport.onclose?.()
        return Promise.resolve()
      }
    }
    const { calls } = yield* connect(info, session, transport, () => {})
    yield* Effect.addFinalizer(() => idle(calls, grace))
    yield* lines(stdin).pipe(
      Stream.runForEach((line) => {
        const read = messageOf(line)
        return Either.isLeft(read)
          ? Effect.asVoid(write({ jsonrpc: "2.0", ...read.left }))
          : Effect.sync(() => transport.onmessage?.(read.right))
      }),
      Effect.catchAll((error) => Effect.logDebug("standard input failed", error)),
      Effect.raceFirst(Fiber.join(writing))
    )
  }))

const encoder = new TextEncoder()
const decoder = new TextDecoder()
const newline = 0x0a

/** Splits bytes into the lines that end with a newline. Skips blank lines. A line longer than `maxLine` becomes `undefined`. */
const lines = (bytes: Stream.Stream<Uint8Array, unknown>): Stream.Stream<Uint8Array | undefined, unknown> =>
  Stream.suspend(() => {
    let parts: Array<Uint8Array> = []
    let size = 0
    const add = (part: Uint8Array) => {
      size += part.length
      if (size > maxLine) parts = []
      else if (part.length > 0) parts.push(part)
    }
    const completeLines = (): ReadonlyArray<Uint8Array | undefined> => {
      const line = new Uint8Array(size > maxLine ? 0 : size)
      let at = 0
      for (const part of parts) {
        line.set(part, at)
        at += part.length
      }
      const isLong = size > maxLine
      parts = []
      size = 0
      return isLong ? [undefined] : line.some((byte) => byte > 0x20) ? [line] : []
    }
    return Stream.mapConcat(bytes, (chunk) => {
      const found: Array<Uint8Array | undefined> = []
      let from = 0
      for (let end = chunk.indexOf(newline); end >= 0; end = chunk.indexOf(newline, from)) {
        add(chunk.subarray(from, end))
        found.push(...completeLines())
        from = end + 1
      }
      add(new Uint8Array(chunk.subarray(from))) // a copy, since the source may reuse its buffer
      return found
    })
  })

/** The error response to an invalid line. `id` is the id in the line, or null if there is none. */
interface Refusal {
  readonly id: string | number | null
  readonly error: { readonly code: number; readonly message: string }
}

const refusal = (code: keyof typeof McpError.codes, message: string, id: Refusal["id"] = null): Refusal => ({
  id,
  error: { code: McpError.codes[code], message }
})

const messageOf = (line: Uint8Array | undefined): Either.Either<JSONRPCMessage, Refusal> => {
  if (line === undefined) return Either.left(refusal("invalidRequest", `a line has ${maxLine} bytes at most`))
  let json: unknown
  try {
    json = JSON.parse(decoder.decode(line))
  } catch {
    return Either.left(refusal("parse", "the line is not JSON"))
  }
  const parsed = JSONRPCMessageSchema.safeParse(json)
  if (parsed.success) return Either.right(parsed.data)
  const id = Predicate.hasProperty(json, "id") && (typeof json.id === "string" || Number.isSafeInteger(json.id))
    ? json.id as string | number // the condition above checks the type
    : null
  return Either.left(refusal("invalidRequest", "the line is no message of JSON-RPC", id))
}

/** A session over HTTP. Answers are sent as event streams. */
export interface HttpConnection {
  /**
   * Handles a request. `body` is the request's body as parsed JSON. The response to a POST ends when all requests in `body` are answered or
   * cancelled. Any response ends when the session's Effect scope closes.
   */
  readonly respond: (request: Request, body: unknown) => Effect.Effect<Response>
  /** Number of requests that run now. */
  readonly running: Effect.Effect<number>
  /** Waits until no request runs, at most for `grace`. */
  readonly idle: (grace: Duration.DurationInput) => Effect.Effect<void>
}

/** Connects a session to HTTP under the session id `id`. The session's streams end when the Effect scope closes. */
export const http = (info: Info, session: Session, id: string): Effect.Effect<HttpConnection, never, Scope.Scope> =>
  Effect.gen(function*() {
    const transport = new WebStandardStreamableHTTPServerTransport({ sessionIdGenerator: () => id })
    const { calls } = yield* connect(info, session, transport as Transport, (id) => {
      // the client expects no answer to a cancelled request, so the stream of the answer is closed first. `send` then sends nothing, but
      // makes the transport forget the id of the request.
      transport.closeSSEStream(id)
      transport.send({ jsonrpc: "2.0", id, error: { ...McpError.stopped } }).catch(() => {}) // `send` rejects, since the stream is closed
    })
    return {
      respond: (request, parsedBody) => Effect.promise(() => transport.handleRequest(request, { parsedBody })),
      running: FiberSet.size(calls),
      idle: (grace) => Effect.asVoid(idle(calls, grace))
    }
  })
