import * as MemoryStoreContract from "../../src/testing/MemoryStoreContract.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
MemoryStoreContract.suite("memory", MemoryStore.layerInMemory)
