import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as TestClock from "effect/TestClock"
import type { MemoryError } from "../../src/domain/MemoryError.ts"
import { type MemoryId, stableId } from "../../src/domain/MemoryId.ts"
import * as Message from "../../src/domain/Message.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as EpisodicMemory from "../../src/kinds/EpisodicMemory.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"

interface SeedEpisode {
  id: string
  timestamp: number
  sourceEntity?: string
  context?: string
  type?: string
  emotionSnapshot: { V: number; A: number; D: number }
  importance: number
}

/**
 * molroo's own in-memory adapter: its recall ignores filters and returns episodes of any entity; it keeps reflections oldest first.
 */
class InMemoryAdapter {
  readonly episodes: Array<SeedEpisode> = []
  readonly reflections: Array<object> = []
  saveEpisode(episode: SeedEpisode): Promise<void> {
    this.episodes.push(episode)
    return Promise.resolve()
  }
  recall(_: { sourceEntity?: string; timeRange?: [number, number]; type?: string | string[] }): Promise<SeedEpisode[]> {
    return Promise.resolve(this.episodes)
  }
  saveReflection(reflection: object): Promise<void> {
    this.reflections.push(reflection)
    return Promise.resolve()
  }
  getReflections(): Promise<object[]> {
    return Promise.resolve(this.reflections)
  }
}

/** Also finds episodes by their own ids, in the order in which they were saved. */
class IndexedAdapter extends InMemoryAdapter {
  getByIds(ids: ReadonlyArray<string>): Promise<SeedEpisode[]> {
    return Promise.resolve(this.episodes.filter(({ id }) => ids.includes(id)))
  }
}

const scope = { agentId: "mira", actorId: "ada" }
const ada = Viewer.make(scope)
const bob = Viewer.make({ agentId: "mira", actorId: "bob" })
const mira = Viewer.make({ agentId: "mira", reach: "within" })
const feeling = { V: 0.2, A: 0.1, D: 0.5 }
const bodies = (all: ReadonlyArray<{ readonly record: { readonly body: string } }>) =>
  all.map(({ record }) => record.body)
const reason = <A>(self: Effect.Effect<A, MemoryError>) => Effect.map(Effect.flip(self), ({ reason }) => reason)

