/** A counterfactual says what might have been: every prompt and tool that shows one labels it as such. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as MemoryTools from "../../src/agent/MemoryTools.ts"
import * as Message from "../../src/domain/Message.ts"
import * as MemoryService from "../../src/harness/MemoryService.ts"
import * as BeliefMemory from "../../src/kinds/BeliefMemory.ts"
import * as EpisodicMemory from "../../src/kinds/EpisodicMemory.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import { ada } from "../harness/Service.ts"

const Memory = Layer.mergeAll(MemoryService.layer(), BeliefMemory.layer, EpisodicMemory.layer).pipe(
  Layer.provideMerge(MemoryStore.layerInMemory)
)
const label = "counterfactual: what might have been, not what was"

describe("a counterfactual, a record of what might have been,", () => {
  it.effect("a counterfactual is marked as one in the context of a turn and in the results of `recall`, `memory_search` and `memory_view`", () =>
    Effect.gen(function*() {
      const memory = yield* MemoryService.MemoryService
      const beliefs = yield* BeliefMemory.BeliefMemory
      const scope = { userId: "ada" }
      const { record } = yield* beliefs.createCounterfactual(ada, {
        scope,
        body: "Ada lives in Oslo.",
        data: { predicted: ["a longer way"], beliefs: [] }
      })
      yield* memory.put({ scope, kind: "user", body: "Ada lives in Bern." })
      const { text: context } = yield* memory.context([Message.user("Where does Ada live?")])
      const { text: index } = yield* memory.index
      const [, recall] = yield* MemoryTools.make(ada)
      const { text: recalled } = yield* recall!.call({ query: "Ada lives" })
      for (const text of [context, index, recalled]) {
        assert.include(text, "Bern")
        assert.strictEqual(text.split(label).length - 1, text.includes("Oslo") ? 1 : 0)
      }
      assert.include(context, `<entry id="${record.id}" kind="${label}"`)
      assert.include(recalled, `[user · ${label}] Ada lives in Oslo.`)
      const records = yield* MemoryTools.makeRecords(ada)
      for (const [name, input] of [["memory_search", { query: "Ada lives" }], ["memory_view", {}]] as const) {
        const { data } = yield* records.find((tool) => tool.name === name)!.call(input)
        const all = data as ReadonlyArray<{ readonly text: string; readonly counterfactual?: true }>
        const marks = all.map(({ counterfactual, text }) => [text.includes("Oslo"), counterfactual === true])
        assert.sameDeepMembers(marks, [[true, true], [false, false]])
      }
    }).pipe(MemoryService.as(ada), Effect.provide(Memory)))
})
