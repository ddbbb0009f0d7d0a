import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/TestClock"
import * as MemoryError from "../../src/domain/MemoryError.ts"
import * as MemoryId from "../../src/domain/MemoryId.ts"
import type { Draft } from "../../src/domain/MemoryRecord.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as InstructionFiles from "../../src/harness/InstructionFiles.ts"
import * as MemoryEvents from "../../src/harness/MemoryEvents.ts"
import * as MemoryService from "../../src/harness/MemoryService.ts"
import * as RateLimit from "../../src/harness/RateLimit.ts"
import * as HarnessPlugin from "../../src/host/HarnessPlugin.ts"
import * as MemoryTool from "../../src/host/MemoryTool.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"

const ada = Viewer.make({ userId: "ada" })
const pilot = Viewer.make({ agentId: "pilot", runId: "run-7" })

const draft = (body: string, fields: Partial<Draft> = {}): Draft => ({
  scope: { userId: "ada" },
  kind: "user",
  body,
  ...fields
})

const service = MemoryService.MemoryService

const reason = <A, R>(self: Effect.Effect<A, { readonly reason: string }, R>) =>
  Effect.map(Effect.flip(self), ({ reason }) => reason)

/** What happens while `self` runs, and what comes of it. */
const heard = <A, E, R>(self: Effect.Effect<A, E, R>) =>
  Effect.gen(function*() {
    const events: Array<MemoryEvents.MemoryEvent> = []
    const { events: stream } = yield* service
    const fiber = yield* Effect.fork(Stream.runForEach(stream, (event) => Effect.sync(() => events.push(event))))
    yield* settled
    const result = yield* self
    yield* settled
    yield* Fiber.interrupt(fiber)
    return { events, result, tags: events.map(({ _tag }) => _tag) }
  })

/** Until every fiber has gone as far as it can. */
const settled = Effect.repeatN(Effect.yieldNow(), 100)

const run = (viewer: Viewer.Viewer, options?: MemoryService.TestOptions) =>
<A, E>(
  self: Effect.Effect<A, E, MemoryService.MemoryService | MemoryService.CurrentViewer | MemoryStore.MemoryStore>
) => self.pipe(MemoryService.as(viewer), Effect.provide(MemoryService.layerTest(options)))

/** The store as it is, but for what is given. */
const over = (change: (store: MemoryStore.Service) => Partial<MemoryStore.Service>) =>
  Layer.effect(
    MemoryStore.MemoryStore,
    Effect.map(MemoryStore.MemoryStore, (store) => ({ ...store, ...change(store) }))
  ).pipe(
    Layer.provide(MemoryStore.layerInMemory)
  )

const down = MemoryError.make("unavailable", { op: "list", message: "down" })

const note = MemoryTool.make({
  name: "note",
  description: "",
  input: Schema.Struct({ text: Schema.String }),
  output: Schema.String,
  writes: true,
  handler: ({ text }) =>
    text === "foreign"
      ? MemoryError.make("not_owned", { op: "note", message: "not yours" })
      : text === ""
      ? MemoryError.make("invalid_scope", { op: "note", message: "empty" })
      : Effect.succeed(text)
})