describe("EpisodicMemory.layerAdapter", () => {
  it.effect("the filters of a query apply even if the adapter ignores them", () => {
    const adapter = new InMemoryAdapter()
    return Effect.gen(function*() {
      yield* TestClock.adjust(1_000)
      const memory = yield* EpisodicMemory.EpisodicMemory
      yield* memory.afterTurn(ada, {
        episode: { scope, body: "swam", validAt: 5, importance: 0.9, data: { context: "the lake", emotion: feeling } },
        reflection: { scope, body: "fond", data: { trigger: "interaction" } }
      })
      yield* memory.beforeTurn(ada, Message.user("?"))
      const base = { emotionSnapshot: feeling, importance: 0.1 }
      adapter.episodes.push(
        { ...base, id: "b", timestamp: 900, sourceEntity: "bob", context: "bob's secret", type: "gift" },
        { ...base, id: "a", timestamp: 800, sourceEntity: "ada", context: "later", type: "gift" }
      )
      const before = adapter.episodes.map(({ id }) => id)
      const queries = [
        { timeRange: { from: 5, until: 6 } },
        { minImportance: 0.5 },
        { valenceRange: [0.2, 0.2] as const, type: "chat_message" },
        { context: "lake" }
      ]
      for (const query of queries) assert.deepStrictEqual(bodies(yield* memory.recall(ada, query)), ["swam"])
      const hers = yield* memory.beforeTurn(ada, Message.user("?"))
      assert.deepStrictEqual(bodies(hers.episodic), ["later", "swam"])
      assert.deepStrictEqual(bodies(hers.reflections), ["fond"])
      assert.deepStrictEqual(hers.failures, [], "what it never had has not failed")
      const his = yield* memory.beforeTurn(bob, Message.user("?"))
      assert.deepStrictEqual(bodies([...his.episodic, ...his.reflections]), ["bob's secret"])
      assert.deepStrictEqual(adapter.episodes.map(({ id }) => id), before)
      assert.strictEqual(yield* reason(memory.semanticRecall(ada, "x")), "unsupported")
      assert.strictEqual(yield* reason(memory.getByIds(ada, [])), "unsupported")
    }).pipe(Effect.provide(EpisodicMemory.layerAdapter(adapter)))
  })

  it.effect("`getByIds` returns the episodes with ids from `saveEpisode` and `recall`, in the order of the ids", () => {
    const adapter = new IndexedAdapter()
    const base = { timestamp: 1, emotionSnapshot: feeling, importance: 0.5 }
    adapter.episodes.push(
      { ...base, id: "ep-1", sourceEntity: "ada", context: "rowed" },
      { ...base, id: "ep-2", sourceEntity: "bob", context: "bob's secret" }
    )
    const idsOf = (all: ReadonlyArray<{ readonly record: { readonly id: MemoryId } }>) =>
      all.map(({ record }) => record.id)
    return Effect.gen(function*() {
      const memory = yield* EpisodicMemory.EpisodicMemory
      const saved = yield* memory.saveEpisode(ada, { scope, body: "swam", data: {} })
      const copied = yield* memory.saveEpisode(ada, { scope, body: "dived", data: {}, source: { reference: "ep-3" } })
      const ids = idsOf(yield* memory.recall(ada, {}))
      assert.lengthOf(ids, 3)
      assert.includeMembers(ids, idsOf([saved, copied]))
      for (const asked of [ids, ids.toReversed(), ids.slice(0, 1), idsOf([copied, saved])]) {
        const found = yield* memory.getByIds(ada, [...asked, stableId("nobody")])
        assert.deepStrictEqual(idsOf(found), asked)
      }
      assert.deepStrictEqual(bodies(yield* memory.getByIds(ada, idsOf([copied, saved]))), ["dived", "swam"])
      const his = idsOf(yield* memory.recall(bob, {}))
      assert.lengthOf(his, 1)
      assert.isEmpty(yield* memory.getByIds(ada, his))
      assert.isEmpty(yield* memory.getByIds(bob, ids))
    }).pipe(Effect.provide(EpisodicMemory.layerAdapter(adapter)))
  })

  it.effect("an episode without a type counts as a chat message", () => {
    const row = (id: string, type?: string) => ({
      ...{ id, timestamp: 1, sourceEntity: "ada", context: id, emotionSnapshot: feeling, importance: 0.5 },
      ...(type !== undefined && { type })
    })
    const rows = [row("untyped"), row("talk", "chat_message"), row("gift", "gift")]
    const ofTypes = ({ type }: { readonly type?: string | ReadonlyArray<string> | undefined } = {}) =>
      Promise.resolve(rows.filter((row) => type === undefined || [type].flat().includes("type" in row ? row.type : "")))
    return Effect.gen(function*() {
      const memory = yield* EpisodicMemory.EpisodicMemory
      const turn = (config: typeof EpisodicMemory.RecallConfig.Encoded) =>
        Effect.map(
          memory.beforeTurn(ada, Message.user("?"), config),
          ({ episodic, semantic }) => bodies([...episodic, ...semantic]).sort()
        )
      assert.deepStrictEqual(yield* turn({}), ["gift", "talk", "untyped"])
      assert.deepStrictEqual(yield* turn({ types: ["chat_message"] }), ["talk", "untyped"])
      assert.deepStrictEqual(yield* turn({ types: ["chat_message"], episodicLimit: 0 }), ["talk", "untyped"])
      assert.deepStrictEqual(yield* turn({ types: ["gift"] }), ["gift"])
    }).pipe(Effect.provide(EpisodicMemory.layerAdapter({
      saveEpisode: () => Promise.resolve(),
      recall: ofTypes,
      semanticRecall: (_, options) => ofTypes(options)
    })))
  })

  it.effect("an episode with a time that is negative, not finite or in the future is found, at the time of the adapter's answer", () =>
    Effect.gen(function*() {
      const clock = yield* TestClock.testClock()
      const answer = () =>
        Effect.runPromise(Effect.as(
          clock.adjust("5 seconds"), // the adapter takes its time to answer
          [-1, NaN, Infinity, -Infinity, 5_000, 1e15, 1.5].map((timestamp, i) => ({
            id: `e${i}`,
            timestamp,
            content: "x"
          }))
        ))
      const adapter = { saveEpisode: () => Promise.resolve(), recall: answer, semanticRecall: answer, getByIds: answer }
      const memory = yield* Effect.provide(EpisodicMemory.EpisodicMemory, EpisodicMemory.layerAdapter(adapter))
      const times = (all: ReadonlyArray<{ readonly record: { readonly validAt: number } }>) =>
        all.map(({ record }) => record.validAt)
      assert.deepStrictEqual(times(yield* memory.recall(ada, {})), [...Array.from({ length: 6 }, () => 5_000), 1])
      assert.deepStrictEqual(
        times(yield* memory.semanticRecall(ada, "x", { topK: 10 })),
        [10_000, 10_000, 10_000, 10_000, 5_000, 10_000, 1]
      )
    }))

  it.effect("`recall` fails with `io` if the adapter returns no list, and `beforeTurn` reports the failed searches", () =>
    Effect.gen(function*() {
      const memory = yield* EpisodicMemory.EpisodicMemory
      assert.strictEqual(yield* reason(memory.recall(ada, {})), "io")
      const { failures } = yield* memory.beforeTurn(ada, Message.user("?"))
      assert.deepStrictEqual(failures.map(({ leg }) => leg), ["conversation", "events"])
    }).pipe(Effect.provide(EpisodicMemory.layerAdapter({
      saveEpisode: () => Promise.resolve(),
      recall: () => Promise.resolve(undefined as unknown as []), // an untyped adapter may return undefined
      getReflections: () => Promise.resolve([])
    }))))

  it.effect("`beforeTurn` skips each search with a limit of 0, and fails if all other searches fail", () => {
    const asked: Array<string> = []
    const rejects = (name: string) => () => (asked.push(name), Promise.reject(new Error("down")))
    return Effect.gen(function*() {
      const memory = yield* EpisodicMemory.EpisodicMemory
      const turn = (limits: object) => memory.beforeTurn(ada, Message.user("?"), limits)
      assert.strictEqual(yield* reason(turn({ reflectionLimit: 0 })), "io")
      assert.notInclude(asked, "reflections")
      assert.strictEqual(yield* reason(turn({ episodicLimit: 0, semanticLimit: 0 })), "io")
      asked.length = 0
      const off = yield* turn({ episodicLimit: 0, semanticLimit: 0, reflectionLimit: 0 })
      assert.deepStrictEqual([off.failures, asked], [[], []])
    }).pipe(Effect.provide(EpisodicMemory.layerAdapter({
      saveEpisode: () => Promise.resolve(),
      recall: rejects("recall"),
      semanticRecall: rejects("semantic"),
      getReflections: rejects("reflections")
    })))
  })

  it.effect("`recall` fails if the adapter fails; `afterTurn` succeeds, and `beforeTurn` succeeds if at least one of the turn's searches does", () =>
    Effect.gen(function*() {
      const memory = yield* EpisodicMemory.EpisodicMemory
      assert.strictEqual(yield* reason(memory.recall(ada, {})), "io")
      const { failures, reflections } = yield* memory.beforeTurn(ada, Message.user("?"))
      assert.deepStrictEqual(failures.map(({ leg }) => leg), ["conversation", "events"])
      assert.deepStrictEqual(bodies(reflections), [])
      yield* memory.afterTurn(ada, { episode: { scope, body: "x", data: {} } })
      yield* memory.beforeTurn(ada, Message.user("?"))
      assert.deepStrictEqual((yield* memory.failures).map(({ reason }) => reason), ["io"])
    }).pipe(Effect.provide(EpisodicMemory.layerAdapter({
      saveEpisode: () => Promise.reject(new Error("down")),
      recall: () => Promise.reject(new Error("down")),
      getReflections: () => Promise.resolve([])
    }))))
})

