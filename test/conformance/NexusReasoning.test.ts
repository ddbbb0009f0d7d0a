/** Tests that our kinds behave like the graph, sessions and beliefs of nexus-agents, through the signatures of nexus-agents. */
import { assert, describe } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as TestClock from "effect/TestClock"
import type * as Nexus from "../../src/compat/Nexus.ts"
import { type MemoryId, stableId } from "../../src/domain/MemoryId.ts"
import * as Laws from "./NexusLaws.ts"
import { awaited, rejection } from "./running.ts"

describe("nexus-agents' graph", () => {
  const law = Laws.graph
  const chain = async (
    memory: Nexus.IGraphMemory,
    length: number
  ) => {
    for (let n = 0; n <= length; n++) await memory.addEntity(`n${n}`)
    for (let n = 0; n < length; n++) {
      await memory.addRelationship({ source: `n${n}`, target: `n${n + 1}`, type: "next" })
    }
  }

  law(
    "`addRelationship` replaces a relationship of the same type between two entities, and fails for an unknown target",
    (memory) =>
      Effect.gen(function*() {
        yield* awaited(() => chain(memory, 1))
        yield* awaited(() => memory.addRelationship({ source: "n0", target: "n1", type: "next", weight: 0.5 }))
        const all = yield* awaited(() => memory.getRelationships("n1"))
        assert.deepStrictEqual(all.map(({ type, weight }) => [type, weight]), [["next", 0.5]])
        yield* Laws.refused("not_found", () => memory.addRelationship({ source: "n0", target: "none", type: "next" }))
        assert.isTrue(yield* awaited(() => memory.removeRelationship({ source: "n0", target: "n1", type: "next" })))
        assert.deepStrictEqual(yield* awaited(() => memory.getRelatedEntities("n0")), [])
      })
  )

  law(
    "`traverse` follows two hops by default, fails if more than five are asked for, and returns nothing for an unknown entity",
    (memory) =>
      Effect.gen(function*() {
        yield* awaited(() => chain(memory, 6))
        assert.deepStrictEqual(yield* awaited(() => memory.traverse("n0")), ["n1", "n2"])
        assert.lengthOf(yield* awaited(() => memory.traverse("n0", { maxDepth: 5 })), 5)
        yield* Laws.refused("invalid_draft", () => memory.traverse("n0", { maxDepth: 6 }))
        assert.deepStrictEqual(yield* awaited(() => memory.traverse("none")), [])
        assert.deepStrictEqual(yield* awaited(() => memory.getRelatedEntities("n1", "next")), ["n2", "n0"])
      })
  )

  law(
    "`findPath` finds a path of any length, also against the direction of relationships, and fails if `maxVisits` ends the search",
    (memory) =>
      Effect.gen(function*() {
        yield* awaited(() => chain(memory, 9))
        assert.lengthOf((yield* awaited(() => memory.findPath("n0", "n9")))!, 9)
        assert.lengthOf((yield* awaited(() => memory.findPath("n9", "n0")))!, 9)
        assert.isNull(yield* awaited(() => memory.findPath("n0", "none")))
        yield* Laws.refused("unsupported", () => memory.findPath("n0", "n9", { maxVisits: 8 }))
        assert.lengthOf((yield* awaited(() => memory.findPath("n0", "n9", { maxVisits: 9 })))!, 9)
      })
  )

  law(
    "`queryByPath` follows one relationship for each given type in turn, and only in the forward direction",
    (memory) =>
      awaited(async () => {
        await chain(memory, 2)
        assert.deepStrictEqual(await memory.queryByPath("n0", ["next", "next"]), ["n2"])
        assert.deepStrictEqual(await memory.queryByPath("n2", ["next"]), [])
      })
  )
})