describe("MemoryService", () => {
  it.effect("puts, gets, searches, lists, updates, forgets and tells the history, for the current viewer", () =>
    Effect.gen(function*() {
      const memory = yield* service
      const { outcome, record } = yield* memory.put(draft("Drinks tea"))
      assert.strictEqual(outcome, "created")
      assert.deepStrictEqual(yield* memory.get(record.id), Option.some(record))
      assert.deepStrictEqual((yield* memory.search({ text: "tea" })).hits.map((hit) => hit.record.id), [record.id])
      assert.deepStrictEqual((yield* memory.list({})).items.map(({ id }) => id), [record.id])
      const bob = MemoryService.as(Viewer.make({ userId: "bob" }))
      assert.deepStrictEqual(yield* memory.get(record.id).pipe(bob), Option.none())
      assert.strictEqual(yield* reason(memory.update(record.id, { body: "x" }).pipe(bob)), "not_found")
      assert.strictEqual((yield* memory.update(record.id, { body: "Drinks coffee" })).revision, 2)
      assert.lengthOf(yield* memory.history(record.id), 2)
      assert.lengthOf(yield* memory.history(record.id, 1), 1)
      assert.isFalse(yield* memory.forget(record.id).pipe(bob))
      assert.isTrue(yield* memory.forget(record.id))
      assert.isFalse(yield* memory.forget(record.id))
    }).pipe(run(ada)))

  it.effect("apply is all or nothing", () =>
    Effect.gen(function*() {
      const memory = yield* service
      const { record } = yield* memory.put(draft("Tea"))
      const put = { _tag: "Put", draft: draft("Coffee") } as const
      const update = { _tag: "Update", id: record.id, patch: { body: "Water" } } as const
      assert.strictEqual(yield* reason(memory.apply([put, { ...update, ifRevision: 9 }])), "conflict")
      assert.lengthOf((yield* memory.list({})).items, 1)
      assert.deepStrictEqual((yield* memory.apply([put, update])).map(({ outcome }) => outcome), ["created", "updated"])
    }).pipe(run(ada)))

  it.effect("every change and every recall is an event, at the clock's time; what fails is one too", () =>
    Effect.gen(function*() {
      const memory = yield* service
      yield* TestClock.adjust("5 seconds")
      const { events, result: record } = yield* heard(Effect.gen(function*() {
        const { record } = yield* memory.put(draft("Tea"))
        yield* memory.put(draft("Tea"))
        yield* memory.update(record.id, { body: "Green tea" })
        yield* memory.search({ text: "tea" })
        yield* memory.search({})
        yield* memory.apply([{ _tag: "Update", id: record.id, patch: { tags: ["hot"] } }, {
          _tag: "Forget",
          id: record.id
        }])
        yield* memory.forget(record.id)
        yield* Effect.flip(memory.update(record.id, { body: "x" }))
        return record
      }))
      const common = { viewer: ada, at: 5_000 }
      const written = { _tag: "memory_written", ...common, id: record.id, scope: record.scope, kind: "user" }
      const recalled = { _tag: "memory_recalled", ...common, hits: [{ id: record.id, scope: record.scope, score: 1 }] }
      assert.deepStrictEqual(events.slice(0, 3), [
        { ...written, summary: "Tea", outcome: "created" },
        { ...written, summary: "Tea", outcome: "duplicate" },
        { ...written, summary: "Green tea", outcome: "updated" }
      ] as never)
      assert.deepInclude(events[3], { _tag: "memory_recalled", query: "tea" })
      assert.deepInclude(events[4], { _tag: "memory_recalled", query: null })
      assert.deepEqual(Object.keys(events[4]!).sort(), Object.keys({ ...recalled, query: null }).sort())
      assert.deepStrictEqual(events.slice(5, 7), [
        { ...written, summary: "Green tea", outcome: "updated" },
        { _tag: "memory_forgotten", ...common, id: record.id, purged: false }
      ] as never)
      const [failed, ...rest] = events.slice(7)
      assert.deepStrictEqual(rest, [])
      assert.isTrue(failed?._tag === "memory_write_failed" && failed.error.reason === "not_found")
    }).pipe(run(ada)))

  it.effect("events are those of the MemoryEvents that are there", () =>
    Effect.gen(function*() {
      const memory = yield* service
      const shared = yield* MemoryEvents.MemoryEvents
      assert.strictEqual(memory.events, shared.stream)
    }).pipe(Effect.provide(MemoryService.layerTest())))

  it.effect("a spec that is none is invalid_draft", () =>
    Effect.gen(function*() {
      const layer = MemoryService.layer({ writesPerTurn: -1 }).pipe(Layer.provide(MemoryStore.layerInMemory))
      assert.strictEqual(yield* reason(Effect.scoped(Layer.build(layer))), "invalid_draft")
    }))
})

