/**
 * Further laws of the compat modules, besides those in `test/conformance`: for example, for which viewer an adapter acts, and what it
 * copies.
 */
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as TestClock from "effect/TestClock"
import { Deuz, Drover, Molroo, Nexus, Strands } from "../../src/compat.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as MemoryService from "../../src/harness/MemoryService.ts"
import * as AgenticMemory from "../../src/kinds/AgenticMemory.ts"
import * as CoreMemory from "../../src/kinds/CoreMemory.ts"
import * as KnowledgeVault from "../../src/kinds/KnowledgeVault.ts"
import * as ProceduralMemory from "../../src/kinds/ProceduralMemory.ts"
import * as ResourceMemory from "../../src/kinds/ResourceMemory.ts"
import * as SemanticMemory from "../../src/kinds/SemanticMemory.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import { awaited, running } from "../conformance/running.ts"
import { place } from "../vault/Place.ts"

const tea = { kind: "user", summary: "Tea", body: "Drinks tea." } as const
const stored = <R>(check: Effect.Effect<void, unknown, R | MemoryStore.MemoryStore>) =>
  Effect.provide(check, MemoryStore.layerInMemory)

describe("compat: drover", () => {
  it.effect("an adapter returns only entries that its viewer sees, even if a call names another agent", () =>
    stored(Effect.gen(function*() {
      const store = yield* MemoryStore.MemoryStore
      const all = Drover.toAdapter(store)
      for (const agentId of ["pilot", "other"]) yield* all.put({ ...tea, scope: "agent", agentId })
      const pilot = Drover.toAdapter(store, Viewer.make({ agentId: "pilot" }))
      const agents = (found: ReadonlyArray<Drover.MemoryEntry>) => found.map(({ agentId }) => agentId)
      assert.deepStrictEqual(agents(yield* pilot.search({ query: "tea" })), ["pilot"])
      assert.deepStrictEqual(agents(yield* pilot.list({ agentId: "other" })), [])
      assert.deepStrictEqual(agents(yield* all.list({ agentId: "other" })), ["other"])
      const elsewhere = Drover.toAdapter(store, Viewer.everyone("elsewhere"))
      assert.deepStrictEqual(yield* elsewhere.list({ agentId: "pilot" }), [])
    })))

  it.effect("an adapter omits records of scopes that drover does not have, and refuses an invalid limit", () =>
    stored(Effect.gen(function*() {
      const store = yield* MemoryStore.MemoryStore
      const ada = Viewer.make({ userId: "ada", agentId: "pilot" })
      const [put] = yield* store.put(ada, [{ scope: { userId: "ada" }, kind: "user", body: "Drinks tea." }])
      const adapter = Drover.toAdapter(store, ada)
      assert.deepStrictEqual(yield* adapter.search({ query: "tea" }), [])
      assert.isNull(yield* adapter.get(put!.record.id))
      for (const limit of [0, 1_001]) {
        assert.strictEqual((yield* Effect.flip(adapter.list({ limit }))).reason, "invalid_draft")
        assert.strictEqual((yield* Effect.flip(adapter.search({ limit }))).reason, "invalid_draft")
      }
    })))

  it.effect("`list` finds the entries of a scope even behind 1,001 newer entries of another scope", () =>
    stored(Effect.gen(function*() {
      const store = yield* MemoryStore.MemoryStore
      const adapter = Drover.toAdapter(store)
      yield* adapter.put({ ...tea, scope: "global" })
      yield* TestClock.adjust("1 second")
      const newer = Array.from(
        { length: 1_001 },
        (_, n) => ({ scope: { agentId: "pilot" }, kind: "user", body: `Note ${n}` })
      )
      yield* store.put(Viewer.everyone(), newer)
      const found = yield* adapter.list({ agentId: "pilot", scopes: ["global"] })
      assert.deepStrictEqual(found.map(({ body }) => body), [tea.body])
      assert.deepStrictEqual((yield* adapter.search({ agentId: "pilot", limit: 2 })).map(({ score }) => score), [0, 0])
    })))

  it.scoped("`copyAdapter` copies another adapter's entries with their ids; `createdAt`, rounded down to whole milliseconds, becomes `validAt`", () =>
    stored(Effect.gen(function*() {
      const store = yield* MemoryStore.MemoryStore
      yield* TestClock.setTime(10)
      const theirs = yield* Drover.createInMemoryMemory()
      const { id } = yield* theirs.put({ ...tea, scope: "agent", agentId: "pilot", tags: ["drinks"] })
      const list = () => Effect.map(theirs.get(id), (entry) => [{ ...entry!, createdAt: 5.5 }])
      assert.strictEqual(yield* Drover.copyAdapter({ list }, store, Viewer.everyone()), 1)
      assert.deepInclude(yield* Drover.toAdapter(store).get(id), { ...tea, agentId: "pilot", tags: ["drinks"] })
      const { hits } = yield* store.search(Viewer.everyone(), { text: "tea" })
      assert.deepStrictEqual(hits.map(({ record }) => record.validAt), [5])
    })))

  it.scoped("a memory opened by `createMarkdownMemory` has the entries that an earlier memory stored in the same folder", () =>
    Effect.gen(function*() {
      const root = yield* place
      const first = yield* Effect.scoped(
        Effect.flatMap(Drover.createMarkdownMemory({ root }), (memory) => memory.put({ ...tea, scope: "global" }))
      )
      const memory = yield* Drover.createMarkdownMemory({ root })
      assert.deepStrictEqual(yield* memory.get(first.id), first)
    }).pipe(Effect.provide(NodeContext.layer)))

  it.effect("the tools and the memory index use the memory of the agent whose id is passed to them", () =>
    Effect.gen(function*() {
      const ids = { agentId: "pilot", runId: "r1" }
      const remember = yield* Drover.rememberTool(ids)
      yield* remember.call({ ...tea, scope: "agent" })
      assert.include((yield* (yield* Drover.recallTool(ids)).call({ query: "tea" })).text, "Drinks tea.")
      assert.include(yield* Drover.renderMemoryIndex(ids), "Tea")
      assert.notInclude(yield* Drover.renderMemoryIndex({ agentId: "other" }), "Tea")
      assert.strictEqual((yield* Effect.flip(Drover.forgetTool(ids))).reason, "unsupported")
    }).pipe(Effect.provide(MemoryService.layerTest())))

  it("`byRecency`, `groupByScope` and `matches` sort, group and filter entries; `bm25` returns only documents with a word of the query", () => {
    const entry = (id: string, fields: Partial<Drover.MemoryEntry>): Drover.MemoryEntry => ({
      ...{ ...tea, id, scope: "agent", agentId: "pilot", createdAt: 1, tags: ["Ops"] },
      ...fields
    })
    const all = [entry("a", {}), entry("b", { updatedAt: 2 }), entry("c", { scope: "run", runId: "r1" })]
    assert.deepStrictEqual(all.toSorted(Drover.byRecency).map(({ id }) => id), ["b", "c", "a"])
    assert.deepStrictEqual(Drover.groupByScope(all).agent.map(({ id }) => id), ["a", "b"])
    const met = (opts: Drover.SearchOpts) => all.filter((entry) => Drover.matches(entry, opts)).map(({ id }) => id)
    assert.deepStrictEqual(met({}), [])
    assert.deepStrictEqual(met({ agentId: "pilot", tags: ["ops"] }), ["a", "b"])
    assert.deepStrictEqual(met({ agentId: "pilot", runId: "r1", kinds: ["user"] }), ["a", "b", "c"])
    assert.deepStrictEqual(met({ agentId: "pilot", kinds: ["project"] }), [])
    assert.deepStrictEqual(
      Drover.bm25("tea", [Drover.buildDoc("a", "Tea", ""), Drover.buildDoc("b", "Rain", "", ["x"])]).map(({ id }) =>
        id
      ),
      ["a"]
    )
  })
})

