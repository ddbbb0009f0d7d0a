import { assert, describe, it } from "@effect/vitest"
import { assertNone, assertSome } from "@effect/vitest/utils"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as TestClock from "effect/TestClock"
import * as MemoryError from "../../src/domain/MemoryError.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as InstructionFiles from "../../src/harness/InstructionFiles.ts"
import * as MemoryEvents from "../../src/harness/MemoryEvents.ts"
import * as MemoryService from "../../src/harness/MemoryService.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import { ada, down, draft, heard, over, pilot, reason, run, service, settled } from "./Service.ts"

describe("MemoryService", () => {
  it.effect("operations on records act for the current viewer; another viewer can neither read, update nor forget the record", () =>
    Effect.gen(function*() {
      const memory = yield* service
      const { outcome, record } = yield* memory.put(draft("Drinks tea"))
      assert.strictEqual(outcome, "created")
      assertSome(yield* memory.get(record.id), record)
      assert.deepStrictEqual((yield* memory.search({ text: "tea" })).hits.map((hit) => hit.record.id), [record.id])
      assert.deepStrictEqual((yield* memory.list({})).items.map(({ id }) => id), [record.id])
      const bob = MemoryService.as(Viewer.make({ userId: "bob" }))
      assertNone(yield* memory.get(record.id).pipe(bob))
      assert.strictEqual(yield* reason(memory.update(record.id, { body: "x" }).pipe(bob)), "not_found")
      assert.strictEqual((yield* memory.update(record.id, { body: "Drinks coffee" })).revision, 2)
      assert.lengthOf(yield* memory.history(record.id), 2)
      assert.lengthOf(yield* memory.history(record.id, 1), 1)
      assert.isFalse(yield* memory.forget(record.id).pipe(bob))
      assert.isTrue(yield* memory.forget(record.id))
      assert.isFalse(yield* memory.forget(record.id))
    }).pipe(run(ada)))

  it.effect("applies a batch completely or not at all", () =>
    Effect.gen(function*() {
      const memory = yield* service
      const { record } = yield* memory.put(draft("Tea"))
      const put = { _tag: "Put", draft: draft("Coffee") } as const
      const update = { _tag: "Update", id: record.id, patch: { body: "Water" } } as const
      assert.strictEqual(yield* reason(memory.apply([put, { ...update, ifRevision: 9 }])), "conflict")
      assert.lengthOf((yield* memory.list({})).items, 1)
      assert.deepStrictEqual((yield* memory.apply([put, update])).map(({ outcome }) => outcome), ["created", "updated"])
    }).pipe(run(ada)))

  it.effect("one event is published for each search, each put or update, each forgotten record and each failed write", () =>
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
      const leftOut = { limit: 0, budget: 0, folded: 0 }
      assert.deepStrictEqual(events.slice(0, 3), [
        { ...written, outcome: "created" },
        { ...written, outcome: "duplicate" },
        { ...written, outcome: "updated" }
      ] as never)
      const [byWords, byRecency] = events.slice(3, 5)
      assert.deepStrictEqual(byWords, { ...recalled, leftOut } as never)
      assert.deepStrictEqual(byRecency && Object.keys(byRecency), Object.keys({ ...recalled, leftOut }))
      assert.deepStrictEqual(events.slice(5, 7), [
        { ...written, outcome: "updated" },
        { _tag: "memory_forgotten", ...common, id: record.id, purged: false }
      ] as never)
      const [failed, ...rest] = events.slice(7)
      assert.deepStrictEqual(rest, [])
      assert.isTrue(failed?._tag === "memory_write_failed" && failed.error.reason === "not_found")
    }).pipe(run(ada)))

  it.effect("`events` of MemoryService is the same stream as `stream` of MemoryEvents", () =>
    Effect.gen(function*() {
      const memory = yield* service
      const shared = yield* MemoryEvents.MemoryEvents
      assert.strictEqual(memory.events, shared.stream)
    }).pipe(Effect.provide(MemoryService.layerTest())))

  it.effect("MemoryService.layer fails with `invalid_draft` if the spec is invalid", () =>
    Effect.gen(function*() {
      const layer = MemoryService.layer({ writesPerTurn: -1 }).pipe(Layer.provide(MemoryStore.layerInMemory))
      assert.strictEqual(yield* reason(Effect.scoped(Layer.build(layer))), "invalid_draft")
    }))
})

