import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import * as Redacted from "effect/Redacted"
import * as Stream from "effect/Stream"
import type { StoreChange } from "../../src/domain/MemoryMutation.ts"
import type { Service } from "../../src/storage/MemoryStore.ts"
import { refuses } from "../../src/testing/Law.ts"
import { ada, draft, found, get, listed, put, the } from "../../src/testing/Sample.ts"
import { times } from "../vault/Program.ts"
import { place } from "./Server.ts"
import { dropConnections, eventually, holding, isReal, named, noSchema, opened, raw } from "./World.ts"

const marker = "?"

/**
 * Subscribes to a store's changes, and returns the growing list of them, each as a text. First waits until a marker has arrived, which
 * shows that the stream is open.
 */
const listening = (store: Service) =>
  Effect.gen(function*() {
    const heard: Array<string> = []
    let isListening = false
    const told = (change: StoreChange) =>
      change._tag === "Written" ? change.record.body : change._tag === "Forgotten" ? `forgot ${change.id}` : change._tag
    yield* Effect.forkScoped(
      Stream.runForEach(store.changes(ada), (change) =>
        Effect.sync(() => {
          if (told(change) === marker) isListening = true
          else heard.push(told(change))
        }))
    )
    yield* eventually(Effect.zipRight(put(store, draft(marker)), Effect.sync(() => isListening)))
    return heard
  })

const poll = "50 millis"

