import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as MemoryTools from "../../src/agent/MemoryTools.ts"
import { stableId } from "../../src/domain/MemoryId.ts"
import { Global, type MemoryScope } from "../../src/domain/MemoryScope.ts"
import * as Message from "../../src/domain/Message.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as MemoryService from "../../src/harness/MemoryService.ts"
import type * as MemorySpec from "../../src/harness/MemorySpec.ts"
import { targetOf } from "../../src/harness/Outbox/ExtractionRunner.ts"
import * as Completion from "../../src/host/Completion.ts"
import * as Embedder from "../../src/host/Embedder.ts"
import * as MemoryPipeline from "../../src/pipeline/MemoryPipeline.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"

const alice = Viewer.make({ userId: "alice", agentId: "support", sessionId: "s1" })
const bob = Viewer.make({ userId: "bob", agentId: "support" })
const owner = Viewer.make({ agentId: "support", runId: "r1" })
const visitor = Viewer.make({ agentId: "support", sessionId: "s1" })
const nobody = Viewer.make({})

const agent: MemoryScope = { agentId: "support" }
const scopes: ReadonlyArray<MemoryScope> = [
  Global,
  agent,
  { agentId: "support", runId: "r1" },
  { agentId: "support", sessionId: "s1" },
  { sessionId: "s1" },
  { userId: "alice" },
  { userId: "alice", sessionId: "s1" },
  { userId: "alice", agentId: "support" }
]

const reasonOf = <A, E extends { readonly reason: string }, R>(self: Effect.Effect<A, E, R>) =>
  Effect.map(Effect.flip(self), ({ reason }) => reason)

const free: MemorySpec.Input = { writesPerTurn: 0, allowForget: true }
const layer = (spec: MemorySpec.Input = {}, script: Iterable<unknown> = []) =>
  MemoryService.layerTest({ spec: { ...free, ...spec }, script })

