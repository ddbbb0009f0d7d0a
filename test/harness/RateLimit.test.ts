import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import * as TestClock from "effect/TestClock"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as RateLimit from "../../src/harness/RateLimit.ts"
import type * as HarnessPlugin from "../../src/host/HarnessPlugin.ts"

const pilot = Viewer.make({ agentId: "pilot", runId: "run-7" })

const call = (fields: Partial<HarnessPlugin.ToolCall> = {}): HarnessPlugin.ToolCall => ({
  tool: "remember",
  writes: true,
  viewer: pilot,
  input: {},
  ...fields
})

/** Makes the plugin, and functions that call its methods for a test. */
const make = (options?: RateLimit.Options) =>
  Effect.map(RateLimit.make(options), ({ beforeToolCall, id, onEvent, onRefused }) => ({
    id,
    ask: (asked: HarnessPlugin.ToolCall) => Effect.map(beforeToolCall!(asked), ({ kind }) => kind),
    reason: (asked: HarnessPlugin.ToolCall) =>
      Effect.map(beforeToolCall!(asked), (verdict) => verdict.kind === "deny" ? verdict.reason : undefined),
    signal: (_tag: HarnessPlugin.Signal["_tag"], viewer: Viewer.Viewer = pilot) => onEvent!({ _tag, viewer }),
    giveBack: onRefused!
  }))

