/** Remembering through MemoryService: the viewers that may, the events that it publishes, and what works without a model. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as MemoryError from "../../src/domain/MemoryError.ts"
import { Global } from "../../src/domain/MemoryScope.ts"
import * as Message from "../../src/domain/Message.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import type * as MemoryEvents from "../../src/harness/MemoryEvents.ts"
import * as MemoryService from "../../src/harness/MemoryService.ts"
import * as Embedder from "../../src/host/Embedder.ts"
import * as MemoryPipeline from "../../src/pipeline/MemoryPipeline.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"

const ada = Viewer.make({ userId: "ada" })
const eve = Viewer.make({ userId: "eve" })
const scope = { userId: "ada" }
const turns = [Message.user("I moved to Porto.")]
const add = (text: string) => [{ facts: [text] }, { memory: [{ event: "ADD", text }] }]

const service = MemoryService.MemoryService

const heard = <A, E, R>(self: Effect.Effect<A, E, R>) =>
  Effect.gen(function*() {
    const events: Array<MemoryEvents.MemoryEvent> = []
    const { events: stream } = yield* service
    const fiber = yield* Effect.fork(Stream.runForEach(stream, (event) => Effect.sync(() => events.push(event))))
    yield* settled
    const result = yield* Effect.exit(self)
    yield* settled
    yield* Fiber.interrupt(fiber)
    return { result, tags: events.map(({ _tag }) => _tag) }
  })
const settled = Effect.repeatN(Effect.yieldNow(), 100)

type Needs = MemoryService.MemoryService | MemoryService.CurrentViewer | MemoryStore.MemoryStore
const run = (options: MemoryService.TestOptions = {}, viewer = ada) => <A, E>(self: Effect.Effect<A, E, Needs>) =>
  self.pipe(MemoryService.as(viewer), Effect.provide(MemoryService.layerTest(options)))

/** Runs an effect with a service over a store, without model and manager. */
const bare = <A, E>(self: Effect.Effect<A, E, Needs>) =>
  self.pipe(
    MemoryService.as(ada),
    Effect.provide(MemoryService.layer().pipe(Layer.provideMerge(MemoryStore.layerInMemory)))
  )

const reason = <A, R>(self: Effect.Effect<A, { readonly reason: string }, R>) =>
  Effect.map(Effect.flip(self), ({ reason }) => reason)

