import * as Reactivity from "@effect/experimental/Reactivity"
import * as PgClient from "@effect/sql-pg/PgClient"
import * as SqlClient from "@effect/sql/SqlClient"
import { assert, describe, it } from "@effect/vitest"
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import * as Redacted from "effect/Redacted"
import type { MemoryId } from "../../src/domain/MemoryId.ts"
import * as Viewer from "../../src/domain/Viewer.ts"
import { ada, bob, draft, found, id, listed, put } from "../../src/testing/Sample.ts"
import { times } from "../vault/Program.ts"
import { type Place, place, withSettings } from "./Server.ts"
import { eventually, holding, isReal, named, noSchema, opened, raw, someoneWaits, waiters } from "./World.ts"

const seeded = (seed: string) => Effect.withRandom(Random.make(seed))

/** Asserts that no connection has an open transaction. The place must come from `named`. */
const isAtRest = (at: Place) =>
  Effect.gen(function*() {
    const open = yield* raw(
      at,
      `SELECT state, query FROM pg_stat_activity
       WHERE application_name = '${at.schema}' AND pid <> pg_backend_pid() AND state <> 'idle'`
    )
    assert.deepStrictEqual(open, [])
  })

/** Returns the place with a `deadlock_timeout` of an hour, if the role may set it: a deadlock then fails the test. */
const withoutRescue = (at: Place) =>
  Effect.map(raw(at, "SELECT current_setting('is_superuser') = 'on'"), ([row]) => {
    const url = Redacted.value(at.url)
    return { ...at, url: Redacted.make(row?.[0] === true ? withSettings(url, "deadlock_timeout=1h") : url) }
  })
/** A statement timeout so long that none ends a statement of these tests. */
const options = { statementTimeout: "1 hour" } as const

