/** The inspector on a real server in this process, over an in-memory store, and functions that send requests to the server. */
import { NodeContext, NodeHttpServer } from "@effect/platform-node"
import * as HttpServer from "@effect/platform/HttpServer"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { createServer } from "node:http"
import * as path from "node:path"
import * as MemoryId from "../../src/domain/MemoryId.ts"
import type { Draft } from "../../src/domain/MemoryRecord.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as MemoryService from "../../src/harness/MemoryService.ts"
import * as InspectorApi from "../../src/inspector/InspectorApi.ts"
import * as InspectorPage from "../../src/inspector/InspectorPage.ts"
import * as McpServer from "../../src/mcp/McpServer.ts"
import * as McpTokens from "../../src/mcp/McpTokens.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"

export const assets = path.join(import.meta.dirname, "../../assets/inspector")
export const ada = Viewer.make({ userId: "ada" })
export const bob = Viewer.make({ userId: "bob" })

/** Returns the record id with this number; ids sort as their numbers do. */
export const idOf = (n: number) => MemoryId.make(`01JB7Y9QZ3M4N5P6Q7R8S9T0${String(n).padStart(2, "0")}`)
export const bobs = idOf(99)

/** Memories of ada, linked in a chain (1 links to 2, 2 to 3, and so on). */
export const drafts: ReadonlyArray<Draft> = [
  ["Tea", "Drinks tea, never coffee. See [[Kettle]]."],
  ["Kettle", "The kettle is in the cupboard above [[Stove]]."],
  ["Stove", "Gas, and lit by a match from [[Matches]]."],
  ["Matches", "In the left drawer."]
].map(([summary = "", body = ""], n): Draft => ({
  id: idOf(n + 1),
  scope: { userId: "ada" },
  kind: "user",
  summary,
  body,
  tags: ["kitchen"]
}))

const seed = Effect.gen(function*() {
  const memory = yield* MemoryService.MemoryService
  yield* Effect.forEach(drafts, (draft) => memory.put(draft)).pipe(MemoryService.as(ada))
  yield* memory.put({ id: bobs, scope: { userId: "bob" }, kind: "user", body: "Bob's safe opens with 4711: tea." })
    .pipe(
      MemoryService.as(bob)
    )
})

export interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  /** The body of the response, parsed if its type is JSON; else `undefined`. */
  readonly json: any
}

const Memory = Layer.provideMerge(
  MemoryService.layer({ writesPerTurn: 0, allowForget: true }),
  MemoryStore.layerInMemory
)

const Services = Layer.mergeAll(
  Memory,
  NodeHttpServer.layer(() => createServer(), { host: "127.0.0.1", port: 0 }),
  NodeContext.layer,
  McpServer.layerLogger
)

/** Serves the inspector. Without `tokens`, all requests act for ada; with `tokens`, each request acts for the holder of its token. */
export const served = (options: { readonly tokens?: boolean } = {}) =>
  Effect.gen(function*() {
    const services = yield* Layer.build(Services) // closed with the test's scope
    return yield* Effect.provide(serving(options), services)
  })

const serving = (options: { readonly tokens?: boolean }) =>
  Effect.gen(function*() {
    const [his, hers] = yield* Effect.all([McpTokens.generate("bob", bob), McpTokens.generate("ada", ada)])
    const access = options.tokens === true
      ? { tokens: yield* McpTokens.fromText(`${hers.line}\n${his.line}\n`) }
      : { viewer: ada }
    const routes = yield* InspectorApi.make({ version: "1.0.0" })
    const page = InspectorPage.make(yield* InspectorPage.fromFolder(assets))
    yield* Layer.build(McpServer.layerHttp({ ...access, requestsPerMinute: 0, routes, assets: page }))
    yield* seed
    const { address } = yield* HttpServer.HttpServer
    const url = `http://127.0.0.1:${address._tag === "TcpAddress" ? address.port : 0}`
    const ask = (path: string, init: RequestInit = {}): Effect.Effect<Answer> =>
      Effect.promise(async () => {
        const response = await fetch(`${url}${path}`, init)
        const text = await response.text()
        const isJson = response.headers.get("content-type")?.startsWith("application/json") === true
        return { status: response.status, headers: response.headers, text, json: isJson ? JSON.parse(text) : undefined }
      })
    const post = (path: string, body: unknown, headers: Readonly<Record<string, string>> = {}) =>
      ask(path, {
        method: "POST",
        headers: { "content-type": "application/json", ...headers },
        body: JSON.stringify(body)
      })
    return { url, ask, post, tokens: { ada: hers.token, bob: his.token } }
  })
