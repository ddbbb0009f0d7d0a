/** The commands of Anthropic's memory tool over several stores, and laws of the edits that a model makes to the text that it is shown. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import * as Layer from "effect/Layer"
import * as MemoryFileCommands from "../../src/agent/MemoryFileCommands.ts"
import * as ToolDefinition from "../../src/agent/ToolDefinition.ts"
import * as PromptText from "../../src/domain/PromptText.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as MemoryService from "../../src/harness/MemoryService.ts"
import type * as MemoryTool from "../../src/host/MemoryTool.ts"
import * as Redaction from "../../src/host/Redaction.ts"
import { stores } from "../stores.ts"

const ada = Viewer.make({ userId: "ada" })
const spec = { writesPerTurn: 0 }
const used = ["memory", "markdown", "sqlite"] as const
const layerOf = (name: typeof used[number]) => MemoryService.layer(spec).pipe(Layer.provide(stores[name]))

/** Makes a function that calls the viewer's tool. The function returns the text of the result, or the reason and message of the failure. */
const caller = (viewer: Viewer.Viewer) =>
  Effect.map(MemoryFileCommands.make(viewer), ([tool]) => (input: object) =>
    Effect.match(tool!.call(input), {
      onSuccess: ({ text }) => text,
      onFailure: ({ message, reason }) => `${reason}: ${message}`
    }))

const bodyOf = (path: string) =>
  Effect.gen(function*() {
    const { list } = yield* MemoryService.MemoryService
    const { items } = yield* list({ kinds: ["file"], limit: 1_000 })
    return items.find(({ metadata }) => metadata["path"] === path)?.body
  }).pipe(MemoryService.as(ada))

const escapes = [
  "",
  "/",
  "/memory",
  "/memoriesx",
  "memories",
  "memories/a",
  "./memories/a",
  "/etc/passwd",
  "//memories/a",
  "/memories//a",
  "/memories/..",
  "/memories/../etc/passwd",
  "/memories/a/../../b",
  "/memories/./a",
  "/memories/%2e%2e/a",
  "/memories/%2E%2e%2fa",
  "/memories/%252e%252e/a",
  "/memories/%25252e%25252e/a",
  "/memories/a%2fb",
  "/memories/a%5cb",
  "/memories/a%00",
  "/memories/..\\a",
  "/memories\\a",
  "C:\\memories\\a",
  "/memories/a\u0000b",
  "/memories/a\nb",
  "/memories/a\u200bb",
  "/memories/\u202eb",
  `/memories/${"a".repeat(256)}`,
  `/memories${"/a".repeat(600)}`,
  "file:///memories/a",
  "~/memories"
]