describe("RateLimit", () => {
  it.effect("allows one write per turn by default, and denies further writes with a message that states the limit", () =>
    Effect.gen(function*() {
      const limit = yield* make()
      assert.strictEqual(limit.id, "memory-rate-limit")
      assert.isUndefined(yield* limit.reason(call()))
      assert.strictEqual(
        yield* limit.reason(call()),
        "memory write rate limit hit (1/turn). Combine into one entry or wait until next turn."
      )
    }))

  it.effect("allows `writesPerTurn` writes in each turn, and `turn_start` begins a new turn", () =>
    Effect.gen(function*() {
      const limit = yield* make({ writesPerTurn: 3 })
      const five = Effect.replicateEffect(Effect.suspend(() => limit.ask(call())), 5)
      const expected = ["allow", "allow", "allow", "deny", "deny"] as const
      assert.deepStrictEqual(yield* five, [...expected])
      yield* limit.signal("turn_start")
      assert.deepStrictEqual(yield* five, [...expected])
    }))

  it.effect("allows every write if `writesPerTurn` is 0", () =>
    Effect.gen(function*() {
      const limit = yield* make({ writesPerTurn: 0 })
      const all = yield* Effect.replicateEffect(Effect.suspend(() => limit.ask(call())), 100)
      assert.isTrue(all.every((kind) => kind === "allow"))
    }))

  it.effect("RateLimit counts the calls of all tools that write, or only of the tools in the option `toolIds`", () =>
    Effect.gen(function*() {
      const byDefault = yield* make()
      yield* byDefault.ask(call())
      assert.strictEqual(yield* byDefault.ask(call({ tool: "recall", writes: false })), "allow")
      assert.strictEqual(yield* byDefault.ask(call({ tool: "forget" })), "deny")
      const named = yield* make({ toolIds: ["note"] })
      yield* named.ask(call({ tool: "note", writes: false }))
      assert.strictEqual(yield* named.ask(call({ tool: "note", writes: false })), "deny")
      assert.strictEqual(yield* named.ask(call()), "allow")
    }))

  it.effect("allows exactly `writesPerTurn` of fifty concurrent calls", () =>
    Effect.gen(function*() {
      const limit = yield* make({ writesPerTurn: 2 })
      const asked = Effect.zipRight(Effect.yieldNow(), Effect.suspend(() => limit.ask(call())))
      const kinds = yield* Effect.all(Array.from({ length: 50 }, () => asked), { concurrency: "unbounded" })
      assert.strictEqual(kinds.filter((kind) => kind === "allow").length, 2)
    }))

  it.effect("RateLimit counts calls separately per run, even if runs of other viewers or tenants have the same id", () =>
    Effect.gen(function*() {
      const limit = yield* make()
      const others = [
        Viewer.make({ agentId: "pilot", runId: "run-8" }),
        Viewer.make({ agentId: "pilot" }),
        Viewer.make({ agentId: "pilot", runId: "run-7", tenant: "acme" }),
        Viewer.make({ userId: "pilot", runId: "run-7" })
      ]
      yield* limit.ask(call())
      for (const viewer of others) assert.strictEqual(yield* limit.ask(call({ viewer })), "allow")
      yield* limit.signal("turn_start", others[0])
      assert.strictEqual(yield* limit.ask(call()), "deny")
      assert.strictEqual(yield* limit.ask(call({ viewer: others[0]! })), "allow")
    }))

  it.effect("a call that fails validation lowers the count of its own turn by one, and never the count of a later turn", () =>
    Effect.gen(function*() {
      const limit = yield* make()
      const refused = call()
      yield* limit.ask(refused)
      yield* limit.giveBack(refused)
      yield* limit.giveBack(refused)
      const late = call()
      assert.strictEqual(yield* limit.ask(late), "allow")
      assert.strictEqual(yield* limit.ask(call()), "deny")
      yield* limit.signal("turn_start")
      yield* limit.ask(call())
      yield* limit.giveBack(late)
      assert.strictEqual(yield* limit.ask(call()), "deny")
    }))

  it.effect("RateLimit starts a new turn at the event `turn_start`, and not at `turn_end` or `session_end`", () =>
    Effect.gen(function*() {
      const limit = yield* make()
      yield* limit.ask(call())
      for (const tag of ["turn_end", "session_end"] as const) {
        yield* limit.signal(tag)
        assert.strictEqual(yield* limit.ask(call()), "deny")
      }
      yield* limit.signal("turn_start")
      assert.strictEqual(yield* limit.ask(call()), "allow")
    }))

  it.effect("`turn_start` does not reset the count of another run, even if the viewers of the two runs differ in one id only", () =>
    Effect.gen(function*() {
      const ada = { userId: "ada", agentId: "pilot" }
      const mine = Viewer.make({ ...ada, sessionId: "here" })
      const others = [
        Viewer.make(ada),
        Viewer.make({ ...ada, sessionId: "elsewhere" }),
        Viewer.make({ ...ada, sessionId: "here", runId: "7" }),
        Viewer.make({ ...ada, runId: "here" }),
        Viewer.make({ ...ada, sessionId: "here", tenant: "acme" }),
        Viewer.make({ ...ada, sessionId: "here", actorId: "bob" })
      ]
      const limit = yield* make()
      yield* limit.ask(call({ viewer: mine }))
      for (const viewer of others) {
        for (const tag of ["turn_start", "turn_end", "session_end"] as const) yield* limit.signal(tag, viewer)
      }
      assert.strictEqual(yield* limit.ask(call({ viewer: mine })), "deny")
      yield* limit.signal("turn_start", Viewer.make({ ...mine, reach: "within" }))
      assert.strictEqual(yield* limit.ask(call({ viewer: mine })), "allow")
    }))

  it.effect("RateLimit counts the calls of equal viewers together, even if they have neither a run id nor a session id", () =>
    Effect.gen(function*() {
      const limit = yield* make()
      const ada = call({ viewer: Viewer.make({ userId: "ada" }) })
      yield* limit.ask(ada)
      assert.strictEqual(yield* limit.ask(call({ viewer: Viewer.make({ userId: "ada" }) })), "deny")
      yield* limit.signal("turn_start", Viewer.make({ userId: "ada", sessionId: "s" }))
      assert.strictEqual(yield* limit.ask(ada), "deny")
    }))

  it.effect("keeps its counts while twenty thousand other viewers write", () =>
    Effect.gen(function*() {
      const limit = yield* make()
      const run = (n: number) => call({ viewer: Viewer.make({ runId: `run-${n}` }) })
      const all = Array.from({ length: 20_001 }, (_, n) => n)
      yield* Effect.forEach(all, (n) => limit.ask(run(n)), { discard: true })
      for (const n of [0, 1, 10_000, 19_999, 20_000]) assert.strictEqual(yield* limit.ask(run(n)), "deny")
    }))

  it.effect("RateLimit resets the count of a run one hour after the run's last call, and not before", () =>
    Effect.gen(function*() {
      const limit = yield* make()
      const other = call({ viewer: Viewer.make({ userId: "bob" }) })
      yield* limit.ask(call())
      yield* limit.ask(other)
      yield* TestClock.adjust("59 minutes")
      assert.strictEqual(yield* limit.ask(other), "deny")
      yield* TestClock.adjust("59 seconds")
      assert.strictEqual(yield* limit.ask(call()), "deny") // a refused call counts as the run's last call, too
      yield* TestClock.adjust("59 minutes")
      assert.strictEqual(yield* limit.ask(call()), "deny")
      assert.strictEqual(yield* limit.ask(other), "deny")
      yield* TestClock.adjust("60 minutes")
      assert.strictEqual(yield* limit.ask(other), "allow")
      assert.strictEqual(yield* limit.ask(call()), "allow")
    }))

  it.effect("a call that fails validation an hour after it was counted does not lower the new count of its run", () =>
    Effect.gen(function*() {
      const limit = yield* make()
      const slow = call()
      yield* limit.ask(slow)
      yield* TestClock.adjust("60 minutes")
      assert.strictEqual(yield* limit.ask(call()), "allow")
      yield* limit.giveBack(slow)
      assert.strictEqual(yield* limit.ask(call()), "deny")
    }))

  it.effect("RateLimit denies a call exactly if its turn already has `writesPerTurn` allowed calls; calls that failed validation do not count", () => {
    const step = FastCheck.constantFrom("ask" as const, "giveBack" as const, "turn_start" as const)
    const plans = FastCheck.sample(FastCheck.tuple(FastCheck.integer({ min: 1, max: 4 }), FastCheck.array(step)), {
      numRuns: 200,
      seed: 1
    })
    return Effect.forEach(plans, ([writesPerTurn, steps]) =>
      Effect.gen(function*() {
        const limit = yield* make({ writesPerTurn })
        let standing: Array<HarnessPlugin.ToolCall> = []
        for (const step of steps) {
          if (step === "ask") {
            const asked = call()
            const kind = yield* limit.ask(asked)
            assert.strictEqual(kind, standing.length < writesPerTurn ? "allow" : "deny")
            if (kind === "allow") standing.push(asked)
          } else if (step === "giveBack") {
            const refused = standing.pop()
            if (refused) yield* limit.giveBack(refused)
          } else {
            yield* limit.signal("turn_start")
            standing = []
          }
        }
      }), { discard: true })
  })
})
