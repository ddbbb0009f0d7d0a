/** Files of other systems in their documented formats: `test/fixtures/transfer`. */
import { assert, describe, it } from "@effect/vitest"
import { assertSome } from "@effect/vitest/utils"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as TestClock from "effect/TestClock"
import { readdirSync, readFileSync, statSync } from "node:fs"
import * as path from "node:path"
import * as MemoryId from "../../src/domain/MemoryId.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as Threads from "../../src/harness/Threads.ts"
import * as Redaction from "../../src/host/Redaction.ts"
import * as GraphMemory from "../../src/kinds/GraphMemory.ts"
import * as KeyValueMemory from "../../src/kinds/KeyValueMemory.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import { ada, draft, the } from "../../src/testing/Sample.ts"
import * as Conversations from "../../src/transfer/Conversations.ts"
import * as Foreign from "../../src/transfer/Foreign.ts"
import * as LangGraph from "../../src/transfer/LangGraph.ts"
import * as Letta from "../../src/transfer/Letta.ts"
import * as McpMemory from "../../src/transfer/McpMemory.ts"
import * as Mem0 from "../../src/transfer/Mem0.ts"
import * as Notes from "../../src/transfer/Notes.ts"
import * as Zep from "../../src/transfer/Zep.ts"
import { holdings, memory } from "../storage/Copies.ts"

const fixtures = path.join(import.meta.dirname, "../fixtures/transfer")
const textOf = (name: string) => readFileSync(path.join(fixtures, name), "utf8")
const folderOf = (name: string): ReadonlyArray<Foreign.File> => {
  const root = path.join(fixtures, name)
  return readdirSync(root, { recursive: true, encoding: "utf8" }).sort()
    .filter((file) => statSync(path.join(root, file)).isFile())
    .map((file) => ({ path: file.split(path.sep).join("/"), text: readFileSync(path.join(root, file), "utf8") }))
}

/** Whether a line of `holdings` is of a memory. The rows of a thread have other ids in every store. */
const isMemory = (line: string) => !line.includes(`"kind":"thread"`)

const adas: Foreign.Context = { scope: { userId: "ada" } }
const file = (decode: Foreign.Decoder, name: string) => () => Either.getOrThrow(decode(textOf(name), adas))
const folder = (decode: Foreign.FolderDecoder, name: string) => () => decode(folderOf(name), adas)

const formats = {
  mcp: file(McpMemory.decode, "mcp.jsonl"),
  mem0: file(Mem0.decode, "mem0.json"),
  langgraph: file(LangGraph.decode, "langgraph.json"),
  letta: file(Letta.decode, "letta.af"),
  zep: file(Zep.decode, "zep.json"),
  chatgpt: file(Conversations.decodeChatGpt, "chatgpt.json"),
  claude: file(Conversations.decodeClaude, "claude.json"),
  obsidian: folder(Notes.decodeObsidian, "obsidian"),
  "claude-code": folder(Notes.decodeClaudeCode, "claude-code")
}

/** Imports a fixture into a new store. */
const imported = (name: keyof typeof formats) =>
  Effect.gen(function*() {
    yield* TestClock.setTime(Date.UTC(2026, 0, 1))
    const store = yield* memory
    const report = yield* Foreign.apply(store, ada, formats[name]())
    const { items } = yield* store.list(Viewer.make({ userId: "ada", reach: "within" }), { closed: true })
    return { store, report, items, provided: Layer.succeed(MemoryStore.MemoryStore, store) }
  })
const reasons = ({ skipped }: Foreign.Report) => Object.fromEntries(skipped.map(({ count, reason }) => [reason, count]))
const at = <A, R, E>(layer: Layer.Layer<R, E>, tag: Context.Tag<R, A>) =>
  Effect.map(Layer.build(layer), Context.get(tag))

