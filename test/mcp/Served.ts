/** MCP servers in child processes, and the official client over both transports. */
import { Client } from "@modelcontextprotocol/sdk/client/index.js"
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js"
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js"
import type { Transport } from "@modelcontextprotocol/sdk/shared/transport.js"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { type ChildProcess, spawn } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import { createInterface } from "node:readline"
import type { Readable } from "node:stream"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as McpTokens from "../../src/mcp/McpTokens.ts"
import { made } from "../vault/Program.ts"

const file = path.join(import.meta.dirname, "processes/mcp.mjs")

/** Id of the record of bob that each server starts with. */
export const bobs = "01BBBBBBBBBBBBBBBBBBBBBBBB"
export const secrets = /4711|sk-1234|safe/
export const traces = /\n\s+at |\.m?[jt]s:\d+|node_modules/

/** The output of a process, with a way to wait for a text in it. */
export interface Written {
  readonly text: () => string
  readonly has: (text: string) => Effect.Effect<void>
}

const written = (stream: Readable): Written => {
  let all = ""
  const waiting = new Set<() => void>()
  stream.setEncoding("utf8").on("data", (text: string) => {
    all += text
    for (const look of waiting) look()
  })
  return {
    text: () => all,
    has: (text) =>
      Effect.async((resume) => {
        const look = () => {
          if (!all.includes(text)) return
          waiting.delete(look)
          resume(Effect.void)
        }
        waiting.add(look)
        look()
      })
  }
}

export interface Served {
  readonly client: Client
  readonly stderr: Written
  /** Waits until the process ends; returns its exit code. */
  readonly exit: Effect.Effect<number | null>
  readonly kill: (signal: NodeJS.Signals) => Effect.Effect<void>
  /** The address of a server over HTTP. */
  readonly url: string
  /** The input of a server over stdio. */
  readonly write: (text: string) => Effect.Effect<void>
  /** The process of a server over stdio. */
  readonly child: ChildProcess | undefined
}

export const promised = <A>(call: () => Promise<A>): Effect.Effect<A> => Effect.promise(call)

/** Calls a method; returns its result, or the error's code and message. */
export const tried = <A>(
  call: () => Promise<A>
): Effect.Effect<A | { readonly code: number; readonly message: string }> =>
  Effect.promise(() =>
    call().catch((error: { readonly code: number; readonly message: string }) => ({
      code: error.code,
      message: error.message.replace(/^MCP error -?\d+: /, "")
    }))
  )

const connected = (transport: Transport) =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const client = new Client({ name: "test", version: "1.0.0" })
      await client.connect(transport)
      return client
    }),
    (client) => Effect.promise(() => client.close())
  )

/** Starts a server for ada over standard input and output. */
export const stdio: Effect.Effect<Served, never, Scope.Scope> = Effect.gen(function*() {
  const transport = new StdioClientTransport({
    command: process.execPath,
    args: ["--expose-gc", made(file), "stdio"],
    stderr: "pipe"
  })
  const stderr = written(transport.stderr as Readable) // stderr is piped
  const client = yield* connected(transport)
  const child = (transport as unknown as { readonly _process: ChildProcess })._process // the transport itself can write valid messages only
  const exit = Effect.async<number | null>((resume) => {
    if (child.exitCode !== null || child.signalCode !== null) resume(Effect.succeed(child.exitCode))
    else child.once("exit", (code) => resume(Effect.succeed(code)))
  })
  return {
    client,
    stderr,
    exit,
    child,
    kill: (signal) => Effect.sync(() => child.kill(signal)),
    url: "",
    write: (text) => Effect.sync(() => child.stdin!.write(text))
  }
})

export interface HttpProcess extends Omit<Served, "client" | "write" | "child"> {
  readonly connect: (token?: string) => Effect.Effect<Client, never, Scope.Scope>
}

/** Starts a server over HTTP with these options of `processes/mcp.mjs`. */
export const httpProcess = (options: object = {}): Effect.Effect<HttpProcess, never, Scope.Scope> =>
  Effect.gen(function*() {
    const child = yield* Effect.acquireRelease(
      Effect.sync(() =>
        spawn(process.execPath, ["--expose-gc", made(file), "http", JSON.stringify(options)], {
          stdio: ["ignore", "pipe", "pipe"]
        })
      ),
      (child) => Effect.sync(() => child.kill("SIGKILL"))
    )
    const stderr = written(child.stderr)
    const ended = new Promise<number | null>((resolve) => child.once("exit", resolve))
    const line = yield* Effect.promise(() =>
      Promise.race([
        new Promise<string>((resolve) => createInterface({ input: child.stdout }).once("line", resolve)),
        ended.then((code) => Promise.reject(new Error(`it ended with ${code}: ${stderr.text()}`)))
      ])
    )
    const url = `http://127.0.0.1:${JSON.parse(line).port}`
    return {
      stderr,
      url,
      exit: Effect.promise(() => ended),
      kill: (signal) => Effect.sync(() => child.kill(signal)),
      connect: (token) =>
        connected(
          new StreamableHTTPClientTransport(new URL(`${url}/mcp`), {
            requestInit: token === undefined ? {} : { headers: { authorization: `Bearer ${token}` } }
          }) as Transport // the SDK's types do not support exactOptionalPropertyTypes
        )
    }
  })

/** Starts a server for ada over HTTP, without tokens. */
export const http: Effect.Effect<Served, never, Scope.Scope> = Effect.gen(function*() {
  const server = yield* httpProcess()
  return { ...server, client: yield* server.connect(), write: () => Effect.void, child: undefined }
})

/** Makes a file with one token of ada and one of bob. */
export const tokens = (folder: string) =>
  Effect.gen(function*() {
    const made = yield* Effect.forEach(["ada", "bob"], (userId) => McpTokens.generate(userId, Viewer.make({ userId })))
    const file = path.join(folder, "tokens.jsonl")
    fs.writeFileSync(file, `# who may connect\n\n${made.map(({ line }) => line).join("\n")}\n`)
    return { file, ada: made[0]!.token, bob: made[1]!.token }
  })
