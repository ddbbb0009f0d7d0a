import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
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

/** The plugin with what is optional in the interface and given here. */
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
  it.effect("a turn has one write by default, and says so in the words of the seed", () =>
    Effect.gen(function*() {
      const limit = yield* make()
      assert.strictEqual(limit.id, "memory-rate-limit")
      assert.isUndefined(yield* limit.reason(call()))
      assert.strictEqual(
        yield* limit.reason(call()),
        "memory write rate limit hit (1/turn). Combine into one entry or wait until next turn."
      )
    }))

  it.effect("a limit of N allows N, and turn_start allows N again", () =>
    Effect.gen(function*() {
      const limit = yield* make({ writesPerTurn: 3 })
      const five = Effect.replicateEffect(Effect.suspend(() => limit.ask(call())), 5)
      const expected = ["allow", "allow", "allow", "deny", "deny"] as const
      assert.deepStrictEqual(yield* five, [...expected])
      yield* limit.signal("turn_start")
      assert.deepStrictEqual(yield* five, [...expected])
    }))

  it.effect("0 is off", () =>
    Effect.gen(function*() {
      const limit = yield* make({ writesPerTurn: 0 })
      const all = yield* Effect.replicateEffect(Effect.suspend(() => limit.ask(call())), 100)
      assert.isTrue(all.every((kind) => kind === "allow"))
    }))

  it.effect("every tool that writes is gated and no other, unless the ids are given", () =>
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

  it.effect("of concurrent calls exactly N pass", () =>
    Effect.gen(function*() {
      const limit = yield* make({ writesPerTurn: 2 })
      const asked = Effect.zipRight(Effect.yieldNow(), Effect.suspend(() => limit.ask(call())))
      const kinds = yield* Effect.all(Array.from({ length: 50 }, () => asked), { concurrency: "unbounded" })
      assert.strictEqual(kinds.filter((kind) => kind === "allow").length, 2)
    }))

  it.effect("every viewer has his own count and his own turns, and a tenant is part of who he is", () =>
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

  it.effect("what failed validation is given back once, to the turn that it was counted in", () =>
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

  it.effect("turn_end and session_end begin anew too", () =>
    Effect.gen(function*() {
      const limit = yield* make()
      for (const tag of ["turn_end", "session_end"] as const) {
        yield* limit.ask(call())
        yield* limit.signal(tag)
        assert.strictEqual(yield* limit.ask(call()), "allow")
        yield* limit.signal(tag)
      }
    }))

  it.effect("twenty thousand runs that never end leave the recent ones counted", () =>
    Effect.gen(function*() {
      const limit = yield* make()
      const run = (n: number) => call({ viewer: Viewer.make({ runId: `run-${n}` }) })
      yield* Effect.forEach(Array.from({ length: 20_000 }, (_, n) => n), (n) => limit.ask(run(n)), { discard: true })
      assert.strictEqual(yield* limit.ask(run(19_999)), "deny")
      assert.strictEqual(yield* limit.ask(run(0)), "allow")
    }))

  it.effect("whatever happens in whatever order, a turn lets no more than N through that were not given back", () => {
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
