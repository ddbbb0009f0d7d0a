import * as MemoryStoreContract from "../../src/testing/MemoryStoreContract.ts"
import { coursesOf, databases } from "../stores.ts"

for (const [name, layer] of Object.entries(databases)) {
  MemoryStoreContract.suite(name, layer, { courses: coursesOf(name) })
}