describe("EpisodicMemory.toAdapter", () => {
  const adapted = Effect.gen(function*() {
    yield* TestClock.adjust(10_000)
    const runtime = yield* Effect.runtime<never>()
    return yield* EpisodicMemory.toAdapter(mira, (self) => Effect.runPromise(Effect.provide(self, runtime)))
  })
  const provided = Effect.provide(EpisodicMemory.layer.pipe(Layer.provide(MemoryStore.layerInMemory)))
  const episode = {
    id: "ep-1",
    timestamp: 5,
    sourceEntity: "ada",
    context: "the lake",
    content: "I swam across",
    type: "chat_message",
    appraisal: { goal_relevance: 2, urgency: 0.5 },
    emotionSnapshot: { V: 3, A: -1, D: 0.5 },
    intensity: 0.5,
    importance: 0.6
  }

  it.effect("an episode saved twice is stored once, and returned unchanged except for clamped numbers and a completed appraisal", () =>
    Effect.gen(function*() {
      const adapter = yield* adapted
      yield* Effect.promise(() => adapter.saveEpisode(episode))
      yield* Effect.promise(() => adapter.saveEpisode(episode))
      const all = yield* Effect.promise(() => adapter.recall({ sourceEntity: "ada", timeRange: [5, 5], limit: 0 }))
      assert.lengthOf(all, 1)
      const { appraisal, ...rest } = all[0] as typeof episode
      assert.deepStrictEqual(
        rest as object,
        (({ appraisal: _, ...rest }) => ({
          ...rest,
          emotionSnapshot: { V: 1, A: 0, D: 0.5 }
        }))(episode)
      )
      assert.deepInclude<object>(appraisal, { goal_relevance: 1, urgency: 0.5, expectedness: 0.5 })
      assert.deepStrictEqual(yield* Effect.promise(() => adapter.getByIds(["ep-1", "none"])), all)
      assert.deepStrictEqual(yield* Effect.promise(() => adapter.semanticRecall("lake")), all)
      assert.deepStrictEqual(yield* Effect.promise(() => adapter.recall({ sourceEntity: "bob" })), [])
      const found = (timeRange: readonly [number, number], limit?: number) =>
        Effect.promise(() => adapter.recall({ timeRange, ...(limit !== undefined && { limit }) }))
      for (const range of [[0, Infinity], [-Infinity, Infinity], [4.5, 5.5], [5, Number.MAX_SAFE_INTEGER]] as const) {
        assert.deepStrictEqual(yield* found(range, 5_000), all)
      }
      for (const range of [[5.5, 5.6], [-Infinity, 4.9], [Infinity, Infinity], [-2, -1]] as const) {
        assert.deepStrictEqual(yield* found(range), [])
      }
    }).pipe(provided))

  it.effect("two reflections with the same id but different texts are both stored", () =>
    Effect.gen(function*() {
      const adapter = yield* adapted
      const reflection = {
        id: "ref-7",
        timestamp: 7,
        sourceEntity: "mira",
        trigger: "interaction",
        emotionSnapshot: feeling
      }
      for (const content of ["a", "b"]) {
        yield* Effect.promise(() => adapter.saveReflection({ ...reflection, content }))
      }
      yield* Effect.promise(() => adapter.saveReflection({ ...reflection, id: "ref-9", timestamp: 9, content: "c" }))
      const all = yield* Effect.promise(() => adapter.getReflections("mira"))
      assert.strictEqual((all[0] as { content: string }).content, "c")
      assert.lengthOf(all, 3)
      assert.deepStrictEqual(yield* Effect.promise(() => adapter.getReflections("ada")), [])
    }).pipe(provided))

  it.effect("an adapter made by `toAdapter` refuses to save an invalid episode", () =>
    Effect.gen(function*() {
      const adapter = yield* adapted
      const error = yield* Effect.flip(Effect.tryPromise({ try: () => adapter.saveEpisode({}), catch: String }))
      assert.include(error, "timestamp")
    }).pipe(provided))
})
