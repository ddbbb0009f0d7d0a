import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as TestClock from "effect/TestClock"
import * as MemoryError from "../../src/domain/MemoryError.ts"
import type { MemoryId } from "../../src/domain/MemoryId.ts"
import * as Payload from "../../src/domain/Payload.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as BeliefMemory from "../../src/kinds/BeliefMemory.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import { ada, bob, get, id } from "../../src/testing/Sample.ts"
import { sampled } from "../contract/naughty.ts"
import { interleaved, onEveryStore, reason } from "./EveryStore.ts"

const because = { reason: "she said so" }
const belief = (
  object: string,
  fields: { readonly confidence?: number; readonly summary?: string; readonly domain?: string } = {}
) => {
  const { domain, ...rest } = fields
  const data = { subject: "Ada", predicate: "lives in", object, sourceType: "observation" as const, domain }
  return { scope: { userId: "ada" }, body: "", data, ...rest }
}
const retain = (memory: BeliefMemory.Service, object: string, fields?: Parameters<typeof belief>[1]) =>
  Effect.map(memory.retain(ada, belief(object, fields)), ({ record }) => record.id)
const query = (memory: BeliefMemory.Service, query: BeliefMemory.BeliefQuery = {}) =>
  Effect.map(memory.query(ada, query), (all) => all.map(({ data }) => data.object))
const recall = (memory: BeliefMemory.Service, id: Parameters<BeliefMemory.Service["recall"]>[1]) =>
  Effect.map(memory.recall(ada, id), Option.getOrThrow)

