import { assert, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as TestClock from "effect/TestClock"
import * as MemoryMutation from "../../src/domain/MemoryMutation.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import { ada, draft, get, id } from "../../src/testing/Sample.ts"

it.effect("MemoryMutation.inverse returns mutations that undo a batch, and none for created records that have since expired", () =>
  Effect.gen(function*() {
    const store = yield* MemoryStore.MemoryStore
    yield* store.put(ada, [draft("tea", { id: id("tea") })])
    const applied = yield* store.apply(ada, [
      { _tag: "Put", draft: draft("offer", { id: id("offer"), expiresAt: 1_000 }) },
      { _tag: "Update", id: id("offer"), patch: { body: "better offer" } },
      { _tag: "Update", id: id("tea"), patch: { body: "green tea" } }
    ])
    assert.lengthOf(MemoryMutation.inverse(applied, 999), 2)
    yield* TestClock.adjust(1_000)
    const inverse = MemoryMutation.inverse(applied, 1_000)
    assert.deepStrictEqual(inverse.map((mutation) => mutation._tag === "Put" ? mutation.draft.id : mutation.id), [
      id("tea")
    ])
    yield* store.apply(ada, inverse)
    assert.strictEqual((yield* get(store, ada, id("tea")))?.body, "tea")
  }).pipe(Effect.provide(MemoryStore.layerInMemory)))
