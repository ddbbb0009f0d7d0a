/** Invalid options are refused when a layer is built. An operation that needs a missing model fails; its error names the layer to add. */
import type { EmbeddingModel } from "@effect/ai/EmbeddingModel"
import type { LanguageModel } from "@effect/ai/LanguageModel"
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import type * as Scope from "effect/Scope"
import { expectTypeOf } from "vitest"
import * as MemoryToolkit from "../../src/agent/MemoryToolkit.ts"
import * as MemoryError from "../../src/domain/MemoryError.ts"
import * as Message from "../../src/domain/Message.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as MemoryEvents from "../../src/harness/MemoryEvents.ts"
import * as MemoryManager from "../../src/harness/MemoryManager.ts"
import * as MemoryService from "../../src/harness/MemoryService.ts"
import * as RateLimit from "../../src/harness/RateLimit.ts"
import * as Completion from "../../src/host/Completion.ts"
import * as Embedder from "../../src/host/Embedder.ts"
import * as MemoryPipeline from "../../src/pipeline/MemoryPipeline.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import * as Federated from "../../src/storage/MemoryStore/Federated.ts"
import * as Markdown from "../../src/storage/MemoryStore/Markdown.ts"
import * as Overlay from "../../src/storage/MemoryStore/Overlay.ts"
import * as Postgres from "../../src/storage/MemoryStore/Postgres.ts"
import * as Sqlite from "../../src/storage/MemoryStore/Sqlite.ts"
import { ada, draft, heard, service } from "./Service.ts"

const time = (text: string) => text as Duration.DurationInput // an invalid text, as a configuration file may contain it

const refusal = <A, R>(layer: Layer.Layer<A, MemoryError.MemoryError, R>) =>
  Effect.map(Effect.flip(Effect.scoped(Layer.build(layer))), ({ message, reason }) => ({ message, reason }))

const url = Redacted.make("postgres://nobody@127.0.0.1:1/none")

describe("invalid options", () => {
  const cases: ReadonlyArray<
    readonly [string, Layer.Layer<MemoryStore.MemoryStore, MemoryError.MemoryError, NodeContext.NodeContext>, string]
  > = [
    [
      "a vault",
      Markdown.layer({ root: "unused", poll: time("infinity") }),
      "poll: expected a time, 1 ms or more, such as \"10 seconds\" or Duration.infinity"
    ],
    [
      "a vault",
      Markdown.layer({ root: "unused", lockTimeout: Duration.infinity }),
      "lockTimeout: expected a finite time, 1 ms or more, such as \"10 seconds\""
    ],
    [
      "a SQLite file",
      Sqlite.layer({ filename: ":memory:", poll: time("infinity") }),
      "poll: expected a finite time, 1 ms or more, such as \"10 seconds\""
    ],
    [
      "a SQLite file",
      Sqlite.layer({ filename: ":memory:", poll: 0, trash: time("ever") }),
      "poll: expected a finite time, 1 ms or more, such as \"10 seconds\"; trash: expected a time, 0 ms or more, such as \"10 seconds\" or Duration.infinity"
    ],
    [
      "PostgreSQL",
      Postgres.layer({ url, connectTimeout: time("5"), maxConnections: 0 }),
      "connectTimeout: expected a finite time, 1 ms or more, such as \"10 seconds\"; maxConnections: expected a whole number, 1 or more"
    ],
    [
      "PostgreSQL",
      Postgres.layer({ url, statementTimeout: 0, replica: { url, staleness: 0 } }),
      "statementTimeout: expected a finite time, 1 ms or more, such as \"10 seconds\"; replica.staleness: expected a time, 1 ms or more, such as \"10 seconds\" or Duration.infinity"
    ],
    [
      "a branch",
      Overlay.layerWith({ trash: time("30d") }).pipe(Layer.provide(MemoryStore.layerInMemory)),
      "trash: expected a time, 0 ms or more, such as \"10 seconds\" or Duration.infinity"
    ]
  ]

  it.effect.each(cases)(
    "invalid options of %s fail with `invalid_draft` when the layer is built, and the message says what is expected",
    ([, layer, message]) =>
      Effect.gen(function*() {
        assert.deepStrictEqual(yield* refusal(layer), { reason: "invalid_draft", message })
      }).pipe(Effect.provide(NodeContext.layer))
  )

  it.effect("MemoryEvents.make and RateLimit.make with invalid options die with a defect that has the reason `invalid_draft`", () =>
    Effect.gen(function*() {
      const makes: ReadonlyArray<Effect.Effect<unknown, never, Scope.Scope>> = [
        MemoryEvents.make({ capacity: NaN }),
        MemoryEvents.make({ capacity: 0 }),
        RateLimit.make({ writesPerTurn: NaN })
      ]
      for (const make of makes) {
        const defect = yield* Effect.flip(Effect.catchAllDefect(Effect.scoped(make), Effect.fail))
        assert.deepInclude(defect, { reason: "invalid_draft" })
      }
    }))

  it.effect("MemoryManager.layer fails if the extraction options for a store are invalid, and the error names the store", () =>
    Effect.gen(function*() {
      const stores = Federated.layer({ notes: { layer: MemoryStore.layerInMemory, writable: true } })
      const layer = MemoryManager.layer({ extraction: { notes: { timeout: time("soon") } } }).pipe(
        Layer.provide([stores, Embedder.layerNone, Completion.layerScripted([])])
      )
      assert.deepStrictEqual(yield* refusal(layer), {
        reason: "invalid_draft",
        message: "extraction.notes: timeout: expected a finite time, 1 ms or more, such as \"10 seconds\""
      })
    }))
})

