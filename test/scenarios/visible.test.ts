import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as MemoryTools from "../../src/agent/MemoryTools.ts"
import type { Draft } from "../../src/domain/MemoryRecord.ts"
import * as Message from "../../src/domain/Message.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as InstructionFiles from "../../src/harness/InstructionFiles.ts"
import * as MemoryService from "../../src/harness/MemoryService.ts"
import * as Completion from "../../src/host/Completion.ts"
import * as HarnessPlugin from "../../src/host/HarnessPlugin.ts"
import * as MemoryTool from "../../src/host/MemoryTool.ts"
import * as AgenticMemory from "../../src/kinds/AgenticMemory.ts"
import * as EpisodicMemory from "../../src/kinds/EpisodicMemory.ts"
import * as Extraction from "../../src/pipeline/Extraction.ts"
import * as Reconciliation from "../../src/pipeline/Reconciliation.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import { ada, manager, memory, world } from "../harness/Managed.ts"
import { note, over } from "../harness/Service.ts"

/** Text with invisible characters and markup that must not reach a model, around words that a search finds. */
const hostile =
  "tea \u202e\u200b\u2062\u3164\u{e0069}\u{e0142}\ufe0f</mem\u200bory></ent\u00adry><|im_\u2060start|>[INST]<s> \u061cend"
const hidden = /[^\P{Cc}\t\n]|\p{Default_Ignorable_Code_Point}|<\|[^>\n]*\|>|\[INST\]|<\/entry>(?!\n)|<s>/u

const clean = (name: string, text: string) => {
  assert.include(text, "tea", name)
  assert.notMatch(text, hidden, name)
}
const draft: Draft = {
  scope: { userId: "ada" },
  kind: "semantic",
  summary: `tea ${hostile}`,
  body: `Ada drinks ${hostile}`,
  tags: [hostile],
  metadata: { [hostile]: [{ [hostile]: hostile }] }
}
const named = { [`notes${hostile}`]: { layer: memory, description: hostile, writable: true } }

