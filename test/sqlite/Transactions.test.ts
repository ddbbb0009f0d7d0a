import * as Reactivity from "@effect/experimental/Reactivity"
import * as SqliteClient from "@effect/sql-sqlite-node/SqliteClient"
import * as SqlClient from "@effect/sql/SqlClient"
import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/TestClock"
import * as MemoryError from "../../src/domain/MemoryError.ts"
import { Sqlite } from "../../src/sqlite.ts"
import * as MemoryStore from "../../src/storage/MemoryStore.ts"
import { fromDriver } from "../../src/storage/MemoryStore/Sql/Database.ts"
import { dialect } from "../../src/storage/MemoryStore/Sqlite.ts"
import { times } from "../vault/Program.ts"
import { all, bob, bodies, draft, file, opened, raw, sound } from "./File.ts"

const failure = MemoryError.make("io", { op: "test", message: "no" })

describe("a SQL transaction of the caller", () => {
  it.scoped("the store's writes remain even if the caller's transaction on another SQLite file is rolled back", () =>
    Effect.gen(function*() {
      const theirs = yield* file
      const ours = yield* file
      const sql = yield* SqliteClient.make({ filename: theirs })
      yield* sql`CREATE TABLE notes (text TEXT)`
      const before = yield* opened(ours)
      const exit = yield* sql.withTransaction(Effect.gen(function*() {
        yield* before.put(bob, [draft("before")])
        yield* sql`INSERT INTO notes VALUES ('theirs')`
        // a store that is opened within the caller's transaction does not write in it either
        const store = yield* opened(ours)
        yield* store.put(bob, [draft("in it")])
        assert.deepStrictEqual(bodies(yield* all(store)), ["before", "in it"])
        return yield* Effect.fail("undo")
      })).pipe(Effect.exit)
      assert.deepStrictEqual(exit, Exit.fail("undo"))
      assert.deepStrictEqual(bodies(yield* all(before)), ["before", "in it"])
      assert.deepStrictEqual(yield* sql`SELECT * FROM notes`, [])
      assert.deepStrictEqual(yield* sql`SELECT name FROM sqlite_master WHERE type = 'table'`, [{ name: "notes" }])
      yield* sound(ours)
    }).pipe(Effect.provide(Reactivity.layer)))

  it.scoped("the caller's setting of SqlClient.SafeIntegers does not affect the store's statements", () =>
    Effect.gen(function*() {
      const store = yield* opened(yield* file)
      yield* store.put(bob, [draft("tea")])
      assert.deepStrictEqual((yield* all(store)).map(({ revision }) => revision), [1])
    }).pipe(Effect.provideService(SqlClient.SafeIntegers, true)))
})

describe("an interrupted call of a SQLite store", () => {
  it.scoped("an interrupted `put` writes its whole batch or nothing, and emits exactly the written changes", () =>
    Effect.gen(function*() {
      const filename = yield* file
      const store = yield* opened(filename)
      const told: Array<string> = []
      yield* Effect.forkScoped(
        Stream.runForEach(
          store.changes(bob),
          (change) => Effect.sync(() => change._tag === "Written" && told.push(change.record.body))
        )
      )
      yield* TestClock.adjust(0) // waits until the subscription has started
      const expected: Array<string> = []
      const outcomes = { whole: 0, nothing: 0 }
      for (let steps = 0;; steps++) {
        const batch = [`${steps} left`, `${steps} right`]
        // yields after every few operations of the fiber, so that the call can be interrupted there
        const fiber = yield* Effect.fork(
          Effect.withMaxOpsBeforeYield(store.put(bob, batch.map(draft)), 16 + steps % 7)
        )
        for (let n = 0; n < steps; n++) yield* Effect.yieldNow()
        const isOver = (yield* fiber.poll)._tag === "Some"
        yield* Fiber.interrupt(fiber)
        const there = (yield* all(store)).map(({ body }) => body).filter((body) => batch.includes(body))
        assert.include([0, 2], there.length, `${steps} steps`)
        if (there.length > 0) expected.push(...batch)
        outcomes[there.length > 0 ? "whole" : "nothing"]++
        // no transaction is left open, so another connection may write
        yield* raw(filename, "BEGIN IMMEDIATE", "COMMIT")
        yield* store.put(bob, [draft(`${steps} after`)])
        expected.push(`${steps} after`)
        if (isOver) break
      }
      assert.deepStrictEqual(bodies(yield* all(store)), [...expected].sort())
      yield* TestClock.adjust(0)
      assert.deepStrictEqual(told, expected)
      assert.isAbove(outcomes.whole, 0)
      assert.isAbove(outcomes.nothing, 1)
      yield* sound(filename)
    }))

  it.scoped("an interrupted build of the layer leaves a file that the next build opens", () =>
    Effect.gen(function*() {
      for (let steps = 0;; steps += times(151, 7)) {
        const filename = yield* file
        const fiber = yield* Effect.fork(Effect.withMaxOpsBeforeYield(Effect.scoped(opened(filename)), 16))
        for (let n = 0; n < steps; n++) yield* Effect.yieldNow()
        const isOver = (yield* fiber.poll)._tag === "Some"
        yield* Fiber.interrupt(fiber)
        yield* Effect.scoped(Effect.flatMap(opened(filename), (store) => store.put(bob, [draft("tea")])))
        yield* sound(filename)
        if (isOver) break
      }
    }))

  it.scopedLive("a call that waits for the lock of another connection can be interrupted, and then writes nothing", () =>
    Effect.gen(function*() {
      const filename = yield* file
      const store = yield* opened(filename)
      const sql = yield* SqliteClient.make({ filename, disableWAL: true })
      yield* Effect.scoped(Effect.gen(function*() {
        const connection = yield* sql.reserve
        yield* connection.executeUnprepared("BEGIN IMMEDIATE", [], undefined)
        const fiber = yield* Effect.fork(store.put(bob, [draft("waits")]))
        yield* Effect.yieldNow()
        assert.deepStrictEqual(bodies(yield* all(store)), []) // reads do not wait for the lock
        yield* Fiber.interrupt(fiber)
        // opening with little patience fails
        const hasty = yield* Effect.flip(Effect.scoped(opened(filename, { patience: 10 })))
        assert.deepStrictEqual([hasty.reason, hasty.isRetryable], ["unavailable", true])
        yield* connection.executeUnprepared("ROLLBACK", [], undefined)
      }))
      yield* store.put(bob, [draft("after")])
      assert.deepStrictEqual(bodies(yield* all(store)), ["after"])
    }).pipe(Effect.provide(Reactivity.layer)))
})

