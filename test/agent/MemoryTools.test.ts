import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import * as MemoryTools from "../../src/agent/MemoryTools.ts"
import * as MemoryError from "../../src/domain/MemoryError.ts"
import { stableId } from "../../src/domain/MemoryId.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import type * as MemoryEvents from "../../src/harness/MemoryEvents.ts"
import * as MemoryService from "../../src/harness/MemoryService.ts"
import type * as MemorySpec from "../../src/harness/MemorySpec.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import { free, idOf, law, pilot, reason, settled, tea, toolsOf } from "./Calls.ts"

describe("MemoryTools.make", () => {
  const names = (spec: MemorySpec.Input) =>
    Effect.map(
      Effect.provide(MemoryTools.make(pilot), MemoryService.layerTest({ spec })),
      (tools) => tools.map(({ name, writes }) => `${name} ${writes}`)
    )

  it.effect("makes `remember` and `recall`, also `forget` if the spec allows it, and no tool if `enabled` is false", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* names({}), ["remember true", "recall false"])
      assert.deepStrictEqual(yield* names({ allowForget: true }), ["remember true", "recall false", "forget true"])
      assert.deepStrictEqual(yield* names({ enabled: false, allowForget: true }), [])
    }))

  it.effect("the JSON Schema of each tool has no references and allows no undeclared properties", () =>
    Effect.gen(function*() {
      const [remember, recall, forget] = yield* MemoryTools.make(pilot)
      for (const { jsonSchema } of [remember!, recall!, forget!]) {
        assert.include(jsonSchema, { type: "object", additionalProperties: false })
        assert.notMatch(JSON.stringify(jsonSchema), /\$ref|\$schema|\$defs|allOf/)
      }
      assert.hasAllKeys(Reflect.get(remember!.jsonSchema, "properties"), [
        "scope",
        "kind",
        "summary",
        "body",
        "tags",
        "id"
      ])
      assert.nestedInclude(remember!.jsonSchema, {
        "properties.summary.maxLength": 200,
        "properties.body.maxLength": 4_000,
        "properties.tags.maxItems": 12
      })
      assert.nestedInclude(recall!.jsonSchema, {
        "properties.query.maxLength": 500,
        "properties.limit.minimum": 1,
        "properties.limit.maximum": 50
      })
      assert.deepStrictEqual(Reflect.get(remember!.jsonSchema, "required"), ["scope", "kind", "summary", "body"])
    }).pipe(Effect.provide(MemoryService.layerTest({ spec: free }))))

  it.effect("`recall` offers the model the scopes that the viewer sees, and `remember` offers the scopes that a model may write", () =>
    Effect.gen(function*() {
      const scopes = (viewer: Viewer.Viewer, spec: MemorySpec.Input = {}) =>
        Effect.map(
          Effect.provide(MemoryTools.make(viewer), MemoryService.layerTest({ spec })),
          ([remember, recall]) => ({
            remember: /"scope":\{[^}]*"enum":(\[[^\]]*\])/.exec(JSON.stringify(remember!.jsonSchema))?.[1],
            recall: /"scopes":\{.*?"enum":(\[[^\]]*\])/.exec(JSON.stringify(recall!.jsonSchema))?.[1]
          })
        )
      const same = (names: string) => ({ remember: names, recall: names })
      assert.deepStrictEqual(yield* scopes(pilot), same("[\"global\",\"agent\",\"run\"]"))
      assert.deepStrictEqual(
        yield* scopes(Viewer.make({ userId: "ada", agentId: "pilot", sessionId: "s" })),
        { remember: "[\"user\",\"session\"]", recall: "[\"global\",\"user\",\"agent\",\"session\"]" }
      )
      assert.deepStrictEqual(
        yield* scopes(Viewer.make({ userId: "ada", agentId: "pilot", runId: "r" }), { sharedWrites: ["agent"] }),
        { remember: "[\"user\",\"agent\",\"run\"]", recall: "[\"global\",\"user\",\"agent\",\"run\"]" }
      )
      assert.deepStrictEqual(yield* scopes(Viewer.make({ agentId: "pilot", sessionId: "s" })), {
        remember: "[\"session\"]",
        recall: "[\"global\",\"agent\",\"session\"]"
      })
      assert.deepStrictEqual(yield* scopes(pilot, { globalWrites: "deny" }), {
        remember: "[\"agent\",\"run\"]",
        recall: "[\"global\",\"agent\",\"run\"]"
      })
      assert.deepStrictEqual(yield* scopes(Viewer.make({ userId: "ada", reach: "within" })), {
        remember: "[\"user\"]",
        recall: "[\"user\",\"agent\",\"session\",\"run\"]"
      })
    }))
})

