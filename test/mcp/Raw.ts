/** HTTP requests with any method, headers and body, also requests that no MCP client would send. */
import * as Effect from "effect/Effect"
import * as http from "node:http"
import { text } from "node:stream/consumers"

export interface Answer {
  readonly status: number
  readonly headers: http.IncomingHttpHeaders
  readonly body: string
  /** The JSON of the body, or of the first `data` line of an event stream; `undefined` if it is not JSON. */
  readonly json: any
}

export interface Asked {
  readonly method?: string
  readonly path?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string | Uint8Array
}

export const usual = { "content-type": "application/json", accept: "application/json, text/event-stream" }
const agent = new http.Agent({ keepAlive: true, maxSockets: 8 })

const parsed = (body: string): unknown => {
  const data = /^data: (.*)$/m.exec(body)?.[1] ?? body
  try {
    return JSON.parse(data)
  } catch {
    return undefined
  }
}

/** Sends a request with the usual headers and the given ones; returns the whole answer. Status 0: the connection failed. */
export const ask = (
  url: string,
  { body, headers, method = "POST", path = "/mcp" }: Asked = {}
): Effect.Effect<Answer> =>
  Effect.promise(() =>
    new Promise((resolve) => {
      const lost = () => resolve({ status: 0, headers: {}, body: "", json: undefined })
      const isChunked = headers?.["transfer-encoding"] === "chunked"
      const length = body === undefined || isChunked ? {} : { "content-length": `${Buffer.byteLength(body)}` }
      const request = http.request(`${url}${path}`, { agent, method, headers: { ...usual, ...length, ...headers } })
      request.on("error", lost)
      request.on("response", (response) => {
        text(response).then(
          (body) => resolve({ status: response.statusCode ?? 0, headers: response.headers, body, json: parsed(body) }),
          lost
        )
      })
      request.end(body)
    })
  )

export const initialize = JSON.stringify({
  jsonrpc: "2.0",
  id: "begin",
  method: "initialize",
  params: { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "raw", version: "1" } }
})

/** Begins a session; returns its headers. */
export const session = (url: string, headers: Readonly<Record<string, string>> = {}) =>
  Effect.map(ask(url, { headers, body: initialize }), (answer) => ({
    ...headers,
    "mcp-session-id": String(answer.headers["mcp-session-id"]),
    "mcp-protocol-version": "2025-11-25"
  }))

export const call = (id: unknown, name: string, input?: object): string =>
  JSON.stringify({ jsonrpc: "2.0", id, method: "tools/call", params: { name, ...(input && { arguments: input }) } })
