/** Calls with values that do not have the declared type, as a program without types may pass them. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { MemoryError } from "../../src/domain/MemoryError.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as CoreMemory from "../../src/kinds/CoreMemory.ts"
import * as EpisodicMemory from "../../src/kinds/EpisodicMemory.ts"
import * as GraphMemory from "../../src/kinds/GraphMemory.ts"
import * as KeyValueMemory from "../../src/kinds/KeyValueMemory.ts"
import * as KnowledgeVault from "../../src/kinds/KnowledgeVault.ts"
import * as ProceduralMemory from "../../src/kinds/ProceduralMemory.ts"
import * as SessionMemory from "../../src/kinds/SessionMemory.ts"
import * as TaskMemory from "../../src/kinds/TaskMemory.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import { ada, system } from "../../src/testing/Sample.ts"
import { reason } from "./EveryStore.ts"

const kinds = Layer.mergeAll(
  CoreMemory.layer,
  EpisodicMemory.layer,
  GraphMemory.layer,
  KeyValueMemory.layer("settings"),
  KnowledgeVault.layer,
  ProceduralMemory.layer,
  SessionMemory.layer,
  TaskMemory.layer
).pipe(Layer.provideMerge(MemoryStore.layerInMemory))

const services = Effect.all({
  core: CoreMemory.CoreMemory,
  episodes: EpisodicMemory.EpisodicMemory,
  graph: GraphMemory.GraphMemory,
  keys: KeyValueMemory.KeyValueMemory,
  vault: KnowledgeVault.KnowledgeVault,
  procedures: ProceduralMemory.ProceduralMemory,
  sessions: SessionMemory.SessionMemory,
  tasks: TaskMemory.TaskMemory,
  store: MemoryStore.MemoryStore
})

const identity = { name: "Pilot", role: "navigator", constraints: [], capabilities: [] }
/** Data that the Schema of every kind refuses. The last ones are an entity, an entry and so on with a name that is not a text. */
const refused = [undefined, null, 5, {}, { task: {} }, { name: 5 }, { title: [] }, { task: { action: 5 } }, {
  context: 5
}]

describe("a value that does not have the declared type", () => {
  it.effect("a draft whose data is absent or has no valid name fails with `invalid_draft`, and nothing is stored", () =>
    Effect.gen(function*() {
      const { core, episodes, graph, keys, procedures, store, tasks, vault } = yield* services
      for (const data of refused) {
        const draft = { scope: { userId: "ada" }, body: "", data } as never // not a draft of any of these kinds
        const calls: Readonly<Record<string, Effect.Effect<unknown, MemoryError>>> = {
          entity: graph.addEntity(ada, draft),
          procedure: procedures.storeProcedure(ada, draft),
          entry: vault.store(ada, draft),
          task: tasks.recordEpisode(ada, draft),
          identity: core.setIdentity(ada, data as never) // not an identity
        }
        for (const [name, call] of Object.entries(calls)) assert.strictEqual(yield* reason(call), "invalid_draft", name)
      }
      const bodiless = { scope: { userId: "ada" }, data: {} } as never // not a draft
      const unnamed = { scope: { userId: "ada" }, body: "swam" } as never // not a draft
      for (const episode of [bodiless, unnamed]) {
        assert.strictEqual(yield* reason(episodes.saveEpisode(ada, episode)), "invalid_draft")
      }
      for (const key of [undefined, null, 5] as unknown as ReadonlyArray<string>) { // not keys
        assert.strictEqual(yield* reason(keys.set(ada, key, 1)), "invalid_draft")
        assert.strictEqual(
          yield* reason(keys.batchWrite(ada, [{ key: "fine", value: 1 }, { key, value: 1 }])),
          "invalid_draft"
        )
      }
      assert.isEmpty((yield* store.list(system, {})).items)
      yield* core.setIdentity(ada, identity)
      assert.strictEqual(yield* reason(core.setIdentity(ada, undefined as never)), "invalid_draft") // not an identity
    }).pipe(Effect.provide(kinds)))

  it.scoped("a value that is not a Viewer fails with `invalid_scope` in KeyValueMemory, CoreMemory and SessionMemory", () =>
    Effect.gen(function*() {
      const { core, keys, sessions } = yield* services
      const others = [undefined, null, "ada", {}, { userId: "ada" }] as ReadonlyArray<unknown> as ReadonlyArray<
        Viewer.Viewer // not viewers, in spite of the type
      >
      for (const other of others) {
        const calls: ReadonlyArray<Effect.Effect<unknown, MemoryError, unknown>> = [
          keys.set(other, "theme", 1),
          keys.get(other, "theme"),
          keys.has(other, "theme"),
          keys.delete(other, "theme"),
          keys.clear(other),
          keys.keys(other),
          keys.entries(other),
          keys.size(other),
          keys.batchWrite(other, []),
          keys.search(other, "theme"),
          keys.prune(other, 1),
          core.getIdentity(other),
          core.setIdentity(other, identity),
          core.getConstraints(other),
          core.updateConstraints(other, []),
          sessions.start(other, "monday"),
          sessions.search(other, "theme"),
          sessions.getRecentErrorSolutions(other),
          sessions.getRecentSummaries(other)
        ]
        for (const call of calls) {
          const error = yield* Effect.flip(call as Effect.Effect<unknown, MemoryError>) // `start` gets the test's scope
          assert.strictEqual(error.reason, "invalid_scope")
        }
      }
    }).pipe(Effect.provide(kinds)))
})
