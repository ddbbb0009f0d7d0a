/** The metrics of memory, and the operations that each of them counts. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Metric from "effect/Metric"
import * as MetricState from "effect/MetricState"
import * as Stream from "effect/Stream"
import * as Message from "../../src/domain/Message.ts"
import * as ExtractionTrigger from "../../src/harness/ExtractionTrigger.ts"
import * as MemoryService from "../../src/harness/MemoryService.ts"
import * as HarnessPlugin from "../../src/host/HarnessPlugin.ts"
import * as Managed from "./Managed.ts"
import { ada, down, draft, note, over, reason, run, service } from "./Service.ts"

/** Returns the sum of a metric over all of its tags or, if `value` is given, over those that have this value. */
const sumOf = (name: string, value?: string) =>
  Effect.map(
    Metric.snapshot,
    (pairs) =>
      pairs.filter(({ metricKey: { name: known, tags } }) =>
        known === name && (value === undefined || tags.some((tag) => tag.value === value))
      ).reduce((sum, { metricState }) => {
        if (MetricState.isCounterState(metricState)) return sum + Number(metricState.count)
        return MetricState.isGaugeState(metricState) ? sum + Number(metricState.value) : sum
      }, 0)
  )

/** Returns the growth of the metrics while `self` runs. `name:value` is a metric restricted to tags with this value. */
const growth = <const Names extends ReadonlyArray<string>, E, R>(names: Names, self: Effect.Effect<unknown, E, R>) =>
  Effect.gen(function*() {
    const read = Effect.forEach(names, (name) => {
      const [metric, value] = name.split(":")
      return sumOf(metric!, value)
    })
    const before = yield* read
    yield* self
    return Object.fromEntries((yield* read).map((after, n) => [names[n]!, after - before[n]!]))
  })

describe("the metrics of memory", () => {
  it.effect("the metrics count writes, duplicates, searches, hits and searches without hits", () =>
    Effect.gen(function*() {
      const memory = yield* service
      const names = [
        "memory_writes",
        "memory_duplicates",
        "memory_recalls",
        "memory_recall_hits",
        "memory_recalls_empty"
      ] as const
      const grown = yield* growth(
        names,
        Effect.gen(function*() {
          const { record } = yield* memory.put(draft("Tea"))
          yield* memory.put(draft("Tea"))
          yield* memory.put(draft("Black tea with milk"))
          yield* memory.search({ text: "tea" })
          yield* memory.search({ text: "absent" })
          yield* memory.forget(record.id)
        })
      )
      assert.deepStrictEqual(grown, {
        memory_writes: 3,
        memory_duplicates: 1,
        memory_recalls: 2,
        memory_recall_hits: 2,
        memory_recalls_empty: 1
      })
    }).pipe(run(ada)))

  it.effect("the metrics count failures of writes, recalls and the index separately, and denied tool calls per plugin", () =>
    Effect.gen(function*() {
      const memory = yield* service
      const grown = yield* growth(
        ["memory_failures:write", "memory_failures:recall", "memory_failures:index", "memory_denials:never"],
        Effect.gen(function*() {
          assert.strictEqual(yield* reason(memory.put(draft("Tea"))), "unavailable")
          assert.strictEqual(yield* reason(memory.search({ text: "tea" })), "unavailable")
          yield* memory.index
          yield* Effect.flip(memory.guard(ada, note).call({ text: "x" }))
        })
      )
      assert.deepStrictEqual(grown, {
        "memory_failures:write": 1,
        "memory_failures:recall": 1,
        "memory_failures:index": 1,
        "memory_denials:never": 1
      })
    }).pipe(
      MemoryService.as(ada),
      Effect.provide(
        MemoryService.layer().pipe(
          Layer.provide(over(() => ({ put: () => down, search: () => down, list: () => down }))),
          Layer.provide(
            HarnessPlugin.layer({ id: "never", beforeToolCall: () => Effect.succeed(HarnessPlugin.deny("never")) })
          )
        )
      )
    ))

  it.effect("the metrics count the turns that wait for extraction, the tokens that extraction has read, and the tokens added to prompts", () =>
    Effect.gen(function*() {
      const memory = yield* service
      const said = "I live in Lisbon"
      const turn = Effect.zipRight(memory.turnEnd([Message.user(said)]), memory.turnEnd([Message.user(said)]))
      assert.deepStrictEqual(yield* growth(["memory_queue_length"], turn), { memory_queue_length: 2 })
      assert.deepStrictEqual(yield* growth(["memory_queue_length", "memory_tokens_extracted"], memory.flush), {
        memory_queue_length: -2,
        memory_tokens_extracted: 2 * said.length / 4
      })
      let text = ""
      const context = Effect.map(memory.context([Message.user("Lisbon?")]), (block) => text = block.text)
      const { memory_tokens_injected } = yield* growth(["memory_tokens_injected"], context)
      assert.include(text, said)
      assert.strictEqual(memory_tokens_injected, Math.ceil(text.length / 4))
    }).pipe(
      MemoryService.as(Managed.ada),
      Effect.provide(
        Managed.world({
          config: { extraction: { notes: { trigger: ExtractionTrigger.make("never", () => Stream.never) } } }
        })
      )
    ))

  it.effect("the metrics do not count the turns that wait in a closed outbox", () =>
    Effect.gen(function*() {
      const waiting = MemoryService.as(Managed.ada)(
        Effect.flatMap(service, (memory) => memory.turnEnd([Message.user("I live in Lisbon")]))
      ).pipe(Effect.provide(Managed.world({
        config: {
          extraction: { notes: { flushTimeout: 0, trigger: ExtractionTrigger.make("never", () => Stream.never) } }
        }
      })))
      assert.deepStrictEqual(yield* growth(["memory_queue_length"], waiting), { memory_queue_length: 0 })
    }))
})
