/** Isolation of viewers where an agent meets it: in tools and in the memory index. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import * as MemoryTools from "../../src/agent/MemoryTools.ts"
import type { Draft } from "../../src/domain/MemoryRecord.ts"
import { Global, type MemoryScope } from "../../src/domain/MemoryScope.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as MemoryService from "../../src/harness/MemoryService.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"

const name = FastCheck.constantFrom("ada", "bob")
const ids = FastCheck.record({ userId: name, agentId: name, runId: name, sessionId: name }, { requiredKeys: [] })
const scope: FastCheck.Arbitrary<MemoryScope> = FastCheck.oneof(
  FastCheck.constant<MemoryScope>(Global),
  ids.filter((all) => Object.keys(all).length > 0).map((all): MemoryScope => all)
)
const tenant = FastCheck.constantFrom("default", "elsewhere")
const viewer = FastCheck.tuple(ids, tenant, FastCheck.constantFrom("exact" as const, "within" as const))
  .map(([all, tenant, reach]) =>
    Object.keys(all).length === 0 && reach === "within"
      ? Viewer.everyone(tenant)
      : Viewer.make({ ...all, tenant, reach })
  )
const world = FastCheck.record({
  records: FastCheck.array(FastCheck.tuple(tenant, scope), { minLength: 5, maxLength: 15 }),
  viewer
})

/** Makes a draft with the word in its summary, body, tags and metadata. */
const draft = (word: string, scope: MemoryScope): Draft => ({
  scope,
  kind: "reference",
  summary: `${word} summary`,
  body: `${word} body, and secret`,
  tags: [word],
  data: {},
  metadata: { word }
})

describe("isolation of viewers in tools and index", () => {
  for (const [n, { records, viewer }] of FastCheck.sample(world, { numRuns: 60, seed: 7 }).entries()) {
    it.effect(`invisible records are absent from tool answers and from the memory index of ${JSON.stringify(viewer)} (random records ${n})`, () =>
      Effect.gen(function*() {
        const memory = yield* MemoryService.MemoryService
        const store = yield* MemoryStore.MemoryStore
        const all = yield* Effect.forEach(
          records,
          ([tenant, scope], i) =>
            Effect.map(store.put(Viewer.system(tenant), [draft(`word${i}x`, scope)]), ([put]) => ({
              tenant,
              word: `word${i}x`,
              record: put!.record,
              isSeen: tenant === viewer.tenant && Viewer.sees(viewer, scope)
            }))
        )
        const foreign = all.filter(({ isSeen }) => !isSeen)
        const before = yield* Effect.forEach(
          foreign,
          ({ record, tenant }) => store.history(Viewer.system(tenant), record.id)
        )

        const tools = yield* MemoryTools.make(viewer)
        const call = (name: string, input: unknown) =>
          Effect.merge(Effect.map(tools.find((tool) => tool.name === name)!.call(input), ({ text }) => ({ text })))
        yield* MemoryService.as(viewer)(memory.turnStart)
        const index = yield* MemoryService.as(viewer)(memory.index)
        const texts = [
          index.text,
          ...(yield* Effect.forEach([
            {},
            { query: "secret" },
            { query: "summary body", limit: 50 },
            ...foreign.map(({ word }) => ({ query: word }))
          ], (input) => call("recall", input)).pipe(Effect.map((all) => all.map((answer) => JSON.stringify(answer)))))
        ]
        for (const { record, word } of foreign) {
          const absent = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
          const unsaid = (answer: unknown, of: string) => JSON.stringify(answer).replaceAll(of, "ID")
          for (
            const [tool, input] of [
              ["forget", (id: string) => ({ id })],
              ["remember", (id: string) => ({ id, scope: "global", kind: "reference", summary: "mine", body: "mine" })]
            ] as const
          ) {
            assert.strictEqual(
              unsaid(yield* call(tool, input(record.id)), record.id),
              unsaid(yield* call(tool, input(absent)), absent)
            )
          }
          assert.isFalse(texts.some((text) => text.includes(`${word} `) || text.includes(record.id)), word)
        }
        assert.deepStrictEqual(
          yield* Effect.forEach(foreign, ({ record, tenant }) => store.history(Viewer.system(tenant), record.id)),
          before
        )
      }).pipe(Effect.provide(MemoryService.layerTest({ seed: n, spec: { allowForget: true, writesPerTurn: 0 } }))))
  }
})