describe("MemoryService.remember", () => {
  it.effect("`plan` and `remember` fail with `invalid_draft` and store nothing if a given value is not a message", () =>
    Effect.gen(function*() {
      const memory = yield* service
      for (
        const value of [{ role: "user", content: 3 }, { role: "robot", content: "x" }, { role: "user" }, null, "x"]
      ) {
        const all = [...turns, value as Message.Message]
        assert.strictEqual(yield* reason(memory.remember(all, { scope, infer: false })), "invalid_draft")
        assert.strictEqual(yield* reason(memory.plan(all, { scope })), "invalid_draft")
      }
      assert.deepStrictEqual((yield* memory.list({})).items, [])
    }).pipe(run()))

  it.effect("`remember`, `recall` and `undo` store, find and remove a memory, and each publishes an event", () =>
    Effect.gen(function*() {
      const memory = yield* service
      const plan = yield* heard(memory.plan(turns, { scope }))
      assert.deepStrictEqual(plan.tags, [])

      const remembered = yield* heard(memory.remember(turns, { scope }))
      assert.deepStrictEqual(remembered.tags, ["memory_written"])

      const recalled = yield* heard(memory.recall({ text: "Porto?", mode: "hybrid" }))
      assert.deepStrictEqual(recalled.tags, ["memory_recalled"])
      assert.deepStrictEqual(
        Exit.isSuccess(recalled.result) && recalled.result.value.hits.map(({ record }) => record.body),
        ["Ada moved to Porto"]
      )

      const receipt = yield* remembered.result
      const undone = yield* heard(memory.undo(receipt))
      assert.deepStrictEqual(undone.tags, ["memory_forgotten"])
      assert.deepStrictEqual((yield* memory.list({})).items, [])
      const again = yield* heard(memory.undo(receipt))
      assert.deepStrictEqual(again.tags, ["memory_write_failed"])
    }).pipe(run({ script: [...add("Ada moved to Porto"), ...add("Ada moved to Porto")] })))

  it.effect("`remember` is deterministic for equal model answers, time and seed", () => {
    const once = Effect.gen(function*() {
      const memory = yield* service
      return yield* memory.remember(turns, { scope })
    }).pipe(run({ script: add("Ada moved to Porto"), now: "2026-01-01", seed: 7 }))
    return Effect.gen(function*() {
      assert.deepStrictEqual(yield* once, yield* once)
    })
  })

  it.effect("a failed call of `remember` publishes `memory_write_failed` and stores nothing", () =>
    Effect.gen(function*() {
      const memory = yield* service
      const { result, tags } = yield* heard(memory.remember(turns, { scope }))
      assert.isTrue(Exit.isFailure(result))
      assert.deepStrictEqual(tags, ["memory_write_failed"])
      assert.deepStrictEqual((yield* memory.list({})).items, [])
    }).pipe(run()))

  it.effect("`undo` fails with `not_owned` for another viewer, a changed receipt and JSON that is no receipt", () =>
    Effect.gen(function*() {
      const memory = yield* service
      const receipt = yield* memory.remember(turns, { scope })
      assert.strictEqual(yield* reason(memory.undo(receipt).pipe(MemoryService.as(eve))), "not_owned")
      assert.strictEqual(yield* reason(memory.undo({ ...receipt, viewer: eve })), "not_owned")
      const forged = { ...receipt, viewer: eve }
      assert.strictEqual(yield* reason(memory.undo(forged).pipe(MemoryService.as(eve))), "not_owned")
      const { seal: _, ...unsealed } = receipt
      assert.strictEqual(yield* reason(memory.undo(unsealed)), "not_owned")
      for (const json of ["{}", "null", "[]", "{\"viewer\":null}", "{\"seal\":1}"]) {
        assert.strictEqual(yield* reason(memory.undo(JSON.parse(json))), "not_owned")
      }
      assert.lengthOf((yield* memory.list({})).items, 1)
    }).pipe(run({ script: add("Ada moved to Porto") })))

  it.effect("a receipt that was encoded as JSON can be undone only by its viewer, in any Unicode form of the user id", () =>
    Effect.gen(function*() {
      const memory = yield* service
      const jose = Viewer.make({ userId: "José" })
      const receipt = yield* memory.remember(turns, { scope: { userId: "José" } }).pipe(MemoryService.as(jose))
      const json = JSON.stringify(yield* Schema.encode(MemoryPipeline.Receipt)(receipt))
      const read = yield* Schema.decode(Schema.parseJson(MemoryPipeline.Receipt))(json)
      for (const other of [{ agentId: "a" }, { tenant: "t" }, { reach: "within" }] as const) {
        const viewer = Viewer.make({ userId: "José", ...other })
        assert.strictEqual(yield* reason(memory.undo(read).pipe(MemoryService.as(viewer))), "not_owned")
      }
      yield* memory.undo(read).pipe(MemoryService.as(Viewer.make({ userId: "Jose\u0301" })))
    }).pipe(run({ script: add("José moved to Porto") })))

  it.effect("`globalWrites: deny` makes `remember`, `plan` and `undo` for the scope Global fail with `not_owned`", () =>
    Effect.gen(function*() {
      const memory = yield* service
      // another service over the same store allows the write, so the receipt has a valid seal
      const allowed = Effect.flatMap(service, ({ remember }) => remember(turns, { scope: Global, infer: false }))
      const receipt = yield* Effect.provide(allowed, MemoryService.layer({ sharedWrites: ["global"] }))
      for (
        const call of [memory.remember(turns, { scope: Global }), memory.plan(turns, { scope: Global, infer: false })]
      ) {
        assert.strictEqual(yield* reason(call), "not_owned")
      }
      const refused = yield* Effect.flip(memory.undo(receipt))
      assert.strictEqual(refused.reason, "not_owned")
      assert.include(refused.message, "globalWrites")
      assert.lengthOf((yield* memory.list({})).items, 1)
    }).pipe(run({ spec: { globalWrites: "deny" }, script: add("x") })))

  it.effect("`remember` without a model fails with `unsupported`, but stores the messages if `infer` is false", () =>
    Effect.gen(function*() {
      const memory = yield* service
      for (const call of [memory.remember(turns, { scope }), memory.plan(turns, { scope })]) {
        const error = yield* Effect.flip(call)
        assert.strictEqual(error.reason, "unsupported")
        assert.include(error.message, "Completion")
      }
      yield* memory.remember(turns, { scope, infer: false })
      const { failures, hits } = yield* memory.recall({ text: "Porto" })
      assert.deepStrictEqual([hits.length, failures], [1, []])
      assert.strictEqual(yield* memory.embedMissing, 0)
    }).pipe(bare))

  it.effect("`put` and `update` with `embed: true` compute the record's vector; `embedMissing` computes the vectors that are missing", () =>
    Effect.gen(function*() {
      const memory = yield* service
      const { vectors } = yield* MemoryStore.MemoryStore
      const waiting = Effect.map(
        Option.getOrThrow(vectors).pending("default", "hash-256"),
        (all) => all.map(({ text }) => text)
      )
      const { record } = yield* memory.put({ scope, kind: "semantic", body: "tea" }, { embed: true })
      yield* memory.put({ scope, kind: "semantic", body: "coffee" })
      assert.deepStrictEqual(yield* waiting, ["coffee"])
      yield* memory.update(record.id, { body: "green tea" }, { embed: true, ifRevision: 1 })
      assert.deepStrictEqual(yield* waiting, ["coffee"])
      assert.strictEqual(yield* memory.embedMissing, 1)
      assert.deepStrictEqual(yield* waiting, [])
    }).pipe(run()))

  it.effect("`put` with `embed: true` stores the record even if the vector cannot be computed", () =>
    Effect.gen(function*() {
      const memory = yield* service
      const { result, tags } = yield* heard(memory.put({ scope, kind: "semantic", body: "tea" }, { embed: true }))
      assert.isTrue(Exit.isSuccess(result))
      assert.deepStrictEqual(tags, ["memory_written", "memory_degraded"])
      const recalled = yield* heard(memory.recall({ text: "tea" }))
      assert.deepStrictEqual(recalled.tags, ["memory_recalled", "memory_degraded"])
      const { hits } = yield* memory.recall({ text: "tea" })
      assert.deepStrictEqual(hits.map(({ record }) => record.body), ["tea"])
    }).pipe(
      MemoryService.as(ada),
      Effect.provide(
        MemoryService.layer().pipe(Layer.provide(
          Layer.merge(
            MemoryStore.layerInMemory,
            Layer.succeed(Embedder.Embedder, {
              model: "broken",
              dimensions: 3,
              embed: () => MemoryError.make("model", { op: "embed", message: "down" })
            })
          )
        ))
      )
    ))
})
