/** The laws of a store, of federations whose records lie in several. That of `stores.ts` is held to them with the others. */
import { describe, it } from "@effect/vitest"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import * as Federated from "../../src/storage/MemoryStore/Federated.ts"
import * as MemoryStoreContract from "../../src/testing/MemoryStoreContract.ts"
import { stores } from "../stores.ts"
import { times } from "../vault/Program.ts"

const memory = { layer: MemoryStore.layerInMemory, writable: true }

/** Records of one viewer in three stores. */
const spread = Federated.layer({ a: memory, b: memory, c: memory }, {
  route: ({ kind }) => kind === "user" ? "b" : kind === "reference" ? "c" : "a"
})

/**
 * Ids go up in each store by itself: of records that came to several within one millisecond, which of them is the first by
 * id is chance. The law asks two stores for the very same order.
 */
const byChance =
  "what a viewer does not see leaves no trace: all it is answered and told is that of a store that never held it"

describe("MemoryStore (spread by kind)", () => {
  for (const law of MemoryStoreContract.laws) {
    if (law.title !== byChance) it.scoped(law.title, () => MemoryStoreContract.check(law, spread))
  }
})

const mirrored = Federated.layer({
  copies: { layer: MemoryStore.layerInMemory, mirror: () => true },
  vault: { layer: stores.markdown, writable: true }
})

// in memory it is among `stores`; a vault takes its time
if (times(0, 1) > 0) MemoryStoreContract.suite("markdown, all of it mirrored in memory", mirrored)
