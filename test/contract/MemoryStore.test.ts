import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { layerInMemoryWith } from "../../src/storage/MemoryStore.ts"
import { Courses, Trash } from "../../src/testing/Law.ts"
import * as Trashing from "../../src/testing/laws/Trash.ts"
import * as MemoryStoreContract from "../../src/testing/MemoryStoreContract.ts"
import { coursesOf, coursesOfComposed, databases, others, overPast, stores } from "../stores.ts"

/** Declares the laws for the stores in memory. Two other test files, run in parallel, declare them for the vault and the databases. */
for (const [name, layer] of Object.entries({ ...stores, ...others })) {
  if (name !== "markdown" && !(name in databases)) MemoryStoreContract.suite(name, layer, { courses: coursesOf(name) })
}

describe("the laws of forgotten records hold for every trash duration", () => {
  for (const trash of [0, "1 day", Infinity] as const) {
    for (const law of Trashing.laws) {
      it.scoped(`a store with the trash duration ${trash}: ${law.title}`, () =>
        Effect.provideService(MemoryStoreContract.check(law, layerInMemoryWith({ trash })), Trash, trash))
    }
  }
})

/** Laws about erasure, which an Overlay breaks: it erases no rows or vectors of its base store before its commit. */
const erasing: ReadonlySet<string> = new Set([
  "`compact` erases all expired records, even forgotten ones, returns their number, and keeps records that are neither expired nor forgotten"
])

describe("the laws of MemoryStore, except one about erasure, hold for an Overlay over a store that already has records", () => {
  const laws = MemoryStoreContract.laws.filter(({ title }) => !erasing.has(title))
  assert.lengthOf(laws, MemoryStoreContract.laws.length - erasing.size)
  for (const writes of [1, 3]) {
    for (const law of laws) {
      it.scoped(`the law's first ${writes} batches go to the base store, all others to its Overlay: ${law.title}`, () =>
        MemoryStoreContract.check(law, overPast(writes)).pipe(
          Effect.provideService(Courses, coursesOfComposed),
          Effect.orDie
        ))
    }
  }
})
