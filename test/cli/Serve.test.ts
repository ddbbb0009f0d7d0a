import { assert, describe, it } from "@effect/vitest"
import { Client } from "@modelcontextprotocol/sdk/client/index.js"
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js"
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { spawn } from "node:child_process"
import { once } from "node:events"
import * as fs from "node:fs"
import * as path from "node:path"
import { Listed } from "../../src/cli/commands/Records.ts"
import { Token } from "../../src/cli/commands/Serve.ts"
import * as McpTokens from "../../src/mcp/McpTokens.ts"
import { answered, file, folder, run, stores, told } from "./Running.ts"

/** A client of the official SDK, closed with the scope. */
const connected = (
  transport: StdioClientTransport | StreamableHTTPClientTransport
): Effect.Effect<Client, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const client = new Client({ name: "test", version: "1.0.0" })
      await client.connect(transport as Parameters<Client["connect"]>[0]) // the SDK's types do not support exactOptionalPropertyTypes
      return client
    }),
    (client) => Effect.promise(() => client.close())
  )

const textOf = (result: unknown): string => JSON.stringify(result)
const called = (client: Client, name: string, args: Record<string, unknown>) =>
  Effect.map(Effect.promise(() => client.callTool({ name, arguments: args })), (result) => {
    assert.notStrictEqual(result.isError, true, textOf(result))
    return textOf(result)
  })
const memory = (body: string) => ({ scope: "user", kind: "user", summary: body, body })

/** A server over HTTP on a free port, killed with the scope if it still runs. */
const listening = (args: ReadonlyArray<string>, cwd: string) =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const child = spawn(process.execPath, [file, "serve", "--http", "--port", "0", ...args], {
        cwd,
        stdio: ["ignore", "pipe", "pipe"],
        env: { PATH: process.env["PATH"] }
      })
      const ended = once(child, "close")
      let said = ""
      const url = await new Promise<URL>((resolve, reject) => {
        child.stderr.on("data", (chunk) => {
          said += String(chunk)
          const [, at] = /listening at (\S+)/.exec(said) ?? []
          if (at !== undefined) resolve(new URL(at))
        })
        child.on("close", () => reject(new Error(said)))
      })
      return { child, ended, url, said: () => said }
    }),
    ({ child, ended }) => Effect.promise(() => child.kill("SIGKILL") ? ended : Promise.resolve([]))
  )

