/**
 * Tests that our kinds behave like the memories of nexus-agents. The signatures are those of nexus-agents for the backend, episodes, facts
 * and priorities, and our own for procedures, identities, resources, the vault and notes.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as TestClock from "effect/TestClock"
import type * as Nexus from "../../src/compat/Nexus.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as AgenticMemory from "../../src/kinds/AgenticMemory.ts"
import * as CoreMemory from "../../src/kinds/CoreMemory.ts"
import * as KeyValueMemory from "../../src/kinds/KeyValueMemory.ts"
import * as KnowledgeVault from "../../src/kinds/KnowledgeVault.ts"
import * as ProceduralMemory from "../../src/kinds/ProceduralMemory.ts"
import * as ResourceMemory from "../../src/kinds/ResourceMemory.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import * as Laws from "./NexusLaws.ts"
import { awaited, running } from "./running.ts"

const { viewer } = Laws
const scope = { userId: "ada" }

describe("nexus-agents' backend", () => {
  const backend = Effect.gen(function*() {
    yield* TestClock.setTime(10_000)
    const memory = yield* KeyValueMemory.make("settings")
    return KeyValueMemory.toBackend(memory, viewer, yield* running())
  })
  type Backend = Effect.Effect.Success<typeof backend>
  const law = (title: string, check: (backend: Backend) => Promise<void>) =>
    it.effect(
      title,
      () =>
        Effect.flatMap(backend, (backend) => awaited(() => check(backend))).pipe(
          Effect.provide(MemoryStore.layerInMemory)
        )
    )

  law(
    "`get` returns each value as it was set, including nested values, long texts and texts in any script",
    async (memory) => {
      for (const value of [{ a: [1, { b: null }] }, "記憶 🧠 مرحبا", "x".repeat(100_000), 0, false, null]) {
        await memory.set("key", value)
        assert.deepStrictEqual(await memory.get("key"), value)
      }
      assert.strictEqual(await memory.size(), 1)
    }
  )

  law("an entry that has already expired is not stored, and an unknown key has no value", async (memory) => {
    await memory.set("late", "x", { expiresAt: 9_999 })
    await memory.set("soon", "x", { expiresAt: 99_999 })
    assert.isUndefined(await memory.get("late"))
    assert.isFalse(await memory.has("none"))
    assert.isTrue(await memory.has("soon"))
    assert.strictEqual(await memory.size(), 1)
  })

  law(
    "`keys` lists all keys, `delete` removes one entry, and `clear` removes all entries",
    async (memory) => {
      await memory.batchWrite([{ key: "a", value: 1 }, { key: "b", value: 2 }])
      const keys: Array<string> = []
      for await (const key of memory.keys()) keys.push(key)
      assert.sameMembers(keys, ["a", "b"])
      assert.isTrue(await memory.delete("a"))
      assert.isFalse(await memory.delete("a"))
      await memory.clear()
      assert.strictEqual(await memory.size(), 0)
    }
  )

  law(
    "`search` accepts any text, distinguishes similar version numbers, and finds nothing for a query without a word",
    async (memory) => {
      await memory.set("one", "release 8.104.8 of foo.ts")
      await memory.set("two", "release 8.104.9 of bar.ts")
      for (const text of ["a\"b", "-x", "col:val", "NOT", "NEAR(a b)", "(", "*", " ", ""]) await memory.search(text)
      assert.strictEqual((await memory.search("8.104.8"))[0]?.key, "one")
      assert.strictEqual((await memory.search("bar.ts"))[0]?.key, "two")
      assert.deepStrictEqual(await memory.search("()"), [])
    }
  )

  law(
    "`prune` deletes entries written before the given time, and keeps an entry written exactly at that time",
    async (memory) => {
      await memory.set("old", 1)
      assert.strictEqual(await memory.prune(10_000), 0)
      assert.strictEqual(await memory.prune(10_001), 1)
    }
  )

  law("an entry that is set with `importance: high` gets the importance 0.75", async (memory) => {
    await memory.set("theme dark", "x", { importance: "high" })
    assert.strictEqual((await memory.search("theme"))[0]?.metadata?.importance, 0.75)
  })
})

describe("nexus-agents' typed memories", () => {
  const { episodic, semantic } = Laws
  const episode = (n: number, fields: Partial<Nexus.Episode> = {}): Nexus.Episode => ({
    ...{ taskDescription: `task ${n}`, taskType: "build", outcome: "fine", success: true, timestamp: n },
    ...fields
  })

  episodic(
    "`queryEpisodes` finds task episodes by time (`since` and `until` inclusive), type and success, latest first",
    (memory) =>
      awaited(async () => {
        for (const n of [0, 1, 2, 3]) {
          await memory.recordEpisode(episode(n, { success: n !== 2, taskType: n === 3 ? "test" : "build" }))
        }
        const times = async (query: object) => (await memory.queryEpisodes(query)).map(({ timestamp }) => timestamp)
        assert.deepStrictEqual(await times({}), [3, 2, 1, 0])
        assert.deepStrictEqual(await times({ since: 0, until: 1 }), [1, 0])
        assert.deepStrictEqual(await times({ taskType: "test" }), [3])
        assert.deepStrictEqual(await times({ success: false }), [2])
        assert.deepStrictEqual(await times({ limit: 1 }), [3])
        assert.deepStrictEqual((await memory.getRecentFailures()).map(({ timestamp }) => timestamp), [2])
      })
  )

  episodic(
    "an episode keeps the time given to it, even 0; no query finds the episode before that time",
    (memory) =>
      Effect.gen(function*() {
        const future = 4_102_444_800_000
        yield* awaited(() => Promise.all([0, future].map((timestamp) => memory.recordEpisode(episode(timestamp)))))
        const times = Effect.map(
          awaited(() => memory.queryEpisodes({})),
          (all) => all.map(({ timestamp }) => timestamp)
        )
        assert.deepStrictEqual(yield* times, [0])
        yield* TestClock.setTime(future)
        assert.deepStrictEqual(yield* times, [future, 0])
      })
  )

  episodic(
    "`queryEpisodes` fails for a limit of 0; `getSimilarEpisodes` returns only episodes that share a word with the given task",
    (memory) =>
      Effect.gen(function*() {
        yield* Laws.refused("invalid_draft", () => memory.queryEpisodes({ limit: 0 }))
        yield* awaited(() => memory.recordEpisode(episode(1, { taskDescription: "deploy the engine" })))
        assert.lengthOf(yield* awaited(() => memory.getSimilarEpisodes("deploy it", 5)), 1)
        assert.deepStrictEqual(yield* awaited(() => memory.getSimilarEpisodes("a b", 5)), [])
      })
  )

  semantic(
    "`queryByDomain` and `queryBySubject` return all facts of a domain or subject; `searchFacts` finds a fact by a word",
    (memory) =>
      awaited(async () => {
        for (let n = 0; n < 120; n++) {
          await memory.storeFact({
            factId: `${n}`,
            domain: "people",
            subject: "Ada",
            predicate: "knows",
            object: `p${n}`,
            confidence: n % 2
          })
        }
        assert.lengthOf(await memory.queryByDomain("people"), 120)
        assert.lengthOf(await memory.queryBySubject("Ada"), 120)
        assert.strictEqual((await memory.searchFacts("p77"))[0]?.object, "p77")
      })
  )

  semantic(
    "an invalidated fact is found only by a query for a time before its invalidation",
    (memory) =>
      Effect.gen(function*() {
        const fact = {
          factId: "f",
          domain: "people",
          subject: "Ada",
          predicate: "lives in",
          object: "Bern",
          confidence: 1
        }
        yield* awaited(() => memory.storeFact(fact))
        yield* TestClock.adjust(1_000)
        yield* awaited(() => memory.invalidateFact("f"))
        assert.deepStrictEqual(yield* awaited(() => memory.queryBySubject("Ada")), [])
        assert.lengthOf(yield* awaited(() => memory.queryByDomain("people", 1_000_500)), 1)
        yield* Laws.refused("not_found", () => memory.invalidateFact("none"))
      })
  )

  it.effect("`findProcedures` returns the procedures with a trigger that the context contains, in descending order of success rate", () =>
    Effect.gen(function*() {
      const memory = yield* ProceduralMemory.ProceduralMemory
      const store = (name: string, successes: number) =>
        memory.storeProcedure(viewer, {
          scope,
          body: "",
          data: { name, steps: [{ action: "go" }], triggers: ["ship it"], successes, executions: 4 }
        })
      const { record } = yield* store("good", 3)
      yield* store("bad", 1)
      const found = Effect.map(
        memory.findProcedures(viewer, "Please SHIP IT now"),
        (all) => all.map(({ data }) => data.name)
      )
      assert.deepStrictEqual(yield* found, ["good", "bad"])
      assert.deepStrictEqual(yield* memory.findProcedures(viewer, "do nothing"), [])
      yield* Effect.all(Array.from({ length: 10 }, () => memory.recordExecution(viewer, record.id, false)), {
        concurrency: "unbounded"
      })
      assert.deepStrictEqual(yield* found, ["bad", "good"])
    }).pipe(Effect.provide(Layer.provide(ProceduralMemory.layer, MemoryStore.layerInMemory))))

  it.effect("`updateConstraints` changes the constraints of an identity, and fails if there is no identity", () =>
    Effect.gen(function*() {
      const memory = yield* CoreMemory.CoreMemory
      const mira = Viewer.make({ agentId: "mira" })
      assert.deepStrictEqual(yield* memory.getConstraints(mira), [])
      assert.strictEqual((yield* Effect.flip(memory.updateConstraints(mira, ["x"]))).reason, "not_found")
      yield* memory.setIdentity(
        mira,
        { role: "r", name: "Mira", constraints: ["never guess"], capabilities: [] },
        "You are Mira."
      )
      yield* memory.updateConstraints(mira, ["be brief"])
      assert.deepStrictEqual(yield* memory.getConstraints(mira), ["be brief"])
      assert.deepStrictEqual(yield* memory.getConstraints(Viewer.make({ agentId: "other" })), [])
    }).pipe(Effect.provide(Layer.provide(CoreMemory.layer, MemoryStore.layerInMemory))))

  it.effect("a resource is found by type or location; an archived vault entry is only in the category `archive`", () =>
    Effect.gen(function*() {
      const resources = yield* ResourceMemory.ResourceMemory
      const vault = yield* KnowledgeVault.KnowledgeVault
      yield* resources.store(viewer, { scope, body: "", data: { type: "url", location: "https://example.org/engine" } })
      assert.lengthOf(yield* resources.findByType(viewer, "url"), 1)
      assert.lengthOf(yield* resources.findByLocation(viewer, "org/eng"), 1)
      const { record } = yield* vault.store(viewer, {
        scope,
        body: "One place.",
        data: { category: "decision", title: "Monorepo" }
      })
      yield* vault.archive(viewer, record.id)
      assert.deepStrictEqual(yield* vault.findByCategory(viewer, "decision"), [])
      assert.lengthOf(yield* vault.findByCategory(viewer, "archive"), 1)
    }).pipe(
      Effect.provide(
        Layer.merge(ResourceMemory.layer, KnowledgeVault.layer).pipe(Layer.provide(MemoryStore.layerInMemory))
      )
    ))
})

describe("nexus-agents' adaptive memory", () => {
  const law = Laws.adaptive
  law(
    "a memory's score is the weighted mean of recency, importance and relevance; `retrieve` leaves out scores below `minScore`",
    (memory, store) =>
      Effect.gen(function*() {
        yield* store.put(viewer, [
          { scope, kind: "reference", body: "tea and coffee", importance: 1 },
          { scope, kind: "reference", body: "tea", importance: 0.25 }
        ])
        const all = yield* awaited(() => memory.retrieve("tea coffee"))
        assert.deepStrictEqual(all.map(({ text }) => text), ["tea and coffee", "tea"])
        assert.deepStrictEqual(all.map(({ components }) => components.relevance), [1, 0.5])
        assert.closeTo(all[1]!.score, 0.4 * 1 + 0.3 * 0.25 + 0.3 * 0.5, 1e-9)
        for (const [minScore, found] of [[all[1]!.score, 2], [all[1]!.score + 0.001, 1]] as const) {
          assert.lengthOf(yield* awaited(() => memory.retrieve("tea coffee", { minScore })), found)
        }
        const weighed = yield* awaited(() =>
          memory.retrieve("tea coffee", { weights: { recency: 0, relevance: 0, importance: 7 } })
        )
        assert.deepStrictEqual(weighed.map(({ score }) => score), [1, 0.25])
        yield* TestClock.adjust("24 hours")
        assert.closeTo((yield* awaited(() => memory.retrieve("tea")))[0]!.components.recency, 0.5, 1e-9)
      })
  )
})

describe("nexus-agents' notes", () => {
  it.effect("`store` derives keywords and entities from a note's text and suggests links, but stores no link; `link` accepts the suggestion", () =>
    Effect.gen(function*() {
      const memory = yield* AgenticMemory.AgenticMemory
      const note = (body: string) => memory.store(viewer, { scope, body })
      const first = yield* note("The Payments Gateway retries failed webhooks with exponential backoff.")
      assert.include(first.data.keywords, "webhooks")
      assert.deepStrictEqual(first.data.entities, ["Payments Gateway"])
      const second = yield* note("The Payments Gateway retries failed webhooks with exponential backoff, then stops.")
      assert.deepStrictEqual(second.suggestions.map(({ to }) => to), [first.record.id])
      assert.deepStrictEqual(second.record.links, [])
      assert.lengthOf(yield* memory.link(viewer, second.record.id, second.suggestions), 1)
      const shared = yield* memory.findByShared(viewer, second.record.id, "entities")
      assert.deepStrictEqual(shared.map(({ record }) => record.id), [first.record.id])
    }).pipe(Effect.provide(Layer.provide(AgenticMemory.layer, MemoryStore.layerInMemory))))
})
