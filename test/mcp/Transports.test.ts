/** The MCP server as the official client uses it, over standard input and output and over HTTP, in its own process. */
import { assert, describe, it } from "@effect/vitest"
import { LoggingMessageNotificationSchema, ProgressNotificationSchema } from "@modelcontextprotocol/sdk/types.js"
import * as Effect from "effect/Effect"
import { bobs, http, promised, secrets, type Served, stdio, traces, tried } from "./Served.ts"

const textOf = (result: object): string => {
  const { content } = result as { readonly content: ReadonlyArray<{ readonly text: string }> }
  return content.map(({ text }) => text).join("\n")
}

const remember = ({ client }: Pick<Served, "client">, body: string) =>
  Effect.map(
    promised(() => client.callTool({ name: "remember", arguments: { kind: "project", summary: body, body } })),
    (result) => (result.structuredContent as { readonly id: string }).id
  )

describe.each([["stdio", stdio], ["http", http]] as const)("an MCP server over %s", (_, served) => {
  it.scopedLive("the server describes itself and its tools, with input and output schemas and hints", () =>
    Effect.gen(function*() {
      const { client } = yield* served
      assert.include(client.getInstructions(), "memory://index")
      assert.hasAllKeys(client.getServerCapabilities(), ["tools", "resources", "prompts", "logging"])
      const { tools } = yield* promised(() => client.listTools())
      const [remember, recall, forget] = tools
      assert.deepStrictEqual([remember, recall, forget].map((tool) => tool!.name), ["remember", "recall", "forget"])
      assert.deepStrictEqual(recall!.annotations, {
        readOnlyHint: true,
        destructiveHint: false,
        idempotentHint: true,
        openWorldHint: false
      })
      assert.deepStrictEqual(forget!.annotations, {
        readOnlyHint: false,
        destructiveHint: true,
        idempotentHint: true,
        openWorldHint: false
      })
      for (const tool of tools) {
        assert.deepStrictEqual([tool.inputSchema.type, tool.outputSchema?.type], ["object", "object"])
      }
    }))

  it.scopedLive("each of 20 concurrent calls gets its own result", () =>
    Effect.gen(function*() {
      const server = yield* served
      const ids = yield* Effect.forEach(
        Array.from({ length: 20 }, (_, n) => n),
        (n) => remember(server, `subject number ${n}`),
        { concurrency: "unbounded" }
      )
      assert.lengthOf(new Set(ids), 20)
      const found = yield* Effect.forEach(
        ids,
        (id) => promised(() => server.client.readResource({ uri: `memory://record/${id}` })),
        { concurrency: "unbounded" }
      )
      for (const [n, { contents }] of found.entries()) {
        assert.include((contents[0] as { readonly text: string }).text, `subject number ${n}\n`)
      }
    }))

  it.scopedLive("the server interrupts the fiber of a cancelled call, and still answers other requests", () =>
    Effect.gen(function*() {
      const { client, stderr } = yield* served
      const cancel = new AbortController()
      const call = client.callTool({ name: "hang" }, undefined, { signal: cancel.signal }).catch(() => "cancelled")
      yield* stderr.has("hang  began")
      cancel.abort("enough")
      yield* stderr.has("hang was interrupted")
      assert.strictEqual(yield* promised(() => call), "cancelled")
      yield* promised(() => client.ping())
    }))

  it.scopedLive("the tool `recall` works without arguments, but `remember` without arguments is refused", () =>
    Effect.gen(function*() {
      const { client } = yield* served
      assert.include(textOf(yield* promised(() => client.callTool({ name: "recall" }))), "no memories matched")
      const refused = yield* promised(() => client.callTool({ name: "remember" }))
      assert.strictEqual(refused.isError, true)
      assert.match(textOf(refused), /^invalid_draft: kind: /)
    }))

  it.scopedLive("the server passes arguments of a megabyte to a tool; the tool `remember` refuses a text of a megabyte", () =>
    Effect.gen(function*() {
      const { client } = yield* served
      const text = "ä".repeat(524_288)
      const echoed = yield* promised(() => client.callTool({ name: "echo", arguments: { text } }))
      assert.deepStrictEqual(echoed.structuredContent, { result: [524_288] })
      const refused = yield* promised(() =>
        client.callTool({ name: "remember", arguments: { kind: "user", summary: "long", body: text } })
      )
      assert.strictEqual(refused.isError, true)
      assert.match(textOf(refused), /^invalid_draft: body: /)
      assert.isBelow(textOf(refused).length, 200)
    }))

  it.scopedLive("the server refuses unknown tools, resources, prompts and methods", () =>
    Effect.gen(function*() {
      const { client } = yield* served
      assert.deepStrictEqual(yield* tried(() => client.callTool({ name: "no such" })), {
        code: -32_602,
        message: "there is no such tool"
      })
      const uris = ["memory://nothing", "file:///etc/passwd", "memory://record/../index", "memory://record/", ""]
      for (const uri of uris) {
        assert.deepStrictEqual(yield* tried(() => client.readResource({ uri })), {
          code: -32_002,
          message: "there is no such resource"
        })
      }
      assert.include(yield* tried(() => client.getPrompt({ name: "no such" })), { code: -32_602 })
      assert.include(yield* tried(() => client.listResources({ cursor: "made up" })), { code: -32_602 })
      assert.include(yield* tried(() => client.subscribeResource({ uri: "memory://index" })), { code: -32_601 })
    }))

  it.scopedLive("the server answers a defect with \"internal error\" only, and logs neither the defect's text nor a stack trace", () =>
    Effect.gen(function*() {
      const { client, stderr } = yield* served
      assert.deepStrictEqual(yield* tried(() => client.callTool({ name: "die" })), {
        code: -32_603,
        message: "internal error"
      })
      yield* stderr.has("tools/call ended by a defect: RangeError")
      assert.notMatch(stderr.text(), secrets)
      assert.notMatch(stderr.text(), traces)
      yield* promised(() => client.ping())
    }))

  it.scopedLive("no tool, resource or prompt reveals another viewer's memory", () =>
    Effect.gen(function*() {
      const { client } = yield* served
      assert.deepStrictEqual(
        yield* tried(() => client.readResource({ uri: `memory://record/${bobs}` })),
        yield* tried(() => client.readResource({ uri: "memory://record/01CCCCCCCCCCCCCCCCCCCCCCCC" }))
      )
      const answers: ReadonlyArray<object> = [
        yield* promised(() => client.listResources()),
        yield* promised(() => client.readResource({ uri: "memory://index" })),
        yield* promised(() => client.callTool({ name: "recall", arguments: { query: "safe 4711" } })),
        yield* promised(() => client.callTool({ name: "forget", arguments: { id: bobs } })),
        yield* promised(() =>
          client.callTool({ name: "remember", arguments: { id: bobs, kind: "user", summary: "mine", body: "mine" } })
        ),
        yield* promised(() => client.getPrompt({ name: "recall", arguments: { topic: "Bob's" } })),
        yield* promised(() => client.getPrompt({ name: "review" }))
      ]
      assert.notMatch(JSON.stringify(answers), /4711|opens/)
    }))

  it.scopedLive("the memory index and all memories are listed as resources in pages, and a listed memory can be read", () =>
    Effect.gen(function*() {
      const server = yield* served
      const { client } = server
      const ids = yield* Effect.forEach(Array.from({ length: 103 }, (_, n) => n), (n) => remember(server, `fact ${n}`))
      const first = yield* promised(() => client.listResources())
      const second = yield* promised(() => client.listResources({ cursor: first.nextCursor }))
      assert.lengthOf(first.resources, 101)
      assert.strictEqual(first.resources[0]!.uri, "memory://index")
      assert.strictEqual(second.nextCursor, undefined)
      const listed = [...first.resources.slice(1), ...second.resources].map(({ uri }) => uri)
      assert.sameMembers(listed, ids.map((id) => `memory://record/${id}`))
      const { contents } = yield* promised(() => client.readResource({ uri: listed[0]! }))
      assert.include((contents[0] as { readonly text: string }).text, "<memory>")
      const { resourceTemplates } = yield* promised(() => client.listResourceTemplates())
      assert.deepStrictEqual(resourceTemplates.map(({ uriTemplate }) => uriTemplate), ["memory://record/{id}"])
    }))

  it.scopedLive("the server has a prompt that recalls a topic and a prompt that reviews memories", () =>
    Effect.gen(function*() {
      const server = yield* served
      const { client } = server
      const text = (name: string, input: Record<string, string> = {}) =>
        Effect.map(
          promised(() => client.getPrompt({ name, arguments: input })),
          ({ messages }) => (messages[0]!.content as { readonly text: string }).text
        )
      assert.include(yield* text("recall", { topic: "boats" }), "Nothing is remembered about: boats")
      const id = yield* remember(server, "Boats leave at nine")
      assert.include(yield* text("recall", { topic: "boats" }), "Boats leave at nine")
      assert.include(yield* text("review"), id)
      const { prompts } = yield* promised(() => client.listPrompts())
      assert.deepStrictEqual(prompts.map(({ name }) => name), ["recall", "review"])
      assert.include(yield* tried(() => client.getPrompt({ name: "recall" })), { code: -32_602 })
      assert.include(yield* tried(() => client.getPrompt({ name: "review", arguments: { limit: "many" } })), {
        code: -32_602
      })
    }))

  it.scopedLive("the server reports the progress of a call if the request has a progress token", () =>
    Effect.gen(function*() {
      const { client } = yield* served
      const heard: Array<unknown> = []
      client.setNotificationHandler(ProgressNotificationSchema, ({ params }) => {
        heard.push(params)
      })
      yield* promised(() => client.callTool({ name: "steps" }))
      yield* promised(() => client.callTool({ name: "steps", _meta: { progressToken: "mine" } }))
      yield* promised(() => client.ping())
      assert.deepStrictEqual(
        heard,
        [1, 2, 3].map((progress) => ({ progressToken: "mine", progress, total: 3, message: `step ${progress}` }))
      )
    }))

  it.scopedLive("the client receives logs at or above its log level; of an error in a log it receives the name, not the message", () =>
    Effect.gen(function*() {
      const { client, stderr } = yield* served
      const heard: Array<string> = []
      client.setNotificationHandler(LoggingMessageNotificationSchema, ({ params }) => {
        heard.push(`${params.level}: ${params.data}`)
      })
      const logs = Effect.gen(function*() {
        yield* promised(() => client.callTool({ name: "log" }))
        yield* promised(() => client.ping())
        return heard.splice(0)
      })
      assert.deepStrictEqual(yield* logs, ["info: plain words", "error: loud words Error"])
      yield* promised(() => client.setLoggingLevel("debug"))
      assert.deepStrictEqual(yield* logs, ["debug: quiet words", "info: plain words", "error: loud words Error"])
      yield* promised(() => client.setLoggingLevel("error"))
      assert.deepStrictEqual(yield* logs, ["error: loud words Error"])
      yield* promised(() => client.setLoggingLevel("emergency"))
      assert.deepStrictEqual(yield* logs, [])
      yield* stderr.has("loud words")
      assert.notMatch(stderr.text(), secrets)
      assert.notInclude(stderr.text(), "quiet words")
    }))

  it.scopedLive("SIGTERM stops the server: running calls get an error, and the process exits with 0", () =>
    Effect.gen(function*() {
      const { client, exit, kill, stderr } = yield* served
      const hanging = client.callTool({ name: "hang" }).catch((error: { readonly message: string }) => error.message)
      yield* stderr.has("hang  began")
      yield* kill("SIGTERM")
      yield* stderr.has("hang was interrupted")
      assert.include(yield* promised(() => hanging), "the call was stopped")
      assert.strictEqual(yield* exit, 0)
    }))
})