describe("MemoryService, Global", () => {
  const seed = Effect.gen(function*() {
    const store = yield* MemoryStore.MemoryStore
    const [rule] = yield* store.put(Viewer.system(), [{ scope: "global", kind: "feedback", body: "Use tabs" }])
    const [file] = yield* store.put(Viewer.system(), [{
      scope: "global",
      kind: "reference",
      body: "AGENTS",
      tags: ["instructions"]
    }], {
      origin: "instructions",
      trust: 0
    })
    return { rule: rule!.record, file: file!.record }
  })
  const attempts = (id: MemoryId.MemoryId) =>
    Effect.map(service, (memory): ReadonlyArray<MemoryService.Operation<unknown>> => [
      memory.put(draft("x", { id })),
      memory.update(id, { body: "x" }),
      memory.forget(id),
      memory.forget(id, { purge: true }),
      memory.apply([{ _tag: "Put", draft: draft("fine") }, { _tag: "Update", id, patch: { body: "x" } }]),
      memory.apply([{ _tag: "Forget", id }]),
      memory.apply([{ _tag: "Restore", id, revision: 1 }]),
      memory.apply([{ _tag: "Restore", id, revision: 0 }])
    ])

  it.effect("may be changed by default", () =>
    Effect.gen(function*() {
      const memory = yield* service
      const { rule } = yield* seed
      yield* memory.put(draft("Use spaces", { scope: "global" }))
      yield* memory.update(rule.id, { body: "x" })
      assert.isTrue(yield* memory.forget(rule.id))
    }).pipe(run(ada)))

  it.effect("under deny every change of it is not_owned, and nothing is written", () =>
    Effect.gen(function*() {
      const memory = yield* service
      const { rule } = yield* seed
      for (const attempt of yield* attempts(rule.id)) assert.strictEqual(yield* reason(attempt), "not_owned")
      assert.strictEqual(yield* reason(memory.put(draft("x", { scope: "global" }))), "not_owned")
      assert.strictEqual(
        yield* reason(memory.apply([{ _tag: "Put", draft: draft("x", { scope: "global" }) }])),
        "not_owned"
      )
      assert.deepStrictEqual((yield* memory.list({ kinds: ["feedback", "user"] })).items, [rule])
    }).pipe(run(ada, { spec: { globalWrites: "deny" } })))

  it.effect("under deny what was Global does not come back as that", () =>
    Effect.gen(function*() {
      const memory = yield* service
      const store = yield* MemoryStore.MemoryStore
      const { rule } = yield* seed
      yield* store.put(Viewer.system(), [draft("mine", { id: rule.id })])
      assert.strictEqual(yield* reason(memory.apply([{ _tag: "Restore", id: rule.id, revision: 1 }])), "not_owned")
      yield* store.put(Viewer.system(), [draft("Bob's now", { id: rule.id, scope: { userId: "bob" } })])
      assert.strictEqual(yield* reason(memory.apply([{ _tag: "Restore", id: rule.id, revision: 1 }])), "not_found")
      yield* store.put(Viewer.system(), [{ ...draft("back"), scope: "global", id: rule.id }])
      yield* store.forget(Viewer.system(), [rule.id])
      assert.strictEqual(yield* reason(memory.apply([{ _tag: "Restore", id: rule.id, revision: 1 }])), "not_owned")
    }).pipe(run(ada, { spec: { globalWrites: "deny" } })))

  for (const globalWrites of ["allow", "deny"] as const) {
    it.effect(`under ${globalWrites} instructions are read_only`, () =>
      Effect.gen(function*() {
        const { file } = yield* seed
        for (const attempt of yield* attempts(file.id)) assert.strictEqual(yield* reason(attempt), "read_only")
      }).pipe(run(ada, { spec: { globalWrites } })))
  }
})