describe("compat: Deuz", () => {
  const scope = { userId: "ada" }
  it.effect("`recall`, `update` and `get` find the records that `copyStore` copied from Deuz's store", () =>
    Effect.gen(function*() {
      const store = yield* MemoryStore.MemoryStore
      const run = yield* running()
      const records = ["a", "b"].map((id) => ({ id, text: `tea ${id}`, kind: "semantic", scope }))
      assert.strictEqual(yield* Deuz.copyStore({ list: () => Promise.resolve(records) }, scope, store), 2)
      const failing = { list: () => Promise.reject(new Error("down")) }
      assert.strictEqual((yield* Effect.flip(Deuz.copyStore(failing, scope, store))).reason, "io")
      const asked: Array<string> = []
      const embedder = Deuz.createEmbedder({
        model: "m",
        dimensions: 2,
        embed: (texts, action) => {
          asked.push(action)
          return Promise.resolve({ vectors: texts.map(() => [1, 0]) })
        }
      })
      const { hits } = yield* awaited(() =>
        Deuz.recall({ scope, text: "tea", kind: "semantic" }, { store, run, embedder })
      )
      assert.deepStrictEqual([hits.length, asked], [2, ["search"]])
      const filtered = Deuz.recall({ scope, text: "tea", kind: "episodic" }, { store, run })
      assert.lengthOf((yield* awaited(() => filtered)).hits, 0)
      const tools = yield* Deuz.createMemoryTools(scope)
      assert.lengthOf(tools, 5)
      const deuz = Deuz.toStore(store, run)
      yield* awaited(() => deuz.update("a", { importance: 1 }, scope))
      assert.deepInclude(yield* awaited(() => deuz.get("a", scope)), { text: "tea a", importance: 1 })
      assert.isTrue(Deuz.matchesScope({ scope: { ...scope, chatId: "c" } }, scope))
      assert.isFalse(Deuz.matchesScope({ scope }, { chatId: "c" }))
      assert.throws(() => Deuz.assertScope({}))
    }).pipe(Effect.provide(Layer.provideMerge(MemoryService.layer(), MemoryStore.layerInMemory))))
})

