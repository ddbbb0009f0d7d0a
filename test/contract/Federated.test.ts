/** The laws of the contract, checked on federations that spread or mirror records over several stores. */
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import * as Federated from "../../src/storage/MemoryStore/Federated.ts"
import * as MemoryStoreContract from "../../src/testing/MemoryStoreContract.ts"
import { coursesOfComposed, stores } from "../stores.ts"
import { times } from "../vault/Program.ts"

const memory = { layer: MemoryStore.layerInMemory, writable: true }

/** A federation that distributes records over three stores by kind. */
const spread = Federated.layer({ a: memory, b: memory, c: memory }, {
  route: ({ kind }) => kind === "user" ? "b" : kind === "reference" ? "c" : "a"
})

MemoryStoreContract.suite("spread by kind", spread, { courses: coursesOfComposed })

const mirrored = Federated.layer({
  copies: { layer: MemoryStore.layerInMemory, state: () => true },
  vault: { layer: stores.markdown, writable: true }
})

// `stores` contains a mirrored in-memory store; a mirrored vault is slower, so only the soak (a long run of all tests) checks it
if (times(0, 1) > 0) MemoryStoreContract.suite("markdown, all of it mirrored in memory", mirrored)
