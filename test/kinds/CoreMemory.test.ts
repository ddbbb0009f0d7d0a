import { assert } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as CoreMemory from "../../src/kinds/CoreMemory.ts"
import { ada, bob, system } from "../../src/testing/Sample.ts"
import { sampled } from "../contract/naughty.ts"
import { onEveryStore, reason } from "./EveryStore.ts"

const identity = { name: "Pilot", role: "navigator", constraints: ["never guess"], capabilities: ["maps"] }
const pilot = (fields: object = {}) => Viewer.make({ agentId: "pilot", ...fields })
const get = (memory: CoreMemory.Service, viewer: Viewer.Any) =>
  Effect.map(memory.getIdentity(viewer), Option.getOrUndefined)

onEveryStore("CoreMemory", CoreMemory.CoreMemory, CoreMemory.layer, (law) => {
  law(
    "an agent without an identity has no constraints, and `updateConstraints` fails with `not_found`",
    (memory) =>
      Effect.gen(function*() {
        assert.isUndefined(yield* get(memory, pilot()))
        assert.deepStrictEqual(yield* memory.getConstraints(pilot()), [])
        assert.strictEqual(yield* reason(memory.updateConstraints(pilot(), ["x"])), "not_found")
      })
  )

  law(
    "`setIdentity` replaces the identity, and keeps the stored prompt if no new prompt is given",
    (memory, store) =>
      Effect.gen(function*() {
        const { record } = yield* memory.setIdentity(pilot(), identity, "You fly.")
        assert.deepInclude(record, { summary: "Pilot", importance: 1, body: "You fly.", kind: "core" })
        const next = { ...identity, name: "Captain", temperament: "cautious" as const }
        const { data, record: again } = yield* memory.setIdentity(pilot(), next)
        assert.deepStrictEqual(data, next)
        assert.deepInclude(again, { id: record.id, summary: "Captain", body: "You fly.", revision: 2 })
        assert.strictEqual((yield* memory.setIdentity(pilot(), next, "You sail.")).record.body, "You sail.")
        assert.lengthOf((yield* store.list(pilot(), {})).items, 1)
        yield* store.forget(pilot(), [record.id])
        assert.isUndefined(yield* get(memory, pilot()))
        assert.strictEqual((yield* memory.setIdentity(pilot(), identity)).record.body, "")
      })
  )

  law(
    "an agent has one identity after concurrent writes, and `updateConstraints` keeps the agent's role",
    (memory, store) =>
      Effect.gen(function*() {
        yield* Effect.all(
          [memory.setIdentity(pilot(), identity), memory.setIdentity(pilot(), { ...identity, name: "Captain" })],
          { concurrency: 2 }
        )
        assert.lengthOf((yield* store.list(pilot(), {})).items, 1)
        yield* Effect.all(
          [memory.updateConstraints(pilot(), ["a"]), memory.updateConstraints(pilot(), ["b"])],
          { concurrency: 2 }
        )
        const { constraints, role } = (yield* get(memory, pilot()))!.data
        assert.strictEqual(role, "navigator")
        assert.deepStrictEqual(yield* memory.getConstraints(pilot()), constraints)
        assert.include([["a"], ["b"]].map(String), String(constraints))
      })
  )

  law(
    "an agent's viewers that see the scope `{ agentId }` share one identity, and no other viewer gets it",
    (memory) =>
      Effect.gen(function*() {
        yield* memory.setIdentity(pilot({ userId: "ada", runId: "1" }), identity)
        assert.strictEqual((yield* get(memory, pilot({ userId: "bob" })))?.data.name, "Pilot")
        assert.isUndefined(yield* get(memory, Viewer.make({ agentId: "other" })))
        assert.isUndefined(yield* get(memory, pilot({ tenant: "elsewhere" })))
        assert.isUndefined(yield* get(memory, ada))
        yield* memory.setIdentity(ada, { ...identity, name: "Ada's" })
        assert.isUndefined(yield* get(memory, bob))
        assert.isUndefined(yield* get(memory, system))
        const within = pilot({ userId: "ada", reach: "within" })
        assert.isUndefined(yield* get(memory, within))
        yield* memory.setIdentity(within, { ...identity, name: "Ada's Pilot" })
        assert.strictEqual((yield* get(memory, pilot()))?.data.name, "Pilot")
      })
  )

  law(
    "sampled strings of the Big List of Naughty Strings are accepted as name, role, constraint, capability and prompt",
    (memory) =>
      Effect.gen(function*() {
        for (const text of sampled(20).filter((text) => text.length < 1_000)) {
          const data = { name: text, role: text, constraints: [text], capabilities: [text] }
          yield* memory.setIdentity(pilot(), data, text)
          const found = yield* get(memory, pilot())
          assert.deepStrictEqual([found?.data, found?.record.body], [data, text])
        }
      })
  )
})
