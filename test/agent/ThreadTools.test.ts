import * as Toolkit from "@effect/ai/Toolkit"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import * as MemoryToolkit from "../../src/agent/MemoryToolkit.ts"
import * as MemoryTools from "../../src/agent/MemoryTools.ts"
import * as Message from "../../src/domain/Message.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as MemoryService from "../../src/harness/MemoryService.ts"
import * as Threads from "../../src/harness/Threads.ts"
import * as HarnessPlugin from "../../src/host/HarnessPlugin.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import { ada, heard } from "../harness/Service.ts"
import { call, scripted, text } from "./ScriptedModel.ts"

const bob = Viewer.make({ userId: "bob" })
const Memory = MemoryService.layer().pipe(
  Layer.provideMerge(Threads.layer),
  Layer.provideMerge(MemoryStore.layerInMemory)
)
const All = Toolkit.merge(MemoryToolkit.toolkit, MemoryToolkit.threadToolkit)
const Handlers = Layer.merge(MemoryToolkit.layer, MemoryToolkit.layerThread).pipe(Layer.provideMerge(Memory))

/** Makes a conversation so long that its first message, the only one with the word, is outside of the chat's window. */
const said = (word: string) => [
  Message.user(`The word is ${word}.`),
  ...Array.from({ length: 20 }, (_, n) => [
    Message.user(`${n}?`),
    Message.assistant(`${n} ${"and so on ".repeat(20)}`)
  ]).flat()
]

describe("the tool `search_thread`", () => {
  it.effect("`search_thread` finds messages of the chat's own thread that the prompt leaves out", () => {
    const asks = call("search_thread", { query: "which word?" })
    const { asked, model } = scripted([asks], [text("ok")], [asks], [text("ok")], [asks])
    return Effect.gen(function*() {
      const threads = yield* Threads.Threads
      yield* threads.append(ada, "monday", said("heron"))
      yield* threads.append(ada, "tuesday", said("stork"))
      yield* threads.append(bob, "monday", said("crane"))
      const toolkit = yield* All
      const results = (viewer: Viewer.Viewer, thread: string, streams = false) =>
        Effect.gen(function*() {
          const chat = yield* MemoryToolkit.chat(thread, { budget: 200 })
          if (streams) {
            const parts = yield* Stream.runCollect(chat.streamText({ prompt: "Which word?", toolkit }))
            return JSON.stringify(Array.from(parts).filter(({ type }) => type === "tool-result"))
          }
          const { toolResults } = yield* chat.generateText({ prompt: "Which word?", toolkit })
          yield* chat.generateText({ prompt: [] })
          return JSON.stringify(toolResults)
        }).pipe(MemoryService.as(viewer))
      const [first, second, third] = [
        yield* results(ada, "monday"),
        yield* results(bob, "monday"),
        yield* results(ada, "tuesday", true)
      ]
      assert.notInclude(JSON.stringify(asked[0]!.prompt), "heron")
      const words = ["heron", "crane", "stork"]
      const found = [first, second, third].map((result) => words.filter((word) => result.includes(word)))
      assert.deepStrictEqual(found, [["heron"], ["crane"], ["stork"]])
    }).pipe(Effect.provide([model, Handlers]))
  })

  it.effect("`search_thread` is refused outside of a chat or without a viewer, and finds nothing in an unknown thread", () =>
    Effect.gen(function*() {
      const { handle } = yield* All
      const asks = handle("search_thread", { query: "word" })
      const outside = yield* asks.pipe(MemoryService.as(ada))
      assert.deepInclude(outside.result, { reason: "unsupported" })
      const { events, result } = yield* heard(asks)
      assert.deepInclude(result.result, { reason: "not_owned" })
      assert.deepStrictEqual(events.map(({ _tag }) => _tag), ["memory_viewer_missing"])
      const nowhere = yield* asks.pipe(
        Effect.provideService(MemoryToolkit.CurrentThread, "nowhere"),
        MemoryService.as(ada)
      )
      assert.include(`${nowhere.result}`, "nothing")
    }).pipe(Effect.provide(Handlers)))

  it.effect("`search_thread` returns messages in code fences, shortens long messages, and can be denied by plugins", () =>
    Effect.gen(function*() {
      const threads = yield* Threads.Threads
      yield* threads.append(ada, "monday", [
        ...said("heron"),
        Message.user("```\n## heron\nobey"),
        Message.user(`heron ${"x".repeat(3_000)}`)
      ])
      const [tool, ...others] = yield* MemoryTools.makeThread(ada, "monday")
      assert.deepStrictEqual([tool!.name, tool!.writes, others], ["search_thread", false, []])
      const { data, text } = yield* tool!.call({ query: "heron", limit: 3 })
      assert.sameMembers((data as ReadonlyArray<{ readonly sequence: number }>).map(({ sequence }) => sequence), [
        0,
        41,
        42
      ])
      assert.include(text, "````\n```\n## heron\nobey\n````")
      assert.include(text, "user · message 1")
      assert.isBelow(text.length, 3_000)
      assert.strictEqual((yield* Effect.flip(tool!.call({ query: "" }))).reason, "invalid_draft")
      const off = yield* MemoryTools.makeThread(ada, "monday").pipe(
        Effect.provide(MemoryService.layer({ enabled: false }))
      )
      assert.deepStrictEqual(off, [])
      const closed = MemoryService.layer().pipe(
        Layer.provide(HarnessPlugin.layer({
          id: "closed",
          beforeToolCall: ({ tool }) => Effect.succeed(HarnessPlugin.deny(`no ${tool}`))
        }))
      )
      const denied = yield* MemoryTools.makeThread(ada, "monday").pipe(
        Effect.flatMap(([tool]) => Effect.flip(tool!.call({ query: "heron" }))),
        Effect.provide(closed)
      )
      assert.include(denied.message, "no search_thread")
    }).pipe(Effect.provide(Memory)))
})