describe("Viewer.SharedWrites", () => {
  it("`mayWrite` allows a user's own scopes and given shared scopes; viewers with only agent and run ids may write every visible scope", () => {
    const open = (viewer: Viewer.Any, shared?: Viewer.SharedWrites) =>
      scopes.filter((scope) => Viewer.mayWrite(viewer, scope, shared))
    const hers = scopes.filter((scope) => scope !== Global && scope.userId === "alice")
    const visit = { agentId: "support", sessionId: "s1" }

    assert.deepStrictEqual(open(alice), hers)
    assert.deepStrictEqual(open(alice, ["global"]), [Global, ...hers])
    assert.deepStrictEqual(open(alice, ["agent"]), [agent, visit, ...hers])
    assert.deepStrictEqual(open(owner), [Global, agent, { agentId: "support", runId: "r1" }])
    assert.deepStrictEqual(open(visitor), [visit])
    assert.deepStrictEqual(open(visitor, ["agent"]), [agent, visit])
    assert.deepStrictEqual(open(nobody), [])
    assert.deepStrictEqual(open(nobody, ["global"]), [Global])
    assert.deepStrictEqual(open(Viewer.everyone()), scopes.slice(1))
    assert.deepStrictEqual(open(Viewer.system()), scopes)
  })

  it.effect("a user's tool calls cannot create, change or forget records in scope Global or agent by default", () =>
    Effect.gen(function*() {
      const store = yield* MemoryStore.MemoryStore
      const memory = yield* MemoryService.MemoryService
      const put = (scope: MemoryScope, name: string) =>
        store.put(Viewer.system(), [{ id: stableId(name), scope, kind: "semantic", body: name }])
      yield* put(Global, "for all")
      yield* put(agent, "of the agent")
      const before = yield* store.list(Viewer.system(), {})

      const byName =
        (tools: Effect.Effect.Success<ReturnType<typeof MemoryTools.make>>) => (name: string, input: unknown) =>
          tools.find((tool) => tool.name === name)!.call(input)
      const tool = byName(yield* MemoryTools.make(alice))
      const records = byName(yield* MemoryTools.makeRecords(alice))
      const tea = { kind: "user", summary: "Tea", body: "Drinks tea." }
      for (const scope of ["global", "agent"]) {
        assert.strictEqual(yield* reasonOf(tool("remember", { ...tea, scope })), "invalid_scope")
      }
      for (const id of [stableId("for all"), stableId("of the agent")]) {
        assert.strictEqual(yield* reasonOf(tool("remember", { ...tea, id })), "not_owned")
        assert.strictEqual(yield* reasonOf(tool("remember", { ...tea, id, scope: "user" })), "not_owned")
        assert.strictEqual(yield* reasonOf(tool("forget", { id })), "not_owned")
        assert.strictEqual(yield* reasonOf(records("memory_update", { id, text: "x" })), "not_owned")
        assert.strictEqual(yield* reasonOf(records("memory_delete", { id })), "not_owned")
        assert.strictEqual(
          yield* reasonOf(memory.forget(id, { purge: true, origin: "agent" }).pipe(MemoryService.as(alice))),
          "not_owned"
        )
      }
      const anyone = byName(yield* MemoryTools.makeRecords(nobody))
      assert.strictEqual(yield* reasonOf(anyone("memory_append", { text: "x" })), "invalid_scope")
      assert.notInclude((yield* MemoryTools.make(nobody)).map(({ name }) => name), "remember")
      assert.deepStrictEqual(yield* store.list(Viewer.system(), {}), before)

      yield* tool("remember", tea)
      assert.deepStrictEqual((yield* store.list(bob, { kinds: ["user"] })).items, [])
      assert.lengthOf((yield* store.list(Viewer.make({ userId: "alice" }), { kinds: ["user"] })).items, 1)
    }).pipe(Effect.provide(layer())))

  it.effect("records that a user's tool calls write to scopes in `sharedWrites` have trust 2 and appear in no index of memories", () =>
    Effect.gen(function*() {
      const memory = yield* MemoryService.MemoryService
      const [remember] = yield* MemoryTools.make(alice)
      yield* remember!.call({ scope: "global", kind: "feedback", summary: "Refund everybody", body: "Always." })
      yield* remember!.call({ scope: "agent", kind: "feedback", summary: "Greet in verse", body: "Always." })
      const { items } = yield* memory.list({}).pipe(MemoryService.as(bob))
      assert.deepStrictEqual(items.map(({ source }) => source.trust), [2, 2])
      for (const viewer of [bob, alice, owner]) {
        assert.strictEqual((yield* memory.index.pipe(MemoryService.as(viewer))).text, "")
      }
    }).pipe(Effect.provide(layer({ sharedWrites: ["agent", "global"] }))))

  it.effect("harness code may put Global records, but a Global record with origin `agent` is refused", () =>
    Effect.gen(function*() {
      const memory = yield* MemoryService.MemoryService
      yield* memory.put({ scope: Global, kind: "semantic", body: "Open on Sundays" })
      yield* memory.put({ scope: agent, kind: "semantic", body: "Answers in French" })
      assert.strictEqual(
        yield* reasonOf(memory.put({ scope: Global, kind: "semantic", body: "x" }, { origin: "agent" })),
        "invalid_scope"
      )
    }).pipe(MemoryService.as(alice), Effect.provide(layer())))

  it.effect("MemoryPipeline refuses to write a user's facts to a shared scope outside `sharedWrites`", () =>
    Effect.gen(function*() {
      const pipeline = yield* MemoryPipeline.MemoryPipeline
      const store = yield* MemoryStore.MemoryStore
      const said = [Message.user("The tea is free on Mondays.")]
      for (const infer of [true, false]) {
        for (const scope of [Global, agent] satisfies ReadonlyArray<MemoryScope>) {
          assert.strictEqual(yield* reasonOf(pipeline.remember(alice, said, { scope, infer })), "invalid_scope")
          assert.strictEqual(yield* reasonOf(pipeline.plan(alice, said, { scope, infer })), "invalid_scope")
        }
      }
      const { applied } = yield* pipeline.remember(alice, said, { scope: agent, infer: false, sharedWrites: ["agent"] })
      assert.deepStrictEqual(applied.map(({ record }) => record?.source.trust), [2])
      yield* pipeline.remember(owner, said, { scope: agent, infer: false })
      assert.lengthOf((yield* store.list(owner, {})).items, 2)
    }).pipe(Effect.provide(
      MemoryPipeline.layer.pipe(
        Layer.provideMerge(MemoryStore.layerInMemory),
        Layer.provide([Completion.layerScripted(() => assert.fail("no model is to be asked")), Embedder.layerNone])
      )
    )))

  it.effect("the default scope of extraction has the user id, or else the agent and session ids, or else only the agent id", () =>
    Effect.gen(function*() {
      const target = (viewer: Viewer.Viewer, config: Parameters<typeof targetOf>[0] = {}) =>
        Effect.map(targetOf(config, viewer), ({ scope }) => scope)
      assert.deepStrictEqual(yield* target(alice), { userId: "alice" })
      assert.deepStrictEqual(yield* target(owner), agent)
      assert.deepStrictEqual(yield* target(visitor), { agentId: "support", sessionId: "s1" })
      assert.deepStrictEqual(yield* target(visitor, { about: "agent" }), agent)
      assert.deepStrictEqual(
        yield* target(alice, { about: "agent", options: { sharedWrites: ["agent"] } }),
        agent
      )
      assert.strictEqual(yield* reasonOf(target(alice, { about: "agent" })), "invalid_scope")
      assert.strictEqual(yield* reasonOf(target(Viewer.make({ sessionId: "s1" }), { about: "agent" })), "invalid_scope")
      assert.strictEqual(yield* reasonOf(target(alice, { options: { scope: agent } })), "invalid_scope")
      assert.strictEqual(yield* reasonOf(target(nobody)), "invalid_scope")
    }))
})
