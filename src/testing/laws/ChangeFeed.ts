/** Laws of `changes`: which changes each viewer receives. */
import { assert } from "@effect/vitest"
import * as Chunk from "effect/Chunk"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Queue from "effect/Queue"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/TestClock"
import type { MemoryId } from "../../domain/MemoryId.ts"
import type { StoreChange } from "../../domain/MemoryMutation.ts"
import type { MemoryRecord } from "../../domain/MemoryRecord.ts"
import * as Viewer from "../../domain/Viewer.ts"
import { ChangeFeedCapacity } from "../../storage/MemoryStore.ts"
import { type Law, law, refuses } from "../Law.ts"
import { listen } from "../Listener.ts"
import { ada, bob, draft, fact, id, put, system } from "../Sample.ts"

/** The laws of `changes`. */
export const laws: ReadonlyArray<Law> = [
  law(
    "a running `changes` stream emits every visible write of this store in order, with the written record or the id of the forgotten one",
    (store) =>
      Effect.gen(function*() {
        yield* put(store, draft("before anyone listened"))
        const received = yield* listen(store, ada)
        const a = yield* put(store, draft("a"))
        const b = yield* store.update(ada, a.id, { body: "b" })
        const batch = yield* store.put(ada, [draft("c"), draft("d")])
        yield* store.forget(ada, [a.id])
        const again = yield* put(store, draft("again", { id: a.id }))
        yield* store.forget(ada, [a.id], { purge: true })
        assert.deepEqual(yield* received, [
          written(a),
          written(b),
          ...batch.map(({ record }) => written(record)),
          forgotten(a.id),
          written(again),
          forgotten(a.id)
        ])
      })
  ),

  law(
    "the `changes` stream emits nothing for `touch`, `compact` and calls that write no record",
    (store) =>
      Effect.gen(function*() {
        const tea = yield* put(store, fact("Tea"))
        yield* put(store, draft("expiring", { expiresAt: 1_000 }))
        const received = yield* listen(store, ada)
        yield* put(store, fact("Tea"))
        yield* store.touch(ada, [tea.id])
        yield* store.forget(ada, [id("nobody")])
        yield* refuses(
          "not_found",
          store.apply(ada, [
            { _tag: "Put", draft: draft("refused") },
            { _tag: "Update", id: id("nobody"), patch: {} }
          ])
        )
        yield* TestClock.adjust("1 second")
        yield* store.compact
        assert.deepStrictEqual(yield* received, [])
      })
  ),

  law(
    "the `changes` stream of a viewer emits the writes of exactly those records that the viewer sees",
    (store) =>
      Effect.gen(function*() {
        const within = Viewer.make({ userId: "ada", reach: "within" })
        const elsewhere = Viewer.make({ userId: "ada", tenant: "elsewhere" })
        const [toAda, toBob, toWithin, toSystem] = [
          yield* listen(store, ada),
          yield* listen(store, bob),
          yield* listen(store, within, { userId: "ada" }),
          yield* listen(store, system)
        ]
        const toElsewhere = yield* listen(store, elsewhere)
        const global = yield* put(store, draft("global", { scope: "global" }))
        const hers = yield* put(store, draft("hers"))
        const session = yield* put(store, draft("session", { scope: { userId: "ada", sessionId: "s" } }), within)
        const there = yield* put(store, draft("there"), elsewhere)
        assert.deepEqual(yield* toAda, [written(global), written(hers)])
        assert.deepEqual(yield* toBob, [written(global)])
        assert.deepEqual(yield* toWithin, [written(hers), written(session)])
        assert.deepEqual(yield* toSystem, [written(global), written(hers), written(session)])
        assert.deepEqual(yield* toElsewhere, [written(there)])
      })
  ),

  law(
    "the `changes` stream emits the move of a record out of the viewer's sight as `Forgotten`",
    (store) =>
      Effect.gen(function*() {
        const toAda = yield* listen(store, ada)
        const toBob = yield* listen(store, bob)
        yield* put(store, draft("shared", { id: id("x"), scope: "global" }))
        const hers = yield* put(store, draft("hers", { id: id("x") }))
        const his = yield* put(store, draft("his", { id: id("x"), scope: { userId: "bob" } }), system)
        yield* store.forget(system, [id("x")])
        const afterFirst = (changes: ReadonlyArray<StoreChange>) => changes.slice(1) // both viewers receive the first change
        assert.deepEqual(afterFirst(yield* toAda), [written(hers), forgotten(id("x"))])
        assert.deepEqual(afterFirst(yield* toBob), [
          forgotten(id("x")),
          written(his),
          forgotten(id("x"))
        ])
      })
  ),

  law(
    "changes that a subscriber may not see take no space in the subscriber's buffer",
    (store) =>
      Effect.gen(function*() {
        const buffered = 1_024
        const received = yield* Queue.unbounded<StoreChange>()
        const reads = yield* Deferred.make<void>()
        const mark = id("mark")
        let marks = 0
        yield* store.changes(ada).pipe(
          Stream.filter((change) => change._tag !== "Written" || change.record.id !== mark || ++marks === 1),
          Stream.runForEach((change) => Effect.zipRight(Queue.offer(received, change), Deferred.await(reads))),
          Effect.provideService(ChangeFeedCapacity, buffered),
          Effect.ensuring(Queue.shutdown(received)), // the test stops waiting for changes if the subscription ends
          Effect.forkScoped
        )
        for (let tries = 0; (yield* Queue.size(received)) === 0; tries++) {
          assert.isBelow(tries, 10_000, "nothing was heard")
          yield* put(store, draft("listening?", { id: mark }))
          yield* Effect.yieldNow()
        }
        yield* Queue.takeAll(received)
        const tea = yield* put(store, draft("tea"))
        const bobs = draft("not ada's", { id: id("bob's"), scope: { userId: "bob" } })
        yield* store.apply(
          bob,
          Array.from({ length: buffered }, () => [
            { _tag: "Put", draft: bobs } as const,
            { _tag: "Forget", id: id("bob's"), purge: true } as const
          ]).flat()
        )
        const coffee = yield* store.update(ada, tea.id, { body: "coffee" })
        yield* store.forget(ada, [tea.id])
        yield* Deferred.succeed(reads, undefined)
        assert.deepEqual(
          Array.from(yield* Queue.takeN(received, 3)),
          [written(tea), written(coffee), forgotten(tea.id)]
        )
      })
  ),

  law(
    "writes still succeed after a subscriber of `changes` has unsubscribed",
    (store) =>
      Effect.gen(function*() {
        const firstTwo = yield* Effect.fork(Stream.runCollect(Stream.take(store.changes(ada), 2)))
        for (let n = 0; firstTwo.unsafePoll() === null; n++) {
          assert.isBelow(n, 10_000, "two changes were not heard")
          yield* put(store, draft(String(n), { id: id("x") }))
          yield* Effect.yieldNow()
        }
        assert.lengthOf(Chunk.toReadonlyArray(yield* firstTwo), 2)
        yield* put(store, draft("after"))
      })
  )
]

const written = (record: MemoryRecord): StoreChange => ({ _tag: "Written", record, by: "here" })
const forgotten = (id: MemoryId): StoreChange => ({ _tag: "Forgotten", id, by: "here" })
