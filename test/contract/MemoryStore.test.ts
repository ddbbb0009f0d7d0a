import * as MemoryStoreContract from "../../src/testing/MemoryStoreContract.ts"
import { stores } from "../stores.ts"

for (const [name, layer] of Object.entries(stores)) MemoryStoreContract.suite(name, layer)