describe.each(used)("files of MemoryFileCommands in the store %s", (name) => {
  it.live("`create` and `rename` refuse a path that the store would redact, and write nothing", () =>
    Effect.gen(function*() {
      const call = yield* caller(ada)
      const refusal = "invalid_draft: Error: The path contains a secret, such as a key or an e-mail address, " +
        "and would be redacted. Please use another path."
      const create = (path: string) => call({ command: "create", path, file_text: "tea" })
      const rename = (from: string, to: string) => call({ command: "rename", old_path: from, new_path: to })
      assert.strictEqual(yield* create("/memories/ann@example.org.md"), refusal)
      assert.strictEqual(yield* create("/memories/people/sk-a1B2c3D4e5F6g7H8.md"), refusal)
      assert.strictEqual(
        yield* create("/memories/ann/example.org.md"),
        "File created successfully at: /memories/ann/example.org.md"
      )
      assert.strictEqual(yield* rename("/memories/ann/example.org.md", "/memories/ann@example.org.md"), refusal)
      assert.strictEqual(yield* rename("/memories/ann", "/memories/ann@example.org"), refusal)
      const { list } = yield* MemoryService.MemoryService
      const { items } = yield* list({}).pipe(MemoryService.as(ada))
      assert.deepStrictEqual(items.map(({ metadata }) => metadata["path"]), ["/memories/ann/example.org.md"])
      assert.strictEqual(
        yield* rename("/memories/ann", "/memories/bea"),
        "Successfully renamed /memories/ann to /memories/bea"
      )
      assert.strictEqual(yield* bodyOf("/memories/bea/example.org.md"), "tea")
    }).pipe(Effect.provide(Layer.provide(layerOf(name), Redaction.layer({ emails: true })))))

  it.live("the commands create, view, edit, rename and delete files, and return the answers that Anthropic documents", () =>
    Effect.gen(function*() {
      const call = yield* caller(ada)
      const path = "/memories/notes/tea.md"
      assert.strictEqual(
        yield* call({ command: "create", path, file_text: "one\ntwo\nthree\n" }),
        `File created successfully at: ${path}`
      )
      assert.strictEqual(
        yield* call({ command: "view", path }),
        `Here's the content of ${path} with line numbers:\n     1\tone\n     2\ttwo\n     3\tthree`
      )
      assert.strictEqual(
        yield* call({ command: "view", path, view_range: [2, -1] }),
        `Here's the content of ${path} with line numbers:\n     2\ttwo\n     3\tthree`
      )
      assert.strictEqual(
        yield* call({ command: "str_replace", path, old_str: "two", new_str: "2" }),
        "The memory file has been edited.\n     1\tone\n     2\t2\n     3\tthree"
      )
      assert.strictEqual(
        yield* call({ command: "insert", path, insert_line: 0, insert_text: "zero" }),
        `The file ${path} has been edited.`
      )
      yield* call({ command: "insert", path, insert_line: 4, insert_text: "four\n" })
      assert.strictEqual(yield* bodyOf(path), "zero\none\n2\nthree\nfour\n")
      assert.strictEqual(
        yield* call({ command: "rename", old_path: "/memories/notes", new_path: "/memories/old/notes" }),
        "Successfully renamed /memories/notes to /memories/old/notes"
      )
      assert.strictEqual(yield* bodyOf("/memories/old/notes/tea.md"), "zero\none\n2\nthree\nfour\n")
      assert.strictEqual(
        yield* call({ command: "view", path: "/memories" }),
        "Here're the files and directories up to 2 levels deep in /memories, excluding hidden items and node_modules:\n" +
          "22B\t/memories\n22B\t/memories/old/\n22B\t/memories/old/notes/"
      )
      assert.strictEqual(
        yield* call({ command: "delete", path: "/memories/old" }),
        "Successfully deleted /memories/old"
      )
      assert.strictEqual(
        yield* call({ command: "view", path: "/memories" }),
        "Here're the files and directories up to 2 levels deep in /memories, excluding hidden items and node_modules:\n0B\t/memories"
      )
      // a file can be created again at a path from which a file was renamed
      assert.include(yield* call({ command: "create", path, file_text: "" }), "File created")
      assert.strictEqual(yield* bodyOf(path), "")
    }).pipe(Effect.provide(layerOf(name))))

  it.live("an invalid command fails, in most cases with the text that Anthropic documents, and leaves the file unchanged", () =>
    Effect.gen(function*() {
      const call = yield* caller(ada)
      const path = "/memories/a.txt"
      yield* call({ command: "create", path, file_text: "x\ny\nx" })
      const none = "/memories/none"
      const expected: ReadonlyArray<readonly [object, string]> = [
        [{ command: "view", path: none }, `not_found: The path ${none} does not exist. Please provide a valid path.`],
        [{ command: "create", path, file_text: "z" }, `conflict: Error: File ${path} already exists`],
        [{ command: "create", path: `${path}/b`, file_text: "z" }, `conflict: Error: ${path} is a file`],
        [{ command: "create", path: "/memories", file_text: "z" }, "conflict: Error: File /memories already exists"],
        [
          { command: "str_replace", path: none, old_str: "x", new_str: "z" },
          `not_found: Error: The path ${none} does not exist. Please provide a valid path.`
        ],
        [
          { command: "str_replace", path, old_str: "q", new_str: "z" },
          `not_found: No replacement was performed, old_str \`q\` did not appear verbatim in ${path}.`
        ],
        [
          { command: "str_replace", path, old_str: "x", new_str: "z" },
          "conflict: No replacement was performed. Multiple occurrences of old_str `x` in lines: 1, 3. Please ensure it is unique"
        ],
        [
          { command: "insert", path: none, insert_line: 0, insert_text: "z" },
          `not_found: Error: The path ${none} does not exist`
        ],
        [
          { command: "insert", path, insert_line: 4, insert_text: "z" },
          "invalid_draft: Error: Invalid `insert_line` parameter: 4. It should be within the range of lines of the file: [0, 3]"
        ],
        [{ command: "delete", path: none }, `not_found: Error: The path ${none} does not exist`],
        [
          { command: "rename", old_path: none, new_path: "/memories/b" },
          `not_found: Error: The path ${none} does not exist`
        ],
        [
          { command: "rename", old_path: path, new_path: path },
          `conflict: Error: The destination ${path} already exists`
        ],
        [{ command: "create", path: "/memories/b" }, "invalid_draft: file_text: is missing; create needs it"],
        [
          { command: "view", path, view_range: [3, 2] },
          "invalid_draft: Error: Invalid `view_range` parameter: [3, 2]. It should be within the lines of the file: [1, 3]"
        ]
      ]
      for (const [input, answer] of expected) assert.strictEqual(yield* call(input), answer)
      assert.strictEqual(yield* bodyOf(path), "x\ny\nx")
    }).pipe(Effect.provide(layerOf(name))))

  it.live("every command with a path outside of /memories, or with a malformed or too long path, fails with `path_escape`", () =>
    Effect.gen(function*() {
      const call = yield* caller(ada)
      yield* call({ command: "create", path: "/memories/a", file_text: "text" })
      for (const path of escapes) {
        const calls = [
          { command: "view", path },
          { command: "create", path, file_text: "x" },
          { command: "str_replace", path, old_str: "text", new_str: "x" },
          { command: "insert", path, insert_line: 0, insert_text: "x" },
          { command: "delete", path },
          { command: "rename", old_path: path, new_path: "/memories/z" },
          { command: "rename", old_path: "/memories/a", new_path: path }
        ]
        for (const input of calls) assert.match(yield* call(input), /^path_escape: /, JSON.stringify(input))
      }
      assert.match(yield* call({ command: "delete", path: "/memories" }), /^path_escape: /)
      assert.match(
        yield* call({ command: "rename", old_path: "/memories/a", new_path: "/memories/a/b" }),
        /^path_escape: /
      )
      assert.strictEqual(yield* bodyOf("/memories/a"), "text")
      const { list } = yield* MemoryService.MemoryService
      assert.lengthOf((yield* MemoryService.as(ada)(list({}))).items, 1)
    }).pipe(Effect.provide(layerOf(name))))

  it.live("two users can have different files under the same path", () =>
    Effect.gen(function*() {
      const mine = yield* caller(ada)
      const his = yield* caller(Viewer.make({ userId: "bob" }))
      const path = "/memories/same.md"
      yield* mine({ command: "create", path, file_text: "ada's" })
      assert.match(yield* his({ command: "view", path }), /does not exist/)
      assert.notInclude(yield* his({ command: "view", path: "/memories" }), "same.md")
      yield* his({ command: "create", path, file_text: "bob's" })
      yield* his({ command: "delete", path })
      assert.include(yield* mine({ command: "view", path }), "ada's")
    }).pipe(Effect.provide(layerOf(name))))

  it.live("`str_replace` finds `old_str` in the text that the model sees, and keeps hidden characters", () =>
    Effect.gen(function*() {
      const call = yield* caller(ada)
      const path = "/memories/hidden.md"
      const body = "a\u200bb\u202ec one\r\ntwo\u00ad <|im_start|>system\u{e0041} end"
      yield* call({ command: "create", path, file_text: body })
      const shown = yield* call({ command: "view", path })
      assert.include(shown, "     1\tabc one\n     2\ttwo &lt;|im_start|>system end")
      yield* call({
        command: "str_replace",
        path,
        old_str: "abc one\ntwo &lt;|im_start|>system",
        new_str: "abc 1\ntwo &lt;|im_start|>user"
      })
      assert.strictEqual(yield* bodyOf(path), "a\u200bb\u202ec 1\r\ntwo\u00ad <|im_start|>user\u{e0041} end")
      yield* call({ command: "str_replace", path, old_str: "abc", new_str: "xyz" })
      assert.strictEqual(yield* bodyOf(path), "xyz\u200b\u202e 1\r\ntwo\u00ad <|im_start|>user\u{e0041} end")
    }).pipe(Effect.provide(layerOf(name))))

  it.live("exactly one of several concurrent calls of `create` for the same path succeeds", () =>
    Effect.gen(function*() {
      const call = yield* caller(ada)
      const answers = yield* Effect.forEach(
        [1, 2, 3, 4, 5],
        (n) => call({ command: "create", path: "/memories/one", file_text: `${n}` }),
        { concurrency: "unbounded" }
      )
      assert.lengthOf(answers.filter((answer) => answer.startsWith("File created")), 1)
      assert.lengthOf(answers.filter((answer) => answer.startsWith("conflict: ")), 4)
    }).pipe(Effect.provide(layerOf(name))))
})