onEveryStore("BeliefMemory", BeliefMemory.BeliefMemory, BeliefMemory.layer, (law, name) => {
  law(
    "called by its parts; surest first, ties newest first, every clause honoured",
    (memory) =>
      Effect.gen(function*() {
        const { record } = yield* memory.retain(ada, belief("Bern"))
        assert.deepInclude(record, { summary: "Ada lives in Bern", confidence: 0.6, kind: "belief" })
        yield* TestClock.adjust(1)
        yield* retain(memory, "Oslo", { confidence: 0.6, domain: "home" })
        yield* retain(memory, "Rome", { confidence: 0.9 })
        yield* retain(memory, "Nice", { confidence: 0 })
        assert.deepStrictEqual(yield* query(memory), ["Rome", "Oslo", "Bern", "Nice"])
        assert.deepStrictEqual(yield* query(memory, { minConfidence: 0.6 }), ["Rome", "Oslo", "Bern"])
        assert.deepStrictEqual(yield* query(memory, { minConfidence: 1 }), [])
        assert.deepStrictEqual(yield* query(memory, { domain: "home" }), ["Oslo"])
        assert.deepStrictEqual(yield* query(memory, { subject: "ada" }), [])
        assert.lengthOf(yield* query(memory, { subject: "Ada", predicate: "lives in" }), 4)
        for (const minConfidence of [NaN, -1, 2]) {
          assert.strictEqual(yield* reason(memory.query(ada, { minConfidence })), "invalid_draft")
        }
        for (let n = 0; n < 30; n++) yield* retain(memory, `${n}`, { domain: "many" })
        assert.lengthOf(yield* query(memory, { domain: "many" }), 30)
      })
  )

  law(
    "a query orders by confidence or time, either way, and gives as many as it asks for",
    (memory) =>
      Effect.gen(function*() {
        const ids = []
        for (const [object, confidence] of [["Bern", 0.9], ["Oslo", 0.3], ["Rome", 0.6]] as const) {
          ids.push(yield* retain(memory, object, { confidence }))
          yield* TestClock.adjust(1)
        }
        yield* memory.revise(ada, ids[0]!, { domain: "home" }, because)
        assert.deepStrictEqual(yield* query(memory, { order: "asc" }), ["Oslo", "Rome", "Bern"])
        assert.deepStrictEqual(yield* query(memory, { orderBy: "createdAt" }), ["Rome", "Oslo", "Bern"])
        assert.deepStrictEqual(yield* query(memory, { orderBy: "createdAt", order: "asc", limit: 1 }), ["Bern"])
        assert.deepStrictEqual(yield* query(memory, { orderBy: "updatedAt" }), ["Bern", "Rome", "Oslo"])
        assert.deepStrictEqual(yield* query(memory, { limit: 2 }), ["Bern", "Rome"])
        for (const limit of [0, -1, 1.5, 1_001]) {
          assert.strictEqual(yield* reason(memory.query(ada, { limit })), "invalid_draft")
        }
      })
  )

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
    "hindsight weakens what it corrects, says so in its audit, and is kept with its lessons",
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
    "hindsight on a belief that is not held, or by no share, changes nothing and is not kept",
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
    "a hindsight that corrects a record of its own id, or lacks a part, is refused and keeps nothing",
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
          const applied = memory.applyHindsight(ada, draft as typeof whole) // a caller without types
          assert.strictEqual(yield* reason(applied), "invalid_draft")
        }
        const hypothesis = { ...whole, body: "What if?", data: undefined } as unknown as typeof whole // the same
        assert.strictEqual(yield* reason(memory.createCounterfactual(ada, hypothesis)), "invalid_draft")
        assert.strictEqual((yield* recall(memory, bern)).record.revision, 1)
        assert.deepStrictEqual(yield* memory.hindsights(ada), [])
      })
  )

  law(
    "a hindsight that is applied again with its id changes nothing, and overwrites no other record",
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
    "the audit of a belief that others see says nothing of a hindsight that they do not see but its id",
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
    "a counterfactual in a shared scope names no belief of a narrower one",
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
    "reflections of others are neither hindsights nor counterfactuals, whatever their trigger is",
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
    "a counterfactual names the beliefs that it would change, and says later what came of it",
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
    "statistics count what a viewer sees: by level, by source, what was superseded, and every change",
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
    "pruning forgets what was superseded before a time, and nothing that is held",
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
    "pruning leaves a belief that is held until a later time, or again since it was read, or that may not be written",
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

  law(
    "revised it is the same belief, said better: as sure, and by its new name unless it has one of its own",
    (memory) =>
      Effect.gen(function*() {
        const bern = yield* retain(memory, "Bern", { confidence: 0.9 })
        const { data, record } = yield* memory.revise(ada, bern, {
          object: "Basel",
          domain: "home",
          subject: undefined
        }, because)
        assert.deepInclude(data, { subject: "Ada", object: "Basel", domain: "home" })
        assert.deepInclude(record, { id: bern, summary: "Ada lives in Basel", confidence: 0.9, revision: 2 })
        const named = yield* retain(memory, "Oslo", { summary: "her home" })
        assert.strictEqual((yield* memory.revise(ada, named, { object: "Rome" }, because)).record.summary, "her home")
        assert.strictEqual(yield* reason(memory.revise(ada, named, { object: "" }, because)), "invalid_draft")
        assert.deepStrictEqual((yield* recall(memory, named)).data.object, "Rome")
      })
  )

  law(
    "superseded it is closed, kept and history; the other stands in its place and leads to it",
    (memory, store) =>
      Effect.gen(function*() {
        yield* TestClock.setTime(1_000)
        const bern = yield* retain(memory, "Bern")
        yield* TestClock.setTime(2_000)
        const { record } = yield* memory.supersede(ada, bern, belief("Basel"), because)
        assert.deepStrictEqual(record.links, [{ to: bern, type: "supersedes", weight: 1 }])
        assert.deepInclude(yield* get(store, ada, bern), { invalidAt: 2_000, supersededBy: record.id })
        assert.deepStrictEqual(yield* query(memory), ["Basel"])
        assert.sameMembers(yield* query(memory, { includeSuperseded: true }), ["Basel", "Bern"])
        assert.strictEqual((yield* recall(memory, bern)).data.object, "Bern")
        for (
          const change of [
            memory.supersede(ada, bern, belief("Rome"), because),
            memory.revise(ada, bern, { object: "Rome" }, because),
            memory.reinforce(ada, bern, 1, because),
            memory.weaken(ada, bern, 1, because)
          ]
        ) assert.strictEqual(yield* reason(change), "read_only")
        assert.strictEqual(
          yield* reason(memory.supersede(ada, record.id, { ...belief("x"), id: record.id }, because)),
          "invalid_draft"
        )
        const own = yield* memory.supersede(ada, record.id, { ...belief("Rome"), id: id("rome") }, because)
        assert.strictEqual(own.record.id, id("rome"))
      })
  )

  law(
    "two that supersede it at once leave one in its place, and the other is told",
    (alone, store) =>
      Effect.gen(function*() {
        const memory = yield* Effect.provideService(BeliefMemory.make, MemoryStore.MemoryStore, interleaved(store))
        const bern = yield* retain(alone, "Bern")
        const both = yield* Effect.all(
          [memory.supersede(ada, bern, belief("Basel"), because), memory.supersede(ada, bern, belief("Rome"), because)],
          { concurrency: 2, mode: "either" }
        )
        assert.lengthOf(both.filter(({ _tag }) => _tag === "Right"), 1)
        assert.lengthOf(yield* query(memory), 1)
        assert.lengthOf(yield* query(memory, { includeSuperseded: true }), 2)
      })
  )

  law(
    "interrupted at any moment one is superseded whole or not at all",
    (alone, store) =>
      Effect.gen(function*() {
        const memory = yield* Effect.provideService(BeliefMemory.make, MemoryStore.MemoryStore, interleaved(store))
        for (let turns = 0; turns < 40; turns += 4) {
          const bern = yield* retain(alone, `Bern ${turns}`)
          const changing = yield* Effect.fork(memory.supersede(ada, bern, belief(`Rome ${turns}`), because))
          yield* Effect.repeatN(Effect.yieldNow(), turns)
          yield* Fiber.interrupt(changing)
          const held = (yield* query(alone)).filter((object) => object.endsWith(` ${turns}`))
          assert.lengthOf(held, 1)
          assert.lengthOf(yield* alone.audit(ada, bern), held[0] === `Bern ${turns}` ? 0 : 1)
        }
      })
  )

  law(
    "refused whole: what replaces it must be a belief, else nothing is superseded",
    (memory) =>
      Effect.gen(function*() {
        const bern = yield* retain(memory, "Bern")
        assert.strictEqual(yield* reason(memory.supersede(ada, bern, belief(""), because)), "invalid_draft")
        const elsewhere = { ...belief("Rome"), scope: { userId: "bob" } }
        assert.strictEqual(yield* reason(memory.supersede(ada, bern, elsewhere, because)), "invalid_scope")
        assert.deepStrictEqual(yield* query(memory), ["Bern"])
        assert.deepStrictEqual(yield* memory.audit(ada, bern), [])
      })
  )

  law(
    "reinforced by a share of what is missing, weakened by a share of what is there; concurrent changes all count",
    (_, store) =>
      Effect.gen(function*() {
        const memory = yield* Effect.provideService(BeliefMemory.make, MemoryStore.MemoryStore, interleaved(store))
        const bern = yield* retain(memory, "Bern", { confidence: 0.5 })
        assert.closeTo((yield* memory.reinforce(ada, bern, 0.5, because)).record.confidence!, 0.75, 1e-9)
        assert.closeTo((yield* memory.weaken(ada, bern, 0.2, because)).record.confidence!, 0.6, 1e-9)
        assert.strictEqual((yield* memory.reinforce(ada, bern, 1, because)).record.confidence, 1)
        assert.strictEqual((yield* memory.weaken(ada, bern, 0, because)).record.confidence, 1)
        yield* Effect.forEach([1, 2, 3, 4, 5], () => memory.weaken(ada, bern, 0.5, because), {
          concurrency: "unbounded"
        })
        assert.strictEqual((yield* recall(memory, bern)).record.confidence, 1 / 32)
        assert.strictEqual((yield* memory.weaken(ada, bern, 1, because)).record.confidence, 0)
        for (const by of [-0.1, 1.1, NaN]) {
          assert.strictEqual(yield* reason(memory.reinforce(ada, bern, by, because)), "invalid_draft")
          assert.strictEqual(yield* reason(memory.weaken(ada, bern, by, because)), "invalid_draft")
        }
      })
  )

  law(
    "audit tells every change, when, why and on what evidence, however many the store keeps",
    (memory) =>
      Effect.gen(function*() {
        const proof = yield* retain(memory, "Oslo")
        const bern = yield* retain(memory, "Bern", { confidence: 0.5 })
        yield* TestClock.setTime(1_000)
        yield* memory.revise(ada, bern, { object: "Basel" }, { reason: "typo", evidence: [proof] })
        yield* memory.weaken(ada, bern, 0.5, { reason: "doubt" })
        for (let n = 0; n < 25; n++) yield* memory.reinforce(ada, bern, 0.1, { reason: `again ${n}` })
        yield* memory.supersede(ada, bern, belief("Rome"), { reason: "moved" })
        const audit = yield* memory.audit(ada, bern)
        assert.lengthOf(audit, 28)
        assert.deepStrictEqual(audit.slice(0, 2), [
          { action: "revise", at: 1_000, revision: 2, confidence: 0.5, reason: "typo", evidence: [proof] },
          { action: "weaken", at: 1_000, revision: 3, confidence: 0.25, reason: "doubt" }
        ])
        assert.deepInclude(audit.at(-1), { action: "supersede", revision: 29, reason: "moved" })
        const forged = { ...belief("Nice"), data: { ...belief("Nice").data, audit } }
        assert.deepStrictEqual(yield* memory.audit(ada, (yield* memory.retain(ada, forged)).record.id), [])
        const { audit: kept } = (yield* memory.revise(ada, proof, { audit }, because)).data
        assert.deepStrictEqual(kept?.map(({ reason }) => reason), [because.reason])
        assert.strictEqual(yield* reason(memory.weaken(ada, proof, 0.5, { reason: " " })), "invalid_draft")
      })
  )

  law("history is what it said before, newest first", (memory, store) =>
    Effect.gen(function*() {
      const bern = yield* retain(memory, "Bern")
      yield* memory.revise(ada, bern, { object: "Basel" }, because)
      const objects = (yield* memory.history(ada, bern)).map(({ data }) => data.object)
      assert.deepStrictEqual(objects, store.capabilities.history ? ["Basel", "Bern"] : ["Basel"], name)
      assert.deepStrictEqual(yield* memory.history(ada, id("none")), [])
    }))

  law("another's is as good as absent", (memory) =>
    Effect.gen(function*() {
      const bern = yield* retain(memory, "Bern")
      assert.isTrue(Option.isNone(yield* memory.recall(bob, bern)))
      assert.deepStrictEqual(yield* memory.query(bob, { includeSuperseded: true }), [])
      assert.deepStrictEqual(yield* memory.history(bob, bern), [])
      for (
        const change of [
          memory.revise(bob, bern, {}, because),
          memory.weaken(bob, bern, 1, because),
          memory.supersede(bob, bern, { ...belief("Rome"), scope: { userId: "bob" } }, because),
          memory.audit(bob, bern),
          memory.audit(ada, id("none"))
        ]
      ) assert.strictEqual(yield* reason<unknown>(change), "not_found")
    }))

  law("naughty strings are parts and reasons like any other", (memory) =>
    Effect.gen(function*() {
      for (const text of sampled(30).filter((text) => text.trim() !== "" && text.length < 1_000)) {
        const { record } = yield* memory.retain(ada, belief(text))
        yield* memory.weaken(ada, record.id, 0.5, { reason: text })
        assert.strictEqual((yield* recall(memory, record.id)).data.object, text)
        assert.strictEqual((yield* memory.audit(ada, record.id))[0]?.reason, text)
      }
    }))
})