describe("compat: Strands", () => {
  it.scoped("a manager finds the entry that it added, and the manager of another viewer does not", () =>
    stored(Effect.gen(function*() {
      const run = yield* running()
      const store = Layer.succeed(MemoryStore.MemoryStore, yield* MemoryStore.MemoryStore)
      const open = (userId: string, config: Partial<Strands.MemoryStoreConfig> = {}) =>
        Strands.initAgent(
          {
            stores: [{ name: "notes", writable: true, layer: store, ...config }],
            completion: Strands.ModelExtractor({ model: () => Promise.resolve("[\"Ada lives in Porto\"]") })
          },
          Viewer.make({ userId, sessionId: "s" }),
          run
        )
      const [ada, bob] = [
        yield* open("ada", { extraction: { trigger: Strands.IntervalTrigger({ turns: 9 }) } }),
        yield* open("bob")
      ]
      yield* awaited(() => ada.add("Ada likes tea"))
      assert.lengthOf(yield* awaited(() => ada.search("tea")), 1)
      assert.lengthOf(yield* awaited(() => bob.search("tea")), 0)
    })))
})

describe("compat: molroo", () => {
  const mira = Viewer.make({ agentId: "mira", reach: "within" })
  it.scoped("`recallMemories` returns the episodes, and also the error, if the search for reflections fails", () =>
    Effect.gen(function*() {
      const run = yield* running()
      const adapter = yield* Molroo.InMemoryAdapter(mira, run)
      yield* awaited(() => adapter.saveEpisode({ id: "e", timestamp: 0, context: "the lake", importance: 1 }))
      const broken = { ...adapter, getReflections: () => Promise.reject(new Error("down")) }
      const found = yield* awaited(() => Molroo.recallMemories("lake", broken, mira, run, { semanticLimit: 0 }))
      assert.lengthOf(found.episodic, 1)
      assert.deepStrictEqual(found.failures.map(({ error }) => error.reason), ["io"])
    }))
})