if (isReal) {
  describe("two instances on one PostgreSQL database", () => {
    it.scopedLive("one instance's changes show at once in the other's `search`, and its new record also in the other's `get` and `list`", () =>
      Effect.gen(function*() {
        const at = yield* place
        const [here, there] = yield* Effect.all([opened(at), opened(at)])
        yield* found(there, ada, { text: "tea" }) // builds the index before the changes
        const { id } = yield* put(here, draft("green tea"))
        assert.strictEqual((yield* the(there, ada, id)).body, "green tea")
        assert.deepStrictEqual(yield* listed(there, ada), ["green tea"])
        assert.deepStrictEqual(yield* found(there, ada, { text: "tea" }), ["green tea"])
        yield* there.update(ada, id, { body: "black coffee" })
        assert.deepStrictEqual(yield* found(here, ada, { text: "tea" }), [])
        assert.deepStrictEqual(yield* found(here, ada, { text: "coffee" }), ["black coffee"])
        yield* here.forget(ada, [id])
        assert.isUndefined(yield* get(there, ada, id))
        assert.deepStrictEqual(yield* found(there, ada, { text: "coffee" }), [])
        yield* there.apply(ada, [{ _tag: "Restore", id, revision: 1 }])
        assert.deepStrictEqual(yield* found(here, ada, { text: "tea" }), ["green tea"])
        yield* here.forget(ada, [id], { purge: true })
        assert.deepStrictEqual(yield* found(there, ada, { text: "tea" }), [])
      }))

    it.scopedLive("an instance emits each change of the other instance once, even while an older transaction stays open", () =>
      Effect.gen(function*() {
        const at = yield* place
        const [here, there] = yield* Effect.all([opened(at, { poll }), opened(at, { poll })])
        const heard = yield* listening(there)
        const { id } = yield* put(here, draft("before"))
        yield* Effect.scoped(Effect.gen(function*() {
          // this transaction has an id and is the oldest open one
          yield* holding(at, "SELECT pg_current_xact_id()")
          yield* put(here, draft("meanwhile"))
          yield* here.forget(ada, [id])
          yield* eventually(Effect.sync(() => heard.length >= 3))
          yield* put(there, draft("own"))
        }))
        yield* put(here, draft("last"))
        yield* eventually(Effect.sync(() => heard.includes("last")))
        assert.deepStrictEqual(heard.filter((body) => body !== "own"), ["before", "meanwhile", `forgot ${id}`, "last"])
        assert.lengthOf(heard.filter((body) => body === "own"), 1)
      }))

    it.scopedLive("an instance emits each change once, even if a later transaction commits first", () =>
      Effect.gen(function*() {
        const at = yield* place
        const [here, there] = yield* Effect.all([opened(at, { poll }), opened(at, { poll })])
        const heard = yield* listening(there)
        const slow = yield* holding(
          at,
          `INSERT INTO memory_changes (tenant, position, n, writer, at, id, before, revision)
           VALUES ('default', CAST(CAST(pg_current_xact_id() AS text) AS double precision), 0, 'elsewhere', 0,
             '0000000000ZS9NP6G5MT9QH0QR', '{"scope":{"userId":"ada"}}', NULL)`
        )
        yield* put(here, draft("fast"))
        yield* eventually(Effect.sync(() => heard.includes("fast")))
        yield* slow("COMMIT")
        yield* put(here, draft("last"))
        yield* eventually(Effect.sync(() => heard.includes("last") && heard.length >= 3))
        assert.deepStrictEqual(heard, ["fast", "forgot 0000000000ZS9NP6G5MT9QH0QR", "last"])
      }))

    it.scopedLive("each instance emits every change once, even if its connections are dropped repeatedly", () =>
      Effect.gen(function*() {
        const at = named(yield* place)
        const [here, there] = yield* Effect.all([opened(at, { poll }), opened(at, { poll })])
        const lists = yield* Effect.all([listening(here), listening(there)])
        const writes = times(20, 400)
        const written: Array<string> = []
        const write = (store: Service, name: string) =>
          Effect.retry(
            Effect.tap(put(store, draft(name)), () => Effect.sync(() => written.push(name))),
            { while: ({ reason }) => reason === "unavailable" }
          )
        yield* Effect.forEach(
          [here, there],
          (store, n) =>
            Effect.forEach(Array.from({ length: writes }, (_, i) => i), (i) =>
              Effect.gen(function*() {
                yield* write(store, `${n}-${i}`)
                if (i % 10 === 0) yield* dropConnections(at)
              })),
          { concurrency: 2 }
        )
        for (const heard of lists) {
          yield* eventually(Effect.sync(() => written.every((name) => heard.includes(name))))
          // if the acknowledgement of a write was lost, the write was repeated under another id, which is another record and change
          const records = (yield* listed(here, ada, { limit: 1_000 })).filter((body) => body !== marker)
          assert.deepStrictEqual(heard.slice().sort(), records.slice().sort())
        }
      }))
  })

  describe("instances that open a PostgreSQL database", () => {
    it.scopedLive("ten instances can open one new schema at the same time, and all accept a cursor of the first instance", () =>
      Effect.gen(function*() {
        const at = yield* noSchema
        const stores = yield* Effect.all(Array.from({ length: 10 }, () => opened(at, { maxConnections: 2 })), {
          concurrency: "unbounded"
        })
        yield* Effect.forEach(stores, (store, n) => put(store, draft(`of ${n}`)), { concurrency: "unbounded" })
        const meta = yield* raw(at, "SELECT name, count(*) FROM memory_meta GROUP BY name ORDER BY name")
        assert.deepStrictEqual(meta, [["analyzer", "1"], ["secret", "1"], ["version", "1"]])
        // all instances share one secret, so a cursor of one is valid for every other
        const { next } = yield* stores[0]!.list(ada, { limit: 3 })
        for (const store of stores) assert.lengthOf((yield* store.list(ada, { limit: 3, after: next })).items, 3)
      }))

    it.scopedLive("opening fails with `unsupported` and changes nothing if a later release of the library created the tables", () =>
      Effect.gen(function*() {
        const at = yield* noSchema
        yield* Effect.scoped(Effect.flatMap(opened(at), (store) => put(store, draft("tea"))))
        yield* raw(at, "UPDATE memory_meta SET value = '99' WHERE name = 'version'")
        const state = raw(
          at,
          `SELECT (SELECT string_agg(relname || ':' || relkind::text, ',' ORDER BY relname) FROM pg_class
             WHERE relnamespace = '${at.schema}'::regnamespace),
           (SELECT string_agg(m::text, ',' ORDER BY name) FROM memory_meta AS m), (SELECT string_agg(r::text, ',') FROM memory_records AS r)`
        )
        const before = yield* state
        const error = yield* refuses("unsupported", Effect.scoped(opened(at)))
        assert.include(error.message, "version 99")
        assert.deepStrictEqual(yield* state, before)
      }))

    it.scopedLive("concurrent puts of a fact by three instances make one record, even with serializable isolation", () =>
      Effect.gen(function*() {
        const at = yield* place
        const url = new URL(Redacted.value(at.url))
        url.searchParams.set("options", "-c default_transaction_isolation=serializable -c bytea_output=escape")
        const strict = { ...at, url: Redacted.make(url.href) }
        const stores = yield* Effect.all([opened(strict), opened(strict), opened(at)])
        const fact = { ...draft("tea"), kind: "user" }
        const puts = yield* Effect.forEach(
          Array.from({ length: 24 }, (_, n) => stores[n % 3]!),
          (store) => store.put(ada, [fact]),
          { concurrency: "unbounded" }
        )
        assert.lengthOf(new Set(puts.map(([put]) => put?.record.id)), 1)
        assert.lengthOf(puts.filter(([put]) => put?.outcome === "created"), 1)
      }))
  })
}

it.effect("an instance emits the changes of its own writes in the order of the writes", () =>
  Effect.gen(function*() {
    const store = yield* opened(yield* place)
    const expected: Array<string> = []
    const heard: Array<string> = []
    yield* Effect.forkScoped(
      Stream.runForEach(store.changes(ada), (change) =>
        Effect.sync(() => {
          if (change._tag === "Written") heard.push(change.record.body)
        }))
    )
    yield* Effect.yieldNow()
    for (let n = 0; n < 10; n++) {
      const body = `${yield* Random.nextIntBetween(0, 1_000)} of ${n}`
      expected.push(body)
      yield* put(store, draft(body))
    }
    yield* eventually(Effect.sync(() => heard.length === expected.length))
    assert.deepStrictEqual(heard, expected)
  }).pipe(Effect.scoped))