describe("MemoryService.index", () => {
  it.effect("the index for an agent lists records that are visible, valid now, of trust 0 or 1, and of a kind with `shown: true`", () =>
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
        new Set(["for all", "mine", "this run"])
      )
      assert.deepStrictEqual([ids.length, leftOut], [3, 0])
      assert.strictEqual(yield* MemoryService.renderMemoryIndex, text)
    }).pipe(run(pilot)))

  it.effect("the index for a viewer of reach `within` has records of narrower scopes, but no Global records", () =>
    Effect.gen(function*() {
      const memory = yield* service
      const store = yield* MemoryStore.MemoryStore
      yield* store.put(Viewer.system(), [draft("for all", { scope: "global" })])
      yield* memory.put(draft("ada"))
      yield* memory.put(draft("today", { scope: { userId: "ada", sessionId: "today" } }))
      assert.lengthOf((yield* memory.index).ids, 2)
      const everything = MemoryService.as(Viewer.everyone())
      assert.lengthOf((yield* memory.index.pipe(everything)).ids, 3)
    }).pipe(run(Viewer.make({ userId: "ada", reach: "within" }))))

  it.effect("the index lists the viewer's own record even if 100 Global records are newer", () =>
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
    it.effect(`the index is empty with the spec ${JSON.stringify(spec)}`, () =>
      Effect.gen(function*() {
        const memory = yield* service
        yield* memory.put(draft("Tea"))
        assert.deepStrictEqual(yield* memory.index, { text: "", ids: [], leftOut: 0 })
      }).pipe(run(ada, { spec })))
  }

  it.effect("the index says that memory is unavailable and publishes `memory_degraded` if the store's `list` fails", () =>
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

describe("MemoryService.instructions", () => {
  const file: InstructionFiles.InstructionFile = {
    path: "/repo/AGENTS.md",
    label: "(repo root)",
    content: "Use tabs.",
    truncated: false
  }
  const issue = MemoryError.make("path_escape", { op: "instructions", message: "docs/AGENTS.md leads out of the root" })

  /** Provides instruction files without a disk. Each attempt to store them adds the tenant to `seeds`, and fails while `broken`. */
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

  it.effect("MemoryService.instructions returns an empty text if no InstructionFiles service is provided", () =>
    Effect.gen(function*() {
      assert.strictEqual(yield* (yield* service).instructions, "")
    }).pipe(run(ada)))

  it.effect("MemoryService.instructions publishes an event for each instruction file that is not loaded", () =>
    Effect.gen(function*() {
      const memory = yield* service
      const { events, result } = yield* heard(memory.instructions.pipe(MemoryService.as(ada)))
      assert.strictEqual(result, InstructionFiles.renderInstructionFiles([file]))
      assert.isTrue(events.every((event) => event._tag === "memory_degraded" && event.part === "instructions"))
      assert.lengthOf(events, 1)
    }).pipe(Effect.provide(counting({ broken: false, seeds: [] }))))

  it.effect("instruction files are stored once per tenant, even if many viewers begin a turn at once", () =>
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

  it.effect("a failed attempt to store instruction files is reported by an event and repeated at the next turn", () =>
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

  it.effect("a tenant whose instruction files cannot be stored makes no other tenant wait, stored before or not", () =>
    Effect.gen(function*() {
      const stored: Array<string> = []
      const hangs = Layer.succeed(InstructionFiles.InstructionFiles, {
        load: Effect.succeed({ files: [file], issues: [] }),
        render: Effect.succeed(""),
        seed: ({ tenant }) =>
          tenant === "acme" ? Effect.never : Effect.sync(() => {
            stored.push(tenant)
            return []
          })
      })
      yield* Effect.gen(function*() {
        const memory = yield* service
        yield* memory.turnStart.pipe(MemoryService.as(ada))
        const hanging = yield* Effect.fork(memory.turnStart.pipe(MemoryService.as(acme)))
        yield* Effect.yieldNow()
        const other = Viewer.make({ userId: "ada", tenant: "other" })
        for (const viewer of [ada, other]) {
          const turn = yield* Effect.fork(
            Effect.zip(memory.turnStart, memory.instructions).pipe(MemoryService.as(viewer))
          )
          yield* settled
          assert.isNotNull(turn.unsafePoll(), viewer.tenant)
        }
        assert.isNull(hanging.unsafePoll())
        yield* Fiber.interrupt(hanging)
      }).pipe(Effect.provide(MemoryService.layer().pipe(Layer.provide([hangs, MemoryStore.layerInMemory]))))
      assert.deepStrictEqual(stored, ["default", "other"])
    }))

  it.effect("a value that is not a Viewer stores and sees no instruction files; the calls succeed, and an event gives the reason", () =>
    Effect.gen(function*() {
      const state = { broken: false, seeds: [] }
      const others = [undefined, {}, { tenant: "default", userId: "ada", reach: "exact" }] as ReadonlyArray<
        Viewer.Viewer
      > // not viewers, in spite of the type
      yield* Effect.gen(function*() {
        const memory = yield* service
        for (const other of others) {
          for (const call of [memory.turnStart, memory.instructions]) {
            const { events, result } = yield* heard(MemoryService.as(other)(call))
            assert.isTrue(result === undefined || result === "")
            assert.deepStrictEqual(
              events.map((event) => event._tag === "memory_degraded" && [event.part, event.error.reason]),
              [["instructions", "invalid_scope"]]
            )
          }
        }
      }).pipe(Effect.provide(counting(state)))
      assert.deepStrictEqual(state.seeds, [])
    }))

  it.effect("instruction files are rendered but not stored as records if memory is disabled", () =>
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

  it.effect("two runs with the same seed generate the same ids, and runs with different seeds generate different ids", () =>
    Effect.gen(function*() {
      const tests = [story({ now: 0 }), story({ now: 0 }), story({ now: 0, seed: 1 }), story({ now: 0, seed: 1 })]
      const [a, b, c, d] = yield* Effect.all(tests)
      assert.deepStrictEqual(a, b)
      assert.deepStrictEqual(c, d)
      assert.notDeepEqual(a, c)
    }))

  it.effect("each build of MemoryService.layerTest starts with an empty store", () =>
    Effect.gen(function*() {
      const layer = MemoryService.layerTest({ now: 0 })
      const put = Effect.flatMap(service, (memory) => memory.put(draft("Tea"))).pipe(
        Effect.map(({ outcome, record }) => [outcome, record.id]),
        MemoryService.as(ada)
      )
      const first = yield* Effect.provide(put, layer)
      assert.strictEqual(first[0], "created")
      assert.deepStrictEqual(yield* Effect.provide(put, layer), first)
    }))

  it.effect("the clock of MemoryService.layerTest starts at the time `now`, and advances with Effect's TestClock", () =>
    Effect.gen(function*() {
      yield* TestClock.adjust("1 day")
      const records = yield* story({ now: "2026-01-01T00:00:00Z" })
      assert.deepStrictEqual(records.map(([, createdAt]) => createdAt), [1_767_225_600_000, 1_767_225_660_000])
      assert.strictEqual(yield* Clock.currentTimeMillis, 86_460_000)
    }))

  it.effect("MemoryService.layerTest also provides MemoryStore and MemoryEvents", () =>
    Effect.gen(function*() {
      const store = yield* MemoryStore.MemoryStore
      assert.strictEqual(store.name, "memory")
      yield* MemoryEvents.MemoryEvents
    }).pipe(Effect.provide(MemoryService.layerTest())))
})