describe("the tool `forget`", () => {
  law(
    "`forget` removes a visible record; for an invisible, removed or unknown record, the answer is that there is no such memory",
    (call, store) =>
      Effect.gen(function*() {
        const id = idOf((yield* call("remember", tea)).data)
        const [foreign] = yield* store.put(Viewer.system(), [{
          scope: { agentId: "other" },
          kind: "user",
          body: "theirs"
        }])
        assert.deepStrictEqual(yield* call("forget", { id }), {
          text: `forgot memory '${id}'.`,
          data: { id, removed: true }
        })
        for (const none of [id, foreign!.record.id, stableId("none")]) {
          assert.deepStrictEqual(yield* call("forget", { id: none }), {
            text: `there is no memory '${none}'.`,
            data: { id: none, removed: false }
          })
        }
        assert.deepStrictEqual((yield* store.list(Viewer.system(), {})).items, [foreign!.record])
      })
  )

  law(
    "`forget` refuses a malformed id, and a record that comes from an instruction file",
    (call, store) =>
      Effect.gen(function*() {
        const [file] = yield* store.put(Viewer.system(), [{
          scope: "global",
          kind: "reference",
          body: "AGENTS",
          tags: ["instructions"]
        }], { origin: "instructions", trust: 0 })
        assert.strictEqual(yield* reason(call("forget", { id: file!.record.id })), "read_only")
        for (const id of ["", "x", "../x"]) assert.strictEqual(yield* reason(call("forget", { id })), "invalid_id")
        assert.strictEqual(yield* reason(call("forget", { id: stableId("x"), purge: true })), "invalid_draft")
      })
  )
})

describe("MemoryTools", () => {
  it.effect("a tool reports an `io` failure of the store to the model, without the file path in the store's message", () =>
    Effect.gen(function*() {
      const call = yield* toolsOf(pilot)
      for (const [name, input] of [["remember", tea], ["recall", {}]] as const) {
        assert.deepStrictEqual(yield* Effect.flip(call(name, input)), {
          reason: "io",
          message: "the memory could not be reached (io)"
        })
      }
    }).pipe(Effect.provide(
      MemoryService.layer(free).pipe(
        Layer.provide(Layer.effect(
          MemoryStore.MemoryStore,
          Effect.map(MemoryStore.MemoryStore, (store) => {
            const broken = MemoryError.make("io", { op: "x", message: "EIO: /home/ada/.memory" })
            return { ...store, put: () => Effect.fail(broken), search: () => Effect.fail(broken) }
          })
        )),
        Layer.provide(MemoryStore.layerInMemory)
      )
    )))

  it.effect("a write, a search and a removal by a tool publish one event each, with the call's viewer", () =>
    Effect.gen(function*() {
      const call = yield* toolsOf(pilot)
      const { events } = yield* MemoryService.MemoryService
      const heard: Array<MemoryEvents.MemoryEvent> = []
      const fiber = yield* Effect.fork(Stream.runForEach(events, (event) => Effect.sync(() => heard.push(event))))
      yield* settled
      const id = idOf((yield* call("remember", tea)).data)
      yield* call("recall", { query: "tea" })
      yield* call("forget", { id })
      yield* Effect.flip(call("remember", { ...tea, id }))
      yield* settled
      yield* Fiber.interrupt(fiber)
      assert.deepStrictEqual(heard.map(({ _tag }) => _tag), ["memory_written", "memory_recalled", "memory_forgotten"])
      for (const { viewer } of heard) assert.strictEqual(viewer, pilot)
    }).pipe(Effect.provide(MemoryService.layerTest({ spec: free }))))

  it.effect("every input of a tool gives a text or an error with a reason, and never causes a defect", () =>
    Effect.gen(function*() {
      const call = yield* toolsOf(pilot)
      const field = FastCheck.constantFrom(
        "scope",
        "kind",
        "summary",
        "body",
        "tags",
        "id",
        "query",
        "scopes",
        "kinds",
        "limit",
        "x"
      )
      const value = FastCheck.oneof(
        FastCheck.constantFrom<unknown>(
          "agent",
          "run",
          "session",
          "global",
          "user",
          "tea",
          ["agent"],
          ["user"],
          5,
          stableId("x")
        ),
        FastCheck.jsonValue()
      )
      const inputs = FastCheck.sample(
        FastCheck.oneof(
          FastCheck.jsonValue(),
          FastCheck.dictionary(field, value),
          FastCheck.record({ ...tea_, id: value, tags: value }, { requiredKeys: [] })
        ),
        { numRuns: 400, seed: 1 }
      )
      for (const input of inputs) {
        for (const name of ["remember", "recall", "forget"]) {
          const result = yield* Effect.either(call(name, input))
          if (result._tag === "Left") assert.hasAllKeys(result.left, ["reason", "message"])
          else assert.isString(result.right.text)
        }
      }
    }).pipe(Effect.provide(MemoryService.layerTest({ spec: free }))))
})

const tea_ = {
  scope: FastCheck.constantFrom("agent", "run", "global", "session"),
  kind: FastCheck.constantFrom("user", "project"),
  summary: FastCheck.fullUnicodeString({ maxLength: 220 }),
  body: FastCheck.fullUnicodeString()
}