describe("MemoryFileCommands", () => {
  it.effect("the command `create` counts against the limit of writes per turn, and `view` does not count", () =>
    Effect.gen(function*() {
      const call = yield* caller(ada)
      assert.include(yield* call({ command: "view", path: "/memories" }), "0B\t/memories")
      assert.include(yield* call({ command: "view", path: "/memories" }), "0B\t/memories")
      assert.include(yield* call({ command: "create", path: "/memories/a", file_text: "" }), "created")
      assert.match(yield* call({ command: "create", path: "/memories/b", file_text: "" }), /^rate_limited: /)
      assert.include(yield* call({ command: "view", path: "/memories" }), "/memories/a")
    }).pipe(Effect.provide(MemoryService.layerTest())))

  it.effect("a file is stored as a record, which search finds and which can be restored after the file was deleted", () =>
    Effect.gen(function*() {
      const call = yield* caller(ada)
      const memory = yield* MemoryService.MemoryService
      yield* call({ command: "create", path: "/memories/boats.md", file_text: "The ferry leaves at nine." })
      const { hits } = yield* memory.search({ text: "ferry" })
      assert.strictEqual(hits[0]?.record.summary, "boats.md")
      yield* call({ command: "delete", path: "/memories/boats.md" })
      const { items } = yield* memory.list({ forgotten: true })
      yield* memory.apply([{ _tag: "Restore", id: items[0]!.id, revision: 1 }])
      assert.include(yield* call({ command: "view", path: "/memories/boats.md" }), "ferry")
    }).pipe(MemoryService.as(ada), Effect.provide(MemoryService.layerTest({ spec }))))

  it.effect("`create` by a viewer without ids fails with `invalid_scope`, since every user would see the file", () =>
    Effect.gen(function*() {
      const call = yield* caller(Viewer.make({}))
      assert.match(yield* call({ command: "create", path: "/memories/a", file_text: "x" }), /^invalid_scope: /)
    }).pipe(Effect.provide(MemoryService.layerTest({ spec }))))
})

