/**
 * The checks that an HTTP request must pass before it acts on behalf of a viewer.
 *
 * ```text
 * Host      localhost, a name that ends in .localhost, an IP address, or a name of `allowedHosts`; else 403. This stops DNS
 *           rebinding: a page whose own name resolves to this machine still sends that name as Host.
 * Origin    absent, the server's own, or one of `allowedOrigins`; else 403
 * token     if `tokens` is set, `Authorization: Bearer …` must hold one of them; else 401. If `tokens` is not set, `viewer`
 *           must be set and the caller must be on this machine; else 403. A caller without an address counts as on this machine
 * rate      `requestsPerMinute` per token may come at once, and as many again over the next minute; else 429 with `Retry-After`
 * ```
 */
import type * as HttpApp from "@effect/platform/HttpApp"
import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { Viewer } from "../domain/Viewer.ts"
import * as MemoryService from "../harness/MemoryService.ts"
import * as McpError from "./McpError.ts"
import type { Holder, Tokens } from "./McpTokens.ts"

/** Options that say who may use a server over HTTP, and how often. */
export interface Access {
  /**
   * The viewer of requests without a token. Such requests must come from this machine. A request without a remote address, such as one over
   * a Unix socket or through a web handler, counts as a request from this machine. Ignored if `tokens` is set.
   */
  readonly viewer?: Viewer | undefined
  /** The accepted tokens. If set, every request must have an accepted token. Default: no token is required. */
  readonly tokens?: Tokens | undefined
  /**
   * Allowed host names in the header Host, without ports. `localhost`, names that end in `.localhost`, and IP addresses are always allowed.
   * Default: no others.
   */
  readonly allowedHosts?: ReadonlyArray<string> | undefined
  /** Origins whose pages may call the server, such as `https://app.example`. The server's own is always allowed. Default: no others. */
  readonly allowedOrigins?: ReadonlyArray<string> | undefined
  /**
   * Number of requests per token that may come at once. Requests without a token share one allowance. An allowance is refilled evenly,
   * within a minute. 0 means no limit. Default 600.
   */
  readonly requestsPerMinute?: number | undefined
}

/** Adds the checks of `Access` to an app. The app handles only requests that pass, with the request's viewer as `CurrentViewer`. */
export interface Guard {
  <E, R>(app: HttpApp.Default<E, R>): HttpApp.Default<E, Exclude<R, MemoryService.CurrentViewer>>
}

/** Makes the response to a rejected request. */
export const refusal = (
  status: number,
  error: McpError.McpError,
  headers: Readonly<Record<string, string>> = {}
): HttpServerResponse.HttpServerResponse =>
  HttpServerResponse.unsafeJson({ jsonrpc: "2.0", error: answered(error), id: null }, {
    status,
    headers: { "cache-control": "no-store", ...headers }
  })

const answered = ({ code, data, message }: McpError.McpError) => ({
  code,
  message,
  ...(data !== undefined && { data })
})

/** Adds checks of the headers Host and Origin to an app, but no check of a token. The app must not serve secrets. */
export const checkHost = (access: Pick<Access, "allowedHosts" | "allowedOrigins">) => {
  const hosts = new Set((access.allowedHosts ?? []).map((host) => host.toLowerCase()))
  const origins = new Set((access.allowedOrigins ?? []).map((origin) => origin.toLowerCase()))
  return <E, R>(app: HttpApp.Default<E, R>): HttpApp.Default<E, R> =>
    Effect.flatMap(HttpServerRequest.HttpServerRequest, ({ headers }) => {
      const host = headers["host"]?.toLowerCase()
      const name = host === undefined ? undefined : hostname(host)
      if (name === undefined || !(isLocalName(name) || isAddress(name) || hosts.has(name))) {
        return Effect.succeed(refusal(403, McpError.make("refused", "the Host is not allowed")))
      }
      const origin = headers["origin"]?.toLowerCase()
      return origin === undefined || origin === `http://${host}` || origin === `https://${host}` || origins.has(origin)
        ? app
        : Effect.succeed(refusal(403, McpError.make("refused", "the Origin is not allowed")))
    })
}

/** Makes a guard that checks Host, Origin, token and rate. Each guard counts requests separately. */
export const make = (access: Access): Effect.Effect<Guard> =>
  Effect.sync(() => {
    const { requestsPerMinute = 600, tokens, viewer } = access
    const check = checkHost(access)
    const admit = limiter(requestsPerMinute)
    const here: Holder | undefined = viewer && { name: "local", viewer }

    const holderOf = (request: HttpServerRequest.HttpServerRequest): Holder | HttpServerResponse.HttpServerResponse => {
      if (tokens === undefined) {
        return here !== undefined && Option.match(request.remoteAddress, { onNone: () => true, onSome: isLoopback })
          ? here
          : refusal(403, McpError.make("refused", "a token is needed from another machine"))
      }
      const token = /^Bearer +(\S+) *$/i.exec(request.headers["authorization"] ?? "")?.[1]
      return Option.getOrElse(
        token === undefined ? Option.none() : tokens.holderOf(token),
        () =>
          refusal(401, McpError.make("refused", "a valid token is needed"), {
            "www-authenticate": "Bearer realm=\"effect-memory\""
          })
      )
    }

    return (app) =>
      check(Effect.gen(function*() {
        const holder = holderOf(yield* HttpServerRequest.HttpServerRequest)
        if (HttpServerResponse.isServerResponse(holder)) return holder
        const wait = yield* admit(holder)
        if (wait > 0) {
          return refusal(429, McpError.make("refused", `too many requests; retry after ${wait} s`), {
            "retry-after": `${wait}`
          })
        }
        return yield* MemoryService.as(holder.viewer)(app)
      }))
  })

/**
 * Makes a rate limiter with a bucket for each `Holder`. A full bucket allows `perMinute` requests at once. An empty bucket
 * is full again after a minute. The limiter returns the number of seconds to wait, or 0 if the request may proceed.
 */
const limiter = (perMinute: number) => {
  const buckets = new Map<Holder, { left: number; at: number }>()
  return (holder: Holder): Effect.Effect<number> =>
    perMinute <= 0 ? Effect.succeed(0) : Effect.map(Clock.currentTimeMillis, (now) => {
      const { at, left } = buckets.get(holder) ?? { left: perMinute, at: now }
      const filled = Math.min(perMinute, left + Math.max(0, now - at) / 60_000 * perMinute)
      buckets.set(holder, { left: Math.max(0, filled - 1), at: now })
      if (filled >= 1) return 0
      buckets.set(holder, { left: filled, at: now })
      return Math.max(1, Math.ceil((1 - filled) * 60 / perMinute))
    })
}

/** Returns the host name in a Host header, without the port; `undefined` if the header is malformed. */
const hostname = (host: string): string | undefined => /^(\[[0-9a-f:.]+\]|[^:[\]/@]+)(?::\d{1,5})?$/.exec(host)?.[1]

const isLocalName = (name: string): boolean => name === "localhost" || name.endsWith(".localhost")
const isAddress = (name: string): boolean => name.startsWith("[") || /^\d{1,3}(?:\.\d{1,3}){3}$/.test(name)

/** Whether an address is a loopback address. */
export const isLoopback = (address: string): boolean =>
  address === "localhost" || address === "::1" || /^(?:::ffff:)?127\.\d{1,3}\.\d{1,3}\.\d{1,3}$/.test(address)
