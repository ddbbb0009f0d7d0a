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
    "an agent gets the same answers and events with or without other viewers' records, except that the ids of those records are refused",
    () =>
      Effect.gen(function*() {
        const { compared } = yield* Attack.holds("agents", stores.memory, { ...sizes.agents, agents: true, seed })
        assert.isAtLeast(compared, sizes.agents.operations)
      }),
    patience
  )

  for (const [name, [store, size]] of Object.entries(attacked)) {
    it.effect(
      `${name}: a viewer gets the same answers and changes with or without other viewers' records, except that the ids of those records are refused`,
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