describe("opening a SQLite file that another connection has locked", () => {
  it.scopedLive("opening a locked file waits for the lock, at most as long as the option `patience` allows", () =>
    Effect.gen(function*() {
      const filename = yield* file
      const sql = yield* SqliteClient.make({ filename, disableWAL: true })
      const scope = yield* Effect.scope
      const fiber = yield* Effect.scoped(Effect.gen(function*() {
        const connection = yield* sql.reserve
        yield* connection.executeUnprepared("BEGIN EXCLUSIVE", [], undefined)
        const hasty = yield* Effect.flip(Effect.scoped(opened(filename, { patience: 4 })))
        assert.strictEqual(hasty.reason, "unavailable")
        const fiber = yield* Effect.fork(Scope.extend(opened(filename), scope))
        // while this call waits for 40 ms and fails, the forked call retries at least once
        yield* Effect.flip(Effect.scoped(opened(filename, { patience: 40 })))
        yield* connection.executeUnprepared("COMMIT", [], undefined)
        return fiber
      }))
      const store = yield* Fiber.join(fiber)
      yield* store.put(bob, [draft("tea")])
      assert.deepStrictEqual(bodies(yield* all(store)), ["tea"])
      yield* sound(filename)
    }).pipe(Effect.provide(Reactivity.layer)))
})

describe("a transaction of a SQLite store", () => {
  it.scoped("a transaction is rolled back after a failure, a defect or an interruption, and no transaction stays open", () =>
    Effect.gen(function*() {
      const sql = yield* SqliteClient.make({ filename: yield* file })
      const { query, transaction } = fromDriver({
        dialect,
        reserve: sql.reserve,
        begin: "BEGIN IMMEDIATE",
        written: (sql) => sql,
        failureOf: () => failure,
        isConflict: () => false,
        pause: 0,
        attempts: 0,
        lock: () => Effect.void
      })
      yield* query("CREATE TABLE t (a)")
      const ends = {
        failure: Effect.fail(failure),
        defect: Effect.die("a bug"),
        interruption: Effect.interrupt,
        nothing: Effect.void
      }
      for (const [name, end] of Object.entries(ends)) {
        let committed = 0
        yield* Effect.exit(
          transaction(
            (query) => Effect.zipRight(query("INSERT INTO t VALUES (1)"), end),
            () => Effect.sync(() => void committed++)
          )
        )
        const expected = name === "nothing" ? 1 : 0
        assert.deepStrictEqual(yield* query("SELECT count(*) FROM t"), [[expected]], name)
        assert.strictEqual(committed, expected, name)
        yield* transaction((query) => query("DELETE FROM t"))
      }
    }).pipe(Effect.provide(Reactivity.layer)))

  it.scoped("the changes of concurrent transactions are emitted in the order of their writes", () =>
    Effect.gen(function*() {
      const store = yield* opened(yield* file)
      const told: Array<number> = []
      yield* Effect.forkScoped(
        Stream.runForEach(
          store.changes(bob),
          (change) => Effect.sync(() => change._tag === "Written" && told.push(change.record.revision))
        )
      )
      yield* TestClock.adjust(0) // waits until the subscription has started
      const [put] = yield* store.put(bob, [draft("0")])
      const writes = times(20, 200)
      yield* Effect.forEach(
        Array.from({ length: writes }, (_, n) => 64 + n % 7),
        (ops) => Effect.withMaxOpsBeforeYield(store.update(bob, put!.record.id, { body: `${ops}` }), ops),
        { concurrency: 8 }
      )
      yield* TestClock.adjust(0)
      assert.deepStrictEqual(told, Array.from({ length: writes + 1 }, (_, n) => n + 1))
    }))
})

describe("a SQLite store whose layer is closed", () => {
  it.scoped("closing the layer closes the file, and later calls of the store fail with `unavailable`", () =>
    Effect.gen(function*() {
      const filename = yield* file
      const scope = yield* Scope.make()
      const store = Context.get(
        yield* Layer.buildWithScope(Sqlite.layer({ filename }), scope),
        MemoryStore.MemoryStore
      )
      yield* store.put(bob, [draft("tea")])
      yield* Scope.close(scope, Exit.void)
      const failures = yield* Effect.forEach(
        [store.put(bob, [draft("late")]), all(store), store.search(bob, { text: "tea" }), store.compact],
        (call: Effect.Effect<unknown, { readonly reason: string }>) =>
          Effect.map(Effect.flip(call), ({ reason }) => reason)
      )
      assert.deepStrictEqual(failures, ["unavailable", "unavailable", "unavailable", "unavailable"])
      assert.deepStrictEqual(yield* raw(filename, "PRAGMA journal_mode = DELETE"), [{ journal_mode: "delete" }])
    }))
})
