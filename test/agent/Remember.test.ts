import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as TestClock from "effect/TestClock"
import * as MemoryTools from "../../src/agent/MemoryTools.ts"
import { stableId } from "../../src/domain/MemoryId.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as MemoryService from "../../src/harness/MemoryService.ts"
import { free, idOf, law, pilot, reason, tea, toolsOf } from "./Calls.ts"

describe("the tool `remember`", () => {
  law(
    "`remember` saves a record with origin `agent` in the scope that the call names",
    (call, store) =>
      Effect.gen(function*() {
        const scopes = { global: "global", agent: { agentId: "pilot" }, run: { agentId: "pilot", runId: "run-7" } }
        for (const [name, scope] of Object.entries(scopes)) {
          const { data, text } = yield* call("remember", { ...tea, scope: name, tags: ["hot"] })
          const id = idOf(data)
          assert.deepStrictEqual(data, { id, scope: name, kind: "user" })
          assert.strictEqual(text, `saved ${name}/user memory '${id}'.`)
          const record = Option.getOrThrow((yield* store.get(pilot, [id]))[0]!)
          assert.deepInclude(record, { scope, kind: "user", summary: "Tea", body: tea.body, tags: ["hot"] } as never)
          assert.deepStrictEqual(record.source, { origin: "agent", trust: 1 })
        }
      })
  )

  law(
    "`remember` saves in the scope `user` or `session` if the viewer has the id of that scope",
    (call, store) =>
      Effect.gen(function*() {
        for (const scope of ["user", "session"]) yield* call("remember", { ...tea, scope, summary: scope })
        const { items } = yield* store.list(Viewer.system(), {})
        assert.deepStrictEqual(
          new Set(items.map(({ scope }) => JSON.stringify(scope))),
          new Set([
            "{\"userId\":\"ada\"}",
            "{\"userId\":\"ada\",\"sessionId\":\"s\"}"
          ])
        )
        assert.strictEqual(yield* reason(call("remember", { ...tea, scope: "agent" })), "invalid_scope")
      }),
    { viewer: Viewer.make({ userId: "ada", sessionId: "s" }) }
  )

  law(
    "a viewer of reach `within` can save only in the scope that consists of all the viewer's ids",
    (call, store) =>
      Effect.gen(function*() {
        yield* call("remember", { ...tea, scope: "agent" })
        const { items } = yield* store.list(Viewer.system(), {})
        assert.deepStrictEqual(items.map(({ scope }) => scope), [{ userId: "ada", agentId: "pilot" }])
        for (const scope of ["user", "global", "run"]) {
          assert.strictEqual(yield* reason(call("remember", { ...tea, scope })), "invalid_scope")
        }
      }),
    { viewer: Viewer.make({ userId: "ada", agentId: "pilot", reach: "within" }) }
  )

  law(
    "`remember` for the scope `run` fails if the viewer has no run, and names the possible scopes",
    (call, store) =>
      Effect.gen(function*() {
        const failure = yield* Effect.flip(call("remember", { ...tea, scope: "run" }))
        assert.deepStrictEqual(failure, {
          reason: "invalid_scope",
          message: "there is no run scope here; choose from: global, agent"
        })
        assert.deepStrictEqual((yield* store.list(Viewer.system(), {})).items, [])
      }),
    { viewer: Viewer.make({ agentId: "pilot" }) }
  )

  law(
    "`remember` with an invalid kind, text, tag or scope name, or an undeclared argument, fails with `invalid_draft` and writes nothing",
    (call, store) =>
      Effect.gen(function*() {
        const bad = [
          {},
          null,
          "remember tea",
          { ...tea, scope: "everyone" },
          { ...tea, kind: "semantic" },
          { ...tea, summary: "" },
          { ...tea, summary: "x".repeat(201) },
          { ...tea, summary: "two\nlines" },
          { ...tea, summary: "\ud800" },
          { ...tea, body: "" },
          { ...tea, body: "x".repeat(4_001) },
          { ...tea, tags: Array.from({ length: 13 }, (_, i) => `${i}`) },
          { ...tea, tags: [1] },
          { ...tea, tags: ["instructions"] },
          { ...tea, trust: 0 },
          { ...tea, viewer: { agentId: "other" } },
          { ...tea, agentId: "other" },
          { ...tea, source: { origin: "instructions" } },
          JSON.parse("{\"__proto__\":{\"scope\":\"agent\"}}")
        ]
        for (const input of bad) {
          assert.strictEqual(yield* reason(call("remember", input)), "invalid_draft", JSON.stringify(input))
        }
        assert.deepStrictEqual((yield* store.list(Viewer.system(), {})).items, [])
      })
  )

  law(
    "`remember` with an id replaces text, tags and scope of the record, but not fields like `createdAt`",
    (call, store) =>
      Effect.gen(function*() {
        const [put] = yield* store.put(pilot, [{
          scope: { agentId: "pilot" },
          kind: "user",
          body: "old",
          tags: ["old"],
          importance: 0.9,
          metadata: { app: 1 },
          data: { a: 1 },
          expiresAt: 1_000_000
        }])
        yield* TestClock.adjust("1 second")
        const { id } = put!.record
        const { data } = yield* call("remember", { ...tea, scope: "run", id })
        assert.deepStrictEqual(data, { id, scope: "run", kind: "user" })
        const record = Option.getOrThrow((yield* store.get(pilot, [id]))[0]!)
        assert.deepInclude(record, {
          scope: { agentId: "pilot", runId: "run-7" },
          summary: "Tea",
          body: tea.body,
          tags: [],
          importance: 0.9,
          metadata: { app: 1 },
          data: { a: 1 },
          createdAt: 0,
          updatedAt: 1_000,
          expiresAt: 1_000_000,
          revision: 2
        } as never)
        assert.deepInclude(record.source, { origin: "agent", trust: 1 })
      })
  )

  law(
    "`remember` with the id of an invisible, missing or read-only record fails and changes nothing",
    (call, store) =>
      Effect.gen(function*() {
        const system = Viewer.system()
        const [foreign, other, file] = yield* Effect.all([
          store.put(system, [{ scope: { agentId: "other" }, kind: "user", body: "theirs" }]),
          store.put(Viewer.system("acme"), [{ scope: { agentId: "pilot" }, kind: "user", body: "another tenant's" }]),
          store.put(system, [{ scope: "global", kind: "reference", body: "AGENTS", tags: ["instructions"] }], {
            origin: "instructions",
            trust: 0
          })
        ])
        const before = yield* store.list(system, {})
        const failures = yield* Effect.forEach(
          [foreign[0]!.record.id, other[0]!.record.id, stableId("none")],
          (id) => Effect.flip(call("remember", { ...tea, id }))
        )
        assert.deepStrictEqual(new Set(failures.map((failure) => JSON.stringify(failure))).size, 1)
        assert.strictEqual(failures[0]!.reason, "invalid_id")
        assert.strictEqual(yield* reason(call("remember", { ...tea, id: file[0]!.record.id })), "read_only")
        for (const id of ["", "x", "../../etc/passwd", foreign[0]!.record.id.toLowerCase()]) {
          assert.strictEqual(yield* reason(call("remember", { ...tea, id })), "invalid_id")
        }
        assert.deepStrictEqual(yield* store.list(system, {}), before)
      })
  )

  law("a repeated call of `remember` returns the same record as the first call", (call) =>
    Effect.gen(function*() {
      const [first, second] = yield* Effect.all([call("remember", tea), call("remember", tea)])
      assert.deepStrictEqual(first, second)
    }))

  law(
    "`remember` for the scope `global` fails with `not_owned` under `globalWrites: deny`",
    (call) =>
      Effect.gen(function*() {
        assert.strictEqual(yield* reason(call("remember", { ...tea, scope: "global" })), "not_owned")
      }),
    { spec: { ...free, globalWrites: "deny" } }
  )

  law(
    "`remember` allows one write per turn by default; calls with invalid arguments and writes of other runs do not count",
    (call) =>
      Effect.gen(function*() {
        const memory = yield* MemoryService.MemoryService
        yield* Effect.flip(call("remember", { ...tea, summary: "" }))
        yield* Effect.flip(call("remember", { ...tea, id: stableId("none") }))
        yield* call("remember", tea)
        assert.deepStrictEqual(yield* Effect.flip(call("remember", { ...tea, body: "more" })), {
          reason: "rate_limited",
          message: "memory write rate limit hit (1/turn). Combine into one entry or wait until next turn."
        })
        yield* call("recall")
        const other = yield* toolsOf(Viewer.make({ agentId: "pilot", runId: "run-8" }))
        yield* other("remember", { ...tea, body: "theirs" })
        yield* memory.turnStart.pipe(MemoryService.as(pilot))
        yield* call("remember", { ...tea, body: "more" })
      }),
    { spec: {} }
  )
})

describe("a record that a model corrects with `remember`", () => {
  it.effect("a user's record stays invisible to other users even if a model corrects it and names the scope `agent`", () =>
    Effect.gen(function*() {
      const memory = yield* MemoryService.MemoryService
      const mine = Viewer.make({ userId: "ada", agentId: "bot" })
      const { record } = yield* memory.put({
        scope: { userId: "ada", agentId: "bot" },
        kind: "project",
        body: "ada's own"
      }).pipe(MemoryService.as(mine))
      const tools = yield* MemoryTools.make(mine)
      const input = { scope: "agent", kind: "project", summary: "s", body: "ada's secret", id: record.id }
      yield* tools.find(({ name }) => name === "remember")!.call(input)
      const eve = MemoryService.as(Viewer.make({ userId: "eve", agentId: "bot" }))
      assert.deepStrictEqual((yield* memory.list({}).pipe(eve)).items, [])
      assert.lengthOf((yield* memory.list({}).pipe(MemoryService.as(mine))).items, 1)
    }).pipe(Effect.provide(MemoryService.layerTest())))
})
