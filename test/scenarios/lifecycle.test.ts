/** The life of a memory in the steps of nexus-agents' guide: initialise, populate, use, persist, clean up. */
import { assert, it } from "@effect/vitest"
import { assertSome } from "@effect/vitest/utils"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as TestClock from "effect/TestClock"
import * as MemoryKind from "../../src/domain/MemoryKind.ts"
import * as Message from "../../src/domain/Message.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as Retention from "../../src/harness/Retention.ts"
import * as AdaptiveMemory from "../../src/kinds/AdaptiveMemory.ts"
import * as AgenticMemory from "../../src/kinds/AgenticMemory.ts"
import * as BeliefMemory from "../../src/kinds/BeliefMemory.ts"
import * as CoreMemory from "../../src/kinds/CoreMemory.ts"
import * as EpisodicMemory from "../../src/kinds/EpisodicMemory.ts"
import * as GraphMemory from "../../src/kinds/GraphMemory.ts"
import * as KeyValueMemory from "../../src/kinds/KeyValueMemory.ts"
import * as KnowledgeVault from "../../src/kinds/KnowledgeVault.ts"
import * as ProceduralMemory from "../../src/kinds/ProceduralMemory.ts"
import * as ResourceMemory from "../../src/kinds/ResourceMemory.ts"
import * as SemanticMemory from "../../src/kinds/SemanticMemory.ts"
import * as SessionMemory from "../../src/kinds/SessionMemory.ts"
import * as TaskMemory from "../../src/kinds/TaskMemory.ts"
import { MemoryStore } from "../../src/storage/MemoryStore.ts"
import { id } from "../../src/testing/Sample.ts"
import { files, opened, place } from "../vault/Place.ts"

const scope = { agentId: "pilot" }
const pilot = Viewer.make(scope)

/** The episodic kind with a small cap, so that clean-up has something to forget. */
const kinds = MemoryKind.layer({ ...MemoryKind.episodic, cap: 4 })

/** Step 1, initialise: builds every kind over one vault. */
const initialise = (root: string) =>
  Effect.gen(function*() {
    const { store } = yield* opened(root)
    const memory = yield* Effect.all({
      settings: KeyValueMemory.make("settings"),
      core: CoreMemory.make,
      tasks: TaskMemory.make,
      facts: SemanticMemory.make,
      procedures: ProceduralMemory.make,
      resources: ResourceMemory.make,
      knowledge: KnowledgeVault.make,
      beliefs: BeliefMemory.make,
      graph: GraphMemory.make,
      adaptive: AdaptiveMemory.make,
      sessions: SessionMemory.make,
      notes: AgenticMemory.make,
      episodes: Effect.map(
        Layer.build(EpisodicMemory.layer),
        (context) => Context.get(context, EpisodicMemory.EpisodicMemory)
      )
    }).pipe(Effect.provideService(MemoryStore, store))
    return { ...memory, store }
  })

