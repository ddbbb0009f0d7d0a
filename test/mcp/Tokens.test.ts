/** Tokens of the MCP server over HTTP. */
import { NodeContext } from "@effect/platform-node"
import * as FileSystem from "@effect/platform/FileSystem"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as SecureRandom from "../../src/host/SecureRandom.ts"
import * as McpTokens from "../../src/mcp/McpTokens.ts"

const ada = Viewer.make({ userId: "ada", tenant: "acme" })
const bob = Viewer.make({ userId: "bob", agentId: "coder", reach: "within" })

describe("McpTokens", () => {
  it.effect("a token identifies its viewer, including the tenant and the reach", () =>
    Effect.gen(function*() {
      const made = yield* Effect.forEach([ada, bob], (viewer, n) => McpTokens.generate(`number ${n}`, viewer))
      const tokens = yield* McpTokens.fromText(made.map(({ line }) => line).join("\r\n"))
      for (const [n, viewer] of [ada, bob].entries()) {
        const holder = Option.getOrThrow(tokens.holderOf(made[n]!.token))
        assert.strictEqual(holder.name, `number ${n}`)
        assert.isTrue(Viewer.equals(holder.viewer, viewer))
      }
      assert.strictEqual(tokens.size, 2)
    }))

  it.effect("a token has 256 random bits, and its line in a token file does not contain the token", () =>
    Effect.gen(function*() {
      const made = yield* Effect.forEach(Array.from({ length: 100 }), () => McpTokens.generate("one", ada))
      assert.lengthOf(new Set(made.map(({ token }) => token)), 100)
      for (const { line, token } of made) {
        assert.match(token, /^em_[\w-]{43}$/)
        assert.notInclude(line, token)
        assert.notInclude(line, token.slice(3))
      }
    }))

  it.effect("`generate` returns the same token for the same seed of the service `SecureRandom`", () =>
    Effect.gen(function*() {
      const make = McpTokens.generate("one", ada).pipe(Effect.provide(SecureRandom.layerSeeded("seed")))
      assert.deepStrictEqual(yield* make, yield* make)
    }))

  it.effect("a changed, truncated, doubled, empty or too long token is refused, as is the hash of a token", () =>
    Effect.gen(function*() {
      const { line, token } = yield* McpTokens.generate("one", ada)
      const tokens = yield* McpTokens.fromText(line)
      const wrong = [
        "",
        token.slice(0, -1),
        `${token}x`,
        ` ${token}`,
        token.toUpperCase(),
        token + token,
        token.padEnd(513, "x"),
        JSON.parse(line).sha256
      ]
      for (const other of wrong) assert.isTrue(Option.isNone(tokens.holderOf(other)), other.slice(0, 60))
    }))

  it.effect("a token file may have a byte order mark and carriage returns, as written by editors on Windows", () =>
    Effect.gen(function*() {
      const { line, token } = yield* McpTokens.generate("one", ada)
      const tokens = yield* McpTokens.fromText(`\ufeff${line}\r\n# a comment\r\n`)
      assert.isTrue(Option.isSome(tokens.holderOf(token)))
    }))

  it.effect("`fromText` fails with `invalid_draft` if a line is invalid, and the error does not quote the line", () =>
    Effect.gen(function*() {
      const { line } = yield* McpTokens.generate("one", ada)
      const wrong = [
        "secret",
        line.replace("\"sha256\":\"", "\"sha256\":\"secret"),
        line.replace("userId", "user"),
        line.replace("\"name\"", "\"nam\""),
        line.replace("\"reach\":\"exact\"", "\"reach\":\"everyone\"").replace(
          "\"userId\":\"ada\"",
          "\"agentId\":\"secret\""
        )
      ]
      const error = yield* Effect.flip(McpTokens.fromText(["# secret", line, ...wrong].join("\n")))
      assert.strictEqual(error.reason, "invalid_draft")
      for (const n of [3, 4, 5, 6, 7]) assert.include(error.message, `line ${n}: `)
      assert.notInclude(JSON.stringify(error), "secret")
      assert.include(
        (yield* Effect.flip(McpTokens.fromText(`${line}\n\n${line}`))).message,
        "line 3: the same token as line 1"
      )
    }))

  it.scoped("`fromFile` fails with `io` if the token file cannot be read, and the error does not contain the path", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const folder = yield* fs.makeTempDirectoryScoped()
      const error = yield* Effect.flip(McpTokens.fromFile(`${folder}/none`))
      assert.strictEqual(error.reason, "io")
      assert.notInclude(JSON.stringify(error), folder)
    }).pipe(Effect.provide(NodeContext.layer)))
})
