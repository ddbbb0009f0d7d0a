import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as MemoryService from "../../src/harness/MemoryService.ts"
import * as RateLimit from "../../src/harness/RateLimit.ts"
import * as HarnessPlugin from "../../src/host/HarnessPlugin.ts"
import * as MemoryTool from "../../src/host/MemoryTool.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import { ada, heard, note, pilot, reason, run, service, settled } from "./Service.ts"

describe("MemoryService.guard", () => {
  const noSecrets: HarnessPlugin.HarnessPlugin = {
    id: "no-secrets",
    beforeToolCall: ({ input }) =>
      Effect.succeed(
        JSON.stringify(input).includes("sk-") ? HarnessPlugin.deny("that looks like a key") : HarnessPlugin.allow
      )
  }
  const withPlugins = (...plugins: ReadonlyArray<HarnessPlugin.HarnessPlugin>) =>
    MemoryService.layer().pipe(Layer.provide(HarnessPlugin.layer(...plugins)), Layer.provide(MemoryStore.layerInMemory))
  const guarded = Effect.map(service, (memory) => memory.guard(pilot, note))

  it.effect("a plugin of MemoryService denies a tool call even if the calling fiber has no plugins; an event reports the denial", () =>
    Effect.gen(function*() {
      const tool = yield* guarded
      const elsewhere = <A, E>(self: Effect.Effect<A, E>) => Effect.provideService(self, HarnessPlugin.Plugins, [])
      const { events } = yield* heard(Effect.gen(function*() {
        const failure = yield* Effect.flip(Effect.flatten(Effect.forkDaemon(elsewhere(tool.call({ text: "sk-123" })))))
        assert.deepStrictEqual(failure, { reason: "unsupported", message: "that looks like a key" })
      }))
      assert.deepStrictEqual(events, [
        {
          _tag: "memory_denied",
          viewer: pilot,
          at: 0,
          tool: "note",
          plugin: "no-secrets",
          reason: "that looks like a key"
        }
      ])
      assert.strictEqual((yield* tool.call({ text: "fine" })).data, "fine")
    }).pipe(Effect.provide(withPlugins(noSecrets))))

  it.effect("a guarded tool asks plugins in order before the input is decoded, and stops at the first denial", () =>
    Effect.gen(function*() {
      const asked: Array<string> = []
      const plugin = (id: string, verdict: HarnessPlugin.Verdict): HarnessPlugin.HarnessPlugin => ({
        id,
        beforeToolCall: ({ tool, viewer, writes }) =>
          Effect.sync(() => {
            asked.push(`${id} ${tool} ${writes} ${viewer.agentId}`)
            return verdict
          })
      })
      yield* Effect.gen(function*() {
        const tool = yield* guarded
        assert.strictEqual((yield* Effect.flip(tool.call(null))).message, "no")
      }).pipe(
        Effect.provide(
          withPlugins(
            plugin("a", HarnessPlugin.allow),
            plugin("b", HarnessPlugin.deny("no")),
            plugin("c", HarnessPlugin.allow)
          )
        )
      )
      assert.deepStrictEqual(asked, ["a note true pilot", "b note true pilot"])
    }))

  it.effect("a call that a plugin denies does not use up the write limit, even if RateLimit is asked before that plugin", () =>
    Effect.gen(function*() {
      const tool = yield* guarded
      assert.strictEqual(yield* reason(tool.call({ text: "sk-123" })), "unsupported")
      assert.strictEqual((yield* Effect.flip(tool.call({ text: "mute" }))).message, "the call could not be checked")
      assert.strictEqual((yield* tool.call({ text: "fine" })).data, "fine")
      assert.strictEqual(yield* reason(tool.call({ text: "second" })), "rate_limited")
    }).pipe(Effect.provide(
      MemoryService.layer().pipe(
        Layer.provide(
          HarnessPlugin.layer(
            RateLimit.make({ writesPerTurn: 1 }),
            Effect.succeed(noSecrets),
            Effect.succeed({
              id: "mute",
              beforeToolCall: ({ input }) =>
                // cast: a plugin without types may give no verdict
                Effect.succeed(
                  (JSON.stringify(input).includes("mute") ? undefined : HarnessPlugin.allow) as HarnessPlugin.Verdict
                )
            })
          )
        ),
        Layer.provide(MemoryStore.layerInMemory)
      )
    )))

  it.effect("a limit of one write allows one of twenty concurrent calls, and one more after `turn_start`", () =>
    Effect.gen(function*() {
      const tool = yield* guarded
      const memory = yield* service
      const burst = Effect.all(Array.from({ length: 20 }, () => Effect.either(tool.call({ text: "x" }))), {
        concurrency: "unbounded"
      })
      const passed = Effect.map(burst, (all) => all.filter(({ _tag }) => _tag === "Right").length)
      const { events, result } = yield* heard(passed)
      assert.strictEqual(result, 1)
      assert.lengthOf(events, 19)
      assert.deepInclude(events[0], { _tag: "memory_denied", plugin: "memory-rate-limit", tool: "note" })
      assert.deepStrictEqual(yield* Effect.flip(tool.call({ text: "x" })), {
        reason: "rate_limited",
        message: "memory write rate limit hit (1/turn). Combine into one entry or wait until next turn."
      })
      yield* memory.turnStart.pipe(MemoryService.as(pilot))
      assert.strictEqual(yield* passed, 1)
      yield* memory.turnEnd([]).pipe(MemoryService.as(pilot))
      yield* memory.sessionEnd.pipe(MemoryService.as(pilot))
      assert.strictEqual(yield* passed, 0)
    }).pipe(Effect.provide(MemoryService.layerTest())))

  it.effect("a call that fails with `not_owned` counts against the write limit; a call that fails validation does not", () =>
    Effect.gen(function*() {
      const tool = yield* guarded
      for (const input of [null, {}, { text: 1 }, { text: "x", more: 1 }, { text: "" }]) {
        yield* Effect.flip(tool.call(input))
      }
      assert.strictEqual(yield* reason(tool.call({ text: "foreign" })), "not_owned")
      assert.strictEqual(yield* reason(tool.call({ text: "x" })), "rate_limited")
    }).pipe(Effect.provide(MemoryService.layerTest())))

  it.effect("a call that writes something before it fails validation counts against the write limit", () =>
    Effect.gen(function*() {
      const memory = yield* service
      const half = MemoryTool.make({
        name: "half",
        description: "",
        input: Schema.Struct({}),
        output: Schema.Void,
        writes: true,
        handler: () => Effect.fail({ reason: "invalid_draft" as const, message: "the second is empty", written: 1 })
      })
      const tool = memory.guard(pilot, half)
      assert.deepStrictEqual(yield* Effect.flip(tool.call({})), {
        reason: "invalid_draft",
        message: "the second is empty",
        written: 1
      })
      assert.strictEqual(yield* reason(tool.call({})), "rate_limited")
    }).pipe(Effect.provide(MemoryService.layerTest())))

  it.effect("the spec's `writesPerTurn` limits writes (0 means no limit), unless a RateLimit is provided", () =>
    Effect.gen(function*() {
      const calls = Effect.gen(function*() {
        const tool = yield* guarded
        const all = yield* Effect.replicateEffect(Effect.either(tool.call({ text: "x" })), 5)
        return all.filter(({ _tag }) => _tag === "Right").length
      })
      const own = MemoryService.layer().pipe(
        Layer.provide(RateLimit.layer({ writesPerTurn: 3 })),
        Layer.provide(MemoryStore.layerInMemory)
      )
      assert.strictEqual(yield* Effect.provide(calls, MemoryService.layerTest({ spec: { writesPerTurn: 0 } })), 5)
      assert.strictEqual(yield* Effect.provide(calls, MemoryService.layerTest({ spec: { writesPerTurn: 2 } })), 2)
      assert.strictEqual(yield* Effect.provide(calls, own), 3)
    }))

  it.effect("plugins are notified of `turn_start`, `turn_end` and `session_end`, with the viewer", () =>
    Effect.gen(function*() {
      const told: Array<string> = []
      const listener = {
        id: "listener",
        onEvent: ({ _tag, viewer }: HarnessPlugin.Signal) =>
          Effect.sync(() => void told.push(`${_tag} ${viewer.agentId}`))
      }
      yield* Effect.gen(function*() {
        const memory = yield* service
        yield* memory.turnStart.pipe(MemoryService.as(pilot))
        yield* memory.turnEnd([]).pipe(MemoryService.as(pilot))
        yield* Effect.scoped(Effect.addFinalizer(() => memory.sessionEnd)).pipe(
          MemoryService.as(Viewer.make({ agentId: "bot" }))
        )
      }).pipe(Effect.provide(withPlugins(listener)))
      assert.deepStrictEqual(told, ["turn_start pilot", "turn_end pilot", "session_end bot"])
    }))

  it.effect("a crash of a plugin denies the tool call, but does not fail `turnStart`, `turnEnd` or `sessionEnd`", () =>
    Effect.gen(function*() {
      const memory = yield* service
      const tool = yield* guarded
      yield* memory.turnStart.pipe(MemoryService.as(pilot))
      yield* memory.turnEnd([]).pipe(MemoryService.as(pilot))
      yield* memory.sessionEnd.pipe(MemoryService.as(pilot))
      assert.deepStrictEqual(yield* Effect.flip(tool.call({ text: "x" })), {
        reason: "unsupported",
        message: "the call could not be checked"
      })
    }).pipe(Effect.provide(withPlugins({
      id: "broken",
      onEvent: () => Effect.die("boom"),
      beforeToolCall: () => {
        throw new Error("boom")
      }
    }))))

  it.effect("a subscriber of `events` that hangs does not block MemoryService.search", () =>
    Effect.gen(function*() {
      const memory = yield* service
      const fiber = yield* Effect.fork(Stream.runForEach(memory.events, () => Effect.never))
      yield* settled
      for (let n = 0; n < 3_000; n++) yield* memory.search({ text: "x" })
      yield* Fiber.interrupt(fiber)
    }).pipe(run(ada)))
})