describe("a missing model", () => {
  const Bare = MemoryService.layer().pipe(Layer.provide(MemoryStore.layerInMemory))
  const error = <A>(call: (memory: MemoryService.Service) => MemoryService.Operation<A>) =>
    Effect.flatMap(service, (memory) => Effect.flip(call(memory))).pipe(MemoryService.as(ada), Effect.provide(Bare))

  it.effect("an operation that needs a missing model fails, and the error names the layer to provide", () =>
    Effect.gen(function*() {
      const scope = { userId: "ada" }
      const asked = yield* error((memory) => memory.remember([Message.user("I moved")], { scope }))
      assert.strictEqual(asked.reason, "unsupported")
      assert.include(asked.message, "MemoryService.layer().pipe(Layer.provide(layerCompletion))")
      const embedded = yield* error((memory) => memory.recall({ text: "home", mode: "vector" }))
      assert.strictEqual(embedded.reason, "unsupported")
      assert.include(embedded.message, "MemoryService.layer().pipe(Layer.provide(Embedder.layerWordVectors))")
    }))

  it.effect("`put` with `embed: true` works without a model, and publishes `memory_degraded` only once", () =>
    Effect.gen(function*() {
      const memory = yield* service
      const { events } = yield* heard(Effect.gen(function*() {
        yield* memory.put(draft("Drinks tea"), { embed: true })
        yield* memory.put(draft("Drinks coffee"), { embed: true })
      }))
      const missing = events.flatMap((event) => event._tag === "memory_degraded" ? [event] : [])
      assert.deepStrictEqual(missing.map(({ error, part }) => [part, error.reason]), [["vector", "unsupported"]])
      assert.include(missing[0]!.error.message, "MemoryService.layer().pipe(Layer.provide(Embedder.layerWordVectors))")
      assert.lengthOf((yield* memory.list({})).items, 2)
    }).pipe(MemoryService.as(ada), Effect.provide(Bare)))

  it.effect("operations that need no model succeed if no model is provided", () =>
    Effect.gen(function*() {
      const memory = yield* service
      yield* memory.put(draft("Drinks tea"))
      yield* memory.remember([Message.user("I moved to Porto")], { scope: { userId: "ada" }, infer: false })
      assert.lengthOf((yield* memory.recall({ text: "Porto" })).hits, 1)
    }).pipe(MemoryService.as(ada), Effect.provide(Bare)))

  it("the type of a layer lists the models that it requires; MemoryService.layer requires no model, only a MemoryStore", () => {
    expectTypeOf<Layer.Layer.Context<typeof MemoryPipeline.layer>>().toEqualTypeOf<
      MemoryStore.MemoryStore | Completion.Completion | Embedder.Embedder
    >()
    expectTypeOf<Layer.Layer.Context<ReturnType<typeof MemoryManager.layer>>>().toEqualTypeOf<
      Federated.Federated | Completion.Completion | Embedder.Embedder
    >()
    expectTypeOf<Layer.Layer.Context<typeof MemoryToolkit.layerCompletion>>().toEqualTypeOf<LanguageModel>()
    expectTypeOf<Layer.Layer.Context<ReturnType<typeof MemoryToolkit.layerEmbedder>>>().toEqualTypeOf<EmbeddingModel>()
    expectTypeOf<Layer.Layer.Context<typeof MemoryToolkit.layerInjected>>().toEqualTypeOf<
      LanguageModel | MemoryService.MemoryService
    >()
    expectTypeOf<Layer.Layer.Context<typeof MemoryToolkit.layer>>().toEqualTypeOf<MemoryService.MemoryService>()
    expectTypeOf<Layer.Layer.Context<ReturnType<typeof MemoryService.layer>>>().toEqualTypeOf<MemoryStore.MemoryStore>()
    expectTypeOf<Effect.Effect.Context<MemoryService.Operation<void>>>().toEqualTypeOf<MemoryService.CurrentViewer>()
  })
})

describe("the links that MemoryService.links returns", () => {
  it.effect("`links` returns the links to and from a record, and none for a record that the viewer does not see", () =>
    Effect.gen(function*() {
      const memory = yield* service
      const { record: tea } = yield* memory.put(draft("Drinks it at noon", { summary: "Tea" }))
      const { record: cup } = yield* memory.put(draft("Made for [[Tea]]"))
      const [to, from] = [{ id: tea.id }, { id: cup.id }].map(({ id }) => ({ id, type: "wikilink", weight: 1 }))
      assert.deepStrictEqual(yield* memory.links(cup.id), { to: [to!], from: [] })
      assert.deepStrictEqual(yield* memory.links(tea.id), { to: [], from: [from!] })
      const bob = MemoryService.as(Viewer.make({ userId: "bob" }))
      assert.deepStrictEqual(yield* bob(memory.links(tea.id)), { to: [], from: [] })
    }).pipe(MemoryService.as(ada), Effect.provide(MemoryService.layerTest())))
})