describe("MemoryError.retryOnConflict", () => {
  it.effect("fails with a conflict that lasts, and lets others run between two attempts", () =>
    Effect.gen(function*() {
      const detail = { expected: 1, actual: 2 }
      let attempts = 0
      const lasting = Effect.suspend(() => {
        attempts++
        return MemoryError.make("conflict", { op: "update", message: "another revision", detail })
      })
      assert.strictEqual(yield* reason(MemoryError.retryOnConflict(lasting)), "conflict")
      assert.strictEqual(attempts, 1_001)
      attempts = 0
      // interrupted by what runs after the timers of an event loop have had their turn
      yield* Effect.raceFirst(MemoryError.retryOnConflict(lasting), Effect.sleep(1)).pipe(
        Effect.withClock(Clock.make())
      )
      assert.isBelow(attempts, 1_000)
    }))
})

describe("BeliefMemory", () => {
  it.effect.prop(
    "confidence stays within 0..1, grows when reinforced and falls when weakened",
    [
      FastCheck.double({ min: 0, max: 1, noNaN: true }).map((n) => n + 0),
      FastCheck.array(
        FastCheck.tuple(FastCheck.boolean(), FastCheck.double({ min: 0, max: 1, noNaN: true }).map((n) => n + 0)),
        {
          maxLength: 10
        }
      )
    ],
    ([confidence, moves]) =>
      Effect.gen(function*() {
        const memory = yield* BeliefMemory.BeliefMemory
        const bern = yield* retain(memory, "Bern", { confidence })
        let before = confidence
        for (const [up, by] of moves) {
          const { record } = yield* (up ? memory.reinforce : memory.weaken)(ada, bern, by, because)
          const now = record.confidence!
          assert.isTrue(now >= 0 && now <= 1 && (up ? now >= before : now <= before))
          before = now
        }
      }).pipe(Effect.provide(Layer.provideMerge(BeliefMemory.layer, MemoryStore.layerInMemory))),
    { fastCheck: { numRuns: 100, seed: 4 } }
  )
})