describe("MemoryService under globalWrites: deny", () => {
  it.effect("what was Global and is forgotten is not purged either", () =>
    Effect.gen(function*() {
      const memory = yield* service
      const store = yield* MemoryStore.MemoryStore
      const system = Viewer.system()
      const [all] = yield* store.put(system, [{ scope: "global", kind: "user", body: "all" }])
      const { id } = all!.record
      yield* store.forget(system, [id])
      const error = yield* Effect.flip(memory.apply([{ _tag: "Forget", id, purge: true }]))
      assert.strictEqual(error.reason, "not_owned")
      assert.lengthOf(yield* store.history(system, id), 2)
    }).pipe(run(ada, { spec: { globalWrites: "deny" } })))
})

describe("MemoryService.forgetAll", () => {
  it.effect("forgets all that the filter means, whatever its limit, and nobody else's", () =>
    Effect.gen(function*() {
      const memory = yield* service
      for (let n = 0; n < 25; n++) yield* memory.put(draft(`tea ${n}`, { tags: n < 5 ? ["keep"] : ["go"] }))
      const bob = MemoryService.as(Viewer.make({ userId: "bob" }))
      yield* memory.put(draft("Bob's", { scope: { userId: "bob" }, tags: ["go"] })).pipe(bob)
      assert.strictEqual(yield* memory.forgetAll({ tags: ["go"], limit: 3 }), 20)
      assert.strictEqual(yield* memory.forgetAll({ tags: ["go"] }), 0)
      assert.lengthOf((yield* memory.list({})).items, 5)
      assert.lengthOf((yield* memory.list({}).pipe(bob)).items, 1)
    }).pipe(run(ada)))

  it.effect("with purge leaves nothing: no revision, and no tombstone of what was forgotten before", () =>
    Effect.gen(function*() {
      const memory = yield* service
      const store = yield* MemoryStore.MemoryStore
      const { record: gone } = yield* memory.put(draft("long gone"))
      yield* memory.forget(gone.id)
      const { record } = yield* memory.put(draft("tea"))
      yield* memory.update(record.id, { body: "green tea" })
      const { events } = yield* heard(memory.forgetAll({}, { purge: true }))
      assert.deepInclude(events[0], { _tag: "memory_forgotten", id: record.id, purged: true })
      for (const { id } of [gone, record]) {
        assert.deepStrictEqual(yield* store.get(Viewer.system(), [id]), [Option.none()])
        assert.deepStrictEqual(yield* store.history(Viewer.system(), id), [])
      }
      assert.deepStrictEqual(yield* store.tenants, [])
    }).pipe(run(ada)))

  it.effect("with purge takes what is closed, not yet true or expired as well", () =>
    Effect.gen(function*() {
      const memory = yield* service
      const store = yield* MemoryStore.MemoryStore
      yield* TestClock.adjust("10 seconds")
      yield* memory.put(draft("was", { validAt: 1_000, invalidAt: 5_000 }))
      yield* memory.put(draft("will be", { validAt: 20_000 }))
      yield* memory.put(draft("expires", { expiresAt: 11_000 }))
      yield* TestClock.adjust("1 seconds")
      assert.strictEqual(yield* memory.forgetAll({}, { purge: true }), 2)
      assert.deepStrictEqual(yield* store.tenants, [])
    }).pipe(run(ada)))

  it.effect("leaves instructions, and under deny what is Global, where they are", () =>
    Effect.gen(function*() {
      const memory = yield* service
      const store = yield* MemoryStore.MemoryStore
      yield* store.put(Viewer.system(), [{ scope: "global", kind: "user", body: "all" }])
      yield* store.put(Viewer.system(), [{ scope: "global", kind: "reference", body: "file" }], {
        origin: "instructions"
      })
      yield* memory.put(draft("tea"))
      assert.strictEqual(yield* memory.forgetAll({}), 1)
      assert.lengthOf((yield* memory.list({})).items, 2)
    }).pipe(run(ada, { spec: { globalWrites: "deny" } })))
})

