import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as MemoryTools from "../../src/agent/MemoryTools.ts"
import { type MemoryId, stableId } from "../../src/domain/MemoryId.ts"
import { Global } from "../../src/domain/MemoryScope.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as MemoryService from "../../src/harness/MemoryService.ts"
import type * as MemorySpec from "../../src/harness/MemorySpec.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import { free, idOf, reason } from "./Calls.ts"

const bob = Viewer.make({ userId: "bob" })
const eve = Viewer.make({ userId: "eve" })

const recordsOf = (viewer: Viewer.Viewer) =>
  Effect.map(
    MemoryTools.makeRecords(viewer),
    (tools) => (name: string, input: unknown = {}) => tools.find((tool) => tool.name === name)!.call(input)
  )

const within = (spec: MemorySpec.Input = free) => Effect.provide(MemoryService.layerTest({ spec }))

const record = (viewer: Viewer.Viewer, id: MemoryId) =>
  Effect.flatMap(
    MemoryStore.MemoryStore,
    (store) => Effect.map(store.get(viewer, [id]), ([found]) => Option.getOrThrow(found!))
  )

describe("MemoryTools.makeRecords", () => {
  it.effect("makes five tools, three of which write; makes no tool if memory is disabled", () =>
    Effect.gen(function*() {
      const tools = yield* MemoryTools.makeRecords(bob)
      assert.deepStrictEqual(tools.map(({ name, writes }) => [name, writes]), [
        ["memory_append", true],
        ["memory_search", false],
        ["memory_update", true],
        ["memory_delete", true],
        ["memory_view", false]
      ])
      for (const { jsonSchema } of tools) {
        assert.include(jsonSchema, { type: "object", additionalProperties: false })
        assert.notMatch(JSON.stringify(jsonSchema), /\$ref|\$schema|\$defs|allOf/)
      }
      assert.deepStrictEqual(yield* MemoryTools.makeRecords(bob).pipe(within({ enabled: false })), [])
    }).pipe(within()))

  it.effect("an invalid argument is refused with a message that names the argument and the expected value", () =>
    Effect.gen(function*() {
      const call = yield* recordsOf(bob)
      const told = (name: string, input: unknown) =>
        Effect.map(Effect.flip(call(name, input)), ({ message }) => message)
      assert.strictEqual(
        yield* told("memory_append", { text: " ", kind: "Two words" }),
        "text: expected a statement of 1 to 4,000 characters; kind: expected a name such as semantic"
      )
      assert.strictEqual(
        yield* told("memory_search", { query: "tea", topK: 0 }),
        "topK: Expected a number between 1 and 50"
      )
    }).pipe(within()))

  it.effect("makes tools that append, find, update, view and delete a record", () =>
    Effect.gen(function*() {
      const call = yield* recordsOf(bob)
      const { data, text } = yield* call("memory_append", { text: " Likes dark mode ", kind: "procedural" })
      const id = idOf(data)
      assert.strictEqual(text, JSON.stringify({ id }))
      assert.deepInclude(yield* record(bob, id), {
        scope: { userId: "bob" },
        kind: "procedural",
        body: "Likes dark mode",
        source: { origin: "agent", trust: 1 }
      })
      assert.deepStrictEqual((yield* call("memory_search", { query: "which mode?" })).data, [
        { id, text: "Likes dark mode", score: 1, origin: "agent", trust: 1 }
      ])
      assert.deepStrictEqual((yield* call("memory_update", { id, text: "Likes light mode" })).data, { id })
      assert.deepStrictEqual((yield* call("memory_view")).data, [
        { id, text: "Likes light mode", kind: "procedural", origin: "agent", trust: 1 }
      ])
      assert.deepStrictEqual((yield* call("memory_view", { kind: "semantic" })).data, [])
      assert.deepStrictEqual((yield* call("memory_delete", { id })).data, { id, deleted: true })
      assert.deepStrictEqual((yield* call("memory_view")).data, [])
    }).pipe(within()))

  it.effect("`memory_append` and `memory_update` store the vector of the text before the call returns", () =>
    Effect.gen(function*() {
      const call = yield* recordsOf(bob)
      const { vectors } = yield* MemoryStore.MemoryStore
      const waiting = Option.getOrThrow(vectors).pending("default", "hash-256")
      const { data } = yield* call("memory_append", { text: "Likes dark mode" })
      assert.deepStrictEqual(yield* waiting, [])
      yield* call("memory_update", { id: idOf(data), text: "Likes light mode" })
      assert.deepStrictEqual(yield* waiting, [])
    }).pipe(within()))

  it.effect("`memory_update` makes a new revision that has nothing of the record's old text, not even in the summary", () =>
    Effect.gen(function*() {
      const call = yield* recordsOf(bob)
      const store = yield* MemoryStore.MemoryStore
      const [put] = yield* store.put(bob, [{
        scope: { userId: "bob" },
        kind: "user",
        summary: "Dark mode",
        body: "He likes it."
      }])
      yield* call("memory_update", { id: put!.record.id, text: "Likes light mode" })
      const changed = yield* record(bob, put!.record.id)
      assert.notInclude(changed.summary + changed.body, "ark")
      assert.strictEqual(changed.revision, 2)
    }).pipe(within()))

  it.effect("a call with the id of another viewer's record fails like a call with an unknown id, and changes nothing", () =>
    Effect.gen(function*() {
      const [bobs, eves] = [yield* recordsOf(bob), yield* recordsOf(eve)]
      const id = idOf((yield* bobs("memory_append", { text: "Bob's secret" })).data)
      const answers = (id: string) =>
        Effect.all([
          Effect.flip(eves("memory_update", { id, text: "Eve was here" })),
          Effect.flip(eves("memory_delete", { id }))
        ])
      const [foreign, missing] = [yield* answers(id), yield* answers(stableId("nobody's"))]
      assert.deepStrictEqual(foreign, missing)
      assert.deepStrictEqual(foreign.map(({ reason }) => reason), ["not_found", "not_found"])
      assert.deepStrictEqual((yield* eves("memory_view")).data, [])
      assert.deepStrictEqual((yield* eves("memory_search", { query: "secret" })).data, [])
      assert.deepInclude(yield* record(bob, id), { body: "Bob's secret", revision: 1 })
    }).pipe(within()))

  it.effect("global records under `globalWrites: deny` and records of instruction files cannot be changed", () =>
    Effect.gen(function*() {
      const call = yield* recordsOf(bob)
      const store = yield* MemoryStore.MemoryStore
      const put = (options: MemoryStore.PutOptions) =>
        Effect.map(
          store.put(Viewer.system(), [{ scope: Global, kind: "semantic", body: JSON.stringify(options) }], options),
          ([put]) => put!.record.id
        )
      const [plain, instruction] = [yield* put({}), yield* put({ origin: "instructions", trust: 0 })]
      for (const [id, expected] of [[plain, "not_owned"], [instruction, "read_only"]] as const) {
        assert.strictEqual(yield* reason(call("memory_update", { id, text: "x" })), expected)
        assert.strictEqual(yield* reason(call("memory_delete", { id })), expected)
      }
      const anyone = yield* recordsOf(Viewer.make({}))
      assert.strictEqual(yield* reason(anyone("memory_append", { text: "x" })), "not_owned")
    }).pipe(within({ ...free, globalWrites: "deny" })))

  it.effect("appends, updates and deletions are refused after the write limit is reached; searches and views are not", () =>
    Effect.gen(function*() {
      const call = yield* recordsOf(bob)
      const id = idOf((yield* call("memory_append", { text: "one" })).data)
      for (
        const [name, input] of [
          ["memory_append", { text: "two" }],
          ["memory_update", { id, text: "two" }],
          ["memory_delete", { id }]
        ] as const
      ) assert.strictEqual(yield* reason(call(name, input)), "rate_limited")
      assert.deepStrictEqual((yield* call("memory_view")).data, [
        { id, text: "one", kind: "semantic", origin: "agent", trust: 1 }
      ])
      assert.lengthOf((yield* call("memory_search", { query: "one" })).data as ReadonlyArray<unknown>, 1)
    }).pipe(within({})))

  it.effect("arguments that are invalid or not declared, such as `userId`, are refused", () =>
    Effect.gen(function*() {
      const call = yield* recordsOf(bob)
      for (
        const [name, input] of [
          ["memory_append", { text: " " }],
          ["memory_append", { text: "x".repeat(4_001) }],
          ["memory_append", { text: "x", userId: "eve" }],
          ["memory_append", { text: "x", kind: "No kind" }],
          ["memory_append", { text: "x", kind: "core" }],
          ["memory_search", { query: "x", topK: 0 }],
          ["memory_search", {}],
          ["memory_view", { limit: -1 }],
          ["memory_delete", {}]
        ] as const
      ) assert.strictEqual(yield* reason(call(name, input)), "invalid_draft", JSON.stringify(input).slice(0, 40))
      assert.strictEqual(yield* reason(call("memory_update", { id: "7", text: "x" })), "invalid_id")
    }).pipe(within()))

  it.effect("`memory_view` returns at most fifty records by default, and more with a higher `limit`", () =>
    Effect.gen(function*() {
      const call = yield* recordsOf(bob)
      const store = yield* MemoryStore.MemoryStore
      yield* store.put(
        bob,
        Array.from({ length: 60 }, (_, i) => ({ scope: { userId: "bob" }, kind: "reference", body: `${i}` }))
      )
      assert.lengthOf((yield* call("memory_view")).data as ReadonlyArray<unknown>, 50)
      assert.lengthOf((yield* call("memory_view", { limit: 60 })).data as ReadonlyArray<unknown>, 60)
    }).pipe(within()))

  it.effect("a viewer without a session can delete a session's record if the viewer's reach is `within`, but not if it is `exact`", () =>
    Effect.gen(function*() {
      const narrow = Viewer.make({ userId: "bob", sessionId: "s" })
      const id = idOf((yield* (yield* recordsOf(narrow))("memory_append", { text: "in the session" })).data)
      assert.deepStrictEqual((yield* record(narrow, id)).scope, { userId: "bob", sessionId: "s" })
      assert.strictEqual(yield* reason((yield* recordsOf(bob))("memory_delete", { id })), "not_found")
      const all = yield* recordsOf(Viewer.make({ userId: "bob", reach: "within" }))
      assert.deepStrictEqual((yield* all("memory_delete", { id })).data, { id, deleted: true })
    }).pipe(within()))
})