if (isReal) {
  describe("interruption of a PostgreSQL store", () => {
    it.scopedLive("an interrupted batch is written completely or not at all, and its connection is released", () =>
      Effect.gen(function*() {
        const at = named(yield* place)
        const store = yield* opened(at, { maxConnections: 3 })
        const rounds = times(30, 2_000)
        let whole = 0
        for (let n = 0; n < rounds; n++) {
          const ids = [id(`${n}-a`), id(`${n}-b`), id(`${n}-c`)]
          const writing = yield* Effect.fork(store.put(ada, ids.map((id) => draft(`round ${n}`, { id }))))
          yield* Effect.sleep(yield* Random.nextIntBetween(0, 25))
          const exit = yield* Fiber.interrupt(writing)
          const there = (yield* store.get(ada, ids)).filter(Option.isSome).length
          assert.include([0, 3], there, `round ${n}`)
          if (Exit.isSuccess(exit)) assert.strictEqual(there, 3)
          if (there === 3) whole++
        }
        assert.lengthOf(yield* listed(store, ada, { limit: 1_000 }), Math.min(1_000, 3 * whole))
        yield* isAtRest(at)
      }).pipe(seeded("interruption")))

    it.scopedLive("a `put` that waits for a lock or a connection can be interrupted while the lock is still held, and writes nothing", () =>
      Effect.gen(function*() {
        const at = named(yield* place)
        const store = yield* opened(at, { maxConnections: 4, connectTimeout: "1 minute" })
        yield* put(store, draft("tea"))
        yield* Effect.scoped(Effect.gen(function*() {
          yield* holding(at, "LOCK TABLE memory_records")
          // more writers than connections, so that cancelling a statement would have to wait for a connection, too
          const waiting = yield* Effect.forEach(Arr.range(1, 12), (n) => Effect.fork(put(store, draft(`${n}`))))
          yield* someoneWaits(at)
          yield* Fiber.interruptAll(waiting)
        }))
        yield* Effect.forEach(Arr.range(1, 12), (n) => put(store, draft(`again ${n}`)), { concurrency: 12 })
        assert.lengthOf(yield* listed(store, ada), 13)
        yield* isAtRest(at)
      }))

    it.scopedLive("interrupting many fibers at the same time cancels no statement of another fiber", () =>
      Effect.gen(function*() {
        const at = named(yield* place)
        const store = yield* opened(at, { maxConnections: 4 })
        const { id } = yield* put(store, draft("green tea"))
        yield* Effect.forEach(Arr.range(1, times(15, 300)), () =>
          Effect.gen(function*() {
            const hasty = yield* Effect.forEach(
              Arr.range(1, 8),
              () => Effect.fork(Effect.forever(found(store, ada, { text: "tea" })))
            )
            yield* Effect.sleep(yield* Random.nextIntBetween(0, 10))
            const [, [other]] = yield* Effect.all([Fiber.interruptAll(hasty), store.get(ada, [id])], { concurrency: 2 })
            assert.isTrue(Option.isSome(other!))
          }))
        yield* isAtRest(at)
      }).pipe(seeded("all at once")))
  })

  describe("concurrent writers of a PostgreSQL store", () => {
    it.scopedLive("concurrent batches with the same ids in different orders are all applied, without a deadlock", () =>
      Effect.gen(function*() {
        const at = yield* withoutRescue(yield* place)
        const [here, there] = yield* Effect.all([opened(at, options), opened(at, options)])
        const ids = Arr.makeBy(20, (n) => id(`shared ${n}`))
        yield* here.put(ada, ids.map((id) => draft("first", { id })))
        const rounds = times(6, 60)
        const writer = (store: typeof here, name: string) =>
          Effect.forEach(Arr.range(1, rounds), (n) =>
            Effect.gen(function*() {
              const order = Array.from(yield* Random.shuffle(ids))
              yield* store.put(ada, order.map((id) => draft(`${name} ${n}`, { id })))
              yield* found(store, ada, { text: name })
            }))
        yield* Effect.all([writer(here, "a"), writer(there, "b"), writer(here, "c"), writer(there, "d")], {
          concurrency: 4
        })
        const bodies = new Set(yield* listed(here, ada))
        assert.lengthOf(Array.from(bodies), 1)
        const records = yield* here.get(ada, ids)
        for (const record of records) assert.strictEqual(Option.getOrThrow(record).revision, 1 + 4 * rounds)
        const [count] = yield* raw(at, "SELECT count(*) FROM memory_records")
        assert.deepStrictEqual(count, ["20"])
      }).pipe(seeded("orders")))

    it.scopedLive("concurrent calls of `touch` with the same ids in different orders count every use", () =>
      Effect.gen(function*() {
        const at = yield* withoutRescue(yield* place)
        const stores = yield* Effect.all([opened(at, options), opened(at, options)])
        const touches = times(40, 400)
        const ids: Array<MemoryId> = []
        for (const n of Arr.range(1, 40)) ids.push((yield* put(stores[0]!, draft(`tea ${n}`))).id)
        yield* Effect.forEach(
          Arr.range(1, times(40, 400)),
          (n) => Effect.flatMap(Random.shuffle(ids), (order) => stores[n % 2]!.touch(ada, Array.from(order))),
          { concurrency: 8 }
        )
        const counts = yield* stores[0]!.uses(ada, ids)
        assert.isTrue(counts.every(({ count }) => count === touches))
      }).pipe(seeded("uses")))

    it.scopedLive("eight concurrent batches of 500 records do not exhaust the lock table of the server", () =>
      Effect.gen(function*() {
        const at = yield* place
        const store = yield* opened(at)
        const batches = times(8, 40)
        yield* Effect.forEach(
          Arr.range(1, batches),
          (n) => store.put(ada, Arr.makeBy(500, (i) => ({ ...draft(`fact ${n} ${i}`), kind: "user" }))),
          { concurrency: 8 }
        )
        const [count] = yield* raw(at, "SELECT count(*) FROM memory_records")
        assert.deepStrictEqual(count, [String(500 * batches)])
      }))

    it.scopedLive("batches of different tenants do not block each other, nor do small puts of two users into their own scopes", () =>
      Effect.gen(function*() {
        const at = yield* place
        const store = yield* opened(at)
        const acme = Viewer.make({ tenant: "acme", userId: "ada" })
        yield* put(store, draft("first"), acme)
        yield* put(store, draft("first"))
        yield* put(store, draft("first", { scope: { userId: "bob" } }), bob)
        // takes locks that a large batch of the tenant acme, and a small batch of Ada in the default tenant, would take
        yield* holding(
          at,
          "SELECT pg_advisory_xact_lock(hashtextextended('acme', 0))",
          "SELECT pg_advisory_xact_lock_shared(hashtextextended('default', 0))",
          "UPDATE memory_partitions SET version = version + 1 WHERE tenant = 'default' AND partition LIKE '%ada%'",
          "UPDATE memory_scopes SET total = total WHERE tenant = 'default' AND user_id = 'ada'"
        )
        yield* put(store, draft("second", { scope: { userId: "bob" } }), bob)
        yield* put(store, draft("of globex"), Viewer.make({ tenant: "globex", userId: "ada" }))
        assert.deepStrictEqual((yield* listed(store, bob)).sort(), ["first", "second"])
        assert.deepStrictEqual(yield* listed(store, ada), ["first"])
        assert.deepStrictEqual(yield* found(store, acme, { text: "first" }), ["first"])
      }))
  })

  it.scopedLive("compaction leaves no vector of a purged text, even if attaching the vector begins before the purge commits", () =>
    Effect.gen(function*() {
      const at = named(yield* noSchema)
      const store = yield* opened(at)
      const vectors = Option.getOrThrow(store.vectors)
      const { id } = yield* put(store, draft("secret"))
      const [pending] = yield* vectors.pending("default", "m")
      const { hash } = pending!
      yield* raw(
        at,
        "CREATE FUNCTION late() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_advisory_xact_lock(4242); RETURN NULL; END'",
        `CREATE CONSTRAINT TRIGGER late AFTER DELETE ON memory_records DEFERRABLE INITIALLY DEFERRED
         FOR EACH ROW EXECUTE FUNCTION late()`
      )
      const run = yield* holding(at, "SELECT pg_advisory_xact_lock(4242)")
      const purging = yield* Effect.fork(store.forget(ada, [id], { purge: true }))
      yield* someoneWaits(at) // the purge has erased everything, and waits only to commit
      const attaching = yield* Effect.fork(vectors.attach("default", "m", [[hash, Float32Array.of(1, 0)]]))
      yield* eventually(
        Effect.zipWith(Fiber.poll(attaching), waiters(at), (exit, count) => Option.isSome(exit) || count > 1)
      )
      yield* run("ROLLBACK")
      yield* Effect.all([Fiber.join(purging), Fiber.join(attaching)])
      yield* store.compact
      assert.deepStrictEqual(yield* raw(at, "SELECT hash FROM memory_vectors"), [])
    }))

  it.scopedLive("the writes of a store remain if the caller's transaction is rolled back", () =>
    Effect.gen(function*() {
      const at = yield* place
      const store = yield* opened(at)
      const sql = yield* Effect.provide(PgClient.make({ url: at.url, maxConnections: 1 }), Reactivity.layer)
      const failed = yield* Effect.either(sql.withTransaction(
        Effect.gen(function*() {
          yield* sql.unsafe("CREATE TEMPORARY TABLE ours (n integer)")
          yield* put(store, draft("tea"))
          // the write is visible at once, within and outside of the caller's transaction
          assert.deepStrictEqual(yield* listed(store, ada), ["tea"])
          return yield* Effect.fail("rolled back" as const)
        }).pipe(Effect.provideService(SqlClient.SqlClient, sql))
      ))
      assert.deepInclude(failed, { _tag: "Left", left: "rolled back" })
      assert.deepStrictEqual(yield* listed(store, ada), ["tea"])
      const [row] = yield* sql.unsafe("SELECT to_regclass('ours')").values
      assert.deepStrictEqual(row, [null])
    }))
}

it.effect("concurrent updates of one record through one store are all applied", () =>
  Effect.scoped(Effect.gen(function*() {
    const store = yield* opened(yield* place)
    const { id } = yield* put(store, draft("0"))
    yield* Effect.forEach(Arr.range(1, 10), (n) => store.update(ada, id, { body: `${n}` }), { concurrency: 10 })
    const [record] = yield* store.get(ada, [id])
    assert.strictEqual(Option.getOrThrow(record!).revision, 11)
  })))