describe("MemoryService.index", () => {
  it.effect("shows the viewer what it sees of kinds that are shown and true now", () =>
    Effect.gen(function*() {
      const memory = yield* service
      yield* memory.put(draft("for all", { scope: "global" }))
      yield* memory.put(draft("mine", { scope: { agentId: "pilot" } }))
      yield* memory.put(draft("this run", { scope: { agentId: "pilot", runId: "run-7" } }))
      yield* memory.put(draft("not shown", { scope: { agentId: "pilot" }, kind: "working" }))
      yield* memory.put(draft("unknown kind", { scope: { agentId: "pilot" }, kind: "whatever" }))
      yield* memory.put(draft("expired", { scope: { agentId: "pilot" }, expiresAt: 1_000 }))
      yield* memory.put(draft("closed", { scope: { agentId: "pilot" }, invalidAt: 1_000 }))
      yield* memory.put(draft("another's", { scope: { agentId: "other" } })).pipe(
        MemoryService.as(Viewer.make({ agentId: "other" }))
      )
      yield* memory.put(draft("untrusted", { scope: { agentId: "pilot" } }), { trust: 3 })
      yield* memory.put(draft("derived", { scope: { agentId: "pilot" } }), { trust: 2 })
      yield* memory.put(draft("derived for all", { scope: "global" }), { trust: 2 })
      yield* TestClock.adjust("1 second")
      const { ids, leftOut, text } = yield* memory.index
      assert.deepStrictEqual(
        new Set(Array.from(text.matchAll(/\[user\] (.+) \(/g), ([, summary]) => summary)),
        new Set(["for all", "mine", "this run", "derived"])
      )
      assert.deepStrictEqual([ids.length, leftOut], [4, 0])
      assert.strictEqual(yield* MemoryService.renderMemoryIndex, text)
    }).pipe(run(pilot)))

  it.effect("a within viewer sees all that is narrower, and no Global", () =>
    Effect.gen(function*() {
      const memory = yield* service
      const store = yield* MemoryStore.MemoryStore
      yield* store.put(Viewer.system(), [draft("for all", { scope: "global" })])
      yield* memory.put(draft("ada"))
      yield* memory.put(draft("today", { scope: { userId: "ada", sessionId: "today" } }))
      assert.lengthOf((yield* memory.index).ids, 2)
      const everything = MemoryService.as(Viewer.make({ reach: "within" }))
      assert.lengthOf((yield* memory.index.pipe(everything)).ids, 3)
    }).pipe(run(Viewer.make({ userId: "ada", reach: "within" }))))

  it.effect("own memory is not starved by a hundred newer globals, and the rest is counted", () =>
    Effect.gen(function*() {
      const memory = yield* service
      yield* memory.put(draft("mine", { scope: { agentId: "pilot" } }))
      yield* TestClock.adjust("1 hour")
      for (let n = 0; n < 100; n++) yield* memory.put(draft(`rule ${n}`, { scope: "global" }))
      const { ids, leftOut, text } = yield* memory.index
      assert.deepStrictEqual([ids.length, leftOut], [30, 71])
      assert.include(text, "mine")
      assert.include(text, "… and 71 more not shown")
    }).pipe(run(pilot)))

  for (const spec of [{ includeIndex: false }, { enabled: false }]) {
    it.effect(`is empty under ${JSON.stringify(spec)}`, () =>
      Effect.gen(function*() {
        const memory = yield* service
        yield* memory.put(draft("Tea"))
        assert.deepStrictEqual(yield* memory.index, { text: "", ids: [], leftOut: 0 })
      }).pipe(run(ada, { spec })))
  }

  it.effect("never fails: it says so, and an event tells why", () =>
    Effect.gen(function*() {
      const { events, result } = yield* heard(MemoryService.renderMemoryIndex)
      assert.include(result, "## Recalled memory\n(memory unavailable)")
      const [event, ...rest] = events
      assert.deepStrictEqual(rest, [])
      assert.isTrue(event?._tag === "memory_degraded" && event.part === "index" && event.error.reason === "unavailable")
    }).pipe(
      MemoryService.as(ada),
      Effect.provide(MemoryService.layer().pipe(Layer.provide(over(() => ({ list: () => Effect.fail(down) })))))
    ))
})

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

  it.effect("a denial is an answer to the model and an event, from whatever fiber the tool is called", () =>
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

  it.effect("plugins are asked in order, before the input is decoded, and the first denial stands", () =>
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

  it.effect("the spec's limit holds: of concurrent calls one passes, until the turn starts anew", () =>
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
      assert.strictEqual(yield* passed, 1)
    }).pipe(Effect.provide(MemoryService.layerTest())))

  it.effect("what failed validation is not counted; what was refused or denied for another reason is", () =>
    Effect.gen(function*() {
      const tool = yield* guarded
      for (const input of [null, {}, { text: 1 }, { text: "x", more: 1 }, { text: "" }]) {
        yield* Effect.flip(tool.call(input))
      }
      assert.strictEqual(yield* reason(tool.call({ text: "foreign" })), "not_owned")
      assert.strictEqual(yield* reason(tool.call({ text: "x" })), "rate_limited")
    }).pipe(Effect.provide(MemoryService.layerTest())))

  it.effect("0 installs no limit, and a limit of one's own takes the place of the spec's", () =>
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

  it.effect("the plugins are told of a turn's start and end and of a session's end, each of its viewer's", () =>
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

  it.effect("a plugin that dies breaks neither turn nor fiber; when asked, it has not said yes", () =>
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

  it.effect("a listener that never listens holds nobody up", () =>
    Effect.gen(function*() {
      const memory = yield* service
      const fiber = yield* Effect.fork(Stream.runForEach(memory.events, () => Effect.never))
      yield* settled
      for (let n = 0; n < 3_000; n++) yield* memory.search({ text: "x" })
      yield* Fiber.interrupt(fiber)
    }).pipe(run(ada)))
})

describe("MemoryService.instructions", () => {
  const file: InstructionFiles.InstructionFile = {
    path: "/repo/AGENTS.md",
    label: "(repo root)",
    content: "Use tabs.",
    truncated: false
  }
  const issue = MemoryError.make("path_escape", { op: "instructions", message: "docs/AGENTS.md leads out of the root" })

  /** Files that need no disk; counts how often each tenant is seeded, and fails as long as `broken`. */
  const counting = (
    state: { broken: boolean; readonly seeds: Array<string> },
    spec?: Parameters<typeof MemoryService.layer>[0]
  ) =>
    MemoryService.layer(spec).pipe(
      Layer.provide(Layer.succeed(InstructionFiles.InstructionFiles, {
        load: Effect.succeed({ files: [file], issues: [issue] }),
        render: Effect.succeed(""),
        seed: ({ tenant }) =>
          Effect.zipRight(
            Effect.yieldNow(),
            Effect.suspend(() => {
              state.seeds.push(tenant)
              return state.broken ? Effect.fail(down) : Effect.succeed([])
            })
          )
      })),
      Layer.provide(MemoryStore.layerInMemory)
    )
  const acme = Viewer.make({ userId: "ada", tenant: "acme" })

  it.effect("are nothing without files, and never fail", () =>
    Effect.gen(function*() {
      assert.strictEqual(yield* (yield* service).instructions, "")
    }).pipe(run(ada)))

  it.effect("are rendered with them, and what could not be read is an event", () =>
    Effect.gen(function*() {
      const memory = yield* service
      const { events, result } = yield* heard(memory.instructions.pipe(MemoryService.as(ada)))
      assert.strictEqual(result, InstructionFiles.renderInstructionFiles([file]))
      assert.isTrue(events.every((event) => event._tag === "memory_degraded" && event.part === "instructions"))
      assert.lengthOf(events, 1)
    }).pipe(Effect.provide(counting({ broken: false, seeds: [] }))))

  it.effect("are seeded once for a tenant, whoever comes first and however many at once", () =>
    Effect.gen(function*() {
      const state = { broken: false, seeds: [] }
      yield* Effect.gen(function*() {
        const memory = yield* service
        const both = (viewer: Viewer.Viewer) =>
          [memory.turnStart, memory.instructions].map((self) => self.pipe(MemoryService.as(viewer)))
        yield* Effect.all([...both(ada), ...both(acme), ...both(pilot), ...both(ada)], { concurrency: "unbounded" })
      }).pipe(Effect.provide(counting(state)))
      assert.deepStrictEqual(state.seeds, ["default", "acme"])
    }))

  it.effect("that could not be seeded are tried again with the next turn, and an event tells", () =>
    Effect.gen(function*() {
      const state: { broken: boolean; readonly seeds: Array<string> } = { broken: true, seeds: [] }
      yield* Effect.gen(function*() {
        const memory = yield* service
        const { tags } = yield* heard(memory.turnStart)
        assert.deepStrictEqual(tags, ["memory_degraded"])
        state.broken = false
        yield* memory.turnStart
        yield* memory.turnStart
      }).pipe(MemoryService.as(ada), Effect.provide(counting(state)))
      assert.deepStrictEqual(state.seeds, ["default", "default"])
    }))

  it.effect("are rendered and not seeded where memory is off", () =>
    Effect.gen(function*() {
      const state = { broken: false, seeds: [] }
      yield* Effect.gen(function*() {
        const memory = yield* service
        yield* memory.turnStart
        assert.include(yield* memory.instructions, "Use tabs.")
      }).pipe(MemoryService.as(ada), Effect.provide(counting(state, { enabled: false })))
      assert.deepStrictEqual(state.seeds, [])
    }))
})

describe("MemoryService.layerTest", () => {
  const story = (options?: MemoryService.TestOptions) =>
    Effect.gen(function*() {
      const memory = yield* service
      const { record } = yield* memory.put(draft("Tea"))
      yield* TestClock.adjust("1 minute")
      const { record: later } = yield* memory.put(draft("Coffee"))
      return [record, later].map(({ createdAt, id }) => [id, createdAt] as const)
    }).pipe(run(ada, options))

  it.effect("two runs are alike to the last id, and another seed is another run", () =>
    Effect.gen(function*() {
      const tests = [story({ now: 0 }), story({ now: 0 }), story({ now: 0, seed: 1 }), story({ now: 0, seed: 1 })]
      const [a, b, c, d] = yield* Effect.all(tests)
      assert.deepStrictEqual(a, b)
      assert.deepStrictEqual(c, d)
      assert.notDeepEqual(a, c)
    }))

  it.effect("the same layer, built twice, begins anew", () =>
    Effect.gen(function*() {
      const layer = MemoryService.layerTest({ now: 0 })
      const put = Effect.flatMap(service, (memory) => memory.put(draft("Tea"))).pipe(
        Effect.map(({ record }) => record.id),
        MemoryService.as(ada)
      )
      assert.strictEqual(yield* Effect.provide(put, layer), yield* Effect.provide(put, layer))
    }))

  it.effect("now is where the time begins, and from there it goes as the test's clock goes", () =>
    Effect.gen(function*() {
      yield* TestClock.adjust("1 day")
      const records = yield* story({ now: "2026-01-01T00:00:00Z" })
      assert.deepStrictEqual(records.map(([, createdAt]) => createdAt), [1_767_225_600_000, 1_767_225_660_000])
      assert.strictEqual(yield* Clock.currentTimeMillis, 86_460_000)
    }))

  it.effect("gives the store and the events too", () =>
    Effect.gen(function*() {
      const store = yield* MemoryStore.MemoryStore
      assert.strictEqual(store.name, "memory")
      yield* MemoryEvents.MemoryEvents
    }).pipe(Effect.provide(MemoryService.layerTest())))
})