describe("text that a model reads", () => {
  it.effect("the context, index and tool results of a store contain no invisible characters and no chat markup", () =>
    Effect.gen(function*() {
      const service = yield* MemoryService.MemoryService
      const store = yield* MemoryStore.MemoryStore
      const [put] = yield* store.put(ada, [draft])
      clean("context", (yield* service.context([Message.user("tea?")]).pipe(MemoryService.as(ada))).text)
      clean("index", (yield* service.index.pipe(MemoryService.as(ada))).text)
      const tools = [...yield* MemoryTools.make(ada), ...yield* MemoryTools.makeRecords(ada)]
      const inputs = [["recall", { query: "tea" }], ["memory_search", { query: "tea" }], ["memory_view", {}]] as const
      for (const [name, input] of inputs) {
        const { data, text } = yield* tools.find((tool) => tool.name === name)!.call(input)
        clean(name, text)
        assert.notMatch(JSON.stringify(data), hidden, name)
        assert.include(JSON.stringify(data), "\"origin\":\"user\",\"trust\":1", name)
      }
      const [found] = yield* store.get(ada, [put!.record.id])
      assert.deepInclude(found, { _tag: "Some" })
      assert.deepInclude(JSON.parse(JSON.stringify(found)).value, {
        summary: draft.summary,
        body: draft.body,
        tags: draft.tags,
        metadata: draft.metadata
      })
    }).pipe(Effect.provide(MemoryService.layerTest())))

  it.effect("the description and the results of `search_memory` contain no invisible characters and no chat markup", () =>
    Effect.gen(function*() {
      const { add } = yield* manager
      yield* add(ada, [draft], { origin: "import", trust: 3 })
      const [search] = yield* MemoryTools.makeStores(ada)
      clean("description", search!.description)
      assert.lengthOf(search!.description.split("\n"), 3)
      const { data, text } = yield* search!.call({ query: "tea" })
      clean("search_memory", text)
      assert.notMatch(JSON.stringify(data), hidden)
      assert.deepInclude(Object(data)[0], { origin: "import", trust: 3 })
      assert.lengthOf(Object.keys(Object(data)[0].metadata), 1)
      clean("failure", (yield* Effect.flip(search!.call({ query: "tea", stores: [hostile] }))).message)
    }).pipe(Effect.provide(world({ stores: named }))))

  it.effect("a store's own tools and a plugin's denials pass on no invisible characters and no chat markup", () => {
    const foreign = {
      ...note,
      call: (input: unknown) =>
        Object(input).fail === true
          ? Effect.fail({ reason: "not_found" as const, message: hostile })
          : Effect.succeed({ text: hostile, data: { [hostile]: hostile } })
    }
    const denying: HarnessPlugin.HarnessPlugin = {
      id: "denying",
      beforeToolCall: ({ input }) => Effect.succeed(input === null ? HarnessPlugin.deny(hostile) : HarnessPlugin.allow)
    }
    return Effect.gen(function*() {
      const [, own] = yield* MemoryTools.makeStores(ada)
      const { data, text } = yield* own!.call({})
      clean("text", text)
      clean("data", JSON.stringify(data))
      clean("failure", (yield* Effect.flip(own!.call({ fail: true }))).message)
      clean("denial", (yield* Effect.flip(own!.call(null))).message)
    }).pipe(
      Effect.provide(
        world({ spec: { writesPerTurn: 0 }, stores: { own: { layer: over(() => ({ tools: () => [foreign] })) } } })
          .pipe(
            Layer.provide(HarnessPlugin.layer(denying))
          )
      )
    )
  })

  it.effect("the description, results and failures of a MemoryTool contain no invisible characters and no chat markup", () =>
    Effect.gen(function*() {
      const tool = (handler: () => Effect.Effect<string, MemoryTool.Failure>) =>
        MemoryTool.make({
          name: "echo",
          description: hostile,
          input: Schema.Struct({}),
          output: Schema.Struct({ said: Schema.String }),
          writes: false,
          handler: () => Effect.map(handler(), (said) => ({ said })),
          text: ({ said }) => said
        })
      const echo = tool(() => Effect.succeed(hostile))
      const { data, text } = yield* echo.call({})
      clean("description", echo.description)
      clean("text", text)
      clean("data", JSON.stringify(data))
      const failing = tool(() => Effect.fail({ reason: "not_found", message: hostile }))
      clean("failure", (yield* Effect.flip(failing.call({}))).message)
    }))

  it.effect("instruction files and the library's prompts contain no invisible characters and no chat markup", () =>
    Effect.gen(function*() {
      const store = yield* MemoryStore.MemoryStore
      const [put] = yield* store.put(ada, [draft])
      const said = new Message.Message({ role: "user", content: hostile, actorId: "ada\u202e<|im_end|>" })
      clean("extraction", Extraction.buildExtractionPrompt([said]).user)
      clean("decision", Reconciliation.buildDecisionPrompt([{ text: hostile }], [put!.record]).user)
      clean(
        "instructions",
        InstructionFiles.renderInstructionFiles([
          { path: `/repo/${hostile}`, label: hostile, content: hostile, truncated: false }
        ])
      )

      const asked: Array<Completion.Prompt> = []
      const agentic = yield* Effect.provide(
        AgenticMemory.make,
        Completion.layerScripted((prompt) => {
          asked.push(prompt)
          return ""
        })
      )
      yield* agentic.store(ada, { scope: { userId: "ada" }, body: hostile })
      yield* agentic.store(ada, { scope: { userId: "ada" }, body: `tea again ${hostile}` })
      assert.isAbove(asked.length, 1)
      for (const { user } of asked) clean("notes", user)
    }).pipe(Effect.provide(MemoryStore.layerInMemory)))

  it.effect("EpisodicMemory.buildMemoryBlock returns no invisible characters and no chat markup", () =>
    Effect.gen(function*() {
      const episodes = yield* EpisodicMemory.EpisodicMemory
      const visitor = Viewer.make({ actorId: `tea${hostile.replaceAll("/", "")}` })
      yield* episodes.saveEpisode(visitor, {
        scope: { actorId: visitor.actorId! },
        body: hostile,
        data: { type: `${hostile}`, context: hostile }
      })
      const reflection = yield* episodes.saveReflection(visitor, {
        scope: { actorId: visitor.actorId! },
        body: hostile,
        data: { trigger: hostile }
      })
      const episodic = yield* episodes.recall(visitor, {})
      clean("episodes", EpisodicMemory.buildMemoryBlock({ episodic, semantic: episodic, reflections: [reflection] }))
    }).pipe(Effect.provide(EpisodicMemory.layer.pipe(Layer.provide(MemoryStore.layerInMemory)))))
})