describe("nexus-agents' session", () => {
  const law = Laws.session
  law(
    "`startSession` returns the most confident learnings of earlier sessions; `searchLearnings` can find a learning of the running session",
    (memory) =>
      awaited(async () => {
        assert.deepStrictEqual(await memory.startSession("s1"), [])
        await memory.recordLearning({ pattern: "Retry uploads", context: "flaky \"gateway\"", confidence: 0.9 })
        await memory.recordLearning({ pattern: "Doubtful", confidence: 0.4 })
        assert.deepStrictEqual(await memory.searchLearnings("gateway"), ["Retry uploads"])
        await memory.endSession("Uploads work.")
        const loaded = await memory.startSession("s2")
        assert.deepStrictEqual(loaded.map(({ confidence, pattern }) => [pattern, confidence]), [["Retry uploads", 0.9]])
      })
  )

  law(
    "`endSession` returns the summary and the duration; `recordLearning` fails before `startSession`",
    (memory) =>
      Effect.gen(function*() {
        assert.instanceOf(yield* rejection(() => memory.recordLearning({ pattern: "x", confidence: 1 })), Error)
        yield* awaited(() => memory.startSession("s1"))
        assert.instanceOf(yield* rejection(() => memory.startSession("s2")), Error)
        yield* Laws.refused("invalid_draft", () => memory.recordLearning({ pattern: "x", confidence: 2 }))
        yield* Laws.refused("invalid_draft", () => memory.recordLearning({ pattern: " ", confidence: 1 }))
        yield* TestClock.adjust("2 minutes")
        assert.deepStrictEqual(yield* awaited(() => memory.endSession("Done.")), {
          summary: "Done.",
          durationMs: 120_000
        })
        assert.instanceOf(yield* rejection(() => memory.endSession("again")), Error)
      })
  )

  law(
    "`searchLearnings` returns learnings that contain any word of the query, the best matches first",
    (memory) =>
      awaited(async () => {
        await memory.startSession("s1")
        await memory.recordLearning({ pattern: "Retry uploads", confidence: 1 })
        await memory.recordLearning({ pattern: "Retry", confidence: 1 })
        assert.deepStrictEqual(await memory.searchLearnings("retry uploads"), ["Retry uploads", "Retry"])
        assert.deepStrictEqual(await memory.searchLearnings("uploads at night"), ["Retry uploads"])
      })
  )

  law("the learnings of a session are kept, however many sessions follow", (memory) =>
    awaited(async () => {
      for (let n = 0; n < 60; n++) {
        await memory.startSession(`s${n}`)
        await memory.recordLearning({ pattern: n === 0 ? "Retry uploads" : `Learning ${n}`, confidence: 1 })
        await memory.endSession(`Done ${n}.`)
      }
      assert.deepStrictEqual(await memory.searchLearnings("uploads"), ["Retry uploads"])
    }))

  law(
    "`recordTask` returns a task's issue, challenges and duration; `recordError` returns an error's solution and file pattern",
    (memory) =>
      awaited(async () => {
        await memory.startSession("s1")
        const task = { issue: "#42", challenges: ["no downtime"], durationMs: 5_000 }
        assert.deepInclude(await memory.recordTask({ approach: "Split it", ...task }), task)
        const error = { solution: "raise the timeout", filePattern: "src/*.ts" }
        assert.deepInclude(await memory.recordError({ error: "ECONNRESET", ...error }), error)
        assert.deepStrictEqual(await memory.getRecentErrorSolutions(), ["raise the timeout"])
      })
  )
})