describe("compat: nexus-agents", () => {
  const kinds = Layer.provideMerge(Nexus.layer, MemoryStore.layerInMemory)
  const viewers = ["ada", "bob"].map((userId) => Viewer.make({ userId, agentId: "mira" }))
  const law = <R>(title: string, check: Effect.Effect<void, unknown, R | Layer.Layer.Success<typeof kinds>>) =>
    it.effect(title, () => Effect.provide(check, kinds) as Effect.Effect<void, unknown>) // `kinds` provides every kind that `check` needs

  law(
    "a viewer's `invalidateFact` does not change another viewer's fact with the same `factId`",
    Effect.gen(function*() {
      const memory = yield* SemanticMemory.SemanticMemory
      const run = yield* running()
      const [ada, bob] = viewers.map((viewer) => Nexus.toSemanticMemory(memory, viewer, run))
      const fact = { factId: "f", domain: "home", subject: "home", predicate: "is", confidence: 1 }
      yield* awaited(() => ada!.storeFact({ ...fact, object: "Bern" }))
      yield* awaited(() => bob!.storeFact({ ...fact, object: "Zug" }))
      yield* awaited(() => bob!.invalidateFact("f"))
      assert.deepInclude((yield* awaited(() => ada!.queryByDomain("home")))[0], { object: "Bern", confidence: 1 })
      assert.deepStrictEqual(yield* awaited(() => bob!.queryByDomain("home")), [])
    })
  )

  law(
    "the adapters for nexus-agents store and find identities, procedures, resources, vault entries and notes",
    Effect.gen(function*() {
      const run = yield* running()
      const [viewer] = viewers
      const core = Nexus.toCoreMemory(yield* CoreMemory.CoreMemory, viewer!, run)
      const procedures = Nexus.toProceduralMemory(yield* ProceduralMemory.ProceduralMemory, viewer!, run)
      const resources = Nexus.toResourceMemory(yield* ResourceMemory.ResourceMemory, viewer!, run)
      const vault = Nexus.toKnowledgeVault(yield* KnowledgeVault.KnowledgeVault, viewer!, run)
      const notes = Nexus.toAgenticMemory(yield* AgenticMemory.AgenticMemory, viewer!, run)
      yield* awaited(async () => {
        assert.isNull(await core.getIdentity())
        const identity = {
          role: "r",
          name: "Mira",
          constraints: ["never guess"],
          capabilities: [],
          systemPrompt: "Hi."
        }
        await core.setIdentity(identity)
        assert.deepStrictEqual(await core.getIdentity(), identity)
        await core.updateConstraints([])
        assert.deepStrictEqual(await core.getConstraints(), [])

        const procedure = {
          name: "ship",
          description: "Ships.",
          steps: [{ action: "go" }],
          triggerConditions: ["ship it"]
        }
        await procedures.storeProcedure({ ...procedure, procedureId: "p" })
        await procedures.updateSuccessRate("p", true)
        const [found] = await procedures.findProcedures("please ship it")
        assert.deepInclude(found, { ...procedure, successRate: 1, executionCount: 1 })

        const resource = { type: "url", location: "https://example.org/engine" } as const
        await resources.store({ ...resource, resourceId: "r", name: "The engine" })
        await resources.updateLastAccessed("r")
        for (
          const found of [
            await resources.findByType("url"),
            await resources.findByLocation("org/eng"),
            await resources.search("engine")
          ]
        ) assert.deepStrictEqual(found, [resource])

        const entry = {
          category: "decision",
          title: "Monorepo",
          content: "One place.",
          importance: 1,
          tags: ["git"]
        } as const
        await vault.store({ ...entry, vaultId: "v" })
        assert.deepInclude((await vault.findByImportance(1))[0], entry)
        await vault.archive("v")
        assert.deepStrictEqual(await vault.findByCategory("decision"), [])
        assert.lengthOf(await vault.search("monorepo"), 1)

        const text = "The Payments Gateway retries failed webhooks with exponential backoff."
        const first = await notes.storeWithAttributes(text)
        assert.deepStrictEqual(first.entities, ["Payments Gateway"])
        const second = await notes.storeWithAttributes(`${text.slice(0, -1)}, then stops.`)
        assert.deepStrictEqual(second.linkSuggestions.map(({ to }) => to), [first.id])
        assert.lengthOf(await notes.linkRelatedMemories(second.id), 1)
        assert.deepStrictEqual((await notes.findBySharedAttributes(second.id, "entities")).map(({ id }) => id), [
          first.id
        ])
        assert.deepInclude(await notes.refreshAttributes(first.id), { id: first.id, text })
      })
    })
  )
})