describe("importing a file", () => {
  for (const [name, decode] of Object.entries(formats)) {
    it.scoped(`a second import of a ${name} file changes nothing, even if an imported record was edited or forgotten`, () =>
      Effect.gen(function*() {
        const store = yield* memory
        const items = decode()
        const first = yield* Foreign.apply(store, ada, items)
        assert.isAbove(first.created + first.messages, 0)
        const [one, two] = items.flatMap((item) => item._tag === "Draft" ? [item.draft.id] : [])
        if (one !== undefined) yield* store.update(Viewer.system(), one, { body: "Edited here." })
        if (two !== undefined) yield* store.forget(Viewer.system(), [two])
        const before = yield* holdings(store)
        const again = yield* Foreign.apply(store, ada, items)
        assert.deepStrictEqual([again.created, again.messages, again.present], [0, 0, first.created])
        assert.deepStrictEqual(yield* holdings(store), before)
      }))

    it.scoped(`a second import of a ${name} file adds exactly the items missing after an interrupted first import`, () =>
      Effect.gen(function*() {
        const items = decode()
        for (let end = 0; end < items.length; end++) {
          const store = yield* memory
          const part = yield* Foreign.apply(store, ada, items.slice(0, end))
          const rest = yield* Foreign.apply(store, ada, items)
          const other = yield* memory
          const whole = yield* Foreign.apply(other, ada, items)
          assert.deepStrictEqual((yield* holdings(store)).filter(isMemory), (yield* holdings(other)).filter(isMemory))
          assert.strictEqual(part.created + rest.created, whole.created)
          assert.strictEqual(part.messages + rest.messages, whole.messages)
        }
      }))
  }

  it.scoped("an import from the MCP reference server makes entities with observations and relations", () =>
    Effect.gen(function*() {
      const { items, provided, report } = yield* imported("mcp")
      const found = items.find(({ summary }) => summary === "Ada")!
      assert.strictEqual(found.body, "- Drinks tea\n- Speaks French\n- Lives in London")
      assert.deepStrictEqual(found.data, { name: "Ada", type: "person" })
      const graph = yield* at(Layer.provide(GraphMemory.layer, provided), GraphMemory.GraphMemory)
      const [visited] = yield* graph.traverse(ada, found.id, { maxDepth: 1 })
      assert.strictEqual(visited!.record.summary, "Analytical Engine")
      assert.deepStrictEqual(reasons(report), {
        "a relation whose end is missing": 1,
        "neither an entity nor a relation": 1
      })
    }))

  it("an import from mem0 or Zep reports attributes that are nested too deeply for a record", () => {
    const deep = `{"a":${"[".repeat(1_000)}${"]".repeat(1_000)}}`
    const edge = `{"uuid":"b","fact":"t","attributes":${deep}}`
    for (
      const [decode, text] of [
        [Mem0.decode, `[{"id":"a","memory":"t","metadata":${deep}}]`],
        [Zep.decode, `{"edges":[${edge}],"nodes":[]}`]
      ] as const
    ) {
      const [item] = Either.getOrThrow(decode(text, { scope: { userId: "bob" } }))
      assert.deepInclude(item, { _tag: "Draft", lost: ["attributes that a record cannot have"] })
    }
  })

  it.scoped("an import from mem0 turns ids into scopes and categories into tags, and omits expired memories", () =>
    Effect.gen(function*() {
      const { items, report } = yield* imported("mem0")
      const tea = items.find(({ body }) => body === "Prefers tea to coffee")!
      assert.deepStrictEqual(tea.scope, { userId: "ada", agentId: "pilot" })
      assert.deepStrictEqual([tea.tags, tea.kind, tea.source.origin], [["food", "preferences"], "semantic", "import"])
      assert.strictEqual(tea.validAt, Date.parse("2025-03-01T17:30:00Z"))
      assert.strictEqual(tea.metadata["source"], "chat")
      assert.deepStrictEqual(items.find(({ body }) => body === "Names nobody")!.scope, { userId: "ada" })
      assert.strictEqual(report.created, 2)
      assert.deepStrictEqual(reasons(report), {
        "a memory without text": 1,
        "a relation of mem0's graph": 1,
        "no memory of mem0": 1,
        "the store refuses it: expiresAt: already past": 1
      })
      const bobs = Either.getOrThrow(Mem0.decode(textOf("mem0.json"), { scope: { userId: "bob" }, overrules: true }))
      for (const item of bobs) if (item._tag === "Draft") assert.deepStrictEqual(item.draft.scope, { userId: "bob" })
    }))

  it.scoped("an import from LangGraph puts each value into KeyValueMemory under its namespace and key", () =>
    Effect.gen(function*() {
      const { provided, report } = yield* imported("langgraph")
      const values = yield* at(
        Layer.provide(KeyValueMemory.layer("memories/ada"), provided),
        KeyValueMemory.KeyValueMemory
      )
      assertSome(yield* values.get(ada, "drink"), { text: "Drinks tea" })
      assertSome(yield* values.get(ada, "city"), "London")
      assert.deepStrictEqual(reasons(report), { "no item of a store of LangGraph": 1 })
      const lines = JSON.parse(textOf("langgraph.json")).map((one: unknown) => JSON.stringify(one)).join("\n")
      assert.deepStrictEqual(LangGraph.decode(lines, adas), LangGraph.decode(textOf("langgraph.json"), adas))
    }))

  it.scoped("an import of a Letta agent makes notes from blocks, records from passages and a thread from messages", () =>
    Effect.gen(function*() {
      const { provided, report, store } = yield* imported("letta")
      const { items } = yield* store.list(Viewer.make({ agentId: "agent-0" }), {})
      assert.deepStrictEqual(items.map(({ body, kind }) => [kind, body]).sort(), [
        ["note", "I am a careful pilot."],
        ["note", "The human is called Ada."],
        ["semantic", "The airport of Paris is Orly."]
      ])
      const threads = yield* at(Layer.provide(Threads.layer, provided), Threads.Threads)
      const { items: said } = yield* threads.messages(ada, "letta:agent-0")
      assert.deepStrictEqual(said.map(({ content, role }) => [role, content]), [
        ["user", "Hello."],
        ["assistant", "Good morning."]
      ])
      assert.deepStrictEqual(reasons(report), {
        "a message without text": 1,
        "a tool": 1,
        "an empty block": 1,
        "the system prompt of an agent": 1
      })
    }))

  it.scoped("an import of a Letta agent skips and reports parts that are unreadable or not text", () =>
    Effect.gen(function*() {
      const text = JSON.stringify({
        agents: [null, {
          id: "agent-0",
          core_memory: [{ label: "persona", value: "A pilot." }, { label: 1 }],
          passages: [{ text: null }, { text: "Orly." }],
          messages: [
            { role: "user", content: [{ type: "text", text: "Look:" }, { type: "image" }] },
            { role: "assistant", content: "Wait.", tool_calls: [{ name: "look" }] },
            { role: 5 }
          ]
        }],
        blocks: [7]
      })
      const report = yield* Foreign.apply(yield* memory, ada, Either.getOrThrow(Letta.decode(text, adas)))
      assert.deepStrictEqual([report.created, report.threads, report.messages], [2, 1, 2])
      assert.deepStrictEqual(reasons(report), {
        "a block that cannot be read": 2,
        "a message that cannot be read": 1,
        "a part of a message that is no text": 2,
        "a passage that cannot be read": 1,
        "an agent that cannot be read": 1
      })
    }))

  it.scoped("an import of a Letta agent reports the places of skipped parts, and never their contents", () =>
    Effect.gen(function*() {
      const text = JSON.stringify({
        id: "agent-0",
        core_memory: [{ label: "persona", value: "A pilot." }, { label: "persona", value: "A spy." }],
        archival_memory: [{ text: "The code is 1234." }, { text: "The code is 1234.", tags: ["instructions"] }],
        messages: [{ role: "observer", content: "The code is 1234." }, { role: "observer", content: "" }]
      })
      const report = yield* Foreign.apply(yield* memory, ada, Either.getOrThrow(Letta.decode(text, adas)))
      assert.deepStrictEqual(report.skipped.map(({ examples, reason }) => [reason, ...examples]), [
        ["the same id a second time", "agent 1, block 2", "agent 1, passage 2"],
        ["a message with an unknown role", "agent 1, message 1"],
        ["a message without text", "agent 1, message 2"],
        ["a tag that a record cannot have", "agent 1, passage 2"]
      ])
      assert.notInclude(JSON.stringify(report), "1234")
    }))

  it.scoped("an import of a Zep graph keeps the valid times of facts and the links between entities", () =>
    Effect.gen(function*() {
      const { items, report } = yield* imported("zep")
      const loves = items.find(({ body }) => body === "Kendra loves Adidas shoes")!
      assert.deepStrictEqual([loves.validAt, loves.invalidAt], [Date.UTC(2024, 7, 1), Date.UTC(2024, 8, 1)])
      assert.deepStrictEqual(loves.data, { subject: "Kendra", predicate: "LOVES", object: "Adidas" })
      const kendra = items.find(({ summary }) => summary === "Kendra")!
      assert.deepStrictEqual(kendra.links, [{ to: MemoryId.foreign("zep", "n-2"), type: "LOVES", weight: 1 }])
      assert.strictEqual(items.find(({ body }) => body === "Kendra likes Puma shoes")!.validAt, Date.UTC(2024, 8, 2))
      assert.deepStrictEqual(reasons(report), { "an episode": 1, "no edge of Zep with a fact": 1 })
    }))

  it.scoped("an import from ChatGPT or Claude makes threads of conversations, and skips other branches (ChatGPT) and empty conversations (Claude)", () =>
    Effect.gen(function*() {
      for (
        const [name, thread, expected] of [
          ["chatgpt", "chatgpt:c-1", {
            "a message of another branch": 1,
            "a part of a message that is no text": 1,
            "no conversation of ChatGPT": 1
          }],
          ["claude", "claude:c-1", {
            "a conversation without messages": 1,
            "a part of a message that is no text": 1,
            "an attached file": 1
          }]
        ] as const
      ) {
        const { items, provided, report } = yield* imported(name)
        assert.deepStrictEqual(items, [])
        const threads = yield* at(Layer.provide(Threads.layer, provided), Threads.Threads)
        const { items: said } = yield* threads.messages(ada, thread)
        assert.deepStrictEqual(said.map(({ content, role }) => [role, content]), [
          ["user", "Which tea?"],
          ["assistant", "Black."]
        ])
        assert.deepStrictEqual(reasons(report), expected)
      }
    }))

  it("an import from ChatGPT reports a reason for each message with text that it leaves out", () => {
    const node = (parent: string, role: string, text: string) => ({
      parent,
      message: { author: { role }, content: { parts: [text] } }
    })
    const mapping = {
      a: { parent: null, message: null },
      b: node("a", "user", "Which tea?"),
      c: node("b", "observer", "The user is thirsty."),
      d: node("c", "observer", ""),
      e: node("d", "assistant", "Black."),
      f: { parent: "d", message: { author: 5 } },
      g: node("d", "observer", "Green.")
    }
    const items = Either.getOrThrow(
      Conversations.decodeChatGpt(JSON.stringify([{ id: "c-1", current_node: "e", mapping }]), adas)
    )
    assert.deepStrictEqual(items.flatMap((item) => item._tag === "Skip" ? [item.reason] : []), [
      "a message with an unknown role",
      "a message that cannot be read",
      "a message of another branch"
    ])
    assert.lengthOf(items.flatMap((item) => item._tag === "Thread" ? item.messages : []), 2)
  })

  it.scoped("an import does not change a record that another writer creates during the import", () =>
    Effect.gen(function*() {
      const items = Either.getOrThrow(
        Mem0.decode(JSON.stringify(["a", "b"].map((id) => ({ id, memory: `Imported ${id}.` }))), adas)
      )
      for (const some of [items, items.slice(0, 1)]) {
        const store = yield* memory
        const first = MemoryId.foreign("mem0", "a")
        const write = store.put(ada, [draft("Written by another.", { id: first })])
        const racing: MemoryStore.Service = {
          ...store,
          reader: Option.map(store.reader, (reader) => ({
            ...reader,
            read: (tenant, ids) => Effect.zipLeft(reader.read(tenant, ids), write)
          }))
        }
        const report = yield* Foreign.apply(racing, ada, some)
        assert.deepStrictEqual([report.created, report.present, report.skipped], [some.length - 1, 1, []])
        assert.strictEqual((yield* the(store, ada, first)).body, "Written by another.")
      }
    }))

  it("an import from Claude Code puts unknown frontmatter fields, and known ones with unusable values, into the metadata", () => {
    const text = "---\nname: 7\ndescription: [a]\ntype: idea\nmood: calm\n---\nUse tabs.\n"
    const [item] = Notes.decodeClaudeCode([{ path: "memory/tabs.md", text }], adas)
    assert(item?._tag === "Draft")
    assert.deepStrictEqual([item.draft.kind, item.draft.summary], ["reference", "tabs"])
    assert.deepStrictEqual(item.draft.metadata, { name: 7, description: ["a"], type: "idea", mood: "calm" })
  })

  it.scoped("an import into a store with redaction redacts secrets in conversations, and a second import adds nothing", () =>
    Effect.gen(function*() {
      const store = yield* at(
        MemoryStore.layerInMemory.pipe(Layer.provide(Redaction.layer())),
        MemoryStore.MemoryStore
      )
      const secret = `ghp_${"a1B2".repeat(9)}`
      const chat = Either.getOrThrow(Conversations.decodeClaude(
        JSON.stringify([{ uuid: "c", chat_messages: [{ sender: "human", text: `My token is ${secret}.` }] }]),
        adas
      ))
      assert.strictEqual((yield* Foreign.apply(store, ada, chat)).messages, 1)
      const again = yield* Foreign.apply(store, ada, chat)
      assert.deepStrictEqual([again.messages, reasons(again)], [0, {}])
      const threads = yield* at(
        Threads.layer.pipe(Layer.provide([Layer.succeed(MemoryStore.MemoryStore, store)])),
        Threads.Threads
      )
      const [thread] = yield* threads.list(ada)
      const { items: [message] } = yield* threads.messages(ada, thread!.name)
      assert.include(message!.content, "My token is")
      assert.notInclude(JSON.stringify(message), secret)
    }))

  it.scoped("a second import appends new messages, but skips a conversation whose last imported message has changed", () =>
    Effect.gen(function*() {
      const store = yield* memory
      const chat = (...texts: ReadonlyArray<string>) =>
        Either.getOrThrow(Conversations.decodeClaude(
          JSON.stringify([{ uuid: "c", chat_messages: texts.map((text) => ({ sender: "human", text })) }]),
          adas
        ))
      assert.strictEqual((yield* Foreign.apply(store, ada, chat("a", "b"))).messages, 2)
      assert.strictEqual((yield* Foreign.apply(store, ada, chat("a", "b", "c"))).messages, 1)
      const report = yield* Foreign.apply(store, ada, chat("a", "x", "y", "z"))
      assert.deepStrictEqual([report.threads, report.messages], [0, 0])
      assert.deepStrictEqual(reasons(report), { "there is a thread of this name with other messages": 1 })
      const given = Layer.succeed(MemoryStore.MemoryStore, store)
      const threads = yield* at(Layer.provide(Threads.layer, given), Threads.Threads)
      const { items } = yield* threads.messages(ada, "claude:c")
      assert.deepStrictEqual(items.map(({ content }) => content), ["a", "b", "c"])
    }))

  it.scoped("an import makes records from Obsidian notes with their tags and links, and from Claude Code notes with their kinds", () =>
    Effect.gen(function*() {
      const { items, report, store } = yield* imported("obsidian")
      const tea = items.find(({ summary }) => summary === "Tea")!
      assert.deepStrictEqual([tea.body, tea.tags, tea.metadata], [
        "Goes with [[London]].\n",
        ["drink", "hot"],
        { aliases: ["Chai"] }
      ])
      const { to } = yield* store.links(ada, tea.id)
      assert.deepStrictEqual(to.map(({ id }) => id), [MemoryId.foreign("obsidian", "Places/London.md")])
      assert.deepStrictEqual(reasons(report), { "a file that is no note": 1 })
      const claude = yield* imported("claude-code")
      assert.deepStrictEqual(claude.items.map(({ body, kind, summary }) => [kind, summary, body]).sort(), [
        ["feedback", "testing: run one file at a time", "Run one test file at a time.\n"],
        ["reference", "CLAUDE", "# Rules\n\nUse tabs.\n"]
      ])
      assert.deepStrictEqual(reasons(claude.report), { "an index of other files": 1 })
    }))

  it.scoped("an import creates nothing from data in another format, and reports illegal ids, `__proto__` keys and too long texts", () =>
    Effect.gen(function*() {
      const decoders = [
        McpMemory.decode,
        Mem0.decode,
        LangGraph.decode,
        Letta.decode,
        Zep.decode,
        Conversations.decodeChatGpt,
        Conversations.decodeClaude
      ]
      for (const decode of decoders) {
        for (const text of ["{", "\u0000", "[1]", "[{\"__proto__\":{\"a\":1}}]", "\"\\ud800\"", "{\"type\":\"x\"}"]) {
          const result = decode(text, adas)
          if (Either.isRight(result)) {
            assert.isTrue(result.right.every(({ _tag }) => _tag === "Skip"), text)
          }
        }
      }
      const store = yield* memory
      const hostile = Either.getOrThrow(Mem0.decode(
        `[{"id":"\u0000","memory":"x\\u0000y \\ud800","user_id":"../..","metadata":{"__proto__":{"isAdmin":true}}},
          {"id":"2","memory":"ok","user_id":"a\\u0000"},{"id":"3","memory":"${"x".repeat(70_000)}"}]`.replace(
          "\u0000",
          "\\u0000"
        ),
        adas
      ))
      const report = yield* Foreign.apply(store, ada, hostile)
      assert.strictEqual(report.created, 1)
      assert.deepStrictEqual(reasons(report), {
        "an id of a user, agent or run that is not legal here": 1,
        "attributes that a record cannot have": 1,
        "longer than 65536 characters": 1
      })
      assert.isFalse("isAdmin" in {})
    }))
})
