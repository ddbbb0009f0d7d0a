/** An agent behind HTTP, in its own process, with a provider that speaks OpenAI's wire format. */
import { NodeContext } from "@effect/platform-node"
import * as FileSystem from "@effect/platform/FileSystem"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as path from "node:path"
import { program } from "../vault/Program.ts"
import { type Answer, type Item, provider, said } from "./Provider.ts"

const Ready = Schema.Struct({ port: Schema.Number })

/** Starts the agent's process on a file, with the provider at `url`. */
const server = (file: string, url: string) =>
  Effect.gen(function*() {
    const process = yield* program(path.join(import.meta.dirname, "processes/server.mjs"), [file, url], Ready)
    const { port } = yield* process.line
    const say = (user: string, prompt: string) =>
      Effect.promise(() =>
        fetch(`http://127.0.0.1:${port}/monday`, { method: "POST", headers: { "x-user": user }, body: prompt })
      )
    return { process, say, ask: (user: string, prompt: string) => Effect.flatMap(say(user, prompt), textOf) }
  })

const textOf = (response: Response) => Effect.promise(() => response.text())

const folder = Effect.flatMap(FileSystem.FileSystem, (fs) => fs.makeTempDirectoryScoped())

/** Returns the last message of a prompt, without the injected memory. */
const prompted = (input: ReadonlyArray<Item>) => said(input.at(-1)!).split("\n\n<memory>")[0]!

/** A model that remembers, recalls or hangs on command, and otherwise repeats all messages of the user. It repeats the result of a tool. */
const model = (input: ReadonlyArray<Item>): Answer => {
  const last = input.at(-1)!
  if (last.type === "function_call_output") return { text: `done: ${said(last)}` }
  const [, order, about] = /^(\w+) ?(.*)/.exec(prompted(input)) ?? []
  if (order === "hang") return { hangsAfter: "I was just" }
  if (order === "recall") return { calls: [{ name: "recall", arguments: { query: about! } }] }
  if (order !== "remember") {
    return { text: input.filter(({ role }) => role === "user").map((item) => prompted([item])).join(" | ") }
  }
  const memory = { scope: "user", kind: "user", summary: about!, body: about! }
  return { calls: [{ name: "weather", arguments: { city: about! } }, { name: "remember", arguments: memory }] }
}

describe("an agent in an HTTP server", () => {
  it.scopedLive("three concurrent users get streamed answers with tool calls, and see nothing of each other", () =>
    Effect.gen(function*() {
      const root = yield* folder
      const { asked, url } = yield* provider(model)
      const { ask } = yield* server(`${root}/memory.db`, url)
      const users = ["ada", "bob", "zoe"]
      const answers = yield* Effect.forEach(users, (user) =>
        Effect.forEach(
          [`remember likes-${user}`, `recall likes-${user}`, `so ${user}?`],
          (prompt) => ask(user, prompt)
        ), { concurrency: "unbounded" })
      for (const [n, user] of users.entries()) {
        const [remembered, recalled, repeated] = answers[n]!
        assert.include(remembered, "done: ")
        assert.include(recalled, `likes-${user}`)
        assert.strictEqual(repeated, `remember likes-${user} | recall likes-${user} | so ${user}?`)
      }
      for (const input of asked) {
        const text = JSON.stringify(input)
        assert.lengthOf(users.filter((user) => text.includes(user)), 1, text)
      }
      assert.lengthOf(asked, 3 * 5)
      const first = asked.filter((input) => said(input[1]!).startsWith("remember")).map((input) => input.map(said))
      assert.isTrue(first.some((all) => all.some((text) => text.includes("sunny in likes-"))))
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scopedLive("an agent that gets SIGTERM closes its store, and a new process continues the conversation", () =>
    Effect.gen(function*() {
      const root = yield* folder
      const { url } = yield* provider(model)
      const before = yield* server(`${root}/memory.db`, url)
      yield* before.ask("ada", "hello")
      yield* before.process.signal("SIGTERM")
      assert.strictEqual(yield* before.process.end, 0)
      const fs = yield* FileSystem.FileSystem
      assert.deepStrictEqual(yield* fs.readDirectory(root), ["memory.db"]) // closed cleanly: no write-ahead log is left
      const after = yield* server(`${root}/memory.db`, url)
      assert.strictEqual(yield* after.ask("ada", "again"), "hello | again")
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scopedLive("an agent that is killed during an answer keeps its memories and all finished answers", () =>
    Effect.gen(function*() {
      const root = yield* folder
      const { asked, url } = yield* provider(model)
      const before = yield* server(`${root}/memory.db`, url)
      yield* before.ask("ada", "remember green tea")
      yield* before.ask("bob", "hello")
      const [response] = yield* Effect.all([before.say("ada", "hang on"), before.ask("bob", "still here")], {
        concurrency: "unbounded"
      })
      const { value } = yield* Effect.promise(() => response.body!.getReader().read())
      assert.strictEqual(new TextDecoder().decode(value), "I was just") // the first chunk of an answer that never ends
      yield* before.process.signal("SIGKILL")
      yield* before.process.end

      const after = yield* server(`${root}/memory.db`, url)
      assert.strictEqual(yield* after.ask("bob", "and now"), "hello | still here | and now")
      assert.strictEqual(yield* after.ask("ada", "what about green tea"), "remember green tea | what about green tea")
      const input = asked.at(-1)!
      assert.deepStrictEqual(input.map(({ role, type }) => type ?? role), [
        "system",
        "user",
        "function_call",
        "function_call",
        "function_call_output",
        "function_call_output",
        "assistant",
        "user"
      ])
      assert.include(said(input.at(-1)!), "<memory>")
      assert.include(said(input.at(-1)!).split("<memory>")[1], "green tea")
      assert.notInclude(JSON.stringify(input), "I was just")
    }).pipe(Effect.provide(NodeContext.layer)))
})