describe("nexus-agents' beliefs", () => {
  const law = Laws.beliefs
  const belief = (object: string, fields: Partial<Nexus.Belief> = {}): Nexus.Belief => ({
    ...{ subject: "Ada", predicate: "lives in", object, confidence: "medium", sourceType: "observation" },
    ...fields
  })
  const record = (corrected: ReadonlyArray<MemoryId>) => ({
    ...{
      taskId: "t",
      expected: "open",
      actual: "closed",
      matched: false,
      beliefs: corrected,
      corrected,
      lessons: ["Call first."]
    }
  })

  law(
    "`recallCurrent` returns only the latest belief; `recallHistory` also returns superseded beliefs",
    (memory) =>
      Effect.gen(function*() {
        const bern = yield* awaited(() => memory.retain(belief("Bern", { confidence: "high" })))
        assert.deepInclude(bern, { confidence: "high", version: 1, superseded: false })
        yield* TestClock.adjust(1)
        const basel = yield* awaited(() => memory.supersede(bern.beliefId, belief("Basel"), "she moved"))
        assert.strictEqual((yield* awaited(() => memory.recallCurrent("Ada", "lives in")))?.object, "Basel")
        const history = yield* awaited(() => memory.recallHistory("Ada", "lives in"))
        assert.deepStrictEqual(history.map(({ object, supersededBy }) => [object, supersededBy]), [
          ["Basel", undefined],
          ["Bern", basel.beliefId]
        ])
        yield* Laws.refused("read_only", () => memory.revise(bern.beliefId, "Zug", "no"))
        yield* Laws.refused("not_found", () => memory.revise(stableId("none"), "Zug", "no"))
      })
  )

  law(
    "repeated calls of `reinforce` raise a belief to the highest confidence, and repeated calls of `weaken` lower it to the lowest",
    (memory) =>
      awaited(async () => {
        const { beliefId } = await memory.retain(belief("Bern"))
        for (let n = 0; n < 60; n++) await memory.reinforce(beliefId, "again")
        assert.strictEqual((await memory.recall(beliefId))?.confidence, "high")
        assert.lengthOf(await memory.query({ minConfidence: 1 }), 1)
        for (let n = 0; n < 60; n++) await memory.weaken(beliefId, "no")
        assert.strictEqual((await memory.recall(beliefId))?.confidence, "speculative")
        assert.lengthOf(await memory.query({ minConfidence: 0.01 }), 0)
        assert.lengthOf(await memory.query({ minConfidence: 0 }), 1)
      })
  )

  law(
    "`reinforce` raises and `weaken` lowers the confidence of a belief; `getUpdateHistory` lists both changes with their reasons",
    (memory) =>
      awaited(async () => {
        const { beliefId } = await memory.retain(belief("Bern"))
        assert.strictEqual((await memory.reinforce(beliefId, "she said so")).confidence, "high")
        assert.strictEqual((await memory.weaken(beliefId, "she did not")).confidence, "low")
        assert.deepStrictEqual(
          (await memory.getUpdateHistory(beliefId)).map(({ action, reason }) => [action, reason]),
          [
            ["reinforce", "she said so"],
            ["weaken", "she did not"]
          ]
        )
      })
  )

  law(
    "`getUpdateHistory` returns the confidence after each change of a belief, and `getRevisions` returns the belief's revisions",
    (memory) =>
      awaited(async () => {
        const { beliefId } = await memory.retain(belief("Bern"))
        await memory.revise(beliefId, "Basel", "she moved")
        await memory.reinforce(beliefId, "she said so")
        const audit = await memory.getUpdateHistory(beliefId)
        assert.deepStrictEqual(audit.map(({ confidence, revision }) => [revision, confidence]), [[2, 0.6], [3, 0.8]])
        const before = await memory.getRevisions(beliefId)
        assert.deepStrictEqual(before.map(({ confidence, object, version }) => [version, object, confidence]), [
          [3, "Basel", "high"],
          [2, "Basel", "medium"],
          [1, "Bern", "medium"]
        ])
      })
  )

  law(
    "`query` returns beliefs of at least `minConfidence`, the most confident first, or the least confident first with `order: asc`",
    (memory) =>
      awaited(async () => {
        await memory.retain(belief("Bern", { confidence: "low" }))
        await memory.retain(belief("Basel", { confidence: "high" }))
        assert.deepStrictEqual((await memory.query({})).map(({ object }) => object), ["Basel", "Bern"])
        assert.lengthOf(await memory.query({ minConfidence: 0.6 }), 1)
        assert.strictEqual((await memory.query({ order: "asc", limit: 1 }))[0]?.object, "Bern")
      })
  )

  law(
    "`applyHindsight` lowers the confidence of corrected beliefs and stores the hindsight record, or changes nothing if one belief is missing",
    (memory) =>
      Effect.gen(function*() {
        const { beliefId } = yield* awaited(() => memory.retain(belief("Bern")))
        yield* Laws.refused("not_found", () => memory.applyHindsight(record([beliefId, stableId("none")])))
        assert.deepStrictEqual(yield* awaited(() => memory.getHindsightRecords("t")), [])
        const [corrected] = yield* awaited(() => memory.applyHindsight(record([beliefId])))
        assert.deepInclude(corrected, { confidence: "low", sourceType: "hindsight", version: 2 })
        assert.deepStrictEqual((yield* awaited(() => memory.getHindsightRecords("t"))).map(({ lessons }) => lessons), [[
          "Call first."
        ]])
      })
  )

  law(
    "`createCounterfactual` finds the beliefs that match a question, but predicts nothing; `validateCounterfactual` returns the given outcome",
    (memory) =>
      awaited(async () => {
        const { beliefId } = await memory.retain(belief("Bern"))
        const made = await memory.createCounterfactual("What if Ada lived elsewhere?", "t")
        assert.deepInclude(made, { beliefs: [beliefId], predicted: [] })
        assert.deepStrictEqual((await memory.validateCounterfactual(made.counterfactualId, ["a longer way"])).actual, [
          "a longer way"
        ])
      })
  )

  law(
    "`pruneSuperseded` deletes the beliefs that were superseded before the given time",
    (memory) =>
      Effect.gen(function*() {
        const { beliefId } = yield* awaited(() => memory.retain(belief("Bern")))
        yield* awaited(() => memory.supersede(beliefId, belief("Basel"), "she moved"))
        assert.deepInclude(yield* awaited(memory.getStats), { total: 2, active: 1, superseded: 1, updates: 1 })
        assert.strictEqual(yield* awaited(() => memory.pruneSuperseded(1_000_000)), 0)
        assert.strictEqual(yield* awaited(() => memory.pruneSuperseded(1_000_001)), 1)
        assert.isNull(yield* awaited(() => memory.recall(beliefId)))
      })
  )
})
