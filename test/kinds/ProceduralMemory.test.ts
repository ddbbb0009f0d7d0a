import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import * as Layer from "effect/Layer"
import * as ProceduralMemory from "../../src/kinds/ProceduralMemory.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import { ada, bob, draft, id, put } from "../../src/testing/Sample.ts"
import { interleaved, onEveryStore, reason } from "./EveryStore.ts"

const store = (
  memory: ProceduralMemory.Service,
  name: string,
  triggers: ReadonlyArray<string> = [],
  [successes, executions]: readonly [number, number] = [0, 0]
) =>
  memory.storeProcedure(ada, {
    id: id(name),
    scope: { userId: "ada" },
    body: "",
    data: { name, triggers, successes, executions, steps: [{ action: "look", parameters: { where: "up" } }] }
  })
const find = (memory: ProceduralMemory.Service, context: string) =>
  Effect.map(memory.findProcedures(ada, context), (all) => all.map(({ data }) => data.name))

onEveryStore("ProceduralMemory", ProceduralMemory.ProceduralMemory, ProceduralMemory.layer, (law) => {
  law(
    "`storeProcedure` refuses more than 100 steps, and more successes than executions",
    (memory, db) =>
      Effect.gen(function*() {
        assert.strictEqual((yield* store(memory, "deploy")).record.summary, "deploy")
        assert.strictEqual(yield* reason(store(memory, "x", [], [2, 1])), "invalid_draft")
        assert.strictEqual(yield* reason(store(memory, "x", [], [-1, 1])), "invalid_draft")
        assert.strictEqual(yield* reason(store(memory, "")), "invalid_draft")
        const data = {
          name: "x",
          triggers: [],
          successes: 0,
          executions: 0,
          steps: Array.from({ length: 101 }, () => ({ action: "a" }))
        }
        assert.strictEqual(
          yield* reason(memory.storeProcedure(ada, { scope: { userId: "ada" }, body: "", data })),
          "invalid_draft"
        )
        const plain = draft("Ask first", { kind: "procedural", data: { successes: 3, executions: 2 } })
        assert.strictEqual(yield* reason(put(db, plain)), "invalid_draft")
      })
  )

  law(
    "`findProcedures` returns procedures with a trigger in the context, highest success rate first",
    (memory, db) =>
      Effect.gen(function*() {
        yield* store(memory, "never", ["deploy"])
        yield* store(memory, "half", ["Deploy the site"], [1, 2])
        yield* store(memory, "often", ["x", "DEPLOY"], [9, 10])
        yield* store(memory, "proven", ["deploy"], [90, 100])
        yield* store(memory, "other", ["rollback"], [1, 1])
        yield* store(memory, "blank", [" "], [1, 1])
        yield* store(memory, "none", [], [1, 1])
        yield* put(db, draft("deploy", { kind: "procedural" }))
        assert.deepStrictEqual(yield* find(memory, "how do I deploy THE site?"), ["proven", "often", "half", "never"])
        assert.deepStrictEqual(yield* find(memory, "e\u0301"), [])
        assert.deepStrictEqual(yield* find(memory, ""), [])
        assert.deepStrictEqual(yield* memory.findProcedures(bob, "deploy"), [])
      })
  )

  law(
    "`findProcedures` returns all matching procedures, even if there are 120 of them",
    (memory, db) =>
      Effect.gen(function*() {
        const data = { name: "n", triggers: ["deploy"], successes: 0, executions: 0, steps: [] }
        yield* db.put(ada, Array.from({ length: 120 }, (_, n) => draft(`${n}`, { kind: "procedural", data })))
        assert.lengthOf(yield* find(memory, "deploy"), 120)
      })
  )

  law("concurrent calls of `recordExecution` all count", (_, db) =>
    Effect.gen(function*() {
      const memory = yield* Effect.provideService(ProceduralMemory.make, MemoryStore.MemoryStore, interleaved(db))
      const { record } = yield* store(memory, "deploy")
      const outcomes = Array.from({ length: 30 }, (_, n) => n % 3 > 0)
      yield* Effect.forEach(outcomes, (success) => memory.recordExecution(ada, record.id, success), {
        concurrency: "unbounded"
      })
      const { data } = yield* memory.recordExecution(ada, record.id, true)
      assert.deepInclude(data, { executions: 31, successes: 21 })
      assert.strictEqual(ProceduralMemory.successRate(data), 21 / 31)
    }))

  law(
    "`recordExecution` fails for another viewer's procedure and for a record that is no procedure",
    (memory, db) =>
      Effect.gen(function*() {
        const { record } = yield* store(memory, "deploy")
        assert.strictEqual(yield* reason(memory.recordExecution(bob, record.id, true)), "not_found")
        assert.strictEqual(yield* reason(memory.recordExecution(ada, id("none"), true)), "not_found")
        const plain = yield* put(db, draft("Ask first", { kind: "procedural" }))
        assert.strictEqual(yield* reason(memory.recordExecution(ada, plain.id, true)), "not_found")
      })
  )
})

describe("ProceduralMemory", () => {
  it.effect.prop("`successRate` is the share of successes among the executions", [
    FastCheck.array(FastCheck.boolean(), { maxLength: 30 })
  ], ([outcomes]) =>
    Effect.gen(function*() {
      const memory = yield* ProceduralMemory.ProceduralMemory
      let { data } = yield* store(memory, "deploy", ["deploy"])
      for (const [n, success] of outcomes.entries()) {
        data = (yield* memory.recordExecution(ada, id("deploy"), success)).data
        assert.strictEqual(
          ProceduralMemory.successRate(data),
          outcomes.slice(0, n + 1).filter(Boolean).length / (n + 1)
        )
      }
      assert.strictEqual(data.executions, outcomes.length)
    }).pipe(Effect.provide(Layer.provideMerge(ProceduralMemory.layer, MemoryStore.layerInMemory))), {
    fastCheck: { numRuns: 50, seed: 4 }
  })
})