it.scoped("all kinds of memory work together in one vault while it is created, used, reopened and cleaned up", () =>
  Effect.gen(function*() {
    const root = yield* place
    yield* TestClock.setTime(Date.UTC(2026, 0, 1))

    yield* Effect.scoped(Effect.gen(function*() {
      const memory = yield* initialise(root)

      // 2. Populate
      yield* memory.core.setIdentity(pilot, {
        name: "Pilot",
        role: "navigator",
        constraints: [],
        capabilities: ["maps"]
      })
      yield* memory.settings.batchWrite(pilot, [
        { key: "units", value: "metric" },
        { key: "token", value: "t-1", metadata: { expiresAt: Date.UTC(2026, 0, 2) } }
      ])
      yield* memory.facts.storeFact(pilot, {
        id: id("range"),
        scope,
        body: "",
        data: { subject: "the boat", predicate: "has a range of", object: "300 miles", domain: "boat" }
      })
      yield* memory.procedures.storeProcedure(pilot, {
        id: id("mooring"),
        scope,
        body: "",
        data: { name: "moor", steps: [{ action: "slow down" }], triggers: ["harbour"], successes: 0, executions: 0 }
      })
      yield* memory.resources.store(pilot, { scope, body: "", data: { type: "file", location: "charts/north.pdf" } })
      for (const name of ["Boat", "Harbour"]) {
        yield* memory.graph.addEntity(pilot, { id: id(name), scope, body: "", data: { name, type: "thing" } })
      }
      yield* memory.graph.relate(pilot, { from: id("Boat"), to: id("Harbour"), type: "lies_in", weight: 1 })

      for (const body of ["The Diesel Engine smokes when cold.", "The Diesel Engine smokes when cold, and stops."]) {
        yield* memory.notes.store(pilot, { scope, body })
      }

      // 3. Use
      const { block } = yield* memory.episodes.beforeTurn(pilot, Message.user("Where were we?"))
      assert.strictEqual(block, "")
      yield* memory.episodes.afterTurn(pilot, {
        episode: { scope, body: "Ada: We lie off the lighthouse.", importance: 0.9, data: {} },
        reflection: { scope, body: "She likes lighthouses.", data: { trigger: "interaction" } }
      })
      const [smoke] = yield* memory.adaptive.retrieve(pilot, { kinds: ["note"], text: "stops", limit: 1 })
      const suggested = yield* memory.notes.suggestLinks(pilot, smoke!.record.id)
      assert.lengthOf(yield* memory.notes.link(pilot, smoke!.record.id, suggested), 1)
      yield* Effect.scoped(Effect.gen(function*() {
        const session = yield* memory.sessions.start(pilot, "first-leg")
        yield* session.recordLearning("The tide turns at noon", { confidence: 0.9 })
        const [mooring] = yield* memory.procedures.findProcedures(pilot, "we reach the harbour")
        yield* memory.procedures.recordExecution(pilot, mooring!.record.id, true)
        for (let n = 0; n < 5; n++) {
          yield* TestClock.adjust("1 hour")
          const outcome = n === 0 ? "failure" : "success"
          yield* memory.tasks.recordEpisode(pilot, {
            scope,
            body: "",
            data: { task: { taskId: `${n}`, action: `leg ${n}`, outcome } }
          })
        }
      }))
      const { record } = yield* memory.beliefs.retain(pilot, {
        scope,
        body: "",
        data: { subject: "the north channel", predicate: "is", object: "open", sourceType: "observation" }
      })
      yield* memory.beliefs.supersede(pilot, record.id, {
        scope,
        body: "",
        data: { subject: "the north channel", predicate: "is", object: "closed", sourceType: "external" }
      }, { reason: "the harbour master says so" })
      yield* memory.knowledge.store(pilot, {
        id: id("route"),
        scope,
        body: "Go south about.",
        data: { title: "Route", category: "decision" }
      })
      const [first] = yield* memory.adaptive.retrieve(pilot, {
        text: "north channel",
        weights: { recency: 0, importance: 0 }
      })
      assert.strictEqual(first?.record.summary, "the north channel is closed")
    }))

    // 4. Persist: the vault was closed, and is opened again
    const memory = yield* initialise(root)
    assertSome(yield* memory.settings.get(pilot, "units"), "metric")
    assert.strictEqual(Option.getOrThrow(yield* memory.core.getIdentity(pilot)).data.name, "Pilot")
    assert.lengthOf(yield* memory.sessions.search(pilot, "tide"), 1)
    assert.lengthOf(yield* memory.tasks.queryEpisodes(pilot, {}), 5)
    const { block } = yield* memory.episodes.beforeTurn(pilot, Message.user("Where were we?"))
    assert.include(block, "We lie off the lighthouse.")
    assert.include(block, "She likes lighthouses.")
    assert.deepStrictEqual((yield* memory.graph.traverse(pilot, id("Boat"))).map(({ data }) => data.name), ["Harbour"])
    const [closed] = yield* memory.beliefs.query(pilot, { subject: "the north channel" })
    assert.strictEqual(closed?.data.object, "closed")

    // 5. Clean up: a fact is invalidated and an entry archived, records beyond a cap are forgotten, and records that
    // expired or were forgotten long ago are erased
    yield* TestClock.adjust("1 day")
    yield* memory.facts.invalidateFact(pilot, id("range"))
    yield* memory.knowledge.archive(pilot, id("route"))
    const enforce = (dryRun: boolean) =>
      Effect.provideService(Retention.enforce(Viewer.system(), { dryRun }), MemoryStore, memory.store)
    const would = yield* enforce(true)
    assert.deepStrictEqual((yield* enforce(false)).map(({ id }) => id), would.map(({ id }) => id))
    assert.deepStrictEqual(would.map(({ summary }) => summary), ["leg 1", "leg 2"])
    const trash = Effect.map(
      memory.store.list(Viewer.system(), { forgotten: true }),
      ({ items }) => items.map(({ summary }) => summary).sort()
    )
    assert.deepStrictEqual(yield* trash, ["leg 1", "leg 2"])
    yield* TestClock.adjust("30 days")
    yield* memory.store.compact
    assert.deepStrictEqual(yield* trash, [])
    assert.isFalse(Object.values(files(root)).some((text) => /key: token|leg [12]/.test(text)))
    assert.deepStrictEqual(yield* memory.settings.keys(pilot), ["units"])
    assert.deepStrictEqual(yield* memory.facts.queryBySubject(pilot, "the boat"), [])
    assert.lengthOf(yield* memory.tasks.getRecentFailures(pilot), 1)
    assert.lengthOf(yield* memory.knowledge.findByCategory(pilot, "archive"), 1)
  }).pipe(Effect.provide(kinds)))