describe("PromptText.traced and PromptText.replaceShown", () => {
  const pieces = FastCheck.array(
    FastCheck.oneof(
      FastCheck.constantFrom(
        "a",
        "b",
        " ",
        "\n",
        "\r\n",
        "\r",
        "\t",
        "\u200b",
        "\u202e",
        "\u00ad",
        "\ufeff",
        "\u200d",
        "\ufe0f",
        "\u20e3",
        "1",
        "👩",
        "👨",
        "❤",
        "🏴",
        "\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f}",
        "<",
        "|",
        ">",
        "<|im_start|>",
        "[INST]",
        "</memory>",
        "<s>",
        "क",
        "\u094d",
        "\u200c",
        "\u0000",
        "&lt;",
        "＜"
      ),
      FastCheck.fullUnicodeString({ maxLength: 3 })
    ),
    { maxLength: 30 }
  ).map((parts) => parts.join("").toWellFormed())

  it.prop(
    "`traced` returns the visible text and a non-empty range of positions for each of its UTF-16 units, ordered by start",
    [pieces],
    ([text]) => {
      const { from, text: shown, to } = PromptText.traced(text)
      assert.strictEqual(shown, PromptText.visible(text))
      assert.lengthOf(from, shown.length)
      for (let n = 0; n < shown.length; n++) {
        assert.isBelow(from[n]!, to[n]!)
        if (n > 0) assert.isAtLeast(from[n]!, from[n - 1]!)
      }
    }
  )

  it.prop(
    "`replaceShown` leaves the stored text unchanged if the replacement equals the replaced part",
    [pieces, FastCheck.nat(), FastCheck.nat()],
    ([text, a, b]) => {
      const traced = PromptText.traced(text)
      const [start, end] = [a % (traced.text.length + 1), b % (traced.text.length + 1)].toSorted((x, y) => x - y)
      assert.strictEqual(PromptText.replaceShown(text, traced, start!, end!, traced.text.slice(start, end)), text)
    }
  )

  const letters = FastCheck.array(FastCheck.constantFrom("a", "b", "\n", "\u200b", "\u202e", "\u00ad", "\ufeff"), {
    maxLength: 30
  }).map((parts) => parts.join(""))
  const plain = FastCheck.array(FastCheck.constantFrom("x", "a", "\n"), { maxLength: 6 }).map((parts) => parts.join(""))

  it.prop(
    "`replaceShown` replaces a part of the text that the model sees, and keeps all hidden characters",
    [
      letters,
      FastCheck.nat(),
      FastCheck.nat(),
      plain
    ],
    ([text, a, b, next]) => {
      const traced = PromptText.traced(text)
      const [start, end] = [a % (traced.text.length + 1), b % (traced.text.length + 1)].toSorted((x, y) => x - y)
      const edited = PromptText.replaceShown(text, traced, start!, end!, next)
      assert.strictEqual(PromptText.visible(edited), traced.text.slice(0, start) + next + traced.text.slice(end))
      const hidden = (all: string) => all.replace(/[abx\n]/g, "")
      assert.strictEqual(hidden(edited), hidden(text))
    }
  )
})

describe("ToolDefinition", () => {
  it.effect("ToolDefinition converts tools to the formats of Anthropic's and OpenAI's APIs", () =>
    Effect.gen(function*() {
      const tools: ReadonlyArray<MemoryTool.MemoryTool> = yield* MemoryFileCommands.make(ada)
      const [anthropic] = ToolDefinition.anthropic(tools)
      const [openai] = ToolDefinition.openai(tools)
      const [responses] = ToolDefinition.openaiResponses(tools)
      assert.hasAllKeys(anthropic, ["name", "description", "input_schema"])
      assert.hasAllKeys(openai, ["type", "function"])
      assert.hasAllKeys(openai!.function, ["name", "description", "parameters"])
      assert.hasAllKeys(responses, ["type", "name", "description", "parameters", "strict"])
      for (const schema of [anthropic!.input_schema, openai!.function.parameters, responses!.parameters]) {
        assert.include(schema, { type: "object", additionalProperties: false })
        assert.notMatch(JSON.stringify(schema), /\$ref|\$schema|prefixItems/)
      }
      assert.deepStrictEqual(MemoryFileCommands.anthropicTool, { type: "memory_20250818", name: "memory" })
    }).pipe(Effect.provide(MemoryService.layerTest())))
})
