import * as LanguageModel from "@effect/ai/LanguageModel"
import * as Tool from "@effect/ai/Tool"
import * as Toolkit from "@effect/ai/Toolkit"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { expectTypeOf } from "vitest"
import * as MemoryToolkit from "../../src/agent/MemoryToolkit.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as MemoryService from "../../src/harness/MemoryService.ts"
import { ada, heard } from "../harness/Service.ts"
import { call, scripted } from "./ScriptedModel.ts"

const Weather = Toolkit.make(
  Tool.make("weather", { parameters: { city: Schema.String }, success: Schema.String })
)
const All = Toolkit.merge(Weather, MemoryToolkit.toolkitWithForget)

const handlers = Layer.merge(
  Weather.toLayer({ weather: ({ city }) => Effect.succeed(`sunny in ${city}`) }),
  MemoryToolkit.layer
)
const over = (memory: Layer.Layer<MemoryService.MemoryService>) => handlers.pipe(Layer.provideMerge(memory))
const tea = { scope: "user", kind: "user", summary: "Likes tea", body: "Green." } as const
const bob = Viewer.make({ userId: "bob" })

describe("MemoryToolkit.toolkit", () => {
  it.effect("a memory toolkit merged with the tool `weather` offers a model all four tools; calls of `weather` and `remember` succeed", () => {
    const answer = [call("weather", { city: "Lisbon" }), call("remember", tea)]
    const { asked, model } = scripted(answer, answer)
    return Effect.gen(function*() {
      const toolkit = yield* All
      assert.deepStrictEqual(Object.keys(toolkit.tools), ["weather", "remember", "recall", "forget"])
      const { toolResults } = yield* LanguageModel.generateText({ prompt: "I like tea", toolkit })
      assert.deepStrictEqual(toolResults.map(({ isFailure, name }) => [name, isFailure]), [
        ["weather", false],
        ["remember", false]
      ])
      const parts = yield* Stream.runCollect(LanguageModel.streamText({ prompt: "I like tea", toolkit }))
      const results = Array.from(parts).flatMap((part) =>
        part.type === "tool-result" ? [[part.name, part.isFailure]] : []
      )
      assert.sameDeepMembers(results, [["weather", false], ["remember", false]])
      assert.deepStrictEqual(asked[0]!.tools.map(({ name }) => name), ["weather", "remember", "recall", "forget"])
    }).pipe(
      MemoryService.as(ada),
      Effect.provide([model, over(MemoryService.layerTest({ spec: { writesPerTurn: 2 } }))])
    )
  })

  it.effect("each call acts on behalf of its own viewer, so that users who share the toolkit see nothing of each other", () =>
    Effect.gen(function*() {
      const { handle } = yield* All
      const recalled = (viewer: Viewer.Viewer) => handle("recall", { query: "tea" }).pipe(MemoryService.as(viewer))
      yield* Effect.all([
        handle("remember", { ...tea, body: "Green." }).pipe(MemoryService.as(ada)),
        handle("remember", { ...tea, body: "Black." }).pipe(MemoryService.as(bob))
      ], { concurrency: "unbounded" })
      const [first, second] = yield* Effect.all([recalled(ada), recalled(bob)], { concurrency: "unbounded" })
      assert.include(`${first.result}`, "Green.")
      assert.notInclude(`${first.result}`, "Black.")
      assert.include(`${second.result}`, "Black.")
      assert.notInclude(`${second.result}`, "Green.")
    }).pipe(Effect.provide(over(MemoryService.layerTest()))))

  it("keeps the TypeScript types of each tool's parameters when merged with other tools", () => {
    type Parameters = { readonly [Name in keyof typeof All.tools]: Tool.Parameters<(typeof All.tools)[Name]> }
    expectTypeOf<Parameters["recall"]["query"]>().toEqualTypeOf<string | undefined>()
    expectTypeOf<Parameters["remember"]["body"]>().toEqualTypeOf<string>()
    expectTypeOf<Parameters["remember"]["tags"]>().toEqualTypeOf<ReadonlyArray<string> | undefined>()
    expectTypeOf<Parameters["weather"]>().toEqualTypeOf<{ readonly city: string }>()
  })

  it.effect("a call with invalid parameters writes nothing, and the model gets the failure as the result", () => {
    const wrong = [
      call("remember", { kind: "user" }),
      call("remember", "tea"),
      call("remember", { ...tea, scope: "run" }),
      call("recall", { limit: 0 })
    ]
    const { model } = scripted(wrong, wrong)
    return Effect.gen(function*() {
      const toolkit = yield* All
      const parts = yield* Stream.runCollect(LanguageModel.streamText({ prompt: "I like tea", toolkit }))
      const streamed = Array.from(parts).flatMap((part) => part.type === "tool-result" ? [part.isFailure] : [])
      assert.deepStrictEqual(streamed, [true, true, true, true])
      const { toolResults } = yield* LanguageModel.generateText({ prompt: "I like tea", toolkit })
      assert.deepStrictEqual(toolResults.map(({ isFailure }) => isFailure), [true, true, true, true])
      assert.deepInclude(toolResults[2]!.result, { reason: "invalid_scope" })
      const { list } = yield* MemoryService.MemoryService
      assert.deepStrictEqual((yield* list({})).items, [])
    }).pipe(MemoryService.as(ada), Effect.provide([model, over(MemoryService.layerTest())]))
  })

  it.effect("a call without a viewer fails with `not_owned`, and the event `memory_viewer_missing` is published", () =>
    Effect.gen(function*() {
      const { handle } = yield* All
      const { events, result } = yield* heard(handle("remember", tea))
      assert.isTrue(result.isFailure)
      assert.deepInclude(result.result, { reason: "not_owned" })
      assert.deepStrictEqual(events.map(({ _tag }) => _tag), ["memory_viewer_missing"])
    }).pipe(Effect.provide(over(MemoryService.layerTest()))))

  it.scoped("a call without a viewer fails, even if there was a viewer when the layer was built", () =>
    Effect.gen(function*() {
      const context = yield* Layer.build(over(MemoryService.layerTest())).pipe(MemoryService.as(ada))
      const { isFailure, result } = yield* Effect.flatMap(All, ({ handle }) => handle("remember", tea)).pipe(
        Effect.provide(context)
      )
      assert.isTrue(isFailure)
      assert.deepInclude(result, { reason: "not_owned" })
    }))

  it.effect("the tool `forget` fails with `unsupported` unless the MemorySpec of the MemoryService has `allowForget: true`", () =>
    Effect.gen(function*() {
      const forgets = (allowForget: boolean) =>
        Effect.gen(function*() {
          const { handle } = yield* All
          const { put } = yield* MemoryService.MemoryService
          const { record } = yield* put({ scope: { userId: "ada" }, kind: "user", body: "Likes tea" })
          return yield* handle("forget", { id: record.id })
        }).pipe(MemoryService.as(ada), Effect.provide(over(MemoryService.layerTest({ spec: { allowForget } }))))
      assert.deepInclude((yield* forgets(false)).result, { reason: "unsupported" })
      assert.isFalse((yield* forgets(true)).isFailure)
    }))
})
