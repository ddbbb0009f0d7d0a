import * as MemoryStoreContract from "../../src/testing/MemoryStoreContract.ts"
import { composed, coursesOfComposed, others, stores } from "../stores.ts"

/** The vault's has a file of its own: real files take their time, and a second core. */
for (const [name, layer] of Object.entries({ ...stores, ...others })) {
  const options = composed.has(name) ? { courses: coursesOfComposed } : {}
  if (name !== "markdown") MemoryStoreContract.suite(name, layer, options)
}
