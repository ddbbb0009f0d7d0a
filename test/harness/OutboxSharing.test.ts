/** Plans (answers of the model, stored but not yet written) that wait in an outbox while the rules about shared scopes change. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as Viewer from "../../src/domain/Viewer.ts"
import type * as Outbox from "../../src/harness/Outbox.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import { databases, stores } from "../stores.ts"
import { down, model, never, opened, refusing, rows, users, writes } from "./Outboxes.ts"

const visitor = Viewer.make({ agentId: "support", sessionId: "s1" })
const alice = Viewer.make({ userId: "alice", agentId: "support" })
const everything = (store: MemoryStore.Service) =>
  Effect.map(
    Stream.runCollect(store.stream(Viewer.everyone(), {})),
    (all) => Array.from(all, ({ scope, source }) => ({ scope, trust: source.trust }))
  )

/** Leaves a plan in the outbox: the extraction was planned with these options, and writing its memories failed. */
const planned = (store: MemoryStore.Service, viewer: Viewer.Viewer, options: Outbox.Options) =>
  Effect.scoped(Effect.gen(function*() {
    const busy = refusing(store, (mutations) => writes(mutations) ? down : undefined)
    const outbox = yield* opened(busy, model(), { trigger: never, ...options })
    yield* outbox.append(viewer, "s", users("my card is 4111"))
    yield* Effect.flip(outbox.flush)
    assert.deepStrictEqual(yield* rows(store), ["messages", "plan"])
  }))

for (const [name, layer] of Object.entries({ memory: stores.memory, markdown: stores.markdown, ...databases })) {
  describe(`a stored answer of the model, not yet written as memories, in ${name}`, () => {
    const law = (title: string, check: Effect.Effect<void, unknown, MemoryStore.MemoryStore | Scope.Scope>) =>
      it.scoped(title, () => Effect.provide(Effect.scoped(check), layer))

    law(
      "a stored answer whose scope the viewer may no longer write is replaced by a new extraction",
      Effect.gen(function*() {
        const store = yield* MemoryStore.MemoryStore
        yield* planned(store, visitor, { about: "agent" })
        const outbox = yield* opened(store, model(), { trigger: never })
        yield* outbox.flush
        assert.deepStrictEqual(yield* everything(store), [{ scope: Viewer.scopeOf(visitor), trust: 1 }])
        assert.deepStrictEqual(yield* rows(store), [])
      })
    )

    law(
      "the messages of a stored answer become dead letters if the viewer may no longer write the configured scope",
      Effect.gen(function*() {
        const store = yield* MemoryStore.MemoryStore
        yield* planned(store, alice, { about: "agent", options: { sharedWrites: ["agent"] } })
        const outbox = yield* opened(store, model(), { trigger: never, about: "agent" })
        yield* outbox.flush
        assert.deepStrictEqual(yield* everything(store), [])
        assert.lengthOf(yield* outbox.deadLetters, 1)
      })
    )
  })
}
