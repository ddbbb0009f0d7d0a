/** The calls of a harness to MemoryManager, over every kind of store. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Message from "../../src/domain/Message.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import * as ExtractionTrigger from "../../src/harness/ExtractionTrigger.ts"
import * as MemoryService from "../../src/harness/MemoryService.ts"
import { ada, bob, bodies, draft, manager, service, world } from "../harness/Managed.ts"
import { stores } from "../stores.ts"
import { times } from "../vault/Program.ts"

const extraction = {
  notes: { trigger: ExtractionTrigger.idle("10 minutes") },
  scratch: { trigger: ExtractionTrigger.sessionEnd }
}

for (const [name, layer] of Object.entries(stores)) {
  const own = Layer.orDie(layer)
  const named = {
    notes: { layer: own, writable: true },
    scratch: { layer: own, writable: true, maxResults: 2 }
  }
  const within = Effect.provide(world({ stores: named, config: { extraction } }))

  describe(`MemoryManager over two stores (${name})`, () => {
    it.effect("`add` writes to the named stores, by default to all; `search` returns at most `maxResults` hits of each store", () =>
      Effect.gen(function*() {
        const { add, search } = yield* manager
        yield* add(ada, Array.from({ length: 5 }, (_, n) => draft(`tea ${"abcde"[n]} of a kind`)))
        yield* add(ada, [draft("black coffee")], { stores: ["scratch"] })
        const found = (store: string, text = "tea") => Effect.map(search(ada, text, { stores: [store] }), bodies)
        assert.lengthOf(yield* found("notes"), 3)
        assert.lengthOf(yield* found("scratch"), 2)
        assert.deepStrictEqual(yield* found("scratch", "coffee"), ["black coffee"])
        assert.deepStrictEqual(yield* found("notes", "coffee"), [])
        assert.deepStrictEqual(bodies(yield* search(bob, "tea coffee")), [])
      }).pipe(within))

    it.effect("a turn is extracted into both stores, appears in a later context, and is erased by `forgetAll` with `purge`", () =>
      Effect.gen(function*() {
        const { context, flush, forgetAll, turnEnd } = yield* service
        const { outboxes, stores } = yield* manager
        yield* turnEnd([Message.user("I drink green tea."), Message.assistant("Noted.")])
        yield* turnEnd([Message.user("My cat is Miou.")])
        yield* flush
        assert.include((yield* context([Message.user("What do I drink?")])).text, "I drink green tea.")
        for (const { store } of yield* stores) {
          const { items } = yield* store.list(ada, {})
          assert.deepStrictEqual(items.map(({ body }) => body).sort(), ["I drink green tea.", "My cat is Miou."])
        }
        for (const { status } of outboxes.values()) assert.strictEqual((yield* status).waiting, 0)
        yield* turnEnd([Message.user("My dog is Rex.")])
        yield* forgetAll({}, { purge: true })
        yield* flush
        for (const { store } of yield* stores) {
          const { items } = yield* store.list(Viewer.system(), {})
          assert.deepStrictEqual(items.filter(({ data }) => data["row"] !== "session"), [])
        }
      }).pipe(MemoryService.as(ada), within))

    it.effect("concurrent users see only their own memories", () =>
      Effect.gen(function*() {
        const { context, flush, turnEnd } = yield* service
        const users = Array.from(
          { length: times(12, 100) },
          (_, n) => Viewer.make({ userId: `user${n}`, sessionId: "same" })
        )
        const secret = (n: number) => `My secret word is w${n}x.`
        const each = <A, E, R>(use: (n: number) => Effect.Effect<A, E, R>) =>
          Effect.forEach(users, (viewer, n) => MemoryService.as(viewer)(use(n)), { concurrency: 8, discard: true })
        yield* each((n) => turnEnd([Message.user(secret(n))]))
        yield* flush
        yield* each((n) =>
          Effect.map(context([Message.user("What is my secret word?")]), ({ text }) => {
            const words = new Set(text.match(/w\d+x/g))
            assert.deepStrictEqual(Array.from(words), [`w${n}x`])
          })
        )
      }).pipe(within))
  })
}
