import { assert } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as TestClock from "effect/TestClock"
import * as MemoryError from "../../src/domain/MemoryError.ts"
import type { MemoryId } from "../../src/domain/MemoryId.ts"
import * as Payload from "../../src/domain/Payload.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as BeliefMemory from "../../src/kinds/BeliefMemory.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import { ada, bob, id } from "../../src/testing/Sample.ts"
import { because, belief, query, recall, retain } from "./Beliefs.ts"
import { onEveryStore, reason } from "./EveryStore.ts"

onEveryStore("BeliefMemory's hindsights and counterfactuals", BeliefMemory.BeliefMemory, BeliefMemory.layer, (law) => {
  const hindsight = (corrected: ReadonlyArray<MemoryId>, taskId = "42") => ({
    scope: { userId: "ada" },
    body: "",
    data: {
      taskId,
      expected: "she is at home",
      actual: "nobody opened",
      matched: false,
      beliefs: corrected,
      corrected,
      lessons: ["Call before you visit."]
    }
  })

  law(
    "`applyHindsight` weakens the corrected beliefs and stores the lessons",
    (memory, store) =>
      Effect.gen(function*() {
        yield* TestClock.setTime(1_000)
        const [bern, oslo] = [yield* retain(memory, "Bern", { confidence: 0.8 }), yield* retain(memory, "Oslo")]
        const { corrected, hindsight: kept } = yield* memory.applyHindsight(ada, hindsight([bern, bern]))
        assert.deepStrictEqual(corrected.map(({ record }) => [record.id, record.confidence]), [[bern, 0.4]])
        assert.strictEqual(corrected[0]!.data.sourceType, "hindsight")
        assert.deepStrictEqual(yield* memory.audit(ada, bern), [{
          action: "correct",
          at: 1_000,
          revision: 2,
          confidence: 0.4,
          reason: "hindsight",
          evidence: [kept.record.id]
        }])
        assert.strictEqual((yield* recall(memory, oslo)).record.revision, 1)
        yield* TestClock.adjust(1)
        yield* memory.applyHindsight(ada, hindsight([], "43"), 1)
        const tasks = (taskId?: string) =>
          Effect.map(memory.hindsights(ada, taskId), (all) => all.map(({ data }) => data.taskId))
        assert.deepStrictEqual(yield* tasks(), ["43", "42"])
        assert.deepStrictEqual(yield* tasks("42"), ["42"])
        assert.deepStrictEqual(yield* memory.hindsights(bob), [])
        const { hits } = yield* store.search(ada, { text: "visit", kinds: ["reflection"] })
        assert.include(hits.map(({ record }) => record.id), kept.record.id)
      })
  )

  law(
    "`applyHindsight` fails and changes nothing if a belief to correct is unknown or superseded",
    (memory) =>
      Effect.gen(function*() {
        const [bern, oslo] = [yield* retain(memory, "Bern"), yield* retain(memory, "Oslo")]
        yield* memory.supersede(ada, oslo, belief("Rome"), because)
        for (const [ids, expected] of [[[bern, id("none")], "not_found"], [[bern, oslo], "read_only"]] as const) {
          assert.strictEqual(yield* reason(memory.applyHindsight(ada, hindsight(ids))), expected)
        }
        assert.strictEqual(yield* reason(memory.applyHindsight(ada, hindsight([bern]), 2)), "invalid_draft")
        assert.strictEqual((yield* recall(memory, bern)).record.revision, 1)
        assert.deepStrictEqual(yield* memory.hindsights(ada), [])
      })
  )

  law(
    "`applyHindsight` refuses a hindsight that has the id of a belief or lacks a required field",
    (memory) =>
      Effect.gen(function*() {
        const bern = yield* retain(memory, "Bern")
        const whole = hindsight([bern])
        const { data } = whole
        const drafts: ReadonlyArray<unknown> = [
          { ...whole, id: bern },
          { ...whole, body: undefined },
          { ...whole, data: undefined },
          { ...whole, data: { ...data, lessons: undefined } },
          { ...whole, data: { ...data, corrected: ["x"] } }
        ]
        for (const draft of drafts) {
          const applied = memory.applyHindsight(ada, draft as typeof whole) // untyped callers may omit fields
          assert.strictEqual(yield* reason(applied), "invalid_draft")
        }
        const hypothesis = { ...whole, body: "What if?", data: undefined } as unknown as typeof whole // as above
        assert.strictEqual(yield* reason(memory.createCounterfactual(ada, hypothesis)), "invalid_draft")
        assert.strictEqual((yield* recall(memory, bern)).record.revision, 1)
        assert.deepStrictEqual(yield* memory.hindsights(ada), [])
      })
  )

  law(
    "a repeated call of `applyHindsight` with the same id and data changes nothing",
    (memory) =>
      Effect.gen(function*() {
        const [bern, oslo] = [yield* retain(memory, "Bern"), yield* retain(memory, "Oslo")]
        const draft = { ...hindsight([bern]), id: id("hindsight") }
        const first = yield* memory.applyHindsight(ada, draft)
        const again = yield* memory.applyHindsight(ada, draft)
        assert.deepStrictEqual(again, first)
        assert.lengthOf(yield* memory.audit(ada, bern), 1)
        for (const other of [{ ...hindsight([bern], "43"), id: id("hindsight") }, { ...hindsight([]), id: oslo }]) {
          assert.strictEqual(yield* reason(memory.applyHindsight(ada, other)), "invalid_draft")
        }
        assert.strictEqual((yield* recall(memory, oslo)).data.object, "Oslo")
      })
  )

  law(
    "the audit of a shared belief reveals no more than the id of another viewer's hindsight",
    (memory) =>
      Effect.gen(function*() {
        const [mine, yours] = [ada, bob].map(({ userId }) => Viewer.make({ userId: userId!, agentId: "bot" }))
        const shared = yield* memory.retain(mine!, { ...belief("Bern"), scope: { agentId: "bot" } })
        const { hindsight: kept } = yield* memory.applyHindsight(mine!, hindsight([shared.record.id]))
        assert.deepStrictEqual(yield* memory.hindsights(yours!), [])
        const audit = yield* memory.audit(yours!, shared.record.id)
        assert.deepStrictEqual(audit.map(({ evidence, reason }) => [reason, evidence]), [[
          "hindsight",
          [kept.record.id]
        ]])
      })
  )

  law(
    "`createCounterfactual` in the scope of an agent leaves out matching beliefs of a user's scope",
    (memory) =>
      Effect.gen(function*() {
        const mine = Viewer.make({ userId: "ada", agentId: "bot" })
        yield* retain(memory, "Bern")
        const shared = yield* memory.retain(mine, { ...belief("Bern"), scope: { agentId: "bot" } })
        const draft = { scope: { agentId: "bot" }, body: "What if Ada moved away from Bern?", data: {} }
        const { data } = yield* memory.createCounterfactual(mine, draft)
        assert.deepStrictEqual(data.beliefs, [shared.record.id])
      })
  )

  law(
    "`hindsights` and `counterfactuals` leave out reflections whose data lacks `beliefMemory` or another required field",
    (memory, store) =>
      Effect.gen(function*() {
        const scope = { userId: "ada" }
        const written = yield* store.put(ada, [
          { scope, kind: "reflection", body: "I learnt", data: { trigger: "hindsight" } },
          { scope, kind: "reflection", body: "I wonder", data: { trigger: "counterfactual", beliefs: 1 } },
          { scope, kind: "reflection", body: "I forge", data: { ...Payload.marks.hindsight, taskId: "42" } }
        ])
        assert.deepStrictEqual(yield* memory.hindsights(ada), [])
        assert.deepStrictEqual(yield* memory.counterfactuals(ada), [])
        const { hindsight: kept } = yield* memory.applyHindsight(ada, hindsight([]))
        assert.deepStrictEqual((yield* memory.hindsights(ada)).map(({ record }) => record.id), [kept.record.id])
        assert.deepInclude(yield* memory.statistics(ada), { hindsights: 2, counterfactuals: 0 })
        for (const { record } of written) {
          assert.strictEqual(yield* reason(memory.validateCounterfactual(ada, record.id, [])), "not_found")
        }
      })
  )

  law(
    "`createCounterfactual` finds the beliefs that match the counterfactual's body, unless the caller gives beliefs",
    (memory) =>
      Effect.gen(function*() {
        const bern = yield* retain(memory, "Bern")
        const draft = { scope: { userId: "ada" }, body: "What if Ada moved away from Bern?" }
        const made = yield* memory.createCounterfactual(ada, {
          ...draft,
          data: { taskId: "42", predicted: ["a longer way"] }
        })
        assert.deepStrictEqual(made.data, {
          trigger: "counterfactual",
          beliefMemory: "effect-memory/counterfactual",
          taskId: "42",
          beliefs: [bern],
          predicted: ["a longer way"]
        })
        yield* TestClock.adjust(1)
        const other = yield* memory.createCounterfactual(ada, { ...draft, data: { beliefs: [] } })
        assert.deepStrictEqual(other.data.beliefs, [])
        const { data } = yield* memory.validateCounterfactual(ada, made.record.id, ["a shorter one"])
        assert.deepStrictEqual(data, { ...made.data, actual: ["a shorter one"] })
        const found = (taskId?: string) =>
          Effect.map(memory.counterfactuals(ada, taskId), (all) => all.map(({ record }) => record.id).sort())
        assert.deepStrictEqual(yield* found(), [made.record.id, other.record.id].sort())
        assert.deepStrictEqual(yield* found("42"), [made.record.id])
        assert.strictEqual(
          yield* reason(memory.createCounterfactual(ada, { ...draft, body: " ", data: {} })),
          "invalid_draft"
        )
        const { hindsight: kept } = yield* memory.applyHindsight(ada, hindsight([]))
        for (const not of [bern, kept.record.id, id("none")]) {
          assert.strictEqual(yield* reason(memory.validateCounterfactual(ada, not, [])), "not_found")
        }
      })
  )

  law(
    "`statistics` counts the viewer's beliefs, belief updates, hindsights and counterfactuals",
    (memory) =>
      Effect.gen(function*() {
        yield* TestClock.setTime(1_000)
        const bern = yield* retain(memory, "Bern", { confidence: 0.9 })
        yield* TestClock.setTime(2_000)
        yield* retain(memory, "Oslo", { confidence: 0.1 })
        yield* memory.supersede(ada, bern, { ...belief("Rome"), confidence: 0.3 }, because)
        yield* memory.applyHindsight(ada, hindsight([]))
        yield* memory.createCounterfactual(ada, { scope: { userId: "ada" }, body: "what if", data: {} })
        assert.deepStrictEqual(yield* memory.statistics(ada), {
          total: 3,
          active: 2,
          superseded: 1,
          byConfidence: { high: 1, medium: 0, low: 1, speculative: 1 },
          bySource: { observation: 3, inference: 0, external: 0, user_input: 0, hindsight: 0, prior: 0 },
          updates: 1,
          hindsights: 1,
          counterfactuals: 1,
          oldest: 1_000,
          newest: 2_000
        })
        yield* memory.retain(ada, { ...belief("Nice"), validAt: 1, invalidAt: 2 })
        assert.deepInclude(yield* memory.statistics(ada), { total: 4, active: 2, superseded: 1 })
        assert.deepInclude(yield* memory.statistics(bob), { total: 0, hindsights: 0, oldest: undefined })
      })
  )

  law(
    "`pruneSuperseded` forgets only beliefs that were superseded before the given time",
    (memory) =>
      Effect.gen(function*() {
        const chain = [yield* retain(memory, "Bern")]
        for (const [n, object] of ["Oslo", "Rome", "Nice"].entries()) {
          yield* TestClock.setTime(1_000 * (n + 1))
          chain.push((yield* memory.supersede(ada, chain.at(-1)!, belief(object), because)).record.id)
        }
        assert.strictEqual(yield* memory.pruneSuperseded(bob, 10_000), 0)
        assert.strictEqual(yield* memory.pruneSuperseded(ada, 2_000), 1)
        assert.sameMembers(yield* query(memory, { includeSuperseded: true }), ["Oslo", "Rome", "Nice"])
        assert.strictEqual(yield* memory.pruneSuperseded(ada, 10_000), 2)
        assert.strictEqual(yield* memory.pruneSuperseded(ada, 10_000), 0)
        assert.deepStrictEqual(yield* query(memory, { includeSuperseded: true }), ["Nice"])
        assert.strictEqual(yield* reason(memory.pruneSuperseded(ada, -1)), "invalid_draft")
      })
  )

  law(
    "`pruneSuperseded` keeps a superseded belief that is still valid, that another writer restores meanwhile, or that cannot be forgotten",
    (alone, store) =>
      Effect.gen(function*() {
        const replaced = (object: string) =>
          Effect.tap(retain(alone, object), (id) => alone.supersede(ada, id, belief(object), because))
        const [again, closed, denied] = [yield* replaced("Bern"), yield* replaced("Oslo"), yield* replaced("Nice")]
        const until = yield* retain(alone, "Rome")
        yield* store.update(ada, until, { invalidAt: 5_000, supersededBy: closed })
        yield* TestClock.setTime(1_000)
        const racing = MemoryStore.MemoryStore.of({
          ...store,
          apply: (viewer, mutations, provenance) =>
            mutations.some((mutation) => mutation._tag === "Forget" && mutation.id === denied)
              ? MemoryError.make("not_owned", { op: "apply", message: "a rule closes it" })
              : Effect.zipRight(
                store.update(ada, again, { invalidAt: null, supersededBy: null }),
                store.apply(viewer, mutations, provenance)
              )
        })
        const memory = yield* Effect.provideService(BeliefMemory.make, MemoryStore.MemoryStore, racing)
        assert.strictEqual(yield* memory.pruneSuperseded(ada, 10_000), 1)
        for (const id of [again, until, denied]) assert.isTrue(Option.isSome(yield* alone.recall(ada, id)))
        assert.isTrue(Option.isNone(yield* alone.recall(ada, closed)))
      })
  )
})
