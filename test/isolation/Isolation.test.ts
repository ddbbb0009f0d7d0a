import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import * as Federated from "../../src/storage/MemoryStore/Federated.ts"
import { stores } from "../stores.ts"
import * as Attack from "./Attack.ts"
import { patience, seed, sizes } from "./Sizes.ts"

const mirrored = Federated.layer({
  copies: { layer: MemoryStore.layerInMemory, mirror: () => true },
  vault: { layer: stores.markdown, writable: true }
})
const spread = Federated.layer({
  a: { layer: MemoryStore.layerInMemory, writable: true },
  b: { layer: MemoryStore.layerInMemory, writable: true }
}, { route: ({ kind }) => kind === "user" ? "b" : "a" })

const attacked = {
  memory: [stores.memory, sizes.memory],
  markdown: [stores.markdown, sizes.durable],
  "markdown, mirrored in memory": [mirrored, sizes.durable],
  sqlite: [stores.sqlite, sizes.durable],
  postgres: [stores.postgres, sizes.durable],
  shelf: [stores.shelf, sizes.others],
  "overlay on memory": [stores["overlay on memory"], sizes.others],
  federated: [stores.federated, sizes.others],
  "federated, spread by kind": [spread, { ...sizes.others, ordersChanges: false }]
} as const

describe("isolation of viewers, tested by comparing a store with one that lacks the other viewers' records", () => {
  it.effect(
    "other viewers' records affect no answer or event that an agent gets, unless a write uses such a record's id",
    () =>
      Effect.gen(function*() {
        const { compared } = yield* Attack.holds("agents", stores.memory, { ...sizes.agents, agents: true, seed })
        assert.isAtLeast(compared, sizes.agents.operations)
      }),
    patience
  )

  for (const [name, [store, size]] of Object.entries(attacked)) {
    it.effect(
      `${name}: other viewers' records affect no answer or change that a viewer gets, unless a write uses such a record's id`,
      () =>
        Effect.gen(function*() {
          const { compared, foreign } = yield* Attack.holds(name, store, { ...size, seed })
          assert.isAtLeast(compared, size.operations)
          assert.isAbove(foreign, compared / 5)
        }),
      patience
    )
  }
})