describe("effect-memory serve", () => {
  it.scopedLive.each(stores)(
    "the server over stdin and stdout lets the official client remember and recall in %s, for the viewer that the options name",
    ([, address]) =>
      Effect.gen(function*() {
        const store = ["--store", yield* address]
        yield* Effect.scoped(Effect.gen(function*() {
          const client = yield* connected(
            new StdioClientTransport({
              command: process.execPath,
              args: [file, "serve", "--user", "ada", ...store],
              stderr: "ignore"
            })
          )
          const { tools } = yield* Effect.promise(() => client.listTools())
          assert.includeMembers(tools.map(({ name }) => name), ["remember", "recall", "forget"])
          yield* called(client, "remember", memory("Drinks tea, never coffee."))
          assert.include(yield* called(client, "recall", { query: "tea or coffee?" }), "Drinks tea, never coffee.")
        }))
        const { items: [record] } = yield* answered(Listed, ["list", "--user", "ada", ...store])
        assert.deepStrictEqual([record?.body, record?.scope, record?.source.origin], [
          "Drinks tea, never coffee.",
          { userId: "ada" },
          "agent"
        ])
      })
  )

  it.scopedLive("`serve` ends when its input ends, and prints only protocol messages on stdout", () =>
    Effect.gen(function*() {
      const cwd = yield* folder
      const { code, stderr, stdout } = yield* run(["serve", "--user", "ada"], { cwd, input: "no JSON\n" })
      assert.strictEqual(code, 0, stderr)
      const lines = stdout.split("\n").filter((line) => line !== "")
      assert.isNotEmpty(lines)
      for (const line of lines) {
        assert.strictEqual(JSON.parse(line).jsonrpc, "2.0")
      }
      assert.include((yield* run(["serve"], { cwd })).stderr, "without --user or --agent")
    }))

  it.scopedLive("`serve` prints a URL that clients can use, also for an IPv6 address", () =>
    Effect.gen(function*() {
      const { url } = yield* listening(["--user", "ada", "--host", "::1"], yield* folder)
      assert.strictEqual(url.hostname, "[::1]")
      assert.strictEqual((yield* Effect.promise(() => fetch(url))).status, 400)
    }))

  it.scopedLive("the server acts for the viewer of a request's token, and answers an unknown token with 401", () =>
    Effect.gen(function*() {
      const cwd = yield* folder
      const [ada, bob] = yield* Effect.forEach(
        ["ada", "bob"],
        (user) => answered(Token, ["serve", "token", "--user", user, "--name", user, "--tokens", "tokens.txt"], { cwd })
      )
      const lines = fs.readFileSync(path.join(cwd, "tokens.txt"), "utf8")
      assert.notInclude(lines, ada!.token)
      assert.strictEqual(lines, `${ada!.line}\n${bob!.line}\n`)
      assert.strictEqual(fs.statSync(path.join(cwd, "tokens.txt")).mode & 0o077, 0)

      const { child, ended, said, url } = yield* listening(["--tokens", "tokens.txt"], cwd)
      const as = (token: string) =>
        new StreamableHTTPClientTransport(url, { requestInit: { headers: { authorization: `Bearer ${token}` } } })
      yield* Effect.scoped(Effect.gen(function*() {
        const [hers, his] = [yield* connected(as(ada!.token)), yield* connected(as(bob!.token))]
        yield* called(hers, "remember", memory("Drinks tea."))
        assert.include(yield* called(hers, "recall", { query: "tea" }), "Drinks tea.")
        assert.notInclude(yield* called(his, "recall", { query: "tea" }), "Drinks tea.")
      }))
      const { status } = yield* Effect.promise(() =>
        fetch(url, { method: "POST", headers: { authorization: "Bearer em_guessed" } })
      )
      assert.strictEqual(status, 401)
      child.kill("SIGINT")
      const [code] = yield* Effect.promise(() => ended)
      assert.strictEqual(code, 130, said())
      assert.include(yield* told(["recall", "tea", "--user", "ada"], { cwd }), "Drinks tea.")
    }))

  it.scopedLive("`serve token` appends a token's hash to a file, on a line of its own, and refuses an invalid name", () =>
    Effect.gen(function*() {
      const cwd = yield* folder
      const tokens = path.join(cwd, "tokens.txt")
      const token = ["serve", "token", "--user", "ada", "--tokens", "tokens.txt"]
      yield* told(token, { cwd })
      fs.writeFileSync(tokens, fs.readFileSync(tokens, "utf8").trimEnd())
      yield* told(token, { cwd })
      for (const name of ["", "x".repeat(101)]) {
        const refused = yield* run([...token, "--name", name], { cwd })
        assert.deepStrictEqual([refused.code, refused.stdout], [4, ""])
      }
      const read = yield* McpTokens.fromText(fs.readFileSync(tokens, "utf8"))
      assert.strictEqual(read.size, 2)
    }))

  it.scopedLive("`serve` fails for a public address without tokens, a port in use, and an invalid or missing token file", () =>
    Effect.gen(function*() {
      const cwd = yield* folder
      const open = yield* run(["serve", "--http", "--port", "0", "--host", "0.0.0.0", "--user", "ada"], { cwd })
      assert.deepStrictEqual([open.code, open.stdout], [4, ""])
      assert.match(open.stderr, /tokens are needed/)
      const { url } = yield* listening(["--user", "ada"], cwd)
      const taken = yield* run(["serve", "--http", "--port", url.port, "--user", "ada"], { cwd })
      assert.strictEqual(taken.code, 5)
      assert.match(taken.stderr, /cannot be listened on/)
      fs.writeFileSync(path.join(cwd, "tokens.txt"), "secret\n")
      const broken = yield* run(["serve", "--http", "--tokens", "tokens.txt"], { cwd })
      assert.strictEqual(broken.code, 4)
      assert.notInclude(broken.stderr, "secret")
      assert.strictEqual((yield* run(["serve", "--http", "--tokens", "none.txt"], { cwd })).code, 5)
      assert.strictEqual((yield* run(["serve", "--tokens", "tokens.txt"], { cwd })).code, 2)
      assert.strictEqual((yield* run(["serve", "token", "--reach", "everyone"], { cwd })).code, 4)
    }))
})
